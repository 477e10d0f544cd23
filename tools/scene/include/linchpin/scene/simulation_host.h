// What steps the bodies of a scene::Simulation. Without an engine this is a Stepper. linchpin/bullet_simulation.h has
// the hosts of Bullet.
#pragma once

#include <linchpin/scene.h>
#include <linchpin/scene/export.h>

#include <functional>
#include <memory>

namespace linchpin::scene {

/// The state to which the forces of a SimulationHost belong.
enum class ForceInstant {
  present,            ///< They belong to the present state.
  start_of_last_step  ///< They acted in the last step, and belong to the state with which it began.
};

/// Steps the bodies of one model. One thread at a time may use it.
class LINCHPIN_SCENE_API SimulationHost {
 public:
  virtual ~SimulationHost();
  /// The system of the model, for names, masses and equations.
  virtual const System& system() const = 0;
  /// The present state. The reference is valid until the next step.
  virtual const State& state() const = 0;
  /// Places all bodies, with their velocities. @throws std::invalid_argument for bodies that the host cannot place
  virtual void set_state(const State& state) = 0;
  /// Takes a step of dt [s]. @throws std::runtime_error with the reason if the step has no result
  virtual void step(double dt) = 0;
  /// The state to which forces() belong.
  virtual ForceInstant force_instant() const = 0;
  /// Reactions, with the state to which they belong. It is valid until the next step.
  /// @throws OrderError if there has been no step, on a host whose forces are those of the last step
  virtual Observation forces() = 0;

 protected:
  SimulationHost() = default;
  SimulationHost(const SimulationHost&) = delete;
  SimulationHost& operator=(const SimulationHost&) = delete;
};

/// Makes the host of a model. The model exists as long as the host.
using HostFactory = std::function<std::unique_ptr<SimulationHost>(const Model& model)>;

}  // namespace linchpin::scene
