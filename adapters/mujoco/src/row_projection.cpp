#include "row_projection.h"

#include <algorithm>
#include <cstddef>
#include <functional>

namespace linchpin::mujoco {

void RowProjection::begin(const mjModel& m, mjData& d, std::span<const double> rows, int count) {
  count_ = count;
  nv_ = m.nv;
  rows_.assign(rows.begin(), rows.end());
  responses_.resize(rows.size());
  difference_.resize(static_cast<std::size_t>(nv_));
  taken_.resize(count_);
  if (count == 0) return;
  mj_solveM(&m, &d, responses_.data(), rows_.data(), count);
  compliance_.noalias() = this->rows().lazyProduct(responses().transpose());
  factor_.compute(compliance_);
}

void RowProjection::project(std::span<double> row) {
  if (count_ == 0) return;
  Eigen::Map<Eigen::VectorXd> J(row.data(), nv_);
  taken_.noalias() = responses().lazyProduct(J);
  factor_.solveInPlace(taken_);
  J.noalias() -= rows().transpose().lazyProduct(taken_);
}

void RowProjection::constrain(std::span<double> a, std::span<const double> target) {
  if (count_ == 0) return;
  std::transform(target.begin(), target.end(), a.begin(), difference_.begin(), std::minus<>());
  taken_.noalias() = rows().lazyProduct(Eigen::Map<const Eigen::VectorXd>(difference_.data(), nv_));
  factor_.solveInPlace(taken_);
  Eigen::Map<Eigen::VectorXd>(a.data(), nv_).noalias() += responses().transpose().lazyProduct(taken_);
}

}  // namespace linchpin::mujoco
