// The parts of the equation whose derivatives are needed, with a solution inserted: forces out of balance, rows, and
// what laws do (T18). Private to the core.
#pragma once

#include "force_laws/law_partials.h"
#include "problem/kept_assembly.h"

#include <linchpin/dynamics.h>

#include <span>
#include <string>
#include <vector>

namespace linchpin {

/// The solution of the equation at a state, which stays fixed while the state changes.
struct KeptSolution {
  std::vector<double> ideal_vdot, vdot;  ///< [n] v̇ without laws, and with them.
  std::vector<double> lambda, induced;   ///< [m] Multipliers of Q^N, and of the response to laws.
  std::vector<double> preimage,
      laws_preimage;  ///< [n] x and y with A x = λ and A y = λ + induced, with redundant rows.
  KeptLaws laws;
  bool redundant = false;  ///< Some rows are redundant.
};

/// The parts of the equation as one vector. Parts that laws or redundant rows need are empty without them.
struct EquationParts {
  int n = 0, m = 0, sticking = 0;
  bool laws = false, redundant = false;

  /// @tparam T  double or const double
  template <class T>
  struct Spans {
    std::span<T> ideal_balance;  ///< [n] Q + Aᵀλ − M v̇ without laws.
    std::span<T> ideal_rows;     ///< [m] b − A v̇ without laws.
    std::span<T> ideal_force;    ///< [n] Aᵀλ.
    std::span<T> velocity;       ///< [m] Residual velocities.
    std::span<T> ideal_range;    ///< [m] A x. With redundant rows.
    std::span<T> balance;        ///< [n] Q + Aᵀλ + Aᵀinduced + c − M v̇ with laws.
    std::span<T> rows;           ///< [m] b − A v̇ with laws.
    std::span<T> law_force;      ///< [n] Aᵀinduced + c.
    std::span<T> slip;           ///< [sticking] Slip accelerations of sticking friction.
    std::span<T> range;          ///< [m] A y. With laws and redundant rows.
  };
  template <class T>
  Spans<T> of(std::span<T> all) const {
    std::size_t at = 0;
    const auto next = [&](int size, bool present) {
      const std::size_t count = present ? static_cast<std::size_t>(size) : 0;
      at += count;
      return all.subspan(at - count, count);
    };
    Spans<T> out;
    out.ideal_balance = next(n, true);
    out.ideal_rows = next(m, true);
    out.ideal_force = next(n, true);
    out.velocity = next(m, true);
    out.ideal_range = next(m, redundant);
    out.balance = next(n, laws);
    out.rows = next(m, laws);
    out.law_force = next(n, laws);
    out.slip = next(sticking, laws);
    out.range = next(m, laws && redundant);
    return out;
  }
  std::size_t size() const {
    const auto of_each = [](int size, bool present) { return present ? static_cast<std::size_t>(size) : 0; };
    return of_each(2 * n + 2 * m, true) + of_each(m, redundant) + of_each(2 * n + m + sticking, laws) +
           of_each(m, laws && redundant);
  }
};

/// One system at states beside a solution. It does not allocate after warm-up.
class EquationPartials {
 public:
  EquationPartials(const System& system, const IslandLayout& layout);

  const System& system() const { return system_; }
  Assembly& assembly() { return assembly_; }
  LawPartials& laws() { return laws_; }
  /// Assembles the equation without its laws. @return whether that is possible, see failure()
  bool assemble(const State& state);
  /// Evaluates the parts at a state. @param factor  any; laws get it. @return whether that is possible, see failure()
  bool evaluate(const State& state, const KeptSolution& solution, const ConstraintFactorization& factor,
                const EquationParts& parts, std::span<double> out);
  const std::string& failure() const { return failure_; }

 private:
  const System& system_;
  detail::KeptAssembly assembly_;
  LawPartials laws_;
  std::string failure_;
};

}  // namespace linchpin
