#include "table_file.h"

#include "gaps.h"
#include "worker_common/csv_file.h"

#include <algorithm>
#include <cmath>

namespace linchpin::worker {

TableFile::TableFile(const std::string& file, Scene& scene, const std::vector<std::string>& joint_names, bool compared,
                     const Watch& watch)
    : scene_(scene), compared_(compared), out_(open_csv(file)), links_(joint_names.size()) {
  out_->column("t [s]");
  for (const std::string& name : scene.body_names()) out_->columns(name, cli::body_columns);
  for (std::size_t i = 0; i < joint_names.size(); ++i) {
    const RowUnit unit =
        i < scene.joints().size() ? RowUnit::metre : scene.built()->constrained()[i - scene.joints().size()].unit;
    out_->column(joint_names[i] + cli::gap_column(unit));
  }
  if (compared)
    for (const char* name : {"largest gap [rad]", "energy [J]"}) out_->column(name);
  if (compared && watch.counts_work()) out_->column("work of prescribed motions [J]");
  for (const std::string& name : joint_names) out_->columns(name, cli::force_columns);
  // Of all joints or bodies together, as the root of the sum of squares; empty in steps that were no sample.
  if (compared)
    for (const char* name : {"force error [N]", "reference force [N]", "moment error [N m]", "reference moment [N m]",
                             "impulse error / dt [N]", "reference impulse / dt [N]"})
      out_->column(name);
  if (scene.built()) out_->columns(scene.built()->model().logs);
  out_->end_row();
}

void TableFile::state(double t, double dt, const Watch& watch) {
  row_open_ = true;
  out_->put(t);
  for (std::size_t each = 0; each < scene_.bodies().size(); ++each) {
    const btRigidBody* body = scene_.bodies()[each];
    out_->put(BodyState{bullet::from_bullet(body->getWorldTransform().getOrigin()), scene_.rotation(each),
                        bullet::from_bullet(body->getLinearVelocity()),
                        bullet::from_bullet(body->getAngularVelocity())});
  }
  double angle = 0;
  for (std::size_t i = 0; i < scene_.joints().size(); ++i) {
    const Gap gap = measure_gap(*scene_.joints()[i]);
    out_->put(gap.any ? gap.metres : std::nan(""));
    if (gap.any) angle = std::max(angle, gap.radians);
  }
  if (scene_.built()) {
    scene_.built()->residuals(t, dt, residuals_);
    for (std::size_t i = 0; i < residuals_.size(); ++i) {
      out_->put(residuals_[i]);
      if (scene_.built()->constrained()[i].unit == RowUnit::radian) angle = std::max(angle, residuals_[i]);
    }
  }
  if (!compared_) return;
  out_->put(angle);
  out_->put(watch.energy(t));
  if (watch.counts_work()) out_->put(watch.work());
}

void TableFile::forces(const JointForces& forces, bullet::Solver* solver, const Reference* reference,
                       std::span<const double> logs) {
  for (std::size_t i = 0; i < links_; ++i) out_->put(forces.on_a(i, solver));
  if (compared_) {
    const double none = std::nan("");
    const Reference::Added e =
        reference && reference->added() ? *reference->added() : Reference::Added{none, none, none, none, none, none};
    for (const double x : {e.force_error, e.force, e.moment_error, e.moment, e.impulse_error, e.impulse}) out_->put(x);
  }
  for (const double x : logs) out_->put(x);
  out_->end_row();
  row_open_ = false;
}

void TableFile::close(std::span<const double> logs) {
  if (row_open_) {
    for (std::size_t i = 0; i < 6 * links_; ++i) out_->put(std::nan(""));
    for (int i = 0; compared_ && i < 6; ++i) out_->put(std::nan(""));
    for (const double x : logs) out_->put(x);
    out_->end_row();
  }
  close_csv(*out_);
}

}  // namespace linchpin::worker
