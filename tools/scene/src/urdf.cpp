// URDF, by tinyxml2, which says on which line an element stands.
#include "robot_file.h"

#if LINCHPIN_URDF
#include "parts.h"
#include "xml.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <map>
#endif

namespace linchpin::scene {

#if !LINCHPIN_URDF

RobotFile read_urdf(const std::string&, const std::string&, const Place& from) {
  fail(from, "this linchpin was built without URDF: build it where tinyxml2 is (Debian: libtinyxml2-dev)");
}

#else

namespace {

using Element = tinyxml2::XMLElement;
using Link = RobotFile::Link;
using Joint = RobotFile::Joint;
using Inertial = RobotFile::Inertial;

const std::vector<std::string> kinds = {"revolute", "continuous", "prismatic", "fixed", "floating", "planar"};

class Reader {
 public:
  Reader(const std::string& text, const std::string& path) : source_(std::make_shared<const Source>(path, text)) {}

  RobotFile read() {
    parse_xml(document_, source_, "a URDF file begins with <robot name=\"…\">");
    const Element* root = document_.RootElement();
    if (!root) scene::fail({source_, 0, 0}, "holds no XML element; a URDF file begins with <robot name=\"…\">");
    if (std::string_view(root->Name()) != "robot")
      fail(root, "<" + std::string(root->Name()) + ">: a URDF file begins with <robot name=\"…\">" +
                     (std::string_view(root->Name()) == "sdf" ? "; this is SDF, whose files end in .sdf" : ""));
    for (const Element* each = root->FirstChildElement(); each; each = each->NextSiblingElement()) {
      const std::string_view name = each->Name();
      if (name.find("xacro:") == 0) fail(each, "<" + std::string(name) + ">: this is xacro; expand it to URDF first");
      if (name == "link") read_link(each);
    }
    if (out_.links.empty()) fail(root, "<robot>: holds no <link>");
    for (const Element* each = root->FirstChildElement("joint"); each; each = each->NextSiblingElement("joint"))
      read_joint(each);
    if (!unlimited_.empty()) out_.notes.push_back(note_of_unlimited());
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

  double number(const Element* e, const char* attribute, const std::string& word, const std::string& who) const {
    double x = 0;
    const char *begin = word.data() + (word.starts_with('+') ? 1 : 0), *end = word.data() + word.size();
    const auto [stop, error] = std::from_chars(begin, end, x);
    if (error == std::errc::result_out_of_range && stop == end)
      fail(e, attribute,
           within(who, e) + ": " + attribute + ": \"" + word + "\" is outside the range of double precision");
    if (error != std::errc() || stop != end)
      fail(e, attribute, within(who, e) + ": " + attribute + ": \"" + word + "\" is not a number");
    if (!std::isfinite(x)) fail(e, attribute, within(who, e) + ": " + attribute + ": \"" + word + "\" is not finite");
    if (std::abs(x) > 1e9)
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
  std::optional<double> number_if(const Element* e, const char* attribute, const std::string& who) const {
    const auto all = words_if(e, attribute, who, 1, "one number");
    if (!all) return {};
    return number(e, attribute, (*all)[0], who);
  }
  double number(const Element* e, const char* attribute, const std::string& who) const {
    const auto x = number_if(e, attribute, who);
    if (!x) fail(e, within(who, e) + " has no " + attribute + "=\"…\"");
    return *x;
  }
  std::optional<Vector3d> vector_if(const Element* e, const char* attribute, const std::string& who) const {
    const auto all = words_if(e, attribute, who, 3, "three numbers");
    if (!all) return {};
    Vector3d out;
    for (Eigen::Index i = 0; i < 3; ++i) out[i] = number(e, attribute, (*all)[static_cast<std::size_t>(i)], who);
    return out;
  }
  double length(const Element* e, const char* attribute, const std::string& who) const {
    const double x = number(e, attribute, who);
    if (!(x > 0)) fail(e, attribute, within(who, e) + ": " + attribute + " must be above 0");
    return x;
  }
  Pose origin_of(const Element* parent, const std::string& who) const {
    const Element* e = only(parent, "origin", who);
    if (!e) return {};
    Pose out;
    out.p = vector_if(e, "xyz", who).value_or(Vector3d::Zero());
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
    if (const std::string why = refusal_of_mass(out.mass); out.mass > 0 && !why.empty())
      fail(mass, "value", within(who, mass) + ": " + why + "; a link without any is a frame, its mass 0");
    const Element* inertia = only(e, "inertia", within(who, e));
    if (!inertia) fail(e, within(who, e) + " has no <inertia ixx=\"…\" …/>");
    const auto entry = [&](const char* attribute) { return number(inertia, attribute, who); };
    const auto product = [&](const char* attribute) { return number_if(inertia, attribute, who).value_or(0); };
    const double xy = product("ixy"), xz = product("ixz"), yz = product("iyz");
    const double xx = entry("ixx"), yy = entry("iyy"), zz = entry("izz");  // which may throw, and not in the middle
    out.inertia << xx, xy, xz, xy, yy, yz, xz, yz, zz;
    if (out.mass == 0) return out;  // a frame, whatever its inertia says
    if (const std::string why = refusal_of(out.inertia); !why.empty()) fail(inertia, within(who, inertia) + ": " + why);
    if (const std::string doubt = doubt_of(out.inertia); !doubt.empty())
      out_.warnings.push_back(warning(place_of(inertia), within(who, inertia) + ": " + doubt));
    return out;
  }

  void read_collision(const Element* e, Link& link, const std::string& who) {
    const Element* geometry = only(e, "geometry", within(who, e));
    if (!geometry) fail(e, within(who, e) + " has no <geometry>");
    const Element* shape = geometry->FirstChildElement();
    if (!shape) fail(geometry, within(who, geometry) + " is empty");
    if (const Element* second = shape->NextSiblingElement())
      fail(second, within(who, geometry) + " has a second shape; a link may have more than one <collision>");
    PlacedShape out;
    out.pose = origin_of(e, who);
    const std::string kind = shape->Name();
    if (kind == "box") {
      const auto size = vector_if(shape, "size", who);
      if (!size) fail(shape, within(who, shape) + " has no size=\"…\"");
      if (!(size->minCoeff() > 0)) fail(shape, "size", within(who, shape) + ": every edge must be above 0");
      out.shape = {Shape::Kind::box, *size};
    } else if (kind == "sphere") {
      out.shape = {Shape::Kind::sphere, {length(shape, "radius", who), 0, 0}};
    } else if (kind == "cylinder" || kind == "capsule") {
      out.shape = {kind == "capsule" ? Shape::Kind::capsule : Shape::Kind::cylinder,
                   {length(shape, "radius", who), length(shape, "length", who), 0}};
      out.pose.q = out.pose.q * upright();
    } else if (kind == "mesh") {
      check_mesh(shape, who);
      return;
    } else {
      fail(shape,
           within(who, shape) + ": unknown shape" + suggestion(kind, {"box", "sphere", "cylinder", "capsule", "mesh"}));
    }
    link.shapes.push_back(out);
  }

  void check_mesh(const Element* e, const std::string& who) {
    const char* file = e->Attribute("filename");
    if (!file || !*file) fail(e, within(who, e) + " has no filename=\"…\"");
    std::string name = file;
    if (name.starts_with("file://")) name = name.substr(7);
    std::error_code error;
    const auto path = std::filesystem::path(source_->path).parent_path() / name;
    if (name.find("://") == std::string::npos && !std::filesystem::exists(path, error))
      fail(e, "filename", within(who, e) + ": there is no file \"" + name + "\"");
    out_.notes.push_back(who + " collides with nothing by its mesh \"" + name +
                         "\": meshes are not read; give it boxes, spheres, cylinders or capsules");
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
    if (const Element* axis = only(e, "axis", who)) {
      const auto xyz = vector_if(axis, "xyz", who);
      if (!xyz) fail(axis, within(who, axis) + " has no xyz=\"…\"");
      const bool used = joint.kind != Joint::Kind::fixed && joint.kind != Joint::Kind::floating;
      if (used && !(xyz->norm() > 1e-9))
        fail(axis, "xyz", within(who, axis) + ": an axis of length zero has no direction");
      if (used) joint.axis = xyz->normalized();
    }
    if (const Element* dynamics = only(e, "dynamics", who)) {
      joint.damping = number_if(dynamics, "damping", who).value_or(0);
      joint.friction = number_if(dynamics, "friction", who).value_or(0);
      if (joint.damping < 0) fail(dynamics, "damping", within(who, dynamics) + ": damping below 0");
      if (joint.friction < 0) fail(dynamics, "friction", within(who, dynamics) + ": friction below 0");
      if ((joint.damping > 0 || joint.friction > 0) && !joint.turns() && !joint.slides())
        out_.notes.push_back(who + ": damping and friction of a " + std::string(to_string(joint.kind)) +
                             " joint are left out");
    }
    read_limit(e, joint, who);
    if (const Element* mimic = only(e, "mimic", who)) {
      const char* of = mimic->Attribute("joint");
      if (!of) fail(mimic, within(who, mimic) + " has no joint=\"…\"");
      joint.mimic = Joint::Mimic{of, -1, place_of(mimic), number_if(mimic, "multiplier", who).value_or(1),
                                 number_if(mimic, "offset", who).value_or(0)};
    }
    out_.joints.push_back(std::move(joint));
  }

  void read_limit(const Element* e, Joint& joint, const std::string& who) {
    const Element* limit = only(e, "limit", who);
    if (!limit) {
      if (joint.kind == Joint::Kind::revolute || joint.slides())
        fail(e, who + ": a " + std::string(to_string(joint.kind)) + " joint needs a <limit>" +
                    (joint.turns() ? "; one without limits is a continuous joint" : ""));
      return;
    }
    const auto lower = number_if(limit, "lower", who), upper = number_if(limit, "upper", who);
    for (const char* ignored : {"effort", "velocity"})  // bounds of motors: read so that nonsense in them is told
      (void)number_if(limit, ignored, who);
    if (joint.kind != Joint::Kind::revolute && !joint.slides()) return;
    if (!lower && !upper) {
      unlimited_.push_back("\"" + joint.name + "\"");
      return;
    }
    joint.limits = {lower.value_or(0), upper.value_or(0)};
    if (joint.limits->first > joint.limits->second)
      fail(limit, "lower",
           within(who, limit) + ": lower " + shown(joint.limits->first) + " is above upper " +
               shown(joint.limits->second));
  }

  std::string note_of_unlimited() const {
    if (unlimited_.size() == 1)
      return "joint " + unlimited_[0] + " gives neither lower nor upper: it moves without limits";
    std::string names;
    for (const std::string& name : unlimited_) names += (names.empty() ? "" : ", ") + name;
    return "the joints " + names + " give neither lower nor upper: they move without limits";
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
  std::vector<std::string> unlimited_;  // joints that may have limits and give none, quoted
  RobotFile out_;
};

}  // namespace

RobotFile read_urdf(const std::string& text, const std::string& path, const Place&) {
  return Reader(text, path).read();
}

#endif

}  // namespace linchpin::scene
