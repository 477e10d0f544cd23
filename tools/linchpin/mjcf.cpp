#include "mjcf.h"

#include "messages.h"
#include "mjcf_scene.h"
#include "worker_process.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string_view>

namespace linchpin::cli {

namespace {

// The name of the first element of a text in XML. Empty where the text begins otherwise.
std::string_view root_element(std::string_view text) {
  constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
  if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
  for (;;) {
    text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
    std::string_view end;
    if (text.starts_with("<!--"))
      end = "-->";
    else if (text.starts_with("<?"))
      end = "?>";
    else if (text.starts_with("<!"))
      end = ">";
    else
      break;
    const std::size_t at = text.find(end);
    if (at == std::string_view::npos) return {};
    text.remove_prefix(at + end.size());
  }
  if (!text.starts_with("<")) return {};
  text.remove_prefix(1);
  return text.substr(0, text.find_first_of(" \t\r\n/>"));
}

Json& scenes() {
  static Json all = Json::object();
  return all;
}

}  // namespace

bool is_mjcf(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return false;
  // Comments in front of the root are seldom longer.
  std::string text(1 << 16, '\0');
  std::ifstream in(path, std::ios::binary);
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  return root_element(text) == "mujoco";
}

std::optional<MjcfFile> open_mjcf(const std::string& path) {
  const WorkerAnswer answer = run_worker(Engine::mujoco, {{"describe", path}}, path);
  switch (answer.kind) {
    case WorkerAnswer::Kind::row: {
      for (const Json& each : answer.row.value("warnings", Json::array())) std::cerr << each.get<std::string>() << "\n";
      MjcfFile out;
      out.dt = answer.row.at("dt").get<double>();
      out.duration = answer.row.value("duration", out.duration);
      return out;
    }
    case WorkerAnswer::Kind::toml:
      std::cerr << answer.message << "\n";
      return {};
    case WorkerAnswer::Kind::missing:
      throw std::invalid_argument(answer.message);
    default:
      break;
  }
  std::string text;
  if (read_file(path, text)) complain(path, text, answer.message);
  return {};
}

scene::MjcfScene import_mjcf(const std::string& path) {
  Json& all = scenes();
  if (!all.contains(path)) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(path, error)) throw std::runtime_error("does not exist");
    const WorkerAnswer answer = run_worker(Engine::mujoco, {{"convert", path}}, path);
    if (answer.kind != WorkerAnswer::Kind::row) throw std::runtime_error(answer.message);
    all[path] = answer.row;
  }
  return mjcf_scene_of(all[path]);
}

const Json& imported_mjcf() { return scenes(); }

}  // namespace linchpin::cli
