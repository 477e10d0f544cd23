#include "native_loops.h"

#include "refused.h"

#include <BulletDynamics/Featherstone/btMultiBodyFixedConstraint.h>
#include <BulletDynamics/Featherstone/btMultiBodyGearConstraint.h>
#include <BulletDynamics/Featherstone/btMultiBodyJointMotor.h>
#include <BulletDynamics/Featherstone/btMultiBodyPoint2Point.h>
#include <BulletDynamics/Featherstone/btMultiBodySliderConstraint.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace linchpin::bullet_scene {

namespace {

/// Of the two points that stand for a hinge: Bullet has none between links [m].
constexpr double apart = 0.1;

btMatrix3x3 matrix(const Matrix3d& R) {
  btMatrix3x3 out;
  for (int i = 0; i < 3; ++i) out[i].setValue(btScalar(R(i, 0)), btScalar(R(i, 1)), btScalar(R(i, 2)));
  return out;
}

/// A joint's coordinate and the rate of a row by it.
struct Term {
  bullet::Link link;
  double rate;
  double value() const { return double(link.body->getJointPos(link.index)); }
};

std::vector<BodyState> states_of(const Constraint& c, const State& at) {
  std::vector<BodyState> X;
  for (const BodyId id : c.bodies()) X.push_back(at[id]);
  return X;
}

/// Of a row, the bodies being where they are and the time another.
double residual(const Constraint& c, const State& now, double t) {
  std::array<double, 1> phi{};
  c.function().residual(states_of(c, now), t, phi);
  return phi[0];
}

/// What rows on joints' coordinates alone are: by those, on the way from each of their bodies to the base.
class Coordinates {
 public:
  Coordinates(const scene::Model& model, const Multibodies& multibodies, const std::vector<btRigidBody*>& bodies)
      : model_(model), multibodies_(multibodies), bodies_(bodies), hangs_by_(model.bodies.size() + 1) {
    for (const scene::SceneConstraint& c : model.constraints)
      if (c.tree) hangs_by_[static_cast<std::size_t>(c.bodies[1].index)] = &c;
  }

  /// The rates of a constraint's one row by them, here and now; none where it has more rows, or moves with something
  /// that is not the only coordinate of a joint.
  std::vector<Term> of(const Constraint& c, const State& now) const {
    const ConstraintFunction& f = c.function();
    if (f.rows() != 1 || f.level() != Level::position) return {};
    const std::vector<BodyState> X = states_of(c, now);
    std::vector<double> A(6 * X.size());
    std::array<double, 1> b{}, position{}, velocity{};
    f.linearize(X, now.t, {A, b, position, velocity});
    std::vector<Term> out;
    Vector3d force = Vector3d::Zero(), moment = Vector3d::Zero();  // on what moves with its base
    for (std::size_t k = 0; k < X.size(); ++k) {
      const Vector3d linear(A[6 * k], A[6 * k + 1], A[6 * k + 2]), angular(A[6 * k + 3], A[6 * k + 4], A[6 * k + 5]);
      BodyId id = c.bodies()[k];
      if (id == ground || (linear.isZero() && angular.isZero())) continue;
      if (!multibodies_.link(id).body && !bodies_[static_cast<std::size_t>(id.index) - 1]->isStaticObject()) return {};
      for (const scene::SceneConstraint* j; id != ground && (j = hangs_by_[static_cast<std::size_t>(id.index)]);
           id = j->bodies[0]) {
        const BodyState& s = now[id];
        const Vector3d axis = s.q * Vector3d(j->frame_b.axes.col(0)), pivot = s.p + s.q * j->frame_b.origin;
        if (j->type == "slider") term(out, multibodies_.joint(*j)).rate += linear.dot(axis);
        if (j->type == "hinge")
          term(out, multibodies_.joint(*j)).rate += angular.dot(axis) + linear.dot(axis.cross(X[k].p - pivot));
        if (j->type == "ball") return {};
      }
      if (id == ground || model_.bodies[static_cast<std::size_t>(id.index) - 1].kind == BodyKind::fixed) continue;
      force += linear;
      moment += angular + X[k].p.cross(linear);
    }
    constexpr double nothing = 1e-5;  // poses may be of single precision
    std::erase_if(out, [](const Term& t) { return std::abs(t.rate) < nothing; });
    if (force.norm() > nothing || moment.norm() > nothing) return {};
    return out;
  }

 private:
  static Term& term(std::vector<Term>& of, const bullet::Link& link) {
    for (Term& t : of)
      if (t.link.body == link.body && t.link.index == link.index) return t;
    return of.emplace_back(Term{link, 0});
  }

  const scene::Model& model_;
  const Multibodies& multibodies_;
  const std::vector<btRigidBody*>& bodies_;
  std::vector<const scene::SceneConstraint*> hangs_by_;  // by body, the world first
};

}  // namespace

class NativeLoops::Maker {
 public:
  Maker(NativeLoops& out, const scene::Model& model, const System& mirror, const State& start,
        const Multibodies& multibodies, const std::vector<btRigidBody*>& bodies)
      : out_(out),
        mirror_(mirror),
        start_(start),
        multibodies_(multibodies),
        bodies_(bodies),
        coordinates_(std::make_shared<const Coordinates>(model, multibodies, bodies)) {}

  void make(const scene::SceneConstraint& c) {
    const Constraint& whole = mirror_.constraint(mirror_.find_constraint(c.name));
    if (c.type == "prescribed_angle" || c.type == "prescribed_distance") return motor(c, whole);
    if (c.type == "mimic" || c.type == "gear") return gear(c, whole);
    if (c.bodies.size() != 2) refuse(c);
    // Bullet's are on a link and something else.
    Side a = side(c, 0), b = side(c, 1);
    if (!a.link.body) std::swap(a, b);
    if (!a.link.body) refuse(c, ", and neither body is a link");
    const Vector3d u = a.frame.axes.col(0);
    if (c.type == "ball") {
      point(a, b, Vector3d::Zero());
      say(c, "a point");
    } else if (c.type == "hinge") {
      point(a, b, Vector3d::Zero());
      point(a, b, apart * u);
      say(c, "two points of its axis, 0.1 m apart");
    } else if (c.type == "point_on_line") {
      // Where on the line the point is at the start, it stays.
      Side &line = a.which == 0 ? a : b, &on = a.which == 0 ? b : a;
      const Vector3d axis = line.frame.axes.col(0);
      line.frame.origin += axis * axis.dot(line.pose.q.conjugate() * (on.at() - line.at()));
      point(a, b, Vector3d::Zero());
      say(c, "a point, which also holds it along the line");
    } else if (c.type == "weld") {
      frame<btMultiBodyFixedConstraint>(a, b);
      say(c, "a fixed constraint");
    } else if (c.type == "slider") {
      frame<btMultiBodySliderConstraint>(a, b, bullet::to_bullet(u));
      say(c, "a slider");
    } else {
      refuse(c);
    }
  }

 private:
  struct Side {
    int which = 0;                 // of the constraint's bodies
    bullet::Link link;             // no body: a rigid body or the world
    btRigidBody* rigid = nullptr;  // which moves
    Pose pose;                     // at the start
    JointFrame frame;              // in the body; of what does not move in the world
    Vector3d at() const { return pose.p + pose.q * frame.origin; }
  };

  [[noreturn]] void refuse(const scene::SceneConstraint& c, const std::string& why = "") const {
    throw Refused("solver", "Bullet has no multibody constraint for \"" + c.name + "\" (" + c.type + why +
                                "). Run the robot with --as bodies");
  }
  void say(const scene::SceneConstraint& c, const std::string& by) { out_.held_.push_back({c.name, by}); }

  Side side(const scene::SceneConstraint& c, int which) const {
    const BodyId id = c.bodies[static_cast<std::size_t>(which)];
    Side out;
    out.which = which;
    out.link = multibodies_.link(id);
    out.frame = which == 0 ? c.frame_a : c.frame_b;
    const BodyState& s = start_[id];
    const Pose pose{s.p, s.q};
    if (id != ground && !out.link.body) {
      out.rigid = bodies_[static_cast<std::size_t>(id.index) - 1];
      if (out.rigid->isKinematicObject()) refuse(c, ", and one of its bodies is kinematic");
    }
    if (out.link.body || (out.rigid && !out.rigid->isStaticObject())) {
      out.pose = pose;
      return out;
    }
    out.rigid = nullptr;  // to Bullet's constraint, the world
    out.frame = {pose.p + pose.q * out.frame.origin, pose.q.toRotationMatrix() * out.frame.axes};
    return out;
  }

  void add(std::unique_ptr<btMultiBodyConstraint> c) {
    out_.world_.addMultiBodyConstraint(c.get());
    out_.constraints_.push_back(std::move(c));
  }

  // The point of both that is off their frames' origins so far, in a's axes at the start.
  void point(const Side& a, const Side& b, const Vector3d& off) {
    const Vector3d in_b = b.pose.q.conjugate() * Vector3d(a.pose.q * off);
    const btVector3 p_a = bullet::to_bullet(Vector3d(a.frame.origin + off)),
                    p_b = bullet::to_bullet(Vector3d(b.frame.origin + in_b));
    if (b.link.body)
      add(std::make_unique<btMultiBodyPoint2Point>(a.link.body, a.link.index, b.link.body, b.link.index, p_a, p_b));
    else
      add(std::make_unique<btMultiBodyPoint2Point>(a.link.body, a.link.index, b.rigid, p_a, p_b));
  }

  // Bullet takes a frame on a rigid body in world axes: all of the turn between the two is said on the link.
  template <class C, class... Axis>
  void frame(const Side& a, const Side& b, const Axis&... axis) {
    const btVector3 p_a = bullet::to_bullet(a.frame.origin), p_b = bullet::to_bullet(b.frame.origin);
    const btMatrix3x3 turn = matrix(a.frame.axes * b.frame.axes.transpose()), none = btMatrix3x3::getIdentity();
    if (b.link.body)
      add(std::make_unique<C>(a.link.body, a.link.index, b.link.body, b.link.index, p_a, p_b, turn, none, axis...));
    else
      add(std::make_unique<C>(a.link.body, a.link.index, b.rigid, p_a, p_b, turn, none, axis...));
  }

  // One coordinate on a path of time: a motor, aimed at where it is to be at the end of the step by a step of Newton's,
  // which is exact but where its axis is not quite the joint's.
  void motor(const scene::SceneConstraint& c, const Constraint& whole) {
    const std::vector<Term> q = coordinates_->of(whole, start_);
    if (q.size() != 1) refuse(c, ", and it is not on a joint of one coordinate");
    auto made = std::make_unique<btMultiBodyJointMotor>(q[0].link.body, q[0].link.index, btScalar(0), BT_LARGE_FLOAT);
    made->finalizeMultiDof();
    out_.aims_.push_back([&motor = *made, &whole, on = coordinates_](const State& now, double end) {
      const std::vector<Term> terms = on->of(whole, now);
      if (terms.size() == 1)
        motor.setPositionTarget(btScalar(terms[0].value() - residual(whole, now, end) / terms[0].rate));
    });
    add(std::move(made));
    say(c, "a motor, aimed at the end of each step");
  }

  // Two coordinates in proportion.
  void gear(const scene::SceneConstraint& c, const Constraint& whole) {
    const std::vector<Term> q = coordinates_->of(whole, start_);
    if (q.size() != 2 || q[0].link.body != q[1].link.body) refuse(c, ", and it is not on two joints of one robot");
    const btMatrix3x3 none = btMatrix3x3::getIdentity();
    const btVector3 zero(0, 0, 0);
    auto made = std::make_unique<btMultiBodyGearConstraint>(q[0].link.body, q[0].link.index, q[1].link.body,
                                                            q[1].link.index, zero, zero, none, none);
    made->setGearRatio(btScalar(q[1].rate / q[0].rate));
    const double sum = q[0].rate * q[0].value() + q[1].rate * q[1].value();
    made->setRelativePositionTarget(btScalar((sum - residual(whole, start_, start_.t)) / q[0].rate));
    made->setErp(1);  // without one it holds rates alone
    made->finalizeMultiDof();
    add(std::move(made));
    say(c, "a gear");
  }

  NativeLoops& out_;
  const System& mirror_;
  const State& start_;
  const Multibodies& multibodies_;
  const std::vector<btRigidBody*>& bodies_;
  std::shared_ptr<const Coordinates> coordinates_;
};

NativeLoops::NativeLoops(const scene::Model& model, const std::vector<std::size_t>& which, const System& mirror,
                         const State& start, const Multibodies& multibodies, const std::vector<btRigidBody*>& bodies,
                         btMultiBodyDynamicsWorld& world)
    : world_(world) {
  try {
    Maker maker(*this, model, mirror, start, multibodies, bodies);
    for (const std::size_t i : which) maker.make(model.constraints[i]);
  } catch (...) {
    clear();
    throw;
  }
}

NativeLoops::~NativeLoops() { clear(); }

void NativeLoops::clear() {
  for (const auto& c : constraints_) world_.removeMultiBodyConstraint(c.get());
  constraints_.clear();
}

void NativeLoops::aim(const State& now, double end) {
  for (const auto& each : aims_) each(now, end);
}

}  // namespace linchpin::bullet_scene
