#include "solver_options.h"

namespace linchpin::bullet_scene {

namespace {

bullet::Stepping stepping_of(Method method) {
  return method == Method::rk4        ? bullet::Stepping::rk4
         : method == Method::adaptive ? bullet::Stepping::adaptive
                                      : bullet::Stepping::semi_implicit;
}

}  // namespace

bullet::Options solver_options(const scene::Model& model) {
  const StepOptions &asked = model.options, usual;
  bullet::Options options;
  options.drift_correction = asked.drift == Drift::exact;
  options.max_newton = asked.max_newton;
  options.stepping = stepping_of(model.stepping);
  if (asked.relative_tolerance != usual.relative_tolerance) options.tolerance = asked.relative_tolerance;
  options.max_tension_frequency = asked.max_tension_frequency;
  // What a scene does not say is as a host's own: a snap or a fold may need more substeps than a step without one has.
  if (asked.max_substeps != usual.max_substeps) options.max_substeps = asked.max_substeps;
  options.max_energy_gain = asked.max_energy_gain;
  options.max_velocity_residual = asked.max_velocity_residual;
  if (asked.newton_tolerance != usual.newton_tolerance) options.newton_tolerance = asked.newton_tolerance;
  if (asked.solve.rank_tolerance != usual.solve.rank_tolerance) options.rank_tolerance = asked.solve.rank_tolerance;
  return options;
}

}  // namespace linchpin::bullet_scene
