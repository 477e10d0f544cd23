#include "bullet_import.h"

#include "scene_file.h"
#include "worker_process.h"

#include <linchpin/constraint.h>
#include <linchpin/joints.h>

#include <fstream>
#include <iterator>
#include <stdexcept>
#include <vector>

namespace linchpin::cli {

namespace {

Vector3d three(const Json& numbers, std::size_t from) {
  return {numbers[from].get<double>(), numbers[from + 1].get<double>(), numbers[from + 2].get<double>()};
}

scene::SceneBody body_of(const Json& j) {
  scene::SceneBody body;
  body.name = j["name"];
  const std::string kind = j["kind"];
  body.kind = kind == "rigid" ? BodyKind::rigid : kind == "particle" ? BodyKind::particle : BodyKind::fixed;
  body.mass = j["mass"];
  body.inertia = three(j["inertia"], 0).asDiagonal();
  body.start.p = three(j["place"], 0);
  const Json& q = j["rotation"];
  body.start.q = Quaterniond(q[0], q[1], q[2], q[3]);
  body.start.v = three(j["motion"], 0);
  body.start.w = three(j["motion"], 3);
  return body;
}

JointRows rows_of(const Json& j) {
  JointRows rows;
  for (const Json& p : j["points"]) rows.points.push_back({three(p, 0), three(p, 3)});
  for (const Json& l : j["axes"]) rows.axes.push_back({three(l, 0), three(l, 3), three(l, 6), l[9]});
  for (const Json& d : j["dots"]) rows.dots.push_back({three(d, 0), three(d, 3), d[6]});
  const Json& frames = j["alignment"]["frames"];
  rows.alignment.of = static_cast<JointRows::Alignment::Of>(j["alignment"]["of"].get<int>());
  rows.alignment.A << three(frames, 0), three(frames, 3), three(frames, 6);
  rows.alignment.B << three(frames, 9), three(frames, 12), three(frames, 15);
  return rows;
}

scene::SceneConstraint joint_of(const Json& j) {
  scene::SceneConstraint joint;
  joint.name = j["name"];
  joint.type = j["kind"];
  for (const char* side : {"a", "b"})
    joint.bodies.push_back(j[side].is_null() ? ground : BodyId{j[side].get<int>() + 1});
  if (j.contains("gear")) {  // Bullet's row, on the bodies' own axes
    const Vector3d u = three(j["gear"], 0), w = three(j["gear"], 3);
    const double ratio = j["gear"][6];
    joint.make = [name = joint.name, u, w, ratio](std::vector<BodyId> bodies) {
      return nonholonomic(name, std::move(bodies), [u, w, ratio](const auto& s) {
        return dot(s[0].axis(u), s[0].omega()) + ratio * dot(s[1].axis(w), s[1].omega());
      });
    };
    return joint;
  }
  joint.make = [name = joint.name, rows = rows_of(j), p = three(j["acting"], 0),
                q = three(j["acting"], 3)](const std::vector<BodyId>& bodies) {
    return linchpin::joints::joint(name, bodies[0], bodies[1], rows, p, q);
  };
  return joint;
}

}  // namespace

scene::Imported import_bullet(const std::string& path) {
  // A damaged file is told apart here: Bullet's reader may not come back from it.
  std::ifstream in(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (!in.is_open()) throw std::runtime_error("the file does not exist");
  if (const std::string fault = scene_fault(bytes); !fault.empty()) throw std::runtime_error(fault);
  const WorkerAnswer answer = run_worker("double", {{"describe", path}}, path);
  if (answer.kind != WorkerAnswer::Kind::row) throw std::runtime_error(answer.message);
  scene::Imported out;
  if (!answer.row["gravity"].is_null()) out.gravity = three(answer.row["gravity"], 0);
  for (const Json& body : answer.row["bodies"]) out.bodies.push_back(body_of(body));
  for (const Json& joint : answer.row["joints"]) {
    const std::string native = joint["native"];
    if (!native.empty()) out.native.push_back(joint["name"].get<std::string>() + ": " + native);
    const bool rows = !joint["points"].empty() || !joint["axes"].empty() || !joint["dots"].empty();
    scene::SceneConstraint made = joint_of(joint);
    const auto moves = [&](BodyId id) {
      return id != ground && out.bodies[static_cast<std::size_t>(id.index) - 1].kind != BodyKind::fixed;
    };
    // Between bodies that cannot move there is nothing to hold, as the adapter sees it too.
    if ((rows || joint.contains("gear")) && (moves(made.bodies[0]) || moves(made.bodies[1])) &&
        made.bodies[0] != made.bodies[1])
      out.joints.push_back(std::move(made));
  }
  return out;
}

}  // namespace linchpin::cli
