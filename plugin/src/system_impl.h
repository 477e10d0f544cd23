// What a System is made of. Private to the core: laws are kept with the constraints but offered by laws.h.
#pragma once

#include <linchpin/constraint.h>
#include <linchpin/forces.h>
#include <linchpin/system.h>

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace linchpin {

/// Name → index, found by std::string_view without a copy.
struct NameHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view name) const { return std::hash<std::string_view>{}(name); }
};
using NameIndex = std::unordered_map<std::string, int, NameHash, std::equal_to<>>;

struct System::Impl {
  struct Body {
    std::string name;
    BodyKind kind = BodyKind::fixed;
    double mass = 0;
    Matrix3d inertia = Matrix3d::Zero();
    double least_inertia = 0;  // its least principal moment
    BodyState start{};
    std::function<BodyState(double)> motion{};
    bool removed = false;
    int group = -1;  // of coordinates
  };
  struct Group {
    int first = 0, count = 0;
    std::shared_ptr<const Kinetics> kinetics;
  };
  struct Entry {
    Constraint constraint;
    bool enabled = true;
    bool removed = false;
    std::vector<Law> laws{};
    unsigned long laws_cleared = 0;  // how often
    OneSided one_sided{.on = false};
  };

  std::vector<Body> bodies;
  std::vector<Group> groups;
  std::vector<Entry> constraints;
  std::vector<Force> forces;
  NameIndex body_names, constraint_names;
  Vector3d gravity = Vector3d::Zero();
  unsigned long structure = 0;
  unsigned long law_changes = 0;  ///< how often a law was added or all of a constraint were taken
  void restructured();            ///< draws a new stamp

  /// @throws std::invalid_argument for an index that was never given out.
  Body& at(BodyId id);
  Entry& at(ConstraintId id);
  const Entry& at(ConstraintId id) const;
  BodyId append(Body body);
  /// Every id is a body of this system and not removed. @throws std::invalid_argument naming the thing.
  void require_bodies(const char* kind, const std::string& name, std::span<const BodyId> ids) const;
  std::string names_of(std::span<const BodyId> ids) const;
};

struct SystemParts {
  static System::Impl& of(System& system) { return *system.impl_; }
  static const System::Impl& of(const System& system) { return *system.impl_; }
};

}  // namespace linchpin
