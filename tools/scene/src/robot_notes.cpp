#include "robot_notes.h"

#include <algorithm>
#include <string_view>

namespace linchpin::scene {

std::string Note::shown(std::size_t most) const {
  std::string out = text;
  const bool all = names.size() <= most || names.size() - most == 1;
  const std::size_t many = all ? names.size() : most;
  for (std::size_t i = 0; i < many; ++i) out += (i == 0 ? ": " : ", ") + names[i];
  if (!all) out += ", … (and " + std::to_string(names.size() - many) + " more)";
  return more.empty() ? out : out + ". " + more;
}

void RobotNotes::add(std::string text) { groups_.push_back({{}, std::move(text), {}, {}}); }

void RobotNotes::add(const Kind& kind, const std::string& name, const std::string& value) {
  const auto same = [&](const Group& g) {
    return g.text.empty() && std::string_view(g.kind.noun) == kind.noun && std::string_view(g.kind.one) == kind.one;
  };
  auto group = std::find_if(groups_.begin(), groups_.end(), same);
  if (group == groups_.end()) group = groups_.insert(groups_.end(), {kind, {}, {}, {}});
  // Parts of a link are read together, so equal names are neighbours.
  if (!group->names.empty() && group->names.back() == name && group->values.back() == value) return;
  group->names.push_back(name);
  group->values.push_back(value);
}

std::vector<Note> RobotNotes::all() const {
  std::vector<Note> out;
  for (const Group& g : groups_) {
    if (!g.text.empty()) {
      out.emplace_back(g.text);
    } else if (g.names.size() == 1) {
      const std::string value = g.values[0].empty() ? "" : " (" + g.values[0] + ")";
      out.push_back({std::string(g.kind.noun) + " \"" + g.names[0] + "\"" + value + " " + g.kind.one, {}, g.kind.more});
    } else {
      std::vector<std::string> names;
      for (std::size_t i = 0; i < g.names.size(); ++i)
        names.push_back(g.names[i] + (g.values[i].empty() ? "" : " (" + g.values[i] + ")"));
      out.push_back(
          {std::to_string(g.names.size()) + " " + g.kind.noun + "s " + g.kind.many, std::move(names), g.kind.more});
    }
  }
  return out;
}

}  // namespace linchpin::scene
