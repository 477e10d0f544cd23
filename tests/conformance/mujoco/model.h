// A MuJoCo model with its data, made from MJCF text or from a file of tests/models/mujoco.
#pragma once

#include <linchpin/mujoco.h>

#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace linchpin::test {

struct FreeModel {
  void operator()(mjModel* m) const { mj_deleteModel(m); }
};
struct FreeData {
  void operator()(mjData* d) const { mj_deleteData(d); }
};
using ModelPointer = std::unique_ptr<mjModel, FreeModel>;
using DataPointer = std::unique_ptr<mjData, FreeData>;

/// @throws std::runtime_error with MuJoCo's message
inline ModelPointer load_file(const std::string& path, const mjVFS* vfs = nullptr) {
  char error[1000] = "";
  ModelPointer m(mj_loadXML(path.c_str(), vfs, error, sizeof error));
  if (!m) throw std::runtime_error("MuJoCo: " + path + ": " + error);
  return m;
}

/// @throws as load_file()
inline ModelPointer load_text(const std::string& xml) {
  const auto vfs = std::make_unique<mjVFS>();
  mj_defaultVFS(vfs.get());
#if mjVERSION_HEADER >= 310
  mj_addBufferVFS(vfs.get(), "model.xml", xml.data(), static_cast<int>(xml.size()));
#else
  mj_makeEmptyFileVFS(vfs.get(), "model.xml", static_cast<int>(xml.size()));
  std::memcpy(vfs->filedata[mj_findFileVFS(vfs.get(), "model.xml")], xml.data(), xml.size());
#endif
  ModelPointer m = load_file("model.xml", vfs.get());
  mj_deleteVFS(vfs.get());
  return m;
}

/// A model and its data.
struct Model {
  ModelPointer model;
  DataPointer data;
  explicit Model(ModelPointer from) : model(std::move(from)), data(mj_makeData(model.get())) {}
  explicit Model(const std::string& xml) : Model(load_text(xml)) {}
  /// A file of tests/models/mujoco.
  static Model of_file(const std::string& name) {
    return Model(load_file(std::string(LINCHPIN_SOURCE_DIR) + "/tests/models/mujoco/" + name));
  }
  mjModel& m() const { return *model; }
  mjData& d() const { return *data; }
  /// The number of a named object. @throws std::invalid_argument
  int id(int type, const std::string& name) const {
    const int found = mj_name2id(model.get(), type, name.c_str());
    if (found < 0) throw std::invalid_argument("the model has no object '" + name + "'");
    return found;
  }
  int body(const std::string& name) const { return id(mjOBJ_BODY, name); }
  int joint(const std::string& name) const { return id(mjOBJ_JOINT, name); }
  int site(const std::string& name) const { return id(mjOBJ_SITE, name); }
  int qpos(const std::string& joint_name) const { return model->jnt_qposadr[joint(joint_name)]; }
  int dof(const std::string& joint_name) const { return model->jnt_dofadr[joint(joint_name)]; }
  Vector3d position(const std::string& of_body) const {
    const mjtNum* const x = data->xpos + 3 * body(of_body);
    return {x[0], x[1], x[2]};
  }
  Vector3d site_position(const std::string& name) const {
    const mjtNum* const x = data->site_xpos + 3 * site(name);
    return {x[0], x[1], x[2]};
  }
};

/// Switches an equality, which is in the data since MuJoCo 3.
template <class M, class D>
void set_active(M& m, D& d, int equality, bool on) {
  if constexpr (requires { d.eq_active; })
    d.eq_active[equality] = on;
  else
    m.eq_active[equality] = on;
}
template <class M, class D>
bool is_active(const M& m, const D& d, int equality) {
  if constexpr (requires { d.eq_active; })
    return d.eq_active[equality] != 0;
  else
    return m.eq_active[equality] != 0;
}

}  // namespace linchpin::test
