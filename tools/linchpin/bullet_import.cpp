#include "bullet_import.h"

#include "bullet_description.h"
#include "worker_process.h"

#include <fstream>
#include <iterator>
#include <stdexcept>

namespace linchpin::cli {

scene::Imported import_bullet(const std::string& path) {
  // A damaged file is told apart here: Bullet's reader may not come back from it.
  std::ifstream in(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (!in.is_open()) throw std::runtime_error("the file does not exist");
  if (const std::string fault = scene_fault(bytes); !fault.empty()) throw std::runtime_error(fault);
  const WorkerAnswer answer = run_worker("double", {{"describe", path}}, path);
  if (answer.kind != WorkerAnswer::Kind::row) throw std::runtime_error(answer.message);
  return imported_of(answer.row);
}

}  // namespace linchpin::cli
