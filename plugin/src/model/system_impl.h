// Members of a System. Private to the core: laws are stored with the constraints but offered by laws.h.
#pragma once

#include "model/free_list.h"
#include "model/name_index.h"

#include <linchpin/constraint.h>
#include <linchpin/forces.h>
#include <linchpin/system.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace linchpin {

/// Returns whether the potential of a force depends on bodies that the equations move, and on fixed ones, alone.
bool has_potential_of_bodies(const System& system, const Force& force);

/// There may be a hundred thousand bodies and as many constraints. So data that only a few of them have are stored
/// separately.
struct LINCHPIN_PRIVATE System::Impl {
  struct Start {
    BodyState state{};
    std::function<BodyState(double)> motion{};
  };
  struct Body {
    std::string name;
    BodyKind kind = BodyKind::fixed;
    bool removed = false;
    unsigned version = 0;
    int group = -1;  // Group of coordinates.
    double mass = 0;
    double least_inertia = 0;  // Least principal moment.
    Matrix3d inertia = Matrix3d::Zero();
    std::unique_ptr<Start> given{};  // Null: at rest at the origin, not rotated.

    const BodyState& start() const {
      static const BodyState at_rest{};
      return given ? given->state : at_rest;
    }
  };
  struct Group {
    int first = 0, count = 0;
    std::shared_ptr<const Kinetics> kinetics;
  };
  struct Entry {
    Constraint constraint;
    bool enabled = true;
    bool removed = false;
    unsigned version = 0;
    Unilateral unilateral{.on = false};
    struct Lawful {
      std::vector<Law> laws;
      unsigned long cleared = 0;  // Number of calls of clear_laws().
    };
    std::unique_ptr<Lawful> lawful{};

    Lawful& with_laws() {
      if (!lawful) lawful = std::make_unique<Lawful>();
      return *lawful;
    }
    unsigned long laws_cleared() const { return lawful ? lawful->cleared : 0; }
  };

  std::vector<Body> bodies;
  std::vector<Group> groups;
  std::vector<Entry> constraints;
  std::vector<Force> forces;
  detail::NameIndex body_names, constraint_names;
  detail::FreeList free_bodies, free_constraints;
  bool bodies_replaced = false;  ///< The index of some removed body was reused.
  Vector3d gravity = Vector3d::Zero();
  unsigned long structure = 0;
  unsigned long law_changes = 0;  ///< Number of times that a law was added or all laws of a constraint were removed.
  void restructured();            ///< Sets a new value of `structure`.

  /// @throws std::invalid_argument for an index that was never used, and where it belongs to another thing by now.
  Body& at(BodyId id);
  Entry& at(ConstraintId id);
  const Entry& at(ConstraintId id) const;
  BodyId append(Body body, const BodyState& start, std::function<BodyState(double)> motion = {});
  auto body_name() const {
    return [this](int i) -> const std::string& { return bodies[static_cast<std::size_t>(i)].name; };
  }
  auto constraint_name() const {
    return [this](int i) -> const std::string& { return constraints[static_cast<std::size_t>(i)].constraint.name(); };
  }
  /// Adds the bodies to `state` that were added since it was made. @return whether there were any
  bool bring_in(State& state) const;
  bool lacks_bodies(const State& state) const;
  int find_body(std::string_view name) const { return body_names.find(name, body_name()); }
  int find_constraint(std::string_view name) const { return constraint_names.find(name, constraint_name()); }
  /// Checks that every id is a body of this system and not removed. @throws std::invalid_argument naming the thing.
  void require_bodies(const char* kind, const std::string& name, std::span<const BodyId> ids) const;
  std::string names_of(std::span<const BodyId> ids) const;
};

struct SystemParts {
  static System::Impl& of(System& system) { return *system.impl_; }
  static const System::Impl& of(const System& system) { return *system.impl_; }
};

}  // namespace linchpin
