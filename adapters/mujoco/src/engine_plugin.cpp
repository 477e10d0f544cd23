// The plugin "linchpin.exact" of MuJoCo, for programs that call mj_step() themselves. It is a sensor of the stage of
// accelerations, which MuJoCo evaluates after its constraint solve and before its integrator. Its reading is the
// largest gap of the active equalities at the present state, exact or not.
#include "model_binding.h"

#if mjVERSION_HEADER >= 300

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>

namespace linchpin::mujoco {

namespace {

/// The solver of one mjData. It is made when it is first needed, because the data are not complete before.
struct PluginInstance {
  std::unique_ptr<ModelBinding> binding;
  bool is_solving = false;  ///< The sensors are read again, and this plugin with them.
  bool has_failed = false;  ///< MuJoCo has warned of it.
};

PluginInstance* instance_of(const mjData* d, int instance) {
  return reinterpret_cast<PluginInstance*>(d->plugin_data[instance]);
}

void warn(PluginInstance& of, const std::string& what) {
  if (!std::exchange(of.has_failed, true)) mju_warning("%s. The equalities stay with MuJoCo", what.c_str());
}

int make_instance(const mjModel* m, mjData* d, int instance) {
  auto* const made = new PluginInstance;
  d->plugin_data[instance] = reinterpret_cast<std::uintptr_t>(made);
  if (m->opt.disableflags & mjDSBL_SENSOR)
    warn(*made, "linchpin: sensors are switched off (the flag \"sensor\"), and MuJoCo calls the plugin with them");
  return 0;
}

void destroy_instance(mjData* d, int instance) {
  delete instance_of(d, instance);
  d->plugin_data[instance] = 0;
}

/// A copy of the data gets a solver of its own.
void copy_instance(mjData* to, const mjModel*, const mjData*, int instance) {
  PluginInstance& of = *instance_of(to, instance);
  of.binding.reset();
  of.has_failed = false;
}

void reset_instance(const mjModel*, mjtNum*, void* data, int) {
  auto* const of = static_cast<PluginInstance*>(data);
  if (of && of->binding) of->binding->reset();
}

/// The largest position error of the active equalities, as MuJoCo measures it [m or rad].
double largest_gap(const mjData& d) {
  double most = 0;
  for (int row = 0; row < d.nefc; ++row)
    if (d.efc_type[row] == mjCNSTR_EQUALITY) most = std::max(most, std::abs(d.efc_pos[row]));
  return most;
}

void correct(const mjModel* m, mjData* d, int instance, int) {
  PluginInstance& of = *instance_of(d, instance);
  if (of.is_solving) return;
  of.is_solving = true;
  const double gap = largest_gap(*d);
  std::string error;
  try {
    // The binding changes the model only where a program does, which it is not.
    if (!of.binding) of.binding = std::make_unique<ModelBinding>(*const_cast<mjModel*>(m), *d, Options{});
    of.binding->correct_forward();
  } catch (const std::exception& e) {
    error = e.what();
  }
  of.is_solving = false;
  if (!error.empty()) warn(of, error);
  for (int i = 0; i < m->nsensor; ++i)
    if (m->sensor_type[i] == mjSENS_PLUGIN && m->sensor_plugin[i] == instance) d->sensordata[m->sensor_adr[i]] = gap;
}

}  // namespace

mjPLUGIN_LIB_INIT(linchpin_exact) {
  mjpPlugin plugin;
  mjp_defaultPlugin(&plugin);
  plugin.name = "linchpin.exact";
  plugin.capabilityflags = mjPLUGIN_SENSOR;
  plugin.needstage = mjSTAGE_ACC;
  plugin.nstate = [](const mjModel*, int) { return 0; };
  plugin.nsensordata = [](const mjModel*, int, int) { return 1; };
  plugin.init = make_instance;
  plugin.destroy = destroy_instance;
  plugin.copy = copy_instance;
  plugin.reset = reset_instance;
  plugin.compute = correct;
  mjp_registerPlugin(&plugin);
}

}  // namespace linchpin::mujoco

#endif
