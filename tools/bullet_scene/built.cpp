#include "built.h"

#include "refused.h"

#include <linchpin/scene/joint_limits.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

namespace linchpin::bullet_scene {

namespace {

btTransform transform_of(const Vector3d& p, const Quaterniond& q) {
  return btTransform(btQuaternion(btScalar(q.x()), btScalar(q.y()), btScalar(q.z()), btScalar(q.w())),
                     bullet::to_bullet(p));
}

// Columns of the frame in an order: Bullet's hinge turns about z, ours (and its slider) about x.
btTransform frame_of(const JointFrame& frame, bool axis_to_z) {
  Matrix3d R = frame.axes;
  if (axis_to_z) R << frame.axes.col(1), frame.axes.col(2), frame.axes.col(0);
  btMatrix3x3 basis;
  for (int i = 0; i < 3; ++i) basis[i].setValue(btScalar(R(i, 0)), btScalar(R(i, 1)), btScalar(R(i, 2)));
  return btTransform(basis, bullet::to_bullet(frame.origin));
}

// Bullet adds the margin of a hull to its outside, which would lift a robot off the ground. Boxes and round shapes have
// their margins inside, and two hulls are clipped as polyhedra, so a hull needs none.
std::unique_ptr<btCollisionShape> hull_of(const scene::Hull& hull) {
  auto out = std::make_unique<btConvexHullShape>();
  for (const Vector3d& p : hull.vertices) out->addPoint(bullet::to_bullet(p), false);
  out->setMargin(0);
  out->recalcLocalAabb();
  out->initializePolyhedralFeatures();
  return out;
}

std::unique_ptr<btCollisionShape> shape_of(const scene::Shape& shape) {
  const btScalar x = btScalar(shape.size.x()), y = btScalar(shape.size.y());
  switch (shape.kind) {
    case scene::Shape::Kind::box:
      return std::make_unique<btBoxShape>(bullet::to_bullet(0.5 * shape.size));
    case scene::Shape::Kind::sphere:
      return std::make_unique<btSphereShape>(x);
    case scene::Shape::Kind::capsule:
      return std::make_unique<btCapsuleShape>(x, y);
    case scene::Shape::Kind::cylinder:
      return std::make_unique<btCylinderShape>(btVector3(x, y / 2, x));
    case scene::Shape::Kind::hull:
      return hull_of(*shape.hull);
    default:
      return std::make_unique<btEmptyShape>();
  }
}

// What contacts of bodies at rest need, and Bullet does not have by default.
void set_contacts(btContactSolverInfo& info) {
  // Two directions of friction in the plane of a contact. A standing robot glides across a single one.
  info.m_solverMode |= SOLVER_USE_2_FRICTION_DIRECTIONS;
  // Bullet ends a contact of a compound shape where the boxes around the shapes do not overlap. This depth [m] is above
  // the rounding of places in single precision. Without it a foot at rest has no contact in some of the steps.
  info.m_linearSlop = btScalar(1e-5);
}

// Where a multibody is more than 0.04 m or rad beyond a limit or in a contact, Bullet's default corrects no position:
// it leaves that to split impulses, which its solver of multibodies does not have.
void correct_deep_positions(btContactSolverInfo& info) { info.m_splitImpulsePenetrationThreshold = -BT_LARGE_FLOAT; }

// A frame in the axes of the scene, in those of Bullet.
JointFrame turned_frame(const JointFrame& frame, const Quaterniond& turn) {
  const Quaterniond back = turn.conjugate();
  return {back * frame.origin, back.toRotationMatrix() * frame.axes};
}

}  // namespace

// Bodies of one family (user index, from 0) do not collide with each other, nor do links with what a loop joins them
// to.
struct Built::Families : btOverlapFilterCallback {
  std::set<std::pair<const void*, const void*>> apart;
  bool needBroadphaseCollision(btBroadphaseProxy* a, btBroadphaseProxy* b) const override {
    if (!(a->m_collisionFilterGroup & b->m_collisionFilterMask) ||
        !(b->m_collisionFilterGroup & a->m_collisionFilterMask))
      return false;
    const auto *x = static_cast<const btCollisionObject*>(a->m_clientObject),
               *y = static_cast<const btCollisionObject*>(b->m_clientObject);
    if (x->getUserIndex() >= 0 && x->getUserIndex() == y->getUserIndex()) return false;
    return apart.empty() || !apart.contains(std::minmax<const void*>(x, y));
  }
};

Built::Built(scene::Model model, btDiscreteDynamicsWorld& world, std::vector<btRigidBody*> imported)
    : model_(scene::with_compound_limits(std::move(model))),
      world_(world),
      bodies_(std::move(imported)),
      mirror_(model_.system()) {
  if (model_.gravity_given || bodies_.empty()) world.setGravity(bullet::to_bullet(model_.gravity));
  if (model_.contacts) set_contacts(world.getSolverInfo());
  if (model_.multibodies > 0) correct_deep_positions(world.getSolverInfo());
  if (model_.contacts && model_.robots > 0) {
    families_ = std::make_unique<Families>();
    world.getPairCache()->setOverlapFilterCallback(families_.get());
  }
  for (std::size_t i = bodies_.size(); i < model_.bodies.size(); ++i) add_body(world, model_.bodies[i]);
  if (model_.multibodies > 0)
    multibodies_ = std::make_unique<Multibodies>(model_, dynamic_cast<btMultiBodyDynamicsWorld&>(world), bodies_);
  if (families_ && multibodies_) keep_apart();
  for (std::size_t i = 0; i < model_.constraints.size(); ++i) {
    const scene::SceneConstraint& c = model_.constraints[i];
    btTypedConstraint* joint = c.tree || !on_links(c) ? native_joint(c) : nullptr;
    if (joint) {
      if (!c.tree) world.addConstraint(joint, true);
      joints_.push_back({joint, c.name});
      continue;
    }
    not_native_.push_back(i);
  }
  hinge_limits_.follow(0);
  std::vector<ConstraintId> rest;
  for (const std::size_t i : not_native_) {
    const ConstraintId id = mirror_.find_constraint(model_.constraints[i].name);
    rest.push_back(id);
    const ConstraintFunction& f = mirror_.constraint(id).function();
    Constrained each{model_.constraints[i].name, f.level() == Level::position ? f.unit(0) : RowUnit::custom, {}};
    for (const BodyId on : model_.constraints[i].bodies) each.bodies.push_back(&body(on));
    constrained_.push_back(std::move(each));
  }
  lay_out_island(mirror_, rest, assembly_.layout);
}

Built::~Built() {
  for (const auto& joint : owned_joints_) world_.removeConstraint(joint.get());
  native_loops_.reset();
  multibodies_.reset();
  for (const auto& body : owned_) world_.removeRigidBody(body.get());
  if (families_) world_.getPairCache()->setOverlapFilterCallback(nullptr);
}

void Built::add_body(btDiscreteDynamicsWorld& world, const scene::SceneBody& body) {
  const PrincipalAxes axes = body.kind == BodyKind::rigid ? principal_axes(body.inertia) : PrincipalAxes();
  axes_.resize(bodies_.size());  // imported bodies have Bullet's own
  axes_.push_back(axes);
  const bool moves = body.kind == BodyKind::rigid || body.kind == BodyKind::particle;
  shapes_.push_back(shape_of(body.shape));
  if (!body.more_shapes.empty()) {
    auto whole = std::make_unique<btCompoundShape>();
    for (const scene::PlacedShape& each : body.more_shapes) {
      shapes_.push_back(shape_of(each.shape));
      whole->addChildShape(transform_of(each.pose.p, each.pose.q), shapes_.back().get());
    }
    shapes_.push_back(std::move(whole));
  }
  if (axes.turned) {
    auto whole = std::make_unique<btCompoundShape>();
    whole->addChildShape(transform_of(Vector3d::Zero(), axes.turn.conjugate()), shapes_.back().get());
    shapes_.push_back(std::move(whole));
  }
  btVector3 inertia(0, 0, 0);
  if (body.kind == BodyKind::rigid) inertia = bullet::to_bullet(axes.moments);
  auto made = std::make_unique<btRigidBody>(moves ? btScalar(body.mass) : 0, nullptr, shapes_.back().get(), inertia);
  const BodyState start = body.motion ? body.motion(0) : body.start;
  made->setWorldTransform(transform_of(start.p, axes.turned ? Quaterniond(start.q * axes.turn) : start.q));
  made->setInterpolationWorldTransform(made->getWorldTransform());
  if (moves) {
    made->setLinearVelocity(bullet::to_bullet(start.v));
    made->setAngularVelocity(bullet::to_bullet(start.w));
  }
  if (body.kind == BodyKind::kinematic) made->setCollisionFlags(btCollisionObject::CF_KINEMATIC_OBJECT);
  made->setActivationState(DISABLE_DEACTIVATION);  // both solvers compute every step
  made->updateInertiaTensor();
  if (body.family != 0) made->setUserIndex(body.family);
  if (body.multibody > 0) {
    // a stand-in: the link is in the world
  } else if (model_.contacts && (body.shape.kind != scene::Shape::Kind::none || !body.more_shapes.empty())) {
    world.addRigidBody(made.get());
  } else {
    world.addRigidBody(made.get(), 0, 0);
  }
  bodies_.push_back(made.get());
  owned_.push_back(std::move(made));
}

bool Built::on_links(const scene::SceneConstraint& c) const {
  return multibodies_ && std::any_of(c.bodies.begin(), c.bodies.end(),
                                     [&](BodyId id) { return multibodies_->link(id).body != nullptr; });
}

void Built::keep_apart() {
  const auto object = [&](BodyId id) -> btCollisionObject* {
    const bullet::Link link = multibodies_->link(id);
    if (!link.body) return &body(id);
    return link.index < 0 ? link.body->getBaseCollider() : link.body->getLink(link.index).m_collider;
  };
  for (const scene::SceneConstraint& c : model_.constraints) {
    if (c.tree || c.bodies.size() != 2 || !on_links(c)) continue;
    btCollisionObject *a = object(c.bodies[0]), *b = object(c.bodies[1]);
    if (!a || !b || !a->getBroadphaseHandle() || !b->getBroadphaseHandle()) continue;
    families_->apart.insert(std::minmax<const void*>(a, b));
    // They may lie in one another already.
    world_.getPairCache()->removeOverlappingPair(a->getBroadphaseHandle(), b->getBroadphaseHandle(),
                                                 world_.getDispatcher());
  }
}

btRigidBody& Built::body(BodyId id) {
  if (id == linchpin::ground) return btTypedConstraint::getFixedBody();
  return *bodies_[static_cast<std::size_t>(id.index) - 1];
}

const PrincipalAxes& Built::axes(BodyId id) const {
  static const PrincipalAxes own;
  const std::size_t index = static_cast<std::size_t>(id.index) - 1;
  return id == linchpin::ground || index >= axes_.size() ? own : axes_[index];
}

bool Built::any_turned(const scene::SceneConstraint& c) const {
  return std::any_of(c.bodies.begin(), c.bodies.end(), [&](BodyId id) { return axes(id).turned; });
}

Quaterniond Built::rotation(std::size_t i) const {
  const btQuaternion q = bodies_[i]->getWorldTransform().getRotation();
  const Quaterniond of_bullet(double(q.w()), double(q.x()), double(q.y()), double(q.z()));
  return i < axes_.size() && axes_[i].turned ? Quaterniond(of_bullet * axes_[i].turn.conjugate()) : of_bullet;
}

btTypedConstraint* Built::native_joint(const scene::SceneConstraint& c) {
  if (c.imported) return nullptr;  // The frames of an imported joint are not known.
  std::unique_ptr<btTypedConstraint> joint;
  const BodyId first = c.bodies[0], second = c.bodies.size() > 1 ? c.bodies[1] : linchpin::ground;
  btRigidBody &a = body(first), &b = body(second);
  const JointFrame frame_a = axes(first).turned ? turned_frame(c.frame_a, axes(first).turn) : c.frame_a;
  const JointFrame frame_b = axes(second).turned ? turned_frame(c.frame_b, axes(second).turn) : c.frame_b;
  if (c.type == "ball") {
    joint = std::make_unique<btPoint2PointConstraint>(a, b, bullet::to_bullet(frame_a.origin),
                                                      bullet::to_bullet(frame_b.origin));
  } else if (c.type == "hinge") {
    auto made = std::make_unique<btHingeConstraint>(a, b, frame_of(frame_a, true), frame_of(frame_b, true));
    if (HingeLimits::counts(c))
      hinge_limits_.add(c, *made);
    else if (c.limits)
      set_limits(*made, c.limits->first, c.limits->second);
    joint = std::move(made);
  } else if (c.type == "slider") {
    auto made = std::make_unique<btSliderConstraint>(a, b, frame_of(frame_a, false), frame_of(frame_b, false), true);
    if (c.limits) {
      made->setLowerLinLimit(btScalar(c.limits->first));
      made->setUpperLinLimit(btScalar(c.limits->second));
    }
    joint = std::move(made);
  } else if (c.type == "weld") {
    joint = std::make_unique<btFixedConstraint>(a, b, frame_of(frame_a, false), frame_of(frame_b, false));
  } else {
    return nullptr;
  }
  owned_joints_.push_back(std::move(joint));
  return owned_joints_.back().get();
}

// How many moving bodies the constraint ties together where rows of two bodies are all there is: rows of a body each
// can be taken one by one, whatever their number, but a row of several among more than two bodies cannot.
int Built::most_in_a_row(const scene::SceneConstraint& c) {
  const Constraint& whole = mirror_.constraint(mirror_.find_constraint(c.name));  // a gear's carrier included
  const ConstraintFunction& f = whole.function();
  const State start = state(0);
  std::vector<BodyState> X;
  std::vector<char> moves;
  for (const BodyId id : whole.bodies()) {
    X.push_back(start[id]);
    moves.push_back(id != linchpin::ground && !body(id).isStaticOrKinematicObject());
  }
  const std::size_t m = static_cast<std::size_t>(f.rows()), K = X.size();
  std::vector<double> A(m * 6 * K), b(m), position(m), velocity(m);
  f.linearize(X, 0, {A, b, position, velocity});
  const int moving = static_cast<int>(std::count(moves.begin(), moves.end(), 1));
  for (std::size_t row = 0; row < m; ++row) {
    int touched = 0;
    for (std::size_t k = 0; k < K; ++k) {
      const auto first = A.begin() + static_cast<std::ptrdiff_t>((row * K + k) * 6);
      touched += moves[k] && std::any_of(first, first + 6, [](double x) { return x != 0; });
    }
    if (touched > 1) return moving;
  }
  return std::min(moving, 1);
}

void Built::refuse_laws() const {
  for (const scene::SceneConstraint& c : model_.constraints)
    if (!c.laws.empty())
      throw Refused("solver", "the native solver cannot apply the force law of '" + c.name + "'. Use the solver exact");
}

void Built::hold_natively() {
  refuse_laws();
  native_loops_ = std::make_unique<NativeLoops>(model_, not_native_, mirror_, state(0), *multibodies_, bodies_,
                                                dynamic_cast<btMultiBodyDynamicsWorld&>(world_));
}

void Built::name_joints(bullet::Solver& solver) {
  for (const Joint& each : joints_) (void)solver.try_name_joint(*each.joint, each.name);
}

void Built::constrain(bullet::Solver& solver, bool exact) {
  const auto refuse = [](const std::string& what) { throw Refused("solver", what); };
  try {
    for (const scene::SceneConstraint& c : model_.constraints) {
      if (!c.tree) continue;
      const bullet::Link link = multibodies_->joint(c);
      solver.name_joint(link, c.name);
      auto& world = static_cast<btMultiBodyDynamicsWorld&>(world_);
      for (int i = 0; c.limits && i < world.getNumMultiBodyConstraints(); ++i) {
        btMultiBodyConstraint* limit = world.getMultiBodyConstraint(i);
        if (limit->getMultiBodyA() == link.body && limit->getLinkA() == link.index)
          solver.name_joint(*limit, c.name + " limits");
      }
    }
    for (const std::size_t i : not_native_) {
      const scene::SceneConstraint& c = model_.constraints[i];
      std::vector<BodyId> ids;
      for (const BodyId id : c.bodies) {
        const bullet::Link link = multibodies_ ? multibodies_->link(id) : bullet::Link();
        ids.push_back(link.body ? solver.id(link) : solver.id(body(id)));
      }
      const int together = most_in_a_row(c);
      if (!exact && together > 2)
        refuse("the native solver supports constraints between two bodies only, but '" + c.name + "' has " +
               std::to_string(together) + ". Use the solver exact");
      Constraint made = c.make(std::move(ids));
      if (any_turned(c)) {
        std::vector<Quaterniond> turns;
        for (const BodyId id : c.bodies) turns.push_back(axes(id).turn);
        made = with_axes_of_scene(made, turns);
      }
      bullet::Handle handle = solver.add(std::move(made));
      handle.collisions_between_bodies(false);
    }
    if (!exact) refuse_laws();
    for (const scene::SceneConstraint& c : model_.constraints) {
      if (!c.unilateral) continue;
      if (!exact)
        refuse("the native solver cannot hold the unilateral constraint '" + c.name + "'. Use the solver exact");
      solver.find(c.name).unilateral(*c.unilateral);
    }
    for (const scene::SceneConstraint& c : model_.constraints) {
      if (!c.yields()) continue;
      if (!exact)
        refuse("the native solver cannot hold '" + c.name + "' with " + (c.compliance ? "compliance" : "dry friction") +
               ". Use the solver exact");
      if (c.compliance) solver.find(c.name).compliance(*c.compliance);
      if (c.dry_friction) solver.find(c.name).motor({0, *c.dry_friction});
    }
    for (const scene::SceneConstraint& c : model_.constraints)
      for (const Law& law : c.laws) {
        const BodyId second = c.bodies.size() > 1 ? c.bodies[1] : linchpin::ground;
        solver.find(c.name).law(any_turned(c) ? with_axes_of_scene(law, axes(c.bodies[0]).turn, axes(second).turn)
                                              : law);
      }
  } catch (const std::invalid_argument& e) {
    refuse(e.what());
  }
}

void Built::before_step(double t, double dt) {
  for (std::size_t i = 0; i < bodies_.size(); ++i) {
    const scene::SceneBody& body = model_.bodies[i];
    if (!body.motion) continue;
    const BodyState end = body.motion(t + dt);
    bodies_[i]->setWorldTransform(transform_of(end.p, end.q));
  }
  hinge_limits_.follow(t);
  if (mirror_.forces().empty() && !native_loops_) return;
  const State now = state(t);
  if (native_loops_) native_loops_->aim(now, t + dt);
  bool failed = false;
  // Those of the mirror, so that whole turns that a force counts are the same for whoever reads it.
  for (const Force& force : mirror_.forces()) {
    std::vector<BodyState> X;
    for (const BodyId id : force.bodies()) X.push_back(now[id]);
    std::vector<Vector6> wrenches(X.size(), Vector6::Zero());
    ForceFrame frame(t, X, wrenches);
    force.act(frame);
    if (!std::all_of(wrenches.begin(), wrenches.end(), [](const Vector6& w) { return w.allFinite(); })) {
      if (force_failure_.steps == 0) force_failure_ = {force.name(), {}, t, 0};
      force_failure_.last = force.name();
      failed = true;
      continue;
    }
    for (std::size_t k = 0; k < X.size(); ++k) {
      btRigidBody& on = body(force.bodies()[k]);
      if (on.isStaticOrKinematicObject()) continue;
      const btVector3 f = bullet::to_bullet(wrenches[k].head<3>()), m = bullet::to_bullet(wrenches[k].tail<3>());
      if (const bullet::Link link = multibodies_ ? multibodies_->link(force.bodies()[k]) : bullet::Link(); link.body) {
        multibodies_->push(link, f, m);
        continue;
      }
      on.applyCentralForce(f);
      on.applyTorque(m);
    }
  }
  force_failure_.steps += failed;
}

void Built::after_step(double t) {
  if (multibodies_) multibodies_->follow();
  if (constrained_.empty()) return;
  const State now = state(t);
  std::vector<BodyState> X;
  for (const ConstraintId id : assembly_.layout.constraints) {
    Constraint& c = mirror_.constraint(id);
    X.clear();
    for (const BodyId on : c.bodies()) X.push_back(now[on]);
    c.function().accept(X, t);
  }
}

void Built::place(const State& state) {
  if (multibodies_) multibodies_->place(state);
  for (std::size_t i = 0; i < bodies_.size(); ++i) {
    btRigidBody& to = *bodies_[i];
    if (to.isStaticOrKinematicObject()) continue;
    const BodyState& from = state.bodies[i + 1];
    const btTransform at = transform_of(from.p, i < axes_.size() ? Quaterniond(from.q * axes_[i].turn) : from.q);
    to.setWorldTransform(at);
    to.setInterpolationWorldTransform(at);
    to.setLinearVelocity(bullet::to_bullet(from.v));
    to.setAngularVelocity(bullet::to_bullet(from.w));
    to.setInterpolationLinearVelocity(to.getLinearVelocity());
    to.setInterpolationAngularVelocity(to.getAngularVelocity());
    to.updateInertiaTensor();
    to.clearForces();
    if (!to.getBroadphaseHandle()) continue;  // a stand-in for a link
    world_.getPairCache()->cleanProxyFromPairs(to.getBroadphaseHandle(), world_.getDispatcher());
    world_.updateSingleAabb(&to);
  }
  if (multibodies_) multibodies_->follow();
  hinge_limits_.follow(state.t);
}

State Built::state(double t) const {
  State out = mirror_.initial_state();
  out.t = t;
  for (std::size_t i = 0; i < bodies_.size(); ++i) {
    const btRigidBody& from = *bodies_[i];
    BodyState& to = out.bodies[i + 1];
    const btQuaternion q = from.getWorldTransform().getRotation();
    to.p = bullet::from_bullet(from.getWorldTransform().getOrigin());
    to.q = Quaterniond(double(q.w()), double(q.x()), double(q.y()), double(q.z())).normalized();
    if (i < axes_.size() && axes_[i].turned) to.q = to.q * axes_[i].turn.conjugate();
    if (from.isStaticOrKinematicObject()) continue;
    to.v = bullet::from_bullet(from.getLinearVelocity());
    to.w = bullet::from_bullet(from.getAngularVelocity());
    if (model_.bodies[i].kind == BodyKind::particle) to.q.setIdentity(), to.w.setZero();
  }
  mirror_.update_kinematic(out);
  return out;
}

void Built::residuals(double t, double dt, std::vector<double>& out) {
  out.assign(constrained_.size(), 0.0);
  if (constrained_.empty()) return;
  State end = state(t), middle = end;
  middle.t = t - 0.5 * dt;
  for (BodyState& s : middle.bodies) advance(s, s.v, s.w, -0.5 * dt);
  mirror_.update_kinematic(middle);
  for (const bool at_end : {true, false}) {
    assemble_constraints(mirror_, at_end ? end : middle, assembly_);
    for (std::size_t i = 0; i < constrained_.size(); ++i) {
      const Level level = mirror_.constraint(assembly_.layout.constraints[i]).function().level();
      if ((level == Level::position) != at_end) continue;
      const auto& rows = at_end ? assembly_.position : assembly_.velocity;
      for (int r = assembly_.layout.row[i]; r < assembly_.layout.row[i + 1]; ++r)
        out[i] = std::max(out[i], std::abs(rows[static_cast<std::size_t>(r)]));
    }
  }
}

const char* Built::why_not_conserved() const {
  const auto kinematic = [&](BodyId id) { return mirror_.kind(id) == BodyKind::kinematic; };
  for (const Force& force : mirror_.forces())
    if (std::any_of(force.bodies().begin(), force.bodies().end(), kinematic)) return "a force on a kinematic body";
  return conservative(mirror_) ? nullptr : "force laws, or forces without a potential";
}

}  // namespace linchpin::bullet_scene
