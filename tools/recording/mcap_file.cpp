#include "mcap_file.h"

#include <array>
#include <bit>
#include <limits>
#include <stdexcept>

namespace linchpin::recording {

namespace {

static_assert(std::endian::native == std::endian::little, "numbers are written as they lie in memory");

// Of the format.
enum Code : unsigned char {
  header = 1,
  footer,
  schema_code,
  channel_code,
  message_code,
  chunk_code,
  message_index,
  chunk_index,
  attachment,
  attachment_index,
  statistics,
  metadata_code,
  metadata_index,
  summary_offset,
  data_end
};
constexpr std::string_view magic("\x89MCAP0\r\n", 8);
// Readers take a chunk at a time.
constexpr std::size_t chunk_size = 1 << 20;

template <class T>
void put(std::string& out, T x) {
  out.append(reinterpret_cast<const char*>(&x), sizeof x);
}
void put_text(std::string& out, std::string_view text) {
  put(out, static_cast<std::uint32_t>(text.size()));
  out += text;
}
void put_words(std::string& out, const McapFile::Words& words) {
  std::string all;
  for (const auto& [key, value] : words) put_text(all, key), put_text(all, value);
  put_text(out, all);
}
void put_numbers(std::string& out, const std::map<std::uint16_t, std::uint64_t>& numbers) {
  std::string all;
  for (const auto& [key, value] : numbers) put(all, key), put(all, value);
  put_text(out, all);
}
void put_record(std::string& out, Code code, std::string_view content) {
  put(out, code);
  put(out, static_cast<std::uint64_t>(content.size()));
  out += content;
}

// CRC-32 as of zip and PNG.
std::uint32_t crc32(std::string_view bytes) {
  static const auto table = [] {
    std::array<std::uint32_t, 256> out;
    for (std::uint32_t n = 0; n < 256; ++n) {
      std::uint32_t c = n;
      for (int k = 0; k < 8; ++k) c = c & 1 ? 0xedb88320u ^ c >> 1 : c >> 1;
      out[n] = c;
    }
    return out;
  }();
  std::uint32_t c = 0xffffffffu;
  for (const char byte : bytes) c = table[(c ^ static_cast<unsigned char>(byte)) & 0xff] ^ c >> 8;
  return c ^ 0xffffffffu;
}

}  // namespace

McapFile::McapFile(const std::string& library) : out_(magic) {
  std::string content;
  put_text(content, "");  // of no profile
  put_text(content, library);
  put_record(out_, header, content);
}

std::uint16_t McapFile::schema(const std::string& name, const std::string& data) {
  std::string content;
  put(content, ++schema_count_);
  put_text(content, name);
  put_text(content, "jsonschema");
  put_text(content, data);
  put_record(schemas_, schema_code, content);
  put_record(chunk_, schema_code, content);
  return schema_count_;
}

std::uint16_t McapFile::channel(std::uint16_t schema, const std::string& topic, const Words& metadata) {
  if (channel_count_ == std::numeric_limits<std::uint16_t>::max())
    throw std::invalid_argument("an MCAP file can have at most 65535 channels, but this run needs more");
  std::string content;
  put(content, ++channel_count_);
  put(content, schema);
  put_text(content, topic);
  put_text(content, "json");
  put_words(content, metadata);
  put_record(channels_, channel_code, content);
  put_record(chunk_, channel_code, content);
  return channel_count_;
}

void McapFile::message(std::uint16_t channel, std::uint64_t ns, std::string_view json) {
  if (index_.empty()) now_.first = ns;
  if (counts_.empty()) first_ = ns;
  now_.last = last_ = ns;
  put(index_[channel], ns);
  put(index_[channel], static_cast<std::uint64_t>(chunk_.size()));
  std::string content;
  put(content, channel);
  put(content, static_cast<std::uint32_t>(counts_[channel]++));
  put(content, ns);
  put(content, ns);
  content += json;
  put_record(chunk_, message_code, content);
  if (chunk_.size() > chunk_size) end_chunk();
}

void McapFile::end_chunk() {
  if (chunk_.empty()) return;
  now_.start = out_.size();
  now_.size = chunk_.size();
  std::string content;
  put(content, now_.first);
  put(content, now_.last);
  put(content, now_.size);
  put(content, crc32(chunk_));
  put_text(content, "");  // not compressed
  put(content, now_.size);
  content += chunk_;
  put_record(out_, chunk_code, content);
  now_.length = out_.size() - now_.start;
  for (const auto& [channel, entries] : index_) {
    now_.indexes[channel] = out_.size();
    content.clear();
    put(content, channel);
    put_text(content, entries);
    put_record(out_, message_index, content);
  }
  now_.index_length = out_.size() - now_.start - now_.length;
  chunks_.push_back(std::move(now_));
  now_ = {};
  index_.clear();
  chunk_.clear();
}

void McapFile::metadata(const std::string& name, const Words& words) {
  end_chunk();
  const std::uint64_t at = out_.size();
  std::string content;
  put_text(content, name);
  put_words(content, words);
  put_record(out_, metadata_code, content);
  content.clear();
  put(content, at);
  put(content, out_.size() - at);
  put_text(content, name);
  put_record(metadata_index_, metadata_index, content);
  ++metadata_count_;
}

std::string McapFile::finish() {
  end_chunk();
  std::string content;
  put(content, crc32(out_));
  put_record(out_, data_end, content);

  const std::uint64_t summary = out_.size();
  std::string offsets;
  const auto group = [&](Code code, const std::string& records) {
    if (records.empty()) return;
    content.clear();
    put(content, code);
    put(content, static_cast<std::uint64_t>(out_.size()));
    put(content, static_cast<std::uint64_t>(records.size()));
    put_record(offsets, summary_offset, content);
    out_ += records;
  };
  group(schema_code, schemas_);
  group(channel_code, channels_);
  std::uint64_t messages = 0;
  for (const auto& [channel, count] : counts_) messages += count;
  std::string numbers, records;
  put(numbers, messages);
  put(numbers, schema_count_);
  put(numbers, static_cast<std::uint32_t>(channel_count_));
  put(numbers, std::uint32_t{0});  // attachments
  put(numbers, metadata_count_);
  put(numbers, static_cast<std::uint32_t>(chunks_.size()));
  put(numbers, first_);
  put(numbers, last_);
  put_numbers(numbers, counts_);
  put_record(records, statistics, numbers);
  group(statistics, records);
  records.clear();
  for (const Chunk& chunk : chunks_) {
    content.clear();
    for (const std::uint64_t x : {chunk.first, chunk.last, chunk.start, chunk.length}) put(content, x);
    put_numbers(content, chunk.indexes);
    put(content, chunk.index_length);
    put_text(content, "");
    put(content, chunk.size);
    put(content, chunk.size);
    put_record(records, chunk_index, content);
  }
  group(chunk_index, records);
  group(metadata_index, metadata_index_);
  const std::uint64_t offsets_at = out_.size();
  out_ += offsets;

  // The sum of the summary covers the footer up to itself.
  put(out_, footer);
  put(out_, std::uint64_t{8 + 8 + 4});
  put(out_, summary);
  put(out_, offsets_at);
  put(out_, crc32(std::string_view(out_).substr(summary)));
  return std::move(out_ += magic);
}

}  // namespace linchpin::recording
