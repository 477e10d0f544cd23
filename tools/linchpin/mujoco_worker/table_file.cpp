#include "table_file.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace linchpin::mujoco_worker {

namespace {

template <class Act>
void or_refuse(Act act) {
  try {
    act();
  } catch (const std::runtime_error& e) {
    throw Refused("csv", e.what());
  }
}

}  // namespace

TableFile::TableFile(const std::string& file, Model& model, const scene::Model* scene, bool compared)
    : model_(model), compared_(compared) {
  or_refuse([&] { out_ = std::make_unique<cli::Csv>(file); });
  out_->column("t [s]");
  for (const std::string& name : model.body_names()) out_->columns(name, cli::body_columns);
  for (const Link& link : model.links())
    if (link.unit) out_->column(link.name + cli::gap_column(*link.unit));
  if (compared)
    for (const char* name : {"largest gap [rad]", "energy [J]"}) out_->column(name);
  for (const Link& link : model.links()) out_->columns(link.name, cli::force_columns);
  for (const scene::Channel& log : scene ? scene->logs : std::vector<scene::Channel>()) {
    if (log.size() == 1)
      out_->column(log.title() + cli::bracketed(log.unit()));
    else
      for (const char* part : {".x", ".y", ".z"}) out_->column(log.title() + part + cli::bracketed(log.unit()));
  }
  out_->end_row();
}

void TableFile::state() {
  row_open_ = true;
  out_->put(model_.data().time);
  for (int body = 1; body < model_.model().nbody; ++body) {
    const BodyState s = model_.state(body);
    for (int i = 0; i < 3; ++i) out_->put(s.p[i]);
    for (const double e : {s.q.w(), s.q.x(), s.q.y(), s.q.z()}) out_->put(e);
    for (const Vector3d& v : {s.v, s.w})
      for (int i = 0; i < 3; ++i) out_->put(v[i]);
  }
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
  for (std::size_t i = 0; i < model_.links().size(); ++i) {
    const Wrench on = forces.on_first(i);
    for (const Vector3d& v : {on.force, on.moment})
      for (int k = 0; k < 3; ++k) out_->put(v[k]);
  }
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
  or_refuse([&] { out_->close(); });
}

}  // namespace linchpin::mujoco_worker
