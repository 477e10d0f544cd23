#include "bullet_description.h"

#include <linchpin/constraint.h>
#include <linchpin/joints.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <vector>

namespace linchpin::cli {

namespace {

using Json = nlohmann::ordered_json;

// Little or big endian, as the file says.
std::int32_t integer(std::string_view bytes, std::size_t at, bool big) {
  std::uint32_t x = 0;
  for (std::size_t i = 0; i < 4; ++i)
    x |= std::uint32_t(static_cast<unsigned char>(bytes[at + i])) << 8 * (big ? 3 - i : i);
  return static_cast<std::int32_t>(x);
}

std::string printable(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) out += c >= ' ' && c <= '~' ? c : '?';
  return out;
}

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

std::string scene_fault(std::string_view bytes) {
  // "BULLET", f or d (precision), _ or - (32 or 64 bits), v or V (little or big endian), three digits of version
  constexpr std::size_t header = 12;
  if (bytes.empty()) return "is empty";
  if (bytes.find("<mujoco") != std::string_view::npos)
    return "contains <mujoco>, but not as its root element, as a file of MuJoCo has it";
  if (bytes.find("xmlns:xacro") != std::string_view::npos)
    return "is xacro. Expand it by \"xacro FILE > robot.urdf\", and open robot.urdf";
  const bool magic = bytes.starts_with("BULLETf") || bytes.starts_with("BULLETd");
  if (!magic)
    return "is not a .bullet scene: it begins with \"" + printable(bytes.substr(0, 7)) +
           "\", not with \"BULLETf\" or \"BULLETd\"";
  if (bytes.size() < header) return "ends after " + std::to_string(bytes.size()) + " bytes, inside its header";
  if ((bytes[7] != '_' && bytes[7] != '-') || (bytes[8] != 'v' && bytes[8] != 'V'))
    return "has a damaged header: \"" + printable(bytes.substr(0, header)) + "\"";
  const bool big = bytes[8] == 'V';
  const std::size_t pointer = bytes[7] == '-' ? 8 : 4, chunk_header = 16 + pointer;

  std::size_t at = header;
  long bodies = 0, multibodies = 0, soft_bodies = 0;
  bool described = false;
  while (at < bytes.size() && !described) {
    if (bytes.size() - at < chunk_header)
      return "is truncated: " + std::to_string(bytes.size() - at) + " bytes are left at byte " + std::to_string(at) +
             ", too few for a chunk";
    const std::string_view code = bytes.substr(at, 4);
    const std::int32_t length = integer(bytes, at + 4, big);
    described = code == "DNA1" || code == "SDNA";
    if (code == "SDNA") break;  // old files have the description without a chunk around it
    if (length < 0 || static_cast<std::size_t>(length) > bytes.size() - at - chunk_header)
      return "is truncated or damaged: chunk \"" + printable(code) + "\" at byte " + std::to_string(at) + " states " +
             std::to_string(length) + " bytes, and " + std::to_string(bytes.size() - at - chunk_header) + " are left";
    const std::int32_t count = integer(bytes, at + chunk_header - 4, big);
    if (count < 0)
      return "is damaged: a chunk at byte " + std::to_string(at) + " states " + std::to_string(count) + " items";
    bodies += code == "RBDY" || code == "COBJ";
    multibodies += code == "MBDY";
    soft_bodies += code == "SBDY";
    at += chunk_header + static_cast<std::size_t>(length);
  }
  if (!described) return "is truncated: the description of its data (chunk \"DNA1\") is missing";
  if (multibodies > 0)
    return "holds " + std::to_string(multibodies) + " multibodies (btMultiBody), which are not supported yet";
  if (soft_bodies > 0) return "holds " + std::to_string(soft_bodies) + " soft bodies, which are not supported";
  if (bodies == 0) return "holds no rigid body";
  return {};
}

void require_bullet_scene(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (!in.is_open()) throw std::runtime_error("the file does not exist");
  if (const std::string fault = scene_fault(bytes); !fault.empty()) throw std::runtime_error(fault);
}

scene::Imported imported_of(const Json& file) {
  scene::Imported out;
  if (!file["gravity"].is_null()) out.gravity = three(file["gravity"], 0);
  for (const Json& body : file["bodies"]) out.bodies.push_back(body_of(body));
  for (const Json& joint : file["joints"]) {
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
