// The momentum balance of each body in a step: change of momentum, applied, host and constraint impulses, each from its
// own record (T11).
#pragma once

#include <linchpin/report.h>

#include <vector>

namespace linchpin::host {

struct Context;
struct Island;

class MomentumBalances {
 public:
  void begin_step() { all_.clear(); }
  /// Adds the bodies of an island, and the work of its constraints where it is counted here.
  void add(Context& c, Island& b);
  /// Appends the balance of a body that is in no island of rigid bodies.
  void append(const MomentumBalance& balance) { all_.push_back(balance); }
  const std::vector<MomentumBalance>& all() const { return all_; }

 private:
  void add_bodies(const Context& c, const Island& b);
  void add_constraint(Context& c, Island& b, std::size_t i);

  std::vector<MomentumBalance> all_;
  std::vector<int> of_body_;  // by id: index in all_, −1
};

}  // namespace linchpin::host
