#include "pybullet_world.h"

#include <malloc.h>

#include <cstddef>
#include <cstring>
#include <stdexcept>
#include <vector>

namespace linchpin::python {

/// PhysicsCommandProcessorInterface of PyBullet: its virtual functions in their order, up to the one that is called.
/// The type is not local to this file: the compiler would then know that no class derives from it.
struct CommandProcessor {
  virtual ~CommandProcessor() = default;
  virtual bool connect() = 0;
  virtual void disconnect() = 0;
  virtual bool isConnected() const = 0;
  virtual bool processCommand(const void* command, void* status, char* buffer, int size) = 0;
  virtual bool receiveStatus(void* status, char* buffer, int size) = 0;
  virtual void renderScene(int flags) = 0;
  virtual void physicsDebugDraw(int flags) = 0;
  virtual void setGuiHelper(void* helper) = 0;
};

/// GUIHelperInterface of PyBullet: its virtual functions in their order, up to the one that setGuiHelper() calls.
struct GuiHelper {
  virtual ~GuiHelper() = default;
  virtual void createRigidBodyGraphicsObject(void*, const void*) {}
  virtual void createCollisionObjectGraphicsObject(void*, const void*) {}
  virtual void createCollisionShapeGraphicsObject(void*) {}
  virtual void syncPhysicsToGraphics(const void*) {}
  virtual void syncPhysicsToGraphics2(const void*) {}
  virtual void syncPhysicsToGraphics2(const void*, int) {}
  virtual void render(const void*) {}
  virtual void createPhysicsDebugDrawer(btDiscreteDynamicsWorld* world) { found = world; }
  btDiscreteDynamicsWorld* found = nullptr;
};

namespace {

[[noreturn]] void refuse(const std::string& why) {
  throw std::runtime_error("linchpin cannot use this build of PyBullet: " + why +
                           ". Use the wheel of PyBullet 3.2.7 (pip install pybullet==3.2.7)");
}

}  // namespace

PyBulletWorld::PyBulletWorld(void* processor) {
  if (!processor) refuse("it has handed over no command processor");
  // The word after the table of virtual functions is the address of the processor's data.
  char* data = nullptr;
  std::memcpy(&data, static_cast<char*>(processor) + sizeof(void*), sizeof data);
  if (!data) refuse("its command processor has no data");
  constexpr std::size_t word = sizeof(void*);
  const std::size_t words = malloc_usable_size(data) / word;
  const auto at = [&](std::size_t i) {
    void* value = nullptr;
    std::memcpy(&value, data + i * word, word);
    return value;
  };
  std::vector<void*> before(words);
  for (std::size_t i = 0; i < words; ++i) before[i] = at(i);
  GuiHelper helper;
  auto* const interface = static_cast<CommandProcessor*>(processor);
  interface->setGuiHelper(&helper);
  std::size_t changed = 0, helper_word = 0;
  for (std::size_t i = 0; i < words; ++i)
    if (at(i) == &helper && before[i] != at(i)) helper_word = i, ++changed;
  if (changed == 1) interface->setGuiHelper(before[helper_word]);
  if (changed != 1) refuse("its helper for drawing is not where it was expected");
  // The data also has members without a first value, in which the address of the world can stand by chance. Only this
  // word is the member.
  constexpr std::size_t from_world_to_helper = 30;  // in the wheels of PyBullet 3.2.6 and 3.2.7
  if (helper_word < from_world_to_helper || !helper.found || at(helper_word - from_world_to_helper) != helper.found)
    refuse("its world is not where it was expected");
  slot_ = reinterpret_cast<btDiscreteDynamicsWorld**>(data + (helper_word - from_world_to_helper) * word);
}

}  // namespace linchpin::python
