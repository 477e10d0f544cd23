#include "scene_file.h"

#include "bullet_import.h"
#include "messages.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <stdexcept>
#include <string>

namespace linchpin::cli {

namespace {

// Little or big endian, as the file says.
std::int32_t integer(std::string_view bytes, std::size_t at, bool big) {
  std::uint32_t x = 0;
  for (std::size_t i = 0; i < 4; ++i)
    x |= std::uint32_t(static_cast<unsigned char>(bytes[at + i])) << 8 * (big ? 3 - i : i);
  return static_cast<std::int32_t>(x);
}

std::string printable(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) out += c >= ' ' && c <= '~' ? c : '?';
  return out;
}

}  // namespace

std::string scene_fault(std::string_view bytes) {
  // "BULLET", f or d (precision), _ or - (32 or 64 bits), v or V (little or big endian), three digits of version
  constexpr std::size_t header = 12;
  if (bytes.empty()) return "is empty";
  if (bytes.find("<mujoco") != std::string_view::npos)
    return "is MJCF, the format of MuJoCo, which linchpin does not read. Convert it to URDF or SDF";
  if (bytes.find("xmlns:xacro") != std::string_view::npos)
    return "is xacro. Expand it by \"xacro FILE > robot.urdf\", and open robot.urdf";
  const bool magic = bytes.starts_with("BULLETf") || bytes.starts_with("BULLETd");
  if (!magic)
    return "is not a .bullet scene: it begins with \"" + printable(bytes.substr(0, 7)) +
           "\", not with \"BULLETf\" or \"BULLETd\"";
  if (bytes.size() < header) return "ends after " + std::to_string(bytes.size()) + " bytes, inside its header";
  if ((bytes[7] != '_' && bytes[7] != '-') || (bytes[8] != 'v' && bytes[8] != 'V'))
    return "has a damaged header: \"" + printable(bytes.substr(0, header)) + "\"";
  const bool big = bytes[8] == 'V';
  const std::size_t pointer = bytes[7] == '-' ? 8 : 4, chunk_header = 16 + pointer;

  std::size_t at = header;
  long bodies = 0, multibodies = 0, soft_bodies = 0;
  bool described = false;
  while (at < bytes.size() && !described) {
    if (bytes.size() - at < chunk_header)
      return "is truncated: " + std::to_string(bytes.size() - at) + " bytes are left at byte " + std::to_string(at) +
             ", too few for a chunk";
    const std::string_view code = bytes.substr(at, 4);
    const std::int32_t length = integer(bytes, at + 4, big);
    described = code == "DNA1" || code == "SDNA";
    if (code == "SDNA") break;  // old files have the description without a chunk around it
    if (length < 0 || static_cast<std::size_t>(length) > bytes.size() - at - chunk_header)
      return "is truncated or damaged: chunk \"" + printable(code) + "\" at byte " + std::to_string(at) + " states " +
             std::to_string(length) + " bytes, and " + std::to_string(bytes.size() - at - chunk_header) + " are left";
    const std::int32_t count = integer(bytes, at + chunk_header - 4, big);
    if (count < 0)
      return "is damaged: a chunk at byte " + std::to_string(at) + " states " + std::to_string(count) + " items";
    bodies += code == "RBDY" || code == "COBJ";
    multibodies += code == "MBDY";
    soft_bodies += code == "SBDY";
    at += chunk_header + static_cast<std::size_t>(length);
  }
  if (!described) return "is truncated: the description of its data (chunk \"DNA1\") is missing";
  if (multibodies > 0)
    return "holds " + std::to_string(multibodies) + " multibodies (btMultiBody), which are not supported yet";
  if (soft_bodies > 0) return "holds " + std::to_string(soft_bodies) + " soft bodies, which are not supported";
  if (bodies == 0) return "holds no rigid body";
  return {};
}

namespace {

// .toml whatever its case: files come from systems that do not mind.
std::string kind_of(const std::string& path) {
  std::string extension = std::filesystem::path(path).extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return extension;
}

bool is_ours(const std::string& extension) {
  return extension == ".toml" || extension == ".urdf" || extension == ".sdf";
}

}  // namespace

void warn(const scene::Model& model) {
  for (const std::string& each : model.warnings) std::cerr << each << "\n";
  constexpr std::size_t most_names = 3;
  for (const scene::Note& each : model.notes) std::cerr << "note: " << each.shown(most_names) << "\n";
}

std::optional<Opened> open_scene(const std::string& path, const std::optional<scene::RobotsAs>& robots) {
  Opened out;
  out.path = path;
  out.files = {path};
  const std::string extension = kind_of(path);
  if (is_ours(extension)) {
    try {
      scene::Overrides overrides;
      overrides.robots = robots;
      out.model = scene::load(path, {}, overrides);
      warn(*out.model);
      out.files = out.model->files;
      out.dt = out.model->dt, out.duration = out.model->duration, out.host = out.model->host;
    } catch (const scene::NeedsHost& e) {  // the worker has the .bullet file read, and checks the rest
      out.dt = e.dt, out.duration = e.duration, out.files = e.files;
      out.host = e.host == scene::Host::bare ? scene::Host::bullet_float64 : e.host;
    } catch (const scene::SceneError& e) {
      std::cerr << e.what() << "\n";
      return {};
    }
    return out;
  }
  if (path == "-") {  // it is loaded again for every solver
    std::cerr << "-: error: a scene is read from a file, not from standard input\n";
    return {};
  }
  if (robots)
    throw std::invalid_argument("--as applies to scenes with a robot, and a .bullet file has none. Leave it out");
  std::string bytes;
  if (!read_file(path, bytes)) return {};
  const std::string fault = scene_fault(bytes);
  if (fault.empty()) return out;
  complain(
      path, bytes,
      fault + (extension != ".bullet" ? ". Names of scenes end with .toml, names of robots with .urdf or .sdf" : ""));
  return {};
}

std::optional<scene::Model> open_model(const std::string& path) {
  const std::string extension = kind_of(path);
  if (!is_ours(extension) && extension != ".bullet") {
    (void)open_scene(path);  // says what it is not
    return {};
  }
  try {
    scene::Model model = load(path, import_bullet);
    warn(model);
    return model;
  } catch (const scene::SceneError& e) {
    std::cerr << e.what() << "\n";
    return {};
  }
}

}  // namespace linchpin::cli
