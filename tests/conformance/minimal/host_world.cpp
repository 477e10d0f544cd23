// The shared suite drives the toy engine.
#include "../host_world.h"
#include "toy_bodies.h"

#include <linchpin/minimal.h>

#include <limits>
#include <stdexcept>

namespace linchpin::test {

namespace {

class MinimalWorld final : public HostWorld {
 public:
  MinimalWorld() { world_.has_ground = false; }

  const char* name() const override { return "minimal"; }
  bool has(Feature feature) const override {
    switch (feature) {
      case Feature::joint_limits:
      case Feature::joint_springs:
      case Feature::sleeping:
      case Feature::swept_contacts:
      case Feature::native_fallback:
      case Feature::native_comparison:
      case Feature::articulated_bodies:
      case Feature::debug_draw:
        return false;
      default:
        return true;
    }
  }
  double rounding() const override { return std::numeric_limits<double>::epsilon(); }

  int add_box(double mass, const Vector3d& half, const Vector3d& at, const Quaterniond& q) override {
    toy::Body body = toy_box(mass, half, at);
    body.q = q;
    for (const double x : {-1.0, 1.0})
      for (const double y : {-1.0, 1.0})
        for (const double z : {-1.0, 1.0}) body.contact_points.push_back(half.cwiseProduct(Vector3d(x, y, z)));
    return world_.add(std::move(body));
  }
  int add_ball(double mass, double radius, const Vector3d& at) override {
    return world_.add(toy_ball(mass, radius, at));
  }
  int add_kinematic(const Vector3d& at) override {
    toy::Body body;
    body.motion = toy::Body::Motion::kinematic;
    body.p = at;
    return world_.add(std::move(body));
  }
  void add_ground(double friction) override {
    world_.has_ground = true;
    world_.friction = friction;
  }
  int add_joint(JointKind kind, int a, int b, const Vector3d& at, const Vector3d& axis) override {
    toy::Joint joint;
    joint.settings.kind = static_cast<toy::Joint::Kind>(kind);
    joint.settings.a = a;
    joint.settings.b = b;
    Matrix3d axes;
    const Vector3d z = axis.normalized(), x = z.unitOrthogonal();
    axes << x, z.cross(x), z;
    const auto frame = [&](int body) {
      const BodyState s = body < 0 ? BodyState{} : state(body);
      return toy::Frame{s.q.conjugate() * (at - s.p), s.q.conjugate() * axes};
    };
    joint.settings.on_a = frame(a);
    joint.settings.on_b = frame(b);
    return world_.add(joint);
  }
  void set_motor(int hinge, double velocity, double torque) override {
    world_.joint(hinge)->settings.motor_velocity = velocity;
    world_.joint(hinge)->settings.motor_torque = torque;
  }
  void set_breaking_impulse(int joint, double impulse) override { world_.joint(joint)->breaking_impulse = impulse; }
  bool is_enabled(int joint) const override { return world_.joint(joint)->settings.enabled; }
  void enable_joint(int joint, bool on) override { world_.joint(joint)->settings.enabled = on; }
  void remove_joint(int joint) override { world_.remove_joint(joint); }
  void remove_body(int body) override { world_.remove_body(body); }
  void set_mass(int body, double mass) override {
    toy::Body& of = *world_.body(body);
    of.inertia *= mass / of.mass;
    of.mass = mass;
  }
  BodyState state(int body) const override {
    const toy::Body& of = *world_.body(body);
    BodyState out;
    out.p = of.p;
    out.q = of.q;
    out.v = of.v;
    out.w = of.w;
    return out;
  }
  void set_state(int body, const BodyState& s) override {
    toy::Body& of = *world_.body(body);
    of.p = s.p;
    of.q = s.q;
    of.v = s.v;
    of.w = s.w;
  }
  void apply(int body, const Vector3d& force, const Vector3d& torque) override {
    world_.body(body)->force += force;
    world_.body(body)->torque += torque;
  }
  void step_once(double dt) override { world_.step(dt); }

  void install(const host::SolverOptions& options) override {
    exact_ = std::make_unique<minimal::Solver>(world_, options);
  }
  void uninstall() override { exact_.reset(); }
  int handle_of(int joint) override { return exact_->entry_of_joint(joint); }
  std::string constrain(const std::vector<int>& bodies, const Make& make, int& handle) override {
    try {
      std::vector<BodyId> ids;
      for (const int body : bodies) ids.push_back(exact_->id(body));
      handle = exact_->add(make(ids));
    } catch (const std::exception& e) {
      return e.what();
    }
    return {};
  }
  void remove(int handle) override { exact_->remove(handle); }
  std::string add_law(int handle, const Law& law) override {
    return try_call([&] { exact_->solver().add_law(handle, law); }).error().message;
  }
  std::vector<LawWork> laws(int handle) override {
    const auto of = exact_->solver().laws_of(handle);
    return {of.begin(), of.end()};
  }
  std::string set_unilateral(int handle, const Unilateral& how) override {
    return try_call([&] { exact_->solver().set_unilateral(handle, how); }).error().message;
  }
  bool is_released(int handle) override { return exact_->solver().entry(handle).released; }
  Reaction reaction(int handle) override { return exact_->reaction(handle); }
  std::vector<MomentumBalance> momentum_balances() override {
    exact_->solver().update_reports();
    const auto of = exact_->solver().momentum_balances();
    return {of.begin(), of.end()};
  }
  host::Counts counts() override { return exact_->solver().counts(); }
  std::vector<host::HostPart> host_parts() override { return exact_->solver().host_parts(); }
  std::vector<host::Finding> check() override {
    (void)exact_->find("");  // looks for new joints
    return exact_->solver().check();
  }
  std::string summary() override { return exact_->solver().summary(); }
  double energy() const override { return world_.energy(); }
  std::function<std::string()> save() override {
    std::vector<BodyState> bodies;
    for (int i = 0; i < world_.body_count(); ++i) bodies.push_back(state(i));
    return [this, bodies, past = exact_->solver().history()]() -> std::string {
      for (int i = 0; i < world_.body_count(); ++i) set_state(i, bodies[static_cast<std::size_t>(i)]);
      return try_call([&] { exact_->solver().restore(*past); }).error().message;
    };
  }

 private:
  toy::World world_;
  std::unique_ptr<minimal::Solver> exact_;  // leaves before the world
};

}  // namespace

std::unique_ptr<HostWorld> make_host_world() { return std::make_unique<MinimalWorld>(); }

}  // namespace linchpin::test
