// Prefetching for adapters: the bodies and joints of a host are spread over the memory.
#pragma once

#include <cstddef>

namespace linchpin::detail {

/// Prefetches an object that is read or written soon. The address need not be valid.
inline void prefetch(const void* at, std::size_t bytes) {
#if defined(__GNUC__)
  constexpr std::size_t line = 64;
  const char* const first = static_cast<const char*>(at);
  for (std::size_t i = 0; i < bytes; i += line) __builtin_prefetch(first + i);
  if (bytes > 1) __builtin_prefetch(first + bytes - 1);
#else
  static_cast<void>(at), static_cast<void>(bytes);
#endif
}

/// Prefetches a part of an object that may be gone, which has the place that it has in another object of its class.
template <class Object>
void prefetch_part(const Object* object, const Object& other, const void* part_of_other, std::size_t bytes) {
  const auto offset =
      static_cast<const char*>(part_of_other) - static_cast<const char*>(static_cast<const void*>(&other));
  prefetch(static_cast<const char*>(static_cast<const void*>(object)) + offset, bytes);
}

}  // namespace linchpin::detail
