#include "articulated/tree_check.h"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>

namespace linchpin::articulated {

using Owner = host::ConstraintEntry::Owner;

namespace {

constexpr double reported_residual = 1e-6;          // [m, rad or the unit of the row]
constexpr double reported_derivative_error = 1e-4;  // relative

class ConstraintCheckOfLinks {
 public:
  ConstraintCheckOfLinks(const TreeContext& context, const TreeLayout& layout)
      : c_(context.host), world_(context.world), t_(context.island), layout_(layout) {}

  std::vector<host::Finding> run() {
    for (int i = 0; i < static_cast<int>(c_.constraints.size()); ++i) {
      const host::ConstraintEntry& r = c_.constraints[i];
      if (!is_in_force_on_links(r) || r.owner == Owner::multibody_joint) continue;  // coordinates satisfy such a joint
      if (const Gear* const gear = layout_.gear(i))
        report_residual(r.name, std::abs(gear_residual(*gear, r.deferred->bodies())), true);
      else
        check_function(r);
    }
    return std::move(out_);
  }

 private:
  void check_function(const host::ConstraintEntry& r) {
    State now = c_.bodies.start;
    now.t = c_.t;
    const Constraint constraint = layout_.with_current_bodies(*r.deferred);
    (void)layout_.read_states(constraint, now);
    const ConstraintCheck found = check_constraint(c_.system, constraint, now);
    if (!found.finite || std::max({found.error_A, found.error_b, found.error_velocity}) > reported_derivative_error)
      out_.push_back({r.name, found.message});
    report_residual(r.name, found.residual, constraint.function().level() == Level::position);
  }

  double gear_residual(const Gear& gear, std::span<const BodyId> bodies) const {
    double sum = -gear.target, input = 0;
    std::size_t at = 0;
    for (const Gear::Term& term : gear.terms) sum += term.factor * position(term, bodies, at++);
    for (const Gear::Term& term : gear.inputs) input += term.factor * position(term, bodies, at++);
    double value = 0;
    for (std::size_t power = gear.polynomial.size(); power-- > 0;) value = value * input + gear.polynomial[power];
    return sum - value;
  }

  double position(const Gear::Term& term, std::span<const BodyId> bodies, std::size_t at) const {
    TreeModel model;
    TreeState state;
    world_.read(t_.links[bodies[at < bodies.size() ? at : 0]].tree, model, state);
    return state.at.joints[z(model.links[z(term.link)].first_position)];
  }

  void report_residual(const std::string& name, double residual, bool of_positions) {
    if (!(residual > reported_residual)) return;
    std::ostringstream text;
    text << "does not satisfy its equation: " << (of_positions ? "position" : "velocity") << " residual " << residual;
    if (c_.options.drift_correction || !of_positions)
      text << ". The next step closes it by " << (of_positions ? "moving bodies" : "a change of velocity");
    out_.push_back({name, text.str()});
  }

  const host::Context& c_;
  TreeWorld& world_;
  const TreeIsland& t_;
  const TreeLayout& layout_;
  std::vector<host::Finding> out_;
};

}  // namespace

std::vector<host::Finding> check_link_constraints(const TreeContext& context, const TreeLayout& layout) {
  return ConstraintCheckOfLinks(context, layout).run();
}

}  // namespace linchpin::articulated
