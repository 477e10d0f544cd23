// What the program may change between two steps, and what is refused or stays with MuJoCo, by name.
#include "model.h"

#include "allocation_counter.h"
#include "tolerances.h"

#include <linchpin/joints.h>

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

namespace linchpin::test::life_test {
namespace {

/// A chain on a post that does not move, closed by a connect, with a free body in a weld.
const char* const scene = R"(<mujoco><option timestep="0.002"/><worldbody>
  <body name="post" pos="0.1 0 0" euler="10 0 0"><geom type="sphere" size="0.01" mass="1" contype="0" conaffinity="0"/>
    <body name="a" pos="0 0 1"><joint name="first" axis="0 1 0" pos="0.01 0 0" armature="0.01" damping="0.1"/>
      <geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.02" mass="1"/><site name="tip" pos="0.3 0 0.01"/>
      <body name="b" pos="0.3 0 0"><joint name="second" axis="0 1 0.2" armature="0.02"/>
        <geom type="capsule" fromto="0 0 0 0.3 0.1 0.1" size="0.02" mass="0.5"/></body></body></body>
  <body name="e" pos="0.4 -0.3 1.2" euler="10 20 30"><freejoint/><geom type="box" size="0.05 0.06 0.07" mass="0.8"/></body>
</worldbody>
<equality><connect name="end" body1="b" body2="e" anchor="0.3 0.1 0.1"/></equality></mujoco>)";

// A solver that was made before the program has changed the model does the same as one that was made afterwards.
TEST(ModelThatChanges, IsFollowed) {
  struct Change {
    const char* name;
    std::function<void(const Model&)> make;
  };
  const std::vector<Change> changes{
      {"mass", [](const Model& m) { m.m().body_mass[m.body("e")] *= 3; }},
      {"inertia", [](const Model& m) { m.m().body_inertia[3 * m.body("b") + 1] *= 1.5; }},
      {"armature", [](const Model& m) { m.m().dof_armature[m.dof("second")] = 0.3; }},
      {"damping", [](const Model& m) { m.m().dof_damping[m.dof("first")] = 3; }},
      {"gravity", [](const Model& m) { m.m().opt.gravity[0] = 5; }},
      {"no gravity", [](const Model& m) { m.m().opt.disableflags |= mjDSBL_GRAVITY; }},
      {"place of a body", [](const Model& m) { m.m().body_pos[3 * m.body("b") + 1] += 0.02; }},
      {"place of a post", [](const Model& m) { m.m().body_pos[3 * m.body("post") + 1] += 0.02; }},
      {"turn of a body", [](const Model& m) { m.m().body_quat[4 * m.body("b") + 1] += 0.02; }},
      {"axis", [](const Model& m) { m.m().jnt_axis[3 * m.joint("second")] = 0.3; }},
      {"anchor", [](const Model& m) { m.m().jnt_pos[3 * m.joint("first") + 2] = 0.02; }},
      {"reference", [](const Model& m) { m.m().qpos0[m.qpos("first")] = 0.05; }},
      {"equality", [](const Model& m) { m.m().eq_data[1] += 0.03; }},
      {"step", [](const Model& m) { m.m().opt.timestep = 0.001; }},
  };
  for (const Change& change : changes) {
    SCOPED_TRACE(change.name);
    const Model m{std::string(scene)};
    mujoco::Solver before(m.m(), m.d());
    for (int i = 0; i < 20; ++i) before.step();
    change.make(m);
    const DataPointer other(mj_copyData(nullptr, &m.m(), &m.d()));
    mujoco::Solver after(m.m(), *other);
    for (int i = 0; i < 20; ++i) {
      before.step();
      after.step();
      for (int k = 0; k < m.m().nq; ++k)
        ASSERT_NEAR(m.d().qpos[k], other->qpos[k], scaled(1e-12)) << k << ", step " << i;
      for (int k = 0; k < m.m().nv; ++k)
        ASSERT_NEAR(m.d().qvel[k], other->qvel[k], scaled(1e-10)) << k << ", step " << i;
    }
    EXPECT_EQ(before.counts().fallbacks, 0) << before.summary();
  }
}

TEST(ModelThatChanges, MustKeepItsInertialFrames) {
  const Model m{std::string(scene)};
  mujoco::Solver exact(m.m(), m.d());
  exact.step();
  m.m().body_ipos[3 * m.body("b")] += 0.01;
  EXPECT_THROW(exact.step(), OrderError);
  m.m().body_ipos[3 * m.body("b")] -= 0.01;
  m.m().body_iquat[4 * m.body("b") + 1] += 0.01;
  EXPECT_THROW(exact.step(), OrderError);
}

TEST(Equalities, AreSwitchedByTheProgram) {
  const Model m{std::string(scene)};
  mujoco::Solver exact(m.m(), m.d());
  for (int i = 0; i < 10; ++i) exact.step();
  EXPECT_TRUE(exact.find("end").is_exact());
  set_active(m.m(), m.d(), 0, false);
  for (int i = 0; i < 100; ++i) exact.step();
  EXPECT_FALSE(exact.find("end").is_exact());
  EXPECT_EQ(exact.find("end").reaction().on_a.force.norm(), 0) << "no force acts any more";
  EXPECT_EQ(exact.rank_report().rank, 0);
  EXPECT_TRUE(exact.momentum_balances().empty());
  set_active(m.m(), m.d(), 0, true);
  exact.step();  // closes the gap that has opened
  EXPECT_GT(exact.counts().gap_corrections, 0);
  EXPECT_LT(exact.find("end").reaction().gap, scaled(1e-12));
  EXPECT_GT(exact.find("end").reaction().on_a.force.norm(), 0.1);
  exact.find("end").enable(false);  // the flag of the model, by the handle
  EXPECT_FALSE(is_active(m.m(), m.d(), 0));
  EXPECT_FALSE(exact.find("end").is_exact());
  exact.find("end").enable(true);
  exact.step();
  EXPECT_TRUE(exact.find("end").is_exact());
  m.m().opt.disableflags |= mjDSBL_EQUALITY;
  exact.step();
  EXPECT_FALSE(exact.find("end").is_exact());
}

TEST(Names, ThatAreUnknownAreListed) {
  const Model m{std::string(scene)};
  mujoco::Solver exact(m.m(), m.d());
  const auto message = [](const auto& call) {
    try {
      call();
    } catch (const std::invalid_argument& e) {
      return std::string(e.what());
    }
    return std::string("accepted");
  };
  const auto residual = [](const auto& s) { return s[0].position().x; };
  EXPECT_NE(message([&] {
              exact.constrain("c", {"nobody"}, residual);
            }).find("no body 'nobody'. Known: 'world', 'post', 'a'"),
            std::string::npos);
  EXPECT_NE(message([&] { exact.constrain("c", {99}, residual); }).find("no body 99"), std::string::npos);
  EXPECT_NE(message([&] { exact.constrain("c", {}, residual); }).find("'c' has no body"), std::string::npos);
  EXPECT_NE(message([&] { exact.constrain("end", {"a"}, residual); }).find("'end'"), std::string::npos);
  EXPECT_NE(message([&] { exact.constrain("c", {"post"}, residual); }).find("'c'"), std::string::npos);
  EXPECT_NE(message([&] { exact.joint("no joint"); }).find("Known: 'first', 'second'"), std::string::npos);
  EXPECT_NE(message([&] { exact.joint_wrench("no joint"); }).find("'no joint'"), std::string::npos);
  EXPECT_NE(message([&] { exact.site("no site"); }).find("Known: 'tip'"), std::string::npos);
  mujoco::Options options;
  options.mujoco_version = 1;
  EXPECT_NE(message([&] { mujoco::Solver other(m.m(), m.d(), options); }).find("Use the same version"),
            std::string::npos);
  options = {};
  options.max_newton = -1;
  EXPECT_NE(message([&] { mujoco::Solver other(m.m(), m.d(), options); }).find("max_newton"), std::string::npos);
  EXPECT_FALSE(exact.find("no constraint").valid());
}

// A chain that is pulled straight has no exact solution, and gains energy.
TEST(Names, OfBodiesAreThoseOfTheModelInTheSummary) {
  const Model m(std::string(R"(<mujoco><worldbody>
    <body name="upper"><joint axis="0 1 0"/><geom type="capsule" size="0.02" fromto="0 0 0 0.3 0 0"/>
      <body name="lower" pos="0.3 0 0"><joint axis="0 1 0"/><geom type="capsule" size="0.02" fromto="0 0 0 0.3 0 0"/></body>
    </body></worldbody>
    <equality><connect body1="lower" body2="world" anchor="0.3 0 0"/></equality></mujoco>)"));
  mujoco::Solver exact(m.m(), m.d());
  for (int i = 0; i < 1000; ++i) exact.step();
  ASSERT_FALSE(exact.energy_gains().empty());
  EXPECT_NE(exact.summary().find("'upper' and the body joined to it have gained"), std::string::npos)
      << exact.summary();
}

TEST(Frames, ArePointsOfMujocosBodies) {
  const Model m{std::string(scene)};
  mujoco::Solver exact(m.m(), m.d());
  m.d().qpos[m.qpos("first")] = 0.3;
  mj_kinematics(&m.m(), &m.d());
  const mujoco::Solver::Site tip = exact.site("tip");
  const Vector3d there = m.site_position("tip"), in_body(0.3, 0, 0.01);
  EXPECT_LT((exact.point("a", in_body) - tip.position).norm(), scaled(1e-15));
  // The site is held where it is.
  exact.constrain("held", {tip.body}, [p = tip.position, there](const auto& s) {
    const auto at = s[0].point(p);
    return rows(at.x - there.x(), at.z - there.z());
  });
  for (const mujoco::Solver::Finding& finding : exact.check()) EXPECT_NE(finding.constraint, "held") << finding.message;
  EXPECT_LT((exact.axis("a", {0, 1, 0}) - exact.axis("a", {0, 0, 1}).cross(exact.axis("a", {1, 0, 0}))).norm(),
            scaled(1e-15));
}

// ---- what stays with MuJoCo ----

std::string reason(mujoco::Solver& exact, const std::string& name) {
  for (const auto& part : exact.native())
    if (part.name == name) return part.why;
  return "none";
}

TEST(Native, EqualitiesHaveAReason) {
  const Model m(std::string(R"(<mujoco><worldbody>
    <body name="mouse" mocap="true" pos="0 0 2"/>
    <body name="a" pos="0 0 1"><joint name="j" axis="0 1 0"/><geom size="0.1" mass="1"/><site name="s" pos="0 0 0.1"/></body>
    <body name="b" pos="0 0 2"><freejoint/><geom size="0.1" mass="1"/></body>
    <body name="c" pos="3 0 2"><joint name="k" type="ball"/><geom size="0.1" mass="1"/></body>
    <body name="fixed" pos="1 0 0"><geom size="0.1" mass="1"/></body>
    <site name="w" pos="0 0 3"/></worldbody>
    <tendon><spatial name="rope"><site site="w"/><site site="s"/></spatial></tendon>
    <equality><weld name="drag" body1="mouse" body2="b"/><tendon name="rope length" tendon1="rope"/>
      <connect body1="a" body2="b" anchor="0 0 0.5"/></equality></mujoco>)"));
  mujoco::Solver exact(m.m(), m.d());
  EXPECT_NE(reason(exact, "drag").find("mocap body"), std::string::npos) << reason(exact, "drag");
  EXPECT_NE(reason(exact, "rope length").find("spatial tendon"), std::string::npos) << reason(exact, "rope length");
  EXPECT_EQ(reason(exact, "equality#2"), "none");
  EXPECT_TRUE(exact.find("equality#2").valid());
  for (int i = 0; i < 200; ++i) exact.step();
  EXPECT_LT(exact.find("equality#2").reaction().gap, scaled(1e-12));
  EXPECT_TRUE(exact.find("drag").reaction().native);
  EXPECT_NE(exact.summary().find("mocap"), std::string::npos) << exact.summary();
  // A constraint of the program would take the mocap body for one that does not move.
  for (const mujoco::BodyRef& mouse : {mujoco::BodyRef("mouse"), mujoco::BodyRef(m.body("mouse"))}) try {
      exact.constrain("pull", {mouse, "a"}, [](const auto& s) { return s[0].position().x - s[1].position().x; });
      ADD_FAILURE() << "a constraint on a mocap body was accepted";
    } catch (const std::invalid_argument& e) {
      EXPECT_NE(std::string(e.what()).find("'pull': body 'mouse' is a mocap body"), std::string::npos) << e.what();
    }
}

#if mjVERSION_HEADER >= 310
TEST(Native, EqualitiesOfFlexibleBodiesHaveAReason) {
  const Model m(std::string(R"(<mujoco><option timestep="0.001"/><worldbody>
    <flexcomp type="grid" count="4 4 1" spacing="0.1 0.1 0.1" pos="0 0 1" radius="0.01" name="cloth" dim="2" mass="0.5">
      <edge equality="true"/></flexcomp>
    <body name="a" pos="2 0 1"><joint name="j" axis="0 1 0"/><geom size="0.1" mass="1"/></body>
    <body name="b" pos="2 0 2"><freejoint/><geom size="0.1" mass="1"/></body></worldbody>
    <equality><connect name="own" body1="a" body2="b" anchor="0 0 0.5"/></equality></mujoco>)"));
  mujoco::Solver exact(m.m(), m.d());
  bool named = false;
  for (const auto& part : exact.native())
    named = named || part.why.find("does not know equalities of this type") != std::string::npos;
  EXPECT_TRUE(named);
  for (int i = 0; i < 100; ++i) exact.step();
  EXPECT_LT(exact.find("own").reaction().gap, scaled(1e-12));
  EXPECT_EQ(exact.counts().fallbacks, 0) << exact.summary();
}
#endif

TEST(Native, TreesWithADampedFreeJointHaveAReason) {
  const Model m(std::string(R"(<mujoco><worldbody>
    <body name="a"><joint name="f" type="free" damping="0.1"/><geom size="0.1" mass="1"/></body></worldbody>
    <equality><connect name="own" body1="a" anchor="0 0 0.5"/></equality></mujoco>)"));
  mujoco::Solver exact(m.m(), m.d());
  EXPECT_NE(reason(exact, "own").find("damping or armature"), std::string::npos) << reason(exact, "own");
  exact.step();
}

#if mjVERSION_HEADER >= 400
/// Two bodies of 1 kg that slide together, pushed by 1 N. @return their speed after 1 s [m/s]
double speed(const std::string& armature, std::string* summary = nullptr) {
  const Model m(R"(<mujoco><option timestep="0.001" gravity="0 0 0"/><worldbody>
    <body><joint name="a" type="slide" axis="1 0 0"/><geom size="0.1" mass="1"/></body>
    <body pos="0 1 0"><joint name="b" type="slide" axis="1 0 0"/><geom size="0.1" mass="1"/></body></worldbody>
    <equality><joint name="both" joint1="a" joint2="b"/></equality>)" +
                armature + "</mujoco>");
  mujoco::Solver exact(m.m(), m.d());
  m.d().qfrc_applied[0] = 1;
  for (int i = 0; i < 1000; ++i) exact.step();
  if (summary) *summary = reason(exact, "both");
  return m.d().qvel[0];
}

TEST(Armature, OfActuatorsAndTendonsIsInertia) {
  EXPECT_NEAR(speed(""), 0.5, 1e-12);
  EXPECT_NEAR(speed(R"(<actuator><motor joint="b" armature="0.75" gear="2"/></actuator>)"), 0.2, 1e-12);
  EXPECT_NEAR(
      speed(R"(<actuator><motor joint="b" armature="0.5"/><motor joint="b" armature="0.625" gear="2"/></actuator>)"),
      0.2, 1e-12);
  const std::string tendon = R"(<tendon><fixed name="t" ARMATURE><joint joint="b" coef="2"/></fixed></tendon>)";
  const auto with = [&](const std::string& what) {
    std::string out = tendon;
    return out.replace(out.find("ARMATURE"), 8, what);
  };
  EXPECT_NEAR(speed(with("armature='0.75'")), 0.2, 1e-12);
  EXPECT_NEAR(speed(with("") + R"(<actuator><motor tendon="t" armature="0.75"/></actuator>)"), 0.2, 1e-12);
}

TEST(Armature, OfATendonThatCouplesJointsHasAReason) {
  std::string why;
  speed(
      R"(<tendon><fixed name="both of them" armature="3"><joint joint="a" coef="1"/><joint joint="b" coef="1"/></fixed>
    </tendon>)",
      &why);
  EXPECT_NE(why.find("'both of them' has armature"), std::string::npos) << why;
}
#endif

// ---- redundancy ----

TEST(Energy, IsThatOfMujoco) {
  const Model m(std::string(R"(<mujoco><option><flag energy="enable"/></option><worldbody>
    <body name="free" pos="0 1 0.7" euler="10 20 30"><freejoint/><inertial pos="0.1 0 0" mass="2" diaginertia="0.1 0.2 0.25"/></body>
    <body name="a" pos="0 0 0.3"><joint axis="0 1 0" armature="0.1"/><geom type="capsule" size="0.02" fromto="0 0 0 0.3 0 0"/>
      <body pos="0.3 0 0"><joint type="ball"/><geom type="capsule" size="0.02" fromto="0 0 0 0.3 0 0"/></body></body>
    <body name="slider" pos="1 0 0.2"><joint type="slide" axis="1 0 1"/><geom size="0.1" mass="1"/></body></worldbody></mujoco>)"));
  for (int i = 0; i < m.m().nv; ++i) m.d().qvel[i] = 0.3 - 0.1 * i;
  mj_forward(&m.m(), &m.d());
  const mujoco::Solver exact(m.m(), m.d());
  EXPECT_NEAR(exact.energy(), m.d().energy[0] + m.d().energy[1], scaled(1e-12));
}

TEST(Redundancy, OfAPlanarLoopIsNamed) {
  const Model m = Model::of_file("four-bar.xml");
  mujoco::Solver exact(m.m(), m.d());
  exact.step();
  const Reaction& loop = exact.find("loop").reaction();
  const RankReport report = exact.rank_report();
  EXPECT_EQ(report.rank, 2);
  (void)exact.reactions();
  EXPECT_FALSE(loop.determined);
}

// Bennett's linkage moves although its conditions are more than its joints: they do not contradict each other.
TEST(Redundancy, OfALinkageThatMovesIsNoContradiction) {
  const Model m = Model::of_file("bennett.xml");
  mujoco::Solver exact(m.m(), m.d());
  for (int i = 0; i < 500; ++i) {
    m.d().ctrl[0] = 6;
    exact.step();
    if (i % 50 == 0) {
      EXPECT_EQ(exact.summary().find("contradict"), std::string::npos) << exact.summary();
    }
  }
  EXPECT_EQ(exact.rank_report().rank, 3);
  EXPECT_TRUE(exact.find("loop").reaction().redundant);
}

TEST(Redundancy, OfTwoEqualitiesIsNamed) {
  const Model m(std::string(R"(<mujoco><worldbody>
    <body name="door" pos="0.4 0 1"><freejoint/><geom type="box" size="0.4 0.02 0.6" mass="4"/></body></worldbody>
    <equality><connect name="low" body1="door" anchor="-0.4 0 -0.4"/><connect name="high" body1="door" anchor="-0.4 0 0.4"/>
    </equality></mujoco>)"));
  mujoco::Solver exact(m.m(), m.d());
  for (int i = 0; i < 50; ++i) exact.step();
  const auto reactions = exact.reactions();
  ASSERT_EQ(reactions.size(), 2u);
  for (const Reaction& r : reactions) {
    EXPECT_TRUE(r.redundant) << r.name;
    EXPECT_FALSE(r.determined) << r.name;
  }
  EXPECT_NEAR(reactions[0].on_a.force.z() + reactions[1].on_a.force.z(), 4 * 9.81, scaled(1e-9));
  EXPECT_NE(exact.summary().find("low"), std::string::npos) << exact.summary();
}

TEST(Contradictions, AreNamed) {
  const Model m(std::string(R"(<mujoco><worldbody>
    <body name="a" pos="0 0 1"><freejoint/><geom size="0.1" mass="1"/></body></worldbody>
    <equality><connect name="hook" body1="a" anchor="0 0 0"/></equality></mujoco>)"));
  mujoco::Solver exact(m.m(), m.d());
  mujoco::Handle lifted = exact.constrain("lifted", {"a"}, [](const auto& s) { return s[0].position().z - 1.3; });
  for (int i = 0; i < 5; ++i) exact.step();
  bool named = false;
  for (const auto& finding : exact.check()) named = named || finding.constraint == "lifted";
  EXPECT_TRUE(named);
  EXPECT_TRUE(std::isfinite(m.d().qpos[2]));
  lifted.remove();
  for (int i = 0; i < 5; ++i) exact.step();
  EXPECT_NEAR(m.d().qpos[2], 1, scaled(1e-12));
}

// ---- memory ----

TEST(Allocations, AreNoneAfterTheFirstSteps) {
  for (const char* file : {"four-bar.xml", "bennett.xml", "five-bar-leg.xml", "rod-leg.xml"}) {
    SCOPED_TRACE(file);
    const Model m = Model::of_file(file);
    mujoco::Solver exact(m.m(), m.d());
    const auto control = [&](int i) {
      for (int k = 0; k < m.m().nu; ++k) m.d().ctrl[k] = 0.2 * std::sin(0.02 * i);
    };
    int i = 0;
    for (; i < 1000; ++i) control(i), exact.step();
    const AllocationCounter allocations;
    for (; i < 1200; ++i) control(i), exact.step();
    EXPECT_EQ(allocations.count(), 0u);
  }
}

}  // namespace
}  // namespace linchpin::test::life_test
