// A scene file read: bodies, joints, typed constraints, forces and laws as plain data, from which a System is made, and
// from which a host makes its world. Hides TOML, the equation language, generators and includes. The format is
// docs/reference/scenes.md. The library needs exceptions. Programs without exceptions use try_load() and
// try_load_text().
//
// The structs of this header are values without references to other objects, except where a comment says otherwise. A
// copy of a Model shares the functions `make` and the work memory of its channels with the original. Systems that are
// made from one Model, its copies and its channels serve one thread at a time together. Different models are
// independent.
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
#include <linchpin/row_forces.h>
#include <linchpin/scene/export.h>
#include <linchpin/stepper.h>
#include <linchpin/system.h>

#include <array>
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

/// A fault in a scene file. what() is the whole message: "file:line:column: error: …", the source line and a caret
/// under the place.
class LINCHPIN_SCENE_API SceneError : public FileError {
 public:
  /// Made by load().
  SceneError(const std::string& whole, std::string file_, std::size_t line_, std::size_t column_, std::string message_)
      : FileError(whole), file(std::move(file_)), line(line_), column(column_), message(std::move(message_)) {}
  std::string file;                  ///< name of the file
  std::size_t line = 0, column = 0;  ///< from 1; 0 where the file as a whole is meant
  std::string message;               ///< without the place
};

/// A convex polyhedron.
struct Hull {
  std::vector<Vector3d> vertices;         ///< its corners [m]
  std::vector<std::array<int, 3>> faces;  ///< triangles, as indices of vertices, counterclockwise from outside
};

/// The shape of a body, for collisions and pictures.
struct Shape {
  /// The kinds of shapes.
  enum class Kind {
    none,      ///< no shape
    box,       ///< a box
    sphere,    ///< a sphere
    capsule,   ///< a cylinder with half a sphere at each end
    cylinder,  ///< a cylinder
    hull       ///< the convex hull of a robot's mesh
  };
  Kind kind = Kind::none;  ///< what it is
  /// box: edges; sphere: radius; capsule, cylinder: radius, length along y; hull: edges of the box around it, whose
  /// centre is the origin [m]
  Vector3d size = Vector3d::Zero();
  std::shared_ptr<const Hull> hull = nullptr;  ///< of a hull; shapes from the same mesh share it
};

/// A shape beside a body's centre of mass.
struct PlacedShape {
  Shape shape;  ///< the shape
  Pose pose;    ///< in body axes, from the centre of mass
};

/// Something of a robot's file that is left out, or that is understood otherwise than it may be meant. A note may be
/// about several parts of the file, which it then names.
struct Note {
  std::string text;                ///< what it says, without the names
  std::vector<std::string> names;  ///< of the parts that it is about; empty if the text has the name
  std::string more = {};           ///< a sentence after the names, or empty

  /// Makes a note from its three parts.
  Note(std::string what, std::vector<std::string> of = {}, std::string after = {})
      : text(std::move(what)), names(std::move(of)), more(std::move(after)) {}
  /// "text: first, second, … (and 9 more). more"
  /// @param most  as many names at most
  LINCHPIN_SCENE_API std::string shown(std::size_t most = std::size_t(-1)) const;
};

/// A body of the file, or a coordinate: start.p.x is its value, start.v.x its rate. Body i of a model is BodyId{i + 1}
/// of its System.
struct SceneBody {
  std::string name;                      ///< name
  BodyKind kind = BodyKind::rigid;       ///< how it moves
  double mass = 0;                       ///< [kg]
  Matrix3d inertia = Matrix3d::Zero();   ///< about the centre of mass, body axes [kg·m²]
  Shape shape;                           ///< about its centre of mass
  std::vector<PlacedShape> more_shapes;  ///< of a robot's link, whose shapes need not be about its centre of mass
  Quaterniond link_axes = Quaterniond::Identity();  ///< of the frame of a robot's link, in body axes
  int family = 0;                                   ///< bodies of one, if it is not 0, do not collide with each other
  int multibody = 0;                                ///< bodies of one, if it is not 0, are links of one btMultiBody
  BodyState start;                                  ///< at t = 0
  std::function<BodyState(double)> motion;          ///< of a kinematic body
  std::string unit;                                 ///< of a coordinate: rad, m, … or empty; see force_unit()
  bool imported = false;                            ///< from an included .bullet file: the host has it already
};

/// A frame that is fixed in a body and has a name: that of a link of a robot's file, or one of [[frame]]. The frame of
/// a link without mass that is fixed to another link is in the body of that link.
struct SceneFrame {
  std::string name;  ///< name; a robot's link and its body have the same
  BodyId body;       ///< the body; BodyId{i + 1} is body i of the model, ground the world
  Pose in_body;      ///< its origin from the centre of mass of the body, and its axes; all in the axes of the body [m]
};

/// The unit of the generalized force on a coordinate of this unit: N m of rad, N of m, J/unit of others, none of none.
LINCHPIN_SCENE_API std::string force_unit(const std::string& unit);

/// The coefficients of a law of dry friction at a state.
struct FrictionCoefficients {
  double mu = 0, mu_kinetic = 0;  ///< at rest, and in motion
};

struct CompoundJoint;  // joints in a chain whose links between them have no mass

/// A stock joint or a typed constraint.
struct SceneConstraint {
  std::string name;               ///< name
  std::string type;               ///< equation, velocity, or a joint's: ball, hinge, slider, …
  std::vector<std::string> text;  ///< the equations as typed; empty for joints
  std::vector<BodyId> bodies;     ///< the bodies, in the order of its equations
  /// Makes a new constraint, which shares no internal state with others.
  std::function<Constraint(std::vector<BodyId>)> make;
  std::vector<Law> laws;  ///< its force laws
  /// The coefficients of those laws that give them as expressions, from the bodies and the time of the argument.
  std::vector<std::function<FrictionCoefficients(const ConstraintReaction&)>> coefficients;
  std::optional<Unilateral> unilateral;  ///< of one position row that only pushes
  std::optional<Compliance> compliance;  ///< springs and dampers in place of its rows
  /// Largest force of a motor of speed 0 in place of its one row [N or N m]: dry friction of that size.
  std::optional<double> dry_friction;
  /// Returns whether forces act in place of its rows, which then are no gaps.
  bool yields() const { return compliance || dry_friction; }
  bool rheonomic = false;       ///< time occurs in it
  JointFrame frame_a, frame_b;  ///< of ball, hinge, slider and weld: x along the axis; for hosts that have these
  std::optional<Quaterniond> own_axes;  ///< of a robot's joint, in its second body; else frame_b is its frame
  /// Where a robot's joint stops, of its angle [rad] or shift [m]. A Stepper needs scene::with_joint_limits().
  std::optional<std::pair<double, double>> limits;
  /// Largest force or torque of an actuator of a robot's joint [N or N m], and largest rate at which it drives [rad/s
  /// or m/s]. The joint itself does not enforce them.
  std::optional<double> max_force, max_rate;
  /// The position of a joint that mimics another is multiplier · the position of the other + offset.
  struct Mimic {
    std::string follower, leader;  ///< names of the two joints
    double multiplier = 1;         ///< number, or [m/rad] or [rad/m]
    double offset = 0;             ///< [rad or m]
  };
  std::optional<Mimic> mimic;  ///< of a constraint that couples two joints of a robot's file
  double start = 0;            ///< of a robot's joint at t = 0, of which the limits are: angle [rad] or shift [m]
  double rate = 0;             ///< rate of a robot's joint at t = 0 [rad/s or m/s]; it is in the bodies' velocities
  bool tree = false;           ///< holds a link of a multibody, its second body, to its parent: there by coordinates
  bool imported = false;       ///< a joint of an included .bullet file
  std::shared_ptr<const CompoundJoint> compound;  ///< of Model::compound_coordinates: the compound joint
  int compound_coordinate = 0;                    ///< which of its coordinates this joint is
};

/// Returns the coefficients of a law of the constraint whose mu_kinetic is above mu at a state, where one is. The law
/// then slides with mu. Only expressions can make it so, because load() refuses such numbers.
LINCHPIN_SCENE_API std::optional<FrictionCoefficients> kinetic_above_static(const SceneConstraint& constraint,
                                                                            const State& at);

/// An impressed force. Forces that `make` returns may share work memory.
struct SceneForce {
  std::string name;            ///< name
  std::string joint;           ///< name of the joint that it drives, if it is an actuator; otherwise empty
  std::vector<BodyId> bodies;  ///< the bodies, in the order of its function
  /// Makes a new force on these bodies.
  std::function<Force(std::vector<BodyId>)> make;
};

class ModeRecord;  // scene/modes.h

/// The input of a channel: the state and, where it reads them, the forces at that state. It consists of references and
/// is valid during one call.
struct Observation {
  const System& system;                 ///< for masses and potentials
  const State& state;                   ///< state of all bodies
  std::span<const Reaction> reactions;  ///< in any order; found by name
  /// Times of stick and slip. Without a record the functions of them are NaN.
  const ModeRecord* modes = nullptr;
};

/// A quantity to log or to expect, as an expression: "reaction(winch)", "energy()", "dist2(a.position, b.position)".
/// It has work memory, so one thread at a time may use it. Copies have their own.
class LINCHPIN_SCENE_API Channel {
 public:
  Channel();
  Channel(const Channel& from);
  Channel(Channel&& from) noexcept;
  Channel& operator=(const Channel& from);
  Channel& operator=(Channel&& from) noexcept;
  ~Channel();
  const std::string& text() const { return text_; }  ///< the expression, as typed
  /// The `name` that the file gives to a log or an expectation, or otherwise the text: the title of its columns.
  const std::string& title() const { return name_.empty() ? text_ : name_; }
  bool has_name() const { return !name_.empty(); }   ///< Returns whether the file gives it a name.
  const std::string& unit() const { return unit_; }  ///< as the file says, or of the plain ones; may be empty
  int size() const;                                  ///< 1, or 3 for a vector
  /// Returns whether it reads forces, and so needs Observation::reactions.
  bool reads_forces() const;
  /// Whether it reads a time of stick and slip, of release or engagement, which is NaN before the first change.
  bool reads_mode_times() const;
  /// Returns whether its value depends on the motion before: works, friction modes, and times of mode changes.
  bool reads_history() const;
  /// Returns size() values, NaN for a force that is not among the reactions. Valid until the next call.
  std::span<const double> operator()(const Observation& at) const;

 private:
  friend class SceneReader;
  struct Impl;
  std::string text_, name_, unit_;
  std::unique_ptr<Impl> impl_;
};

/// A known answer of the scene: |value − is| ≤ tolerance at a time, or at all times.
struct Expectation {
  Channel value;                ///< the quantity
  bool throughout = false;      ///< at every step instead of at `at`
  double at = 0;                ///< [s]
  std::vector<double> is;       ///< channel size; empty: what it was at t = 0
  double tolerance = 0;         ///< of the host `bare`
  double tolerance_bullet = 0;  ///< of `bullet-float64`; 0: not judged there
  double tolerance_single = 0;  ///< of `bullet`; 0: not judged there
};

/// What steps a scene.
enum class Host {
  bare,           ///< without an engine
  bullet,         ///< Bullet in single precision
  bullet_float64  ///< Bullet in double precision
};
/// Name of a host as scenes and the command have it: "bare", "bullet", "bullet-float64".
LINCHPIN_SCENE_API const char* to_string(Host host);

/// A scene that has been read. It owns all its data. It needs neither the file nor other objects after load().
struct LINCHPIN_SCENE_API Model {
  std::string file;  ///< the file of the scene
  std::vector<std::string>
      files;  ///< every file that was read for it, the scene first; includes, meshes, the .bullet file
  Vector3d gravity = {0, -9.81, 0};  ///< [m/s²]
  bool gravity_given = false;        ///< by the file
  double duration = 2;               ///< [s]
  double dt = 1.0 / 240;             ///< [s]
  Host host = Host::bare;            ///< what steps it, as the file says
  bool contacts = false;             ///< bodies of a Bullet host collide
  std::string bullet_file;           ///< included .bullet file, or empty
  std::string mjcf_file;             ///< MJCF file of [model], or empty: MuJoCo steps the scene
  int robots = 0, multibodies = 0;   ///< how many robots; how many multibodies they are
  std::vector<std::string> native;   ///< its parts that are no equality and in no System, such as limits and motors
  /// Values that were accepted but are probably mistakes, such as an inertia that no distribution of mass has. Each
  /// text has the form of a SceneError.
  std::vector<std::string> warnings;
  std::vector<Note> notes;                  ///< of the files of robots
  StepOptions options;                      ///< for a Stepper
  Method stepping = Method::semi_implicit;  ///< of the Bullet hosts: semi_implicit, rk4 or adaptive
  std::vector<SceneBody> bodies;            ///< coordinates last
  std::vector<SceneFrame> frames;           ///< those of robots' links first, then those of [[frame]]
  /// The kinetic energy of the coordinates, a new function each time; empty without any.
  std::function<std::shared_ptr<const Kinetics>()> kinetics;
  std::vector<SceneConstraint> constraints;  ///< joints and typed constraints
  /// The hinges and sliders of robots that are part of a compound joint. Each of them has a coordinate, and may have
  /// limits, which scene::with_compound_limits() makes constraints. It is no constraint, so `make` is empty: the
  /// compound joint is one of `constraints`.
  std::vector<SceneConstraint> compound_coordinates;
  std::vector<SceneForce> forces;         ///< impressed forces
  std::vector<Channel> logs;              ///< quantities to log
  std::vector<Expectation> expectations;  ///< known answers

  /// Makes a System with all bodies, constraints, forces and laws. It does not refer to the Model. @throws
  /// std::invalid_argument only if the program has changed the model to one that is not valid.
  System system() const;
};

/// Compares a run with the expectations of its scene. A program calls see() at every state of the run, and end() after
/// it. The Judge points to the expectations of the Model, which must exist and stay unchanged as long as the Judge is
/// used. It evaluates their channels, so it serves the thread of the Model.
class LINCHPIN_SCENE_API Judge {
 public:
  /// @param dt  of the run, which may not be the scene's
  Judge(const Model& model, Host host, double dt);
  /// The result for one expectation.
  struct Verdict {
    const Expectation* expectation = nullptr;  ///< the expectation, in the Model
    /// Its time was reached, or for `throughout` the end of the run, and the forces that it reads were there.
    bool judged = false;
    bool met = false;                       ///< It was judged, and the error was within the tolerance.
    double error = 0;                       ///< largest |value − is|
    double tolerance = 0;                   ///< its tolerance on the host of the run
    std::vector<double> got;                ///< at the time, or where the error was largest
    std::optional<double> not_a_number_at;  ///< first time at which the value, or its distance, was NaN [s]
  };
  /// Call it at every state of the run, from t = 0.
  void see(const Observation& at);
  /// Call it after the run. An expectation at all times of a run that ended before is not judged, unless it was off.
  /// @param t  at which the run was to end [s]
  void end(double t);
  /// Returns whether an expectation at time t reads forces.
  bool needs_forces(double t) const;
  /// Returns the lengths of the parts of a step from t [s]. One part ends at each time of an expectation within the
  /// step. Without such a time the result is dt alone.
  std::vector<double> parts(double t, double dt) const;
  /// Returns the results, one for each expectation of the Model.
  const std::vector<Verdict>& verdicts() const { return verdicts_; }
  /// Returns why an expectation was not judged. Empty if it was judged.
  std::string why_not(const Verdict& verdict) const;

 private:
  bool due(const Expectation& e, double t) const;
  double dt_;
  double first_time_ = 0, last_ = 0;  // times that were seen
  bool seen_ = false;
  std::vector<Verdict> verdicts_;
  std::vector<std::vector<double>> first_;
};

/// A .bullet or MJCF file is included, and load() has no importer. The duration of the scene is known nevertheless.
class LINCHPIN_SCENE_API NeedsHost : public SceneError {
 public:
  /// Made by load().
  NeedsHost(const SceneError& e, double dt_, double duration_, Host host_, std::vector<std::string> files_,
            bool mujoco_, bool host_given_)
      : SceneError(e),
        dt(dt_),
        duration(duration_),
        host(host_),
        files(std::move(files_)),
        mujoco(mujoco_),
        host_given(host_given_) {}
  double dt, duration;             ///< [s]
  Host host;                       ///< the host that the file asks for
  std::vector<std::string> files;  ///< as Model::files
  bool mujoco;                     ///< The file is MJCF. The step may then be that of this file.
  bool host_given;                 ///< The scene names its host.
};

/// The contents of a .bullet or MJCF file.
struct Imported {
  std::vector<SceneBody> bodies;  ///< in the host's order
  /// Its joints between those bodies (BodyId{i + 1} is bodies[i]). A host that has them in its world leaves them out.
  std::vector<SceneConstraint> joints;
  std::vector<std::string> native;  ///< the parts that stay with the host: "door: limits"
  std::optional<Vector3d> gravity;  ///< [m/s²], where the file has one
  std::vector<SceneFrame> frames;   ///< frames of those bodies by name
  std::optional<double> dt;         ///< [s], where the file has a step
};
/// An MJCF file as a scene, for hosts other than MuJoCo.
struct MjcfScene {
  std::string text;         ///< the scene, in TOML
  std::vector<Note> notes;  ///< the parts of the file that it has not
};
/// Reads a .bullet file from a path. load() calls it in its own thread and does not keep it.
using BulletImporter = std::function<Imported(const std::string& path)>;

/// The representation of a robot on the hosts of Bullet. The mechanics are the same.
enum class RobotsAs {
  bodies,    ///< btRigidBody, joints are constraints
  multibody  ///< btMultiBody, joints of the tree are coordinates; what closes loops is constraints
};

/// Values of the caller that replace values of the file.
struct Overrides {
  /// Numbers that replace those in the [params] of the scene itself. Values that depend on them change with them.
  std::map<std::string, double, std::less<>> params;
  std::vector<std::string> logs;                            ///< channels after those of [[log]]
  std::optional<RobotsAs> robots;                           ///< in place of what [model] says
  std::function<Imported(const std::string& path)> mjcf{};  ///< reads the file of `mjcf` in [model], for MuJoCo
  /// Reads it for the other hosts. With it, `mjcf` is not called.
  std::function<MjcfScene(const std::string& path)> mjcf_scene{};
};

/// Reads a scene and everything it includes, or a .bullet file by itself. Checks all that can be checked without a
/// step. These are names, shapes, masses and the types in expressions. Every residual and its derivatives must be
/// finite at the start. Any thread may call it.
/// @throws SceneError for a fault of a file. @throws NeedsHost without an importer. @throws std::invalid_argument for
/// an override that is no number of [params].
[[nodiscard]] LINCHPIN_SCENE_API Model load(const std::string& path, const BulletImporter& import = {},
                                            const Overrides& overrides = {});
/// Does the same for a text. Messages use `path` as its name, and includes are relative to it.
[[nodiscard]] LINCHPIN_SCENE_API Model load_text(std::string_view text, const std::string& path,
                                                 const BulletImporter& import = {}, const Overrides& overrides = {});
LINCHPIN_SCENE_API Result<Model> try_load(const std::string& path, const BulletImporter& import = {},
                                          const Overrides& overrides = {}) noexcept;
LINCHPIN_SCENE_API Result<Model> try_load_text(std::string_view text, const std::string& path,
                                               const BulletImporter& import = {},
                                               const Overrides& overrides = {}) noexcept;

}  // namespace linchpin::scene
