#include "robot_mesh.h"

#include "mesh_decomposition.h"
#include "mesh_hull.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>

namespace linchpin::scene {

namespace {

namespace fs = std::filesystem;

constexpr RobotNotes::Kind missing{
    "link", "has a collision mesh whose file is missing", "have collision meshes whose files are missing",
    "For package:// and model:// set ROS_PACKAGE_PATH, AMENT_PREFIX_PATH or GZ_SIM_RESOURCE_PATH"};
constexpr RobotNotes::Kind unreadable{"link", "has a collision mesh that cannot be read and is left out",
                                      "have collision meshes that cannot be read and are left out"};
constexpr RobotNotes::Kind flat{"link", "has a collision mesh without volume, which is left out",
                                "have collision meshes without volume, which are left out"};
constexpr RobotNotes::Kind hulled{"link", "collides by the convex hull of its mesh",
                                  "collide by the convex hulls of their meshes"};

constexpr RobotNotes::Kind decomposed{"link", "collides by a convex decomposition of its mesh",
                                      "collide by convex decompositions of their meshes"};

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

// The folders of an environment variable, which colons separate.
std::vector<fs::path> folders_of(const char* variable) {
  std::vector<fs::path> out;
  const char* value = std::getenv(variable);
  std::string_view rest = value ? value : "";
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(':'), rest.size());
    if (end > 0) out.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return out;
}

// The <name> in the package.xml of a folder. Empty without one.
std::string package_name(const fs::path& folder) {
  const fs::path path = folder / "package.xml";
  if (!is_file(path)) return {};
  std::ifstream in(path, std::ios::binary);
  std::string text(16384, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  const std::size_t open = text.find("<name>"), close = text.find("</name>", open);
  if (open == std::string::npos || close == std::string::npos) return {};
  std::string name = text.substr(open + 6, close - open - 6);
  std::erase_if(name, [](unsigned char c) { return c <= ' '; });
  return name;
}

// The first of these folders, and of the folders in them, that is the package and has the file.
std::optional<fs::path> in_packages(const std::vector<fs::path>& folders, const std::string& name,
                                    const fs::path& rest) {
  for (const fs::path& folder : folders) {
    if (is_file(folder / name / rest)) return folder / name / rest;
    if ((folder.filename() == name || package_name(folder) == name) && is_file(folder / rest)) return folder / rest;
    std::error_code error;
    for (fs::directory_iterator each(folder, error), end; !error && each != end; each.increment(error))
      if (is_file(each->path() / name / rest)) return each->path() / name / rest;
  }
  return {};
}

std::string absolute(const fs::path& path) {
  std::error_code error;
  const fs::path out = fs::weakly_canonical(path, error);
  return error ? path.string() : out.string();
}

}  // namespace

std::string find_mesh(const std::string& uri, const std::string& from) {
  const std::size_t scheme = uri.find("://");
  const fs::path folder = fs::path(absolute(from)).parent_path();
  if (scheme == std::string::npos || uri.starts_with("file://")) {
    const fs::path path = folder / (scheme == std::string::npos ? uri : uri.substr(scheme + 3));
    return is_file(path) ? path.string() : std::string();
  }
  const bool package = uri.starts_with("package://"), model = uri.starts_with("model://");
  if (!package && !model) return {};
  const std::string path = uri.substr(scheme + 3);
  const std::size_t slash = path.find('/');
  if (slash == 0 || slash == std::string::npos) return {};
  const std::string name = path.substr(0, slash);
  const fs::path rest = path.substr(
      path.find_first_not_of('/', slash) == std::string::npos ? path.size() : path.find_first_not_of('/', slash));
  std::vector<fs::path> above;
  for (fs::path at = folder; above.empty() || at != above.back(); at = at.parent_path()) above.push_back(at);
  for (const fs::path& at : above) {
    if (at.filename() == name && is_file(at / rest)) return (at / rest).string();
    if (is_file(at / name / rest)) return (at / name / rest).string();
  }
  for (const fs::path& at : above)
    if (package_name(at) == name && is_file(at / rest)) return (at / rest).string();
  std::vector<fs::path> folders;
  const auto add = [&](const char* variable, const char* below) {
    for (const fs::path& each : folders_of(variable)) folders.push_back(each / below);
  };
  if (package) {
    add("ROS_PACKAGE_PATH", "");
    add("AMENT_PREFIX_PATH", "share");
  } else {
    for (const char* variable : {"GZ_SIM_RESOURCE_PATH", "IGN_GAZEBO_RESOURCE_PATH", "SDF_PATH", "GAZEBO_MODEL_PATH"})
      add(variable, "");
  }
  const auto found = in_packages(folders, name, rest);
  return found ? found->string() : std::string();
}

namespace {

// A hull about the centre of its bounding box.
PlacedShape centred_hull(const MeshHull& made) {
  Vector3d low = made.hull.vertices.front(), high = low;
  for (const Vector3d& p : made.hull.vertices) low = low.cwiseMin(p), high = high.cwiseMax(p);
  PlacedShape out;
  out.pose.p = 0.5 * (low + high);
  Hull hull = made.hull;
  for (Vector3d& p : hull.vertices) p -= out.pose.p;
  out.shape = {Shape::Kind::hull, high - low, std::make_shared<const Hull>(std::move(hull))};
  return out;
}

MeshPart joined(const std::vector<MeshPart>& parts) {
  MeshPart out;
  for (const MeshPart& part : parts) {
    const auto first = static_cast<std::uint32_t>(out.points.size());
    out.points.insert(out.points.end(), part.points.begin(), part.points.end());
    for (const auto& t : part.triangles) out.triangles.push_back({first + t[0], first + t[1], first + t[2]});
  }
  return out;
}

// Of each part by itself, or of all together where the parts are many or one has no volume.
std::vector<PlacedShape> decomposition_of(const std::vector<MeshPart>& parts, std::size_t most) {
  std::vector<MeshHull> hulls = convex_decomposition(parts, most);
  if (hulls.empty() && parts.size() > 1) hulls = convex_decomposition(std::vector<MeshPart>{joined(parts)}, most);
  std::vector<PlacedShape> out;
  for (const MeshHull& each : hulls) out.push_back(centred_hull(each));
  return out;
}

// One hull for each part, or one of all where the parts are many or one has no volume.
std::vector<PlacedShape> hulls_of(const std::vector<MeshPart>& parts) {
  std::vector<PlacedShape> out;
  if (parts.size() <= most_mesh_hulls)
    for (const MeshPart& part : parts) {
      const auto made = convex_hull(part.points);
      if (!made) break;
      out.push_back(centred_hull(*made));
    }
  if (out.size() == parts.size()) return out;
  std::vector<Vector3d> all;
  for (const MeshPart& part : parts) all.insert(all.end(), part.points.begin(), part.points.end());
  out.clear();
  if (const auto made = convex_hull(all)) out.push_back(centred_hull(*made));
  return out;
}

}  // namespace

void RobotMeshes::add(const Mesh& mesh, const Pose& pose, RobotFile::Link& link, RobotFile& file) {
  const std::string path = find_mesh(mesh.uri, mesh.from);
  if (path.empty()) {
    file.notes.add(missing, link.name, mesh.uri);
    return;
  }
  const Read& found = read(path, mesh);
  if (!found.error.empty()) {
    file.notes.add(unreadable, link.name, mesh.uri + " " + found.error);
    return;
  }
  if (found.shapes.empty()) {
    file.notes.add(flat, link.name, mesh.uri);
    return;
  }
  if (hulls_ > 0)
    file.notes.add(decomposed, link.name,
                   std::to_string(found.shapes.size()) + (found.shapes.size() == 1 ? " hull" : " hulls"));
  else
    file.notes.add(hulled, link.name);
  if (std::find(file.files.begin(), file.files.end(), path) == file.files.end()) file.files.push_back(path);
  for (const PlacedShape& each : found.shapes) link.shapes.push_back({each.shape, pose * each.pose});
}

const RobotMeshes::Read& RobotMeshes::read(const std::string& path, const Mesh& mesh) {
  const auto [at, is_new] =
      read_.try_emplace({path, mesh.scale[0], mesh.scale[1], mesh.scale[2], mesh.part, mesh.centred});
  Read& out = at->second;
  if (!is_new) return out;
  try {
    std::vector<MeshPart> parts = read_mesh(path);
    if (!mesh.part.empty()) {
      std::erase_if(parts, [&](const MeshPart& part) { return part.name != mesh.part; });
      if (parts.empty()) throw MeshError("has no part \"" + mesh.part + "\"");
    }
    Vector3d low = Vector3d::Constant(1e300), high = -low;
    for (MeshPart& part : parts)
      for (Vector3d& p : part.points) {
        p = p.cwiseProduct(mesh.scale);
        low = low.cwiseMin(p), high = high.cwiseMax(p);
      }
    if (!(low.minCoeff() > -1e9 && high.maxCoeff() < 1e9))
      throw MeshError("reaches beyond the supported range (1e9 m). Use SI units");
    for (MeshPart& part : parts)
      for (Vector3d& p : part.points)
        if (mesh.centred) p -= 0.5 * (low + high);
    if (hulls_ > 0) out.shapes = decomposition_of(parts, hulls_);
    if (out.shapes.empty()) out.shapes = hulls_of(parts);
  } catch (const MeshError& e) {
    out.error = e.what();
  }
  return out;
}

}  // namespace linchpin::scene
