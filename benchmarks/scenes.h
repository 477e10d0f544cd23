// The scenes that speed and accuracy are measured on: W1 … W6 without contacts, W7, and the programs of demos/programs.
// A link of W1 … W5 is a 1 kg box of 0.5 × 0.1 × 0.1 m with its joints at its ends.
#pragma once

#include <linchpin/row_forces.h>

#include <programs/program.h>

#include <memory>
#include <optional>
#include <span>
#include <string_view>

namespace linchpin::bench {

struct SceneKind {
  std::string_view name;   ///< "W1"
  std::string_view title;  ///< what it is
  std::span<const int> sizes;
  std::string_view size_is;  ///< what the size counts
  std::unique_ptr<programs::Program> (*build)(int size);
  bool forces;  ///< whether the joints' forces at rest, in the first step, are compared with a dense solution;
                ///< all bodies are then movable, and each carries its place among them as its user index
  std::optional<Compliance> compliance{};  ///< of the joints in exact runs
};

std::span<const SceneKind> scenes();
/// Null where there is none of that name.
const SceneKind* find_scene(std::string_view name);

}  // namespace linchpin::bench
