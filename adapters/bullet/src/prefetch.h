// Asks the memory for bodies and joints before they are read: they lie all over it.
#pragma once

#include <btBulletDynamicsCommon.h>

#include <array>
#include <cstddef>

namespace linchpin::bullet {
inline namespace LINCHPIN_BULLET_PRECISION {

inline void prefetch(const void* at, std::size_t bytes) {
#if defined(__GNUC__)
  constexpr std::size_t line = 64;
  const char* const first = static_cast<const char*>(at);
  for (std::size_t i = 0; i < bytes; i += line) __builtin_prefetch(first + i);
  __builtin_prefetch(first + bytes - 1);
#else
  static_cast<void>(at), static_cast<void>(bytes);
#endif
}

/// All that BodyTable::watch() reads of a body. The body may be gone by now, so its accessors are not called: the
/// places of its members are found from a body that exists.
inline void prefetch_body(const btRigidBody* body) {
  static const auto places = [] {
    const btRigidBody& any = btTypedConstraint::getFixedBody();
    const auto at = [&](const void* part) {
      return static_cast<const char*>(part) - static_cast<const char*>(static_cast<const void*>(&any));
    };
    return std::array{at(&any.getWorldTransform()), at(&any.getAnisotropicFriction()), at(&any.getLinearVelocity()),
                      at(&any.getAngularFactor()) - std::ptrdiff_t{3 * sizeof(btVector3)}};
  }();
  const char* const first = static_cast<const char*>(static_cast<const void*>(body));
  prefetch(first + places[0], sizeof(btTransform));
  prefetch(first + places[1], 7 * sizeof(btVector3));  // to flags, kind and thresholds
  prefetch(first + places[2], 9 * sizeof(btVector3));  // to loads
  prefetch(first + places[3], 4 * sizeof(btVector3));  // with flags
}

}  // namespace LINCHPIN_BULLET_PRECISION
}  // namespace linchpin::bullet
