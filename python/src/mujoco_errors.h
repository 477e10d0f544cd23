// Errors of MuJoCo's C code as exceptions.
#pragma once

#include <mujoco/mujoco.h>

#include <cstddef>
#include <stdexcept>
#include <string>

// The package `mujoco` takes errors by these functions, too. They concern the calling thread only. Without one of them
// MuJoCo ends the process at an error.
extern "C" {
#if mjVERSION_HEADER >= 3010000
__attribute__((weak)) mjfLogHandler _mjPRIVATE_setTlsLogHandler(mjfLogHandler handler);
__attribute__((weak)) mjfLogHandler _mjPRIVATE_getGlobalLogHandler(void);
#else
__attribute__((weak)) void _mjPRIVATE__set_tls_error_fn(void (*handler)(const char*));
#endif
}

namespace linchpin::python {

/// An error that MuJoCo has found, or the exception of a callback in Python, which is then set in this thread.
struct MujocoError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// While it exists, an error of MuJoCo in this thread throws a MujocoError. MuJoCo's C code has tables for unwinding.
class MujocoErrorsAreThrown {
 public:
#if mjVERSION_HEADER >= 3010000
  MujocoErrorsAreThrown() {
    if (_mjPRIVATE_setTlsLogHandler) before_ = _mjPRIVATE_setTlsLogHandler(&handle);
    next() = before_ ? before_ : _mjPRIVATE_getGlobalLogHandler ? _mjPRIVATE_getGlobalLogHandler() : nullptr;
  }
  ~MujocoErrorsAreThrown() {
    if (_mjPRIVATE_setTlsLogHandler) _mjPRIVATE_setTlsLogHandler(before_);
  }

 private:
  static mjfLogHandler& next() {
    static thread_local mjfLogHandler handler = nullptr;
    return handler;
  }
  static void handle(const mjLogMessage* message) {
    if (message->level == mjLOG_ERROR)
      throw MujocoError((message->func ? std::string(message->func) + ": " : std::string()) + message->subject);
    if (next()) next()(message);
  }
  mjfLogHandler before_ = nullptr;

 public:
#else
  MujocoErrorsAreThrown() {
    if (_mjPRIVATE__set_tls_error_fn) _mjPRIVATE__set_tls_error_fn([](const char* text) { throw MujocoError(text); });
  }
  ~MujocoErrorsAreThrown() {
    if (_mjPRIVATE__set_tls_error_fn) _mjPRIVATE__set_tls_error_fn(nullptr);
  }
#endif
  MujocoErrorsAreThrown(const MujocoErrorsAreThrown&) = delete;
  MujocoErrorsAreThrown& operator=(const MujocoErrorsAreThrown&) = delete;
};

/// The memory of a step in mjData, which an exception leaves occupied. restore() frees it.
class StackOfData {
 public:
  explicit StackOfData(const mjData& data) : top_(top(data)), base_(base(data)) {}
  void restore(mjData& data) const {
    data.pstack = static_cast<decltype(data.pstack)>(top_);
    set_base(data, base_);
  }

 private:
  static std::size_t top(const mjData& data) { return static_cast<std::size_t>(data.pstack); }
  template <class Data>
  static std::size_t base(const Data& data) {
    if constexpr (requires { data.pbase; })
      return data.pbase;
    else
      return 0;
  }
  template <class Data>
  static void set_base(Data& data, std::size_t value) {
    if constexpr (requires { data.pbase; }) data.pbase = value;
  }
  std::size_t top_, base_;
};

}  // namespace linchpin::python
