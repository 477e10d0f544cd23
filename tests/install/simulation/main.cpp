// A box falls onto the ground in Bullet, by a program that has nothing but the installed package.
#include <linchpin/bullet_simulation.h>

#include <cmath>

int main() {
  linchpin::bullet::Simulation box(linchpin::scene::load_text(R"t(schema = 2
[world]
gravity = [0, 0, -9.81]
contacts = true
[[body]]
name = "ground"
kind = "fixed"
shape = { box = [4, 4, 1] }
position = [0, 0, -0.5]
[[body]]
name = "box"
mass = 2
shape = { box = [0.2, 0.2, 0.2] }
position = [0, 0, 0.3]
)t",
                                                              "box.toml"));
  box.run(2);
  return std::abs(box.state()[linchpin::BodyId{2}].p.z() - 0.1) < 0.005 ? 0 : 1;
}
