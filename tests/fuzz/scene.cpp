// Any bytes as a scene file.
#include "read_as.h"

#include <string>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace linchpin;
  const auto imported = [](const std::string&) {
    scene::SceneBody bar;
    bar.name = "bar";
    bar.mass = 1;
    bar.inertia = Matrix3d::Identity();
    scene::Imported out;
    out.bodies = {bar};
    return out;
  };
  fuzz::read_as([&] { return scene::load_text({reinterpret_cast<const char*>(data), size}, "fuzz.toml", imported); });
  return 0;
}
