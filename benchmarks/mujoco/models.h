// Models of the benchmark of the MuJoCo adapter: trunks on legs of five bars, and the mechanisms of
// tests/models/mujoco.
#pragma once

#include <mujoco/mujoco.h>

#include <memory>
#include <string>

namespace linchpin::bench {

struct FreeModel {
  void operator()(mjModel* m) const { mj_deleteModel(m); }
};
struct FreeData {
  void operator()(mjData* d) const { mj_deleteData(d); }
};
using ModelPointer = std::unique_ptr<mjModel, FreeModel>;
using DataPointer = std::unique_ptr<mjData, FreeData>;

/// A model by its name: `air:N` and `ground:N` for a trunk with N loops, or a file of tests/models/mujoco.
/// @throws std::runtime_error where there is none
ModelPointer load(const std::string& name);

/// Sets the controls of the model's motors, which keep all loops in motion.
void control(const mjModel& m, mjData& d);

}  // namespace linchpin::bench
