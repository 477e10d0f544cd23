#include "program_constraints.h"

#include <linchpin/scene.h>

#include <cstddef>
#include <sstream>
#include <stdexcept>

namespace linchpin::python {

namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text)
    if (c == '"' || c == '\\')
      (out += '\\') += c;
    else
      out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
  return out + '"';
}

void write_pose(std::ostream& out, const Vector3d& p, const Quaterniond& q) {
  out << "position = [" << p.x() << ", " << p.y() << ", " << p.z() << "]\n"
      << "rotation = [" << q.w() << ", " << q.x() << ", " << q.y() << ", " << q.z() << "]\n";
}

/// A scene of one equation, whose bodies are where those of the engine are.
std::string scene_of(const Equation& e) {
  std::ostringstream text;
  text.precision(17);
  text << "schema = 2\n";
  if (!e.params.empty()) text << "[params]\n";
  for (const auto& [param, value] : e.params) text << param << " = " << value << "\n";
  for (const Equation::Body& body : e.bodies) {
    text << "[[body]]\nname = " << quoted(body.name) << "\nmass = 1\nshape = { sphere = 1 }\n";
    write_pose(text, body.position, body.rotation);
  }
  for (const Equation::Frame& frame : e.frames) {
    text << "[[frame]]\nname = " << quoted(frame.name) << "\nbody = " << quoted(frame.body) << "\n";
    write_pose(text, frame.position, frame.rotation);
  }
  text << "[[constraint]]\nname = " << quoted(e.name) << "\n" << e.key << " = " << quoted(e.text) << "\n";
  if (e.points.empty()) return text.str();
  text << "application_points = {";
  for (const auto& [body, p] : e.points)
    text << (&p == &e.points.front().second ? " " : ", ") << quoted(body) << " = [" << p.x() << ", " << p.y() << ", "
         << p.z() << "]";
  text << " }\n";
  return text.str();
}

}  // namespace

Constraint constraint_of(const Equation& equation, const std::function<BodyId(std::size_t)>& id_of) {
  const scene::Model model = scene::load_text(scene_of(equation), "constraint " + equation.name);
  const scene::SceneConstraint& found = model.constraints[0];
  std::vector<BodyId> ids;
  for (const BodyId id : found.bodies)
    ids.push_back(id == ground ? ground : id_of(static_cast<std::size_t>(id.index) - 1));
  return found.make(ids);
}

Constraint joint_of(const std::string& name, const std::string& kind, BodyId a, const Vector3d& at_a,
                    const Vector3d& axis_a, BodyId b, const Vector3d& at_b, const Vector3d& axis_b, double length) {
  if (kind == "ball") return joints::ball(name, a, at_a, b, at_b);
  if (kind == "hinge") return joints::hinge(name, a, at_a, axis_a, b, at_b, axis_b);
  if (kind == "universal") return joints::universal(name, a, at_a, axis_a, b, at_b, axis_b);
  if (kind == "cylindrical") return joints::cylindrical(name, a, at_a, axis_a, b, at_b, axis_b);
  if (kind == "planar") return joints::planar(name, a, at_a, axis_a, b, at_b, axis_b);
  if (kind == "point_on_line") return joints::point_on_line(name, a, at_a, axis_a, b, at_b);
  if (kind == "point_on_plane") return joints::point_on_plane(name, a, at_a, axis_a, b, at_b);
  if (kind == "rod") return joints::rod(name, a, at_a, b, at_b, length);
  throw std::invalid_argument("there is no joint \"" + kind +
                              "\"; known: ball, hinge, universal, cylindrical, planar, point_on_line, point_on_plane "
                              "and rod");
}

}  // namespace linchpin::python
