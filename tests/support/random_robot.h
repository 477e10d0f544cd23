// Models of robots at random: trees of rigid bodies with hinges, sliders, ball joints and welds.
#pragma once

#include <linchpin/joints.h>
#include <linchpin/scene.h>

#include <Eigen/Geometry>

#include <random>
#include <string>
#include <vector>

namespace linchpin::test {

struct RandomRobot {
  unsigned seed = 1;
  int bodies = 6;
  bool floating = false;  // the first body is free; otherwise a joint holds it to the ground
  bool sliders = true;    // among the joints
  bool balls = false;     // among the joints
  bool welds = false;     // among the joints
  bool reversed = false;  // some joints name their bodies from the outside inwards
  bool aligned = false;   // axes of bodies and joints are parallel to the world's at the start
};

class RandomNumbers {
 public:
  explicit RandomNumbers(unsigned seed) : engine_(seed) {}
  double operator()(double from, double to) { return from + (to - from) * (double(engine_()) / 4294967295.0); }
  int pick(int count) { return static_cast<int>(engine_() % static_cast<unsigned>(count)); }
  Vector3d vector(double size) { return {(*this)(-size, size), (*this)(-size, size), (*this)(-size, size)}; }
  Quaterniond rotation() {
    const Eigen::Quaterniond q((*this)(-1, 1), (*this)(-1, 1), (*this)(-1, 1), (*this)(-1, 1));
    return q.norm() > 0.1 ? Quaterniond(q.normalized()) : rotation();
  }

 private:
  std::mt19937 engine_;
};

inline scene::SceneConstraint joint_between(const std::string& name, const std::string& type, BodyId a, BodyId b,
                                            const JointFrame& A, const JointFrame& B, double start = 0) {
  scene::SceneConstraint c;
  c.name = name, c.type = type, c.bodies = {a, b}, c.frame_a = A, c.frame_b = B, c.start = start;
  c.make = [=](const std::vector<BodyId>& id) {
    if (type == "hinge") return joints::hinge(name, id[0], A.origin, A.axes.col(0), id[1], B.origin, B.axes.col(0));
    if (type == "slider") return joints::slider(name, id[0], A, id[1], B);
    if (type == "ball") return joints::ball(name, id[0], A.origin, id[1], B.origin);
    return joints::weld(name, id[0], A, id[1], B);
  };
  return c;
}

/// A body of the model with its frame of a joint that is at a place of the world at the start.
inline JointFrame frame_in(const scene::Model& model, BodyId body, const Vector3d& p_WQ, const Matrix3d& axes) {
  if (body == ground) return {p_WQ, axes};
  const BodyState& s = model.bodies[static_cast<std::size_t>(body.index) - 1].start;
  return {s.q.conjugate() * Vector3d(p_WQ - s.p), s.R().transpose() * axes};
}

inline scene::Model random_robot(const RandomRobot& of) {
  RandomNumbers random(of.seed);
  scene::Model model;
  model.gravity = {1, -2, -9};
  for (int i = 0; i < of.bodies; ++i) {
    scene::SceneBody body;
    body.name = "body" + std::to_string(i);
    body.mass = random(0.3, 3);
    const Vector3d extent(random(0.1, 0.6), random(0.1, 0.6), random(0.1, 0.6));
    const Vector3d s = extent.cwiseAbs2();
    body.inertia = (body.mass / 12 * Vector3d(s[1] + s[2], s[2] + s[0], s[0] + s[1])).asDiagonal();
    body.start.p = random.vector(1);
    if (!of.aligned) body.start.q = random.rotation();
    model.bodies.push_back(body);
  }
  for (int i = of.floating ? 1 : 0; i < of.bodies; ++i) {
    const BodyId child{i + 1}, parent{i == 0 ? 0 : 1 + random.pick(i)};
    std::vector<std::string> types = {"hinge"};
    if (of.sliders) types.emplace_back("slider");
    if (of.balls) types.emplace_back("ball");
    if (of.welds) types.emplace_back("weld");
    const std::string type = types[static_cast<std::size_t>(random.pick(static_cast<int>(types.size())))];
    const Vector3d p = random.vector(1);
    const Matrix3d axes = of.aligned ? Matrix3d::Identity() : random.rotation().toRotationMatrix();
    BodyId a = parent, b = child;
    if (of.reversed && random.pick(2)) std::swap(a, b);
    model.constraints.push_back(joint_between("joint" + std::to_string(i), type, a, b, frame_in(model, a, p, axes),
                                              frame_in(model, b, p, axes), random(-0.5, 0.5)));
  }
  return model;
}

}  // namespace linchpin::test
