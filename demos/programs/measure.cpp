#include "measure.h"

#include <BulletDynamics/ConstraintSolver/btGeneric6DofSpring2Constraint.h>
#include <BulletDynamics/ConstraintSolver/btHinge2Constraint.h>

#include <algorithm>
#include <cmath>

namespace programs {
namespace {

// In double, whatever the host's precision: a gap is smaller than a float's rounding of a position.
struct Vec {
  double x[3] = {};
  double operator[](int i) const { return x[i]; }
};
Vec operator-(const Vec& a, const Vec& b) { return {{a[0] - b[0], a[1] - b[1], a[2] - b[2]}}; }
double dot(const Vec& a, const Vec& b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }
double norm(const Vec& a) { return std::sqrt(dot(a, a)); }

/// A joint's frame on one of its bodies, in the world.
struct Frame {
  Vec p;
  Vec axis[3];
};
Frame frame(const btRigidBody& body, const btTransform& in_body) {
  const btTransform& X = body.getCenterOfMassTransform();
  const auto turned = [&](const btVector3& u) {
    Vec out;
    for (int i = 0; i < 3; ++i)
      for (int k = 0; k < 3; ++k) out.x[i] += double(X.getBasis()[i][k]) * double(u[k]);
    return out;
  };
  Frame f;
  f.p = turned(in_body.getOrigin());
  for (int i = 0; i < 3; ++i) f.p.x[i] += double(X.getOrigin()[i]);
  for (int i = 0; i < 3; ++i) f.axis[i] = turned(in_body.getBasis().getColumn(i));
  return f;
}
Frame frame(const btRigidBody& body, const btVector3& point) {
  return frame(body, btTransform(btQuaternion::getIdentity(), point));
}

template <class SixDof>
Gap six_dof(SixDof& j, const btVector3& low, const btVector3& high, const btVector3& low_angle,
            const btVector3& high_angle) {
  const Frame a = frame(j.getRigidBodyA(), j.getFrameOffsetA()), b = frame(j.getRigidBodyB(), j.getFrameOffsetB());
  Gap gap;
  double sum = 0;
  for (int i = 0; i < 3; ++i)
    if (low[i] == high[i]) {
      const double off = dot(b.p - a.p, a.axis[i]) - double(low[i]);
      sum += off * off;
    }
  gap.length = std::sqrt(sum);
  // Angles locked at zero in the order x, y, z: all three, or those that leave one axis (x or z) common.
  const bool x = low_angle[0] == high_angle[0], y = low_angle[1] == high_angle[1], z = low_angle[2] == high_angle[2];
  if (x && y) gap.angle = std::max(std::abs(dot(a.axis[2], b.axis[0])), std::abs(dot(a.axis[2], b.axis[1])));
  if (y && z)
    gap.angle = std::max({gap.angle, std::abs(dot(a.axis[2], b.axis[0])), std::abs(dot(a.axis[1], b.axis[0]))});
  if (y && !x && !z) gap.angle = std::abs(dot(a.axis[2], b.axis[0]));
  return gap;
}

}  // namespace

Gap gap_of(btTypedConstraint& joint) {
  const btRigidBody &A = joint.getRigidBodyA(), &B = joint.getRigidBodyB();
  Gap gap;
  if (auto* p = dynamic_cast<btPoint2PointConstraint*>(&joint)) {
    gap.length = norm(frame(A, p->getPivotInA()).p - frame(B, p->getPivotInB()).p);
  } else if (auto* h = dynamic_cast<btHingeConstraint*>(&joint)) {
    const Frame a = frame(A, h->getAFrame()), b = frame(B, h->getBFrame());
    gap.length = norm(a.p - b.p);
    gap.angle = std::max(std::abs(dot(a.axis[0], b.axis[2])), std::abs(dot(a.axis[1], b.axis[2])));
  } else if (auto* c = dynamic_cast<btConeTwistConstraint*>(&joint)) {
    gap.length = norm(frame(A, c->getAFrame()).p - frame(B, c->getBFrame()).p);
  } else if (auto* s = dynamic_cast<btSliderConstraint*>(&joint)) {
    const Frame a = frame(A, s->getFrameOffsetA()), b = frame(B, s->getFrameOffsetB());
    gap.length = std::hypot(dot(b.p - a.p, a.axis[1]), dot(b.p - a.p, a.axis[2]));
    gap.angle = std::max(std::abs(dot(a.axis[1], b.axis[0])), std::abs(dot(a.axis[2], b.axis[0])));
    if (s->getLowerAngLimit() == 0 && s->getUpperAngLimit() == 0)
      gap.angle = std::max(gap.angle, std::abs(dot(a.axis[2], b.axis[1])));
  } else if (auto* six = dynamic_cast<btGeneric6DofSpring2Constraint*>(&joint)) {
    btVector3 low, high, low_angle, high_angle;
    six->getLinearLowerLimit(low);
    six->getLinearUpperLimit(high);
    six->getAngularLowerLimit(low_angle);
    six->getAngularUpperLimit(high_angle);
    gap = six_dof(*six, low, high, low_angle, high_angle);
  } else if (auto* legacy = dynamic_cast<btGeneric6DofConstraint*>(&joint)) {
    btVector3 low, high, low_angle, high_angle;
    legacy->getLinearLowerLimit(low);
    legacy->getLinearUpperLimit(high);
    legacy->getAngularLowerLimit(low_angle);
    legacy->getAngularUpperLimit(high_angle);
    gap = six_dof(*legacy, low, high, low_angle, high_angle);
  }
  return gap;
}

int rows_of(btTypedConstraint& joint) {
  if (!joint.isEnabled()) return 0;
  const auto equal = [](const btVector3& a, const btVector3& b) {
    return (a[0] == b[0]) + (a[1] == b[1]) + (a[2] == b[2]);
  };
  if (dynamic_cast<btPoint2PointConstraint*>(&joint) || dynamic_cast<btConeTwistConstraint*>(&joint)) return 3;
  if (dynamic_cast<btHingeConstraint*>(&joint)) return 5;
  if (auto* s = dynamic_cast<btSliderConstraint*>(&joint))
    return 4 + (s->getLowerLinLimit() == s->getUpperLinLimit()) + (s->getLowerAngLimit() == s->getUpperAngLimit());
  btVector3 low, high, low_angle, high_angle;
  const auto locked = [&](auto& six) {
    six.getLinearLowerLimit(low);
    six.getLinearUpperLimit(high);
    six.getAngularLowerLimit(low_angle);
    six.getAngularUpperLimit(high_angle);
    return equal(low, high) + equal(low_angle, high_angle);
  };
  if (auto* six = dynamic_cast<btGeneric6DofSpring2Constraint*>(&joint)) return locked(*six);
  if (auto* six = dynamic_cast<btGeneric6DofConstraint*>(&joint)) return locked(*six);
  return 0;
}

Gap largest_gap(btDiscreteDynamicsWorld& world) {
  Gap worst;
  for (int i = 0; i < world.getNumConstraints(); ++i) {
    if (!world.getConstraint(i)->isEnabled()) continue;
    const Gap g = gap_of(*world.getConstraint(i));
    worst = {std::max(worst.length, g.length), std::max(worst.angle, g.angle)};
  }
  return worst;
}

double deepest_penetration(btDiscreteDynamicsWorld& world) {
  double deepest = 0;
  btDispatcher& d = *world.getDispatcher();
  for (int i = 0; i < d.getNumManifolds(); ++i) {
    const btPersistentManifold& m = *d.getManifoldByIndexInternal(i);
    for (int k = 0; k < m.getNumContacts(); ++k)
      deepest = std::max(deepest, -double(m.getContactPoint(k).getDistance()));
  }
  return deepest;
}

double energy(const btDiscreteDynamicsWorld& world) {
  double sum = 0;
  const btVector3 g = world.getGravity();
  for (int i = 0; i < world.getNumCollisionObjects(); ++i) {
    const btRigidBody* body = btRigidBody::upcast(world.getCollisionObjectArray()[i]);
    if (!body || body->getInvMass() == 0) continue;
    const btVector3 v = body->getLinearVelocity(),
                    w = body->getCenterOfMassTransform().getBasis().transpose() * body->getAngularVelocity();
    double e = 0;
    for (int k = 0; k < 3; ++k)
      e += 0.5 * double(v[k]) * double(v[k]) - double(g[k]) * double(body->getCenterOfMassPosition()[k]);
    sum += e / double(body->getInvMass());
    for (int k = 0; k < 3; ++k)
      if (body->getInvInertiaDiagLocal()[k] > 0)
        sum += 0.5 * double(w[k]) * double(w[k]) / double(body->getInvInertiaDiagLocal()[k]);
  }
  for (int i = 0; i < world.getNumConstraints(); ++i) {
    auto* j = dynamic_cast<btGeneric6DofSpring2Constraint*>(const_cast<btTypedConstraint*>(world.getConstraint(i)));
    if (!j || !j->isEnabled()) continue;
    const auto& spring = *j->getTranslationalLimitMotor();
    const Frame a = frame(j->getRigidBodyA(), j->getFrameOffsetA()),
                b = frame(j->getRigidBodyB(), j->getFrameOffsetB());
    for (int k = 0; k < 3; ++k)
      if (spring.m_enableSpring[k]) {
        const double off = dot(b.p - a.p, a.axis[k]) - double(spring.m_equilibriumPoint[k]);
        sum += 0.5 * double(spring.m_springStiffness[k]) * off * off;
      }
  }
  return sum;
}

bool finite(const btDiscreteDynamicsWorld& world) {
  for (int i = 0; i < world.getNumCollisionObjects(); ++i) {
    const btRigidBody* body = btRigidBody::upcast(world.getCollisionObjectArray()[i]);
    if (!body) continue;
    for (int k = 0; k < 3; ++k)
      if (!std::isfinite(body->getCenterOfMassPosition()[k]) || !std::isfinite(body->getLinearVelocity()[k]) ||
          !std::isfinite(body->getAngularVelocity()[k]))
        return false;
  }
  return true;
}

void Watch::look(Program& program, bool held) {
  alive = alive && finite(program.world);
  if (!alive) return;
  const Gap g = held ? largest_gap(program.world) : Gap{};
  for (const auto& body : program.bodies) fastest = std::max(fastest, double(body->getLinearVelocity().length()));
  gap = {std::max(gap.length, g.length), std::max(gap.angle, g.angle)};
  depth = std::max(depth, deepest_penetration(program.world));
  const double since = program.t - program.passive_from, e = energy(program.world);
  if (since <= 0) return;
  if (since <= 1) {
    highest_ = std::max(highest_, e);
    return;
  }
  sum_ += e;
  if (++count_ < std::lround(1 / program.dt)) return;
  gain = std::max(gain, sum_ / count_ - highest_);
  sum_ = count_ = 0;
}

}  // namespace programs
