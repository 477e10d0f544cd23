#include "watch.h"

#include <algorithm>
#include <cmath>

namespace linchpin::mujoco_worker {

void Watch::look() {
  has_looked_ = true;
  for (std::size_t i = 0; i < model_.links().size(); ++i) {
    const Link& link = model_.links()[i];
    if (!link.unit) continue;
    const Gap gap = model_.gap(link);
    if (!std::isfinite(gap.in(*link.unit))) continue;  // switched off
    residuals_[i] = std::max(residuals_[i], gap.custom);
    largest_angle_ = std::max(largest_angle_, gap.radians);
    has_radians_ = has_radians_ || *link.unit == RowUnit::radian || gap.radians > 0;
    if (*link.unit != RowUnit::metre) continue;
    has_metres_ = true;
    squares_ += gap.metres * gap.metres;
    ++count_;
    if (gap.metres > largest_) largest_ = gap.metres, worst_ = link.name;
  }
  energy_error_ = std::max(energy_error_, std::abs(model_.energy() - start_energy_));
}

void Watch::events(long step) {
  if (!energy_note_.empty()) return;
  if (const char* const why = model_.why_not_conserved())
    energy_note_ = std::string(why) + " from step " + std::to_string(step);
}

void Watch::report(Json& row) const {
  const bool metres = has_looked_ && has_metres_, angles = has_looked_ && (has_metres_ || has_radians_);
  row["max_gap_m"] = metres ? Json(largest_) : Json();
  row["rms_gap_m"] = metres ? Json(std::sqrt(squares_ / double(count_))) : Json();
  row["max_gap_rad"] = angles ? Json(largest_angle_) : Json();
  row["max_gap_joint"] = metres && largest_ > 0 ? Json(worst_) : Json();
  row["user_gaps"] = Json::object();
  for (std::size_t i = 0; has_looked_ && i < model_.links().size(); ++i)
    if (model_.links()[i].unit == RowUnit::custom) row["user_gaps"][model_.links()[i].name] = residuals_[i];
  row["max_energy_error_J"] = has_looked_ && energy_note_.empty() ? Json(energy_error_) : Json();
  row["energy_note"] = energy_note_.empty() ? Json() : Json(energy_note_);
  row["broken"] = 0;
}

}  // namespace linchpin::mujoco_worker
