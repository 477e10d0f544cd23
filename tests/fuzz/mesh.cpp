// Any bytes as a mesh in each of the formats: points, and the hull of each part, or a MeshError.
#include "fuzz.h"
#include "mesh_file.h"
#include "mesh_hull.h"

#include <array>
#include <string_view>

using namespace linchpin;
using namespace linchpin::scene;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  constexpr std::array readers = {read_stl, read_obj, read_collada};
  for (const auto reader : readers) {
    try {
      for (const MeshPart& part : reader(text)) {
        if (part.points.empty()) continue;  // read_mesh() leaves it out
        for (const Vector3d& p : part.points) fuzz::require(p.allFinite(), "a point that is not finite");
        const auto made = convex_hull(part.points, 20);
        if (!made) continue;
        fuzz::require(made->hull.vertices.size() >= 4 && made->hull.vertices.size() <= 20, "vertices of a hull");
        for (const auto& face : made->hull.faces)
          for (const int i : face)
            fuzz::require(i >= 0 && i < static_cast<int>(made->hull.vertices.size()), "an index of a hull");
      }
    } catch (const MeshError&) {
    }
  }
  return 0;
}
