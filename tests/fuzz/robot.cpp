// Any bytes as a robot's URDF file. Robots are read from files, so there is one, overwritten for each input.
#include "read_as.h"

#include <filesystem>
#include <fstream>
#include <string>

#include <unistd.h>

namespace {

struct File {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("fuzz-" + std::to_string(::getpid()) + ".urdf");
  ~File() {
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const File file;
  std::ofstream(file.path, std::ios::binary).write(reinterpret_cast<const char*>(data), static_cast<long>(size));
  fuzz::read_as([] { return linchpin::scene::load(file.path.string()); });
  return 0;
}
