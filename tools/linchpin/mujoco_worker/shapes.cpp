#include "shapes.h"

#include "versions.h"

#include <algorithm>

namespace linchpin::mujoco_worker {

namespace {

using Shape = recording::VisualShape;

// Recordings have the long axis of a capsule along y, MuJoCo has it along z.
const Quaterniond y_along_z(Eigen::AngleAxisd(EIGEN_PI / 2, Vector3d::UnitX()));

void add_mesh(const mjModel& m, int mesh, Shape& out, Vector3d& centre) {
  constexpr int most = 5000;  // vertices, of a page that opens quickly
  const int first = m.mesh_vertadr[mesh], count = m.mesh_vertnum[mesh];
  Vector3d least = Vector3d::Constant(1e300), largest = -least;
  const auto vertex = [&](int i) {
    const float* const x = m.mesh_vert + 3 * (first + i);
    return Vector3d(double(x[0]), double(x[1]), double(x[2]));
  };
  for (int i = 0; i < count; ++i) {
    least = least.cwiseMin(vertex(i));
    largest = largest.cwiseMax(vertex(i));
  }
  centre = 0.5 * (least + largest);
  out.size = largest - least;
  out.kind = count > most ? Shape::Kind::box : Shape::Kind::hull;
  if (out.kind == Shape::Kind::box) return;
  for (int i = 0; i < count; ++i) out.vertices.push_back(vertex(i) - centre);
  for (int f = m.mesh_faceadr[mesh]; f < m.mesh_faceadr[mesh] + m.mesh_facenum[mesh]; ++f)
    out.triangles.push_back({m.mesh_face[3 * f], m.mesh_face[3 * f + 1], m.mesh_face[3 * f + 2]});
}

}  // namespace

std::vector<recording::PlacedVisualShape> shapes_of(const mjModel& m, int body) {
  std::vector<recording::PlacedVisualShape> out;
  const int first = m.body_geomadr[body], end = first + m.body_geomnum[body];
  const auto shown = [&](int geom) { return m.geom_group[geom] < visible_groups; };
  bool any = false;
  for (int i = first; i < end; ++i) any = any || shown(i);
  for (int i = first; i < end; ++i) {
    if (any && !shown(i)) continue;
    recording::PlacedVisualShape each;
    Shape& shape = each.shape;
    const Vector3d size = vector3(m.geom_size + 3 * i);
    Vector3d centre = Vector3d::Zero();
    Quaterniond turn = Quaterniond::Identity();
    switch (m.geom_type[i]) {
      case mjGEOM_SPHERE:
        shape.kind = Shape::Kind::sphere, shape.size = {size.x(), 0, 0};
        break;
      case mjGEOM_CAPSULE:
      case mjGEOM_CYLINDER:
        shape.kind = m.geom_type[i] == mjGEOM_CAPSULE ? Shape::Kind::capsule : Shape::Kind::cylinder;
        shape.size = {size.x(), 2 * size.y(), 0};
        turn = y_along_z;
        break;
      case mjGEOM_BOX:
      case mjGEOM_ELLIPSOID:
        shape.kind = Shape::Kind::box, shape.size = 2 * size;
        break;
      case mjGEOM_MESH:
        if (m.geom_dataid[i] < 0) continue;
        add_mesh(m, m.geom_dataid[i], shape, centre);
        break;
      default:  // planes, height fields
        continue;
    }
    const Quaterniond q = quaternion(m.geom_quat + 4 * i);
    each.position = vector3(m.geom_pos + 3 * i) + q * centre - vector3(m.body_ipos + 3 * body);
    each.turn = (q * turn).normalized();
    out.push_back(std::move(each));
  }
  return out;
}

}  // namespace linchpin::mujoco_worker
