// A run as frames for playback and plots: poses, gaps, energy and forces at a number of frames a second. The program
// adds each state. write() makes a page or a file for other viewers. For a Bullet world bullet_recorder.h does all of
// this. The header depends on no host. A recording grows with the frames, so its calls allocate.
//
// The structs of this header are plain values.
#pragma once

#include <linchpin/error.h>
#include <linchpin/export.h>
#include <linchpin/report.h>
#include <linchpin/system.h>

#include <array>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

/// Marks the public names of linchpin::recording: see linchpin/export.h.
#if defined(LINCHPIN_RECORDING_BUILD)
#define LINCHPIN_RECORDING_API LINCHPIN_EXPORT
#elif defined(LINCHPIN_RECORDING_SHARED)
#define LINCHPIN_RECORDING_API LINCHPIN_IMPORT
#else
#define LINCHPIN_RECORDING_API LINCHPIN_STATIC
#endif

namespace linchpin::recording {

struct Columns;  // tools/recording: the columns as JSON

/// The number of frames of a recording: frames a second, more in a short run, fewer where the recording would be too
/// large. The first and the last state are always frames.
struct RecordingOptions {
  double frames_per_second = 60;  ///< frames for each second of the run
  double most_bytes = 8e6;        ///< of columns in single precision; a page becomes some 1.4 times as large
  bool full = false;              ///< also in double precision, which MCAP has
  long least_frames = 200;        ///< of a run of as many steps, however short, as long as they stay below least_bytes
  double least_bytes = 3e5;       ///< limit of the size up to which a short run has least_frames [bytes]
};

/// The shape by which a viewer draws a body.
struct VisualShape {
  /// The kinds of shapes.
  enum class Kind {
    none,      ///< not drawn
    box,       ///< a box
    sphere,    ///< a sphere
    capsule,   ///< a cylinder with half a sphere at each end
    cylinder,  ///< a cylinder
    hull       ///< a convex polyhedron
  };
  Kind kind = Kind::none;  ///< what it is
  /// box: edges; sphere: radius; capsule, cylinder: radius, length along y; hull: edges of the box around it [m]
  Vector3d size = Vector3d::Zero();
  std::vector<Vector3d> vertices;             ///< of a hull [m]; at most 65535
  std::vector<std::array<int, 3>> triangles;  ///< of a hull: indices of vertices, counterclockwise from outside
};

/// A shape beside the origin of a body.
struct PlacedVisualShape {
  VisualShape shape;                           ///< the shape
  Vector3d position = Vector3d::Zero();        ///< of its origin, in body axes [m]
  Quaterniond turn = Quaterniond::Identity();  ///< of its axes, in those of the body
};

/// The frames of one run. It owns copies of all that it receives, and keeps no reference. A copy shares nothing with
/// the original. It calls no function of the program. One thread at a time may use one object.
class LINCHPIN_RECORDING_API Recording {
 public:
  /// A body, or a coordinate.
  struct Body {
    std::string name;                           ///< name
    BodyKind kind = BodyKind::rigid;            ///< how it moves
    VisualShape shape;                          ///< how it is drawn
    std::string unit;                           ///< of a coordinate
    std::string force_unit;                     ///< of a coordinate: of a generalized force on it
    std::vector<PlacedVisualShape> parts = {};  ///< more shapes of a body, with those of a robot's link
  };
  /// A constraint between bodies.
  struct Joint {
    std::string name;         ///< name
    std::string unit;         ///< of its gap: "m", "rad" or empty
    std::vector<int> bodies;  ///< into the bodies; -1 is the world
    /// Of those, the one that forces are shown on: the first that moves.
    std::size_t on = 0;
    /// Returns the gap of a reaction in the unit of this joint.
    double gap_of(const Reaction& r) const { return unit == "m" ? r.gap : unit == "rad" ? r.gap_angle : r.residual; }
  };
  /// A quantity that the program records beside the motion.
  struct Signal {
    std::string name, unit;  ///< name, and unit as it is printed
  };

  /// @param dt     length of a step [s]
  /// @param steps  number of steps of the run. 0: it is unknown. Then every step is a frame. When there are too many
  /// frames, every other one is removed, and the next one gets its largest gap and energy.
  Recording(const RecordingOptions& options, double dt, long steps, std::vector<Body> bodies, std::vector<Joint> links,
            std::vector<Signal> signals);

  const std::vector<Joint>& links() const { return links_; }  ///< Valid as long as the recording.

  /// Adds a state. Call it for every state of the run, from the first to the last. The gaps and the energy of a frame
  /// are the largest of the states since the frame before.
  /// @param states  of the bodies; a coordinate has its value in p.x and its rate in v.x
  /// @param gaps    of the links, in their units; NaN where there is none
  /// @param energy  [J], or NaN where it means nothing
  void state(double t, std::span<const BodyState> states, std::span<const double> gaps, double energy);
  /// Returns whether the last state is a frame. Then call forces() before the next state.
  bool is_frame() const { return is_frame_; }

  /// The forces of a constraint at a frame.
  struct Force {
    static constexpr double nan = std::numeric_limits<double>::quiet_NaN();  ///< where a part is not known
    Wrench on;                                                ///< the whole force, on the link's body `on`
    double ideal = nan, nonideal = nan, stabilisation = nan;  ///< sizes of its parts there [N]
    /// Returns the force of a reaction on one of its bodies.
    static Force of(const Reaction& r, std::size_t body) {
      const int k = static_cast<int>(body);
      return {r.on(k), (r.ideal.on(k).force + r.induced.on(k).force).norm(), r.prescribed.on(k).force.norm(),
              r.stabilisation.on(k).force.norm()};
    }
  };
  /// Adds forces and signals at the last state. @param forces  of the links; fewer where the last ones are not known
  void forces(std::span<const Force> forces, std::span<const double> signals);

  long frames() const { return frames_; }  ///< number of frames

 private:
  friend struct recording::Columns;
  void put_frame();
  void pad();
  void thin();
  bool too_many() const;
  std::vector<Body> bodies_;
  std::vector<Joint> links_;
  std::vector<Signal> signals_;
  double dt_, per_frame_ = 0, most_bytes_ = 0;  // [s]; bytes, the most of them only where steps are not known
  long steps_, stride_ = 1, count_ = 0, frames_ = 0;
  long enough_ = 0,
       most_stride_ = 1;  // where steps are not known: frames that may be halved, steps from one to the next
  bool is_frame_ = false, in_frame_ = false, any_energy_ = false;  // the last state: wants forces, is a frame
  double now_t_ = 0, start_energy_ = 0, worst_energy_ = 0;
  std::vector<double> worst_gap_;
  std::vector<BodyState> now_;
  bool full_ = false;
  // Columns, frame by frame: three numbers of a position, a force, a moment and a point, four of a turn (x, y, z, w).
  std::vector<double> t_, position_, turn_, energy_, coordinates_, gap_, force_, moment_, ideal_, nonideal_,
      stabilisation_, signal_;
  std::vector<double> point_, place_;  // where forces act: on the link's body `on` in its axes; in the world
};

/// The texts and numbers of a page beside the frames. NaN is no number.
struct RecordedRun {
  static constexpr double nan = std::numeric_limits<double>::quiet_NaN();  ///< where a number is not known
  std::string title = "run";     ///< what was simulated; recordings are compared if they have the same
  std::string command;           ///< what made it; a program without
  std::string solver = "exact";  ///< or Bullet's: "bullet:si"
  /// Texts of the table: precision and name of the host, integrator, what holds the joints together, and outcome of the
  /// run.
  std::string precision = "double", host, integrator, stabilisation, status = "ok";
  /// numbers of steps, of steps of islands that the host solved, and of steps of islands in substeps
  long steps = 0, fallbacks = 0, substepped_steps = 0;
  double dt = 0;                                                        ///< [s]
  double duration = 0;                                                  ///< [s]
  double max_gap = nan, rms_gap = nan, max_angle = nan, corrected = 0;  ///< [m], [m], [rad], [m]
  std::string max_gap_joint;                                            ///< name of the constraint with the largest gap
  std::vector<std::pair<std::string, double>> residuals;    ///< the largest, of constraints with a unit of their own
  std::vector<std::pair<std::string, std::string>> native;  ///< what was left to the host, and why
  std::vector<std::string> redundant, undetermined, contradictory;  ///< names; of the rows:
  long rows = 0, rank = 0;                                          ///< number of rows, and their rank
  std::vector<std::string> notes;                                   ///< more lines below the table
  Vector3d gravity = Vector3d::Zero();                              ///< gravity [m/s²]
  std::size_t bodies = 0, joints = 0;                               ///< numbers of bodies and of joints
};

/// Writes a file whose kind follows from the end of the name. `.html` is a page, and `.rec` a recording for `linchpin
/// report` and `linchpin compare`. `.glb` and `.gltf` are animations. `.mcap` is a log for robotics viewers, which is
/// complete with RecordingOptions::full. The text is written to a temporary file first, so no reader finds a part of
/// it.
/// @throws std::invalid_argument for another name. @throws OrderError before the first state. @throws FileError where
/// the file cannot be written.
LINCHPIN_RECORDING_API void write(const std::string& path, const Recording& recording, const RecordedRun& run);
LINCHPIN_RECORDING_API Result<void> try_write(const std::string& path, const Recording& recording,
                                              const RecordedRun& run) noexcept;

}  // namespace linchpin::recording
