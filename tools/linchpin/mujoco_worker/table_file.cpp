#include "table_file.h"

#include "worker_common/csv_file.h"

#include <algorithm>
#include <cmath>

namespace linchpin::mujoco_worker {

TableFile::TableFile(const std::string& file, Model& model, const scene::Model* scene, bool compared)
    : model_(model), compared_(compared), out_(worker::open_csv(file)) {
  out_->column("t [s]");
  for (const std::string& name : model.body_names()) out_->columns(name, cli::body_columns);
  for (const Link& link : model.links())
    if (link.unit) out_->column(link.name + cli::gap_column(*link.unit));
  if (compared)
    for (const char* name : {"largest gap [rad]", "energy [J]"}) out_->column(name);
  for (const Link& link : model.links()) out_->columns(link.name, cli::force_columns);
  if (scene) out_->columns(scene->logs);
  out_->end_row();
}

void TableFile::state() {
  row_open_ = true;
  out_->put(model_.data().time);
  for (int body = 1; body < model_.model().nbody; ++body) out_->put(model_.state(body));
  double angle = 0;
  for (const Link& link : model_.links()) {
    if (!link.unit) continue;
    const Gap gap = model_.gap(link);
    out_->put(gap.in(*link.unit));
    if (std::isfinite(gap.radians)) angle = std::max(angle, gap.radians);
  }
  if (!compared_) return;
  out_->put(angle);
  out_->put(model_.energy());
}

void TableFile::forces(const LinkForces& forces, std::span<const double> logs) {
  for (std::size_t i = 0; i < model_.links().size(); ++i) out_->put(forces.on_first(i));
  for (const double x : logs) out_->put(x);
  out_->end_row();
  row_open_ = false;
}

void TableFile::close(std::span<const double> logs) {
  if (row_open_) {
    for (std::size_t i = 0; i < 6 * model_.links().size(); ++i) out_->put(std::nan(""));
    for (const double x : logs) out_->put(x);
    out_->end_row();
  }
  worker::close_csv(*out_);
}

}  // namespace linchpin::mujoco_worker
