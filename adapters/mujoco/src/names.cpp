// Bodies, sites and joints of the model by name, and the constraints of the program.
#include "model_binding.h"

#include <memory>

namespace linchpin::mujoco {

using host::demand;

namespace {

/// The names of a kind, for an error: the first few of them.
std::string known_names(const mjModel& m, int type, int count) {
  std::string out;
  int listed = 0;
  for (int i = 0; i < count && listed < 12; ++i)
    if (const char* const name = mj_id2name(&m, type, i); name && *name) {
      out += (listed++ ? ", '" : "'") + std::string(name) + "'";
    }
  return listed == 0 ? "none has a name" : out;
}

}  // namespace

int ModelBinding::body_of(const BodyRef& body) const {
  if (body.name_.empty()) {
    if (body.body_ < 0 || body.body_ >= m_.nbody)
      demand("linchpin: the model has no body " + std::to_string(body.body_) + ". Its bodies are 0 to " +
             std::to_string(m_.nbody - 1) + ", and 0 is the world");
    return body.body_;
  }
  const int found = mj_name2id(&m_, mjOBJ_BODY, body.name_.c_str());
  if (found < 0)
    demand("linchpin: the model has no body '" + body.name_ + "'. Known: " + known_names(m_, mjOBJ_BODY, m_.nbody));
  return found;
}

BodyId ModelBinding::id_of(const BodyRef& body, const std::string& who) {
  if (body.is_id_) return body.id_;
  const int found = body_of(body);
  if (m_.body_mocapid[m_.body_rootid[found]] >= 0)
    demand("linchpin: " + who + ": body " + quoted_name(m_, mjOBJ_BODY, found) +
           " is a mocap body, which the program moves. Name linchpin::ground instead, and write its motion as a "
           "function of the time s.t");
  const LinkPlace place = model_trees_.place_of_body(found);
  if (place.tree < 0) return linchpin::ground;
  const Result<BodyId> id = try_call([&] { return tree_solver_.link_id(place.tree, place.link); });
  if (!id) demand("linchpin: " + who + ": " + id.error().message);
  return *id;
}

/// Gives a link the name of its body, for reports.
void ModelBinding::note_link(BodyId id, int tree, int link) {
  const ModelTree& t = model_trees_[tree];
  const int body = link < 0 ? t.root : t.bodies[z(link)];
  if (body < 0) return;
  bodies_of_ids_.emplace_back(id, body);
  if (const char* const name = mj_id2name(&m_, mjOBJ_BODY, body); name && *name)
    (void)try_call([&] { solver_.system().set_name(id, name); });  // where a constraint has that name, it stays
}

int ModelBinding::body_of_id(BodyId id) const {
  for (const auto& [known, body] : bodies_of_ids_)
    if (known == id) return body;
  return -1;
}

/// A body, or the part without mass between two joints of a body that has several.
std::string ModelBinding::link_name(int tree, int link) const {
  const ModelTree& t = model_trees_[tree];
  if (link < 0) return "body " + quoted_name(m_, mjOBJ_BODY, t.root);
  const int joint = t.joints[z(link)];
  if (t.bodies[z(link)] >= 0) return "body " + quoted_name(m_, mjOBJ_BODY, t.bodies[z(link)]);
  return "the part of body " + quoted_name(m_, mjOBJ_BODY, m_.jnt_bodyid[joint]) + " between its joints " +
         quoted_name(m_, mjOBJ_JOINT, joint) + " and " + quoted_name(m_, mjOBJ_JOINT, joint + 1);
}

const BodyFrame& ModelBinding::frame_of(const BodyRef& body) const {
  static const BodyFrame none;
  return body.is_id_ ? none : model_trees_.frame_of(body_of(body));
}

Solver::Site ModelBinding::site(std::string_view name) {
  const int found = mj_name2id(&m_, mjOBJ_SITE, std::string(name).c_str());
  if (found < 0)
    demand("linchpin: the model has no site '" + std::string(name) +
           "'. Known: " + known_names(m_, mjOBJ_SITE, m_.nsite));
  const int body = m_.site_bodyid[found];
  const BodyFrame& frame = model_trees_.frame_of(body);
  return {id_of(body, "site '" + std::string(name) + "'"),
          frame.q.conjugate() * (vector3(m_.site_pos + 3 * found) - frame.p),
          (frame.q.conjugate() * quaternion(m_.site_quat + 4 * found)).normalized().toRotationMatrix()};
}

int ModelBinding::add(Constraint constraint) {
  const std::string name = constraint.name();
  if (solver_.find(name) >= 0)
    demand("linchpin: another constraint has the name '" + name + "'. Choose a different name");
  for (const BodyId id : constraint.bodies())
    if (id != linchpin::ground && !tree_solver_.is_link(id))
      demand("linchpin: constraint '" + name + "' names a body that this solver does not know: use id(body)");
  demand(tree_solver_.why_not_held(constraint));
  const int entry = solver_.add_entry(Owner::user_on_links, name);
  tree_solver_.set_constraint(entry, std::make_unique<Constraint>(std::move(constraint)));
  solver_.refresh_order();
  return entry;
}

LinkPlace ModelBinding::place_of_joint(std::string_view name) const {
  const int found = mj_name2id(&m_, mjOBJ_JOINT, std::string(name).c_str());
  if (found < 0)
    demand("linchpin: the model has no joint '" + std::string(name) +
           "'. Known: " + known_names(m_, mjOBJ_JOINT, m_.njnt));
  const LinkPlace place = model_trees_.place_of_joint(found);
  if (place.link < 0) demand("linchpin: joint '" + std::string(name) + "' is a free joint, which transmits no force");
  return place;
}

int ModelBinding::joint_entry(std::string_view name) {
  const LinkPlace place = place_of_joint(name);
  if (const int known = tree_solver_.find_joint(place.tree, place.link); known >= 0) return known;
  const std::string own = solver_.free_name(std::string(name));
  auto joint = std::make_unique<Constraint>(tree_solver_.make_joint(place.tree, place.link, own));
  const int entry = solver_.add_entry(Owner::multibody_joint, own);
  tree_solver_.set_constraint(entry, std::move(joint));
  solver_.refresh_order();
  return entry;
}

}  // namespace linchpin::mujoco
