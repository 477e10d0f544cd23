// Keeps the events that a watch has found in steps. Private to the core.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace linchpin {

/// Events of a kind that are kept. The first ones show the cause.
inline constexpr std::size_t max_step_events = 100;

/// Counts an event, and keeps it if it is one of the first.
template <class Event>
void add_event(Event event, std::vector<Event>& first, long& count) {
  ++count;
  if (first.size() < max_step_events) first.push_back(std::move(event));
}

}  // namespace linchpin
