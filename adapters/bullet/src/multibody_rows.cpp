// The problem of constraints on links at one state: masses, free accelerations, rows in the multibodies' own
// coordinates and in the solver's columns (T5).
#include "multibody.h"

#include "bodies.h"
#include "columns.h"

#include <Eigen/Cholesky>

#include <utility>

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

Multibodies::Tree& Multibodies::ready(Tree& t) {
  if (std::exchange(t.ready, true)) return t;
  t.good = t.a.factorize();
  t.free.assign(z(t.a.columns()), 0);
  if (t.good) t.a.free_acceleration(t.free);
  return t;
}

/// From the solver's columns to the multibodies' own coordinates.
void Multibodies::from_unit(std::span<double> v) const {
  for (const auto& t : trees_)
    if (t->column >= 0) t->a.solve_factor_transposed(v.subspan(z(t->column), z(t->a.columns())));
}

void Multibodies::states_at_start() {
  for (auto& t : trees_)
    if (t->column >= 0) ready(*t);
  for (const Item& item : items_)
    for (const Part& p : item.parts) {
      if (p.tree >= 0)
        engine_.state_[p.id] = state_of(p, false);
      else if (p.id != linchpin::world)
        engine_.sync_body(p.id);
    }
}

BodyState Multibodies::state_of(const Part& p, bool end) const {
  const Tree& t = *trees_[z(p.tree)];
  const articulated::LinkMotion& at = (end ? t.at_end : t.a.motions())[z(p.link + 1)];
  return BodyState{at.p, Quaterniond(at.R), at.v, at.w, at.a, at.alpha};
}

// A, b, M and a of the problem, and its factor.
bool Multibodies::linearize() {
  for (const auto& t : trees_) {
    if (t->column < 0 || t->good) continue;
    fail("a mass matrix is not positive definite, or a number is not finite");
    return false;
  }
  masses_and_forces();
  std::fill(silent_.begin(), silent_.end(), 0);
  entries_.clear();
  unit_.entries.clear();
  unit_.row_start.clear();
  for (Item& item : items_) {
    if (!item.coordinates.empty())
      gear_row(item);
    else if (!rows_of(item))
      return false;
  }
  unit_.row_start.push_back(static_cast<int>(unit_.entries.size()));
  if (!finite(position_) || !finite(velocity_) || !finite(unit_.b) || !finite(free_)) {
    fail("a residual, its derivatives or a force is not finite");
    return false;
  }
  if (solver_.factor(unit_) && settle_rank()) return true;
  fail("a mass matrix is not positive definite, or a number is not finite");
  return false;
}

/// Where the rigid bodies' blocks begin in the mass: at the end, behind the multibodies'.
std::size_t Multibodies::mass_of_bodies() const {
  std::size_t at = unit_.mass.size();
  for (const Moving& b : moving_) at -= z(b.dof * b.dof);
  return at;
}

void Multibodies::masses_and_forces() {
  unit_.t = engine_.t_;
  for (auto& t : trees_) {
    if (t->column < 0) continue;
    std::copy(t->free.begin(), t->free.end(), free_.begin() + t->column);
    for (int k = 0; k < t->a.columns(); ++k)
      v0_[z(t->column + k)] = t->a.state().velocity[z(t->a.fixed_velocities() + k)];
  }
  std::size_t mass = mass_of_bodies();
  for (const Moving& b : moving_) {
    const BodyState& s = engine_.state_[b.id];
    Eigen::Matrix<double, 6, 6> M = Eigen::Matrix<double, 6, 6>::Zero();
    M.topLeftCorner<3, 3>().diagonal().setConstant(engine_.system_.mass(b.id));
    put(v0_, b.column, s.v);
    put(unit_.Q, b.column, from_bullet(b.body->getTotalForce()));
    if (b.dof == 6) {
      const Matrix3d I = engine_.system_.world_inertia(b.id, s.q);
      M.bottomRightCorner<3, 3>() = I;
      put(v0_, b.column + 3, s.w);
      put(unit_.Q, b.column + 3, from_bullet(b.body->getTotalTorque()));
      if (is_gyroscopic(b.body->getFlags())) bullet::add(unit_.Q, b.column + 3, -s.w.cross(I * s.w));  // (T2)
      put(free_, b.column + 3, I.ldlt().solve(head(unit_.Q, b.column + 3)));
    }
    put(free_, b.column, head(unit_.Q, b.column) / engine_.system_.mass(b.id));
    for (int r = 0; r < b.dof; ++r)
      for (int c = 0; c < b.dof; ++c) unit_.mass[mass++] = M(r, c);
  }
}

void Multibodies::gear_row(const Item& item) {
  double phi = -item.target, rate = 0;
  for (const int c : item.columns) dense_[z(c)] = 0;
  for (const Coordinate& c : item.coordinates) {
    const Tree& t = *trees_[z(c.tree)];
    phi += c.factor * t.a.state().at.joints[z(c.position)];
    rate += c.factor * t.a.state().velocity[z(c.rate)];
    dense_[z(t.column + c.rate - t.a.fixed_velocities())] += c.factor;
  }
  position_[z(item.row)] = phi;
  velocity_[z(item.row)] = rate;
  unit_.b[z(item.row)] = 0;
  length_[z(item.row)] = length_beside_[z(item.row)] = 0;
  append_row(item, -1);
}

// Rows of a constraint function, [linear; angular] by part, along the columns.
bool Multibodies::rows_of(Item& item) {
  const auto own = [&](std::vector<double>& x) { return std::span(x).subspan(z(item.row), z(item.rows)); };
  X_.clear();
  for (const Part& p : item.parts) {
    X_.push_back(p.id == linchpin::world ? BodyState{} : engine_.state_[p.id]);
    if (p.dof > 0) X_.back().a = X_.back().alpha = Vector3d::Zero();
  }
  try {
    const Linearization out{item.A, own(unit_.b), own(position_), own(velocity_)};
    item.constraint->function().linearize(X_, engine_.t_, out);
    if (closing_) detail::linearize_way_back(item.constraint->function(), X_, out);
  } catch (const std::exception& e) {  // a user's residual: nothing throws out of a step
    fail("constraint '" + record(item).name + "': " + e.what());
    return false;
  }
  const std::size_t K = item.parts.size();
  for (int r = 0; r < item.rows; ++r) {
    for (const int c : item.columns) dense_[z(c)] = 0;
    double alone = 0, known = 0;  // what single parts make of the row, and of b
    for (std::size_t k = 0; k < K; ++k) {
      const Part& p = item.parts[k];
      const double* row = item.A.data() + (z(r) * K + k) * 6;
      if (p.tree >= 0) {
        const Tree& t = *trees_[z(p.tree)];
        for (const int c : item.columns) part_row_[z(c)] = 0;
        t.a.add_jacobian_row(p.link, row, std::span(part_row_).subspan(z(t.column), z(t.a.columns())));
        for (const int c : item.columns) {
          dense_[z(c)] += part_row_[z(c)];
          alone = std::max(alone, std::abs(part_row_[z(c)]));
        }
      }
      for (int c = 0; c < p.dof; ++c) {
        dense_[z(p.column + c)] += row[c];
        alone = std::max(alone, std::abs(row[c]));
      }
      for (int c = 0; c < 3; ++c) known += std::abs(row[c] * X_[k].a[c]) + std::abs(row[3 + c] * X_[k].alpha[c]);
    }
    // Two links of one multibody may have a direction in which none of its joints moves one against the other, as
    // across the plane of a planar loop: what is left of such a row is rounding, and to be no row at all (T6).
    double most = 0;
    for (const int c : item.columns) most = std::max(most, std::abs(dense_[z(c)]));
    const bool none = most <= engine_.options_.rank_tolerance * alone;
    if (none) {
      for (const int c : item.columns) dense_[z(c)] = 0;
      double& b = unit_.b[z(item.row + r)];
      if (std::abs(b) <= engine_.options_.rank_tolerance * known) b = 0;
    }
    append_row(item, none ? -1 : r);
    measure_row(item, r);
  }
  return true;
}

// The row in dense_, and what it is in the solver's columns: from the wrenches of its parts on their links, where it is
// such a row, which keeps digits that sums along the coordinates would lose.
void Multibodies::append_row(const Item& item, int row) {
  unit_.row_start.push_back(static_cast<int>(unit_.entries.size()));
  for (const int c : item.columns) unit_row_[z(c)] = dense_[z(c)];
  for (const Path& path : item.paths) {
    Tree& t = *trees_[z(path.tree)];
    const auto w = std::span(unit_row_).subspan(z(t.column), z(t.a.columns()));
    for (const int i : path.links) t.on[z(i + 1)].setZero();
    t.on[0].setZero();
    if (row >= 0) {
      for (const int c : item.columns)
        if (c >= t.column && c < t.column + t.a.columns()) unit_row_[z(c)] = 0;
      const std::size_t K = item.parts.size();
      for (std::size_t k = 0; k < K; ++k)
        if (item.parts[k].tree == path.tree)
          t.on[z(item.parts[k].link + 1)] += Eigen::Map<const Vector6>(item.A.data() + (z(row) * K + k) * 6);
    }
    t.a.solve_factor(path.links, t.on, w);
  }
  for (const int c : item.columns) {
    entries_.push_back({c, dense_[z(c)]});
    unit_.entries.push_back({c, unit_row_[z(c)]});
  }
}

void Multibodies::velocities_of(const Tree& t, std::span<const double> v, std::vector<double>& u) const {
  u.assign(t.a.state().velocity.begin(), t.a.state().velocity.end());
  for (int k = 0; k < t.a.columns(); ++k) u[z(t.a.fixed_velocities() + k)] = v[z(t.column + k)];
}

/// As they are now, with what Bullet's rows have added.
void Multibodies::velocities_of_links(std::span<double> v) const {
  for (const auto& t : trees_) {
    if (t->column < 0) continue;
    for (int k = 0; k < t->a.columns(); ++k) {
      const int i = t->a.fixed_velocities() + k;
      v[z(t->column + k)] = double(t->body->getVelocityVector()[i]) + double(t->body->getDeltaVelocityVector()[i]);
    }
  }
}

void Multibodies::row_velocities(std::span<const double> v, std::span<double> out) const {
  for (int r = 0; r < unit_.m(); ++r) {
    double sum = 0;
    for (int k = unit_.row_start[z(r)]; k < unit_.row_start[z(r + 1)]; ++k)
      sum += entries_[z(k)].value * v[z(entries_[z(k)].column)];
    out[z(r)] = sum;
  }
}

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
