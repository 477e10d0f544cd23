#include <linchpin/constraint.h>
#include <linchpin/forces.h>
#include <linchpin/report.h>
#include <linchpin/scene/analysis.h>
#include <linchpin/stepper.h>

#include <Eigen/Dense>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <map>

namespace linchpin {

using Eigen::MatrixXd;
using Eigen::VectorXd;

const char* to_string(Integrability kind) {
  switch (kind) {
    case Integrability::holonomic:
      return "holonomic";
    case Integrability::exact:
      return "exact";
    case Integrability::integrating_factor:
      return "integrable with a factor";
    case Integrability::integrable_here:
      return "integrable with the other constraints";
    default:
      return "nonholonomic";
  }
}

namespace {

// The same numbers on every machine.
class Numbers {
 public:
  double next() {  // in (−1, 1); splitmix64
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    return static_cast<double>(z >> 11) / 9007199254740992.0 * 2 - 1;
  }

 private:
  std::uint64_t state_ = 1;
};

struct Direction {  // of one column: a body and one of its six
  BodyId body;
  int axis = 0;
};

std::vector<Direction> directions_of(const System& system, std::span<const BodyId> bodies) {
  std::vector<Direction> out;
  for (const BodyId id : bodies)
    for (int k = 0; k < system.dof(id); ++k) out.push_back({id, k});
  return out;
}

void displace(State& state, const Direction& d, double h) {
  const Vector3d e = Vector3d::Unit(d.axis % 3);
  advance(state[d.body], d.axis < 3 ? e : Vector3d::Zero(), d.axis < 3 ? Vector3d::Zero() : e, h);
}

void displace(State& state, const std::vector<Direction>& directions, const VectorXd& by) {
  for (std::size_t i = 0; i < directions.size();) {  // all columns of a body at once: rotations do not commute
    const BodyId id = directions[i].body;
    Vector3d v = Vector3d::Zero(), w = Vector3d::Zero();
    for (; i < directions.size() && directions[i].body == id; ++i)
      (directions[i].axis < 3 ? v : w)[directions[i].axis % 3] = by[static_cast<Eigen::Index>(i)];
    advance(state[id], v, w, 1);
  }
}

State at_rest(const System& system, State state) {
  for (int i = 0; i < system.body_count(); ++i)
    if (const BodyId id{i}; system.dof(id) > 0) state[id].v.setZero(), state[id].w.setZero();
  return state;
}

// Rows of constraints as one-forms on (poses, t): A in the given directions, and in the last column what is left
// without velocities.
class Forms {
 public:
  Forms(const System& system, std::vector<ConstraintId> constraints, std::vector<Direction> directions)
      : system_(system), constraints_(std::move(constraints)), directions_(std::move(directions)) {
    for (const ConstraintId id : constraints_) rows_ += system.constraint(id).function().rows();
  }
  int rows() const { return rows_; }
  int size() const { return static_cast<int>(directions_.size()) + 1; }
  const std::vector<Direction>& directions() const { return directions_; }

  MatrixXd at(State state) const {
    system_.update_driven(state);
    MatrixXd W = MatrixXd::Zero(rows_, size());
    int row = 0;
    for (const ConstraintId id : constraints_) {
      const Constraint& c = system_.constraint(id);
      const ConstraintFunction& f = c.function();
      const std::size_t m = static_cast<std::size_t>(f.rows()), K = c.bodies().size();
      std::vector<BodyState> X;
      for (const BodyId body : c.bodies()) X.push_back(state[body]);
      std::vector<double> A(m * 6 * K), b(m), position(m), velocity(m);
      f.linearize(X, state.t, {A, b, position, velocity});
      for (std::size_t r = 0; r < m; ++r) {
        const auto at_row = row + static_cast<Eigen::Index>(r);
        for (std::size_t k = 0; k < K; ++k)
          for (std::size_t d = 0; d < directions_.size(); ++d)
            if (directions_[d].body == c.bodies()[k])
              W(at_row, static_cast<Eigen::Index>(d)) =
                  A[(r * K + k) * 6 + static_cast<std::size_t>(directions_[d].axis)];
        double rest = velocity[r];
        for (std::size_t k = 0; k < K; ++k)  // without the velocities of the bodies that can move
          if (system_.dof(c.bodies()[k]) > 0)
            for (std::size_t j = 0; j < 3; ++j)
              rest -= A[(r * K + k) * 6 + j] * X[k].v[static_cast<Eigen::Index>(j)] +
                      A[(r * K + k) * 6 + 3 + j] * X[k].w[static_cast<Eigen::Index>(j)];
        W(at_row, size() - 1) = rest;
      }
      row += f.rows();
    }
    return W;
  }

  /// dω of every row: dω(X, Y) = X ω(Y) − Y ω(X) − ω([X, Y]); turnings about world axes have [R_i, R_j] = −ε_ijk R_k.
  std::vector<MatrixXd> derivative(const State& state) const {
    const int n = size();
    constexpr double h = 1e-5;
    const MatrixXd W = at(state);
    std::vector<MatrixXd> d(static_cast<std::size_t>(rows_), MatrixXd::Zero(n, n));
    for (int i = 0; i < n; ++i) {
      State plus = state, minus = state;
      if (i + 1 < n) {
        displace(plus, directions_[static_cast<std::size_t>(i)], h);
        displace(minus, directions_[static_cast<std::size_t>(i)], -h);
      } else {
        plus.t += h, minus.t -= h;
      }
      const MatrixXd slope = (at(plus) - at(minus)) / (2 * h);
      for (int r = 0; r < rows_; ++r) {
        d[static_cast<std::size_t>(r)].row(i) += slope.row(r);
        d[static_cast<std::size_t>(r)].col(i) -= slope.row(r).transpose();
      }
    }
    for (int i = 0; i + 1 < n; ++i)
      for (int j = 0; j + 1 < n; ++j) {
        const Direction &a = directions_[static_cast<std::size_t>(i)], &b = directions_[static_cast<std::size_t>(j)];
        if (a.body != b.body || a.axis < 3 || b.axis < 3 || a.axis == b.axis) continue;
        const int p = a.axis - 3, q = b.axis - 3, s = 3 - p - q;
        const double sign = (q - p + 3) % 3 == 1 ? 1 : -1;  // ε_pqs
        const int k = i - p + s;
        for (int r = 0; r < rows_; ++r) d[static_cast<std::size_t>(r)](i, j) += sign * W(r, k);
      }
    return d;
  }

 private:
  const System& system_;
  std::vector<ConstraintId> constraints_;
  std::vector<Direction> directions_;
  int rows_ = 0;
};

MatrixXd kernel(const MatrixXd& A) {
  if (A.rows() == 0) return MatrixXd::Identity(A.cols(), A.cols());
  const Eigen::JacobiSVD<MatrixXd> svd(A, Eigen::ComputeFullV);
  const double most = svd.singularValues().size() > 0 ? svd.singularValues()[0] : 0;
  Eigen::Index rank = 0;
  while (rank < svd.singularValues().size() && svd.singularValues()[rank] > 1e-9 * most && most > 0) ++rank;
  return svd.matrixV().rightCols(A.cols() - rank);
}

double scale_of(const std::vector<MatrixXd>& d, const MatrixXd& W) {
  double s = W.cwiseAbs().maxCoeff();
  for (const MatrixXd& each : d) s = std::max(s, each.cwiseAbs().maxCoeff());
  return s;
}

// Whether every dω of the first `rows` vanishes on the kernel of all rows: Frobenius.
bool involutive(const std::vector<MatrixXd>& d, const MatrixXd& W, int rows) {
  const MatrixXd Z = kernel(W);
  const double small = 1e-5 * scale_of(d, W);
  for (int r = 0; r < rows; ++r)
    if ((Z.transpose() * d[static_cast<std::size_t>(r)] * Z).cwiseAbs().maxCoeff() > small) return false;
  return true;
}

// The function whose rate a row is, where it is a polynomial of few terms: of positions, of the components of body
// axes, of coordinates with their sines and cosines, and of time. Sought among the terms of low degree, few of them
// first: axes are not independent of each other, so that with many terms the same function has many forms.
class Integral {
 public:
  Integral(const System& system, const Forms& forms) : system_(system), forms_(forms) {}

  std::string of(const State& around, int row) {
    for (const auto& [axes, degree] : {std::pair{true, 1}, {false, 3}, {true, 2}}) {
      variables_.clear();
      collect(axes);
      monomials_.clear();
      Powers powers(variables_.size(), 0);
      grow(powers, 0, degree);
      if (monomials_.size() > most) continue;
      if (const std::string found = fit(around, row); !found.empty()) return found;
    }
    return {};
  }

 private:
  using Powers = std::vector<int>;
  static constexpr std::size_t most = 250;
  struct Variable {
    enum class Kind { position, axis, sine, cosine, time } kind;
    BodyId body;
    int i = 0, j = 0;  // component, and which axis
  };

  void collect(bool axes) {
    BodyId last;
    for (const Direction& d : forms_.directions()) {
      if (d.axis < 3) variables_.push_back({Variable::Kind::position, d.body, d.axis});
      if (!axes || d.body == last) continue;
      last = d.body;
      if (system_.kind(d.body) == BodyKind::coordinate)
        for (const auto kind : {Variable::Kind::sine, Variable::Kind::cosine}) variables_.push_back({kind, d.body});
      for (int k = 0; system_.kind(d.body) == BodyKind::rigid && k < 9; ++k)
        variables_.push_back({Variable::Kind::axis, d.body, k % 3, k / 3});
    }
    variables_.push_back({Variable::Kind::time, {}});
  }

  double value(const Variable& v, const State& state) const {
    switch (v.kind) {
      case Variable::Kind::position:
        return state[v.body].p[v.i];
      case Variable::Kind::axis:
        return state[v.body].R()(v.i, v.j);
      case Variable::Kind::sine:
        return std::sin(state[v.body].p.x());
      case Variable::Kind::cosine:
        return std::cos(state[v.body].p.x());
      default:
        return state.t;
    }
  }
  // Along a direction of the forms; the last one is time.
  double slope(const Variable& v, int direction, const State& state) const {
    const bool in_time = direction + 1 == forms_.size();
    if (v.kind == Variable::Kind::time || in_time) return v.kind == Variable::Kind::time && in_time ? 1 : 0;
    const Direction& d = forms_.directions()[static_cast<std::size_t>(direction)];
    if (d.body != v.body) return 0;
    switch (v.kind) {
      case Variable::Kind::position:
        return d.axis == v.i ? 1 : 0;
      case Variable::Kind::axis:
        return d.axis < 3 ? 0 : Vector3d::Unit(d.axis - 3).cross(state[v.body].R().col(v.j))[v.i];
      case Variable::Kind::sine:
        return std::cos(state[v.body].p.x());
      default:
        return -std::sin(state[v.body].p.x());
    }
  }

  void grow(Powers& powers, std::size_t from, int left) {
    for (std::size_t v = from; v < powers.size() && left > 0 && monomials_.size() <= most; ++v) {
      ++powers[v];
      monomials_.push_back(powers);
      grow(powers, v, left - 1);
      --powers[v];
    }
  }

  std::string fit(const State& around, int row) const {
    Numbers random;
    const auto n = static_cast<Eigen::Index>(forms_.size()), N = static_cast<Eigen::Index>(monomials_.size());
    const Eigen::Index samples = N / n + 4;
    MatrixXd G(samples * n, N);
    VectorXd g(samples * n);
    std::vector<double> x(variables_.size()), dx(variables_.size());
    for (Eigen::Index s = 0; s < samples; ++s) {
      State state = around;
      VectorXd by(n - 1);
      for (double& each : by) each = random.next();
      displace(state, forms_.directions(), by);
      state.t += random.next();
      const MatrixXd W = forms_.at(state);
      for (std::size_t v = 0; v < x.size(); ++v) x[v] = value(variables_[v], state);
      for (Eigen::Index d = 0; d < n; ++d) {
        g[s * n + d] = W(row, d);
        for (std::size_t v = 0; v < x.size(); ++v) dx[v] = slope(variables_[v], static_cast<int>(d), state);
        for (Eigen::Index k = 0; k < N; ++k) G(s * n + d, k) = rate(monomials_[static_cast<std::size_t>(k)], x, dx);
      }
    }
    const VectorXd c = G.completeOrthogonalDecomposition().solve(g);
    if (!((G * c - g).cwiseAbs().maxCoeff() < 1e-9 * std::max(1.0, g.cwiseAbs().maxCoeff()))) return {};
    std::string out;
    for (Eigen::Index k = 0; k < N; ++k)
      if (std::abs(c[k]) > 1e-9) out += term(c[k], monomials_[static_cast<std::size_t>(k)], out.empty());
    return out;
  }

  static double rate(const Powers& powers, const std::vector<double>& x, const std::vector<double>& dx) {
    double sum = 0;
    for (std::size_t by = 0; by < powers.size(); ++by) {
      if (powers[by] == 0 || dx[by] == 0) continue;
      double product = powers[by] * dx[by];
      for (std::size_t v = 0; v < powers.size(); ++v)
        for (int e = powers[v] - (v == by); e > 0; --e) product *= x[v];
      sum += product;
    }
    return sum;
  }

  std::string shown(const Variable& v) const {
    static const char* const axes[] = {".axis(1, 0, 0).", ".axis(0, 1, 0).", ".axis(0, 0, 1)."};
    const std::string name = v.kind == Variable::Kind::time ? "t" : system_.name(v.body);
    switch (v.kind) {
      case Variable::Kind::position:
        return system_.kind(v.body) == BodyKind::coordinate ? name : name + "." + "xyz"[v.i];
      case Variable::Kind::axis:
        return name + axes[v.j] + "xyz"[v.i];
      case Variable::Kind::sine:
        return "sin(" + name + ")";
      case Variable::Kind::cosine:
        return "cos(" + name + ")";
      default:
        return name;
    }
  }
  std::string term(double c, const Powers& powers, bool first) const {
    char number[32];
    std::snprintf(number, sizeof number, "%.6g", std::abs(c));
    std::string out = first ? (c < 0 ? "-" : "") : (c < 0 ? " - " : " + ");
    bool factor = std::string(number) != "1";
    if (factor) out += number;
    for (std::size_t v = 0; v < powers.size(); ++v) {
      if (powers[v] == 0) continue;
      out += (factor ? "*" : "") + shown(variables_[v]);
      factor = true;
      if (powers[v] > 1) out += "^" + std::to_string(powers[v]);
    }
    return out;
  }

  const System& system_;
  const Forms& forms_;
  std::vector<Variable> variables_;
  std::vector<Powers> monomials_;
};

std::vector<ConstraintId> all_but(const System& system, ConstraintId id) {
  std::vector<ConstraintId> out;
  for (int i = 0; i < system.constraint_count(); ++i)
    if (const ConstraintId each{i}; each != id && system.enabled(each) && !system.removed(each)) out.push_back(each);
  return out;
}

std::vector<BodyId> movable(const System& system) {
  std::vector<BodyId> out;
  for (int i = 0; i < system.body_count(); ++i)
    if (const BodyId id{i}; system.dof(id) > 0) out.push_back(id);
  return out;
}

}  // namespace

Classification classify(const System& system, ConstraintId id, const State& given) {
  Classification out;
  const Constraint& c = system.constraint(id);
  const Level level = c.function().level();
  std::vector<BodyId> bodies;
  for (const BodyId body : c.bodies())
    if (system.dof(body) > 0) bodies.push_back(body);
  const Forms forms(system, {id}, directions_of(system, bodies));
  Numbers random;
  // Places around the state: what holds by chance at one of them does not at the others.
  std::vector<State> places;
  for (int i = 0; i < 4; ++i) {
    State state = at_rest(system, given);
    if (i > 0) {
      VectorXd by(forms.size() - 1);
      for (Eigen::Index k = 0; k < by.size(); ++k) by[k] = 0.3 * random.next();
      displace(state, forms.directions(), by);
      state.t += 0.3 * std::abs(random.next());
    }
    system.update_driven(state);
    places.push_back(state);
  }
  for (const State& place : places) {
    const MatrixXd W = forms.at(place);
    const double size = std::max(1e-12, W.cwiseAbs().maxCoeff());
    out.catastatic = out.catastatic && W.col(forms.size() - 1).cwiseAbs().maxCoeff() <= 1e-9 * size;
    State later = place;
    later.t += 0.1;
    const MatrixXd W1 = forms.at(later);
    out.rheonomic = out.rheonomic || (W1 - W).cwiseAbs().maxCoeff() > 1e-9 * size;
    State moving = place;
    for (const BodyId body : bodies)
      for (int k = 0; k < 3; ++k) moving[body].v[k] = random.next(), moving[body].w[k] = random.next();
    // Linear: neither A nor what is left without velocities depends on them.
    out.linear = out.linear && (forms.at(moving) - W).cwiseAbs().maxCoeff() <= 1e-9 * std::max(1.0, size);
  }
  out.rheonomic = out.rheonomic || !out.catastatic;
  if (level == Level::position) {
    out.linear = true;
    out.kind = Integrability::holonomic;
    return out;
  }
  if (level == Level::acceleration || !out.linear) return out;
  bool exact = true, factor = true;
  for (const State& place : places) {
    const MatrixXd W = forms.at(place);
    const std::vector<MatrixXd> d = forms.derivative(place);
    const double small = 1e-5 * scale_of(d, W);
    for (const MatrixXd& each : d) exact = exact && each.cwiseAbs().maxCoeff() <= small;
    factor = factor && involutive(d, W, forms.rows());
  }
  if (exact) {
    out.kind = Integrability::exact;
    Integral integral(system, forms);
    for (int r = 0; r < forms.rows(); ++r) {
      const std::string each = integral.of(at_rest(system, given), r);
      if (each.empty()) {
        out.integral.clear();
        break;
      }
      out.integral += (r > 0 ? ", " : "") + each;
    }
    return out;
  }
  if (factor) {
    out.kind = Integrability::integrating_factor;
    return out;
  }
  // Together with all the others, on the places they allow.
  std::vector<ConstraintId> all = {id};
  for (const ConstraintId other : all_but(system, id)) all.push_back(other);
  const Forms together(system, all, directions_of(system, movable(system)));
  if (all.size() == 1 || together.size() > 200) return out;
  Dynamics dynamics(system);
  for (int i = 0; i < 3; ++i) {
    State state = at_rest(system, given);
    if (i > 0) {
      const MatrixXd Z = kernel(together.at(state).leftCols(together.size() - 1));
      VectorXd by(Z.cols());
      for (Eigen::Index k = 0; k < by.size(); ++k) by[k] = 0.3 * random.next();
      displace(state, together.directions(), VectorXd(Z * by));
      if (dynamics.evaluate(state) == Status::invalid) return out;
      close_gaps(system, dynamics, state, 1e-12, 100);
    }
    if (!involutive(together.derivative(state), together.at(state), forms.rows())) return out;
  }
  out.kind = Integrability::integrable_here;
  return out;
}

std::optional<std::pair<Vector3d, Vector3d>> turning_of_driven(const System& system) {
  std::optional<std::pair<Vector3d, Vector3d>> out;
  const State state = system.initial_state();
  for (int i = 0; i < system.body_count(); ++i) {
    const BodyId id{i};
    if (system.kind(id) != BodyKind::driven) continue;
    const BodyState& s = state[id];
    // Turning about a point at rest, at a constant rate.
    if (s.w.isZero() || !s.v.isZero() || !s.a.isZero() || !s.alpha.isZero()) return {};
    if (out && ((out->first - s.w).norm() > 1e-12 || (out->second - s.p).cross(s.w).norm() > 1e-12)) return {};
    out = {s.w, s.p};
  }
  return out;
}

// ---- equilibria ----

namespace {

class Rest {
 public:
  Rest(const System& system, const EquilibriumSearch& search)
      : system_(system), search_(search), dynamics_(system), directions_(directions_of(system, movable(system))) {}

  Eigen::Index n() const { return static_cast<Eigen::Index>(directions_.size()); }

  struct Balance {
    MatrixXd A, Z;  // rows; virtual displacements
    VectorXd F, lambda, g;
    double scale = 0;
  };

  bool look(const State& state, Balance& out) {
    if (dynamics_.evaluate(state) == Status::invalid) return false;
    const Instant& in = dynamics_.assembly().instant;
    out.A = MatrixXd::Zero(in.m(), in.n());
    for (int r = 0; r < in.m(); ++r)
      for (int e = in.row_start[static_cast<std::size_t>(r)]; e < in.row_start[static_cast<std::size_t>(r) + 1]; ++e)
        out.A(r, in.entries[static_cast<std::size_t>(e)].column) = in.entries[static_cast<std::size_t>(e)].value;
    out.F = VectorXd::Map(in.Q.data(), in.n()) + centrifugal(state);
    if (!out.F.allFinite()) return false;
    out.Z = kernel(out.A);
    out.lambda = in.m() > 0 ? VectorXd(out.A.transpose().completeOrthogonalDecomposition().solve(-out.F)) : VectorXd();
    out.g = out.Z.transpose() * out.F;
    out.scale = std::max({1e-12, usual_, out.F.cwiseAbs().maxCoeff()});
    return true;
  }

  // ∂(F + Aᵀλ)/∂q in the virtual displacements: minus the stiffness.
  bool tangent(const State& state, const Balance& at, MatrixXd& H) {
    constexpr double h = 1e-5;
    H.resize(at.Z.cols(), at.Z.cols());
    Balance side;
    for (Eigen::Index j = 0; j < at.Z.cols(); ++j) {
      VectorXd sum = VectorXd::Zero(n());
      for (const double sign : {1.0, -1.0}) {
        State moved = state;
        displace(moved, directions_, VectorXd(sign * h * at.Z.col(j)));
        if (!look(moved, side)) return false;
        sum += sign * (side.F + (side.A.rows() > 0 ? VectorXd(side.A.transpose() * at.lambda) : VectorXd::Zero(n())));
      }
      H.col(j) = at.Z.transpose() * sum / (2 * h);
    }
    return true;
  }

  bool close(State& state) {
    if (dynamics_.evaluate(state) == Status::invalid) return false;
    return close_gaps(system_, dynamics_, state, 1e-13, 100) < 1e-9;
  }

  // Newton on Zᵀ(F + Aᵀλ) = 0, damped as long as that helps: finds places of rest of every stability.
  bool solve(State& state, Balance& at) {
    if (!close(state) || !look(state, at)) return false;
    // Where nothing is held all forces vanish at rest: what they are where the search began is their measure.
    usual_ = std::max(usual_, at.scale);
    at.scale = usual_;
    double damping = 1e-3;
    for (int step = 0; step < 200; ++step) {
      if (at.g.size() == 0 || at.g.cwiseAbs().maxCoeff() <= 1e-11 * at.scale) return true;
      MatrixXd H;
      if (!tangent(state, at, H)) return false;
      const MatrixXd normal = H.transpose() * H;
      const double size = std::max(1e-12, normal.diagonal().maxCoeff());
      bool better = false;
      for (int attempt = 0; attempt < 12 && !better; ++attempt) {
        VectorXd y = (normal + damping * size * MatrixXd::Identity(normal.rows(), normal.cols()))
                         .ldlt()
                         .solve(-H.transpose() * at.g);
        if (const double length = y.norm(); length > 0.5) y *= 0.5 / length;
        State moved = state;
        displace(moved, directions_, VectorXd(at.Z * y));
        Balance there;
        better = y.allFinite() && close(moved) && look(moved, there) && there.g.norm() < at.g.norm();
        if (better) {
          state = moved;
          at = there;
          damping = std::max(1e-16, damping * 0.1);
        } else {
          damping *= 10;
        }
      }
      if (!better) break;
    }
    return at.g.size() == 0 || at.g.cwiseAbs().maxCoeff() <= 1e-7 * at.scale;
  }

  Equilibrium judge(const State& state, const Balance& at) {
    Equilibrium out;
    out.state = state;
    out.residual = at.g.size() > 0 ? at.g.cwiseAbs().maxCoeff() / at.scale : 0;
    out.lambda.assign(at.lambda.begin(), at.lambda.end());
    MatrixXd H;
    if (at.Z.cols() == 0 || !tangent(state, at, H)) {
      out.stability = Equilibrium::Stability::stable;  // nothing can move
      return out;
    }
    MatrixXd M = MatrixXd::Zero(n(), n());
    const Instant& in = dynamics_.assembly().instant;
    Eigen::Index column = 0;
    std::size_t k = 0;
    for (const int size : in.block_sizes) {
      for (int i = 0; i < size; ++i)
        for (int j = 0; j < size; ++j) M(column + i, column + j) = in.mass[k++];
      column += size;
    }
    const MatrixXd stiffness = -0.5 * (H + H.transpose()), mass = at.Z.transpose() * M * at.Z;
    const Eigen::GeneralizedSelfAdjointEigenSolver<MatrixXd> eigen(stiffness, mass, Eigen::EigenvaluesOnly);
    const VectorXd w2 = eigen.eigenvalues();
    out.frequencies_squared.assign(w2.begin(), w2.end());
    const double small = 1e-6 * std::max({1e-9, std::abs(w2.minCoeff()), w2.maxCoeff()});
    out.stability = w2.minCoeff() > small    ? Equilibrium::Stability::stable
                    : w2.minCoeff() < -small ? Equilibrium::Stability::unstable
                                             : Equilibrium::Stability::marginal;
    return out;
  }

  const std::vector<Direction>& directions() const { return directions_; }

 private:
  VectorXd centrifugal(const State& state) const {
    VectorXd f = VectorXd::Zero(n());
    if (search_.omega.isZero()) return f;
    const Vector3d& w = search_.omega;
    for (std::size_t i = 0; i < directions_.size();) {
      const BodyId id = directions_[i].body;
      const auto at = static_cast<Eigen::Index>(i);
      i += static_cast<std::size_t>(system_.dof(id));
      if (system_.kind(id) == BodyKind::coordinate) continue;  // what turns with it is in its kinetic energy
      f.segment<3>(at) = -system_.mass(id) * w.cross(w.cross(state[id].p - search_.centre));
      if (system_.dof(id) == 6) f.segment<3>(at + 3) = -w.cross(system_.world_inertia(id, state[id].q) * w);
    }
    return f;
  }

  const System& system_;
  const EquilibriumSearch& search_;
  Dynamics dynamics_;
  std::vector<Direction> directions_;
  double usual_ = 0;  // size of the forces at the places the searches began
};

double apart(const State& a, const State& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.bodies.size(); ++i) {
    most = std::max(most, (a.bodies[i].p - b.bodies[i].p).norm());
    most = std::max(most, a.bodies[i].q.angularDistance(b.bodies[i].q));
  }
  return most;
}

}  // namespace

std::vector<Equilibrium> find_equilibria(const System& system, const State& given, const EquilibriumSearch& search) {
  std::vector<Equilibrium> found;
  Rest rest(system, search);
  Numbers random;
  for (int start = 0; start < search.starts; ++start) {
    State state = at_rest(system, given);
    Rest::Balance at;
    if (start > 0) {
      if (!rest.close(state) || !rest.look(state, at)) continue;
      VectorXd by(at.Z.cols());
      for (Eigen::Index k = 0; k < by.size(); ++k) by[k] = 2 * search.spread * random.next();
      // In small parts and straight on, so that a long way stays on the constraints.
      VectorXd way = at.Z * by;
      const double length = way.norm();
      for (int part = 0; part < 20 && way.norm() > 0; ++part) {
        displace(state, rest.directions(), VectorXd(0.05 * way));
        if (!rest.close(state) || !rest.look(state, at)) break;
        way = at.Z * (at.Z.transpose() * way);
        if (way.norm() > 0) way *= length / way.norm();
      }
    }
    if (!rest.solve(state, at)) continue;
    const bool known =
        std::any_of(found.begin(), found.end(), [&](const Equilibrium& e) { return apart(e.state, state) < 1e-5; });
    if (known) continue;
    Equilibrium next = rest.judge(state, at);
    // Where a stiffness is zero the place is one of a family; one of them is enough.
    const auto same = [&](const Equilibrium& e) {
      const double V = potential_energy(system, e.state), U = potential_energy(system, next.state);
      bool equal = std::abs(V - U) < 1e-7 * (1 + std::abs(V)) && e.stability == next.stability &&
                   e.frequencies_squared.size() == next.frequencies_squared.size();
      for (std::size_t i = 0; equal && i < e.frequencies_squared.size(); ++i)
        equal = std::abs(e.frequencies_squared[i] - next.frequencies_squared[i]) <
                1e-4 * (1 + std::abs(e.frequencies_squared[i]));
      return equal;
    };
    const bool floppy = std::any_of(next.frequencies_squared.begin(), next.frequencies_squared.end(), [&](double w2) {
      return std::abs(w2) <
             1e-6 * (1e-9 + std::abs(next.frequencies_squared.back()) + std::abs(next.frequencies_squared.front()));
    });
    if (!floppy || std::none_of(found.begin(), found.end(), same)) found.push_back(std::move(next));
  }
  std::stable_sort(found.begin(), found.end(), [&](const Equilibrium& a, const Equilibrium& b) {
    return potential_energy(system, a.state) < potential_energy(system, b.state);
  });
  return found;
}

}  // namespace linchpin
