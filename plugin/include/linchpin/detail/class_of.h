// Finds the class of a polymorphic object whose program may have been compiled without RTTI (-fno-rtti). The Itanium
// C++ ABI, which GCC and Clang follow, keeps the type information before the first entry of the virtual table.
#pragma once

#include <cstdlib>
#include <memory>
#include <string>
#include <type_traits>
#include <typeinfo>

#if __has_include(<cxxabi.h>)
#include <cxxabi.h>
#endif

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

/// The name of the object's class as its programmer wrote it, where the compiler's library can say so.
template <class Object>
std::string class_name(const Object& object) {
  const std::type_info* const type = type_of(object);
  if (!type) return "a class that was compiled without type information (-fno-rtti)";
#if __has_include(<cxxabi.h>)
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(abi::__cxa_demangle(type->name(), nullptr, nullptr, &status),
                                                    std::free);
  if (status == 0) return name.get();
#endif
  return type->name();
}

}  // namespace linchpin::detail
