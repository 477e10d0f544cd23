#include "parts.h"

#include "joint_coordinate.h"

#include <Eigen/Cholesky>
#include <Eigen/Geometry>

#include <Eigen/Eigenvalues>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <numbers>

namespace linchpin::scene {

std::shared_ptr<const Tape> compiled(const Text& text, const Names& names, Type type, const std::string& who) {
  Compiler compiler(names);
  try {
    compiler.expression(text.value, type);
  } catch (const Fault& fault) {
    text.fail(fault, who);
  }
  return std::make_shared<const Tape>(compiler.finish());
}

Names of_time(const Context& context) {
  Names names;
  names.constants = context.names.constants.inside();
  names.definitions = context.names.definitions;
  return names;
}

BodyId body_named(const Text& name, const FindBody& find, const Names& names, const std::string& who,
                  const std::string& key_of_frame) {
  const int index = find(name.value);
  const auto frame = std::find_if(names.frames.begin(), names.frames.end(),
                                  [&](const NamedFrame& each) { return each.name == name.value; });
  if (index < 0 && frame != names.frames.end())
    fail(name.place, who + ": there is no body \"" + name.value + "\". It is a frame of the body \"" +
                         names.bodies[static_cast<std::size_t>(frame->body)] + "\": give this body" +
                         (key_of_frame.empty() ? "" : ", or write " + key_of_frame + " = \"" + name.value + "\""));
  if (index < 0)
    fail(name.place, who + ": there is no body \"" + name.value + "\"" + suggestion_or_all(name.value, names.bodies));
  if (names.kinds[static_cast<std::size_t>(index)] == BodyKind::coordinate)
    fail(name.place, who + ": \"" + name.value + "\" is a coordinate, not a body");
  return BodyId{index};
}

const NamedFrame& frame_named(const Text& name, const Names& names, const std::string& who) {
  static const NamedFrame world{"world"};
  if (name.value == world.name) return world;
  std::vector<std::string> known;
  for (const NamedFrame& frame : names.frames) {
    if (frame.name == name.value) return frame;
    known.push_back(frame.name);
  }
  std::string hint = suggestion_or_all(name.value, known);
  if (std::find(names.bodies.begin(), names.bodies.end(), name.value) != names.bodies.end())
    hint = ". \"" + name.value + "\" is a body without a frame of a file. Give it one by [[frame]] body = \"" +
           name.value + "\"";
  else if (known.empty())
    hint = ". The scene has no frames: links of robots and [[frame]] have names";
  fail(name.place, who + ": there is no frame \"" + name.value + "\"" + hint);
}

namespace {

// One of the two places that a joint or a spring connects: a body, or a frame by its name.
struct End {
  std::string body;                 // its name
  std::optional<NamedFrame> frame;  // to whose origin and axes points and directions refer; else to those of the body
  Vector3d point(const Vector3d& p) const { return frame ? Vector3d(frame->p_BF + frame->R_BF * p) : p; }
  Vector3d direction(const Vector3d& u) const { return frame ? Vector3d(frame->R_BF * u) : u; }
};
// The name of a body under a key. @param key_of_frame  the key that takes a frame in its place, or empty
std::string read_body_name(Table& table, const Names& names, const std::string& key, const std::string& key_of_frame) {
  const Text text = table.text(key);
  if (std::find(names.bodies.begin(), names.bodies.end(), text.value) != names.bodies.end()) return text.value;
  const bool is_frame =
      !key_of_frame.empty() && std::any_of(names.frames.begin(), names.frames.end(),
                                           [&](const NamedFrame& frame) { return frame.name == text.value; });
  fail(text.place,
       table.what() + ": there is no body \"" + text.value + "\"" +
           (is_frame ? ". It is a frame: write " + key_of_frame : suggestion_or_all(text.value, names.bodies)));
}

// @param side  "a" or "b": of the keys a or frame_a, b or frame_b
std::optional<End> read_end(Table& table, const Names& names, const std::string& side) {
  const std::string key = "frame_" + side;
  if (table.has(side) && table.has(key))
    table.refuse(key, "give " + side + " (a body) or " + key + " (a frame), one of the two");
  if (table.has(key)) {
    const NamedFrame& frame = frame_named(table.text(key), names, table.what());
    return End{names.bodies[static_cast<std::size_t>(frame.body)], frame};
  }
  if (!table.has(side)) return {};
  return End{read_body_name(table, names, side, key), {}};
}

struct OfTime {  // a scalar or vector of t with its two derivatives
  std::shared_ptr<const Tape> tape;
  std::array<Vector3d, 3> operator()(double t) const {
    Memory<Taylor> m = tape->memory<Taylor>();
    tape->run<Taylor>(m, {}, Taylor(t, 1, 0), Tape::everything);
    std::array<Vector3d, 3> out;
    for (Vector3d& each : out) each.setZero();
    tape->each_row(m, [&](std::size_t i, const Taylor& x) {
      const auto k = static_cast<Eigen::Index>(i);
      out[0][k] = x.c0, out[1][k] = x.c1, out[2][k] = 2 * x.c2;
    });
    return out;
  }
};

// ---- bodies ----

constexpr double pi = std::numbers::pi;

struct Solid {
  double volume = 0;
  Vector3d per_mass = Vector3d::Zero();  // principal moments of unit mass
};

Solid solid_of(const Shape& shape) {
  const Vector3d& s = shape.size;
  const double r = s.x(), l = s.y();
  switch (shape.kind) {
    case Shape::Kind::box: {
      const Vector3d q = s.cwiseProduct(s) / 12;
      return {s.prod(), {q.y() + q.z(), q.z() + q.x(), q.x() + q.y()}};
    }
    case Shape::Kind::sphere:
      return {4 * pi / 3 * r * r * r, Vector3d::Constant(0.4 * r * r)};
    case Shape::Kind::cylinder: {
      const double across = (3 * r * r + l * l) / 12;
      return {pi * r * r * l, {across, 0.5 * r * r, across}};
    }
    case Shape::Kind::capsule: {
      const double tube = pi * r * r * l, caps = 4 * pi / 3 * r * r * r, volume = tube + caps;
      const double across = tube * (3 * r * r + l * l) / 12 + caps * (0.4 * r * r + 0.375 * r * l + 0.25 * l * l);
      const double along = tube * 0.5 * r * r + caps * 0.4 * r * r;
      return {volume, Vector3d(across, along, across) / volume};
    }
    default:
      return {};
  }
}

Shape read_shape(const toml::table& node, Context& context, const std::string& who) {
  Table table(context, node, who + ", shape");
  Shape shape;
  const auto lengths = [&](std::string_view key, std::size_t count) {
    const toml::node& value = table.need(key);
    const auto* array = value.as_array();
    if (count == 1) {
      shape.size.x() = table.positive(key);
      return;
    }
    if (!array || array->size() != count)
      table.refuse(key, std::string(key) + (count == 2 ? " is [radius, length]" : " is [x, y, z], its edges"));
    for (std::size_t i = 0; i < count; ++i) {
      const double x = number_of(context, *array->get(i), table.what() + ", " + std::string(key));
      if (!(x > 0)) table.refuse(key, std::string(key) + ": every length must be above 0");
      shape.size[static_cast<Eigen::Index>(i)] = x;
    }
  };
  int count = 0;
  const auto is = [&](std::string_view key, Shape::Kind kind, std::size_t numbers) {
    if (!table.has(key)) return;
    ++count;
    shape.kind = kind;
    lengths(key, numbers);
  };
  is("box", Shape::Kind::box, 3);
  is("sphere", Shape::Kind::sphere, 1);
  is("capsule", Shape::Kind::capsule, 2);
  is("cylinder", Shape::Kind::cylinder, 2);
  table.done();
  if (count != 1) table.refuse("a shape is one of box, sphere, capsule, cylinder");
  return shape;
}

Matrix3d read_inertia(Table& table, Context& context) {
  const toml::node& node = table.need("inertia");
  const auto* array = node.as_array();
  Matrix3d I = Matrix3d::Zero();
  if (array && array->size() == 3 && array->get(0)->is_array()) {
    for (std::size_t i = 0; i < 3; ++i)
      I.row(static_cast<Eigen::Index>(i)) = vector_of(context, *array->get(i), table.what() + ", inertia").transpose();
    if (!I.isApprox(I.transpose(), 1e-12)) table.refuse("inertia", "the inertia matrix is not symmetric");
  } else {
    I = table.vector("inertia").asDiagonal();
  }
  const Eigen::LLT<Matrix3d> cholesky(I);
  if (cholesky.info() != Eigen::Success) table.refuse("inertia", "the inertia is not positive definite");
  return I;
}

void read_motion(Table& table, Context& context, SceneBody& body) {
  const toml::table* node = table.table("motion");
  if (!node) table.refuse("a kinematic body needs motion = { position = \"[…]\", axis = […], angle = \"…\" }");
  Table motion(context, *node, table.what() + ", motion");
  const Names names = of_time(context);
  std::optional<OfTime> position, angle;
  Vector3d axis = Vector3d::UnitZ();
  if (const auto text = motion.text_if("position"))
    position = OfTime{compiled(*text, names, Type::vector, motion.what())};
  if (const auto text = motion.text_if("angle")) {
    angle = OfTime{compiled(*text, names, Type::scalar, motion.what())};
    axis = motion.vector("axis");
    if (!(axis.norm() > 0)) motion.refuse("axis", "an axis of length zero has no direction");
    axis.normalize();
  }
  motion.done();
  if (!position && !angle) motion.refuse("is empty. Give a position or an angle, as expressions of t");
  const BodyState start = body.start;
  body.motion = [=](double t) {
    BodyState s = start;
    if (position) {
      const auto [p, v, a] = (*position)(t);
      s.p = p, s.v = v, s.a = a;
    }
    if (angle) {
      const auto [x, w, alpha] = (*angle)(t);
      s.q = Quaterniond(Eigen::Quaterniond(Eigen::AngleAxisd(x.x(), axis))) * start.q;
      s.w = w.x() * axis, s.alpha = alpha.x() * axis;
    }
    return s;
  };
  const BodyState first = body.motion(0);
  for (const Vector3d* v : {&first.p, &first.v, &first.a, &first.w, &first.alpha})
    if (!v->allFinite()) motion.refuse("is not finite at t = 0, or has no second derivative there");
}

}  // namespace

// { axis = […], angle = … }, or [w, x, y, z].
Quaterniond read_rotation(Table& table, Context& context) {
  const toml::node* node = table.find("rotation");
  if (!node) return Quaterniond::Identity();
  if (const auto* array = node->as_array()) {
    if (array->size() != 4)
      table.refuse("rotation", "a rotation is { axis = [x, y, z], angle = rad } or a quaternion [w, x, y, z]");
    std::array<double, 4> e{};
    for (std::size_t i = 0; i < 4; ++i) e[i] = number_of(context, *array->get(i), table.what() + ", rotation");
    const Quaterniond q(e[0], e[1], e[2], e[3]);
    if (!(std::abs(q.norm() - 1) < 1e-3)) table.refuse("rotation", "this quaternion is not of length 1");
    return q.normalized();
  }
  const toml::table* inner = table.table("rotation");
  Table rotation(context, *inner, table.what() + ", rotation");
  const Vector3d axis = rotation.vector("axis");
  if (!(axis.norm() > 0)) rotation.refuse("axis", "an axis of length zero has no direction");
  const double angle = rotation.number("angle");
  rotation.done();
  return Quaterniond(Eigen::Quaterniond(Eigen::AngleAxisd(angle, axis.normalized())));
}

std::string doubt_of(const Matrix3d& inertia) {
  const Vector3d I = Eigen::SelfAdjointEigenSolver<Matrix3d>(inertia, Eigen::EigenvaluesOnly).eigenvalues();
  if (I[2] <= (I[0] + I[1]) * (1 + 1e-6)) return {};
  char text[160];
  std::snprintf(
      text, sizeof text,
      "no mass has this inertia: of its principal moments %.4g, %.4g and %.4g the last is larger than the sum of "
      "the others",
      I[0], I[1], I[2]);
  return text;
}

SceneBody read_body(Table& table, Context& context, bool placed) {
  SceneBody body;
  const std::vector<std::string> kinds = {"fixed", "kinematic", "particle", "rigid"};
  body.kind = static_cast<BodyKind>(table.word("kind", kinds, static_cast<std::size_t>(BodyKind::rigid)));
  const bool moves = body.kind == BodyKind::rigid || body.kind == BodyKind::particle;
  if (const toml::table* shape = table.table("shape")) body.shape = read_shape(*shape, context, table.what());
  const Solid solid = solid_of(body.shape);
  if (moves) {
    if (table.has("mass") == table.has("density")) table.refuse("give its mass or its density, one of the two");
    if (table.has("mass")) {
      body.mass = table.positive("mass");
    } else {
      if (solid.volume <= 0) table.refuse("density", "a density needs a shape");
      body.mass = table.positive("density") * solid.volume;
    }
  }
  if (body.kind == BodyKind::rigid) {
    if (table.has("inertia"))
      body.inertia = read_inertia(table, context);
    else if (solid.volume > 0)
      body.inertia = (body.mass * solid.per_mass).asDiagonal();
    else
      table.refuse("needs a shape or an inertia = [Ixx, Iyy, Izz]; or kind = \"particle\" for a point mass");
  }
  if (placed) body.start.p = table.vector("position", Vector3d::Zero());
  if (body.kind != BodyKind::particle) body.start.q = read_rotation(table, context);
  if (moves) body.start.v = table.vector("velocity", Vector3d::Zero());
  if (body.kind == BodyKind::rigid) body.start.w = table.vector("omega", Vector3d::Zero());
  if (body.kind == BodyKind::kinematic) read_motion(table, context, body);
  return body;
}

// ---- stock joints ----

namespace {

// What each needs beside two bodies: a point, an axis, the axis in both bodies, turning bodies.
struct Stock {
  const char* name;
  bool point, axis, second_axis, turns;
  const char* motion;  // the key whose text may depend on t
};
constexpr Stock stock[] = {
    {"ball", true, false, false, false, nullptr},
    {"hinge", true, true, true, true, nullptr},
    {"slider", true, true, true, true, nullptr},
    {"weld", true, false, false, true, nullptr},
    {"universal", true, true, true, true, nullptr},
    {"cylindrical", true, true, true, true, nullptr},
    {"planar", true, true, true, true, nullptr},
    {"point_on_line", true, true, false, false, nullptr},
    {"point_on_plane", true, true, false, false, nullptr},
    {"point_on_sphere", true, false, false, false, nullptr},
    {"rod", true, false, false, false, "length"},
    {"gear", false, true, true, true, nullptr},
    {"prescribed_distance", true, true, false, false, "distance"},
    {"prescribed_angle", false, true, true, true, "angle"},
};

const Stock* find_stock(const std::string& type) {
  for (const Stock& s : stock)
    if (type == s.name) return &s;
  return nullptr;
}

struct JointData {
  Vector3d p_A, p_B, u_A, u_B, x_A, x_B;
  JointFrame A, B;
  double length = 0, ratio = 1;
  BodyId carrier = ground;
  std::shared_ptr<const Tape> motion;
};

Constraint build(const std::string& type, const std::string& name, const JointData& d, const std::vector<BodyId>& id) {
  const BodyId a = id[0], b = id[1];
  if (type == "ball") return joints::ball(name, a, d.p_A, b, d.p_B);
  if (type == "hinge") return joints::hinge(name, a, d.p_A, d.u_A, b, d.p_B, d.u_B);
  if (type == "slider") return joints::slider(name, a, d.A, b, d.B);
  if (type == "weld") return joints::weld(name, a, d.A, b, d.B);
  if (type == "universal") return joints::universal(name, a, d.p_A, d.u_A, b, d.p_B, d.u_B);
  if (type == "cylindrical") return joints::cylindrical(name, a, d.p_A, d.u_A, b, d.p_B, d.u_B);
  if (type == "planar") return joints::planar(name, a, d.p_A, d.u_A, b, d.p_B, d.u_B);
  if (type == "point_on_line") return joints::point_on_line(name, a, d.p_A, d.u_A, b, d.p_B);
  if (type == "point_on_plane") return joints::point_on_plane(name, a, d.p_A, d.u_A, b, d.p_B);
  if (type == "point_on_sphere") return joints::point_on_sphere(name, a, d.p_A, d.length, b, d.p_B);
  if (type == "gear") return joints::gear(name, a, d.u_A, b, d.u_B, d.ratio, id.size() > 2 ? id[2] : ground);
  if (type == "prescribed_distance")
    return joints::prescribed_distance(name, a, d.p_A, d.u_A, b, d.p_B, MotionText(d.motion));
  if (type == "prescribed_angle")
    return joints::prescribed_angle(name, a, d.u_A, d.x_A, b, d.x_B, MotionText(d.motion));
  if (d.motion) return joints::rod(name, a, d.p_A, b, d.p_B, MotionText(d.motion));
  return joints::rod(name, a, d.p_A, b, d.p_B, d.length);
}

}  // namespace

JointPlan read_joint(Table& table, Context& context) {
  JointPlan plan;
  std::vector<std::string> types;
  for (const Stock& s : stock) types.emplace_back(s.name);
  (void)table.need("type");
  const Stock& kind = stock[table.word("type", types, 0)];
  plan.type = kind.name;
  const End a = read_end(table, context.names, "a").value_or(End{"world", {}});
  const std::optional<End> b = read_end(table, context.names, "b");
  if (!b) (void)table.need("b");
  plan.a = a.body, plan.b = b->body;
  plan.frame_a = a.frame, plan.frame_b = b->frame;
  if (plan.a == plan.b) table.refuse(b->frame ? "frame_b" : "b", "a and b are one body");
  const auto point = [&](std::string_view key, std::optional<Vector3d>& to, const End& end) {
    if (table.has(key))
      to = end.point(table.vector(key));
    else if (end.frame && kind.point)
      to = end.frame->p_BF;
  };
  if (table.has("at")) {
    plan.at = table.vector("at");
    if (table.has("at_a") || table.has("at_b"))
      table.refuse("at", "give at (in the world) or at_a and at_b (in the bodies)");
    if (a.frame || b->frame)
      table.refuse("at", "frames have their own places: leave at out, or give at_a and at_b in them");
  }
  point("at_a", plan.at_a, a);
  point("at_b", plan.at_b, *b);
  const auto direction = [&](std::string_view key, std::optional<Vector3d>& to) {
    if (!table.has(key)) return;
    to = table.vector(key);
    if (!(to->norm() > 1e-12)) table.refuse(key, "an axis of length zero has no direction");
  };
  if (kind.axis) {
    direction("axis", plan.axis);
    direction("axis_a", plan.axis_a);
    if (kind.second_axis) direction("axis_b", plan.axis_b);
    if (!plan.axis && !plan.axis_a)
      table.refuse("a " + plan.type + " needs its axis = [x, y, z]" +
                   (a.frame ? ", here axis_a in its first frame" : ""));
    if (plan.axis && (plan.axis_a || plan.axis_b))
      table.refuse("axis", "give axis (in the world) or axis_a and axis_b (in the bodies)");
    if (plan.axis && a.frame && b->frame)
      table.refuse("axis",
                   "give axis_a, in the axes of the first frame; axis_b in the second one is the same by default");
    if (kind.second_axis && plan.axis_b && !plan.axis_a) table.refuse("axis_b", "axis_a and axis_b go together");
    if (kind.second_axis && plan.axis_a && !plan.axis_b) {
      if (!a.frame || (b->frame && plan.type == "universal")) table.refuse("axis_a", "axis_a and axis_b go together");
      if (b->frame) plan.axis_b = plan.axis_a;
    }
    // From here on in the axes of the bodies.
    if (plan.axis_a) plan.axis_a = a.direction(*plan.axis_a);
    if (plan.axis_b) plan.axis_b = b->direction(*plan.axis_b);
  }
  if (plan.type == "point_on_sphere") plan.radius = table.positive("radius");
  if (plan.type == "gear") {
    plan.ratio = table.number("ratio");
    if (*plan.ratio == 0) table.refuse("ratio", "the ratio of a gear must not be 0");
    if (table.has("carrier")) plan.carrier = read_body_name(table, context.names, "carrier", {});
  }
  if (!kind.motion) return plan;
  const bool is_rod = plan.type == "rod";
  const toml::node* node = is_rod ? table.find(kind.motion) : &table.need(kind.motion);
  if (!node) return plan;
  if (node->is_string()) {
    const Text text = table.text(kind.motion);
    plan.motion = compiled(text, of_time(context), Type::scalar, table.what() + ", " + kind.motion);
    const OfTime value{plan.motion};
    const auto first = value(0);
    for (const Vector3d& each : first)
      if (!each.allFinite())
        table.refuse(kind.motion,
                     std::string(kind.motion) + " is not finite at t = 0, or has no second derivative there");
    if (is_rod && !(first[0].x() > 0)) table.refuse(kind.motion, "the length must be above 0 at t = 0");
  } else if (is_rod) {
    plan.length = table.positive(kind.motion);
  } else {
    table.refuse(
        kind.motion,
        std::string(kind.motion) +
            " must be an expression of t. For a constant value use another joint, such as a hinge, weld or rod");
  }
  return plan;
}

SceneConstraint make_joint(const JointPlan& plan, const Names& names, const FindBody& find, const State& start) {
  const Stock& kind = *find_stock(plan.type);
  const std::string who = "joint \"" + plan.name + "\"";
  const auto id = [&](const std::string& name) { return body_named({name, plan.place}, find, names, who); };
  SceneConstraint out;
  out.name = plan.name;
  out.type = plan.type;
  out.bodies = {id(plan.a), id(plan.b)};
  const BodyState &A = start[out.bodies[0]], &B = start[out.bodies[1]];
  const auto to_body = [](const BodyState& s, const Vector3d& p) -> Vector3d { return s.q.conjugate() * (p - s.p); };
  const auto turned_to_body = [](const BodyState& s, const Vector3d& u) -> Vector3d { return s.q.conjugate() * u; };

  JointData d;
  const bool between_centres = plan.type == "rod" || plan.type == "point_on_sphere";
  const bool slides = plan.type.starts_with("point_on_") || plan.type == "prescribed_distance" || plan.type == "planar";
  d.p_A = d.p_B = Vector3d::Zero();
  if (plan.at) {
    d.p_A = to_body(A, *plan.at);
    d.p_B = to_body(B, *plan.at);
    if (between_centres && plan.type == "rod")
      fail(plan.place, who + ": a rod has two ends: at_a and at_b, in the bodies (the centres without them)");
  } else if (between_centres || !kind.point) {
    d.p_A = plan.at_a.value_or(Vector3d::Zero());
    d.p_B = plan.at_b.value_or(Vector3d::Zero());
  } else if (slides) {
    d.p_B = plan.at_b.value_or(Vector3d::Zero());
    d.p_A = plan.at_a ? *plan.at_a : to_body(A, B.point(d.p_B));
  } else {
    if (!plan.at_a && !plan.at_b)
      fail(plan.place, who + " needs a position: give at = [x, y, z] (world axes, at the start), or at_a and at_b");
    // One point given: the other is where it lies at the start.
    const Vector3d p_WQ = plan.at_a ? A.point(*plan.at_a) : B.point(*plan.at_b);
    d.p_A = plan.at_a ? *plan.at_a : to_body(A, p_WQ);
    d.p_B = plan.at_b ? *plan.at_b : to_body(B, p_WQ);
  }
  // Where a world point was turned into body axes, what is round-off is no offset.
  for (Vector3d* p : {&d.p_A, &d.p_B})
    for (int i = 0; i < 3; ++i)
      if (std::abs((*p)[i]) < 1e-15) (*p)[i] = 0;
  for (const auto& [name, p] : {std::pair{out.bodies[0], &d.p_A}, {out.bodies[1], &d.p_B}}) {
    if (names.kinds[static_cast<std::size_t>(name.index)] != BodyKind::particle) continue;
    const std::string& body = names.bodies[static_cast<std::size_t>(name.index)];
    if (kind.turns)
      fail(plan.place,
           who + ": \"" + body + "\" is a particle and has no axes; a " + plan.type + " needs a rigid body");
    if (!p->isZero())
      fail(plan.place,
           who + ": \"" + body + "\" is a particle; a joint acts where it is, not beside it (a rod joins centres)");
  }
  if (kind.axis) {
    d.u_A = plan.axis ? turned_to_body(A, *plan.axis) : *plan.axis_a;
    d.u_B = plan.axis_b ? *plan.axis_b : turned_to_body(B, A.q * d.u_A);
    d.u_A.normalize(), d.u_B.normalize();
    if (plan.type == "universal" && !plan.axis_b) {  // a cross: the second arm is perpendicular to the first
      const Vector3d u = A.q * d.u_A;
      d.u_B = turned_to_body(B, u.unitOrthogonal());
    }
    const Vector3d x = d.u_A.unitOrthogonal();
    d.x_A = x;
    d.x_B = turned_to_body(B, A.q * x);
  }
  const auto basis = [](const Vector3d& u) {
    const Vector3d e = u.unitOrthogonal();
    Matrix3d W;
    W << u, e, u.cross(e);
    return W;
  };
  if (plan.frame_a && plan.frame_b) {  // the joint brings them together
    const auto axes = [&](const Matrix3d& R, const Vector3d& u) -> Matrix3d {
      return kind.axis ? Matrix3d(R * basis(R.transpose() * u)) : R;
    };
    d.A = {d.p_A, axes(plan.frame_a->R_BF, d.u_A)};
    d.B = {d.p_B, axes(plan.frame_b->R_BF, d.u_B)};
    if (kind.axis) d.x_A = d.A.axes.col(1), d.x_B = d.B.axes.col(1);
  } else {
    const Matrix3d W = basis(kind.axis ? Vector3d(A.q * d.u_A) : Vector3d::UnitX());
    d.A = {d.p_A, A.R().transpose() * W};
    d.B = {d.p_B, B.R().transpose() * W};
    if (plan.type == "hinge" && plan.axis_b) d.B.axes.col(0) = d.u_B;
  }
  out.rheonomic = plan.motion && plan.motion->uses_time;
  out.frame_a = d.A;
  out.frame_b = d.B;
  if (plan.frame_a && plan.frame_b && has_coordinate(out)) {  // its zero is where the frames coincide
    JointCoordinate coordinate;
    coordinate.slides = out.type == "slider";
    coordinate.frame_P = d.A, coordinate.frame_C = d.B;
    out.start = coordinate_row(coordinate, A, B, coordinate.start_values()).value;
  }
  d.length = plan.length ? *plan.length : plan.radius ? *plan.radius : (A.point(d.p_A) - B.point(d.p_B)).norm();
  if (plan.type == "rod" && !plan.motion && !(d.length > 0))
    fail(plan.place,
         who + ": its ends coincide at the start; a rod needs a length above 0 (a ball joint holds points together)");
  if (plan.type == "rod" && !((A.point(d.p_A) - B.point(d.p_B)).norm() > 0))
    fail(plan.place, who + ": its ends coincide at the start, where the direction of a rod has no meaning");
  if (plan.ratio) d.ratio = *plan.ratio;
  if (plan.type == "gear" && plan.carrier != "world") out.bodies.push_back(id(plan.carrier));
  d.motion = plan.motion;
  out.make = [type = plan.type, name = plan.name, d](const std::vector<BodyId>& ids) {
    return build(type, name, d, ids);
  };
  try {
    (void)out.make(out.bodies);
  } catch (const std::invalid_argument& error) {
    fail(plan.place, who + ": " + error.what());
  }
  return out;
}

// ---- typed constraints ----

namespace {

// A row on positions all of whose derivatives are zero; of rows on velocities all of them: the components of a vector
// equation may well hold nothing in one direction.
bool has_dead_row(const std::shared_ptr<const Tape>& tape, Level level, std::span<const BodyState> X, double t) {
  const auto f = make_function(tape, level, RowUnit::custom);
  const std::size_t m = static_cast<std::size_t>(f->rows()), width = 6 * X.size();
  std::vector<double> A(m * width), b(m), position(m), velocity(m);
  f->linearize(X, t, {A, b, position, velocity});
  std::size_t dead = 0;
  for (std::size_t row = 0; row < m; ++row) {
    const auto first = A.begin() + static_cast<std::ptrdiff_t>(row * width);
    dead += std::all_of(first, first + static_cast<std::ptrdiff_t>(width), [](double x) { return x == 0; });
  }
  return level == Level::position ? dead > 0 : dead == m;
}

// The place in the world where a constraint acts, from the states of its bodies.
struct PlaceOfContact {
  std::shared_ptr<const Tape> tape;
  std::vector<int> slots;  // of the bodies of the tape among those of the constraint; −1 for the world

  std::function<Vector3d(const State&)> between(const std::vector<BodyId>& ids) const {
    std::vector<BodyId> bodies;
    for (const int slot : slots) bodies.push_back(slot < 0 ? ground : ids[static_cast<std::size_t>(slot)]);
    return [evaluate = Evaluator(tape), bodies, X = std::vector<BodyState>(bodies.size())](const State& state) mutable {
      for (std::size_t k = 0; k < X.size(); ++k) X[k] = state[bodies[k]];
      const auto p = evaluate(X, state.t);
      return Vector3d(p[0], p[1], p[2]);
    };
  }
};

std::optional<PlaceOfContact> read_application_point(Table& table, const Context& context,
                                                     const std::vector<BodyId>& bodies, const State& start) {
  const auto text = table.text_if("application_point");
  if (!text) return {};
  const Names& names = context.names;
  const std::string who = table.what() + ", application_point";
  PlaceOfContact out{compiled(*text, names, Type::vector, who), {}};
  std::vector<BodyState> X;
  for (const int body : out.tape->bodies) {
    const auto found = std::find(bodies.begin(), bodies.end(), BodyId{body});
    if (found == bodies.end() && body != 0)
      text->fail(Fault(0, "\"" + names.bodies[static_cast<std::size_t>(body)] + "\" is not a body of this constraint"),
                 who);
    out.slots.push_back(body == 0 ? -1 : static_cast<int>(found - bodies.begin()));
    X.push_back(start[BodyId{body}]);
  }
  Evaluator evaluate(out.tape);
  for (const double x : evaluate(X, start.t))
    if (!std::isfinite(x)) text->fail(Fault(0, "is not finite at the start"), who);
  return out;
}

}  // namespace

SceneConstraint read_constraint(Table& table, Context& context, const State& start) {
  SceneConstraint out;
  const bool position = table.has("equation"), velocity = table.has("velocity");
  if (position && velocity)
    table.refuse("velocity", "has both an equation on positions and one on velocities; write two constraints");
  if (!position && !velocity)
    table.refuse("needs either equation = \"lhs = rhs\" (on positions) or velocity = \"lhs = rhs\"");
  out.type = position ? "equation" : "velocity";
  Names& names = context.names;
  names.motion = velocity;
  Compiler compiler(names);
  std::vector<Text> texts = table.texts(out.type);
  for (const Text& text : texts) {
    try {
      compiler.equation(text.value);
    } catch (const Fault& fault) {
      text.fail(fault, table.what());
    }
    out.text.push_back(text.value);
  }
  names.motion = true;
  const auto tape = std::make_shared<const Tape>(compiler.finish());
  if (tape->bodies.empty()) table.refuse(out.type, "no body occurs in it");
  if (velocity && !tape->uses_motion) table.refuse("velocity", "reads no velocity; write it as equation = \"…\"");
  out.rheonomic = tape->uses_time;
  const RowUnit unit = static_cast<RowUnit>(table.word("unit", {"m", "rad", "custom"}, 2));
  const Level level = position ? Level::position : Level::velocity;
  std::vector<BodyState> X;
  for (const int body : tape->bodies) {
    out.bodies.push_back(BodyId{body});
    X.push_back(start[BodyId{body}]);
  }
  if (const auto fault = trouble(*tape, level, X, start.t)) {
    // Which of several texts it stands in is told by what the others do alone.
    const Text* guilty = &texts.front();
    for (const Text& text : texts) {
      Compiler alone(names);
      alone.equation(text.value);
      const Tape one = alone.finish();
      std::vector<BodyState> some;
      for (const int body : one.bodies) some.push_back(start[BodyId{body}]);
      if (trouble(one, level, some, start.t)) {
        guilty = &text;
        break;
      }
    }
    guilty->fail(*fault, table.what());
  }
  if (has_dead_row(tape, level, X, start.t))
    texts.front().fail(
        Fault(0, std::string("all derivatives of this equation are zero at the start, so no force can hold it: ") +
                     (position ? "write distances as dist2(…) = L^2 with L above 0, points that stay together as p = q"
                               : "write x = 0 instead of x^2 = 0, and start where the equation has a gradient")),
        table.what());
  std::optional<std::vector<Vector3d>> points;
  int sliding = -1;
  if (const toml::table* at = table.table("application_points")) {
    Table acting(context, *at, table.what() + ", application_points");
    points.emplace(out.bodies.size(), Vector3d::Zero());
    for (std::size_t k = 0; k < out.bodies.size(); ++k) {
      const std::string& body = names.bodies[static_cast<std::size_t>(out.bodies[k].index)];
      (*points)[k] = acting.vector(body, Vector3d::Zero());
    }
    acting.done();
  }
  if (const auto slider = table.text_if("sliding_body")) {
    for (std::size_t k = 0; k < out.bodies.size(); ++k)
      if (names.bodies[static_cast<std::size_t>(out.bodies[k].index)] == slider->value) sliding = static_cast<int>(k);
    if (sliding < 0) fail(slider->place, table.what() + ": \"" + slider->value + "\" is not a body of this equation");
  }
  const auto moving_point = read_application_point(table, context, out.bodies, start);
  if (moving_point && (points || sliding >= 0))
    table.refuse("application_point",
                 "give application_point, a place in the world, or application_points and "
                 "sliding_body, places in the bodies");
  const std::string name = table.text("name").value;
  out.make = [=](const std::vector<BodyId>& ids) {
    Constraint c(name, ids, make_function(tape, level, unit));
    if (points) c.set_application_points(*points);
    if (sliding >= 0) c.set_sliding_body(sliding);
    if (moving_point) c.set_application_point(moving_point->between(ids));
    return c;
  };
  return out;
}

// ---- forces ----

namespace {

// The states a tape reads, by where its bodies stand among a force's.
class OnForce {
 public:
  OnForce(std::shared_ptr<const Tape> tape, std::vector<BodyId>& bodies) : evaluate_(std::move(tape)) {
    for (const int body : evaluate_.tape().bodies) {
      const auto found = std::find(bodies.begin(), bodies.end(), BodyId{body});
      slots_.push_back(static_cast<std::size_t>(found - bodies.begin()));
      if (found == bodies.end()) bodies.push_back(BodyId{body});
    }
  }
  template <class States>
  std::span<const double> operator()(const States& states, double t) const {
    std::vector<BodyState> X;
    for (const std::size_t slot : slots_) X.push_back(states[slot]);
    return evaluate_(X, t);
  }

 private:
  mutable Evaluator evaluate_;  // a copy has its own memory
  std::vector<std::size_t> slots_;
};

SceneForce read_spring(Table& table, Context& context, const FindBody& find, const State& start) {
  SceneForce out;
  const Names& names = context.names;
  const End end_a = read_end(table, names, "a").value_or(End{"world", {}});
  const std::optional<End> end_b = read_end(table, names, "b");
  if (!end_b) (void)table.need("b");
  const auto id = [&](const End& end) { return body_named({end.body, table.place()}, find, names, table.what()); };
  const BodyId a = id(end_a), b = id(*end_b);
  if (a == b) table.refuse(end_b->frame ? "frame_b" : "b", "a and b are one body");
  const Vector3d p_A = end_a.point(table.vector("at_a", Vector3d::Zero())),
                 p_B = end_b->point(table.vector("at_b", Vector3d::Zero()));
  const double stiffness = table.not_negative("stiffness"), damping = table.not_negative("damping", 0);
  const double rest = table.not_negative("rest", (start[a].point(p_A) - start[b].point(p_B)).norm());
  const std::string name = table.text("name").value;
  out.bodies = {a, b};
  out.make = [=](const std::vector<BodyId>& id) {
    return spring(name, id[0], p_A, id[1], p_B, stiffness, rest, damping);
  };
  return out;
}

// Whatever a scene's force does at the start: the wrenches on its bodies.
std::vector<Vector6> tried(const std::function<void(ForceFrame&)>& act, const std::vector<BodyId>& bodies,
                           const State& start) {
  std::vector<BodyState> X;
  for (const BodyId id : bodies) X.push_back(start[id]);
  std::vector<Vector6> wrenches(X.size(), Vector6::Zero());
  ForceFrame frame(start.t, X, wrenches);
  act(frame);
  return wrenches;
}

// One number, on one coordinate.
SceneForce generalized_force(const std::string& name, Table& table, Context& context, const FindBody& find,
                             const State& start) {
  SceneForce out;
  const Names& names = context.names;
  const Text on = table.text("coordinate");
  const int index = find(on.value);
  if (index < 0 || names.kinds[static_cast<std::size_t>(index)] != BodyKind::coordinate) {
    std::vector<std::string> known;
    for (std::size_t i = 0; i < names.bodies.size(); ++i)
      if (names.kinds[i] == BodyKind::coordinate) known.push_back(names.bodies[i]);
    fail(on.place, table.what() + ": there is no coordinate \"" + on.value + "\"" + suggestion_or_all(on.value, known));
  }
  out.bodies = {BodyId{index}};
  std::function<double(ForceFrame&)> force;
  if (const toml::node& node = table.need("force"); node.is_string()) {
    const OnForce typed(compiled(table.text("force"), names, Type::scalar, table.what() + ", force"), out.bodies);
    force = [typed](ForceFrame& frame) { return typed(frame, frame.t)[0]; };
  } else {
    force = [value = table.number("force")](ForceFrame&) { return value; };
  }
  const auto act = [force](ForceFrame& frame) { frame.add_force(0, Vector3d(force(frame), 0, 0)); };
  if (!tried(act, out.bodies, start)[0].allFinite()) table.refuse("force", "is not finite at the start");
  out.make = [=](const std::vector<BodyId>& ids) { return Force(name, ids, act); };
  return out;
}

}  // namespace

SceneForce potential_force(const std::string& name, const Text& text, Context& context, const State& start,
                           const std::string& who) {
  SceneForce out;
  out.name = name;
  Names& names = context.names;
  names.motion = false;
  const auto tape = compiled(text, names, Type::scalar, who);
  names.motion = true;
  if (tape->bodies.empty()) text.fail(Fault(0, "no body and no coordinate occurs in this potential"), who);
  std::vector<BodyState> X;
  for (const int body : tape->bodies) {
    out.bodies.push_back(BodyId{body});
    X.push_back(start[BodyId{body}]);
  }
  if (const auto fault = trouble(*tape, Level::position, X, start.t)) text.fail(*fault, who);
  std::vector<char> turns;
  for (const BodyId id : out.bodies)
    turns.push_back(names.kinds[static_cast<std::size_t>(id.index)] == BodyKind::rigid);
  out.make = [=](const std::vector<BodyId>& ids) {
    auto act = [gradient = Gradient(tape), states = std::vector<BodyState>(ids.size()),
                turns](ForceFrame& frame) mutable {
      for (std::size_t k = 0; k < states.size(); ++k) states[k] = frame[k];
      for (std::size_t k = 0; k < states.size(); ++k) {
        const auto g = gradient(states, frame.t, k);
        frame.add_force(k, Vector3d(-g[0], -g[1], -g[2]));
        if (turns[k]) frame.add_moment(k, Vector3d(-g[3], -g[4], -g[5]));
      }
    };
    auto potential = [value = Evaluator(tape)](std::span<const BodyState> at, double t) mutable {
      return value(at, t)[0];
    };
    return Force(name, ids, std::move(act), std::move(potential));
  };
  return out;
}

std::shared_ptr<const Tape> read_kinetics(Table& table, Context& context, const State& start, int first, int n,
                                          bool constrained, bool& matrix) {
  const Names& names = context.names;
  matrix = table.has("mass");
  if (matrix == table.has("kinetic"))
    table.refuse(
        "give kinetic = \"…\", of the coordinates and their rates, or the mass matrix: mass = [[\"…\", …], …]");
  const std::string key = matrix ? "mass" : "kinetic", who = table.what() + ", " + key;
  std::vector<Text> texts;
  if (!matrix) {
    texts = {table.text(key)};
  } else {  // n entries of the diagonal, or n rows of n
    const auto entry = [&](const toml::node& node) {
      if (node.is_string()) {
        texts.push_back(text_of(context, node, who));
        return;
      }
      char digits[32];
      std::snprintf(digits, sizeof digits, "%.17g", number_of(context, node, who));
      texts.push_back({digits, place_of(context, node), false});
    };
    const auto shape = [&] {
      table.refuse(key, "the mass matrix of " + std::to_string(n) + " coordinates is " + std::to_string(n) +
                            " rows of as many entries, or its diagonal");
    };
    const auto* rows = table.need(key).as_array();
    if (!rows || static_cast<int>(rows->size()) != n) shape();
    for (const toml::node& row : *rows) {
      const auto* entries = row.as_array();
      if ((entries != nullptr) != (rows->front().is_array()) || (entries && static_cast<int>(entries->size()) != n))
        shape();
      if (!entries) entry(row);
      for (int i = 0; entries && i < n; ++i) entry(*entries->get(static_cast<std::size_t>(i)));
    }
  }
  Names allowed = names;
  allowed.motion = !matrix;
  Compiler compiler(allowed);
  for (const Text& text : texts) {
    Compiler alone(allowed);
    try {
      alone.expression(text.value, Type::scalar);
      compiler.expression(text.value, Type::scalar);
      const Tape one = alone.finish();
      std::vector<BodyState> X;
      for (const int body : one.bodies) {
        if (names.kinds[static_cast<std::size_t>(body)] != BodyKind::coordinate)
          throw Fault(0, "\"" + names.bodies[static_cast<std::size_t>(body)] +
                             "\" is a body: a kinetic energy here is of coordinates alone, bodies have their own");
        X.push_back(start[BodyId{body}]);
      }
      for (const Level level : {Level::position, Level::velocity})
        if (const auto fault = trouble(one, level, X, start.t)) throw *fault;
    } catch (const Fault& fault) {
      text.fail(fault, who);
    }
  }
  const auto tape = std::make_shared<const Tape>(compiler.finish());
  const auto refuse = [&](const std::string& what) { texts.front().fail(Fault(0, what), who); };

  // What Lagrange's equations ask of it, at the start and at other rates.
  const auto T = make_kinetics(tape, first, n, matrix);
  const auto N = static_cast<std::size_t>(n);
  std::vector<double> q(N), rate(N), M(N * N), other(N * N), h(N);
  for (std::size_t i = 0; i < N; ++i) {
    const BodyState& s = start[BodyId{first + static_cast<int>(i)}];
    q[i] = s.p.x(), rate[i] = s.v.x();
  }
  T->evaluate(q, rate, start.t, M, h);
  for (std::size_t i = 0; i < N; ++i) rate[i] = 1.3 - 0.7 * rate[i] + 0.1 * static_cast<double>(i);
  T->evaluate(q, rate, start.t, other, h);
  const auto at = Eigen::Map<Eigen::MatrixXd>(M.data(), n, n),
             elsewhere = Eigen::Map<Eigen::MatrixXd>(other.data(), n, n);
  const double size = at.cwiseAbs().maxCoeff();
  const auto name = [&](int i) { return "\"" + names.bodies[static_cast<std::size_t>(first + i)] + "\""; };
  if (!at.allFinite() || !elsewhere.allFinite()) refuse("is not finite at the start, or a derivative of it is not");
  if (!((at - elsewhere).cwiseAbs().maxCoeff() <= 1e-9 * size))
    refuse("is not quadratic in the rates, so that there is no mass matrix");
  for (int i = 0; i < n; ++i) {
    if (matrix && texts.size() > N)
      for (int j = 0; j < i; ++j) {
        const auto typed = [&](int r, int c) {
          return texts[static_cast<std::size_t>(r) * N + static_cast<std::size_t>(c)];
        };
        std::vector<double> e;
        for (const Text& text : {typed(i, j), typed(j, i)}) {
          Compiler alone(allowed);
          alone.expression(text.value);
          const auto one = std::make_shared<const Tape>(alone.finish());
          std::vector<BodyState> X;
          for (const int body : one->bodies) X.push_back(start[BodyId{body}]);
          Evaluator evaluate(one);
          e.push_back(evaluate(X, start.t)[0]);
        }
        if (!(std::abs(e[0] - e[1]) <= 1e-12 * size))
          typed(i, j).fail(Fault(0, "the mass matrix is symmetric; the entry across the diagonal is another"), who);
      }
    if (!(at(i, i) > 0) && !(constrained && at(i, i) == 0))  // what constraints hold may have none (T1)
      refuse("coordinate " + name(i) + " has no inertia at the start: its rate must occur squared");
  }
  // A motion without inertia may be one that constraints forbid (T1), which the first step finds out; one of negative
  // inertia is a mistake.
  const Eigen::VectorXd inertia =
      Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd>(at, Eigen::EigenvaluesOnly).eigenvalues();
  if (!(inertia.minCoeff() >= -1e-13 * inertia.maxCoeff()))
    refuse("the kinetic energy is negative at the start for some motion of the coordinates");
  if (!constrained && !(inertia.minCoeff() > 1e-14 * inertia.maxCoeff()))
    refuse("the mass matrix is not positive definite at the start: some motion of the coordinates has no inertia");
  return tape;
}

namespace {

SceneForce conservative_force(const std::string& name, Table& table, Context& context, const State& start) {
  for (const char* key : {"body", "coordinate", "force", "moment", "energy", "against", "at"})
    if (table.has(key))
      table.refuse(key, "a potential determines the forces on all its bodies, so leave out " + std::string(key));
  return potential_force(name, table.text("potential"), context, start, table.what() + ", potential");
}

}  // namespace

SceneForce read_force(Table& table, Context& context, const FindBody& find, const State& start) {
  if (table.word("type", {"typed", "spring"}, 0) == 1) return read_spring(table, context, find, start);
  SceneForce out;
  const Names& names = context.names;
  const Text name = table.text("name");
  if (table.has("potential")) return conservative_force(name.value, table, context, start);
  if (table.has("coordinate")) return generalized_force(name.value, table, context, find, start);
  if (table.has("body") && table.has("frame")) table.refuse("frame", "give body or frame, one of the two");
  End target;
  if (table.has("frame")) {
    target.frame = frame_named(table.text("frame"), names, table.what());
    out.bodies = {BodyId{target.frame->body}};
  } else if (table.has("body")) {
    out.bodies = {body_named(table.text("body"), find, names, table.what(), "frame")};
  } else {
    table.refuse("the force needs a target: give body, frame or coordinate = \"…\", or a potential = \"…\"");
  }
  const bool pair = table.has("against");
  if (pair) {
    out.bodies.push_back(body_named(table.text("against"), find, names, table.what()));
    if (out.bodies[0] == out.bodies[1]) table.refuse("against", "a force acts between two bodies");
  }
  const Vector3d at = target.point(table.vector("at", Vector3d::Zero()));
  if (!table.has("force") && !table.has("moment")) table.refuse("needs force = \"[x, y, z]\" in newtons, or moment");
  const auto part = [&](std::string_view key, Type type) -> std::optional<OnForce> {
    const toml::node* node = table.find(key);
    if (!node) return {};
    if (node->is_array()) {  // a constant vector
      Tape constant_tape;
      constant_tape.vectors = {table.vector(key)};
      constant_tape.results = {{Type::vector, 0}};
      return OnForce(std::make_shared<const Tape>(std::move(constant_tape)), out.bodies);
    }
    return OnForce(compiled(table.text(key), names, type, table.what() + ", " + std::string(key)), out.bodies);
  };
  if (table.has("moment"))
    for (const BodyId on : out.bodies)
      if (names.kinds[static_cast<std::size_t>(on.index)] == BodyKind::particle)
        table.refuse("moment", "\"" + names.bodies[static_cast<std::size_t>(on.index)] +
                                   "\" is a particle and does not turn; a moment needs a rigid body");
  const auto force = part("force", Type::vector), moment = part("moment", Type::vector),
             energy = part("energy", Type::scalar);
  const auto vector = [](std::span<const double> e) { return Vector3d(e[0], e[1], e[2]); };
  auto act = [=](ForceFrame& frame) {
    if (force) {
      const Vector3d f = vector((*force)(frame, frame.t)), p_WQ = frame[0].point(at);
      frame.add_force(0, f, p_WQ);
      if (pair) frame.add_force(1, -f, p_WQ);
    }
    if (moment) {
      const Vector3d m = vector((*moment)(frame, frame.t));
      frame.add_moment(0, m);
      if (pair) frame.add_moment(1, -m);
    }
  };
  std::function<double(std::span<const BodyState>, double)> potential;
  if (energy) potential = [=](std::span<const BodyState> X, double t) { return (*energy)(X, t)[0]; };
  out.make = [=, name = name.value](const std::vector<BodyId>& ids) { return Force(name, ids, act, potential); };
  // A force that is no number where it starts never will be believed.
  for (const auto& wrench : tried(act, out.bodies, start))
    if (!wrench.allFinite()) table.refuse(force ? "force" : "moment", "is not finite at the start");
  return out;
}

// ---- laws ----

namespace {

laws::JointFriction joint_friction(Table& t) {
  laws::JointFriction p;
  p.mu_static = t.not_negative("mu");
  p.mu_kinetic = t.not_negative("mu_kinetic", p.mu_static);
  p.pin_radius = t.not_negative("pin_radius", 0);
  p.friction_radius = t.not_negative("friction_radius", 0);
  p.bending_arm = t.not_negative("bending_arm", 0);
  p.preload = t.not_negative("preload", 0);
  return p;
}

Axes axes_of(Table& t) {
  constexpr Axes all[] = {Axes::of_world, Axes::of_first, Axes::of_second};
  return all[t.word("axes", {"world", "first", "second"}, 0)];
}

void refuse_two_coefficients(Table& t, double speed) {
  if (speed > 0 && t.has("mu_kinetic"))
    t.refuse("mu_kinetic", "regularised friction (with a speed) has one coefficient, mu. Leave out mu_kinetic");
}

// More laws of the core are more lines here. Where a law has a static and a kinetic coefficient, mu is the static one.
struct LawKind {
  const char* name;
  Law (*read)(Table&);
  bool reads_normal_force = true;
};
constexpr LawKind law_kinds[] = {
    {"coulomb",
     [](Table& t) -> Law {
       const double mu = t.not_negative("mu"), speed = t.not_negative("speed", 0);
       refuse_two_coefficients(t, speed);
       return speed > 0 ? laws::regularized_coulomb(mu, speed) : laws::coulomb(mu, t.not_negative("mu_kinetic", mu));
     }},
    {"stribeck",
     [](Table& t) -> Law {
       laws::Stribeck p;
       p.mu_static = t.not_negative("mu");
       p.mu_kinetic = t.not_negative("mu_kinetic");
       p.speed = t.not_negative("speed");
       p.shape = t.not_negative("shape", p.shape);
       p.viscous = t.not_negative("viscous", 0);
       return laws::stribeck(p);
     }},
    {"lugre",
     [](Table& t) -> Law {
       laws::LuGre p;
       p.stiffness = t.positive("stiffness");
       p.damping = t.not_negative("damping", 0);
       p.mu_static = t.not_negative("mu");
       p.mu_kinetic = t.not_negative("mu_kinetic", p.mu_static);
       p.speed = t.positive("speed");
       p.viscous = t.not_negative("viscous", 0);
       return laws::lugre(p);
     }},
    {"constant_force", [](Table& t) -> Law { return laws::constant_force(t.vector("vector"), axes_of(t)); }, false},
    {"lorentz",
     [](Table& t) -> Law {
       return laws::lorentz(t.number("charge"), t.vector("E", {{0, 0, 0}}), t.vector("B", {{0, 0, 0}}));
     },
     false},
    {"viscous", [](Table& t) -> Law { return laws::viscous(t.not_negative("coefficient")); }, false},
    {"viscous_torque", [](Table& t) -> Law { return laws::viscous_torque(t.not_negative("coefficient")); }, false},
    {"drag", [](Table& t) -> Law { return laws::drag(t.not_negative("coefficient")); }, false},
    {"rolling_resistance", [](Table& t) -> Law { return laws::rolling_resistance(t.not_negative("arm")); }},
    {"hinge_friction", [](Table& t) -> Law { return laws::hinge_friction(joint_friction(t)); }},
    {"ball_friction", [](Table& t) -> Law { return laws::ball_friction(joint_friction(t)); }},
    {"slider_friction", [](Table& t) -> Law { return laws::slider_friction(joint_friction(t)); }},
    {"cylinder_friction", [](Table& t) -> Law { return laws::cylinder_friction(joint_friction(t)); }},
};

// An expression in a law: of time, of what the law is given, and of the two bodies between which it acts.
class OnLaw {
 public:
  /// @throws SceneError also where it reads another body
  OnLaw(const Text& text, const Names& names, Type type, const std::vector<BodyId>& bodies, const std::string& who)
      : evaluate_(compiled(text, names, type, who)) {
    const std::span two = std::span(bodies).first(std::min<std::size_t>(bodies.size(), 2));
    for (const int body : evaluate_.tape().bodies) {
      const auto found = std::find(two.begin(), two.end(), BodyId{body});
      if (found == two.end() && body != 0) {
        std::string known;
        for (const BodyId id : two)
          known += (known.empty() ? "" : ", ") + names.bodies[static_cast<std::size_t>(id.index)];
        text.fail(Fault(0, "a law reads the bodies between which it acts (" + known + "), not \"" +
                               names.bodies[static_cast<std::size_t>(body)] + "\""),
                  who);
      }
      side_.push_back(body == 0 ? -1 : static_cast<int>(found - two.begin()));
    }
  }
  const std::vector<Input>& inputs() const { return evaluate_.tape().inputs; }
  /// Returns whether it changes with place or time.
  bool changes() const { return evaluate_.tape().uses_time || !evaluate_.tape().bodies.empty(); }
  std::span<const double> operator()(const ConstraintReaction& n, std::span<const Vector3d> given = {}) const {
    std::array<BodyState, 3> X;
    for (std::size_t i = 0; i < side_.size(); ++i)
      if (const BodyState* state = side_[i] == 0 ? n.first : side_[i] == 1 ? n.second : nullptr) X[i] = *state;
    return evaluate_(X, n.t, given);
  }

 private:
  mutable Evaluator evaluate_;  // a copy has its own memory
  std::vector<int> side_;       // of each body of the tape: 0 and 1, −1 for the world
};

// Names for the texts of a law.
Names of_law(const Context& context) {
  Names names = of_time(context);
  names.bodies = context.names.bodies;
  names.kinds = context.names.kinds;
  names.frames = context.names.frames;
  return names;
}

// A coefficient as typed: mu = "0.3 - 0.1*block.x".
class Coefficient {
 public:
  Coefficient(std::string key, OnLaw value) : key_(std::move(key)), value_(std::move(value)) {}
  /// @throws std::domain_error, which the run reports with the names of law and constraint, unless it is ≥ 0
  double operator()(const ConstraintReaction& n) const {
    const double x = value_(n)[0];
    char text[120];
    if (!(x >= 0 && std::isfinite(x))) {
      std::snprintf(text, sizeof text, "%s = %g at t = %g s; it must be finite and not below 0", key_.c_str(), x, n.t);
      throw std::domain_error(text);
    }
    return x;
  }

 private:
  std::string key_;
  OnLaw value_;
};

// A coefficient that the text of a key gives; nothing where it is a number or does without bodies and time.
std::optional<Coefficient> coefficient_if(Table& table, const char* key, const Context& context,
                                          const std::vector<BodyId>& bodies) {
  const toml::node* node = table.find(key);
  if (!node || !node->is_string()) return {};
  const Text text = table.text(key);
  try {
    (void)constant(text.value, context.names.constants);
    return {};
  } catch (const Fault&) {  // reads more than parameters, or is wrong: the next line says how
  }
  return Coefficient(key, OnLaw(text, of_law(context), Type::scalar, bodies, table.what() + ", " + key));
}

// Dry friction with coefficients that change with the place: dry as laws::coulomb, smooth as laws::regularized_coulomb.
// @param texts  out: its coefficients, where they are two
std::optional<Law> coulomb_of_place(Table& table, const Context& context, const std::vector<BodyId>& bodies,
                                    std::vector<CoefficientText>& texts) {
  const auto changing = coefficient_if(table, "mu", context, bodies);
  const auto changing_kinetic = coefficient_if(table, "mu_kinetic", context, bodies);
  if (!changing && !changing_kinetic) return {};
  std::function<double(const ConstraintReaction&)> mu_static, mu_kinetic;
  if (changing)
    mu_static = *changing;
  else
    mu_static = [mu = table.not_negative("mu")](const ConstraintReaction&) { return mu; };
  if (changing_kinetic)
    mu_kinetic = *changing_kinetic;
  else if (table.has("mu_kinetic"))
    mu_kinetic = [mu = table.not_negative("mu_kinetic")](const ConstraintReaction&) { return mu; };
  Law::Term term;
  if (const double speed = table.not_negative("speed", 0); speed > 0) {
    refuse_two_coefficients(table, speed);
    term.name = "regularized_coulomb";
    term.has_moment = false;
    term.dissipative = true;
    term.force = [=](const ConstraintReaction& n) {
      return ForceMoment{-mu_static(n) * n.magnitude() * n.slip_direction(speed), Vector3d::Zero()};
    };
    return Law(term);
  }
  if (mu_kinetic)
    texts.push_back({table.text(changing_kinetic ? "mu_kinetic" : "mu"), table.what(),
                     [=](const ConstraintReaction& n) -> FrictionCoefficients {
                       return {mu_static(n), mu_kinetic(n)};
                     }});
  term.name = "coulomb";
  term.has_moment = false;
  term.dissipative = true;
  term.static_limit = [=](const ConstraintReaction& n) { return mu_static(n) * n.magnitude(); };
  term.sliding_magnitude = [=](const ConstraintReaction& n, double) {
    const double mu = mu_static(n);
    return (mu_kinetic ? std::min(mu_kinetic(n), mu) : mu) * n.magnitude();
  };
  return Law(term);
}

// A typed law that reads the normal force is friction. Friction along the slip gives energy, so its coefficient has the
// wrong sign. A law that does not change with place or time is tested at some slips.
void refuse_negative_friction(const Text& text, const Context& context, const Law& law, const std::string& who) {
  for (const Vector3d& slip : {Vector3d(1, 0, 0), Vector3d(-1, 0, 0), Vector3d(0, 1, 0), Vector3d(0, -1, 0),
                               Vector3d(0, 0, 1), Vector3d(0, 0, -1)}) {
    ConstraintReaction n;
    n.slip_velocity = slip;
    n.normal = Vector3d(slip.y(), slip.z(), slip.x()).cwiseAbs();  // 1 N, across the slip
    if (!(law.terms()[0].force(n).force.dot(slip) > 0)) return;
  }
  std::string negative;
  for (const std::string_view word : identifiers_of(text.value))
    if (const Constant* c = context.names.constants.find(word);
        c && std::holds_alternative<double>(*c) && std::get<double>(*c) < 0) {
      char number[32];
      std::snprintf(number, sizeof number, "%.6g", std::get<double>(*c));
      negative += (negative.empty() ? "" : " and ") + std::string(word) + " = " + number;
    }
  text.fail(Fault(0, "this friction acts along the slip, so it gives energy. " +
                         (negative.empty() ? "Write it opposite to the slip, as -mu*N*slip_direction"
                                           : negative + ", but a coefficient of friction is at least 0")),
            who);
}

// A law of the normal force, the slip velocity and the bodies, as typed.
// @param reads_normal_force  out
Law typed_law(const Text& text, const Context& context, const std::vector<BodyId>& bodies, const std::string& who,
              bool& reads_normal_force) {
  Names names = of_law(context);
  names.inputs = {{"N", Type::scalar, {}},      {"normal", Type::vector, {}},
                  {"moment", Type::vector, {}}, {"slip_velocity", Type::vector, {}},
                  {"point", Type::vector, {}},  {"slip_direction", Type::vector, {}},
                  {"speed", Type::scalar, {}}};
  const OnLaw typed(text, names, Type::vector, bodies, who);
  reads_normal_force = std::any_of(typed.inputs().begin(), typed.inputs().end(), [](const Input& i) {
    return i.name == "N" || i.name == "normal" || i.name == "moment";
  });
  const Law law = [typed](const ConstraintReaction& n) -> Vector3d {
    std::array<Vector3d, 8> given;
    const auto& inputs = typed.inputs();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const std::string& name = inputs[i].name;
      given[i] = name == "N"               ? Vector3d(n.magnitude(), 0, 0)
                 : name == "normal"        ? n.normal
                 : name == "moment"        ? n.moment
                 : name == "slip_velocity" ? n.slip_velocity
                 : name == "point"         ? n.point
                 : name == "speed"         ? Vector3d(n.slip_velocity.norm(), 0, 0)
                                           : n.slip_direction();
    }
    const auto f = typed(n, std::span(given).first(inputs.size()));
    return {f[0], f[1], f[2]};
  };
  if (reads_normal_force && !typed.changes()) refuse_negative_friction(text, context, law, who);
  return law;
}

// Coefficients that change with place or time are of the law coulomb only. Other laws say so.
void refuse_changing_coefficients(const Table& table, const Context& context) {
  const Names names = of_law(context);
  for (const auto& [key, value] : table.node()) {
    static constexpr std::string_view words[] = {"type", "axes", "normal_force", "belt_on", "branch"};
    if (!value.is_string() || std::find(std::begin(words), std::end(words), key.str()) != std::end(words)) continue;
    const Text text = text_of(context, value, table.what());
    try {
      (void)constant(text.value, context.names.constants);
      continue;
    } catch (const Fault&) {
    }
    try {
      Compiler(names).expression(text.value, Type::scalar);
    } catch (const Fault&) {  // It is wrong by itself, and the law says how.
      continue;
    }
    table.refuse(key.str(), std::string(key.str()) +
                                " changes with place or time, but only mu and mu_kinetic of the law coulomb can. "
                                "Give a number, or write the law as force = \"…\"");
  }
}

Law read_law(const toml::table& node, Context& context, const std::vector<BodyId>& bodies, const std::string& who,
             std::vector<CoefficientText>& coefficients) {
  Table table(context, node, who + ", law");
  Law law;
  bool reads_normal_force = true;
  if (table.has("force")) {
    const auto kept = context.names.constants;
    table.constants("params", context.names.constants);
    law = typed_law(table.text("force"), context, bodies, table.what(), reads_normal_force);
    context.names.constants = kept;
  } else {
    std::vector<std::string> names;
    for (const LawKind& kind : law_kinds) names.emplace_back(kind.name);
    if (!table.has("type"))
      table.refuse(
          "needs a type (coulomb, viscous, hinge_friction, …), or force = \"[…]\" of N, slip_velocity, normal, …");
    const auto& kind = law_kinds[table.word("type", names, 0)];
    reads_normal_force = kind.reads_normal_force;
    try {
      const std::optional<Law> of_place = std::string_view(kind.name) == "coulomb"
                                              ? coulomb_of_place(table, context, bodies, coefficients)
                                              : std::nullopt;
      if (!of_place) refuse_changing_coefficients(table, context);
      law = of_place ? *of_place : kind.read(table);
    } catch (const SceneError&) {  // has its place
      throw;
    } catch (const std::invalid_argument& why) {  // the core's own rules between parameters
      for (const char* other : {"belt", "belt_on", "normal_force", "branch"}) (void)table.has(other);
      table.refuse_misspelt_key();
      table.refuse("type", why.what());
    }
  }
  if (table.has("belt")) {
    const Vector3d velocity = table.vector("belt");
    if (table.has("belt_on"))
      law.on_belt(velocity, table.word("belt_on", {"first", "second"}, 0) == 0 ? Side::first : Side::second);
    else
      law.on_belt(velocity);
  } else if (table.has("belt_on")) {
    table.refuse("belt_on", "belt_on needs belt = [x, y, z], the velocity of the surface in m/s");
  }
  const bool frictionless =
      table.has("normal_force") && table.word("normal_force", {"coupled", "frictionless"}, 0) == 1;
  if (frictionless) law.with_normal_force(NormalForce::frictionless);
  if (table.has("branch")) {
    const std::string selects = "branch applies to coupled normal forces only, but this law uses ";
    if (frictionless) table.refuse("branch", selects + "the frictionless one. Remove branch or normal_force");
    if (!reads_normal_force) table.refuse("branch", selects + "no normal force. Remove branch");
    constexpr Branch all[] = {Branch::continuous, Branch::smallest, Branch::largest};
    law.with_branch(all[table.word("branch", {"continuous", "smallest", "largest"}, 0)]);
  }
  table.done();
  return law;
}

}  // namespace

std::optional<Unilateral> read_unilateral(Table& table, Context& context, const SceneConstraint& made) {
  const toml::node* node = table.find("unilateral");
  if (!node) return {};
  Unilateral out;
  if (node->is_boolean()) {
    if (!node->as_boolean()->get()) return {};
  } else if (node->is_table()) {
    Table inner(context, *node->as_table(), table.what() + ", unilateral");
    out.negative = inner.word("free_side", {"positive", "negative"}, 0) == 1;
    out.reengage = inner.flag("reengage", false);
    inner.done();
  } else {
    table.refuse("unilateral", "unilateral is true, or a table: { free_side = \"positive\", reengage = true }");
  }
  const Constraint constraint = made.make(made.bodies);
  const ConstraintFunction& f = constraint.function();
  if (f.level() != Level::position || f.rows() != 1)
    table.refuse("unilateral",
                 "a unilateral constraint is one equation on positions, and this has " +
                     (f.level() != Level::position ? "rows on velocities" : std::to_string(f.rows()) + " rows"));
  return out;
}

std::optional<Compliance> read_compliance(Table& table, Context& context, const SceneConstraint& made,
                                          const State& start) {
  const toml::node* node = table.find("compliance");
  if (!node) return {};
  if (!node->is_table())
    table.refuse("compliance", "compliance is a table: { stiffness = 1e6, damping = 1e3 }, in N/m and N s/m");
  Table inner(context, *node->as_table(), table.what() + ", compliance");
  Compliance out;
  out.stiffness = inner.number("stiffness", out.stiffness);
  out.damping = inner.number("damping", out.damping);
  out.angular_stiffness = inner.number("angular_stiffness", out.angular_stiffness);
  out.angular_damping = inner.number("angular_damping", out.angular_damping);
  inner.done();
  System trial;
  std::vector<BodyId> ids;
  for (const BodyId id : made.bodies) {
    const BodyState& at = start[id];
    const BodyKind kind = id.index > 0 ? context.names.kinds[static_cast<std::size_t>(id.index)] : BodyKind::fixed;
    if (kind == BodyKind::coordinate)
      table.refuse("compliance", "compliance is for bodies. Write a [[force]] of type \"spring\" for a coordinate");
    const bool moves = kind == BodyKind::rigid || kind == BodyKind::particle;
    const std::string name = std::to_string(ids.size());
    ids.push_back(moves ? trial.add_body(name, 1, Matrix3d::Identity(), {at.p, at.q})
                        : trial.add_fixed(name, {at.p, at.q}));
  }
  try {
    (void)add_compliant(trial, made.make(ids), out);
  } catch (const std::invalid_argument& e) {
    table.refuse("compliance", e.what());
  }
  return out;
}

bool is_typed(const toml::node& law) {
  if (const auto* one = law.as_table()) return one->contains("force");
  const auto* many = law.as_array();
  return many && std::any_of(many->begin(), many->end(), [](const toml::node& each) { return is_typed(each); });
}

std::vector<Law> read_laws(Table& table, Context& context, const std::vector<BodyId>& bodies,
                           std::vector<CoefficientText>& coefficients) {
  std::vector<Law> laws;
  const toml::node* node = table.find("law");
  if (!node) return laws;
  if (const auto* one = node->as_table()) {
    laws.push_back(read_law(*one, context, bodies, table.what(), coefficients));
  } else if (const auto* many = node->as_array()) {
    for (const toml::node& each : *many) {
      if (!each.is_table()) table.refuse("law", "each law is a table: { type = \"coulomb\", mu = 0.3 }");
      laws.push_back(read_law(*each.as_table(), context, bodies, table.what(), coefficients));
    }
  } else {
    table.refuse("law", "a law is a table: { type = \"coulomb\", mu = 0.3 }");
  }
  return laws;
}

}  // namespace linchpin::scene
