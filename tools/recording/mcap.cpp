#include "mcap.h"

#include "mcap_file.h"
#include "motion.h"

#include <Eigen/Geometry>

#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace linchpin::recording {

namespace {

using Json = nlohmann::ordered_json;

// JSON Schema, as far as viewers read it.
Json object(const std::string& title, const Json& properties) {
  return {{"title", title}, {"type", "object"}, {"properties", properties}};
}
Json array(const Json& items) { return {{"type", "array"}, {"items", items}}; }
const Json number_type = {{"type", "number"}}, text_type = {{"type", "string"}};
Json moment_of_time(const std::string& title) {
  const Json whole = {{"type", "integer"}, {"minimum", 0}};
  return object(title, {{"sec", whole}, {"nsec", whole}});
}
const Json timestamp = moment_of_time("time");
const Json vector3 = object("foxglove.Vector3", {{"x", number_type}, {"y", number_type}, {"z", number_type}});
const Json quaternion =
    object("foxglove.Quaternion", {{"x", number_type}, {"y", number_type}, {"z", number_type}, {"w", number_type}});

Json transforms_schema() {
  const Json one = object("foxglove.FrameTransform", {{"timestamp", timestamp},
                                                      {"parent_frame_id", text_type},
                                                      {"child_frame_id", text_type},
                                                      {"translation", vector3},
                                                      {"rotation", quaternion}});
  return object("foxglove.FrameTransforms", {{"transforms", array(one)}});
}
Json scene_schema() {
  const Json pose = object("foxglove.Pose", {{"position", vector3}, {"orientation", quaternion}});
  const Json colour =
      object("foxglove.Color", {{"r", number_type}, {"g", number_type}, {"b", number_type}, {"a", number_type}});
  const Json solid = {{"pose", pose}, {"size", vector3}, {"color", colour}};
  Json cylinder = solid;
  cylinder["bottom_scale"] = number_type;
  cylinder["top_scale"] = number_type;
  const Json any = array({{"type", "object"}});
  const Json entity =
      object("foxglove.SceneEntity", {{"timestamp", timestamp},
                                      {"frame_id", text_type},
                                      {"id", text_type},
                                      {"lifetime", moment_of_time("duration")},
                                      {"frame_locked", {{"type", "boolean"}}},
                                      {"metadata", any},
                                      {"arrows", any},
                                      {"cubes", array(object("foxglove.CubePrimitive", solid))},
                                      {"spheres", array(object("foxglove.SpherePrimitive", solid))},
                                      {"cylinders", array(object("foxglove.CylinderPrimitive", cylinder))},
                                      {"lines", any},
                                      {"triangles", any},
                                      {"texts", any},
                                      {"models", any}});
  return object("foxglove.SceneUpdate", {{"deletions", any}, {"entities", array(entity)}});
}
Json wrench_schema() {
  Json out = object("linchpin.Wrench", {{"timestamp", timestamp},
                                        {"frame_id", text_type},
                                        {"body", text_type},
                                        {"force", vector3},
                                        {"moment", vector3},
                                        {"point", vector3},
                                        {"ideal", number_type},
                                        {"nonideal", number_type},
                                        {"stabilisation", number_type}});
  out["description"] =
      "What a constraint does to the body named, about the point: newtons, newton metres, metres, axes of the frame; "
      "sizes of the ideal, nonideal and stabilising parts of the force";
  return out;
}

Json vector_of(double x, double y, double z) { return {{"x", x}, {"y", y}, {"z", z}}; }
Json vector_at(const std::vector<double>& column, std::size_t i) {
  return vector_of(column[3 * i], column[3 * i + 1], column[3 * i + 2]);
}
std::uint64_t nanoseconds(double t) { return static_cast<std::uint64_t>(std::llround(t * 1e9)); }
Json time_of(std::uint64_t ns) { return {{"sec", ns / 1'000'000'000}, {"nsec", ns % 1'000'000'000}}; }

struct Schemas {
  std::uint16_t transforms, scene, wrench, scalar, coordinate;
};

// The channels of one run, by the columns that they show.
class Run {
 public:
  Run(McapFile& file, const Schemas& schemas, const Motion& motion, const std::string& prefix, bool exact)
      : file_(file), m_(motion), prefix_(prefix), exact_(exact) {
    const std::string at = prefix.empty() ? "" : "/" + prefix;
    if (!m_.bodies.empty()) {
      transforms_ = file.channel(schemas.transforms, at + "/tf", {});
      scene_ = file.channel(schemas.scene, at + "/scene", {});
    }
    for (const Motion::Link& link : m_.links) {
      wrenches_.push_back(file.channel(schemas.wrench, at + "/wrench/" + link.name, {{"unit", link.force_unit}}));
      gaps_.push_back(file.channel(schemas.scalar, at + "/gap/" + link.name, {{"unit", link.unit}}));
    }
    if (!m_.energy.empty()) energy_ = file.channel(schemas.scalar, at + "/energy", {{"unit", "J, since the start"}});
    for (const Motion::Body& body : m_.coordinates)
      coordinates_.push_back(file.channel(schemas.coordinate, at + "/coordinate/" + body.name, {{"unit", body.unit}}));
    for (const Motion::Signal& signal : m_.signals)
      signals_.push_back(file.channel(schemas.scalar, at + "/signal/" + signal.name, {{"unit", signal.unit}}));
  }

  bool ended() const { return frame_ == m_.frames; }
  double next() const { return m_.t[frame_]; }

  void frame() {
    const std::size_t f = frame_++;
    const std::uint64_t ns = nanoseconds(m_.t[f]);
    const Json now = time_of(ns);
    const auto say = [&](std::uint16_t channel, const Json& message) {
      file_.message(channel, ns, message.dump(-1, ' ', false, Json::error_handler_t::replace));
    };
    if (f == 0 && scene_ != 0) say(scene_, shapes(now));
    if (transforms_ != 0) {
      Json all = Json::array();
      for (std::size_t i = 0; i < m_.bodies.size(); ++i) {
        const std::size_t at = f * m_.bodies.size() + i;
        const double* q = &m_.turn[4 * at];
        if (!std::isfinite(m_.position[3 * at] + m_.position[3 * at + 1] + m_.position[3 * at + 2] + q[0] + q[1] +
                           q[2] + q[3]))
          continue;
        all.push_back({{"timestamp", now},
                       {"parent_frame_id", "world"},
                       {"child_frame_id", frame_of(m_.bodies[i].name)},
                       {"translation", vector_at(m_.position, at)},
                       {"rotation", {{"x", q[0]}, {"y", q[1]}, {"z", q[2]}, {"w", q[3]}}}});
      }
      say(transforms_, {{"transforms", std::move(all)}});
    }
    const auto scalar = [&](std::uint16_t channel, double x) {
      if (std::isfinite(x)) say(channel, {{"timestamp", now}, {"value", x}});
    };
    for (std::size_t i = 0; i < m_.links.size(); ++i) {
      const std::size_t at = f * m_.links.size() + i;
      scalar(gaps_[i], m_.gap[at]);
      if (!std::isfinite(m_.force[3 * at])) continue;  // the last state has no forces
      Json wrench = {{"timestamp", now},
                     {"frame_id", "world"},
                     {"body", frame_of(m_.links[i].on)},
                     {"force", vector_at(m_.force, at)}};
      // A recording in single precision has the size of a moment alone.
      if (std::isfinite(m_.moment[3 * at])) wrench["moment"] = vector_at(m_.moment, at);
      if (std::isfinite(m_.place[3 * at])) wrench["point"] = vector_at(m_.place, at);
      for (const auto& [name, part] : {std::pair("ideal", &m_.ideal), std::pair("nonideal", &m_.nonideal),
                                       std::pair("stabilisation", &m_.stabilisation)})
        if (std::isfinite((*part)[at])) wrench[name] = (*part)[at];
      say(wrenches_[i], wrench);
    }
    if (!m_.energy.empty()) scalar(energy_, m_.energy[f]);
    for (std::size_t i = 0; i < coordinates_.size(); ++i) {
      const double* x = &m_.coordinate[2 * (f * coordinates_.size() + i)];
      if (std::isfinite(x[0]) && std::isfinite(x[1]))
        say(coordinates_[i], {{"timestamp", now}, {"value", x[0]}, {"rate", x[1]}});
    }
    for (std::size_t i = 0; i < signals_.size(); ++i) scalar(signals_[i], m_.signal[f * signals_.size() + i]);
  }

 private:
  std::string frame_of(const std::string& body) const {
    return body.empty() ? "world" : prefix_.empty() ? body : prefix_ + "/" + body;
  }
  // Bodies once, each in its own frame, which moves.
  Json shapes(const Json& now) const {
    Json entities = Json::array();
    for (const Motion::Body& body : m_.bodies) {
      if (!body.drawn()) continue;
      const Json colour = body.kind == "fixed" ? Json{{"r", 0.6}, {"g", 0.64}, {"b", 0.69}, {"a", 1.0}}
                          : exact_             ? Json{{"r", 0.0}, {"g", 0.447}, {"b", 0.698}, {"a", 1.0}}
                                               : Json{{"r", 0.835}, {"g", 0.369}, {"b", 0.0}, {"a", 0.5}};
      Json cubes = Json::array(), spheres = Json::array(), cylinders = Json::array(), triangles = Json::array();
      for (const Motion::Shape& shape : body.shapes) {
        if (body.shapes.size() > 1 && shape.shape == "none") continue;
        const Eigen::Quaterniond turn =
            Eigen::Quaterniond(shape.rotation[3], shape.rotation[0], shape.rotation[1], shape.rotation[2]).normalized();
        const auto pose = [&](double height, bool up) {  // a cylinder of theirs stands along z
          const double s = up ? std::sqrt(0.5) : 0;
          const Eigen::Quaterniond q = turn * Eigen::Quaterniond(up ? s : 1.0, -s, 0, 0);
          const Eigen::Vector3d p =
              Eigen::Map<const Eigen::Vector3d>(shape.position.data()) + turn * Eigen::Vector3d(0, height, 0);
          return Json{{"position", vector_of(p.x(), p.y(), p.z())},
                      {"orientation", {{"x", q.x()}, {"y", q.y()}, {"z", q.z()}, {"w", q.w()}}}};
        };
        const double x = shape.size[0], y = shape.size[1];
        const auto ball = [&](double radius, double height) {
          spheres.push_back({{"pose", pose(height, false)},
                             {"size", vector_of(2 * radius, 2 * radius, 2 * radius)},
                             {"color", colour}});
        };
        if (shape.shape == "box") {
          cubes.push_back({{"pose", pose(0, false)}, {"size", vector_of(x, y, shape.size[2])}, {"color", colour}});
        } else if (shape.shape == "hull") {
          Json points = Json::array();
          for (std::size_t i = 0; i + 3 <= shape.vertices.size(); i += 3)
            points.push_back(vector_of(shape.vertices[i], shape.vertices[i + 1], shape.vertices[i + 2]));
          triangles.push_back({{"pose", pose(0, false)},
                               {"points", std::move(points)},
                               {"color", colour},
                               {"colors", Json::array()},
                               {"indices", shape.triangles}});
        } else if (shape.shape == "cylinder" || shape.shape == "capsule") {
          cylinders.push_back({{"pose", pose(0, true)},
                               {"size", vector_of(2 * x, 2 * x, y)},
                               {"bottom_scale", 1.0},
                               {"top_scale", 1.0},
                               {"color", colour}});
          if (shape.shape == "capsule") ball(x, y / 2), ball(x, -y / 2);
        } else {
          ball(shape.shape == "sphere" ? x : 0.02, 0);
        }
      }
      const Json none = Json::array();
      entities.push_back({{"timestamp", now},
                          {"frame_id", frame_of(body.name)},
                          {"id", frame_of(body.name)},
                          {"lifetime", {{"sec", 0}, {"nsec", 0}}},
                          {"frame_locked", true},
                          {"metadata", none},
                          {"arrows", none},
                          {"cubes", std::move(cubes)},
                          {"spheres", std::move(spheres)},
                          {"cylinders", std::move(cylinders)},
                          {"lines", none},
                          {"triangles", std::move(triangles)},
                          {"texts", none},
                          {"models", none}});
    }
    return {{"deletions", Json::array()}, {"entities", std::move(entities)}};
  }

  McapFile& file_;
  const Motion& m_;
  const std::string prefix_;
  const bool exact_;
  std::uint16_t transforms_ = 0, scene_ = 0, energy_ = 0;  // 0: there is none
  std::vector<std::uint16_t> wrenches_, gaps_, coordinates_, signals_;
  std::size_t frame_ = 0;
};

}  // namespace

std::string mcap(const Json& recording) {
  const Json &solvers = recording.at("comparison").at("solvers"), &motions = recording.at("motions");
  std::vector<Motion> all;
  std::vector<std::size_t> which;
  for (std::size_t i = 0; i < motions.size(); ++i) {
    if (motions[i].is_null()) continue;
    all.emplace_back(motions[i]);
    which.push_back(i);
  }
  if (all.empty()) throw std::invalid_argument("no run has a motion");
  McapFile file("linchpin " + recording.at("linchpin").get<std::string>());
  const auto schema = [&](const Json& s) { return file.schema(s.at("title"), s.dump()); };
  const Schemas schemas = {
      schema(transforms_schema()), schema(scene_schema()), schema(wrench_schema()),
      schema(object("linchpin.Scalar", {{"timestamp", timestamp}, {"value", number_type}})),
      schema(object("linchpin.Coordinate", {{"timestamp", timestamp}, {"value", number_type}, {"rate", number_type}}))};
  std::vector<Run> runs;
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::string prefix = solvers.size() > 1 ? run_name(solvers, which[i]) : "";
    if (const std::size_t comma = prefix.find(", "); comma != std::string::npos) prefix.replace(comma, 2, "-");
    runs.emplace_back(file, schemas, all[i], prefix, solvers[which[i]].at("name") == "exact");
  }
  // In the order of time, which readers of a stream count on.
  for (;;) {
    Run* first = nullptr;
    for (Run& run : runs)
      if (!run.ended() && (!first || run.next() < first->next())) first = &run;
    if (!first) break;
    first->frame();
  }
  McapFile::Words words = {{"scene", recording.at("scene").at("file")}, {"linchpin", recording.at("linchpin")}};
  for (const Json& command : recording.at("commands")) words["command"] = command;
  words["precision"] = all.front().full ? "double" : "single: poses, forces and gaps; moments are left out";
  if (recording["scene"].at("text").is_string()) words["scene_text"] = recording["scene"]["text"];
  file.metadata("linchpin", words);
  return file.finish();
}

}  // namespace linchpin::recording
