#include "start_velocities.h"

#include "joint_coordinate.h"

#include <linchpin/dynamics.h>
#include <linchpin/projection.h>
#include <linchpin/scene/modes.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <random>
#include <vector>

namespace linchpin::scene {

namespace {

constexpr double met = 1e-10;  // relative to 1 and to the fastest body

// A name that no constraint of the scene has.
std::string free_name(const Model& model) {
  std::string name = "start";
  const auto taken = [&] {
    return std::any_of(model.constraints.begin(), model.constraints.end(),
                       [&](const SceneConstraint& c) { return c.name == name; });
  };
  while (taken()) name += "'";
  return name;
}

// How far the velocities are from the constraints: the largest row.
struct Left {
  double relative = 0;          // to 1 and to the fastest body
  double value = 0;             // left side less right side
  int constraint = 0, row = 0;  // in the layout; the row of the constraint
};

Left largest_residual(const Dynamics& dynamics) {
  const Assembly& a = dynamics.assembly();
  double scale = 1;
  for (const double v : a.v) scale = std::max(scale, std::abs(v));
  Left left;
  for (std::size_t row = 0; row < a.velocity.size(); ++row) {
    const double x = std::abs(a.velocity[row]) / scale;
    if (!(x > left.relative)) continue;
    const int constraint = a.problem.row_constraint[row];
    left = {x, a.velocity[row], constraint, static_cast<int>(row) - a.layout.row[static_cast<std::size_t>(constraint)]};
  }
  return left;
}

// The system of a search: the constraints and the rows that are given.
class Search {
 public:
  Search(const System& system, const SolveOptions& options)
      : system_(system), dynamics_(system, options), start_(system.initial_state()) {}

  const State& start() const { return start_; }
  const Dynamics& dynamics() const { return dynamics_; }
  bool factor(const State& state) { return dynamics_.factor(state) != Status::invalid; }
  bool is_met(const State& state) { return factor(state) && largest_residual(dynamics_).relative <= met; }

  // Newton's method from the velocities of a state. @return false where something is not finite
  bool newton(State& state, int most_iterations = 50) {
    constexpr int most_without_gain = 5;
    double best = std::numeric_limits<double>::infinity();
    for (int i = 0, without_gain = 0; i < most_iterations && without_gain < most_without_gain; ++i) {
      if (!factor(state)) return false;
      const double left = largest_residual(dynamics_).relative;
      if (left < 1e-15) return true;
      without_gain = left > met && left > 0.99 * best ? without_gain + 1 : 0;
      best = std::min(best, left);
      project_velocities(system_, dynamics_, state);
    }
    return factor(state);
  }

  // From velocities that meet the rows to the nearest ones to the start that do: each iteration takes the nearest ones
  // that meet the rows as they are linear there.
  void approach_start(State& state) {
    constexpr int most_iterations = 50;
    State next = state;
    for (int i = 0; i < most_iterations; ++i) {
      if (!factor(next)) return;
      const Assembly& a = dynamics_.assembly();
      const std::vector<double> v0 = velocities(start_);
      std::vector<double> e(a.velocity.size()), dv(v0.size());
      for (std::size_t r = 0; r < e.size(); ++r) {
        e[r] = -a.velocity[r];
        for (int k = a.problem.row_start[r]; k < a.problem.row_start[r + 1]; ++k) {
          const auto& entry = a.problem.entries[static_cast<std::size_t>(k)];
          const auto column = static_cast<std::size_t>(entry.column);
          e[r] += entry.value * (a.v[column] - v0[column]);
        }
      }
      dynamics_.solver().apply(e, {}, {}, dv);
      for (std::size_t j = 0; j < dv.size(); ++j) dv[j] += v0[j];
      double moved = 0, size = 1;
      for (std::size_t j = 0; j < dv.size(); ++j) {
        moved = std::max(moved, std::abs(dv[j] - a.v[j]));
        size = std::max(size, std::abs(dv[j]));
      }
      set_velocities(dv, next);
      if (!std::isfinite(moved)) return;
      if (moved < 1e-13 * size) break;
    }
    if (newton(next) && is_met(next) && change(next) < change(state)) state = next;
  }

  // Kinetic energy of the difference between the velocities of a state and those of the start [J].
  double change(const State& state) const {
    double sum = 0;
    const std::vector<double> v = velocities(state), v0 = velocities(start_);
    const ConstrainedProblem& in = dynamics_.assembly().problem;
    std::size_t first = 0, block = 0;
    for (const int n : in.block_sizes) {
      const auto size = static_cast<std::size_t>(n);
      for (std::size_t i = 0; i < size; ++i)
        for (std::size_t j = 0; j < size; ++j)
          sum += 0.5 * (v[first + i] - v0[first + i]) * in.mass[block + i * size + j] * (v[first + j] - v0[first + j]);
      first += size, block += size * size;
    }
    return sum;
  }

  // Velocities of one size that are not zero: all ones first, then some at random, the same on every machine.
  State tried(double size, int number) const {
    State out = start_;
    std::minstd_rand numbers(static_cast<unsigned>(number) + 1);
    std::vector<double> v = velocities(out);
    for (double& each : v)
      each += number == 0 ? size : size * (2 * (double(numbers()) / double(std::minstd_rand::max())) - 1);
    set_velocities(v, out);
    return out;
  }

 private:
  std::vector<double> velocities(const State& state) const {
    const IslandLayout& layout = dynamics_.assembly().layout;
    std::vector<double> out;
    for (std::size_t s = 0; s < layout.bodies.size(); ++s) {
      const BodyState& body = state[layout.bodies[s]];
      for (int j = 0; j < layout.column[s + 1] - layout.column[s]; ++j)
        out.push_back(j < 3 ? body.v[j] : body.w[j - 3]);
    }
    return out;
  }
  void set_velocities(const std::vector<double>& v, State& state) const {
    const IslandLayout& layout = dynamics_.assembly().layout;
    for (std::size_t s = 0; s < layout.bodies.size(); ++s) {
      BodyState& body = state[layout.bodies[s]];
      const int first = layout.column[s];
      for (int j = 0; j < layout.column[s + 1] - first; ++j)
        (j < 3 ? body.v[j] : body.w[j - 3]) = v[static_cast<std::size_t>(first + j)];
    }
  }

  const System& system_;
  Dynamics dynamics_;
  State start_;
};

// Where Newton's method from the start does not come to an end, as at rest, where a square of a velocity has no
// derivative. @return whether there is one
bool search_around(Search& search, State& state) {
  constexpr double sizes[] = {1, 0.1, 10, 0.01, 100, 1e-3, 1e3};
  constexpr int directions = 5;
  double least = std::numeric_limits<double>::infinity();
  for (const double size : sizes)
    for (int number = 0; number < directions; ++number) {
      State found = search.tried(size, number);
      if (!search.newton(found, 200) || !search.is_met(found)) continue;
      search.approach_start(found);
      const double change = search.change(found);
      if (!(change < least * (1 - 1e-9))) continue;
      least = change;
      state = found;
    }
  return std::isfinite(least);
}

// "left side 3 rad/s below its right side", "left side 9 above its right side, in the unit of its equation"
std::string sides(double left_less_right, const std::string& unit) {
  char text[40];
  std::snprintf(text, sizeof text, "left side %.4g", std::abs(left_less_right));
  return std::string(text) + (unit.empty() ? "" : " " + unit) + (left_less_right < 0 ? " below" : " above") +
         " its right side" + (unit.empty() ? ", in the unit of its equation" : "");
}

std::string speed(double x, const std::string& unit) {
  char text[40];
  std::snprintf(text, sizeof text, "%.4g", std::abs(x));
  return text + (unit.empty() ? " per second, in the unit of its equation" : " " + unit);
}

void write_velocities(const System& system, const State& state, Model& model) {
  for (std::size_t i = 0; i < model.bodies.size(); ++i) {
    const BodyId id{static_cast<int>(i) + 1};
    if (system.dof(id) == 0) continue;
    model.bodies[i].start.v = state[id].v;
    model.bodies[i].start.w = state[id].w;
  }
}

// The rate of a joint less a given one.
class RateFunction final : public ConstraintFunction {
 public:
  RateFunction(const JointCoordinate& joint, double rate) : joint_(joint), rate_(rate) {}
  std::unique_ptr<ConstraintFunction> clone() const override { return std::make_unique<RateFunction>(*this); }
  int rows() const override { return 1; }
  int bodies() const override { return 2; }
  Level level() const override { return Level::velocity; }
  RowUnit unit(int) const override { return RowUnit::custom; }

  void residual(std::span<const BodyState> X, double, std::span<double> out) const override {
    out[0] = coordinate_row(joint_, X[0], X[1], joint_.start_values()).rate - rate_;
  }

  void linearize(std::span<const BodyState> X, double, Linearization out) const override {
    const CoordinateRow row = coordinate_row(joint_, X[0], X[1], joint_.start_values());
    const Vector3d* const parts[] = {&row.linear_P, &row.angular_P, &row.linear_C, &row.angular_C};
    for (std::size_t k = 0; k < 4; ++k)
      for (std::size_t i = 0; i < 3; ++i) out.A[3 * k + i] = (*parts[k])[static_cast<Eigen::Index>(i)];
    out.velocity[0] = row.rate - rate_, out.b[0] = row.b;
  }

 private:
  JointCoordinate joint_;
  double rate_;
};

std::string unit_of_opening(const ConstraintFunction& f, int row) {
  if (f.level() != Level::position) return {};
  return f.unit(row) == RowUnit::metre ? "m/s" : f.unit(row) == RowUnit::radian ? "rad/s" : "";
}

}  // namespace

std::optional<StartFailure> assemble_velocities(Model& model, const std::shared_ptr<const Tape>& given,
                                                const std::vector<std::string>& units) {
  System system = model.system();
  std::vector<BodyId> bodies;
  for (const int body : given->bodies) bodies.push_back(BodyId{body});
  const ConstraintId added =
      system.add(Constraint(free_name(model), bodies, make_function(given, Level::velocity, RowUnit::custom)));
  Search search(system, model.options.solve);
  State state = search.start();
  if (!search.factor(state)) return StartFailure{search.dynamics().reason()};
  Left left = largest_residual(search.dynamics());
  const bool finite = search.newton(state);
  if (finite) left = largest_residual(search.dynamics());
  if (!(finite && left.relative <= met) && !search_around(search, state)) {
    const ConstraintId id = search.dynamics().assembly().layout.constraints[static_cast<std::size_t>(left.constraint)];
    const std::string what =
        id == added ? "The best ones leave its " + sides(left.value, units[static_cast<std::size_t>(left.row)])
                    : "With the best ones, \"" + system.name(id) + "\" opens with " +
                          speed(left.value, unit_of_opening(system.constraint(id).function(), left.row));
    return StartFailure{"no start velocities satisfy this equation and the constraints. " + what +
                            ". Give a rate that the mechanism can have",
                        id == added ? left.row : 0};
  }
  write_velocities(system, state, model);
  return {};
}

RateAssembly assemble_rates(Model& model, const std::vector<const SceneConstraint*>& joints,
                            const std::vector<double>& rates) {
  System system = model.system(), given = model.system();
  for (const SceneConstraint& c : model.constraints) {
    const ConstraintId id = system.find_constraint(c.name);
    if (!c.unilateral || !is_open(system, id, system.initial_state())) continue;
    system.enable(id, false);
    given.enable(given.find_constraint(c.name), false);
  }
  Search without(system, model.options.solve);
  RateAssembly out;
  if (without.is_met(without.start())) return out;
  std::vector<JointCoordinate> coordinates;
  std::string name = free_name(model);
  for (std::size_t k = 0; k < joints.size(); ++k) {
    const SceneConstraint& c = *joints[k];
    coordinates.push_back(coordinate_of(c, without.start()));
    given.add(Constraint(name += "'", c.bodies, std::make_unique<RateFunction>(coordinates.back(), rates[k])));
  }
  Search with(given, model.options.solve);
  State state = with.start();
  if (with.newton(state) && with.is_met(state)) {
    out.outcome = RateAssembly::Outcome::met;
    write_velocities(system, state, model);
    return out;
  }
  out.outcome = RateAssembly::Outcome::not_met;
  state = without.start();
  (void)without.newton(state);
  for (const JointCoordinate& j : coordinates)
    out.rates.push_back(coordinate_row(j, state[BodyId{j.parent}], state[BodyId{j.child}], j.start_values()).rate);
  return out;
}

}  // namespace linchpin::scene
