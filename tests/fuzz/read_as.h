// What becomes of a file that was read or refused: used by the harnesses of both formats.
#pragma once

#include "fuzz.h"

#include <linchpin/report.h>
#include <linchpin/scene.h>

#include <string_view>

namespace fuzz {

/// A model, which can then be looked at, or a SceneError that says where; nothing else gets out.
/// @param load  gives the model
template <class Load>
void read_as(const Load& load) {
  using namespace linchpin;
  try {
    const scene::Model model = load();
    const System system = model.system();
    State start = system.initial_state();
    system.update_kinematic(start);
    const scene::Observation at{system, start, {}};
    for (const scene::Channel& log : model.logs) (void)log(at);
    scene::Judge judge(model, scene::Host::bare, model.dt);
    judge.see(at);
  } catch (const scene::SceneError& e) {
    require(std::string_view(e.what()).find("error: ") != std::string_view::npos, "an error without a message");
    require(std::string_view(e.what()).size() < 10000, "an error of more than 10 kB");
  }
}

}  // namespace fuzz
