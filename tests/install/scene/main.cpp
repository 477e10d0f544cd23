// A scene and an SDF file, loaded by a program that has nothing but the installed package.
#include <linchpin/scene.h>
#include <linchpin/scene/analysis.h>

#include <cstdio>
#include <fstream>
#include <string>

namespace {

bool reads_sdf(const std::string& path) {
  std::ofstream(path) << "<sdf version='1.9'><model name='m'><link name='bob'/></model></sdf>";
  try {
    return linchpin::scene::load(path).bodies.size() == 1;
  } catch (const linchpin::scene::SceneError& e) {
    std::puts(e.what());
    return e.message.find("built without SDF") != std::string::npos;
  }
}

}  // namespace

int main(int, char** argv) {
  const linchpin::scene::Model model = linchpin::scene::load_text(R"t(schema = 2
[[body]]
name = "bob"
kind = "particle"
mass = 2
position = [1, 0, 0]
[[constraint]]
name = "rod"
equation = "norm2(bob.position) = 1"
)t",
                                                                  "pendulum.toml");
  linchpin::System system = model.system();
  const bool two = linchpin::scene::find_equilibria(system, system.initial_state()).size() == 2;
  return two && reads_sdf(std::string(argv[0]) + ".sdf") ? 0 : 1;
}
