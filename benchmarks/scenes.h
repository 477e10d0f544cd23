// The scenes that speed and accuracy are measured on, W1 … W6: built in Bullet, no contacts, 9.81 m/s² along −y. A link
// is a 1 kg box of 0.5 × 0.1 × 0.1 m with its joints at its ends.
#pragma once

#include <linchpin/bullet.h>

#include <btBulletDynamicsCommon.h>

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace linchpin::bench {

/// A Bullet world that owns what is in it.
class Scene {
 public:
  Scene();
  ~Scene();
  Scene(const Scene&) = delete;
  Scene& operator=(const Scene&) = delete;

  btRigidBody& box(double mass, const Vector3d& half, const Vector3d& p,
                   const Quaterniond& q = Quaterniond::Identity());
  btRigidBody& ball(double mass, double radius, const Vector3d& p);
  /// A ball joint at a world point; without b, on the world.
  void pin(btRigidBody& a, btRigidBody* b, const Vector3d& p_WQ);
  /// A hinge through a world point along a world axis.
  void hinge(btRigidBody& a, btRigidBody* b, const Vector3d& p_WQ, const Vector3d& u_W);

  int bodies() const { return static_cast<int>(bodies_.size()); }
  int joints() const { return static_cast<int>(joints_.size()); }
  int rows() const { return rows_; }
  btRigidBody& body(int i) { return *bodies_[static_cast<std::size_t>(i)]; }
  btTypedConstraint& joint(int i) { return *joints_[static_cast<std::size_t>(i)]; }
  int index_of(const btRigidBody& body) const;
  /// Largest distance between the two points of any joint [m].
  double gap() const;
  /// Kinetic and potential [J].
  double energy() const;
  bool finite() const;

  btDefaultCollisionConfiguration config;
  btCollisionDispatcher dispatcher;
  btDbvtBroadphase broadphase;
  std::unique_ptr<btConstraintSolver> solver;
  std::unique_ptr<btDiscreteDynamicsWorld> world;

 private:
  btRigidBody& add(double mass, btCollisionShape& shape, const Vector3d& p, const Quaterniond& q);
  std::vector<std::unique_ptr<btCollisionShape>> shapes_;
  std::vector<std::unique_ptr<btRigidBody>> bodies_;
  std::vector<std::unique_ptr<btTypedConstraint>> joints_;
  int rows_ = 0;
};

struct SceneKind {
  std::string_view name;   ///< "W1"
  std::string_view title;  ///< what it is
  std::span<const int> sizes;
  std::string_view size_is;  ///< what the size counts
  void (*build)(Scene&, int size);
  bool forces;  ///< whether the joints' forces at rest, in the first step, are compared with a dense solution
};

std::span<const SceneKind> scenes();
/// Null where there is none of that name.
const SceneKind* find_scene(std::string_view name);

}  // namespace linchpin::bench
