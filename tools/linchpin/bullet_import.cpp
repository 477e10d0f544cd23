#include "bullet_import.h"

#include "bullet_description.h"
#include "worker_process.h"

#include <stdexcept>

namespace linchpin::cli {

scene::Imported import_bullet(const std::string& path) {
  require_bullet_scene(path);
  const WorkerAnswer answer = run_worker(Engine::bullet_float64, {{"describe", path}}, path);
  if (answer.kind != WorkerAnswer::Kind::row) throw std::runtime_error(answer.message);
  return imported_of(answer.row);
}

}  // namespace linchpin::cli
