// Errors of MuJoCo's C code as exceptions of Python.
#pragma once

#include <mujoco/mujoco.h>
#include <nanobind/nanobind.h>

#include <cstddef>

namespace linchpin::python {

/// Runs work(context), in which MuJoCo may find an error, or a callback in Python may raise. MuJoCo itself would end
/// the process. As in the package `mujoco`, longjmp leaves the work then: it must have no object with a destructor
/// while MuJoCo runs. An exception of C++ passes through.
/// @return whether the work came to its end. If not, call raise_mujoco_error() with the lock of the interpreter
bool runs_without_mujoco_error(void (*work)(void*), void* context);
/// The same for a function object.
template <class Work>
bool runs_without_mujoco_error(Work& work) {
  return runs_without_mujoco_error([](void* self) { (*static_cast<Work*>(self))(); }, &work);
}
/// Throws the exception of a callback in Python, or a mujoco.FatalError with the text of the last error in this thread.
[[noreturn]] void raise_mujoco_error();

/// The stack of mjData, which a step that is left at an error keeps occupied. restore() frees it.
class StackOfData {
 public:
  explicit StackOfData(const mjData& data) : top_(static_cast<std::size_t>(data.pstack)), base_(base(data)) {}
  void restore(mjData& data) const {
    data.pstack = static_cast<decltype(data.pstack)>(top_);
    set_base(data, base_);
  }

 private:
  // MuJoCo 2 has no base.
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
