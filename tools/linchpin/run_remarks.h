// Remarks on a run: logs that are no number, and coefficients in the wrong order, counted over its steps.
#pragma once

#include <linchpin/scene.h>

#include <span>
#include <string>
#include <vector>

namespace linchpin::cli {

/// Appends a remark to a status: "ok, but …", or "…; …" behind another one.
void add_remark(std::string& status, const std::string& what);

/// "x is not a number" or "x is infinite"; empty where it is finite.
std::string not_finite(const std::string& column, double x);

class RunRemarks {
 public:
  explicit RunRemarks(const scene::Model& model);

  /// Call it at the end of each step.
  void step(const State& state);
  /// The values of all logs for a row of the table, one after the other; NaN for those that read forces where these
  /// are not known. The span is valid until the next call.
  std::span<const double> logs(const scene::Observation& at, bool forces_known);

  /// "speed is not a number in 3 of 51 rows, first at 0.1 s". The time before a first change of mode is none by
  /// definition, and no remark is made of it.
  std::vector<std::string> texts() const;

 private:
  struct Count {
    std::string what;
    long times = 0;
    double first = 0;
  };
  const scene::Model& model_;
  std::vector<double> values_;
  std::vector<Count> columns_;       // of the logs
  std::vector<Count> coefficients_;  // by constraint
  long rows_ = 0, steps_ = 0;
};

}  // namespace linchpin::cli
