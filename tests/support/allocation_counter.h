// Counts what a piece of code takes from the heap, by whatever door: new, malloc, Eigen.
#pragma once

#include <cstddef>

namespace linchpin::test {

/// Allocations of this thread since construction.
///
///     const AllocationCounter allocations;
///     stepper.step(dt);
///     EXPECT_EQ(allocations.count(), 0u);
class AllocationCounter {
 public:
  AllocationCounter();
  std::size_t count() const;

 private:
  std::size_t before_;
};

}  // namespace linchpin::test
