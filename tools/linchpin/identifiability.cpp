#include "identifiability.h"

#include "statistics.h"

#include <Eigen/Dense>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <optional>
#include <utility>

namespace linchpin::cli {

namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

// Derivatives by differences have errors of about 1e-9.
constexpr double open_tolerance = 1e-6;
// Below it, noise alone may leave a combination open.
constexpr double nearly_dependent = 0.03;
constexpr double no_effect = 1e-9;
constexpr double no_part = 1e-3;

constexpr double no_number = std::numeric_limits<double>::quiet_NaN();

/// An exponent or coefficient as people write it, if it is one: 1, 2, 1/2, −3/2.
std::optional<std::string> as_fraction(double x, double tolerance) {
  for (int below = 1; below <= 4; ++below) {
    const double above = std::round(x * below);
    if (std::fabs(above) > 4 * below || above == 0 || std::fabs(x * below - above) > tolerance * below) continue;
    std::string out = std::to_string(static_cast<long>(above));
    if (below > 1) out += "/" + std::to_string(below);
    return out;
  }
  return {};
}

std::string power(const std::string& name, const std::string& exponent) {
  if (exponent == "1") return name;
  return name + "^" + (exponent.find('/') != std::string::npos ? "(" + exponent + ")" : exponent);
}

std::string listed(const std::vector<std::string>& words, const char* last) {
  std::string out;
  for (std::size_t i = 0; i < words.size(); ++i) out += (i == 0 ? "" : i + 1 == words.size() ? last : ", ") + words[i];
  return out;
}

class Examination {
 public:
  Examination(const LeastSquaresFit& fit, const std::vector<FreeParameter>& parameters)
      : fit_(fit), parameters_(parameters), p_(static_cast<Eigen::Index>(parameters.size())) {
    out_.parameters.resize(parameters.size());
    out_.correlation.assign(parameters.size() * parameters.size(), no_number);
  }

  Identifiability run() {
    take_columns();
    if (!moving_.empty()) decompose();
    name_what_has_no_effect();
    if (open_ > 0) name_combinations();
    out_.open_directions = idle_.size() + size_t(open_);
    add_errors();
    return std::move(out_);
  }

 private:
  static std::size_t size_t(Eigen::Index i) { return static_cast<std::size_t>(i); }
  Eigen::Index moving(Eigen::Index k) const { return moving_[size_t(k)]; }

  void take_columns() {
    const Eigen::Index rows = p_ > 0 ? static_cast<Eigen::Index>(fit_.weighted_jacobian.size()) / p_ : 0;
    const Eigen::Map<const Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>> J(
        fit_.weighted_jacobian.data(), rows, p_);
    VectorXd effects(p_);
    for (Eigen::Index j = 0; j < p_; ++j) effects[j] = J.col(j).norm() * parameters_[size_t(j)].typical();
    const double most = p_ > 0 ? effects.maxCoeff() : 0;
    for (Eigen::Index j = 0; j < p_; ++j) {
      if (fit_.bounds[size_t(j)] != AtBound::no) continue;
      if (!(effects[j] > no_effect * most)) {
        idle_.push_back(j);
        continue;
      }
      moving_.push_back(j);
    }
    // Fewer rows than parameters are filled up with zeros.
    const auto columns = static_cast<Eigen::Index>(moving_.size());
    unit_ = MatrixXd::Zero(std::max(rows, columns), columns);
    lengths_.resize(columns);
    for (Eigen::Index k = 0; k < unit_.cols(); ++k) {
      lengths_[k] = J.col(moving(k)).norm();
      unit_.col(k).head(rows) = J.col(moving(k)) / lengths_[k];
    }
  }

  void decompose() {
    const Eigen::HouseholderQR<MatrixXd> qr(unit_);
    const MatrixXd R = qr.matrixQR().topRows(unit_.cols()).triangularView<Eigen::Upper>();
    const Eigen::JacobiSVD<MatrixXd> svd(R, Eigen::ComputeFullV);
    s_ = svd.singularValues();
    V_ = svd.matrixV();
    while (open_ < s_.size() && is_open(s_.size() - 1 - open_)) ++open_;
    out_.smallest_singular_value =
        open_ > 0 && s_[s_.size() - 1] < open_tolerance * s_[0] ? 0 : s_[s_.size() - 1] / s_[0];
  }

  /// Whether the data leave the direction of a singular value open.
  bool is_open(Eigen::Index k) const {
    if (s_[k] <= open_tolerance * s_[0]) return true;
    if (s_[k] > nearly_dependent * s_[0]) return false;
    // Noise moves the parameters along it by more than their values.
    for (Eigen::Index i = 0; i < V_.rows(); ++i) {
      if (std::fabs(V_(i, k)) < 0.3) continue;
      if (std::fabs(V_(i, k)) / (s_[k] * lengths_[i]) < std::fabs(fit_.parameters[size_t(moving(i))])) return false;
    }
    return true;
  }

  void name_what_has_no_effect() {
    for (const Eigen::Index j : idle_) {
      out_.parameters[size_t(j)].determined = false;
      out_.smallest_singular_value = 0;
      out_.sentences.push_back("the data do not depend on " + name(j));
    }
  }

  const std::string& name(Eigen::Index j) const { return parameters_[size_t(j)].name; }

  /// Directions that are open, as changes of the parameters or of their logarithms, in reduced echelon form.
  struct Directions {
    MatrixXd rows;                     // [directions × moving parameters]
    std::vector<Eigen::Index> pivots;  // by direction: its parameter
  };

  Directions directions(bool logarithmic) const {
    Directions out;
    out.rows.resize(open_, V_.rows());
    for (Eigen::Index k = 0; k < open_; ++k)
      for (Eigen::Index i = 0; i < V_.rows(); ++i) {
        double x = V_(i, V_.cols() - 1 - k) / lengths_[i];
        if (logarithmic) x /= fit_.parameters[size_t(moving(i))];
        out.rows(k, i) = x;
      }
    for (Eigen::Index k = 0; k < open_; ++k) {
      // The last of the parameters that it moves most: "stiffness/mass" rather than "mass/stiffness".
      VectorXd part(V_.rows());
      for (Eigen::Index i = 0; i < V_.rows(); ++i) part[i] = std::fabs(out.rows(k, i)) * weight(i, logarithmic);
      const double most = part.maxCoeff();
      Eigen::Index pivot = 0;
      for (Eigen::Index i = 0; i < V_.rows(); ++i)
        if (part[i] > 0.3 * most) pivot = i;
      out.rows.row(k) /= out.rows(k, pivot);
      for (Eigen::Index other = 0; other < open_; ++other)
        if (other != k) out.rows.row(other) -= out.rows(other, pivot) * out.rows.row(k);
      out.pivots.push_back(pivot);
    }
    return out;
  }

  double weight(Eigen::Index i, bool logarithmic) const {
    return logarithmic ? lengths_[i] * std::fabs(fit_.parameters[size_t(moving(i))]) : lengths_[i];
  }

  /// Whether a direction moves a parameter.
  bool moves(const Directions& of, Eigen::Index k, Eigen::Index i, bool logarithmic) const {
    return std::fabs(of.rows(k, i)) * weight(i, logarithmic) > no_part * weight(of.pivots[size_t(k)], logarithmic);
  }

  bool is_pivot(const Directions& of, Eigen::Index i) const {
    return std::find(of.pivots.begin(), of.pivots.end(), i) != of.pivots.end();
  }

  void name_combinations() {
    std::vector<char> open(size_t(V_.rows()), 0);
    for (Eigen::Index k = 0; k < open_; ++k)
      for (Eigen::Index i = 0; i < V_.rows(); ++i)
        if (std::fabs(V_(i, V_.cols() - 1 - k)) > no_part) open[size_t(i)] = 1;
    bool positive = true;
    for (Eigen::Index i = 0; i < V_.rows(); ++i)
      if (open[size_t(i)]) positive = positive && fit_.parameters[size_t(moving(i))] != 0;
    std::vector<ParameterCombination> found;
    if (!positive || !products(open, found)) sums(open, found);
    std::vector<std::string> names, texts;
    for (Eigen::Index i = 0; i < V_.rows(); ++i) {
      if (!open[size_t(i)]) continue;
      out_.parameters[size_t(moving(i))].determined = false;
      names.push_back(name(moving(i)));
    }
    for (const ParameterCombination& each : found) texts.push_back(each.text);
    if (texts.empty())
      out_.sentences.push_back("the data do not determine " + listed(names, " and "));
    else
      out_.sentences.push_back("the data determine only " + listed(texts, " and ") + ", not " + listed(names, " and ") +
                               " each");
    out_.combinations.insert(out_.combinations.end(), found.begin(), found.end());
  }

  /// The combinations as products of powers. @return false if the exponents are no simple numbers
  bool products(const std::vector<char>& open, std::vector<ParameterCombination>& found) const {
    const Directions of = directions(true);
    const double tolerance = s_[s_.size() - 1] < open_tolerance * s_[0] ? 2e-3 : 0.03;
    for (Eigen::Index i = 0; i < V_.rows(); ++i) {
      if (!open[size_t(i)] || is_pivot(of, i)) continue;
      std::string above = name(moving(i)), below;
      int divisors = 0;
      ParameterCombination made;
      made.parts.push_back(size_t(moving(i)));
      VectorXd slopes = VectorXd::Zero(V_.rows());  // of the logarithm
      slopes[i] = 1;
      double logarithm = std::log(std::fabs(fit_.parameters[size_t(moving(i))]));
      for (Eigen::Index k = 0; k < open_; ++k) {
        if (!moves(of, k, i, true)) continue;
        const Eigen::Index pivot = of.pivots[size_t(k)];
        const auto exponent = as_fraction(of.rows(k, i), tolerance);
        if (!exponent) return false;
        const double size = fraction_value(*exponent);
        if (size > 0) {
          below += (below.empty() ? "" : "*") + power(name(moving(pivot)), *exponent);
          ++divisors;
        } else {
          above += "*" + power(name(moving(pivot)), exponent->substr(1));
        }
        slopes[pivot] -= size;
        logarithm -= size * std::log(std::fabs(fit_.parameters[size_t(moving(pivot))]));
        made.parts.push_back(size_t(moving(pivot)));
      }
      made.text = above + (divisors == 0 ? "" : divisors == 1 ? "/" + below : "/(" + below + ")");
      made.value = sign_of(made) * std::exp(logarithm);
      for (Eigen::Index m = 0; m < slopes.size(); ++m)
        slopes[m] *= made.value / (slopes[m] == 0 ? 1 : fit_.parameters[size_t(moving(m))]);
      made.standard_error = error_along(slopes);
      found.push_back(made);
    }
    return true;
  }

  double sign_of(const ParameterCombination& of) const {
    double out = 1;
    for (const std::size_t j : of.parts) out *= fit_.parameters[j] < 0 ? -1 : 1;
    return out;
  }

  static double fraction_value(const std::string& text) {
    const auto slash = text.find('/');
    const double above = std::stod(text.substr(0, slash));
    return slash == std::string::npos ? above : above / std::stod(text.substr(slash + 1));
  }

  void sums(const std::vector<char>& open, std::vector<ParameterCombination>& found) const {
    const Directions of = directions(false);
    for (Eigen::Index i = 0; i < V_.rows(); ++i) {
      if (!open[size_t(i)] || is_pivot(of, i)) continue;
      ParameterCombination made;
      made.text = name(moving(i));
      made.value = fit_.parameters[size_t(moving(i))];
      made.parts.push_back(size_t(moving(i)));
      VectorXd slopes = VectorXd::Zero(V_.rows());
      slopes[i] = 1;
      for (Eigen::Index k = 0; k < open_; ++k) {
        if (!moves(of, k, i, false)) continue;
        const Eigen::Index pivot = of.pivots[size_t(k)];
        const double factor = -of.rows(k, i);
        made.text += (factor < 0 ? " - " : " + ") + times(std::fabs(factor), name(moving(pivot)));
        made.value += factor * fit_.parameters[size_t(moving(pivot))];
        slopes[pivot] = factor;
        made.parts.push_back(size_t(moving(pivot)));
      }
      made.standard_error = error_along(slopes);
      found.push_back(made);
    }
  }

  static std::string times(double factor, const std::string& name) {
    const auto fraction = as_fraction(factor, 2e-3);
    if (fraction && *fraction == "1") return name;
    char text[32];
    std::snprintf(text, sizeof text, "%.4g", factor);
    return (fraction ? *fraction : std::string(text)) + "*" + name;
  }

  /// The standard error of a quantity with these derivatives, along the directions that the data determine.
  double error_along(const VectorXd& slopes) const {
    if (!(fit_.freedoms > 0)) return no_number;
    double square = 0;
    for (Eigen::Index k = 0; k < s_.size() - open_; ++k)
      square += std::pow(V_.col(k).dot(slopes.cwiseQuotient(lengths_)) / s_[k], 2);
    return std::sqrt(square);
  }

  void add_errors() {
    MatrixXd covariance = MatrixXd::Constant(p_, p_, no_number);
    if (fit_.freedoms > 0)
      for (Eigen::Index a = 0; a < V_.rows(); ++a)
        for (Eigen::Index b = 0; b < V_.rows(); ++b) {
          double sum = 0;
          for (Eigen::Index k = 0; k < s_.size() - open_; ++k)
            sum += V_(a, k) * V_(b, k) / (s_[k] * s_[k] * lengths_[a] * lengths_[b]);
          covariance(moving(a), moving(b)) = sum;
        }
    const double t = fit_.freedoms > 0 ? student_t_95(fit_.freedoms) : no_number;
    for (Eigen::Index j = 0; j < p_; ++j) {
      ParameterEstimate& of = out_.parameters[size_t(j)];
      of.standard_error = of.determined ? std::sqrt(covariance(j, j)) : no_number;
      const double x = fit_.parameters[size_t(j)];
      of.low = x - t * of.standard_error;
      of.high = x + t * of.standard_error;
    }
    for (Eigen::Index a = 0; a < p_; ++a)
      for (Eigen::Index b = 0; b < p_; ++b)
        if (std::isfinite(out_.parameters[size_t(a)].standard_error * out_.parameters[size_t(b)].standard_error))
          out_.correlation[size_t(a * p_ + b)] = covariance(a, b) / std::sqrt(covariance(a, a) * covariance(b, b));
  }

  const LeastSquaresFit& fit_;
  const std::vector<FreeParameter>& parameters_;
  const Eigen::Index p_;
  Identifiability out_;
  std::vector<Eigen::Index> moving_, idle_;  // parameters that are not at a bound: with an effect, and without
  MatrixXd unit_;                            // weighted Jacobian of the moving ones, columns of unit length
  VectorXd lengths_, s_;                     // of these columns; singular values
  MatrixXd V_;
  Eigen::Index open_ = 0;  // singular values, from the last, whose directions are not determined
};

}  // namespace

bool Identifiability::all_determined() const {
  return std::all_of(parameters.begin(), parameters.end(),
                     [](const ParameterEstimate& each) { return each.determined; });
}

Identifiability identifiability(const LeastSquaresFit& fit, const std::vector<FreeParameter>& parameters) {
  return Examination(fit, parameters).run();
}

}  // namespace linchpin::cli
