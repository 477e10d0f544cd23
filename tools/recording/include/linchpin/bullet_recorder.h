// Records a Bullet program, for a report that opens with a double click:
//
//     linchpin::bullet::Recorder recorder(exact, world);  // after bodies and joints are there
//     …                                                   // steps, as before
//     recorder.write("run.html");                         // or .rec, .glb, .gltf, .mcap
//
// Link linchpin::recording beside linchpin::bullet or linchpin::bullet-float64. The header is compiled with the
// program, in its precision, so there is one library for both. It also compiles with -fno-exceptions: use try_write
// there.
#pragma once

#include <linchpin/bullet.h>
#include <linchpin/recording.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

namespace LINCHPIN_BULLET_NAMESPACE {

/// Converts a shape for viewers. Other shapes than those of VisualShape become the box around them. A plane has none.
inline recording::VisualShape visual_shape_of(const btCollisionShape& shape) {
  recording::VisualShape out;
  const auto around = [&] {
    btVector3 least, most;
    shape.getAabb(btTransform::getIdentity(), least, most);
    out.kind = recording::VisualShape::Kind::box;
    out.size = from_bullet(most - least);
    if (!(out.size.norm() < 1e6)) out = {};
  };
  switch (shape.getShapeType()) {
    case BOX_SHAPE_PROXYTYPE:
      out.kind = recording::VisualShape::Kind::box;
      out.size = 2 * from_bullet(static_cast<const btBoxShape&>(shape).getHalfExtentsWithMargin());
      break;
    case SPHERE_SHAPE_PROXYTYPE:
      out.kind = recording::VisualShape::Kind::sphere;
      out.size.x() = double(static_cast<const btSphereShape&>(shape).getRadius());
      break;
    case CAPSULE_SHAPE_PROXYTYPE: {
      const auto& capsule = static_cast<const btCapsuleShape&>(shape);
      if (capsule.getUpAxis() != 1) {
        around();
        break;
      }
      out.kind = recording::VisualShape::Kind::capsule;
      out.size = {double(capsule.getRadius()), 2 * double(capsule.getHalfHeight()), 0};
      break;
    }
    case CYLINDER_SHAPE_PROXYTYPE: {
      const auto& cylinder = static_cast<const btCylinderShape&>(shape);
      if (cylinder.getUpAxis() != 1) {
        around();
        break;
      }
      out.kind = recording::VisualShape::Kind::cylinder;
      out.size = {double(cylinder.getRadius()), 2 * double(cylinder.getHalfExtentsWithMargin().y()), 0};
      break;
    }
    case EMPTY_SHAPE_PROXYTYPE:
    case STATIC_PLANE_PROXYTYPE:
      break;
    default:
      around();
  }
  return out;
}

/// Returns the kind of a rigid body: fixed, kinematic, particle (without inertia) or rigid.
inline BodyKind kind_of(const btRigidBody& body) {
  if (body.isKinematicObject()) return BodyKind::kinematic;
  if (body.getInvMass() == 0) return BodyKind::fixed;
  return body.getInvInertiaDiagLocal().length2() == 0 ? BodyKind::particle : BodyKind::rigid;
}

/// Describes how a world is stepped and how its joints are held, for comparisons of methods.
/// @param direct  Bullet's solver, where it solves, does not iterate
/// @return integrator and stabilisation
inline std::pair<std::string, std::string> method_of(const btContactSolverInfo& info, const Options& options,
                                                     bool direct) {
  char text[160];
  std::snprintf(text, sizeof text, "the step ends on the constraint: Newton's method, at most %d iterations",
                options.max_newton);
  std::string held = options.drift_correction ? text : "none: the bare acceleration";
  if (options.mode == Mode::passive) {
    std::snprintf(text, sizeof text, "velocity feedback, ERP %g, CFM %g; %s", double(info.m_erp),
                  double(info.m_globalCfm), direct ? "direct" : "warm start");
    held = text;
  }
  return {"semi-implicit Euler, Bullet's", std::move(held)};
}

/// "Bullet Physics 3.24"
inline std::string host_name() {
  return "Bullet Physics " + std::to_string(btGetVersion() / 100) + "." + std::to_string(btGetVersion() % 100);
}

/// Settings of a Recorder. A plain value.
struct RecorderOptions {
  double frames_per_second = 60;  ///< more in a short run, fewer where a page would pass some 11 MB
  std::string title{};            ///< of the scene; the program's name without it. Runs are compared by it
  std::string command{};          ///< the command that made the run, for the page; may be empty
};

/// Records every step of a world under a Solver of any mode. It records the bodies and constraints that exist when the
/// first step after its construction has ended. Make it after them, so that there is a frame of the start. It reads all
/// bodies in each step, and uses memory for a frame sixty times a second.
///
/// It installs itself as an action of the world, and the destructor removes it. The Solver and the world must outlive
/// it. It owns the recording. In Mode::passive it owns a btJointFeedback of each joint without one, until it is
/// destroyed. Use it from the thread that steps the world. It calls no function of the program.
class Recorder final : private btActionInterface {
 public:
  /// @param solver, world  kept by reference
  Recorder(Solver& solver, btDiscreteDynamicsWorld& world, RecorderOptions options = {})
      : solver_(solver), world_(world), options_(std::move(options)) {
    look_at_start();
    world_.addAction(this);
  }
  ~Recorder() override {
    world_.removeAction(this);
    for (int i = 0; i < world_.getNumConstraints(); ++i)
      for (const btJointFeedback& each : feedback_)
        if (world_.getConstraint(i)->getJointFeedback() == &each) world_.getConstraint(i)->setJointFeedback(nullptr);
  }
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  /// Gives a body a name. Call it before the first step. The default names are body#0, body#1… by the place in the
  /// world.
  Recorder& name(const btRigidBody& body, std::string name) {
    names_[&body] = std::move(name);
    return *this;
  }

  /// Writes the recording so far. The end of the name selects the kind: a page (.html), a recording for `linchpin
  /// report` and `linchpin compare` (.rec), an animation (.glb, .gltf) or a log for robotics viewers (.mcap).
  /// @throws std::invalid_argument for another name. @throws OrderError before the first step. @throws FileError where
  /// the file cannot be written.
  void write(const std::string& path) { recording::write(path, recorded(), run()); }
  Result<void> try_write(const std::string& path) noexcept {
    return try_call([&] { write(path); });
  }

 private:
  // ---- what Bullet calls at the end of each of its steps, after the solver's own action, which came earlier
  void updateAction(btCollisionWorld*, btScalar dt) override {
    listen();
    if (!recording_) begin(double(dt));
    read_forces();
    recording_->forces(forces_, {});
    read_bodies();
    read_gaps();
    recording_->state(solver_.t(), states_, gaps_, solver_.energy());
    ++steps_;
    dt_ = double(dt);
    duration_ += double(dt);
  }
  void debugDraw(btIDebugDraw*) override {}

  void look_at_start() {
    find_bodies();
    read_bodies();
    listen();
    start_energy_ = solver_.energy();
    start_t_ = solver_.t();
  }
  void find_bodies() {
    bodies_.clear();
    place_.clear();
    const auto& objects = world_.getCollisionObjectArray();
    for (int i = 0; i < objects.size(); ++i)
      if (const btRigidBody* body = btRigidBody::upcast(objects[i])) {
        place_[body] = bodies_.size();
        bodies_.push_back(body);
      }
  }
  // Bullet reports its forces at a joint by a btJointFeedback. Joints that have one keep it. In reactions() the joints
  // come in the order of the world, and the user's own constraints come after them.
  void listen() {
    if (solver_.options().mode != Mode::passive) return;
    bool same = seen_.size() == static_cast<std::size_t>(world_.getNumConstraints());
    for (int i = 0; same && i < world_.getNumConstraints(); ++i)
      same = seen_[static_cast<std::size_t>(i)] == world_.getConstraint(i);
    if (same) return;
    seen_.clear();
    joints_.clear();
    for (int i = 0; i < world_.getNumConstraints(); ++i) seen_.push_back(world_.getConstraint(i));
    const auto reactions = solver_.reactions();
    for (int i = 0; i < world_.getNumConstraints() && joints_.size() < reactions.size(); ++i) {
      btTypedConstraint* joint = world_.getConstraint(i);
      const auto bodies = solver_.find(reactions[joints_.size()].name).bodies();
      if (joint->getConstraintType() == CONTACT_CONSTRAINT_TYPE || bodies.size() != 2 ||
          bodies[0] != &joint->getRigidBodyA() || bodies[1] != &joint->getRigidBodyB())
        continue;
      if (!joint->getJointFeedback()) joint->setJointFeedback(&feedback_.emplace_back());
      joints_.push_back(joint);
    }
  }
  bool same_bodies() const {
    std::size_t n = 0;
    const auto& objects = world_.getCollisionObjectArray();
    for (int i = 0; i < objects.size(); ++i)
      if (const btRigidBody* body = btRigidBody::upcast(objects[i]))
        if (n == bodies_.size() || bodies_[n++] != body) return false;
    return n == bodies_.size();
  }

  void begin(double dt) {
    const bool from_start = same_bodies();
    if (!from_start) find_bodies();
    std::vector<recording::Recording::Body> bodies;
    for (std::size_t i = 0; i < bodies_.size(); ++i) {
      const auto named = names_.find(bodies_[i]);
      bodies.push_back({named == names_.end() ? "body#" + std::to_string(i) : named->second, kind_of(*bodies_[i]),
                        visual_shape_of(*bodies_[i]->getCollisionShape()), "", ""});
    }
    std::vector<recording::Recording::Joint> links;
    const auto find = [this](std::string_view name) { return solver_.find(name); };
    for (const Reaction& r : solver_.reactions()) {
      const Handle handle = find(r.name);
      const RowUnit unit = handle.unit();
      recording::Recording::Joint link{r.name, unit == RowUnit::metre ? "m" : unit == RowUnit::radian ? "rad" : "", {}};
      for (const btRigidBody* body : handle.bodies()) {
        const auto at = place_.find(body);
        link.bodies.push_back(at == place_.end() ? -1 : static_cast<int>(at->second));
      }
      links.push_back(std::move(link));
    }
    recording::RecordingOptions how;
    how.frames_per_second = options_.frames_per_second;
    how.full = true;
    recording_ = std::make_unique<recording::Recording>(how, dt, 0, std::move(bodies), std::move(links),
                                                        std::vector<recording::Recording::Signal>());
    worst_.assign(recording_->links().size(), 0.0);
    gaps_.assign(recording_->links().size(), std::nan(""));
    if (from_start) recording_->state(start_t_, states_, gaps_, start_energy_);
  }

  // A body that has left the world has no place any more.
  void read_bodies() {
    states_.resize(bodies_.size());
    for (BodyState& s : states_) s.p.setConstant(std::nan(""));
    late_bodies_ = 0;
    const auto& objects = world_.getCollisionObjectArray();
    for (int i = 0; i < objects.size(); ++i) {
      const btRigidBody* body = btRigidBody::upcast(objects[i]);
      if (!body) continue;
      const auto at = place_.find(body);
      if (at == place_.end()) {
        ++late_bodies_;
        continue;
      }
      const btQuaternion q = body->getWorldTransform().getRotation();
      BodyState& s = states_[at->second];
      s.p = from_bullet(body->getWorldTransform().getOrigin());
      s.q = Quaterniond(double(q.w()), double(q.x()), double(q.y()), double(q.z()));
    }
    most_late_ = std::max(most_late_, late_bodies_);
  }

  // The link of reaction i, which is i unless constraints came or went.
  std::size_t link_of(std::size_t i, const Reaction& r) const {
    const auto& links = recording_->links();
    if (i < links.size() && links[i].name == r.name) return i;
    const auto at = std::find_if(links.begin(), links.end(), [&](const auto& link) { return link.name == r.name; });
    return static_cast<std::size_t>(at - links.begin());
  }

  void read_forces() {
    forces_.assign(recording_->links().size(), {});
    for (recording::Recording::Force& f : forces_) f.on.force.setConstant(std::nan(""));
    if (!recording_->is_frame()) return;
    const auto reactions = solver_.reactions();
    const auto native = solver_.native_comparison();
    const bool observed = solver_.options().mode == Mode::passive;
    for (std::size_t i = 0; i < reactions.size(); ++i) {
      const Reaction& r = reactions[i];
      const std::size_t link = link_of(i, r);
      if (link == forces_.size()) continue;
      const std::size_t on = recording_->links()[link].on;
      if (!observed) {
        forces_[link] = recording::Recording::Force::of(r, on);
        if (r.native) forces_[link].ideal = forces_[link].nonideal = forces_[link].stabilisation = std::nan("");
      } else if (on < 2) {  // what Bullet did, on the first of two bodies
        Wrench on_a;
        if (i < joints_.size()) {
          const btJointFeedback* f = joints_[i]->getJointFeedback();
          const auto first = place_.find(&joints_[i]->getRigidBodyA());
          if (!f || first == place_.end()) continue;
          // About the centre of mass as it was before the step: states_ are still those.
          on_a = Wrench{from_bullet(f->m_appliedForceBodyA), from_bullet(f->m_appliedTorqueBodyA),
                        states_[first->second].p}
                     .about(r.on_a.point);
        } else if (i < native.size()) {
          on_a = {native[i].force, native[i].moment, r.on_a.point};
        }
        forces_[link].on = on == 0 ? on_a : Wrench{-on_a.force, -on_a.moment, on_a.point};
      }
    }
  }

  void read_gaps() {
    std::fill(gaps_.begin(), gaps_.end(), std::nan(""));
    const auto reactions = solver_.reactions();
    for (std::size_t i = 0; i < reactions.size(); ++i) {
      const Reaction& r = reactions[i];
      const std::size_t link = link_of(i, r);
      if (link == gaps_.size()) {
        late_joint_ = true;
        continue;
      }
      gaps_[link] = recording_->links()[link].gap_of(r);
      if (r.gap > gap_ || joint_.empty()) gap_ = r.gap, joint_ = r.name;
      angle_ = std::max(angle_, r.gap_angle);
      worst_[link] = std::max(worst_[link], r.residual);
      squares_ += r.gap * r.gap;
      ++looks_;
    }
  }

  const recording::Recording& recorded() {
    static const recording::Recording nothing({}, 1, 1, {}, {}, {});
    return recording_ ? *recording_ : nothing;
  }
  recording::RecordedRun run() {
    recording::RecordedRun out;
    const bool exact = solver_.options().mode == Mode::exact;
    const btContactSolverInfo& info = world_.getSolverInfo();
    if (!options_.title.empty()) out.title = options_.title;
    out.command = options_.command.empty() ? out.title : options_.command;
    if (!exact) {
      const int type = world_.getConstraintSolver()->getSolverType();
      out.solver = type == BT_MLCP_SOLVER ? "bullet:mlcp" : type == BT_NNCG_SOLVER ? "bullet:nncg" : "bullet:si";
      if (type != BT_MLCP_SOLVER && info.m_numIterations != 10)
        out.solver += ":" + std::to_string(info.m_numIterations);
    }
#ifdef BT_USE_DOUBLE_PRECISION
    out.precision = "double";
#else
    out.precision = "single";
#endif
    out.host = host_name();
    std::tie(out.integrator, out.stabilisation) = method_of(info, solver_.options(), out.solver == "bullet:mlcp");
    out.steps = steps_;
    out.dt = dt_;
    out.duration = duration_;
    const auto links = recording_ ? recording_->links() : std::vector<recording::Recording::Joint>();
    const auto any = [&](const char* unit) {
      return std::any_of(links.begin(), links.end(), [&](const auto& link) { return link.unit == unit; });
    };
    if (any("m") && looks_ > 0) {
      out.max_gap = gap_;
      out.rms_gap = std::sqrt(squares_ / double(looks_));
      out.max_gap_joint = joint_;
      if (angle_ > 0) out.max_angle = angle_;
    }
    for (std::size_t i = 0; i < links.size(); ++i)
      if (links[i].unit.empty()) out.residuals.emplace_back(links[i].name, worst_[i]);
    if (exact) {
      const Counts& counts = solver_.counts();
      out.fallbacks = counts.fallbacks;
      out.substepped_steps = counts.substepped_steps;
      out.corrected = counts.largest_correction;
      if (counts.fallbacks > 0)
        out.status = "ok, but " + std::to_string(counts.fallbacks) +
                     (counts.fallbacks == 1 ? " step was" : " steps were") + " left to the native solver";
      if (counts.law_failures > 0)
        out.status = "not exact: " + law_failure_text(solver_.law_failures(), counts.law_failures);
      for (const Solver::Native& native : solver_.native()) out.native.emplace_back(native.name, native.why);
      const RankReport rank = solver_.rank_report();
      const auto reactions = solver_.reactions();
      for (const Reaction& r : reactions) out.rows += static_cast<long>(r.lambda.size());
      out.rank = rank.rank;
      for (const auto& [from, to] :
           {std::pair(&rank.redundant, &out.redundant), std::pair(&rank.undetermined, &out.undetermined),
            std::pair(&rank.contradictory, &out.contradictory)})
        for (const int i : *from)
          if (i >= 0 && static_cast<std::size_t>(i) < reactions.size())
            to->push_back(reactions[static_cast<std::size_t>(i)].name);
    }
    out.gravity = from_bullet(world_.getGravity());
    out.bodies = bodies_.size();
    out.joints = links.size();
    if (most_late_ > 0 || late_joint_)
      out.notes.push_back("the recording does not contain bodies and constraints that were added after the first step");
    return out;
  }

  Solver& solver_;
  btDiscreteDynamicsWorld& world_;
  const RecorderOptions options_;
  std::unordered_map<const btCollisionObject*, std::string> names_;
  std::unordered_map<const btCollisionObject*, std::size_t> place_;
  std::vector<const btRigidBody*> bodies_;
  std::vector<BodyState> states_;
  std::vector<double> gaps_, worst_;
  std::vector<recording::Recording::Force> forces_;
  std::vector<btTypedConstraint*> joints_, seen_;  // of the first reactions, where Bullet solves; all of the world
  std::deque<btJointFeedback> feedback_;
  std::unique_ptr<recording::Recording> recording_;
  std::string joint_;
  double start_t_ = 0, start_energy_ = 0, dt_ = 0, duration_ = 0, gap_ = 0, angle_ = 0, squares_ = 0;
  long steps_ = 0, looks_ = 0;
  int late_bodies_ = 0, most_late_ = 0;
  bool late_joint_ = false;
};

}  // namespace LINCHPIN_BULLET_NAMESPACE
