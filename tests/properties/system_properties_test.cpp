// Laws that hold for any system of bodies, joints, forces and laws, checked on random ones.
#include "motion.h"
#include "random_system.h"

#include <linchpin/report.h>

#include <algorithm>
#include <numeric>

namespace linchpin::test::system_properties_test {
namespace {

using Vector6d = Vector6;

double size_of(std::span<const double> x) {
  double most = 1;
  for (const double xi : x) most = std::max(most, std::fabs(xi));
  return most;
}

double inner(std::span<const double> x, std::span<const double> y) {
  return std::inner_product(x.begin(), x.end(), y.begin(), 0.0);
}

/// The part of a system's column vector that belongs to a body.
Vector6d of_body(const IslandLayout& layout, BodyId id, std::span<const double> x) {
  Vector6d u = Vector6d::Zero();
  const int slot = layout.body_index(id);
  for (int j = layout.column[static_cast<std::size_t>(slot)]; j < layout.column[static_cast<std::size_t>(slot) + 1];
       ++j)
    u[j - layout.column[static_cast<std::size_t>(slot)]] = x[static_cast<std::size_t>(j)];
  return u;
}

Vector6d turned(const Quaterniond& q, const Vector6d& u) {
  Vector6d out;
  out << q * Vector3d(u.head<3>()), q * Vector3d(u.tail<3>());
  return out;
}

Dynamics evaluated(const Built& b) {
  Dynamics dynamics(b.system);
  EXPECT_NE(dynamics.evaluate(b.state), Status::invalid) << dynamics.reason();
  EXPECT_NE(dynamics.evaluate(b.state), Status::contradictory);
  return dynamics;
}

class Systems : public testing::Test {
 protected:
  /// Calls `check` with a blueprint of each seed.
  template <class Check>
  void each(int count, const BlueprintOptions& options, Check check) {
    for (const auto seed : seeds(count)) {
      SCOPED_TRACE(repeat_with(seed));
      Random random(seed);
      const Blueprint plan = random_blueprint(random, options);
      check(plan, random);
      if (HasFatalFailure()) return;
    }
  }
};

TEST_F(Systems, ObeyTheirConstraints) {
  each(100, {.friction = true}, [](const Blueprint& plan, Random&) {
    const Built b = build(plan);
    const Dynamics dynamics = evaluated(b);
    const ConstrainedProblem& x = dynamics.assembly().problem;
    const double scale = size_of(dynamics.vdot());
    for (int r = 0; r < x.m(); ++r) {
      double sum = -x.b[static_cast<std::size_t>(r)];
      for (int e = x.row_start[static_cast<std::size_t>(r)]; e < x.row_start[static_cast<std::size_t>(r) + 1]; ++e)
        sum += x.entries[static_cast<std::size_t>(e)].value *
               dynamics.vdot()[static_cast<std::size_t>(x.entries[static_cast<std::size_t>(e)].column)];
      EXPECT_NEAR(sum, 0, scaled(1e-10 * scale));
    }
  });
}

TEST_F(Systems, IdealForcesDoNoVirtualWorkAndOthersTheWorkOfTheirLaws) {
  each(100, {.friction = true}, [](const Blueprint& plan, Random& random) {
    const Built b = build(plan);
    const Dynamics dynamics = evaluated(b);
    const std::size_t n = dynamics.vdot().size(), m = dynamics.lambda().size();
    // w: anything, less what the constraints forbid.
    std::vector<double> w(n), Aw(m, 0.0), dw(n);
    for (double& x : w) x = random.uniform();
    const ConstrainedProblem& x = dynamics.assembly().problem;
    for (std::size_t r = 0; r < m; ++r)
      for (int e = x.row_start[r]; e < x.row_start[r + 1]; ++e)
        Aw[r] -= x.entries[static_cast<std::size_t>(e)].value *
                 w[static_cast<std::size_t>(x.entries[static_cast<std::size_t>(e)].column)];
    dynamics.solver().apply(Aw, {}, {}, dw);
    for (std::size_t j = 0; j < n; ++j) w[j] += dw[j];
    const double tol = scaled(1e-11 * size_of(dynamics.ideal()) * static_cast<double>(n));
    EXPECT_NEAR(inner(w, dynamics.ideal()), 0, tol);
    EXPECT_NEAR(inner(w, dynamics.nonideal()), inner(w, x.c), tol);
    // The velocity itself is such a displacement here: power of Q^W = vᵀc, and the ledger's power adds up to it.
    const auto& v = dynamics.assembly().v;
    EXPECT_NEAR(inner(v, dynamics.ideal()), 0, tol);
    EXPECT_NEAR(inner(v, dynamics.nonideal()), inner(v, x.c), tol);
    std::vector<Reaction> reactions;
    dynamics.reactions(b.state, reactions);
    double power = 0;
    for (const Reaction& r : reactions) power += r.power;
    EXPECT_NEAR(power, inner(v, x.c), tol);
    EXPECT_LE(power, tol);  // friction
  });
}

TEST_F(Systems, LedgerAddsUpToTheForcesOfTheEquation) {
  each(100, {.friction = true}, [](const Blueprint& plan, Random&) {
    const Built b = build(plan);
    const Dynamics dynamics = evaluated(b);
    std::vector<Reaction> reactions;
    dynamics.reactions(b.state, reactions);
    for (const BodyId id : b.bodies) {
      Vector6d sum = Vector6d::Zero();
      for (std::size_t i = 0; i < reactions.size(); ++i) {
        const auto bodies = b.system.constraint(dynamics.assembly().layout.constraints[i]).bodies();
        for (std::size_t k = 0; k < bodies.size(); ++k)
          if (bodies[k] == id) {
            const Wrench w = reactions[i].on(static_cast<int>(k)).about(b.state[id].p);
            sum.head<3>() += w.force;
            if (b.system.dof(id) == 6) sum.tail<3>() += w.moment;
          }
      }
      const Vector6d total = of_body(dynamics.assembly().layout, id, dynamics.ideal()) +
                             of_body(dynamics.assembly().layout, id, dynamics.nonideal());
      EXPECT_NEAR((sum - total).norm(), 0, scaled(1e-11 * (1 + total.norm() + size_of(dynamics.lambda()))));
    }
  });
}

TEST_F(Systems, InternalConstraintsAndLawsMakeNoMomentum) {
  each(60, {.grounded = false, .gravity = false, .friction = true, .particles = false, .loops = 0},
       [](const Blueprint& plan, Random&) {
         Built b = build(plan);
         for (std::size_t i = 0; i < plan.joints.size(); ++i)
           if (plan.joints[i].kind == Blueprint::Kind::rod) clear_laws(b.system, b.constraints[i]);  // acts at two ends
         const Dynamics dynamics = evaluated(b);
         Vector3d force = Vector3d::Zero(), moment = Vector3d::Zero();
         for (const BodyId id : b.bodies) {
           const Vector6d w = of_body(dynamics.assembly().layout, id, dynamics.ideal()) +
                              of_body(dynamics.assembly().layout, id, dynamics.nonideal());
           force += w.head<3>();
           moment += w.tail<3>() + b.state[id].p.cross(Vector3d(w.head<3>()));
         }
         const double tol = scaled(1e-11 * size_of(dynamics.ideal()));
         EXPECT_NEAR(force.norm(), 0, tol);
         EXPECT_NEAR(moment.norm(), 0, tol);

         const Vector3d P = linear_momentum(b.system, b.state), L = angular_momentum(b.system, b.state);
         Stepper fine(b.system, b.state, rk4());
         run(fine, 0.1, 100);
         EXPECT_NEAR((linear_momentum(b.system, fine.state()) - P).norm(), 0, tol);
         EXPECT_NEAR((angular_momentum(b.system, fine.state()) - L).norm(), 0,
                     scaled(1e-6 * size_of(dynamics.ideal())));
         Stepper coarse(b.system, b.state, semi_implicit());
         run(coarse, 0.1, 40);
         EXPECT_NEAR((linear_momentum(b.system, coarse.state()) - P).norm(), 0,
                     scaled(1e-10 * size_of(dynamics.ideal())));
       });
}

TEST_F(Systems, WithIdealConstraintsThatDoNotMoveKeepTheirEnergy) {
  each(40, {}, [](const Blueprint& plan, Random&) {
    Built b = build(plan);
    ASSERT_TRUE(conservative(b.system));
    const double E = energy(b.system, b.state), scale = 10 + std::fabs(E);
    std::vector<double> errors;
    for (const int steps : {50, 100}) {
      Stepper stepper(b.system, b.state, rk4());
      run(stepper, 0.1, steps);
      errors.push_back(std::fabs(energy(b.system, stepper.state()) - E));
      EXPECT_NEAR(stepper.constraint_work(), 0, scaled(1e-5 * scale));
    }
    // At least the fourth order, unless round-off or a singular place on the way says otherwise.
    EXPECT_TRUE(errors[1] < errors[0] / 8 || errors[1] < scaled(1e-9 * scale)) << errors[0] << ' ' << errors[1];
  });
}

TEST_F(Systems, OnAMovingBaseKeepTheirEnergyLessTheWorkOfConstraints) {
  each(40, {.friction = true}, [](const Blueprint& plan, Random& random) {
    Built b = build(plan, {.speed = random.vector(2)});
    for (const ConstraintId id : b.constraints) clear_laws(b.system, id);
    Stepper stepper(b.system, b.state, rk4());
    const double kept = stepper.energy_minus_work();
    run(stepper, 0.1, 100);
    EXPECT_NEAR(stepper.energy_minus_work(), kept, scaled(1e-6 * (10 + std::fabs(kept))));
  });
}

TEST_F(Systems, AreTheSameWhereverTheWorldIs) {
  each(100, {.friction = true}, [](const Blueprint& plan, Random& random) {
    const Built here = build(plan);
    const Elsewhere place{.shift = random.vector(10), .speed = random.vector(3), .turn = random.rotation()};
    const Built there = build(plan, place);
    const Dynamics one = evaluated(here), two = evaluated(there);
    const double tol = scaled(1e-9 * (size_of(one.vdot()) + size_of(one.ideal())));
    for (std::size_t i = 0; i < plan.bodies.size(); ++i) {
      const BodyState &s = here.state[here.bodies[i]], &t = there.state[there.bodies[i]];
      EXPECT_NEAR((t.v - place.speed - place.turn * s.v).norm(), 0, scaled(1e-9));
      const Vector6d a = of_body(one.assembly().layout, here.bodies[i], one.vdot());
      const Vector6d c = of_body(two.assembly().layout, there.bodies[i], two.vdot());
      EXPECT_NEAR((c - turned(place.turn, a)).norm(), 0, tol);
      const Vector6d f = of_body(one.assembly().layout, here.bodies[i], one.ideal());
      const Vector6d h = of_body(two.assembly().layout, there.bodies[i], two.ideal());
      EXPECT_NEAR((h - turned(place.turn, f)).norm(), 0, tol);
    }
  });
}

TEST_F(Systems, DoNotMindTheOrderOfBodiesAndConstraints) {
  each(100, {.friction = true}, [](const Blueprint& plan, Random& random) {
    const auto shuffled = [&](std::size_t count) {
      std::vector<int> order(count);
      std::iota(order.begin(), order.end(), 0);
      for (int i = static_cast<int>(count) - 1; i > 0; --i)
        std::swap(order[static_cast<std::size_t>(i)], order[static_cast<std::size_t>(random.integer(0, i))]);
      return order;
    };
    const Built first = build(plan),
                second = build(plan, {}, shuffled(plan.bodies.size()), shuffled(plan.joints.size()));
    const Dynamics one = evaluated(first), two = evaluated(second);
    const double tol = scaled(1e-9 * (size_of(one.vdot()) + size_of(one.ideal())));
    for (std::size_t i = 0; i < plan.bodies.size(); ++i) {
      EXPECT_NEAR((of_body(one.assembly().layout, first.bodies[i], one.vdot()) -
                   of_body(two.assembly().layout, second.bodies[i], two.vdot()))
                      .norm(),
                  0, tol);
      EXPECT_NEAR((of_body(one.assembly().layout, first.bodies[i], one.nonideal()) -
                   of_body(two.assembly().layout, second.bodies[i], two.nonideal()))
                      .norm(),
                  0, tol);
    }
  });
}

TEST_F(Systems, DoNotMindConstraintsBeingSaidTwice) {
  each(60, {}, [](const Blueprint& plan, Random&) {
    Built first = build(plan), second = build(plan, {}, {}, {}, 3);
    const Dynamics one = evaluated(first), two = evaluated(second);
    const double tol = scaled(1e-9 * (size_of(one.vdot()) + size_of(one.ideal())));
    for (std::size_t j = 0; j < one.vdot().size(); ++j) {
      EXPECT_NEAR(one.vdot()[j], two.vdot()[j], tol);
      EXPECT_NEAR(one.ideal()[j], two.ideal()[j], tol);
    }
    // Three copies carry a third each.
    std::vector<Reaction> alone, shared;
    one.reactions(first.state, alone);
    two.reactions(second.state, shared);
    for (std::size_t i = 0; i < alone.size(); ++i) {
      if (!alone[i].determined) continue;
      EXPECT_NEAR((alone[i].on_a.force - 3 * named(shared, alone[i].name).on_a.force).norm(), 0, tol);
      EXPECT_TRUE(named(shared, alone[i].name).redundant);
    }
    // And the motion is the same.
    const State a = after(first.system, 0.05, 12, semi_implicit()), c = after(second.system, 0.05, 12, semi_implicit());
    for (const BodyId id : first.bodies) EXPECT_NEAR((a[id].p - c[id].p).norm(), 0, scaled(1e-8));
  });
}

TEST(Reparametrisation, OfAConstraintChangesNothingOnTheManifold) {
  for (const auto seed : seeds(60)) {
    SCOPED_TRACE(repeat_with(seed));
    const auto accelerations = [seed](int form) {
      Random random(seed);
      System system;
      system.set_gravity(random.vector(9.81));
      const BodyId a = random.add_body(system, "a"), b = random.add_body(system, "b");
      const Vector3d p = random.vector(0.4), q = random.vector(0.4);
      const State start = system.initial_state();
      const double length2 = (start[a].point(p) - start[b].point(q)).squaredNorm();
      system.add(holonomic("link", {a, b}, [=](const auto& s) {
        const auto d = s[0].point(p) - s[1].point(q);
        const auto phi = dot(d, d) - length2;
        return form == 0   ? phi
               : form == 1 ? 2.0 * sin(phi) + square(phi)
               : form == 2 ? exp(-3.0 * phi) - 1.0
                           : sqrt(phi + length2) - std::sqrt(length2);
      }));
      const State state = Stepper(system, start).state();
      Dynamics dynamics(system);
      EXPECT_EQ(dynamics.evaluate(state), Status::ok);
      std::vector<double> both(dynamics.vdot().begin(), dynamics.vdot().end());
      both.insert(both.end(), dynamics.ideal().begin(), dynamics.ideal().end());
      return both;
    };
    const std::vector<double> plain = accelerations(0);
    for (const int form : {1, 2, 3}) {
      const std::vector<double> other = accelerations(form);
      for (std::size_t j = 0; j < plain.size(); ++j)
        EXPECT_NEAR(other[j], plain[j], scaled(1e-9 * size_of(plain))) << form;
    }
  }
}

TEST_F(Systems, KeepTheirBooksInEveryStep) {
  each(60, {.friction = true}, [](const Blueprint& plan, Random&) {
    Built b = build(plan);
    Stepper stepper(b.system, b.state, semi_implicit());
    for (int i = 0; i < 50; ++i) {
      const StepReport& report = stepper.step(1.0 / 240);
      ASSERT_FALSE(report.rejected) << report.reason;
      for (const MomentumBalance& book : stepper.momentum_balances()) ASSERT_LE(book.imbalance(), scaled(1e-12));
      for (const Reaction& r : stepper.reactions()) ASSERT_LE(std::max(r.gap, r.gap_angle), scaled(1e-13));
    }
  });
}

}  // namespace
}  // namespace linchpin::test::system_properties_test
