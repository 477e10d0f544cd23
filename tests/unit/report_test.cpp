// Wrenches, sums over a system, and books that notice when a record is wrong.
#include "random.h"
#include "tolerances.h"

#include <linchpin/constraint.h>
#include <linchpin/forces.h>
#include <linchpin/joints.h>
#include <linchpin/report.h>

#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

namespace linchpin::test::report_test {
namespace {

TEST(Wrench, MovesToAnotherPointWithoutChangingWhatItDoes) {
  for (const auto seed : seeds(20)) {
    SCOPED_TRACE(repeat_with(seed));
    Random random(seed);
    const Wrench w{random.vector(), random.vector(), random.vector()};
    const Vector3d q = random.vector();
    const Wrench there = w.about(q);
    EXPECT_EQ(there.point, q);
    EXPECT_EQ(there.force, w.force);
    const Vector3d v = random.vector(), omega = random.vector();  // of the body at the origin
    const auto power = [&](const Wrench& x) { return x.force.dot(v + omega.cross(x.point)) + x.moment.dot(omega); };
    EXPECT_NEAR(power(there), power(w), tol_rounding());
    EXPECT_NEAR((there.about(w.point).moment - w.moment).norm(), 0, tol_rounding());
  }
}

TEST(Wrenches, AreFoundByTheIndexOfTheirBody) {
  Wrenches w;
  w.others.resize(2);
  for (int k = 0; k < 4; ++k) w.on(k).force.x() = k;
  EXPECT_EQ(w.on_a.force.x(), 0);
  EXPECT_EQ(w.on_b.force.x(), 1);
  EXPECT_EQ(w.others[1].force.x(), 3);
}

struct TwoBodies {
  System system;
  BodyId particle, body;
  State state;
  TwoBodies() {
    system.set_gravity({0, 0, -9.81});
    particle = system.add_particle("particle", 2, {1, 0, 3}, {0, 4, 0});
    body = system.add_body("body", 3, Vector3d(1, 2, 2.5),
                           {{0, 1, 0}, Quaterniond(Eigen::AngleAxisd(1.5707963267948966, Vector3d::UnitZ()))},
                           {0, 0, 1}, {2, 0, 0});
    state = system.initial_state();
  }
};

TEST(Sums, OfAParticleAndATurnedBody) {
  const TwoBodies s;
  // Turned by a right angle about z, the body's y axis lies along −x: its second moment counts.
  EXPECT_NEAR(kinetic_energy(s.system, s.state), 0.5 * 2 * 16 + 0.5 * 3 * 1 + 0.5 * 2 * 4, tol_rounding(20));
  EXPECT_NEAR(potential_energy(s.system, s.state), 2 * 9.81 * 3, tol_rounding(100));
  EXPECT_NEAR(energy(s.system, s.state), 21.5 + 58.86, tol_rounding(100));
  EXPECT_NEAR((linear_momentum(s.system, s.state) - Vector3d(0, 8, 3)).norm(), 0, tol_rounding(10));
  // 2 (1,0,3) × (0,4,0) + 3 (0,1,0) × (0,0,1) + (4,0,0)
  EXPECT_NEAR((angular_momentum(s.system, s.state) - Vector3d(-24 + 3 + 4, 0, 8)).norm(), 0, tol_rounding(30));
  const Vector3d q(0.3, -2, 1);
  EXPECT_NEAR((angular_momentum(s.system, s.state, q) -
               (angular_momentum(s.system, s.state) - q.cross(linear_momentum(s.system, s.state))))
                  .norm(),
              0, tol_rounding(30));
  EXPECT_NEAR(energy_in_rotating_frame(s.system, s.state, {0, 0, 2}), 80.36 - 16, tol_rounding(100));
}

TEST(Sums, KnowWhetherEnergyMeansSomething) {
  TwoBodies s;
  EXPECT_TRUE(conservative(s.system));
  s.system.add(spring("spring", s.particle, Vector3d::Zero(), s.body, Vector3d::Zero(), 10, 0));
  EXPECT_TRUE(conservative(s.system));
  EXPECT_NEAR(potential_energy(s.system, s.state), 58.86 + 0.5 * 10 * 11, tol_rounding(200));
  const ConstraintId rail =
      s.system.add(joints::point_on_line("rail", ground, {1, 0, 3}, Vector3d::UnitY(), s.particle, Vector3d::Zero()));
  EXPECT_TRUE(conservative(s.system));
  add_law(s.system, rail, laws::viscous(0.1));
  EXPECT_FALSE(conservative(s.system));
  s.system.enable(rail, false);
  EXPECT_TRUE(conservative(s.system));
  s.system.add(spring("damper", s.particle, Vector3d::Zero(), s.body, Vector3d::Zero(), 0, 0, 1));
  EXPECT_FALSE(conservative(s.system));
}

TEST(Books, NoticeEveryWrongRecord) {
  for (const auto seed : seeds(20)) {
    SCOPED_TRACE(repeat_with(seed));
    Random random(seed);
    MomentumBalance book;
    for (auto* term : {&book.applied, &book.host, &book.constraints}) *term << random.vector(), random.vector();
    book.momentum = book.applied + book.host + book.constraints;
    EXPECT_LE(book.imbalance(), tol_rounding());
    for (auto* term : {&book.momentum, &book.applied, &book.host, &book.constraints})
      for (const int j : {0, 4}) {
        const double right = (*term)[j];
        (*term)[j] += 1e-9;
        EXPECT_GT(book.imbalance(), 1e-10);
        (*term)[j] = right;
      }
    book.constraints[random.integer(0, 5)] = std::nan("");
    EXPECT_FALSE(book.imbalance() <= 1);
  }
  EXPECT_EQ(MomentumBalance{}.imbalance(), 0);
}

TEST(Books, DoNotTakeRoundingForAnImbalance) {
  // Two joints hold a body with 1000 N·s each, against each other.
  MomentumBalance book;
  book.constraints[4] = 1e-13;
  book.gross_force = 1000;
  book.gross_moment = 100;
  EXPECT_LE(book.imbalance(), tol_rounding());
  // No moments at all but those of rounding.
  MomentumBalance straight;
  straight.momentum[0] = straight.applied[0] = 1;
  straight.constraints[3] = 1e-17;
  EXPECT_LE(straight.imbalance(), tol_rounding());
  // Next to nothing happens to a body that moves: its velocities are rounded to more than that, but not to much more.
  MomentumBalance coasting;
  coasting.linear_motion = 10;
  coasting.momentum[1] = coasting.applied[1] = 1e-9;
  coasting.constraints[1] = 4e-15;
  EXPECT_LE(coasting.imbalance(), tol_rounding());
  coasting.constraints[1] = 1e-12;
  EXPECT_GE(coasting.imbalance(), 9e-4);
}

TEST(Reaction, PrintsOnOneLine) {
  Reaction r;
  r.name = "hinge";
  r.on_a = {{1, 2, 3}, {0, 0, 4}, {5, 6, 7}};
  std::ostringstream out;
  out << r;
  EXPECT_EQ(out.str(), "hinge  F = (1, 2, 3) N  M = (0, 0, 4) N·m at (5, 6, 7) m  power 0 W  gap 0 m\n");
  r.residual = 0.5;
  std::ostringstream of_equation;
  of_equation << r;
  EXPECT_NE(of_equation.str().find("power 0 W  residual 0.5\n"), std::string::npos);
  r.gap = 0.25;
  std::ostringstream of_both;
  of_both << r;
  EXPECT_NE(of_both.str().find("power 0 W  gap 0.25 m  residual 0.5\n"), std::string::npos);
  r.gap = 0;
  r.determined = false;
  r.prescribed.on_a.force = {0, 0, -1};
  std::ostringstream more;
  more << r;
  EXPECT_NE(more.str().find("of which prescribed by laws: (0, 0, -1) N"), std::string::npos);
  EXPECT_NE(more.str().find("undetermined"), std::string::npos);
}

}  // namespace
}  // namespace linchpin::test::report_test
