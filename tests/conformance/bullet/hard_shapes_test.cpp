// Shapes of real programs that are hard to solve: blocks welded to all their neighbours, which fall, and which break on
// a floor, and a closed net of plates. Their joints stay closed or are given to the native solver by name, and no step
// gives them energy.
#include "world.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

namespace linchpin::test::hard_shapes_test {
namespace {

double energy(const TestWorld& w) {
  double sum = 0;
  for (const auto& b : w.bodies) {
    if (b->getInvMass() == 0) continue;
    const btVector3 x = b->getCenterOfMassPosition(), g = b->getGravity(), I = b->getInvInertiaDiagLocal(),
                    turn = b->getWorldTransform().getBasis().transpose() * b->getAngularVelocity();
    sum += 0.5 / double(b->getInvMass()) * double(b->getLinearVelocity().length2());
    sum -= double(g.dot(x)) / double(b->getInvMass());
    for (int i = 0; i < 3; ++i) sum += 0.5 * double(turn[i]) * double(turn[i]) / double(I[i]);
  }
  return sum;
}

/// n³ blocks of random masses, each welded to its neighbours on all sides.
void welded_blocks(TestWorld& w, int n, double height, double breaks_at) {
  std::mt19937 bits(1);
  const auto random = [&] { return 2 * (double(bits()) / 4294967295.0) - 1; };
  std::vector<btRigidBody*> blocks;
  for (int i = 0; i < n * n * n; ++i) {
    const double mass = std::exp(1.5 * random()), x = i % n, y = i / n % n, z = i / n / n;
    blocks.push_back(&w.box(
        mass, btVector3(btScalar(0.5), btScalar(0.5), btScalar(0.5)),
        btVector3(btScalar(x + 0.3 * random()), btScalar(y + 0.3 * random() + height), btScalar(z + 0.3 * random()))));
  }
  const auto weld = [&](int i, int j) {
    btRigidBody &a = *blocks[std::size_t(i)], &b = *blocks[std::size_t(j)];
    const btTransform middle(btQuaternion::getIdentity(),
                             (a.getCenterOfMassPosition() + b.getCenterOfMassPosition()) / 2);
    auto& joint = w.joint<btGeneric6DofConstraint>(a, b, a.getWorldTransform().inverse() * middle,
                                                   b.getWorldTransform().inverse() * middle, true);
    for (int k = 0; k < 6; ++k) joint.setLimit(k, 0, 0);
    if (breaks_at > 0) joint.setBreakingImpulseThreshold(btScalar(breaks_at));
  };
  for (int i = 0; i < n * n * n; ++i) {
    if (i % n + 1 < n) weld(i, i + 1);
    if (i / n % n + 1 < n) weld(i, i + n);
    if (i / n / n + 1 < n) weld(i, i + n * n);
  }
}

TEST(HardShapes, BlocksWeldedToAllTheirNeighboursFallAsOneBody) {
  TestWorld w(10);
  welded_blocks(w, 2, 15, 0);
  const double before = energy(w);
  bullet::Solver exact(w.world);
  for (int i = 0; i < 30; ++i) {
    w.step(1, 1.0 / 60);
    ASSERT_LE(largest_gap(exact), precision(1e-12, 1e-5));
    ASSERT_NEAR(energy(w), before, precision(1e-9, 1e-4) * before + 0.5 * 10 * 10 / 60.0 * (i + 1) / 60 * 40);
  }
  EXPECT_EQ(exact.counts().fallbacks, 0);
}

TEST(HardShapes, WeldedBlocksThatBreakOnAFloorGainNoEnergy) {
  TestWorld w(10);
  w.box(0, btVector3(50, 1, 50), btVector3(0, -1, 0));
  welded_blocks(w, 2, 4, 5);
  const double before = energy(w);
  bullet::Solver exact(w.world);
  for (int i = 0; i < 120; ++i) {
    w.step(1, 1.0 / 60);
    ASSERT_TRUE(w.finite());
    ASSERT_LE(energy(w), before * (1 + precision(1e-9, 1e-4)));
  }
  EXPECT_GT(std::count_if(w.joints.begin(), w.joints.end(), [](const auto& j) { return !j->isEnabled(); }), 0);
}

TEST(HardShapes, AClosedNetOfPlatesStaysFiniteAndNamesWhatIsNative) {
  constexpr int columns = 6, rows = 3;
  TestWorld w(10);
  const btVector3 half(btScalar(0.2), btScalar(0.22), btScalar(0.04));
  btRigidBody& hips = w.box(0, half, btVector3(0, 0, 0));
  const auto at = [](double angle, double row) {
    const double radius = 0.6 + 0.17 * row;
    return btVector3(btScalar(radius * std::sin(angle)), btScalar(-0.45 * row), btScalar(radius * std::cos(angle)));
  };
  const auto point = [&](btRigidBody& a, btRigidBody& b, const btVector3& x) {
    w.joint<btPoint2PointConstraint>(a, b, a.getWorldTransform().inverse() * x, b.getWorldTransform().inverse() * x);
  };
  std::vector<btRigidBody*> plates;
  for (int c = 0; c < columns; ++c)
    for (int r = 0; r < rows; ++r) {
      const double angle = 2 * pi * c / columns;
      plates.push_back(&w.box(0.5, half, at(angle, r + 0.5), btQuaternion(btVector3(0, 1, 0), btScalar(angle))));
      plates.back()->setDamping(btScalar(0.5), btScalar(0.5));
      plates.back()->getBroadphaseHandle()->m_collisionFilterMask = 0;
      point(r > 0 ? *plates[plates.size() - 2] : hips, *plates.back(), at(angle, r));
    }
  for (int c = 0; c < columns; ++c)
    for (int r = 0; r < rows; ++r) {
      btVector3 x = at(2 * pi * (c + 0.5) / columns, r + 0.5);
      x.setX(x.x() * btScalar(std::cos(pi / columns)));
      x.setZ(x.z() * btScalar(std::cos(pi / columns)));
      point(*plates[std::size_t(c * rows + r)], *plates[std::size_t((c + 1) % columns * rows + r)], x);
    }
  const double before = energy(w);
  bullet::Solver exact(w.world);
  for (int i = 0; i < 60; ++i) {
    w.step(1, 1.0 / 60);
    ASSERT_TRUE(w.finite());
    ASSERT_LE(energy(w), before + 0.01 * std::abs(before)) << "step " << i;
    if (exact.native().empty()) {
      ASSERT_LE(largest_gap(exact), precision(1e-6, 1e-4)) << "step " << i;
    } else {
      ASSERT_FALSE(exact.native()[0].why.empty());
    }
  }
}

}  // namespace
}  // namespace linchpin::test::hard_shapes_test
