// Mechanisms with closed loops, motors and contacts, at their own step and at twice that step. The gap is MuJoCo's own:
// the residual of its equality rows at the positions after each step.
#include "model.h"

#include "tolerances.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <numbers>

namespace linchpin::test::mechanisms_test {
namespace {

struct Mechanism {
  const char* file;
  std::function<void(const Model&)> control;
  double travel;  ///< that the first coordinate goes through at least [rad, m]
};

void turn(const Model& m) { m.d().ctrl[0] = 6 * std::min(1.0, m.d().time); }
void jump(const Model& m) {
  const double a = 0.5 * std::sin(8 * m.d().time);
  m.d().ctrl[0] = a;
  m.d().ctrl[1] = -a;
}
/// Legs swing forwards and backwards and change their length, two opposite ones together.
void trot(const Model& m) {
  for (int leg = 0; leg < 4; ++leg) {
    const double phase = 9 * m.d().time + (leg == 0 || leg == 3 ? 0 : std::numbers::pi);
    const double swing = 0.25 * std::sin(phase), shorten = 0.2 * std::max(0.0, std::cos(phase));
    m.d().ctrl[2 * leg] = swing + shorten;
    m.d().ctrl[2 * leg + 1] = swing - shorten;
  }
}
void squat(const Model& m) {
  const double a = 0.25 * (1 - std::cos(4 * m.d().time));
  m.d().ctrl[0] = -a;
  m.d().ctrl[1] = 1.4 * a;
  m.d().ctrl[2] = 0.2 * std::sin(3 * m.d().time);
}

const Mechanism all[] = {{"four-bar.xml", turn, 12},
                         {"bennett.xml", turn, 12},
                         {"five-bar-leg.xml", jump, 0.1},
                         {"minitaur.xml", trot, 0.1},
                         {"rod-leg.xml", squat, 0.1}};

/// Largest |residual| of MuJoCo's equality rows at the present positions [m, rad].
double largest_gap(const Model& m, mjData& scratch) {
  std::copy_n(m.d().qpos, m.m().nq, scratch.qpos);
  mj_fwdPosition(&m.m(), &scratch);
  double gap = 0;
  for (int i = 0; i < scratch.nefc; ++i)
    if (scratch.efc_type[i] == mjCNSTR_EQUALITY) gap = std::max(gap, std::abs(scratch.efc_pos[i]));
  return gap;
}

/// Keeps MuJoCo's warnings of a native run that diverges out of the output and out of files.
struct Quiet {
  Quiet() {
    mju_user_warning = [](const char*) {};
  }
  ~Quiet() { mju_user_warning = nullptr; }
};

struct Outcome {
  double gap = 0, speed = 0;
  double lowest = INFINITY, highest = -INFINITY;  ///< of the first coordinate
  int contacts = 0;
  bool warned = false;
  std::string summary;
};

Outcome run(const Mechanism& mechanism, double seconds, double factor, bool exact) {
  const Quiet quiet;
  const Model m = Model::of_file(mechanism.file);
  m.m().opt.timestep *= factor;
  const DataPointer scratch(mj_makeData(&m.m()));
  std::unique_ptr<mujoco::Solver> solver;
  if (exact) solver = std::make_unique<mujoco::Solver>(m.m(), m.d());
  Outcome out;
  const int steps = static_cast<int>(seconds / m.m().opt.timestep);
  for (int i = 0; i < steps; ++i) {
    mechanism.control(m);
    if (exact)
      solver->step();
    else
      mj_step(&m.m(), &m.d());
    out.gap = std::max(out.gap, largest_gap(m, *scratch));
    for (int k = 0; k < m.m().nv; ++k) out.speed = std::max(out.speed, std::abs(m.d().qvel[k]));
    if (!std::isfinite(m.d().qvel[0])) out.speed = INFINITY;
    out.lowest = std::min(out.lowest, m.d().qpos[0]);
    out.highest = std::max(out.highest, m.d().qpos[0]);
    out.contacts = std::max(out.contacts, m.d().ncon);
  }
  for (const int w : {mjWARN_BADQPOS, mjWARN_BADQVEL, mjWARN_BADQACC})
    out.warned = out.warned || m.d().warning[w].number > 0;
  if (exact) out.summary = solver->summary();
  return out;
}

void check(const Mechanism& mechanism, double seconds) {
  SCOPED_TRACE(mechanism.file);
  for (const double factor : {1.0, 2.0}) {
    const Outcome exact = run(mechanism, seconds, factor, true), native = run(mechanism, seconds, factor, false);
    std::printf("%-18s dt x %g, %4.0f s: largest gap %.1e, with MuJoCo's solver %.1e\n", mechanism.file, factor,
                seconds, exact.gap, native.gap);
    EXPECT_LE(exact.gap, scaled(1e-9)) << exact.summary;
    EXPECT_FALSE(exact.warned) << exact.summary;
    EXPECT_LT(exact.speed, 200) << exact.summary;
    EXPECT_GT(exact.contacts, 0);
    EXPECT_GT(exact.highest - exact.lowest, mechanism.travel);
  }
}

class Mechanisms : public testing::TestWithParam<Mechanism> {};
TEST_P(Mechanisms, HoldTheirLoops) { check(GetParam(), 3); }
INSTANTIATE_TEST_SUITE_P(Of, Mechanisms, testing::ValuesIn(all));

class SlowMechanisms : public testing::TestWithParam<Mechanism> {};
TEST_P(SlowMechanisms, HoldTheirLoops) { check(GetParam(), 20); }
INSTANTIATE_TEST_SUITE_P(Of, SlowMechanisms, testing::ValuesIn(all));

}  // namespace
}  // namespace linchpin::test::mechanisms_test
