#include "motion.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <stdexcept>

namespace linchpin::recording {

namespace {

using Json = nlohmann::ordered_json;

std::string from_base64(const std::string& text, const char* name) {
  static const std::array<int, 256> values = [] {
    std::array<int, 256> out;
    out.fill(-1);
    int n = 0;
    for (const char c : std::string("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"))
      out[static_cast<unsigned char>(c)] = n++;
    return out;
  }();
  std::string out;
  out.reserve(text.size() / 4 * 3);
  unsigned word = 0;
  int bits = 0;
  for (const char c : text) {
    if (c == '=') break;
    const int value = values[static_cast<unsigned char>(c)];
    if (value < 0) throw std::runtime_error(std::string("column ") + name + " is damaged");
    word = word << 6 | static_cast<unsigned>(value);
    bits += 6;
    if (bits >= 8) out += static_cast<char>(word >> (bits -= 8) & 0xff);
  }
  return out;
}

template <class T>
std::vector<double> column(const Json& columns, const char* name, std::size_t size, double scale = 1) {
  const std::string bytes = from_base64(columns.at(name).get<std::string>(), name);
  if (bytes.size() != size * sizeof(T))
    throw std::runtime_error(std::string("column ") + name + " has " + std::to_string(bytes.size()) +
                             " bytes, expected " + std::to_string(size * sizeof(T)));
  std::vector<T> raw(size);
  if (size > 0) std::memcpy(raw.data(), bytes.data(), bytes.size());
  std::vector<double> out(size);
  std::transform(raw.begin(), raw.end(), out.begin(), [scale](T x) { return static_cast<double>(x) * scale; });
  return out;
}

}  // namespace

Motion::Motion(const Json& json) : frames(json.at("frames").get<std::size_t>()), full(json.contains("full")) {
  std::vector<std::string> names;
  for (const Json& each : json.at("bodies")) {
    Body body{each.at("name"), each.at("kind"), {}, {}, {}};
    names.push_back(body.name);
    if (body.kind == "coordinate") {
      body.unit = each.at("unit");
      coordinates.push_back(std::move(body));
      continue;
    }
    body.shape = each.at("shape");
    body.size = each.at("size").get<std::vector<double>>();
    if (body.size.size() != 3) throw std::runtime_error("a body's size is " + each.at("size").dump());
    bodies.push_back(std::move(body));
  }
  for (const Json& each : json.at("constraints")) {
    Link link{each.at("name"), each.at("unit"), {}};
    const auto of = each.at("bodies").get<std::vector<long>>();
    const auto on = each.at("on").get<std::size_t>();
    if (on < of.size() && of[on] >= 0 && static_cast<std::size_t>(of[on]) < names.size())
      link.on = names[static_cast<std::size_t>(of[on])];
    links.push_back(std::move(link));
  }
  for (const Json& each : json.at("signals")) signals.push_back({each.at("name"), each.at("unit")});

  // A frame costs at least its time, so that a number of frames that was made up is found before room is asked for.
  const Json& columns = json.at(full ? "full" : "columns");
  if (columns.at("t").get_ref<const std::string&>().size() / 4 < frames)
    throw std::runtime_error("column t is shorter than " + std::to_string(frames) + " frames");
  if (!full) {
    t = column<float>(columns, "t", frames);
    position = column<float>(columns, "position", 3 * frames * bodies.size());
    turn = column<std::int16_t>(columns, "turn", 4 * frames * bodies.size(), 1 / 32767.0);
    coordinate = column<float>(columns, "coordinate", 2 * frames * coordinates.size());
  } else {
    const auto doubles = [&](const char* name, std::size_t width) {
      return column<double>(columns, name, width * frames);
    };
    t = doubles("t", 1);
    position = doubles("position", 3 * bodies.size());
    turn = doubles("turn", 4 * bodies.size());
    coordinate = doubles("coordinate", 2 * coordinates.size());
    gap = doubles("gap", links.size());
    if (columns.contains("energy")) energy = doubles("energy", 1);
    for (const auto& [name, wide] :
         {std::pair("force", &force), std::pair("moment", &moment), std::pair("place", &place)})
      *wide = doubles(name, 3 * links.size());
    for (const auto& [name, narrow] :
         {std::pair("ideal", &ideal), std::pair("nonideal", &nonideal), std::pair("stabilisation", &stabilisation)})
      *narrow = doubles(name, links.size());
    signal = doubles("signal", signals.size());
  }
}

std::string run_name(const Json& solvers, std::size_t which) {
  const auto name = solvers.at(which).at("name").get<std::string>();
  const auto same = std::count_if(solvers.begin(), solvers.end(), [&](const Json& s) { return s.at("name") == name; });
  return same < 2 ? name : name + ", " + solvers.at(which).at("precision").get<std::string>();
}

}  // namespace linchpin::recording
