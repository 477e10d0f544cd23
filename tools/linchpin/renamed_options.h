// Options of commands that were renamed: an old one is a mistake of usage that names the new one.
#pragma once

#include <string_view>

namespace linchpin::cli {

struct RenamedOption {
  std::string_view verb, old, now;
};
inline constexpr RenamedOption renamed_options[] = {
    {"compare", "--settle", "--warmup-steps"},
    {"solve", "--path", "--backend"},
};

/// Returns the present name of an option as it was typed, "--path" or "--path=dense", or an empty text.
constexpr std::string_view renamed_option(std::string_view verb, std::string_view typed) {
  for (const RenamedOption& each : renamed_options)
    if (verb == each.verb && typed.substr(0, typed.find('=')) == each.old) return each.now;
  return {};
}

}  // namespace linchpin::cli
