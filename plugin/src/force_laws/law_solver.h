// The nonideal term of the equation at one state (T5, T9, T10). Collects the inputs of laws and evaluates the laws.
// Where anything sticks or reads the actual normal force, it poses and solves the friction problem. Stores the efforts
// separately for the energy balance. Private to the core.
#pragma once

#include "force_laws/friction_problem.h"
#include "force_laws/sparse_friction.h"

#include <linchpin/assembly.h>
#include <linchpin/law_report.h>
#include <linchpin/laws.h>
#include <linchpin/problem.h>

#include <array>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace linchpin {

using Vector6d = Vector6;
using Vector1d = Eigen::Matrix<double, 1, 1>;

using detail::rest_speed;
/// Largest number of unknowns that read their normal force implicitly at once. With more, fixed-point iterations come
/// first.
constexpr int few_unknowns = 6;
/// Largest speed change that a law may cause within a step [m/s, rad/s].
constexpr double fastest_by_laws = 1e9;
/// Length of a step for that limit where laws are those of the instant [s].
constexpr double shortest_law_step = 1e-6;
/// Number of unknowns above which they are solved in the sparse structure of the constraints.
constexpr int many_unknowns = 9;
/// Number of unknowns above which the dense solution is not tried where the sparse one fails.
constexpr int most_dense_unknowns = 300;
/// Message for a law whose force [N or N·m] exceeds it. @param acceleration  caused by the force [m/s²]
std::string beyond_all_bounds(double force, double acceleration);

class LawSolver {
 public:
  /// Data that stay the same during one evaluation.
  struct Scene {
    const System& system;
    Assembly& assembly;  ///< Its `c` is written.
    const ConstraintFactorization& solver;
    const State& state;
    std::span<const double> lambda;  ///< Multipliers of the ideal forces.
  };

  void restructure(const IslandLayout& block);
  /// Evaluates the laws and adds their effect.
  /// @param vdot      [n] in: ideal. Out: with laws. @param induced [m], nonideal [n]  out.
  /// @return why a law failed. Empty on success.
  std::string apply(const Scene& scene, std::span<double> vdot, std::span<double> nonideal, std::span<double> induced);
  /// The same as Dynamics::hold().
  double reapply_stick(const Scene& scene, std::span<double> v, std::span<double> vdot, std::span<double> nonideal,
                       std::span<double> induced);
  /// The same as Dynamics::add_law_response(). @param so_far  null: linear
  void respond(const Scene& scene, std::span<double> dv, LawResponse* so_far);
  void accept(double dt);
  /// The same as Dynamics::set_internal_state().
  void set_internal_state(std::span<const double> values);
  /// Copies the internal states and the friction modes from the laws of a step. The next apply() is then at the instant
  /// at which that step begins.
  void start_at_instant_of(const LawSolver& of_step);
  /// The same as Dynamics::LawHistory.
  struct Snapshot;
  void save(Snapshot& to) const;
  void restore(const Snapshot& from);
  /// The same as Dynamics::mark_law_history() and Dynamics::return_to_marked_law_history().
  void mark();
  void return_to_mark();

  /// Describes laws whose constraints leave no direction in which they can act.
  std::vector<std::string> inactive_laws(const System& system, const IslandLayout& block) const;

  void set_friction_mode(int element, FrictionMode how, const Vector6d& sense);
  void reset_friction_modes();

  /// The same as Dynamics::find_rate().
  void find_rate(const Scene& scene, double from);

  double step = 0;     // Length of the step [s]. 0: laws of the instant.
  double span = 0;     // Length of the step that begins at the instant, for the test of rest [s]. 0: none.
  bool rates = false;  // Rates of laws are computed at an instant, too.
  LawReport report;
  std::vector<Prescribed> prescribed;
  std::vector<LawForce> efforts;
  std::vector<FrictionElement> elements;
  // Internal states at the last evaluation, and their rates. Three values for each law that has one.
  std::vector<double> internal_state_now, internal_state_rate;

 private:
  static constexpr double nan_ = std::numeric_limits<double>::quiet_NaN();
  /// A constraint with laws.
  struct Site {
    int constraint = 0;
    BodyId first, second;              // An index −1 of `second` means none.
    std::array<int, 2> slots{-1, -1};  // Indices of these bodies in the layout. −1: none.
    Vector3d point;
    Eigen::Matrix3d free_slip, free_spin;  // Orthonormal columns. The first `slips` and `spins` of them are used.
    int slips = 0, spins = 0;
    Vector3d relative, relative_spin, bias, bias_spin;  // Relative velocities at the point, and their rates at v̇ = 0.
    Vector6d ideal, actual;                             // Reaction on the first body about the point [N; N·m].
    Vector6d read;                                      // Reaction that laws on the actual one read in this iteration.
    // Rounding of the reactions that the iterations of the friction problem find, and which the whole solution shows.
    Vector6d read_error;
    Vector6d without_unknowns;  // Reaction without the efforts of the friction problem.
    int unilateral = 0;         // Sign that its multiplier must have. 0: any.
    Vector3d unit_force;        // Force of a unit multiplier.
    Vector6d effort;            // Sum of the efforts of all laws.
    // Response of the relative twist of the free bodies at the point to an effort. It is computed for smooth laws only.
    Eigen::Matrix<double, 6, 6> mobility;
    int first_row = -1;  // Index of its first row in `rows_`, where its laws act along rows. Otherwise −1.
  };
  /// A row of a constraint along which a law acts in place of the row.
  struct RowAtState {
    Vector6d direction;  // Force, and moment about the point of the site, of a unit multiplier.
    double position = 0, velocity = 0;
    double bias = 0;  // Rate of the velocity at v̇ = 0.
  };
  /// A law term whose effort is unknown at first: dry, on the coupled normal force, or too stiff for the step.
  struct UnknownTerm {
    int site = 0;
    const Law::Term* what = nullptr;
    int effort = 0;                     // Index in `efforts`.
    int element = -1;                   // Index in `contacts` of a dry one.
    Eigen::Matrix<double, 6, 6> basis;  // Basis of efforts, the first dim columns.
    Eigen::Matrix<double, 6, 6> axes;   // The same with unit length.
    int dim = 0;                        // Number of its unknowns.
    // Index in the friction problem, and start among its unknowns. −1: its effort is `known`.
    int block = -1, start = 0;
    Vector6d slip;   // Slip in basis coordinates.
    Vector6d known;  // Force in the basis, where it slides, or is smooth and weak for the step.
    Vector6d next;   // The same at the present coupled normal force.
    // It is known to slide, and its effort follows the coupled normal force within the friction problem.
    bool slides_in_problem = false;
    // Sliding friction at the time when the unknown term was classified as sliding, in a step.
    double classified_friction = 0;
    bool disagrees = false;  // The effort differs from that at the coupled normal force.
    int memory = -1, smooth = -1;
    Vector6d measured_at;  // For a smooth unknown term: reaction at which its rate was measured.
    // For an unknown term that is implicit in its slip: effort across the free directions, as at the state.
    Vector6d across;
    bool slip_implicit = false;  // Smooth and implicit in the slip at `slip_fraction` of the way through the step.
    // In the friction problem it reads the normal force that the unknowns make. Otherwise it reads a given one.
    bool reaction_implicit = false;
    double slip_fraction = 1;
  };
  /// A smooth term before it is classified.
  struct SmoothTerm {
    int site = 0, law = 0, term = 0, effort = 0, memory = -1;
    const Law::Term* what = nullptr;
    Vector6d e;       // Force and moment at the state.
    double rate = 0;  // Rate at which it damps or rotates velocities [1/s], without other laws.
    // It may be evaluated at the end of a step, because it damps or turns the slip and does not drive it.
    bool slip_implicit = false;
    bool turns = false;  // It acts across its slip, so that it neither damps nor drives.
    // Derivative of the effort by the twist, which gives that rate. For laws without an internal state.
    Eigen::Matrix<double, 6, 6> slope;
  };
  /// Linearised effort of a law for a twist of its site: effort = −damping · twist.
  struct Slope {
    int site = 0, effort = -1;  // Index of the effort for smooth laws.
    Eigen::Matrix<double, 6, 6> damping;
  };
  /// Inputs of a law, beside time and bodies.
  struct LawInput {
    Vector3d relative = Vector3d::Zero(), spin = Vector3d::Zero();
    Vector6d normal = Vector6d::Zero();
  };
  /// History of a term in the last steps. The effort of a law that jumps, or is too strong for the step, reverses in
  /// each step.
  struct History {
    // Force and moment at the end of the last step, and at the last evaluation.
    Vector6d last = Vector6d::Zero(), seen = Vector6d::Zero();
    double largest = 0;
    Vector6d value = Vector6d::Zero();  // Result of LawSolver::evaluate_term() in the last step.
    LawInput input;                     // Inputs of that call.
    double bound = 0;                   // Static bound of a friction element at the last accept().
    bool known = false, stuck = false;
    bool reversed = false;   // Reversed from one evaluation to the next, in this step.
    unsigned reversals = 0;  // One bit for each step.
    long overshoots = 0;     // Number of reversals with the slip in which the law did more than stop it.
    long switches = 0;
  };
  /// Internal state of one term.
  struct Memory {
    Vector3d value = Vector3d::Zero();  // Accepted value.
    Vector3d next = Vector3d::Zero();   // Value at the time of this evaluation.
    bool given = false;                 // `next` was set by the caller.
    const Law::Term* what = nullptr;
    ConstraintReaction thrust;
  };
  /// Friction mode that the caller requires.
  struct ModeRequest {
    FrictionMode how = FrictionMode::automatic;
    Vector6d sense = Vector6d::Zero();
  };
  /// Values that one evaluation leaves to the next, at an instant as in a step.
  struct Persistent {
    std::vector<Memory> memories;
    double memory_t = 0;  // Time of the accepted values of `memories` [s].
    bool memory_begun = false;
    std::vector<ModeRequest> requested_modes;  // By friction element.
    // Efforts of all unknown terms, from which the next solution starts. The bases of these may change between two
    // evaluations. So the efforts are stored as forces and moments.
    std::vector<Vector6d> last_efforts;
    std::vector<char> last_sticking;   // By friction element: it stuck in the last solution.
    std::vector<Vector6d> last_slips;  // Slips at `last_efforts`, where the solution was sparse and for a step.
  };
  /// State of the fixed-point iteration of laws and the normal forces that they induce.
  struct FixedPointState {
    int rounds = 0;
    double change = 0;  // Change in the last iteration, relative to the effort.
    // It converges too slowly. Terms that do not agree from here on read their normal force implicitly.
    bool ended = false;
  };
  /// Rates at which laws damp or rotate velocities.
  struct Rates {
    double smooth = 0, turning = 0;  // Rates of smooth laws, and of friction that turns with its slip [1/s].
    double memory_bound = 0;         // Part of the former that belongs to laws with an internal state [1/s].
    double row_bound = 0;            // Largest rate of compliance along a row [1/s], and the index of its effort.
    int row_effort = -1;
    double smooth_ratio = nan_, turning_ratio = nan_;  // Ratios of these rates to their bounds. NaN: not known.
    int stiffest = -1;                                 // Index of the effort of the stiffest smooth law.
    std::vector<double> root;                          // By slot: sum of √rate over all smooth laws on the body.
    std::vector<Slope> slopes;                         // Slopes for the rate that is being computed.
    std::vector<double> velocity;                      // Velocities that decay with that rate.
  };
  /// Responses to unit efforts of the unknowns.
  struct UnitResponses {
    std::vector<int> of;                      // Unknown terms whose responses are stored in this evaluation.
    bool with_reactions = false;              // Responses of the reactions are stored, too.
    bool is_sparse = false;                   // Only `mobility` is stored.
    std::vector<double> vdot, force, lambda;  // v̇ [n], force [n] and λ [m] of each unknown.
    std::vector<double> mobility;             // Slip change of the free bodies, by unknown.
  };
  /// The friction problem of the laws that are coupled by their slips and reactions.
  struct Coupling {
    detail::FrictionProblem problem;
    std::vector<int> terms;  // By block: index of the unknown term.
    int unknowns = 0;
    int undecided = 0;                   // Number of unknowns without those of elements that are known to slide.
    std::vector<double> efforts;         // By unknown.
    UnitResponses responses;             // By unknown.
    bool any_reaction_implicit = false;  // Any unknown reads the coupled normal force implicitly.
    bool continues = false;              // `efforts` is the result of the last iteration for the same unknowns.
    // Many unknowns are solved in the sparse structure of the constraints. The problem then has no W and no K.
    std::unique_ptr<detail::SparseFriction> sparse;
    bool is_sparse = false;
    bool sparse_failed = false;  // In this evaluation.
    bool is_linearized = false;  // FrictionProblem::respond() and `bounds` belong to this solution.
    std::vector<double> bounds;  // By block: largest friction of a sticking element.
  };
  /// Data of law terms by index of efforts.
  struct EffortRecords {
    std::vector<History> histories;
    std::vector<char> stuck_before;  // Elements that stuck at the last accept() before the last apply().
    std::vector<Vector6d> values;    // Results of evaluate_term().
  };
  /// Accelerations and forces without laws, to which an iteration returns.
  struct Accelerations {
    std::vector<double> vdot, nonideal, induced;
  };
  /// Work memory of an evaluation.
  struct Scratch {
    std::vector<double> applied, force, dv, vdot;  // [n]
    std::vector<double> row, lambda;               // [m]
    std::vector<double> values, change;            // By unknown.
  };
  /// The law that is being called, for the messages of exceptions.
  struct ErrorContext {
    const Site* site = nullptr;
    const Law::Term* term = nullptr;
  };
  /// Fault of a law, which is reported as long as the law exists.
  struct Fault {
    std::string text;
    unsigned long law_changes = 0;  // Identifies the set of laws with that fault.
  };
  class LawCallbacks;
  friend class LawPartials;

  void gather(const Scene& scene);
  void collect_terms(const Scene& scene);
  void add_site(const Scene& scene, int constraint);
  void add_term(const Scene& scene, int law, int index, const Law::Term& term, int& memory_count);
  void add_rows(const Scene& scene, Site& site);
  void add_compliance(const Scene& scene, int law, int index, const Law::Term& term, int effort);
  const RowAtState& row_of(const Site& site, const Law::Term& term) const {
    return rows_[static_cast<std::size_t>(site.first_row + term.row)];
  }
  double row_velocity(const Scene& scene, const Site& site, int row, const State& at) const;
  double row_multiplier(const UnknownTerm& p, double velocity) const;
  void read_memory(const Scene& scene, int which, const Law::Term& term, ConstraintReaction& n);
  void free_directions(const Scene& scene, Site& site) const;
  void motion_at(const Scene& scene, Site& site) const;
  ConstraintReaction thrust_of(const Scene& scene, const Site& site, const Law::Term& term,
                               const Vector6d& reaction) const {
    return thrust_of(scene, site, term, reaction, site.relative, site.relative_spin);
  }
  ConstraintReaction thrust_of(const Scene& scene, const Site& site, const Law::Term& term, const Vector6d& reaction,
                               const Vector3d& relative, const Vector3d& spin) const;
  Vector6d implicit_slip(const UnknownTerm& p) const;
  ConstraintReaction thrust_at_slip(const Scene& scene, const UnknownTerm& p, const Vector6d& reaction,
                                    const Vector6d& slip) const;
  void free_mobility(const Scene& scene, Site& site) const;
  Vector6d effort_at(const Scene& scene, const SmoothTerm& s, const Vector6d& N, const Vector3d& relative,
                     const Vector3d& spin) const;
  bool depends_on_thrust(const Scene& scene, const SmoothTerm& s) const;
  void measure(const Scene& scene, SmoothTerm& s, const Vector6d& N);
  void measure_slope(const Scene& scene, SmoothTerm& s, const Vector6d& N, const ConstraintReaction& n,
                     const Vector6d& here);
  void measure_chord(const Scene& scene, SmoothTerm& s, const Vector6d& N, const ConstraintReaction& n,
                     const Vector6d& here);
  void measure_bristles(SmoothTerm& s, const ConstraintReaction& n) const;
  bool stiffens(const Scene& scene, UnknownTerm& p);
  void classify_smooth(const Scene& scene);
  /// Visits the bodies of a site that may move: visit(side, column, dof, force, moment) of an effort on each.
  template <class Visit>
  void for_each_force(const Scene& scene, const Site& site, const Vector6d& effort, Visit visit) const {
    const IslandLayout& layout = scene.assembly.layout;
    for (const std::size_t side : {std::size_t(0), std::size_t(1)}) {
      const BodyId id = side == 0 ? site.first : site.second;
      const int slot = site.slots[side];
      if (slot < 0) continue;
      const double sign = side == 0 ? 1 : -1;
      const int column = layout.column[static_cast<std::size_t>(slot)];
      const Vector3d f = sign * effort.head<3>();
      visit(side, column, layout.column[static_cast<std::size_t>(slot) + 1] - column, f,
            Vector3d((site.point - scene.state[id].p).cross(f) + sign * effort.tail<3>()));
    }
  }
  void add(const Scene& scene, const Site& site, const Vector6d& effort, std::span<double> out) const;
  Vector6d twist(const Scene& scene, const Site& site, std::span<const double> v) const;
  Vector6d reaction(const Scene& scene, const Site& site, std::span<const double> lambda) const;
  UnknownTerm& add_unknown_term(const Scene& scene, int site, int law, int term, const Law::Term& what,
                                int internal_state, int effort);
  void write_memory(int which, const ConstraintReaction& n);
  void restore_without_laws(const Scene& scene, std::span<double> vdot, std::span<double> nonideal,
                            std::span<double> induced);
  void classify_sliding(const Scene& scene);
  bool rounded_rest(const Scene& scene, const UnknownTerm& p, std::span<const double> vdot) const;
  bool keeps_sliding(const Scene& scene, const UnknownTerm& p, std::span<const double> vdot, double part) const;
  void add_known_efforts(const Scene& scene, std::span<double> vdot, std::span<double> nonideal,
                         std::span<double> induced, bool reclassifies);
  void set_basis(UnknownTerm& p, const Vector6d& effort);
  void read_thrusts(const Scene& scene, std::span<const double> induced);
  const Vector6d& thrust_read(const UnknownTerm& p) const;
  double relative_disagreement(LawCallbacks& callbacks, UnknownTerm& p, double least) const;
  bool laws_agree(const Scene& scene, std::span<const double> induced, FixedPointState& iteration);
  void add_response_to_known(const Scene& scene, std::span<double> vdot, std::span<double> nonideal,
                             std::span<double> induced);
  bool is_known_to_slide(const UnknownTerm& p) const { return p.element >= 0 && (p.block < 0 || p.slides_in_problem); }
  double friction_of(const UnknownTerm& p) const;
  bool keeps_classification(const Scene& scene, std::span<const double> vdot);
  void couple_friction(const Scene& scene, std::span<double> vdot, std::span<double> nonideal,
                       std::span<double> induced);
  bool take_in_sliding();
  void pose_problem(const Scene& scene, std::span<const double> vdot, std::span<const double> induced);
  void pose_sparse_problem(const Scene& scene, std::span<const double> vdot);
  detail::SparseFriction::Direction direction_of(const Scene& scene, const UnknownTerm& p, int k) const;
  bool solves_sparsely(const Scene& scene) const;
  double slip_of(int unknown) const {
    return coupling_.is_sparse ? coupling_.sparse->slip(unknown) : coupling_.problem.slip(unknown, coupling_.efforts);
  }
  void read_few_implicitly(const Scene& scene);
  void compute_unit_responses(const Scene& scene, std::size_t n, std::size_t m);
  void number_unknowns();
  void pose_term(const Scene& scene, const UnknownTerm& p, std::span<const double> vdot);
  void pose_residual_slip(const Scene& scene, const UnknownTerm& p, std::size_t m);
  void pose_dry_term(const Scene& scene, const UnknownTerm& p, std::span<const double> vdot,
                     detail::FrictionProblem::Block& block);
  void solve(const Scene& scene);
  /// Where the sparse solution begins: at the efforts, slips and modes of the last step, or where all elements stick.
  enum class SparseStart { last_solution, no_friction };
  bool solve_sparsely(const Scene& scene, SparseStart start);
  void store_sticking();
  void add_efforts(const Scene& scene, std::span<const double> efforts_of_unknowns, std::span<double> out) const;
  void respond_to_change(const Scene& scene, std::span<const double> change);
  bool start_at_last_solution();
  detail::FrictionProblem::Choice branch_choice() const;
  void fall_back_to_ideal(const Scene& scene, double gain);
  void warn_of_several_solutions(double gain);
  void warn_of_residual(const Scene& scene, const detail::FrictionProblem::Result& result);
  bool moves_beyond_all_bounds() const;
  double slips_at_midpoint(const Scene& scene, std::span<const double> v);
  bool linearize_response(const Scene& scene);
  void keep_static_bounds(std::span<double> change) const;
  void check_jamming(const Scene& scene, LawCallbacks& callbacks);
  void add_response(const Scene& scene, std::span<const double> c, std::span<double> vdot, std::span<double> nonideal,
                    std::span<double> induced);
  void write_results(const Scene& scene, std::span<const double> vdot, std::span<const double> induced);
  void check_smooth_result(const Scene& scene, const UnknownTerm& p, const Vector6d& N);
  void write_friction_element(const Scene& scene, const UnknownTerm& p, const detail::Six& N, LawCallbacks& callbacks,
                              std::span<const double> vdot);
  void update_differences(const Scene& scene);
  std::string excessive_force(const Scene& scene, std::span<const double> nonideal);
  void write_efforts();
  std::string chatter_warning(const Scene& scene) const;
  double residual_slip(const Scene& scene, int j, std::size_t m) const;
  double reach_of(const Scene& scene, const UnknownTerm& p, std::span<const double> vdot) const;
  double end_slip(const Scene& scene, const UnknownTerm& p, int k, std::span<const double> vdot, double h) const;
  Vector6d sliding_sense(const UnknownTerm& p) const;
  bool slides_along_slip(const UnknownTerm& p) const;
  bool turns_with_slip(const UnknownTerm& p) const;
  void bound_turning_rate();
  template <class Mobility>
  double bound_of_turning(const Mobility& free_mobility) const;
  double mobility_across(const Scene& scene, const UnknownTerm& p);
  double constrained_response(const Scene& scene, std::span<const double> f, std::span<double> v);
  double rate_of_smooth(const Scene& scene, double from);
  double fastest_of_slopes(const Scene& scene, double from);
  int stiffest_of_slopes(const Scene& scene) const;
  void update_rate();
  void redistribute_static_friction(LawCallbacks& callbacks);
  bool jumps_at_rest(const Scene& scene, const UnknownTerm& p, const detail::Six& N) const;
  std::string jump_at_end(const Scene& scene, const UnknownTerm& p);
  Vector6d effort_of(const UnknownTerm& p) const;
  void store_efforts();
  void set_error_context(const Site& site, const Law::Term& term) { error_ = {&site, &term}; }
  Vector6d evaluate_term(const Scene& scene, const Site& site, const Law::Term& term, const LawInput& in);
  std::string jump_between(const Scene& scene, const Site& site, const Law::Term& term, LawInput a, LawInput b);
  LawInput input_of(const Site& site, const LawForce& e) const;
  bool overshoots(const Site& site, const History& h, const LawInput& input, const Vector6d& now, int effort,
                  double dt) const;
  void check_jump(const Scene& scene, const Site& site, const Law::Term& term, int effort, const Vector6d& value);
  void check_jumps(const Scene& scene);
  void check_jump_at_rest(const Scene& scene, const Site& site, const Law::Term& term);
  void check_push_at_rest(const Scene& scene, const Site& site, const Law::Term& term, const Vector6d& e);
  void set_fault(const Scene& scene, const Site& site, const Law::Term& term, const std::string& what);
  void refresh_fault(const System& system);
  void check(const Scene& scene, const Site& site, const Law::Term& term, const ForceMoment& effort,
             const ConstraintReaction& thrust);
  std::string name_of(const Scene& scene, const Site& site, const Law::Term& term) const {
    return name_of(scene.system, scene.assembly.layout, site, term);
  }
  std::string name_of(const System& system, const IslandLayout& block, const Site& site, const Law::Term& term) const;
  std::string names_on(const Scene& scene, const Site& site) const;

  Persistent persistent_;
  std::vector<Site> sites_;
  std::vector<UnknownTerm> unknown_terms_;
  std::vector<SmoothTerm> smooth_terms_;
  std::vector<RowAtState> rows_;
  EffortRecords records_;
  std::vector<std::size_t> masses_;  // By slot: start of its block of M.
  Rates rates_;
  bool reads_actual_ = false;  // Any law reads the coupled normal force.
  Coupling coupling_;
  Accelerations ideal_;
  Scratch scratch_;
  ErrorContext error_;
  Fault fault_;
  std::unique_ptr<Snapshot> marked_;
};

/// All values that later evaluations of steps use.
struct LawSolver::Snapshot {
  Persistent persistent;
  std::vector<History> histories;
  double smooth_ratio = nan_, turning_ratio = nan_;
};

}  // namespace linchpin
