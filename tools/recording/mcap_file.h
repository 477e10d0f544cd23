// The container format MCAP (mcap.dev/spec), written: chunks without compression, message indexes, a summary. Knows
// nothing of what the messages say.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace linchpin::recording {

class McapFile {
 public:
  using Words = std::map<std::string, std::string>;

  explicit McapFile(const std::string& library);
  /// @return its id. @param data  of the schema, a JSON Schema
  std::uint16_t schema(const std::string& name, const std::string& data);
  /// Of messages in JSON. @throws std::invalid_argument when there are more than the format can number.
  std::uint16_t channel(std::uint16_t schema, const std::string& topic, const Words& metadata);
  /// @param ns  time of the recording, not before that of the last message [ns]
  void message(std::uint16_t channel, std::uint64_t ns, std::string_view json);
  void metadata(const std::string& name, const Words& words);
  /// The whole file; nothing can be added to it.
  std::string finish();

 private:
  struct Chunk {
    std::uint64_t first = 0, last = 0, start = 0, length = 0, size = 0, index_length = 0;
    std::map<std::uint16_t, std::uint64_t> indexes;  // by channel: where its index is in the file
  };
  void end_chunk();
  std::string out_, chunk_, schemas_, channels_, metadata_index_;
  std::uint16_t schema_count_ = 0, channel_count_ = 0;
  std::uint32_t metadata_count_ = 0;
  std::vector<Chunk> chunks_;
  Chunk now_;
  std::map<std::uint16_t, std::string> index_;  // of the chunk: by channel, its entries
  std::map<std::uint16_t, std::uint64_t> counts_;
  std::uint64_t first_ = 0, last_ = 0;
};

}  // namespace linchpin::recording
