#include "gltf.h"

#include "base64.h"
#include "motion.h"

#include <linchpin/system.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <stdexcept>
#include <vector>

namespace linchpin::recording {

namespace {

using Json = nlohmann::ordered_json;
static_assert(std::endian::native == std::endian::little, "buffers are written as they lie in memory");

constexpr int floats = 5126, shorts = 5123, vertices = 34962, indices = 34963;  // of the format

struct Shape {
  std::vector<float> position, normal;
  std::vector<std::uint16_t> triangles;

  void vertex(const Vector3d& p, const Vector3d& n) {
    for (int k = 0; k < 3; ++k) position.push_back(static_cast<float>(p[k]));
    for (int k = 0; k < 3; ++k) normal.push_back(static_cast<float>(n[k]));
  }
  int count() const { return static_cast<int>(position.size() / 3); }
  void triangle(int a, int b, int c) {
    for (const int i : {a, b, c}) triangles.push_back(static_cast<std::uint16_t>(i));
  }
};

Shape box(const Vector3d& edges) {
  Shape out;
  for (int axis = 0; axis < 3; ++axis)
    for (const double side : {-1.0, 1.0}) {
      const int first = out.count();
      const Vector3d n = side * Vector3d::Unit(axis), u = Vector3d::Unit((axis + 1) % 3), v = n.cross(u);
      for (const auto& [a, b] : {std::pair(-1, -1), std::pair(1, -1), std::pair(1, 1), std::pair(-1, 1)})
        out.vertex((n + a * u + b * v).cwiseProduct(edges) / 2, n);
      out.triangle(first, first + 1, first + 2);
      out.triangle(first, first + 2, first + 3);
    }
  return out;
}

// A profile turned about y: rings of (radius, height) with their normals, from the top down.
struct Ring {
  double radius, y, nr, ny;
};
Shape turned(const std::vector<Ring>& rings, int around = 32) {
  Shape out;
  for (const Ring& ring : rings)
    for (int i = 0; i <= around; ++i) {
      const double a = 2 * std::numbers::pi * i / around, c = std::cos(a), s = std::sin(a);
      out.vertex({ring.radius * c, ring.y, ring.radius * s}, Vector3d(ring.nr * c, ring.ny, ring.nr * s).normalized());
    }
  for (int r = 0; r + 1 < static_cast<int>(rings.size()); ++r)
    for (int i = 0; i < around; ++i) {
      const int a = r * (around + 1) + i, b = a + around + 1;
      // A ring that is a point, or the same again with another normal, has no area on that side.
      const Ring &upper = rings[static_cast<std::size_t>(r)], &lower = rings[static_cast<std::size_t>(r) + 1];
      if (upper.radius == lower.radius && upper.y == lower.y) continue;
      if (upper.radius > 0) out.triangle(a, a + 1, b);
      if (lower.radius > 0) out.triangle(a + 1, b + 1, b);
    }
  return out;
}
void cap(std::vector<Ring>& rings, double radius, double y, bool upper) {
  constexpr int steps = 8;
  for (int i = 0; i <= steps; ++i) {
    const double a = std::numbers::pi / 2 * (upper ? i : steps - i) / steps;
    const bool pole = (upper ? i : steps - i) == 0;
    const double n = upper ? std::cos(a) : -std::cos(a), side = pole ? 0 : std::sin(a);
    rings.push_back({radius * side, y + radius * n, side, n});
  }
}

// Each triangle with corners of its own, so that faces are flat.
Shape polyhedron(const Motion::Shape& hull) {
  Shape out;
  for (std::size_t i = 0; i + 3 <= hull.triangles.size() && out.count() < 65532; i += 3) {
    std::array<Vector3d, 3> p;
    for (std::size_t k = 0; k < 3; ++k)
      p[k] = Eigen::Map<const Eigen::Vector3f>(&hull.vertices[3 * static_cast<std::size_t>(hull.triangles[i + k])])
                 .cast<double>();
    Vector3d n = (p[1] - p[0]).cross(p[2] - p[0]);
    if (!(n.norm() > 0)) continue;
    const int first = out.count();
    for (const Vector3d& corner : p) out.vertex(corner, n.normalized());
    out.triangle(first, first + 1, first + 2);
  }
  return out;
}

Shape shape_of(const Motion::Shape& body, double dot) {
  const double x = body.size[0], y = body.size[1];
  std::vector<Ring> rings;
  if (body.shape == "box") return box({x, y, body.size[2]});
  if (body.shape == "hull") return polyhedron(body);
  if (body.shape == "cylinder")
    return turned({{0, y / 2, 0, 1},
                   {x, y / 2, 0, 1},
                   {x, y / 2, 1, 0},
                   {x, -y / 2, 1, 0},
                   {x, -y / 2, 0, -1},
                   {0, -y / 2, 0, -1}});
  if (body.shape == "capsule") {
    cap(rings, x, y / 2, true);
    cap(rings, x, -y / 2, false);
    return turned(rings);
  }
  const double radius = body.shape == "sphere" ? x : dot;
  cap(rings, radius, 0, true);
  rings.pop_back();
  cap(rings, radius, 0, false);
  return turned(rings);
}

// As the body has it: a part is turned and moved in it.
void place(Shape& shape, const Motion::Shape& in) {
  const Eigen::Quaternionf q =
      Eigen::Quaterniond(in.rotation[3], in.rotation[0], in.rotation[1], in.rotation[2]).normalized().cast<float>();
  const Eigen::Vector3f p = Eigen::Map<const Vector3d>(in.position.data()).cast<float>();
  for (std::size_t i = 0; i + 3 <= shape.position.size(); i += 3) {
    Eigen::Map<Eigen::Vector3f> at(&shape.position[i]), normal(&shape.normal[i]);
    at = (q * at + p).eval();
    normal = (q * normal).eval();
  }
}

// The document under construction: every array of numbers is a view of its own on one buffer.
class Document {
 public:
  Json json;
  std::string buffer;

  template <class T>
  int accessor(const std::vector<T>& data, const char* type, int width, int target, bool limits) {
    Json view = {{"buffer", 0}, {"byteOffset", buffer.size()}, {"byteLength", data.size() * sizeof(T)}};
    if (target != 0) view["target"] = target;
    buffer.append(reinterpret_cast<const char*>(data.data()), data.size() * sizeof(T));
    buffer.append((4 - buffer.size() % 4) % 4, '\0');
    Json out = {{"bufferView", add("bufferViews", std::move(view))},
                {"componentType", sizeof(T) == 2 ? shorts : floats},
                {"count", data.size() / static_cast<std::size_t>(width)},
                {"type", type}};
    if (limits) {
      std::vector<T> least(data.begin(), data.begin() + width), most = least;
      for (std::size_t i = 0; i < data.size(); ++i) {
        T &low = least[i % static_cast<std::size_t>(width)], &high = most[i % static_cast<std::size_t>(width)];
        low = std::min(low, data[i]), high = std::max(high, data[i]);
      }
      out["min"] = least;
      out["max"] = most;
    }
    return add("accessors", std::move(out));
  }
  int add(const char* list, Json element) {
    json[list].push_back(std::move(element));
    return static_cast<int>(json[list].size()) - 1;
  }
  int material(const char* name, int rgb, double alpha) {
    const auto linear = [](int byte) {
      const double c = byte / 255.0;
      return c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
    };
    Json out = {{"name", name},
                {"pbrMetallicRoughness",
                 {{"baseColorFactor", {linear(rgb >> 16 & 255), linear(rgb >> 8 & 255), linear(rgb & 255), alpha}},
                  {"metallicFactor", 0},
                  {"roughnessFactor", 0.7}}}};
    if (alpha < 1) out["alphaMode"] = "BLEND";
    return add("materials", std::move(out));
  }
  int mesh(const Motion::Body& body, double dot, int material) {
    Json primitives = Json::array();
    for (std::size_t i = 0; i < body.shapes.size(); ++i) {
      if (body.shapes.size() > 1 && body.shapes[i].shape == "none") continue;
      Shape shape = shape_of(body.shapes[i], dot);
      if (shape.triangles.empty()) continue;
      place(shape, body.shapes[i]);
      primitives.push_back({{"attributes",
                             {{"POSITION", accessor(shape.position, "VEC3", 3, vertices, true)},
                              {"NORMAL", accessor(shape.normal, "VEC3", 3, vertices, false)}}},
                            {"indices", accessor(shape.triangles, "SCALAR", 1, indices, false)},
                            {"material", material}});
    }
    if (primitives.empty()) return -1;
    return add("meshes", {{"primitives", std::move(primitives)}});
  }
};

// Frames that an animation can have: finite, and each later than the one before in single precision.
std::vector<std::size_t> sound_frames(const Motion& m) {
  std::vector<std::size_t> out;
  float last = -std::numeric_limits<float>::infinity();
  for (std::size_t f = 0; f < m.frames; ++f) {
    const std::size_t n = m.bodies.size();
    const auto sound = [](double x) { return std::abs(x) < 1e30; };
    const auto all = [&](const std::vector<double>& column, std::size_t width) {
      return std::all_of(column.begin() + static_cast<std::ptrdiff_t>(f * n * width),
                         column.begin() + static_cast<std::ptrdiff_t>((f + 1) * n * width), sound);
    };
    if (!all(m.position, 3) || !all(m.turn, 4)) break;
    const auto t = static_cast<float>(m.t[f]);
    if (t <= last) continue;
    last = t;
    out.push_back(f);
  }
  return out;
}

// Of what is drawn, at the start and at the end: how large a point should be.
double extent(const Motion& m, const std::vector<std::size_t>& frames) {
  Vector3d low = Vector3d::Constant(std::numeric_limits<double>::infinity()), high = -low;
  for (const std::size_t f : frames)
    for (std::size_t i = 0; i < m.bodies.size(); ++i) {
      if (!m.bodies[i].drawn()) continue;
      const Vector3d p = Eigen::Map<const Vector3d>(&m.position[(f * m.bodies.size() + i) * 3]);
      if (p.norm() < 1e6) low = low.cwiseMin(p), high = high.cwiseMax(p);
    }
  return std::max(0.05, (high - low).maxCoeff());
}

void add_run(Document& doc, const Motion& m, const std::string& name, bool solid, int colour,
             const Quaterniond& upright, Json& channels, Json& samplers) {
  const std::vector<std::size_t> frames = sound_frames(m);
  if (frames.empty()) return;
  const double dot = 0.014 * extent(m, frames);
  int moving = -1, still = -1, times = -1;
  Json children = Json::array();
  for (std::size_t i = 0; i < m.bodies.size(); ++i) {
    const Motion::Body& body = m.bodies[i];
    const bool fixed = body.kind == "fixed";
    if (!body.drawn() || (!solid && fixed)) continue;
    int& material = fixed ? still : moving;
    if (material < 0)
      material = fixed ? doc.material("fixed", 0x9aa3af, 1) : doc.material(name.c_str(), colour, solid ? 1 : 0.35);
    std::vector<float> p, q;
    bool moves = false;
    Quaterniond before = Quaterniond::Identity();
    for (const std::size_t f : frames) {
      const std::size_t at = f * m.bodies.size() + i;
      for (std::size_t k = 0; k < 3; ++k) p.push_back(static_cast<float>(m.position[3 * at + k]));
      Quaterniond turn(m.turn[4 * at + 3], m.turn[4 * at], m.turn[4 * at + 1], m.turn[4 * at + 2]);
      if (turn.norm() == 0) turn.setIdentity();
      turn.normalize();
      // Of the two that are the same turn, the one near the last: viewers interpolate the numbers.
      if (turn.dot(before) < 0) turn.coeffs() *= -1;
      before = turn;
      for (const double x : {turn.x(), turn.y(), turn.z(), turn.w()}) q.push_back(static_cast<float>(x));
      const auto same = [](const std::vector<float>& all, std::size_t width) {
        return std::equal(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(width),
                          all.end() - static_cast<std::ptrdiff_t>(width));
      };
      moves = moves || !same(p, 3) || !same(q, 4);
    }
    const int mesh = doc.mesh(body, dot, material);
    if (mesh < 0) continue;
    const int node = doc.add("nodes", {{"name", body.name},
                                       {"mesh", mesh},
                                       {"translation", {p[0], p[1], p[2]}},
                                       {"rotation", {q[0], q[1], q[2], q[3]}}});
    children.push_back(node);
    if (!moves) continue;
    if (times < 0) {
      std::vector<float> t;
      for (const std::size_t f : frames) t.push_back(static_cast<float>(m.t[f]));
      times = doc.accessor(t, "SCALAR", 1, 0, true);
    }
    const auto channel = [&](const char* path, int output) {
      samplers.push_back({{"input", times}, {"output", output}});
      channels.push_back({{"sampler", samplers.size() - 1}, {"target", {{"node", node}, {"path", path}}}});
    };
    channel("translation", doc.accessor(p, "VEC3", 3, 0, false));
    channel("rotation", doc.accessor(q, "VEC4", 4, 0, false));
  }
  if (children.empty()) return;
  Json root = {{"name", name}, {"children", std::move(children)}};
  if (!upright.isApprox(Quaterniond::Identity()))
    root["rotation"] = {upright.x(), upright.y(), upright.z(), upright.w()};
  doc.json["scenes"][0]["nodes"].push_back(doc.add("nodes", std::move(root)));
}

void put_length(std::string& out, std::size_t x) {
  const auto word = static_cast<std::uint32_t>(x);
  out.append(reinterpret_cast<const char*>(&word), sizeof word);
}

}  // namespace

std::string gltf(const Json& recording, bool binary) {
  const Json &comparison = recording.at("comparison"), &solvers = comparison.at("solvers"),
             &motions = recording.at("motions");
  const std::string title = recording.at("scene").at("file");
  Document doc;
  doc.json = {{"asset",
               {{"version", "2.0"},
                {"generator", "linchpin " + recording.at("linchpin").get<std::string>()},
                {"extras", {{"commands", recording.at("commands")}}}}},
              {"scene", 0},
              {"scenes", {{{"name", title}, {"nodes", Json::array()}}}}};
  Quaterniond upright = Quaterniond::Identity();
  if (comparison.contains("gravity") && comparison["gravity"].is_array()) {
    const auto g = comparison["gravity"].get<std::vector<double>>();
    const Vector3d up = g.size() == 3 ? Vector3d(-g[0], -g[1], -g[2]) : Vector3d::Zero();
    if (up.norm() > 0) upright = Quaterniond::FromTwoVectors(up, Vector3d::UnitY());
  }
  std::size_t solid = 0;
  while (solid < solvers.size() && (solvers[solid].at("name") != "exact" || motions.at(solid).is_null())) ++solid;
  if (solid == solvers.size()) solid = 0;
  // The colours of a report: Okabe and Ito's.
  constexpr int ghosts[] = {0xd55e00, 0x009e73, 0xcc79a7, 0xe69f00, 0x7f7f7f};
  Json channels = Json::array(), samplers = Json::array();
  std::size_t others = 0;
  for (std::size_t i = 0; i < motions.size(); ++i) {
    if (motions[i].is_null()) continue;
    const bool ours = solvers[i].at("name") == "exact";
    add_run(doc, Motion(motions[i]), run_name(solvers, i), i == solid,
            i == solid && ours ? 0x0072b2
            : ours             ? 0x56b4e9
                               : ghosts[others++ % std::size(ghosts)],
            upright, channels, samplers);
  }
  if (doc.json["scenes"][0]["nodes"].empty())
    throw std::invalid_argument(
        title + " has only generalized coordinates, which have no position in space, so there is nothing to show");
  if (!channels.empty())
    doc.json["animations"] = {{{"name", title}, {"channels", std::move(channels)}, {"samplers", std::move(samplers)}}};
  Json& buffer = doc.json["buffers"][0];
  buffer["byteLength"] = doc.buffer.size();
  const auto text = [&] { return doc.json.dump(-1, ' ', false, Json::error_handler_t::replace); };
  if (!binary) {
    buffer["uri"] = "data:application/octet-stream;base64," + base64(doc.buffer.data(), doc.buffer.size());
    return text() + "\n";
  }
  std::string json = text();
  json.append((4 - json.size() % 4) % 4, ' ');
  if (json.size() + doc.buffer.size() > 0xfffffff0u - 64)
    throw std::invalid_argument("a .glb file can hold at most 4 GB. Use fewer --frames");
  std::string out = "glTF";
  put_length(out, 2);
  put_length(out, 12 + 8 + json.size() + 8 + doc.buffer.size());
  put_length(out, json.size());
  out += "JSON" + json;
  put_length(out, doc.buffer.size());
  out += std::string("BIN\0", 4) + doc.buffer;
  return out;
}

}  // namespace linchpin::recording
