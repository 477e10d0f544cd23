// Joints that are turned far from where they are held.
#include "projection/turned_joints.h"

#include "problem/jacobian_products.h"
#include "projection/stock_joints_of.h"

#include <linchpin/detail/alignment.h>

#include <algorithm>

namespace linchpin {

double detail::widest_turn(const Dynamics& dynamics, const State& state) {
  const StockJoints& stock = stock_of(dynamics);
  double most = 0;
  for (int i = 0; i < stock.count(); ++i) {
    const StockJoints::Joint& joint = stock.joints[z(i)];
    if (joint.alignment < 0) continue;
    const JointRows::Alignment& alignment = stock.alignments[z(joint.alignment)];
    most = std::max(most, turned_away(alignment, state[joint.a].R(), state[joint.b].R()));
  }
  return most;
}

namespace {

/// Sets the dots so that they vanish where the bodies are turned as they are now.
void hold_as_turned(const JointRows::Alignment& alignment, const Matrix3d& A, const Matrix3d& B,
                    detail::DotPrimitive::Geometry<Vector3d>* dots) {
  using Of = JointRows::Alignment::Of;
  const Matrix3d& G = alignment.B;
  const Matrix3d now = A.transpose() * B * G;  // the frame of B, in the axes of A
  if (alignment.of == Of::orientation) {
    for (int i = 0; i < 3; ++i) dots[i] = {now.col(i), G.col((i + 1) % 3), 0};
  } else if (alignment.of == Of::direction) {
    const Vector3d x = now.col(2).unitOrthogonal();
    dots[0] = {x, G.col(2), 0};
    dots[1] = {now.col(2).cross(x), G.col(2), 0};
  } else if (alignment.of == Of::angle) {
    dots[0] = {alignment.A.col(2).cross(now.col(0)), G.col(0), 0};
  } else {
    const Vector3d x = B.transpose() * (A * alignment.A.col(0));
    dots[0] = {alignment.A.col(0), G.col(2).cross(x), 0};
  }
}

}  // namespace

bool detail::hold_as_turned(Dynamics& dynamics, const State& state) {
  auto& stock = const_cast<StockJoints&>(stock_of(dynamics));  // of a Dynamics that may be changed
  if (!stock.rigid) return false;
  auto& dots = stock.primitives.of<DotPrimitive>();
  for (int i = 0; i < stock.count(); ++i) {
    const StockJoints::Joint& joint = stock.joints[z(i)];
    if (joint.alignment < 0) continue;
    const JointRows::Alignment& alignment = stock.alignments[z(joint.alignment)];
    const Matrix3d A = state[joint.a].R(), B = state[joint.b].R();
    if (turned_away(alignment, A, B) > 0)
      linchpin::hold_as_turned(alignment, A, B, dots.data() + joint.first[index_of<DotPrimitive>()]);
  }
  return true;
}

void detail::hold_as_made(const System& system, Dynamics& dynamics) {
  find_stock(system, dynamics.assembly().layout, const_cast<StockJoints&>(stock_of(dynamics)));
}

}  // namespace linchpin
