// The shared suite drives Bullet.
#include "../host_world.h"

#include "world.h"

#include <limits>

namespace linchpin::test {

namespace {

btVector3 vec(const Vector3d& x) { return {btScalar(x.x()), btScalar(x.y()), btScalar(x.z())}; }
Vector3d vec(const btVector3& x) { return {double(x.x()), double(x.y()), double(x.z())}; }
btQuaternion quat(const Quaterniond& q) { return {btScalar(q.x()), btScalar(q.y()), btScalar(q.z()), btScalar(q.w())}; }

class BulletWorld final : public HostWorld {
 public:
  const char* name() const override { return single ? "bullet" : "bullet-float64"; }
  bool has(Feature) const override { return true; }
  double rounding() const override { return double(std::numeric_limits<btScalar>::epsilon()); }

  int add_box(double mass, const Vector3d& half, const Vector3d& at, const Quaterniond& q) override {
    return keep(world_.box(mass, vec(half), vec(at), quat(q)));
  }
  int add_ball(double mass, double radius, const Vector3d& at) override {
    return keep(world_.ball(mass, radius, vec(at)));
  }
  int add_kinematic(const Vector3d& at) override {
    btRigidBody& body = world_.ball(0, 0.001, vec(at));
    body.setCollisionFlags(body.getCollisionFlags() | btCollisionObject::CF_KINEMATIC_OBJECT |
                           btCollisionObject::CF_NO_CONTACT_RESPONSE);
    body.setActivationState(DISABLE_DEACTIVATION);
    kinematic_.push_back(bodies_.size());
    return keep(body);
  }
  void add_ground(double friction) override {
    world_.shapes.push_back(std::make_unique<btStaticPlaneShape>(btVector3(0, 1, 0), btScalar(0)));
    world_.body(0, *world_.shapes.back(), btVector3(0, 0, 0), btQuaternion::getIdentity()).setFriction(1);
    friction_ = friction;
    for (btRigidBody* body : bodies_) body->setFriction(btScalar(friction));
  }
  int add_joint(JointKind kind, int a, int b, const Vector3d& at, const Vector3d& axis) override {
    Matrix3d axes;  // the axis of a slider is x, that of a hinge z
    const Vector3d x = axis.normalized(), y = x.unitOrthogonal();
    if (kind == JointKind::hinge)
      axes << y, x.cross(y), x;
    else
      axes << x, y, x.cross(y);
    const auto frame = [&](int body) {
      btTransform joint;
      joint.setOrigin(vec(at));
      for (int i = 0; i < 3; ++i) joint.getBasis()[i] = vec(Vector3d(axes.row(i)));
      return body < 0 ? joint : bodies_[index(body)]->getWorldTransform().inverse() * joint;
    };
    btRigidBody &first = body_or_world(a), &second = body_or_world(b);
    const btTransform A = frame(a), B = frame(b);
    switch (kind) {
      case JointKind::ball:
        return keep(world_.joint<btPoint2PointConstraint>(first, second, A.getOrigin(), B.getOrigin()));
      case JointKind::hinge:
        return keep(world_.joint<btHingeConstraint>(first, second, A, B));
      case JointKind::slider: {
        auto& slider = world_.joint<btSliderConstraint>(first, second, A, B, true);
        slider.setLowerLinLimit(1);
        slider.setUpperLinLimit(-1);
        slider.setLowerAngLimit(0);
        slider.setUpperAngLimit(0);
        return keep(slider);
      }
      case JointKind::weld:
        break;
    }
    return keep(world_.joint<btFixedConstraint>(first, second, A, B));
  }
  void set_motor(int hinge, double velocity, double torque) override {
    static_cast<btHingeConstraint*>(joints_[index(hinge)])
        ->enableAngularMotor(true, btScalar(velocity), btScalar(torque * step_length));
  }
  void set_breaking_impulse(int joint, double impulse) override {
    joints_[index(joint)]->setBreakingImpulseThreshold(btScalar(impulse));
  }
  bool is_enabled(int joint) const override { return joints_[index(joint)]->isEnabled(); }
  void enable_joint(int joint, bool on) override { joints_[index(joint)]->setEnabled(on); }
  void remove_joint(int joint) override { world_.world.removeConstraint(joints_[index(joint)]); }
  void remove_body(int body) override {
    if (exact_) exact_->release_body(*bodies_[index(body)]);
    world_.world.removeRigidBody(bodies_[index(body)]);
  }
  void set_mass(int body, double mass) override {
    btRigidBody& of = *bodies_[index(body)];
    btVector3 inertia;
    of.getCollisionShape()->calculateLocalInertia(btScalar(mass), inertia);
    of.setMassProps(btScalar(mass), inertia);
    of.updateInertiaTensor();
    of.setGravity(world_.world.getGravity());
  }
  BodyState state(int body) const override {
    const btRigidBody& of = *bodies_[index(body)];
    const btQuaternion q = of.getWorldTransform().getRotation();
    BodyState out;
    out.p = vec(of.getWorldTransform().getOrigin());
    out.q = Quaterniond(double(q.w()), double(q.x()), double(q.y()), double(q.z())).normalized();
    out.v = vec(of.getLinearVelocity());
    out.w = vec(of.getAngularVelocity());
    return out;
  }
  // Bullet moves a kinematic body by its pose: the program gives it that of the step's end.
  void set_state(int body, const BodyState& s) override {
    btRigidBody& of = *bodies_[index(body)];
    of.setWorldTransform(btTransform(quat(s.q), vec(s.p)));
    of.setInterpolationWorldTransform(of.getWorldTransform());
    of.setLinearVelocity(vec(s.v));
    of.setAngularVelocity(vec(s.w));
  }
  void apply(int body, const Vector3d& force, const Vector3d& torque) override {
    bodies_[index(body)]->applyCentralForce(vec(force));
    bodies_[index(body)]->applyTorque(vec(torque));
  }
  void step_once(double dt) override {
    for (const std::size_t i : kinematic_) {
      btRigidBody& body = *bodies_[i];
      btTransform to;
      btTransformUtil::integrateTransform(body.getWorldTransform(), body.getLinearVelocity(), body.getAngularVelocity(),
                                          btScalar(dt), to);
      body.setWorldTransform(to);
    }
    world_.step(1, dt);
  }

  void install(const host::SolverOptions& from) override {
    bullet::Options options;
    options.mode = from.mode;
    options.stepping = from.stepping;
    options.max_substeps = from.max_substeps;
    options.threads = from.threads;
    options.drift_correction = from.drift_correction;
    exact_ = std::make_unique<bullet::Solver>(world_.world, options);
  }
  void uninstall() override {
    exact_.reset();
    handles_.clear();
  }
  int handle_of(int joint) override {
    for (std::size_t i = 0; i < handles_.size(); ++i)
      if (handles_[i].joint == joint) return static_cast<int>(i);
    handles_.push_back({joint, exact_->name_joint(*joints_[index(joint)], "joint " + std::to_string(joint))});
    return static_cast<int>(handles_.size()) - 1;
  }
  std::string constrain(const std::vector<int>& bodies, const Make& make, int& handle) override {
    try {
      std::vector<BodyId> ids;
      for (const int body : bodies) ids.push_back(exact_->id(*bodies_[index(body)]));
      handles_.push_back({-1, exact_->add(make(ids))});
    } catch (const std::exception& e) {
      return e.what();
    }
    handle = static_cast<int>(handles_.size()) - 1;
    return {};
  }
  void remove(int handle) override { handles_[index(handle)].of.remove(); }
  std::string add_law(int handle, const Law& law) override {
    return handles_[index(handle)].of.try_law(law).error().message;
  }
  std::vector<LawWork> laws(int handle) override {
    const auto of = handles_[index(handle)].of.laws();
    return {of.begin(), of.end()};
  }
  std::string set_unilateral(int handle, const Unilateral& how) override {
    return handles_[index(handle)].of.try_unilateral(how).error().message;
  }
  bool is_released(int handle) override { return handles_[index(handle)].of.released(); }
  Reaction reaction(int handle) override { return handles_[index(handle)].of.reaction(); }
  std::vector<MomentumBalance> momentum_balances() override {
    const auto of = exact_->momentum_balances();
    return {of.begin(), of.end()};
  }
  host::Counts counts() override { return exact_->counts(); }
  std::vector<host::HostPart> host_parts() override { return exact_->native(); }
  std::vector<host::Finding> check() override { return exact_->check(); }
  std::string summary() override { return exact_->summary(); }
  double energy() const override {
    double sum = 0;
    for (const btRigidBody* body : bodies_) {
      if (body->isStaticOrKinematicObject()) continue;
      const Vector3d v = vec(body->getLinearVelocity());
      const btVector3 w = body->getWorldTransform().getBasis().transpose() * body->getAngularVelocity(),
                      inverse = body->getInvInertiaDiagLocal();
      sum += 0.5 / double(body->getInvMass()) * v.squaredNorm() +
             standard_gravity / double(body->getInvMass()) * double(body->getWorldTransform().getOrigin().y());
      for (int k = 0; k < 3; ++k) sum += 0.5 * double(w[k] * w[k]) / double(inverse[k]);
    }
    return sum;
  }
  std::function<std::string()> save() override {
    struct Past {
      btTransform pose;
      btVector3 v, w;
    };
    std::vector<Past> bodies;
    for (const btRigidBody* body : bodies_)
      bodies.push_back({body->getWorldTransform(), body->getLinearVelocity(), body->getAngularVelocity()});
    return [this, bodies, past = exact_->history()]() -> std::string {
      if (std::string why = exact_->try_restore(past).error().message; !why.empty()) return why;
      for (std::size_t i = 0; i < bodies.size(); ++i) {
        bodies_[i]->setCenterOfMassTransform(bodies[i].pose);
        bodies_[i]->setLinearVelocity(bodies[i].v);
        bodies_[i]->setAngularVelocity(bodies[i].w);
      }
      return {};
    };
  }

 private:
  struct Named {
    int joint;
    bullet::Handle of;
  };
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  btRigidBody& body_or_world(int body) { return body < 0 ? btTypedConstraint::getFixedBody() : *bodies_[index(body)]; }
  int keep(btRigidBody& body) {
    body.setFriction(btScalar(friction_));
    bodies_.push_back(&body);
    return static_cast<int>(bodies_.size()) - 1;
  }
  int keep(btTypedConstraint& joint) {
    joints_.push_back(&joint);
    return static_cast<int>(joints_.size()) - 1;
  }

  TestWorld world_{standard_gravity};
  double friction_ = 0.5;
  std::vector<btRigidBody*> bodies_;
  std::vector<std::size_t> kinematic_;
  std::vector<btTypedConstraint*> joints_;
  std::unique_ptr<bullet::Solver> exact_;  // leaves before the world
  std::vector<Named> handles_;
};

}  // namespace

std::unique_ptr<HostWorld> make_host_world() { return std::make_unique<BulletWorld>(); }

}  // namespace linchpin::test
