#include "robot.h"

#include "parts.h"

#include <linchpin/joints.h>
#include <linchpin/laws.h>

#if LINCHPIN_URDF
#include <tinyxml2.h>
#endif

#include <Eigen/Eigenvalues>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <numbers>
#include <set>

namespace linchpin::scene {

#if !LINCHPIN_URDF

Robot read_robot(const std::string&, const std::string&, const RobotOptions&, const Place& from) {
  fail(from, "this linchpin was built without URDF: build it where tinyxml2 is (Debian: libtinyxml2-dev)");
}

#else

namespace {

using Element = tinyxml2::XMLElement;

constexpr std::size_t most_links = 10000;

Pose operator*(const Pose& a, const Pose& b) { return {a.p + a.q * b.p, (a.q * b.q).normalized()}; }

struct Inertial {
  double mass = 0;
  Pose frame;
  Matrix3d inertia = Matrix3d::Zero();  // about its origin, in its axes
};

struct Link {
  std::string name;
  const Element* at = nullptr;
  std::optional<Inertial> inertial;
  std::vector<PlacedShape> shapes;  // in the link's frame
  int joint = -1;                   // to its parent
  int cluster = -1;                 // the links that are one body with it
  Pose pose;                        // in the world, at the start
};

struct UrdfJoint {
  enum class Kind { revolute, continuous, prismatic, fixed, floating, planar };
  std::string name;
  const Element* at = nullptr;
  Kind kind = Kind::fixed;
  int parent = -1, child = -1;
  Pose origin;
  Vector3d axis = Vector3d::UnitX();
  double damping = 0, friction = 0;
  std::optional<std::pair<double, double>> limits;
  struct Mimic {
    std::string of;
    const Element* at = nullptr;
    double multiplier = 1, offset = 0;
    int joint = -1;
  };
  std::optional<Mimic> mimic;
  std::optional<double> start;

  bool turns() const { return kind == Kind::revolute || kind == Kind::continuous; }
  bool slides() const { return kind == Kind::prismatic; }
};
const std::vector<std::string> kinds = {"revolute", "continuous", "prismatic", "fixed", "floating", "planar"};

struct Cluster {
  std::vector<int> links;  // the first is nearest to the root
  double mass = 0;
  bool fixed = false;
  int body = 0;  // among the robot's, from 1; 0: the world itself
};

std::vector<std::string> words(std::string_view text) {
  std::vector<std::string> out;
  for (std::size_t at = text.find_first_not_of(" \t\r\n"); at != std::string_view::npos;
       at = text.find_first_not_of(" \t\r\n", at)) {
    const std::size_t end = std::min(text.find_first_of(" \t\r\n", at), text.size());
    out.emplace_back(text.substr(at, end - at));
    at = end;
  }
  return out;
}

std::string shown(double x) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), x).ptr;
  return {text.data(), end};
}

class Reader {
 public:
  Reader(const std::string& text, const std::string& path, const RobotOptions& options)
      : source_(std::make_shared<const Source>(path, text)), options_(options) {}

  Robot read() {
    if (source_->text.find('\0') != std::string::npos)
      scene::fail({source_, 0, 0}, "is no text: it holds bytes of value 0");
    if (document_.Parse(source_->text.data(), source_->text.size()) != tinyxml2::XML_SUCCESS) refuse_xml();
    const Element* root = document_.RootElement();
    if (!root) scene::fail({source_, 0, 0}, "holds no XML element; a URDF file begins with <robot name=\"…\">");
    if (std::string_view(root->Name()) != "robot")
      fail(root, "<" + std::string(root->Name()) + ">: a URDF file begins with <robot name=\"…\">" +
                     (std::string_view(root->Name()) == "sdf" ? "; SDF is not read" : ""));
    for (const Element* each = root->FirstChildElement(); each; each = each->NextSiblingElement()) {
      const std::string_view name = each->Name();
      if (name.find("xacro:") == 0) fail(each, "<" + std::string(name) + ">: this is xacro; expand it to URDF first");
      if (name == "link") read_link(each);
    }
    if (links_.empty()) fail(root, "<robot>: holds no <link>");
    for (const Element* each = root->FirstChildElement("joint"); each; each = each->NextSiblingElement("joint"))
      read_joint(each);
    order();
    couple_mimics();
    place();
    gather();
    make_bodies();
    make_joints();
    return std::move(out_);
  }

 private:
  // ---- places and messages ----

  Place place_of(int line, std::string_view word) const {
    const std::string_view text = source_->line(static_cast<std::size_t>(std::max(line, 0)));
    const std::size_t at = text.find(word);
    std::size_t column = 1;
    for (std::size_t i = 0; at != std::string_view::npos && i < at; ++i)
      column += (static_cast<unsigned char>(text[i]) & 0xC0) != 0x80;
    return {source_, static_cast<std::size_t>(std::max(line, 0)), column};
  }
  Place place_of(const Element* e) const { return place_of(e->GetLineNum(), "<" + std::string(e->Name())); }
  [[noreturn]] void fail(const Element* e, const std::string& message) const { scene::fail(place_of(e), message); }
  [[noreturn]] void fail(const Element* e, const char* attribute, const std::string& message) const {
    for (const auto* a = e->FirstAttribute(); a; a = a->Next())
      if (std::string_view(a->Name()) == attribute) scene::fail(place_of(a->GetLineNum(), attribute), message);
    fail(e, message);
  }
  [[noreturn]] void refuse_xml() const {
    const int line = document_.ErrorLineNum();
    std::string why = "is no well-formed XML";
    switch (document_.ErrorID()) {
      case tinyxml2::XML_ERROR_EMPTY_DOCUMENT:
        scene::fail({source_, 0, 0}, "is empty; a URDF file begins with <robot name=\"…\">");
      case tinyxml2::XML_ERROR_MISMATCHED_ELEMENT:
        why += ": this element is closed by another one's end, or by none";
        break;
      case tinyxml2::XML_ERROR_PARSING_ATTRIBUTE:
        why += ": an attribute is written name=\"value\", once in its element";
        break;
      case tinyxml2::XML_ELEMENT_DEPTH_EXCEEDED:
        why = "elements lie more than 100 deep in one another: no robot";
        break;
      default:
        break;
    }
    scene::fail(place_of(line, "<"), why);
  }
  // "joint "elbow", <axis>": what a message is about.
  static std::string within(const std::string& who, const Element* e) { return who + ", <" + e->Name() + ">"; }

  // ---- values ----

  double number(const Element* e, const char* attribute, const std::string& word, const std::string& who) const {
    double x = 0;
    const char *begin = word.data() + (word.starts_with('+') ? 1 : 0), *end = word.data() + word.size();
    const auto [stop, error] = std::from_chars(begin, end, x);
    if (error == std::errc::result_out_of_range && stop == end)
      fail(e, attribute, within(who, e) + ": " + attribute + ": \"" + word + "\" is beyond what numbers hold");
    if (error != std::errc() || stop != end)
      fail(e, attribute, within(who, e) + ": " + attribute + ": \"" + word + "\" is no number");
    if (!std::isfinite(x)) fail(e, attribute, within(who, e) + ": " + attribute + ": \"" + word + "\" is not finite");
    if (std::abs(x) > 1e9)
      fail(e, attribute,
           within(who, e) + ": " + attribute + ": \"" + word + "\" is no quantity of a robot in SI units");
    return x;
  }
  // The words of an attribute, of which there must be so many; none where it is not there.
  std::optional<std::vector<std::string>> words_if(const Element* e, const char* attribute, const std::string& who,
                                                   std::size_t many, const char* what) const {
    const char* text = e->Attribute(attribute);
    if (!text) return {};
    auto all = words(text);
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
    const Element* e = parent->FirstChildElement("origin");
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
    if (links_.size() == most_links) fail(e, "more than " + std::to_string(most_links) + " links");
    Link link;
    link.name = name_of(e);
    link.at = e;
    const std::string who = "link \"" + link.name + "\"";
    if (!link_at_.emplace(link.name, static_cast<int>(links_.size())).second)
      fail(e, "name", "there are two links \"" + link.name + "\"");
    if (const Element* inertial = e->FirstChildElement("inertial")) link.inertial = read_inertial(inertial, who);
    for (const Element* each = e->FirstChildElement("collision"); each; each = each->NextSiblingElement("collision"))
      read_collision(each, link, who);
    links_.push_back(std::move(link));
  }

  Inertial read_inertial(const Element* e, const std::string& who) {
    Inertial out;
    out.frame = origin_of(e, who);
    const Element* mass = e->FirstChildElement("mass");
    if (!mass) fail(e, within(who, e) + " has no <mass value=\"…\"/>");
    out.mass = number(mass, "value", who);
    if (out.mass < 0) fail(mass, "value", within(who, mass) + ": a mass below 0");
    const Element* inertia = e->FirstChildElement("inertia");
    if (!inertia) fail(e, within(who, e) + " has no <inertia ixx=\"…\" …/>");
    const auto entry = [&](const char* attribute) { return number(inertia, attribute, who); };
    const auto product = [&](const char* attribute) { return number_if(inertia, attribute, who).value_or(0); };
    const double xy = product("ixy"), xz = product("ixz"), yz = product("iyz");
    const double xx = entry("ixx"), yy = entry("iyy"), zz = entry("izz");  // which may throw, and not in the middle
    out.inertia << xx, xy, xz, xy, yy, yz, xz, yz, zz;
    if (out.mass == 0) return out;  // a frame, whatever its inertia says
    const Vector3d moments = Eigen::SelfAdjointEigenSolver<Matrix3d>(out.inertia).eigenvalues();
    if (!(moments.minCoeff() > 1e-12 * moments.maxCoeff()))
      fail(inertia, within(who, inertia) + ": the inertia is not positive definite: its principal moments are " +
                        shown(moments[0]) + ", " + shown(moments[1]) + ", " + shown(moments[2]));
    if (const std::string doubt = doubt_of(out.inertia); !doubt.empty())
      out_.warnings.push_back(warning(place_of(inertia), within(who, inertia) + ": " + doubt));
    return out;
  }

  void read_collision(const Element* e, Link& link, const std::string& who) {
    const Element* geometry = e->FirstChildElement("geometry");
    if (!geometry) fail(e, within(who, e) + " has no <geometry>");
    const Element* shape = geometry->FirstChildElement();
    if (!shape) fail(geometry, within(who, geometry) + " is empty");
    PlacedShape out;
    out.pose = origin_of(e, who);
    const std::string kind = shape->Name();
    // Along z here, along y in scenes.
    const Quaterniond upright(Eigen::Quaterniond(Eigen::AngleAxisd(0.5 * std::numbers::pi, Vector3d::UnitX())));
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
      out.pose.q = out.pose.q * upright;
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
    const Element* e = joint->FirstChildElement(which);
    if (!e) fail(joint, who + " has no <" + which + " link=\"…\"/>");
    const char* name = e->Attribute("link");
    if (!name) fail(e, within(who, e) + " has no link=\"…\"");
    const auto found = link_at_.find(name);
    if (found != link_at_.end()) return found->second;
    std::vector<std::string> known;
    for (const Link& link : links_) known.push_back(link.name);
    fail(e, "link", within(who, e) + ": there is no link \"" + name + "\"" + suggestion(name, known));
  }

  void read_joint(const Element* e) {
    UrdfJoint joint;
    joint.name = name_of(e);
    joint.at = e;
    const std::string who = "joint \"" + joint.name + "\"";
    if (!joint_at_.emplace(joint.name, static_cast<int>(joints_.size())).second)
      fail(e, "name", "there are two joints \"" + joint.name + "\"");
    const char* type = e->Attribute("type");
    if (!type) fail(e, who + " has no type");
    const auto kind = std::find(kinds.begin(), kinds.end(), type);
    if (kind == kinds.end()) fail(e, "type", who + ": unknown type \"" + type + "\"" + suggestion(type, kinds));
    joint.kind = static_cast<UrdfJoint::Kind>(kind - kinds.begin());
    joint.parent = link_named(e, "parent", who);
    joint.child = link_named(e, "child", who);
    const std::string& child = links_[static_cast<std::size_t>(joint.child)].name;
    if (joint.parent == joint.child) fail(e, who + " joins link \"" + child + "\" to itself");
    Link& link = links_[static_cast<std::size_t>(joint.child)];
    if (link.joint >= 0)
      fail(e->FirstChildElement("child"), who + ": link \"" + child + "\" has a parent already, by joint \"" +
                                              joints_[static_cast<std::size_t>(link.joint)].name +
                                              "\": a URDF file is a tree; close the loop by a [[joint]] in a scene");
    link.joint = static_cast<int>(joints_.size());
    joint.origin = origin_of(e, who);
    if (const Element* axis = e->FirstChildElement("axis")) {
      const auto xyz = vector_if(axis, "xyz", who);
      if (!xyz) fail(axis, within(who, axis) + " has no xyz=\"…\"");
      const bool used = joint.kind != UrdfJoint::Kind::fixed && joint.kind != UrdfJoint::Kind::floating;
      if (used && !(xyz->norm() > 1e-9))
        fail(axis, "xyz", within(who, axis) + ": an axis of length zero has no direction");
      if (used) joint.axis = xyz->normalized();
    }
    if (const Element* dynamics = e->FirstChildElement("dynamics")) {
      joint.damping = number_if(dynamics, "damping", who).value_or(0);
      joint.friction = number_if(dynamics, "friction", who).value_or(0);
      if (joint.damping < 0) fail(dynamics, "damping", within(who, dynamics) + ": damping below 0");
      if (joint.friction < 0) fail(dynamics, "friction", within(who, dynamics) + ": friction below 0");
      if ((joint.damping > 0 || joint.friction > 0) && !joint.turns() && !joint.slides())
        out_.notes.push_back(who + ": damping and friction of a " + kinds[static_cast<std::size_t>(joint.kind)] +
                             " joint are left out");
    }
    read_limit(e, joint, who);
    if (const Element* mimic = e->FirstChildElement("mimic")) {
      const char* of = mimic->Attribute("joint");
      if (!of) fail(mimic, within(who, mimic) + " has no joint=\"…\"");
      if (!joint.turns() && !joint.slides())
        fail(mimic, within(who, mimic) + ": a " + kinds[static_cast<std::size_t>(joint.kind)] +
                        " joint has no position that could follow another's");
      joint.mimic = UrdfJoint::Mimic{of, mimic, number_if(mimic, "multiplier", who).value_or(1),
                                     number_if(mimic, "offset", who).value_or(0), -1};
    }
    joints_.push_back(std::move(joint));
  }

  void read_limit(const Element* e, UrdfJoint& joint, const std::string& who) {
    const Element* limit = e->FirstChildElement("limit");
    if (!limit) {
      if (joint.kind == UrdfJoint::Kind::revolute || joint.slides())
        fail(e, who + ": a " + kinds[static_cast<std::size_t>(joint.kind)] + " joint needs a <limit>" +
                    (joint.turns() ? "; one without limits is a continuous joint" : ""));
      return;
    }
    const auto lower = number_if(limit, "lower", who), upper = number_if(limit, "upper", who);
    for (const char* ignored : {"effort", "velocity"})  // bounds of motors: read so that nonsense in them is told
      (void)number_if(limit, ignored, who);
    if (joint.kind != UrdfJoint::Kind::revolute && !joint.slides()) return;
    if (!lower && !upper) {
      out_.notes.push_back(who + " gives neither lower nor upper: it moves without limits");
      return;
    }
    joint.limits = {lower.value_or(0), upper.value_or(0)};
    if (joint.limits->first > joint.limits->second)
      fail(limit, "lower",
           within(who, limit) + ": lower " + shown(joint.limits->first) + " is above upper " +
               shown(joint.limits->second));
  }

  // Links from the root outwards. @throws for what is no tree.
  void order() {
    int root = -1;
    for (int i = 0; i < size(); ++i) {
      if (link(i).joint >= 0) continue;
      if (root >= 0)
        fail(link(i).at, "links \"" + link(root).name + "\" and \"" + link(i).name +
                             "\" have no parent both: a robot has one root");
      root = i;
    }
    if (root < 0) {
      // Any link leads into a cycle upwards.
      int at = 0;
      for (int i = 0; i < size(); ++i) at = joint(link(at).joint).parent;
      refuse_cycle(at);
    }
    std::vector<std::vector<int>> children(links_.size());
    for (int i = 0; i < size(); ++i)
      if (link(i).joint >= 0) children[static_cast<std::size_t>(joint(link(i).joint).parent)].push_back(i);
    order_ = {root};
    for (std::size_t k = 0; k < order_.size(); ++k)
      for (const int child : children[static_cast<std::size_t>(order_[k])]) order_.push_back(child);
    if (order_.size() == links_.size()) return;
    std::vector<char> reached(links_.size());
    for (const int i : order_) reached[static_cast<std::size_t>(i)] = 1;
    int at = static_cast<int>(std::find(reached.begin(), reached.end(), 0) - reached.begin());
    for (int i = 0; i < size(); ++i) at = joint(link(at).joint).parent;
    refuse_cycle(at);
  }
  [[noreturn]] void refuse_cycle(int at) const {
    std::string names;
    int link_in = at, shown_names = 0;
    do {
      if (++shown_names <= 5) names += "\"" + link(link_in).name + "\", ";
      link_in = joint(link(link_in).joint).parent;
    } while (link_in != at);
    fail(joint(link(at).joint).at, "the links " + names + (shown_names > 5 ? "…, " : "") +
                                       "each other's parents, are a cycle: a URDF file is a tree; close the loop by a "
                                       "[[joint]] in a scene");
  }

  void couple_mimics() {
    for (UrdfJoint& each : joints_) {
      if (!each.mimic) continue;
      const std::string who = within("joint \"" + each.name + "\"", each.mimic->at);
      const auto found = joint_at_.find(each.mimic->of);
      if (found == joint_at_.end()) {
        std::vector<std::string> known;
        for (const UrdfJoint& other : joints_) known.push_back(other.name);
        fail(each.mimic->at, "joint",
             who + ": there is no joint \"" + each.mimic->of + "\"" + suggestion(each.mimic->of, known));
      }
      each.mimic->joint = found->second;
      const UrdfJoint& leader = joint(found->second);
      if (!leader.turns() && !leader.slides())
        fail(each.mimic->at, "joint", who + ": joint \"" + leader.name + "\" has no position that could be followed");
    }
    for (const UrdfJoint& each : joints_) {
      const UrdfJoint* at = &each;
      for (std::size_t k = 0; at->mimic; ++k) {
        if (k > joints_.size())
          fail(each.mimic->at, within("joint \"" + each.name + "\"", each.mimic->at) +
                                   ": these joints follow each other in a circle, and none leads");
        at = &joint(at->mimic->joint);
      }
    }
  }

  // ---- the start ----

  double start_of(UrdfJoint& of) {
    if (of.start) return *of.start;
    // Chains of mimics may be long: no recursion.
    std::vector<UrdfJoint*> chain = {&of};
    while (chain.back()->mimic && !chain.back()->start)
      chain.push_back(&joints_[static_cast<std::size_t>(chain.back()->mimic->joint)]);
    UrdfJoint& leader = *chain.back();
    if (!leader.start) {
      const auto given = options_.joints.find(leader.name);
      double at = 0;
      if (given != options_.joints.end())
        at = given->second.first;
      else if (leader.limits)  // zero may lie outside
        at = std::clamp(0.0, leader.limits->first, leader.limits->second);
      leader.start = at;
    }
    for (std::size_t k = chain.size() - 1; k-- > 0;)
      chain[k]->start = chain[k]->mimic->multiplier * *chain[k + 1]->start + chain[k]->mimic->offset;
    return *of.start;
  }

  void place() {
    for (const auto& [name, value] : options_.joints) {
      const auto found = joint_at_.find(name);
      if (found == joint_at_.end()) {
        std::vector<std::string> known;
        for (const UrdfJoint& other : joints_) known.push_back(other.name);
        scene::fail(value.second, "model, joints: there is no joint \"" + name + "\"" + suggestion(name, known));
      }
      const UrdfJoint& of = joint(found->second);
      if (!of.turns() && !of.slides())
        scene::fail(value.second, "model, joints: \"" + name + "\" is a " + kinds[static_cast<std::size_t>(of.kind)] +
                                      " joint and has no position");
      if (of.mimic)
        scene::fail(value.second,
                    "model, joints: \"" + name + "\" follows \"" + of.mimic->of + "\"; say where that is");
      if (of.limits && (value.first < of.limits->first || value.first > of.limits->second))
        scene::fail(value.second, "model, joints: \"" + name + "\" goes from " + shown(of.limits->first) + " to " +
                                      shown(of.limits->second));
    }
    for (const int i : order_) {
      if (link(i).joint < 0) {
        links_[static_cast<std::size_t>(i)].pose = options_.base;
        continue;
      }
      UrdfJoint& by = joints_[static_cast<std::size_t>(link(i).joint)];
      Pose motion;
      if (by.turns()) motion.q = Quaterniond(Eigen::Quaterniond(Eigen::AngleAxisd(start_of(by), by.axis)));
      if (by.slides()) motion.p = start_of(by) * by.axis;
      links_[static_cast<std::size_t>(i)].pose = link(by.parent).pose * by.origin * motion;
    }
  }

  // ---- bodies ----

  double mass_of(int i) const { return link(i).inertial ? link(i).inertial->mass : 0; }

  // Links that are one body: those on fixed joints of which one has no mass, or all of them if so wished.
  void gather() {
    const int root = order_.front();
    const bool is_world = link(root).name == "world" && mass_of(root) == 0;
    for (const int i : order_) {
      int into = -1;
      if (link(i).joint >= 0 && joint(link(i).joint).kind == UrdfJoint::Kind::fixed) {
        const int above = link(joint(link(i).joint).parent).cluster;
        const Cluster& parent = clusters_[static_cast<std::size_t>(above)];
        if (options_.merge_fixed || mass_of(i) == 0 || (parent.mass == 0 && !parent.fixed)) into = above;
      }
      if (into < 0) {
        into = static_cast<int>(clusters_.size());
        clusters_.emplace_back();
        clusters_.back().fixed = i == root && (is_world || options_.fixed_base.value_or(false));
      }
      links_[static_cast<std::size_t>(i)].cluster = into;
      clusters_[static_cast<std::size_t>(into)].links.push_back(i);
      clusters_[static_cast<std::size_t>(into)].mass += mass_of(i);
    }
    Cluster& base = clusters_.front();
    if (is_world && options_.fixed_base == false)
      fail(link(root).at, "the root link \"world\" is the world itself, which fixed_base = false cannot free");
    if (base.mass == 0 && options_.fixed_base == false)
      fail(link(root).at,
           "link \"" + link(root).name + "\" has no mass: nothing could move it, and fixed_base = false");
    if (base.mass == 0) base.fixed = true;
    for (const Cluster& each : clusters_) {
      const Link& first = link(each.links.front());
      if (each.mass == 0 && !each.fixed)
        fail(first.at, "link \"" + first.name + "\" moves by joint \"" + joint(first.joint).name +
                           "\" and has no mass: give it an <inertial>");
    }
    if (!base.fixed && base.mass > 0 && !options_.fixed_base)
      out_.notes.push_back("link \"" + link(root).name +
                           "\", the root, has a mass and is free; [model] fixed_base = true in a scene holds it");
  }

  void make_bodies() {
    for (Cluster& each : clusters_) {
      const int root = each.links.front();
      // Named by the first with a mass; the world has a name and no body.
      int main = root;
      for (const int i : each.links)
        if (mass_of(i) > 0 && mass_of(main) == 0) main = i;
      SceneBody body;
      body.name = options_.prefix + link(main).name;
      bool shapes = false;
      for (const int i : each.links) shapes = shapes || !link(i).shapes.empty();
      if (each.fixed && body.name == "world") {
        if (!shapes && options_.base.p.isZero() && options_.base.q.isApprox(Quaterniond::Identity())) continue;
        body.name += "_link";
      }
      const Quaterniond q_main = link(main).pose.q;
      body.kind = each.fixed ? BodyKind::fixed : BodyKind::rigid;
      body.start.p = link(main).pose.p;
      body.start.q = q_main;
      if (each.mass > 0) inertia_of(each, q_main, body);
      if (each.fixed) {  // where it is, not what it weighs
        body.start.p = link(main).pose.p, body.start.q = q_main;
        body.mass = 0, body.inertia.setZero();
      }
      body.link_axes = (body.start.q.conjugate() * q_main).normalized();
      body.family = options_.self_collision ? 0 : 1;
      const Pose to_body{-(body.start.q.conjugate() * body.start.p), body.start.q.conjugate()};
      for (const int i : each.links)
        for (const PlacedShape& shape : link(i).shapes)
          body.more_shapes.push_back({shape.shape, to_body * link(i).pose * shape.pose});
      out_.bodies.emplace_back(std::move(body), place_of(link(main).at));
      each.body = static_cast<int>(out_.bodies.size());
    }
  }

  // Mass, centre and inertia; the body's axes are the principal ones that lie nearest to the main link's, which are the
  // link's own where its inertia is diagonal in them: hosts keep three moments.
  void inertia_of(const Cluster& of, const Quaterniond& q_main, SceneBody& body) const {
    body.mass = of.mass;
    Vector3d first = Vector3d::Zero();
    for (const int i : of.links)
      if (mass_of(i) > 0) first += mass_of(i) * (link(i).pose * link(i).inertial->frame).p;
    body.start.p = first / of.mass;
    Matrix3d I = Matrix3d::Zero();  // about the centre of mass, main link's axes
    for (const int i : of.links) {
      if (mass_of(i) == 0) continue;
      const Pose frame = link(i).pose * link(i).inertial->frame;
      const Matrix3d R = (q_main.conjugate() * frame.q).normalized().toRotationMatrix();
      const Vector3d r = q_main.conjugate() * Vector3d(frame.p - body.start.p);
      I += R * link(i).inertial->inertia * R.transpose() +
           mass_of(i) * (r.squaredNorm() * Matrix3d::Identity() - r * r.transpose());
    }
    I = 0.5 * (I + I.transpose()).eval();
    if ((I - Matrix3d(I.diagonal().asDiagonal())).norm() <= 1e-13 * I.norm()) {
      body.inertia = I.diagonal().asDiagonal();
      return;
    }
    const Eigen::SelfAdjointEigenSolver<Matrix3d> solver(I);
    const Matrix3d V = solver.eigenvectors();
    std::array<int, 3> order = {0, 1, 2}, best = order;
    double closest = -1;
    do {
      const double sum = std::abs(V(0, order[0])) + std::abs(V(1, order[1])) + std::abs(V(2, order[2]));
      if (sum > closest) closest = sum, best = order;
    } while (std::next_permutation(order.begin(), order.end()));
    Matrix3d axes;
    Vector3d moments;
    for (int k = 0; k < 3; ++k) {
      const int from = best[static_cast<std::size_t>(k)];
      axes.col(k) = V(k, from) < 0 ? Vector3d(-V.col(from)) : Vector3d(V.col(from));
      moments[k] = solver.eigenvalues()[from];
    }
    if (axes.determinant() < 0) {
      int least = 0;
      for (int k = 1; k < 3; ++k)
        if (axes(k, k) < axes(least, least)) least = k;
      axes.col(least) *= -1;
    }
    body.inertia = moments.asDiagonal();
    body.start.q = (q_main * Quaterniond(Eigen::Quaterniond(axes))).normalized();
  }

  // ---- joints ----

  // Where a frame of the world at the start is in a body.
  JointFrame in_body(int body, const Pose& frame, const Matrix3d& W) const {
    if (body == 0) return {frame.p, frame.q.toRotationMatrix() * W};
    const BodyState& s = out_.bodies[static_cast<std::size_t>(body) - 1].first.start;
    JointFrame out{s.q.conjugate() * Vector3d(frame.p - s.p), (s.q.conjugate() * frame.q).toRotationMatrix() * W};
    for (Eigen::Index i = 0; i < 3; ++i)
      if (std::abs(out.origin[i]) < 1e-16) out.origin[i] = 0;
    return out;
  }

  void make_joints() {
    struct Frames {
      JointFrame P, C;
    };
    std::vector<Frames> frames(joints_.size());
    for (std::size_t k = 0; k < joints_.size(); ++k) {
      UrdfJoint& j = joints_[k];
      const int a = clusters_[static_cast<std::size_t>(link(j.parent).cluster)].body;
      const int b = clusters_[static_cast<std::size_t>(link(j.child).cluster)].body;
      Matrix3d W = Matrix3d::Identity();
      if (j.kind != UrdfJoint::Kind::fixed && j.axis != Vector3d::UnitX()) {
        const Vector3d e = j.axis.unitOrthogonal();
        W << j.axis, e, j.axis.cross(e);
      }
      const Pose at_zero = link(j.parent).pose * j.origin, now = link(j.child).pose;
      frames[k] = {in_body(a, at_zero, W), in_body(b, now, W)};
      if (a == b || j.kind == UrdfJoint::Kind::floating) continue;
      if (clusters_[static_cast<std::size_t>(link(j.parent).cluster)].fixed &&
          clusters_[static_cast<std::size_t>(link(j.child).cluster)].fixed)
        continue;
      SceneConstraint c;
      c.name = options_.prefix + j.name;
      c.bodies = {BodyId{a}, BodyId{b}};
      c.frame_a = frames[k].P, c.frame_b = frames[k].C;
      c.own_axes = Quaterniond(Eigen::Quaterniond(Matrix3d(c.frame_b.axes * W.transpose()))).normalized();
      const JointFrame P = c.frame_a, C = c.frame_b;
      const std::string name = c.name;
      switch (j.kind) {
        case UrdfJoint::Kind::revolute:
        case UrdfJoint::Kind::continuous:
          c.type = "hinge";
          c.make = [=](const std::vector<BodyId>& id) {
            return hinge(name, id[0], P.origin, P.axes.col(0), id[1], C.origin, C.axes.col(0));
          };
          break;
        case UrdfJoint::Kind::prismatic:
          c.type = "slider";
          c.make = [=](const std::vector<BodyId>& id) { return slider(name, id[0], P, id[1], C); };
          break;
        case UrdfJoint::Kind::planar:
          c.type = "planar";
          c.make = [=](const std::vector<BodyId>& id) {
            return planar(name, id[0], P.origin, P.axes.col(0), id[1], C.origin, C.axes.col(0));
          };
          break;
        default:
          c.type = "weld";
          c.make = [=](const std::vector<BodyId>& id) { return weld(name, id[0], P, id[1], C); };
      }
      if (j.turns() || j.slides()) {
        JointFriction friction;
        friction.preload = j.friction;
        if (j.damping > 0) c.laws.push_back(j.turns() ? viscous_torque(j.damping) : viscous(j.damping));
        if (j.friction > 0) c.laws.push_back(j.turns() ? hinge_friction(friction) : slider_friction(friction));
      }
      if (j.limits && !j.mimic) {
        c.limits = j.limits;
        out_.native.push_back(c.name + ": limits " + shown(j.limits->first) + " to " + shown(j.limits->second) +
                              (j.turns() ? " rad" : " m"));
      }
      out_.joints.emplace_back(std::move(c), place_of(j.at));
    }
    for (std::size_t k = 0; k < joints_.size(); ++k) {
      const UrdfJoint& j = joints_[k];
      if (!j.mimic) continue;
      SceneConstraint c;
      c.name = options_.prefix + j.name + ".mimic";
      c.type = "mimic";
      const auto index = [&](int body) {
        const auto found = std::find(c.bodies.begin(), c.bodies.end(), BodyId{body});
        if (found != c.bodies.end()) return static_cast<int>(found - c.bodies.begin());
        c.bodies.push_back(BodyId{body});
        return static_cast<int>(c.bodies.size()) - 1;
      };
      const auto coupled = [&](std::size_t i) {
        const UrdfJoint& of = joints_[i];
        CoupledJoint out;
        out.child = index(clusters_[static_cast<std::size_t>(link(of.child).cluster)].body);
        out.parent = index(clusters_[static_cast<std::size_t>(link(of.parent).cluster)].body);
        out.slides = of.slides();
        out.frame_P = frames[i].P, out.frame_C = frames[i].C;
        out.start = of.start.value_or(0);
        return out;
      };
      const CoupledJoint follower = coupled(k), leader = coupled(static_cast<std::size_t>(j.mimic->joint));
      c.make = [=, name = c.name, m = j.mimic->multiplier, o = j.mimic->offset](const std::vector<BodyId>& id) {
        return couple(name, id, leader, follower, m, o);
      };
      out_.joints.emplace_back(std::move(c), place_of(j.mimic->at));
    }
  }

  int size() const { return static_cast<int>(links_.size()); }
  const Link& link(int i) const { return links_[static_cast<std::size_t>(i)]; }
  const UrdfJoint& joint(int i) const { return joints_[static_cast<std::size_t>(i)]; }

  std::shared_ptr<const Source> source_;
  const RobotOptions& options_;
  tinyxml2::XMLDocument document_;
  std::vector<Link> links_;
  std::vector<UrdfJoint> joints_;
  std::map<std::string, int, std::less<>> link_at_, joint_at_;
  std::vector<int> order_;  // of links, parents first
  std::vector<Cluster> clusters_;
  Robot out_;
};

}  // namespace

Robot read_robot(const std::string& text, const std::string& path, const RobotOptions& options, const Place&) {
  return Reader(text, path, options).read();
}

#endif

}  // namespace linchpin::scene
