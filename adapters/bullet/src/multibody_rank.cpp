// Which rows say something of their own. Joint coordinates shrink a row of a loop to what the joints let it say, and a
// row of any size is a row to the solver: whether it is more than the rounding of a file is seen from the bodies it is
// between, as where every link is a body and every joint a constraint.
#include "multibody.h"

#include "bodies.h"
#include "columns.h"

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

/// length_: of a row of B if its links were bodies of their own, whose joints' rows share in it. length_beside_: the
/// square of what of it is in the columns of rigid bodies.
void Multibodies::measure_row(const Item& item, int row) {
  double square = 0, beside = 0;
  for (std::size_t k = 0; k < item.parts.size(); ++k) {
    const Part& p = item.parts[k];
    const double* A = item.A.data() + (z(row) * item.parts.size() + k) * 6;
    const Vector3d force(A[0], A[1], A[2]), moment(A[3], A[4], A[5]);
    if (p.tree >= 0) {
      const KinematicTree& a = trees_[z(p.tree)]->a;
      if (!a.can_move(p.link)) continue;
      const Vector3d m = a.motions()[z(p.link + 1)].R.transpose() * moment;
      square += force.squaredNorm() / a.model().mass(p.link) +
                m.dot(a.model().inertia(p.link).cwiseInverse().asDiagonal() * m);
    } else if (p.dof > 0) {
      beside += force.squaredNorm() / engine_.system_.mass(p.id);
      if (p.dof == 6)
        beside += moment.dot(engine_.system_.world_inertia(p.id, engine_.state_[p.id].q).ldlt().solve(moment));
    }
  }
  square += beside;
  length_[z(item.row + row)] = std::isfinite(square) ? std::sqrt(square * (1 + item.joints)) : 0;
  length_beside_[z(item.row + row)] = beside;
}

/// Leaves out rows of which less than cut_ is left, in lengths of their bodies, across those before: the longest first,
/// so that those that say least are the ones to go. The solver sees to those that repeat others to rounding.
bool Multibodies::settle_rank() {
  const std::size_t m = z(unit_.m()), n = z(unit_.n());
  double least = 1;
  for (std::size_t r = 0; r < m; ++r) {
    double size = length_beside_[r];
    for (int k = unit_.row_start[r]; k < unit_.row_start[r + 1]; ++k)
      if (const double x = unit_.entries[z(k)].value; unit_.entries[z(k)].column < bodies_from_) size += x * x;
    size = std::sqrt(size);
    if (size > 0) least = std::min(least, size / std::max(length_[r], size));
  }
  // What is clear is so without a closer look, at every row against every other; of very many rows none is taken.
  constexpr double clear = 100;
  constexpr std::size_t many = 500;
  if (m > many || !(least * std::sqrt(solver_.info().smallest_pivot) < clear * cut_)) return true;

  rest_.assign(m * n, 0);
  const auto rest = [&](std::size_t r) { return Eigen::Map<Eigen::VectorXd>(rest_.data() + r * n, unit_.n()); };
  for (std::size_t r = 0; r < m; ++r) {
    for (int k = unit_.row_start[r]; k < unit_.row_start[r + 1]; ++k)
      rest(r)[unit_.entries[z(k)].column] = unit_.entries[z(k)].value;
    for (const Moving& b : moving_) {
      rest(r).segment<3>(b.column) /= std::sqrt(engine_.system_.mass(b.id));
      if (b.dof == 6)
        engine_.system_.world_inertia(b.id, engine_.state_[b.id].q)
            .llt()
            .matrixL()
            .solveInPlace(rest(r).segment<3>(b.column + 3));
    }
    const double own = rest(r).norm();
    if (own > 0) rest(r) /= std::max(own, length_[r]);
    rest_size_[r] = rest(r).norm();
  }
  done_.assign(m, 0);
  for (;;) {
    std::size_t next = m;
    double most = cut_;
    for (std::size_t r = 0; r < m; ++r)
      if (const double size = rest(r).norm(); !done_[r] && size > most) most = size, next = r;
    if (next == m) break;
    done_[next] = 1;
    rest(next) /= most;
    for (std::size_t r = 0; r < m; ++r)
      for (int twice = 0; !done_[r] && twice < 2; ++twice) rest(r) -= rest(next).dot(rest(r)) * rest(next);
  }
  bool any = false;
  for (std::size_t r = 0; r < m; ++r) {
    if (done_[r] || silent_[r] || rest(r).norm() <= engine_.options_.rank_tolerance * rest_size_[r]) continue;
    silent_[r] = any = true;
    for (int k = unit_.row_start[r]; k < unit_.row_start[r + 1]; ++k) unit_.entries[z(k)].value = 0;
  }
  return !any || solver_.factor(unit_);
}

/// Nothing is asked of rows that are left out.
void Multibodies::hush(std::span<double> e) const {
  for (std::size_t r = 0; r < silent_.size(); ++r)
    if (silent_[r]) e[r] = 0;
}

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
