// JointStep: finds blocks that are alike, and the memory in which their steps are computed.
#include "joint_kernel/dispatch.h"
#include "problem/kept_assembly.h"

#include <algorithm>
#include <atomic>
#include <tuple>
#include <type_traits>
#include <utility>

namespace linchpin::detail {

namespace {
std::size_t z(int i) { return static_cast<std::size_t>(i); }

// The members of the geometry of all primitives, one after the other.
std::vector<double> packed_geometry(const StockJoints& stock, const SymbolicFactor& p) {
  std::vector<double> to;
  const auto add = [&](const auto& member) {
    if constexpr (std::is_same_v<std::decay_t<decltype(member)>, double>)
      to.push_back(member);
    else
      to.insert(to.end(), {member.x(), member.y(), member.z()});
  };
  std::size_t count = 0;
  for_each_primitive(
      [&]<class P>(P) { count += P::template Geometry<Vector3d>::count * p.primitives[index_of<P>()].size(); });
  to.reserve(count);
  for_each_primitive([&]<class P>(P) {
    for (const int k : p.primitives[index_of<P>()]) {
      const auto& from = stock.primitives.of<P>()[z(k)];
      std::apply([&](auto... member) { (add(from.*member), ...); }, P::template Geometry<Vector3d>::members());
    }
  });
  return to;
}
}  // namespace

struct JointShape {
  SymbolicFactor pattern;
  struct Member {
    std::unique_ptr<JointSolver> one, four;
  };
  std::vector<Member> members;
};

JointShapes::JointShapes(int members) : members_(members) {}
JointShapes::~JointShapes() = default;

std::shared_ptr<JointShape> JointShapes::find(JointShape&& shape) {
  std::erase_if(known_, [](const auto& known) { return known.expired(); });
  for (const auto& known : known_)
    if (auto same = known.lock(); same && same->pattern == shape.pattern) {
      for (JointShape::Member& member : same->members)
        if (!member.four) member.four = make_four_lane_joint_solver(same->pattern);
      return same;
    }
  auto made = std::make_shared<JointShape>(std::move(shape));
  made->members.resize(z(members_));
  for (JointShape::Member& member : made->members) member.one = make_joint_solver(made->pattern);
  known_.push_back(made);
  return made;
}

JointStep::JointStep() = default;
JointStep::~JointStep() = default;

bool JointStep::lay_out(const System& system, const Block& block, JointShapes& shapes) {
  coupled_.reset();
  shape_.reset();
  block_.reset();
  StockJoints stock;
  find_stock(system, block, stock);
  if (!stock.rigid || stock.count() == 0) return false;
  for (const BodyId id : block.bodies)
    if (!system.inertia(id).isDiagonal(0)) return false;
  auto made = std::make_unique<JointBlock>();
  made->bodies = block.bodies;
  JointShape shape;
  SymbolicFactor& p = shape.pattern;
  if (!p.lay_out(stock, block, made->bodies)) return false;
  const auto shrink = [](auto&... lists) { (lists.shrink_to_fit(), ...); };
  shrink(p.nodes, p.ancestors, p.descendants, p.descendants_begin, p.updates, p.block_pairs, p.ends_of, p.body_ends,
         p.row_of, p.joint_of);
  for (std::vector<int>& list : p.primitives) list.shrink_to_fit();
  made->geometry = packed_geometry(stock, p);
  made->masses.resize(block.bodies.size());
  shape_ = shapes.find(std::move(shape));
  block_ = std::move(made);
  take_masses(system);
  return true;
}

void JointStep::take_masses(const System& system) {
  static std::atomic<unsigned long> versions = 0;
  block_->version = ++versions;
  inertia_.resize(block_->masses.size());
  for (std::size_t i = 0; i < block_->masses.size(); ++i) {
    const Vector3d I = inertia_[i] = system.inertia(block_->bodies[i]).diagonal();
    const double mass = system.mass(block_->bodies[i]);
    block_->masses[i] = {mass, 1 / mass, I.minCoeff(), I, I.cwiseInverse()};
  }
}

void JointStep::take(const State& state, const Limits& limits, std::span<Job> jobs, int member) {
  JointShape::Member& own = jobs[0].of->shape_->members[z(member)];
  if (jobs.size() > 1 && own.four) return own.four->solve(state, limits, jobs);
  for (Job& job : jobs) own.one->solve(state, limits, {&job, 1});
}

const char* JointStep::begin(const State& state, double gap_tolerance) {
  if (!coupled_) coupled_ = make_coupled_step(shape_->pattern);
  return coupled_->factor(state, *block_, gap_tolerance);
}
double JointStep::reach(double dt, double tolerance, int most_solves, std::span<const double> applied,
                        std::span<const double> Q, std::span<double> v) {
  return coupled_->solve_start_velocities(dt, tolerance, most_solves, applied, Q, v);
}
void JointStep::keep(double time, std::span<const double> applied, std::span<double> v) {
  coupled_->linearized_start_velocities(time, applied, v);
}
void JointStep::hold(std::span<double> v) { coupled_->project_velocities(v); }
bool JointStep::as_one(One& to) const { return coupled_->composite_body(to); }
void JointStep::aim(std::span<const int> bodies) { coupled_->select_bodies(bodies); }
void JointStep::move(std::span<const Push> pushes, std::span<double> to) {
  coupled_->apply_impulses(pushes, to.data());
}
void JointStep::end(const Limits& limits, Job& job) { coupled_->finish(limits, job); }

}  // namespace linchpin::detail
