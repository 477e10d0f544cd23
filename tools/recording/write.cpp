#include "columns.h"
#include "compare_text.h"
#include "gltf.h"
#include "mcap.h"
#include "output_file.h"
#include "page.h"

#include <linchpin/recording.h>

#include <cmath>
#include <stdexcept>

namespace linchpin::recording {

namespace {

using Json = nlohmann::ordered_json;

Json number(double x) { return std::isfinite(x) ? Json(x) : Json(); }

// As `compare --json` has a solver.
Json row_of(const RecordedRun& run) {
  Json row = empty_row(run.solver, run.precision, run.status);
  row["steps"] = run.steps;
  row["max_gap_m"] = number(run.max_gap);
  row["rms_gap_m"] = number(run.rms_gap);
  row["max_gap_rad"] = number(run.max_angle);
  if (!run.max_gap_joint.empty()) row["max_gap_joint"] = run.max_gap_joint;
  for (const auto& [name, residual] : run.residuals) row["user_gaps"][name] = number(residual);
  row["fallbacks"] = run.fallbacks;
  row["substepped_steps"] = run.substepped_steps;
  row["gap_corrected_m"] = run.corrected;
  for (const auto& [name, why] : run.native) row["native"].push_back({{"name", name}, {"why", why}});
  if (run.rank < run.rows)
    row["rank"] = {{"rank", run.rank},
                   {"rows", run.rows},
                   {"redundant", run.redundant},
                   {"undetermined", run.undetermined},
                   {"contradictory", run.contradictory}};
  row["method"] = {{"host", run.host}, {"integrator", run.integrator}, {"stabilisation", run.stabilisation}};
  return row;
}

Json json_of(const Recording& recorded, const RecordedRun& run) {
  Json out = provenance(run.command, {{"file", run.title}, {"bytes", 0}, {"text", nullptr}});
  if (run.command.empty() || run.command == run.title) out["commands"] = Json::array();  // a title is none
  out["title"] = run.title;
  out["kind"] = "linchpin recording";
  out["verb"] = "run";
  Json& comparison = out["comparison"];
  comparison["schema"] = 2;
  comparison["scene"] = run.title;
  comparison["dt"] = run.dt;
  comparison["duration"] = run.duration;
  comparison["gravity"] = {run.gravity.x(), run.gravity.y(), run.gravity.z()};
  comparison["gravity_from"] = "program";
  comparison["bodies"] = run.bodies;
  comparison["joints"] = run.joints;
  comparison["solvers"] = Json::array({row_of(run)});
  add_words(out);
  if (!run.notes.empty()) out["notes_of_program"] = run.notes;
  for (const std::string& note : run.notes) out["notes"].push_back(note);
  out["motions"] = Json::array({Columns::json(recorded)});
  return out;
}

}  // namespace

void write(const std::string& path, const Recording& recorded, const RecordedRun& run) {
  const auto ends = [&](const char* with) { return path.ends_with(with); };
  if (!ends(".html") && !ends(".rec") && !ends(".glb") && !ends(".gltf") && !ends(".mcap"))
    throw std::invalid_argument("linchpin: a recording cannot be written to \"" + path +
                                "\": expected a name that ends with .html, .rec, .glb, .gltf or .mcap");
  if (recorded.frames() == 0)
    throw OrderError("linchpin: \"" + path +
                     "\" was not written, because nothing was recorded. Step the world after the recorder was made");
  Json all = json_of(recorded, run);
  std::string text;
  if (ends(".mcap")) {
    text = mcap(all);
  } else {
    for (Json& motion : all["motions"]) motion.erase("full");
    text = ends(".html")  ? report_page(all)
           : ends(".rec") ? all.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"
                          : gltf(all, ends(".glb"));
  }
  const Result<void> written = try_call([&] { OutputFile("linchpin", path, {}).write(text); });
  if (!written) throw FileError(written.error().message);
}

Result<void> try_write(const std::string& path, const Recording& recorded, const RecordedRun& run) noexcept {
  return try_call([&] { write(path, recorded, run); });
}

}  // namespace linchpin::recording
