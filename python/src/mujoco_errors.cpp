#include "mujoco_errors.h"

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdio>

namespace nb = nanobind;

// The package `mujoco` takes errors by these functions, too. They concern the calling thread only.
extern "C" {
#if mjVERSION_HEADER >= 3010000
__attribute__((weak)) mjfLogHandler _mjPRIVATE_setTlsLogHandler(mjfLogHandler handler);
__attribute__((weak)) mjfLogHandler _mjPRIVATE_getGlobalLogHandler(void);
#else
__attribute__((weak)) void _mjPRIVATE__set_tls_error_fn(void (*handler)(const char*));
#endif
}

namespace linchpin::python {

namespace {

thread_local std::jmp_buf* target = nullptr;
thread_local std::array<char, 1200> error_text{};

[[noreturn]] void leave() { std::longjmp(*target, 1); }

#if mjVERSION_HEADER >= 3010000

thread_local mjfLogHandler next_handler = nullptr;  // of what is no error

void handle(const mjLogMessage* message) {
  if (message->level != mjLOG_ERROR) {
    if (next_handler) next_handler(message);
    return;
  }
  const char* const where = message->func ? message->func : "";
  std::snprintf(error_text.data(), error_text.size(), "%s%s%s", where, message->func ? ": " : "", message->subject);
  leave();
}

/// Has errors of MuJoCo handled here, as long as it exists.
class Handling {
 public:
  Handling() {
    if (!_mjPRIVATE_setTlsLogHandler) return;
    before_ = _mjPRIVATE_setTlsLogHandler(&handle);
    next_before_ = next_handler;
    next_handler = before_ ? before_ : _mjPRIVATE_getGlobalLogHandler ? _mjPRIVATE_getGlobalLogHandler() : nullptr;
  }
  ~Handling() {
    if (!_mjPRIVATE_setTlsLogHandler) return;
    next_handler = next_before_;
    _mjPRIVATE_setTlsLogHandler(before_);
  }

 private:
  mjfLogHandler before_ = nullptr, next_before_ = nullptr;
#else

void handle(const char* text) {
  std::snprintf(error_text.data(), error_text.size(), "%s", text);
  leave();
}

/// Has errors of MuJoCo handled here, as long as it exists.
class Handling {
 public:
  Handling() {
    if (_mjPRIVATE__set_tls_error_fn) _mjPRIVATE__set_tls_error_fn(&handle);
  }
  ~Handling() {
    if (_mjPRIVATE__set_tls_error_fn) _mjPRIVATE__set_tls_error_fn(nullptr);
  }
#endif
  Handling(const Handling&) = delete;
  Handling& operator=(const Handling&) = delete;
};

/// Returns whether no error was found. It has no object with a destructor.
bool run(void (*work)(void*), void* context, std::jmp_buf& here) {
  if (setjmp(here) != 0) return false;
  work(context);
  return true;
}

}  // namespace

bool runs_without_mujoco_error(void (*work)(void*), void* context) {
  struct Target {
    std::jmp_buf here;
    std::jmp_buf* const before = target;
    Target() { target = &here; }
    ~Target() { target = before; }
    Target(const Target&) = delete;
    Target& operator=(const Target&) = delete;
  } to;
  const Handling handling;
  return run(work, context, to.here);
}

void raise_mujoco_error() {
  if (!PyErr_Occurred()) PyErr_SetString(nb::module_::import_("mujoco").attr("FatalError").ptr(), error_text.data());
  throw nb::python_error();
}

}  // namespace linchpin::python
