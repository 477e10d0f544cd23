#include "scenes.h"

#include <linchpin/bullet.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>

namespace linchpin::bench {

using bullet::from_bullet;
using bullet::to_bullet;

namespace {

/// W1 … W7: nothing falls asleep.
class Scene final : public programs::Program {
 public:
  Scene() : Program(1.0 / 240) {}
  btRigidBody& box(double mass, const Vector3d& half, const Vector3d& p, const Quaterniond& q = Quaterniond::Identity(),
                   bool collides = false) {
    btRigidBody& body =
        Program::box(mass, to_bullet(half), to_bullet(p),
                     btQuaternion(btScalar(q.x()), btScalar(q.y()), btScalar(q.z()), btScalar(q.w())), collides);
    body.setActivationState(DISABLE_DEACTIVATION);
    body.setUserIndex(static_cast<int>(bodies.size()) - 1);
    return body;
  }
  /// A ball joint at a world point; without b, on the world.
  void pin(btRigidBody& a, btRigidBody* b, const Vector3d& p_WQ) {
    if (b)
      Program::pin(a, *b, to_bullet(p_WQ));
    else
      Program::pin(a, to_bullet(p_WQ));
  }
  /// A hinge through a world point along a world axis.
  void hinge(btRigidBody& a, btRigidBody* b, const Vector3d& p_WQ, const Vector3d& u_W) {
    if (b)
      Program::hinge(a, *b, to_bullet(p_WQ), to_bullet(u_W));
    else
      Program::hinge(btTypedConstraint::getFixedBody(), a, to_bullet(p_WQ), to_bullet(u_W));
  }
};
template <void (*furnish)(Scene&, int)>
std::unique_ptr<programs::Program> built(int size) {
  auto scene = std::make_unique<Scene>();
  furnish(*scene, size);
  return scene;
}
/// A program, which has one size.
template <std::unique_ptr<programs::Program> (*make)()>
std::unique_ptr<programs::Program> program(int) {
  return make();
}

const Vector3d along_x(0.25, 0.05, 0.05), along_y(0.05, 0.25, 0.05);

void chain(Scene& s, int links) {
  btRigidBody* last = nullptr;
  for (int i = 0; i < links; ++i) {
    btRigidBody& link = s.box(1, along_x, Vector3d(0.5 * i + 0.25, 0, 0));
    s.pin(link, last, Vector3d(0.5 * i, 0, 0));
    last = &link;
    if (i % 1000 == 999) s.broadphase.optimize();  // Bullet's tree of bodies put in one behind the other is a list
  }
}

void hanging_chain(Scene& s, int links) {
  btRigidBody* last = nullptr;
  for (int i = 0; i < links; ++i) {
    btRigidBody& link = s.box(1, along_y, Vector3d(0, -0.5 * i - 0.25, 0));
    s.pin(link, last, Vector3d(0, -0.5 * i, 0));
    last = &link;
  }
}

void ladder(Scene& s, int rungs) {
  std::array<btRigidBody*, 2> last{};
  for (int i = 0; i < rungs; ++i) {
    std::array<btRigidBody*, 2> side{};
    for (int k = 0; k < 2; ++k) {
      const double y = 0.5 * k;
      side[static_cast<std::size_t>(k)] = &s.box(1, along_x, Vector3d(0.5 * i + 0.25, y, 0));
      s.pin(*side[static_cast<std::size_t>(k)], last[static_cast<std::size_t>(k)], Vector3d(0.5 * i, y, 0));
    }
    btRigidBody& rung = s.box(1, along_y, Vector3d(0.5 * (i + 1), 0.25, 0));
    s.pin(rung, side[0], Vector3d(0.5 * (i + 1), 0, 0));
    s.pin(rung, side[1], Vector3d(0.5 * (i + 1), 0.5, 0));
    last = side;
  }
}

void chainmail(Scene& s, int k) {
  const auto at = [](int i, int j) { return Vector3d(0.25 * i, 0, 0.25 * j); };
  std::vector<btRigidBody*> plate;
  for (int i = 0; i < k; ++i)
    for (int j = 0; j < k; ++j) plate.push_back(&s.box(1, Vector3d(0.125, 0.025, 0.125), at(i, j)));
  const auto of = [&](int i, int j) -> btRigidBody& { return *plate[static_cast<std::size_t>(i * k + j)]; };
  for (int i = 0; i < k; ++i)
    for (int j = 0; j < k; ++j) {
      if (i + 1 < k) s.pin(of(i, j), &of(i + 1, j), at(i, j) + Vector3d(0.125, 0, 0));
      if (j + 1 < k) s.pin(of(i, j), &of(i, j + 1), at(i, j) + Vector3d(0, 0, 0.125));
    }
  s.pin(of(0, 0), nullptr, at(0, 0) - Vector3d(0.125, 0, 0.125));
  s.pin(of(0, k - 1), nullptr, at(0, k - 1) + Vector3d(-0.125, 0, 0.125));
}

// Pelvis, torso and head on two ball joints; arms and legs on a ball joint each, elbows and knees on hinges. Each falls
// freely, turning as one and folding at its elbows and knees, so that no joint starts with its ends apart.
void ragdolls(Scene& s, int count) {
  std::mt19937_64 random(7);
  const auto draw = [&] { return double(random() >> 11) * 0x1p-53 * 2 - 1; };
  const int side = static_cast<int>(std::ceil(std::sqrt(count)));
  for (int n = 0; n < count; ++n) {
    const Vector3d p(2.5 * (n % side), 0, 2.5 * (n / side));
    const Vector3d w(3 * draw(), 3 * draw(), 3 * draw());
    const auto turning = [&](btRigidBody& b) {
      b.setLinearVelocity(to_bullet(w.cross(from_bullet(b.getCenterOfMassPosition()) - p)));
      b.setAngularVelocity(to_bullet(w));
    };
    btRigidBody& pelvis = s.box(12, {0.15, 0.1, 0.1}, p);
    btRigidBody& torso = s.box(25, {0.18, 0.25, 0.12}, p + Vector3d(0, 0.35, 0));
    btRigidBody& head = s.box(5, {0.1, 0.12, 0.1}, p + Vector3d(0, 0.72, 0));
    s.pin(torso, &pelvis, p + Vector3d(0, 0.1, 0));
    s.pin(head, &torso, p + Vector3d(0, 0.6, 0));
    for (btRigidBody* b : {&pelvis, &torso, &head}) turning(*b);
    for (const double x : {-1.0, 1.0}) {
      const auto limb = [&](btRigidBody& from, double upper_mass, double lower_mass, double half, const Vector3d& root,
                            const Vector3d& along) {
        const auto extent = [&](double h) {
          Vector3d e(0.05, 0.05, 0.05);
          for (int k = 0; k < 3; ++k)
            if (along[k] != 0) e[k] = h;
          return e;
        };
        btRigidBody& upper = s.box(upper_mass, extent(half), root + half * along);
        btRigidBody& lower = s.box(lower_mass, extent(half), root + 3 * half * along);
        s.pin(upper, &from, root);
        const Vector3d knee = root + 2 * half * along;
        s.hinge(lower, &upper, knee, Vector3d::UnitZ());
        turning(upper);
        turning(lower);
        const Vector3d fold = Vector3d::UnitZ() * (3 * draw());
        lower.setAngularVelocity(lower.getAngularVelocity() + to_bullet(fold));
        lower.setLinearVelocity(lower.getLinearVelocity() +
                                to_bullet(fold.cross(from_bullet(lower.getCenterOfMassPosition()) - knee)));
      };
      limb(torso, 2.2, 1.5, 0.14, p + Vector3d(0.18 * x, 0.55, 0), Vector3d(x, 0, 0));
      limb(pelvis, 8, 4, 0.2, p + Vector3d(0.1 * x, -0.1, 0), Vector3d(0, -1, 0));
    }
  }
}

// A bar that hangs at 45 degrees in the plane of z, from its hinge to its lower end.
const Vector3d z = Vector3d::UnitZ(), bar(0.5 * std::sqrt(0.5), -0.5 * std::sqrt(0.5), 0);
const Quaterniond tilt(Eigen::AngleAxisd(-0.25 * EIGEN_PI, z));

// A coupler on n parallel bars at 45 degrees: n − 2 of its 2n plane hinges are too many, and so are the out-of-plane
// rows.
void parallel_bars(Scene& s, int bars) {
  btRigidBody& coupler = s.box(1, {0.25 * bars, 0.05, 0.05}, Vector3d(0.25 * (bars - 1), 0, 0) + bar);
  for (int i = 0; i < bars; ++i) {
    const Vector3d top(0.5 * i, 0, 0);
    btRigidBody& b = s.box(1, along_x, top + 0.5 * bar, tilt);
    s.hinge(b, nullptr, top, z);
    s.hinge(coupler, &b, top + bar, z);
  }
}

// n four-bar windows side by side: n + 1 bars at 45 degrees, a coupler between each two.
void four_bars(Scene& s, int windows) {
  btRigidBody* last = nullptr;
  for (int i = 0; i <= windows; ++i) {
    const Vector3d top(0.5 * i, 0, 0);
    btRigidBody& b = s.box(1, along_x, top + 0.5 * bar, tilt);
    s.hinge(b, nullptr, top, z);
    if (i > 0) {
      btRigidBody& coupler = s.box(1, along_x, top + bar - Vector3d(0.25, 0, 0));
      s.hinge(coupler, last, top + bar - Vector3d(0.5, 0, 0), z);
      s.hinge(coupler, &b, top + bar, z);
    }
    last = &b;
  }
}

// Planks that lie straight between two posts, on pairs of ball joints, and a lorry of 3 t on them. No exact joints bear
// a load on a straight bridge.
void flat_bridge(Scene& s, int planks) {
  const Vector3d half(0.24, 0.05, 1);
  btRigidBody* last = nullptr;
  for (int i = 0; i <= planks + 1; ++i) {
    btRigidBody& plank =
        s.box(i == 0 || i == planks + 1 ? 0 : 60, half, Vector3d(0.5 * i, 0, 0), Quaterniond::Identity(), true);
    for (const double side : {-0.9, 0.9})
      if (last) s.pin(plank, last, Vector3d(0.5 * i - 0.25, 0, side));
    last = &plank;
  }
  s.box(3000, Vector3d(1, 0.5, 0.8), Vector3d(0.25 * (planks + 1), 0.56, 0), Quaterniond::Identity(), true);
}

constexpr int chain_sizes[] = {10, 100, 1000, 10000};
constexpr int hanging_sizes[] = {10, 100, 1000};
constexpr int ladder_sizes[] = {10, 100, 1000};
constexpr int mail_sizes[] = {8, 16, 32};
constexpr int doll_sizes[] = {1, 100, 1000};
constexpr int bar_sizes[] = {5};
constexpr int window_sizes[] = {1, 10, 40};
constexpr int ball_sizes[] = {20};
constexpr int plank_sizes[] = {20, 40};

constexpr int one[] = {1};

constexpr std::array<SceneKind, 18> all{{
    {"W1", "chain of ball joints, released horizontally", chain_sizes, "links", built<chain>, false},
    {"W1s", "the same chain hanging at rest", hanging_sizes, "links", built<hanging_chain>, true},
    {"W2", "ladder of two chains and rungs", ladder_sizes, "rungs", built<ladder>, false},
    {"W3", "chainmail of plates, flat start", mail_sizes, "plates a side", built<chainmail>, false},
    {"W4", "ragdolls in free fall", doll_sizes, "ragdolls", built<ragdolls>, false},
    {"W5a", "coupler on parallel bars", bar_sizes, "bars", built<parallel_bars>, true},
    {"W5b", "four-bar windows", window_sizes, "windows", built<four_bars>, true},
    {"W6", "a ton on a light chain, released horizontally", ball_sizes, "links", program<programs::wrecking_ball_alone>,
     false},
    {"W7", "a lorry on a flat bridge with compliance", plank_sizes, "planks", built<flat_bridge>, false,
     Compliance{.stiffness = 5e6, .damping = 1e4}},
    {"suspension-bridge", "a lorry crosses a suspension bridge", one, "program", program<programs::suspension_bridge>,
     false},
    {"ragdoll", "a ragdoll down stairs", one, "program", program<programs::ragdoll>, false},
    {"wrecking-ball", "W6 hits a wall", one, "program", program<programs::wrecking_ball>, false},
    {"newtons-cradle", "Newton's cradle", one, "program", program<programs::newtons_cradle>, false},
    {"hinge2-car", "a car on rough ground", one, "program", program<programs::hinge2_car>, false},
    {"forklift", "a forklift moves a pallet", one, "program", program<programs::forklift>, false},
    {"walker", "a quadruped on closed-loop legs", one, "program", program<programs::walker>, false},
    {"chain-over-edge", "a chain over the edge of a table", one, "program", program<programs::chain_over_edge>, false},
    {"breakable-wall", "a wall of breakable welds", one, "program", program<programs::breakable_wall>, false},
}};

}  // namespace

std::span<const SceneKind> scenes() { return all; }

const SceneKind* find_scene(std::string_view name) {
  const auto at = std::find_if(all.begin(), all.end(), [&](const SceneKind& s) { return s.name == name; });
  return at == all.end() ? nullptr : &*at;
}

}  // namespace linchpin::bench
