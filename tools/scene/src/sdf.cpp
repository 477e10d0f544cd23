// SDF, by libsdformat, which resolves its frames, includes and versions.
#include "robot_file.h"

#if LINCHPIN_SDF
#include "parts.h"

#include <sdf/sdf.hh>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#endif

namespace linchpin::scene {

#if !LINCHPIN_SDF

RobotFile read_sdf(const std::string&, const std::string&, const Place& from) {
  fail(from,
       "this linchpin was built without SDF: build it where libsdformat is (Debian: libsdformat-dev; scripts/setup "
       "--sdf)");
}

#else

namespace {

using Link = RobotFile::Link;
using Joint = RobotFile::Joint;

constexpr int most_nested = 100;

class Reader {
 public:
  Reader(const std::string& text, const std::string& path) : source_(std::make_shared<const Source>(path, text)) {}

  RobotFile read() {
    // libsdformat would read a URDF file too, and say less of what is wrong with it.
    if (source_->text.find("<sdf") == std::string::npos)
      fail({source_, 0, 0}, "holds no <sdf>; an SDF file begins with <sdf version=\"…\">");
    sdf::Console::Instance()->SetQuiet(true);  // what is wrong is said by us
    sdf::Root root;
    refuse(root.Load(source_->path));
    // One model, or a world of them.
    if (const sdf::Model* model = root.Model()) read_model(*model, root.Model()->RawPose(), "", 0);
    for (std::uint64_t w = 0; w < root.WorldCount(); ++w) {
      const sdf::World& world = *root.WorldByIndex(w);
      if (w > 0) fail(place_of(world.Element()), "there is more than one <world>");
      for (std::uint64_t i = 0; i < world.ModelCount(); ++i) {
        const sdf::Model& model = *world.ModelByIndex(i);
        read_model(model, resolved(model, "", model.Element()), world.ModelCount() > 1 ? model.Name() + "::" : "", 0);
      }
    }
    if (out_.links.empty()) fail({source_, 0, 0}, "holds no <model> with a <link>");
    grow();
    return std::move(out_);
  }

 private:
  using Pose3 = ignition::math::Pose3d;

  // ---- places and messages ----

  // Of elements that the file includes from others, the file as a whole.
  Place place_of(const sdf::ElementPtr& e) const {
    if (!e || !e->LineNumber() || !own(e->FilePath())) return {source_, 0, 0};
    return place_of(*e->LineNumber());
  }
  Place place_of(int line) const {
    const std::string_view text = source_->line(static_cast<std::size_t>(std::max(line, 0)));
    const std::size_t at = text.find_first_not_of(" \t");
    return {source_, static_cast<std::size_t>(std::max(line, 0)), at == std::string_view::npos ? 1 : at + 1};
  }
  bool own(const std::string& file) const {
    std::error_code error;
    return file.empty() || file == source_->path || std::filesystem::equivalent(file, source_->path, error);
  }
  void refuse(const sdf::Errors& errors) const {
    if (errors.empty()) return;
    if (errors.front().Code() == sdf::ErrorCode::FILE_READ) fail({source_, 0, 0}, "is no well-formed XML");
    // Of a fault and what follows from it, the first that has a line.
    const auto lined = std::find_if(errors.begin(), errors.end(), [](const auto& e) { return e.LineNumber(); });
    const sdf::Error& first = lined == errors.end() ? errors.front() : *lined;
    const bool here = !first.FilePath() || own(*first.FilePath());
    const std::string where =
        here ? "" : *first.FilePath() + (first.LineNumber() ? ":" + std::to_string(*first.LineNumber()) : "") + ": ";
    fail(here && first.LineNumber() ? place_of(*first.LineNumber()) : Place{source_, 0, 0},
         where + first.Message() +
             (errors.size() > 1 ? " (and " + std::to_string(errors.size() - 1) + " more errors)" : ""));
  }

  // ---- values ----

  Pose pose_of(const Pose3& from, const sdf::ElementPtr& e, const std::string& who) const {
    const auto& p = from.Pos();
    const auto& q = from.Rot();
    const Pose out{{p.X(), p.Y(), p.Z()}, Quaterniond(q.W(), q.X(), q.Y(), q.Z()).normalized()};
    if (!out.p.allFinite() || !(out.q.norm() > 0.5) || out.p.cwiseAbs().maxCoeff() > 1e9)
      fail(place_of(e), who + ": its pose is no pose of a robot in SI units");
    return out;
  }
  // In the frame of that name; the default one where it is empty.
  template <class T>
  Pose3 resolved(const T& of, const std::string& in, const sdf::ElementPtr& e) const {
    Pose3 out;
    if (const sdf::Errors errors = of.SemanticPose().Resolve(out, in); !errors.empty())
      fail(place_of(e), errors.front().Message());
    return out;
  }
  double number(double x, const sdf::ElementPtr& e, const std::string& what) const {
    if (!std::isfinite(x) || std::abs(x) > 1e9) fail(place_of(e), what + " is " + shown(x));
    return x;
  }

  // ---- the file ----

  void read_model(const sdf::Model& model, const Pose3& in_world, const std::string& prefix, int depth) {
    if (depth == most_nested) fail(place_of(model.Element()), "models lie more than 100 deep in one another");
    const Pose X = pose_of(in_world, model.Element(), "model \"" + model.Name() + "\"");
    for (std::uint64_t i = 0; i < model.LinkCount(); ++i) read_link(*model.LinkByIndex(i), X, prefix, model.Static());
    for (std::uint64_t i = 0; i < model.ModelCount(); ++i) {
      const sdf::Model& inner = *model.ModelByIndex(i);
      read_model(inner, in_world * resolved(inner, "__model__", inner.Element()),
                 prefix + inner.Name() + "::", depth + 1);
    }
    if (model.Static()) return;  // nothing in it moves
    for (std::uint64_t i = 0; i < model.JointCount(); ++i) read_joint(*model.JointByIndex(i), X, prefix);
  }

  void read_link(const sdf::Link& from, const Pose& X, const std::string& prefix, bool held) {
    if (out_.links.size() == most_links)
      fail(place_of(from.Element()), "more than " + std::to_string(most_links) + " links");
    Link link;
    link.name = prefix + from.Name();
    link.at = place_of(from.Element());
    link.held = held;
    const std::string who = "link \"" + link.name + "\"";
    link.pose = X * pose_of(resolved(from, "__model__", from.Element()), from.Element(), who);
    link_at_.emplace(link.name, static_cast<int>(out_.links.size()));
    if (!held) link.inertial = inertial_of(from, who);
    for (std::uint64_t i = 0; i < from.CollisionCount(); ++i) read_collision(*from.CollisionByIndex(i), link, who);
    poses_.push_back(link.pose);
    out_.links.push_back(std::move(link));
  }

  RobotFile::Inertial inertial_of(const sdf::Link& from, const std::string& who) {
    RobotFile::Inertial out;
    const sdf::ElementPtr e =
        from.Element()->HasElement("inertial") ? from.Element()->GetElement("inertial") : from.Element();
    const auto& of = from.Inertial();
    out.frame = pose_of(of.Pose(), e, who);
    out.mass = number(of.MassMatrix().Mass(), e, who + ": its mass");
    const auto& I = of.MassMatrix();
    out.inertia << I.Ixx(), I.Ixy(), I.Ixz(), I.Ixy(), I.Iyy(), I.Iyz(), I.Ixz(), I.Iyz(), I.Izz();
    if (!out.inertia.allFinite()) fail(place_of(e), who + ": its inertia is not finite");
    if (!(out.mass > 0)) fail(place_of(e), who + ": a mass that is not above 0");
    if (const std::string why = refusal_of(out.inertia); !why.empty()) fail(place_of(e), who + ": " + why);
    if (const std::string doubt = doubt_of(out.inertia); !doubt.empty())
      out_.warnings.push_back(warning(place_of(e), who + ": " + doubt));
    if (e == from.Element()) out_.notes.push_back(who + " has no <inertial>: 1 kg and 1 kg m^2 by the SDF standard");
    return out;
  }

  void read_collision(const sdf::Collision& from, Link& link, const std::string& who) {
    PlacedShape out;
    out.pose = pose_of(resolved(from, "", from.Element()), from.Element(), who);
    const auto size = [&](double x) {
      if (!(number(x, from.Element(), who + ", <collision>: a length") > 0))
        fail(place_of(from.Element()), who + ", <collision>: every length must be above 0");
      return x;
    };
    const sdf::Geometry& g = *from.Geom();
    if (const sdf::Box* box = g.BoxShape(); box && g.Type() == sdf::GeometryType::BOX) {
      out.shape = {Shape::Kind::box, {size(box->Size().X()), size(box->Size().Y()), size(box->Size().Z())}};
    } else if (g.Type() == sdf::GeometryType::SPHERE) {
      out.shape = {Shape::Kind::sphere, {size(g.SphereShape()->Radius()), 0, 0}};
    } else if (g.Type() == sdf::GeometryType::CYLINDER) {
      out.shape = {Shape::Kind::cylinder, {size(g.CylinderShape()->Radius()), size(g.CylinderShape()->Length()), 0}};
    } else if (g.Type() == sdf::GeometryType::CAPSULE) {
      out.shape = {Shape::Kind::capsule, {size(g.CapsuleShape()->Radius()), size(g.CapsuleShape()->Length()), 0}};
    } else {
      out_.notes.push_back(who + " collides with nothing by its collision \"" + from.Name() +
                           "\": boxes, spheres, cylinders and capsules are read");
      return;
    }
    if (out.shape.kind == Shape::Kind::cylinder || out.shape.kind == Shape::Kind::capsule)
      out.pose.q = out.pose.q * upright();
    link.shapes.push_back(out);
  }

  int link_named(const std::string& name, const sdf::Joint& joint, const std::string& who) {
    if (const auto found = link_at_.find(name); found != link_at_.end()) return found->second;
    if (name == "world" || name.ends_with("::world")) {
      Link world;
      world.name = "world";
      world.at = place_of(joint.Element());
      world.held = true;
      link_at_.emplace(name, static_cast<int>(out_.links.size()));
      poses_.emplace_back();
      out_.links.push_back(std::move(world));
      return static_cast<int>(out_.links.size()) - 1;
    }
    fail(place_of(joint.Element()), who + ": there is no link \"" + name + "\"");
  }

  static std::optional<Joint::Kind> kind_of(sdf::JointType type) {
    switch (type) {
      case sdf::JointType::REVOLUTE:
        return Joint::Kind::revolute;
      case sdf::JointType::CONTINUOUS:
        return Joint::Kind::continuous;
      case sdf::JointType::PRISMATIC:
        return Joint::Kind::prismatic;
      case sdf::JointType::FIXED:
        return Joint::Kind::fixed;
      case sdf::JointType::BALL:
        return Joint::Kind::ball;
      default:
        return {};
    }
  }

  void read_joint(const sdf::Joint& from, const Pose& X, const std::string& prefix) {
    Joint joint;
    joint.name = prefix + from.Name();
    joint.at = place_of(from.Element());
    const std::string who = "joint \"" + joint.name + "\"";
    const auto kind = kind_of(from.Type());
    if (!kind)
      fail(joint.at, who + ": a joint of type " + from.Element()->Get<std::string>("type") +
                         " is not read; fixed, revolute, continuous, prismatic and ball are. Others are [[joint]] in a "
                         "scene");
    joint.kind = *kind;
    std::string parent, child;
    refuse(from.ResolveParentLink(parent));
    refuse(from.ResolveChildLink(child));
    joint.parent = link_named(parent == "world" ? parent : prefix + parent, from, who);
    joint.child = link_named(child == "world" ? child : prefix + child, from, who);
    if (out_.links[static_cast<std::size_t>(joint.child)].name == "world")
      fail(joint.at, who + ": the world is the child of no joint; make it the parent");
    const Pose at = X * pose_of(resolved(from, "__model__", from.Element()), from.Element(), who);
    joint.in_parent = inverse(pose(joint.parent)) * at;
    joint.in_child = inverse(pose(joint.child)) * at;
    if (joint.turns() || joint.slides()) read_axis(from, joint, who);
    out_.joints.push_back(std::move(joint));
  }

  void read_axis(const sdf::Joint& from, Joint& joint, const std::string& who) {
    const sdf::JointAxis* axis = from.Axis();
    if (!axis) fail(joint.at, who + " has no <axis>");
    ignition::math::Vector3d u;
    refuse(axis->ResolveXyz(u));
    joint.axis = {u.X(), u.Y(), u.Z()};
    if (!joint.axis.allFinite() || !(joint.axis.norm() > 1e-9))
      fail(place_of(axis->Element()), who + ", <axis>: an axis of length zero has no direction");
    joint.axis.normalize();
    joint.damping = number(axis->Damping(), axis->Element(), who + ": its damping");
    joint.friction = number(axis->Friction(), axis->Element(), who + ": its friction");
    if (joint.damping < 0) fail(place_of(axis->Element()), who + ", <axis>: damping below 0");
    if (joint.friction < 0) fail(place_of(axis->Element()), who + ", <axis>: friction below 0");
    if (axis->SpringStiffness() != 0) out_.notes.push_back(who + ": its spring is left out; a scene has [[force]]");
    if (joint.kind == Joint::Kind::continuous) return;
    constexpr double none = 1e15;  // the standard's default is 1e16 to either side
    const bool low = axis->Lower() > -none, high = axis->Upper() < none;
    if (low != high) out_.notes.push_back(who + " has a limit on one side alone, which is left out");
    if (!low || !high) return;
    joint.limits = {axis->Lower(), axis->Upper()};
    if (!(joint.limits->first <= joint.limits->second))
      fail(place_of(axis->Element()),
           who + ", <limit>: lower " + shown(joint.limits->first) + " is above upper " + shown(joint.limits->second));
  }

  const Pose& pose(int link) const { return poses_[static_cast<std::size_t>(link)]; }

  // A tree of the joints as they stand: a link hangs by the first that names it as child, unless it would hang on
  // itself. The other joints close loops.
  void grow() {
    std::vector<std::vector<int>> children(out_.links.size());
    for (std::size_t k = 0; k < out_.joints.size(); ++k) {
      const Joint& j = out_.joints[k];
      Link& child = out_.links[static_cast<std::size_t>(j.child)];
      int up = j.parent;
      while (up != j.child && out_.links[static_cast<std::size_t>(up)].joint >= 0)
        up = out_.joints[static_cast<std::size_t>(out_.links[static_cast<std::size_t>(up)].joint)].parent;
      if (up == j.child || child.joint >= 0 || child.held) continue;
      child.joint = static_cast<int>(k);
      children[static_cast<std::size_t>(j.parent)].push_back(j.child);
    }
    for (std::size_t i = 0; i < out_.links.size(); ++i)
      if (out_.links[i].joint < 0) out_.order.push_back(static_cast<int>(i));
    for (std::size_t k = 0; k < out_.order.size(); ++k)
      for (const int child : children[static_cast<std::size_t>(out_.order[k])]) out_.order.push_back(child);
  }

  std::shared_ptr<const Source> source_;
  std::map<std::string, int, std::less<>> link_at_;
  std::vector<Pose> poses_;  // of links, in the file's frame
  RobotFile out_;
};

}  // namespace

RobotFile read_sdf(const std::string& text, const std::string& path, const Place&) { return Reader(text, path).read(); }

#endif

}  // namespace linchpin::scene
