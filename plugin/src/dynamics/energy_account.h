// The energy of one island over its steps, and the part of it without a source (T15). The bare host and the islands of
// other hosts share this rule. Private to the core.
#pragma once

#include <algorithm>

namespace linchpin {

class EnergyAccount {
 public:
  /// Ends a step that may still be tried again.
  /// @param start, end  kinetic energy at the start and the end of the step [J]
  /// @param unexplained  part of its change that no source explains [J]
  void end_step(double start, double end, double unexplained) {
    end_ = end;
    pending_ = unexplained;
    gain_with_step_ = std::max(0.0, gain_ + pending_);
    scale_with_step_ = std::max(scale_, std::max(start, end - gain_with_step_));
  }
  /// Raises the energy below which a gain has no meaning. @param energy  what the applied forces could give from rest
  /// in one step [J]
  void raise_floor(double energy) { floor_ = std::max(floor_, energy); }

  /// The gain since the energy without a source was least, with that of the last step [J].
  double gain() const { return gain_with_step_; }
  /// The same relative to the largest kinetic energy without it.
  double relative_gain() const {
    const double scale = scale_with_step_ + floor_;
    return scale > 0 ? gain_with_step_ / scale : 0;
  }
  /// Returns true if some of the gain belongs to the last step.
  bool grows() const { return pending_ > 0; }

  /// Accepts the step.
  void accept_step() {
    gain_ = gain_with_step_;
    scale_ = std::max(scale_, end_ - gain_);
  }
  /// Counts the gain of an accepted step as explained from now on.
  void forget_gain() {
    scale_ = std::max(scale_, end_);
    gain_ = 0;
  }

 private:
  double gain_ = 0, scale_ = 0, floor_ = 0;  // [J]
  double end_ = 0, pending_ = 0, gain_with_step_ = 0, scale_with_step_ = 0;
};

}  // namespace linchpin
