// The bodies of a host: their states at the start and at the end of a step, and the poses from which the host
// integrates. It also has the forces on them, and the motions of kinematic bodies.
#pragma once

#include <linchpin/host.h>
#include <linchpin/system.h>

#include <string>
#include <unordered_map>
#include <vector>

namespace linchpin::host {

/// The rotation and velocities of a kinematic body at the end of the last step.
struct KinematicMotion {
  Vector3d v, w;
  Quaterniond q;
};

class Bodies {
 public:
  explicit Bodies(System& system);

  /// Adds data for a body that the system has just got.
  void add(BodyId id, bool in_host);
  /// The body is gone. Its id is free when no constraint names it any more.
  void remove(BodyId id);
  /// A body is another one from now on.
  void replace(BodyId old, BodyId now);
  /// The id that a body has now that had this one when changes were last taken over.
  BodyId present(BodyId id) const;
  /// A name that no body has had: "body#3".
  std::string new_name(const char* kind) { return std::string(kind) + "#" + std::to_string(made_++); }
  void set_mass(BodyId id, double mass, const Vector3d& inertia);

  /// Reads the state and the load of a body that can move.
  void read(const World& world, BodyId id, unsigned step);
  bool was_read(BodyId id, unsigned step) const { return read_at_[static_cast<std::size_t>(id.index)] == step; }
  /// Reads a body that no equation moves. The host shows a kinematic body where it is at the end of the step. Its
  /// start pose is found from there.
  /// @param teleported  it has got there without a motion
  void read_boundary(const World& world, BodyId id, double dt, bool teleported);
  /// Stores the motions of kinematic bodies, after the host has integrated.
  void note_kinematic(const World& world, double dt);
  void forget_motions() { motions_.clear(); }
  const std::unordered_map<int, KinematicMotion>& motions() const { return motions_; }
  void set_motions(std::unordered_map<int, KinematicMotion> motions) { motions_ = std::move(motions); }

  /// Returns whether the host has the body, and whether the body is in the host's world.
  bool in_host(BodyId id) const { return presence_[static_cast<std::size_t>(id.index)] != Presence::none; }
  bool in_world(BodyId id) const { return presence_[static_cast<std::size_t>(id.index)] == Presence::in_world; }
  void set_in_world(BodyId id, bool is) {
    presence_[static_cast<std::size_t>(id.index)] = is ? Presence::in_world : Presence::outside;
  }
  std::size_t count() const { return start.bodies.size(); }
  const Load& load(BodyId id) const { return loads_[static_cast<std::size_t>(id.index)]; }
  unsigned mass_changes() const { return mass_changes_; }
  std::vector<int>& removed() { return removed_; }
  /// Bodies of the host that are not kinematic.
  const std::vector<BodyId>& to_read();

  /// Makes `base` and `end`, which whole fast steps do without. Not while islands are solved on several threads.
  void make_ends();

  /// What has changed since constraints last took it over.
  struct Changes {
    bool any = false;              ///< Bodies have come, gone or changed.
    std::vector<BodyId> bodies;    ///< that have changed
    std::vector<BodyId> old, now;  ///< bodies that were replaced, in this order, and by which
    void note(BodyId id) {
      any = true;
      bodies.push_back(id);
    }
  } changes;

  State start;  ///< at the start of the step
  State base;   ///< poses from which the host integrates; see make_ends()
  State end;    ///< at the end of the step; see make_ends()

 private:
  Vector3d kinematic_spin(BodyId id, const BodyState& now, double dt) const;

  System& system_;
  std::vector<Load> loads_;        // by id, as the following
  std::vector<unsigned> read_at_;  // step in which `start` and `loads_` were read
  enum class Presence : unsigned char { none, outside, in_world };
  std::vector<Presence> presence_;
  std::vector<int> removed_;  // whose ids are not free yet
  std::vector<BodyId> to_read_;
  bool is_to_read_current_ = true;
  std::unordered_map<int, KinematicMotion> motions_;
  unsigned mass_changes_ = 1;
  bool has_ends_ = false;
  int made_ = 1;
};

/// Changes the pose (p, q) to that from which the host ends at (p, q) when it integrates v and w over dt.
void start_pose_for_end(const World& world, Vector3d& p, Quaterniond& q, const Vector3d& v, const Vector3d& w,
                        double dt);

}  // namespace linchpin::host
