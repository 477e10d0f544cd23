#include "motion.h"

#include "base64.h"
#include "compare_text.h"

#include <Eigen/Geometry>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace linchpin::recording {

namespace {

using Json = nlohmann::ordered_json;

template <class T>
std::vector<double> column(const Json& columns, const char* name, std::size_t size, double scale = 1) {
  std::string bytes;
  if (!from_base64(columns.at(name).get_ref<const std::string&>(), bytes))
    throw std::runtime_error(std::string("column ") + name + " is damaged");
  if (bytes.size() != size * sizeof(T))
    throw std::runtime_error(std::string("column ") + name + " has " + std::to_string(bytes.size()) +
                             " bytes, expected " + std::to_string(size * sizeof(T)));
  std::vector<T> raw(size);
  if (size > 0) std::memcpy(raw.data(), bytes.data(), bytes.size());
  std::vector<double> out(size);
  std::transform(raw.begin(), raw.end(), out.begin(), [scale](T x) { return static_cast<double>(x) * scale; });
  return out;
}

Motion::Shape read_shape(const Json& json) {
  Motion::Shape out;
  out.shape = json.at("shape");
  out.size = json.at("size").get<std::vector<double>>();
  if (out.size.size() != 3) throw std::runtime_error("the size of a shape is " + json.at("size").dump());
  if (json.contains("position")) {
    out.position = json.at("position").get<std::vector<double>>();
    out.rotation = json.at("rotation").get<std::vector<double>>();
    if (out.position.size() != 3 || out.rotation.size() != 4)
      throw std::runtime_error("the pose of a shape has not seven numbers");
  }
  if (out.shape != "hull") return out;
  std::string bytes;
  if (!from_base64(json.at("vertices").get_ref<const std::string&>(), bytes) || bytes.size() % 12 != 0)
    throw std::runtime_error("the vertices of a hull are damaged");
  out.vertices.resize(bytes.size() / 4);
  if (!bytes.empty()) std::memcpy(out.vertices.data(), bytes.data(), bytes.size());
  out.triangles = json.at("triangles").get<std::vector<int>>();
  const int count = static_cast<int>(out.vertices.size() / 3);
  if (out.triangles.size() % 3 != 0 ||
      std::any_of(out.triangles.begin(), out.triangles.end(), [&](int i) { return i < 0 || i >= count; }))
    throw std::runtime_error("the triangles of a hull are damaged");
  return out;
}

}  // namespace

Motion::Motion(const Json& json) : frames(json.at("frames").get<std::size_t>()), full(json.contains("full")) {
  const Json& all = json.at("bodies");
  for (const Json& each : all) {
    Body body{each.at("name"), each.at("kind"), {}, {}};
    if (body.kind == "coordinate") {
      body.unit = each.at("unit");
      coordinates.push_back(std::move(body));
      continue;
    }
    body.shapes.push_back(read_shape(each));
    if (each.contains("parts"))
      for (const Json& part : each.at("parts")) body.shapes.push_back(read_shape(part));
    bodies.push_back(std::move(body));
  }
  for (const Json& each : json.at("constraints")) {
    Link link{each.at("name"), each.at("unit"), {}, "N, N m, m"};
    const auto of = each.at("bodies").get<std::vector<long>>();
    const auto on = each.at("on").get<std::size_t>();
    if (on < of.size() && of[on] >= 0 && static_cast<std::size_t>(of[on]) < all.size()) {
      const Json& body = all[static_cast<std::size_t>(of[on])];
      link.on = body.at("name");
      // A generalized force is the first component of what is recorded.
      if (body.at("kind") == "coordinate") link.force_unit = body.value("force_unit", std::string());
    }
    links.push_back(std::move(link));
  }
  for (const Json& each : json.at("signals")) signals.push_back({each.at("name"), each.at("unit")});

  // A frame costs at least its time, so that a number of frames that was made up is found before room is asked for.
  const Json& columns = json.at(full ? "full" : "columns");
  if (columns.at("t").get_ref<const std::string&>().size() / 4 < frames)
    throw std::runtime_error("column t is shorter than " + std::to_string(frames) + " frames");
  if (!full) {
    t = column<float>(columns, "t", frames);
    position = column<float>(columns, "position", 3 * frames * bodies.size());
    turn = column<std::int16_t>(columns, "rotation", 4 * frames * bodies.size(), 1 / 32767.0);
    coordinate = column<float>(columns, "coordinate", 2 * frames * coordinates.size());
    gap = column<float>(columns, "gap", frames * links.size());
    if (columns.contains("energy")) energy = column<float>(columns, "energy", frames);
    force = column<float>(columns, "force", 3 * frames * links.size());
    signal = column<float>(columns, "signal", frames * signals.size());
    const double none = std::nan("");
    moment.assign(3 * frames * links.size(), none);  // of which such a recording has the size alone
    for (const auto& [name, part] :
         {std::pair("ideal", &ideal), std::pair("nonideal", &nonideal), std::pair("stabilisation", &stabilisation)})
      *part = columns.contains(name) ? column<float>(columns, name, frames * links.size())
                                     : std::vector<double>(frames * links.size(), none);
    read_places(json);
  } else {
    const auto doubles = [&](const char* name, std::size_t width) {
      return column<double>(columns, name, width * frames);
    };
    t = doubles("t", 1);
    position = doubles("position", 3 * bodies.size());
    turn = doubles("rotation", 4 * bodies.size());
    coordinate = doubles("coordinate", 2 * coordinates.size());
    gap = doubles("gap", links.size());
    if (columns.contains("energy")) energy = doubles("energy", 1);
    for (const auto& [name, wide] :
         {std::pair("force", &force), std::pair("moment", &moment), std::pair("place", &place)})
      *wide = doubles(name, 3 * links.size());
    for (const auto& [name, narrow] :
         {std::pair("ideal", &ideal), std::pair("nonideal", &nonideal), std::pair("stabilisation", &stabilisation)})
      *narrow = doubles(name, links.size());
    signal = doubles("signal", signals.size());
  }
}

// Where forces act in the world: what is at rest on a body goes with its pose.
void Motion::read_places(const Json& json) {
  const double none = std::nan("");
  std::vector<int> placed;  // by the number of a body in the file, which counts coordinates too
  int n = 0;
  for (const Json& body : json.at("bodies")) placed.push_back(body.at("kind") == "coordinate" ? -1 : n++);
  const Json &constraints = json.at("constraints"), &columns = json.at("columns");
  std::vector<std::size_t> moving;
  for (std::size_t i = 0; i < constraints.size(); ++i)
    if (constraints[i].at("at").is_null()) moving.push_back(i);
  const std::vector<double> points = columns.contains("point")
                                         ? column<float>(columns, "point", 3 * frames * moving.size())
                                         : std::vector<double>(3 * frames * moving.size(), none);
  place.assign(3 * frames * links.size(), none);
  std::size_t next = 0;
  for (std::size_t i = 0; i < constraints.size(); ++i) {
    const Json& at = constraints[i].at("at");
    const auto of = constraints[i].at("bodies").get<std::vector<long>>();
    const auto on = constraints[i].at("on").get<std::size_t>();
    const long body = on < of.size() ? of[on] : -1;
    const int pose =
        body < 0 || static_cast<std::size_t>(body) >= placed.size() ? -1 : placed[static_cast<std::size_t>(body)];
    for (std::size_t f = 0; f < frames; ++f) {
      Eigen::Vector3d p;
      for (std::size_t k = 0; k < 3; ++k)
        p[static_cast<int>(k)] = at.is_null() ? points[3 * (f * moving.size() + next) + k] : at.at(k).get<double>();
      if (pose >= 0) {
        const std::size_t b = f * bodies.size() + static_cast<std::size_t>(pose);
        const Eigen::Quaterniond q(turn[4 * b + 3], turn[4 * b], turn[4 * b + 1], turn[4 * b + 2]);
        p = Eigen::Map<const Eigen::Vector3d>(&position[3 * b]) + q.normalized() * p;
      }
      for (std::size_t k = 0; k < 3; ++k) place[3 * (f * links.size() + i) + k] = p[static_cast<int>(k)];
    }
    next += at.is_null();
  }
}

std::string run_name(const Json& solvers, std::size_t which) {
  const std::string name = run_label(solvers.at(which));
  const auto same = std::count_if(solvers.begin(), solvers.end(), [&](const Json& s) { return run_label(s) == name; });
  return same < 2 ? name : name + ", " + solvers.at(which).at("precision").get<std::string>();
}

}  // namespace linchpin::recording
