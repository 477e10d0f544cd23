// The parts of a scene, one reader each: bodies, stock joints, typed constraints, forces, laws. The names of joints and
// laws stand in one table each, in parts.cpp.
#pragma once

#include "source.h"

#include <linchpin/scene.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace linchpin::scene {

/// BodyId::index by name, −1 where there is none.
using FindBody = std::function<int(const std::string&)>;

/// The body of this name. @throws SceneError at its place, with the nearest name.
BodyId body_named(const Text& name, const FindBody& find, const Names& names, const std::string& who,
                  const std::string& key_of_frame = {});
/// The frame of this name, which may be that of a link, or "world". Valid as long as the names. @throws SceneError as
/// above.
const NamedFrame& frame_named(const Text& name, const Names& names, const std::string& who);

/// Compiles an expression of this type. @throws SceneError at its place
std::shared_ptr<const Tape> compiled(const Text& text, const Names& names, Type type, const std::string& who);
/// Names for an expression of time alone.
Names of_time(const Context& context);

/// Mass, shape and start of a body; its name is read by the caller.
/// @param placed  false in generators, which say themselves where their bodies are
SceneBody read_body(Table& table, Context& context, bool placed = true);

/// Why no distribution of mass has this inertia, by the triangle inequality; empty where one may.
std::string doubt_of(const Matrix3d& inertia);

/// `rotation` of a body, or of what is placed like one.
Quaterniond read_rotation(Table& table, Context& context);

/// A stock joint as written: points and axes in the world at the start, or in the bodies.
struct JointPlan {
  std::string type, name, a = "world", b;
  std::optional<NamedFrame> frame_a, frame_b;  ///< that the joint holds; a weld of two brings them together
  std::optional<Vector3d> at, at_a, at_b, axis, axis_a, axis_b;  ///< in the axes of the bodies, without a frame too
  std::optional<double> length, radius, ratio;
  std::string carrier = "world";
  std::shared_ptr<const Tape> motion;  ///< of t: length, distance or angle
  Place place;
};
JointPlan read_joint(Table& table, Context& context);
/// @throws SceneError at the plan's place.
SceneConstraint make_joint(const JointPlan& plan, const Names& names, const FindBody& find, const State& start);

SceneConstraint read_constraint(Table& table, Context& context, const State& start);
SceneForce read_force(Table& table, Context& context, const FindBody& find, const State& start);
/// The force that a potential gives on all it speaks of.
SceneForce potential_force(const std::string& name, const Text& text, Context& context, const State& start,
                           const std::string& who);
/// `kinetic` or `mass` of n coordinates, bodies `first`, first + 1, …, tried at the start.
/// @param constrained  whether there are constraints that may complete a singular mass matrix (T1)
/// @param matrix  out: for make_kinetics
std::shared_ptr<const Tape> read_kinetics(Table& table, Context& context, const State& start, int first, int n,
                                          bool constrained, bool& matrix);
/// A text for `mu_kinetic`, or for `mu` beside a number, and the coefficients that it gives with the other.
struct CoefficientText {
  Text text;
  std::string what;  ///< how messages call it
  std::function<FrictionCoefficients(const ConstraintReaction&)> values;
};
/// `law = {…}` or an array of them. @param bodies  of the constraint; texts of a law read the first two
/// @param coefficients  out: those of the laws whose mu_kinetic may come above mu in the motion
std::vector<Law> read_laws(Table& table, Context& context, const std::vector<BodyId>& bodies,
                           std::vector<CoefficientText>& coefficients);
/// `unilateral = true` or {…}; nothing where it is false or missing. @param made  refuses what is not one row on
/// positions
std::optional<Unilateral> read_unilateral(Table& table, Context& context, const SceneConstraint& made);
/// `compliance = { stiffness = …, damping = …, angular_stiffness = …, angular_damping = … }`; nothing where it is
/// missing.
/// @param made  refuses what cannot yield @param start  states of its bodies
std::optional<Compliance> read_compliance(Table& table, Context& context, const SceneConstraint& made,
                                          const State& start);
/// Whether one of them is typed: law = { force = "…" }.
bool is_typed(const toml::node& law);

}  // namespace linchpin::scene
