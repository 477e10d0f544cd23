// Programs that go back to where data were and step again: the same bits, with and without laws.
#include "model.h"

#include <linchpin/joints.h>
#include <linchpin/laws.h>

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace linchpin::test::rollback_test {
namespace {

/// The numbers that a step leaves in the data.
std::vector<mjtNum> numbers_of(const Model& m) {
  std::vector<mjtNum> out(m.d().qpos, m.d().qpos + m.m().nq);
  out.insert(out.end(), m.d().qvel, m.d().qvel + m.m().nv);
  out.insert(out.end(), m.d().qacc, m.d().qacc + m.m().nv);
  out.insert(out.end(), m.d().qfrc_constraint, m.d().qfrc_constraint + m.m().nv);
  out.insert(out.end(), m.d().efc_force, m.d().efc_force + m.d().nefc);
  out.insert(out.end(), m.d().sensordata, m.d().sensordata + m.m().nsensordata);
  out.push_back(m.d().time);
  return out;
}

std::vector<std::vector<mjtNum>> steps(mujoco::Solver& exact, const Model& m, int count) {
  std::vector<std::vector<mjtNum>> out;
  for (int i = 0; i < count; ++i) {
    exact.step();
    out.push_back(numbers_of(m));
  }
  return out;
}

/// Steps, goes back twice, and compares all bits.
void expect_same_steps(const std::string& file, const std::function<void(mujoco::Solver&)>& add) {
  SCOPED_TRACE(file);
  const Model m = Model::of_file(file);
  mujoco::Solver exact(m.m(), m.d());
  if (add) add(exact);
  for (int i = 0; i < 200; ++i) exact.step();
  const DataPointer there(mj_copyData(nullptr, &m.m(), &m.d()));
  const mujoco::History history = exact.history();
  const auto first = steps(exact, m, 100);
  ASSERT_FALSE(exact.reactions().empty());
  const double work = exact.reactions().front().work;
  for (int again = 0; again < 2; ++again) {
    mj_copyData(&m.d(), &m.m(), there.get());
    exact.restore(history);
    EXPECT_EQ(exact.t(), m.d().time);
    EXPECT_EQ(steps(exact, m, 100), first);
    ASSERT_FALSE(exact.reactions().empty());
    EXPECT_EQ(exact.reactions().front().work, work);
  }
}

TEST(Rollback, HasTheSameBitsWithoutLaws) {
  for (const char* const file : {"four-bar.xml", "bennett.xml", "five-bar-leg.xml", "rod-leg.xml"})
    expect_same_steps(file, {});
}

TEST(Rollback, HasTheSameBitsWithDryFrictionInAJoint) {
  expect_same_steps("four-bar.xml", [](mujoco::Solver& exact) {
    exact.joint("rocker").law(laws::hinge_friction({.mu_static = 0.3, .mu_kinetic = 0.2, .pin_radius = 0.02}));
  });
  expect_same_steps("five-bar-leg.xml", [](mujoco::Solver& exact) {
    exact.joint("left hip").law(laws::hinge_friction({.mu_static = 0.3, .mu_kinetic = 0.2, .pin_radius = 0.02}));
  });
}

// A ball that is thrown up, and falls into its string again after the history was taken.
TEST(Rollback, HasTheSameBitsWhereAStringIsReleased) {
  const Model m(
      "<mujoco><worldbody><body name='ball' pos='0 0 -1'><freejoint/><geom size='0.05' mass='1'/></body></worldbody>"
      "</mujoco>");
  mujoco::Solver exact(m.m(), m.d());
  auto string =
      exact.constrain("string", {"ball"}, [](const auto& s) { return 1.0 - dot(s[0].position(), s[0].position()); });
  string.unilateral({.reengage = true});
  exact.step();
  m.d().qvel[2] = 1;
  for (int i = 0; i < 20; ++i) exact.step();
  const DataPointer there(mj_copyData(nullptr, &m.m(), &m.d()));
  const mujoco::History history = exact.history();
  const auto first = steps(exact, m, 200);
  EXPECT_GE(exact.counts().engaged, 1);
  for (int again = 0; again < 2; ++again) {
    mj_copyData(&m.d(), &m.m(), there.get());
    exact.restore(history);
    EXPECT_EQ(exact.counts().engaged, 0);
    EXPECT_EQ(steps(exact, m, 200), first);
  }
}

TEST(Rollback, RefusesAHistoryThatDoesNotFit) {
  const Model m = Model::of_file("four-bar.xml");
  mujoco::Solver exact(m.m(), m.d());
  exact.step();
  EXPECT_NE(exact.try_restore({}).error().message.find("the history is empty"), std::string::npos);
  const mujoco::History before = exact.history();
  exact.constrain_velocity("slow", {"rocker"}, [](const auto& s) { return s[0].velocity().y; });
  EXPECT_NE(exact.try_restore(before).error().message.find("constraint 'slow' has been added since"),
            std::string::npos);
  const Model other = Model::of_file("four-bar.xml");
  mujoco::Solver another(other.m(), other.d());
  EXPECT_NE(another.try_restore(before).error().message.find("the history belongs to another solver"),
            std::string::npos);
}

}  // namespace
}  // namespace linchpin::test::rollback_test
