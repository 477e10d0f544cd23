// Errors without C++ exceptions. Every call that throws has a form that does not: a twin with the prefix `try_`, or
// `try_call` around the call. Both return a Result: the value, or an Error with its kind and its text.
//
//     auto rod = exact.try_constrain("rod", {a, b}, distance);
//     if (!rod) std::fprintf(stderr, "%s\n", rod.error().message.c_str());
//
// The forms that throw throw the exception of the kind: std::invalid_argument, OrderError or FileError. Its text is
// the same. Programs that are compiled with -fno-exceptions use the try_ forms.
//
// The classes of this header are values: a copy shares nothing with the original. Different objects can be used by
// different threads at the same time.
#pragma once

#include <linchpin/export.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

namespace linchpin {

/// The kinds of errors, by their exceptions.
enum class ErrorKind {
  none,      ///< There is no error.
  argument,  ///< An argument has a value that the call does not take: std::invalid_argument.
  order,     ///< The call is not possible now, as one on a solver without a world: OrderError.
  file,      ///< A file cannot be read, written or understood: FileError.
  other      ///< A function of the program has thrown, or memory has run out: std::runtime_error.
};

/// A call that is not possible in the present state of its object.
class LINCHPIN_API OrderError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

/// A file that cannot be read, written or understood.
class LINCHPIN_API FileError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Why a call was refused. The text names the thing, the value and what to do.
struct LINCHPIN_API Error {
  ErrorKind kind = ErrorKind::none;  ///< Kind of the error.
  std::string message;               ///< The text.

  /// Throws the exception of the kind. It is compiled in the library, so that headers compile without exceptions. In a
  /// program without a handler it ends the program with the text.
  [[noreturn]] void raise() const;
};

/// The value that a call returns, or the error. It has the functions of std::expected (C++23), which are checked here:
/// value(), * and -> raise the error if there is no value. It owns both. References to them are valid as long as the
/// Result exists and is not assigned.
template <class T>
class [[nodiscard]] Result {
 public:
  /// A result with a value.
  Result(T value) : value_(std::move(value)) {}
  /// A result with an error.
  Result(Error error) : error_(std::move(error)) {}

  bool has_value() const { return value_.has_value(); }   ///< Returns whether there is a value.
  explicit operator bool() const { return has_value(); }  ///< Returns whether there is a value.
  const Error& error() const { return error_; }           ///< Its kind is none if there is a value.

  T& value() & { return checked(), *value_; }               ///< The value. Raises the error if there is none.
  const T& value() const& { return checked(), *value_; }    ///< The constant value. Raises the error if there is none.
  T&& value() && { return checked(), std::move(*value_); }  ///< Moves the value out. Raises the error if there is none.
  T& operator*() & { return value(); }                      ///< Does what value() does.
  const T& operator*() const& { return value(); }           ///< Does what value() does.
  T&& operator*() && { return std::move(*this).value(); }   ///< Does what value() does.
  T* operator->() { return &value(); }  ///< Pointer to the value. Raises the error if there is none.
  /// Pointer to the constant value. Raises the error if there is none.
  const T* operator->() const { return &value(); }

 private:
  void checked() const {
    if (!value_) error_.raise();
  }
  std::optional<T> value_;
  Error error_;
};

/// The outcome of a call that returns nothing.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  /// A result with an error.
  Result(Error error) : error_(std::move(error)) {}

  bool has_value() const { return error_.kind == ErrorKind::none; }  ///< Returns whether the call was successful.
  explicit operator bool() const { return has_value(); }             ///< Returns whether the call was successful.
  const Error& error() const { return error_; }                      ///< Its kind is none if the call was successful.
  /// Raises the error if there is one.
  void value() const {
    if (!has_value()) error_.raise();
  }

 private:
  Error error_;
};

namespace detail {
/// Calls `call(data)`. Returns the error of the exception that it has thrown, or none.
LINCHPIN_API Error error_of(void (*call)(void*), void* data) noexcept;
}  // namespace detail

/// Calls a function that may throw, once and before it returns. @return its value, or the error of the exception. The
/// exception is caught in the library, so that programs without exceptions can use it. In such a program the
/// destructors of objects that the function itself has made do not run.
template <class Call>
auto try_call(Call&& call) noexcept -> Result<std::invoke_result_t<Call&>> {
  using T = std::invoke_result_t<Call&>;
  if constexpr (std::is_void_v<T>) {
    struct Called {
      std::remove_reference_t<Call>& call;
    } called{call};
    return detail::error_of([](void* f) { static_cast<Called*>(f)->call(); }, static_cast<void*>(&called));
  } else {
    struct Made {
      std::remove_reference_t<Call>& call;
      std::optional<T> value;
    } made{call, {}};
    Error error = detail::error_of([](void* m) { static_cast<Made*>(m)->value.emplace(static_cast<Made*>(m)->call()); },
                                   static_cast<void*>(&made));
    if (!made.value) return error;
    return std::move(*made.value);
  }
}

}  // namespace linchpin
