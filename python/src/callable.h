// A Python function that C++ calls from any thread.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

namespace linchpin::python {

/// Holds a Python function. It is released with the lock of the interpreter.
class Callable {
 public:
  explicit Callable(const nanobind::callable& function) : function_(std::make_shared<Held>(function)) {}

  /// Calls the function and hands its result to `use`. Call it without the lock or with it.
  /// @throws std::runtime_error with the exception of Python as text, which names `what`
  template <class Use, class... Arguments>
  auto operator()(const std::string& what, Use use, Arguments&&... arguments) const {
    const nanobind::gil_scoped_acquire acquire;
    try {
      return use(function_->object(std::forward<Arguments>(arguments)...));
    } catch (const nanobind::python_error& error) {
      if (error.matches(PyExc_KeyboardInterrupt)) PyErr_SetInterrupt();  // PythonSimulation::step() looks for it.
      throw std::runtime_error(what + " raised " + first_lines(error));
    }
  }

 private:
  struct Held {
    explicit Held(const nanobind::callable& function) : object(function) {}
    ~Held() {
      if (!nanobind::is_alive()) {
        (void)object.release();  // The interpreter has ended.
        return;
      }
      const nanobind::gil_scoped_acquire acquire;
      object.reset();
    }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    nanobind::callable object;
  };
  /// "ValueError: text"
  static std::string first_lines(const nanobind::python_error& error) {
    const std::string type = nanobind::cast<std::string>(nanobind::str(error.type().attr("__name__")));
    const std::string text = nanobind::cast<std::string>(nanobind::str(error.value()));
    return text.empty() ? type : type + ": " + text;
  }
  std::shared_ptr<Held> function_;
};

}  // namespace linchpin::python
