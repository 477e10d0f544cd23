#include "ranks.h"

#include "messages.h"
#include "worker_process.h"

#include <dlfcn.h>

#include <stdexcept>

namespace linchpin::cli {

Ranks::Ranks() {
  std::string looked;
  const std::string file = find_worker("linchpin-mpi.so", looked);
  if (file.empty())
    throw std::invalid_argument("--mpi: this linchpin was built without MPI (looked for " + looked +
                                "; Debian: libopenmpi-dev). --shard works without MPI");
  // MPI loads parts of itself later, which look for its names among all.
  void* module = ::dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (module) calls_ = static_cast<const RankCalls*>(::dlsym(module, "linchpin_ranks"));
  if (!calls_) throw std::invalid_argument("--mpi: \"" + file + "\" cannot be loaded: " + ::dlerror());
  calls_->start(&rank_, &size_);
}

Ranks::~Ranks() {
  if (!done_ && size_ > 1) calls_->abort_all(exit_usage);
  calls_->finish();
}

void Ranks::send(int to, const std::string& text) const {
  calls_->send(to, text.data(), static_cast<int>(text.size()));
}

std::string Ranks::take(int from, int size) const {
  std::string text(static_cast<std::size_t>(size), '\0');
  calls_->receive(from, text.data(), size);
  return text;
}

std::string Ranks::receive(int from) const {
  int source = from;
  const int size = calls_->probe(from, 1, &source);
  return take(source, size);
}

std::optional<std::pair<int, std::string>> Ranks::poll() const {
  int source = -1;
  const int size = calls_->probe(-1, 0, &source);
  if (size < 0) return {};
  return std::pair(source, take(source, size));
}

}  // namespace linchpin::cli
