#include "models.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <numbers>
#include <random>
#include <sstream>
#include <stdexcept>

namespace linchpin::bench {

namespace {

ModelPointer load_file(const std::string& path) {
  char error[1000] = "";
  ModelPointer m(mj_loadXML(path.c_str(), nullptr, error, sizeof error));
  if (!m) throw std::runtime_error("linchpin-bench-mujoco: " + path + ": " + error);
  return m;
}

/// Writes the two bodies on one side of a leg. @param side  −1 or 1: to which its knee points
void write_side(std::ostream& out, const std::string& leg, const std::string& place, int side) {
  const double x = side * 0.0866025403784;
  const std::string name = leg + (side < 0 ? " outer" : " inner");
  out << "<body name='" << name << " upper' pos='" << place << "'><joint name='" << name << " hip'/>"
      << "<geom type='capsule' fromto='0 0 0 " << x << " 0 -0.05' size='0.01' mass='0.1'/>"
      << "<body name='" << name << " lower' pos='" << x << " 0 -0.05'><joint name='" << name << " knee'/>"
      << "<geom type='capsule' fromto='0 0 0 " << -x << " 0 -0.180277563773' size='0.01' mass='0.1'/>";
  if (side > 0)
    out << "<geom type='sphere' size='0.02' pos='" << -x
        << " 0 -0.180277563773' mass='0.05' contype='1' conaffinity='1'/>";
  out << "</body></body>";
}

/// A trunk on legs of five bars with two motors each, in two rows. Each leg is a loop in a plane.
std::string trunk(int legs, bool has_ground) {
  std::ostringstream out;
  out.precision(12);
  const double rows = std::ceil(legs / 2.0);
  out << "<mujoco><option timestep='0.002'/><default><geom contype='0' conaffinity='0'/>"
      << "<joint axis='0 1 0' armature='0.001' damping='0.02'/><position kp='30'/></default><worldbody>";
  if (has_ground) out << "<geom type='plane' size='5 5 1' contype='1' conaffinity='1'/>";
  out << "<body name='trunk' pos='0 0 0.27'><freejoint/><geom type='box' size='" << 0.05 + 0.15 * rows
      << " 0.08 0.03' mass='" << 0.75 * legs << "' contype='1' conaffinity='1'/>";
  for (int leg = 0; leg < legs; ++leg) {
    std::ostringstream place;
    place << 0.3 * (leg / 2 - 0.5 * (rows - 1)) << ' ' << (legs == 1 ? 0 : leg % 2 == 0 ? 0.12 : -0.12) << " 0";
    for (const int side : {-1, 1}) write_side(out, "leg " + std::to_string(leg), place.str(), side);
  }
  out << "</body></worldbody><equality>";
  for (int leg = 0; leg < legs; ++leg)
    out << "<connect body1='leg " << leg << " outer lower' body2='leg " << leg
        << " inner lower' anchor='0.0866025403784 0 -0.180277563773'/>";
  out << "</equality><actuator>";
  for (int leg = 0; leg < legs; ++leg)
    for (const char* const side : {" outer", " inner"}) out << "<position joint='leg " << leg << side << " hip'/>";
  out << "</actuator></mujoco>";
  return out.str();
}

ModelPointer load_text(const std::string& text) {
  const std::filesystem::path path = std::filesystem::temp_directory_path() /
                                     ("linchpin-bench-mujoco-" + std::to_string(std::random_device{}()) + ".xml");
  std::ofstream(path) << text;
  ModelPointer m = load_file(path.string());
  std::filesystem::remove(path);
  return m;
}

}  // namespace

ModelPointer load(const std::string& name) {
  const std::size_t colon = name.find(':');
  if (colon == std::string::npos) return load_file(LINCHPIN_SOURCE_DIR "/tests/models/mujoco/" + name + ".xml");
  return load_text(trunk(std::stoi(name.substr(colon + 1)), name.substr(0, colon) == "ground"));
}

void control(const mjModel& m, mjData& d) {
  if (m.nu == 1) d.ctrl[0] = 6 * std::min(1.0, d.time);  // a motor that turns
  for (int k = 0; m.nu > 1 && k < m.nu; ++k)
    d.ctrl[k] = 0.25 * std::sin(9 * d.time + k / 2 * std::numbers::pi) * (k % 2 == 0 ? 1 : 0.6);
}

}  // namespace linchpin::bench
