#include "host/island.h"

#include "host/body_vectors.h"

#include <algorithm>

namespace linchpin::host {

void RowsByBody::sort(const Assembly& assembly) {
  const std::vector<int>& column = assembly.layout.column;
  const auto slot_of = [&](int c) { return std::upper_bound(column.begin(), column.end(), c) - column.begin() - 1; };
  begin_.assign(column.size() + 1, 0);  // one further on while they are counted
  for_rows_of_bodies(assembly, [&](int, const double*, int c, int) { ++begin_[z(static_cast<int>(slot_of(c))) + 2]; });
  for (std::size_t i = 2; i < begin_.size(); ++i) begin_[i] += begin_[i - 1];
  entries_.resize(z(begin_.back()));
  for_rows_of_bodies(assembly, [&](int row, const double* J, int c, int count) {
    entries_[z(begin_[z(static_cast<int>(slot_of(c))) + 1]++)] = {J, row, count};
  });
}

void RowsByBody::subtract_velocities(const IslandLayout& layout, int slot, std::span<const double> v,
                                     std::span<double> rows) const {
  const double* const moved = v.data() + layout.column[z(slot)];
  for (int i = begin_[z(slot)]; i < begin_[z(slot + 1)]; ++i) {
    const Entry& entry = entries_[z(i)];
    for (int k = 0; k < entry.count; ++k) rows[z(entry.row)] -= entry.J[k] * moved[k];
  }
}

}  // namespace linchpin::host
