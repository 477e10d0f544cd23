// COLLADA 1.4 and 1.5, as far as the points of its surfaces need it: geometries, and nodes with their transforms.
#include "mesh_file.h"

#if LINCHPIN_URDF
#include "mesh_text.h"

#include <tinyxml2.h>

#include <Eigen/Geometry>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <numbers>
#include <span>
#include <utility>
#endif

namespace linchpin::scene {

#if !LINCHPIN_URDF

std::vector<MeshPart> read_collada(std::string_view) {
  throw MeshError("is COLLADA, but this linchpin was built without tinyxml2");
}

#else

namespace {

using Element = tinyxml2::XMLElement;
using Transform = Eigen::Affine3d;

constexpr int deepest_node = 100;         // of nodes in one another, also by instance_node
constexpr std::size_t most_nodes = 1000;  // visits: a node may be an instance of others many times

std::string_view attribute(const Element& e, const char* name) {
  const char* out = e.Attribute(name);
  return out ? out : "";
}
std::string_view content_of(const Element& e) { return e.GetText() ? e.GetText() : ""; }

// "#name" names an element of this file.
std::string reference(const Element& e, const char* name) {
  const std::string_view out = attribute(e, name);
  if (!out.starts_with('#')) throw MeshError("has an <" + std::string(e.Name()) + "> that refers to another file");
  return std::string(out.substr(1));
}

template <int n>
std::array<double, n> numbers(const Element& e) {
  std::array<double, n> out{};
  MeshWords words(content_of(e));
  for (double& x : out) {
    const std::string_view word = words.next();
    if (word.empty())
      throw MeshError("has a <" + std::string(e.Name()) + "> of less than " + std::to_string(n) + " numbers");
    x = mesh_number(word);
  }
  return out;
}

class Collada {
 public:
  explicit Collada(std::string_view text) {
    if (document_.Parse(text.data(), text.size()) != tinyxml2::XML_SUCCESS || !document_.RootElement())
      throw MeshError("is not well-formed XML (line " + std::to_string(document_.ErrorLineNum()) + ")");
    if (std::string_view(document_.RootElement()->Name()) != "COLLADA")
      throw MeshError("begins with <" + std::string(document_.RootElement()->Name()).substr(0, 40) +
                      ">, but COLLADA with <COLLADA>");
  }

  std::vector<MeshPart> read() {
    const Element& root = *document_.RootElement();
    Transform unit = Transform::Identity();
    if (const Element* asset = root.FirstChildElement("asset"))
      if (const Element* e = asset->FirstChildElement("unit"); e && e->Attribute("meter")) {
        const double metres = mesh_number(attribute(*e, "meter"));
        if (!(metres > 0)) throw MeshError("has a unit of " + quoted(attribute(*e, "meter")) + " m");
        unit.linear() *= metres;
      }
    index(root);
    const Element* scene = visual_scene(root);
    if (!scene) {
      for (const auto& [id, geometry] : geometries_) {
        out_.push_back({id, {}});
        add(*geometry, unit, out_.size() - 1);
      }
      return std::move(out_);
    }
    for (const Element* e = scene->FirstChildElement("node"); e; e = e->NextSiblingElement("node")) node(*e, unit, 0);
    return std::move(out_);
  }

 private:
  // Geometries, nodes and scenes by their id.
  void index(const Element& root) {
    for (const Element* library = root.FirstChildElement(); library; library = library->NextSiblingElement())
      for (const Element* e = library->FirstChildElement(); e; e = e->NextSiblingElement()) {
        const std::string_view kind = e->Name();
        const std::string id(attribute(*e, "id"));
        if (kind == "geometry") geometries_.emplace(id, e);
        if (kind == "visual_scene") scenes_.emplace(id, e);
        if (kind == "node" || kind == "visual_scene") index_nodes(*e);
      }
  }
  void index_nodes(const Element& e) {
    if (std::string_view(e.Name()) == "node" && e.Attribute("id")) nodes_.emplace(e.Attribute("id"), &e);
    for (const Element* child = e.FirstChildElement("node"); child; child = child->NextSiblingElement("node"))
      index_nodes(*child);
  }

  const Element* visual_scene(const Element& root) const {
    const Element* scene = root.FirstChildElement("scene");
    const Element* instance = scene ? scene->FirstChildElement("instance_visual_scene") : nullptr;
    if (!instance) return scenes_.empty() ? nullptr : scenes_.begin()->second;
    return found(scenes_, *instance);
  }
  template <class Map>
  static const Element* found(const Map& in, const Element& instance) {
    const std::string name = reference(instance, "url");
    const auto at = in.find(name);
    if (at == in.end())
      throw MeshError("has an <" + std::string(instance.Name()) + "> of " + quoted(name) + ", which is not there");
    return at->second;
  }

  void node(const Element& e, Transform in, int depth) {
    if (depth == deepest_node)
      throw MeshError("has nodes more than " + std::to_string(deepest_node) + " deep in one another");
    if (++visits_ > most_nodes)
      throw MeshError("has more than " + std::to_string(most_nodes) + " nodes, which is the limit");
    const std::size_t part = out_.size();
    out_.push_back({std::string(attribute(e, e.Attribute("name") ? "name" : "id")), {}});
    for (const Element* child = e.FirstChildElement(); child; child = child->NextSiblingElement()) {
      const std::string_view kind = child->Name();
      if (kind == "matrix") {
        const auto m = numbers<16>(*child);
        for (int i = 0; i < 3; ++i)
          if (m[12 + static_cast<std::size_t>(i)] != 0) throw MeshError("has a <matrix> that is not affine");
        Transform local;
        local.matrix() = Eigen::Map<const Eigen::Matrix<double, 4, 4, Eigen::RowMajor>>(m.data());
        in = in * local;
      } else if (kind == "translate") {
        const auto p = numbers<3>(*child);
        in.translate(Vector3d(p[0], p[1], p[2]));
      } else if (kind == "scale") {
        const auto s = numbers<3>(*child);
        in.scale(Vector3d(s[0], s[1], s[2]));
      } else if (kind == "rotate") {
        const auto r = numbers<4>(*child);
        if (const Vector3d axis(r[0], r[1], r[2]); axis.norm() > 0)
          in.rotate(Eigen::AngleAxisd(r[3] * std::numbers::pi / 180, axis.normalized()));
      } else if (kind == "lookat" || kind == "skew") {
        throw MeshError("has a <" + std::string(kind) + "> of a node, which is not supported");
      }
    }
    for (const Element* child = e.FirstChildElement(); child; child = child->NextSiblingElement()) {
      const std::string_view kind = child->Name();
      if (kind == "instance_geometry") {
        add(*found(geometries_, *child), in, part);
      } else if (kind == "node") {
        node(*child, in, depth + 1);
      } else if (kind == "instance_node") {
        node(*found(nodes_, *child), in, depth + 1);
      }
    }
  }

  // Adds the points of a geometry to a part.
  void add(const Element& geometry, const Transform& in, std::size_t part) {
    const MeshPart& all = surfaces(geometry);
    MeshPart& to = out_[part];
    check_mesh_points(count_ += all.points.size());
    check_mesh_points(corners_ += 3 * all.triangles.size());
    const auto first = static_cast<std::uint32_t>(to.points.size());
    for (const Vector3d& p : all.points) {
      to.points.emplace_back(in * p);
      if (!to.points.back().allFinite()) throw MeshError("has a transform that makes its points not finite");
    }
    for (const auto& t : all.triangles) to.triangles.push_back({first + t[0], first + t[1], first + t[2]});
  }

  // The surfaces of a geometry, with the points that they use.
  const MeshPart& surfaces(const Element& geometry) {
    const auto [known, is_new] = surfaces_.try_emplace(&geometry);
    const Element* mesh = geometry.FirstChildElement("mesh");
    if (!is_new || !mesh) return known->second;
    for (const Element* e = mesh->FirstChildElement(); e; e = e->NextSiblingElement()) {
      const std::string_view kind = e->Name();
      if (kind != "triangles" && kind != "polylist" && kind != "polygons" && kind != "tristrips" && kind != "trifans")
        continue;
      std::size_t stride = 0, offset = 0;
      const std::vector<Vector3d>* points = nullptr;
      for (const Element* input = e->FirstChildElement("input"); input; input = input->NextSiblingElement("input")) {
        const long at = input->Attribute("offset") ? mesh_index(attribute(*input, "offset")) : 0;
        if (at < 0 || at > 1000) throw MeshError("has an <input> with offset " + std::to_string(at));
        stride = std::max(stride, static_cast<std::size_t>(at) + 1);
        if (attribute(*input, "semantic") != "VERTEX") continue;
        offset = static_cast<std::size_t>(at);
        points = &positions(*mesh, reference(*input, "source"));
      }
      if (!points) continue;
      std::vector<std::vector<std::uint32_t>> lists;  // of corners, by <p>
      for (const Element* p = e->FirstChildElement("p"); p; p = p->NextSiblingElement("p"))
        lists.push_back(corners_in(*p, stride, offset, points->size()));
      for (const Element* ph = e->FirstChildElement("ph"); ph; ph = ph->NextSiblingElement("ph"))
        if (const Element* p = ph->FirstChildElement("p"))
          lists.push_back(corners_in(*p, stride, offset, points->size()));
      MeshPart& to = known->second;
      std::vector<std::uint32_t> place(points->size(), unused);
      for (const auto& list : lists)
        for (const std::uint32_t i : list) place[i] = 0;
      for (std::size_t i = 0; i < place.size(); ++i)
        if (place[i] != unused) {
          place[i] = static_cast<std::uint32_t>(to.points.size());
          to.points.push_back((*points)[i]);
        }
      check_mesh_points(to.points.size());
      for (auto& list : lists) {
        for (std::uint32_t& i : list) i = place[i];
        add_polygons(kind, *e, list, to);
      }
    }
    return known->second;
  }

  static constexpr std::uint32_t unused = ~std::uint32_t(0);

  // @param list  the corners of one <p>
  static void add_polygons(std::string_view kind, const Element& e, std::span<const std::uint32_t> list, MeshPart& to) {
    if (kind == "triangles") {
      for (; list.size() >= 3; list = list.subspan(3)) add_polygon(to, list.first(3));
    } else if (kind == "tristrips") {
      for (; list.size() >= 3; list = list.subspan(1)) add_polygon(to, list.first(3));
    } else if (const Element* counts = e.FirstChildElement("vcount"); counts && kind == "polylist") {
      MeshWords words(content_of(*counts));
      for (std::string_view word = words.next(); !word.empty(); word = words.next()) {
        const long count = mesh_index(word);
        if (count < 0 || static_cast<std::size_t>(count) > list.size()) return;  // The points of the file still count.
        add_polygon(to, list.first(static_cast<std::size_t>(count)));
        list = list.subspan(static_cast<std::size_t>(count));
      }
    } else {
      add_polygon(to, list);
    }
  }

  std::vector<std::uint32_t> corners_in(const Element& p, std::size_t stride, std::size_t offset, std::size_t size) {
    std::vector<std::uint32_t> out;
    MeshWords words(content_of(p));
    std::size_t i = 0;
    for (std::string_view word = words.next(); !word.empty(); word = words.next(), ++i) {
      if (i % stride != offset) continue;
      const long index = mesh_index(word);
      if (index < 0 || static_cast<std::size_t>(index) >= size)
        throw MeshError("has a triangle with vertex " + std::to_string(index) + ", but only " + std::to_string(size) +
                        " vertices");
      check_mesh_points(++read_corners_);
      out.push_back(static_cast<std::uint32_t>(index));
    }
    return out;
  }

  // Of <vertices id="…">, by way of its POSITION.
  const std::vector<Vector3d>& positions(const Element& mesh, const std::string& vertices) {
    const Element* e = with_id(mesh, "vertices", vertices);
    for (const Element* input = e->FirstChildElement("input"); input; input = input->NextSiblingElement("input"))
      if (attribute(*input, "semantic") == "POSITION") return points(mesh, reference(*input, "source"));
    throw MeshError("has <vertices> without POSITION");
  }
  static const Element* with_id(const Element& in, const char* name, const std::string& id) {
    for (const Element* e = in.FirstChildElement(name); e; e = e->NextSiblingElement(name))
      if (attribute(*e, "id") == id) return e;
    throw MeshError("has no <" + std::string(name) + "> " + quoted(id));
  }
  const std::vector<Vector3d>& points(const Element& mesh, const std::string& source) {
    const Element* e = with_id(mesh, "source", source);
    const auto [known, is_new] = sources_.try_emplace(e);
    if (!is_new) return known->second;
    const Element* array = e->FirstChildElement("float_array");
    if (!array) throw MeshError("has a <source> without <float_array>");
    const Element* technique = e->FirstChildElement("technique_common");
    const Element* accessor = technique ? technique->FirstChildElement("accessor") : nullptr;
    const auto whole = [&](const char* name, long otherwise) {
      return accessor && accessor->Attribute(name) ? mesh_index(attribute(*accessor, name)) : otherwise;
    };
    const long stride = whole("stride", 3), offset = whole("offset", 0);
    if (stride < 3 || stride > 1000 || offset < 0)
      throw MeshError("has an <accessor> of positions with stride " + std::to_string(stride) + " and offset " +
                      std::to_string(offset));
    MeshWords words(content_of(*array));
    long i = -offset;
    Vector3d p;
    for (std::string_view word = words.next(); !word.empty(); word = words.next(), ++i) {
      if (i < 0 || i % stride > 2) continue;
      p[i % stride] = mesh_number(word);
      if (i % stride < 2) continue;
      check_mesh_points(known->second.size() + 1);
      known->second.push_back(p);
    }
    return known->second;
  }

  tinyxml2::XMLDocument document_;
  std::map<std::string, const Element*> geometries_, nodes_, scenes_;
  std::map<const Element*, std::vector<Vector3d>> sources_;
  std::map<const Element*, MeshPart> surfaces_;  // which instances share
  std::vector<MeshPart> out_;
  std::size_t visits_ = 0, count_ = 0, corners_ = 0, read_corners_ = 0;
};

}  // namespace

std::vector<MeshPart> read_collada(std::string_view text) { return Collada(text).read(); }

#endif

}  // namespace linchpin::scene
