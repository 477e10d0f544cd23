// Laws on constraints between links and on the joints of trees (T9, T10). A law reads a reaction, and joint coordinates
// know no reactions of their own joints. So the problem is solved once more with every link a body of its own and every
// joint a constraint, to the same accelerations: T5 is the same in any coordinates. There it is also decided which
// contacts stick. The forces that laws prescribe there are then among the forces on the links. An inertia of a joint
// rate itself, of a rotor or of damping that the integrator takes implicitly, is there a particle that a constraint
// moves at this rate. Private to the core.
#pragma once

#include "articulated/tree_island.h"
#include "articulated/tree_layout.h"
#include "host/context.h"

#include <linchpin/detail/anderson.h>
#include <linchpin/dynamics.h>

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace linchpin::articulated {

class TreeLaws {
 public:
  TreeLaws(const TreeContext& context, TreeLayout& layout)
      : c_(context.host), world_(context.world), t_(context.island), layout_(layout) {}

  // ---- the laws of a constraint ----
  std::string why_no_law(int entry) const;
  void add(int entry, const Law& law);

  // ---- layout ----
  /// Takes the maximal problem of the last layout out of the system.
  void forget();
  /// Returns whether a joint rate has got an inertia of its own since the last layout.
  bool lacks_rotor() const;
  /// Makes the problem in which every link is a body. If it is not possible, its laws are reported by name, and the
  /// rest goes on. @param notes  out: constraints of which laws are not in force
  void lay_out(std::vector<host::HostPart>& notes);
  std::shared_ptr<const Dynamics::LawHistory> history() const;
  void restore(std::shared_ptr<const Dynamics::LawHistory> history) { to_restore_ = std::move(history); }
  void reset();

  // ---- a step ----
  /// Reads the motions of all members at the step's start, and finds the forces that laws prescribe. Forces that
  /// depend on the impulses of the host's rows are not known yet.
  void evaluate();
  /// Begins the iterations of the host's rows at the velocities x.v.
  void begin_rows();
  /// Adds the response of the laws to what the host's rows have changed so far.
  /// @param change  [columns] change of x.v by the last iteration, in and out
  void add_response(std::span<double> change);
  /// The forces of laws for which the host solves its rows, if it does so in one call [columns].
  std::span<const double> forces_for_rows() const { return forces_for_rows_; }
  /// Changes them towards those that the laws give for the result. @return whether that differs from what they were
  bool improve_forces_for_rows();
  /// Solves the laws again with the impulses of the host's rows, which are known now.
  void resolve();
  /// Brings sticking contacts to rest again after Newton, which moves them a little.
  /// @return whether that moved anything
  bool reapply_stick();
  /// Adds up the work of every law in the step, and counts contacts that have begun or ended to stick.
  void account();
  /// Solves the laws as they are at the step's start, because reports are of that time (T11).
  void answer_at_start();

  // ---- for reports ----
  /// Mean wrenches on the links of a tree of the problem that laws prescribe, about the centres, base first.
  const std::vector<Wrench>& prescribed_on(std::size_t tree) const { return prescribed_[tree]; }
  std::span<const Prescribed> prescribed() const { return t_.dynamics->prescribed(); }
  /// The entry of a constraint of the maximal problem; −1: a joint that has no name.
  int entry_of(std::size_t constraint) const { return entry_of_constraint_[constraint]; }
  /// Bodies of a constraint of the maximal problem.
  std::span<const BodyId> bodies_of(const Prescribed& p) const;
  std::size_t constraints() const { return entry_of_constraint_.size(); }
  std::span<const Reaction> update_reactions();
  const Reaction& reaction(std::size_t constraint) const { return reactions_[constraint]; }

 private:
  /// A body of the maximal problem.
  struct Member {
    BodyId id;
    LinkTable::Place link;  ///< without a tree:
    int loop_body = -1;     ///< a rigid body, this one
  };
  /// A particle whose velocity along x is a joint rate. Its mass is the inertia of this rate.
  struct Rotor {
    BodyId id;
    int tree, rate;
  };
  /// Constraints of the maximal problem while it is made, and the entries of those that have one.
  struct Made {
    std::vector<ConstraintId> ids;
    std::vector<std::pair<int, int>> entries;  ///< constraint of the system, entry
  };

  Constraint gear_of(const ConstraintRows& c, const std::string& name);
  std::string add_members();
  std::string add_with_laws(int entry, Constraint constraint, Made& made);
  std::string add_named_joints(Made& made, std::vector<std::vector<char>>& has_name);
  std::string add_joints(Made& made);
  std::string add_rotors(Made& made);
  std::string add_rotor(const Rotor& rotor, int link, Made& made);
  BodyId rotor_id(std::size_t index);
  double inertia_of(const Rotor& rotor) const;
  void read_rotors();
  std::string add_constraints(Made& made);
  void start(const Made& made);
  void update_mass(const Member& m);
  template <class Visit>
  void for_members(Visit visit) const;
  void collect_forces(bool with_rows);
  void add_row_forces(const Tree& t, std::vector<Wrench>& on);
  void solve_prescribed();
  void spread_prescribed();
  void spread_on_columns(std::vector<double>& c, std::vector<double>& dv);
  void add_rows_response(std::vector<double>& dv, std::vector<double>& lambda);
  void clear_prescribed();
  void add_prescribed(BodyId id, double sign, const Prescribed& p);
  void velocities_of_members(std::span<const double> v, std::vector<double>& out);

  host::Context& c_;
  TreeWorld& world_;
  TreeIsland& t_;
  TreeLayout& layout_;
  std::vector<Member> members_;                  // all that move, in the order of the block
  std::vector<Member> fixed_;                    // bases that do not
  std::vector<Rotor> rotors_;                    // of all rates with an inertia
  std::vector<BodyId> rotor_ids_;                // all that were ever made
  std::vector<ConstraintId> joints_;             // of trees, that have no name, and of rotors
  std::vector<int> entry_of_constraint_;         // by constraint of the block; −1: such a joint
  std::vector<double> Q_, v0_, v1_;              // of the maximal problem
  std::vector<std::vector<Wrench>> applied_;     // by tree: forces on links
  std::vector<std::vector<Wrench>> prescribed_;  // by tree: what laws prescribe on links
  std::vector<Reaction> reactions_;
  std::vector<double> last_dv_, last_lambda_;                                         // before stick was reapplied
  LawResponse response_;                                                              // to the host's rows
  std::vector<double> forces_for_rows_, best_forces_for_rows_, difference_, change_;  // [columns]
  double least_difference_ = 0;                                                       // [N, N m]
  int rows_solved_ = 0;  // how often for other forces of laws
  detail::AndersonAcceleration anderson_;
  std::vector<double> total_;                           // [columns] change by the rows so far
  std::vector<double> c_rows_, dv_rows_, lambda_rows_;  // of the response in one iteration
  std::vector<double> dv_of_rows_;                      // scratch
  std::shared_ptr<const Dynamics::LawHistory> to_restore_;
};

/// Change of a rigid body's velocity by the host's own rows in this step, per dt.
Vector6 row_acceleration(const host::Context& c, const LoopBody& b);

}  // namespace linchpin::articulated
