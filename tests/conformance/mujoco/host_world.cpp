// The shared suite drives MuJoCo. A model of MuJoCo does not grow: what is added becomes text in MJCF, which is
// compiled anew, and a new solver gets the constraints of the one before it.
//
// Bodies are free bodies. A ball joint is a <connect>, a weld a <weld>. MuJoCo has no equality for a hinge or a slider
// between free bodies, so these two are constraints of the program.
#include "../host_world.h"

#include "model.h"

#include <linchpin/joints.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <sstream>

namespace linchpin::test {

namespace {

std::size_t index(int i) { return static_cast<std::size_t>(i); }

class MujocoWorld final : public HostWorld {
 public:
  MujocoWorld() { compile(); }

  const char* name() const override { return "mujoco"; }
  bool has(Feature feature) const override {
    switch (feature) {
      case Feature::joint_limits:
      case Feature::joint_springs:
      case Feature::articulated_bodies:
        return true;
      default:
        return false;
    }
  }
  double rounding() const override { return std::numeric_limits<double>::epsilon(); }

  int add_box(double mass, const Vector3d& half, const Vector3d& at, const Quaterniond& q) override {
    Body body;
    body.geom = "type='box' size='" + text(half) + "'";
    body.mass = mass;
    const Vector3d s = half.cwiseProduct(half);
    body.inertia = mass / 3 * Vector3d(s.y() + s.z(), s.x() + s.z(), s.x() + s.y());
    return add(std::move(body), at, q);
  }
  int add_ball(double mass, double radius, const Vector3d& at) override {
    Body body;
    body.geom = "type='sphere' size='" + text(radius) + "'";
    body.mass = mass;
    body.inertia = 0.4 * mass * radius * radius * Vector3d::Ones();
    return add(std::move(body), at, Quaterniond::Identity());
  }
  int add_kinematic(const Vector3d& at) override {
    Body body;
    body.is_mocap = true;
    return add(std::move(body), at, Quaterniond::Identity());
  }
  void add_ground(double friction) override {
    friction_ = friction;
    compile();
  }
  int add_joint(JointKind kind, int a, int b, const Vector3d& at, const Vector3d& axis) override {
    Matrix3d axes;  // the axis of a slider is x, that of a hinge z
    const Vector3d x = axis.normalized(), y = x.unitOrthogonal();
    if (kind == JointKind::slider)
      axes << x, y, x.cross(y);
    else
      axes << y, x.cross(y), x;
    const auto frame = [&](int body) {
      const BodyState s = body < 0 ? BodyState{} : state(body);
      const Vector3d origin = s.q.conjugate() * (at - s.p);
      const Matrix3d own = s.q.conjugate() * axes;
      return JointFrame{origin, own};
    };
    joints_.push_back({kind, a, b, frame(a), frame(b)});
    compile();
    return static_cast<int>(joints_.size()) - 1;
  }
  void set_motor(int, double, double) override {}
  void set_breaking_impulse(int, double) override {}
  bool is_enabled(int joint) const override { return joints_[index(joint)].is_enabled; }
  void enable_joint(int joint, bool on) override {
    Joint& of = joints_[index(joint)];
    of.is_enabled = on;
    if (of.equality >= 0)
      set_active(now_->m(), now_->d(), of.equality, on);
    else if (exact_)
      exact_->find(name_of_joint(joint)).enable(on);
  }
  void remove_joint(int joint) override {
    joints_[index(joint)].is_there = false;
    compile();
  }
  void remove_body(int body) override {
    bodies_[index(body)].is_there = false;
    compile();
  }
  void set_mass(int body, double mass) override {
    Body& of = bodies_[index(body)];
    of.inertia *= mass / of.mass;
    of.mass = mass;
    now_->m().body_mass[of.body] = mass;
    for (int k = 0; k < 3; ++k) now_->m().body_inertia[3 * of.body + k] = of.inertia[k];
    const DataPointer scratch(mj_makeData(&now_->m()));
    mj_setConst(&now_->m(), scratch.get());
  }
  BodyState state(int body) const override {
    const Body& of = bodies_[index(body)];
    if (of.qpos < 0) return of.state;
    const mjtNum *const q = now_->d().qpos + of.qpos, *const v = now_->d().qvel + of.dof;
    BodyState out;
    out.p = Vector3d(q[0], q[1], q[2]);
    out.q = Quaterniond(q[3], q[4], q[5], q[6]);
    out.v = Vector3d(v[0], v[1], v[2]);
    out.w = out.q * Vector3d(v[3], v[4], v[5]);
    return out;
  }
  void set_state(int body, const BodyState& s) override {
    bodies_[index(body)].state = s;
    write(bodies_[index(body)]);
  }
  void apply(int body, const Vector3d& force, const Vector3d& torque) override {
    mjtNum* const on = now_->d().xfrc_applied + 6 * bodies_[index(body)].body;
    for (int k = 0; k < 3; ++k) on[k] += force[k], on[3 + k] += torque[k];
  }
  void step_once(double dt) override {
    now_->m().opt.timestep = dt;
    for (Body& body : bodies_) {
      if (!body.is_there || !body.is_mocap) continue;
      body.state.p += dt * body.state.v;
      write(body);
    }
    if (exact_)
      exact_->step();
    else
      mj_step(&now_->m(), &now_->d());
    std::fill_n(now_->d().xfrc_applied, 6 * now_->m().nbody, 0.0);
  }

  void install(const host::SolverOptions& from) override {
    options_ = mujoco::Options{};
    options_->max_substeps = from.max_substeps;
    options_->drift_correction = from.drift_correction;
    compile();
  }
  void uninstall() override {
    exact_.reset();
    options_.reset();
  }
  int handle_of(int joint) override {
    handles_.push_back(name_of_joint(joint));
    return static_cast<int>(handles_.size()) - 1;
  }
  std::string constrain(const std::vector<int>& bodies, const Make& make, int& handle) override {
    Program added{bodies, make, {}, {}, {}};
    try {
      added.name = give(added);
    } catch (const std::exception& e) {
      return e.what();
    }
    handles_.push_back(added.name);
    program_.push_back(std::move(added));
    handle = static_cast<int>(handles_.size()) - 1;
    return {};
  }
  void remove(int handle) override {
    exact_->find(handles_[index(handle)]).remove();
    std::erase_if(program_, [&](const Program& c) { return c.name == handles_[index(handle)]; });
  }
  std::string add_law(int handle, const Law& law) override {
    laws_.push_back({handles_[index(handle)], law});
    return exact_->find(handles_[index(handle)]).try_law(law).error().message;
  }
  std::vector<LawWork> laws(int handle) override {
    const auto of = exact_->find(handles_[index(handle)]).laws();
    return {of.begin(), of.end()};
  }
  std::string set_unilateral(int handle, const Unilateral& how) override {
    for (Program& c : program_)
      if (c.name == handles_[index(handle)]) c.unilateral = how;
    return exact_->find(handles_[index(handle)]).try_unilateral(how).error().message;
  }
  bool is_released(int handle) override { return exact_->find(handles_[index(handle)]).released(); }
  Reaction reaction(int handle) override { return exact_->find(handles_[index(handle)]).reaction(); }
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
    for (std::size_t i = 0; i < bodies_.size(); ++i) {
      const Body& of = bodies_[i];
      if (of.qpos < 0) continue;
      const BodyState s = state(static_cast<int>(i));
      const Vector3d w = s.q.conjugate() * s.w;
      sum += of.mass * (0.5 * s.v.squaredNorm() + standard_gravity * s.p.y()) + 0.5 * w.dot(of.inertia.cwiseProduct(w));
    }
    return sum;
  }
  std::function<std::string()> save() override {
    std::shared_ptr<mjData> past(mj_copyData(nullptr, &now_->m(), &now_->d()), FreeData());
    return [this, past, history = exact_->history()]() -> std::string {
      mj_copyData(&now_->d(), &now_->m(), past.get());
      exact_->restore(history);
      return {};
    };
  }

 private:
  struct Body {
    std::string geom;
    double mass = 0;
    Vector3d inertia = Vector3d::Zero();
    BodyState state;  ///< when the model was compiled; of a mocap body now
    bool is_mocap = false, is_there = true;
    int body = -1, qpos = -1, dof = -1;  ///< in the model
  };
  struct Joint {
    JointKind kind;
    int a, b;
    JointFrame on_a, on_b;
    bool is_enabled = true, is_there = true;
    int equality = -1;  ///< in the model; −1: it is a constraint of the program
  };
  /// A constraint that the test has given.
  struct Program {
    std::vector<int> bodies;
    Make make;
    std::string name;
    std::optional<Unilateral> unilateral;
    std::vector<Law> laws;
  };
  struct NamedLaw {
    std::string constraint;
    Law law;
  };

  static std::string text(double x) {
    std::ostringstream out;
    out.precision(17);
    out << x;
    return out.str();
  }
  static std::string text(const Vector3d& x) { return text(x.x()) + " " + text(x.y()) + " " + text(x.z()); }
  static std::string name_of_body(int i) { return i < 0 ? "world" : "body " + std::to_string(i); }
  static std::string name_of_joint(int i) { return "joint " + std::to_string(i); }

  int add(Body body, const Vector3d& at, const Quaterniond& q) {
    body.state.p = at;
    body.state.q = q;
    bodies_.push_back(std::move(body));
    compile();
    return static_cast<int>(bodies_.size()) - 1;
  }

  void write(const Body& of) {
    const Vector3d& p = of.state.p;
    const Quaterniond& q = of.state.q;
    mjData& d = now_->d();
    mjtNum* const to = of.is_mocap ? d.mocap_pos + 3 * now_->m().body_mocapid[of.body] : d.qpos + of.qpos;
    mjtNum* const turn = of.is_mocap ? d.mocap_quat + 4 * now_->m().body_mocapid[of.body] : to + 3;
    for (int k = 0; k < 3; ++k) to[k] = p[k];
    turn[0] = q.w(), turn[1] = q.x(), turn[2] = q.y(), turn[3] = q.z();
    if (of.is_mocap) return;
    const Vector3d w = q.conjugate() * of.state.w;
    for (int k = 0; k < 3; ++k) d.qvel[of.dof + k] = of.state.v[k], d.qvel[of.dof + 3 + k] = w[k];
  }

  // ---- the model ----

  std::string body_text(int i) const {
    const Body& of = bodies_[index(i)];
    const Quaterniond& q = of.state.q;
    std::string out = "<body name='" + name_of_body(i) + "' pos='" + text(of.state.p) + "' quat='" + text(q.w()) + " " +
                      text(q.x()) + " " + text(q.y()) + " " + text(q.z()) + "'";
    if (of.is_mocap) return out + " mocap='true'/>\n";
    return out + "><freejoint/><inertial pos='0 0 0' mass='" + text(of.mass) + "' diaginertia='" + text(of.inertia) +
           "'/><geom " + of.geom + "/></body>\n";
  }
  std::string model_text() const {
    std::string out = "<mujoco><option gravity='0 " + text(-standard_gravity) + " 0' timestep='" + text(step_length) +
                      "'/><default><geom friction='" + text(friction_.value_or(0)) + " 0 0'/></default>\n<worldbody>\n";
    if (friction_) out += "<geom type='plane' size='0 0 1' zaxis='0 1 0'/>\n";
    for (int i = 0; i < static_cast<int>(bodies_.size()); ++i)
      if (bodies_[index(i)].is_there) out += body_text(i);
    out += "</worldbody>\n<contact>\n";
    std::vector<std::pair<int, int>> pairs;
    for (const Joint& j : joints_)
      if (j.is_there && j.a >= 0 && j.b >= 0) pairs.emplace_back(std::minmax(j.a, j.b));
    std::sort(pairs.begin(), pairs.end());
    pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
    for (const auto& [a, b] : pairs)
      out += "<exclude body1='" + name_of_body(a) + "' body2='" + name_of_body(b) + "'/>\n";
    out += "</contact>\n<equality>\n";
    for (int i = 0; i < static_cast<int>(joints_.size()); ++i) {
      const Joint& j = joints_[index(i)];
      if (!j.is_there || !is_equality(j)) continue;
      out += (j.kind == JointKind::ball ? "<connect anchor='0 0 0' name='" : "<weld name='") + name_of_joint(i) +
             "' body1='" + name_of_body(j.b) + "'" + (j.a < 0 ? "" : " body2='" + name_of_body(j.a) + "'") + "/>\n";
    }
    return out + "</equality></mujoco>\n";
  }
  static bool is_equality(const Joint& j) { return j.kind == JointKind::ball || j.kind == JointKind::weld; }

  /// Compiles the model with the bodies where they are now, and makes the solver again.
  void compile() {
    for (std::size_t i = 0; i < bodies_.size(); ++i)
      if (bodies_[i].is_there && bodies_[i].qpos >= 0) bodies_[i].state = state(static_cast<int>(i));
    const double t = now_ ? now_->d().time : 0;
    exact_.reset();
    now_.emplace(model_text());
    now_->d().time = t;
    for (int i = 0; i < static_cast<int>(bodies_.size()); ++i) {
      Body& of = bodies_[index(i)];
      of.qpos = of.dof = -1;
      if (!of.is_there) continue;
      of.body = now_->body(name_of_body(i));
      if (!of.is_mocap) {
        of.qpos = now_->m().jnt_qposadr[now_->m().body_jntadr[of.body]];
        of.dof = now_->m().body_dofadr[of.body];
      }
      write(of);
    }
    for (int i = 0; i < static_cast<int>(joints_.size()); ++i) set_equality(i);
    if (options_) make_solver();
  }
  /// Writes where an equality acts, which the compiler takes from the places of the bodies.
  void set_equality(int i) {
    Joint& j = joints_[index(i)];
    j.equality = -1;
    if (!j.is_there || !is_equality(j)) return;
    mjModel& m = now_->m();
    j.equality = now_->id(mjOBJ_EQUALITY, name_of_joint(i));
    m.eq_obj1id[j.equality] = j.a < 0 ? 0 : bodies_[index(j.a)].body;
    m.eq_obj2id[j.equality] = bodies_[index(j.b)].body;
    mjtNum* const data = m.eq_data + mjNEQDATA * j.equality;
    const bool weld = j.kind == JointKind::weld;
    for (int k = 0; k < 3; ++k) {
      data[k] = (weld ? j.on_b : j.on_a).origin[k];
      data[3 + k] = (weld ? j.on_a : j.on_b).origin[k];
    }
    if (weld) {
      const Quaterniond q(j.on_a.axes * j.on_b.axes.transpose());
      data[6] = q.w(), data[7] = q.x(), data[8] = q.y(), data[9] = q.z();
    }
    set_active(m, now_->d(), j.equality, j.is_enabled);
  }

  // ---- linchpin ----

  BodyId id(int body) { return body < 0 ? ground : exact_->id(bodies_[index(body)].body); }
  std::string give(const Program& c) {
    std::vector<BodyId> ids;
    for (const int body : c.bodies) ids.push_back(id(body));
    mujoco::Handle handle = exact_->add(c.make(ids));
    if (c.unilateral) handle.unilateral(*c.unilateral);
    return handle.name();
  }
  void make_solver() {
    exact_.emplace(now_->m(), now_->d(), *options_);
    for (int i = 0; i < static_cast<int>(joints_.size()); ++i) {
      const Joint& j = joints_[index(i)];
      if (!j.is_there || is_equality(j)) continue;
      const std::string name = name_of_joint(i);
      exact_->add(j.kind == JointKind::hinge ? joints::hinge(name, id(j.a), j.on_a.origin, j.on_a.axes.col(2), id(j.b),
                                                             j.on_b.origin, j.on_b.axes.col(2))
                                             : joints::slider(name, id(j.a), j.on_a, id(j.b), j.on_b));
      if (!j.is_enabled) exact_->find(name).enable(false);
    }
    for (const Program& c : program_) give(c);
    for (const NamedLaw& of : laws_)
      if (mujoco::Handle handle = exact_->find(of.constraint)) handle.law(of.law);
  }

  std::optional<double> friction_;  ///< of the ground, if there is one
  std::vector<Body> bodies_;
  std::vector<Joint> joints_;
  std::vector<Program> program_;
  std::vector<NamedLaw> laws_;
  std::vector<std::string> handles_;  ///< names of constraints
  std::optional<Model> now_;
  std::optional<mujoco::Options> options_;  ///< where linchpin is installed
  std::optional<mujoco::Solver> exact_;     // leaves before the model
};

}  // namespace

std::unique_ptr<HostWorld> make_host_world() { return std::make_unique<MujocoWorld>(); }

}  // namespace linchpin::test
