// Random systems of bodies and joints, from a seed: a blueprint of plain data that fits together at the start, and the
// system built from it in any order, anywhere in the world, at any constant speed.
#pragma once

#include "random.h"

#include <linchpin/constraint.h>
#include <linchpin/forces.h>
#include <linchpin/joints.h>
#include <linchpin/stepper.h>

#include <cmath>
#include <string>
#include <vector>

namespace linchpin::test {

struct Blueprint {
  struct Body {
    bool particle = false;
    double mass = 1;
    Matrix3d inertia = Matrix3d::Identity();
    BodyState state;
  };
  enum class Kind { ball, hinge, slider, universal, cylindrical, weld, rod, on_line, on_plane, count };
  struct Joint {
    Kind kind = Kind::ball;
    int a = -1, b = 0;                // −1: the base
    Vector3d p_W = Vector3d::Zero();  // where it is at the start
    Quaterniond q_W = Quaterniond::Identity();
    Vector3d far_W = Vector3d::Zero();  // other end of a rod
    bool friction = false;
  };
  std::vector<Body> bodies;
  std::vector<Joint> joints;
  Vector3d gravity = Vector3d::Zero();
};

struct BlueprintOptions {
  bool grounded = true;  // some joints are on the base
  bool gravity = true;
  bool friction = false;
  bool particles = true;
  int loops = 1;             // joints beyond a tree: rods, so that something can still move
  int fewest = 2, most = 5;  // bodies
};

inline Blueprint random_blueprint(Random& random, const BlueprintOptions& options = {}) {
  Blueprint plan;
  const int count = random.integer(options.fewest, options.most);
  for (int i = 0; i < count; ++i) {
    Blueprint::Body body;
    body.particle = options.particles && random.integer(0, 3) == 0;
    body.mass = random.uniform(0.5, 3);
    body.inertia = random.inertia(body.mass);
    body.state = random.body_state(1, 1);
    if (body.particle) {
      body.state.q.setIdentity();
      body.state.w.setZero();
    }
    plan.bodies.push_back(body);
  }
  const auto is_particle = [&](int i) { return i >= 0 && plan.bodies[static_cast<std::size_t>(i)].particle; };
  const auto position = [&](int i) {
    return i < 0 ? Vector3d(random.vector()) : plan.bodies[static_cast<std::size_t>(i)].state.p;
  };
  const auto attach = [&](int a, int b, bool only_rod) {
    Blueprint::Joint joint{
        .kind = static_cast<Blueprint::Kind>(random.integer(0, static_cast<int>(Blueprint::Kind::count) - 1)),
        .a = a,
        .b = b,
        .q_W = random.rotation(),
        .friction = options.friction && random.coin()};
    if (only_rod || is_particle(a)) joint.kind = Blueprint::Kind::rod;
    if (is_particle(b) && joint.kind < Blueprint::Kind::rod) joint.kind = Blueprint::Kind::on_line;
    joint.p_W = is_particle(b) ? position(b) : Vector3d(0.5 * (position(a) + position(b)) + random.vector(0.3));
    joint.far_W = is_particle(a) ? position(a) : Vector3d(joint.p_W + random.direction() * random.uniform(0.5, 1.5));
    plan.joints.push_back(joint);
  };
  for (int i = 0; i < count; ++i) {
    const int before = options.grounded ? random.integer(-1, i - 1) : i == 0 ? -2 : random.integer(0, i - 1);
    if (before >= -1) attach(before, i, false);
  }
  for (int i = 0; i < options.loops; ++i) {
    const int a = random.integer(options.grounded ? -1 : 0, count - 2);
    attach(a, random.integer(a + 1, count - 1), true);
  }
  if (options.gravity) plan.gravity = random.vector(9.81);
  return plan;
}

/// A small mechanism whose bodies move, each at random.
/// @param most_speed  decimal logarithm of the largest speed [m/s]; that of the least is −1
/// @param spin  angular velocity [rad/s] for a speed of 1 m/s
inline Blueprint random_moving_blueprint(Random& random, double most_speed, double spin) {
  Blueprint plan = random_blueprint(random, {.loops = random.integer(0, 1), .fewest = 1, .most = 4});
  const double speed = std::pow(10, random.uniform(-1, most_speed));
  for (Blueprint::Body& body : plan.bodies) {
    body.state.v = random.vector(speed);
    if (!body.particle) body.state.w = random.vector(spin * speed);
  }
  return plan;
}

/// Where and how fast the whole world is, seen from the blueprint's.
struct Elsewhere {
  Vector3d shift = Vector3d::Zero(), speed = Vector3d::Zero();
  Quaterniond turn = Quaterniond::Identity();
  Vector3d point(const Vector3d& p) const { return turn * p + shift; }
};

/// A blueprint as a system; `state` obeys its constraints in positions and velocities.
struct Built {
  System system;
  std::vector<BodyId> bodies;             // by blueprint index
  std::vector<ConstraintId> constraints;  // likewise
  State state;
};

/// @param copies how often each joint is there
inline Built build(const Blueprint& plan, const Elsewhere& place = {}, const std::vector<int>& body_order = {},
                   const std::vector<int>& joint_order = {}, int copies = 1) {
  Built out;
  out.system.set_gravity(place.turn * plan.gravity);
  const BodyId base = out.system.add_kinematic("base", {place.shift, place.turn}, [place](double t) {
    BodyState s;
    s.p = place.shift + t * place.speed;
    s.q = place.turn;
    s.v = place.speed;
    return s;
  });
  const auto in_order = [](const std::vector<int>& order, std::size_t i) {
    return order.empty() ? i : static_cast<std::size_t>(order[i]);
  };
  out.bodies.resize(plan.bodies.size());
  for (std::size_t i = 0; i < plan.bodies.size(); ++i) {
    const std::size_t k = in_order(body_order, i);
    const Blueprint::Body& body = plan.bodies[k];
    const BodyState& s = body.state;
    const Vector3d v = place.turn * s.v + place.speed;
    const std::string name = "body" + std::to_string(k);
    out.bodies[k] = body.particle ? out.system.add_particle(name, body.mass, place.point(s.p), v)
                                  : out.system.add_body(name, body.mass, body.inertia,
                                                        {place.point(s.p), place.turn * s.q}, v, place.turn * s.w);
  }
  out.constraints.resize(plan.joints.size());
  for (std::size_t i = 0; i < plan.joints.size(); ++i) {
    const std::size_t k = in_order(joint_order, i);
    const Blueprint::Joint& j = plan.joints[k];
    // Everything in body axes: the same numbers wherever the world is.
    const auto pose = [&](int body) {
      return body < 0 ? BodyState{} : plan.bodies[static_cast<std::size_t>(body)].state;
    };
    const auto local = [&](int body, const Vector3d& p) {
      return Vector3d(pose(body).q.conjugate() * (p - pose(body).p));
    };
    const auto frame = [&](int body) {
      return JointFrame{.origin = local(body, j.p_W), .axes = (pose(body).q.conjugate() * j.q_W).toRotationMatrix()};
    };
    const JointFrame A = frame(j.a), B = frame(j.b);
    const Vector3d xA = A.axes.col(0), xB = B.axes.col(0), yB = B.axes.col(1);
    const BodyId a = j.a < 0 ? base : out.bodies[static_cast<std::size_t>(j.a)],
                 b = out.bodies[static_cast<std::size_t>(j.b)];
    for (int copy = 0; copy < copies; ++copy) {
      const std::string name = "joint" + std::to_string(k) + (copy ? "copy" + std::to_string(copy) : "");
      const auto make = [&]() -> Constraint {
        switch (j.kind) {
          case Blueprint::Kind::ball:
            return joints::ball(name, a, A.origin, b, B.origin);
          case Blueprint::Kind::hinge:
            return joints::hinge(name, a, A.origin, xA, b, B.origin, xB);
          case Blueprint::Kind::slider:
            return joints::slider(name, a, A, b, B);
          case Blueprint::Kind::universal:
            return joints::universal(name, a, A.origin, xA, b, B.origin, yB);
          case Blueprint::Kind::cylindrical:
            return joints::cylindrical(name, a, A.origin, xA, b, B.origin, xB);
          case Blueprint::Kind::weld:
            return joints::weld(name, a, A, b, B);
          case Blueprint::Kind::on_line:
            return joints::point_on_line(name, a, A.origin, xA, b, B.origin);
          case Blueprint::Kind::on_plane:
            return joints::point_on_plane(name, a, A.origin, xA, b, B.origin);
          default:
            return joints::rod(name, a, local(j.a, j.far_W), b, B.origin, (j.far_W - j.p_W).norm());
        }
      };
      const ConstraintId id = out.system.add(make());
      if (copy == 0) out.constraints[k] = id;
      if (copy == 0 && j.friction) add_law(out.system, id, laws::regularized_coulomb(0.2, 0.1) + laws::viscous(0.3));
    }
  }
  out.state = Stepper(out.system, out.system.initial_state()).state();
  return out;
}

}  // namespace linchpin::test
