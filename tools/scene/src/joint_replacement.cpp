#include "joint_replacement.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace linchpin::scene {

namespace {

struct Kind {
  const char* name;
  bool axis;
};
constexpr std::array kinds = {Kind{"ball", false},  Kind{"hinge", true},         Kind{"slider", true},
                              Kind{"weld", false},  Kind{"universal", true},     Kind{"cylindrical", true},
                              Kind{"planar", true}, Kind{"point_on_line", true}, Kind{"point_on_plane", true},
                              Kind{"none", false}};

const Kind& kind_of(const Text& type, const std::string& who) {
  const auto found =
      std::find_if(kinds.begin(), kinds.end(), [&](const Kind& kind) { return type.value == kind.name; });
  if (found != kinds.end()) return *found;
  std::vector<std::string> known;
  for (const Kind& kind : kinds) known.emplace_back(kind.name);
  std::string all;
  for (const std::string& name : known) all += (all.empty() ? "" : ", ") + name;
  const std::string near = suggestion(type.value, known);
  fail(type.place, who + ": a joint cannot be replaced by \"" + type.value + "\"" +
                       (near.empty() ? "; it can be replaced by " + all : near));
}

}  // namespace

void read_replacements(const toml::table& table, Context& context, JointReplacements& into) {
  Table all(context, table, "model, replace_joints");
  for (const auto& [key, node] : table) {
    const std::string joint(key.str());
    const std::string who = "model, replace_joints, " + joint;
    JointReplacement out;
    out.place = place_of(context, node);
    if (node.is_string()) {
      const Text type = all.text(joint);
      out.type = kind_of(type, who).name;
    } else {
      Table of(context, *all.table(joint), who);
      const Text type = of.text("type");
      const Kind& kind = kind_of(type, who);
      out.type = kind.name;
      if (kind.axis) {
        for (auto& [name, axis] : {std::pair("axis_a", &out.axis_a), std::pair("axis_b", &out.axis_b)}) {
          if (!of.has(name)) continue;
          *axis = of.vector(name);
          if (!((*axis)->norm() > 1e-12)) of.refuse(name, "an axis of length zero has no direction");
        }
      }
      of.done();
    }
    if (out.type == "universal" && !(out.axis_a && out.axis_b))
      fail(out.place, who +
                          ": a universal joint needs axis_a (in the parent) and axis_b (in the child), perpendicular " +
                          "to each other: { type = \"universal\", axis_a = [0, 0, 1], axis_b = [0, 1, 0] }");
    if (out.type == "universal" && out.axis_a->normalized().cross(out.axis_b->normalized()).norm() < 1e-3)
      fail(out.place, who +
                          ": the axes of a universal joint are parallel. They must be perpendicular in the pose of the "
                          "start: { type = \"universal\", axis_a = [0, 0, 1], axis_b = [0, 1, 0] }");
    into.insert_or_assign(joint, std::move(out));
  }
}

JointPlan plan_of(const JointReplacement& replacement, const ReplacedJoint& joint, const std::string& name,
                  const std::string& a, const std::string& b, BodyId body_a, BodyId body_b) {
  JointPlan plan;
  plan.type = replacement.type;
  plan.name = name;
  plan.place = replacement.place;
  plan.a = a, plan.b = b;
  plan.frame_a = NamedFrame{name, body_a.index, joint.frame_a.origin, joint.frame_a.axes};
  plan.frame_b = NamedFrame{name, body_b.index, joint.frame_b.origin, joint.frame_b.axes};
  plan.at_a = joint.frame_a.origin, plan.at_b = joint.frame_b.origin;
  const Vector3d axis_a = replacement.axis_a.value_or(joint.axis);
  plan.axis_a = joint.frame_a.axes * axis_a;
  plan.axis_b = joint.frame_b.axes * replacement.axis_b.value_or(axis_a);
  return plan;
}

}  // namespace linchpin::scene
