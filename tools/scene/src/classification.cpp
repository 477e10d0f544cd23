#include "directions.h"
#include "singular_values.h"

#include <linchpin/constraint.h>
#include <linchpin/projection.h>
#include <linchpin/scene/analysis.h>
#include <linchpin/scene/names.h>

#include <Eigen/Dense>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>

namespace linchpin::scene {

using analysis::at_rest;
using analysis::Direction;
using analysis::displace;
using analysis::kernel;
using analysis::Numbers;
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

// Rows of constraints as one-forms on (poses, t): A in the directions in which their bodies can go, and in the last
// column what is left without velocities. States are of these bodies alone, in this order, and so are the bodies that
// directions name: what is asked of one constraint of a large system then costs no more than of a small one.
class Forms {
 public:
  /// @param given  a state of the system, for kinematic bodies that only the host knows how to move
  Forms(const System& system, std::span<const ConstraintId> constraints, std::vector<BodyId> bodies, const State& given)
      : system_(system), bodies_(std::move(bodies)) {
    std::unordered_map<int, std::size_t> index;
    for (std::size_t i = 0; i < bodies_.size(); ++i) {
      index[bodies_[i].index] = i;
      column_.push_back(static_cast<int>(directions_.size()));
      for (int k = 0; k < system.dof(bodies_[i]); ++k) directions_.push_back({BodyId{static_cast<int>(i)}, k});
      driven_ = driven_ || system.kind(bodies_[i]) == BodyKind::kinematic;
    }
    for (const ConstraintId id : constraints) {
      const Constraint& c = system.constraint(id);
      rows_.push_back({&c.function(), {}});
      for (const BodyId body : c.bodies()) rows_.back().bodies.push_back(index.at(body.index));
      count_ += c.function().rows();
    }
    if (driven_) whole_ = given;
  }
  int rows() const { return count_; }
  int size() const { return static_cast<int>(directions_.size()) + 1; }
  const std::vector<Direction>& directions() const { return directions_; }
  BodyId body(BodyId local) const { return bodies_[static_cast<std::size_t>(local.index)]; }

  /// Of a state of the system, with what is kinematic where it is at that time.
  State part(const State& state) const {
    State out{state.t, {}};
    for (const BodyId id : bodies_) out.bodies.push_back(state[id]);
    drive(out);
    return out;
  }
  void rest(State& part) const {
    for (const Direction& d : directions_) part[d.body].v.setZero(), part[d.body].w.setZero();
  }

  MatrixXd at(const State& state) const { return at(state, rows_.size()); }
  MatrixXd at(State state, std::size_t count) const {  // the rows of the first `count` constraints
    drive(state);
    int row = 0;
    for (std::size_t i = 0; i < count; ++i) row += rows_[i].function->rows();
    MatrixXd W = MatrixXd::Zero(row, size());
    row = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const ConstraintFunction& f = *rows_[i].function;
      const std::vector<std::size_t>& bodies = rows_[i].bodies;
      const std::size_t m = static_cast<std::size_t>(f.rows()), K = bodies.size();
      std::vector<BodyState> X;
      for (const std::size_t body : bodies) X.push_back(state.bodies[body]);
      std::vector<double> A(m * 6 * K), b(m), position(m), velocity(m);
      f.linearize(X, state.t, {A, b, position, velocity});
      for (std::size_t r = 0; r < m; ++r) {
        const auto at_row = row + static_cast<Eigen::Index>(r);
        double rest = velocity[r];
        for (std::size_t k = 0; k < K; ++k) {
          const int dof = system_.dof(bodies_[bodies[k]]);
          for (int j = 0; j < dof; ++j)
            W(at_row, column_[bodies[k]] + j) = A[(r * K + k) * 6 + static_cast<std::size_t>(j)];
          if (dof > 0)  // without the velocities of the bodies that can move
            for (std::size_t j = 0; j < 3; ++j)
              rest -= A[(r * K + k) * 6 + j] * X[k].v[static_cast<Eigen::Index>(j)] +
                      A[(r * K + k) * 6 + 3 + j] * X[k].w[static_cast<Eigen::Index>(j)];
        }
        W(at_row, size() - 1) = rest;
      }
      row += f.rows();
    }
    return W;
  }

  struct Exterior {
    std::vector<MatrixXd> d;      // of every row, antisymmetric
    std::vector<MatrixXd> error;  // what may be wrong in each entry
  };

  /// dω of the rows of the first `count` constraints: dω(X, Y) = X ω(Y) − Y ω(X) − ω([X, Y]); turnings about world axes
  /// have [R_i, R_j] = −ε_ijk R_k. An entry is judged by the size of its own terms, so that a small one beside large
  /// ones counts; what is below rounding of the row and of the positions does not.
  Exterior derivative(const State& state, std::size_t count) const {
    const int n = size();
    constexpr double h = 1e-3, round_off = std::numeric_limits<double>::epsilon();
    const MatrixXd W = at(state, count);
    const auto m = static_cast<std::size_t>(W.rows());
    Exterior out{std::vector<MatrixXd>(m, MatrixXd::Zero(n, n)), std::vector<MatrixXd>(m, MatrixXd::Zero(n, n))};
    VectorXd steepest = VectorXd::Zero(W.rows());
    for (int i = 0; i < n; ++i) {
      MatrixXd slope = MatrixXd::Zero(W.rows(), n);
      for (int k = 1; k <= 3; ++k) {
        State plus = state, minus = state;
        if (i + 1 < n) {
          displace(plus, directions_[static_cast<std::size_t>(i)], k * h);
          displace(minus, directions_[static_cast<std::size_t>(i)], -k * h);
        } else {
          plus.t += k * h, minus.t -= k * h;
        }
        slope += analysis::difference_weights[k - 1] / h * (at(plus, count) - at(minus, count));
      }
      for (std::size_t r = 0; r < m; ++r) {
        const auto row = slope.row(static_cast<Eigen::Index>(r));
        out.d[r].row(i) += row;
        out.d[r].col(i) -= row.transpose();
        out.error[r].row(i) += row.cwiseAbs();
        out.error[r].col(i) += row.cwiseAbs().transpose();
        double& most = steepest[static_cast<Eigen::Index>(r)];
        most = std::max(most, row.cwiseAbs().maxCoeff());
      }
    }
    for (int i = 0; i + 1 < n; ++i)
      for (int j = 0; j + 1 < n; ++j) {
        const Direction &a = directions_[static_cast<std::size_t>(i)], &b = directions_[static_cast<std::size_t>(j)];
        if (a.body != b.body || a.axis < 3 || b.axis < 3 || a.axis == b.axis) continue;
        const int p = a.axis - 3, q = b.axis - 3, s = 3 - p - q;
        const double sign = (q - p + 3) % 3 == 1 ? 1 : -1;  // ε_pqs
        const int k = i - p + s;
        for (std::size_t r = 0; r < m; ++r) {
          const double bracket = W(static_cast<Eigen::Index>(r), k);
          out.d[r](i, j) += sign * bracket;
          out.error[r](i, j) += std::abs(bracket);
        }
      }
    double far = std::abs(state.t);
    for (const Direction& d : directions_) far = std::max(far, state[d.body].p.cwiseAbs().maxCoeff());
    for (std::size_t r = 0; r < m; ++r) {
      const auto row = static_cast<Eigen::Index>(r);
      const double floor = 1e-10 * W.row(row).cwiseAbs().maxCoeff() + 4 * round_off / h * far * steepest[row];
      out.error[r] = (1e-7 * out.error[r]).array() + floor;
    }
    return out;
  }

 private:
  void drive(State& part) const {
    if (!driven_) return;
    whole_.t = part.t;
    system_.update_kinematic(whole_);
    for (std::size_t i = 0; i < bodies_.size(); ++i)
      if (system_.kind(bodies_[i]) == BodyKind::kinematic) part.bodies[i] = whole_[bodies_[i]];
  }

  struct Rows {
    const ConstraintFunction* function;
    std::vector<std::size_t> bodies;  // places in bodies_
  };
  const System& system_;
  std::vector<BodyId> bodies_;
  std::vector<int> column_;  // of each body's first direction
  std::vector<Direction> directions_;
  std::vector<Rows> rows_;
  int count_ = 0;
  bool driven_ = false;
  mutable State whole_;  // where kinematic bodies are asked for
};

// Whether every dω vanishes on the kernel Z of all rows: Frobenius.
bool involutive(const Forms::Exterior& exterior, const MatrixXd& Z) {
  const MatrixXd size = Z.cwiseAbs();
  for (std::size_t r = 0; r < exterior.d.size(); ++r) {
    const MatrixXd on = Z.transpose() * exterior.d[r] * Z, error = size.transpose() * exterior.error[r] * size;
    if ((on.cwiseAbs().array() > error.array()).any()) return false;
  }
  return true;
}

// The function whose rate a row is, where it is a polynomial of few terms: of positions, of the components of body
// axes, of coordinates with their sines and cosines, and of time. A function whose gradient has no entry in a direction
// does not depend on it, so that only what occurs in the row is asked for; terms of low degree come first, and those
// that others already express (axes are not independent of each other) are left out. What fits is then looked at in
// other places, and is named only where its gradient is the row there too.
class Integral {
 public:
  Integral(const System& system, const Forms& forms) : system_(system), forms_(forms) {}

  /// @param rows  how much of each row
  std::string of(const State& around, const VectorXd& rows) {
    active_.assign(static_cast<std::size_t>(forms_.size()), false);
    Numbers random;
    VectorXd most_seen = VectorXd::Zero(forms_.size());
    for (int i = 0; i < 8; ++i) {
      const MatrixXd W = forms_.at(somewhere(around, random));
      most_seen = most_seen.cwiseMax((W.transpose() * rows).cwiseAbs());
    }
    for (std::size_t d = 0; d < active_.size(); ++d)
      active_[d] = most_seen[static_cast<Eigen::Index>(d)] > 1e-12 * most_seen.maxCoeff();
    for (const auto& [axes, degree] : {std::pair{true, 1}, {false, 2}, {false, 3}, {true, 2}}) {
      variables_.clear();
      const bool turns = collect(axes);
      if (turns && !axes) continue;
      monomials_.clear();
      Powers powers(variables_.size(), 0);
      grow(powers, 0, degree);
      if (monomials_.size() > most || monomials_.empty()) continue;
      const auto degree_of = [](const Powers& p) { return std::accumulate(p.begin(), p.end(), 0); };
      std::stable_sort(monomials_.begin(), monomials_.end(),
                       [&](const Powers& a, const Powers& b) { return degree_of(a) < degree_of(b); });
      if (const std::string found = fit(around, rows); !found.empty()) return found;
    }
    return {};
  }

 private:
  using Powers = std::vector<int>;
  static constexpr std::size_t most = 350;  // two bodies and time, of degree 2 in all their axes
  struct Variable {
    enum class Kind { position, axis, sine, cosine, time } kind;
    BodyId body;
    int i = 0, j = 0;  // component, and which axis
  };

  // @return whether what is asked for turns bodies
  bool collect(bool axes) {
    bool turns = false;
    for (std::size_t i = 0; i < forms_.directions().size(); ++i) {
      const Direction& d = forms_.directions()[i];
      if (!active_[i]) continue;
      if (d.axis < 3) variables_.push_back({Variable::Kind::position, d.body, d.axis});
      if (axes && kind(d.body) == BodyKind::coordinate)
        for (const auto kind : {Variable::Kind::sine, Variable::Kind::cosine}) variables_.push_back({kind, d.body});
      if (d.axis < 3 || (turns && turned_ == d.body)) continue;
      turns = true;
      turned_ = d.body;
      for (int k = 0; axes && k < 9; ++k) variables_.push_back({Variable::Kind::axis, d.body, k % 3, k / 3});
    }
    if (active_.back()) variables_.push_back({Variable::Kind::time, {}});
    return turns;
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

  State somewhere(const State& around, Numbers& random) const {
    State state = around;
    VectorXd by(forms_.size() - 1);
    for (double& each : by) each = random.next();
    displace(state, forms_.directions(), by);
    state.t += random.next();
    return state;
  }

  // The row and the gradients of all monomials, in the directions that occur, at places not seen before.
  void sample(const State& around, const VectorXd& rows, Numbers& random, Eigen::Index places, MatrixXd& G,
              VectorXd& g) const {
    const auto n = static_cast<Eigen::Index>(std::count(active_.begin(), active_.end(), true));
    const auto N = static_cast<Eigen::Index>(monomials_.size());
    G.resize(places * n, N);
    g.resize(places * n);
    std::vector<double> x(variables_.size()), dx(variables_.size());
    Eigen::Index at = 0;
    for (Eigen::Index place = 0; place < places; ++place) {
      const State state = somewhere(around, random);
      const VectorXd form = forms_.at(state).transpose() * rows;
      for (std::size_t v = 0; v < x.size(); ++v) x[v] = value(variables_[v], state);
      for (int d = 0; d < forms_.size(); ++d) {
        if (!active_[static_cast<std::size_t>(d)]) continue;
        g[at] = form[d];
        for (std::size_t v = 0; v < x.size(); ++v) dx[v] = slope(variables_[v], d, state);
        for (Eigen::Index k = 0; k < N; ++k) G(at, k) = rate(monomials_[static_cast<std::size_t>(k)], x, dx);
        ++at;
      }
    }
  }

  std::string fit(const State& around, const VectorXd& rows) const {
    Numbers random;
    MatrixXd G;
    VectorXd g;
    const auto N = static_cast<Eigen::Index>(monomials_.size());
    sample(around, rows, random, 2 * N / std::count(active_.begin(), active_.end(), true) + 6, G, g);
    // Gram and Schmidt, twice for each column, in the order of degrees: what is left out is expressed by what came
    // before.
    MatrixXd Q(G.rows(), N), R = MatrixXd::Zero(N, N);
    std::vector<Eigen::Index> kept;
    for (Eigen::Index k = 0; k < N; ++k) {
      VectorXd q = G.col(k);
      const auto rank = static_cast<Eigen::Index>(kept.size());
      for (int twice = 0; twice < 2; ++twice) {
        const VectorXd part = Q.leftCols(rank).transpose() * q;
        q -= Q.leftCols(rank) * part;
        R.col(rank).head(rank) += part;
      }
      const double left = q.norm();
      if (left > 1e-8 * G.col(k).norm()) {
        R(rank, rank) = left;
        Q.col(rank) = q / left;
        kept.push_back(k);
      } else {
        R.col(rank).setZero();
      }
    }
    const auto rank = static_cast<Eigen::Index>(kept.size());
    VectorXd c = Q.leftCols(rank).transpose() * g;
    for (Eigen::Index k = rank; k-- > 0;)
      c[k] = (c[k] - R.row(k).segment(k + 1, rank - k - 1).dot(c.tail(rank - k - 1))) / R(k, k);
    VectorXd all = VectorXd::Zero(N), share = VectorXd::Zero(N);
    for (Eigen::Index k = 0; k < rank; ++k) {
      const Eigen::Index to = kept[static_cast<std::size_t>(k)];
      all[to] = c[k];
      share[to] = std::abs(c[k]) * G.col(to).cwiseAbs().maxCoeff();
    }
    const double largest = share.maxCoeff();
    for (Eigen::Index k = 0; k < N; ++k)
      if (!(share[k] > 1e-9 * largest)) all[k] = 0;
    sample(around, rows, random, 6, G, g);
    if (!((G * all - g).cwiseAbs().maxCoeff() < 1e-8 * g.cwiseAbs().maxCoeff())) return {};
    std::string out;
    for (Eigen::Index k = 0; k < N; ++k)
      if (all[k] != 0) out += term(all[k], monomials_[static_cast<std::size_t>(k)], out.empty());
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

  BodyKind kind(BodyId local) const { return system_.kind(forms_.body(local)); }
  std::string shown(const Variable& v) const {
    static const char* const axes[] = {".axis(1, 0, 0).", ".axis(0, 1, 0).", ".axis(0, 0, 1)."};
    const std::string name = v.kind == Variable::Kind::time ? "t" : scene::quoted(system_.name(forms_.body(v.body)));
    switch (v.kind) {
      case Variable::Kind::position:
        return kind(v.body) == BodyKind::coordinate ? name : name + "." + "xyz"[v.i];
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
    for (int digits = 6; digits < 13; ++digits) {  // as few as say it
      std::snprintf(number, sizeof number, "%.*g", digits, std::abs(c));
      if (std::abs(std::strtod(number, nullptr) - std::abs(c)) <= 1e-8 * std::abs(c)) break;
    }
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
  std::vector<bool> active_;  // directions the row has entries in
  BodyId turned_;
  std::vector<Variable> variables_;
  std::vector<Powers> monomials_;
};

// The constraint first, then all others that hold.
std::vector<ConstraintId> all_from(const System& system, ConstraintId id) {
  std::vector<ConstraintId> out = {id};
  for (int i = 0; i < system.constraint_count(); ++i)
    if (const ConstraintId each{i}; each != id && system.enabled(each) && !system.removed(each)) out.push_back(each);
  return out;
}

std::vector<BodyId> all_bodies(const System& system) {
  std::vector<BodyId> out;
  for (int i = 0; i < system.body_count(); ++i) out.push_back({i});
  return out;
}

}  // namespace

namespace {

Classification classified(const System& system, ConstraintId id, const State& given) {
  Classification out;
  const Constraint& c = system.constraint(id);
  const Level level = c.function().level();
  const std::vector<BodyId> bodies(c.bodies().begin(), c.bodies().end());
  const Forms forms(system, {&id, 1}, bodies, given);
  const State here = forms.part(given);
  State resting = here;
  forms.rest(resting);
  Numbers random;
  // Places around the state: what holds by chance at one of them does not at the others.
  std::vector<State> places;
  for (int i = 0; i < 4; ++i) {
    State state = resting;
    if (i > 0) {
      VectorXd by(forms.size() - 1);
      for (Eigen::Index k = 0; k < by.size(); ++k) by[k] = 0.3 * random.next();
      displace(state, forms.directions(), by);
      state.t += 0.3 * std::abs(random.next());
    }
    places.push_back(std::move(state));
  }
  const Eigen::Index n = forms.size() - 1;
  // Of each row's steepest derivative, the least beside the state: what is nothing against that is nothing.
  VectorXd least_beside = VectorXd::Constant(forms.rows(), std::numeric_limits<double>::infinity());
  for (const State& place : places) {
    const MatrixXd W = forms.at(place);
    const double size = std::max(1e-12, W.cwiseAbs().maxCoeff());
    out.catastatic = out.catastatic && W.col(n).cwiseAbs().maxCoeff() <= 1e-9 * size;
    State moving = place;
    for (std::size_t i = 0; i < bodies.size(); ++i)
      for (int k = 0; system.dof(bodies[i]) > 0 && k < 3; ++k)
        moving.bodies[i].v[k] = random.next(), moving.bodies[i].w[k] = random.next();
    const MatrixXd V = forms.at(moving);
    const double moving_size = std::max(size, V.cwiseAbs().maxCoeff());
    // Linear: neither A nor what is left without velocities depends on them.
    out.linear = out.linear && (V - W).cwiseAbs().maxCoeff() <= 1e-9 * moving_size;
    State later = place, moving_later = moving;
    for (State* each : {&later, &moving_later}) each->t += 0.1234567;  // no period of anything
    out.rheonomic = out.rheonomic || (forms.at(later) - W).cwiseAbs().maxCoeff() > 1e-9 * size ||
                    (forms.at(moving_later) - V).cwiseAbs().maxCoeff() > 1e-9 * moving_size;
    const VectorXd steepest =
        W.leftCols(n).cwiseAbs().rowwise().maxCoeff().cwiseMax(V.leftCols(n).cwiseAbs().rowwise().maxCoeff());
    if (&place != &places.front()) least_beside = least_beside.cwiseMin(steepest);
  }
  const VectorXd steepest_here = forms.at(here).leftCols(n).cwiseAbs().rowwise().maxCoeff();
  out.zero_jacobian = (steepest_here.array() < 1e-9 * least_beside.array() && least_beside.array().isFinite()).any();
  if (level == Level::position) {
    out.linear = true;
    out.kind = Integrability::holonomic;
    return out;
  }
  if (level == Level::acceleration || !out.linear) return out;
  bool exact = true, factor = true;
  std::vector<std::pair<Forms::Exterior, MatrixXd>> seen;
  Eigen::Index least = forms.size();
  for (const State& place : places) {
    seen.emplace_back(forms.derivative(place, 1), kernel(forms.at(place)));
    least = std::min(least, seen.back().second.cols());
  }
  for (const auto& [exterior, Z] : seen) {
    for (std::size_t r = 0; r < exterior.d.size(); ++r)
      exact = exact && !(exterior.d[r].cwiseAbs().array() > exterior.error[r].array()).any();
    // Where rows vanish or fall together, as x dy − y dx does at 0, nothing is said of the places around.
    if (Z.cols() == least) factor = factor && involutive(exterior, Z);
  }
  if (exact) {
    out.kind = Integrability::exact;
    Integral integral(system, forms);
    for (int r = 0; r < forms.rows(); ++r) {
      const std::string each = integral.of(resting, VectorXd::Unit(forms.rows(), r));
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
  int columns = 0;
  for (int i = 0; i < system.body_count() && columns < 200; ++i) columns += system.dof({i});
  if (columns >= 200) return out;
  const std::vector<ConstraintId> all = all_from(system, id);
  if (all.size() == 1) return out;
  const Forms together(system, all, all_bodies(system), given);
  Dynamics dynamics(system);
  for (int i = 0; i < 3; ++i) {
    State state = at_rest(system, given);
    if (i > 0) {
      const MatrixXd Z = kernel(together.at(state).leftCols(together.size() - 1));
      VectorXd by(Z.cols());
      for (Eigen::Index k = 0; k < by.size(); ++k) by[k] = 0.3 * random.next();
      displace(state, together.directions(), VectorXd(Z * by));
      if (dynamics.evaluate(state) == Status::invalid) return out;
      project_positions(system, dynamics, state, 1e-12, 100);
    }
    if (!involutive(together.derivative(state, 1), kernel(together.at(state)))) return out;
  }
  out.kind = Integrability::integrable_here;
  return out;
}

}  // namespace

Classification classify(const System& system, ConstraintId id, const State& given) {
  Classification out;
  out.kind = Integrability::holonomic;
  if (system.constraint(id).function().rows() == 0) return out;  // All rows are springs.
  out = classified(system, id, given);
  // A function whose rate has a term without velocities has time in it. A row that is no such rate has time in it
  // where t occurs, and nowhere else.
  out.rheonomic = out.rheonomic || (out.kind != Integrability::nonholonomic && out.linear && !out.catastatic);
  return out;
}

namespace {

// The places that ways along all rows reach from a state are a surface. Its tangents at the state are the tangents of
// such ways at all places on it, carried back along the ways (Sussmann). A combination of rows that vanishes on them is
// the rate of a function times a factor. The function is constant on each such surface.
class Orbit {
 public:
  Orbit(const Forms& forms, const State& from) : forms_(forms), from_(from) {
    const MatrixXd Z = kernel(forms_.at(from_));
    std::vector<VectorXd> all;
    for (Eigen::Index k = 0; k < Z.cols(); ++k) all.emplace_back(Z.col(k));
    for (int way = 0; way < ways && Z.cols() > 0; ++way) {
      VectorXd w(Z.cols());
      for (double& each : w) each = random_.next();
      const VectorXd by = Z * (length / w.norm() * w);
      State there = from_;
      if (!go(there, by)) continue;
      const MatrixXd out = kernel(forms_.at(there));
      for (Eigen::Index k = 0; k < out.cols(); ++k)
        if (const auto back = carried(there, out.col(k), -by, from_)) all.push_back(*back);
      last_ = by;
      end_ = there;
    }
    tangents_ = span_of(all);
  }
  const MatrixXd& tangents() const { return tangents_; }

  /// Another place on it, with the tangents there. @return nothing where no way leads to one
  std::optional<std::pair<State, MatrixXd>> elsewhere() const {
    if (!end_) return {};
    std::vector<VectorXd> all;
    for (Eigen::Index k = 0; k < tangents_.cols(); ++k) {
      const auto there = carried(from_, tangents_.col(k), last_, *end_);
      if (!there) return {};
      all.push_back(*there);
    }
    return std::pair(*end_, span_of(all));
  }

 private:
  static constexpr int ways = 6;
  static constexpr double length = 0.7;

  bool go(State& state, const VectorXd& by) const {
    const auto along = [&](const State& at) -> VectorXd {
      const MatrixXd Z = kernel(forms_.at(at));
      return Z * (Z.transpose() * by);
    };
    return analysis::follow(state, forms_.directions(), along, 16);
  }
  // A small displacement of a state, carried along a way that ends at `to`.
  std::optional<VectorXd> carried(const State& from, const VectorXd& by, const VectorXd& way, const State& to) const {
    constexpr double h = 3e-5;
    VectorXd out = VectorXd::Zero(by.size());
    for (const double sign : {1.0, -1.0}) {
      State state = from;
      displace(state, forms_.directions(), VectorXd(sign * h * by.head(by.size() - 1)));
      state.t += sign * h * by[by.size() - 1];
      if (!go(state, way)) return {};
      out.head(by.size() - 1) += sign / (2 * h) * analysis::difference(to, state, forms_.directions());
      out[by.size() - 1] += sign / (2 * h) * (state.t - to.t);
    }
    return out.allFinite() ? std::optional(out) : std::nullopt;
  }
  MatrixXd span_of(const std::vector<VectorXd>& all) const {
    MatrixXd A(forms_.size(), static_cast<Eigen::Index>(all.size()));
    for (std::size_t k = 0; k < all.size(); ++k) A.col(static_cast<Eigen::Index>(k)) = all[k];
    if (A.cols() == 0) return A;
    Eigen::JacobiSVD<MatrixXd> svd(A, Eigen::ComputeThinU);
    svd.setThreshold(1e-5);
    return svd.matrixU().leftCols(svd.rank());
  }

  const Forms& forms_;
  const State from_;
  Numbers random_;
  VectorXd last_;  // a way, and where it ended
  std::optional<State> end_;
  MatrixXd tangents_;
};

// All that hold together with some: by chains of bodies that can move.
void take_neighbours(const System& system, const std::vector<bool>& is_form, std::vector<ConstraintId>& all,
                     std::vector<BodyId>& bodies) {
  std::vector<bool> seen(static_cast<std::size_t>(system.body_count()), false), taken(is_form.size(), false);
  const auto look_at = [&](ConstraintId id) {
    taken[static_cast<std::size_t>(id.index)] = true;
    for (const BodyId body : system.constraint(id).bodies()) seen[static_cast<std::size_t>(body.index)] = true;
  };
  for (const ConstraintId id : all) look_at(id);
  for (bool more = true; more;) {
    more = false;
    for (std::size_t i = 0; i < is_form.size(); ++i) {
      const ConstraintId id{static_cast<int>(i)};
      if (taken[i] || !is_form[i]) continue;
      const auto on = system.constraint(id).bodies();
      if (std::none_of(on.begin(), on.end(),
                       [&](BodyId body) { return system.dof(body) > 0 && seen[static_cast<std::size_t>(body.index)]; }))
        continue;
      look_at(id);
      all.push_back(id);
      more = true;
    }
  }
  for (std::size_t i = 0; i < seen.size(); ++i)
    if (seen[i]) bodies.push_back({static_cast<int>(i)});
}

// Combinations of rows, each as few rows as there are: single ones first, then the reduced row echelon form.
MatrixXd sparsest(const MatrixXd& null) {
  const Eigen::Index m = null.rows();
  constexpr double small = 1e-5;
  std::vector<VectorXd> out;
  MatrixXd left = null;  // an orthonormal basis, in columns
  for (Eigen::Index r = 0; r < m; ++r)
    if (std::abs(null.row(r).norm() - 1) < small * small) out.emplace_back(VectorXd::Unit(m, r)), left.row(r).setZero();
  MatrixXd R = left.transpose();
  for (Eigen::Index row = 0; row < R.rows(); ++row) {
    Eigen::Index r = 0, c = 0;
    if (!(R.bottomRows(R.rows() - row).cwiseAbs().maxCoeff(&r, &c) > small)) break;
    R.row(row).swap(R.row(row + r));
    R.row(row) /= R(row, c);
    for (Eigen::Index other = 0; other < R.rows(); ++other)
      if (other != row) R.row(other) -= R(other, c) * R.row(row);
    if (row + 1 == R.rows() || !(R.bottomRows(R.rows() - row - 1).cwiseAbs().maxCoeff() > small)) {
      for (Eigen::Index k = 0; k <= row; ++k) out.emplace_back(R.row(k).transpose());
      break;
    }
  }
  MatrixXd all(m, static_cast<Eigen::Index>(out.size()));
  for (std::size_t k = 0; k < out.size(); ++k) all.col(static_cast<Eigen::Index>(k)) = out[k];
  return all;
}

}  // namespace

std::vector<IntegrableCombination> integrable_combinations(const System& system, std::span<const Classification> kinds,
                                                           const State& given) {
  std::vector<IntegrableCombination> out;
  std::vector<ConstraintId> all;
  std::vector<bool> is_form(static_cast<std::size_t>(system.constraint_count()), false);
  for (std::size_t i = 0; i < is_form.size() && i < kinds.size(); ++i) {
    const ConstraintId id{static_cast<int>(i)};
    if (system.removed(id) || !system.enabled(id) || !kinds[i].linear) continue;
    const Level level = system.constraint(id).function().level();
    is_form[i] = level != Level::acceleration;
    if (level == Level::velocity && kinds[i].kind == Integrability::nonholonomic) all.push_back(id);
  }
  if (all.empty()) return out;
  const std::size_t asked = all.size();
  std::vector<BodyId> bodies;
  take_neighbours(system, is_form, all, bodies);
  constexpr int most_columns = 80;
  int columns = 0;
  for (const BodyId id : bodies) columns += system.dof(id);
  if (columns > most_columns) return out;
  const Forms forms(system, all, bodies, given);
  State here = forms.part(given);
  forms.rest(here);
  const Orbit orbit(forms, here);
  const MatrixXd& T = orbit.tangents();

  std::vector<IntegrableCombination::Row> names;
  for (std::size_t i = 0; i < asked; ++i)
    for (int r = 0; r < system.constraint(all[i]).function().rows(); ++r) names.push_back({all[i], r, 0});
  const auto m = static_cast<Eigen::Index>(names.size());
  const auto scaled = [&](const State& at) {  // rows of unit length
    MatrixXd W = forms.at(at, asked);
    VectorXd size = W.rowwise().norm();
    for (double& each : size) each = each > 0 ? each : 1;
    W = size.cwiseInverse().asDiagonal() * W;
    return std::pair(W, size);
  };
  const auto [W, size] = scaled(here);
  MatrixXd null = MatrixXd::Identity(m, m);
  if (T.cols() > 0) {
    Eigen::JacobiSVD<MatrixXd> svd(W * T, Eigen::ComputeFullU);
    svd.setThreshold(1e-5);
    Eigen::Index rank = 0;
    for (const double each : svd.singularValues()) rank += each > 1e-5;
    null = svd.matrixU().rightCols(m - rank);
  }
  if (null.cols() == 0) return out;
  const MatrixXd found = sparsest(null);
  const auto elsewhere = orbit.elsewhere();
  const Forms::Exterior exterior = forms.derivative(here, asked);
  Integral integral(system, forms);
  for (Eigen::Index k = 0; k < found.cols(); ++k) {
    VectorXd c = found.col(k).cwiseQuotient(size);
    Eigen::Index largest = 0;
    c.cwiseAbs().maxCoeff(&largest);
    c /= c[largest];
    for (double& each : c)
      if (std::abs(each) < 1e-6) each = 0;
    IntegrableCombination each;
    for (Eigen::Index r = 0; r < m; ++r)
      if (c[r] != 0) {
        each.rows.push_back(names[static_cast<std::size_t>(r)]);
        each.rows.back().coefficient = c[r];
      }
    if (elsewhere) {
      const VectorXd there = forms.at(elsewhere->first, asked).transpose() * c;
      each.constant = (elsewhere->second.transpose() * there).norm() < 1e-5 * there.norm();
    }
    if (each.constant) {
      // By the exact derivatives of its rows, which tell smaller terms apart than ways of finite length do.
      MatrixXd d = MatrixXd::Zero(forms.size(), forms.size()), error = d;
      for (Eigen::Index r = 0; r < m; ++r) {
        d += c[r] * exterior.d[static_cast<std::size_t>(r)];
        error += std::abs(c[r]) * exterior.error[static_cast<std::size_t>(r)];
      }
      const MatrixXd size_of_T = T.cwiseAbs();
      const MatrixXd on = (T.transpose() * d * T).cwiseAbs(), most = size_of_T.transpose() * error * size_of_T;
      if ((on.array() > 10 * most.array() + 1e-7 * d.cwiseAbs().maxCoeff()).any()) continue;
      VectorXd rows = VectorXd::Zero(forms.rows());
      rows.head(m) = c;
      each.integral = integral.of(here, rows);
    }
    out.push_back(std::move(each));
  }
  return out;
}

}  // namespace linchpin::scene
