// The plugin of MuJoCo makes the equalities of a program exact that calls mj_step() itself.
#include "model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

namespace linchpin::test {
namespace {

#ifdef LINCHPIN_MUJOCO_PLUGIN

constexpr const char* four_bar = R"(
<mujoco>
  <extension><plugin plugin="linchpin.exact"><instance name="exact"/></plugin></extension>
  <option timestep="0.002" OPTIONS/>
  <default><joint axis="0 1 0" damping="DAMPING" armature="0.01"/></default>
  <worldbody>
    <body><joint/><geom type="capsule" fromto="0 0 0 0.3 0 1" size="0.03" mass="1"/>
      <body pos="0.3 0 1"><joint/><geom type="capsule" fromto="0 0 0 1.5 0 0.3" size="0.03" mass="1"/>
        <body name="c" pos="1.5 0 0.3"><joint/><geom type="capsule" fromto="0 0 0 0 0 -1.3" size="0.03" mass="1"/></body>
      </body>
    </body>
  </worldbody>
  <equality><connect body1="c" body2="world" anchor="0 0 -1.3"/></equality>
  <sensor><plugin name="gap" plugin="linchpin.exact" instance="exact"/></sensor>
</mujoco>)";

std::string four_bar_with(const std::string& damping, const std::string& options = "") {
  std::string out = four_bar;
  out.replace(out.find("OPTIONS"), 7, options);
  out.replace(out.find("DAMPING"), 7, damping);
  return out;
}

void load_plugin() {
  static const bool loaded = (mj_loadPluginLibrary(LINCHPIN_MUJOCO_PLUGIN), true);
  (void)loaded;
}

double largest_gap(const mjData& d) {
  double most = 0;
  for (int i = 0; i < d.nefc; ++i)
    if (d.efc_type[i] == mjCNSTR_EQUALITY) most = std::max(most, std::abs(d.efc_pos[i]));
  return most;
}

TEST(EnginePlugin, MakesAProgramExactThatCallsTheStepOfMuJoCo) {
  load_plugin();
  for (const char* const damping : {"0", "0.5"}) {
    const Model model(four_bar_with(damping));
    mjModel* const m = &model.m();
    mjData* const d = &model.d();
    double gap = 0;
    for (int i = 0; i < 2000; ++i) {
      mj_step(m, d);
      if (i == 500) mj_forward(m, d);  // a call without a step
      if (i > 0) gap = std::max(gap, largest_gap(*d));
    }
    EXPECT_LT(gap, 1e-12) << damping;
    EXPECT_LT(d->sensordata[0], 1e-12);
    mj_resetData(m, d);
    mj_step(m, d);
    mj_step(m, d);
    EXPECT_LT(largest_gap(*d), 1e-12);
  }
}

std::string warning;

TEST(EnginePlugin, LeavesAnIntegratorToMuJoCoThatItDoesNotSupport) {
  load_plugin();
  warning.clear();
  mju_user_warning = [](const char* text) { warning = text; };
  const Model model(four_bar_with("0", "integrator=\"implicitfast\""));
  for (int i = 0; i < 100; ++i) mj_step(&model.m(), &model.d());
  mju_user_warning = nullptr;
  EXPECT_GT(largest_gap(model.d()), 1e-9);
  EXPECT_NE(warning.find("only the integrator Euler is supported"), std::string::npos) << warning;
  EXPECT_EQ(model.d().sensordata[0], largest_gap(model.d())) << "the sensor has the gap of MuJoCo's equalities, too";
}

TEST(EnginePlugin, WarnsWhereSensorsAreSwitchedOff) {
  load_plugin();
  warning.clear();
  mju_user_warning = [](const char* text) { warning = text; };
  const Model model(four_bar_with("0", "><flag sensor=\"disable\"/></option><option"));
  mju_user_warning = nullptr;
  EXPECT_NE(warning.find("sensors are switched off"), std::string::npos) << warning;
}

#endif

}  // namespace
}  // namespace linchpin::test
