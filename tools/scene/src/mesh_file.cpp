#include "mesh_file.h"

#include "mesh_text.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace linchpin::scene {

namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return std::tolower(c); });
  return out;
}

// Numbers in files are little-endian, whatever this machine is.
std::uint32_t whole_at(std::string_view text, std::size_t at) {
  std::uint32_t out = 0;
  for (std::size_t i = 0; i < 4; ++i)
    out |= static_cast<std::uint32_t>(static_cast<unsigned char>(text[at + i])) << (8 * i);
  return out;
}
float float_at(std::string_view text, std::size_t at) {
  const std::uint32_t bits = whole_at(text, at);
  float out = 0;
  std::memcpy(&out, &bits, sizeof out);
  return out;
}

constexpr std::size_t most_mesh_parts = 10000;  // of a file; what follows belongs to the last

// Begins a part, in place of the last one where that is empty.
void begin_part(std::vector<MeshPart>& parts, std::string_view name) {
  if (!parts.empty() && (parts.back().points.empty() || parts.size() == most_mesh_parts))
    parts.back().name = name.substr(0, 200);
  else
    parts.push_back({std::string(name.substr(0, 200)), {}});
}

// Of a part whose points are the corners of one triangle after the other.
void add_all_triangles(MeshPart& part) {
  for (std::uint32_t i = 0; i + 2 < part.points.size(); i += 3) part.triangles.push_back({i, i + 1, i + 2});
}

constexpr std::size_t stl_head = 84, stl_triangle = 50;

std::vector<MeshPart> read_binary_stl(std::string_view text) {
  const std::size_t count = whole_at(text, stl_head - 4);
  if (count > (text.size() - stl_head) / stl_triangle)
    throw MeshError("has " + std::to_string(count) + " triangles by its head, but ends after " +
                    std::to_string((text.size() - stl_head) / stl_triangle));
  check_mesh_points(3 * count);
  MeshPart out;
  out.points.reserve(3 * count);
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t corner = 0; corner < 3; ++corner) {
      const std::size_t at = stl_head + i * stl_triangle + 12 * (corner + 1);  // behind the normal
      const Vector3d p(float_at(text, at), float_at(text, at + 4), float_at(text, at + 8));
      if (!p.allFinite()) throw MeshError("has a corner of triangle " + std::to_string(i) + " that is not finite");
      out.points.push_back(p);
    }
  add_all_triangles(out);
  return {std::move(out)};
}

std::vector<MeshPart> read_text_stl(std::string_view text) {
  std::vector<MeshPart> out;
  std::size_t count = 0;
  MeshWords words(text);
  while (!words.ended()) {
    const std::string word = lower(words.next().substr(0, 10));
    if (word == "solid") {
      begin_part(out, words.line());
    } else if (word == "endsolid") {
      (void)words.line();
    } else if (word == "vertex") {
      if (out.empty()) throw MeshError("has a vertex before \"solid\"");
      check_mesh_points(++count);
      Vector3d p;
      for (int k = 0; k < 3; ++k) p[k] = mesh_number(words.next());
      out.back().points.push_back(p);
    }
  }
  for (MeshPart& part : out) add_all_triangles(part);
  return out;
}

std::string read_bytes(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (!fs::is_regular_file(path, error)) throw MeshError("is no file");
  const std::uintmax_t size = fs::file_size(path, error);
  if (error) throw MeshError("cannot be read");
  if (size > most_mesh_bytes)
    throw MeshError("is larger than " + std::to_string(most_mesh_bytes >> 20) + " MB, which is the limit");
  std::string out(static_cast<std::size_t>(size), '\0');
  std::ifstream in(path, std::ios::binary);
  in.read(out.data(), static_cast<std::streamsize>(out.size()));
  if (static_cast<std::size_t>(in.gcount()) != out.size()) throw MeshError("cannot be read");
  return out;
}

}  // namespace

std::vector<MeshPart> read_stl(std::string_view text) {
  // Binary files may begin with "solid" too, but their length follows from their head.
  const bool has_head = text.size() >= stl_head;
  const std::size_t due = has_head ? stl_head + stl_triangle * std::size_t(whole_at(text, stl_head - 4)) : 0;
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  const bool solid = begin != std::string_view::npos && lower(text.substr(begin, 5)) == "solid";
  if (has_head && (due == text.size() || !solid)) return read_binary_stl(text);
  if (!solid) throw MeshError("is neither binary nor text STL");
  return read_text_stl(text);
}

std::vector<MeshPart> read_obj(std::string_view text) {
  std::vector<Vector3d> vertices;
  struct Use {
    std::size_t parts = 0;    // their number when the vertex was used last
    std::uint32_t point = 0;  // of that part
  };
  std::vector<Use> used;  // by vertex
  std::vector<std::uint32_t> polygon;
  std::vector<MeshPart> out(1);
  std::size_t count = 0, corners = 0;
  while (!text.empty()) {
    // A line, which goes on behind a backslash at its end.
    std::string joined;
    std::string_view line;
    for (bool goes_on = true; goes_on;) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      line = text.substr(0, end);
      text.remove_prefix(std::min(end + 1, text.size()));
      if (line.ends_with('\r')) line.remove_suffix(1);
      goes_on = line.ends_with('\\') && !text.empty();
      if (!goes_on && joined.empty()) break;
      joined.append(line.substr(0, line.size() - (goes_on ? 1 : 0))) += ' ';
      line = joined;
    }
    MeshWords words(line);
    const std::string_view key = words.next();
    if (key == "v") {
      check_mesh_points(vertices.size() + 1);
      Vector3d p;
      for (int k = 0; k < 3; ++k) p[k] = mesh_number(words.next());
      vertices.push_back(p);
      used.emplace_back();
    } else if (key == "o" || key == "g") {
      begin_part(out, words.line());
    } else if (key == "f") {
      polygon.clear();
      for (std::string_view corner = words.next(); !corner.empty(); corner = words.next()) {
        const long index = mesh_index(corner.substr(0, corner.find('/')));
        const long size = static_cast<long>(vertices.size());
        if (index == 0 || index > size || index < -size)
          throw MeshError("has a face with vertex " + std::to_string(index) + ", but only " + std::to_string(size) +
                          " vertices before it");
        const auto i = static_cast<std::size_t>(index > 0 ? index - 1 : size + index);
        if (used[i].parts != out.size()) {
          used[i] = {out.size(), static_cast<std::uint32_t>(out.back().points.size())};
          check_mesh_points(++count);
          out.back().points.push_back(vertices[i]);
        }
        check_mesh_points(++corners);
        polygon.push_back(used[i].point);
      }
      add_polygon(out.back(), polygon);
    }
  }
  return out;
}

std::vector<MeshPart> read_mesh(const std::string& path) {
  const std::string end = lower(std::filesystem::path(path).extension().string());
  if (end != ".stl" && end != ".obj" && end != ".dae")
    throw MeshError("is of another format than STL, OBJ and COLLADA (.dae)");
  const std::string text = read_bytes(path);
  // Repositories keep large files elsewhere.
  if (text.starts_with("version https://git-lfs")) throw MeshError("is a pointer of Git LFS. Run \"git lfs pull\"");
  std::vector<MeshPart> out = end == ".stl" ? read_stl(text) : end == ".obj" ? read_obj(text) : read_collada(text);
  std::erase_if(out, [](const MeshPart& part) { return part.points.empty(); });
  if (out.empty()) throw MeshError("has no triangles");
  return out;
}

void add_polygon(MeshPart& part, std::span<const std::uint32_t> corners) {
  for (std::size_t k = 2; k < corners.size(); ++k) part.triangles.push_back({corners[0], corners[k - 1], corners[k]});
}

}  // namespace linchpin::scene
