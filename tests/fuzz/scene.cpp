// Any bytes as a scene file: a model, or a SceneError that says where; nothing else gets out.
#include "fuzz.h"

#include <linchpin/report.h>
#include <linchpin/scene.h>

#include <string_view>

using namespace linchpin;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto imported = [](const std::string&) {
    SceneBody bar;
    bar.name = "bar";
    bar.mass = 1;
    bar.inertia = Matrix3d::Identity();
    Imported out;
    out.bodies = {bar};
    return out;
  };
  try {
    const Model model = load_text({reinterpret_cast<const char*>(data), size}, "fuzz.toml", imported);
    // What was taken can be looked at.
    const System system = model.system();
    State start = system.initial_state();
    system.update_driven(start);
    const Observation at{system, start, {}};
    for (const Channel& log : model.logs) (void)log(at);
    Judge judge(model, Host::bare, model.dt);
    judge.see(at);
  } catch (const SceneError& e) {
    fuzz::require(std::string_view(e.what()).find("error: ") != std::string_view::npos, "an error without a message");
    fuzz::require(std::string_view(e.what()).size() < 10000, "an error of more than 10 kB");
  }
  return 0;
}
