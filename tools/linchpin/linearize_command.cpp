// `linchpin linearize`: the equations of a scene linearised about one state, and the modes of small motions there.
#include "commands.h"
#include "linearized_scene.h"
#include "messages.h"
#include "modes_report.h"
#include "place_of_rest.h"
#include "recording/output_file.h"
#include "recording/page.h"
#include "run_to_time.h"
#include "scene_file.h"
#include "vector_json.h"

#include <linchpin/scene/joint_limits.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <complex>
#include <iostream>
#include <memory>
#include <numbers>
#include <string>
#include <vector>

namespace linchpin::cli {

namespace {

using Json = nlohmann::ordered_json;

struct LinearizeArguments {
  std::string scene, report;
  double at = 0;
  int starts = 24;
  bool equilibrium = false, json = false;
};

Json matrix_json(const std::vector<double>& values, int columns) {
  Json out = Json::array();
  for (std::size_t at = 0; columns > 0 && at < values.size(); at += static_cast<std::size_t>(columns))
    out.push_back(std::vector<double>(values.begin() + static_cast<std::ptrdiff_t>(at),
                                      values.begin() + static_cast<std::ptrdiff_t>(at) + columns));
  return out;
}

Json shape_json(const System& system, const LinearizedMotion& motion, const Eigenmode& mode) {
  Json out = Json::object();
  const auto part = [&](std::size_t from, int at, int count) {
    Json values = Json::array();
    for (int i = at; i < at + count; ++i)
      values.push_back(complex_json(mode.shape[from + static_cast<std::size_t>(i)]));
    return values;
  };
  const std::size_t n = mode.shape.size() / 2;
  for (std::size_t s = 0; s < motion.layout.bodies.size(); ++s) {
    const int at = motion.layout.column[s], size = motion.layout.column[s + 1] - at;
    Json body;
    body["displacement"] = part(0, at, std::min(size, 3));
    if (size == 6) body["rotation"] = part(0, at + 3, 3);
    body["velocity"] = part(n, at, std::min(size, 3));
    if (size == 6) body["angular_velocity"] = part(n, at + 3, 3);
    out[system.name(motion.layout.bodies[s])] = body;
  }
  return out;
}

Json linearized_json(const System& system, const LinearizedScene& of) {
  const LinearizedMotion& motion = of.motion;
  Json out = linearization_json(of);
  out["modes"] = Json::array();
  for (const Eigenmode& mode : of.modes) {
    Json each = mode_json(mode);
    each["shape"] = shape_json(system, motion, mode);
    out["modes"].push_back(std::move(each));
  }
  out["A"] = matrix_json(motion.A, motion.size());
  Json names = Json::array(), units = Json::array();
  for (const scene::CoordinateGradient& g : of.coordinates) {
    names.push_back(g.name);
    units.push_back(g.unit);
  }
  out["coordinates"] = names;
  out["coordinate_units"] = units;
  out["B"] = matrix_json(motion.B, static_cast<int>(of.coordinates.size()));
  out["C"] = matrix_json(scene::position_outputs(of.coordinates, motion), motion.size());
  return out;
}

std::string moving_bodies(const System& system, const LinearizedMotion& motion, const Eigenmode& mode) {
  const std::vector<Share> all = shares(system, motion, mode);
  std::string out;
  for (std::size_t i = 0; i < std::min<std::size_t>(all.size(), 3); ++i)
    out += (i > 0 ? ", " : "") + all[i].body + " " + significant(all[i].size, 3);
  if (all.size() > 3) out += ", and " + std::to_string(all.size() - 3) + " more";
  return out.empty() ? "velocities only" : out;
}

/// Describes in words how a mode develops.
std::string behaviour(const Eigenmode& mode) {
  const double growth = mode.eigenvalue.real(), frequency = mode.frequency();
  std::string out;
  if (frequency > 0)
    out = "oscillates at " + significant(frequency) + " rad/s (" + significant(frequency / (2 * std::numbers::pi)) +
          " Hz)";
  if (growth != 0)
    out += (out.empty() ? "" : ", ") + std::string(growth > 0 ? "grows" : "decays") + " with time constant " +
           significant(1 / std::fabs(growth)) + " s";
  if (frequency > 0) out += ", damping ratio " + significant(mode.damping_ratio(), 4);
  return out;
}

void print(const System& system, const LinearizedScene& of) {
  const LinearizedMotion& motion = of.motion;
  std::cout << "at t = " << significant(of.state.t) << " s, "
            << counted(motion.displacements, "freedom of displacement", "freedoms of displacement") << " and "
            << motion.velocities << " of velocity\n";
  const Vector3d& rate = motion.frame_angular_velocity;
  if (motion.is_steady()) {
    std::cout << (rate.norm() > 0 ? "the motion is steady in a frame that rotates with (" + significant(rate.x()) +
                                        ", " + significant(rate.y()) + ", " + significant(rate.z()) + ") rad/s\n"
                                  : "the motion is steady\n");
  } else {
    std::cout << "WARNING: the motion is not steady: accelerations or the matrix A change along it by "
              << significant(100 * motion.unsteadiness, 3)
              << " %.\nThe eigenvalues below are those of the frozen matrix. They do not decide the stability of the "
                 "motion.\n";
  }
  std::cout << "stability: " << of.stability() << "\n";
  long number = 0, neutral = 0;
  for (const Eigenmode& mode : of.modes) {
    if (mode.eigenvalue == 0.0) ++neutral;
    if (!is_listed(mode)) continue;
    std::cout << ++number << ". eigenvalue " << significant(mode.eigenvalue.real());
    if (mode.frequency() > 0) std::cout << " ± " << significant(mode.frequency()) << "i";
    std::cout << " 1/s, error " << significant(mode.error, 2) << ": it " << behaviour(mode) << "\n   moves "
              << moving_bodies(system, motion, mode) << "\n";
  }
  if (neutral > 0)
    std::cout << counted(neutral, "neutral mode", "neutral modes")
              << " with the eigenvalue 0: no oscillation, growth or decay. --json has the shapes\n";
}

int run_linearize(const LinearizeArguments& arguments) try {
  if (!is_possible_time("linearize", arguments.at)) return exit_usage;
  if (arguments.equilibrium && arguments.at != 0)
    return misused("linearize", "--at and --equilibrium exclude each other");
  auto model = open_model(arguments.scene);
  if (!model) return exit_bad_input;
  std::vector<std::string> files = model->files;
  files.push_back(arguments.scene);
  recording::OutputFile page("--report", arguments.report, files);
  System system = model->system();
  State state;
  ModesRemarks remarks;
  try {
    if (arguments.equilibrium) {
      PlaceOfRest rest = place_of_rest(*model, system, arguments.starts);
      state = std::move(rest.state);
    } else {
      model = scene::with_joint_limits(*std::move(model));
      system = model->system();
      const auto run = run_to_time("linearize", arguments.scene, *model, system, arguments.at, remarks.warnings);
      if (!run) return exit_physics;
      state = run->state();
    }
    remarks.left_out = model->native;
    const LinearizedScene linearized = linearize_scene(*model, system, state);
    if (!arguments.report.empty())
      page.write(recording::report_page(modes_page_json(arguments.scene, *model, system, linearized, remarks)));
    if (arguments.json) {
      Json out = {
          {"schema", 1}, {"scene", arguments.scene}, {"left_out", remarks.left_out}, {"warnings", remarks.warnings}};
      out.update(linearized_json(system, linearized));
      std::cout << out.dump(2) << "\n";
      return exit_ok;
    }
    for (const std::string& each : remarks.left_out) std::cout << "the host bare leaves out: " << each << "\n";
    for (const std::string& each : remarks.warnings) std::cout << "warning: " << each << "\n";
    print(system, linearized);
    if (!arguments.report.empty()) std::cout << "wrote " << arguments.report << "\n";
    return exit_ok;
  } catch (const std::invalid_argument& e) {
    std::cerr << "linchpin linearize: " << said(e) << "\n";
    return exit_physics;
  }
} catch (const std::invalid_argument& e) {  // the page cannot be written there
  return misused("linearize", e.what());
}

}  // namespace

void add_linearize(CLI::App& app, int& exit_code) {
  const auto arguments = std::make_shared<LinearizeArguments>();
  CLI::App* verb = app.add_subcommand(
      "linearize", "Linearise a scene about rest or a steady motion: eigenvalues, modes, and the matrices A, B and C");
  verb->add_option("SCENE", arguments->scene, "A .toml scene, a .urdf or .sdf robot, a .bullet file or an MJCF file")
      ->required();
  verb->add_option("--at", arguments->at, at_option)->capture_default_str();
  verb->add_flag("--equilibrium", arguments->equilibrium,
                 "Linearise about the stable equilibrium of the lowest potential, or the lowest if none is stable");
  verb->add_option("--starts", arguments->starts,
                   "With --equilibrium: number of start poses of the search. The first is that of the scene")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  verb->add_option("--report", arguments->report,
                   "Write a page for a browser: table of the modes, 3D playback of each, and the eigenvalues");
  verb->add_flag("--json", arguments->json, "Print one JSON object (schema 1) and nothing else on stdout");
  verb->footer(
      "Without --at and --equilibrium, the state is that of the start of the scene. The displacements and velocities\n"
      "are those that the constraints allow, velocity constraints and redundant ones included. Laws that slide are\n"
      "included. Dry friction that sticks has no derivative, so the command refuses it.\n"
      "A motion is steady if it is the same at all times, seen from a frame that rotates at a constant rate: a top in\n"
      "steady precession, a disk that rolls in a circle. The command finds that frame, and says if there is none.\n"
      "A mode moves bodies by the numbers behind their names, in metres or radians, whichever is larger.\n"
      "The inputs of B are a force or torque along each hinge, slider and generalized coordinate. The outputs of C "
      "are\n"
      "their positions. --json has these matrices, and the shapes of the modes.\n"
      "Exit codes: 0 ok, 2 usage, 3 bad scene, 4 the run stopped, there is no equilibrium or no derivative.");
  verb->callback([arguments, &exit_code] { exit_code = run_linearize(*arguments); });
}

}  // namespace linchpin::cli
