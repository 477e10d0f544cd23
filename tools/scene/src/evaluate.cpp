// Running a tape: on plain numbers, on duals for A and on Taylor numbers for b (T3), by the same passes as a lambda's
// residual. A pass for one body repeats only what that body reaches.
#include "expression.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdio>
#include <tuple>

namespace linchpin::scene {

namespace {

template <class T>
T integer_power(const T& x, int n) {
  T r(1.0), base = x;
  for (unsigned e = static_cast<unsigned>(n < 0 ? -n : n); e > 0; e >>= 1) {
    if (e & 1u) r = r * base;
    if (e > 1) base = base * base;
  }
  return n < 0 ? 1.0 / r : r;
}

// A number that is none (NaN) stays one, whichever argument it is.
template <class T>
T smaller(const T& x, const T& y) {
  return detail::value_of(y) < detail::value_of(x) || std::isnan(detail::value_of(y)) ? y : x;
}
template <class T>
T larger(const T& x, const T& y) {
  return detail::value_of(y) > detail::value_of(x) || std::isnan(detail::value_of(y)) ? y : x;
}
template <class T>
T sign_of(const T& x) {
  const double a = detail::value_of(x);
  return T(std::isnan(a) ? a : static_cast<double>((a > 0) - (a < 0)));
}

// World components of a vector that is given in body axes.
template <class T>
Vec3<T> in_world(const VelocityView<T>& body, const Vec3<T>& u) {
  return u.x * body.axis(1, 0, 0) + u.y * body.axis(0, 1, 0) + u.z * body.axis(0, 0, 1);
}

bool finite(const Dual<6>& x) {
  bool ok = std::isfinite(x.value);
  for (const double g : x.grad) ok = ok && std::isfinite(g);
  return ok;
}
bool finite(const Taylor& x) { return std::isfinite(x.c0) && std::isfinite(x.c1) && std::isfinite(x.c2); }
template <class T>
bool finite(const Vec3<T>& v) {
  return finite(v.x) && finite(v.y) && finite(v.z);
}

// Positions at the position level, velocities at the velocity level: what A multiplies.
VelocityView<Dual<6>> seeded(const BodyState& s, const Matrix3d& R, Level level, bool on) {
  if (level == Level::velocity) return detail::AutodiffSeed::velocity(s, R, on);
  VelocityView<Dual<6>> x;
  static_cast<PoseView<Dual<6>>&>(x) = detail::AutodiffSeed::displaced(s, R, on);
  return x;
}

}  // namespace

template <class T>
void Tape::run(Memory<T>& m, std::span<const VelocityView<T>> views, const T& t, std::uint64_t which,
               std::span<const Vector3d> given) const {
  T* const s = m.scalars.data();
  Vec3<T>* const v = m.vectors.data();
  for (const Operation& op : operations) {
    if (which != everything && !(op.bodies & which)) continue;
    const auto view = [&]() -> const VelocityView<T>& { return views[static_cast<std::size_t>(op.b)]; };
    switch (op.code) {
      case Code::time:
        s[op.out] = t;
        break;
      case Code::input:
        s[op.out] = T(given[static_cast<std::size_t>(op.a)].x());
        break;
      case Code::input_vector:
        v[op.out] = Vec3<T>(given[static_cast<std::size_t>(op.a)]);
        break;
      case Code::add:
        s[op.out] = s[op.a] + s[op.b];
        break;
      case Code::subtract:
        s[op.out] = s[op.a] - s[op.b];
        break;
      case Code::multiply:
        s[op.out] = s[op.a] * s[op.b];
        break;
      case Code::divide:
        s[op.out] = s[op.a] / s[op.b];
        break;
      case Code::negate:
        s[op.out] = -s[op.a];
        break;
      case Code::add_constant:
        s[op.out] = s[op.a] + op.number;
        break;
      case Code::multiply_constant:
        s[op.out] = s[op.a] * op.number;
        break;
      case Code::power:
        s[op.out] = integer_power(s[op.a], op.n);
        break;
      case Code::power_constant:
        s[op.out] = pow(s[op.a], op.number);
        break;
      case Code::sin:
        s[op.out] = sin(s[op.a]);
        break;
      case Code::cos:
        s[op.out] = cos(s[op.a]);
        break;
      case Code::tan:
        s[op.out] = tan(s[op.a]);
        break;
      case Code::asin:
        s[op.out] = asin(s[op.a]);
        break;
      case Code::acos:
        s[op.out] = acos(s[op.a]);
        break;
      case Code::atan:
        s[op.out] = atan(s[op.a]);
        break;
      case Code::sinh:
        s[op.out] = sinh(s[op.a]);
        break;
      case Code::cosh:
        s[op.out] = cosh(s[op.a]);
        break;
      case Code::tanh:
        s[op.out] = tanh(s[op.a]);
        break;
      case Code::asinh:
        s[op.out] = asinh(s[op.a]);
        break;
      case Code::exp:
        s[op.out] = exp(s[op.a]);
        break;
      case Code::log:
        s[op.out] = log(s[op.a]);
        break;
      case Code::sqrt:
        s[op.out] = sqrt(s[op.a]);
        break;
      case Code::abs:
        s[op.out] = abs(s[op.a]);
        break;
      case Code::sign:
        s[op.out] = sign_of(s[op.a]);
        break;
      case Code::square:
        s[op.out] = square(s[op.a]);
        break;
      case Code::atan2:
        s[op.out] = atan2(s[op.a], s[op.b]);
        break;
      case Code::hypot:
        s[op.out] = hypot(s[op.a], s[op.b]);
        break;
      case Code::min:
        s[op.out] = smaller(s[op.a], s[op.b]);
        break;
      case Code::max:
        s[op.out] = larger(s[op.a], s[op.b]);
        break;
      case Code::dot:
        s[op.out] = dot(v[op.a], v[op.b]);
        break;
      case Code::norm:
        s[op.out] = norm(v[op.a]);
        break;
      case Code::norm2:
        s[op.out] = squared_norm(v[op.a]);
        break;
      case Code::dist2:
        s[op.out] = squared_norm(v[op.a] - v[op.b]);
        break;
      case Code::dist:
        s[op.out] = norm(v[op.a] - v[op.b]);
        break;
      case Code::x:
        s[op.out] = v[op.a].x;
        break;
      case Code::y:
        s[op.out] = v[op.a].y;
        break;
      case Code::z:
        s[op.out] = v[op.a].z;
        break;
      case Code::make:
        v[op.out] = {s[op.a], s[op.b], s[op.c]};
        break;
      case Code::add_vector:
        v[op.out] = v[op.a] + v[op.b];
        break;
      case Code::subtract_vector:
        v[op.out] = v[op.a] - v[op.b];
        break;
      case Code::negate_vector:
        v[op.out] = -v[op.a];
        break;
      case Code::scale:
        v[op.out] = s[op.a] * v[op.b];
        break;
      case Code::shrink:
        v[op.out] = v[op.a] / s[op.b];
        break;
      case Code::cross:
        v[op.out] = cross(v[op.a], v[op.b]);
        break;
      case Code::position:
        v[op.out] = view().position();
        break;
      case Code::point:
        v[op.out] = view().point(op.at);
        break;
      case Code::axis:
        v[op.out] = view().axis(op.at);
        break;
      case Code::velocity:
        v[op.out] = view().velocity();
        break;
      case Code::velocity_of:
        v[op.out] = view().velocity(op.at);
        break;
      case Code::point_at:
        v[op.out] = view().position() + in_world(view(), v[op.a]);
        break;
      case Code::velocity_at:
        v[op.out] = view().velocity() + cross(view().omega(), in_world(view(), v[op.a]));
        break;
      case Code::omega:
        v[op.out] = view().omega();
        break;
      case Code::to_body:
        v[op.out] = view().to_body(v[op.a]);
        break;
    }
  }
}

template void Tape::run(Memory<Dual<0>>&, std::span<const VelocityView<Dual<0>>>, const Dual<0>&, std::uint64_t,
                        std::span<const Vector3d>) const;
template void Tape::run(Memory<Dual<6>>&, std::span<const VelocityView<Dual<6>>>, const Dual<6>&, std::uint64_t,
                        std::span<const Vector3d>) const;
template void Tape::run(Memory<Dual<1>>&, std::span<const VelocityView<Dual<1>>>, const Dual<1>&, std::uint64_t,
                        std::span<const Vector3d>) const;
template void Tape::run(Memory<Mixed>&, std::span<const VelocityView<Mixed>>, const Mixed&, std::uint64_t,
                        std::span<const Vector3d>) const;
template void Tape::run(Memory<Taylor>&, std::span<const VelocityView<Taylor>>, const Taylor&, std::uint64_t,
                        std::span<const Vector3d>) const;

namespace {

class TextFunction final : public ConstraintFunction {
 public:
  TextFunction(std::shared_ptr<const Tape> tape, Level level, RowUnit unit)
      : tape_(std::move(tape)),
        level_(level),
        unit_(unit),
        R_(tape_->bodies.size()),
        plain_(R_.size()),
        dual_(R_.size()),
        taylor_(R_.size()),
        plain_memory_(tape_->memory<Dual<0>>()),
        dual_memory_(tape_->memory<Dual<6>>()),
        taylor_memory_(tape_->memory<Taylor>()) {}

  std::unique_ptr<ConstraintFunction> clone() const override { return std::make_unique<TextFunction>(*this); }
  int rows() const override { return tape_->rows(); }
  int bodies() const override { return static_cast<int>(R_.size()); }
  Level level() const override { return level_; }
  RowUnit unit(int) const override { return unit_; }

  void residual(std::span<const BodyState> X, double t, std::span<double> out) const override {
    assert(X.size() == R_.size() && out.size() == static_cast<std::size_t>(rows()));
    for (std::size_t k = 0; k < R_.size(); ++k)
      plain_[k] = detail::AutodiffSeed::constant<VelocityView<Dual<0>>>(X[k], X[k].R());
    tape_->run<Dual<0>>(plain_memory_, plain_, Dual<0>(t), Tape::everything);
    tape_->each_row(plain_memory_, [&](std::size_t i, const Dual<0>& x) { out[i] = x.value; });
  }

  void linearize(std::span<const BodyState> X, double t, Linearization out) const override {
    assert(X.size() == R_.size());
    const std::size_t K = R_.size();
    for (std::size_t k = 0; k < K; ++k) {
      R_[k] = X[k].R();
      dual_[k] = seeded(X[k], R_[k], level_, k == 0);
    }
    for (std::size_t k = 0; k < K; ++k) {  // A, six columns at a time (T3)
      std::uint64_t which = Tape::everything;
      if (k > 0) {  // what the last body reached loses its directions, what this one reaches gets them
        dual_[k - 1] = seeded(X[k - 1], R_[k - 1], level_, false);
        dual_[k] = seeded(X[k], R_[k], level_, true);
        which = (std::uint64_t{1} << k) | (std::uint64_t{1} << (k - 1));
      }
      tape_->run<Dual<6>>(dual_memory_, dual_, Dual<6>(t), which);
      tape_->each_row(dual_memory_, [&](std::size_t i, const Dual<6>& x) {
        for (std::size_t j = 0; j < 6; ++j) out.A[(i * K + k) * 6 + j] = x.grad[j];
      });
    }
    for (std::size_t k = 0; k < K; ++k) taylor_[k] = detail::AutodiffSeed::moving(X[k], R_[k]);
    tape_->run<Taylor>(taylor_memory_, taylor_, Taylor(t, 1, 0), Tape::everything);
    tape_->each_row(taylor_memory_, [&](std::size_t i, const Taylor& x) {
      out.position[i] = level_ == Level::position ? x.c0 : 0;
      out.velocity[i] = level_ == Level::position ? x.c1 : x.c0;
      out.b[i] = level_ == Level::position ? -2 * x.c2 : -x.c1;  // (T3)
    });
  }

 private:
  std::shared_ptr<const Tape> tape_;
  Level level_;
  RowUnit unit_;
  // Sized once: evaluation does not allocate, and is for one thread at a time.
  mutable std::vector<Matrix3d> R_;
  mutable std::vector<VelocityView<Dual<0>>> plain_;
  mutable std::vector<VelocityView<Dual<6>>> dual_;
  mutable std::vector<VelocityView<Taylor>> taylor_;
  mutable Memory<Dual<0>> plain_memory_;
  mutable Memory<Dual<6>> dual_memory_;
  mutable Memory<Taylor> taylor_memory_;
};

// Of an operation that is not finite or has no derivative, whose first operand has this value.
std::string why_not_smooth(Code code, double operand) {
  switch (code) {
    case Code::divide:
    case Code::shrink:
      return "division by zero at the start";
    case Code::abs:
      return "abs has no derivative at 0, where it starts";
    case Code::sign:
      return "sign jumps at 0, where it starts";
    case Code::min:
    case Code::max:
      return std::string(code == Code::min ? "min" : "max") +
             " has no derivative where its two arguments are equal, and they are equal at the start";
    case Code::sqrt:
      if (operand < 0) {
        char text[80];
        std::snprintf(text, sizeof text, "the square root of a negative number (%.6g) at the start", operand);
        return text;
      }
      [[fallthrough]];
    case Code::norm:
    case Code::dist:
    case Code::hypot:
      return "a square root has no derivative at 0, where it starts: write a distance as dist2(…) = L^2";
    case Code::log:
      return "the logarithm of 0 or less at the start";
    case Code::asin:
    case Code::acos:
      return "an arc sine or cosine at or beyond ±1 at the start: it has no derivative there";
    case Code::power:
    case Code::power_constant:
      return "this power has no derivative at the start. Start elsewhere, or write it in another form";
    case Code::atan2:
      return "atan2(0, 0) has no value at the start";
    default:
      return "this is not finite at the start";
  }
}

double value(const Dual<6>& x) { return x.value; }
double value(const Taylor& x) { return x.c0; }
bool same(const Dual<6>& x, const Dual<6>& y) { return x.value == y.value && x.grad == y.grad; }
bool same(const Taylor& x, const Taylor& y) { return x.c0 == y.c0 && x.c1 == y.c1; }

// Replaces an operation with a kink by one of the two smooth functions that meet there.
void take_side(Tape& tape, std::size_t operation, bool first) {
  Operation& op = tape.operations[operation];
  switch (op.code) {
    case Code::abs:
      op.code = Code::multiply_constant;
      op.number = first ? 1 : -1;
      break;
    case Code::min:
    case Code::max:
      op.a = first ? op.a : op.b;
      op.code = Code::add_constant;
      op.number = 0;
      break;
    default:  // sign
      tape.scalars[static_cast<std::size_t>(op.out)] = first ? 1 : -1;
      tape.operations.erase(tape.operations.begin() + static_cast<std::ptrdiff_t>(operation));
  }
}

// Whether an operation may have a kink where its operands have these values.
bool at_kink(Code code, double a, double b) {
  if (code == Code::abs || code == Code::sign) return a == 0;
  return (code == Code::min || code == Code::max) && a == b;
}

// Whether the results' values or derivatives depend on the side of the kink: those of x |x| at x = 0 do not.
// @param run  the tape given to it, in the memory given to it
template <class T, class Run>
bool has_kink(const Tape& tape, std::size_t operation, Run run) {
  std::vector<T> rows[2];
  for (const int side : {0, 1}) {
    Tape one = tape;
    take_side(one, operation, side == 0);
    Memory<T> m = one.memory<T>();
    run(one, m);
    one.each_row(m, [&](std::size_t, const T& x) { rows[side].push_back(x); });
  }
  return !std::equal(rows[0].begin(), rows[0].end(), rows[1].begin(),
                     [](const T& x, const T& y) { return same(x, y); });
}

// The first operation of a run whose result is not finite, or which has a kink there.
template <class T, class Run>
std::optional<Fault> first_trouble(const Tape& tape, Run run) {
  Memory<T> m = tape.memory<T>();
  run(tape, m);
  for (std::size_t i = 0; i < tape.operations.size(); ++i) {
    const Operation& op = tape.operations[i];
    const bool vector = (op.code >= Code::make) || op.code == Code::input_vector;
    const auto at = static_cast<std::size_t>(op.out);
    const bool smooth = vector ? finite(m.vectors[at]) : finite(m.scalars[at]);
    const bool of_scalar = op.code >= Code::sin && op.code <= Code::square;
    const bool of_two = op.code == Code::min || op.code == Code::max;
    const double operand = of_scalar || of_two ? value(m.scalars[static_cast<std::size_t>(op.a)]) : 0;
    const double second = of_two ? value(m.scalars[static_cast<std::size_t>(op.b)]) : 0;
    if (!smooth || (at_kink(op.code, operand, second) && has_kink<T>(tape, i, run)))
      return Fault(op.place, why_not_smooth(op.code, operand));
  }
  return {};
}

}  // namespace

std::unique_ptr<ConstraintFunction> make_function(std::shared_ptr<const Tape> tape, Level level, RowUnit unit) {
  return std::make_unique<TextFunction>(std::move(tape), level, unit);
}

std::optional<Fault> trouble(const Tape& tape, Level level, std::span<const BodyState> X, double t) {
  std::vector<VelocityView<Dual<6>>> dual(X.size());
  for (std::size_t seed = 0; seed < X.size(); ++seed) {
    for (std::size_t k = 0; k < X.size(); ++k) dual[k] = seeded(X[k], X[k].R(), level, k == seed);
    const auto run = [&](const Tape& one, Memory<Dual<6>>& m) {
      one.run<Dual<6>>(m, dual, Dual<6>(t), Tape::everything);
    };
    if (auto fault = first_trouble<Dual<6>>(tape, run)) return fault;
  }
  std::vector<VelocityView<Taylor>> taylor(X.size());
  for (std::size_t k = 0; k < X.size(); ++k) taylor[k] = detail::AutodiffSeed::moving(X[k], X[k].R());
  return first_trouble<Taylor>(
      tape, [&](const Tape& one, Memory<Taylor>& m) { one.run<Taylor>(m, taylor, Taylor(t, 1, 0), Tape::everything); });
}

namespace {

// T as typed, or ½ q̇ᵀ M q̇ of the entries of M as typed.
class TypedEnergy {
 public:
  TypedEnergy(std::shared_ptr<const Tape> tape, int first, int n, bool matrix)
      : tape_(std::move(tape)), n_(static_cast<std::size_t>(n)), matrix_(matrix) {
    for (const int body : tape_->bodies) index_.push_back(static_cast<std::size_t>(body - first));
    std::apply([&](auto&... each) { (each.fit(*tape_), ...); }, room_);
  }

  template <class T>
  T operator()(const Coordinates<T>& s) const {
    Room<T>& room = std::get<Room<T>>(room_);
    for (std::size_t k = 0; k < index_.size(); ++k)
      room.views[k] = detail::AutodiffSeed::coordinate<T>(s.q[index_[k]], s.rate[index_[k]]);
    tape_->run<T>(room.memory, room.views, s.t, Tape::everything);
    const auto entry = [&](std::size_t i) -> const T& {
      return room.memory.scalars[static_cast<std::size_t>(tape_->results[i].at)];
    };
    if (!matrix_) return entry(0);
    const bool diagonal = tape_->results.size() == n_;
    T sum(0.0);
    for (std::size_t i = 0; i < n_; ++i) {
      if (diagonal) sum += 0.5 * entry(i) * square(s.rate[i]);
      for (std::size_t j = 0; !diagonal && j < n_; ++j) sum += 0.5 * entry(i * n_ + j) * s.rate[i] * s.rate[j];
    }
    return sum;
  }

 private:
  template <class T>
  struct Room {
    void fit(const Tape& tape) {
      memory = tape.memory<T>();
      views.resize(tape.bodies.size());
    }
    Memory<T> memory;
    std::vector<VelocityView<T>> views;
  };
  std::shared_ptr<const Tape> tape_;
  std::size_t n_;
  bool matrix_;
  std::vector<std::size_t> index_;  // of the tape's bodies among the coordinates
  mutable std::tuple<Room<Mixed>, Room<Dual<1>>, Room<Dual<0>>> room_;
};

}  // namespace

std::shared_ptr<const Kinetics> make_kinetics(std::shared_ptr<const Tape> tape, int first, int n, bool matrix) {
  const bool rheonomic = tape->uses_time;
  return kinetic_energy(n, TypedEnergy(std::move(tape), first, n, matrix), rheonomic);
}

Gradient::Gradient(std::shared_ptr<const Tape> tape)
    : tape_(std::move(tape)), memory_(tape_->memory<Dual<6>>()), views_(tape_->bodies.size()) {}

std::array<double, 6> Gradient::operator()(std::span<const BodyState> X, double t, std::size_t k) {
  for (std::size_t i = 0; i < views_.size(); ++i) views_[i] = seeded(X[i], X[i].R(), Level::position, i == k);
  tape_->run<Dual<6>>(memory_, views_, Dual<6>(t), Tape::everything);
  std::array<double, 6> out{};
  tape_->each_row(memory_, [&](std::size_t, const Dual<6>& x) { out = x.grad; });
  return out;
}

Evaluator::Evaluator(std::shared_ptr<const Tape> tape)
    : tape_(std::move(tape)),
      memory_(tape_->memory<Dual<0>>()),
      views_(tape_->bodies.size()),
      out_(static_cast<std::size_t>(tape_->rows())) {}

std::span<const double> Evaluator::operator()(std::span<const BodyState> X, double t,
                                              std::span<const Vector3d> given) & {
  for (std::size_t k = 0; k < views_.size(); ++k)
    views_[k] = detail::AutodiffSeed::constant<VelocityView<Dual<0>>>(X[k], X[k].R());
  tape_->run<Dual<0>>(memory_, views_, Dual<0>(t), Tape::everything, given);
  tape_->each_row(memory_, [&](std::size_t i, const Dual<0>& x) { out_[i] = x.value; });
  return out_;
}

}  // namespace linchpin::scene
