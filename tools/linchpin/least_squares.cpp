#include "least_squares.h"

#include <Eigen/Dense>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

namespace linchpin::cli {

namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

// The search ends where the squares, divided by σ², would fall by less. Parameters then change by 1e-4 of their errors.
constexpr double enough_fall = 1e-8;
constexpr int most_iterations = 100, most_trials = 14;
// Directions of smaller singular values get no step. Quick derivatives have errors of about 1e-6.
constexpr double step_tolerance = 1e-5;

/// The state of the search at one point.
struct Point {
  VectorXd x, residuals;  // measured − predicted
  VectorXd squares;       // by column: sum of squares of residuals
  double merit = 0;
};

class Search {
 public:
  Search(const Predictor& predict, const MeasuredValues& measured, const std::vector<FreeParameter>& parameters)
      : predict_(predict),
        measured_(measured),
        parameters_(parameters),
        n_(static_cast<Eigen::Index>(measured.values.size())),
        p_(static_cast<Eigen::Index>(parameters.size())) {
    if (n_ < p_)
      throw std::invalid_argument("there are " + std::to_string(n_) + " measurements for " + std::to_string(p_) +
                                  " parameters");
    take_scales();
  }

  LeastSquaresFit run() {
    VectorXd x(p_);
    for (Eigen::Index j = 0; j < p_; ++j) x[j] = within(j, parameters_[size_t(j)].start);
    // The likelihood of all noise levels has useless maxima far away, at which one column alone is met. So the search
    // begins with levels in proportion to the data.
    if (unknown_levels() > 1) {
      levels_known_ = true;
      point_ = at(x);
      iterate(1e-2);
      x = point_.x;
      levels_known_ = false;
    }
    point_ = at(x);
    iterate(0);
    take_jacobian(Derivatives::accurate);
    return result();
  }

 private:
  static std::size_t size_t(Eigen::Index i) { return static_cast<std::size_t>(i); }

  double within(Eigen::Index j, double x) const {
    return std::clamp(x, parameters_[size_t(j)].low, parameters_[size_t(j)].high);
  }

  std::size_t unknown_levels() const {
    return static_cast<std::size_t>(std::count_if(measured_.columns.begin(), measured_.columns.end(),
                                                  [](const NoiseColumn& each) { return !each.sigma; }));
  }

  /// The size of the data of each column, which a level of the noise is compared with.
  void take_scales() {
    const auto columns = static_cast<Eigen::Index>(measured_.columns.size());
    VectorXd mean = VectorXd::Zero(columns), square = mean, largest = mean;
    counts_ = mean;
    for (std::size_t i = 0; i < measured_.values.size(); ++i) {
      const auto c = static_cast<Eigen::Index>(measured_.column[i]);
      counts_[c] += 1;
      mean[c] += measured_.values[i];
      largest[c] = std::max(largest[c], std::fabs(measured_.values[i]));
    }
    for (Eigen::Index c = 0; c < columns; ++c) mean[c] /= std::max(counts_[c], 1.0);
    for (std::size_t i = 0; i < measured_.values.size(); ++i) {
      const auto c = static_cast<Eigen::Index>(measured_.column[i]);
      square[c] += std::pow(measured_.values[i] - mean[c], 2);
    }
    scales_.resize(columns);
    for (Eigen::Index c = 0; c < columns; ++c) {
      const double spread = std::sqrt(square[c] / std::max(counts_[c], 1.0));
      varies_.push_back(spread > 1e-9 * largest[c]);
      scales_[c] = varies_.back() ? spread : largest[c] > 0 ? largest[c] : 1;
    }
  }

  Point at(const VectorXd& x) {
    Point out;
    out.x = x;
    const Prediction made = call(x, Derivatives::none);
    take_residuals(out, made);
    return out;
  }

  Prediction call(const VectorXd& x, Derivatives derivatives) {
    ++predictions_;
    return predict_({x.data(), size_t(x.size())}, derivatives);
  }

  void take_residuals(Point& point, const Prediction& made) const {
    point.residuals.resize(n_);
    point.squares = VectorXd::Zero(scales_.size());
    for (Eigen::Index i = 0; i < n_; ++i) {
      point.residuals[i] = measured_.values[size_t(i)] - made.values[size_t(i)];
      if (!std::isfinite(point.residuals[i])) throw NoPrediction("a predicted value is not finite");
      point.squares[column(i)] += point.residuals[i] * point.residuals[i];
    }
    point.merit = merit(point.squares);
  }

  Eigen::Index column(Eigen::Index i) const { return static_cast<Eigen::Index>(measured_.column[size_t(i)]); }
  bool known(Eigen::Index c) const { return measured_.columns[size_t(c)].sigma.has_value(); }
  double rounding(Eigen::Index c) const { return counts_[c] * std::pow(1e-14 * scales_[c], 2); }

  /// Minus twice the logarithm of the likelihood, but for constants.
  double merit(const VectorXd& squares) const {
    double out = 0;
    for (Eigen::Index c = 0; c < squares.size(); ++c) {
      if (counts_[c] == 0) continue;
      if (known(c))
        out += squares[c] / std::pow(*measured_.columns[size_t(c)].sigma, 2);
      else if (levels_known_)
        out += squares[c] / std::pow(scales_[c], 2);
      else
        out += counts_[c] * std::log(squares[c] + rounding(c));
    }
    return out;
  }

  /// 1/σ by column, of which the gradient of the merit is that of the weighted sum of squares.
  VectorXd weights(const VectorXd& squares) const {
    VectorXd out(squares.size());
    for (Eigen::Index c = 0; c < squares.size(); ++c) {
      if (known(c))
        out[c] = 1 / *measured_.columns[size_t(c)].sigma;
      else if (levels_known_)
        out[c] = 1 / scales_[c];
      else
        out[c] = std::sqrt(std::max(counts_[c], 1.0) / (squares[c] + rounding(c)));
    }
    return out;
  }

  /// One linear problem min |J d − r| in the parameters that are free to move, with columns of unit length.
  struct Linear {
    std::vector<Eigen::Index> free;
    VectorXd lengths;  // of the columns of J, by free parameter
    MatrixXd R;        // of the columns of unit length
    VectorXd q;        // Qᵀ r

    /// The step with damping; 0: the step of least length. A parameter that would leave its bounds stops at them, and
    /// the others take the step that is then the best.
    /// @param low, high  ends of the step
    VectorXd step(double damping, const VectorXd& low, const VectorXd& high) const {
      VectorXd out = VectorXd::Zero(lengths.size());
      std::vector<Eigen::Index> open(free.size());
      std::iota(open.begin(), open.end(), Eigen::Index(0));
      VectorXd left = q;
      while (!open.empty()) {
        const VectorXd part = solution(open, left, damping);
        std::vector<Eigen::Index> inside;
        for (std::size_t k = 0; k < open.size(); ++k) {
          const Eigen::Index j = open[k];
          out[j] = std::clamp(part[static_cast<Eigen::Index>(k)] / lengths[j], low[j], high[j]);
          if (out[j] > low[j] && out[j] < high[j])
            inside.push_back(j);
          else
            left -= R.col(j) * (out[j] * lengths[j]);
        }
        if (inside.size() == open.size()) break;
        open = inside;
      }
      return out;
    }
    VectorXd solution(const std::vector<Eigen::Index>& open, const VectorXd& left, double damping) const {
      MatrixXd part(R.rows(), static_cast<Eigen::Index>(open.size()));
      for (std::size_t k = 0; k < open.size(); ++k) part.col(static_cast<Eigen::Index>(k)) = R.col(open[k]);
      const Eigen::JacobiSVD<MatrixXd> svd(part, Eigen::ComputeThinU | Eigen::ComputeThinV);
      const VectorXd& s = svd.singularValues();
      VectorXd inner = svd.matrixU().transpose() * left;
      for (Eigen::Index k = 0; k < s.size(); ++k)
        inner[k] *= s[k] > step_tolerance * s[0] ? s[k] / (s[k] * s[k] + damping) : 0;
      return svd.matrixV() * inner;
    }
    /// How far the squares fall in the linear problem.
    double fall(const VectorXd& step) const {
      if (free.empty()) return 0;
      const VectorXd scaled = step.cwiseProduct(lengths);
      return q.squaredNorm() - (q - R * scaled).squaredNorm();
    }
  };

  Linear linear(const Point& point) const {
    const VectorXd w = weights(point.squares);
    VectorXd r = point.residuals;
    MatrixXd J = jacobian_;
    for (Eigen::Index i = 0; i < n_; ++i) {
      r[i] *= w[column(i)];
      J.row(i) *= w[column(i)];
    }
    Linear out;
    const VectorXd pull = J.transpose() * r;  // minus the gradient
    for (Eigen::Index j = 0; j < p_; ++j) {
      const FreeParameter& of = parameters_[size_t(j)];
      const bool held = (point.x[j] <= of.low && pull[j] < 0) || (point.x[j] >= of.high && pull[j] > 0);
      if (!held && J.col(j).norm() > 0) out.free.push_back(j);
    }
    const auto m = static_cast<Eigen::Index>(out.free.size());
    MatrixXd unit(n_, m);
    out.lengths.resize(m);
    for (Eigen::Index k = 0; k < m; ++k) {
      const Eigen::Index j = out.free[size_t(k)];
      out.lengths[k] = J.col(j).norm();
      unit.col(k) = J.col(j) / out.lengths[k];
    }
    if (m > 0) {
      const Eigen::HouseholderQR<MatrixXd> qr(unit);
      out.R = qr.matrixQR().topRows(m).triangularView<Eigen::Upper>();
      out.q = (qr.householderQ().transpose() * r).head(m);
    }
    return out;
  }

  void take_jacobian(Derivatives derivatives) {
    const Prediction made = call(point_.x, derivatives);
    jacobian_ = Eigen::Map<const Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>(
        made.jacobian.data(), n_, p_);
    if (!jacobian_.allFinite()) throw NoPrediction("a derivative of a predicted value is not finite");
    take_residuals(point_, made);
  }

  /// A step that stays within the bounds.
  VectorXd step(const Linear& of, double damping) const {
    VectorXd low(of.lengths.size()), high(of.lengths.size());
    for (std::size_t k = 0; k < of.free.size(); ++k) {
      const Eigen::Index j = of.free[k];
      low[static_cast<Eigen::Index>(k)] = parameters_[size_t(j)].low - point_.x[j];
      high[static_cast<Eigen::Index>(k)] = parameters_[size_t(j)].high - point_.x[j];
    }
    return of.step(damping, low, high);
  }

  VectorXd moved(const Linear& of, const VectorXd& step) const {
    VectorXd out = point_.x;
    for (std::size_t k = 0; k < of.free.size(); ++k) out[of.free[k]] += step[static_cast<Eigen::Index>(k)];
    for (Eigen::Index j = 0; j < p_; ++j) out[j] = within(j, out[j]);
    return out;
  }

  /// Largest part of the step against the parameters.
  double relative(const Linear& of, const VectorXd& step) const {
    double out = 0;
    for (std::size_t k = 0; k < of.free.size(); ++k) {
      const Eigen::Index j = of.free[k];
      const double size = std::max(std::fabs(point_.x[j]), 1e-6 * parameters_[size_t(j)].typical());
      out = std::max(out, std::fabs(step[static_cast<Eigen::Index>(k)]) / size);
    }
    return out;
  }

  /// Steps until the merit is minimal. @param enough  relative fall of the merit at which to stop; 0: to the end
  void iterate(double enough) {
    converged_ = false;
    double damping = 0;
    take_jacobian(Derivatives::quick);
    for (int trials = 0; iterations_ < most_iterations;) {
      const Linear of = linear(point_);
      const VectorXd full = step(of, 0);
      if (of.free.empty() || of.fall(full) < enough_fall || relative(of, full) < 1e-12) {
        converged_ = true;
        return;
      }
      const VectorXd trial = step(of, damping);
      std::optional<Point> next;
      try {
        next = at(moved(of, trial));
      } catch (const NoPrediction& e) {
        reason_ = e.what();
        no_prediction_ = true;
      }
      if (!next || !(next->merit < point_.merit)) {
        // At the rounding of the residuals no step is better.
        if (next && (relative(of, full) < 1e-7 || of.fall(full) < 1e4 * enough_fall)) {
          converged_ = true;
          return;
        }
        damping = std::max(10 * damping, 1e-5);
        if (next && !no_prediction_) reason_ = "no step makes the residuals smaller";
        if (++trials > most_trials) return;
        continue;
      }
      const double fell = point_.merit - next->merit;
      point_ = std::move(*next);
      trials = 0;
      no_prediction_ = false;
      ++iterations_;
      damping = damping < 1e-4 ? 0 : damping * 0.1;
      try {
        take_jacobian(Derivatives::quick);
      } catch (const NoPrediction& e) {
        reason_ = e.what();
        no_prediction_ = true;
        return;
      }
      if (enough > 0 && fell < enough * std::fabs(point_.merit)) return;
    }
    no_prediction_ = false;
    reason_ = "the limit of " + std::to_string(most_iterations) + " steps was reached";
  }

  LeastSquaresFit result() {
    LeastSquaresFit out;
    out.converged = converged_;
    if (!converged_)
      out.reason = reason_ + (no_prediction_ ? ". Bounds keep the parameters where there is a result" : "");
    out.iterations = iterations_;
    out.predictions = predictions_;
    out.parameters.assign(point_.x.data(), point_.x.data() + p_);
    for (Eigen::Index i = 0; i < n_; ++i) out.predicted.push_back(measured_.values[size_t(i)] - point_.residuals[i]);
    out.measurements = measured_.values.size();
    add_bounds(out);
    add_columns(out);
    add_jacobian(out);
    return out;
  }

  void add_bounds(LeastSquaresFit& out) const {
    const Linear of = linear(point_);
    for (Eigen::Index j = 0; j < p_; ++j) {
      const FreeParameter& each = parameters_[size_t(j)];
      const bool moves = std::find(of.free.begin(), of.free.end(), j) != of.free.end();
      out.bounds.push_back(moves                      ? AtBound::no
                           : point_.x[j] <= each.low  ? AtBound::low
                           : point_.x[j] >= each.high ? AtBound::high
                                                      : AtBound::no);
    }
  }

  /// Whether some parameter changes what is predicted for a column.
  std::vector<char> affected() const {
    std::vector<char> out(size_t(scales_.size()), 0);
    for (Eigen::Index i = 0; i < n_; ++i)
      for (Eigen::Index j = 0; j < p_; ++j)
        if (std::fabs(jacobian_(i, j)) * parameters_[size_t(j)].typical() > 1e-9 * scales_[column(i)])
          out[size_t(column(i))] = 1;
    return out;
  }

  void add_columns(LeastSquaresFit& out) const {
    const std::vector<char> moved = affected();
    double estimated = 0;
    std::size_t levels = 0;
    for (Eigen::Index c = 0; c < scales_.size(); ++c) {
      if (known(c) || counts_[c] == 0) continue;
      ++levels;
      if (moved[size_t(c)]) estimated += counts_[c];
    }
    const auto at_bounds =
        std::count_if(out.bounds.begin(), out.bounds.end(), [](AtBound each) { return each != AtBound::no; });
    const double parameters = double(p_ - at_bounds);
    if (estimated > 0) out.freedoms = std::max(estimated - parameters, 0.0);
    out.estimates = static_cast<std::size_t>(p_) + levels;
    for (Eigen::Index c = 0; c < scales_.size(); ++c) {
      ColumnFit of;
      of.count = static_cast<std::size_t>(counts_[c]);
      of.affected = moved[size_t(c)] != 0;
      of.sigma_given = known(c);
      of.rms = std::sqrt(point_.squares[c] / std::max(counts_[c], 1.0));
      const double unbiased = out.freedoms > 0 ? std::sqrt(estimated / out.freedoms) : 1;
      const double level = std::sqrt((point_.squares[c] + rounding(c)) / std::max(counts_[c], 1.0));
      of.sigma = known(c) ? *measured_.columns[size_t(c)].sigma : level * unbiased;
      if (counts_[c] > 0) {
        const double sigma = known(c) ? of.sigma : level;
        out.log_likelihood -= 0.5 * counts_[c] * std::log(2 * std::numbers::pi * sigma * sigma) +
                              0.5 * point_.squares[c] / (sigma * sigma);
      }
      of.is_far = of.count > 1 && varies_[size_t(c)] && of.rms > 0.5 * scales_[c];
      add_autocorrelation(c, of);
      out.columns.push_back(of);
    }
  }

  void add_autocorrelation(Eigen::Index c, ColumnFit& of) const {
    double sum = 0, last = 0;
    bool first = true;
    for (Eigen::Index i = 0; i < n_; ++i) {
      if (column(i) != c) continue;
      if (!first) sum += last * point_.residuals[i];
      last = point_.residuals[i];
      first = false;
    }
    constexpr double exact = 1e-6;  // Smaller residuals, relative to the data, are errors of the integration.
    if (of.count < 10 || of.rms < exact * scales_[c]) return;
    of.autocorrelation = sum / point_.squares[c];
    of.residuals_follow =
        of.autocorrelation > 2.33 / std::sqrt(double(of.count)) && !(of.sigma_given && of.rms < 0.5 * of.sigma);
  }

  void add_jacobian(LeastSquaresFit& out) const {
    for (Eigen::Index i = 0; i < n_; ++i) {
      const ColumnFit& of = out.columns[size_t(column(i))];
      if (!of.affected) continue;
      for (Eigen::Index j = 0; j < p_; ++j) out.weighted_jacobian.push_back(jacobian_(i, j) / of.sigma);
    }
  }

  const Predictor& predict_;
  const MeasuredValues& measured_;
  const std::vector<FreeParameter>& parameters_;
  const Eigen::Index n_, p_;
  VectorXd scales_, counts_;  // by column
  std::vector<char> varies_;  // by column: the measurements do
  bool levels_known_ = false;
  Point point_;
  MatrixXd jacobian_;  // of the predicted values, at point_
  bool converged_ = false;
  std::string reason_;
  bool no_prediction_ = false;  // is the reason
  int iterations_ = 0, predictions_ = 0;
};

}  // namespace

double FreeParameter::typical() const {
  if (start != 0) return std::fabs(start);
  if (std::isfinite(high - low) && high > low) return 0.1 * (high - low);
  return 1;
}

double LeastSquaresFit::aic() const { return 2 * double(estimates) - 2 * log_likelihood; }

double LeastSquaresFit::aicc() const {
  const double k = double(estimates), left = double(measurements) - k - 1;
  return left > 0 ? aic() + 2 * k * (k + 1) / left : std::numeric_limits<double>::infinity();
}

LeastSquaresFit least_squares(const Predictor& predict, const MeasuredValues& measured,
                              const std::vector<FreeParameter>& parameters) {
  return Search(predict, measured, parameters).run();
}

}  // namespace linchpin::cli
