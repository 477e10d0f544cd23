// Sees every allocation of the program: by the sanitizer's hook where there is one, else by standing in for malloc,
// which operator new and Eigen both end in (glibc; elsewhere operator new alone is counted).
#include "allocation_counter.h"

#include <atomic>
#include <cstdlib>
#include <new>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LINCHPIN_TEST_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LINCHPIN_TEST_SANITIZED 1
#endif
#endif

namespace {
thread_local std::size_t allocations = 0;
std::atomic<std::size_t> of_all{0};
void note() {
  ++allocations;
  of_all.fetch_add(1, std::memory_order_relaxed);
}
}  // namespace

#if defined(LINCHPIN_TEST_SANITIZED)

extern "C" int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void*, std::size_t),
                                                         void (*on_free)(const volatile void*));
namespace {
[[maybe_unused]] const int installed = __sanitizer_install_malloc_and_free_hooks(
    [](const volatile void*, std::size_t) { note(); }, [](const volatile void*) {});
}

#elif defined(__GLIBC__)

extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

void* malloc(std::size_t size) noexcept {
  note();
  return __libc_malloc(size);
}
void* calloc(std::size_t count, std::size_t size) noexcept {
  note();
  return __libc_calloc(count, size);
}
void* realloc(void* p, std::size_t size) noexcept {
  note();
  return __libc_realloc(p, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
  note();
  return __libc_memalign(alignment, size);
}
int posix_memalign(void** p, std::size_t alignment, std::size_t size) noexcept {
  note();
  *p = __libc_memalign(alignment, size);
  return *p ? 0 : 12;  // ENOMEM
}
}

#else

void* operator new(std::size_t size) {
  note();
  if (void* p = std::malloc(size)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }

#endif

namespace linchpin::test {

AllocationCounter::AllocationCounter(Of whose) : whose_(whose), before_(now()) {}
std::size_t AllocationCounter::now() const { return whose_ == Of::all_threads ? of_all.load() : allocations; }
std::size_t AllocationCounter::count() const { return now() - before_; }

}  // namespace linchpin::test
