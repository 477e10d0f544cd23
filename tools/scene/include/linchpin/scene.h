// A scene file read: bodies, joints, typed constraints, forces and laws as plain data, from which a System is made, and
// from which a host makes its world. Hides TOML, the equation language, generators and includes. Needs exceptions:
// files come from outside. The format is docs/scenes.md.
//
//     linchpin::scene::Model model = linchpin::scene::load("winch.toml");
//     linchpin::System system = model.system();
//     linchpin::Stepper stepper(system, system.initial_state(), model.options);
#pragma once

#include <linchpin/constraint.h>
#include <linchpin/coordinates.h>
#include <linchpin/error.h>
#include <linchpin/forces.h>
#include <linchpin/joints.h>
#include <linchpin/scene/export.h>
#include <linchpin/stepper.h>
#include <linchpin/system.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace linchpin::scene {

/// What is wrong with a scene file. what() is the whole message: "file:line:column: error: …", the source line and a
/// caret under the place.
class LINCHPIN_SCENE_API SceneError : public FileError {
 public:
  SceneError(const std::string& whole, std::string file_, std::size_t line_, std::size_t column_, std::string message_)
      : FileError(whole), file(std::move(file_)), line(line_), column(column_), message(std::move(message_)) {}
  std::string file;
  std::size_t line = 0, column = 0;  ///< from 1; 0 where the file as a whole is meant
  std::string message;               ///< without the place
};

struct Shape {
  enum class Kind { none, box, sphere, capsule, cylinder };
  Kind kind = Kind::none;
  Vector3d size = Vector3d::Zero();  ///< box: edges; sphere: radius; capsule, cylinder: radius, length along y [m]
};

/// A shape beside a body's centre of mass.
struct PlacedShape {
  Shape shape;
  Pose pose;  ///< in body axes, from the centre of mass
};

/// A body as the file has it, or a coordinate: start.p.x is its value, start.v.x its rate. Body i of a model is
/// BodyId{i + 1} of its System.
struct SceneBody {
  std::string name;
  BodyKind kind = BodyKind::rigid;
  double mass = 0;                      ///< [kg]
  Matrix3d inertia = Matrix3d::Zero();  ///< about the centre of mass, body axes [kg·m²]
  Shape shape;
  std::vector<PlacedShape> more_shapes;  ///< of a robot's link, whose shapes need not be about its centre of mass
  Quaterniond link_axes = Quaterniond::Identity();  ///< of the frame of a robot's link, in body axes
  int family = 0;                                   ///< bodies of one, if it is not 0, do not collide with each other
  int multibody = 0;                                ///< bodies of one, if it is not 0, are links of one btMultiBody
  BodyState start;                                  ///< at t = 0
  std::function<BodyState(double)> motion;          ///< of a kinematic body
  std::string unit;                                 ///< of a coordinate: rad, m, … or empty; see force_unit()
  bool imported = false;                            ///< from an included .bullet file: the host has it already
};

/// The unit of the generalized force on a coordinate of this unit: N m of rad, N of m, J/unit of others, none of none.
LINCHPIN_SCENE_API std::string force_unit(const std::string& unit);

/// A stock joint or a typed constraint.
struct SceneConstraint {
  std::string name;
  std::string type;               ///< equation, velocity, or a joint's: ball, hinge, slider, …
  std::vector<std::string> text;  ///< the equations as typed; empty for joints
  std::vector<BodyId> bodies;
  /// A new function each time: constraints of two systems must not share one.
  std::function<Constraint(std::vector<BodyId>)> make;
  std::vector<Law> laws;
  bool rheonomic = false;       ///< time occurs in it
  JointFrame frame_a, frame_b;  ///< of ball, hinge, slider and weld: x along the axis; for hosts that have these
  std::optional<Quaterniond> own_axes;  ///< of a robot's joint, in its second body; else frame_b is its frame
  /// Where a robot's joint stops, of its angle [rad] or shift [m]: for hosts that have limits.
  std::optional<std::pair<double, double>> limits;
  double start = 0;       ///< of a robot's joint at t = 0, of which the limits are: angle [rad] or shift [m]
  double rate = 0;        ///< likewise, how fast it changes [rad/s or m/s]; the bodies' velocities have it too
  bool tree = false;      ///< holds a link of a multibody, its second body, to its parent: there by coordinates
  bool imported = false;  ///< a joint of an included .bullet file
};

struct SceneForce {
  std::string name;
  std::vector<BodyId> bodies;
  std::function<Force(std::vector<BodyId>)> make;
};

/// What a channel is evaluated on: the state and, where it reads them, the forces at that state.
struct Observation {
  const System& system;  ///< for masses and potentials
  const State& state;
  std::span<const Reaction> reactions;  ///< in any order; found by name
};

/// A quantity to log or to expect, as an expression: "reaction(winch)", "energy()", "dist2(a.position, b.position)".
class LINCHPIN_SCENE_API Channel {
 public:
  const std::string& text() const { return text_; }
  const std::string& unit() const { return unit_; }  ///< as the file says, or of the plain ones; may be empty
  int size() const;                                  ///< 1, or 3 for a vector
  bool reads_forces() const;
  /// size() values; NaN where a force is asked for that is not among the reactions. For one thread at a time.
  std::span<const double> operator()(const Observation& at) const;

 private:
  friend class SceneReader;
  struct Impl;
  std::string text_, unit_;
  std::shared_ptr<Impl> impl_;
};

/// A known answer of the scene: |value − is| ≤ tolerance at a time, or at all times.
struct Expectation {
  Channel value;
  bool throughout = false;      ///< at every step instead of at `at`
  double at = 0;                ///< [s]
  std::vector<double> is;       ///< channel size; empty: what it was at t = 0
  double tolerance = 0;         ///< of the host `bare`
  double tolerance_bullet = 0;  ///< of `bullet-float64`; 0: not judged there
  double tolerance_single = 0;  ///< of `bullet`; likewise
};

enum class Host { bare, bullet, bullet_float64 };
LINCHPIN_SCENE_API const char* to_string(Host host);

struct LINCHPIN_SCENE_API Model {
  std::string file;
  std::vector<std::string> files;    ///< every file that was read for it, the scene first; includes, the .bullet file
  Vector3d gravity = {0, -9.81, 0};  ///< [m/s²]
  bool gravity_given = false;        ///< by the file
  double duration = 2;               ///< [s]
  double dt = 1.0 / 240;             ///< [s]
  Host host = Host::bare;
  bool contacts = false;            ///< bodies of a Bullet host collide
  std::string bullet_file;          ///< included .bullet file, or empty
  int robots = 0, multibodies = 0;  ///< how many robots; how many multibodies they are
  std::vector<std::string> native;  ///< what of it is no equality, and so in no System: limits, motors, in words
  /// What was taken as it stands and is hardly meant, each as SceneError has it: an inertia that no distribution of
  /// mass has.
  std::vector<std::string> warnings;
  std::vector<std::string> notes;  ///< what of a robot's file was left out, in words
  StepOptions options;             ///< for a Stepper
  std::vector<SceneBody> bodies;   ///< coordinates last
  /// The kinetic energy of the coordinates, a new function each time; empty without any.
  std::function<std::shared_ptr<const Kinetics>()> kinetics;
  std::vector<SceneConstraint> constraints;
  std::vector<SceneForce> forces;
  std::vector<Channel> logs;
  std::vector<Expectation> expectations;

  /// A System with everything in it, laws too. @throws std::invalid_argument only if the model was edited into
  /// nonsense.
  System system() const;
};

/// Holds a run against what its scene expects.
class LINCHPIN_SCENE_API Judge {
 public:
  /// @param dt  of the run, which may not be the scene's
  Judge(const Model& model, Host host, double dt);
  struct Verdict {
    const Expectation* expectation = nullptr;
    bool judged = false;  ///< its time was reached, and a force it reads was there
    bool met = false;     ///< and it was so. What was asked of this host and not judged is not met
    double error = 0;     ///< largest |value − is|
    double tolerance = 0;
    std::vector<double> got;  ///< at the time, or where the error was largest
  };
  /// At every state of the run, from t = 0.
  void see(const Observation& at);
  /// Whether a state at time t is worth its forces.
  bool needs_forces(double t) const;
  /// The lengths of the parts in which a step from t is to be taken, so that one ends at each time within it that an
  /// expectation waits for: mostly dt alone.
  std::vector<double> parts(double t, double dt) const;
  const std::vector<Verdict>& verdicts() const { return verdicts_; }
  /// Why an expectation was not judged, in words; empty where it was.
  std::string why_not(const Verdict& verdict) const;

 private:
  bool due(const Expectation& e, double t) const;
  double dt_;
  double last_ = 0;  // time that was seen
  std::vector<Verdict> verdicts_;
  std::vector<std::vector<double>> first_;
};

/// A .bullet file is included, and no importer was given to load(); how long the scene runs is known all the same.
class LINCHPIN_SCENE_API NeedsHost : public SceneError {
 public:
  NeedsHost(const SceneError& e, double dt_, double duration_, Host host_, std::vector<std::string> files_)
      : SceneError(e), dt(dt_), duration(duration_), host(host_), files(std::move(files_)) {}
  double dt, duration;  ///< [s]
  Host host;
  std::vector<std::string> files;  ///< as Model::files
};

/// What a .bullet file holds.
struct Imported {
  std::vector<SceneBody> bodies;  ///< in the host's order
  /// Its joints between those bodies (BodyId{i + 1} is bodies[i]); left out by a host that has them in its world
  /// already.
  std::vector<SceneConstraint> joints;
  std::vector<std::string> native;  ///< what the host keeps to itself, in words: "door: limits"
  std::optional<Vector3d> gravity;  ///< [m/s²], where the file has one
};
/// Reads a .bullet file; called with its path.
using BulletImporter = std::function<Imported(const std::string& path)>;

/// What a robot is made as where there is a choice: on Bullet's hosts. The mechanics are the same.
enum class RobotsAs {
  bodies,    ///< btRigidBody, joints are constraints
  multibody  ///< btMultiBody, joints of the tree are coordinates; what closes loops is constraints
};

/// What a caller says otherwise than the file, or beside it.
struct Overrides {
  /// In place of numbers in the [params] of the scene itself; what is computed from them follows.
  std::map<std::string, double, std::less<>> params;
  std::vector<std::string> logs;   ///< channels after those of [[log]]
  std::optional<RobotsAs> robots;  ///< in place of what [model] says
};

/// Reads a scene and everything it includes, or a .bullet file by itself, and checks what can be checked without
/// a step: names, shapes, masses, the types in expressions, that every residual and its derivatives are finite at the
/// start.
/// @throws SceneError for whatever is wrong; NeedsHost; std::invalid_argument for an override that [params] does not
/// have as a number.
[[nodiscard]] LINCHPIN_SCENE_API Model load(const std::string& path, const BulletImporter& import = {},
                                            const Overrides& overrides = {});
/// The same for a text; `path` stands for it in messages and is where includes are looked for.
[[nodiscard]] LINCHPIN_SCENE_API Model load_text(std::string_view text, const std::string& path,
                                                 const BulletImporter& import = {}, const Overrides& overrides = {});
LINCHPIN_SCENE_API Result<Model> try_load(const std::string& path, const BulletImporter& import = {},
                                          const Overrides& overrides = {}) noexcept;
LINCHPIN_SCENE_API Result<Model> try_load_text(std::string_view text, const std::string& path,
                                               const BulletImporter& import = {},
                                               const Overrides& overrides = {}) noexcept;

}  // namespace linchpin::scene
