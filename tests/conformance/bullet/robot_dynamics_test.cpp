// Dynamics in joint space against btMultiBody, whose articulated body algorithm shares no code and no method with it:
// inverse mass matrix, accelerations, Jacobians.
#if __has_include(<linchpin/scene/robot_dynamics.h>)
#include "link_world.h"
#include "random_robot.h"

#include <linchpin/scene/robot_dynamics.h>

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace linchpin::test::robot_dynamics_test {
namespace {

using scene::BodyFrame;
using scene::MatrixX;
using scene::RobotDynamics;
using scene::RobotJoint;

btQuaternion turn_of(const Matrix3d& R) {
  const Quaterniond q{Eigen::Quaterniond(R)};
  return {btScalar(q.x()), btScalar(q.y()), btScalar(q.z()), btScalar(q.w())};
}
btQuaternion turn_of(const Quaterniond& q) {
  return {btScalar(q.x()), btScalar(q.y()), btScalar(q.z()), btScalar(q.w())};
}

// A tree of a model as a btMultiBody. Parents come before their children in the model.
class BulletTwin {
 public:
  BulletTwin(const scene::Model& model, const RobotDynamics& robot) : model_(model), robot_(robot) {
    int root = 0;  // the body at the root, or the ground
    for (const RobotJoint& j : robot.joints())
      if (j.kind == RobotJoint::Kind::free_body) root = j.child.index;
    for (const scene::SceneConstraint& c : model.constraints)
      if (in_tree(c)) links_.push_back(&c);
    if (root == 0) root = links_.front()->bodies[0].index;
    index_[root] = -1;
    const bool fixed = root == 0 || model.bodies[at(root)].kind == BodyKind::fixed;
    const auto n = static_cast<int>(links_.size());
    free_ = !fixed;
    body_ = std::make_unique<btMultiBody>(n, fixed ? btScalar(0) : btScalar(model.bodies[at(root)].mass),
                                          fixed ? bt(0, 0, 0) : moments(root), fixed, false);
    for (int i = 0; i < n; ++i) {
      const scene::SceneConstraint& c = *links_[static_cast<std::size_t>(i)];
      const int child = c.bodies[1].index, parent = index_.at(c.bodies[0].index);
      index_[child] = i;
      const btScalar mass = btScalar(model.bodies[at(child)].mass);
      const btQuaternion turn = turn_of(Matrix3d(c.frame_b.axes * c.frame_a.axes.transpose()));
      const btVector3 axis = bullet::to_bullet(c.frame_b.axes.col(0)), to = bullet::to_bullet(c.frame_a.origin),
                      from = bullet::to_bullet(-c.frame_b.origin);
      if (c.type == "hinge") body_->setupRevolute(i, mass, moments(child), parent, turn, axis, to, from, true);
      if (c.type == "slider") body_->setupPrismatic(i, mass, moments(child), parent, turn, axis, to, from, true);
      if (c.type == "ball") body_->setupSpherical(i, mass, moments(child), parent, turn, to, from, true);
      if (c.type == "weld") body_->setupFixed(i, mass, moments(child), parent, turn, to, from);
    }
    body_->finalizeMultiDof();
    body_->setLinearDamping(0), body_->setAngularDamping(0);
    body_->setMaxCoordinateVelocity(btScalar(1e30));
    put(root);
  }

  /// T with Bullet's velocities T v: base [ω; v] in world axes, balls in the axes of the child.
  MatrixX velocities() const {
    const int n = robot_.velocities(), base = free_ ? 0 : 6;
    MatrixX T = MatrixX::Zero(6 + body_->getNumDofs() - base, n);
    for (const RobotJoint& j : robot_.joints()) {
      if (j.kind == RobotJoint::Kind::free_body) {
        T.block<3, 3>(0, j.velocity + 3) = T.block<3, 3>(3, j.velocity) = Matrix3d::Identity();
        continue;
      }
      const int row = 6 - base + body_->getLink(index_.at(j.child.index)).m_dofOffset;
      if (j.kind == RobotJoint::Kind::ball)
        T.block<3, 3>(row, j.velocity) = constraint(j.name).frame_b.axes * ball(j).toRotationMatrix().transpose();
      else
        T(row, j.velocity) = 1;
    }
    return T;
  }
  /// Its accelerations under gravity.
  VectorX accelerations() {
    const int skip = free_ ? 0 : 6, n = 6 + body_->getNumDofs();
    body_->clearForcesAndTorques();
    const Vector3d& g = model_.gravity;
    if (free_) body_->addBaseForce(body_->getBaseMass() * bullet::to_bullet(g));
    for (int i = 0; i < body_->getNumLinks(); ++i) body_->addLinkForce(i, body_->getLinkMass(i) * bullet::to_bullet(g));
    const std::vector<btScalar> before(body_->getVelocityVector(), body_->getVelocityVector() + n);
    body_->computeAccelerationsArticulatedBodyAlgorithmMultiDof(1, r_, v_, m_, false, false, false);
    VectorX out(n - skip);
    for (int i = skip; i < n; ++i)
      out[i - skip] = double(body_->getVelocityVector()[i]) - double(before[static_cast<std::size_t>(i)]);
    return out;
  }
  /// Its M⁻¹, after accelerations().
  MatrixX inverse_mass() {
    const int skip = free_ ? 0 : 6, n = 6 + body_->getNumDofs();
    MatrixX out(n - skip, n - skip);
    std::vector<btScalar> force(static_cast<std::size_t>(n)), result(static_cast<std::size_t>(n));
    for (int i = skip; i < n; ++i) {
      std::fill(force.begin(), force.end(), btScalar(0));
      force[static_cast<std::size_t>(i)] = 1;
      body_->calcAccelerationDeltasMultiDof(force.data(), result.data(), r_, v_);
      for (int k = skip; k < n; ++k) out(k - skip, i - skip) = double(result[static_cast<std::size_t>(k)]);
    }
    return out;
  }
  MatrixX jacobian(BodyId body, const Vector3d& p_WQ) {
    const int skip = free_ ? 0 : 6, n = 6 + body_->getNumDofs();
    MatrixX out(6, n - skip);
    std::vector<btScalar> row(static_cast<std::size_t>(n));
    for (int k = 0; k < 6; ++k) {
      const btVector3 along = k < 3 ? bt(k == 0, k == 1, k == 2) : bt(0, 0, 0),
                      about = k < 3 ? bt(0, 0, 0) : bt(k == 3, k == 4, k == 5);
      body_->fillConstraintJacobianMultiDof(index_.at(body.index), bullet::to_bullet(p_WQ), about, along, row.data(),
                                            r_, v_, m_);
      for (int i = skip; i < n; ++i) out(k, i - skip) = double(row[static_cast<std::size_t>(i)]);
    }
    return out;
  }
  std::vector<BodyId> links() const {
    std::vector<BodyId> out;
    for (const scene::SceneConstraint* c : links_) out.push_back(c->bodies[1]);
    return out;
  }

 private:
  static std::size_t at(int body) { return static_cast<std::size_t>(body) - 1; }
  bool in_tree(const scene::SceneConstraint& c) const {
    if (c.type == "weld") return true;
    for (const RobotJoint& j : robot_.joints())
      if (j.name == c.name) return true;
    return false;
  }
  btVector3 moments(int body) const { return bullet::to_bullet(model_.bodies[at(body)].inertia.diagonal()); }
  const scene::SceneConstraint& constraint(const std::string& name) const {
    for (const scene::SceneConstraint* c : links_)
      if (c->name == name) return *c;
    throw std::logic_error(name);
  }
  Quaterniond ball(const RobotJoint& j) const {
    const VectorX& q = robot_.q();
    return {q[j.position], q[j.position + 1], q[j.position + 2], q[j.position + 3]};
  }
  void put(int root) {
    const BodyState& base = robot_.state().bodies[static_cast<std::size_t>(root)];
    body_->setBaseWorldTransform(btTransform(turn_of(base.q), bullet::to_bullet(base.p)));
    body_->setBaseOmega(bullet::to_bullet(base.w)), body_->setBaseVel(bullet::to_bullet(base.v));
    const MatrixX T = velocities();
    const VectorX u = T * robot_.v();
    for (const RobotJoint& j : robot_.joints()) {
      if (j.kind == RobotJoint::Kind::free_body) continue;
      const int i = index_.at(j.child.index), row = (free_ ? 6 : 0) + body_->getLink(i).m_dofOffset;
      if (j.kind == RobotJoint::Kind::ball) {
        const Matrix3d& axes = constraint(j.name).frame_b.axes;
        const Quaterniond q(Eigen::Quaterniond(Matrix3d(axes * ball(j).toRotationMatrix() * axes.transpose())));
        const btScalar position[4] = {btScalar(q.x()), btScalar(q.y()), btScalar(q.z()), btScalar(q.w())};
        const btScalar velocity[3] = {btScalar(u[row]), btScalar(u[row + 1]), btScalar(u[row + 2])};
        body_->setJointPosMultiDof(i, position);
        body_->setJointVelMultiDof(i, velocity);
      } else {
        body_->setJointPos(i, btScalar(robot_.q()[j.position]));
        body_->setJointVel(i, btScalar(robot_.v()[j.velocity]));
      }
    }
    btAlignedObjectArray<btQuaternion> turns;
    btAlignedObjectArray<btVector3> places;
    body_->forwardKinematics(turns, places);
  }

  const scene::Model& model_;
  const RobotDynamics& robot_;
  std::vector<const scene::SceneConstraint*> links_;
  std::map<int, int> index_;  // of links, by BodyId
  std::unique_ptr<btMultiBody> body_;
  bool free_ = false;
  btAlignedObjectArray<btScalar> r_;
  btAlignedObjectArray<btVector3> v_;
  btAlignedObjectArray<btMatrix3x3> m_;
};

void expect_the_same(const scene::Model& model, unsigned seed) {
  RobotDynamics robot(model);
  RandomNumbers random(seed);
  VectorX dq(robot.velocities()), v(robot.velocities());
  for (int i = 0; i < dq.size(); ++i) dq[i] = random(-1, 1), v[i] = random(-2, 2);
  robot.set_state(robot.moved(robot.q(), dq), v);
  BulletTwin bullet(model, robot);
  const MatrixX T = bullet.velocities();
  const double tolerance = precision(1e-11, 2e-3);
  for (const BodyId body : bullet.links()) {
    const BodyFrame frame{body, Vector3d(0.3, -0.2, 0.1), Quaterniond::Identity()};
    const MatrixX J = robot.jacobian(frame);
    EXPECT_LT((bullet.jacobian(body, robot.pose(frame).p) * T - J).norm(), tolerance * (1 + J.norm()));
  }
  const VectorX by_bullet = bullet.accelerations();
  const VectorX vdot = robot.forward_dynamics(VectorX::Zero(robot.velocities())).vdot;
  EXPECT_LT((by_bullet - T * vdot).norm(), tolerance * (1 + by_bullet.norm()));
  const MatrixX inverse = bullet.inverse_mass();
  EXPECT_LT((inverse - T * robot.mass_matrix().inverse() * T.transpose()).norm(), tolerance * inverse.norm());
}

TEST(RobotDynamics, OfRandomTreesAgreeWithBtMultiBody) {
  for (unsigned seed = 1; seed <= 24; ++seed) {
    SCOPED_TRACE(seed);
    RandomRobot of{.seed = seed, .bodies = 3 + static_cast<int>(seed % 8)};
    of.floating = seed % 2;
    of.balls = seed % 4 >= 2;
    of.welds = seed % 8 >= 4;
    scene::Model model = random_robot(of);
    for (scene::SceneConstraint& c : model.constraints) c.start = 0;  // where the frames of Bullet's joint coincide
    expect_the_same(model, seed);
  }
}

TEST(RobotDynamics, OfRobotsOfFilesAgreesWithBtMultiBody) {
  for (const char* name : {"demos/scenes/four-bar-robot.urdf", "demos/scenes/robot-arm.toml"}) {
    SCOPED_TRACE(name);
    scene::Model model;
    try {
      model = scene::load(std::string(LINCHPIN_SOURCE_DIR) + "/" + name);
    } catch (const scene::SceneError& e) {
      if (e.message.find("built without URDF") != std::string::npos) continue;
      throw;
    }
    std::erase_if(model.constraints, [](const scene::SceneConstraint& c) { return c.rheonomic; });
    expect_the_same(model, 7);
  }
}

}  // namespace
}  // namespace linchpin::test::robot_dynamics_test
#endif
