// Makes the .bullet scenes of this folder. They are kept in the repository; to make them anew:
//
//     g++ -std=c++20 make_scenes.cpp $(pkg-config --cflags --libs bullet-float64) -o /tmp/make_scenes &&
//     /tmp/make_scenes .
//
// Bullet's file keeps masses, shapes, poses, joints, names and gravity; its importer sets velocities and damping to
// zero and takes inertia from the shapes, so every scene starts from rest.
#include <btBulletDynamicsCommon.h>

#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace {

class Maker {
 public:
  Maker() { world_.setGravity(btVector3(0, btScalar(-9.81), 0)); }
  ~Maker() {
    for (auto& joint : joints_) world_.removeConstraint(joint.get());
    for (auto& body : bodies_) world_.removeRigidBody(body.get());
  }

  template <class Shape, class... Args>
  btCollisionShape* shape(Args... args) {
    shapes_.push_back(std::make_unique<Shape>(args...));
    return shapes_.back().get();
  }
  /// Mass 0 for what does not move.
  btRigidBody& body(const std::string& name, btScalar mass, btCollisionShape* shape, const btTransform& pose) {
    btVector3 inertia(0, 0, 0);
    if (mass > 0) shape->calculateLocalInertia(mass, inertia);
    bodies_.push_back(std::make_unique<btRigidBody>(mass, nullptr, shape, inertia));
    bodies_.back()->setWorldTransform(pose);
    world_.addRigidBody(bodies_.back().get());
    this->name(bodies_.back().get(), name);
    return *bodies_.back();
  }
  /// About the world's z through a world point. Linked bodies do not collide.
  void hinge(const std::string& name, btRigidBody& a, btRigidBody& b, const btVector3& at) {
    const btTransform frame(btQuaternion::getIdentity(), at);
    add(name, std::make_unique<btHingeConstraint>(a, b, a.getWorldTransform().inverse() * frame,
                                                  b.getWorldTransform().inverse() * frame));
  }
  void ball(const std::string& name, btRigidBody& a, btRigidBody& b, const btVector3& at) {
    add(name, std::make_unique<btPoint2PointConstraint>(a, b, a.getWorldTransform().inverse() * at,
                                                        b.getWorldTransform().inverse() * at));
  }
  bool write(const std::string& file) {
    btDefaultSerializer serializer;
    for (std::size_t i = 0; i < named_.size(); ++i) serializer.registerNameForPointer(named_[i], names_[i]->c_str());
    world_.serialize(&serializer);
    std::FILE* out = std::fopen(file.c_str(), "wb");
    if (!out) return false;
    const std::size_t size = static_cast<std::size_t>(serializer.getCurrentBufferSize());
    const bool good = std::fwrite(serializer.getBufferPointer(), 1, size, out) == size;
    return std::fclose(out) == 0 && good;
  }

 private:
  void name(const void* thing, const std::string& name) {
    named_.push_back(thing);
    names_.push_back(std::make_unique<std::string>(name));
  }
  void add(const std::string& name, std::unique_ptr<btTypedConstraint> joint) {
    world_.addConstraint(joint.get(), true);
    this->name(joint.get(), name);
    joints_.push_back(std::move(joint));
  }

  btDefaultCollisionConfiguration configuration_;
  btCollisionDispatcher dispatcher_{&configuration_};
  btDbvtBroadphase broadphase_;
  btSequentialImpulseConstraintSolver solver_;
  btDiscreteDynamicsWorld world_{&dispatcher_, &broadphase_, &solver_, &configuration_};
  std::vector<std::unique_ptr<btCollisionShape>> shapes_;
  std::vector<std::unique_ptr<btRigidBody>> bodies_;
  std::vector<std::unique_ptr<btTypedConstraint>> joints_;
  std::vector<const void*> named_;
  std::vector<std::unique_ptr<std::string>> names_;
};

btTransform pose(const btVector3& at, btScalar about_z = 0) {
  return btTransform(btQuaternion(btVector3(0, 0, 1), about_z), at);
}

// A bar of 1 m and 2 kg, hinged at one end, released when horizontal. Nothing touches it: its energy is conserved, and
// where it hangs straight down the hinge carries 2.496 times its weight (5/2 for a thin bar).
bool pendulum(const std::string& folder) {
  Maker make;
  btRigidBody& pivot = make.body("pivot", 0, make.shape<btSphereShape>(btScalar(0.05)), pose({0, 0, 0}));
  btRigidBody& bar =
      make.body("bar", 2, make.shape<btBoxShape>(btVector3(btScalar(0.5), btScalar(0.05), btScalar(0.05))),
                pose({btScalar(0.5), 0, 0}));
  make.hinge("hinge", pivot, bar, {0, 0, 0});
  return make.write(folder + "/pendulum.bullet");
}

// Twenty planks of 10 kg hinged in a row between two posts, sagging along an arc; from the middle one hangs a load of
// 200 kg on a chain of four links of 2 kg, swung out sideways by 35 degrees. A closed row of parallel hinges is
// redundant: 105 rows of rank 102. Nothing touches, so energy is conserved.
bool bridge(const std::string& folder) {
  constexpr int planks = 20;
  constexpr double length = 0.5, span = 9.6, thickness = 0.06, width = 1.2;
  // Half the angle that a plank spans of the arc: sin(planks a) / sin(a) = span / length, solved by halving.
  double low = 1e-6, high = 0.15;
  for (int i = 0; i < 200; ++i) {
    const double a = 0.5 * (low + high);
    (std::sin(planks * a) / std::sin(a) * length > span ? low : high) = a;
  }
  const double a = 0.5 * (low + high), radius = 0.5 * length / std::sin(a);
  const auto joint_at = [&](int i) {
    const double angle = (2 * i - planks) * a;
    return btVector3(btScalar(radius * std::sin(angle)), btScalar(radius * (std::cos(planks * a) - std::cos(angle))),
                     0);
  };

  Maker make;
  btCollisionShape* post_shape = make.shape<btBoxShape>(btVector3(btScalar(0.2), btScalar(1.5), btScalar(width / 2)));
  btRigidBody& left =
      make.body("left post", 0, post_shape, pose(joint_at(0) + btVector3(btScalar(-0.2), btScalar(-1.5), 0)));
  btRigidBody& right =
      make.body("right post", 0, post_shape, pose(joint_at(planks) + btVector3(btScalar(0.2), btScalar(-1.5), 0)));
  btCollisionShape* plank_shape =
      make.shape<btBoxShape>(btVector3(btScalar(length / 2 - 0.01), btScalar(thickness / 2), btScalar(width / 2)));
  std::vector<btRigidBody*> row;
  for (int i = 0; i < planks; ++i) {
    const btVector3 d = joint_at(i + 1) - joint_at(i);
    row.push_back(&make.body("plank " + std::to_string(i + 1), 10, plank_shape,
                             pose((joint_at(i) + joint_at(i + 1)) / 2, btAtan2(d.y(), d.x()))));
  }
  make.hinge("left end", left, *row.front(), joint_at(0));
  for (int i = 1; i < planks; ++i)
    make.hinge("hinge " + std::to_string(i), *row[static_cast<std::size_t>(i - 1)], *row[static_cast<std::size_t>(i)],
               joint_at(i));
  make.hinge("right end", *row.back(), right, joint_at(planks));

  constexpr double link = 0.4, swing = 35 * 3.14159265358979323846 / 180;
  const btVector3 along(0, btScalar(-std::cos(swing)), btScalar(std::sin(swing)));
  const btQuaternion turned(btVector3(1, 0, 0), btScalar(-swing));
  btCollisionShape* link_shape =
      make.shape<btBoxShape>(btVector3(btScalar(0.03), btScalar(link / 2 - 0.02), btScalar(0.03)));
  btRigidBody* above = row[planks / 2];
  btVector3 at = above->getCenterOfMassPosition() + btVector3(0, btScalar(-thickness), 0);
  for (int i = 1; i <= 4; ++i) {
    btRigidBody& body =
        make.body("link " + std::to_string(i), 2, link_shape, btTransform(turned, at + along * btScalar(link / 2)));
    make.ball(i == 1 ? std::string("eye") : "ring " + std::to_string(i - 1), *above, body, at);
    above = &body;
    at += along * btScalar(link);
  }
  btRigidBody& load =
      make.body("load", 200, make.shape<btSphereShape>(btScalar(0.3)), btTransform(turned, at + along * btScalar(0.3)));
  make.ball("hook", *above, load, at);
  return make.write(folder + "/bridge.bullet");
}

}  // namespace

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : ".";
  for (const auto make : {pendulum, bridge})
    if (!make(folder)) {
      std::fprintf(stderr, "cannot write to %s\n", folder.c_str());
      return 1;
    }
  return 0;
}
