// A simulation as Python sees it: a scene::Simulation on some host, arrays that follow its state, and a lock.
#pragma once

#include <linchpin/scene/simulation.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace linchpin::python {

/// Numbers of all joints and bodies, which NumPy arrays refer to. They keep their place as long as the object. Each
/// call that changes the state renews them.
struct StateArrays {
  std::vector<double> q, v;              ///< Positions and rates of the joints.
  std::vector<double> position;          ///< [bodies × 3] Centres of mass [m].
  std::vector<double> orientation;       ///< [bodies × 4] Unit quaternions w, x, y, z, body to world.
  std::vector<double> velocity;          ///< [bodies × 3] Velocities of the centres of mass [m/s].
  std::vector<double> angular_velocity;  ///< [bodies × 3] Angular velocities [rad/s].
};

/// A simulation that another thread cannot use at the same time. A call from a second thread, while the first one is in
/// a step, throws std::runtime_error.
class PythonSimulation {
 public:
  /// @param host     name of the host, for messages
  /// @param summary  counts and remarks of the host as text
  PythonSimulation(std::shared_ptr<scene::Simulation> simulation, std::string host,
                   std::function<std::string()> summary);

  /// The simulation as long as it is locked for this thread.
  struct Access {
    std::unique_lock<std::recursive_mutex> lock;  ///< the lock
    scene::Simulation& simulation;                ///< the simulation
    scene::Simulation* operator->() const { return &simulation; }
  };
  Access use();                                      ///< Locks the simulation.
  const std::string& host() const { return host_; }  ///< Name of the host.
  std::string summary();                             ///< Counts and remarks of the host.
  /// Takes steps. Python can interrupt it between two of them. Call it without the lock of the interpreter.
  void step(long count);
  /// The joints, in the order of their names.
  std::vector<scene::SimulatedJoint>& joints() { return joints_; }
  const StateArrays& arrays() const { return arrays_; }  ///< The arrays.
  void use_joints();                                     ///< q and v are in use from now on, and are renewed.
  void use_bodies();                                     ///< The arrays of bodies are in use from now on.
  void renew();                                          ///< Renews the arrays that are in use.

 private:
  std::shared_ptr<scene::Simulation> simulation_;
  std::string host_;
  std::function<std::string()> summary_;
  std::vector<scene::SimulatedJoint> joints_;
  StateArrays arrays_;
  bool joints_in_use_ = false, bodies_in_use_ = false;
  std::recursive_mutex mutex_;
};

}  // namespace linchpin::python
