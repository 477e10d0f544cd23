// A run as frames for playback and plots: poses, gaps, energy and forces at so many frames a second, as the columns of
// the JSON that a report holds and `--record` writes. Made by whoever steps: a worker, or the bare host.
#pragma once

#include <linchpin/report.h>
#include <linchpin/scene.h>

#include <nlohmann/json.hpp>

#include <limits>
#include <span>
#include <string>
#include <vector>

namespace linchpin::cli {

/// What becomes of the run's size: frames a second, fewer where the whole would become larger than that.
struct RecordingOptions {
  double frames_per_second = 60;
  double most_bytes = 8e6;  ///< of columns, before they become text
  bool full = false;        ///< also `full`: the columns in double precision, for files that others read (motion.h)
};

class Recording {
 public:
  struct Body {
    std::string name;
    BodyKind kind = BodyKind::rigid;
    Shape shape;
    std::string unit;  ///< of a coordinate
  };
  struct Link {
    std::string name;
    std::string unit;         ///< of its gap: "m", "rad" or empty
    std::vector<int> bodies;  ///< into the bodies; -1 is the world
    /// Of those, the one that forces are shown on: the first that moves.
    std::size_t on = 0;
  };
  struct Signal {
    std::string name, unit;
  };

  /// @param steps  that the run shall have, of dt [s]
  Recording(const RecordingOptions& options, double dt, long steps, std::vector<Body> bodies, std::vector<Link> links,
            std::vector<Signal> signals);

  const std::vector<Link>& links() const { return links_; }

  /// Every state of the run, from the first to the last, in order. A frame's gaps and energy are the worst of the
  /// states since the frame before.
  /// @param states  of the bodies; a coordinate has its value in p.x and its rate in v.x
  /// @param gaps    of the links, in their units; NaN where there is none
  /// @param energy  [J], or NaN where it means nothing
  void state(double t, std::span<const BodyState> states, std::span<const double> gaps, double energy);
  /// Whether the last state is a frame, which wants forces and signals before the next.
  bool is_frame() const { return is_frame_; }

  struct Force {
    static constexpr double nan = std::numeric_limits<double>::quiet_NaN();
    Wrench on;                                                ///< the whole, on the link's body `on`
    double ideal = nan, nonideal = nan, stabilisation = nan;  ///< sizes of its parts there [N]
    /// Those of a reaction on one of its bodies.
    static Force of(const Reaction& r, std::size_t body) {
      const int k = static_cast<int>(body);
      return {r.on(k), (r.ideal.on(k).force + r.induced.on(k).force).norm(), r.prescribed.on(k).force.norm(),
              r.stabilisation.on(k).force.norm()};
    }
  };
  /// At the last state. @param forces  of the links; fewer where those at the end are not known
  void forces(std::span<const Force> forces, std::span<const double> signals);

  /// The columns, little-endian in base64; the format is docs/report.md.
  nlohmann::ordered_json json() const;

 private:
  void pad();
  bool stays(std::size_t link, nlohmann::ordered_json& at) const;
  std::vector<Body> bodies_;
  std::vector<Link> links_;
  std::vector<Signal> signals_;
  double dt_;
  long stride_ = 1, count_ = 0, frames_ = 0;
  bool is_frame_ = false, any_energy_ = false;
  double start_energy_ = 0, worst_energy_ = 0;
  std::vector<double> worst_gap_;
  std::vector<BodyState> now_;
  bool full_ = false;
  // Columns, frame by frame: three numbers of a position, a force, a moment and a point, four of a turn (x, y, z, w).
  std::vector<double> t_, position_, turn_, energy_, coordinates_, gap_, force_, moment_, ideal_, nonideal_,
      stabilisation_, signal_;
  std::vector<double> point_, place_;  // where forces act: on the link's body `on` in its axes; in the world
};

}  // namespace linchpin::cli
