// Typed expressions: text to a tape of operations that runs on the core's number types, so that a typed equation has
// the derivatives of the same lambda, to the bit (T3). Hides the grammar, the types (scalar or vector), constant
// folding and which operations a body's derivatives reach. Knows no file and no System.
//
//   sum     := product { (+|-) product }        vector  := [ sum , sum , sum ]
//   product := sign { (*|/) sign }              primary := number | name | name(…) | body.quantity | vector | (sum)
//   sign    := (+|-) sign | power               name    := letter { letter | digit | _ }, or 'any text' for a body
//   power   := postfix [ ^ sign ]               postfix := primary { .x | .y | .z }; theta' is the rate of a coordinate
#pragma once

#include <linchpin/constraint.h>
#include <linchpin/coordinates.h>
#include <linchpin/scene/names.h>

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace linchpin::scene {

/// A message without the middle of what is too long for one: names may have any length.
std::string shortened(const std::string& message);

/// What is wrong with a text and where: `at` is a byte offset in it.
struct Fault : std::runtime_error {
  Fault(std::size_t at_, const std::string& what) : std::runtime_error(shortened(what)), at(at_) {}
  std::size_t at;
};

/// The text reads a force before the constraints are known: it is to be compiled later.
struct ReadsForces : Fault {
  using Fault::Fault;
};

/// The identifiers in a text, in order.
std::vector<std::string_view> identifiers_of(std::string_view text);

/// `; did you mean "…"?` or nothing.
std::string suggestion(std::string_view word, const std::vector<std::string>& known);
/// The same, or the first six of the known names where none is near.
std::string suggestion_or_all(std::string_view word, const std::vector<std::string>& known);

enum class Type { scalar, vector };
using Constant = std::variant<double, Vector3d>;

/// A quantity that whoever evaluates the expression provides: N of a law, or reaction(winch) of a log.
struct Input {
  std::string name;
  Type type = Type::scalar;
  std::string of;  ///< the constraint in name(of) or name(of, on); empty for a name by itself
  int on = -1;     ///< which of its bodies; −1 for the first
  enum class Of { constraint, force, body };
  Of kind = Of::constraint;  ///< what `of` is the name of
  int row = 0;               ///< of a multiplier, from 0
};

/// Numbers and vectors by name, and those of a place inside others (a table with params of its own, a round of a
/// generator): there may be many places and many constants, so that a place looks outwards instead of keeping a copy.
class Constants {
 public:
  using Map = std::map<std::string, Constant, std::less<>>;
  const Constant* find(std::string_view name) const;
  Constant& operator[](std::string_view name);  ///< of this place
  const Map& own() const { return own_; }
  const Map* outer() const { return outer_; }  ///< null for what lies in nothing else
  /// A place inside. The outermost must outlive it and stay where it is; what lies between is copied.
  Constants inside() const;

 private:
  const Map* outer_ = nullptr;
  Map own_;
};

/// A named expression that others of its scene use. Each use is compiled as if its text stood there in brackets.
struct Definition {
  std::string name, text;
  const Constants* constants = nullptr;      ///< those that the text may use; they outlive it
  std::shared_ptr<const Definition> before;  ///< the definitions that the text may use, the last one first
};

/// A frame that is fixed in a body.
struct NamedFrame {
  std::string name;
  int body = 0;                          ///< among the bodies of the scene
  Vector3d p_BF = Vector3d::Zero();      ///< its origin, from the centre of mass of the body, in the body's axes [m]
  Matrix3d R_BF = Matrix3d::Identity();  ///< its axes, in those of the body
};

struct SceneConstraint;  // scene.h

/// What an expression may speak of.
struct Names {
  Constants constants;
  std::shared_ptr<const Definition> definitions;  ///< the last one; each leads to the one before it
  std::vector<std::string> bodies;                ///< all of the scene; an expression keeps the ones it uses
  std::vector<BodyKind> kinds;                    ///< by body: particles have no axes, coordinates are numbers
  std::vector<NamedFrame> frames;                 ///< a frame may have the name of its body, as a robot's link has
  bool time = true;                               ///< may read t
  bool motion = true;                             ///< may read velocities
  std::vector<Input> inputs;                      ///< names by themselves
  std::vector<std::string> sensors;               ///< names of sensors, whose forces are inputs of logs only
  std::vector<Input> observables;        ///< functions of a constraint; of = "-" for those of nothing: energy()
  std::vector<std::string> constraints;  ///< what those may be asked of
  std::vector<std::vector<int>> constraint_bodies;
  std::vector<int> constraint_rows;
  /// Which changes of mode a constraint can have.
  struct Modes {
    bool friction = true, unilateral = true, reengage = true;
  };
  std::vector<Modes> constraint_modes;       ///< by constraint; empty: all
  std::vector<char> constraint_coordinates;  ///< by constraint: whether it is a joint with a coordinate
  /// Joints in compound joints that are no constraints, and the names of their compound joints; empty where the chain
  /// leaves all motions free.
  std::map<std::string, std::string, std::less<>> compound_of;
  std::vector<std::string> forces;  ///< impressed ones, for functions of a force
  std::vector<std::vector<int>> force_bodies;
  bool accelerations = false;     ///< may read those of bodies and coordinates
  bool constraints_known = true;  ///< false: a function of a constraint is the fault ReadsForces

  /// Adds a constraint, without its modes.
  void add_constraint(const SceneConstraint& constraint, int rows);
  /// Adds a joint that is part of a compound joint, after the constraints.
  void add_joint_in_compound(const SceneConstraint& joint);
};

enum class Code : std::uint8_t {
  time,
  input,
  input_vector,
  add,
  subtract,
  multiply,
  divide,
  negate,
  add_constant,
  multiply_constant,
  power,
  power_constant,
  sin,
  cos,
  tan,
  asin,
  acos,
  atan,
  sinh,
  cosh,
  tanh,
  asinh,
  exp,
  log,
  sqrt,
  abs,
  sign,
  square,
  atan2,
  hypot,
  min,
  max,
  dot,
  norm,
  norm2,
  dist2,
  dist,
  x,
  y,
  z,
  make,
  add_vector,
  subtract_vector,
  negate_vector,
  scale,
  shrink,
  cross,
  position,
  point,
  axis,
  point_at,
  velocity,
  velocity_of,
  velocity_at,
  omega,
  to_body
};

struct Operation {
  Code code;
  int out = 0;                     ///< where the result goes, among the scalars or the vectors
  int a = 0, b = 0, c = 0;         ///< operands, likewise; of `input…`: which; of body quantities: `b` is the body
  int n = 0;                       ///< of an integer power
  double number = 0;               ///< of …_constant
  Vector3d at = Vector3d::Zero();  ///< of point, axis, velocity_of: body axes
  std::uint64_t bodies = 0;        ///< those it depends on, as bits
  std::size_t place = 0;           ///< in the text
};

template <class T>
struct Memory {
  std::vector<T> scalars;
  std::vector<Vec3<T>> vectors;
};

/// One or more expressions on one tape. Plain data once made; the memory it runs in belongs to the caller.
class Tape {
 public:
  struct Result {
    Type type = Type::scalar;
    int at = 0;
  };
  std::vector<Operation> operations;
  std::vector<double> scalars;  ///< initial content: constants where they belong, zero elsewhere
  std::vector<Vector3d> vectors;
  std::vector<Result> results;
  std::vector<int> bodies;    ///< index into Names::bodies, in order of first use
  std::vector<Input> inputs;  ///< used ones, of both types, in order of first use
  bool uses_time = false, uses_motion = false;

  int rows() const;  ///< scalars in all results
  template <class T>
  Memory<T> memory() const {
    Memory<T> m;
    m.scalars.assign(scalars.begin(), scalars.end());
    m.vectors.assign(vectors.begin(), vectors.end());
    return m;
  }
  /// Runs the operations that depend on a body of `which` (all, and those on none, with `everything`).
  /// @param views one per entry of `bodies`. @param given, given_vectors by place in `inputs`.
  template <class T>
  void run(Memory<T>& m, std::span<const VelocityView<T>> views, const T& t, std::uint64_t which,
           std::span<const Vector3d> given = {}) const;
  static constexpr std::uint64_t everything = ~std::uint64_t{0};
  /// Row by row: sink(row, value).
  template <class T, class Sink>
  void each_row(const Memory<T>& m, Sink sink) const {
    std::size_t row = 0;
    for (const Result& r : results) {
      if (r.type == Type::scalar) {
        sink(row++, m.scalars[static_cast<std::size_t>(r.at)]);
      } else {
        const Vec3<T>& v = m.vectors[static_cast<std::size_t>(r.at)];
        sink(row++, v.x), sink(row++, v.y), sink(row++, v.z);
      }
    }
  }
};

/// Whether a function gives a result of the run, such as a force: logs and expectations read it.
bool is_result(std::string_view function);
/// Whether one of those gives the time of a change of mode: stick_time and its kin.
bool is_mode_time(std::string_view function);
/// Whether a name is that of a function: sin(…), energy().
bool is_function(std::string_view name);

/// Adds the texts of one constraint (each `lhs = rhs`) or one expression to a tape.
class Compiler {
 public:
  explicit Compiler(const Names& names) : Compiler(names, names.constants) {}
  /// With other constants than those of the names. Both must outlive it.
  Compiler(const Names& names, const Constants& constants);
  ~Compiler();
  /// lhs − rhs becomes a result. @throws Fault.
  void equation(std::string_view text);
  /// The value becomes a result. @throws Fault, also when it is not of the `wanted` type.
  Type expression(std::string_view text, std::optional<Type> wanted = {});
  Tape finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The value of a text that may use constants only. @throws Fault.
Constant constant(std::string_view text, const Constants& constants);

/// A ConstraintFunction from a tape at the position or velocity level.
std::unique_ptr<ConstraintFunction> make_function(std::shared_ptr<const Tape> tape, Level level, RowUnit unit);

/// The kinetic energy of n coordinates, bodies `first`, first + 1, … of the names the tape was compiled with.
/// @param matrix  the results are the entries of M, n (diagonal) or n², instead of T itself
std::shared_ptr<const Kinetics> make_kinetics(std::shared_ptr<const Tape> tape, int first, int n, bool matrix);

/// How the only, scalar result of a tape on positions changes with body k of the tape: [∂/∂p; ∂/∂θ]. Keeps memory: for
/// one thread at a time.
class Gradient {
 public:
  explicit Gradient(std::shared_ptr<const Tape> tape);
  std::array<double, 6> operator()(std::span<const BodyState> X, double t, std::size_t k);

 private:
  std::shared_ptr<const Tape> tape_;
  Memory<Dual<6>> memory_;
  std::vector<VelocityView<Dual<6>>> views_;
};

/// The first operation whose value or derivative is not finite at a state or jumps there, and why; nothing when all are
/// well.
std::optional<Fault> trouble(const Tape& tape, Level level, std::span<const BodyState> X, double t);

/// The values of a tape's results at a state, vectors as three rows. Keeps memory: for one thread at a time.
class Evaluator {
 public:
  explicit Evaluator(std::shared_ptr<const Tape> tape);
  /// @param X one per entry of tape().bodies. @param given by place in tape().inputs, a scalar in x.
  /// @return values in memory of the evaluator, until its next call
  std::span<const double> operator()(std::span<const BodyState> X, double t, std::span<const Vector3d> given = {}) &;
  const Tape& tape() const { return *tape_; }

 private:
  std::shared_ptr<const Tape> tape_;
  Memory<Dual<0>> memory_;
  std::vector<VelocityView<Dual<0>>> views_;
  std::vector<double> out_;
};

/// A scalar expression of t as a callable on number types, for joints that move.
class MotionText {
 public:
  explicit MotionText(std::shared_ptr<const Tape> tape) : tape_(std::move(tape)) {}
  template <Number T>
  T operator()(const T& t) const {
    Memory<T> m = tape_->memory<T>();
    tape_->run<T>(m, {}, t, Tape::everything);
    return m.scalars[static_cast<std::size_t>(tape_->results.front().at)];
  }

 private:
  std::shared_ptr<const Tape> tape_;
};

}  // namespace linchpin::scene
