// A scene or a robot in a world of Bullet, which a program steps itself: bodies collide, and linchpin holds the joints.
// Joints by name, forces and controllers are those of scene::Simulation.
//
//     linchpin::bullet::Simulation robot(linchpin::scene::load("quadruped.toml"));  // [world] contacts = true
//     robot.set_controller([](const linchpin::scene::JointState& at, std::vector<double>& torque) {
//       for (std::size_t i = 0; i < torque.size(); ++i) torque[i] = -80 * at.position[i] - 3 * at.velocity[i];
//     });
//     robot.run(4);
//
// Link linchpin::simulation-bullet-float64, or linchpin::simulation-bullet in single precision.
#pragma once

#include <linchpin/bullet.h>
#include <linchpin/scene/simulation.h>

#include <string_view>

/// Marks the public names of the simulation in Bullet: see linchpin/export.h.
#if defined(LINCHPIN_SIMULATION_BUILD)
#define LINCHPIN_SIMULATION_API LINCHPIN_EXPORT
#elif defined(LINCHPIN_SIMULATION_SHARED)
#define LINCHPIN_SIMULATION_API LINCHPIN_IMPORT
#else
#define LINCHPIN_SIMULATION_API LINCHPIN_STATIC
#endif

namespace LINCHPIN_BULLET_NAMESPACE {

/// Steps a scene in a world of Bullet, which it owns. It differs from scene::Simulation without an engine in these
/// points:
/// - With `[world] contacts = true`, bodies with shapes collide. Bullet solves the contacts.
/// - Limits of joints are rows of Bullet.
/// - Bodies of an included .bullet file are those that the importer gave. They have no shapes, and linchpin holds their
///   joints.
/// - Forces, wrenches and reactions are those of the last step, and belong to the state with which it began. Before the
///   first step they are an OrderError.
/// - Accelerations are mean values of the last step, with the contacts.
/// - step() throws std::runtime_error if a force or a law was not finite or a body is not at a finite place. The first
///   leaves the state as it was. After the others the simulation is of no use.
/// - A step of joints that linchpin cannot hold is solved by Bullet, as in any program: see Solver::counts() and
///   Solver::summary().
///
/// Signs, zeros, units and the reactions to a faulty controller are the same.
class LINCHPIN_SIMULATION_API Simulation : public scene::Simulation {
 public:
  /// Makes the world, its bodies and joints, and the solver.
  /// @throws std::invalid_argument with the reason for what Bullet does not have, such as coordinates of a kinetic
  /// energy of their own
  explicit Simulation(scene::Model model);

  btDiscreteDynamicsWorld& world();  ///< The world. Step it by step() and run() only.
  Solver& solver();                  ///< Its solver: counts, summary, reactions, and constraints of the program's own.
  /// The rigid body of a body of the scene, for its friction and its contacts. Its axes are the principal axes of
  /// inertia, which may differ from those of the scene. The body of a link of a multibody follows the link, and is in
  /// no world. @throws std::invalid_argument with the nearest name
  btRigidBody& body(std::string_view name);
};

}  // namespace LINCHPIN_BULLET_NAMESPACE
