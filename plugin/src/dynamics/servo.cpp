// Control forces of servo-constraints (T17): the least weighted inputs whose effect on the constrained accelerations
// meets the rows of the servos.
#include <linchpin/servo.h>

#include "math/vector_ops.h"
#include "model/format.h"
#include "problem/jacobian_products.h"

#include <linchpin/dynamics.h>

#include <Eigen/QR>

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace linchpin {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

/// Rows that depend on others to this relative size count as dependent.
constexpr double independent = 1e-10;

void check_number(const std::string& name, const char* what, double value, bool is_positive) {
  if (std::isfinite(value) && (value > 0 || (!is_positive && value == 0))) return;
  throw std::invalid_argument("\"" + name + "\" has the " + what + " " + text(value) + ", expected a finite number " +
                              (is_positive ? "above 0" : "from 0"));
}

/// Computes the wrenches of a force on its bodies, in their order.
void wrenches_of(const Force& force, double t, std::span<const BodyState> bodies, std::span<Vector6> wrenches) {
  for (Vector6& wrench : wrenches) wrench.setZero();
  ForceFrame frame(t, bodies, wrenches);
  force.act(frame);
}

}  // namespace

struct ServoController::Impl {
  Impl(System& of, std::vector<Servo> all_servos, std::vector<Actuator> all_actuators, SolveOptions options)
      : system(of), servos(std::move(all_servos)), actuators(std::move(all_actuators)) {
    check();
    inputs = std::make_shared<std::vector<double>>(actuators.size(), 0.0);
    for (std::size_t j = 0; j < actuators.size(); ++j) add_force(j);
    dynamics = std::make_unique<Dynamics>(system, options);
    for (const Servo& s : servos) {
      const std::string& name = s.constraint.name();
      const int m = s.constraint.function().rows();
      for (int r = 1; r <= m; ++r) names.push_back(m == 1 ? name : name + " row " + std::to_string(r));
    }
  }

  ~Impl() { std::fill(inputs->begin(), inputs->end(), 0.0); }

  /// Adds the force of an actuator, which follows its input.
  void add_force(std::size_t j) {
    const Force& unit = actuators[j].unit;
    const std::size_t count = unit.bodies().size();
    const auto act = [unit, j, count, values = inputs, at = std::vector<BodyState>(count),
                      wrenches = std::vector<Vector6>(count)](ForceFrame& frame) mutable {
      const double input = (*values)[j];
      if (input == 0) return;
      for (std::size_t k = 0; k < count; ++k) at[k] = frame[k];
      wrenches_of(unit, frame.t, at, wrenches);
      for (std::size_t k = 0; k < count; ++k) {
        frame.add_force(k, input * Vector3d(wrenches[k].head<3>()));
        frame.add_moment(k, input * Vector3d(wrenches[k].tail<3>()));
      }
    };
    system.add(Force(unit.name(), {unit.bodies().begin(), unit.bodies().end()}, act));
  }

  void check() const {
    if (servos.empty()) throw std::invalid_argument("a servo controller needs at least one servo");
    if (actuators.empty()) throw std::invalid_argument("a servo controller needs at least one actuator");
    for (const Servo& s : servos) {
      check_number(s.constraint.name(), "frequency", s.frequency, false);
      check_number(s.constraint.name(), "damping ratio", s.damping_ratio, false);
      for (const BodyId id : s.constraint.bodies())
        if (id.index < 0 || id.index >= system.body_count() || system.removed(id))
          throw std::invalid_argument("the servo \"" + s.constraint.name() + "\" names a body that does not exist");
    }
    for (const Actuator& a : actuators) {
      check_number(a.unit.name(), "weight", a.weight, true);
      if (!(a.max_input >= 0))  // Infinity: there is no limit.
        throw std::invalid_argument("\"" + a.unit.name() + "\" has the largest input " + text(a.max_input) +
                                    ", expected a number from 0");
      const auto has_name = [&](const auto& force) { return force.name() == a.unit.name(); };
      const auto is_same = [&](const Actuator& other) { return has_name(other.unit); };
      if (std::ranges::any_of(system.forces(), has_name) || std::ranges::count_if(actuators, is_same) > 1)
        throw std::invalid_argument("there is another force with the name of the actuator \"" + a.unit.name() +
                                    "\". Give it a name of its own");
    }
  }

  const IslandLayout& layout() const { return dynamics->assembly().layout; }

  /// Writes the rows of all servos for the columns of the system, and what they require of the accelerations.
  void assemble_rows() {
    const Eigen::Index count = static_cast<Eigen::Index>(names.size());
    rows = MatrixXd::Zero(count, layout().n());
    required = VectorXd::Zero(count);
    int first = 0;
    for (const Servo& s : servos) {
      const ConstraintFunction& f = s.constraint.function();
      const int m = f.rows(), K = f.bodies();
      bodies.clear();
      for (const BodyId id : s.constraint.bodies()) {
        bodies.push_back(state[id]);
        if (layout().body_index(id) >= 0) bodies.back().a = bodies.back().alpha = Vector3d::Zero();
      }
      A.assign(z(m * K * 6), 0.0);
      for (auto* x : {&b, &position, &velocity}) x->assign(z(m), 0.0);
      f.linearize(bodies, state.t, {A, b, position, velocity});
      for (int r = 0; r < m; ++r) {
        for (int k = 0; k < K; ++k) {
          const int slot = layout().body_index(s.constraint.bodies()[z(k)]);
          if (slot < 0) continue;
          const int at = layout().column[z(slot)], size = layout().column[z(slot + 1)] - at;
          for (int c = 0; c < size; ++c) rows(first + r, at + c) = A[z((r * K + k) * 6 + c)];
        }
        const double w = s.frequency;
        required[first + r] = b[z(r)];
        if (f.level() == Level::position)
          required[first + r] -= 2 * s.damping_ratio * w * velocity[z(r)] + w * w * position[z(r)];
        if (f.level() == Level::velocity) required[first + r] -= w * velocity[z(r)];
      }
      first += m;
    }
  }

  /// The force of a unit of each input on the columns, and the accelerations that it makes with the constraints.
  void assemble_responses() {
    const Eigen::Index n = layout().n(), count = static_cast<Eigen::Index>(actuators.size());
    forces = MatrixXd::Zero(n, count);
    responses = MatrixXd::Zero(n, count);
    std::vector<double> dv(z(layout().n())), e(z(layout().m())), correction(z(layout().n()));
    for (Eigen::Index j = 0; j < count; ++j) {
      const Force& unit = actuators[static_cast<std::size_t>(j)].unit;
      bodies.clear();
      for (const BodyId id : unit.bodies()) bodies.push_back(state[id]);
      std::vector<Vector6> wrenches(bodies.size());
      wrenches_of(unit, state.t, bodies, wrenches);
      for (std::size_t k = 0; k < bodies.size(); ++k) {
        const int slot = layout().body_index(unit.bodies()[k]);
        if (slot < 0) continue;
        const int at = layout().column[z(slot)], size = layout().column[z(slot + 1)] - at;
        forces.col(j).segment(at, size) += wrenches[k].head(size);
      }
      dynamics->solver().inverse_mass({forces.col(j).data(), dv.size()}, dv);
      multiply(dynamics->assembly().problem, dv, e);
      for (double& x : e) x = -x;
      dynamics->solver().apply(e, {}, {}, correction);
      for (Eigen::Index i = 0; i < n; ++i)
        responses(i, j) = dv[static_cast<std::size_t>(i)] + correction[static_cast<std::size_t>(i)];
    }
  }

  /// The least weighted inputs with P u = e, with the inputs that are free.
  VectorXd least_inputs(const MatrixXd& P, const VectorXd& e) const {
    MatrixXd weighted = MatrixXd::Zero(P.rows(), P.cols());
    VectorXd root(P.cols());
    for (Eigen::Index j = 0; j < P.cols(); ++j) {
      root[j] = 1 / std::sqrt(actuators[static_cast<std::size_t>(j)].weight);
      if (is_free[static_cast<std::size_t>(j)]) weighted.col(j) = root[j] * P.col(j);
    }
    Eigen::CompleteOrthogonalDecomposition<MatrixXd> factor;
    factor.setThreshold(independent);
    return root.cwiseProduct(factor.compute(weighted).solve(e));
  }

  /// The same within the largest inputs: those beyond stay at their largest value, and the others do the rest.
  VectorXd bounded_inputs(const MatrixXd& P, const VectorXd& e) {
    is_free.assign(actuators.size(), 1);
    VectorXd held = VectorXd::Zero(P.cols());
    VectorXd out = hold_excess(P, e, held);
    // An input that reached its limit while others were still free may be within it now.
    for (std::size_t j = 0; j < actuators.size(); ++j) {
      if (is_free[j]) continue;
      const std::vector<char> free_before = is_free;
      const VectorXd held_before = held;
      is_free[j] = 1;
      held[static_cast<Eigen::Index>(j)] = 0;
      const VectorXd released = hold_excess(P, e, held);
      if (is_free[j]) {
        out = released;
        continue;
      }
      is_free = free_before;
      held = held_before;
    }
    return out;
  }
  /// Holds free inputs at their limits until the others are within theirs. @param held  inputs that are held
  VectorXd hold_excess(const MatrixXd& P, const VectorXd& e, VectorXd& held) {
    for (;;) {
      const VectorXd out = least_inputs(P, e - P * held) + held;
      bool saturates = false;
      for (std::size_t j = 0; j < actuators.size(); ++j) {
        const Eigen::Index i = static_cast<Eigen::Index>(j);
        if (!is_free[j] || std::fabs(out[i]) <= actuators[j].max_input) continue;
        is_free[j] = 0;
        held[i] = std::copysign(actuators[j].max_input, out[i]);
        saturates = true;
      }
      if (!saturates) return out;
    }
  }

  /// Decides how many rows the inputs determine, and which combinations of rows no input changes.
  void find_rank(const MatrixXd& P) {
    MatrixXd unit = P;
    const VectorXd lengths = rows.rowwise().norm();
    for (Eigen::Index r = 0; r < P.rows(); ++r)
      if (lengths[r] > 0) unit.row(r) /= lengths[r];
    Eigen::ColPivHouseholderQR<MatrixXd> qr(unit.rows(), unit.cols());
    qr.setThreshold(independent);
    qr.compute(unit);
    const double largest = responses.colwise().norm().maxCoeff();
    result.rank = unit.cwiseAbs().maxCoeff() > independent * largest ? static_cast<int>(qr.rank()) : 0;
    const MatrixXd Q = qr.householderQ();
    left_null = Q.rightCols(unit.rows() - result.rank);
  }
  /// Names the rows that the inputs cannot meet, alone or together with others.
  void name_unreachable(double size) {
    const VectorXd off = required - rows * accelerations();
    for (Eigen::Index r = 0; r < off.size() && left_null.cols() > 0; ++r)
      if (left_null.row(r).norm() > std::sqrt(independent) && std::fabs(off[r]) > ServoControl::exact * size)
        result.unreachable.push_back(names[static_cast<std::size_t>(r)]);
  }

  VectorXd accelerations() const { return Eigen::Map<const VectorXd>(dynamics->vdot().data(), layout().n()); }

  void control(const State& given) {
    result = {};
    std::fill(inputs->begin(), inputs->end(), 0.0);
    state = given;
    system.update_kinematic(state);
    result.input = result.power = *inputs;
    result.status = dynamics->evaluate(state);
    if (result.status == Status::invalid) return refuse(dynamics->reason());
    assemble_rows();
    assemble_responses();
    for (Eigen::Index r = 0; r < rows.rows(); ++r)
      if (!rows.row(r).allFinite() || !std::isfinite(required[r]))
        return refuse("the servo " + names[static_cast<std::size_t>(r)] + " is not finite at this state");
    const double size = (required.cwiseAbs() + rows.cwiseAbs() * accelerations().cwiseAbs()).maxCoeff();
    const MatrixXd P = rows * responses;
    find_rank(P);
    VectorXd u = VectorXd::Zero(P.cols());
    if (!find_inputs(P, size, u)) return refuse(dynamics->reason());
    name_unreachable(size);
    write(u);
  }
  void refuse(const std::string& reason) {
    result.status = Status::invalid;
    result.reason = reason;
  }

  /// Finds inputs u that meet the rows. Laws that follow the control change the accelerations, so each iteration
  /// corrects the error that is left. Static friction hides the effect of inputs below its bound, so they grow until it
  /// slides. @return whether the equation could be solved
  bool find_inputs(const MatrixXd& P, double size, VectorXd& u) {
    constexpr int most_iterations = 60;
    const std::vector<double> Q = dynamics->assembly().problem.Q;
    std::vector<double> driven = Q;
    is_free.assign(actuators.size(), 1);
    double last = std::numeric_limits<double>::infinity(), growth = 1;
    bool was_stuck = false;
    for (int iteration = 0; iteration < most_iterations; ++iteration) {
      const VectorXd off = required - rows * accelerations();
      result.residual = size > 0 ? off.cwiseAbs().maxCoeff() / size : 0;
      const bool stalls = iteration > 0 && result.residual > 0.5 * last, is_stuck = sticks();
      if (iteration > 0 && (result.residual <= 1e-14 || (stalls && !is_stuck && !was_stuck))) break;
      last = result.residual;
      growth = stalls && is_stuck ? 2 * growth : 1;
      was_stuck = is_stuck;
      if (result.rank == 0) break;  // No input has an effect.
      u = bounded_inputs(P, growth * off + P * u);
      const VectorXd force = forces * u;
      for (std::size_t i = 0; i < Q.size(); ++i) driven[i] = Q[i] + force[static_cast<Eigen::Index>(i)];
      if (dynamics->resolve(state, driven) == Status::invalid) return false;
    }
    return true;
  }

  bool sticks() const {
    return std::ranges::any_of(dynamics->friction_elements(),
                               [](const FrictionElement& e) { return e.sticks && e.dim > 0; });
  }

  /// Sets the inputs, and writes them into the result.
  void write(const VectorXd& u) {
    const VectorXd rates = forces.transpose() * Eigen::Map<const VectorXd>(dynamics->assembly().v.data(), layout().n());
    for (std::size_t j = 0; j < actuators.size(); ++j) {
      (*inputs)[j] = result.input[j] = u[static_cast<Eigen::Index>(j)];
      result.power[j] = result.input[j] * rates[static_cast<Eigen::Index>(j)];
      if (!is_free[j]) result.saturated.push_back(actuators[j].unit.name());
    }
  }

  System& system;
  std::vector<Servo> servos;
  std::vector<Actuator> actuators;
  std::shared_ptr<std::vector<double>> inputs;  // Read by the forces of the actuators.
  std::unique_ptr<Dynamics> dynamics;
  ServoControl result;
  State state;  // Of the last control, with kinematic bodies at its time.
  MatrixXd rows, forces, responses;
  MatrixXd left_null;  // Combinations of rows that no input changes, as columns.
  VectorXd required;
  std::vector<char> is_free;       // By actuator: it is not at its largest input.
  std::vector<std::string> names;  // By row.
  std::vector<BodyState> bodies;
  std::vector<double> A, b, position, velocity;
};

ServoController::ServoController(System& system, std::vector<Servo> servos, std::vector<Actuator> actuators,
                                 SolveOptions options)
    : impl_(std::make_unique<Impl>(system, std::move(servos), std::move(actuators), options)) {}
ServoController::~ServoController() = default;
ServoController::ServoController(ServoController&&) noexcept = default;

const ServoControl& ServoController::control(const State& state) {
  impl_->control(state);
  return impl_->result;
}

std::span<const double> ServoController::input() const { return *impl_->inputs; }

void ServoController::set_input(std::span<const double> input) {
  if (input.size() != impl_->inputs->size())
    throw std::invalid_argument("there are " + std::to_string(input.size()) + " inputs for " +
                                std::to_string(impl_->inputs->size()) + " actuators");
  std::copy(input.begin(), input.end(), impl_->inputs->begin());
}

}  // namespace linchpin
