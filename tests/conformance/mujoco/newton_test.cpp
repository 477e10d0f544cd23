// What MuJoCo's arrays contain after a step: Newton's law and the forces of all rows, for every cone, solver and
// integrator. The momentum of every body is balanced.
#include "model.h"

#include "tolerances.h"

#include <linchpin/joints.h>

#include <gtest/gtest.h>

#include <cmath>

namespace linchpin::test::newton_test {
namespace {

/// A closed chain with a ball joint and a motor, which falls on a floor beside free bodies; one is welded to it.
std::string scene(const std::string& option, double damping = 0, bool floor = true) {
  const std::string c = "damping='" + std::to_string(damping) + "'";
  return "<mujoco><option timestep='0.002' " + option + "/><worldbody>" +
         (floor ? "<geom type='plane' size='5 5 1' friction='0.6'/>" : "") + R"(
  <body name="a" pos="0 0 0.35"><joint name="slide" type="slide" axis="0 0 1" )" +
         c + R"(/><joint name="turn" axis="0 1 0" )" + c + R"(/>
    <geom type="box" size="0.2 0.05 0.03" mass="1"/>
    <body name="b" pos="0.2 0 0"><joint name="ball" type="ball" )" +
         c + R"(/>
      <geom type="capsule" fromto="0 0 0 0 0.3 0.05" size="0.02" mass="0.5"/>
      <body name="c" pos="0 0.3 0.05"><joint name="last" axis="0.1 0 1" )" +
         c + R"( stiffness="1"/>
        <geom type="capsule" fromto="0 0 0 -0.2 0.1 0" size="0.02" mass="0.4"/></body></body></body>
  <body name="d" pos="-0.2 0.3 0.3"><joint name="post" axis="1 0 0.3" )" +
         c + R"(/>
    <geom type="capsule" fromto="0 0 0 0.2 0.1 0.1" size="0.02" mass="0.6"/></body>
  <body name="e" pos="0 -0.3 0.3" euler="10 20 30"><freejoint/><geom type="box" size="0.05 0.06 0.07" mass="0.8"/></body>
  <body name="f" pos="0.05 -0.3 0.5" euler="40 20 30"><freejoint/><geom type="box" size="0.05 0.06 0.07" mass="0.8"/></body>
</worldbody>
<equality>
  <connect name="loop" body1="c" body2="d" anchor="-0.2 0.1 0"/>
  <weld name="weld" body1="e" body2="a"/>
  <joint name="gear" joint1="post" joint2="turn" polycoef="0 0.5 0.1 0 0"/>
</equality>
<actuator><motor joint="turn"/></actuator></mujoco>)";
}

double largest(const std::vector<double>& x) {
  double out = 0;
  for (const double v : x) out = std::max(out, std::abs(v));
  return out;
}

/// Calls `check` after each of some steps.
template <class Check>
void run(const std::string& xml, int steps, Check check) {
  const Model m(xml);
  mujoco::Solver exact(m.m(), m.d());
  int touched = 0;
  for (int i = 0; i < steps; ++i) {
    m.d().ctrl[0] = std::sin(0.02 * i);
    m.d().xfrc_applied[6 * m.body("f") + 1] = 0.5;
    exact.step();
    touched += m.d().ncon > 0;
    check(m, exact, i);
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_EQ(exact.counts().fallbacks, 0) << exact.summary();
  EXPECT_TRUE(touched > steps / 10 || xml.find("plane") == std::string::npos) << touched;
}

TEST(NewtonsLaw, HoldsForEveryConeAndSolver) {
  for (const char* cone : {"pyramidal", "elliptic"})
    for (const char* solver : {"Newton", "CG", "PGS", "Newton' jacobian='sparse"}) {
      SCOPED_TRACE(std::string(cone) + " " + solver);
      run(scene("cone='" + std::string(cone) + "' solver='" + solver + "'"), 400,
          [](const Model& m, mujoco::Solver&, int step) {
            mjData& d = m.d();
            const std::size_t nv = static_cast<std::size_t>(m.m().nv);
            std::vector<double> rows(nv), inertia(nv), off(nv);
            mj_mulJacTVec(&m.m(), &d, rows.data(), d.efc_force);
            mj_mulM(&m.m(), &d, inertia.data(), d.qacc);
            const double size = 1 + largest(inertia) + largest(rows);
            for (std::size_t k = 0; k < nv; ++k) off[k] = inertia[k] - d.qfrc_smooth[k] - d.qfrc_constraint[k];
            EXPECT_LE(largest(off), scaled(1e-10) * size) << "M qacc = qfrc_smooth + qfrc_constraint, step " << step;
            for (std::size_t k = 0; k < nv; ++k) off[k] = rows[k] - d.qfrc_constraint[k];
            EXPECT_LE(largest(off), scaled(1e-10) * size) << "J' efc_force = qfrc_constraint, step " << step;
          });
    }
}

struct Integrator {
  const char* option;
  double damping;
};
std::vector<Integrator> integrators() {
  std::vector<Integrator> out{{"integrator='Euler'", 0}, {"integrator='Euler'", 0.2}, {"integrator='implicit'", 0.2}};
#if mjVERSION_HEADER >= 300
  out.push_back({"integrator='implicitfast'", 0.2});
  out.push_back({"integrator='Euler'><flag eulerdamp='disable'/></option><option", 0.2});
#endif
  return out;
}

TEST(MomentumBalances, CloseForEveryIntegrator) {
  for (const Integrator& of : integrators())
    for (const bool floor : {false, true}) {
      SCOPED_TRACE(std::string(of.option) + (floor ? " with a floor" : " without"));
      std::size_t bodies = 0;
      run(scene(of.option, of.damping, floor), 400, [&](const Model&, mujoco::Solver& exact, int step) {
        const auto balances = exact.momentum_balances();
        bodies = balances.size();
        for (const MomentumBalance& b : balances)
          EXPECT_LE(b.imbalance(), scaled(1e-10)) << "body " << b.body.index << ", step " << step;
      });
      EXPECT_GE(bodies, 6u);
    }
}

TEST(NewtonsLaw, HasTheForcesOfTheRowsForEveryIntegrator) {
  for (const Integrator& of : integrators()) {
    SCOPED_TRACE(of.option);
    run(scene(of.option, of.damping), 400, [](const Model& m, mujoco::Solver&, int step) {
      std::vector<double> rows(static_cast<std::size_t>(m.m().nv));
      mj_mulJacTVec(&m.m(), &m.d(), rows.data(), m.d().efc_force);
      const double size = 1 + largest(rows);
      for (int k = 0; k < m.m().nv; ++k)
        EXPECT_NEAR(rows[static_cast<std::size_t>(k)], m.d().qfrc_constraint[k], scaled(1e-10) * size)
            << "coordinate " << k << ", step " << step;
    });
  }
}

// Damping is all that these integrators take implicitly along hinges, slides and ball joints here. So what Newton's law
// has beside the forces of MuJoCo's arrays is the damping of the change of velocity.
TEST(NewtonsLaw, HasTheDampingAtTheEndOfTheStep) {
  for (const Integrator& of : integrators()) {
    const std::string option = of.option;
    if (option == "integrator='implicit'" || option.find("eulerdamp") != std::string::npos) continue;
    SCOPED_TRACE(option);
    run(scene(of.option, of.damping), 400, [](const Model& model, mujoco::Solver&, int step) {
      const mjModel& m = model.m();
      mjData& d = model.d();
      std::vector<double> rows(static_cast<std::size_t>(m.nv)), inertia(rows.size());
      mj_mulJacTVec(&m, &d, rows.data(), d.efc_force);
      mj_mulM(&m, &d, inertia.data(), d.qacc);
      const double size = 1 + largest(inertia) + largest(rows);
      for (int k = 0; k < m.nv; ++k) {
        if (m.jnt_type[m.dof_jntid[k]] == mjJNT_FREE) continue;
        const double damping = m.opt.timestep * m.dof_damping[k] * d.qacc[k];
        EXPECT_NEAR(inertia[static_cast<std::size_t>(k)] + damping,
                    d.qfrc_smooth[k] + rows[static_cast<std::size_t>(k)], scaled(1e-10) * size)
            << "coordinate " << k << ", step " << step;
      }
    });
  }
}

/// Σ forces along the joint of each cause is its inertia.
TEST(JointForcesOfLinks, AddUpForEveryIntegrator) {
  for (const Integrator& of : integrators()) {
    SCOPED_TRACE(of.option);
    run(scene(of.option, of.damping), 100, [&](const Model&, mujoco::Solver& exact, int step) {
      if (step % 10) return;
      for (const char* joint : {"turn", "slide", "ball", "last", "post"}) {
        const mujoco::JointForces f = exact.joint_forces(joint);
        const Vector3d sum =
            f.gravity + f.velocity + f.damping + f.applied + f.constraint + f.contact + f.friction + f.laws + f.native;
        double size = 1;
        for (const Vector3d& x : {f.gravity, f.velocity, f.applied, f.constraint, f.contact, f.friction, f.native})
          size = std::max(size, x.norm());
        EXPECT_LE((sum - f.inertia).norm(), scaled(1e-9) * size)
            << joint << ", step " << step << ": " << sum.transpose() << " and " << f.inertia.transpose();
      }
    });
  }
}

// The integrator of the exact step is MuJoCo's: without equalities that do anything, both move alike. There are no
// contacts, which MuJoCo solves as if damping were explicit.
TEST(Integrators, AreThoseOfMujoco) {
  for (const Integrator& of : integrators()) {
    SCOPED_TRACE(of.option);
    const Model m(scene(of.option, of.damping, false));
    m.m().opt.disableflags |= mjDSBL_CONTACT;
    mujoco::Options options;
    options.equalities = false;
    mujoco::Solver exact(m.m(), m.d(), options);
    for (int i = 0; i < m.m().neq; ++i) set_active(m.m(), m.d(), i, false);
    // A constraint without an effect on others: a body far away falls straight.
    m.d().qpos[m.m().jnt_qposadr[m.m().body_jntadr[m.body("f")]]] = 3;
    exact.constrain("straight", {"f"}, [](const auto& s) { return s[0].position().x - 3.0; });
    const DataPointer other(mj_copyData(nullptr, &m.m(), &m.d()));
    for (int i = 0; i < 200; ++i) {
      m.d().ctrl[0] = other->ctrl[0] = std::sin(0.02 * i);
      exact.step();
      mj_step(&m.m(), other.get());
      for (int k = 0; k < m.m().nv; ++k)
        ASSERT_NEAR(m.d().qvel[k], other->qvel[k], scaled(1e-10)) << "coordinate " << k << ", step " << i;
    }
  }
}

TEST(Integrators, ThatHaveStagesAreRefusedByName) {
  const auto refusal = [](int integrator) {
    const Model m(scene(""));
    m.m().opt.integrator = integrator;
    try {
      mujoco::Solver exact(m.m(), m.d());
    } catch (const std::invalid_argument& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(refusal(mjINT_EULER), "");
  EXPECT_EQ(refusal(mjINT_IMPLICIT), "");
  EXPECT_NE(refusal(mjINT_RK4).find("RK4"), std::string::npos) << refusal(mjINT_RK4);
#if mjVERSION_HEADER >= 300
  EXPECT_EQ(refusal(mjINT_IMPLICITFAST), "");
#endif
#if mjVERSION_HEADER >= 4000000
  EXPECT_NE(refusal(mjINT_IMPLICITFAST + 1).find("discrete"), std::string::npos) << refusal(mjINT_IMPLICITFAST + 1);
#endif
  // The program may also change it later.
  const Model m(scene(""));
  mujoco::Solver exact(m.m(), m.d());
  exact.step();
  m.m().opt.integrator = mjINT_RK4;
  try {
    exact.step();
    FAIL() << "RK4 was accepted";
  } catch (const OrderError& e) {
    EXPECT_NE(std::string(e.what()).find("RK4"), std::string::npos) << e.what();
  }
  m.m().opt.integrator = mjINT_EULER;
  exact.step();
}

}  // namespace
}  // namespace linchpin::test::newton_test
