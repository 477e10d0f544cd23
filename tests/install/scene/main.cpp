// A scene loaded by a program that has nothing but the installed package.
#include <linchpin/scene.h>
#include <linchpin/scene/analysis.h>

int main() {
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
  return linchpin::scene::find_equilibria(system, system.initial_state()).size() == 2 ? 0 : 1;
}
