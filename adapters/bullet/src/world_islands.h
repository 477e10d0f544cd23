// Bullet has no call for the destruction of a world. But a world destroys its island manager first. Bullet also has no
// call for the moment in a step before it reads the bodies of constraints. But a world calls its island manager then.
// While a solver is installed, the world therefore has an island manager of linchpin's. It works as Bullet's, and calls
// the engine at both moments.
#pragma once

#include "bodies.h"

#include <BulletCollision/CollisionDispatch/btSimulationIslandManager.h>
#include <BulletDynamics/Dynamics/btSimulationIslandManagerMt.h>

#include <functional>
#include <new>
#include <utility>

namespace LINCHPIN_BULLET_NAMESPACE {

/// Replaces a world's island manager for as long as it lives, with the same settings.
class WorldIslands {
 public:
  /// @param manager  the world's pointer to its island manager
  /// @param before_islands  the engine's call in a step, before Bullet reads the bodies of constraints
  /// @param world_ends  the engine's call, from the world's destructor. All of btDiscreteDynamicsWorld still exists
  /// then. A manager of the program's own class stays where it is.
  WorldIslands(btSimulationIslandManager*& manager, std::function<void()> before_islands,
               std::function<void()> world_ends)
      : at_(manager), before_(manager), before_islands_(std::move(before_islands)) {
    if (is_exactly<btSimulationIslandManager>(*manager))
      ours_ = make<btSimulationIslandManager>(std::move(world_ends));
    else if (is_exactly<btSimulationIslandManagerMt>(*manager))
      ours_ = make<btSimulationIslandManagerMt>(std::move(world_ends));
    if (!ours_) return;
    copy_settings(*before_, *ours_);
    split_ = before_->getSplitIslands();
    at_ = ours_;
  }
  /// The world gets its own back, unless it is being destroyed.
  ~WorldIslands() {
    if (!ours_) return;
    if (!ended_) {
      exchange_split();
      copy_settings(*ours_, *before_);
      at_ = before_;
      disarm_();
      destroy(ours_);
    } else {
      destroy(before_);
    }
  }
  WorldIslands(const WorldIslands&) = delete;
  WorldIslands& operator=(const WorldIslands&) = delete;

  /// Gives both managers the setting that the program has changed in one of them: it may have kept a reference to its
  /// own manager.
  void exchange_split() {
    if (!ours_) return;
    if (before_->getSplitIslands() != split_)
      ours_->setSplitIslands(before_->getSplitIslands());
    else
      before_->setSplitIslands(ours_->getSplitIslands());
    split_ = ours_->getSplitIslands();
  }
  /// False where the manager stayed.
  bool watches() const { return ours_; }

 private:
  template <class Base>
  struct Watched final : Base {
    Watched(const std::function<void()>& before, std::function<void()> ends)
        : before_islands(before), world_ends(std::move(ends)) {}
    ~Watched() override {
      if (const auto ends = std::exchange(world_ends, nullptr)) ends();
    }
    void updateActivationState(btCollisionWorld* world, btDispatcher* dispatcher) override {
      before_islands();
      Base::updateActivationState(world, dispatcher);
    }
    std::function<void()> before_islands, world_ends;
  };
  template <class Base>
  btSimulationIslandManager* make(std::function<void()> world_ends) {
    void* memory = btAlignedAlloc(sizeof(Watched<Base>), 16);  // as the world frees it
    auto* made = new (memory) Watched<Base>(before_islands_, [this, ends = std::move(world_ends)] {
      ended_ = true;
      ends();
    });
    disarm_ = [made] { made->world_ends = nullptr; };
    return made;
  }
  static void destroy(btSimulationIslandManager* manager) {
    manager->~btSimulationIslandManager();
    btAlignedFree(manager);
  }
  static void copy_settings(btSimulationIslandManager& from, btSimulationIslandManager& to) {
    to.setSplitIslands(from.getSplitIslands());
    auto *threads = dynamic_cast<btSimulationIslandManagerMt*>(&from),
         *copy = dynamic_cast<btSimulationIslandManagerMt*>(&to);
    if (!threads || !copy) return;
    copy->setMinimumSolverBatchSize(threads->getMinimumSolverBatchSize());
    copy->setIslandDispatchFunction(threads->getIslandDispatchFunction());
  }

  btSimulationIslandManager*& at_;
  btSimulationIslandManager *before_, *ours_ = nullptr;
  std::function<void()> before_islands_, disarm_;
  bool ended_ = false, split_ = true;
};

}  // namespace LINCHPIN_BULLET_NAMESPACE
