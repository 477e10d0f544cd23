// Generalized coordinates of the user's own, as an alternative to bodies. The user writes a kinetic energy T(q, q̇, t)
// once. M(q, t) and the rest of Lagrange's equations follow from it (T1). Hides how T is differentiated.
#pragma once

#include <linchpin/detail/jet.h>
#include <linchpin/export.h>

#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace linchpin {

/// The inertia of coordinates that one mass matrix couples: M q̈ + h = Q. T is quadratic in q̇, and M is symmetric
/// positive definite.
///
/// Systems share a Kinetics by a std::shared_ptr. It may have work memory, so one thread at a time may evaluate one
/// Kinetics, whatever the number of systems that share it. Solvers call it while they evaluate a state, from the thread
/// of the solver. The spans of a call are valid during the call. It must not call a solver. If it throws, the
/// evaluation or the step fails with the text.
class LINCHPIN_API Kinetics {
 public:
  virtual ~Kinetics() = default;
  virtual int size() const = 0;  ///< Number n of coordinates.
  /// Returns true if t occurs in T. Then the energy integral is not conserved.
  virtual bool rheonomic() const = 0;
  /// @param M  [n × n] out, row by row: ∂²T/∂q̇²
  /// @param h  [n] out: d/dt ∂T/∂q̇ at q̈ = 0, minus ∂T/∂q. These are Coriolis and centrifugal terms, and for moving
  /// axes all others.
  virtual void evaluate(std::span<const double> q, std::span<const double> rate, double t, std::span<double> M,
                        std::span<double> h) const = 0;
  /// Kinetic energy T [J].
  virtual double energy(std::span<const double> q, std::span<const double> rate, double t) const = 0;
  /// Returns q̇·∂T/∂q̇ − T [J]. It is T itself unless T has terms of another degree than two in q̇, as on rotating
  /// axes. Jacobi's integral is its sum with the potential.
  virtual double energy_integral(std::span<const double> q, std::span<const double> rate, double t) const = 0;
};

/// The argument `s` of a kinetic energy. It refers to memory of the caller and is valid during the call.
template <class T>
struct Coordinates {
  std::span<const T> q;     ///< Coordinates s.q[0], s.q[1], …
  std::span<const T> rate;  ///< Rates q̇.
  T t;                      ///< Time [s].
};

namespace detail {

/// @throws std::invalid_argument. It is compiled in the library, because headers compile without exceptions.
[[noreturn]] LINCHPIN_API void no_coordinates();

/// Kinetics of a function that can be evaluated on number types: `F::operator()(const Coordinates<T>&) const → T`.
template <class F>
class KineticsOf final : public Kinetics {
 public:
  KineticsOf(int n, F f, bool rheonomic) : n_(static_cast<std::size_t>(n)), f_(std::move(f)), rheonomic_(rheonomic) {
    if (n < 1) no_coordinates();
    for (auto* x : {&mixed_q_, &mixed_rate_}) x->resize(n_);
    for (auto* x : {&dual_q_, &dual_rate_}) x->resize(n_);
    for (auto* x : {&plain_q_, &plain_rate_}) x->resize(n_);
  }
  int size() const override { return static_cast<int>(n_); }
  bool rheonomic() const override { return rheonomic_; }

  void evaluate(std::span<const double> q, std::span<const double> rate, double t, std::span<double> M,
                std::span<double> h) const override {
    // Computes six columns at a time. Along e_j in q̇ the gradient with respect to q̇ changes by column j of M. Along
    // the motion with q̈ = 0 it changes by the first part of h. The gradient with respect to q is the second part.
    for (std::size_t first = 0; first < n_; first += 6) {
      const std::size_t last = first + 6 < n_ ? first + 6 : n_;
      for (std::size_t j = 0; j < n_; ++j) {
        const Mixed T = pass(q, rate, t, first, last, true, j);
        for (std::size_t i = first; i < last; ++i) M[i * n_ + j] = T.grad_rate[i - first];
      }
      const Mixed along = pass(q, rate, t, first, last, true, n_), place = pass(q, rate, t, first, last, false, n_);
      for (std::size_t i = first; i < last; ++i) h[i] = along.grad_rate[i - first] - place.grad[i - first];
    }
  }
  double energy(std::span<const double> q, std::span<const double> rate, double t) const override {
    for (std::size_t i = 0; i < n_; ++i) plain_q_[i] = q[i], plain_rate_[i] = rate[i];
    return f_(Coordinates<Dual<0>>{plain_q_, plain_rate_, t}).value;
  }
  double energy_integral(std::span<const double> q, std::span<const double> rate, double t) const override {
    // The rate of T along q̇ → (1 + s) q̇ is q̇·∂T/∂q̇.
    for (std::size_t i = 0; i < n_; ++i) {
      dual_q_[i] = q[i], dual_rate_[i] = rate[i];
      dual_rate_[i].grad[0] = rate[i];
    }
    const Dual<1> T = f_(Coordinates<Dual<1>>{dual_q_, dual_rate_, t});
    return T.grad[0] - T.value;
  }

 private:
  // Returns the gradient in q̇ (`of_rates`) or in q of the coordinates first … last − 1, and its rate along e_j in q̇.
  // For j = n the rate is along the motion.
  Mixed pass(std::span<const double> q, std::span<const double> rate, double t, std::size_t first, std::size_t last,
             bool of_rates, std::size_t j) const {
    for (std::size_t i = 0; i < n_; ++i) {
      mixed_q_[i] = q[i], mixed_rate_[i] = rate[i];
      if (i >= first && i < last) (of_rates ? mixed_rate_ : mixed_q_)[i].grad[i - first] = 1;
      if (j == n_) mixed_q_[i].rate = rate[i];
    }
    if (j < n_) mixed_rate_[j].rate = 1;
    Mixed time(t);
    time.rate = j == n_ ? 1 : 0;
    return f_(Coordinates<Mixed>{mixed_q_, mixed_rate_, time});
  }

  std::size_t n_;
  F f_;
  bool rheonomic_;
  // Sized once, so that an evaluation does not allocate.
  mutable std::vector<Mixed> mixed_q_, mixed_rate_;
  mutable std::vector<Dual<1>> dual_q_, dual_rate_;
  mutable std::vector<Dual<0>> plain_q_, plain_rate_;
};

}  // namespace detail

/// A kinetic energy [J] of n coordinates, written as a residual is: on number types, with sin(x) instead of
/// std::sin(x).
///
///     auto T = kinetic_energy(2, [=](const auto& s) {  // a bead on a turning arm: q = r, φ
///       return 0.5 * m * (square(s.rate[0]) + square(s.q[0] * s.rate[1]));
///     });
///     BodyId r = system.add_coordinates({"r", "phi"}, {1.0, 0.0}, {0.0, 2.0}, T);
///
/// @param rheonomic  whether s.t occurs in it. The result keeps a copy of T. An evaluation costs n + 2 passes of T for
/// every six coordinates. It does not allocate.
/// @throws std::invalid_argument for n < 1.
template <class F>
std::shared_ptr<const Kinetics> kinetic_energy(int n, F T, bool rheonomic = false) {
  return std::make_shared<detail::KineticsOf<F>>(n, std::move(T), rheonomic);
}

}  // namespace linchpin
