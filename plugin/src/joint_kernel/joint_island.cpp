// JointIsland: finds islands of one topology, and the memory in which their steps are computed.
#include "joint_kernel/dispatch.h"
#include "math/vector_ops.h"
#include "model/force_rows.h"
#include "problem/kept_assembly.h"

#include <algorithm>
#include <atomic>
#include <tuple>
#include <type_traits>
#include <utility>

namespace linchpin::detail {

namespace {
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

struct JointTopology {
  SymbolicFactor pattern;
  struct Solvers {
    std::unique_ptr<JointSolver> one, four;  ///< of one lane; of four, once two islands have the topology
  };
  std::vector<Solvers> workers;
};

JointTopologies::JointTopologies(int workers) : workers_(workers) {}
JointTopologies::~JointTopologies() = default;

std::shared_ptr<JointTopology> JointTopologies::find(JointTopology&& topology) {
  std::erase_if(known_, [](const auto& known) { return known.expired(); });
  for (const auto& known : known_)
    if (auto same = known.lock(); same && same->pattern == topology.pattern) {
      for (JointTopology::Solvers& worker : same->workers)
        if (!worker.four) worker.four = make_four_lane_joint_solver(same->pattern);
      return same;
    }
  auto made = std::make_shared<JointTopology>(std::move(topology));
  made->workers.resize(z(workers_));
  for (JointTopology::Solvers& worker : made->workers) worker.one = make_joint_solver(made->pattern);
  known_.push_back(made);
  return made;
}

JointIsland::JointIsland() = default;
JointIsland::~JointIsland() = default;

bool JointIsland::lay_out(const System& system, const IslandLayout& layout, JointTopologies& topologies) {
  coupled_.reset();
  topology_.reset();
  data_.reset();
  StockJoints stock;
  find_stock(system, layout, stock, CompliantJoints::are_stock);
  if (!stock.rigid || stock.count() == 0) return false;
  for (const BodyId id : layout.bodies)
    if (!system.inertia(id).isDiagonal(0)) return false;
  auto made = std::make_unique<JointIslandData>();
  made->bodies = layout.bodies;
  JointTopology topology;
  SymbolicFactor& p = topology.pattern;
  if (!p.lay_out(stock, layout, made->bodies)) return false;
  const auto shrink = [](auto&... lists) { (lists.shrink_to_fit(), ...); };
  shrink(p.nodes, p.ancestors, p.descendants, p.descendants_begin, p.updates, p.block_pairs, p.ends_of, p.body_ends,
         p.row_of, p.joint_of);
  for (std::vector<int>& list : p.primitives) list.shrink_to_fit();
  made->geometry = packed_geometry(stock, p);
  for (const SymbolicFactor::CompliantRow& row : p.compliant) {
    const StockJoints::Joint& joint = stock.joints[z(row.joint)];
    const RowSpring& spring = joint.compliance->springs[z(row.joint_row)];
    if (!(spring.stiffness + spring.damping > 0)) return false;
    made->springs.push_back({joint.constraint, row.joint_row, spring.stiffness, spring.damping});
  }
  made->masses.resize(layout.bodies.size());
  topology_ = topologies.find(std::move(topology));
  data_ = std::move(made);
  read_masses(system);
  return true;
}

void JointIsland::read_masses(const System& system) {
  static std::atomic<unsigned long> versions = 0;
  data_->version = ++versions;
  inertia_.resize(data_->masses.size());
  for (std::size_t i = 0; i < data_->masses.size(); ++i) {
    const Vector3d I = inertia_[i] = system.inertia(data_->bodies[i]).diagonal();
    const double mass = system.mass(data_->bodies[i]);
    data_->masses[i] = {mass, 1 / mass, I.minCoeff(), I, I.cwiseInverse()};
  }
}

void JointIsland::solve_steps(const State& state, const Limits& limits, std::span<Job> jobs, int worker) {
  JointTopology::Solvers& own = jobs[0].island->topology_->workers[z(worker)];
  if (jobs.size() > 1 && own.four) return own.four->solve(state, limits, jobs);
  for (Job& job : jobs) own.one->solve(state, limits, {&job, 1});
}

std::span<const JointIsland::Spring> JointIsland::springs() const {
  return data_ ? std::span<const Spring>(data_->springs) : std::span<const Spring>();
}

JointIsland::Refusal JointIsland::factor(const State& state, double dt, double gap_tolerance) {
  if (!coupled_) coupled_ = make_coupled_step(topology_->pattern);
  return coupled_->factor(state, *data_, dt, gap_tolerance);
}
double JointIsland::find_start_velocities(double dt, double tolerance, int max_solves, std::span<const double> applied,
                                          std::span<const double> Q, std::span<double> v) {
  return coupled_->find_start_velocities(dt, tolerance, max_solves, applied, Q, v);
}
void JointIsland::find_linearized_start_velocities(double time, std::span<const double> applied, std::span<double> v) {
  coupled_->find_linearized_start_velocities(time, applied, v);
}
void JointIsland::project(std::span<double> v) { coupled_->project(v); }
bool JointIsland::composite_body(CompositeMass& to) const { return coupled_->composite_body(to); }
void JointIsland::select_response_bodies(std::span<const int> bodies) { coupled_->select_response_bodies(bodies); }
void JointIsland::find_impulse_responses(std::span<const Impulse> impulses, std::span<double> to) {
  coupled_->find_impulse_responses(impulses, to.data());
}
void JointIsland::solve_end_of_step(const Limits& limits, Job& job) { coupled_->solve_end_of_step(limits, job); }

}  // namespace linchpin::detail
