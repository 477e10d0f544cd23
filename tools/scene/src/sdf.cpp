// SDF files, by the module linchpin-sdf.so. It is loaded with the first SDF file, because libsdformat takes 60 ms to
// load.
#include "robot_file.h"

#if LINCHPIN_SDF
#include "sdf_module.h"

#include <dlfcn.h>

#include <string_view>
#endif

namespace linchpin::scene {

#if !LINCHPIN_SDF

RobotFile read_sdf(const std::string&, const std::string&, const Place& from, std::size_t) {
  fail(from,
       "this linchpin was built without SDF: build it where libsdformat is (Debian: libsdformat-dev; scripts/setup "
       "--sdf)");
}

#else

namespace {

// The loader looks in the RUNPATH of the program or the library that contains this function, in LD_LIBRARY_PATH and in
// the folders of the system. The module stays loaded.
const SdfModule& sdf_module(const Place& from) {
  static constexpr const char* file = "linchpin-sdf.so";
  void* module = ::dlopen(file, RTLD_NOW | RTLD_LOCAL);
  const auto* calls = module ? static_cast<const SdfModule*>(::dlsym(module, "linchpin_sdf")) : nullptr;
  if (!calls)
    fail(from, "SDF files are read by the module " + std::string(file) + ", which cannot be loaded: " + ::dlerror() +
                   ". It is installed in the folder of linchpin's libraries. Add this folder to LD_LIBRARY_PATH");
  if (std::string_view(calls->version) != LINCHPIN_VERSION)
    fail(from, "SDF files are read by the module " + std::string(file) + ", which has the version " + calls->version +
                   ", but this linchpin has " LINCHPIN_VERSION ". Install both from one build");
  return *calls;
}

}  // namespace

RobotFile read_sdf(const std::string& text, const std::string& path, const Place& from, std::size_t mesh_hulls) {
  return sdf_module(from).read(text, path, mesh_hulls);
}

#endif

}  // namespace linchpin::scene
