// The world of a host, as the shared suite sees it. Every host has a fixture that implements HostWorld; the same tests
// then run on every host. What a host cannot do is a Feature that its fixture does not have, and a line in
// adapters/README.md.
#pragma once

#include <linchpin/constraint.h>
#include <linchpin/host.h>
#include <linchpin/laws.h>
#include <linchpin/report.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace linchpin::test {

inline constexpr double standard_gravity = 9.81, step_length = 1.0 / 240;  // [m/s²], [s]

enum class JointKind { ball, hinge, slider, weld };

/// What not every host can do.
enum class Feature {
  kinematic_bodies,    ///< bodies that the program moves take part in exact constraints
  joint_motors,        ///< motors of the host's own joints between free bodies
  joint_limits,        ///< limits of the host's own joints
  joint_springs,       ///< springs of the host's own joints
  joint_breaking,      ///< the host's own joints have breaking thresholds
  steps_by_stages,     ///< Stepping::rk4 and Stepping::adaptive
  separate_islands,    ///< a constraint that fails leaves its own island to the host, and no other
  long_steps_to_host,  ///< the host solves a step that is too long, its substeps included
  passive_mode,        ///< Mode::passive
  threads,             ///< islands are solved on several threads
  sleeping,            ///< bodies fall asleep
  swept_contacts,      ///< bodies are stopped in mid-step (CCD)
  native_fallback,     ///< the host solves a constraint of the program's own where linchpin leaves it to the host
  native_comparison,   ///< the native solver runs beside (shadow)
  articulated_bodies,  ///< bodies in joint coordinates
  debug_draw,          ///< reactions are drawn
};
inline constexpr Feature all_features[] = {
    Feature::kinematic_bodies, Feature::joint_motors,      Feature::joint_limits,       Feature::joint_springs,
    Feature::joint_breaking,   Feature::steps_by_stages,   Feature::separate_islands,   Feature::long_steps_to_host,
    Feature::passive_mode,     Feature::threads,           Feature::sleeping,           Feature::swept_contacts,
    Feature::native_fallback,  Feature::native_comparison, Feature::articulated_bodies, Feature::debug_draw};

/// A world that owns what is put into it. Bodies and joints are named by their index, constraints by their handle. All
/// quantities are in double precision, SI units and world axes; the world's gravity is (0, −9.81, 0).
class HostWorld {
 public:
  using Make = std::function<Constraint(const std::vector<BodyId>& bodies)>;

  virtual ~HostWorld() = default;
  virtual const char* name() const = 0;
  virtual bool has(Feature feature) const = 0;
  virtual double rounding() const = 0;  ///< of numbers as the host stores them

  // ---- the host's world; −1 is the world as a body ----
  virtual int add_box(double mass, const Vector3d& half, const Vector3d& at,
                      const Quaterniond& q = Quaterniond::Identity()) = 0;
  virtual int add_ball(double mass, double radius, const Vector3d& at) = 0;
  virtual int add_kinematic(const Vector3d& at) = 0;  ///< without contacts
  virtual void add_ground(double friction) = 0;       ///< the plane y = 0
  /// A joint at a point; `axis` is that of a hinge or a slider.
  virtual int add_joint(JointKind kind, int a, int b, const Vector3d& at, const Vector3d& axis = {0, 0, 1}) = 0;
  virtual void set_motor(int hinge, double velocity, double torque) = 0;
  virtual void set_breaking_impulse(int joint, double impulse) = 0;
  virtual bool is_enabled(int joint) const = 0;
  virtual void enable_joint(int joint, bool on) = 0;
  virtual void remove_joint(int joint) = 0;
  virtual void remove_body(int body) = 0;  ///< A body without joints.
  virtual void set_mass(int body, double mass) = 0;
  virtual BodyState state(int body) const = 0;
  virtual void set_state(int body, const BodyState& state) = 0;
  virtual void apply(int body, const Vector3d& force, const Vector3d& torque = Vector3d::Zero()) = 0;  ///< in a step
  virtual void step_once(double dt) = 0;

  // ---- linchpin in it ----
  virtual void install(const host::SolverOptions& options = {}) = 0;
  virtual void uninstall() = 0;
  virtual int handle_of(int joint) = 0;
  /// A constraint of the program's own. @return why not, or empty
  virtual std::string constrain(const std::vector<int>& bodies, const Make& make, int& handle) = 0;
  virtual void remove(int handle) = 0;
  virtual std::string add_law(int handle, const Law& law) = 0;
  virtual std::vector<LawWork> laws(int handle) = 0;
  virtual std::string set_unilateral(int handle, const Unilateral& how) = 0;
  virtual bool is_released(int handle) = 0;
  virtual Reaction reaction(int handle) = 0;
  virtual std::vector<MomentumBalance> momentum_balances() = 0;
  virtual host::Counts counts() = 0;
  virtual std::vector<host::HostPart> host_parts() = 0;
  virtual std::vector<host::Finding> check() = 0;
  virtual std::string summary() = 0;
  virtual double energy() const = 0;
  /// The whole state of a program: the host's bodies, and what linchpin remembers.
  virtual std::function<std::string()> save() = 0;  ///< Calling it goes back. @return why not, or empty

  // ---- made of these ----
  void step(int n = 1, double dt = step_length) {
    for (int i = 0; i < n; ++i) step_once(dt);
  }
  int constrain(const std::vector<int>& bodies, const Make& make) {
    int handle = -1;
    const std::string why = constrain(bodies, make, handle);
    if (!why.empty()) throw std::invalid_argument(why);
    return handle;
  }
  double worst_imbalance() {
    double worst = 0;
    for (const MomentumBalance& b : momentum_balances()) worst = std::max(worst, b.imbalance());
    return worst;
  }
  /// `d` for a host that stores doubles, `s` for one of single precision.
  double precision(double d, double s) const { return rounding() > 1e-10 ? s : d; }
};

/// Skips a test, or the rest of it, on a host that does not have a feature.
#define LINCHPIN_NEEDS(world, feature) \
  if (!(world).has(feature)) GTEST_SKIP() << (world).name() << " does not have it: see adapters/README.md"

/// Defined by the fixture of the host.
std::unique_ptr<HostWorld> make_host_world();

}  // namespace linchpin::test
