#include "simulation.h"

#include <nanobind/nanobind.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <utility>

namespace nb = nanobind;

namespace linchpin::python {

PythonSimulation::PythonSimulation(std::shared_ptr<scene::Simulation> simulation, std::string host,
                                   std::function<std::string()> summary)
    : simulation_(std::move(simulation)), host_(std::move(host)), summary_(std::move(summary)) {
  for (const std::string& name : simulation_->joints()) joints_.push_back(simulation_->joint(name));
  const std::size_t bodies = simulation_->model().bodies.size();
  arrays_.q.resize(joints_.size());
  arrays_.v.resize(joints_.size());
  arrays_.position.resize(3 * bodies);
  arrays_.orientation.resize(4 * bodies);
  arrays_.velocity.resize(3 * bodies);
  arrays_.angular_velocity.resize(3 * bodies);
}

PythonSimulation::Access PythonSimulation::use() {
  std::unique_lock<std::recursive_mutex> lock(mutex_, std::try_to_lock);
  if (!lock)
    throw std::runtime_error(
        "another thread uses this simulation. Only one thread at a time can use it; make one simulation for each "
        "thread");
  return {std::move(lock), *simulation_};
}

std::string PythonSimulation::summary() {
  const Access access = use();
  return summary_();
}

void PythonSimulation::step(long count) {
  using Clock = std::chrono::steady_clock;
  const Access access = use();
  Clock::time_point looked = Clock::now();
  for (long i = 0; i < count; ++i) {
    access->step();
    // Ctrl+C ends a long run.
    if ((i & 15) != 15 || Clock::now() - looked < std::chrono::milliseconds(50)) continue;
    const nb::gil_scoped_acquire acquire;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    looked = Clock::now();
  }
  renew();
}

void PythonSimulation::use_joints() {
  joints_in_use_ = true;
  renew();
}

void PythonSimulation::use_bodies() {
  bodies_in_use_ = true;
  renew();
}

void PythonSimulation::renew() {
  for (std::size_t i = 0; joints_in_use_ && i < joints_.size(); ++i) {
    arrays_.q[i] = joints_[i].position();
    arrays_.v[i] = joints_[i].velocity();
  }
  if (!bodies_in_use_) return;
  const std::vector<BodyState>& bodies = simulation_->state().bodies;  // the first one is the world
  for (std::size_t i = 0; 4 * i < arrays_.orientation.size(); ++i) {
    const BodyState& body = bodies[i + 1];
    for (std::size_t k = 0; k < 3; ++k) {
      const auto row = static_cast<Eigen::Index>(k);
      arrays_.position[3 * i + k] = body.p[row];
      arrays_.velocity[3 * i + k] = body.v[row];
      arrays_.angular_velocity[3 * i + k] = body.w[row];
    }
    const double quaternion[] = {body.q.w(), body.q.x(), body.q.y(), body.q.z()};
    std::copy_n(quaternion, 4, &arrays_.orientation[4 * i]);
  }
}

}  // namespace linchpin::python
