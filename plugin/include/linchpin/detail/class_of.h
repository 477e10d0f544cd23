// Finds the class of a polymorphic object whose program may have been compiled without RTTI (-fno-rtti). The Itanium
// C++ ABI, which GCC and Clang follow, keeps the type information before the first entry of the virtual table.
#pragma once

#include <type_traits>
#include <typeinfo>

namespace linchpin::detail {

/// The virtual table of the object, which identifies its class with type information or without.
template <class Object>
const void* class_of(const Object& object) {
  static_assert(std::is_polymorphic_v<Object>);
  return *static_cast<const void* const*>(static_cast<const void*>(&object));
}

/// Returns null where the class was compiled without type information. Then dynamic_cast and typeid of the object are
/// not allowed.
template <class Object>
const std::type_info* type_of(const Object& object) {
  return static_cast<const std::type_info*>(static_cast<const void* const*>(class_of(object))[-1]);
}

template <class Class, class Object>
bool is_exactly(const Object& object) {
  const std::type_info* type = type_of(object);
  return type && *type == typeid(Class);
}

}  // namespace linchpin::detail
