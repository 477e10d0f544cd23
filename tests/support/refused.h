// What a set-up call says when it refuses.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>
#include <string>

namespace linchpin::test {

/// The call throws std::invalid_argument or OrderError with `part` in its message.
inline void expect_refused(const std::function<void()>& call, const std::string& part) {
  try {
    call();
    ADD_FAILURE() << "nothing thrown; expected: " << part;
  } catch (const std::logic_error& e) {
    EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what() << "\nexpected: " << part;
  }
}

}  // namespace linchpin::test
