// Bodies and constraints of a robot's links and joints, whatever format its file has.
#include "robot.h"

#include "compound_joint.h"
#include "parts.h"
#include "robot_file.h"
#include "robot_inertia.h"

#include <linchpin/joints.h>
#include <linchpin/laws.h>

#include <Eigen/Eigenvalues>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <numbers>
#include <set>
#include <string_view>
#include <utility>

namespace linchpin::scene {

const char* to_string(RobotFile::Joint::Kind kind) {
  constexpr const char* names[] = {"revolute", "continuous", "prismatic", "fixed", "floating", "planar", "ball"};
  return names[static_cast<int>(kind)];
}

void resolve_mimics(RobotFile& file) {
  std::map<std::string, int, std::less<>> joint_at;
  for (std::size_t k = 0; k < file.joints.size(); ++k) joint_at.emplace(file.joints[k].name, static_cast<int>(k));
  const auto at = [&](int joint) -> RobotFile::Joint& { return file.joints[static_cast<std::size_t>(joint)]; };
  const auto who = [](const RobotFile::Joint& joint) { return "joint \"" + joint.name + "\", <mimic>"; };
  constexpr RobotNotes::Kind without_position{
      "joint", "has a <mimic>, but no position that could follow another's. The <mimic> is left out",
      "have a <mimic>, but no position that could follow another's. The <mimic> is left out"};
  constexpr RobotNotes::Kind without_leader{"joint", "mimics a joint that the file does not have and moves by itself",
                                            "mimic joints that the file does not have and move by themselves"};
  for (RobotFile::Joint& each : file.joints) {
    if (!each.mimic) continue;
    const auto found = joint_at.find(each.mimic->leader);
    if (!each.turns() && !each.slides()) {
      file.notes.add(without_position, each.name);
      each.mimic.reset();
      continue;
    }
    if (found == joint_at.end()) {
      file.notes.add(without_leader, each.name, "\"" + each.mimic->leader + "\"");
      each.mimic.reset();
      continue;
    }
    each.mimic->of = found->second;
    if (const RobotFile::Joint& leader = at(found->second); !leader.turns() && !leader.slides())
      fail(each.mimic->at, who(each) + ": joint \"" + leader.name + "\" has no position that could be followed");
  }
  // Who follows is followed up to who leads, once: 1 on the way, 2 known to lead out.
  std::vector<char> seen(file.joints.size());
  for (std::size_t k = 0; k < file.joints.size(); ++k) {
    std::vector<int> way;
    int j = static_cast<int>(k);
    for (; at(j).mimic && !seen[static_cast<std::size_t>(j)]; j = at(j).mimic->of) {
      seen[static_cast<std::size_t>(j)] = 1;
      way.push_back(j);
    }
    if (seen[static_cast<std::size_t>(j)] == 1)
      fail(at(static_cast<int>(k)).mimic->at,
           who(file.joints[k]) + ": these joints mimic each other in a circle. One of them must not have <mimic>");
    for (const int each : way) seen[static_cast<std::size_t>(each)] = 2;
  }
}

std::string shown(double x) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), x).ptr;
  return {text.data(), end};
}

Pose operator*(const Pose& a, const Pose& b) { return {a.p + a.q * b.p, (a.q * b.q).normalized()}; }
Pose inverse(const Pose& a) { return {-(a.q.conjugate() * a.p), a.q.conjugate()}; }
PlacedShape half_space(const Pose& pose, const Vector3d& normal) {
  constexpr double edge = 200, depth = 10;  // [m]
  const Quaterniond turn(Eigen::Quaterniond::FromTwoVectors(Vector3d::UnitZ(), normal));
  return {{Shape::Kind::box, {edge, edge, depth}},
          pose * Pose{Vector3d::Zero(), turn} * Pose{{0, 0, -0.5 * depth}, Quaterniond::Identity()}};
}
Quaterniond upright() {
  return Quaterniond(Eigen::Quaterniond(Eigen::AngleAxisd(0.5 * std::numbers::pi, Vector3d::UnitX())));
}

namespace {

using Link = RobotFile::Link;
using Joint = RobotFile::Joint;

/// What the links of a cluster are in the scene.
enum class Role {
  body,     ///< a body
  frame,    ///< no mass, between two joints: a frame inside a compound joint
  left_out  ///< no mass, and no link with a mass beyond
};

struct Cluster {
  std::vector<int> links;  // the first is nearest to the root
  Role role = Role::body;
  double mass = 0;
  bool fixed = false;
  bool sound = false;  // whether it may move with the inertia of its links
  int body = 0;        // among the robot's, from 1; 0: the world itself
  int multibody = 0;   // as SceneBody::multibody
};

class Maker {
 public:
  Maker(RobotFile& file, const RobotOptions& options)
      : file_(file),
        options_(options),
        placed_(file.links.size()),
        start_(file.joints.size()),
        chained_(file.joints.size()) {}

  Robot make() {
    place();
    gather();
    find_frames();
    set_in_motion();
    make_bodies();
    warn_of_doubtful_inertias();
    if (options_.multibody) plant();
    make_joints();
    return std::move(out_);
  }

 private:
  // ---- the start ----

  struct Coordinate {
    double value = 0, rate = 0;  // [rad or m], [rad/s or m/s]
  };

  const Coordinate& start_of(int of) {
    const auto start = [&](int i) -> std::optional<Coordinate>& { return start_[static_cast<std::size_t>(i)]; };
    // Chains of mimics may be long: no recursion.
    std::vector<int> chain = {of};
    while (!start(chain.back()) && joint(chain.back()).mimic) chain.push_back(joint(chain.back()).mimic->of);
    if (!start(chain.back())) {
      const Joint& leader = joint(chain.back());
      const auto given = options_.joints.find(leader.name), rate = options_.rates.find(leader.name);
      Coordinate& at = start(chain.back()).emplace();
      if (given != options_.joints.end())
        at.value = given->second.first;
      else if (leader.limits)  // zero may lie outside
        at.value = std::clamp(0.0, leader.limits->first, leader.limits->second);
      if (rate != options_.rates.end()) at.rate = rate->second.first;
      turn_gear(chain.back(), given == options_.joints.end(), rate == options_.rates.end());
    }
    for (std::size_t k = chain.size() - 1; k-- > 0;) {
      const Joint::Mimic& mimic = *joint(chain[k]).mimic;
      const Coordinate& leader = *start(chain[k + 1]);
      start(chain[k]) = {mimic.multiplier * leader.value + mimic.offset, mimic.multiplier * leader.rate};
    }
    return *start(of);
  }

  // The joint that turns one of the two links of a gear against the reference link: its index, and whether it turns in
  // the same sense about the axis of the gear.
  struct GearSide {
    int joint = -1;
    double sign = 1;
  };
  GearSide gear_side(const RobotFile::Gear& gear, std::size_t side) const {
    for (std::size_t k = 0; k < file_.joints.size(); ++k) {
      const Joint& j = file_.joints[k];
      const bool forward = j.parent == gear.reference && j.child == gear.links[side];
      const bool backward = j.child == gear.reference && j.parent == gear.links[side];
      if (!j.turns() || !(forward || backward)) continue;
      const Quaterniond& q = forward ? j.in_parent.q : j.in_child.q;
      const double along = gear.axes[side].dot(q * j.axis);
      if (std::abs(std::abs(along) - 1) < 1e-9) return {static_cast<int>(k), (along > 0) == forward ? 1.0 : -1.0};
    }
    return {};
  }

  // The input of a gear, if the scene does not give its position or rate, starts as the output has it.
  void turn_gear(int joint_at, bool position, bool rate) {
    for (const RobotFile::Gear& gear : file_.gears) {
      const GearSide in = gear_side(gear, 0), out = gear_side(gear, 1);
      if (in.joint != joint_at || out.joint < 0 || joint(out.joint).mimic || is_gear_input(out.joint)) continue;
      const Coordinate of = start_of(out.joint);
      Coordinate& at = *start_[static_cast<std::size_t>(joint_at)];
      const double ratio = -in.sign * out.sign / gear.ratio;
      if (position) at.value = ratio * of.value;
      if (rate) at.rate = ratio * of.rate;
    }
  }
  bool is_gear_input(int joint_at) const {
    return std::any_of(file_.gears.begin(), file_.gears.end(),
                       [&](const RobotFile::Gear& gear) { return gear_side(gear, 0).joint == joint_at; });
  }

  // That whoever is given a position or a rate has one to be given.
  void check(const RobotOptions::OfJoints& given, const char* key, const char* what) const {
    std::map<std::string, int, std::less<>> joint_at;
    for (std::size_t k = 0; k < file_.joints.size(); ++k) joint_at.emplace(file_.joints[k].name, static_cast<int>(k));
    for (const auto& [name, value] : given) {
      const std::string who = std::string("model, ") + key + ": ";
      const auto found = joint_at.find(name);
      if (found == joint_at.end()) {
        std::vector<std::string> known;
        for (const Joint& other : file_.joints) known.push_back(other.name);
        scene::fail(value.second, who + "there is no joint \"" + name + "\"" + suggestion(name, known));
      }
      const Joint& of = joint(found->second);
      if (!of.turns() && !of.slides())
        scene::fail(value.second, who + "\"" + name + "\" is a " + to_string(of.kind) + " joint and has no " + what);
      if (of.mimic)
        scene::fail(value.second, who + "joint \"" + name + "\" mimics \"" + joint(of.mimic->of).name +
                                      "\". Give the value for that joint");
      if (link(of.child).joint != found->second)
        scene::fail(value.second, who + "joint \"" + name + "\" closes a loop, so its " + what +
                                      " follows from the other joints. Leave it out");
    }
  }

  void place() {
    check(options_.joints, "joints", "position");
    check(options_.rates, "rates", "rate");
    for (const auto& [name, value] : options_.joints)
      for (const Joint& of : file_.joints)
        if (of.name == name && of.limits && (value.first < of.limits->first || value.first > of.limits->second))
          scene::fail(value.second, "model, joints: \"" + name + "\" = " + shown(value.first) +
                                        " is beyond the limits of the joint, which goes from " +
                                        shown(of.limits->first) + " to " + shown(of.limits->second) +
                                        (of.turns() ? " rad" : " m") + ". Give a position between them");
    for (const int i : file_.order) {
      Pose& at = placed_[static_cast<std::size_t>(i)].pose;
      if (link(i).joint < 0) {
        at = options_.base * link(i).pose;
        continue;
      }
      const Joint& by = joint(link(i).joint);
      Pose motion;
      if (by.turns())
        motion.q = Quaterniond(Eigen::Quaterniond(Eigen::AngleAxisd(start_of(link(i).joint).value, by.axis)));
      if (by.slides()) motion.p = start_of(link(i).joint).value * by.axis;
      at = pose(by.parent) * by.in_parent * motion * inverse(by.in_child);
    }
  }

  // Outwards, as place(): what is free at the root moves with the model's frame.
  void set_in_motion() {
    bool any = false;
    for (const int i : file_.order) {
      PoseView& at = placed_[static_cast<std::size_t>(i)];
      if (link(i).joint < 0) {
        if (clusters_[static_cast<std::size_t>(at.cluster)].fixed) continue;
        any = true;
        at.w = options_.angular_velocity;
        at.v = options_.velocity + at.w.cross(at.pose.p - options_.base.p);
        continue;
      }
      const Joint& by = joint(link(i).joint);
      const PoseView& parent = placed_[static_cast<std::size_t>(by.parent)];
      const Pose frame = parent.pose * by.in_parent;
      at.w = parent.w;
      at.v = parent.v + parent.w.cross(at.pose.p - parent.pose.p);
      if (!by.turns() && !by.slides()) continue;
      const Vector3d along = start_of(link(i).joint).rate * (frame.q * by.axis);
      if (by.turns()) at.w += along, at.v += along.cross(at.pose.p - frame.p);
      if (by.slides()) at.v += along;
    }
    if (!any && options_.moving.source)
      scene::fail(options_.moving,
                  "model: its base is fixed, and cannot start with a velocity; fixed_base = false frees it");
  }

  // ---- bodies ----

  // True if a link on a fixed joint is part of the body that it is fixed to.
  bool joins(int i, const Cluster& body) {
    if (options_.merge_fixed || link(i).mass() == 0 || (body.mass == 0 && !body.fixed)) return true;
    constexpr RobotNotes::Kind without_inertia{
        "link", "has an inertia that is zero or not positive definite, and is part of the body that it is fixed to",
        "have inertias that are zero or not positive definite, and are part of the bodies that they are fixed to"};
    constexpr RobotNotes::Kind bearer{
        "link", "is part of the body that it is fixed to, because the inertia of that is zero or not positive definite",
        "are part of the bodies that they are fixed to, because the inertias of those are zero or not positive "
        "definite"};
    if (!is_positive_definite(link(i).inertial->inertia, link(i).mass())) {
      file_.notes.add(without_inertia, link(i).name);
      return true;
    }
    if (body.fixed || body.sound) return false;
    file_.notes.add(bearer, link(i).name);
    return true;
  }

  // Links that are one body: those on fixed joints of which one has no mass or no inertia, or all of them if so wished.
  void gather() {
    for (const int i : file_.order) {
      int into = -1;
      const bool root = link(i).joint < 0;
      if (!root && joint(link(i).joint).kind == Joint::Kind::fixed) {
        const int above = cluster_at(joint(link(i).joint).parent);
        if (joins(i, clusters_[static_cast<std::size_t>(above)])) into = above;
      }
      if (into < 0) {
        into = static_cast<int>(clusters_.size());
        clusters_.emplace_back();
        const bool held = root && (link(i).held || (link(i).name == "world" && link(i).mass() == 0));
        clusters_.back().fixed = held || (root && options_.fixed_base.value_or(false));
        if (held && options_.fixed_base == false)
          fail(link(i).at, "the root link \"" + link(i).name +
                               (link(i).name == "world" ? "\" is the world itself, which fixed_base = false cannot free"
                                                        : "\" is static, which fixed_base = false cannot free"));
      }
      placed_[static_cast<std::size_t>(i)].cluster = into;
      Cluster& cluster = clusters_[static_cast<std::size_t>(into)];
      cluster.links.push_back(i);
      cluster.mass += link(i).mass();
      if (!cluster.sound && link(i).mass() > 0)
        cluster.sound = is_positive_definite(inertia_of(cluster, Quaterniond::Identity()), cluster.mass);
    }
    const bool weightless =
        std::all_of(clusters_.begin(), clusters_.end(), [](const Cluster& c) { return c.mass == 0; });
    bool said = options_.fixed_base == true;
    for (Cluster& each : clusters_) {
      const Link& first = link(each.links.front());
      said = said || (first.joint < 0 && each.fixed);
      if (first.joint < 0 && each.mass == 0 && !each.fixed) {
        if (options_.fixed_base == false)
          fail(first.at,
               "link \"" + first.name + "\" has no mass, but fixed_base = false needs one. Give it an <inertial>");
        each.fixed = true;
      }
      if (weightless && !each.fixed)
        fail(first.at, "link \"" + first.name + "\" moves by joint \"" + joint(first.joint).name +
                           "\" and no link of the robot has a mass: give each that moves an <inertial>");
    }
    if (weightless && !said)
      out_.warnings.push_back(warning(link(file_.order.front()).at,
                                      "no link of the robot has a mass: nothing of it moves; a link that is to move "
                                      "needs an <inertial>"));
    if (!clusters_.front().fixed && !options_.fixed_base)
      file_.notes.add(
          "the root link \"" + link(file_.order.front()).name +
          "\" has a mass, so the robot is free to move. To fix it, write fixed_base = true in [model] of a scene");
  }

  // ---- links without mass ----

  // Sorts the links without mass that a joint moves. It leaves out those with no mass beyond. The others are frames
  // inside the compound joint that the joints of their chain make.
  void find_frames() {
    std::vector<std::vector<int>> leaving(clusters_.size()), closing(clusters_.size());
    for (std::size_t k = 0; k < file_.joints.size(); ++k) {
      const auto a = static_cast<std::size_t>(cluster_at(file_.joints[k].parent)),
                 b = static_cast<std::size_t>(cluster_at(file_.joints[k].child));
      if (link(file_.joints[k].child).joint != static_cast<int>(k)) {
        closing[a].push_back(static_cast<int>(k)), closing[b].push_back(static_cast<int>(k));
      } else if (a != b) {
        leaving[a].push_back(static_cast<int>(k));
      }
    }
    std::vector<std::string> left_out;
    bool shapes = false;
    for (std::size_t i = clusters_.size(); i-- > 0;) {  // outermost first
      Cluster& each = clusters_[i];
      if (each.mass > 0 || each.fixed) continue;
      for (const int l : each.links) shapes = shapes || !link(l).shapes.empty();
      each.role = Role::frame;
      if (!leaving[i].empty() || !closing[i].empty()) continue;
      each.role = Role::left_out;
      const Link& first = link(each.links.front());
      left_out.push_back(first.name);
      std::erase(leaving[static_cast<std::size_t>(cluster_at(joint(first.joint).parent))], first.joint);
    }
    for (std::size_t i = 0; i < clusters_.size(); ++i)
      if (clusters_[i].role == Role::frame) refuse_branches(clusters_[i], leaving[i], closing[i]);
    for (const Cluster& each : clusters_)
      if (each.role == Role::body && hangs_by_compound(each)) find_chain(each);
    refuse_mimics_in_chains();
    std::reverse(left_out.begin(), left_out.end());
    constexpr RobotNotes::Kind without_mass{
        "link", "has no mass, and no link beyond it has one. It is left out with its joint",
        "have no mass, and no links beyond them have one. They are left out with their joints"};
    for (const std::string& name : left_out) file_.notes.add(without_mass, name);
    if (shapes) file_.notes.add(std::string("the shapes of moving links without mass collide with nothing"));
  }

  // A link without mass transmits the force of one joint to one other.
  void refuse_branches(const Cluster& of, const std::vector<int>& leaving, const std::vector<int>& closing) const {
    const Link& first = link(of.links.front());
    const std::string who =
        "link \"" + first.name + "\" moves by joint \"" + joint(first.joint).name + "\" and has no mass, ";
    if (!closing.empty())
      fail(first.at,
           who + "and joint \"" + joint(closing.front()).name + "\" closes a loop at it. Give it an <inertial>");
    if (leaving.size() == 1) return;
    std::vector<std::string> names;
    for (const int k : leaving) names.push_back("\"" + joint(k).name + "\"");
    fail(first.at, who + "and several joints leave it: " + listed(names) +
                       ". Nothing would accelerate under the sum of their forces. Give it an <inertial>");
  }

  bool hangs_by_compound(const Cluster& of) {
    const int by = link(of.links.front()).joint;
    return by >= 0 && cluster_of(joint(by).parent).role == Role::frame;
  }

  static std::string cannot_replace_by_massless(const std::string& name) {
    return "joint \"" + name + "\" cannot be replaced: it is beside a link without mass. Give the link an <inertial>";
  }

  // The joints from the last link with a mass to this one.
  void find_chain(const Cluster& to) {
    std::vector<int> chain;
    const Cluster* at = &to;
    do {
      chain.push_back(link(at->links.front()).joint);
      at = &cluster_of(joint(chain.back()).parent);
    } while (at->role == Role::frame);
    std::reverse(chain.begin(), chain.end());
    for (const int k : chain) {
      chained_[static_cast<std::size_t>(k)] = 1;
      if (const auto asked = options_.replaced.find(joint(k).name);
          asked != options_.replaced.end() && joint(k).kind == Joint::Kind::floating)
        fail(asked->second, cannot_replace_by_massless(joint(k).name));
      if (joint(k).kind == Joint::Kind::floating)
        fail(joint(k).at, "joint \"" + joint(k).name + "\" is floating and connects link \"" +
                              link(joint(k).child).name +
                              "\", so nothing holds a link without mass in its place. Give it an <inertial>");
    }
    chains_.push_back(std::move(chain));
  }

  void refuse_mimics_in_chains() const {
    for (std::size_t k = 0; k < file_.joints.size(); ++k) {
      const Joint& j = file_.joints[k];
      if (!j.mimic) continue;
      const bool leads = !chained_[k];
      if (leads && !chained_[static_cast<std::size_t>(j.mimic->of)]) continue;
      const Joint& inner = leads ? joint(j.mimic->of) : j;
      fail(j.mimic->at,
           "joint \"" + j.name + "\", <mimic>: joint \"" + inner.name +
               "\" connects a link without mass, so it is part of a compound joint, and its position cannot "
               "be coupled. Give the links at this joint an <inertial>");
    }
  }

  static std::string listed(const std::vector<std::string>& names) {
    std::string out;
    for (const std::string& name : names) out += (out.empty() ? "" : ", ") + name;
    return out;
  }

  void make_bodies() {
    for (Cluster& each : clusters_) {
      if (each.role != Role::body) continue;
      const int root = each.links.front();
      // Named by the first with a mass; the world has a name and no body.
      int main = root;
      for (const int i : each.links)
        if (link(i).mass() > 0 && link(main).mass() == 0) main = i;
      SceneBody body;
      body.name = options_.prefix + link(main).name;
      bool shapes = false;
      for (const int i : each.links) shapes = shapes || !link(i).shapes.empty() || !link(i).planes.empty();
      if (each.fixed && body.name == "world") {
        if (!shapes && options_.base.p.isZero() && options_.base.q.isApprox(Quaterniond::Identity())) continue;
        body.name += "_link";
      }
      const Quaterniond q_main = pose(main).q;
      body.kind = each.fixed ? BodyKind::fixed : BodyKind::rigid;
      body.start.p = pose(main).p;
      body.start.q = q_main;
      if (each.mass > 0 && !each.fixed) set_mass(each, main, body);
      const PoseView& moves = placed_[static_cast<std::size_t>(main)];
      body.start.w = moves.w;
      body.start.v = moves.v + moves.w.cross(body.start.p - moves.pose.p);
      body.link_axes = (body.start.q.conjugate() * q_main).normalized();
      body.family = options_.self_collision ? 0 : 1;
      const Pose to_body{-(body.start.q.conjugate() * body.start.p), body.start.q.conjugate()};
      for (const int i : each.links)
        for (const auto* kind : {&link(i).shapes, &link(i).planes})
          for (const PlacedShape& shape : *kind)
            body.more_shapes.push_back({shape.shape, to_body * pose(i) * shape.pose});
      out_.bodies.emplace_back(std::move(body), link(main).at);
      each.body = static_cast<int>(out_.bodies.size());
    }
    make_frames();
  }

  // Those of links, and of joints whose names no link has. The frame of a joint moves with its child.
  void make_frames() {
    std::set<std::string_view> names;
    const auto add = [&](const std::string& name, int of, const Pose& at) {
      const Cluster& body = cluster_of(of);
      if (body.role != Role::body || !names.insert(name).second) return;
      const JointFrame frame = in_body(body.body, at, Matrix3d::Identity());
      out_.frames.push_back({options_.prefix + name,
                             BodyId{body.body},
                             {frame.origin, Quaterniond(Eigen::Quaterniond(frame.axes)).normalized()}});
    };
    for (std::size_t i = 0; i < file_.links.size(); ++i) {
      const int at = static_cast<int>(i);
      add(file_.links[i].name, at, pose(at));
    }
    for (const Joint& j : file_.joints) add(j.name, j.child, pose(j.child) * j.in_child);
  }

  Vector3d centre_of(const Cluster& of) const {
    Vector3d first = Vector3d::Zero();
    for (const int i : of.links)
      if (link(i).mass() > 0) first += link(i).mass() * (pose(i) * link(i).inertial->frame).p;
    return first / of.mass;
  }
  // About the centre of mass, in the axes that q turns those of the world to.
  Matrix3d inertia_of(const Cluster& of, const Quaterniond& q) const {
    const Vector3d centre = centre_of(of);
    Matrix3d I = Matrix3d::Zero();
    for (const int i : of.links) {
      if (link(i).mass() == 0) continue;
      const Pose frame = pose(i) * link(i).inertial->frame;
      const Matrix3d R = (q.conjugate() * frame.q).normalized().toRotationMatrix();
      const Vector3d r = q.conjugate() * Vector3d(frame.p - centre);
      I += R * link(i).inertial->inertia * R.transpose() +
           link(i).mass() * (r.squaredNorm() * Matrix3d::Identity() - r * r.transpose());
    }
    return 0.5 * (I + I.transpose());
  }

  // Mass, centre and inertia. Unless the scene asks for those of the link, the body's axes are the principal ones that
  // lie nearest to the main link's, which are the link's own where its inertia is diagonal in them: hosts keep three
  // moments.
  void set_mass(const Cluster& of, int main, SceneBody& body) {
    const Quaterniond q_main = pose(main).q;
    body.mass = of.mass;
    body.start.p = centre_of(of);
    std::size_t with_mass = 0;
    for (const int i : of.links) {
      if (link(i).mass() == 0) continue;
      ++with_mass;
      const Matrix3d& own = link(i).inertial->inertia;
      if (is_positive_definite(own, link(i).mass()) && !doubt_of(own).empty()) doubtful_.push_back(i);
    }
    const Matrix3d I = checked_inertia(inertia_of(of, q_main), of.mass, link(main), with_mass, file_.notes);
    if (options_.link_axes && !options_.multibody) {
      body.inertia = I;
      return;
    }
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

  // One warning for all links whose inertia no mass has.
  void warn_of_doubtful_inertias() {
    if (doubtful_.empty()) return;
    const Link& first = link(doubtful_.front());
    std::string text = "link \"" + first.name + "\", <inertia>: " + doubt_of(first.inertial->inertia);
    std::vector<std::string> others;
    for (std::size_t k = 1; k < doubtful_.size(); ++k) others.push_back(link(doubtful_[k]).name);
    if (!others.empty()) {
      const std::string many = others.size() == 1 ? "1 more link" : std::to_string(others.size()) + " more links";
      text = Note(text + ". The same applies to " + many, std::move(others)).shown();
    }
    out_.warnings.push_back(warning(first.inertial->at, text));
  }

  // ---- multibodies ----

  // Which bodies are links of one: those that joints with coordinates of a btMultiBody hang on each other. A body that
  // none of these reaches stays by itself.
  void plant() {
    int many = 0;
    for (Cluster& each : clusters_) {
      const Link& first = link(each.links.front());
      if (each.role != Role::body || first.joint < 0 || !in_tree(joint(first.joint).kind)) continue;
      if (hangs_by_compound(each)) continue;  // The compound joint is a constraint.
      Cluster& parent = cluster_of(joint(first.joint).parent);
      if (parent.multibody == 0) parent.multibody = ++many;
      each.multibody = parent.multibody;
    }
    for (const Cluster& each : clusters_)
      if (each.body > 0) out_.bodies[static_cast<std::size_t>(each.body) - 1].first.multibody = each.multibody;
    if (many == 0)
      file_.notes.add("link \"" + link(file_.order.front()).name +
                      "\" has no joint that a multibody supports, so it is a rigid body");
  }
  static bool in_tree(Joint::Kind kind) { return kind != Joint::Kind::floating && kind != Joint::Kind::planar; }

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

  // Of a joint on its two bodies. They coincide where its position is 0.
  struct Frames {
    JointFrame P, C;
  };

  void make_joints() {
    std::vector<Frames> frames(file_.joints.size());
    constexpr RobotNotes::Kind limits_in_loop{"joint", "closes a loop of a multibody: its limits are left out",
                                              "close loops of multibodies: their limits are left out"};
    for (std::size_t k = 0; k < file_.joints.size(); ++k) {
      const Joint& j = file_.joints[k];
      const int a = cluster_of(j.parent).body;
      const int b = cluster_of(j.child).body;
      Matrix3d W = Matrix3d::Identity();
      if (j.kind != Joint::Kind::fixed && j.kind != Joint::Kind::ball && j.axis != Vector3d::UnitX()) {
        const Vector3d e = j.axis.unitOrthogonal();
        W << j.axis, e, j.axis.cross(e);
      }
      const Pose at_zero = pose(j.parent) * j.in_parent, now = pose(j.child) * j.in_child;
      frames[k] = {in_body(a, at_zero, W), in_body(b, now, W)};
      if (a == b || j.kind == Joint::Kind::floating) continue;
      if (chained_[k] || cluster_of(j.child).role == Role::left_out) continue;
      if (cluster_of(j.parent).fixed && cluster_of(j.child).fixed) continue;
      SceneConstraint c;
      c.name = options_.prefix + j.name;
      c.bodies = {BodyId{a}, BodyId{b}};
      c.frame_a = frames[k].P, c.frame_b = frames[k].C;
      c.start = start_[k].value_or(Coordinate()).value;
      c.rate = start_[k].value_or(Coordinate()).rate;
      c.max_force = j.max_force, c.max_rate = j.max_rate;
      c.tree = options_.multibody && link(j.child).joint == static_cast<int>(k) && in_tree(j.kind);
      c.own_axes = Quaterniond(Eigen::Quaterniond(Matrix3d(c.frame_b.axes * W.transpose()))).normalized();
      const JointFrame P = c.frame_a, C = c.frame_b;
      const std::string name = c.name;
      switch (j.kind) {
        case Joint::Kind::revolute:
        case Joint::Kind::continuous:
          c.type = "hinge";
          c.make = [=](const std::vector<BodyId>& id) {
            return joints::hinge(name, id[0], P.origin, P.axes.col(0), id[1], C.origin, C.axes.col(0));
          };
          break;
        case Joint::Kind::prismatic:
          c.type = "slider";
          c.make = [=](const std::vector<BodyId>& id) { return joints::slider(name, id[0], P, id[1], C); };
          break;
        case Joint::Kind::planar:
          c.type = "planar";
          c.make = [=](const std::vector<BodyId>& id) {
            return joints::planar(name, id[0], P.origin, P.axes.col(0), id[1], C.origin, C.axes.col(0));
          };
          break;
        case Joint::Kind::ball:
          c.type = "ball";
          c.make = [=](const std::vector<BodyId>& id) { return joints::ball(name, id[0], P.origin, id[1], C.origin); };
          break;
        default:
          c.type = "weld";
          c.make = [=](const std::vector<BodyId>& id) { return joints::weld(name, id[0], P, id[1], C); };
      }
      if (j.turns() || j.slides()) {
        laws::JointFriction friction;
        friction.preload = j.friction;
        if (j.damping > 0) c.laws.push_back(j.turns() ? laws::viscous_torque(j.damping) : laws::viscous(j.damping));
        if (j.friction > 0)
          c.laws.push_back(j.turns() ? laws::hinge_friction(friction) : laws::slider_friction(friction));
      }
      if (j.stiffness > 0) make_spring(j, c.bodies, frames[k], c.start);
      if (j.armature > 0) make_rotor(j, c.bodies, frames[k], c.start, c.rate);
      const bool nobodys = options_.multibody && !c.tree;
      if (j.limits && !j.mimic && nobodys) file_.notes.add(limits_in_loop, j.name);
      if (j.limits && !j.mimic && !nobodys) {
        c.limits = j.limits;
        out_.native.push_back(c.name + ": limits " + shown(j.limits->first) + " to " + shown(j.limits->second) +
                              (j.turns() ? " rad" : " m"));
      }
      out_.joints.emplace_back(std::move(c), j.at);
    }
    for (const std::vector<int>& chain : chains_) make_compound_joint(chain);
    note_compound_joints();
    note_replaced_joints();
    for (std::size_t k = 0; k < file_.joints.size(); ++k) {
      const Joint& j = file_.joints[k];
      if (!j.mimic || cluster_of(j.child).role == Role::left_out) continue;
      if (cluster_of(joint(j.mimic->of).child).role == Role::left_out) {
        file_.notes.add("joint \"" + j.name + "\" mimics \"" + joint(j.mimic->of).name +
                        "\", which moves no mass and is left out. Joint \"" + j.name + "\" moves freely");
        continue;
      }
      SceneConstraint c;
      c.name = options_.prefix + (j.mimic->name.empty() ? j.name + ".mimic" : j.mimic->name);
      c.type = "mimic";
      c.mimic = {options_.prefix + j.name, options_.prefix + joint(j.mimic->of).name, j.mimic->multiplier,
                 j.mimic->offset};
      const auto index = [&](int body) {
        const auto found = std::find(c.bodies.begin(), c.bodies.end(), BodyId{body});
        if (found != c.bodies.end()) return static_cast<int>(found - c.bodies.begin());
        c.bodies.push_back(BodyId{body});
        return static_cast<int>(c.bodies.size()) - 1;
      };
      const auto coupled = [&](std::size_t i) {
        const Joint& of = file_.joints[i];
        const int child = index(cluster_of(of.child).body), parent = index(cluster_of(of.parent).body);
        return coordinate_between(parent, child, of, frames[i], start_[i].value_or(Coordinate()).value);
      };
      const JointCoordinate follower = coupled(k), leader = coupled(static_cast<std::size_t>(j.mimic->of));
      c.make = [=, name = c.name, m = j.mimic->multiplier, o = j.mimic->offset](const std::vector<BodyId>& id) {
        return couple(name, id, leader, follower, m, o);
      };
      out_.joints.emplace_back(std::move(c), j.mimic->at);
    }
    for (const RobotFile::Gear& gear : file_.gears) make_gear(gear);
  }

  static JointCoordinate coordinate_between(int parent, int child, const Joint& j, const Frames& frames, double start) {
    JointCoordinate out;
    out.parent = parent, out.child = child;
    out.slides = j.slides();
    out.frame_P = frames.P, out.frame_C = frames.C;
    out.start = start;
    return out;
  }

  static Compliance spring_of(const Joint& j) {
    return {j.slides() ? j.stiffness : 0, 0, j.slides() ? 0 : j.stiffness, 0};
  }

  void make_spring(const Joint& j, const std::vector<BodyId>& bodies, const Frames& frames, double start) {
    SceneConstraint c;
    c.name = options_.prefix + j.name + ".spring";
    c.type = "spring";
    c.bodies = bodies;
    c.compliance = spring_of(j);
    c.make = [name = c.name, of = coordinate_between(0, 1, j, frames, start), reference = j.spring_reference](
                 const std::vector<BodyId>& id) { return coordinate_constraint(name, id, of, reference); };
    out_.joints.emplace_back(std::move(c), j.at);
  }

  // A rotor in a bearing of the world, whose angle is the position of the joint.
  void make_rotor(const Joint& j, const std::vector<BodyId>& bodies, const Frames& frames, double start, double rate) {
    const std::string name = options_.prefix + j.name;
    const Vector3d axis = Vector3d::UnitX();
    SceneBody rotor;
    rotor.name = name + ".rotor";
    rotor.mass = j.armature;
    rotor.inertia = j.armature * Matrix3d::Identity();
    rotor.start.p = (pose(j.child) * j.in_child).p;
    rotor.start.w = rate * axis;
    const Vector3d at = rotor.start.p;
    out_.bodies.emplace_back(std::move(rotor), j.at);
    const BodyId id{static_cast<int>(out_.bodies.size())};

    SceneConstraint bearing;
    bearing.name = name + ".bearing";
    bearing.type = "hinge";
    bearing.bodies = {ground, id};
    bearing.frame_a = {at, Matrix3d::Identity()}, bearing.frame_b = {Vector3d::Zero(), Matrix3d::Identity()};
    bearing.start = start, bearing.rate = rate;
    bearing.make = [name = bearing.name, at, axis](const std::vector<BodyId>& of) {
      return joints::hinge(name, of[0], at, axis, of[1], Vector3d::Zero(), axis);
    };

    SceneConstraint coupling;
    coupling.name = name + ".armature";
    coupling.type = "mimic";
    const bool on_world = bodies[0] == ground;
    coupling.bodies = {bodies[0], bodies[1], id};
    if (!on_world) coupling.bodies.push_back(ground);
    JointCoordinate follower;
    follower.parent = on_world ? 0 : 3, follower.child = 2;
    follower.frame_P = bearing.frame_a, follower.frame_C = bearing.frame_b;
    coupling.make = [name = coupling.name, leader = coordinate_between(0, 1, j, frames, start), follower,
                     start](const std::vector<BodyId>& of) { return couple(name, of, leader, follower, 1, -start); };
    out_.joints.emplace_back(std::move(bearing), j.at);
    out_.joints.emplace_back(std::move(coupling), j.at);
  }

  // A mimic, if joints of the file turn both links against the reference link.
  void make_gear(const RobotFile::Gear& gear) {
    SceneConstraint c;
    c.name = options_.prefix + gear.name;
    const GearSide in = gear_side(gear, 0), out = gear_side(gear, 1);
    double multiplier = -gear.ratio;
    for (const int link_of : {gear.reference, gear.links[0], gear.links[1]})
      if (cluster_of(link_of).role != Role::body)
        fail(gear.at, "joint \"" + gear.name + "\": the link \"" + link(link_of).name +
                          "\" of a gearbox has no mass, so its rotation is not known. Give it an <inertial>");
    const auto index = [&](int link_of) {
      const BodyId body{cluster_of(link_of).body};
      const auto found = std::find(c.bodies.begin(), c.bodies.end(), body);
      if (found != c.bodies.end()) return static_cast<int>(found - c.bodies.begin());
      c.bodies.push_back(body);
      return static_cast<int>(c.bodies.size()) - 1;
    };
    JointCoordinate coordinates[2];
    for (std::size_t k = 0; k < 2; ++k) {
      JointCoordinate& of = coordinates[k];
      of.child = index(gear.links[k]), of.parent = index(gear.reference);
      if (of.child == of.parent)
        fail(gear.at, "joint \"" + gear.name + "\": the links \"" + link(gear.links[k]).name + "\" and \"" +
                          link(gear.reference).name +
                          "\" are one body, so the gearbox has no angle between them. Leave the joint out");
      const Vector3d axis = gear.axes[k], e = axis.unitOrthogonal();
      Matrix3d W;
      W << axis, e, axis.cross(e);
      // The frames coincide in the pose of the file.
      of.frame_P = in_body(cluster_of(gear.reference).body, pose(gear.reference), W);
      of.frame_C = in_body(cluster_of(gear.links[k]).body, pose(gear.links[k]) * inverse(gear.frames[k]), W);
      if (const GearSide& by = k == 0 ? in : out; by.joint >= 0)
        of.start = by.sign * start_[static_cast<std::size_t>(by.joint)].value_or(Coordinate()).value;
    }
    c.type = "gear";
    if (in.joint >= 0 && out.joint >= 0) {
      c.type = "mimic";
      c.mimic = {options_.prefix + joint(out.joint).name, options_.prefix + joint(in.joint).name,
                 multiplier * in.sign * out.sign, 0};
    }
    c.make = [=, name = c.name, leader = coordinates[0], follower = coordinates[1]](const std::vector<BodyId>& id) {
      return couple(name, id, leader, follower, multiplier, 0);
    };
    out_.joints.emplace_back(std::move(c), gear.at);
  }

  // The joints that the scene replaces are floating or fixed. No constraint was made of the floating ones.
  void note_replaced_joints() {
    for (const Joint& j : file_.joints) {
      const auto asked = options_.replaced.find(j.name);
      if (asked == options_.replaced.end() || j.kind == Joint::Kind::fixed) continue;
      const int a = cluster_of(j.parent).body, b = cluster_of(j.child).body;
      const bool massless = cluster_of(j.parent).role != Role::body || cluster_of(j.child).role != Role::body;
      if (massless) fail(asked->second, cannot_replace_by_massless(j.name));
      if (a == b) fail(asked->second, "joint \"" + j.name + "\" cannot be replaced: its two links are one body");
      out_.replaced.push_back({j.name, BodyId{a}, BodyId{b},
                               in_body(a, pose(j.parent) * j.in_parent, Matrix3d::Identity()),
                               in_body(b, pose(j.child) * j.in_child, Matrix3d::Identity()), j.axis});
    }
  }

  // ---- compound joints ----

  void make_compound_joint(const std::vector<int>& chain) {
    constexpr RobotNotes::Kind armature_in_chain{"joint", "is part of a compound joint: its armature is left out",
                                                 "are parts of compound joints: their armatures are left out",
                                                 "Give the links at these joints an <inertial>"};
    const Joint &first = joint(chain.front()), &last = joint(chain.back());
    const int a = cluster_of(first.parent).body, b = cluster_of(last.child).body;
    CompoundJoint compound;
    std::vector<std::pair<int, int>> own;                 // joints with one coordinate, and this coordinate
    Pose reached = pose(first.parent) * first.in_parent;  // frame after the last coordinate, in the world at the start
    compound.frame_A = in_body(a, reached, Matrix3d::Identity());
    for (const int k : chain) {
      const Joint& j = joint(k);
      Pose before = inverse(reached) * (pose(j.parent) * j.in_parent);
      reached = pose(j.child) * j.in_child;
      const auto add = [&](bool slides, const Vector3d& axis, double start) {
        compound.coordinates.push_back({slides, axis, std::exchange(before, Pose()), start});
      };
      switch (j.kind) {
        case Joint::Kind::planar: {
          const Vector3d e = j.axis.unitOrthogonal();
          add(true, e, 0), add(true, j.axis.cross(e), 0), add(false, j.axis, 0);
          break;
        }
        case Joint::Kind::ball:
          add(false, Vector3d::UnitX(), 0), add(false, Vector3d::UnitY(), 0), add(false, Vector3d::UnitZ(), 0);
          break;
        default:
          own.emplace_back(k, static_cast<int>(compound.coordinates.size()));
          add(j.slides(), j.axis, start_[static_cast<std::size_t>(k)].value_or(Coordinate()).value);
      }
    }
    compound.frame_B = in_body(b, reached, Matrix3d::Identity());
    move_to_common_point(compound);
    const int count = static_cast<int>(compound.coordinates.size());
    const Freedom free = count <= 6 ? freedom(compound) : Freedom{6, false};
    std::vector<std::string> names;
    for (const int k : chain) {
      if (names.size() == 6) {
        names.push_back("…");
        break;
      }
      names.push_back("\"" + options_.prefix + joint(k).name + "\"");
    }
    if (free.rank < count)
      fail(last.at, "the joints " + listed(names) + " connect links without mass, and their " + std::to_string(count) +
                        " axes give only " + std::to_string(free.rank) +
                        " independent motions. So a link without mass could move alone. Give link \"" +
                        link(first.child).name + "\" an <inertial>");
    if (free.singular_start)
      file_.notes.add("the axes of the joints " + listed(names) +
                      " are dependent at the start (gimbal lock). The compound joint takes the directions beside this "
                      "pose, and the rates of these joints are the smallest ones that give the motion of the body");
    (compound.is_constraint() ? compounds_ : unconstrained_)
        .push_back("\"" + options_.prefix + last.name + "\" (" + listed(names) + ")");
    SceneConstraint c;
    c.name = options_.prefix + last.name;
    c.type = "compound";
    c.bodies = {BodyId{a}, BodyId{b}};
    c.frame_a = compound.frame_A, c.frame_b = compound.frame_B;
    c.own_axes = Quaterniond(Eigen::Quaterniond(c.frame_b.axes)).normalized();
    compound.name = c.name;
    const auto shared = std::make_shared<const CompoundJoint>(compound);
    c.make = [shared](const std::vector<BodyId>& id) { return compound_joint(id[0], id[1], *shared); };
    if (compound.is_constraint()) out_.joints.emplace_back(std::move(c), last.at);
    for (const auto& [k, which] : own) {
      const Joint& j = joint(k);
      SceneConstraint coordinate;
      coordinate.name = options_.prefix + j.name;
      coordinate.type = j.slides() ? "slider" : "hinge";
      coordinate.bodies = {BodyId{a}, BodyId{b}};
      coordinate.start = start_[static_cast<std::size_t>(k)].value_or(Coordinate()).value;
      coordinate.rate = start_[static_cast<std::size_t>(k)].value_or(Coordinate()).rate;
      coordinate.max_force = j.max_force, coordinate.max_rate = j.max_rate;
      coordinate.compound = shared, coordinate.compound_coordinate = which;
      if (j.limits && free.singular_start)  // The coordinate has no unique value there.
        chain_limits_.push_back("\"" + coordinate.name + "\"");
      else
        coordinate.limits = j.limits;
      if (j.damping > 0) {
        SceneConstraint damping = along_coordinate(coordinate, "damping", coordinate.start);
        damping.compliance = Compliance{0, j.slides() ? j.damping : 0, 0, j.slides() ? 0 : j.damping};
        out_.joints.emplace_back(std::move(damping), j.at);
      }
      if (j.stiffness > 0) {
        SceneConstraint spring = along_coordinate(coordinate, "spring", j.spring_reference);
        spring.compliance = spring_of(j);
        out_.joints.emplace_back(std::move(spring), j.at);
      }
      if (j.armature > 0) file_.notes.add(armature_in_chain, j.name);
      if (j.friction > 0) {
        SceneConstraint friction = along_coordinate(coordinate, "friction", coordinate.start);
        friction.dry_friction = j.friction;
        out_.joints.emplace_back(std::move(friction), j.at);
      }
      out_.compound_coordinates.emplace_back(std::move(coordinate), j.at);
    }
  }

  // The row of a coordinate, less a value.
  static SceneConstraint along_coordinate(const SceneConstraint& coordinate, const char* what, double value) {
    SceneConstraint out;
    out.bodies = coordinate.bodies;
    out.type = what;
    out.name = coordinate.name + "." + what;
    out.make = [name = out.name, of = coordinate_of(coordinate, State()),  // which does not need the state
                value](const std::vector<BodyId>& id) { return coordinate_constraint(name, id, of, value); };
    return out;
  }

  void note_compound_joints() {
    const auto note = [&](const std::vector<std::string>& names, const char* before, const char* after) {
      if (!names.empty()) file_.notes.add(before + listed(names) + after);
    };
    note(compounds_, "joints that links without mass connect act as one compound joint each: ", "");
    note(unconstrained_, "joints that links without mass connect leave all six motions free and hold nothing: ", "");
    note(chain_limits_, "the limits of joints in compound joints that start in gimbal lock do not act: ",
         ". Start them in another pose by joints in [model]");
  }

  const Link& link(int i) const { return file_.links[static_cast<std::size_t>(i)]; }
  const Joint& joint(int i) const { return file_.joints[static_cast<std::size_t>(i)]; }
  const Pose& pose(int link) const { return placed_[static_cast<std::size_t>(link)].pose; }
  int cluster_at(int link) const { return placed_[static_cast<std::size_t>(link)].cluster; }
  Cluster& cluster_of(int link) { return clusters_[static_cast<std::size_t>(cluster_at(link))]; }

  struct PoseView {
    Pose pose;                                            // of a link in the world, at the start
    Vector3d v = Vector3d::Zero(), w = Vector3d::Zero();  // of its origin, and how it turns
    int cluster = -1;                                     // the links that are one body with it
  };
  RobotFile& file_;  // to which notes are added
  const RobotOptions& options_;
  std::vector<PoseView> placed_;
  std::vector<std::optional<Coordinate>> start_;  // of joints
  std::vector<Cluster> clusters_;
  std::vector<int> doubtful_;             // links whose inertia violates the triangle inequality
  std::vector<char> chained_;             // by joint: whether it is part of a compound joint
  std::vector<std::vector<int>> chains_;  // joints of each compound joint, from the root outwards
  std::vector<std::string> compounds_, unconstrained_, chain_limits_;  // for notes
  Robot out_;
};

// Frees the links at the joints that the scene replaces, or fixes them to each other.
void free_replaced_joints(RobotFile& file, const RobotOptions& options) {
  constexpr RobotNotes::Kind lost{
      "joint", "is replaced by the scene, so its limits, damping, friction and <mimic> of the file do not act",
      "are replaced by the scene, so their limits, damping, friction and <mimic> of the file do not act"};
  for (const auto& [name, place] : options.replaced) {
    const auto found = std::find_if(file.joints.begin(), file.joints.end(),
                                    [&, name = name](const Joint& joint) { return joint.name == name; });
    if (found == file.joints.end()) {
      std::vector<std::string> known;
      for (const Joint& joint : file.joints) known.push_back(joint.name);
      fail(place, "there is no joint \"" + name + "\" to replace" + suggestion_or_all(name, known));
    }
    for (const Joint& follower : file.joints)
      if (follower.mimic && file.joints[static_cast<std::size_t>(follower.mimic->of)].name == name)
        fail(place, "joint \"" + name + "\" cannot be replaced, because joint \"" + follower.name + "\" mimics it");
    if (found->limits || found->damping > 0 || found->friction > 0 || found->stiffness > 0 || found->armature > 0 ||
        found->mimic)
      file.notes.add(lost, name);
    found->kind = options.welded.count(name) > 0 ? Joint::Kind::fixed : Joint::Kind::floating;
    found->limits.reset(), found->mimic.reset();
    found->damping = found->friction = found->stiffness = found->armature = 0;
  }
}

}  // namespace

Robot read_robot(const std::string& text, const std::string& path, const RobotOptions& options, const Place& from) {
  RobotFile file = options.format == RobotFormat::urdf ? read_urdf(text, path, from, options.mesh_hulls)
                                                       : read_sdf(text, path, from, options.mesh_hulls);
  free_replaced_joints(file, options);
  complete_masses(file, options.fixed_base.value_or(false));
  Robot out = Maker(file, options).make();
  out.warnings.insert(out.warnings.begin(), file.warnings.begin(), file.warnings.end());
  out.files = file.files;
  const std::vector<Note> notes = file.notes.all();
  out.notes.insert(out.notes.begin(), notes.begin(), notes.end());
  return out;
}

}  // namespace linchpin::scene
