// Approximate convex decomposition by planes, as in the literature (V-HACD by Mamou, CoACD by Wei et al.). The piece
// whose surface is deepest below its hull is cut next. The cut is the one with the least sum of the volumes of the two
// hulls. Unlike the volume of the mesh, both quantities need no closed surface. At the end, pieces whose common hull is
// no larger than theirs are joined again: they were cut for a surface inside, such as that of a hollow body.
#include "mesh_decomposition.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

namespace linchpin::scene {

namespace {

using Corners = std::array<Vector3d, 3>;
using Soup = std::vector<Corners>;

constexpr std::size_t most_search_triangles = 1000;
constexpr std::size_t search_vertices = 40;  // of a hull in the search
constexpr int even_cuts = 7;                 // for each axis, besides those at the hollows
constexpr int hollow_cuts = 8;
constexpr double balance = 0.3;       // cost of halves of unequal volume, of the difference
constexpr double least_gain = 0.005;  // of several hulls in place of one, of the volume of the first hull
constexpr double margin = 0.01;       // of the extent, within which a plane cuts nothing off
constexpr double least_depth = 0.01;  // of the extent of the mesh, below the hull, from which on a piece is cut
constexpr double on_plane = 1e-6;     // of the extent of a piece

struct Plane {
  int axis = 0;
  double at = 0;
};

struct Box {
  Vector3d low = Vector3d::Constant(1e300), high = Vector3d::Constant(-1e300);
  void take(const Vector3d& p) { low = low.cwiseMin(p), high = high.cwiseMax(p); }
  double extent() const { return (high - low).maxCoeff(); }
};

std::vector<Vector3d> points_of(const Soup& soup, const std::vector<Vector3d>& corners) {
  std::vector<Vector3d> out = corners;
  out.reserve(out.size() + 3 * soup.size());
  for (const Corners& t : soup) out.insert(out.end(), t.begin(), t.end());
  return out;
}

// What of a triangle is below (side −1) or above (side 1) a plane, as triangles. A triangle in the plane is dropped:
// its neighbours have its points.
void clip(const Corners& t, const Plane& plane, double side, double tolerance, Soup& out) {
  std::array<Vector3d, 4> kept;
  std::array<double, 3> above{};
  bool any = false;
  for (std::size_t k = 0; k < 3; ++k) {
    above[k] = side * (t[k][plane.axis] - plane.at);
    if (std::abs(above[k]) <= tolerance) above[k] = 0;
    any = any || above[k] > 0;
  }
  if (!any) return;
  std::size_t count = 0;
  for (std::size_t k = 0; k < 3; ++k) {
    const Vector3d &p = t[k], &q = t[(k + 1) % 3];
    const double a = above[k], b = above[(k + 1) % 3];
    if (a >= 0) kept[count++] = p;
    if (!(a * b < 0)) continue;
    Vector3d on = p + a / (a - b) * (q - p);
    on[plane.axis] = plane.at;
    kept[count++] = on;
  }
  for (std::size_t k = 2; k < count; ++k) out.push_back({kept[0], kept[k - 1], kept[k]});
}

Box box_of(const Soup& soup) {
  Box out;
  for (const Corners& t : soup)
    for (const Vector3d& p : t) out.take(p);
  return out;
}

std::array<Soup, 2> cut(const Soup& soup, const Plane& plane) {
  std::array<Soup, 2> out;
  const double tolerance = on_plane * box_of(soup).extent();
  for (const Corners& t : soup) {
    clip(t, plane, -1, tolerance, out[0]);
    clip(t, plane, 1, tolerance, out[1]);
  }
  return out;
}

// Fewer triangles: vertices in one cell of a grid become the first one of them.
Soup coarsened(const Soup& soup) {
  const Box box = box_of(soup);
  Soup out = soup;
  for (int cells = 48; out.size() > most_search_triangles && cells >= 6; cells = 3 * cells / 4) {
    std::map<std::array<int, 3>, std::pair<Vector3d, int>> first;
    const double edge = box.extent() / cells;
    std::map<std::array<int, 3>, char> seen;
    out.clear();
    for (const Corners& t : soup) {
      Corners corners;
      std::array<int, 3> numbers{};
      for (std::size_t k = 0; k < 3; ++k) {
        std::array<int, 3> cell{};
        for (std::size_t i = 0; i < 3; ++i) {
          const auto e = static_cast<Eigen::Index>(i);
          cell[i] = static_cast<int>((t[k][e] - box.low[e]) / edge);
        }
        const auto& [p, number] = first.try_emplace(cell, t[k], static_cast<int>(first.size())).first->second;
        corners[k] = p, numbers[k] = number;
      }
      if (numbers[0] == numbers[1] || numbers[1] == numbers[2] || numbers[2] == numbers[0]) continue;
      std::sort(numbers.begin(), numbers.end());
      if (seen.try_emplace(numbers).second) out.push_back(corners);
    }
  }
  if (out.size() > most_search_triangles) out.resize(most_search_triangles);
  return out;
}

struct Piece {
  const Soup* solid = nullptr;  // the part that it is of, as searched
  Soup whole, search;
  // The cuts around it, and where three of them meet inside the part: the one place of a piece without a surface.
  Box cuts{Vector3d::Constant(-1e300), Vector3d::Constant(1e300)};
  std::vector<Vector3d> corners;
  double volume = 0, depth = 0;  // of the hull in the search [m³]; of the surface below it [m]
  std::optional<Plane> cut;
};

// Depths of the corners of triangles and of their centres below a hull.
std::vector<std::pair<double, Vector3d>> depths_of(const Soup& soup, const Hull& hull) {
  std::vector<std::pair<Vector3d, double>> faces;
  for (const auto& f : hull.faces) {
    const auto at = [&](std::size_t k) -> const Vector3d& { return hull.vertices[static_cast<std::size_t>(f[k])]; };
    const Vector3d n = (at(1) - at(0)).cross(at(2) - at(0)).normalized();
    faces.emplace_back(n, n.dot(at(0)));
  }
  std::vector<std::pair<double, Vector3d>> out;
  for (const Corners& t : soup)
    for (const Vector3d& p : {t[0], t[1], t[2], Vector3d((t[0] + t[1] + t[2]) / 3)}) {
      double depth = 1e300;
      for (const auto& [n, offset] : faces) depth = std::min(depth, offset - n.dot(p));
      out.emplace_back(depth, p);
    }
  return out;
}

// Planes through the places of a piece that are deep below its hull, and some at even distances.
std::vector<Plane> planes_of(const Piece& piece, const std::vector<std::pair<double, Vector3d>>& depths) {
  const Box box = box_of(piece.search);
  std::vector<Plane> out;
  for (int axis = 0; axis < 3; ++axis) {
    const double low = box.low[axis], high = box.high[axis], edge = margin * (high - low);
    std::vector<double> at, hollows;
    for (int k = 1; k <= even_cuts; ++k) at.push_back(low + (high - low) * k / (even_cuts + 1));
    for (const auto& [depth, p] : depths)
      if (depth > 0.3 * piece.depth) hollows.push_back(p[axis]);
    std::sort(hollows.begin(), hollows.end());
    const double apart = 1e-3 * box.extent();
    hollows.erase(std::unique(hollows.begin(), hollows.end(), [&](double a, double b) { return b - a < apart; }),
                  hollows.end());
    const std::size_t count = std::min<std::size_t>(hollows.size(), hollow_cuts);
    for (std::size_t k = 0; k < count; ++k)
      at.push_back(hollows[count < 2 ? 0 : k * (hollows.size() - 1) / (count - 1)]);
    for (const double x : at)
      if (x > low + edge && x < high - edge) out.push_back({axis, x});
  }
  return out;
}

// Whether a point is inside a closed surface: a ray leaves it an odd number of times.
bool is_inside(const Soup& solid, const Vector3d& p) {
  const Vector3d ray(0.4871, 0.6293, 0.6055);  // along no edge of usual meshes
  bool inside = false;
  for (const Corners& t : solid) {
    const Vector3d u = t[1] - t[0], v = t[2] - t[0], n = ray.cross(v), from = p - t[0];
    const double scale = u.dot(n);
    if (scale == 0) continue;
    const double a = from.dot(n) / scale;
    const Vector3d m = from.cross(u);
    const double b = ray.dot(m) / scale;
    if (a >= 0 && b >= 0 && a + b <= 1 && v.dot(m) / scale > 0) inside = !inside;
  }
  return inside;
}

// The two halves of a piece, without their soups and what follows from these.
std::array<Piece, 2> halves_of(const Piece& piece, const Plane& plane) {
  std::array<Piece, 2> out;
  std::vector<Vector3d> on;
  const int i = (plane.axis + 1) % 3, j = (plane.axis + 2) % 3;
  for (const double x : {piece.cuts.low[i], piece.cuts.high[i]})
    for (const double y : {piece.cuts.low[j], piece.cuts.high[j]}) {
      if (std::abs(x) > 1e299 || std::abs(y) > 1e299) continue;
      Vector3d p;
      p[plane.axis] = plane.at, p[i] = x, p[j] = y;
      if (is_inside(*piece.solid, p)) on.push_back(p);
    }
  for (std::size_t k = 0; k < 2; ++k) {
    out[k].solid = piece.solid, out[k].cuts = piece.cuts, out[k].corners = on;
    (k == 0 ? out[k].cuts.high : out[k].cuts.low)[plane.axis] = plane.at;
    for (const Vector3d& p : piece.corners)
      if ((p[plane.axis] > plane.at) == (k == 1)) out[k].corners.push_back(p);
  }
  return out;
}

// The volume of a hull, or nothing.
std::optional<double> hull_volume(const Soup& soup, const std::vector<Vector3d>& corners) {
  const auto hull = convex_hull(points_of(soup, corners), search_vertices);
  return hull ? std::optional(volume_of(hull->hull)) : std::nullopt;
}

// Fills the volume, the depth, and the cut of a piece that is deeper than `enough`. @return false without a volume
bool search(Piece& piece, double enough) {
  const auto hull = convex_hull(points_of(piece.search, piece.corners), search_vertices);
  if (!hull) return false;
  piece.volume = volume_of(hull->hull);
  const auto depths = depths_of(piece.search, hull->hull);
  for (const auto& [depth, p] : depths) piece.depth = std::max(piece.depth, depth);
  if (piece.depth < enough) return true;
  double least = 1e300;
  for (const Plane& plane : planes_of(piece, depths)) {
    const auto soups = cut(piece.search, plane);
    const auto halves = halves_of(piece, plane);
    const auto a = hull_volume(soups[0], halves[0].corners), b = hull_volume(soups[1], halves[1].corners);
    if (!a || !b) continue;
    if (const double cost = *a + *b + balance * std::abs(*a - *b); cost < least * (1 - 1e-9))
      least = cost, piece.cut = plane;
  }
  return true;
}

// Joins pieces whose common hull is no larger than their own together.
void join(std::vector<Piece>& pieces, double most_gain) {
  for (bool again = true; again;) {
    again = false;
    double least = most_gain;
    std::size_t first = 0, second = 0;
    for (std::size_t i = 0; i < pieces.size(); ++i)
      for (std::size_t j = i + 1; j < pieces.size(); ++j) {
        if (pieces[i].solid != pieces[j].solid) continue;
        Soup both = pieces[i].search;
        both.insert(both.end(), pieces[j].search.begin(), pieces[j].search.end());
        std::vector<Vector3d> corners = pieces[i].corners;
        corners.insert(corners.end(), pieces[j].corners.begin(), pieces[j].corners.end());
        const auto volume = hull_volume(both, corners);
        if (!volume || *volume - pieces[i].volume - pieces[j].volume >= least) continue;
        least = *volume - pieces[i].volume - pieces[j].volume, first = i, second = j, again = true;
      }
    if (!again) break;
    Piece &to = pieces[first], &from = pieces[second];
    to.whole.insert(to.whole.end(), from.whole.begin(), from.whole.end());
    to.search.insert(to.search.end(), from.search.begin(), from.search.end());
    to.corners.insert(to.corners.end(), from.corners.begin(), from.corners.end());
    to.volume = to.volume + from.volume + least;
    pieces.erase(pieces.begin() + static_cast<std::ptrdiff_t>(second));
  }
}

}  // namespace

double volume_of(const Hull& hull) {
  double out = 0;
  for (const auto& f : hull.faces) {
    const auto at = [&](std::size_t k) -> Vector3d {
      return hull.vertices[static_cast<std::size_t>(f[k])] - hull.vertices.front();
    };
    out += at(0).dot(at(1).cross(at(2))) / 6;
  }
  return out;
}

std::vector<MeshHull> convex_decomposition(std::span<const MeshPart> parts, std::size_t most) {
  if (parts.size() > most) return {};
  std::vector<Piece> pieces;
  std::vector<Soup> solids;
  solids.reserve(parts.size());
  Box box;
  for (const MeshPart& part : parts) {
    Piece& piece = pieces.emplace_back();
    for (const auto& t : part.triangles)
      piece.whole.push_back({part.points[t[0]], part.points[t[1]], part.points[t[2]]});
    piece.search = coarsened(piece.whole);
    piece.solid = &solids.emplace_back(piece.search);
    for (const Vector3d& p : part.points) box.take(p);
  }
  const double enough = least_depth * box.extent();
  double start = 0;
  for (Piece& piece : pieces) {
    if (!search(piece, enough)) return {};
    start += piece.volume;
  }
  while (pieces.size() < most) {
    Piece* next = nullptr;
    for (Piece& each : pieces)
      if (each.cut && (!next || each.depth > next->depth)) next = &each;
    if (!next) break;
    auto whole = cut(next->whole, *next->cut), coarse = cut(next->search, *next->cut);
    auto halves = halves_of(*next, *next->cut);
    bool both = true;
    for (std::size_t k = 0; k < 2; ++k) {
      both = both && hull_volume(whole[k], halves[k].corners);
      halves[k].whole = std::move(whole[k]);
      halves[k].search = coarse[k].size() > most_search_triangles ? coarsened(coarse[k]) : std::move(coarse[k]);
      both = both && search(halves[k], enough);
    }
    if (!both) {
      next->cut.reset();
      continue;
    }
    *next = std::move(halves[0]);
    pieces.push_back(std::move(halves[1]));
  }
  if (pieces.size() > parts.size()) join(pieces, least_gain * start);
  std::vector<MeshHull> out;
  for (const Piece& piece : pieces) {
    auto made = convex_hull(points_of(piece.whole, piece.corners));
    if (!made) return {};
    out.push_back(std::move(*made));
  }
  return out;
}

}  // namespace linchpin::scene
