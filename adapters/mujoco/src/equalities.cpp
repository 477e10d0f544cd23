// The equality constraints of the model: connect, weld, joint and tendon.
#include "model_binding.h"
#include "versions.h"

#include <linchpin/joints.h>

#include <algorithm>
#include <cmath>
#include <memory>

namespace linchpin::mujoco {

using articulated::Gear;

namespace {

std::string name_of_equality(const mjModel& m, int i) {
  const char* const name = mj_id2name(&m, mjOBJ_EQUALITY, i);
  return name && *name ? name : "equality#" + std::to_string(i);
}

bool is_pair(const mjModel& m, int i) { return m.eq_type[i] == mjEQ_CONNECT || m.eq_type[i] == mjEQ_WELD; }

}  // namespace

/// The numbers of the model that an equality depends on.
void ModelBinding::read_numbers(int i, std::vector<double>& to) const {
  to.assign(m_.eq_data + mjNEQDATA * i, m_.eq_data + mjNEQDATA * (i + 1));
  for (const int id : {m_.eq_obj1id[i], m_.eq_obj2id[i]}) {
    to.push_back(id);
    if (!is_pair(m_, i) || !is_between_sites(m_, i) || id < 0) continue;
    to.insert(to.end(), m_.site_pos + 3 * id, m_.site_pos + 3 * id + 3);
    to.insert(to.end(), m_.site_quat + 4 * id, m_.site_quat + 4 * id + 4);
  }
}

void ModelBinding::find_equalities() {
  if (!options_.equalities) return;
  for (int i = 0; i < m_.neq; ++i) {
    Equality& of = equalities_.emplace_back();
    of.entry = solver_.add_entry(Owner::multibody_constraint, solver_.free_name(name_of_equality(m_, i)));
    map_equality(i);
  }
  if (m_.neq > 0) solver_.refresh_order();
}

/// Makes the constraint of an equality from the numbers of the model as they are now.
void ModelBinding::map_equality(int i) {
  const int entry = equalities_[z(i)].entry;
  Equality of = shape_of(i);
  of.entry = entry;
  read_numbers(i, of.numbers);
  tree_solver_.set_constraint(entry, nullptr);
  if (solver_.entry(entry).joint.released_to_host) of.why_native = "the program has released it with remove()";
  if (of.why_native.empty()) {
    if (of.is_gear)
      of.why_native = make_gear(i, of);
    else
      make_pair(i, of);
  }
  solver_.entry(entry).host_part = of.why_native.empty() ? "" : "all (" + of.why_native + ")";
  equalities_[z(i)] = std::move(of);
}

/// Returns which rows an equality has, or why it stays with MuJoCo.
Equality ModelBinding::shape_of(int i) const {
  Equality out;
  const double* const data = m_.eq_data + mjNEQDATA * i;
  const int type = m_.eq_type[i];
  if (type == mjEQ_JOINT || type == mjEQ_TENDON) {
    out.is_gear = true;
    return out;
  }
  if (!is_pair(m_, i)) {
    out.why_native = "linchpin does not know equalities of this type";
    return out;
  }
  const bool weld = type == mjEQ_WELD;
  for (const int k : {0, 1}) {
    const int id = k == 0 ? m_.eq_obj1id[i] : m_.eq_obj2id[i];
    if (is_between_sites(m_, i)) {
      out.bodies[z(k)] = m_.site_bodyid[id];
      out.anchors[z(k)] = vector3(m_.site_pos + 3 * id);
    } else {
      out.bodies[z(k)] = id;
      out.anchors[z(k)] = vector3(data + 3 * (weld ? 1 - k : k));
    }
  }
  if (weld) {
    out.has_rotation = data[10] != 0;
    if (is_between_sites(m_, i))
      out.axes = {quaternion(m_.site_quat + 4 * m_.eq_obj1id[i]), quaternion(m_.site_quat + 4 * m_.eq_obj2id[i])};
    else
      out.axes[0] = quaternion(data + 6);
  }
  bool moves = false;
  for (const int body : out.bodies) {
    const LinkPlace place = model_trees_.place_of_body(body);
    moves = moves || place.tree >= 0;
    if (m_.body_mocapid[m_.body_rootid[body]] >= 0)
      out.why_native = "one of its bodies is a mocap body, which the program moves";
    if (place.tree >= 0 && out.why_native.empty()) out.why_native = model_trees_[place.tree].unsupported;
  }
  if (!moves) out.why_native = "none of its bodies can move";
  return out;
}

void ModelBinding::make_pair(int i, Equality& of) {
  std::array<BodyId, 2> ids;
  std::array<Vector3d, 2> points;
  std::array<Matrix3d, 2> axes;
  for (const std::size_t k : {std::size_t{0}, std::size_t{1}}) {
    const BodyFrame& frame = model_trees_.frame_of(of.bodies[k]);
    ids[k] = id_of(of.bodies[k], "equality " + name_of_equality(m_, i));
    points[k] = frame.q.conjugate() * (of.anchors[k] - frame.p);
    axes[k] = (frame.q.conjugate() * of.axes[k]).normalized().toRotationMatrix();
  }
  const std::string& name = solver_.entry(of.entry).name;
  tree_solver_.set_constraint(
      of.entry, std::make_unique<Constraint>(
                    of.has_rotation ? joints::weld(name, ids[0], {points[0], axes[0]}, ids[1], {points[1], axes[1]})
                                    : joints::ball(name, ids[0], points[0], ids[1], points[1])));
}

// ---- equalities on joint positions ----

/// Adds the joint of a side of an equality, or the joints of its tendon, times `factor`.
/// @param constant  value of the side, less its reference, where the sum of the terms is zero
std::string ModelBinding::add_gear_terms(int i, int side, double factor, std::vector<Gear::Term>& to,
                                         std::vector<BodyId>& bodies, double& constant) {
  const int id = side == 0 ? m_.eq_obj1id[i] : m_.eq_obj2id[i];
  const auto add_joint = [&](int joint, double coefficient) -> std::string {
    const LinkPlace place = model_trees_.place_of_joint(joint);
    if (place.tree < 0 || place.link < 0) return "one of its joints cannot move";
    if (const std::string& why = model_trees_[place.tree].unsupported; !why.empty()) return why;
    bodies.push_back(tree_solver_.link_id(place.tree, place.link));
    to.push_back({place.link, factor * coefficient});
    return {};
  };
  if (m_.eq_type[i] == mjEQ_JOINT) {
    const int type = m_.jnt_type[id];
    if (type != mjJNT_HINGE && type != mjJNT_SLIDE) return "one of its joints is neither a hinge nor a slide";
    return add_joint(id, 1);
  }
  // A fixed tendon is a sum over joints. Positions of the core are those of MuJoCo less qpos0.
  constant -= m_.tendon_length0[id];
  for (int w = m_.tendon_adr[id]; w < m_.tendon_adr[id] + m_.tendon_num[id]; ++w) {
    if (m_.wrap_type[w] != mjWRAP_JOINT) return "a spatial tendon has no length in joint coordinates";
    const int joint = m_.wrap_objid[w];
    constant += m_.wrap_prm[w] * m_.qpos0[m_.jnt_qposadr[joint]];
    if (std::string why = add_joint(joint, m_.wrap_prm[w]); !why.empty()) return why;
  }
  return {};
}

/// Makes the row x₀ − a₀ = P(x₁), with the coefficients a of the model. @return why not, or empty
std::string ModelBinding::make_gear(int i, Equality& of) {
  const double* const a = m_.eq_data + mjNEQDATA * i;
  Gear gear;
  std::vector<BodyId> bodies;
  double constant = 0, input_constant = 0;
  if (std::string why = add_gear_terms(i, 0, 1, gear.terms, bodies, constant); !why.empty()) return why;
  gear.target = a[0] - constant;
  if (m_.eq_obj2id[i] >= 0) {
    const bool is_linear = a[2] == 0 && a[3] == 0 && a[4] == 0;
    if (std::string why = is_linear ? add_gear_terms(i, 1, -a[1], gear.terms, bodies, input_constant)
                                    : add_gear_terms(i, 1, 1, gear.inputs, bodies, input_constant);
        !why.empty())
      return why;
    if (is_linear) {
      gear.target += a[1] * input_constant;
    } else {  // P(x + constant) by its Taylor coefficients
      const double c = input_constant;
      gear.polynomial = {a[1] * c + a[2] * c * c + a[3] * c * c * c + a[4] * c * c * c * c,
                         a[1] + 2 * a[2] * c + 3 * a[3] * c * c + 4 * a[4] * c * c * c,
                         a[2] + 3 * a[3] * c + 6 * a[4] * c * c, a[3] + 4 * a[4] * c, a[4]};
    }
  }
  for (std::size_t k = 0; k < bodies.size(); ++k)
    if (std::find(bodies.begin(), bodies.begin() + static_cast<std::ptrdiff_t>(k), bodies[k]) !=
        bodies.begin() + static_cast<std::ptrdiff_t>(k))
      return "a joint occurs twice in it";
  // The residual only says between which bodies it is; the row is that of the gear.
  auto between = holonomic(solver_.entry(of.entry).name, bodies, [](const auto& s) { return s[0].position().x; });
  tree_solver_.set_constraint(of.entry, std::make_unique<Constraint>(std::move(between)));
  tree_solver_.set_gear(of.entry, std::move(gear));
  return {};
}

// ---- in a step ----

/// Follows the program, which switches equalities on and off and may change their numbers.
void ModelBinding::switch_equalities() {
  bool changed = false;
  const bool all_off = (m_.opt.disableflags & (mjDSBL_EQUALITY | mjDSBL_CONSTRAINT)) != 0;
  for (int i = 0; i < static_cast<int>(equalities_.size()); ++i) {
    read_numbers(i, equality_numbers_);
    if (equalities_[z(i)].numbers != equality_numbers_) {
      map_equality(i);
      changed = true;
    }
    host::ConstraintEntry& entry = solver_.entry(equalities_[z(i)].entry);
    const bool on = !all_off && is_active(m_, d_, i);
    changed = changed || entry.enabled != on;
    entry.enabled = on;
  }
  if (changed) solver_.structure_changed();
}

bool ModelBinding::is_enabled(int entry) const {
  const int i = equality_of(entry);
  if (i < 0) return solver_.entry(entry).enabled;
  return (m_.opt.disableflags & (mjDSBL_EQUALITY | mjDSBL_CONSTRAINT)) == 0 && is_active(m_, d_, i);
}

void ModelBinding::enable_equality(int i, bool on) { set_active(m_, d_, i, on); }

/// The rows of rotation of a weld, as a matrix on ω₀ − ω₁: ½·scale of the vector part of (q₁ a₁)⁻¹ (0, ω₀ − ω₁) q₀ a₀
/// with the axes a.
Matrix3d ModelBinding::rotation_rows(int i) const {
  const Equality& of = equalities_[z(i)];
  const Quaterniond first = quaternion(d_.xquat + 4 * of.bodies[0]) * of.axes[0],
                    second = (quaternion(d_.xquat + 4 * of.bodies[1]) * of.axes[1]).conjugate();
  Matrix3d S;
  for (int c = 0; c < 3; ++c) {
    const Vector3d e = Vector3d::Unit(c);
    S.col(c) = 0.5 * (second * Quaterniond(0, e.x(), e.y(), e.z()) * first).vec();
  }
  return m_.eq_data[mjNEQDATA * i + 10] * S;
}

/// Writes the mean forces of exact equalities into the rows of MuJoCo.
void ModelBinding::fill_equality_forces() {
  for (std::size_t at = 0; at < exact_rows_.size();) {
    const int row = exact_rows_[at], i = d_.efc_id[row];
    std::size_t count = 0;
    while (at + count < exact_rows_.size() && d_.efc_id[exact_rows_[at + count]] == i) ++count;
    at += count;
    const Equality& of = equalities_[z(i)];
    mjtNum* const force = d_.efc_force + row;
    if (of.is_gear) {
      const std::span<const double> impulses = tree_solver_.impulses(of.entry);
      if (!impulses.empty()) force[0] = impulses[0] / m_.opt.timestep;
      continue;
    }
    const std::size_t k = model_trees_.place_of_body(of.bodies[0]).tree >= 0 ? 0 : 1;  // one that moves
    const Wrench on = tree_solver_.mean_wrench(of.entry, static_cast<int>(k));
    const double sign = k == 0 ? 1 : -1;
    for (int c = 0; c < 3; ++c) force[c] = sign * on.force[c];
    if (count < 6) continue;
    const int body = of.bodies[k];
    const Vector3d centre = vector3(d_.xipos + 3 * body),
                   anchor = vector3(d_.xpos + 3 * body) + quaternion(d_.xquat + 4 * body) * of.anchors[k],
                   moment = sign * (on.moment + (centre - anchor).cross(on.force));
    const Vector3d f =
        of.has_rotation ? Vector3d(rotation_rows(i).transpose().inverse() * moment) : Vector3d(Vector3d::Zero());
    for (int c = 0; c < 3; ++c) force[3 + c] = f[c];
  }
}

}  // namespace linchpin::mujoco
