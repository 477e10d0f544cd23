#include <linchpin/error.h>

#include <new>

namespace linchpin {

void Error::raise() const {
  switch (kind) {
    case ErrorKind::argument:
      throw std::invalid_argument(message);
    case ErrorKind::order:
      throw OrderError(message);
    case ErrorKind::file:
      throw FileError(message);
    case ErrorKind::none:
    case ErrorKind::other:
      break;
  }
  throw std::runtime_error(message);
}

namespace detail {

namespace {

// Copies of a text may need memory that is not there.
Error error_with(ErrorKind kind, const char* text) noexcept {
  try {
    return {kind, text};
  } catch (...) {
    return {kind, "no memory"};  // short enough to need none
  }
}

}  // namespace

Error error_of(void (*call)(void*), void* data) noexcept {
  try {
    call(data);
    return {};
  } catch (const std::invalid_argument& e) {
    return error_with(ErrorKind::argument, e.what());
  } catch (const std::out_of_range& e) {
    return error_with(ErrorKind::argument, e.what());
  } catch (const OrderError& e) {
    return error_with(ErrorKind::order, e.what());
  } catch (const FileError& e) {
    return error_with(ErrorKind::file, e.what());
  } catch (const std::exception& e) {
    return error_with(ErrorKind::other, e.what());
  } catch (...) {
    return error_with(ErrorKind::other, "a function of the program threw an object that is not a std::exception");
  }
}

}  // namespace detail

}  // namespace linchpin
