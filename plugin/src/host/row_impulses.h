// The impulses of the host's rows on islands, read from the rows.
#pragma once

#include "host/context.h"

#include <vector>

namespace linchpin::host {

/// Where a body of the host's row solver is in an island.
struct BodySlot {
  int island = -1, slot = -1;
};

/// By index in Rows::bodies.
class BodySlots {
 public:
  void resize(std::size_t bodies) { of_.assign(bodies, {}); }
  void set(int body, BodySlot at) { of_[static_cast<std::size_t>(body)] = at; }
  /// −1 for a body of no island.
  BodySlot operator[](int body) const {
    const auto i = static_cast<std::size_t>(body);
    return body >= 0 && i < of_.size() ? of_[i] : BodySlot{};
  }
  std::size_t size() const { return of_.size(); }

 private:
  std::vector<BodySlot> of_;
};

/// Velocity of a side of a row at the velocities of its body.
double velocity_of(const Row::Side& side, const Vector3d& v, const Vector3d& w);
/// By how much forces and rows have changed that velocity since the step began.
double change_of(const Row::Side& side, const RowBody& body);
/// Velocity of a side of a row before rows are solved: as it began, with the forces.
double start_velocity_of(const Row::Side& side, const RowBody& body);

/// Sums up what the rows have done to the islands of the group, and to the mean wrenches of their joints.
/// @param solved  the iterations are over: what a step in substeps needs is gathered as well
void gather_row_impulses(Context& c, const BodySlots& slots, Rows& rows, bool solved);

}  // namespace linchpin::host
