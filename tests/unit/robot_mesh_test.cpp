// Meshes of robots: the same hull from every format, where files are looked for, what is left out with a note, and how
// far a hull of few vertices lies inside its mesh.
#include <linchpin/scene.h>

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numbers>
#include <random>
#include <sstream>
#include <string>
#include <vector>

namespace linchpin::test::robot_mesh_test {
namespace {

namespace fs = std::filesystem;
using Points = std::vector<Vector3d>;
using Triangles = std::vector<std::array<int, 3>>;

// Each test has its own folder: ctest runs them side by side.
fs::path folder() {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  const fs::path path = fs::path(testing::TempDir()) / ("linchpin-mesh-" + std::string(test->name()));
  fs::create_directories(path);
  return path;
}
fs::path written(const fs::path& name, const std::string& text) {
  const fs::path path = folder() / name;
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

// A brick of 0.2 by 0.4 by 0.6 m from the corner (1, 2, 3).
const Points corners = {{1, 2, 3},   {1.2, 2, 3},   {1, 2.4, 3},   {1.2, 2.4, 3},
                        {1, 2, 3.6}, {1.2, 2, 3.6}, {1, 2.4, 3.6}, {1.2, 2.4, 3.6}};
const Triangles sides = {{0, 2, 1}, {1, 2, 3}, {4, 5, 6}, {5, 7, 6}, {0, 1, 4}, {1, 5, 4},
                         {2, 6, 3}, {3, 6, 7}, {0, 4, 2}, {2, 4, 6}, {1, 3, 5}, {3, 7, 5}};
const Vector3d middle(1.1, 2.2, 3.3), edges(0.2, 0.4, 0.6);

template <class T>
void put(std::string& out, T x) {
  out.append(reinterpret_cast<const char*>(&x), sizeof x);
}
std::string binary_stl(const Points& points, const Triangles& triangles) {
  std::string out(80, ' ');
  put(out, static_cast<std::uint32_t>(triangles.size()));
  for (const auto& triangle : triangles) {
    for (int k = 0; k < 3; ++k) put(out, 0.0f);
    for (const int i : triangle)
      for (int k = 0; k < 3; ++k) put(out, static_cast<float>(points[static_cast<std::size_t>(i)][k]));
    put(out, std::uint16_t(0));
  }
  return out;
}
std::string text_stl(const Points& points, const Triangles& triangles) {
  std::ostringstream out;
  out << "solid a brick\n";
  for (const auto& triangle : triangles) {
    out << "facet normal 0 0 0\n outer loop\n";
    for (const int i : triangle) out << "  vertex " << points[static_cast<std::size_t>(i)].transpose() << "\n";
    out << " endloop\nendfacet\n";
  }
  out << "endsolid a brick\n";
  return out.str();
}
std::string obj(const Points& points, const Triangles& triangles, int before = 0) {
  std::ostringstream out;
  for (const Vector3d& p : points) out << "v " << p.transpose() << "\n";
  for (const auto& triangle : triangles) {
    out << "f";
    for (const int i : triangle) out << " " << i + 1 + before << "//1";
    out << "\n";
  }
  return out.str();
}
// @param nodes  of the visual scene
std::string dae(const Points& points, const Triangles& triangles, const std::string& asset, const std::string& nodes) {
  std::ostringstream out;
  out << "<COLLADA version=\"1.4.1\"><asset>" << asset << "</asset><library_geometries><geometry id=\"g\"><mesh>"
      << "<source id=\"p\"><float_array count=\"24\">";
  for (const Vector3d& p : points) out << p.transpose() << " ";
  out << "</float_array><technique_common><accessor source=\"#p\" count=\"8\" "
         "stride=\"3\"/></technique_common></source>"
      << "<vertices id=\"v\"><input semantic=\"POSITION\" source=\"#p\"/></vertices><triangles>"
      << "<input semantic=\"NORMAL\" source=\"#n\" offset=\"1\"/><input semantic=\"VERTEX\" source=\"#v\" "
         "offset=\"0\"/><p>";
  for (const auto& triangle : triangles)
    for (const int i : triangle) out << i << " 0 ";
  out << "</p></triangles></mesh></geometry></library_geometries><library_visual_scenes><visual_scene id=\"s\">"
      << nodes << "</visual_scene></library_visual_scenes><scene><instance_visual_scene url=\"#s\"/></scene></COLLADA>";
  return out.str();
}
const std::string instance = "<instance_geometry url=\"#g\"/>", node = "<node id=\"n\">" + instance + "</node>";

// A link of 1 kg that collides by these meshes: attributes of <mesh>.
std::string link(const std::vector<std::string>& meshes, const std::string& inertia = "1") {
  std::string out = "<robot name='r'><link name='a'><inertial><mass value='1'/><inertia ixx='" + inertia + "' iyy='" +
                    inertia + "' izz='" + inertia + "'/></inertial>";
  for (const std::string& mesh : meshes)
    out += "<collision><geometry><mesh filename='" + mesh + "'/></geometry></collision>";
  return out + "</link></robot>";
}
scene::Model load(const std::vector<std::string>& meshes) {
  return scene::load(written("robot.urdf", link(meshes)).string());
}
const std::vector<scene::PlacedShape>& shapes(const scene::Model& model) { return model.bodies[0].more_shapes; }
std::string notes(const scene::Model& model) {
  std::string out;
  for (const scene::Note& note : model.notes) out += note.shown() + "\n";
  return out;
}
bool says(const scene::Model& model, const std::string& text) { return notes(model).find(text) != std::string::npos; }

void expect_brick(const scene::PlacedShape& shape, const Vector3d& centre, const Vector3d& size,
                  const std::string& of) {
  ASSERT_EQ(shape.shape.kind, scene::Shape::Kind::hull) << of;
  EXPECT_LT((shape.shape.size - size).norm(), 1e-6) << of;
  EXPECT_LT((shape.pose.p - centre).norm(), 1e-6) << of << " " << shape.pose.p.transpose();
  ASSERT_TRUE(shape.shape.hull) << of;
  ASSERT_EQ(shape.shape.hull->vertices.size(), 8u) << of;
  EXPECT_EQ(shape.shape.hull->faces.size(), 12u) << of;
  for (const Vector3d& p : shape.shape.hull->vertices) EXPECT_LT((p.cwiseAbs() - size / 2).norm(), 1e-6) << of;
}

class RobotMesh : public testing::Test {
 protected:
  void SetUp() override {
    try {
      (void)scene::load(written("probe.urdf", "<robot name='r'><link name='a'/></robot>").string());
    } catch (const scene::SceneError& e) {
      if (e.message.find("built without URDF") != std::string::npos) GTEST_SKIP() << "built without URDF";
    }
  }
};

TEST_F(RobotMesh, EveryFormatGivesTheSameHull) {
  // Names that end in upper case are the same formats.
  written("binary.STL", binary_stl(corners, sides));
  std::string solid = binary_stl(corners, sides);
  solid.replace(0, 5, "solid");  // as some programs write binary files
  written("solid.stl", solid);
  written("text.stl", text_stl(corners, sides));
  written("brick.obj", "mtllib none.mtl\nvn 0 0 1\no brick\nusemtl x\n" + obj(corners, sides) + "# end\r\n");
  std::string back = "v 9 9 9\n";  // a vertex of no face
  for (const Vector3d& p : corners) {
    std::ostringstream out;
    out << "v " << p.transpose() << "\\\n 1\n";  // a line that goes on
    back += out.str();
  }
  written("back.obj", back + "f -8 -7 -6 -5 -4 -3 -2 -1\n");
  written("brick.dae", dae(corners, sides, "<up_axis>Y_UP</up_axis>", node));
  for (const char* name : {"binary.STL", "solid.stl", "text.stl", "brick.obj", "back.obj", "brick.dae"}) {
    const scene::Model model = load({name});
    ASSERT_EQ(shapes(model).size(), 1u) << name << notes(model);
    expect_brick(shapes(model)[0], middle, edges, name);
    EXPECT_TRUE(says(model, "link \"a\" collides by the convex hull of its mesh")) << name;
    // The file was read for the model.
    EXPECT_EQ(fs::path(model.files.back()).filename(), name);
  }
}

TEST_F(RobotMesh, FacesLookOutwards) {
  written("brick.stl", binary_stl(corners, sides));
  const scene::Model model = load({"brick.stl"});
  const scene::Hull& hull = *shapes(model)[0].shape.hull;
  double volume = 0;
  for (const auto& f : hull.faces) {
    const auto at = [&](std::size_t k) { return hull.vertices[static_cast<std::size_t>(f[k])]; };
    volume += at(0).dot(at(1).cross(at(2))) / 6;
  }
  EXPECT_NEAR(volume, edges.prod(), 1e-7);
}

TEST_F(RobotMesh, ScalesAndMirrors) {
  written("brick.stl", binary_stl(corners, sides));
  const scene::Model model =
      load({"brick.stl' scale='2 -1 0.5", "brick.stl' scale='2 -1 0.5", "brick.stl' scale='1 0 1"});
  ASSERT_EQ(shapes(model).size(), 2u);
  const Vector3d scale(2, -1, 0.5);
  expect_brick(shapes(model)[0], middle.cwiseProduct(scale), edges.cwiseProduct(scale.cwiseAbs()), "scaled");
  // Equal files with equal scale are read once.
  EXPECT_EQ(shapes(model)[0].shape.hull, shapes(model)[1].shape.hull);
  EXPECT_TRUE(says(model, "link \"a\" (brick.stl) has a collision mesh without volume, which is left out"));
}

TEST_F(RobotMesh, ColladaHasUnitsAndTransforms) {
  struct Case {
    std::string asset, nodes;
    Vector3d centre, size;
  };
  const Vector3d swapped(edges.y(), edges.x(), edges.z());
  const Case cases[] = {
      {"<unit name='cm' meter='0.01'/>", node, 0.01 * middle, 0.01 * edges},
      {"", "<node><translate>1 0 0</translate><rotate>0 0 1 90</rotate><scale>2 1 1</scale>" + instance + "</node>",
       Vector3d(1 - middle.y(), 2 * middle.x(), middle.z()), Vector3d(edges.y(), 2 * edges.x(), edges.z())},
      {"<unit meter='0.5'/>",
       "<node><matrix>0 -1 0 4 1 0 0 5 0 0 1 6 0 0 0 1</matrix><node>" + instance + "</node></node>",
       0.5 * Vector3d(4 - middle.y(), 5 + middle.x(), 6 + middle.z()), 0.5 * swapped},
      {"",
       "<node><translate>0 0 7</translate><instance_node url='#inner'/></node><node><node id='inner'>" + instance +
           "</node></node>",
       middle + Vector3d(0, 0, 7), edges},
  };
  for (const Case& c : cases) {
    written("brick.dae", dae(corners, sides, c.asset, c.nodes));
    const scene::Model model = load({"brick.dae"});
    ASSERT_GE(shapes(model).size(), 1u) << c.nodes << notes(model);
    expect_brick(shapes(model)[0], c.centre, c.size, c.nodes);
  }
}

TEST_F(RobotMesh, PartsOfAFileHaveAHullEach) {
  const Points far = [] {
    Points out = corners;
    for (Vector3d& p : out) p.x() += 5;
    return out;
  }();
  written("two.obj", "o one\n" + obj(corners, sides) + "o two\n" + obj(far, sides, 8));
  written("two.stl", text_stl(corners, sides) + text_stl(far, sides));
  written("two.dae", dae(corners, sides, "", node + "<node><translate>5 0 0</translate>" + instance + "</node>"));
  for (const char* name : {"two.obj", "two.stl", "two.dae"}) {
    const scene::Model model = load({name});
    ASSERT_EQ(shapes(model).size(), 2u) << name << notes(model);
    expect_brick(shapes(model)[0], middle, edges, name);
    expect_brick(shapes(model)[1], middle + Vector3d(5, 0, 0), edges, name);
  }
  // A part in one plane, or many parts: one hull of all.
  written("flat.obj", "o one\n" + obj(corners, sides) + "o two\nf 1 2 3\n");
  const scene::Model flat = load({"flat.obj"});
  ASSERT_EQ(shapes(flat).size(), 1u);
  expect_brick(shapes(flat)[0], middle, edges, "flat.obj");
  std::string many;
  for (int i = 0; i < 40; ++i) many += "g part\n" + obj(corners, sides, 8 * i);
  written("many.obj", many);
  const scene::Model one = load({"many.obj"});
  ASSERT_EQ(shapes(one).size(), 1u);
  expect_brick(shapes(one)[0], middle, edges, "many.obj");
}

TEST_F(RobotMesh, AHullOfFewVerticesIsCloseToItsMesh) {
  // Points on a sphere, of which a hull keeps 100.
  std::mt19937 random(1);
  std::normal_distribution<double> normal;
  Points points;
  for (int i = 0; i < 20000; ++i)
    points.push_back(Vector3d(normal(random), normal(random), normal(random)).normalized());
  Triangles triangles;
  for (int i = 0; i + 2 < 20000; i += 3) triangles.push_back({i, i + 1, i + 2});
  written("sphere.obj", obj(points, triangles));
  const scene::Model model = load({"sphere.obj"});
  const scene::Hull& hull = *shapes(model)[0].shape.hull;
  EXPECT_EQ(hull.vertices.size(), 100u);
  EXPECT_EQ(hull.faces.size(), 196u);
  double least = 1;
  for (const auto& f : hull.faces) {
    const auto at = [&](std::size_t k) { return hull.vertices[static_cast<std::size_t>(f[k])]; };
    const Vector3d n = (at(1) - at(0)).cross(at(2) - at(0)).normalized();
    least = std::min(least, n.dot(at(0) + shapes(model)[0].pose.p));
  }
  // 2.5 % of the diameter; docs/how-to/robots.md.
  EXPECT_GT(least, 0.95);
}

TEST_F(RobotMesh, AGridOnABoxGivesEightCorners) {
  // Many points in each plane and on each edge, in single precision and turned: what rounding could make into slivers.
  const Eigen::Matrix3d R = Eigen::AngleAxisd(0.7, Vector3d(1, 2, 3).normalized()).toRotationMatrix();
  for (const double far : {0.0, 100.0}) {
    Points points;
    Triangles triangles;
    for (int i = 0; i <= 20; ++i)
      for (int j = 0; j <= 20; ++j)
        for (int axis = 0; axis < 3; ++axis)
          for (const double side : {-0.5, 0.5}) {
            Vector3d p;
            p[axis] = side, p[(axis + 1) % 3] = i / 20.0 - 0.5, p[(axis + 2) % 3] = j / 20.0 - 0.5;
            points.push_back(R * p + Vector3d::Constant(far));
          }
    for (int i = 0; i + 2 < static_cast<int>(points.size()); i += 3) triangles.push_back({i, i + 1, i + 2});
    written("box.stl", binary_stl(points, triangles));
    const scene::Model model = load({"box.stl"});
    ASSERT_EQ(shapes(model).size(), 1u);
    const scene::PlacedShape& shape = shapes(model)[0];
    for (const Vector3d& corner : points)
      if ((R.transpose() * (corner - Vector3d::Constant(far))).cwiseAbs().minCoeff() > 0.4999) {
        double nearest = 1;
        for (const Vector3d& p : shape.shape.hull->vertices)
          nearest = std::min(nearest, (p + shape.pose.p - corner).norm());
        EXPECT_LT(nearest, 2e-5 * std::max(1.0, far)) << far;
      }
  }
}

// A grid of points on a ring, as closed strips.
std::pair<Points, Triangles> torus(int around, int across, double radius, double tube) {
  Points points;
  Triangles triangles;
  const auto number = [&](int i, int j) { return (i % around) * across + j % across; };
  for (int i = 0; i < around; ++i)
    for (int j = 0; j < across; ++j) {
      const double a = 2 * std::numbers::pi * i / around, b = 2 * std::numbers::pi * j / across;
      const double r = radius + tube * std::cos(b);
      points.emplace_back(r * std::cos(a), r * std::sin(a), tube * std::sin(b));
      triangles.push_back({number(i, j), number(i + 1, j), number(i + 1, j + 1)});
      triangles.push_back({number(i, j), number(i + 1, j + 1), number(i, j + 1)});
    }
  return {points, triangles};
}

std::vector<scene::Hull> decomposition(const std::string& mesh, int most) {
  const scene::Model model = scene::load_text(
      "schema = 2\n[model]\nurdf = 'robot.urdf'\nconvex_decomposition = " + std::to_string(most) + "\n",
      (written("robot.urdf",
               "<robot name='r'><link name='a'><inertial><mass value='1'/><inertia ixx='1' iyy='1' "
               "izz='1'/></inertial><collision><geometry><mesh filename='" +
                   mesh + "'/></geometry></collision></link></robot>")
           .parent_path() /
       "scene.toml")
          .string());
  std::vector<scene::Hull> out;
  for (const scene::PlacedShape& each : model.bodies.at(0).more_shapes)
    if (each.shape.hull) out.push_back(*each.shape.hull);
  return out;
}

double volume(const std::vector<scene::Hull>& hulls) {
  double sum = 0;
  for (const scene::Hull& hull : hulls)
    for (const auto& f : hull.faces) {
      const auto at = [&](std::size_t k) -> Vector3d { return hull.vertices[static_cast<std::size_t>(f[k])]; };
      sum += at(0).dot(at(1).cross(at(2))) / 6;
    }
  return sum;
}

TEST_F(RobotMesh, ConvexDecompositionIsCloseToHollowMeshes) {
  // An L of three unit cubes along x and z, 1 m thick: 3 m^3, while its hull has 3.5 m^3.
  const Points outline = {{0, 0, 0}, {2, 0, 0}, {2, 0, 1}, {1, 0, 1}, {1, 0, 2}, {0, 0, 2}};
  Points L = outline;
  for (const Vector3d& p : outline) L.emplace_back(p.x(), 1, p.z());
  Triangles faces;
  for (const auto& t : Triangles{{0, 1, 2}, {0, 2, 3}, {0, 3, 5}, {3, 4, 5}}) {
    faces.push_back(t);
    faces.push_back({t[0] + 6, t[2] + 6, t[1] + 6});
  }
  for (int i = 0; i < 6; ++i) {
    const int j = (i + 1) % 6;
    faces.push_back({i, i + 6, j});
    faces.push_back({j, i + 6, j + 6});
  }
  written("l.stl", binary_stl(L, faces));
  EXPECT_NEAR(volume(decomposition("l.stl", 1)), 3.5, 1e-9);
  for (const int most : {2, 8}) {
    const auto hulls = decomposition("l.stl", most);
    EXPECT_EQ(hulls.size(), 2u);
    EXPECT_NEAR(volume(hulls), 3, 0.01 * 3);
  }
  // A convex mesh is one hull.
  written("brick.stl", binary_stl(corners, sides));
  EXPECT_EQ(decomposition("brick.stl", 16).size(), 1u);
  // A ring of 1 m with a tube of 0.3 m. Half of what its hull has too much is gone at 12 hulls.
  const auto [points, triangles] = torus(64, 32, 1, 0.3);
  written("ring.stl", binary_stl(points, triangles));
  const double own = 2 * std::numbers::pi * std::numbers::pi * 0.09, whole = volume(decomposition("ring.stl", 1));
  const auto hulls = decomposition("ring.stl", 12), again = decomposition("ring.stl", 12);
  EXPECT_LE(hulls.size(), 12u);
  EXPECT_LT(volume(hulls) - own, 0.5 * (whole - own));
  ASSERT_EQ(hulls.size(), again.size());
  for (std::size_t i = 0; i < hulls.size(); ++i) {
    EXPECT_EQ(hulls[i].vertices, again[i].vertices);
    EXPECT_EQ(hulls[i].faces, again[i].faces);
  }
  // Fifty thousand triangles take no longer than the search in a thousand of them.
  const auto [many, fine] = torus(200, 125, 1, 0.3);
  written("fine.stl", binary_stl(many, fine));
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_LE(decomposition("fine.stl", 12).size(), 12u);
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), 30);
  // Without a volume there is no shape, as without a decomposition.
  written("flat.stl", binary_stl({{0, 0, 0}, {1, 0, 0}, {0, 1, 0}}, {{0, 1, 2}}));
  EXPECT_TRUE(decomposition("flat.stl", 8).empty());
}

TEST_F(RobotMesh, FlatMeshesAreLeftOut) {
  Points points = corners;
  for (Vector3d& p : points) p.z() = 3;
  written("flat.stl", binary_stl(points, sides));
  for (Vector3d& p : points) p.y() = 2;
  written("line.stl", binary_stl(points, sides));
  for (Vector3d& p : points) p.x() = 1;
  written("point.stl", binary_stl(points, sides));
  for (const char* name : {"flat.stl", "line.stl", "point.stl"}) {
    const scene::Model model = load({name});
    EXPECT_TRUE(shapes(model).empty()) << name;
    EXPECT_TRUE(says(model, "(" + std::string(name) + ") has a collision mesh without volume")) << notes(model);
  }
}

TEST_F(RobotMesh, AFileThatCannotBeReadIsLeftOut) {
  const std::string good = binary_stl(corners, sides);
  Points infinite = corners;
  infinite[0].x() = std::nan("");
  std::string endless = "<node id='n'><instance_node url='#n'/></node>";
  std::string bomb = node;  // each level has ten of the level before
  for (int i = 0; i < 9; ++i) {
    bomb += "<node id='l" + std::to_string(i) + "'>";
    for (int k = 0; k < 10; ++k) bomb += "<instance_node url='#" + (i == 0 ? "n" : "l" + std::to_string(i - 1)) + "'/>";
    bomb += "</node>";
  }
  const std::string sound = dae(corners, sides, "", node);
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string out = sound;
    out.replace(out.find(from), from.size(), to);
    return out;
  };
  struct Case {
    std::string name, text, reason;
  };
  const Case cases[] = {
      {"cut.stl", good.substr(0, 300), "has 12 triangles by its head, but ends after 4"},
      {"empty.stl", "", "is neither binary nor text STL"},
      {"nan.stl", binary_stl(infinite, sides), "has a corner of triangle 0 that is not finite"},
      {"none.stl", "solid x\nendsolid x\n", "has no triangles"},
      {"word.stl", "solid x\nvertex 1 two 3\n", "has \"two\" in place of a finite number"},
      {"index.obj", "v 0 0 0\nf 1 2 3\n", "has a face with vertex 2, but only 1 vertices before it"},
      {"index.obj", "v 0 0 0\nf -2 1 1\n", "has a face with vertex -2, but only 1 vertices before it"},
      {"nan.obj", "v 0 nan 0\n", "has \"nan\" in place of a finite number"},
      {"points.obj", "v 0 0 0\nv 1 0 0\n", "has no triangles"},
      {"far.obj", "v 1e12 0 0\nv 0 1 0\nv 0 0 1\nv 0 0 0\nf 1 2 3 4\n", "reaches beyond the supported range"},
      {"cut.dae", sound.substr(0, 500), "is not well-formed XML (line 1)"},
      {"other.dae", "<x3d/>", "begins with <x3d>, but COLLADA with <COLLADA>"},
      {"index.dae", changed("<p>0 0 ", "<p>8 0 "), "has a triangle with vertex 8, but only 8 vertices"},
      {"word.dae", changed("<p>0 0 ", "<p>x 0 "), "has \"x\" in place of an index"},
      {"reference.dae", changed("url=\"#g\"", "url=\"#h\""), "has an <instance_geometry> of \"h\", which is not there"},
      {"reference.dae", changed("url=\"#g\"", "url=\"/etc/passwd\""),
       "has an <instance_geometry> that refers to another file"},
      {"endless.dae", dae(corners, sides, "", endless), "has nodes more than 100 deep in one another"},
      {"bomb.dae", dae(corners, sides, "", bomb), "has more than 1000 nodes"},
      {"unit.dae", dae(corners, sides, "<unit meter='0'/>", node), "has a unit of \"0\" m"},
      {"skew.dae", dae(corners, sides, "", "<node><skew>1 2 3 4 5 6 7</skew>" + instance + "</node>"),
       "has a <skew> of a node, which is not supported"},
      {"mesh.ply", "ply\n", "is of another format than STL, OBJ and COLLADA (.dae)"},
      {"lfs.stl", "version https://git-lfs.github.com/spec/v1\n", "is a pointer of Git LFS"},
  };
  for (const Case& c : cases) {
    written(c.name, c.text);
    const scene::Model model = load({c.name});
    EXPECT_TRUE(shapes(model).empty()) << c.name;
    EXPECT_TRUE(says(model, "link \"a\" (" + c.name + " " + c.reason)) << c.reason << "\n" << notes(model);
    EXPECT_TRUE(says(model, "has a collision mesh that cannot be read and is left out")) << c.name;
  }
}

TEST_F(RobotMesh, FindsFilesOfPackages) {
  fs::remove_all(folder());  // of an earlier run
  const std::string mesh = binary_stl(corners, sides);
  const std::string urdf = link({"package://arm/meshes/brick.stl"});
  const auto finds = [&](const fs::path& robot) { return !shapes(scene::load(written(robot, urdf).string())).empty(); };
  // A folder above has the name, or the folder beside.
  written("above/arm/meshes/brick.stl", mesh);
  EXPECT_TRUE(finds("above/arm/urdf/deep/robot.urdf"));
  EXPECT_TRUE(finds("above/robot.urdf"));
  EXPECT_TRUE(finds("above/other/robot.urdf"));
  // A folder above whose package.xml has the name.
  written("renamed/meshes/brick.stl", mesh);
  EXPECT_FALSE(finds("renamed/urdf/robot.urdf"));
  written("renamed/package.xml", "<package format=\"2\">\n  <name> arm </name></package>");
  EXPECT_TRUE(finds("renamed/urdf/robot.urdf"));
  // The environment: a folder of packages, a package, and a prefix.
  EXPECT_FALSE(finds("alone/robot.urdf"));
  for (const auto& [variable, value] : {std::pair("ROS_PACKAGE_PATH", "/nowhere::" + (folder() / "above").string()),
                                        std::pair("ROS_PACKAGE_PATH", (folder() / "renamed").string() + ":/nowhere"),
                                        std::pair("ROS_PACKAGE_PATH", folder().string()),
                                        std::pair("AMENT_PREFIX_PATH", (folder() / "prefix").string())}) {
    written("prefix/share/arm/meshes/brick.stl", mesh);
    ASSERT_EQ(setenv(variable, value.c_str(), 1), 0);
    EXPECT_TRUE(finds("alone/robot.urdf")) << variable << "=" << value;
    unsetenv(variable);
  }
  // Absolute paths, with and without a scheme.
  const std::string path = written("brick.stl", mesh).string();
  for (const std::string& name : {path, "file://" + path, std::string("file://brick.stl")})
    EXPECT_EQ(shapes(load({name})).size(), 1u) << name;
  // What is missing is one note.
  const scene::Model lost =
      load({"package://arm/no.stl", "x.stl", "http://x/y.stl", "package://arm", "model://a/b.stl"});
  EXPECT_TRUE(shapes(lost).empty());
  EXPECT_TRUE(says(lost, "5 links have collision meshes whose files are missing: a (package://arm/no.stl), a (x.stl)"))
      << notes(lost);
}

TEST_F(RobotMesh, AZeroInertiaIsThatOfTheBoxAroundTheHulls) {
  written("brick.stl", binary_stl(corners, sides));
  const scene::Model model = scene::load(written("robot.urdf", link({"brick.stl"}, "0")).string());
  const Vector3d d = edges.cwiseAbs2() / 12;
  const Vector3d expected(d.y() + d.z(), d.z() + d.x(), d.x() + d.y());
  EXPECT_LT((model.bodies[0].inertia.diagonal() - expected).norm(), 1e-6);
}

TEST_F(RobotMesh, SdfReadsMeshes) {
  const auto model = [](const std::string& mesh) {
    return "<sdf version='1.7'><model name='m'><link name='a'><collision name='c'><geometry><mesh>" + mesh +
           "</mesh></geometry></collision></link></model></sdf>";
  };
  written("brick/meshes/two.obj", "o one\n" + obj(corners, sides) + "o two\n" + obj(corners, sides, 8));
  const auto read = [&](const std::string& mesh) {
    return scene::load(written("brick/model.sdf", model(mesh)).string());
  };
  try {
    const scene::Model all = read("<uri>model://brick/meshes/two.obj</uri><scale>1 1 2</scale>");
    ASSERT_EQ(shapes(all).size(), 2u) << notes(all);
    expect_brick(shapes(all)[1], middle.cwiseProduct(Vector3d(1, 1, 2)), edges.cwiseProduct(Vector3d(1, 1, 2)), "sdf");
    const scene::Model part = read("<uri>meshes/two.obj</uri><submesh><name>two</name><center>true</center></submesh>");
    ASSERT_EQ(shapes(part).size(), 1u) << notes(part);
    expect_brick(shapes(part)[0], Vector3d::Zero(), edges, "submesh");
    const scene::Model none = read("<uri>meshes/two.obj</uri><submesh><name>three</name></submesh>");
    EXPECT_TRUE(says(none, "has no part \"three\"")) << notes(none);
  } catch (const scene::SceneError& e) {
    if (e.message.find("built without SDF") == std::string::npos) throw;
    GTEST_SKIP() << "built without SDF";
  }
}

}  // namespace
}  // namespace linchpin::test::robot_mesh_test
