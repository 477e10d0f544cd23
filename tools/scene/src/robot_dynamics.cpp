#include "expression.h"
#include "joint_coordinate.h"
#include "singular_values.h"

#include <linchpin/scene/robot_dynamics.h>

#include <Eigen/Cholesky>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace linchpin::scene {

namespace {

using DenseMatrix = Eigen::MatrixXd;
using DenseVector = Eigen::VectorXd;
using Kind = RobotJoint::Kind;

[[noreturn]] void refuse_robot(const std::string& text) { throw std::invalid_argument("robot dynamics: " + text); }

// How the pose of a body follows from that of the body it hangs on.
struct TreeEdge {
  enum class Motion { hinge, slider, ball, weld };
  Motion motion = Motion::weld;
  std::size_t first = 0, second = 0;  // bodies of the joint in the file
  bool reversed = false;              // the tree goes from the second to the first
  Vector3d origin_A = Vector3d::Zero(), origin_B = Vector3d::Zero();
  Quaterniond axes_A = Quaterniond::Identity(), axes_B = Quaterniond::Identity();
  double zero = 0;  // value by the frames alone where the coordinate is 0
  int joint = -1;   // index in `joints`; −1 for a weld
};

// One body of the tree; those it hangs on come before it.
struct TreeNode {
  std::size_t body = 0;
  std::optional<TreeEdge> edge;  // empty: a root
  int joint = -1;                // of a free root
};

Quaterniond rotation_of(const Matrix3d& axes) { return Quaterniond(Eigen::Quaterniond(axes)).normalized(); }

Quaterniond exponential(const Vector3d& turn) {
  const double angle = turn.norm();
  const double half = angle > 1e-8 ? std::sin(0.5 * angle) / angle : 0.5 - angle * angle / 48;
  const Vector3d xyz = half * turn;
  return Quaterniond(std::cos(0.5 * angle), xyz.x(), xyz.y(), xyz.z()).normalized();
}

Quaterniond quaternion_at(const VectorX& q, int at) {
  return Quaterniond(q[at], q[at + 1], q[at + 2], q[at + 3]).normalized();
}
void put_quaternion(const Quaterniond& value, VectorX& q, int at) {
  q[at] = value.w(), q[at + 1] = value.x(), q[at + 2] = value.y(), q[at + 3] = value.z();
}

// r × each column.
Eigen::Matrix3Xd crossed(const Vector3d& r, const Eigen::Ref<const Eigen::Matrix3Xd>& of) {
  Matrix3d skew;
  skew << 0, -r.z(), r.y(), r.z(), 0, -r.x(), -r.y(), r.x(), 0;
  return skew * of;
}

std::string quoted_list(const std::vector<std::string>& names) {
  constexpr std::size_t most = 12;
  std::string out;
  for (std::size_t i = 0; i < names.size() && i < most; ++i) out += (i ? ", \"" : "\"") + names[i] + "\"";
  if (names.size() > most) out += " and " + std::to_string(names.size() - most) + " more";
  return out.empty() ? "none" : out;
}

// Sets of bodies that are connected.
class Groups {
 public:
  explicit Groups(std::size_t count) : up_(count) { std::iota(up_.begin(), up_.end(), std::size_t(0)); }
  std::size_t of(std::size_t i) {
    while (up_[i] != i) i = up_[i] = up_[up_[i]];
    return i;
  }
  bool join(std::size_t a, std::size_t b) {  // false: they were connected before
    a = of(a), b = of(b);
    if (a == b) return false;
    up_[std::max(a, b)] = std::min(a, b);
    return true;
  }

 private:
  std::vector<std::size_t> up_;
};

}  // namespace

struct RobotDynamics::Impl {
  // ---- structure ----
  State start;
  std::vector<SceneBody> bodies;  // as in the model: body i is BodyId{i + 1}
  std::vector<char> counts;       // by BodyId: whether it is movable and part of this
  std::vector<RobotJoint> joints;
  std::vector<TreeNode> tree;
  struct Frame {
    std::string name;
    BodyFrame frame;
  };
  std::vector<Frame> joint_frames;
  std::vector<SceneFrame> named_frames;  // links, and [[frame]]
  struct Row {
    Constraint constraint;
    int first = 0;
    bool unwraps = false;  // has angles that it follows from state to state
  };
  std::vector<Row> rows;
  int m = 0, nq = 0, n = 0;
  std::vector<Note> left_out;
  Vector3d gravity = Vector3d::Zero();
  double rank_tolerance = 1e-6;

  // ---- state ----
  VectorX q, v;
  State state;
  std::vector<DenseMatrix> S;                // by body: [6 × n], velocity of the centre of mass above angular velocity
  std::vector<Vector3d> bias_a, bias_alpha;  // by body: acceleration where v̇ is zero
  struct Inertial {
    DenseMatrix M;
    DenseVector h, g;
  };
  mutable std::optional<Inertial> inertial_;
  mutable std::optional<DenseMatrix> inverse_;  // of the mass, with loops
  mutable std::optional<RobotConstraints> constraints_;

  Impl(const Model& model, const RobotDynamicsOptions& options) : named_frames(model.frames) { build(model, options); }

  static std::size_t at(BodyId id) { return static_cast<std::size_t>(id.index); }
  const SceneBody& body(std::size_t i) const { return bodies[i - 1]; }
  bool movable(std::size_t i) const {
    return i > 0 && (body(i).kind == BodyKind::rigid || body(i).kind == BodyKind::particle);
  }

  void build(const Model& model, const RobotDynamicsOptions& options) {
    for (const SceneBody& each : model.bodies)
      if (each.kind == BodyKind::coordinate)
        refuse_robot("\"" + each.name +
                     "\" is a generalized coordinate of the scene, which has no place in a tree of joints. Use a model "
                     "of bodies and joints");
    if (!(options.rank_tolerance > 0) || !(options.rank_tolerance < 1))
      refuse_robot("rank_tolerance is " + std::to_string(options.rank_tolerance) + ". It must be between 0 and 1");
    bodies = model.bodies;
    gravity = model.gravity;
    rank_tolerance = options.rank_tolerance;
    start = model.system().initial_state();
    const std::size_t count = start.bodies.size();
    select(model, options);

    // What is exact, and which of it may be a joint of the tree.
    std::vector<std::string> names;
    for (const SceneConstraint& c : model.constraints) names.push_back(c.name);
    for (const std::string& name : options.without)
      if (std::find(names.begin(), names.end(), name) == names.end())
        refuse_robot("options.without: there is no constraint \"" + name + "\"" + suggestion(name, names));
    std::vector<const SceneConstraint*> exact;
    for (const SceneConstraint& c : model.constraints) {
      const bool concerned = std::any_of(c.bodies.begin(), c.bodies.end(), [&](BodyId id) { return counts[at(id)]; });
      if (!concerned) continue;
      if (std::find(options.without.begin(), options.without.end(), c.name) != options.without.end())
        left_out.push_back(Note("\"" + c.name + "\" is left out by the options"));
      else if (c.yields())
        left_out.push_back(Note("\"" + c.name + "\" has forces in place of its rows"));
      else if (c.unilateral)
        left_out.push_back(Note("\"" + c.name + "\" is unilateral"));
      else
        exact.push_back(&c);
    }
    Groups groups(count);
    for (std::size_t i = 1; i < count; ++i)
      if (!movable(i)) groups.join(0, i);
    const auto may_be_in_tree = [&](const SceneConstraint& c) {
      if (c.bodies.size() != 2 || c.rheonomic) return false;
      if (c.type != "hinge" && c.type != "slider" && c.type != "ball" && c.type != "weld") return false;
      // A particle has no axes, so that it hangs on nothing but a ball joint, which is equal to a common place.
      for (const BodyId id : c.bodies)
        if (at(id) > 0 && body(at(id)).kind == BodyKind::particle) return false;
      return true;
    };
    std::vector<char> hangs(count), used(exact.size());
    for (const bool by_child : {true, false})
      for (std::size_t k = 0; k < exact.size(); ++k) {
        const SceneConstraint& c = *exact[k];
        if (used[k] || !may_be_in_tree(c)) continue;
        const std::size_t a = at(c.bodies[0]), b = at(c.bodies[1]);
        if (by_child && (!movable(b) || hangs[b])) continue;
        if (!groups.join(a, b)) continue;
        hangs[b] = 1, used[k] = 1;
      }
    grow(exact, used, hangs, groups);
    for (const SceneConstraint* c : exact)
      if (c->bodies.size() == 2 && may_be_in_tree(*c))
        joint_frames.push_back(
            {c->name, {c->bodies[1], c->frame_b.origin, c->own_axes ? *c->own_axes : rotation_of(c->frame_b.axes)}});
    for (std::size_t k = 0; k < exact.size(); ++k) {
      if (used[k]) continue;
      const SceneConstraint& c = *exact[k];
      rows.push_back({c.make(c.bodies), m, c.type == "mimic" || c.type == "gear"});
      m += rows.back().constraint.function().rows();
    }
    if (n == 0 && std::none_of(counts.begin(), counts.end(), [](char c) { return c != 0; }))
      refuse_robot("the model has no body that can move");

    q = VectorX::Zero(nq), v = VectorX::Zero(n);
    state = start;
    S.assign(count, DenseMatrix::Zero(6, n));
    bias_a.assign(count, Vector3d::Zero()), bias_alpha.assign(count, Vector3d::Zero());
    for (const TreeNode& each : tree)
      if (each.edge && each.edge->joint >= 0) {
        const RobotJoint& j = joints[static_cast<std::size_t>(each.edge->joint)];
        if (j.kind == Kind::hinge || j.kind == Kind::slider) q[j.position] = start_of_[j.name];
      }
    q = positions_of(start);
    v = velocities_of(start);
    state.t = start.t;
    update(q, v, start.t);
  }

  // Which bodies take part.
  void select(const Model& model, const RobotDynamicsOptions& options) {
    const std::size_t count = start.bodies.size();
    counts.assign(count, 0);
    for (std::size_t i = 1; i < count; ++i) counts[i] = movable(i);
    if (options.body.empty()) return;
    std::vector<std::string> names;
    std::size_t chosen = 0;
    for (std::size_t i = 1; i < count; ++i) {
      if (!movable(i)) continue;
      names.push_back(body(i).name);
      if (body(i).name == options.body) chosen = i;
    }
    if (chosen == 0)
      refuse_robot("options.body: there is no movable body \"" + options.body + "\"" + suggestion(options.body, names));
    Groups groups(count);
    for (const SceneConstraint& c : model.constraints) {
      std::size_t first = 0;
      for (const BodyId id : c.bodies) {
        if (!movable(at(id))) continue;
        if (first)
          groups.join(first, at(id));
        else
          first = at(id);
      }
    }
    for (std::size_t i = 1; i < count; ++i) counts[i] = movable(i) && groups.of(i) == groups.of(chosen);
  }

  // Makes the nodes of the tree and the coordinates.
  void grow(const std::vector<const SceneConstraint*>& exact, const std::vector<char>& used,
            const std::vector<char>& hangs, Groups& groups) {
    const std::size_t count = start.bodies.size();
    std::vector<std::vector<std::size_t>> edges(count);
    for (std::size_t k = 0; k < exact.size(); ++k)
      if (used[k])
        for (const BodyId id : exact[k]->bodies) edges[at(id)].push_back(k);
    // The root of each group: what is not movable, or else the first body that hangs on none.
    std::vector<char> root(count);
    for (std::size_t i = 0; i < count; ++i) root[i] = !movable(i);
    for (const bool any : {false, true})
      for (std::size_t i = 1; i < count; ++i) {
        if (!counts[i] || groups.of(i) == groups.of(0)) continue;
        bool has = false;
        for (std::size_t j = 1; j < count && !has; ++j) has = root[j] && groups.of(j) == groups.of(i);
        if (!has && (any || !hangs[i])) root[i] = 1;
      }
    // Coordinates: free bodies, then joints.
    const auto add = [&](const std::string& name, Kind kind, BodyId parent, BodyId child, int positions,
                         int velocities) {
      RobotJoint j;
      j.name = name, j.kind = kind, j.parent = parent, j.child = child;
      j.position = nq, j.positions = positions, j.velocity = n, j.velocities = velocities;
      nq += positions, n += velocities;
      joints.push_back(std::move(j));
      return static_cast<int>(joints.size()) - 1;
    };
    std::vector<int> free_joint(count, -1), joint_of(exact.size(), -1);
    for (std::size_t i = 1; i < count; ++i) {
      if (!root[i] || !counts[i]) continue;
      const BodyId id{static_cast<int>(i)};
      free_joint[i] = body(i).kind == BodyKind::particle ? add(body(i).name, Kind::free_particle, ground, id, 3, 3)
                                                         : add(body(i).name, Kind::free_body, ground, id, 7, 6);
    }
    for (std::size_t k = 0; k < exact.size(); ++k) {
      const SceneConstraint& c = *exact[k];
      if (!used[k] || c.type == "weld") continue;
      const Kind kind = c.type == "hinge" ? Kind::hinge : c.type == "slider" ? Kind::slider : Kind::ball;
      const bool ball = kind == Kind::ball;
      joint_of[k] = add(c.name, kind, c.bodies[0], c.bodies[1], ball ? 4 : 1, ball ? 3 : 1);
      if (!ball) joints.back().limits = c.limits, start_of_[c.name] = c.start;
    }
    // Outwards from the roots.
    std::vector<char> seen(count);
    for (std::size_t i = 0; i < count; ++i)
      if (root[i] && (!movable(i) || counts[i])) {
        tree.push_back({i, {}, free_joint[i]});
        seen[i] = 1;
      }
    for (std::size_t next = 0; next < tree.size(); ++next) {
      const std::size_t from = tree[next].body;
      for (const std::size_t k : edges[from]) {
        const SceneConstraint& c = *exact[k];
        TreeEdge edge;
        edge.first = at(c.bodies[0]), edge.second = at(c.bodies[1]);
        edge.reversed = edge.second == from;
        const std::size_t to = edge.reversed ? edge.first : edge.second;
        if (seen[to]) continue;
        seen[to] = 1;
        edge.motion = c.type == "hinge"    ? TreeEdge::Motion::hinge
                      : c.type == "slider" ? TreeEdge::Motion::slider
                      : c.type == "ball"   ? TreeEdge::Motion::ball
                                           : TreeEdge::Motion::weld;
        edge.origin_A = c.frame_a.origin, edge.origin_B = c.frame_b.origin;
        edge.axes_A = rotation_of(c.frame_a.axes), edge.axes_B = rotation_of(c.frame_b.axes);
        if (has_coordinate(c)) edge.zero = coordinate_of(c, start).zero;
        edge.joint = joint_of[k];
        tree.push_back({to, std::move(edge), -1});
      }
    }
  }
  std::map<std::string, double, std::less<>> start_of_;  // coordinates of joints at the start

  // ---- state ----

  static JointCoordinate coordinate(const TreeEdge& edge) {
    JointCoordinate out;
    out.parent = static_cast<int>(edge.first), out.child = static_cast<int>(edge.second);
    out.slides = edge.motion == TreeEdge::Motion::slider;
    out.frame_P = {edge.origin_A, edge.axes_A.toRotationMatrix()};
    out.frame_C = {edge.origin_B, edge.axes_B.toRotationMatrix()};
    return out;
  }

  VectorX positions_of(const State& of) const {
    VectorX out = VectorX::Zero(nq);
    for (const TreeNode& each : tree) {
      const BodyState& s = of.bodies[each.body];
      if (!each.edge) {
        if (each.joint < 0) continue;
        const RobotJoint& j = joints[static_cast<std::size_t>(each.joint)];
        out.segment<3>(j.position) = s.p;
        if (j.kind == Kind::free_body) put_quaternion(s.q.normalized(), out, j.position + 3);
        continue;
      }
      const TreeEdge& edge = *each.edge;
      if (edge.joint < 0) continue;
      const RobotJoint& j = joints[static_cast<std::size_t>(edge.joint)];
      const BodyState &A = of.bodies[edge.first], &B = of.bodies[edge.second];
      if (j.kind == Kind::ball) {
        Quaterniond relative = ((A.q * edge.axes_A).conjugate() * (B.q * edge.axes_B)).normalized();
        if (relative.w() < 0) relative.coeffs() *= -1;
        put_quaternion(relative, out, j.position);
      } else {
        const CoordinateValues near = CoordinateValues::Constant(1, q[j.position] + edge.zero);
        out[j.position] = coordinate_row(coordinate(edge), A, B, near).value - edge.zero;
      }
    }
    return out;
  }

  VectorX velocities_of(const State& of) const {
    VectorX out = VectorX::Zero(n);
    for (const TreeNode& each : tree) {
      const BodyState& s = of.bodies[each.body];
      if (!each.edge) {
        if (each.joint < 0) continue;
        const RobotJoint& j = joints[static_cast<std::size_t>(each.joint)];
        out.segment<3>(j.velocity) = s.v;
        if (j.kind == Kind::free_body) out.segment<3>(j.velocity + 3) = s.w;
        continue;
      }
      const TreeEdge& edge = *each.edge;
      if (edge.joint < 0) continue;
      const RobotJoint& j = joints[static_cast<std::size_t>(edge.joint)];
      const BodyState &A = of.bodies[edge.first], &B = of.bodies[edge.second];
      if (j.kind == Kind::ball)
        out.segment<3>(j.velocity) = (A.q * edge.axes_A).conjugate() * Vector3d(B.w - A.w);
      else
        out[j.velocity] = coordinate_row(coordinate(edge), A, B, CoordinateValues::Zero(1)).rate;
    }
    return out;
  }

  // Angles that constraints follow move by at most half a radian from one evaluation to the next.
  void follow(const VectorX& to, double t) {
    const bool any = std::any_of(rows.begin(), rows.end(), [](const Row& r) { return r.unwraps; });
    if (!any) return;
    const VectorX way = difference(q, to);
    const double most = way.size() ? way.cwiseAbs().maxCoeff() : 0;
    const int parts = std::max(1, static_cast<int>(std::min(1e6, std::ceil(most / 0.5))));
    const VectorX from = q;
    for (int k = 1; k <= parts; ++k) {
      place(k == parts ? to : moved(from, VectorX(way * (double(k) / parts))), VectorX::Zero(n), t, false);
      for (Row& r : rows)
        if (r.unwraps) r.constraint.function().accept(states_of(r.constraint), t);
    }
  }

  std::vector<BodyState> states_of(const Constraint& c) const {
    std::vector<BodyState> X;
    for (const BodyId id : c.bodies()) {
      X.push_back(state[id]);
      if (movable(at(id))) X.back().a = X.back().alpha = Vector3d::Zero();
    }
    return X;
  }

  void update(const VectorX& new_q, const VectorX& new_v, double t) {
    const VectorX unit = normalized(new_q);
    follow(unit, t);
    place(unit, new_v, t, true);
    q = unit, v = new_v;
    inertial_.reset(), inverse_.reset(), constraints_.reset();
  }

  VectorX normalized(const VectorX& of) const {
    VectorX out = of;
    for (const RobotJoint& j : joints) {
      const int i = j.kind == Kind::free_body ? j.position + 3 : j.position;
      if (j.kind == Kind::free_body || j.kind == Kind::ball) put_quaternion(quaternion_at(of, i), out, i);
    }
    return out;
  }

  // Forward kinematics. `derivatives`: also S and the accelerations without v̇.
  void place(const VectorX& new_q, const VectorX& new_v, double t, bool derivatives) {
    state.t = t;
    for (const TreeNode& each : tree) {
      BodyState& s = state.bodies[each.body];
      DenseMatrix& J = S[each.body];
      Vector3d &a = bias_a[each.body], &alpha = bias_alpha[each.body];
      if (!each.edge) {
        if (each.joint >= 0) {
          const RobotJoint& j = joints[static_cast<std::size_t>(each.joint)];
          s.p = new_q.segment<3>(j.position);
          s.v = new_v.segment<3>(j.velocity);
          if (j.kind == Kind::free_body) {
            s.q = quaternion_at(new_q, j.position + 3);
            s.w = new_v.segment<3>(j.velocity + 3);
          }
          for (int k = 0; derivatives && k < j.velocities; ++k) J(k, j.velocity + k) = 1;
        } else if (each.body > 0 && body(each.body).kind == BodyKind::kinematic && body(each.body).motion) {
          s = body(each.body).motion(t);
          a = s.a, alpha = s.alpha;
        }
        continue;
      }
      const TreeEdge& e = *each.edge;
      const std::size_t up = e.reversed ? e.second : e.first;
      const BodyState& P = state.bodies[up];
      const RobotJoint* j = e.joint < 0 ? nullptr : &joints[static_cast<std::size_t>(e.joint)];
      const double value =
          j && (j->kind == Kind::hinge || j->kind == Kind::slider) ? new_q[j->position] + e.zero : e.zero;
      const double sign = e.reversed ? -1 : 1;
      Quaterniond motion = Quaterniond::Identity();
      if (e.motion == TreeEdge::Motion::hinge) motion = exponential({value, 0, 0});
      if (e.motion == TreeEdge::Motion::ball) motion = quaternion_at(new_q, j->position);
      const Quaterniond relative = e.axes_A * motion * e.axes_B.conjugate();  // second body to first
      s.q = (e.reversed ? P.q * relative.conjugate() : P.q * relative).normalized();
      const Quaterniond& q_A = e.reversed ? s.q : P.q;
      const Vector3d shift = e.motion == TreeEdge::Motion::slider
                                 ? Vector3d(value * (q_A * e.axes_A._transformVector(Vector3d::UnitX())))
                                 : Vector3d::Zero();
      const Vector3d r_P = P.q * (e.reversed ? e.origin_B : e.origin_A);
      const Vector3d r_C = s.q * (e.reversed ? e.origin_A : e.origin_B);
      s.p = P.p + r_P + sign * shift - r_C;

      // Motion relative to the parent: w and v of the centre of mass.
      const Vector3d d = s.p - P.p;
      const Matrix3d E = (q_A * e.axes_A).toRotationMatrix();
      const Vector3d u = sign * E.col(0);
      Vector3d w_rel = Vector3d::Zero(), v_rel = Vector3d::Zero();
      if (e.motion == TreeEdge::Motion::hinge) w_rel = new_v[j->velocity] * u;
      if (e.motion == TreeEdge::Motion::ball) w_rel = sign * (E * new_v.segment<3>(j->velocity));
      if (e.motion == TreeEdge::Motion::slider) v_rel = new_v[j->velocity] * u;
      s.w = P.w + w_rel;
      s.v = P.v + P.w.cross(d) - w_rel.cross(r_C) + v_rel;
      if (!derivatives) continue;
      const DenseMatrix& up_J = S[up];
      J.bottomRows(3) = up_J.bottomRows(3);
      J.topRows(3) = up_J.topRows(3) - crossed(d, up_J.bottomRows(3));
      if (e.motion == TreeEdge::Motion::hinge) {
        J.col(j->velocity).tail<3>() += u;
        J.col(j->velocity).head<3>() -= u.cross(r_C);
      } else if (e.motion == TreeEdge::Motion::ball) {
        J.block<3, 3>(3, j->velocity) += sign * E;
        J.block<3, 3>(0, j->velocity) += crossed(r_C, sign * E);
      } else if (e.motion == TreeEdge::Motion::slider) {
        J.col(j->velocity).head<3>() += u;
      }
      // The anchor of a hinge or ball is fixed in both bodies. The axis of a joint is fixed in the first body.
      alpha = bias_alpha[up] + P.w.cross(w_rel);
      if (e.motion == TreeEdge::Motion::slider)
        a = bias_a[up] + bias_alpha[up].cross(d) + P.w.cross(P.w.cross(d)) + 2 * P.w.cross(v_rel);
      else
        a = bias_a[up] + bias_alpha[up].cross(r_P) + P.w.cross(P.w.cross(r_P)) - alpha.cross(r_C) -
            s.w.cross(s.w.cross(r_C));
    }
  }

  VectorX moved(const VectorX& from, const VectorX& dq) const {
    VectorX out = from;
    for (const RobotJoint& j : joints) {
      const int i = j.position, k = j.velocity;
      if (j.kind == Kind::hinge || j.kind == Kind::slider) out[i] += dq[k];
      if (j.kind == Kind::free_body || j.kind == Kind::free_particle) out.segment<3>(i) += dq.segment<3>(k);
      if (j.kind == Kind::free_body)
        put_quaternion((exponential(dq.segment<3>(k + 3)) * quaternion_at(from, i + 3)).normalized(), out, i + 3);
      if (j.kind == Kind::ball)
        put_quaternion((exponential(dq.segment<3>(k)) * quaternion_at(from, i)).normalized(), out, i);
    }
    return out;
  }

  VectorX difference(const VectorX& from, const VectorX& to) const {
    VectorX out = VectorX::Zero(n);
    for (const RobotJoint& j : joints) {
      const int i = j.position, k = j.velocity;
      if (j.kind == Kind::hinge || j.kind == Kind::slider) out[k] = to[i] - from[i];
      if (j.kind == Kind::free_body || j.kind == Kind::free_particle)
        out.segment<3>(k) = to.segment<3>(i) - from.segment<3>(i);
      if (j.kind == Kind::free_body)
        out.segment<3>(k + 3) = turn_between(quaternion_at(from, i + 3), quaternion_at(to, i + 3));
      if (j.kind == Kind::ball) out.segment<3>(k) = turn_between(quaternion_at(from, i), quaternion_at(to, i));
    }
    return out;
  }

  // ---- dynamics ----

  double mass(std::size_t i) const { return counts[i] ? body(i).mass : 0; }
  Matrix3d world_inertia(std::size_t i) const {
    if (!counts[i] || body(i).kind != BodyKind::rigid) return Matrix3d::Zero();
    const Matrix3d R = state.bodies[i].R();
    return R * body(i).inertia * R.transpose();
  }

  const Inertial& inertial() const {
    if (inertial_) return *inertial_;
    Inertial out{DenseMatrix::Zero(n, n), DenseVector::Zero(n), DenseVector::Zero(n)};
    for (std::size_t i = 1; i < counts.size(); ++i) {
      if (!counts[i]) continue;
      const Matrix3d I = world_inertia(i);
      const Vector3d w = state.bodies[i].w;
      const auto linear = S[i].topRows<3>(), angular = S[i].bottomRows<3>();
      out.M += mass(i) * linear.transpose() * linear + angular.transpose() * (I * angular);
      out.h += linear.transpose() * (mass(i) * bias_a[i]) + angular.transpose() * (I * bias_alpha[i] + w.cross(I * w));
      out.g += linear.transpose() * (mass(i) * gravity);
    }
    out.M = 0.5 * (out.M + out.M.transpose()).eval();
    inertial_ = std::move(out);
    return *inertial_;
  }

  Eigen::LLT<DenseMatrix> mass_factor() const {
    const DenseMatrix& M = inertial().M;
    Eigen::LLT<DenseMatrix> factor(M);
    if (n > 0 && (factor.info() != Eigen::Success || !(factor.rcond() > 1e-16)))
      refuse_robot(
          "the mass matrix is not positive definite at this state, because some joint moves no mass. Give the bodies "
          "beyond each joint a mass and an inertia");
    return factor;
  }

  // a M⁻¹ aᵀ of a row on one body.
  double squared_length(std::size_t i, const Eigen::Matrix<double, 1, 6>& a) const {
    double out = a.head<3>().squaredNorm() / mass(i);
    if (body(i).kind != BodyKind::rigid) return out;
    const Vector3d turned = state.bodies[i].q.conjugate() * Vector3d(a.tail<3>().transpose());
    return out + turned.dot(body(i).inertia.ldlt().solve(turned));
  }

  const RobotConstraints& constraints() const {
    if (constraints_) return *constraints_;
    RobotConstraints out;
    out.A = MatrixX::Zero(m, n);
    out.b = out.position = out.velocity = out.length = VectorX::Zero(m);
    for (const Row& row : rows) {
      const ConstraintFunction& f = row.constraint.function();
      const std::vector<BodyState> X = states_of(row.constraint);
      const auto count = static_cast<std::size_t>(f.rows()), K = X.size();
      std::vector<double> A(count * 6 * K), b(count), position(count), velocity(count);
      f.linearize(X, state.t, {A, b, position, velocity});
      const auto ids = row.constraint.bodies();
      for (std::size_t r = 0; r < count; ++r) {
        const int i = row.first + static_cast<int>(r);
        out.b[i] = b[r], out.position[i] = position[r], out.velocity[i] = velocity[r];
        out.names.push_back(row.constraint.name());
        out.levels.push_back(f.level());
        for (std::size_t k = 0; k < K; ++k) {
          const std::size_t of = at(ids[k]);
          if (!movable(of)) continue;
          Eigen::Matrix<double, 1, 6> a = Eigen::Matrix<double, 1, 6>::Zero();
          const Eigen::Index columns = body(of).kind == BodyKind::particle ? 3 : 6;
          for (Eigen::Index c = 0; c < columns; ++c) a[c] = A[(r * K + k) * 6 + static_cast<std::size_t>(c)];
          out.A.row(i) += a * S[of];
          if (counts[of]) out.length[i] += squared_length(of, a);
          out.b[i] -= a.head<3>().dot(bias_a[of]) + a.tail<3>().dot(bias_alpha[of]);
        }
        out.length[i] = std::sqrt(out.length[i]);
        if (!out.A.row(i).allFinite() || !std::isfinite(out.b[i]) || !std::isfinite(out.position[i]))
          refuse_robot("constraint \"" + row.constraint.name() +
                       "\" has no finite derivatives at this state. Choose another state, or leave the constraint "
                       "out by options.without");
      }
    }
    constraints_ = std::move(out);
    return *constraints_;
  }

  // B = A M^-½ as U D Vᵀ of rank `rank`, with rows of A that have unit length on the bodies.
  struct Loops {
    DenseMatrix rows;   // A so
    DenseVector b;      // its right side
    DenseVector scale;  // by which A was multiplied
    DenseMatrix U, V;   // V has all columns; the first `rank` are those of the rows
    DenseVector D;
    int rank = 0;
  };
  Loops loops(const Eigen::LLT<DenseMatrix>& factor) const {
    const RobotConstraints& c = constraints();
    Loops out;
    out.rows = c.A, out.b = c.b;
    out.scale = DenseVector::Ones(m);
    out.V = DenseMatrix::Identity(n, n);
    if (m == 0 || n == 0) return out;
    for (int i = 0; i < m; ++i)
      if (c.length[i] > 0) out.scale[i] = 1 / c.length[i];
    out.rows = out.scale.asDiagonal() * out.rows;
    out.b = out.scale.cwiseProduct(out.b);
    const DenseMatrix B = factor.matrixL().solve(out.rows.transpose()).transpose();
    const Eigen::JacobiSVD<DenseMatrix> svd(B, Eigen::ComputeThinU | Eigen::ComputeFullV);
    const DenseVector& d = svd.singularValues();
    while (out.rank < d.size() && d[out.rank] > rank_tolerance * std::max(1.0, d[0])) ++out.rank;
    out.U = svd.matrixU().leftCols(out.rank), out.V = svd.matrixV();
    out.D = d.head(out.rank);
    return out;
  }

  const DenseMatrix& inverse_mass() const {
    if (inverse_) return *inverse_;
    const auto factor = mass_factor();
    const DenseMatrix root = root_of_inverse(factor);
    inverse_ = root * root.transpose();
    return *inverse_;
  }
  // R with R Rᵀ the inverse of M, without the motions that loops prevent.
  DenseMatrix root_of_inverse(const Eigen::LLT<DenseMatrix>& factor) const {
    const Loops of = loops(factor);
    return factor.matrixU().solve(of.V.rightCols(n - of.rank));
  }

  void check_frame(const BodyFrame& frame) const {
    if (frame.body.index < 0 || at(frame.body) >= state.bodies.size())
      refuse_robot("a frame is in body " + std::to_string(frame.body.index) + ", but bodies go from 0 to " +
                   std::to_string(state.bodies.size() - 1) + ". Use body_frame() or joint_frame()");
    if (!frame.p_BQ.allFinite() || !frame.q_BF.coeffs().allFinite() || !(frame.q_BF.norm() > 0))
      refuse_robot("a frame in body " + std::to_string(frame.body.index) +
                   " has an origin or a rotation that is not finite");
  }
  static void check_vector(const char* what, const VectorX& x, int size) {
    if (x.size() != size)
      refuse_robot(std::string(what) + " has " + std::to_string(x.size()) + " components and must have " +
                   std::to_string(size));
    if (!x.allFinite()) refuse_robot(std::string(what) + " has a component that is not finite");
  }
  void check_positions(const char* what, const VectorX& x) const {
    check_vector(what, x, nq);
    for (const RobotJoint& j : joints) {
      if (j.kind != Kind::free_body && j.kind != Kind::ball) continue;
      const int i = j.kind == Kind::free_body ? j.position + 3 : j.position;
      if (!(x.segment<4>(i).norm() > 1e-100))
        refuse_robot(std::string(what) + ": the quaternion of \"" + j.name + "\" has length 0");
    }
  }
};

RobotDynamics::RobotDynamics(const Model& model, const RobotDynamicsOptions& options)
    : impl_(std::make_unique<Impl>(model, options)) {}
RobotDynamics::~RobotDynamics() = default;
RobotDynamics::RobotDynamics(const RobotDynamics& other) : impl_(std::make_unique<Impl>(*other.impl_)) {}
RobotDynamics& RobotDynamics::operator=(const RobotDynamics& other) { return *this = RobotDynamics(other); }
RobotDynamics::RobotDynamics(RobotDynamics&&) noexcept = default;
RobotDynamics& RobotDynamics::operator=(RobotDynamics&&) noexcept = default;

int RobotDynamics::positions() const { return impl_->nq; }
int RobotDynamics::velocities() const { return impl_->n; }
std::span<const RobotJoint> RobotDynamics::joints() const { return impl_->joints; }
const RobotJoint& RobotDynamics::joint(std::string_view name) const {
  std::vector<std::string> names;
  for (const RobotJoint& j : impl_->joints) {
    if (j.name == name) return j;
    names.push_back(j.name);
  }
  refuse_robot("no joint \"" + std::string(name) + "\" has coordinates. There are " + quoted_list(names));
}
std::vector<std::string> RobotDynamics::constraint_names() const {
  std::vector<std::string> out;
  for (const Impl::Row& row : impl_->rows) out.push_back(row.constraint.name());
  return out;
}
const std::vector<Note>& RobotDynamics::left_out() const { return impl_->left_out; }

BodyFrame RobotDynamics::body_frame(std::string_view name) const {
  std::vector<std::string> names;
  for (std::size_t i = 1; i < impl_->counts.size(); ++i) {
    if (!impl_->counts[i]) continue;
    if (impl_->body(i).name == name) return {BodyId{static_cast<int>(i)}, Vector3d::Zero(), impl_->body(i).link_axes};
    names.push_back(impl_->body(i).name);
  }
  refuse_robot("there is no movable body \"" + std::string(name) + "\". There are " + quoted_list(names));
}
BodyFrame RobotDynamics::joint_frame(std::string_view name) const {
  std::vector<std::string> names;
  for (const Impl::Frame& each : impl_->joint_frames) {
    if (each.name == name) return each.frame;
    names.push_back(each.name);
  }
  refuse_robot("there is no hinge, slider, ball or weld \"" + std::string(name) + "\". There are " +
               quoted_list(names));
}

BodyFrame RobotDynamics::frame(std::string_view name) const {
  std::vector<std::string> names;
  for (const SceneFrame& each : impl_->named_frames) {
    if (each.name == name) return {each.body, each.in_body.p, each.in_body.q};
    names.push_back(each.name);
  }
  for (std::size_t i = 1; i < impl_->counts.size(); ++i) {
    if (impl_->counts[i] && impl_->body(i).name == name) return body_frame(name);
    if (impl_->counts[i]) names.push_back(impl_->body(i).name);
  }
  for (const Impl::Frame& each : impl_->joint_frames) {
    if (each.name == name) return each.frame;
    names.push_back(each.name);
  }
  refuse_robot("there is no frame, body or joint \"" + std::string(name) + "\"" +
               suggestion_or_all(std::string(name), names));
}

void RobotDynamics::set_state(const State& state) {
  if (state.bodies.size() != impl_->state.bodies.size())
    refuse_robot("the state has " + std::to_string(state.bodies.size()) + " bodies, and the model " +
                 std::to_string(impl_->state.bodies.size()) + " with the ground");
  for (std::size_t i = 0; i < state.bodies.size(); ++i) {
    const BodyState& s = state.bodies[i];
    if (impl_->counts[i] && !(s.p.allFinite() && s.q.coeffs().allFinite() && s.v.allFinite() && s.w.allFinite()))
      refuse_robot("the state of body \"" + impl_->body(i).name + "\" is not finite");
  }
  impl_->update(impl_->positions_of(state), impl_->velocities_of(state), state.t);
}
void RobotDynamics::set_state(const VectorX& q, const VectorX& v, double t) {
  impl_->check_positions("q", q);
  Impl::check_vector("v", v, impl_->n);
  if (!std::isfinite(t)) refuse_robot("the time t is not finite");
  impl_->update(q, v, t);
}
const VectorX& RobotDynamics::q() const { return impl_->q; }
const VectorX& RobotDynamics::v() const { return impl_->v; }
double RobotDynamics::t() const { return impl_->state.t; }
const State& RobotDynamics::state() const { return impl_->state; }
VectorX RobotDynamics::moved(const VectorX& q, const VectorX& dq) const {
  impl_->check_positions("q", q);
  Impl::check_vector("dq", dq, impl_->n);
  return impl_->moved(q, dq);
}
VectorX RobotDynamics::difference(const VectorX& from, const VectorX& to) const {
  impl_->check_positions("from", from), impl_->check_positions("to", to);
  return impl_->difference(from, to);
}

MatrixX RobotDynamics::mass_matrix() const { return impl_->inertial().M; }
VectorX RobotDynamics::bias_force() const { return impl_->inertial().h; }
VectorX RobotDynamics::gravity_force() const { return impl_->inertial().g; }

VectorX RobotDynamics::inverse_dynamics(const VectorX& vdot) const {
  Impl::check_vector("vdot", vdot, impl_->n);
  const Impl::Inertial& of = impl_->inertial();
  return of.M * vdot + of.h - of.g;
}

DriveForces RobotDynamics::inverse_dynamics(const VectorX& vdot, std::span<const int> drives) const {
  const int n = impl_->n;
  std::vector<char> seen(static_cast<std::size_t>(n));
  for (const int i : drives) {
    if (i < 0 || i >= n)
      refuse_robot("drives has the index " + std::to_string(i) + ", but coordinates go from 0 to " +
                   std::to_string(n - 1));
    if (std::exchange(seen[static_cast<std::size_t>(i)], 1))
      refuse_robot("drives has the index " + std::to_string(i) + " twice");
  }
  const DenseVector f = inverse_dynamics(vdot);
  // The drives give what f has in the motions that the constraints leave.
  const auto factor = impl_->mass_factor();
  const Impl::Loops loops = impl_->loops(factor);
  const DenseMatrix left = loops.V.rightCols(n - loops.rank), free = factor.matrixU().solve(left);
  DenseMatrix columns = DenseMatrix::Zero(n, static_cast<Eigen::Index>(drives.size()));
  for (std::size_t k = 0; k < drives.size(); ++k) columns(drives[k], static_cast<Eigen::Index>(k)) = 1;
  const DenseMatrix system = free.transpose() * columns;
  const DenseVector wanted = free.transpose() * f;
  DriveForces out;
  out.tau = VectorX::Zero(n);
  DenseVector rest = wanted;
  if (system.size() > 0) {
    Eigen::JacobiSVD<DenseMatrix> svd(system, Eigen::ComputeThinU | Eigen::ComputeThinV);
    svd.setThreshold(impl_->rank_tolerance);
    const DenseVector tau = svd.solve(wanted);
    out.tau = columns * tau;
    rest -= system * tau;
  }
  if (rest.size() > 0) out.residual = (factor.matrixL() * DenseMatrix(left * rest)).cwiseAbs().maxCoeff();
  return out;
}

RobotAcceleration RobotDynamics::forward_dynamics(const VectorX& tau) const {
  Impl::check_vector("tau", tau, impl_->n);
  const auto factor = impl_->mass_factor();
  const Impl::Inertial& of = impl_->inertial();
  const Impl::Loops loops = impl_->loops(factor);
  RobotAcceleration out;
  DenseVector vdot = factor.solve(DenseVector(tau + of.g - of.h));
  DenseVector lambda = DenseVector::Zero(impl_->m);
  DenseVector force = DenseVector::Zero(impl_->n);
  out.rank = loops.rank;
  for (int pass = 0; pass < 2 && loops.rank > 0; ++pass) {  // the second is a refinement
    const DenseVector z = loops.U.transpose() * (loops.b - loops.rows * vdot);
    const DenseVector dz = z.cwiseQuotient(loops.D);
    vdot += factor.matrixU().solve(loops.V.leftCols(loops.rank) * dz);
    lambda += loops.U * dz.cwiseQuotient(loops.D);
    force = loops.rows.transpose() * lambda;
  }
  const RobotConstraints& c = impl_->constraints();
  if (impl_->m > 0) out.residual = (c.A * vdot - c.b).cwiseAbs().maxCoeff();
  out.lambda = lambda.cwiseProduct(loops.scale);
  out.vdot = vdot, out.constraint_force = force;
  return out;
}

MatrixX RobotDynamics::inverse_mass_matrix() const { return impl_->inverse_mass(); }
RobotConstraints RobotDynamics::constraints() const { return impl_->constraints(); }

Force RobotDynamics::drive(std::string name, std::shared_ptr<const VectorX> tau) const {
  if (!tau) refuse_robot("the forces of the drives \"" + name + "\" are null");
  struct Drive {
    std::size_t first, second;  // among the bodies of the force
    Kind kind;
    Eigen::Index velocity;
    Quaterniond axes;  // of the joint in the first body
    Vector3d origin;   // of the joint in the second body
  };
  std::vector<BodyId> bodies;
  const auto index_of = [&](std::size_t body) {
    const BodyId id{static_cast<int>(body)};
    const auto found = std::find(bodies.begin(), bodies.end(), id);
    if (found != bodies.end()) return static_cast<std::size_t>(found - bodies.begin());
    bodies.push_back(id);
    return bodies.size() - 1;
  };
  std::vector<Drive> drives;
  for (const TreeNode& node : impl_->tree) {
    if (!node.edge || node.edge->joint < 0) continue;
    const TreeEdge& e = *node.edge;
    const RobotJoint& j = impl_->joints[static_cast<std::size_t>(e.joint)];
    drives.push_back({index_of(e.first), index_of(e.second), j.kind, j.velocity, e.axes_A, e.origin_B});
  }
  if (drives.empty()) refuse_robot("the model has no joint that could have a drive");
  auto act = [drives = std::move(drives), tau = std::move(tau), n = impl_->n](ForceFrame& f) {
    if (tau->size() != n)
      refuse_robot("the forces of the drives have " + std::to_string(tau->size()) + " components and must have " +
                   std::to_string(n));
    for (const Drive& d : drives) {
      const Matrix3d E = (f[d.first].q * d.axes).toRotationMatrix();
      const Vector3d effort =
          d.kind == Kind::ball ? Vector3d(E * tau->segment<3>(d.velocity)) : Vector3d((*tau)[d.velocity] * E.col(0));
      if (d.kind == Kind::slider) {
        const Vector3d p_WQ = f[d.second].point(d.origin);
        f.add_force(d.second, effort, p_WQ), f.add_force(d.first, -effort, p_WQ);
      } else {
        f.add_moment(d.second, effort), f.add_moment(d.first, -effort);
      }
    }
  };
  return {std::move(name), std::move(bodies), std::move(act)};
}

Pose RobotDynamics::pose(const BodyFrame& frame) const {
  impl_->check_frame(frame);
  const BodyState& s = impl_->state[frame.body];
  return {s.point(frame.p_BQ), (s.q * frame.q_BF).normalized()};
}
Vector6 RobotDynamics::velocity(const BodyFrame& frame) const {
  impl_->check_frame(frame);
  const BodyState& s = impl_->state[frame.body];
  Vector6 out;
  out << s.velocity_of(frame.p_BQ), s.w;
  return out;
}
MatrixX RobotDynamics::jacobian(const BodyFrame& frame) const {
  impl_->check_frame(frame);
  const DenseMatrix& J = impl_->S[Impl::at(frame.body)];
  MatrixX out = J;
  out.topRows(3) -= crossed(impl_->state[frame.body].q * frame.p_BQ, J.bottomRows(3));
  return out;
}
Vector6 RobotDynamics::jacobian_rate_times_v(const BodyFrame& frame) const {
  impl_->check_frame(frame);
  const BodyState& s = impl_->state[frame.body];
  const std::size_t i = Impl::at(frame.body);
  const Vector3d r = s.q * frame.p_BQ;
  Vector6 out;
  out << impl_->bias_a[i] + impl_->bias_alpha[i].cross(r) + s.w.cross(s.w.cross(r)), impl_->bias_alpha[i];
  return out;
}
VectorX RobotDynamics::generalized_force(const BodyFrame& frame, const Vector3d& force, const Vector3d& moment) const {
  if (!force.allFinite() || !moment.allFinite()) refuse_robot("a force or a moment is not finite");
  const MatrixX J = jacobian(frame);
  return J.topRows(3).transpose() * force + J.bottomRows(3).transpose() * moment;
}

OperationalSpace RobotDynamics::operational_space(const BodyFrame& frame) const {
  return operational_space(jacobian(frame));
}
OperationalSpace RobotDynamics::operational_space(const MatrixX& J) const {
  if (J.cols() != impl_->n)
    refuse_robot("the Jacobian of a task has " + std::to_string(J.cols()) + " columns and must have " +
                 std::to_string(impl_->n));
  if (!J.allFinite()) refuse_robot("the Jacobian of a task has an entry that is not finite");
  const auto factor = impl_->mass_factor();
  const DenseMatrix root = impl_->root_of_inverse(factor);
  const DenseMatrix C = J * root;  // Λ⁻¹ = C Cᵀ
  OperationalSpace out;
  out.inverse_inertia = C * C.transpose();
  out.inertia = MatrixX::Zero(J.rows(), J.rows());
  out.jacobian_inverse = MatrixX::Zero(impl_->n, J.rows());
  if (C.size() == 0) return out;
  const Eigen::JacobiSVD<DenseMatrix> svd(C, Eigen::ComputeThinU | Eigen::ComputeThinV);
  const DenseVector& d = svd.singularValues();
  // Relative to the task without loops, so that what these prevent altogether is zero.
  const DenseMatrix without = factor.matrixL().solve(DenseMatrix(J.transpose()));
  const double most = Eigen::JacobiSVD<DenseMatrix>(without).singularValues()[0];
  while (out.rank < d.size() && d[out.rank] > impl_->rank_tolerance * most) ++out.rank;
  const auto U = svd.matrixU().leftCols(out.rank);
  const DenseVector inverse = d.head(out.rank).cwiseInverse();
  out.inertia = U * inverse.cwiseAbs2().asDiagonal() * U.transpose();
  out.jacobian_inverse = root * svd.matrixV().leftCols(out.rank) * inverse.asDiagonal() * U.transpose();
  return out;
}

RobotMomentum RobotDynamics::momentum() const {
  RobotMomentum out;
  for (std::size_t i = 1; i < impl_->counts.size(); ++i) {
    if (!impl_->counts[i]) continue;
    const BodyState& s = impl_->state.bodies[i];
    const double mass = impl_->mass(i);
    out.mass += mass;
    out.centre += mass * s.p;
    out.linear += mass * s.v;
    out.kinetic_energy += 0.5 * mass * s.v.squaredNorm() + 0.5 * s.w.dot(impl_->world_inertia(i) * s.w);
    out.potential_energy -= mass * impl_->gravity.dot(s.p);
  }
  if (out.mass > 0) out.centre /= out.mass, out.velocity = out.linear / out.mass;
  for (std::size_t i = 1; i < impl_->counts.size(); ++i) {
    if (!impl_->counts[i]) continue;
    const BodyState& s = impl_->state.bodies[i];
    out.angular += (s.p - out.centre).cross(impl_->mass(i) * s.v) + impl_->world_inertia(i) * s.w;
  }
  return out;
}
MatrixX RobotDynamics::momentum_matrix() const {
  MatrixX out = MatrixX::Zero(6, impl_->n);
  const Vector3d centre = momentum().centre;
  for (std::size_t i = 1; i < impl_->counts.size(); ++i) {
    if (!impl_->counts[i]) continue;
    const DenseMatrix& J = impl_->S[i];
    const double mass = impl_->mass(i);
    out.topRows(3) += mass * J.topRows(3);
    out.bottomRows(3) +=
        mass * crossed(impl_->state.bodies[i].p - centre, J.topRows(3)) + impl_->world_inertia(i) * J.bottomRows(3);
  }
  return out;
}

}  // namespace linchpin::scene
