// URDF, by tinyxml2, which says on which line an element stands.
#include "robot_file.h"

#if LINCHPIN_URDF
#include "parts.h"
#include "robot_mesh.h"
#include "xml.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#endif

namespace linchpin::scene {

#if !LINCHPIN_URDF

RobotFile read_urdf(const std::string&, const std::string&, const Place& from, std::size_t) {
  fail(from, "this linchpin was built without URDF: build it where tinyxml2 is (Debian: libtinyxml2-dev)");
}

#else

namespace {

using Element = tinyxml2::XMLElement;
using Link = RobotFile::Link;
using Joint = RobotFile::Joint;
using Inertial = RobotFile::Inertial;

// As Joint::Kind; "spherical" is of Bullet's dialect.
const std::vector<std::string> kinds = {"revolute", "continuous", "prismatic", "fixed",
                                        "floating", "planar",     "spherical"};
const std::vector<std::string> shapes = {"box", "sphere", "cylinder", "capsule", "mesh", "plane"};

namespace notes {
using namespace scene::notes;
constexpr RobotNotes::Kind second_shape{"link", "has a second shape in one <geometry>, of which the first counts",
                                        "have a second shape in one <geometry>, of which the first counts",
                                        "A link may have more than one <collision>"};
constexpr RobotNotes::Kind second_axis{"joint", "has a second <axis>, of which the first counts",
                                       "have a second <axis>, of which the first counts"};
constexpr RobotNotes::Kind no_axis{"joint", "has an empty <axis>, which it does not need",
                                   "have an empty <axis>, which they do not need"};
constexpr RobotNotes::Kind no_limits{"joint", "gives neither lower nor upper and moves without limits",
                                     "give neither lower nor upper and move without limits"};
constexpr RobotNotes::Kind endless{"joint", "has limits beyond 1e9 and moves without limits",
                                   "have limits beyond 1e9 and move without limits"};
constexpr RobotNotes::Kind crossed{"joint", "has lower above upper, which means no limits as in Bullet",
                                   "have lower above upper, which means no limits as in Bullet"};
constexpr RobotNotes::Kind negative_bound{"joint", "has a negative effort or velocity, which bounds no actuator",
                                          "have a negative effort or velocity, which bounds no actuator"};
constexpr RobotNotes::Kind limits_of_ball{"joint", "is a ball joint, whose limits are left out",
                                          "are ball joints, whose limits are left out"};
constexpr RobotNotes::Kind no_law{"joint", "has damping or friction, which is left out for joints of its kind",
                                  "have damping or friction, which is left out for joints of their kind"};
constexpr RobotNotes::Kind trailing_comma{"element", "has a comma after a number, which is left out",
                                          "have a comma after a number, which is left out"};
constexpr RobotNotes::Kind more_numbers{"element", "has more than three numbers, of which the first three count",
                                        "have more than three numbers, of which the first three count"};
}  // namespace notes

class Reader {
 public:
  Reader(const std::string& text, const std::string& path, std::size_t mesh_hulls)
      : source_(std::make_shared<const Source>(path, text)), meshes_(mesh_hulls) {}

  RobotFile read() {
    if (const std::size_t zeros = parse_xml(document_, source_, "a URDF file begins with <robot name=\"…\">"))
      out_.notes.add(note_of_zeros(zeros));
    const Element* root = document_.RootElement();
    if (!root) scene::fail({source_, 0, 0}, "holds no XML element; a URDF file begins with <robot name=\"…\">");
    const std::string_view name = root->Name();
    if (name == "mujoco")
      fail(root, "<mujoco>: this is MJCF, the format of MuJoCo, and not URDF. Write mjcf = in place of urdf =");
    if (name != "robot")
      fail(root, "<" + std::string(name) + ">: a URDF file begins with <robot name=\"…\">" +
                     (name == "sdf" ? "; this is SDF, whose files end in .sdf" : ""));
    for (const Element* each = root->FirstChildElement(); each; each = each->NextSiblingElement()) {
      const std::string_view part = each->Name();
      if (part == "link" || part == "joint" || part.starts_with("xacro:")) refuse_xacro(source_, *each);
      if (part == "link") read_link(each);
    }
    if (out_.links.empty())
      fail(root, "<robot>: holds no <link>" + (root->Attribute("xmlns:xacro")
                                                   ? "; " + expand_xacro(source_->path)
                                                   : std::string(", so there is nothing to simulate")));
    declare_world();
    for (const Element* each = root->FirstChildElement("joint"); each; each = each->NextSiblingElement("joint"))
      read_joint(each);
    order();
    resolve_mimics(out_);
    return std::move(out_);
  }

 private:
  // ---- places and messages ----

  Place place_of(const Element* e) const {
    return scene::place_of(source_, e->GetLineNum(), "<" + std::string(e->Name()));
  }
  [[noreturn]] void fail(const Element* e, const std::string& message) const { scene::fail(place_of(e), message); }
  [[noreturn]] void fail(const Element* e, const char* attribute, const std::string& message) const {
    for (const auto* a = e->FirstAttribute(); a; a = a->Next())
      if (std::string_view(a->Name()) == attribute)
        scene::fail(scene::place_of(source_, a->GetLineNum(), attribute), message);
    fail(e, message);
  }
  // "joint "elbow", <axis>": what a message is about.
  static std::string within(const std::string& who, const Element* e) { return who + ", <" + e->Name() + ">"; }

  // An element there is one of at most; null without one.
  const Element* only(const Element* of, const char* name, const std::string& who) const {
    const Element* first = of->FirstChildElement(name);
    if (const Element* second = first ? first->NextSiblingElement(name) : nullptr)
      fail(second, who + " has a second <" + std::string(name) + ">; the first stands in line " +
                       std::to_string(first->GetLineNum()));
    return first;
  }

  // ---- values ----

  double number(const Element* e, const char* attribute, const std::string& word, const std::string& who,
                double largest = 1e9) const {
    double x = 0;
    const char *begin = word.data() + (word.starts_with('+') ? 1 : 0), *end = word.data() + word.size();
    const auto [stop, error] = std::from_chars(begin, end, x);
    if (error == std::errc::result_out_of_range && stop == end)
      fail(e, attribute,
           within(who, e) + ": " + attribute + ": \"" + word + "\" is outside the range of double precision");
    if (error != std::errc() || stop != end)
      fail(e, attribute, within(who, e) + ": " + attribute + ": \"" + word + "\" is not a number");
    if (std::isnan(x) || (std::isinf(x) && !std::isinf(largest)))
      fail(e, attribute, within(who, e) + ": " + attribute + ": \"" + word + "\" is not finite");
    if (std::abs(x) > largest)
      fail(e, attribute,
           within(who, e) + ": " + attribute + ": \"" + word + "\" is outside the supported range (1e9). Use SI units");
    return x;
  }
  // The words of an attribute, of which there must be so many; none where it is not there.
  std::optional<std::vector<std::string>> words_if(const Element* e, const char* attribute, const std::string& who,
                                                   std::size_t many, const char* what) const {
    const char* text = e->Attribute(attribute);
    if (!text) return {};
    auto all = words_of(text);
    if (all.size() != many)
      fail(e, attribute, within(who, e) + ": " + attribute + ": \"" + std::string(text) + "\" is not " + what);
    return all;
  }
  std::optional<double> number_if(const Element* e, const char* attribute, const std::string& who,
                                  double largest = 1e9) const {
    const auto all = words_if(e, attribute, who, 1, "one number");
    if (!all) return {};
    return number(e, attribute, (*all)[0], who, largest);
  }
  // A bound of a motor. Many files have 0 where their author knows none, so 0 is no bound.
  std::optional<double> bound_of_motor(const Element* e, const char* attribute, const std::string& who) const {
    const auto bound = limit_if(e, attribute, who);
    return bound && *bound > 0 && *bound < no_limit ? bound : std::nullopt;
  }

  // A limit of a joint, of which infinity and numbers like 1e16 are none.
  std::optional<double> limit_if(const Element* e, const char* attribute, const std::string& who) const {
    return number_if(e, attribute, who, std::numeric_limits<double>::infinity());
  }
  double number(const Element* e, const char* attribute, const std::string& who) const {
    const auto x = number_if(e, attribute, who);
    if (!x) fail(e, within(who, e) + " has no " + attribute + "=\"…\"");
    return *x;
  }
  std::optional<Vector3d> vector_if(const Element* e, const char* attribute, const std::string& who) {
    const char* text = e->Attribute(attribute);
    if (!text) return {};
    std::string where = who + " <" + e->Name() + ">";
    std::erase(where, '"');
    auto all = words_of(text);
    for (std::string& word : all)
      if (word.size() > 1 && word.ends_with(',')) {
        word.pop_back();
        out_.notes.add(notes::trailing_comma, where);
      }
    if (all.size() < 3)
      fail(e, attribute, within(who, e) + ": " + attribute + ": \"" + std::string(text) + "\" is not three numbers");
    if (all.size() > 3) out_.notes.add(notes::more_numbers, where);
    Vector3d out;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const double x = number(e, attribute, all[i], who);
      if (i < 3) out[static_cast<Eigen::Index>(i)] = x;
    }
    return out;
  }
  // A length of a shape. A length of 0 makes no shape, and one below 0 is a mistake.
  double length(const Element* e, const char* attribute, const std::string& who) const {
    const double x = number(e, attribute, who);
    if (x < 0) fail(e, attribute, within(who, e) + ": " + attribute + " must be above 0");
    return x;
  }
  Pose origin_of(const Element* parent, const std::string& who) {
    const Element* e = only(parent, "origin", who);
    if (!e) return {};
    Pose out;
    out.p = vector_if(e, "xyz", who).value_or(Vector3d::Zero());
    if (const auto q = words_if(e, "quat_xyzw", who, 4, "four numbers")) {
      const auto x = [&](std::size_t i) { return number(e, "quat_xyzw", (*q)[i], who); };
      out.q = Quaterniond(x(3), x(0), x(1), x(2));
      if (!(std::abs(out.q.norm() - 1) < 1e-3)) fail(e, "quat_xyzw", within(who, e) + ": a quaternion of length 1");
      out.q.normalize();
      return out;
    }
    const Vector3d rpy = vector_if(e, "rpy", who).value_or(Vector3d::Zero());
    out.q = Quaterniond(Eigen::Quaterniond(Eigen::AngleAxisd(rpy.z(), Vector3d::UnitZ()) *
                                           Eigen::AngleAxisd(rpy.y(), Vector3d::UnitY()) *
                                           Eigen::AngleAxisd(rpy.x(), Vector3d::UnitX())));
    return out;
  }
  std::string name_of(const Element* e) const {
    const char* name = e->Attribute("name");
    if (!name || !*name) fail(e, "<" + std::string(e->Name()) + "> has no name");
    return name;
  }
  // ---- the file ----

  void read_link(const Element* e) {
    if (out_.links.size() == most_links)
      fail(e, "the robot has more than " + std::to_string(most_links) + " links, which is the limit");
    Link link;
    link.name = name_of(e);
    link.at = place_of(e);
    const std::string who = "link \"" + link.name + "\"";
    if (!link_at_.emplace(link.name, static_cast<int>(out_.links.size())).second)
      fail(e, "name", "there are two links \"" + link.name + "\"");
    if (const Element* inertial = only(e, "inertial", who)) link.inertial = read_inertial(inertial, who);
    for (const Element* each = e->FirstChildElement("collision"); each; each = each->NextSiblingElement("collision"))
      read_collision(each, link, who);
    out_.links.push_back(std::move(link));
  }

  Inertial read_inertial(const Element* e, const std::string& who) {
    Inertial out;
    out.frame = origin_of(e, who);
    const Element* mass = only(e, "mass", within(who, e));
    if (!mass) fail(e, within(who, e) + " has no <mass value=\"…\"/>");
    out.mass = number(mass, "value", who);
    if (out.mass < 0) fail(mass, "value", within(who, mass) + ": a mass below 0");
    const Element* inertia = only(e, "inertia", within(who, e));
    out.at = place_of(inertia ? inertia : e);
    if (!inertia) return out;
    const auto entry = [&](const char* attribute) { return number(inertia, attribute, who); };
    const auto product = [&](const char* attribute) { return number_if(inertia, attribute, who).value_or(0); };
    const double xy = product("ixy"), xz = product("ixz"), yz = product("iyz");
    const double xx = entry("ixx"), yy = entry("iyy"), zz = entry("izz");  // which may throw, and not in the middle
    out.inertia << xx, xy, xz, xy, yy, yz, xz, yz, zz;
    return out;
  }

  void read_collision(const Element* e, Link& link, const std::string& who) {
    const Element* geometry = only(e, "geometry", within(who, e));
    if (!geometry) fail(e, within(who, e) + " has no <geometry>");
    const Element* shape = geometry->FirstChildElement();
    if (!shape) fail(geometry, within(who, geometry) + " is empty");
    if (shape->NextSiblingElement()) out_.notes.add(notes::second_shape, link.name);
    PlacedShape out;
    out.pose = origin_of(e, who);
    const std::string kind = shape->Name();
    if (kind == "box") {
      const auto size = vector_if(shape, "size", who);
      if (!size) fail(shape, within(who, shape) + " has no size=\"…\"");
      if (size->minCoeff() < 0) fail(shape, "size", within(who, shape) + ": every edge must be above 0");
      out.shape = {Shape::Kind::box, *size};
    } else if (kind == "sphere") {
      out.shape = {Shape::Kind::sphere, {length(shape, "radius", who), 0, 0}};
    } else if (kind == "cylinder" || kind == "capsule") {
      out.shape = {kind == "capsule" ? Shape::Kind::capsule : Shape::Kind::cylinder,
                   {length(shape, "radius", who), length(shape, "length", who), 0}};
      out.pose.q = out.pose.q * upright();
    } else if (kind == "mesh") {
      read_mesh_of(shape, out.pose, link, who);
      return;
    } else if (kind == "plane") {
      const Vector3d normal = vector_if(shape, "normal", who).value_or(Vector3d::UnitZ());
      if (!(normal.norm() > 1e-9)) fail(shape, "normal", within(who, shape) + ": a normal of length zero");
      link.planes.push_back(half_space(out.pose, normal.normalized()));
      out_.notes.add(notes::plane, link.name);
      return;
    } else {
      out_.notes.add(notes::no_shape, link.name, "<" + kind + ">" + suggestion(kind, shapes));
      return;
    }
    if (const Vector3d& size = out.shape.size; !(size.head(lengths_of(out.shape.kind)).minCoeff() > 0))
      out_.notes.add(notes::no_size, link.name);
    else
      link.shapes.push_back(out);
  }
  static Eigen::Index lengths_of(Shape::Kind kind) {
    return kind == Shape::Kind::box ? 3 : kind == Shape::Kind::sphere ? 1 : 2;
  }

  void read_mesh_of(const Element* e, const Pose& pose, Link& link, const std::string& who) {
    const char* file = e->Attribute("filename");
    if (!file || !*file) fail(e, within(who, e) + " has no filename=\"…\"");
    const Vector3d scale = vector_if(e, "scale", who).value_or(Vector3d::Ones());
    meshes_.add({file, source_->path, scale}, pose, link, out_);
  }

  // The world may be the parent of a joint without being a link of the file.
  void declare_world() {
    if (link_at_.contains("world")) return;
    const Element* root = document_.RootElement();
    for (const Element* each = root->FirstChildElement("joint"); each; each = each->NextSiblingElement("joint")) {
      const Element* parent = each->FirstChildElement("parent");
      const char* name = parent ? parent->Attribute("link") : nullptr;
      if (!name || std::string_view(name) != "world") continue;
      link_at_.emplace("world", static_cast<int>(out_.links.size()));
      Link world;
      world.name = "world";
      world.at = place_of(parent);
      out_.links.push_back(std::move(world));
      out_.notes.add("the parent link \"world\" is not a link of the file and is taken as the world");
      return;
    }
  }

  int link_named(const Element* joint, const char* which, const std::string& who) const {
    const Element* e = only(joint, which, who);
    if (!e) fail(joint, who + " has no <" + which + " link=\"…\"/>");
    const char* name = e->Attribute("link");
    if (!name) fail(e, within(who, e) + " has no link=\"…\"");
    const auto found = link_at_.find(name);
    if (found != link_at_.end()) return found->second;
    std::vector<std::string> known;
    for (const Link& link : out_.links) known.push_back(link.name);
    fail(e, "link", within(who, e) + ": there is no link \"" + name + "\"" + suggestion(name, known));
  }

  void read_joint(const Element* e) {
    Joint joint;
    joint.name = name_of(e);
    joint.at = place_of(e);
    const std::string who = "joint \"" + joint.name + "\"";
    if (!joint_at_.emplace(joint.name, static_cast<int>(out_.joints.size())).second)
      fail(e, "name", "there are two joints \"" + joint.name + "\"");
    const char* type = e->Attribute("type");
    if (!type) fail(e, who + " has no type");
    const auto kind = std::find(kinds.begin(), kinds.end(), type);
    if (kind == kinds.end()) fail(e, "type", who + ": unknown type \"" + type + "\"" + suggestion(type, kinds));
    joint.kind = static_cast<Joint::Kind>(kind - kinds.begin());
    joint.parent = link_named(e, "parent", who);
    joint.child = link_named(e, "child", who);
    const std::string& child = out_.links[static_cast<std::size_t>(joint.child)].name;
    if (joint.parent == joint.child) fail(e, who + " joins link \"" + child + "\" to itself");
    Link& link = out_.links[static_cast<std::size_t>(joint.child)];
    if (link.joint >= 0)
      fail(e->FirstChildElement("child"), who + ": link \"" + child + "\" has a parent already, by joint \"" +
                                              out_.joints[static_cast<std::size_t>(link.joint)].name +
                                              "\": a URDF file is a tree; close the loop by a [[joint]] in a scene");
    link.joint = static_cast<int>(out_.joints.size());
    joint.in_parent = origin_of(e, who);
    read_axis(e, joint, who);
    if (const Element* dynamics = only(e, "dynamics", who)) {
      joint.damping = number_if(dynamics, "damping", who).value_or(0);
      joint.friction = number_if(dynamics, "friction", who).value_or(0);
      if (joint.damping < 0) fail(dynamics, "damping", within(who, dynamics) + ": damping below 0");
      if (joint.friction < 0) fail(dynamics, "friction", within(who, dynamics) + ": friction below 0");
      joint.stiffness = number_if(dynamics, "spring_stiffness", who).value_or(0);
      joint.spring_reference = number_if(dynamics, "spring_reference", who).value_or(0);
      joint.armature = number_if(dynamics, "armature", who).value_or(0);
      for (const char* attribute : {"spring_stiffness", "armature"})
        if (number_if(dynamics, attribute, who).value_or(0) < 0)
          fail(dynamics, attribute, within(who, dynamics) + ": " + attribute + " below 0");
      const bool could_move = joint.kind != Joint::Kind::fixed;
      if (could_move && (joint.damping > 0 || joint.friction > 0) && !joint.turns() && !joint.slides())
        out_.notes.add(notes::no_law, joint.name, to_string(joint.kind));
    }
    read_limit(e, joint, who);
    if (const Element* mimic = only(e, "mimic", who)) {
      const char* of = mimic->Attribute("joint");
      if (!of) fail(mimic, within(who, mimic) + " has no joint=\"…\"");
      joint.mimic = Joint::Mimic{of, -1, place_of(mimic), number_if(mimic, "multiplier", who).value_or(1),
                                 number_if(mimic, "offset", who).value_or(0)};
      if (const char* name = mimic->Attribute("name")) joint.mimic->name = name;
    }
    out_.joints.push_back(std::move(joint));
  }

  void read_axis(const Element* e, Joint& joint, const std::string& who) {
    const Element* axis = e->FirstChildElement("axis");
    if (!axis) return;
    if (axis->NextSiblingElement("axis")) out_.notes.add(notes::second_axis, joint.name);
    const bool used = joint.turns() || joint.slides() || joint.kind == Joint::Kind::planar;
    if (!used) {
      const char* text = axis->Attribute("xyz");
      if (!text || words_of(text).empty()) out_.notes.add(notes::no_axis, joint.name);
      return;
    }
    const auto xyz = vector_if(axis, "xyz", who);
    if (!xyz) fail(axis, within(who, axis) + " has no xyz=\"…\"");
    if (!(xyz->norm() > 1e-9)) fail(axis, "xyz", within(who, axis) + ": an axis of length zero has no direction");
    joint.axis = xyz->normalized();
  }

  void read_limit(const Element* e, Joint& joint, const std::string& who) {
    const Element* limit = only(e, "limit", who);
    const bool limited = joint.kind == Joint::Kind::revolute || joint.slides();
    if (!limit) {
      if (limited) out_.notes.add(notes::no_limits, joint.name);
      return;
    }
    const auto lower = limit_if(limit, "lower", who), upper = limit_if(limit, "upper", who);
    joint.max_force = bound_of_motor(limit, "effort", who);
    joint.max_rate = bound_of_motor(limit, "velocity", who);
    const auto is_negative = [&](const char* attribute) { return limit_if(limit, attribute, who).value_or(0) < 0; };
    if (is_negative("effort") || is_negative("velocity")) out_.notes.add(notes::negative_bound, joint.name);
    if (joint.kind == Joint::Kind::ball && (lower || upper)) out_.notes.add(notes::limits_of_ball, joint.name);
    if (!limited) return;
    if (!lower && !upper) {
      out_.notes.add(notes::no_limits, joint.name);
      return;
    }
    joint.limits = {lower.value_or(0), upper.value_or(0)};
    const bool low = joint.limits->first > -no_limit, high = joint.limits->second < no_limit;
    const bool crossed = joint.limits->first > joint.limits->second;
    if (low && high && !crossed) return;
    joint.limits.reset();
    if (std::isinf(lower.value_or(0)) && std::isinf(upper.value_or(0))) return;
    out_.notes.add(crossed ? notes::crossed : low != high ? notes::one_limit : notes::endless, joint.name);
  }

  // Links from the root outwards. @throws for what is no tree.
  void order() {
    int root = -1;
    for (int i = 0; i < size(); ++i) {
      if (link(i).joint >= 0) continue;
      if (root >= 0)
        scene::fail(link(i).at, "links \"" + link(root).name + "\" and \"" + link(i).name +
                                    "\" both have no parent, but a robot has one root");
      root = i;
    }
    if (root < 0) {
      // Any link leads into a cycle upwards.
      int at = 0;
      for (int i = 0; i < size(); ++i) at = joint(link(at).joint).parent;
      refuse_cycle(at);
    }
    std::vector<std::vector<int>> children(out_.links.size());
    for (int i = 0; i < size(); ++i)
      if (link(i).joint >= 0) children[static_cast<std::size_t>(joint(link(i).joint).parent)].push_back(i);
    out_.order = {root};
    for (std::size_t k = 0; k < out_.order.size(); ++k)
      for (const int child : children[static_cast<std::size_t>(out_.order[k])]) out_.order.push_back(child);
    if (out_.order.size() == out_.links.size()) return;
    std::vector<char> reached(out_.links.size());
    for (const int i : out_.order) reached[static_cast<std::size_t>(i)] = 1;
    int at = static_cast<int>(std::find(reached.begin(), reached.end(), 0) - reached.begin());
    for (int i = 0; i < size(); ++i) at = joint(link(at).joint).parent;
    refuse_cycle(at);
  }
  [[noreturn]] void refuse_cycle(int at) const {
    std::string names;
    int link_in = at, shown_names = 0;
    do {
      if (++shown_names <= 5) names += (names.empty() ? "\"" : ", \"") + link(link_in).name + "\"";
      link_in = joint(link(link_in).joint).parent;
    } while (link_in != at);
    scene::fail(joint(link(at).joint).at,
                "the links " + names + (shown_names > 5 ? ", …" : "") +
                    " form a cycle. A URDF file must be a tree. Close the loop by a [[joint]] in a scene");
  }

  int size() const { return static_cast<int>(out_.links.size()); }
  const Link& link(int i) const { return out_.links[static_cast<std::size_t>(i)]; }
  const Joint& joint(int i) const { return out_.joints[static_cast<std::size_t>(i)]; }

  std::shared_ptr<const Source> source_;
  tinyxml2::XMLDocument document_;
  std::map<std::string, int, std::less<>> link_at_, joint_at_;
  RobotMeshes meshes_;
  RobotFile out_;
};

}  // namespace

RobotFile read_urdf(const std::string& text, const std::string& path, const Place&, std::size_t mesh_hulls) {
  return Reader(text, path, mesh_hulls).read();
}

#endif

}  // namespace linchpin::scene
