#include "toy.h"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <stdexcept>
#include <string>

namespace toy {

namespace {

constexpr double contact_margin = 0.02;  // a point that is nearer to the plane gets a row [m]
constexpr double contact_erp = 0.2;      // share of an overlap that is removed in a step
constexpr double unbounded = std::numeric_limits<double>::infinity();

std::size_t z(int i) { return static_cast<std::size_t>(i); }

const Body& world_body() {
  static const Body fixed = [] {
    Body body;
    body.motion = Body::Motion::fixed;
    return body;
  }();
  return fixed;
}

bool has_inverse(double x) { return x > 0 && std::isfinite(x) && std::isfinite(1 / x); }

Matrix3d inverse_inertia(const Body& body) {
  const Matrix3d R = body.q.toRotationMatrix();
  return R * body.inertia.cwiseInverse().asDiagonal() * R.transpose();
}

}  // namespace

Body::Motion Body::moves() const {
  const bool good =
      has_inverse(mass) && has_inverse(inertia.x()) && has_inverse(inertia.y()) && has_inverse(inertia.z());
  return motion == Motion::free && !good ? Motion::fixed : motion;
}

std::string Body::fault() const {
  std::ostringstream text;
  if (!has_inverse(mass))
    text << "whose mass is " << mass << " kg";
  else if (moves() != motion)
    text << "whose inertia is (" << inertia.x() << ", " << inertia.y() << ", " << inertia.z() << ") kg·m²";
  else
    return {};
  text << " (make it positive and finite, or make the body fixed)";
  return text.str();
}

Vector3d gyroscopic_change(const Body& body, double dt) {
  const Matrix3d R = body.q.toRotationMatrix();
  const Vector3d w = R.transpose() * body.w, L = body.inertia.cwiseProduct(w), residual = dt * w.cross(L);
  const auto cross = [](const Vector3d& u) {
    Matrix3d m;
    m << 0, -u.z(), u.y(), u.z(), 0, -u.x(), -u.y(), u.x(), 0;
    return m;
  };
  const Matrix3d inertia = body.inertia.asDiagonal();
  const Matrix3d jacobian = inertia + dt * (cross(w) * inertia - cross(L));
  return -(R * jacobian.partialPivLu().solve(residual));
}

Quaterniond rotation(const Vector3d& w, double dt) {
  const double angle = w.norm() * dt;
  if (angle == 0) return Quaterniond::Identity();
  return Quaterniond(Eigen::AngleAxisd(angle, w.normalized()));
}

// ---- bodies and joints ----

int World::add(Body body) {
  bodies_.push_back(std::make_unique<Body>(std::move(body)));
  return body_count() - 1;
}
int World::add(Joint joint) {
  if (const int missing = missing_body(joint.settings); missing != -1)
    throw std::invalid_argument("toy: add: the joint names body " + std::to_string(missing) +
                                ", which is not in the world");
  joints_.push_back(std::make_unique<Joint>(std::move(joint)));
  return joint_count() - 1;
}
void World::remove_joint(int joint) {
  if (joint < 0 || joint >= joint_count())
    throw std::out_of_range("toy: remove_joint: there is no joint " + std::to_string(joint));
  joints_[z(joint)].reset();
}
void World::remove_body(int body) {
  if (body < 0 || body >= body_count())
    throw std::out_of_range("toy: remove_body: there is no body " + std::to_string(body));
  for (auto& joint : joints_)
    if (joint && (joint->settings.a == body || joint->settings.b == body)) joint.reset();
  bodies_[z(body)].reset();
}
int World::missing_body(const Joint::Settings& joint) const {
  for (const int index : {joint.a, joint.b})
    if (index != -1 && !body(index)) return index;
  return -1;
}
Body* World::body(int index) { return index < 0 || index >= body_count() ? nullptr : bodies_[z(index)].get(); }
Joint* World::joint(int index) { return index < 0 || index >= joint_count() ? nullptr : joints_[z(index)].get(); }

double World::energy() const {
  double sum = 0;
  for (const auto& body : bodies_) {
    if (!body || body->moves() != Body::Motion::free) continue;
    const Vector3d w = body->q.conjugate() * body->w;
    sum += 0.5 * body->mass * body->v.squaredNorm() + 0.5 * w.dot(body->inertia.cwiseProduct(w)) -
           body->mass * gravity.dot(body->p);
  }
  return sum;
}

// ---- a step ----

void World::step(double dt) {
  if (!(dt > 0) || !std::isfinite(dt))
    throw std::invalid_argument("toy: step: dt must be positive, got " + std::to_string(dt));
  if (hook_) hook_->begin_step(dt);
  do {
    do set_up(dt);
    while (hook_ && !hook_->start(solve_));
    iterate();
  } while (hook_ && !hook_->finish(solve_));
  for (int i = 0; i < body_count(); ++i) {
    Body* const body = bodies_[z(i)].get();
    if (!body || body->moves() != Body::Motion::free || (hook_ && hook_->solves_body(i))) continue;
    const SolverBody& s = solve_.bodies[z(i)];
    const Vector6 velocity = s.start + s.forces + s.rows;
    body->v = velocity.head<3>();
    body->w = velocity.tail<3>();
  }
  if (hook_) hook_->write();
  integrate(dt);
  if (hook_) hook_->end_step(dt);
}

void World::integrate(double dt) {
  for (auto& body : bodies_) {
    if (!body || body->moves() == Body::Motion::fixed) continue;
    body->p += dt * body->v;
    body->q = (rotation(body->w, dt) * body->q).normalized();
    body->force = body->torque = Vector3d::Zero();
  }
}

// ---- rows ----

void World::set_up(double dt) {
  solve_.dt = dt;
  solve_.bodies.assign(bodies_.size(), {});
  solve_.rows.clear();
  for (int i = 0; i < body_count(); ++i) set_up_body(i, dt);
  for (int i = 0; i < body_count(); ++i) add_contacts(i, dt);
  for (int i = 0; i < joint_count(); ++i) {
    if (!joints_[z(i)]) continue;
    joints_[z(i)]->impulse = 0;
    if (joints_[z(i)]->settings.enabled) add_joint_rows(i, dt);
  }
}

void World::set_up_body(int index, double dt) {
  const Body* const body = bodies_[z(index)].get();
  if (!body || body->moves() == Body::Motion::fixed) return;
  SolverBody& s = solve_.bodies[z(index)];
  s.start << body->v, body->w;
  if (body->moves() != Body::Motion::free) return;
  s.inverse_mass = 1 / body->mass;
  s.forces << dt * (gravity + body->force / body->mass),
      dt * (inverse_inertia(*body) * body->torque) + gyroscopic_change(*body, dt);
}

void World::add_contacts(int index, double dt) {
  const Body* const body = bodies_[z(index)].get();
  if (!has_ground || !body || body->moves() != Body::Motion::free) return;
  for (const Vector3d& point : body->contact_points) {
    const Vector3d arm = body->q * point - Vector3d(0, body->radius, 0);
    const double gap = body->p.y() + arm.y();
    if (gap > contact_margin) continue;
    const int contact = static_cast<int>(solve_.rows.size());
    for (const Vector3d& direction : {Vector3d(0, 1, 0), Vector3d(1, 0, 0), Vector3d(0, 0, 1)}) {
      const bool normal = direction.y() == 1;
      Row row;
      row.kind = normal ? Row::Kind::contact : Row::Kind::friction;
      row.body[0] = index;
      row.J[0] << direction, arm.cross(direction);
      row.upper = normal ? unbounded : 0;
      row.contact = normal ? -1 : contact;
      row.friction = friction;
      if (normal && gap < 0) row.overlap_speed = -contact_erp * gap / dt;
      add_row(solve_, row, normal && gap > 0 ? -gap / dt : row.overlap_speed);
    }
  }
}

// Three rows hold the points together, of which a slider lacks the one along its axis. Three rows hold the axes
// together, of which a hinge lacks the one about its axis, and a ball all.
void World::add_joint_rows(int index, double dt) {
  const Joint::Settings& joint = joints_[z(index)]->settings;
  if (missing_body(joint) != -1) return;
  const Body &a = body(joint.a) ? *body(joint.a) : world_body(), &b = body(joint.b) ? *body(joint.b) : world_body();
  if (a.moves() != Body::Motion::free && b.moves() != Body::Motion::free) return;
  const Matrix3d axes = a.q * joint.on_a.axes, other = b.q * joint.on_b.axes;
  const Vector3d arm_b = b.q * joint.on_b.origin, from_a = b.p + arm_b - a.p;
  const Vector3d gap = from_a - a.q * joint.on_a.origin;
  const Vector3d turned =
      0.5 * (axes.col(0).cross(other.col(0)) + axes.col(1).cross(other.col(1)) + axes.col(2).cross(other.col(2)));
  const auto add = [&](Row::Kind kind, const Vector3d& force, const Vector3d& on_a, const Vector3d& on_b, double target,
                       double bound) {
    Row row;
    row.kind = kind;
    row.body = {joint.a, joint.b};
    row.joint = index;
    row.J[0] << -force, -on_a;
    row.J[1] << force, on_b;
    row.lower = -bound;
    row.upper = bound;
    add_row(solve_, row, target);
  };
  if (!hook_ || !hook_->solves_joint(index)) {
    for (int k = 0; k < (joint.kind == Joint::Kind::slider ? 2 : 3); ++k) {
      const Vector3d n = axes.col(k);
      add(Row::Kind::joint, n, from_a.cross(n), arm_b.cross(n), -joint_erp * n.dot(gap) / dt, unbounded);
    }
    const int held = joint.kind == Joint::Kind::ball ? 0 : joint.kind == Joint::Kind::hinge ? 2 : 3;
    for (int k = 0; k < held; ++k) {
      const Vector3d n = axes.col(k);
      add(Row::Kind::joint, Vector3d::Zero(), n, n, -joint_erp * n.dot(turned) / dt, unbounded);
    }
  }
  if (joint.kind == Joint::Kind::hinge && joint.motor_torque > 0)
    add(Row::Kind::motor, Vector3d::Zero(), axes.col(2), axes.col(2), joint.motor_velocity, joint.motor_torque * dt);
}

void World::add_row(Solve& solve, Row row, double target) const {
  double mobility = 0;
  row.velocity_change = target;
  for (const std::size_t k : {std::size_t(0), std::size_t(1)}) {
    const Body* const on = body(row.body[k]);
    if (!on) continue;
    const SolverBody& s = solve.bodies[z(row.body[k])];
    row.velocity_change -= row.J[k].dot(s.start + s.forces);
    if (on->moves() != Body::Motion::free) continue;
    row.by_unit[k] << row.J[k].head<3>() / on->mass, inverse_inertia(*on) * row.J[k].tail<3>();
    mobility += row.J[k].dot(row.by_unit[k]);
  }
  row.effective_mass = mobility > 0 ? 1 / mobility : 0;
  solve.rows.push_back(row);
}

void World::iterate() {
  for (int i = 0; i < iterations; ++i) {
    for (std::size_t row = 0; row < solve_.rows.size(); ++row) solve_row(row);
    if (hook_) hook_->after_iteration(solve_);
  }
  for (const Row& row : solve_.rows)
    if (Joint* const joint = this->joint(row.joint);
        joint && row.kind == Row::Kind::joint && !row.J[1].head<3>().isZero())
      joint->impulse = std::hypot(joint->impulse, row.impulse);
}

void World::solve_row(std::size_t index) {
  Row& row = solve_.rows[index];
  double change = row.velocity_change;
  for (const std::size_t k : {std::size_t(0), std::size_t(1)})
    if (row.body[k] >= 0) change -= row.J[k].dot(solve_.bodies[z(row.body[k])].rows);
  if (row.kind == Row::Kind::friction) {
    row.upper = row.friction * solve_.rows[z(row.contact)].impulse;
    row.lower = -row.upper;
  }
  const double before = row.impulse;
  row.impulse = std::clamp(before + change * row.effective_mass, row.lower, row.upper);
  const double impulse = row.impulse - before;
  if (impulse == 0 || (hook_ && hook_->apply(solve_, index, impulse))) return;
  for (const std::size_t k : {std::size_t(0), std::size_t(1)})
    if (row.body[k] >= 0) solve_.bodies[z(row.body[k])].rows += impulse * row.by_unit[k];
}

}  // namespace toy
