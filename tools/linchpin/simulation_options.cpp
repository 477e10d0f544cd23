#include "simulation_options.h"

#include <CLI/CLI.hpp>

#include <charconv>
#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <string_view>

namespace linchpin::cli {

namespace {

std::string shown(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", x);
  return text;
}

[[noreturn]] void refuse(const std::string& option, std::string_view value, const std::string& expected) {
  throw std::invalid_argument(option + " is \"" + std::string(value) + "\", expected " + expected);
}

bool read(std::string_view text, double& x) {
  if (text.starts_with("+")) text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), x);
  return error == std::errc() && end == text.data() + text.size() && std::isfinite(x);
}

double number(const std::string& option, const std::string& text, double least, double most, const char* unit) {
  double x = 0;
  // "1/240" is how people say it
  const std::size_t slash = text.find('/');
  double under = 1;
  const bool good = slash == std::string::npos
                        ? read(text, x)
                        : read(std::string_view(text).substr(0, slash), x) &&
                              read(std::string_view(text).substr(slash + 1), under) && under != 0;
  x /= good ? under : 1;
  if (!good || x < least || x > most)
    refuse(option, text, "a number of " + std::string(unit) + " from " + shown(least) + " to " + shown(most));
  return x;
}

std::array<double, 3> vector(const std::string& option, const std::string& text) {
  std::array<double, 3> out{};
  std::string_view rest = text;
  for (std::size_t i = 0; i < 3; ++i) {
    const std::size_t end = i < 2 ? rest.find(',') : rest.size();
    if (end == std::string_view::npos || !read(rest.substr(0, end), out[i]) || std::abs(out[i]) > 1e6)
      refuse(option, text, "three numbers x,y,z in m/s^2, each from -1e6 to 1e6");
    rest.remove_prefix(std::min(rest.size(), end + 1));
  }
  return out;
}

}  // namespace

void SimulationOptions::add_to(CLI::App& verb, bool with_warmup) {
  verb.add_option("SCENE", scene, "A .toml scene, a .urdf or .sdf robot, a .bullet file or an MJCF file of MuJoCo")
      ->required();
  verb.add_option("--dt", dt, "Step [s], also as a fraction. Default: that of the file, or 1/240 for a .bullet file");
  verb.add_option("--duration", duration,
                  "Time to simulate [s]. Default: that of the scene, or 2 for a .bullet or MJCF file");
  if (with_warmup)
    verb.add_option("--warmup-steps", warmup_steps, "Number of first steps that the statistics leave out")
        ->capture_default_str();
  verb.add_option("--gravity", gravity, "x,y,z [m/s^2]. Default: that of the file, or 0,-9.81,0 if it has none");
  verb.add_option("--as", as,
                  "Make a robot in Bullet of rigid bodies and joints, or as one btMultiBody. Default: as in the scene")
      ->type_name("{bodies,multibody}");
}

std::optional<scene::RobotsAs> SimulationOptions::robots() const {
  if (as.empty()) return {};
  if (as == "bodies") return scene::RobotsAs::bodies;
  if (as != "multibody") refuse("--as", as, "bodies or multibody");
  return scene::RobotsAs::multibody;
}

std::optional<Opened> SimulationOptions::open(MjcfHosts hosts) const { return open_scene(scene, robots(), hosts); }

Simulation SimulationOptions::check(const scene::Model& model) const {
  Opened opened;
  opened.dt = model.dt, opened.duration = model.duration;
  return check(opened);
}

Simulation SimulationOptions::check(const Opened& opened) const {
  Simulation out;
  out.scene = scene;
  out.dt = dt.empty() ? opened.dt : number("--dt", dt, 1e-6, 1, "seconds");
  const double time = duration.empty() ? opened.duration : number("--duration", duration, 1e-6, 86400, "seconds");
  const double steps = std::round(time / out.dt);
  if (steps < 1)
    refuse("--duration", duration.empty() ? shown(time) : duration, "at least one step of " + shown(out.dt) + " s");
  if (steps > 1e8)
    refuse("--duration", duration.empty() ? shown(time) : duration, "at most 1e8 steps of " + shown(out.dt) + " s");
  out.steps = static_cast<long>(steps);
  const auto [end, error] =
      std::from_chars(warmup_steps.data(), warmup_steps.data() + warmup_steps.size(), out.warmup_steps);
  if (error != std::errc() || end != warmup_steps.data() + warmup_steps.size() || out.warmup_steps < 0 ||
      out.warmup_steps >= out.steps)
    refuse("--warmup-steps", warmup_steps, "a whole number of steps from 0 to " + std::to_string(out.steps - 1));
  out.robots = robots();
  if (!gravity.empty()) out.gravity = vector("--gravity", gravity);
  return out;
}

}  // namespace linchpin::cli
