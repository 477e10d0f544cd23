// The trees of a host's world, and the one problem of all constraints on their links. Private to the core.
//
// The problem is an island: it shares with islands of rigid bodies the phase, the record of the step, and the vectors
// of velocities, multipliers and changes. Its own constraints are in joint coordinates.
#pragma once

#include "articulated/tree_constraints.h"
#include "articulated/tree_projection.h"
#include "host/island.h"

#include <linchpin/articulated.h>

#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace linchpin::articulated {

/// Which links have an id among the bodies of the solver.
class LinkTable {
 public:
  struct Place {
    int tree = -1;  ///< −1: the body is no link
    int link = -1;  ///< −1: the base
    bool operator==(const Place&) const = default;
  };
  /// The place of a body; that of a body which is no link has no tree.
  Place operator[](BodyId id) const {
    return id.index >= 0 && z(id.index) < places_.size() ? places_[z(id.index)] : Place{};
  }
  bool has(BodyId id) const { return (*this)[id].tree >= 0; }
  int find(Place place) const;  ///< index of the body; −1: it has none
  void set(int body, Place place);
  int size() const { return static_cast<int>(places_.size()); }  ///< above the index of every link

 private:
  std::vector<Place> places_;  // by index of body
};

/// Reports of the joints of a tree, computed when one is asked for.
struct JointReports {
  void forget() {
    acceleration_is_current = wrenches_are_current = forces_are_current = corrections_are_current = false;
  }
  bool acceleration_is_current = false, wrenches_are_current = false, forces_are_current = false,
       corrections_are_current = false;
  std::vector<double> acceleration;           ///< [columns]
  std::vector<Wrench> wrenches, corrections;  ///< through all joints; by what ended the step on the constraints
  KinematicTree::ForcesByCause forces;
  std::vector<double> inertia, constraint;  ///< M v̇ and Aᵀλ [columns]
  std::vector<Wrench> outside;              ///< scratch
};

/// A tree of the host's world, and what happens to it in a step.
struct Tree : ConstrainedTree {
  explicit Tree(RotationOverStep rotation) : ConstrainedTree(rotation), after(rotation) {}
  KinematicTree after;                   ///< where the host has taken it
  std::vector<double> added;             ///< change of velocity for the constraints while rows are solved [velocities]
  std::vector<double> row_acceleration;  ///< change of velocity by the host's rows, per dt [velocities]
  RowImpulses rows;                      ///< of the host
  std::vector<Wrench> on_links;          ///< wrenches of the host's rows; reports add the exact constraints
  std::vector<Wrench> row_wrenches;      ///< of the host's rows alone
  std::vector<Wrench> law_wrenches;      ///< mean wrenches that laws prescribe in the step; empty: none
  /// Velocities at the end of the step, and the same as the host has them [velocities].
  std::vector<double> velocity_end, velocity_written;
  TreeState start;                       ///< at the start of a step in substeps
  std::vector<double> row_forces;        ///< mean forces of the host's rows in such a step [columns]
  std::vector<Wrench> joint_impulses;    ///< impulses through the joints in such a step, about their pivots
  std::vector<MomentumBalance> balance;  ///< of the links, base first, in the step or its accepted substeps
  JointReports reports;
  EnergyAccount energy;        ///< of a tree that is not in the problem
  bool was_read = false;       ///< in a step
  bool step_is_known = false;  ///< The data of its last step are complete.
  bool was_asleep = false;     ///< at the start of the step
};

/// A rigid body of the problem.
struct LoopBody {
  BodyId id;
  int column = 0, dof = 0;
  Vector6 applied = Vector6::Zero();  ///< change of velocity by applied forces, which the host adds
  Vector6 own = Vector6::Zero();      ///< change of velocity by the constraints
  bool among_rows = false;            ///< It is in the host's row solver.
  Vector6 by_rows = Vector6::Zero();  ///< mean acceleration by the host's rows
  Vector6 by_laws = Vector6::Zero();  ///< mean force and moment that laws prescribe
  MomentumBalance balance = {};       ///< of the step or its accepted substeps
};

/// Vectors of a step beside those that all islands have.
struct TreeVectors {
  std::vector<double> host_v;        ///< velocities that the host has [columns]
  std::vector<double> acceleration;  ///< by the reported forces [columns]
  std::vector<double> reported;      ///< multipliers of the report [rows]
  std::vector<double> correction;    ///< mean multipliers of the step beyond these [rows]
  std::vector<double> v_before_newton, impulse_before_newton;
  std::vector<double> v_of_whole, impulse_of_whole;  ///< of a step that is tried in substeps, too
};

/// The effect of the forces that laws prescribe.
struct PrescribedMotion {
  bool is_known = false;                       ///< The laws of this step have a solution.
  std::vector<double> c;                       ///< the forces along the columns [columns]
  std::vector<double> dv;                      ///< what they do to v̇ [columns]
  std::vector<double> lambda;                  ///< the multipliers that they call up [rows]
  std::vector<double> first_dv, first_lambda;  ///< what the velocities have of them before the last solution
};

/// Energy that a step or substep gives its trees without a source [J]: what constraints give beyond the work of time
/// and of bodies that the program moves, and the error of the host's method in joint coordinates. It vanishes with the
/// length.
struct TreeEnergyGain {
  double gain = 0, start = 0, end = 0;  ///< and the kinetic energies at the start and at the end
  double by_integration = 0;            ///< the part of the host's method
};

struct TreeIsland : host::Island {
  explicit TreeIsland(RotationOverStep rotation_of_host)
      : rotation(rotation_of_host), projection(constraints, rotation_of_host) {}

  /// Returns whether there is something to solve.
  bool has_problem() const { return constraints.columns() > 0 && (constraints.rows() > 0 || has(host::Trait::laws)); }
  /// Returns whether rows are factored, and held until the step's end.
  bool is_held() const { return phase == host::Phase::begun || phase == host::Phase::solved; }
  /// Returns whether the step was taken in substeps.
  bool in_substeps() const { return step.division == host::Division::substeps; }
  /// Returns whether some row of the host acts on what the problem moves.
  bool has_rows() const { return step.rows != host::HostRows::none; }
  /// The mean wrench in the step of a constraint on one of its bodies, about the centre of mass, without laws.
  /// @param first  place of its bodies in the sums of substeps
  Wrench mean_wrench(const ConstraintRows& rows, std::size_t first, int body) const {
    const Vector6 p =
        in_substeps() ? sums.wrenches[first + z(body)] : Vector6(constraints.wrench_on(rows, body, x.multipliers) / dt);
    return {p.head<3>(), p.tail<3>(), Vector3d::Zero()};
  }
  Tree& tree(LinkTable::Place place) const { return *trees[z(place.tree)]; }

  const RotationOverStep rotation;
  double dt = 0;  ///< length of the last step [s]: that of the solver may be reset before its reports are read
  std::vector<std::unique_ptr<Tree>> trees;  ///< of the host's world, in its order
  std::vector<std::unique_ptr<Tree>> gone;   ///< that the layout still names
  LinkTable links;
  std::vector<LoopBody> loop_bodies;
  TreeConstraints constraints;
  TreeProjection projection;
  TreeVectors vectors;
  PrescribedMotion prescribed;
  RowSolve row_solve = RowSolve::by_iterations;
  double last_length = 0;              ///< of the last substep of the step [s]
  double unexplained_energy = 0;       ///< of the substeps of the step, see energy_of_integration() [J]
  std::optional<TreeEnergyGain> gain;  ///< of the step, where it was measured and has been taken whole
  std::vector<LinkMotion> motions;     ///< scratch
};

/// References that the parts of the tree solver share.
struct TreeContext {
  host::Context& host;
  TreeWorld& world;
  TreeIsland& island;
};

}  // namespace linchpin::articulated
