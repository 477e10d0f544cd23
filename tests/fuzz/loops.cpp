// Any bytes as a robot.yaml file: loops, or a SceneError at a place.
#include "fuzz.h"
#include "robot_loops.h"

#include <string>

using namespace linchpin::scene;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    for (const RobotLoops::Loop& loop : read_robot_loops(text, "robot.yaml", {}).loops)
      fuzz::require(!loop.name.empty(), "a loop without a name");
  } catch (const SceneError& error) {
    fuzz::require(!error.message.empty(), "a fault without a message");
  }
  return 0;
}
