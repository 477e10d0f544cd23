#include "indices.h"

#include <linchpin/minimal.h>

#include <algorithm>
#include <stdexcept>

namespace linchpin::minimal {

namespace {
const Reaction no_reaction{};
}  // namespace

Solver::Solver(toy::World& world, const host::SolverOptions& options, host::Capabilities::Coupling coupling)
    : world_(world), solver_(*this, options) {
  if (world.hook()) throw std::invalid_argument("linchpin: the world has a hook already; remove it first");
  solver_.set_capabilities({.coupling = coupling});
  world_.set_hook(this);
}

Solver::~Solver() {
  if (world_.hook() == this) world_.set_hook(nullptr);
}

int Solver::find(std::string_view name) {
  find_joints();
  return solver_.find(name);
}

const Reaction& Solver::reaction(int entry) {
  if (entry < 0 || entry >= solver_.entry_count() || solver_.entry(entry).reaction < 0) return no_reaction;
  solver_.update_redundancy();
  return solver_.reactions()[z(solver_.entry(entry).reaction)];
}

// ---- a step ----

void Solver::begin_step(double dt) {
  dt_ = dt;
  is_integrated_ = is_separated_ = false;
  left_to_host_.clear();
  solver_.begin_step();
  if (listed_ != solver_.structure()) {
    std::vector<int> exact;
    for (int i = 0; i < solver_.entry_count(); ++i)
      if (solver_.entry(i).alive && solver_.entry(i).id.index >= 0 && is_enabled(i)) exact.push_back(i);
    solver_.build_islands(exact);
    listed_ = solver_.structure();
  }
  solver_.begin_islands(dt);  // returns no bodies: the engine refuses a dt that is not positive and finite
}

// In Mode::passive the engine solves everything.
bool Solver::solves_joint(int joint) const {
  const int entry = z(joint) < joints_.size() ? joints_[z(joint)].entry : -1;
  return entry >= 0 && solver_.options().mode == host::Mode::exact && solver_.entry(entry).id.index >= 0 &&
         std::find(left_to_host_.begin(), left_to_host_.end(), entry) == left_to_host_.end();
}

bool Solver::solves_body(int body) const { return z(body) < solved_.size() && solved_[z(body)] != 0; }

void Solver::write() {
  solver_.write_group();
  solver_.write_separate();
  solver_.end_group();
}

void Solver::end_step(double dt) {
  is_integrated_ = true;
  solver_.write_end_velocities();
  solver_.end_step({.dt = dt, .timers_run = false});
}

}  // namespace linchpin::minimal
