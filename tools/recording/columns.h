// The columns of a recording as JSON: the format is docs/how-to/reports.md.
#pragma once

#include <linchpin/recording.h>

#include <nlohmann/json.hpp>

#include <cstddef>

namespace linchpin::recording {

struct Columns {
  /// Of one run, little-endian in base64; by value, because its last state may still have no forces.
  static nlohmann::ordered_json json(Recording r);

 private:
  static bool stays(const Recording& r, std::size_t link, nlohmann::ordered_json& at);
};

}  // namespace linchpin::recording
