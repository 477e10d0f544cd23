// The impulses of the host's rows on islands, read from the rows.
#pragma once

#include "host/context.h"

#include <vector>

namespace linchpin::host {

/// The place in an island of a body of the host's row solver.
struct BodySlot {
  int island = -1, slot = -1;
};

/// By index in Rows::bodies.
class BodySlots {
 public:
  void resize(std::size_t bodies) { of_.assign(bodies, {}); }
  void set(int body, BodySlot at) { of_[static_cast<std::size_t>(body)] = at; }
  /// Returns −1 for a body of no island.
  BodySlot operator[](int body) const {
    const auto i = static_cast<std::size_t>(body);
    return body >= 0 && i < of_.size() ? of_[i] : BodySlot{};
  }
  std::size_t size() const { return of_.size(); }

 private:
  std::vector<BodySlot> of_;
};

/// Returns the velocity of a side of a row at the velocities of its body.
double velocity_of(const Row::Side& side, const Vector3d& v, const Vector3d& w);
/// Returns the change of that velocity by forces and rows since the step began.
double change_of(const Row::Side& side, const RowBody& body);
/// Returns the velocity of a side of a row before rows are solved: that at the start, with the forces.
double start_velocity_of(const Row::Side& side, const RowBody& body);

/// Sums the impulses of the rows on the islands of the group, and the mean wrenches of their joints.
/// @param solved  The iterations are over. The data that a step in substeps needs are read, too.
void read_row_impulses(Context& c, const BodySlots& slots, Rows& rows, bool solved);

}  // namespace linchpin::host
