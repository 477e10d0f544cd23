#include "mcap_reader.h"

#include <cstring>
#include <stdexcept>

namespace linchpin::recording {

namespace {

constexpr std::string_view beginning("\x89MCAP0\r\n", 8);
enum RecordCode : unsigned char { of_channel = 4, of_message = 5, of_chunk = 6, end_of_data = 15 };

[[noreturn]] void damaged() { throw std::invalid_argument("the MCAP file is damaged or incomplete"); }

/// The fields of a record, from its beginning.
class Fields {
 public:
  explicit Fields(std::string_view bytes) : left_(bytes) {}
  template <class T>
  T number() {
    T out;
    std::memcpy(&out, take(sizeof out).data(), sizeof out);
    return out;
  }
  std::string_view text() { return take(number<std::uint32_t>()); }
  std::string_view take(std::uint64_t size) {
    if (size > left_.size()) damaged();
    const std::string_view out = left_.substr(0, size);
    left_.remove_prefix(size);
    return out;
  }
  bool empty() const { return left_.empty(); }
  std::string_view rest() const { return left_; }

 private:
  std::string_view left_;
};

struct Channel {
  std::string topic;
  bool json = false;
  std::map<std::string, std::string> metadata;
};

Channel channel_of(Fields& of) {
  Channel out;
  (void)of.number<std::uint16_t>();  // of the schema
  out.topic = of.text();
  out.json = of.text() == "json";
  for (Fields words(of.text()); !words.empty();) {
    const std::string key(words.text());
    out.metadata[key] = words.text();
  }
  return out;
}

class Reader {
 public:
  explicit Reader(const std::function<void(const McapMessage&)>& visit) : visit_(visit) {}

  /// @return whether the data ended
  bool records(std::string_view bytes) {
    for (Fields of(bytes); !of.empty();) {
      const auto code = of.number<unsigned char>();
      const std::string_view content = of.take(of.number<std::uint64_t>());
      if (code == end_of_data) return true;
      record(code, Fields(content));
    }
    return false;
  }

 private:
  void record(unsigned char code, Fields of) {
    if (code == of_channel) {
      const auto id = of.number<std::uint16_t>();
      channels_[id] = channel_of(of);
    } else if (code == of_message) {
      message(of);
    } else if (code == of_chunk) {
      (void)of.take(8 + 8 + 8 + 4);  // times, size, checksum
      if (const std::string_view compression = of.text(); !compression.empty())
        throw std::invalid_argument("the chunks are compressed (" + std::string(compression) +
                                    "). Write the file without compression, for example by \"mcap compress "
                                    "--compression none\"");
      (void)records(of.take(of.number<std::uint64_t>()));
    }
  }

  void message(Fields of) {
    const auto channel = channels_.find(of.number<std::uint16_t>());
    if (channel == channels_.end()) damaged();
    (void)of.number<std::uint32_t>();  // its number
    const auto ns = of.number<std::uint64_t>();
    (void)of.number<std::uint64_t>();  // time at which it was published
    if (channel->second.json) visit_({channel->second.topic, channel->second.metadata, ns, of.rest()});
  }

  const std::function<void(const McapMessage&)>& visit_;
  std::map<std::uint16_t, Channel> channels_;
};

}  // namespace

bool is_mcap(std::string_view bytes) { return bytes.starts_with(beginning); }

void read_mcap(std::string_view bytes, const std::function<void(const McapMessage&)>& visit) {
  if (!is_mcap(bytes)) throw std::invalid_argument("this is no MCAP file");
  bytes.remove_prefix(beginning.size());
  if (!Reader(visit).records(bytes)) damaged();
}

}  // namespace linchpin::recording
