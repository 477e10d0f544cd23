#include "model_binding.h"

#include "versions.h"

#include <algorithm>
#include <cmath>

namespace linchpin::mujoco {

using host::demand;

namespace {

host::SolverOptions solver_options(const Options& o) {
  host::SolverOptions out;
  out.rank_tolerance = o.rank_tolerance;
  out.newton_tolerance = o.newton_tolerance;
  out.gap_tolerance = o.gap_tolerance;
  out.max_newton = o.max_newton;
  out.max_tension_frequency = o.max_tension_frequency;
  out.max_substeps = o.max_substeps;
  out.drift_correction = o.drift_correction;
  out.max_energy_gain = o.max_energy_gain;
  out.max_velocity_residual = o.max_velocity_residual;
  return out;
}

/// The exact rotation of MuJoCo's integrator.
Quaterniond rotation_over_step(const Vector3d& w, double dt) {
  const double angle = dt * w.norm();
  if (angle == 0) return Quaterniond::Identity();
  return Quaterniond(Eigen::AngleAxisd(angle, w.normalized()));
}

/// Checks that the model can be bound. @return the model
mjModel& checked(mjModel& model, const Options& options) {
  if (options.mujoco_version != mjVERSION_HEADER || mj_version() != mjVERSION_HEADER)
    demand("linchpin was compiled for MuJoCo " + std::to_string(mjVERSION_HEADER) + ", the program for " +
           std::to_string(options.mujoco_version) + ", and the loaded library is " + std::to_string(mj_version()) +
           ". Use the same version for all three");
  if (const char* const why = mujoco::why_unsupported(model)) demand(std::string("linchpin: ") + why);
  return model;
}

/// The numbers of the model from which ModelTrees is made, but for inertial frames.
void read_tree_numbers(const mjModel& m, std::vector<mjtNum>& to) {
  to.assign(m.body_mass, m.body_mass + m.nbody);
  to.insert(to.end(), m.body_inertia, m.body_inertia + 3 * m.nbody);
  to.insert(to.end(), m.body_pos, m.body_pos + 3 * m.nbody);
  to.insert(to.end(), m.body_quat, m.body_quat + 4 * m.nbody);
  to.insert(to.end(), m.jnt_pos, m.jnt_pos + 3 * m.njnt);
  to.insert(to.end(), m.jnt_axis, m.jnt_axis + 3 * m.njnt);
  for (int i = 0; i < m.nv; ++i) to.push_back(armature(m, i));
  for (int i = 0; i < m.ntendon; ++i) to.push_back(tendon_armature(m, i));
  to.insert(to.end(), m.dof_damping, m.dof_damping + m.nv);
}

std::vector<mjtNum> frames_of(const mjModel& m) {
  std::vector<mjtNum> out(m.body_ipos, m.body_ipos + 3 * m.nbody);
  out.insert(out.end(), m.body_iquat, m.body_iquat + 4 * m.nbody);
  return out;
}

}  // namespace

ModelBinding::ModelBinding(mjModel& model, mjData& data, const Options& options)
    : m_(checked(model, options)),
      d_(data),
      view_(model),
      options_(options),
      model_trees_(model),
      inertial_frames_(frames_of(model)),
      solver_(world_, solver_options(options)),
      tree_solver_(solver_, *this, rotation_over_step) {
  for (auto* x : {&free_, &damping_, &implicit_forces_, &placed_forces_, &row_forces_, &force_scratch_, &nv_, &nv2_,
                  &saved_qvel_, &saved_warmstart_, &saved_smooth_, &saved_qacc_, &target_})
    x->assign(z(m_.nv), 0);
  no_damping_.assign(z(m_.nv), 0);
  saved_qpos_.assign(z(m_.nq), 0);
  for (auto* x : {&host_, &change_}) x->assign(z(model_trees_.velocities()), 0);
  for (auto* x : {&row_wrenches_, &placed_wrenches_}) x->resize(z(m_.nbody));
  read_tree_numbers(m_, tree_numbers_);
  solver_.set_capabilities({.coupling = host::Capabilities::Coupling::rows});
  solver_.make_reactions();
  tree_solver_.set_trees(std::vector<int>(z(model_trees_.size()), -1));
  solver_.set_t(d_.time);
  find_equalities();
}

void ModelBinding::set_options(const Options& options) {
  if (options.equalities != options_.equalities)
    demand("set_options()", "Options::equalities cannot change after the solver is made. Make another solver");
  solver_.set_options(solver_options(options));
  options_ = options;
}

articulated::TreeSolver& ModelBinding::trees_of_step(std::string_view joint) {
  if (was_native_)
    throw OrderError(
        "linchpin: no exact constraint was active in the last step, so that MuJoCo took it alone, and the "
        "load of joint '" +
        std::string(joint) + "' is not known. Use a force sensor of the model");
  return tree_solver_;
}

void ModelBinding::reset() {
  solver_.reset();
  solver_.set_t(d_.time);
}

/// Makes the trees again where the program has changed masses, places or joints of the model. Links stay what they are.
void ModelBinding::follow_model() {
  read_tree_numbers(m_, tree_numbers_now_);
  if (tree_numbers_now_ == tree_numbers_) return;
  tree_numbers_.swap(tree_numbers_now_);
  model_trees_ = ModelTrees(m_);
  for (int i = 0; i < static_cast<int>(equalities_.size()); ++i) map_equality(i);
  solver_.structure_changed();
}

// ---- the world ----

std::string ModelWorld::name() const { return std::string("MuJoCo ") + mj_versionString(); }
double ModelWorld::energy() const { return binding_.energy(); }
bool ModelWorld::keeps_entry(int entry) const { return binding_.equality_of(entry) >= 0; }
bool ModelWorld::is_enabled(int entry) const { return binding_.is_enabled(entry); }
void ModelWorld::enable(int entry, bool on) {
  if (const int of = binding_.equality_of(entry); of >= 0) binding_.enable_equality(of, on);
}
void ModelWorld::map_joint(int entry) {
  if (const int of = binding_.equality_of(entry); of >= 0) binding_.map_equality(of);
}

int ModelBinding::equality_of(int entry) const {
  for (int i = 0; i < static_cast<int>(equalities_.size()); ++i)
    if (equalities_[z(i)].entry == entry) return i;
  return -1;
}

double ModelBinding::energy() const {
  double sum = 0;
  articulated::TreeState state;
  for (int i = 0; i < model_trees_.size(); ++i) {
    model_trees_.read_state(i, m_, d_, state);
    for (articulated::LinkForce& f : state.forces) f = {Vector3d::Zero(), Vector3d::Zero()};
    articulated::add_energy(model_trees_[i].model, state, gravity(), sum);
  }
  return sum;
}

// ---- articulated::TreeWorld ----

Vector3d ModelBinding::gravity() const {
  return (m_.opt.disableflags & mjDSBL_GRAVITY) ? Vector3d(Vector3d::Zero()) : vector3(m_.opt.gravity);
}

void ModelBinding::read(int tree, articulated::TreeModel& model, articulated::TreeState& state) const {
  const ModelTree& t = model_trees_[tree];
  model = t.model;
  model_trees_.read_state(tree, m_, d_, state);
  const Vector3d g = gravity();
  const auto force_on = [&](int body) {
    articulated::LinkForce out{Vector3d::Zero(), Vector3d::Zero()};
    if (body < 0) return out;
    const Wrench& placed = placed_wrenches_[z(body)];
    out.force = m_.body_mass[body] * g + vector3(d_.xfrc_applied + 6 * body) + placed.force;
    out.moment = vector3(d_.xfrc_applied + 6 * body + 3) + placed.moment;
    return out;
  };
  state.forces[0] = force_on(t.is_floating() ? t.root : -1);
  for (std::size_t i = 0; i < t.bodies.size(); ++i) state.forces[i + 1] = force_on(t.bodies[i]);
  // Forces along coordinates: springs, damping and drag, actuators, and those of the program.
  std::vector<double>& sum = force_scratch_;
  for (int i = 0; i < m_.nv; ++i)
    sum[z(i)] =
        d_.qfrc_passive[i] + d_.qfrc_actuator[i] + d_.qfrc_applied[i] + implicit_forces_[z(i)] - placed_forces_[z(i)];
  std::vector<double>& along = velocity_scratch_;
  along.resize(z(6 + t.model.rates));
  model_trees_.forces_to_core(tree, d_.qpos, sum, along);
  if (t.is_floating()) {
    const Vector3d f = vector3(along.data() + 3), arm = state.at.p - vector3(d_.qpos + m_.jnt_qposadr[t.base_joint]);
    state.forces[0].force += f;
    state.forces[0].moment += vector3(along.data()) - arm.cross(f);
  }
  std::copy(along.begin() + 6, along.end(), state.joint_forces.begin());
}

articulated::LinkModel ModelBinding::read_link(int tree, int link) const {
  const articulated::TreeModel& model = model_trees_[tree].model;
  if (link >= 0) return model.links[z(link)];
  articulated::LinkModel base;
  base.mass = model.base_mass;
  base.inertia = model.base_inertia;
  return base;
}

void ModelBinding::move(int tree, const articulated::Configuration& to) {
  model_trees_.write_configuration(tree, m_, to, d_.qpos);
  was_moved_ = true;
}

void ModelBinding::read_velocity(int tree, std::span<double> v) const {
  if (!is_stepping_) return model_trees_.to_core(tree, d_.qpos, std::span<const double>(d_.qvel, z(m_.nv)), v);
  const auto now = model_trees_.part_of(tree, std::span(host_)),
             change = model_trees_.part_of(tree, std::span(change_));
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = now[i] + change[i];
}

void ModelBinding::read_velocity_change(int tree, std::span<double> dv) const {
  const auto change = model_trees_.part_of(tree, std::span(change_));
  std::copy(change.begin(), change.end(), dv.begin());
}

void ModelBinding::add_velocity(int tree, std::span<double> dv) {
  const auto change = model_trees_.part_of(tree, std::span(change_));
  for (std::size_t i = 0; i < dv.size(); ++i) change[i] += dv[i];
}

void ModelBinding::read_row_wrenches(int tree, std::span<Wrench> on) const {
  const ModelTree& t = model_trees_[tree];
  if (t.is_floating()) on[0] = row_wrenches_[z(t.root)];
  for (std::size_t i = 0; i < t.bodies.size(); ++i)
    if (t.bodies[i] >= 0) on[i + 1] = row_wrenches_[z(t.bodies[i])];
}

}  // namespace linchpin::mujoco
