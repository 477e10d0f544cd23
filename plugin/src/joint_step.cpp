// The plain step of a block of stock joints. Hides the order in which joints are eliminated and in which everything is
// kept: rows, joints and their factor stand in one line, so that each pass reads memory from front to back.
#include "block_cholesky.h"
#include "joint_kernel.h"
#include "joint_pattern.h"
#include "kept_assembly.h"
#include "system_impl.h"

#include <linchpin/detail/joint_step.h>

#include <algorithm>
#include <utility>

namespace linchpin::detail {

namespace {
std::size_t z(int i) { return static_cast<std::size_t>(i); }
}  // namespace

struct JointStep::Impl {
  JointPattern pattern;
  JointKernel<double> kernel;
  std::vector<BodyId> bodies;  // those that move, then those that do not
};

JointStep::JointStep() = default;
JointStep::~JointStep() = default;
JointStep::JointStep(JointStep&&) noexcept = default;
JointStep& JointStep::operator=(JointStep&&) noexcept = default;

bool JointStep::lay_out(const System& system, const Dynamics& dynamics) {
  impl_.reset();
  const StockJoints& stock = stock_of(dynamics);
  const Block& block = dynamics.assembly().block;
  if (!stock.rigid || !stock.axes.empty() || stock.count() == 0) return false;
  auto made = std::make_unique<Impl>();
  made->bodies = block.bodies;
  for (const BodyId id : block.bodies)
    if (!SystemParts::of(system).bodies[z(id.index)].inertia.isDiagonal(0)) return false;
  if (!made->pattern.lay_out(stock, block, made->bodies)) return false;
  made->kernel.lay_out(made->pattern);
  made->kernel.take_geometry(made->pattern, stock, 0);
  impl_ = std::move(made);
  return true;
}

JointStep::Outcome JointStep::take(const System& system, const State& state, const Limits& limits,
                                   const Numbers& numbers) {
  Outcome out;
  if (!impl_) {
    out.refused = "not laid out";
    return out;
  }
  Impl& s = *impl_;
  JointKernel<double>& kernel = s.kernel;
  const auto& bodies = SystemParts::of(system).bodies;
  for (std::size_t i = 0; i < s.bodies.size(); ++i) {
    const BodyId id = s.bodies[i];
    kernel.take_body(static_cast<int>(i), 0, state[id], bodies[z(id.index)].mass, bodies[z(id.index)].inertia);
  }
  kernel.take_forces(0, numbers.Q, numbers.applied);
  kernel.take_start(s.pattern, 0, numbers.newton);
  const JointKernel<double>::Result result = kernel.step(s.pattern, limits);
  out = result.of[0];
  if (out.refused) return out;
  kernel.give(s.pattern, 0, numbers);
  return out;
}

}  // namespace linchpin::detail
