// A motion of a recording (docs/how-to/reports.md) as numbers again, for what is written for the viewers of others.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace linchpin::recording {

struct Motion {
  struct Shape {
    std::string shape;            ///< as the recording has it: "box" …
    std::vector<double> size;     ///< [m]
    std::vector<float> vertices;  ///< of a hull: three for each [m]
    std::vector<int> triangles;   ///< of a hull: three for each, indices of vertices
    std::vector<double> position = {0, 0, 0}, rotation = {0, 0, 0, 1};  ///< in the body; x, y, z, w
  };
  struct Body {
    std::string name, kind;     ///< as the recording has them: "rigid" …
    std::vector<Shape> shapes;  ///< of which the first is the one of the body itself, and may be "none"
    std::string unit;           ///< of a coordinate
    /// Returns whether a viewer draws it.
    bool drawn() const {
      return shapes.size() > 1 || shapes[0].shape != "none" || kind == "particle" || kind == "rigid";
    }
  };
  struct Link {
    std::string name, unit;
    std::string on;          ///< the body that forces act on; empty: the world
    std::string force_unit;  ///< of force, moment and place; on a coordinate that of the generalized force
  };
  struct Signal {
    std::string name, unit;
  };

  std::size_t frames = 0;
  std::vector<Body> bodies;       ///< that have a place in space
  std::vector<Body> coordinates;  ///< that do not
  std::vector<Link> links;
  std::vector<Signal> signals;

  // Columns, frame by frame, of each of the above: times [s]; positions [m], 3 each; turns, quaternions x, y, z, w of
  // length 1; values and rates of coordinates; forces, moments and places, 3 each, in world axes. In double precision
  // where the recording was made for that (`full`), else in its own, which has no moments: they are NaN.
  std::vector<double> t, position, turn, coordinate;
  bool full = false;
  std::vector<double> gap, energy, force, moment, place, ideal, nonideal, stabilisation, signal;

  /// @throws std::runtime_error when columns do not have the length that the rest says.
  /// @throws nlohmann::json::exception when something is missing or of the wrong type.
  explicit Motion(const nlohmann::ordered_json& json);

 private:
  void read_places(const nlohmann::ordered_json& json);
};

/// "exact", or "exact, double" where another of a comparison's solvers has the name too.
std::string run_name(const nlohmann::ordered_json& solvers, std::size_t which);

}  // namespace linchpin::recording
