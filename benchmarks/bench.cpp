// Runs the scenes under linchpin and under Bullet's own solvers in one process and prints one line of JSON per run:
// time beside error, and ratios to sequential impulse with ten iterations from the same process. `linchpin bench` and
// scripts/bench start it; by hand: linchpin-bench-bullet-float64 --scenes W1:100,W2 --solvers exact,si:10
#include "median.h"
#include "robots.h"
#include "scenes.h"

#include <linchpin/bullet.h>
#include <programs/measure.h>

#include <BulletDynamics/ConstraintSolver/btNNCGConstraintSolver.h>
#include <BulletDynamics/MLCPSolvers/btDantzigSolver.h>
#include <BulletDynamics/MLCPSolvers/btMLCPSolver.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>

namespace linchpin::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;
using programs::Program;

double microseconds(Clock::duration d) { return std::chrono::duration<double, std::micro>(d).count(); }

/// Between the world and its solver: the time from the bodies being handed over to their velocities being back.
class Timed final : public btConstraintSolver {
 public:
  explicit Timed(btConstraintSolver& inner) : inner_(inner) {}
  double spent = 0;  ///< since it was last set to 0 [µs]

  void prepareSolve(int bodies, int manifolds) override {
    const auto start = Clock::now();
    inner_.prepareSolve(bodies, manifolds);
    spent += microseconds(Clock::now() - start);
  }
  btScalar solveGroup(btCollisionObject** bodies, int nb, btPersistentManifold** manifolds, int nm,
                      btTypedConstraint** constraints, int nc, const btContactSolverInfo& info, btIDebugDraw* draw,
                      btDispatcher* dispatcher) override {
    const auto start = Clock::now();
    const btScalar result = inner_.solveGroup(bodies, nb, manifolds, nm, constraints, nc, info, draw, dispatcher);
    spent += microseconds(Clock::now() - start);
    return result;
  }
  void allSolved(const btContactSolverInfo& info, btIDebugDraw* draw) override {
    const auto start = Clock::now();
    inner_.allSolved(info, draw);
    spent += microseconds(Clock::now() - start);
  }
  void reset() override { inner_.reset(); }
  btConstraintSolverType getSolverType() const override { return inner_.getSolverType(); }

 private:
  btConstraintSolver& inner_;
};

struct SolverName {
  std::string text, kind;
  int iterations = 10;  ///< of exact, rk4, adaptive, law and dry: threads
  int rate = 0;         ///< steps per second; 0: the scene's
  bool exact() const {
    return kind == "exact" || kind == "rk4" || kind == "adaptive" || kind == "law" || kind == "dry";
  }
  bullet::Stepping stepping() const {
    return kind == "rk4"        ? bullet::Stepping::rk4
           : kind == "adaptive" ? bullet::Stepping::adaptive
                                : bullet::Stepping::semi_implicit;
  }
};

SolverName parse(const std::string& text) {
  SolverName s{text, text.substr(0, text.find('@')), 10, 0};
  if (const auto sign = text.find('@'); sign != std::string::npos) {
    const char *first = text.data() + sign + 1, *last = text.data() + text.size();
    if (std::from_chars(first, last, s.rate).ptr != last || s.rate < 1)
      throw std::invalid_argument("solver \"" + text + "\": steps per second are a whole number from 1 on");
  }
  if (s.exact()) s.iterations = 1;
  if (const std::string name = s.kind; name.find(':') != std::string::npos) {
    const auto colon = name.find(':');
    s.kind = name.substr(0, colon);
    if (s.exact()) s.iterations = 1;
    const char *first = name.data() + colon + 1, *last = name.data() + name.size();
    if (std::from_chars(first, last, s.iterations).ptr != last || s.iterations < 1)
      throw std::invalid_argument("solver \"" + text +
                                  "\": iterations (of exact: threads) are a whole number from 1 on");
  }
  if (!s.exact() && s.kind != "si" && s.kind != "nncg" && s.kind != "mlcp")
    throw std::invalid_argument(
        "there is no solver \"" + text +
        "\"; known: exact, exact:N, rk4, adaptive, law, dry, si, si:N, nncg, nncg:N, mlcp; each with @R for R steps "
        "a second");
  return s;
}

/// Forces of all joints on each body about its centre, [force; moment] by body.
using Forces = std::vector<Eigen::Matrix<double, 6, 1>>;

/// ‖x‖ in the metric of M⁻¹.
double norm(const Program& s, const Forces& x) {
  double sum = 0;
  for (std::size_t i = 0; i < s.bodies.size(); ++i) {
    const btRigidBody& body = *s.bodies[i];
    const auto& f = x[i];
    sum += f.head<3>().squaredNorm() * double(body.getInvMass());
    const Vector3d m = f.tail<3>();
    sum += m.dot(bullet::from_bullet(body.getInvInertiaTensorWorld() * bullet::to_bullet(m)));
  }
  return std::sqrt(sum);
}

/// The forces of a dense rank-revealing solution at the start (T8): the same scene, asked once.
Forces dense_forces(const SceneKind& kind, int size) {
  const auto s = kind.build(size);
  bullet::Solver exact(s->world);
  s->step();
  Forces out(s->bodies.size(), Eigen::Matrix<double, 6, 1>::Zero());
  SolveOptions reference;
  reference.backend = Backend::dense;
  const ConstrainedProblem problem = exact.problem(exact.reactions()[0].name);
  const Acceleration a = solve(problem, reference);
  // One block: its columns are the bodies in the order of their ids.
  std::vector<std::pair<int, std::size_t>> order;
  for (std::size_t i = 0; i < s->bodies.size(); ++i) order.emplace_back(exact.id(*s->bodies[i]).index, i);
  std::sort(order.begin(), order.end());
  for (std::size_t k = 0; k < order.size(); ++k)
    out[order[k].second] = a.ideal.segment<6>(static_cast<Eigen::Index>(6 * k));
  return out;
}

struct Run {
  std::unique_ptr<Program> scene;
  SolverName name;
  std::unique_ptr<btConstraintSolver> native;
  std::unique_ptr<btMLCPSolverInterface> lcp;
  std::unique_ptr<bullet::Solver> exact;
  std::unique_ptr<Timed> timed;
  btConstraintSolver* inner = nullptr;
  std::vector<std::unique_ptr<btJointFeedback>> feedback;
  std::vector<double> step, solve;  // [µs]
  double gap = 0, start_energy = 0, force_error = -1;
  double drift = 0, most_kinetic = 0;  ///< of the energy, and what it is compared with [J]
  int rows_at_start = 0;               ///< equalities; joints may break
  bool finite = true;

  Run(const SceneKind& kind, int size, const SolverName& solver, const Forces& reference)
      : scene(kind.build(size)), name(solver) {
    if (name.rate > 0) scene->dt = 1.0 / name.rate;
    if (name.kind == "nncg") native = std::make_unique<btNNCGConstraintSolver>();
    if (name.kind == "mlcp") {
      lcp = std::make_unique<btDantzigSolver>();
      native = std::make_unique<btMLCPSolver>(lcp.get());
    }
    if (native) scene->world.setConstraintSolver(native.get());
    if (name.exact())
      exact = std::make_unique<bullet::Solver>(
          scene->world, bullet::Options{.stepping = name.stepping(), .threads = name.iterations});
    else
      scene->world.getSolverInfo().m_numIterations = name.iterations;
    if (name.exact() && kind.compliance)
      for (const auto& joint : scene->joints) exact->handle(*joint).compliance(*kind.compliance);
    if (name.kind ==
        "law")  // on every joint: a torque by the frictionless normal force, for one more back-solve in all
      for (std::size_t i = 0; i < scene->joints.size(); ++i)
        exact->name_joint(*scene->joints[i], "joint " + std::to_string(i))
            .law(Law([](const ConstraintReaction& n) {
                   const double bearing = 1e-6 * n.magnitude();
                   return ForceMoment{Vector3d::Zero(), Vector3d(-bearing * n.spin_velocity /
                                                                 std::sqrt(n.spin_velocity.squaredNorm() + 1))};
                 }).with_normal_force(NormalForce::frictionless));
    if (name.kind == "dry")  // on every joint: dry friction of a thin pin, which slides but where the joint turns back
      for (std::size_t i = 0; i < scene->joints.size(); ++i)
        exact->name_joint(*scene->joints[i], "joint " + std::to_string(i))
            .law(laws::ball_friction({.mu_static = 0.1, .mu_kinetic = 0.1, .pin_radius = 1e-4})
                     .with_normal_force(NormalForce::frictionless));
    inner = scene->world.getConstraintSolver();
    timed = std::make_unique<Timed>(*inner);
    scene->world.setConstraintSolver(timed.get());
    rows_at_start = rows();
    start_energy = programs::energy(scene->world);
    if (kind.forces) {
      for (std::size_t i = 0; i < scene->joints.size(); ++i) {
        feedback.push_back(std::make_unique<btJointFeedback>());
        scene->joints[i]->setJointFeedback(feedback.back().get());
      }
      one_step();
      Forces found(reference.size(), Eigen::Matrix<double, 6, 1>::Zero());
      for (std::size_t i = 0; i < scene->joints.size(); ++i) {
        const auto add = [&](const btRigidBody& body, const Vector3d& f, const Vector3d& m) {
          const int k = body.getUserIndex();
          if (&body == &btTypedConstraint::getFixedBody()) return;
          found[static_cast<std::size_t>(k)].head<3>() += f;
          found[static_cast<std::size_t>(k)].tail<3>() += m;
        };
        const btJointFeedback& fb = *feedback[i];
        if (exact) {
          const Reaction& r = exact->reactions()[i];
          // About the centres at the start, where the reaction belongs.
          const auto about = [&](const Wrench& w, const btRigidBody& body) {
            return w.about(bullet::from_bullet(body.getCenterOfMassPosition()) -
                           bullet::from_bullet(body.getLinearVelocity()) * double(btScalar(scene->dt)));
          };
          const Wrench a = about(r.on_a, scene->joints[i]->getRigidBodyA()),
                       b = about(r.on_b, scene->joints[i]->getRigidBodyB());
          add(scene->joints[i]->getRigidBodyA(), a.force, a.moment);
          add(scene->joints[i]->getRigidBodyB(), b.force, b.moment);
        } else {
          add(scene->joints[i]->getRigidBodyA(), bullet::from_bullet(fb.m_appliedForceBodyA),
              bullet::from_bullet(fb.m_appliedTorqueBodyA));
          add(scene->joints[i]->getRigidBodyB(), bullet::from_bullet(fb.m_appliedForceBodyB),
              bullet::from_bullet(fb.m_appliedTorqueBodyB));
        }
      }
      Forces difference = found;
      for (std::size_t i = 0; i < difference.size(); ++i) difference[i] -= reference[i];
      force_error = norm(*scene, difference) / norm(*scene, reference);
      for (const auto& joint : scene->joints) joint->setJointFeedback(nullptr);
    }
  }
  ~Run() {
    scene->world.setConstraintSolver(inner);  // before linchpin leaves, which looks for its own
    exact.reset();
    scene->world.setConstraintSolver(&scene->native);
  }

  void one_step() {
    timed->spent = 0;
    const auto start = Clock::now();
    scene->step();
    step.push_back(microseconds(Clock::now() - start));
    solve.push_back(timed->spent);
  }
  void steps(int count) {
    for (int i = 0; i < count && finite; ++i) {
      one_step();
      if (step.size() % 10 == 0 || scene->joints.size() < 2000)
        gap = std::max(gap, programs::largest_gap(scene->world).length);
      finite = programs::finite(scene->world);
      if (scene->joints.size() < 2000) note_energy();
    }
  }
  void note_energy() {
    drift = std::max(drift, std::abs(programs::energy(scene->world) - start_energy));
    double kinetic = 0;
    for (const auto& body : scene->bodies) {
      if (body->isStaticOrKinematicObject()) continue;
      const Vector3d v = bullet::from_bullet(body->getLinearVelocity()),
                     w = bullet::from_bullet(body->getWorldTransform().getBasis().transpose() *
                                             body->getAngularVelocity());
      kinetic += 0.5 * v.squaredNorm() / double(body->getInvMass());
      for (int k = 0; k < 3; ++k)
        if (const double inverse = double(body->getInvInertiaDiagLocal()[k]); inverse > 0)
          kinetic += 0.5 * w[k] * w[k] / inverse;
    }
    most_kinetic = std::max(most_kinetic, kinetic);
  }
  /// Time in the solver [µs] of steps that begin with the joint in the middle just switched off, and just switched on
  /// again. They count with no others.
  std::pair<double, double> switched() {
    if (!exact || !finite || scene->joints.empty()) return {NAN, NAN};
    const std::size_t before = step.size();
    btTypedConstraint& joint = *scene->joints[scene->joints.size() / 2];
    std::vector<double> off, on;
    for (int i = 0; i < 8; ++i) {
      joint.setEnabled(i % 2 == 1);
      one_step();
      (joint.isEnabled() ? on : off).push_back(solve.back());
    }
    step.resize(before);
    solve.resize(before);
    return {median(off), median(on)};
  }
  int rows() const {
    int sum = 0;
    for (const auto& joint : scene->joints) sum += programs::rows_of(*joint);
    return sum;
  }
  double wall() const {
    double sum = 0;
    for (const double x : step) sum += x;
    return 1e-6 * sum;
  }
  /// Bullet steps, counting each that was redone in parts as so many.
  double substeps_per_step() const {
    if (!exact) return 1;
    const bullet::Counts& c = exact->counts();
    return c.steps > 0 && c.solves > 0 ? double(c.solves - c.substepped_steps + c.substeps) / double(c.solves) : 1;
  }
};

double peak_megabytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind("VmHWM:", 0) == 0) return std::stod(line.substr(6)) / 1024;
  return 0;
}

Json number(double x) { return std::isfinite(x) ? Json(x) : Json(nullptr); }

/// How the block of the first constraint is solved at the end: "sparse", or "dense" where all of it is left to the
/// reference.
Json path_of(const Run& r) {
  if (!r.exact || r.exact->reactions().empty()) return nullptr;
  const ConstrainedProblem problem = r.exact->problem(r.exact->reactions()[0].name);
  ConstraintFactorization solver;
  if (problem.m() == 0 || !solver.factor(problem)) return nullptr;
  return to_string(solver.info().backend);
}

Json row(const SceneKind& kind, int size, Run& r, double si10_solve, double si10_step, bool switching) {
  const double peak = peak_megabytes();  // of steps, before anything is asked about them
  const double sub = r.substeps_per_step(), solve = median(r.solve) / sub, step = median(r.step);
  Json out;
  out["scene"] = kind.name;
  out["size"] = size;
  out["bodies"] = std::count_if(r.scene->bodies.begin(), r.scene->bodies.end(),
                                [](const auto& body) { return !body->isStaticObject(); });
  out["rows"] = r.rows_at_start;
  out["dt_s"] = r.scene->dt;
  out["precision"] = sizeof(btScalar) == 4 ? "single" : "double";
  out["solver"] = r.name.text;
  out["steps"] = r.step.size();
  out["substeps_per_step"] = sub;
  out["ns_per_row_solver"] = number(1e3 * solve / r.rows_at_start);
  out["us_per_step"] = number(step);
  out["ms_per_simulated_s"] = number(1e3 * r.wall() / (double(r.step.size()) * r.scene->dt));
  out["ratio_to_si10_solver"] = number(si10_solve > 0 ? solve / si10_solve : NAN);
  out["ratio_to_si10_step"] = number(si10_step > 0 ? step / si10_step : NAN);
  out["max_gap_m"] = number(r.finite ? r.gap : NAN);
  out["energy_drift_rel"] = number(r.finite && r.most_kinetic > 0 ? r.drift / r.most_kinetic : NAN);
  out["energy_change_J"] = number(r.finite ? programs::energy(r.scene->world) - r.start_energy : NAN);
  out["force_error_rel"] = r.force_error >= 0 ? number(r.force_error) : Json(nullptr);
  out["peak_mb"] = peak;
  out["factorizations_per_step"] =
      r.exact && r.exact->counts().steps > 0
          ? number(double(r.exact->counts().factorizations) / double(r.exact->counts().steps))
          : Json(nullptr);
  if (switching) {
    const double usual = median(r.solve);
    const auto [off, on] = r.switched();
    out["ratio_of_step_switched_off"] = number(off / usual);
    out["ratio_of_step_switched_on"] = number(on / usual);
  }
  out["newton_solves_per_step"] =
      r.exact && r.exact->counts().steps > 0
          ? number(double(r.exact->counts().newton_solves) / double(r.exact->counts().steps))
          : Json(nullptr);
  out["law_solves_per_step"] = r.exact && r.exact->counts().steps > 0
                                   ? number(double(r.exact->counts().law_solves) / double(r.exact->counts().steps))
                                   : Json(nullptr);
  out["backend"] = path_of(r);
  out["fallbacks"] = r.exact ? r.exact->counts().fallbacks : 0;
  out["status"] = r.finite ? "ok" : "diverged";
  return out;
}

struct Options {
  std::vector<std::pair<const SceneKind*, int>> cases;
  std::vector<std::pair<std::string, int>> robots;
  std::vector<SolverName> solvers;
  double duration = 2, budget = 20;
  bool switching = false;  ///< a joint off and on, after the run
};

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    out.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

Options parse_options(int argc, char** argv) {
  Options o;
  std::string cases = "all", solvers = "exact,si:10,si:50,si:200,nncg:10,mlcp";
  for (int i = 1; i < argc; ++i) {
    const std::string key = argv[i];
    if (i + 1 >= argc) throw std::invalid_argument(key + " needs a value");
    const std::string value = argv[++i];
    if (key == "--scenes")
      cases = value;
    else if (key == "--solvers")
      solvers = value;
    else if (key == "--duration")
      o.duration = std::stod(value);
    else if (key == "--budget")
      o.budget = std::stod(value);
    else if (key == "--switching")
      o.switching = value == "yes";
    else
      throw std::invalid_argument("there is no option " + key +
                                  "; known: --scenes W1:100,W2 --solvers exact,si:10 --duration s --budget s "
                                  "--switching yes");
  }
  for (const std::string& each : split(cases)) {
    const std::string name = each.substr(0, each.find(':'));
    if (name == "all") {
      for (const SceneKind& kind : scenes())
        for (const int size : kind.sizes) o.cases.emplace_back(&kind, size);
      continue;
    }
    const bool robot = is_robot(name);
    const SceneKind* kind = find_scene(name);
    if (!kind && !robot) {
      std::string known;
      for (const SceneKind& k : scenes()) known += (known.empty() ? "" : ", ") + std::string(k.name);
      known += ", R1, R2, R3, R4, R5, R5+1, R5+2, R5+4";
      throw std::invalid_argument("there is no scene \"" + name + "\"; known: " + known + ", all");
    }
    if (name.size() == each.size()) {
      if (robot)
        for (const int size : robot_sizes(name)) o.robots.emplace_back(name, size);
      else
        for (const int size : kind->sizes) o.cases.emplace_back(kind, size);
      continue;
    }
    int size = 0;
    const char *first = each.data() + name.size() + 1, *last = each.data() + each.size();
    if (std::from_chars(first, last, size).ptr != last || size < 1)
      throw std::invalid_argument("scene \"" + each + "\": the size is a whole number from 1 on");
    if (robot)
      o.robots.emplace_back(name, size);
    else
      o.cases.emplace_back(kind, size);
  }
  for (const std::string& each : split(solvers)) o.solvers.push_back(parse(each));
  if (!(o.duration > 0) || !(o.budget > 0)) throw std::invalid_argument("--duration and --budget are seconds above 0");
  return o;
}

void run_case(const Options& o, const SceneKind& kind, int size) {
  const auto steps_of = [&](const Run& r) {
    return std::max(1, static_cast<int>(std::lround(o.duration / r.scene->dt)));
  };
  const Forces reference = kind.forces ? dense_forces(kind, size) : Forces{};
  double si10_solve = 0, si10_step = 0;

  // Exact and ten iterations take turns, so that whatever else the machine does falls on both.
  std::vector<std::unique_ptr<Run>> pair;
  std::vector<const SolverName*> others;
  for (const SolverName& s : o.solvers) {
    if (s.exact() || (s.kind == "si" && s.iterations == 10))
      pair.push_back(std::make_unique<Run>(kind, size, s, reference));
    else
      others.push_back(&s);
  }
  for (bool more = true; more;) {
    more = false;
    for (auto& r : pair) {
      const int left = steps_of(*r) - static_cast<int>(r->step.size());
      if (left <= 0 || !r->finite || r->wall() > o.budget) continue;
      r->steps(std::min(left, size > 2000 ? 10 : 60));
      more = true;
    }
  }
  for (auto& r : pair)
    if (r->name.kind == "si") {
      si10_solve = median(r->solve);
      si10_step = median(r->step);
    }
  for (auto& r : pair) std::cout << row(kind, size, *r, si10_solve, si10_step, o.switching).dump() << std::endl;
  pair.clear();
  for (const SolverName* s : others) {
    Run r(kind, size, *s, reference);
    if (s->kind == "mlcp" && r.rows_at_start > 700) continue;  // cubic in the rows: hours
    while (static_cast<int>(r.step.size()) < steps_of(r) && r.finite && r.wall() < o.budget)
      r.steps(std::min(10, steps_of(r) - static_cast<int>(r.step.size())));
    std::cout << row(kind, size, r, si10_solve, si10_step, o.switching).dump() << std::endl;
  }
}

}  // namespace
}  // namespace linchpin::bench

int main(int argc, char** argv) {
  try {
    const auto options = linchpin::bench::parse_options(argc, argv);
    for (const auto& [kind, size] : options.cases) linchpin::bench::run_case(options, *kind, size);
    for (const auto& [robot, size] : options.robots)
      linchpin::bench::run_robot(robot, size, options.duration, options.budget);
  } catch (const std::exception& e) {
    std::cerr << "linchpin-bench: " << e.what() << "\n";
    return 2;
  }
  return 0;
}
