#include "fit_report.h"

#include "csv.h"
#include "report_file.h"

#include <cmath>
#include <limits>

namespace linchpin::cli {

namespace {

using Json = nlohmann::ordered_json;

/// A page of at most so many samples in a series opens in a second or two.
constexpr std::size_t most_samples_of_page = 5000;

Json finite(double x) { return std::isfinite(x) ? Json(x) : Json(); }

const char* to_string(AtBound bound) { return bound == AtBound::low ? "low" : bound == AtBound::high ? "high" : "no"; }

Json parameters_json(const SceneFitResult& result) {
  Json out = Json::array();
  for (std::size_t j = 0; j < result.parameters.size(); ++j) {
    const FreeParameter& of = result.parameters[j];
    const ParameterEstimate& estimate = result.identifiability.parameters[j];
    out.push_back({{"name", of.name},
                   {"determined", estimate.determined},
                   {"value", estimate.determined ? finite(result.fit.parameters[j]) : Json()},
                   {"standard_error", finite(estimate.standard_error)},
                   {"low_95", finite(estimate.low)},
                   {"high_95", finite(estimate.high)},
                   {"at_bound", to_string(result.fit.bounds[j])},
                   {"start", of.start},
                   {"lower_bound", finite(of.low)},
                   {"upper_bound", finite(of.high)}});
  }
  return out;
}

Json correlation_json(const SceneFitResult& result) {
  const std::size_t p = result.parameters.size();
  Json out = Json::array();
  for (std::size_t i = 0; i < p; ++i) {
    Json row = Json::array();
    for (std::size_t j = 0; j < p; ++j) row.push_back(finite(result.identifiability.correlation[i * p + j]));
    out.push_back(row);
  }
  return out;
}

Json columns_json(const SceneFitResult& result) {
  Json out = Json::array();
  for (std::size_t c = 0; c < result.columns.size(); ++c) {
    const ColumnFit& of = result.fit.columns[c];
    out.push_back({{"name", result.columns[c].name},
                   {"unit", result.columns[c].unit},
                   {"samples", of.count},
                   {"rms_residual", of.rms},
                   {"sigma", of.sigma},
                   {"sigma_given", of.sigma_given},
                   {"affected", of.affected},
                   {"autocorrelation", of.autocorrelation}});
  }
  return out;
}

Json series_json(const SceneFitResult& result) {
  Json out = Json::array();
  for (const FittedSeries& each : result.series) {
    const std::size_t every = (each.t.size() + most_samples_of_page - 1) / most_samples_of_page;
    Json t = Json::array(), measured = Json::array(), predicted = Json::array();
    for (std::size_t i = 0; i < each.t.size(); i += every) {
      t.push_back(each.t[i]);
      measured.push_back(each.measured[i]);
      predicted.push_back(finite(result.fit.predicted[each.first + i]));
    }
    out.push_back({{"recording", each.recording},
                   {"column", each.column},
                   {"every", every},
                   {"t", t},
                   {"measured", measured},
                   {"predicted", predicted}});
  }
  return out;
}

}  // namespace

Json fit_json(const SceneFitResult& result) {
  Json out = {{"scene", result.scene}, {"recordings", result.recordings}};
  out["converged"] = result.fit.converged;
  out["reason"] = result.fit.reason.empty() ? Json() : Json(result.fit.reason);
  out["steps"] = result.fit.iterations;
  out["samples"] = result.fit.measurements;
  out["degrees_of_freedom"] = finite(result.fit.freedoms);
  out["parameters"] = parameters_json(result);
  out["not_determined"] = result.identifiability.sentences;
  out["combinations"] = Json::array();
  for (const ParameterCombination& each : result.identifiability.combinations)
    out["combinations"].push_back(
        {{"expression", each.text}, {"value", finite(each.value)}, {"standard_error", finite(each.standard_error)}});
  out["smallest_singular_value"] = result.identifiability.smallest_singular_value;
  out["correlation"] = correlation_json(result);
  out["columns"] = columns_json(result);
  out["log_likelihood"] = finite(result.fit.log_likelihood);
  out["aic"] = finite(result.fit.aic());
  out["aicc"] = finite(result.fit.aicc());
  out["remarks"] = result.remarks;
  return out;
}

Json comparison_json(const std::vector<SceneFitResult>& fits, const ModelComparison& comparison) {
  Json scenes = Json::array();
  for (std::size_t i = 0; i < fits.size(); ++i)
    scenes.push_back({{"scene", fits[i].scene}, {"excess", comparison.excess[i]}, {"weight", comparison.weights[i]}});
  return {{"criterion", comparison.corrected ? "AICc" : "AIC"},
          {"scenes", scenes},
          {"best", fits[comparison.best].scene},
          {"verdict", comparison.verdict}};
}

Json fit_page(const std::vector<SceneFitResult>& fits, const ModelComparison& comparison) {
  Json out = provenance(fits.front().scene);
  out["kind"] = "linchpin fit";
  out["verb"] = "fit";
  out["fits"] = Json::array();
  for (const SceneFitResult& each : fits) {
    Json fit = fit_json(each);
    fit["series"] = series_json(each);
    out["fits"].push_back(std::move(fit));
  }
  out["model_comparison"] = fits.size() > 1 ? comparison_json(fits, comparison) : Json();
  return out;
}

void write_residuals(const std::string& file, const SceneFitResult& result) {
  Csv table(file);
  for (const char* title : {"recording", "column", "unit", "t [s]", "measured", "predicted", "residual", "sigma"})
    table.column(title);
  table.end_row();
  for (const FittedSeries& each : result.series)
    for (std::size_t i = 0; i < each.t.size(); ++i) {
      const double predicted = result.fit.predicted[each.first + i];
      table.column(result.recordings[each.recording]);
      table.column(result.columns[each.column].name);
      table.column(result.columns[each.column].unit);
      for (const double x : {each.t[i], each.measured[i], predicted, each.measured[i] - predicted,
                             result.fit.columns[each.column].sigma})
        table.put(x);
      table.end_row();
    }
  table.close();
}

}  // namespace linchpin::cli
