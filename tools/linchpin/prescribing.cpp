#include "prescribing.h"

#include <linchpin/constraint.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace linchpin::cli {

namespace {

// Euler: a function of degree k in the velocities has A v = k ψ, for one k at all places.
bool homogeneous(const System& system, const Constraint& c, const State& start) {
  const ConstraintFunction& f = c.function();
  const auto m = static_cast<std::size_t>(f.rows()), K = c.bodies().size();
  std::vector<double> A(m * 6 * K), b(m), position(m), velocity(m), degree(m, std::nan(""));
  std::minstd_rand numbers;  // the same on every machine
  const auto next = [&] { return 2 * (double(numbers()) / double(std::minstd_rand::max())) - 1; };
  const auto any = [&] { return Vector3d(next(), next(), next()); };
  for (int place = 0; place < 4; ++place) {
    const double later = place == 0 ? 0 : 0.3 * std::abs(next());
    std::vector<BodyState> X;
    for (const BodyId id : c.bodies()) {
      X.push_back(start[id]);
      const int dof = system.dof(id);
      if (dof == 0) continue;
      BodyState& s = X.back();
      const auto free = [&](Vector3d v) { return dof == 1 ? Vector3d(v.x(), 0, 0) : v; };
      if (place > 0) advance(s, free(any()), dof == 6 ? any() : Vector3d::Zero(), 0.3);
      s.v = free(any());
      s.w = dof == 6 ? any() : Vector3d::Zero();
    }
    f.linearize(X, start.t + later, {A, b, position, velocity});
    for (std::size_t r = 0; r < m; ++r) {
      double Av = 0, size = std::abs(velocity[r]);
      for (std::size_t k = 0; k < K; ++k)
        for (std::size_t j = 0; j < 6; ++j) {
          const double term = A[(r * K + k) * 6 + j] * (j < 3 ? X[k].v[Eigen::Index(j)] : X[k].w[Eigen::Index(j - 3)]);
          Av += term;
          size = std::max(size, std::abs(term));
        }
      const double small = 1e-9 * size;
      if (!std::isfinite(Av + velocity[r])) return false;
      if (std::isnan(degree[r]) && std::abs(velocity[r]) > small) degree[r] = Av / velocity[r];
      const double expected = std::isnan(degree[r]) ? 0 : degree[r] * velocity[r];
      if (std::abs(Av - expected) > small * std::max(1.0, std::isnan(degree[r]) ? 1.0 : std::abs(degree[r])))
        return false;
    }
  }
  return true;
}

}  // namespace

std::vector<char> prescribes_motion(const scene::Model& model, const System& system) {
  const State start = system.initial_state();
  std::vector<char> out;
  for (const scene::SceneConstraint& c : model.constraints) {
    const Constraint& made = system.constraint(system.find_constraint(c.name));
    const auto bodies = made.bodies();  // those that a scene does not name too, as a gear's carrier
    const bool kinematic =
        std::any_of(bodies.begin(), bodies.end(), [&](BodyId id) { return system.kind(id) == BodyKind::kinematic; });
    const Level level = made.function().level();
    out.push_back(kinematic || (level == Level::position   ? c.rheonomic
                                : level == Level::velocity ? !homogeneous(system, made, start)
                                                           : true));
  }
  return out;
}

}  // namespace linchpin::cli
