// Files in the container format MCAP (mcap.dev/spec), read: the messages of channels in JSON. Chunks must not be
// compressed, as those of McapFile are not.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace linchpin::recording {

/// A message, valid during one call.
struct McapMessage {
  const std::string& topic;                            ///< of its channel
  const std::map<std::string, std::string>& metadata;  ///< of its channel
  std::uint64_t ns = 0;                                ///< time of the recording [ns]
  std::string_view data;                               ///< JSON
};

/// Whether a file begins as MCAP files do.
bool is_mcap(std::string_view bytes);

/// Calls a function with each message in JSON, in the order of the file. It leaves other encodings out.
/// @throws std::invalid_argument for a damaged file and for compressed chunks
void read_mcap(std::string_view bytes, const std::function<void(const McapMessage&)>& visit);

}  // namespace linchpin::recording
