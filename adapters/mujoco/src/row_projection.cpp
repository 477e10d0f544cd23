#include "row_projection.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>

namespace linchpin::mujoco {

void RowProjection::begin(const mjModel& m, mjData& d, std::span<const double> rows, int count) {
  count_ = count;
  nv_ = m.nv;
  rows_.assign(rows.begin(), rows.end());
  responses_.resize(rows.size());
  difference_.resize(static_cast<std::size_t>(nv_));
  if (count == 0) return;
  mj_solveM(&m, &d, responses_.data(), rows_.data(), count);
  make_orthonormal();
}

/// Gram–Schmidt in the metric of M⁻¹.
void RowProjection::make_orthonormal() {
  int kept = 0;
  for (int r = 0; r < count_; ++r) {
    if (kept < r) {
      row(kept) = row(r);
      response(kept) = response(r);
    }
    const double square = row(kept).dot(response(kept));
    for (int k = 0; k < kept; ++k) {
      const double part = row(kept).dot(response(k));
      row(kept) -= part * row(k);
      response(kept) -= part * response(k);
    }
    const double left = row(kept).dot(response(kept));
    if (!(left > dependent * square)) continue;
    const double scale = 1 / std::sqrt(left);
    row(kept) *= scale;
    response(kept) *= scale;
    ++kept;
  }
  count_ = kept;
}

void RowProjection::project(std::span<double> J) {
  Eigen::Map<Eigen::VectorXd> of(J.data(), nv_);
  for (int k = 0; k < count_; ++k)
    if (const double part = of.dot(response(k)); part != 0) of -= part * row(k);
}

void RowProjection::constrain(std::span<double> a, std::span<const double> target) {
  if (count_ == 0) return;
  std::transform(target.begin(), target.end(), a.begin(), difference_.begin(), std::minus<>());
  Eigen::Map<Eigen::VectorXd> of(a.data(), nv_), difference(difference_.data(), nv_);
  for (int k = 0; k < count_; ++k) of += row(k).dot(difference) * response(k);
}

}  // namespace linchpin::mujoco
