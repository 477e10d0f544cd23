// A program with MuJoCo and the installed linchpin: two hinged bars whose end is held at a point of the world.
#include <linchpin/mujoco.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>

int main() {
  std::ofstream("model.xml") << R"(<mujoco><worldbody>
    <body><joint axis="0 1 0"/><geom type="capsule" fromto="0 0 0 0.6 0 0.8" size="0.03" mass="1"/>
      <body name="b" pos="0.6 0 0.8"><joint axis="0 1 0"/>
        <geom type="capsule" fromto="0 0 0 0.6 0 -0.8" size="0.03" mass="1"/></body></body>
  </worldbody><equality><connect name="pin" body1="b" body2="world" anchor="0.6 0 -0.8"/></equality></mujoco>)";
  char error[1000] = "";
  mjModel* const model = mj_loadXML("model.xml", nullptr, error, sizeof error);
  if (!model) return std::puts(error), 1;
  mjData* const data = mj_makeData(model);
  double load = 0, gap = 0;
  {
    linchpin::mujoco::Solver exact(*model, *data);
    for (int i = 0; i < 100; ++i) exact.step();
    const linchpin::Reaction& pin = exact.find("pin").reaction();
    load = pin.on_a.force.z();
    gap = pin.gap;
  }
  mj_deleteData(data);
  mj_deleteModel(model);
  std::printf("the pin bears %.12f N, and its gap is %g m\n", load, gap);
  return std::abs(load - 9.81) < 1e-9 && gap < 1e-12 ? EXIT_SUCCESS : EXIT_FAILURE;  // half of two weights
}
