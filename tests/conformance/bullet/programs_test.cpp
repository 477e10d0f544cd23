// The programs of demos/programs, as their users would run them: joints closed, contacts no deeper than the native
// solver lets them be, no energy from nowhere, nothing left to native rows; and linchpin may leave at any step.
#include "world.h"

#include <programs/measure.h>
#include <programs/program.h>

#include <BulletDynamics/ConstraintSolver/btFixedConstraint.h>
#include <Eigen/Dense>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <ostream>

namespace programs {
void PrintTo(const Entry& entry, std::ostream* out) { *out << entry.name; }  // in the names of the tests
}  // namespace programs

namespace linchpin::test::programs_test {
namespace {

std::string name_of(const ::testing::TestParamInfo<programs::Entry>& info) {
  std::string name(info.param.name);
  for (char& c : name)
    if (c == '-') c = '_';
  return name;
}

/// Deepest contact of a run with gravity changed by so many billionths: a rough road turns rounding into another ride,
/// whose deepest contact may be half as deep or half as deep again, natively as well.
double depth_of_another(const programs::Entry& entry, double seconds, int billionths, bool exact) {
  const auto program = entry.make();
  program->world.setGravity(program->world.getGravity() * btScalar(1 + 1e-9 * billionths * precision(1, 1e3)));
  std::optional<bullet::Solver> solver;
  if (exact) solver.emplace(program->world);
  programs::Watch watch;
  const long steps = std::lround(seconds / program->dt);
  for (long i = 0; i < steps && watch.alive; ++i) {
    program->step();
    watch.look(*program);
  }
  return watch.depth;
}
double median_depth(const programs::Entry& entry, double seconds, bool exact) {
  std::array<double, 5> depth{};
  for (int i = 0; i < 5; ++i) depth[static_cast<std::size_t>(i)] = depth_of_another(entry, seconds, i + 1, exact);
  std::sort(depth.begin(), depth.end());
  return depth[2];
}

void run_both(const programs::Entry& entry, double seconds) {
  const auto native = entry.make(), held = entry.make();
  programs::Watch of_native, of_held;
  bullet::Solver exact(held->world);
  const long steps = std::lround(seconds / held->dt);
  for (long i = 0, left = 0; i < steps && of_held.alive; ++i) {
    native->step();
    of_native.look(*native);
    held->step();
    of_held.look(*held, exact.counts().fallbacks == left);  // a step left to native rows is counted below
    left = exact.counts().fallbacks;
  }
  EXPECT_TRUE(of_held.alive);
  // Measured from Bullet's frames, not from what the solver says of itself.
  EXPECT_LE(of_held.gap.length, precision(1e-9, 1e-4)) << "native: " << of_native.gap.length;
  EXPECT_LE(of_held.gap.angle, precision(1e-9, 1e-4)) << "native: " << of_native.gap.angle;
  // The native wrecking ball tears its chain and never reaches the wall: there is nothing to compare with but what the
  // ball covers in a step, below which no contact can be found.
  const bool arrives = entry.name != "wrecking-ball";
  if (!arrives) {
    EXPECT_LE(of_held.depth, of_held.fastest * held->dt);
  } else if (of_held.depth > std::max(1.5 * of_native.depth, 1e-3)) {
    EXPECT_LE(median_depth(entry, seconds, true), 1.5 * median_depth(entry, seconds, false));
  }
  EXPECT_LE(of_held.gain, 0);
  // In single precision the four redundant loops of the walker contradict each other by the rounding of their frames;
  // now and then a foot's impact then finds no end of step, and that step is left to native rows.
  const bool contradicts = single && entry.name == "walker";
  EXPECT_LE(exact.counts().fallbacks, contradicts ? steps / 100 : 0) << exact.summary();
  EXPECT_EQ(exact.counts().non_finite, 0);
  EXPECT_EQ(exact.counts().energy_gains, 0) << exact.summary();
  EXPECT_EQ(exact.counts().velocity_residuals, 0) << exact.summary();
}

class Programs : public ::testing::TestWithParam<programs::Entry> {};
class SlowPrograms : public Programs {};

TEST_P(Programs, KeepTheirJointsClosed) { run_both(GetParam(), 2); }
TEST_P(SlowPrograms, KeepTheirJointsClosedForTwentySeconds) { run_both(GetParam(), 20); }

// The solver destroyed after k steps, against one left alive but replaced by a fresh native solver at the same step.
TEST_P(Programs, GoOnAsUnderAFreshNativeSolverWhenItLeaves) {
  const auto bits = [](const programs::Program& p) {
    std::vector<btScalar> out;
    for (const auto& b : p.bodies)
      for (int i = 0; i < 3; ++i) {
        out.push_back(b->getWorldTransform().getOrigin()[i]);
        out.push_back(b->getLinearVelocity()[i]);
        out.push_back(b->getAngularVelocity()[i]);
        for (int k = 0; k < 3; ++k) out.push_back(b->getWorldTransform().getBasis()[i][k]);
        out.push_back(btScalar(b->getActivationState()));
      }
    return out;
  };
  for (const int steps : {0, 1, 40, 150}) {
    const auto left = GetParam().make(), replaced = GetParam().make();
    {
      bullet::Solver exact(left->world);
      for (int i = 0; i < steps; ++i) left->step();
    }
    EXPECT_EQ(left->world.getConstraintSolver(), &left->native);
    bullet::Solver exact(replaced->world);
    for (int i = 0; i < steps; ++i) replaced->step();
    btSequentialImpulseConstraintSolver fresh;
    btConstraintSolver* ours = replaced->world.getConstraintSolver();
    replaced->world.setConstraintSolver(&fresh);
    for (int i = 0; i < 30; ++i) {
      left->step();
      replaced->step();
    }
    EXPECT_EQ(bits(*left), bits(*replaced)) << "after " << steps << " steps";
    replaced->world.setConstraintSolver(ours);
  }
}

INSTANTIATE_TEST_SUITE_P(Every, Programs, ::testing::ValuesIn(programs::all().begin(), programs::all().end()), name_of);
INSTANTIATE_TEST_SUITE_P(Every, SlowPrograms, ::testing::ValuesIn(programs::all().begin(), programs::all().end()),
                         name_of);

// Two seconds hide what an exact solver makes of a ton on a light chain, whose links spin, and of a thousand links that
// swing at a step that one of them alone can barely take (T15).
TEST(SlowLongPrograms, AWreckingBallWithoutItsWallLivesForAMinute) {
  const auto program = programs::wrecking_ball_alone();
  bullet::Solver exact(program->world);
  programs::Watch watch;
  const double scale = 1000 * 9.81 * 10.5;
  while (program->t < 60 && watch.alive) {
    program->step();
    watch.look(*program);
  }
  EXPECT_TRUE(watch.alive);
  EXPECT_LE(watch.gain, 0.002 * scale) << exact.summary();
  EXPECT_LE(watch.gap.length, precision(1e-9, 1e-4));
  EXPECT_EQ(exact.counts().fallbacks, 0) << exact.summary();
}

TEST(SlowLongPrograms, AChainOfAThousandLinksLivesForAMinute) {
  TestWorld w;
  chain(w, 1000);
  for (const auto& link : w.bodies) link->getBroadphaseHandle()->m_collisionFilterMask = 0;
  bullet::Solver exact(w.world);
  const double start = exact.energy();
  double highest = start;
  const int seconds = std::getenv("LINCHPIN_LONG") ? 60 : 6;  // a minute of it is a quarter of an hour of work
  for (int i = 0; i < seconds * 240; ++i) {
    w.step();
    if (i % 240 != 0) continue;
    highest = std::max(highest, exact.energy());
    ASSERT_TRUE(w.finite()) << "after " << i << " steps\n" << exact.summary();
  }
  EXPECT_LE(highest - start, 0.02 * 1000 * 9.81 * 250) << exact.summary();
  EXPECT_LE(largest_gap(exact), precision(1e-9, 1e-3));  // single: its end is 500 m out
  EXPECT_EQ(exact.counts().fallbacks, 0);
}

/// What bodies were before a step.
struct Before {
  Vector3d p, v, w, force = Vector3d::Zero(), moment = Vector3d::Zero();  ///< what is not of welds in the step
  Matrix3d R, inertia;
  double mass = 0;
};
Vector3d eigen(const btVector3& u) { return {double(u.x()), double(u.y()), double(u.z())}; }
Matrix3d turned(const btMatrix3x3& R) {
  Matrix3d to;
  for (int i = 0; i < 3; ++i) to.row(i) = eigen(R[i]);
  return to;
}

// The bricks are one rigid body until the ball comes, so statics say what each of them needs of its welds: of the
// multipliers that give it those of least norm (T6). Contacts are what Bullet has in its manifolds.
TEST(BreakableWall, BreaksWhereStaticsOfARigidBodySayThatItDoes) {
  constexpr double threshold = 25;  // [N·s, N·m·s]
  const auto program = programs::breakable_wall();
  bullet::Solver exact(program->world);
  std::vector<Before> bricks;  // the floor is first, and no brick; the ball is last
  const auto broken = [&] {
    return std::count_if(program->joints.begin(), program->joints.end(), [](const auto& j) { return !j->isEnabled(); });
  };
  while (broken() == 0 && program->t < 2) {
    bricks.clear();
    for (std::size_t i = 1; i + 1 < program->bodies.size(); ++i) {
      const btRigidBody& body = *program->bodies[i];
      Before b;
      b.p = eigen(body.getCenterOfMassPosition());
      b.v = eigen(body.getLinearVelocity());
      b.w = eigen(body.getAngularVelocity());
      b.R = turned(body.getCenterOfMassTransform().getBasis());
      b.mass = 1 / double(body.getInvMass());
      b.inertia = b.R * eigen(body.getInvInertiaDiagLocal()).cwiseInverse().asDiagonal() * b.R.transpose();
      b.force = program->dt * b.mass * eigen(body.getGravity());
      bricks.push_back(b);
    }
    program->step();
  }
  ASSERT_GT(broken(), 0) << "the ball has missed";
  const auto index = [&](const btCollisionObject* of) {
    const auto at =
        std::find_if(program->bodies.begin(), program->bodies.end(), [&](const auto& b) { return b.get() == of; });
    const std::size_t i = static_cast<std::size_t>(at - program->bodies.begin());
    return i >= 1 && i <= bricks.size() ? static_cast<int>(i) - 1 : -1;
  };
  for (int m = 0; m < program->dispatcher.getNumManifolds(); ++m) {
    const btPersistentManifold& manifold = *program->dispatcher.getManifoldByIndexInternal(m);
    for (int k = 0; k < manifold.getNumContacts(); ++k) {
      const btManifoldPoint& point = manifold.getContactPoint(k);
      const Vector3d on_first = double(point.m_appliedImpulse) * eigen(point.m_normalWorldOnB) +
                                double(point.m_appliedImpulseLateral1) * eigen(point.m_lateralFrictionDir1) +
                                double(point.m_appliedImpulseLateral2) * eigen(point.m_lateralFrictionDir2);
      for (const bool first : {true, false}) {
        const int i = index(first ? manifold.getBody0() : manifold.getBody1());
        if (i < 0) continue;
        Before& b = bricks[static_cast<std::size_t>(i)];
        const Vector3d f = first ? on_first : Vector3d(-on_first);
        b.force += f;
        b.moment += (eigen(first ? point.getPositionWorldOnA() : point.getPositionWorldOnB()) - b.p).cross(f);
      }
    }
  }
  double mass = 0;
  Vector3d centre = Vector3d::Zero(), momentum = Vector3d::Zero(), spin = Vector3d::Zero();
  for (const Before& b : bricks) mass += b.mass, centre += b.mass * b.p;
  centre /= mass;
  Matrix3d inertia = Matrix3d::Zero();
  for (const Before& b : bricks) {
    const Vector3d r = b.p - centre, p = b.mass * b.v + b.force;
    inertia += b.inertia + b.mass * (r.squaredNorm() * Matrix3d::Identity() - r * r.transpose());
    momentum += p;
    spin += r.cross(p) + b.inertia * b.w + b.moment;
  }
  const Vector3d v = momentum / mass, w = inertia.inverse() * spin;
  const Eigen::Index columns = static_cast<Eigen::Index>(6 * bricks.size()),
                     rows = static_cast<Eigen::Index>(6 * program->joints.size());
  Eigen::VectorXd need(columns);
  Eigen::MatrixXd pulls = Eigen::MatrixXd::Zero(columns, rows);  // Aᵀ
  for (std::size_t i = 0; i < bricks.size(); ++i) {
    const Before& b = bricks[i];
    const Vector3d r = b.p - centre;
    need.segment<6>(static_cast<Eigen::Index>(6 * i)) << b.mass * (v + w.cross(r) - b.v) - b.force,
        b.inertia * (w - b.w) - b.moment;
  }
  for (std::size_t k = 0; k < program->joints.size(); ++k) {
    auto& weld = dynamic_cast<btFixedConstraint&>(*program->joints[k]);
    const int a = index(&weld.getRigidBodyA());
    const Before& of_a = bricks[static_cast<std::size_t>(a)];
    const Matrix3d axes = of_a.R * turned(weld.getFrameOffsetA().getBasis());
    const Vector3d point = of_a.p + of_a.R * eigen(weld.getFrameOffsetA().getOrigin());
    for (const int i : {a, index(&weld.getRigidBodyB())}) {
      const double sign = i == a ? 1 : -1;
      for (int j = 0; j < 3; ++j) {
        const Vector3d axis = sign * axes.col(j), r = point - bricks[static_cast<std::size_t>(i)].p;
        const Eigen::Index column = static_cast<Eigen::Index>(6 * k) + j;
        pulls.block<3, 1>(6 * i, column) = axis;
        pulls.block<3, 1>(6 * i + 3, column) = r.cross(axis);
        pulls.block<3, 1>(6 * i + 3, column + 3) = axis;
      }
    }
  }
  Eigen::CompleteOrthogonalDecomposition<Eigen::MatrixXd> solve(pulls);
  solve.setThreshold(1e-9);
  const Eigen::VectorXd least = solve.solve(need);
  ASSERT_LE((pulls * least - need).norm(), precision(1e-9, 1e-3) * need.norm());
  int said = 0;
  for (std::size_t k = 0; k < program->joints.size(); ++k) {
    const double most = least.segment<6>(static_cast<Eigen::Index>(6 * k)).cwiseAbs().maxCoeff();
    if (std::abs(most - threshold) < 0.02 * threshold) continue;  // the step's end is not its start
    EXPECT_EQ(!program->joints[k]->isEnabled(), most > threshold) << "weld " << k << " takes " << most << " N s";
    said += most > threshold;
  }
  EXPECT_GE(said, 8) << "the ball comes with 600 N s";
}

}  // namespace
}  // namespace linchpin::test::programs_test
