// Memory that shows what becomes of addresses once the program has deleted what was there: a place that is handed out
// again on request, and that nobody may touch in between.
#pragma once

#include <LinearMath/btAlignedAllocator.h>

#include <sys/mman.h>

#include <cstdlib>
#include <new>
#include <utility>

namespace linchpin::test {

/// All that is made and deleted while one lives, by Bullet or by new of its classes, goes by it. To be declared first.
class OnePlace {
 public:
  OnePlace() {
    void* const page = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) throw std::bad_alloc();
    place_ = page;
    btAlignedAllocSetCustom(&allocate, &release);
  }
  ~OnePlace() {
    btAlignedAllocSetCustom(nullptr, nullptr);
    munmap(std::exchange(place_, nullptr), size);
  }
  OnePlace(const OnePlace&) = delete;
  OnePlace& operator=(const OnePlace&) = delete;

  /// It is where the next thing is made.
  void for_the_next() { next_ = true; }

 private:
  static constexpr std::size_t size = 4096;  // a page, and more than any body or joint
  static void* allocate(std::size_t bytes) {
    if (!std::exchange(next_, false)) return std::malloc(bytes);
    if (bytes > size || mprotect(place_, size, PROT_READ | PROT_WRITE) != 0) std::abort();
    return place_;
  }
  static void release(void* p) {
    if (p != place_)
      std::free(p);
    else if (mprotect(place_, size, PROT_NONE) != 0)
      std::abort();
  }
  static inline void* place_ = nullptr;
  static inline bool next_ = false;
};

}  // namespace linchpin::test
