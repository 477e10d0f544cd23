// Solver::check(): it finds constraints that are open or wrong, and leaves the reports of the last step as they are.
#include "model.h"

#include <gtest/gtest.h>

#include <string>

namespace linchpin::test::check_test {
namespace {

/// Two hinged arms in a gear, and a third one that a connect holds.
const char* const scene = R"(<mujoco><worldbody>
  <body name="a"><joint name="turn a" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.02" mass="1"/></body>
  <body name="b" pos="0 0.2 0"><joint name="turn b" axis="0 1 0"/>
    <geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.02" mass="1"/></body>
  <body name="c" pos="0 0.4 0"><joint name="turn c" axis="0 1 0"/>
    <geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.02" mass="1"/></body>
</worldbody>
<equality><joint name="gear" joint1="turn a" joint2="turn b" polycoef="0 2 0.5 0 0"/>
  <connect name="pin" body1="c" body2="world" anchor="0.3 0 0"/></equality></mujoco>)";

std::vector<std::string> faults(mujoco::Solver& exact) {
  std::vector<std::string> out;
  for (const mujoco::Solver::Finding& f : exact.check()) out.push_back(f.constraint + ": " + f.message);
  return out;
}

TEST(Check, FindsOpenGearsAndLoops) {
  const Model m{std::string(scene)};
  mujoco::Solver exact(m.m(), m.d());
  EXPECT_EQ(faults(exact), std::vector<std::string>{});
  m.d().qpos[m.qpos("turn a")] = 0.25;  // 2·0.1 + 0.5·0.1² = 0.205
  m.d().qpos[m.qpos("turn b")] = 0.1;
  m.d().qpos[m.qpos("turn c")] = 0.1;
  const auto found = faults(exact);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0],
            "gear: does not satisfy its equation: position residual 0.045. The next step closes it by moving bodies");
  EXPECT_EQ(found[1].substr(0, 56), "pin: does not satisfy its equation: position residual 0.");
  exact.step();
  EXPECT_EQ(faults(exact), std::vector<std::string>{});
}

TEST(Check, LeavesTheReportsOfTheLastStep) {
  const Model m{std::string(scene)};
  mujoco::Solver exact(m.m(), m.d());
  for (int i = 0; i < 100; ++i) exact.step();
  const Model same{std::string(scene)};
  mujoco::Solver other(same.m(), same.d());
  for (int i = 0; i < 100; ++i) other.step();
  EXPECT_EQ(faults(exact), std::vector<std::string>{});
  EXPECT_EQ(exact.find("pin").reaction().on_a.force, other.find("pin").reaction().on_a.force);
  EXPECT_EQ(exact.joint_wrench("turn c").force, other.joint_wrench("turn c").force);
  EXPECT_EQ(exact.joint_forces("turn b").constraint, other.joint_forces("turn b").constraint);
  EXPECT_EQ(exact.momentum_balances().size(), other.momentum_balances().size());
  EXPECT_EQ(exact.rank_report().rank, other.rank_report().rank);
  EXPECT_EQ(exact.problem("pin").m(), other.problem("pin").m());
  exact.step(), other.step();
  EXPECT_EQ(exact.find("pin").reaction().on_a.force, other.find("pin").reaction().on_a.force);
}

}  // namespace
}  // namespace linchpin::test::check_test
