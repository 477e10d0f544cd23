// Counts what a piece of code takes from the heap, by whatever door: new, malloc, Eigen.
#pragma once

#include <cstddef>

namespace linchpin::test {

/// Allocations of this thread, or of all, since construction.
///
///     const AllocationCounter allocations;
///     stepper.step(dt);
///     EXPECT_EQ(allocations.count(), 0u);
class AllocationCounter {
 public:
  enum class Of { this_thread, all_threads };
  explicit AllocationCounter(Of whose = Of::this_thread);
  std::size_t count() const;

 private:
  std::size_t now() const;
  Of whose_;
  std::size_t before_;
};

}  // namespace linchpin::test
