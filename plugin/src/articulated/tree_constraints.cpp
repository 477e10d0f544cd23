#include "articulated/tree_constraints.h"

#include "articulated/column_parts.h"

#include <linchpin/detail/alignment.h>

#include <Eigen/Cholesky>

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>
#include <numeric>
#include <utility>

namespace linchpin::articulated {

// ---- a tree ----

void ConstrainedTree::refresh() {
  if (factor != Factor::stale) return;
  factor = tree.factorize() ? Factor::good : Factor::singular;
  free.assign(z(tree.columns()), 0);
  if (has_factor()) tree.free_acceleration(free);
}

void ConstrainedTree::set_velocity(std::span<const double> v) {
  const std::vector<double>& start = tree.state().velocity;
  velocity.assign(start.begin(), start.end());
  for (int k = 0; k < tree.columns(); ++k) velocity[z(tree.fixed_velocities() + k)] = v[z(column + k)];
}

void ConstrainedTree::try_motion(std::span<const double> v, double h) {
  set_velocity(v);
  const Configuration& from = tree.state().at;
  // The energy is often asked for the motion that has just been tried.
  if (tried_.h == h && tried_.velocity == velocity && tried_.from == from) return;
  tree.integrate(from, velocity, h, end);
  tree.poses_and_velocities(end, velocity, at_end);
  tried_.h = h;
  tried_.velocity = velocity;
  tried_.from = from;
}

void ConstrainedTree::try_displacement(std::span<const double> d, double scale) {
  set_velocity(d);
  std::fill_n(velocity.begin(), tree.fixed_velocities(), 0.0);
  forget_motion();
  tree.integrate(tree.state().at, velocity, scale, end);
  tree.poses_and_velocities(end, velocity, at_end);
}

double ConstrainedTree::energy_from_rest(const Vector3d& g, double dt) {
  tree.forces_by_cause(g, causes);
  std::vector<double>& force = causes.gravity;
  for (std::size_t k = 0; k < force.size(); ++k) force[k] += causes.applied[k];
  wrenches.assign(z(tree.links() + 1), Vector6::Zero());
  tree.solve_factor(wrenches, force);
  double sum = 0;
  for (const double x : force) sum += x * x;
  return 0.5 * dt * dt * sum;
}

// ---- layout ----

void TreeConstraints::clear() {
  trees_.clear();
  constraints_.clear();
  rigid_.clear();
  problem_.clear();
}

void TreeConstraints::lay_out(std::span<ConstrainedTree* const> trees, std::vector<RigidBody> rigid,
                              std::vector<std::string> names, const SolveOptions& options) {
  trees_.assign(trees.begin(), trees.end());
  rigid_ = std::move(rigid);
  problem_.clear();
  const int n = lay_out_columns(), m = lay_out_rows(std::move(names));
  for (auto* x : {&start_velocity_, &free_, &row_, &problem_.Q, &problem_.c}) x->assign(z(n), 0);
  unit_rows_.assign(z(n), {});
  for (auto* x : {&position_, &velocity_, &error_, &scale_, &problem_.b}) x->assign(z(m), 0);
  rank_.resize(m);
  solver_.set_options(options);
  rank_tolerance_ = options.rank_tolerance;
  is_clear_ = is_factored_ = false;
}

/// @return how many columns there are
int TreeConstraints::lay_out_columns() {
  int n = 0;
  for (ConstrainedTree* t : trees_) {
    if (t->column < 0) continue;
    t->column = n;
    t->wrenches.assign(z(t->tree.links() + 1), Vector6::Zero());
    t->wrench_rows.assign(z(t->tree.links() + 1), {});
    n += t->tree.columns();
    for (const int size : t->tree.column_group_sizes()) {
      problem_.block_sizes.push_back(size);
      for (int i = 0; i < size * size; ++i) problem_.mass.push_back(i % (size + 1) == 0 ? 1 : 0);
    }
  }
  for (RigidBody& b : rigid_) {
    b.column = n;
    problem_.block_sizes.push_back(b.dof);
    problem_.mass.resize(problem_.mass.size() + z(b.dof * b.dof));
    n += b.dof;
  }
  return n;
}

/// @return how many rows there are
int TreeConstraints::lay_out_rows(std::vector<std::string> names) {
  int m = 0;
  problem_.constraints = std::move(names);
  for (std::size_t i = 0; i < constraints_.size(); ++i) {
    ConstraintRows& c = constraints_[i];
    for (ConstraintBody& body : c.bodies)
      for (const RigidBody& b : rigid_)
        if (b.id == body.id) body.column = b.column, body.dof = b.dof;
    lay_out_path(c);
    c.row = m;
    c.rows = c.is_gear() ? 1 : c.constraint->function().rows();
    c.A.assign(z(c.rows) * 6 * c.bodies.size(), 0);
    m += c.rows;
    problem_.row_constraint.insert(problem_.row_constraint.end(), z(c.rows), static_cast<int>(i));
  }
  return m;
}

/// Counts for every link of a tree, base first, how many bodies of a constraint hang on it. Empty where none does.
void TreeConstraints::find_touched_links(const ConstraintRows& c, int tree, std::vector<std::size_t>& touched) const {
  const KinematicTree& t = trees_[z(tree)]->tree;
  touched.clear();
  const auto touch = [&](int of, int link) {
    if (of != tree) return;
    touched.resize(z(t.links() + 1), 0);
    ++touched[0];
    for (int i = link; i >= 0; i = t.link(i).parent) ++touched[z(i + 1)];
  };
  for (const ConstraintBody& body : c.bodies) touch(body.tree, body.link);
  for (const GearTerm& term : c.gear) touch(term.tree, term.link);
}

// Finds what the rows of a constraint may touch: the links of its bodies, or of the coordinates of a gear, with their
// ancestors.
void TreeConstraints::lay_out_path(ConstraintRows& c) {
  c.paths.clear();
  c.columns.clear();
  c.joints = 0;
  std::vector<std::size_t> touched;
  for (std::size_t at = 0; at < trees_.size(); ++at) {
    const ConstrainedTree& t = *trees_[at];
    find_touched_links(c, static_cast<int>(at), touched);
    if (touched.empty()) continue;
    ConstraintRows::Path path{static_cast<int>(at), {}};
    for (int k = 0; k < t.tree.base_columns(); ++k) c.columns.push_back(t.column + k);
    for (int i = 0; i < t.tree.links(); ++i) {
      const LinkModel& link = t.tree.link(i);
      for (int k = 0; touched[z(i + 1)] > 0 && k < link.rates; ++k)
        c.columns.push_back(t.column + t.tree.column_of(link.first_rate + k));
    }
    for (int i = t.tree.links() - 1; i >= -1; --i) {
      if (touched[z(i + 1)] == 0) continue;
      path.links.push_back(i);
      if (i >= 0 && touched[z(i + 1)] < c.bodies.size()) ++c.joints;
    }
    c.paths.push_back(std::move(path));
  }
  for (const ConstraintBody& body : c.bodies)
    for (int k = 0; k < body.dof; ++k) c.columns.push_back(body.column + k);
  std::sort(c.columns.begin(), c.columns.end());  // bodies of a constraint come in any order
  c.columns.erase(std::unique(c.columns.begin(), c.columns.end()), c.columns.end());
}

// ---- linearization ----

void TreeConstraints::write_link_states(State& state) {
  for (ConstrainedTree* t : trees_)
    if (t->column >= 0) t->refresh();
  for (const ConstraintRows& c : constraints_)
    for (const ConstraintBody& body : c.bodies)
      if (body.tree >= 0) state[body.id] = state_of(body, false);
}

BodyState TreeConstraints::state_of(const ConstraintBody& body, bool at_end) const {
  const ConstrainedTree& t = *trees_[z(body.tree)];
  return articulated::state_of(at_end ? t.at_end[z(body.link + 1)] : t.tree.motion(body.link));
}

std::string TreeConstraints::linearize(const System& system, const State& state, double t, FarJoints far_joints) {
  static const char* const singular =
      "the mass matrix of a multibody is not positive definite, or a value is not finite. Check the masses and "
      "inertias of its links";
  for (const ConstrainedTree* tree : trees_)
    if (tree->column >= 0 && !tree->has_factor()) return singular;
  problem_.t = t;
  read_masses_and_forces(system, state);
  rank_.keep_all_rows();
  joint_entries_.clear();
  problem_.entries.clear();
  problem_.row_start.clear();
  for (ConstraintRows& c : constraints_) {
    if (c.is_gear())
      linearize_gear(c);
    else if (std::string why = linearize_function(c, system, state, t, far_joints); !why.empty())
      return why;
  }
  problem_.row_start.push_back(static_cast<int>(problem_.entries.size()));
  const std::span<const double> position = position_, velocity = velocity_, b = problem_.b;
  for (const ConstraintRows& c : constraints_)
    if (!finite(c.own(position)) || !finite(c.own(velocity)) || !finite(c.own(b)))
      return c.is_gear() ? "the residual of a gear or its derivative is not finite"
                         : "constraint '" + c.constraint->name() + "': the residual or a derivative is not finite";
  if (!finite(free_)) return "a force on a multibody, or on a body joined to it, is not finite";
  return factor(system, state) ? "" : singular;
}

/// Few rows whose rank is clear have a factor of their own. All others are for the general solver.
bool TreeConstraints::factor(const System& system, const State& state) {
  is_factored_ = false;
  is_clear_ = rigid_.empty() && gram_.factor(problem_) && rank_.is_clear(gram_.kept(), rank_cut_);
  return is_clear_ || drop_dependent_rows(system, state, rank_cut_);
}

bool TreeConstraints::drop_dependent_rows(const System& system, const State& state, double cut) {
  rank_cut_ = cut;
  is_clear_ = false;
  const TreeRank::Tolerances tolerances{.cut = cut, .rank = rank_tolerance_};
  if (!is_factored_) is_factored_ = solver_.factor(problem_);
  if (!is_factored_) return false;
  if (rank_.drop_dependent_rows(problem_, solver_.info().smallest_pivot, tolerances, system, state, rigid_))
    is_factored_ = solver_.factor(problem_);
  return is_factored_;
}

const ConstraintFactorization& TreeConstraints::solver() const {
  if (is_clear_ && !is_factored_) is_factored_ = solver_.factor(problem_);
  return solver_;
}

/// Where the rigid bodies' blocks begin in the mass: behind those of the trees.
std::size_t TreeConstraints::first_rigid_mass() const {
  std::size_t at = problem_.mass.size();
  for (const RigidBody& b : rigid_) at -= z(b.dof * b.dof);
  return at;
}

void TreeConstraints::read_masses_and_forces(const System& system, const State& state) {
  for (const ConstrainedTree* t : trees_) {
    if (t->column < 0) continue;
    std::copy(t->free.begin(), t->free.end(), free_.begin() + t->column);
    for (int k = 0; k < t->tree.columns(); ++k)
      start_velocity_[z(t->column + k)] = t->tree.state().velocity[z(t->tree.fixed_velocities() + k)];
  }
  std::size_t mass = first_rigid_mass();
  for (const RigidBody& b : rigid_) read_rigid_body(system, state[b.id], b, mass);
}

void TreeConstraints::read_rigid_body(const System& system, const BodyState& state, const RigidBody& b,
                                      std::size_t& mass) {
  Eigen::Matrix<double, 6, 6> M = Eigen::Matrix<double, 6, 6>::Zero();
  M.topLeftCorner<3, 3>().diagonal().setConstant(system.mass(b.id));
  set_three(start_velocity_, b.column, state.v);
  set_three(problem_.Q, b.column, b.force);
  if (b.dof == 6) {
    const Matrix3d I = system.world_inertia(b.id, state.q);
    M.bottomRightCorner<3, 3>() = I;
    set_three(start_velocity_, b.column + 3, state.w);
    set_three(problem_.Q, b.column + 3, b.moment);
    if (b.gyroscopic) add_three(problem_.Q, b.column + 3, -state.w.cross(I * state.w));  // (T2)
    set_three(free_, b.column + 3, I.ldlt().solve(three_at(problem_.Q, b.column + 3)));
  }
  set_three(free_, b.column, three_at(problem_.Q, b.column) / system.mass(b.id));
  for (int r = 0; r < b.dof; ++r)
    for (int c = 0; c < b.dof; ++c) problem_.mass[mass++] = M(r, c);
}

namespace {

/// The polynomial of a gear, its derivative and its second derivative.
std::array<double, 3> derivatives_of(const std::array<double, 5>& polynomial, double x) {
  std::array<double, 3> out{};
  for (std::size_t power = polynomial.size(); power-- > 0;) {
    out[2] = out[2] * x + 2 * out[1];
    out[1] = out[1] * x + out[0];
    out[0] = out[0] * x + polynomial[power];
  }
  return out;
}

}  // namespace

bool ConstraintRows::is_linear_gear() const {
  return std::none_of(gear.begin(), gear.end(), [](const GearTerm& term) { return term.is_input; });
}

void TreeConstraints::linearize_gear(ConstraintRows& c) {
  double phi = -c.gear_target, rate = 0, input = 0, input_rate = 0;
  for (const int k : c.columns) row_[z(k)] = 0;
  for (const GearTerm& term : c.gear) {
    const ConstrainedTree& t = *trees_[z(term.tree)];
    (term.is_input ? input : phi) += term.factor * t.tree.state().at.joints[z(term.position)];
    (term.is_input ? input_rate : rate) += term.factor * t.tree.state().velocity[z(term.velocity)];
  }
  const auto [value, slope, curvature] = derivatives_of(c.gear_polynomial, input);
  for (GearTerm& term : c.gear) {
    const ConstrainedTree& t = *trees_[z(term.tree)];
    term.derivative = term.is_input ? -slope * term.factor : term.factor;
    row_[z(t.column + term.velocity - t.tree.fixed_velocities())] += term.derivative;
  }
  position_[z(c.row)] = phi - value;
  velocity_[z(c.row)] = rate - slope * input_rate;
  problem_.b[z(c.row)] = curvature * input_rate * input_rate;
  rank_.set_length(c.row, 0, 0, c.joints);
  append_joint_row(c);
  constexpr bool is_row = true;
  append_unit_rows(c, 0, {&is_row, 1});
}

/// Rows of a constraint function, [linear; angular] by body, along the columns. @return why not, or empty
std::string TreeConstraints::linearize_function(ConstraintRows& c, const System& system, const State& state, double t,
                                                FarJoints far_joints) {
  states_.clear();
  for (const ConstraintBody& body : c.bodies) {
    states_.push_back(body.id == linchpin::ground ? BodyState{} : state[body.id]);
    if (body.dof > 0) states_.back().a = states_.back().alpha = Vector3d::Zero();
  }
  try {
    const Linearization out{c.A, c.own(std::span(problem_.b)), c.own(std::span(position_)),
                            c.own(std::span(velocity_))};
    c.constraint->function().linearize(states_, t, out);
    if (far_joints == FarJoints::on_way_back) detail::linearize_way_back(c.constraint->function(), states_, out);
  } catch (const std::exception& e) {  // a user's residual: nothing throws out of a step
    return "constraint '" + c.constraint->name() + "': " + e.what();
  }
  for (int first = 0; first < c.rows; first += static_cast<int>(KinematicTree::rows_at_once)) {
    const int end = std::min(c.rows, first + static_cast<int>(KinematicTree::rows_at_once));
    std::array<bool, KinematicTree::rows_at_once> is_row{};
    for (int r = first; r < end; ++r) {
      is_row[z(r - first)] = project_row(c, r);
      append_joint_row(c);
      measure_row(c, r, system, state);
    }
    append_unit_rows(c, first, std::span(is_row).first(z(end - first)));
  }
  return {};
}

// Two links of one tree may have a direction in which no joint moves one against the other, as across the plane of a
// planar loop. The rest of such a row is rounding, and it has to be no row at all (T6).
/// Writes one row of c.A along the columns into row_. @return whether it is one; else it is zero
bool TreeConstraints::project_row(const ConstraintRows& c, int r) {
  const std::size_t K = c.bodies.size();
  double largest_part = 0;  // the largest entry that a single body makes
  for (const int k : c.columns) row_[z(k)] = 0;
  for (std::size_t i = 0; i < K; ++i) {
    const ConstraintBody& body = c.bodies[i];
    const double* row = c.A.data() + (z(r) * K + i) * 6;
    if (body.tree >= 0) {
      const ConstrainedTree& t = *trees_[z(body.tree)];
      largest_part = std::max(largest_part, t.tree.add_jacobian_row(body.link, row, t.own(std::span(row_))));
    }
    for (int k = 0; k < body.dof; ++k) {
      row_[z(body.column + k)] += row[k];
      largest_part = std::max(largest_part, std::abs(row[k]));
    }
  }
  double most = 0;
  for (const int k : c.columns) most = std::max(most, std::abs(row_[z(k)]));
  if (most > rank_tolerance_ * largest_part) return true;
  for (const int k : c.columns) row_[z(k)] = 0;
  double known_bias = 0;  // size of the terms that make b
  for (std::size_t i = 0; i < K; ++i)
    for (int k = 0; k < 3; ++k) {
      const double* row = c.A.data() + (z(r) * K + i) * 6;
      known_bias += std::abs(row[k] * states_[i].a[k]) + std::abs(row[3 + k] * states_[i].alpha[k]);
    }
  double& b = problem_.b[z(c.row + r)];
  if (std::abs(b) <= rank_tolerance_ * known_bias) b = 0;
  return false;
}

/// Gives the rank decision the length that a row would have if its links were bodies of their own.
void TreeConstraints::measure_row(const ConstraintRows& c, int row, const System& system, const State& state) {
  double links_square = 0, rigid_square = 0;
  for (std::size_t k = 0; k < c.bodies.size(); ++k) {
    const ConstraintBody& body = c.bodies[k];
    const double* A = c.A.data() + (z(row) * c.bodies.size() + k) * 6;
    const Vector3d force(A[0], A[1], A[2]), moment(A[3], A[4], A[5]);
    if (body.tree >= 0) {
      const KinematicTree& tree = trees_[z(body.tree)]->tree;
      if (!tree.can_move(body.link)) continue;
      const Vector3d m = tree.motion(body.link).R.transpose() * moment;
      links_square += force.squaredNorm() / tree.model().mass(body.link) +
                      m.dot(tree.model().inertia(body.link).cwiseInverse().asDiagonal() * m);
    } else if (body.dof > 0) {
      rigid_square += force.squaredNorm() / system.mass(body.id);
      if (body.dof == 6)
        rigid_square += moment.dot(system.world_inertia(body.id, state[body.id].q).ldlt().solve(moment));
    }
  }
  rank_.set_length(c.row + row, links_square, rigid_square, c.joints);
}

/// Appends the row in row_ to the rows in joint coordinates.
void TreeConstraints::append_joint_row(const ConstraintRows& c) {
  for (const int k : c.columns) joint_entries_.push_back({k, row_[z(k)]});
}

// A row of bodies is made from the wrenches on its links, which keeps digits that sums along the coordinates would
// lose.
/// Appends the last joint rows in the solver's columns.
/// @param first   of the rows in c.A  @param is_row  by row: whether it has entries
void TreeConstraints::append_unit_rows(const ConstraintRows& c, int first, std::span<const bool> is_row) {
  const std::size_t count = is_row.size(), size = c.columns.size(), K = c.bodies.size();
  const ConstrainedProblem::Entry* const joint_rows = joint_entries_.data() + (joint_entries_.size() - count * size);
  for (std::size_t i = 0; i < size; ++i)
    for (std::size_t r = 0; r < KinematicTree::rows_at_once; ++r)
      unit_rows_[z(c.columns[i])][r] = r < count ? joint_rows[r * size + i].value : 0;
  for (const ConstraintRows::Path& path : c.paths) {
    ConstrainedTree& t = *trees_[z(path.tree)];
    for (const int i : path.links) t.wrench_rows[z(i + 1)] = {};
    t.wrench_rows[0] = {};
    if (!c.is_gear()) {
      for (const int k : c.columns)
        if (k >= t.column && k < t.column + t.tree.columns()) unit_rows_[z(k)] = {};
      for (std::size_t r = 0; r < count; ++r)
        for (std::size_t i = 0; is_row[r] && i < K; ++i) {
          if (c.bodies[i].tree != path.tree) continue;
          KinematicTree::WrenchRows& on = t.wrench_rows[z(c.bodies[i].link + 1)];
          const double* const A = c.A.data() + ((z(first) + r) * K + i) * 6;
          for (std::size_t k = 0; k < 6; ++k) on[k][r] += A[k];
        }
    }
    t.tree.solve_factor(path.links, t.wrench_rows, std::span(unit_rows_).subspan(z(t.column), z(t.tree.columns())));
  }
  for (std::size_t r = 0; r < count; ++r) {
    problem_.row_start.push_back(static_cast<int>(problem_.entries.size()));
    for (const int k : c.columns) problem_.entries.push_back({k, unit_rows_[z(k)][r]});
  }
}

// ---- products ----

void TreeConstraints::to_joint_coordinates(std::span<double> v) const {
  for (const ConstrainedTree* t : trees_)
    if (t->column >= 0) t->tree.solve_factor_transposed(t->own(v));
}

void TreeConstraints::row_velocities(std::span<const double> v, std::span<double> out) const {
  for (int r = 0; r < problem_.m(); ++r) {
    double sum = 0;
    for (int k = problem_.row_start[z(r)]; k < problem_.row_start[z(r + 1)]; ++k)
      sum += joint_entries_[z(k)].value * v[z(joint_entries_[z(k)].column)];
    out[z(r)] = sum;
  }
}

void TreeConstraints::solve(std::span<const double> e, std::span<double> lambda, std::span<double> dv) const {
  if (is_clear_)
    gram_.solve(problem_, e, lambda, dv);
  else
    solver_.apply(e, lambda, {}, dv);
  to_joint_coordinates(dv);
}

void TreeConstraints::solve_kept(std::span<double> e, std::span<double> lambda, std::span<double> dv) const {
  rank_.zero_dropped_rows(e);
  solve(e, lambda, dv);
}

void TreeConstraints::row(int r, std::span<double> out) const {
  std::fill(out.begin(), out.end(), 0.0);
  for (int k = problem_.row_start[z(r)]; k < problem_.row_start[z(r + 1)]; ++k)
    out[z(joint_entries_[z(k)].column)] = joint_entries_[z(k)].value;
}

double TreeConstraints::solve_forces(std::span<double> lambda, std::span<double> acceleration) {
  row_velocities(free_, error_);
  for (int r = 0; r < problem_.m(); ++r) {
    double size = std::abs(problem_.b[z(r)]);
    for (int k = problem_.row_start[z(r)]; k < problem_.row_start[z(r + 1)]; ++k)
      size += std::abs(joint_entries_[z(k)].value * free_[z(joint_entries_[z(k)].column)]);
    scale_[z(r)] = rank_.is_dropped(r) ? 0 : size;
    error_[z(r)] = problem_.b[z(r)] - error_[z(r)];
  }
  rank_.zero_dropped_rows(error_);
  const double contradiction = is_clear_ ? gram_.solve_refined(problem_, error_, scale_, lambda, acceleration)
                                         : solver_.apply(error_, lambda, {}, acceleration, scale_);
  to_joint_coordinates(acceleration);
  return contradiction;
}

void TreeConstraints::add_constraint_force(const ConstrainedTree& t, Columns in, std::span<const double> lambda,
                                           std::span<double> out) const {
  const std::vector<ConstrainedProblem::Entry>& entries = in == Columns::joint ? joint_entries_ : problem_.entries;
  for (int r = 0; r < problem_.m(); ++r)
    for (int k = problem_.row_start[z(r)]; k < problem_.row_start[z(r + 1)]; ++k)
      if (const int c = entries[z(k)].column - t.column; c >= 0 && c < t.tree.columns())
        out[z(c)] += entries[z(k)].value * lambda[z(r)];
}

Vector6 TreeConstraints::wrench_on(const ConstraintRows& c, int k, std::span<const double> lambda) const {
  Vector6 out = Vector6::Zero();
  const std::size_t K = c.bodies.size();
  if (c.is_gear()) {  // along the joint's axis, on its link
    const GearTerm& term = c.gear[z(k)];
    const ConstraintBody& body = c.bodies[z(k)];
    const KinematicTree& tree = trees_[z(body.tree)]->tree;
    const LinkModel& link = tree.link(body.link);
    const Matrix3d& R = tree.motion(body.link).R;
    const double size = lambda[z(c.row)] * term.derivative;
    if (link.joint == JointKind::prismatic)
      out.head<3>() = size * (R * link.linear[0]);
    else
      out.tail<3>() = size * (R * link.angular[0]);
    return out;
  }
  for (int r = 0; r < c.rows; ++r)
    for (int i = 0; i < 6; ++i) out[i] += c.A[(z(r) * K + z(k)) * 6 + z(i)] * lambda[z(c.row + r)];
  return out;
}

double TreeConstraints::largest_gap() const {
  double most = 0;
  for (int r = 0; r < problem_.m(); ++r)
    if (!rank_.is_dropped(r)) most = std::max(most, std::abs(position_[z(r)]));
  return most;
}

double TreeConstraints::gear_residual_at_end(const ConstraintRows& c) const {
  double phi = -c.gear_target, input = 0;
  for (const GearTerm& term : c.gear)
    (term.is_input ? input : phi) += term.factor * trees_[z(term.tree)]->end.joints[z(term.position)];
  return phi - derivatives_of(c.gear_polynomial, input)[0];
}

double TreeConstraints::pose_rounding() const {
  double extent = 0;
  for (const ConstrainedTree* t : trees_) {
    if (t->column < 0) continue;
    for (const LinkMotion& at : t->tree.motions()) extent = std::max(extent, at.p.cwiseAbs().maxCoeff());
  }
  return 4 * std::numeric_limits<double>::epsilon() * extent;
}

ConstrainedProblem TreeConstraints::problem_in_joint_coordinates() const {
  ConstrainedProblem out = problem_;
  out.entries = joint_entries_;
  out.block_sizes.clear();
  out.mass.clear();
  std::vector<double> M;
  for (const ConstrainedTree* t : trees_) {
    if (t->column < 0) continue;
    t->tree.generalized_force(t->own(std::span(out.Q)));
    t->tree.mass_matrix(M);
    int at = 0;
    for (const int size : t->tree.mass_block_sizes()) {
      if (size > 0) out.block_sizes.push_back(size);
      for (int r = at; r < at + size; ++r) {
        const auto row = std::span(M).subspan(z(r) * z(t->tree.columns()) + z(at), z(size));
        out.mass.insert(out.mass.end(), row.begin(), row.end());
      }
      at += size;
    }
  }
  for (const RigidBody& b : rigid_) out.block_sizes.push_back(b.dof);
  out.mass.insert(out.mass.end(), problem_.mass.begin() + static_cast<std::ptrdiff_t>(first_rigid_mass()),
                  problem_.mass.end());
  return out;
}

}  // namespace linchpin::articulated
