// The third term of the equation at one state: collects what laws read, asks them, poses and solves the friction
// problem where anything sticks or reads the actual thrust, and keeps the answer apart for the books (T5, T9, T10).
// Private to the core.
#pragma once

#include "force_laws/friction_problem.h"

#include <linchpin/assembly.h>
#include <linchpin/law_report.h>
#include <linchpin/laws.h>
#include <linchpin/problem.h>

#include <limits>
#include <span>
#include <string>
#include <vector>

namespace linchpin {

using Vector6d = Eigen::Matrix<double, 6, 1>;
using Vector1d = Eigen::Matrix<double, 1, 1>;

/// Slower than this is at rest for laws of the instant [m/s or rad/s].
constexpr double rest_speed = 1e-9;
/// Up to so many unknowns read their thrust implicitly at once; of more the laws follow their thrusts first.
constexpr int few_unknowns = 6;
/// No law may make a body faster than this within a step [m/s, rad/s].
constexpr double fastest_by_laws = 1e9;
/// Counts as a step where laws are those of the instant [s], for how fast they may make a body.
constexpr double shortest_law_step = 1e-6;
/// What is said of a law whose force [N or N·m] does. @param acceleration  that it makes [m/s²]
std::string beyond_all_bounds(double force, double acceleration);

class LawSolver {
 public:
  /// What stays the same during one evaluation.
  struct Scene {
    const System& system;
    Assembly& assembly;  ///< c is filled
    const Solver& solver;
    const State& state;
    std::span<const double> lambda;  ///< ideal
  };

  void restructure(const Block& block);
  /// @param vdot      [n] in: ideal; out: with laws. @param induced [m], nonideal [n]  out.
  /// @return why a law failed; empty when all went well.
  std::string apply(const Scene& scene, std::span<double> vdot, std::span<double> nonideal, std::span<double> induced);
  /// As Dynamics::hold.
  double hold(const Scene& scene, std::span<double> v, std::span<double> vdot, std::span<double> nonideal,
              std::span<double> induced);
  void accept(double dt);
  /// As Dynamics::give_memory.
  void give_memory(std::span<const double> values);
  /// Takes over the memory and the modes of the laws of a step. The next apply() is then of the instant at which that
  /// step begins.
  void take_over(const LawSolver& of_step);
  /// As Dynamics::LawHistory.
  struct Past;
  void keep(Past& past) const;
  void go_back(const Past& past);

  /// Laws for which their constraints leave nothing to rub on, in words.
  std::vector<std::string> idle(const System& system, const Block& block) const;

  void grip(int contact, Grip how, const Vector6d& sense);
  void release_grips();

  /// As Dynamics::find_rate.
  void find_rate(const Scene& scene, double from);

  double step = 0;     // 0: of the instant
  double span = 0;     // the step that begins at the instant, by which rest is judged; 0: none
  bool rates = false;  // whether how stiff laws are is asked for at an instant too
  LawReport report;
  std::vector<Prescribed> prescribed;
  std::vector<LawEffort> efforts;
  std::vector<Contact> contacts;
  std::vector<double> memory_now, memory_rate;  // at the last evaluation, three for each law that has one

 private:
  /// A constraint with laws.
  struct Site {
    int constraint = 0;
    BodyId first, second;  // second −1: none
    Vector3d point;
    Eigen::Matrix3d free_slip, free_spin;  // orthonormal columns, the first `slips` and `spins` of them
    int slips = 0, spins = 0;
    Vector3d relative, relative_spin, bias, bias_spin;  // velocity at the point, and its rate at v̇ = 0
    Vector6d ideal, actual;                             // thrust on the first body about the point
    Vector6d read;                                      // and what laws on the actual one read in this round
    int one_sided = 0;                                  // the sign its multiplier must have, 0: any
    Vector3d push;                                      // force of a unit multiplier
    Vector6d effort;                                    // all laws together
    Eigen::Matrix<double, 6, 6> mobility;  // of its free bodies at the point: twist from effort; only for smooth laws
  };
  /// A term whose effort is not known from the start: dry, on the actual thrust, or too stiff for the step.
  struct Piece {
    int site = 0;
    const Law::Term* what = nullptr;
    int effort = 0;                     // index into efforts
    int contact = -1;                   // of a dry one
    Eigen::Matrix<double, 6, 6> basis;  // efforts, the first dim columns
    Eigen::Matrix<double, 6, 6> axes;   // the same of unit length
    int place = 0, dim = 0;             // among the efforts of all pieces
    int block = -1, start = 0;          // in the friction problem and among its unknowns; −1: its effort is `known`
    Vector6d slip;                      // in basis coordinates
    Vector6d known;                     // its effort where it slides, or is smooth and weak for the step; in the basis
    Vector6d next;                      // the same with the thrust that is there with it
    double judged = 0;                  // in a step, of what slides: its friction when it was taken to slide
    bool disagrees = false;             // with the thrust that is there
    int memory = -1, smooth = -1;
    Vector6d measured;      // of a smooth one: the thrust at which it was judged how stiff it is
    Vector6d across;        // of an answering one: its effort across what is free, as at the state
    bool answers = false;   // smooth: to its slip at `share` of the way through the step
    bool implicit = false;  // in the friction problem it reads the thrust that its unknowns make, else a given one
    double share = 1;
  };
  /// A smooth term before it is decided how it is taken.
  struct Smooth {
    int site = 0, law = 0, term = 0, effort = 0, memory = -1;
    const Law::Term* what = nullptr;
    Vector6d e;       // at the state
    double rate = 0;  // at which it damps or turns what it acts on [1/s], other laws apart
    bool answers =
        false;           // whether it makes sense to ask it for the end of a step: it damps or turns, and does not feed
    bool turns = false;  // across its slip: neither damps nor feeds
    Eigen::Matrix<double, 6, 6> slope;  // effort against twist, which makes that rate; of laws without a memory
  };
  /// What a law makes of a twist of its site: effort = −damping · twist.
  struct Slope {
    int site = 0, effort = -1;  // the latter of smooth laws
    Eigen::Matrix<double, 6, 6> damping;
  };
  /// What a law is asked with, beside time and bodies.
  struct Asked {
    Vector3d relative = Vector3d::Zero(), spin = Vector3d::Zero();
    Vector6d thrust = Vector6d::Zero();
  };
  /// What a term did in the last steps: laws that jump, or are too strong for the step, reverse in each of them.
  struct History {
    Vector6d last = Vector6d::Zero(), seen = Vector6d::Zero();  // at the last step's end, at the last evaluation
    double largest = 0;
    Vector6d value = Vector6d::Zero();  // as LawSolver::ask, in the last step
    Asked asked;                        // and of what
    bool known = false, stuck = false;
    bool reversed = false;   // from one evaluation to the next, in this step
    unsigned reversals = 0;  // one bit for each step
    long overshoots = 0;     // reversals with the slip, by more than would have stopped it
    long switches = 0;
  };
  /// Internal state of one term.
  struct Memory {
    Vector3d value = Vector3d::Zero();  // as accepted
    Vector3d next = Vector3d::Zero();   // at the time of this evaluation
    bool given = false;                 // `next` by the caller
    const Law::Term* what = nullptr;
    Thrust thrust;
  };
  /// How the caller wants a contact held.
  struct Hold {
    Grip how = Grip::automatic;
    Vector6d sense = Vector6d::Zero();
  };
  /// How laws follow the thrusts that they call up, round by round.
  struct Following {
    int rounds = 0;
    double change = 0;   // in the last round, relative to the effort
    bool ended = false;  // too slow: what disagrees from here on reads its thrust implicitly
  };
  class Answers;

  void gather(const Scene& scene);
  void free_directions(const Scene& scene, Site& site) const;
  void motion_at(const Scene& scene, Site& site) const;
  Thrust thrust_of(const Scene& scene, const Site& site, const Law::Term& term, const Vector6d& reaction) const {
    return thrust_of(scene, site, term, reaction, site.relative, site.relative_spin);
  }
  Thrust thrust_of(const Scene& scene, const Site& site, const Law::Term& term, const Vector6d& reaction,
                   const Vector3d& relative, const Vector3d& spin) const;
  Vector6d slip_answered(const Piece& p) const;
  Thrust thrust_at_slip(const Scene& scene, const Piece& p, const Vector6d& reaction, const Vector6d& slip) const;
  void mobility_of(const Scene& scene, Site& site) const;
  Vector6d effort_at(const Scene& scene, const Smooth& s, const Vector6d& N, const Vector3d& relative,
                     const Vector3d& spin) const;
  bool depends_on_thrust(const Scene& scene, const Smooth& s) const;
  void measure(const Scene& scene, Smooth& s, const Vector6d& N);
  bool stiffens(const Scene& scene, Piece& p);
  void sort_smooth(const Scene& scene);
  void add(const Scene& scene, const Site& site, const Vector6d& effort, std::span<double> out) const;
  Vector6d twist(const Scene& scene, const Site& site, std::span<const double> v) const;
  Vector6d reaction(const Scene& scene, const Site& site, std::span<const double> lambda) const;
  Piece& add_piece(const Scene& scene, int site, int law, int term, const Law::Term& what, int memory, int effort);
  void note_memory(int which, const Thrust& n);
  void forget_response(const Scene& scene, std::span<double> vdot, std::span<double> nonideal,
                       std::span<double> induced);
  void mark_sliding(const Scene& scene);
  bool rounded_rest(const Scene& scene, const Piece& p, std::span<const double> vdot) const;
  bool keeps_sliding(const Scene& scene, const Piece& p, std::span<const double> vdot, double part) const;
  void slide(const Scene& scene, std::span<double> vdot, std::span<double> nonideal, std::span<double> induced);
  void set_basis(Piece& p, const Vector6d& effort);
  void read_thrusts(const Scene& scene, std::span<const double> induced);
  const Vector6d& thrust_read(const Piece& p) const;
  double disagreement(Answers& answers, Piece& p) const;
  bool agree(const Scene& scene, std::span<const double> induced, Following& so_far);
  bool rub(const Scene& scene, std::span<double> vdot, std::span<double> nonideal, std::span<double> induced);
  void pose(const Scene& scene, std::span<const double> vdot, std::span<const double> induced);
  void read_few_implicitly(const Scene& scene);
  void answer_to_units(const Scene& scene, std::size_t n, std::size_t m);
  void solve(const Scene& scene);
  bool moves_beyond_all_bounds() const;
  double slips_midway(const Scene& scene, std::span<const double> v);
  void look_for_jamming(const Scene& scene, Answers& answers);
  void respond(const Scene& scene, std::span<const double> c, std::span<double> vdot, std::span<double> nonideal,
               std::span<double> induced);
  void conclude(const Scene& scene, std::span<const double> vdot, std::span<const double> induced);
  void note_differences(const Scene& scene);
  std::string too_large(const Scene& scene, std::span<const double> nonideal);
  void book();
  std::string chatter(const Scene& scene) const;
  double residual_slip(const Scene& scene, int j, std::size_t m) const;
  double reach_of(const Scene& scene, const Piece& p, std::span<const double> vdot) const;
  double end_slip(const Scene& scene, const Piece& p, int k, std::span<const double> vdot, double h) const;
  Vector6d sense_of(const Piece& p) const;
  bool goes_its_own_way(const Piece& p) const;
  bool turns_with_slip(const Piece& p) const;
  void measure_turning(const Scene& scene);
  template <class Mobility>
  double bound_of_turning(const Mobility& mobility_of) const;
  double mobility_across(const Scene& scene, const Piece& p);
  double answer_of_constrained(const Scene& scene, std::span<const double> f, std::span<double> v);
  double rate_of_smooth(const Scene& scene, double from);
  double fastest_of_slopes(const Scene& scene, double from);
  int stiffest_of_slopes(const Scene& scene) const;
  void note_rate();
  void share_anew(Answers& answers);
  bool jumps_at_rest(const Scene& scene, const Piece& p, const detail::Six& N) const;
  std::string jump_at_end(const Scene& scene, const Piece& p);
  Vector6d effort_of(const Piece& p) const;
  void remember();
  void blame(const Site& site, const Law::Term& term) { at_fault_site_ = &site, at_fault_ = &term; }
  Vector6d ask(const Scene& scene, const Site& site, const Law::Term& term, const Asked& in);
  std::string jump_between(const Scene& scene, const Site& site, const Law::Term& term, Asked a, Asked b);
  Asked asked_of(const Site& site, const LawEffort& e) const;
  bool overshoots(const Site& site, const History& h, const Asked& asked, const Vector6d& now, int effort,
                  double dt) const;
  void look_for_jump(const Scene& scene, const Site& site, const Law::Term& term, int effort, const Vector6d& value);
  void look_for_jumps(const Scene& scene);
  void look_for_jump_at_rest(const Scene& scene, const Site& site, const Law::Term& term);
  void look_for_push(const Scene& scene, const Site& site, const Law::Term& term, const Vector6d& e);
  void note_flaw(const Scene& scene, const Site& site, const Law::Term& term, const std::string& what);
  void forget_flaw(const System& system);
  void check(const Scene& scene, const Site& site, const Law::Term& term, const Effort& effort, const Thrust& thrust);
  std::string name_of(const Scene& scene, const Site& site, const Law::Term& term) const {
    return name_of(scene.system, scene.assembly.block, site, term);
  }
  std::string name_of(const System& system, const Block& block, const Site& site, const Law::Term& term) const;
  std::string names_on(const Scene& scene, const Site& site) const;

  static constexpr double nan_ = std::numeric_limits<double>::quiet_NaN();
  std::vector<Site> sites_;
  std::vector<Piece> pieces_;
  std::vector<int> posed_;  // pieces of the friction problem, by block
  std::vector<Memory> memories_;
  std::vector<Hold> holds_;
  std::vector<Smooth> smooth_;
  std::vector<History> histories_;   // by index of efforts
  std::vector<char> stuck_before_;   // likewise: contacts that stuck at the last accept() before the last apply()
  std::vector<Vector6d> values_;     // likewise: what terms gave, as ask()
  std::vector<std::size_t> masses_;  // by slot: where its block of M begins
  std::vector<double> shared_;       // by slot: of all smooth laws on it, √rate
  std::vector<Slope> slopes_;        // of the rate that is being found,
  std::vector<double> rate_v_;       // and velocities that decay with it
  double smooth_rate_ = 0, turning_rate_ = 0;          // of LawReport::rate: of smooth laws, and of friction that turns
  double memory_rate_bound_ = 0;                       // the part that laws with a memory have in the former
  double smooth_share_ = nan_, turning_share_ = nan_;  // what these are of their bounds; NaN: not known
  int smooth_stiffest_ = -1;
  int places_ = 0, unknowns_ = 0;
  bool reads_actual_ = false;  // whether any law does
  bool implicit_ = false;      // whether any unknown does so implicitly
  std::vector<int> units_of_;  // pieces whose unit responses there are in this evaluation
  bool units_with_thrusts_ = false, resumes_ = false;
  detail::FrictionProblem problem_;
  std::vector<double> z_known_, z_;                     // efforts: of all pieces at the last evaluation; the unknowns
  std::vector<double> columns_, forces_, multipliers_;  // responses to unit efforts: v̇ [n], force [n], λ [m] each
  std::vector<double> given_, dv_, row_, lambda_, force_, kept_, kept_nonideal_, kept_induced_, work_, change_,
      mobility_;
  double memory_t_ = 0;
  bool memory_begun_ = false;
  const Site* at_fault_site_ = nullptr;
  const Law::Term* at_fault_ = nullptr;
  std::string flaw_;           // of a law as such, which is said for as long as the law is there
  unsigned long flaw_of_ = 0;  // which laws that was
};

/// All that one evaluation leaves to those after it.
struct LawSolver::Past {
  std::vector<Memory> memories;
  std::vector<Hold> holds;
  std::vector<History> histories;
  std::vector<double> z_known;
  double memory_t = 0;
  bool memory_begun = false;
  double smooth_share = nan_, turning_share = nan_;
};

}  // namespace linchpin
