// Quickhull (Barber, Dobkin and Huhdanpaa 1996), which adds the farthest point first, so that it can stop at any number
// of vertices. Faces of meshes have many points in one plane or on one line, where rounding would decide on which side
// of a thin triangle a point lies. So the points are moved by a small pseudorandom distance while the hull is made.
#include "mesh_hull.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace linchpin::scene {

namespace {

using Index = std::uint32_t;

constexpr double thinnest_mesh = 1e-5;  // extent across a cloud, of its largest, below which it has no volume
constexpr double on_face = 4e-6;        // distance from a face, of the largest extent, at which a point counts as on it
constexpr double on_face_far = 1e-6;    // the same, of the distance from the origin: files have single precision
constexpr double shift = 0.25;          // of that distance, by which points are moved at most in each coordinate
constexpr double rounding_error = 1e-12;  // of the largest extent

class Quickhull {
 public:
  Quickhull(std::span<const Vector3d> points, std::size_t most) : points_(points), most_(most) {}

  std::optional<MeshHull> make() {
    if (!begin()) return {};
    while (vertices_ < most_) {
      const int highest = highest_face();
      if (highest < 0) break;
      if (!add(faces_[static_cast<std::size_t>(highest)].farthest)) forget(static_cast<std::size_t>(highest));
    }
    return finished();
  }

 private:
  struct Face {
    std::array<Index, 3> corners;  // counterclockwise from outside
    Vector3d normal;
    double offset = 0;
    bool alive = true;
    std::vector<Index>
        above;  // points outside that are farther from this face than from others they were compared with
    Index farthest = 0;
    double height = 0;  // of the farthest

    double distance(const Vector3d& p) const { return normal.dot(p) - offset; }
  };
  using Edge = std::pair<Index, Index>;

  const Vector3d& at(Index i) const { return moved_[i]; }

  // Fills the moved points, each once: files of triangles repeat them.
  void move() {
    std::vector<Index> table(std::bit_ceil(2 * points_.size()), ~Index(0));
    for (Index i = 0; i < points_.size(); ++i) {
      const Vector3d& p = points_[i];
      std::uint64_t bits = 0x9e3779b97f4a7c15u;
      Vector3d q = p;
      for (int k = 0; k < 3; ++k) {
        // The finalizer of MurmurHash3. Adding 0 makes both zeros the same.
        bits ^= std::bit_cast<std::uint64_t>(p[k] + 0.0) + 0x9e3779b97f4a7c15u + (bits << 6) + (bits >> 2);
        bits = (bits ^ (bits >> 33)) * 0xff51afd7ed558ccdu;
        bits = (bits ^ (bits >> 33)) * 0xc4ceb9fe1a85ec53u;
        bits ^= bits >> 33;
        q[k] += shift * tolerance_ * (static_cast<double>(bits >> 11) * 0x1p-52 - 1);
      }
      std::size_t slot = bits & (table.size() - 1);
      while (table[slot] != ~Index(0) && moved_[table[slot]] != q) slot = (slot + 1) & (table.size() - 1);
      if (table[slot] != ~Index(0)) continue;
      table[slot] = static_cast<Index>(moved_.size());
      moved_.push_back(q);
      original_.push_back(i);
    }
  }

  // @return the index of the point with the largest value
  template <class Value>
  std::pair<Index, double> largest(const Value& value) const {
    std::pair<Index, double> out{0, -1};
    for (Index i = 0; i < moved_.size(); ++i)
      if (const double x = value(at(i)); x > out.second) out = {i, x};
    return out;
  }

  // A tetrahedron of points far from each other. @return false for points without a volume.
  bool begin() {
    if (points_.size() < 4) return false;
    Vector3d low = points_[0], high = low;
    for (const Vector3d& p : points_) low = low.cwiseMin(p), high = high.cwiseMax(p);
    const double extent = (high - low).maxCoeff();
    if (!(extent > 0)) return false;
    tolerance_ =
        std::max(on_face * extent, on_face_far * std::max(low.cwiseAbs().maxCoeff(), high.cwiseAbs().maxCoeff()));
    visible_ = rounding_error * extent;
    move();
    const double thin = std::max(thinnest_mesh * extent, 4 * tolerance_);
    int axis = 0;
    (high - low).maxCoeff(&axis);
    const Index a = largest([&](const Vector3d& p) { return high[axis] - p[axis]; }).first;
    const auto [b, length] = largest([&](const Vector3d& p) { return (p - at(a)).norm(); });
    const Vector3d along = (at(b) - at(a)) / length;
    const auto [c, width] = largest([&](const Vector3d& p) { return (p - at(a)).cross(along).norm(); });
    if (!(width > thin)) return false;
    const Vector3d normal = along.cross(at(c) - at(a)).normalized();
    const auto [d, depth] = largest([&](const Vector3d& p) { return std::abs(normal.dot(p - at(a))); });
    if (!(depth > thin)) return false;
    const bool above = normal.dot(at(d) - at(a)) > 0;
    const std::array<Index, 3> base = above ? std::array{a, c, b} : std::array{a, b, c};
    put_face(base);
    for (std::size_t k = 0; k < 3; ++k) put_face({base[(k + 1) % 3], base[k], d});
    vertices_ = 4;
    for (Index i = 0; i < moved_.size(); ++i) assign(i, 0);
    return true;
  }

  void put_face(const std::array<Index, 3>& corners) {
    Face face;
    face.corners = corners;
    const Vector3d p = at(corners[0]), q = at(corners[1]), r = at(corners[2]);
    face.normal = (q - p).cross(r - p).normalized();
    face.offset = face.normal.dot(p + q + r) / 3;
    faces_.push_back(std::move(face));
  }

  // Gives a point to that face, from `first` on, from which it is farthest outside. Beyond a sharp edge a point can be
  // close to both planes and far outside, so points close to a face are not dropped.
  void assign(Index point, std::size_t first) {
    Face* best = nullptr;
    double height = visible_;
    const Vector3d p = at(point);
    for (std::size_t i = first; i < faces_.size(); ++i)
      if (const double x = faces_[i].distance(p); x > height) best = &faces_[i], height = x;
    if (!best) return;
    best->above.push_back(point);
    if (height > best->height) best->farthest = point, best->height = height;
  }

  int highest_face() const {
    int out = -1;
    double height = tolerance_;
    for (std::size_t i = 0; i < faces_.size(); ++i)
      if (faces_[i].height > height) out = static_cast<int>(i), height = faces_[i].height;
    return out;
  }

  // The edges around the faces that are visible from a point, in order. Empty if rounding makes them no single loop.
  std::vector<Edge> horizon(const std::vector<std::size_t>& visible) const {
    std::map<Edge, bool> edges;
    for (const std::size_t i : visible)
      for (std::size_t k = 0; k < 3; ++k)
        edges.emplace(Edge{faces_[i].corners[k], faces_[i].corners[(k + 1) % 3]}, true);
    std::map<Index, Index> next;
    std::size_t count = 0;
    for (const auto& [edge, unused] : edges)
      if (!edges.contains({edge.second, edge.first})) {
        ++count;
        if (!next.emplace(edge).second) return {};
      }
    std::vector<Edge> out;
    if (count < 3) return out;
    const Index first = next.begin()->first;
    for (Index v = first; out.size() < count; v = out.back().second) {
      const auto found = next.find(v);
      if (found == next.end()) return {};
      out.push_back(*found);
      if (found->second == first) break;
    }
    return out.size() == count && out.back().second == first ? out : std::vector<Edge>();
  }

  // Makes a point a vertex. @return false, and changes nothing, where rounding does not allow it.
  bool add(Index point) {
    std::vector<std::size_t> visible;
    const Vector3d p = at(point);
    for (std::size_t i = 0; i < faces_.size(); ++i)
      if (faces_[i].distance(p) > visible_) visible.push_back(i);
    const std::vector<Edge> around = horizon(visible);
    if (around.empty()) return false;
    const std::size_t first = faces_.size();
    for (const auto& [from, to] : around) {
      put_face({from, to, point});
      if (faces_.back().normal.squaredNorm() > 0.5) continue;
      faces_.resize(first);
      return false;
    }
    for (const std::size_t i : visible) {
      faces_[i].alive = false;
      for (const Index each : std::exchange(faces_[i].above, {}))
        if (each != point) assign(each, first);
    }
    std::erase_if(faces_, [](const Face& face) { return !face.alive; });
    vertices_ = faces_.size() / 2 + 2;  // Euler's formula for triangles
    return true;
  }

  // Leaves out the farthest point above a face, which rounding does not allow to become a vertex.
  void forget(std::size_t i) {
    Face& face = faces_[i];
    forgotten_ = std::max(forgotten_, face.height);
    std::erase(face.above, face.farthest);
    face.height = 0;
    for (const Index each : face.above)
      if (const double x = face.distance(at(each)); x > face.height) face.farthest = each, face.height = x;
  }

  MeshHull finished() const {
    MeshHull out;
    out.shortfall = forgotten_;
    std::map<Index, int> number;
    for (const Face& face : faces_) {
      for (const Index each : face.above)
        for (const Face& other : faces_) out.shortfall = std::max(out.shortfall, other.distance(at(each)));
      std::array<int, 3> corners{};
      for (std::size_t k = 0; k < 3; ++k) {
        const auto [found, is_new] = number.emplace(face.corners[k], static_cast<int>(number.size()));
        if (is_new) out.hull.vertices.push_back(points_[original_[face.corners[k]]]);
        corners[k] = found->second;
      }
      out.hull.faces.push_back(corners);
    }
    return out;
  }

  std::span<const Vector3d> points_;
  std::vector<Vector3d> moved_;
  std::vector<Index> original_;  // of a moved point
  const std::size_t most_;
  double tolerance_ = 0, visible_ = 0, forgotten_ = 0;
  std::vector<Face> faces_;
  std::size_t vertices_ = 0;
};

}  // namespace

std::optional<MeshHull> convex_hull(std::span<const Vector3d> points, std::size_t most) {
  return Quickhull(points, most).make();
}

}  // namespace linchpin::scene
