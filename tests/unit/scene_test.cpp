// Scene files and typed equations: the same rows as lambdas, the same bodies as by hand, and errors that say where.
#include <linchpin/joints.h>
#include <linchpin/report.h>
#include <linchpin/scene.h>
#include <linchpin/scene/analysis.h>
#include <linchpin/scene/modes.h>
#include <linchpin/stepper.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

namespace linchpin::test::scene_test {
namespace {

// Two bodies in general motion, and whatever a test adds.
std::string two_bodies(const std::string& more) {
  return R"(schema = 2
[params]
L0 = 1.5
w = 3.0
u = [0.2, -0.3, 0.9]
[[body]]
name = "a"
mass = 1.3
shape = { box = [0.2, 0.3, 0.5] }
position = [0.1, 2.0, -0.3]
rotation = { axis = [1, 2, 3], angle = 0.7 }
velocity = [0.4, -0.2, 0.9]
omega = [1.1, -0.7, 0.3]
[[body]]
name = "b"
mass = 2.1
shape = { capsule = [0.1, 0.6] }
position = [-0.4, 0.6, 0.2]
rotation = { axis = [-1, 0.5, 0.2], angle = 1.9 }
velocity = [-0.6, 0.1, 0.2]
omega = [0.2, 0.9, -1.4]
)" + more;
}

struct Rows {
  std::vector<double> A, b, position, velocity;
};

Rows rows_of(const Constraint& c, const State& state, double t) {
  const std::size_t m = static_cast<std::size_t>(c.function().rows()), K = c.bodies().size();
  Rows r{std::vector<double>(m * 6 * K), std::vector<double>(m), std::vector<double>(m), std::vector<double>(m)};
  std::vector<BodyState> X;
  for (const BodyId id : c.bodies()) X.push_back(state[id]);
  c.function().linearize(X, t, {r.A, r.b, r.position, r.velocity});
  return r;
}

void expect_same(const std::vector<double>& is, const std::vector<double>& should) {
  ASSERT_EQ(is.size(), should.size());
  double scale = 1;
  for (const double x : should) scale = std::max(scale, std::abs(x));
  for (std::size_t i = 0; i < is.size(); ++i) EXPECT_NEAR(is[i], should[i], 1e-15 * scale) << "entry " << i;
}

// The typed constraint named "c" against a lambda's, at the start and away from t = 0.
void expect_same_rows(const std::string& typed, const Constraint& lambda) {
  const scene::Model model = scene::load_text(two_bodies("[[constraint]]\nname = \"c\"\n" + typed), "scene.toml");
  const System system = model.system();
  const State state = system.initial_state();
  const Constraint& c = system.constraint(system.find_constraint("c"));
  ASSERT_EQ(c.bodies().size(), lambda.bodies().size());
  for (const double t : {0.0, 0.37}) {
    const Rows is = rows_of(c, state, t), should = rows_of(lambda, state, t);
    expect_same(is.A, should.A);
    expect_same(is.b, should.b);
    expect_same(is.position, should.position);
    expect_same(is.velocity, should.velocity);
  }
}

constexpr BodyId a{1}, b{2};

TEST(SceneEquation, HasTheRowsOfTheSameLambda) {
  expect_same_rows(R"t(equation = "dist2(a.point(0,-0.1,0), b.point(0,0.2,0)) = (L0 + 0.1*(1 - cos(w*t)))^2")t",
                   holonomic("l", {a, b}, [](const auto& s) {
                     const auto d = s[0].point(0, -0.1, 0) - s[1].point(0, 0.2, 0);
                     return dot(d, d) - square(1.5 + 0.1 * (1 - cos(3.0 * s.t)));
                   }));
  expect_same_rows(
      R"t(equation = "a.point(0.1, 0, 0.2) = b.point(0, 0.3, 0)")t",
      holonomic("l", {a, b}, [](const auto& s) { return s[0].point(0.1, 0, 0.2) - s[1].point(0, 0.3, 0); }));
  expect_same_rows(
      R"t(equation = ["dot(a.axis(u), b.axis(0,0,1)) = 0.1", "atan2(a.x, b.y) + exp(-a.z)/(2 + b.z^3) = t"])t",
      holonomic("l", {a, b}, [](const auto& s) {
        const auto z = s[1].position().z;
        return rows(dot(s[0].axis(0.2, -0.3, 0.9), s[1].axis(0, 0, 1)) - 0.1,
                    atan2(s[0].position().x, s[1].position().y) + exp(-s[0].position().z) / (2.0 + z * (z * z)) - s.t);
      }));
  expect_same_rows(
      R"t(equation = "a.to_body(b.point(0, 0.3, 0)).x^2 = sin(t)")t",
      holonomic("l", {a, b}, [](const auto& s) { return square(s[0].to_body(s[1].point(0, 0.3, 0)).x) - sin(s.t); }));
}

TEST(SceneEquation, OnVelocitiesHasTheRowsOfTheSameLambda) {
  expect_same_rows(R"t(velocity = "dot(a.velocity(0.1, 0, 0.3), a.axis(0, 1, 0)) = b.omega.z*t")t",
                   nonholonomic("l", {a, b}, [](const auto& s) {
                     return dot(s[0].velocity(0.1, 0, 0.3), s[0].axis(0, 1, 0)) - s[1].omega().z * s.t;
                   }));
  expect_same_rows(
      R"t(velocity = "cross(a.omega, a.axis(1, 0, 0)) + 2*a.velocity/(1 + norm2(b.velocity)) = [0, 0, 0]")t",
      nonholonomic("l", {a, b}, [](const auto& s) {
        return cross(s[0].omega(), s[0].axis(1, 0, 0)) + 2.0 * s[0].velocity() / (1.0 + squared_norm(s[1].velocity()));
      }));
}

TEST(SceneEquation, DerivativesPassTheCheckForEveryFunction) {
  for (const char* text :
       {"sin(a.x) = cos(b.y)", "tan(a.x) = asin(0.3*b.y)", "acos(0.2*a.x) = atan(b.y)", "sinh(a.x) = cosh(b.y)",
        "tanh(a.x) = asinh(b.y)", "exp(a.x) = log(2 + b.y)", "sqrt(3 + a.x) = abs(b.y)", "pow(a.y, 1.5) = a.y^-2",
        "hypot(a.x, b.y) = square(a.z)", "a.y^(b.x) = 2^(a.x)", "norm(a.position) = dist(a.position, b.position)",
        "min(a.x, b.y) = max(a.y, 0.3) + sign(b.y)*a.z", "dot(cross(a.position, u), b.point(0, 1, 0)) = -(-a.x)",
        "a.position/b.y = a.point(1, 0, 0)*t - u"}) {
    const scene::Model model = scene::load_text(
        two_bodies("[[constraint]]\nname = \"c\"\nequation = \"" + std::string(text) + "\"\n"), "scene.toml");
    const System system = model.system();
    const ConstraintCheck check =
        check_constraint(system, system.constraint(system.find_constraint("c")), system.initial_state());
    EXPECT_TRUE(check.ok()) << text << ": " << check.message;
  }
}

std::string message_of(const std::string& text) {
  try {
    (void)scene::load_text(text, "scene.toml");
  } catch (const scene::SceneError& e) {
    return e.what();
  }
  return "(no error)";
}

TEST(SceneEquation, ErrorsNameThePlaceAndTheNearestName) {
  const auto error = [](const std::string& equation) {
    return message_of(two_bodies("[[constraint]]\nname = \"c\"\nequation = \"" + equation + "\"\n"));
  };
  EXPECT_EQ(error("dist2(a.position, bb.position) = 1"),
            "scene.toml:24:31: error: constraint \"c\": unknown name 'bb'; did you mean \"b\"?\n"
            "  equation = \"dist2(a.position, bb.position) = 1\"\n"
            "                                ^");
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"a.x = ", "something is missing at the end"},
      {"a.x = 1 = 2", "an equation has one '='"},
      {"a.x == 2", "write one '=', not two"},
      {"a.x ** 2 = 1", "write a power as x^2"},
      {"sin(a.position) = 1", "sin() takes a scalar, this is a vector"},
      {"dot(a.x, b.position) = 1", "dot() takes a vector, this is a scalar"},
      {"a.position^2 = 1", "a vector has no power"},
      {"1/a.position = 1", "nothing can be divided by a vector"},
      {"a.position + 1 = b.position", "'+' joins a vector and a scalar"},
      {"a.position.w = 1", "a vector has the parts x, y and z, not \"w\""},
      {"a = 1", "'a' is a body. Choose one of its quantities"},
      {"a.point = 1", ".point needs its coordinates"},
      {"a.point(1, 2) = b.position", "expected ',' between the three coordinates"},
      {"a.x/0 = 1", "division by zero"},
      {"sin = 1", "\"sin\" is a function"},
      {"min(a.x) = 1", "expected ',' between the two arguments of min()"},
      {"max(a.position, b.position) = 1", "max() takes a scalar, this is a vector"},
      {"maxx(a.x, 1) = 1", "unknown function \"maxx\"; did you mean \"max\"?"},
      {"min(a.x, 0.1) = b.x",
       "min has no derivative where its two arguments are equal, and they are equal at the start"},
      {"sign(a.x - 0.1) = b.x", "sign jumps at 0, where it starts"},
      {"2 = 3", "this equation contains neither a body nor the time"},
      {"(a.x = 1", "expected ')'"},
      {"a.x) = 1", "this bracket was never opened"},
      {"a.x = 1e999", "larger than double precision can represent"},
      {"a.x = \xc3\xa9t\xc3\xa9", "unknown name"},
  };
  for (const auto& [equation, says] : wrong)
    EXPECT_NE(error(equation).find(says), std::string::npos) << equation << " says\n" << error(equation);
}

TEST(SceneEquation, DefinitionsStandForTheirTexts) {
  const std::string text =
      "[definitions]\nd = \"a.position - b.point(0, 0.3, 0)\"\nfar = \"norm2(d) - L0\"\nfall = \"a.velocity.y\"\n"
      "pull = \"norm(reaction(c, a))\"\n";
  const auto with = [&](const std::string& more) { return two_bodies(text + "[[constraint]]\nname = \"c\"\n" + more); };
  const auto of = [](const std::string& scene) {
    const scene::Model model = scene::load_text(scene, "scene.toml");
    const System system = model.system();
    return rows_of(system.constraint(system.find_constraint("c")), system.initial_state(), 0.37);
  };
  const Rows typed = of(two_bodies(
      "[[constraint]]\nname = \"c\"\nequation = \"(norm2(a.position - b.point(0, 0.3, 0)) - 1.5)*t = (a.position - "
      "b.point(0, 0.3, 0)).x\"\n"));
  // Also where the table that uses it has a parameter of the name that the definition of the file reads.
  for (const char* more : {"equation = \"far*t = d.x\"\n", "equation = \"far*t = d.x\"\nparams = { L0 = 7 }\n",
                           "equation = \"g*t = d.x\"\ndefinitions = { g = \"far\" }\n"}) {
    const Rows is = of(with(more));
    expect_same(is.A, typed.A);
    expect_same(is.b, typed.b);
  }
  const scene::Model model =
      scene::load_text(with("equation = \"far = 0\"\n[[log]]\nchannel = \"pull*fall\"\n"), "scene.toml");
  EXPECT_TRUE(model.logs.front().reads_forces());

  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"equation = \"fall = 0\"\n", "in the definition \"fall\": velocities cannot be used here"},
      {"equation = \"farr = 0\"\n", "unknown name 'farr'; did you mean \"far\"?"},
      {"equation = \"d = 0\"\n", "the left side is a vector"},
      {"equation = \"pull = 0\"\n",
       "in the definition \"pull\": reaction() is a result of the run. It can be used in [[log]] and [[expect]] only"},
      {"equation = \"g = 0\"\ndefinitions = { g = \"a.xx\" }\n", "definition \"g\": a body has no \"xx\""},
      {"equation = \"far = 0\"\ndefinitions = { far = \"a.x\" }\n", "there are two definitions \"far\"; rename one"},
      {"equation = \"far = 0\"\ndefinitions = { a = \"b.x\" }\n", "\"a\" is both a body and a definition; rename one"},
      {"equation = \"far = 0\"\ndefinitions = { w = \"b.x\" }\n", "\"w\" is both a parameter and a definition"},
      {"equation = \"far = 0\"\ndefinitions = { g = 3 }\n", "definition \"g\" is a text in quotes, not a number"},
      {"equation = \"far = 0\"\ndefinitions = { g = \"h\", h = \"b.x\" }\n",
       "definition \"g\": \"h\" stands below: definitions are read in order"},
      {"equation = \"far = 0\"\ndefinitions = { g = \"energy()\" }\n", "which only logs and expectations read"},
      {"equation = \"far = 0\"\ndefinition = { g = \"b.x\" }\n", "did you mean \"definitions\"?"}};
  for (const auto& [more, says] : wrong)
    EXPECT_NE(message_of(with(more)).find(says), std::string::npos) << more << " says\n" << message_of(with(more));
  EXPECT_NE(message_of(two_bodies("[definitions]\nheight = \"a.y\"\n[world]\nduration = \"2*height\"\n"))
                .find("world, duration: \"height\" is a definition and may change during the motion. Use numbers "
                      "and parameters"),
            std::string::npos);
  EXPECT_NE(message_of(two_bodies("[definitions]\nfoot = \"a.position + reaction(rope)\"\n"))
                .find("scene.toml:23:31: error: definition \"foot\": there is no constraint \"rope\""),
            std::string::npos);
}

TEST(SceneEquation, PointsByExpressionAreMaterialPoints) {
  const Vector3d L(0.2, -0.3, 0.9);
  expect_same_rows(R"t(velocity = "dot(a.velocity(a.to_body(b.position)), u) = 0")t",
                   nonholonomic("l", {a, b}, [L](const auto& s) {
                     const auto r = s[0].to_body(s[1].position());
                     const auto world = r.x * s[0].axis(1, 0, 0) + r.y * s[0].axis(0, 1, 0) + r.z * s[0].axis(0, 0, 1);
                     const auto v = s[0].velocity() + cross(s[0].omega(), world);
                     return v.x * L.x() + v.y * L.y() + v.z * L.z();
                   }));
  expect_same_rows(R"t(equation = "a.point(t, 0.1*b.x, 0).y = 1")t", holonomic("l", {a, b}, [](const auto& s) {
                     return s[0].position().y +
                            (s.t * s[0].axis(1, 0, 0) + 0.1 * s[1].position().x * s[0].axis(0, 1, 0)).y - 1.0;
                   }));
  EXPECT_NE(message_of(two_bodies("[[constraint]]\nname = \"c\"\nequation = \"a.axis(t, 1, 0).x = 0\"\n"))
                .find("the coordinates of an axis in its body must be constant: use numbers and parameters only"),
            std::string::npos);
}

// Of M a = Q + reactions against the motion itself.
TEST(Channel, ReadsAccelerationsAndImpressedForces) {
  const std::string with = two_bodies(
      "[[constraint]]\nname = \"c\"\nequation = \"dot(a.position, u) = b.point(0, 0.2, 0).y*0.1 + sin(t)\"\n"
      "[[force]]\nname = \"wind\"\nbody = \"a\"\nat = [0, 0.1, 0]\nforce = \"[3, t, -a.x]\"\nagainst = \"b\"\n"
      "[[log]]\nchannel = \"a.acceleration\"\n[[log]]\nchannel = \"a.alpha\"\n[[log]]\nchannel = \"b.acceleration(0.1, "
      "0.2, 0.3)\"\n"
      "[[log]]\nchannel = \"b.velocity(0.1, 0.2, 0.3)\"\n[[log]]\nchannel = \"applied_force(wind, b)\"\n"
      "[[log]]\nchannel = \"applied_moment(wind)\"\n[[log]]\nchannel = \"lambda(c, 1) - lambda(c)\"\n");
  const scene::Model model = scene::load_text(with, "scene.toml");
  System system = model.system();
  Stepper stepper(system, system.initial_state(), {.method = Method::rk4});
  const auto value = [&](std::size_t log) {
    const auto x = model.logs[log]({system, stepper.state(), stepper.reactions()});
    return Vector3d(x[0], x.size() > 1 ? x[1] : 0, x.size() > 1 ? x[2] : 0);
  };
  stepper.step(0.01);
  const double h = 1e-4;
  const BodyState before = stepper.state()[BodyId{1}];
  const Vector3d point_before = value(3);
  stepper.step(h);
  const Vector3d acceleration = value(0), alpha = value(1), of_point = value(2);
  const BodyState& now = stepper.state()[BodyId{1}];
  EXPECT_NEAR((value(4) - Vector3d(-3, -stepper.t(), now.p.x())).norm(), 0, 1e-12);
  EXPECT_NEAR((value(5) - (now.q * Vector3d(0, 0.1, 0)).cross(-value(4))).norm(), 0, 1e-12);
  EXPECT_EQ(value(6).x(), 0);
  stepper.step(h);
  const BodyState& after = stepper.state()[BodyId{1}];
  // Central differences: to h^2 of the third derivative.
  const auto expect_rate = [&](const Vector3d& is, const Vector3d& difference) {
    EXPECT_NEAR((is - difference / (2 * h)).norm(), 0, 1e-5 * is.norm());
  };
  expect_rate(acceleration, after.v - before.v);
  expect_rate(alpha, after.w - before.w);
  expect_rate(of_point, value(3) - point_before);
  EXPECT_EQ(model.logs[0].unit(), "m/s^2");
  EXPECT_EQ(model.logs[1].unit(), "rad/s^2");
  EXPECT_EQ(model.logs[4].unit(), "N");

  const auto error = [](const std::string& more) {
    return message_of(
        two_bodies("[[constraint]]\nname = \"c\"\nequation = \"a.x = b.x\"\n[[force]]\nname = \"wind\"\nbody = "
                   "\"a\"\nforce = [1, 0, 0]\n" +
                   more));
  };
  const auto log = [&](const std::string& channel) { return error("[[log]]\nchannel = \"" + channel + "\"\n"); };
  for (const auto& [channel, says] : std::vector<std::pair<std::string, std::string>>{
           {"a.accelration", "did you mean \"acceleration\"?"},
           {"applied_force(wnd)", "there is no force \"wnd\"; did you mean \"wind\"?"},
           {"applied_force(wind, b)", "\"b\" is not a body of the force \"wind\""},
           {"lambda(c, 2)", "the second argument of lambda() is the number of a row of \"c\": 1"},
           {"slip_tme(c)", "unknown function \"slip_tme\"; did you mean \"slip_time\"?"}})
    EXPECT_NE(log(channel).find(says), std::string::npos) << log(channel);
  EXPECT_NE(error("[[force]]\nname = \"f\"\nbody = \"a\"\nforce = \"a.acceleration\"\n")
                .find("an acceleration is a result of the equations. It can be used in [[log]] and [[expect]] only"),
            std::string::npos);
  EXPECT_NE(error("[world]\ncontacts = true\n[[log]]\nchannel = \"a.acceleration\"\n")
                .find("accelerations cannot be used with contacts = true"),
            std::string::npos);
}

TEST(SceneFile, LawsReadTheirTwoBodies) {
  const auto with = [](const std::string& law) {
    return two_bodies(
        "[[body]]\nname = \"other\"\nkind = \"particle\"\nmass = 1\n[[joint]]\nname = \"j\"\ntype = "
        "\"point_on_plane\"\na = \"a\"\nb = \"b\"\naxis = [0, 1, 0]\nlaw = { " +
        law + " }\n");
  };
  for (const char* law :
       {"force = \"-0.1*N*norm(a.position - b.position)*slip_direction\"", "type = \"coulomb\", mu = \"0.1 + a.x^2\"",
        "type = \"coulomb\", mu = \"0.4 + t\", mu_kinetic = \"0.1\"",
        "type = \"coulomb\", mu = \"0.1 + b.x^2\", speed = 0.1"})
    EXPECT_EQ(message_of(with(law)), "(no error)") << law;
  for (const auto& [law, says] : std::vector<std::pair<std::string, std::string>>{
           {"type = \"coulomb\", mu = \"other.x\"",
            "a law reads the bodies between which it acts (a, b), not \"other\""},
           {"force = \"-N*other.x*slip_direction\"",
            "a law reads the bodies between which it acts (a, b), not \"other\""},
           {"type = \"coulomb\", mu = \"0.1 + aa.x\"", "unknown name 'aa'; did you mean \"a\"?"},
           {"type = \"coulomb\", mu = 0.2, mu_kinetic = 0.1, speed = 0.1",
            "has one coefficient, mu. Leave out mu_kinetic"},
           {"type = \"coulomb\", mu = \"0.2 + a.x^2\", mu_kinetic = 0.1, speed = 0.1",
            "has one coefficient, mu. Leave out mu_kinetic"},
           {"type = \"coulomb\", mu = 0.1, branch = \"smalest\"",
            "there is no branch \"smalest\"; did you mean \"smallest\"?"}})
    EXPECT_NE(message_of(with(law)).find(says), std::string::npos) << message_of(with(law));
  // A coefficient below 0 is no number to go on with.
  const scene::Model model = scene::load_text(with("type = \"coulomb\", mu = \"-1 - a.x^2\""), "scene.toml");
  System system = model.system();
  Dynamics dynamics(system, model.options.solve);
  EXPECT_EQ(dynamics.evaluate(system.initial_state()), Status::invalid);
  EXPECT_NE(dynamics.reason().find("mu = -1.01 at t = 0 s; it must be finite and not below 0"), std::string::npos)
      << dynamics.reason();
}

TEST(SceneFile, ApplicationPointsMoveAndConstraintsMayPush) {
  const auto with = [](const std::string& more) {
    return two_bodies("[[constraint]]\nname = \"c\"\nequation = \"a.y = 2\"\n" + more);
  };
  const scene::Model model = scene::load_text(
      with("application_point = \"a.position - [0, 0.3, 0]\"\nunilateral = { free_side = \"negative\" }\n"),
      "scene.toml");
  const System system = model.system();
  const ConstraintId c = system.find_constraint("c");
  const State state = system.initial_state();
  EXPECT_EQ(system.constraint(c).application_point(0, state), state[BodyId{1}].p - Vector3d(0, 0.3, 0));
  EXPECT_TRUE(unilateral(system, c).on);
  EXPECT_TRUE(unilateral(system, c).negative);
  EXPECT_FALSE(unilateral(system, c).reengage);
  for (const auto& [more, says] : std::vector<std::pair<std::string, std::string>>{
           {"application_point = \"b.position\"\n", "\"b\" is not a body of this constraint"},
           {"application_point = \"a.x\"\n", "expected a vector, this is a scalar"},
           {"application_point = \"[sqrt(-1 - a.y^2), 0, 0]\"\n", "is not finite at the start"},
           {"acting_where = \"a.position\"\n", "key \"acting_where\" was renamed to \"application_point\""},
           {"aplication_point = \"a.position\"\n", "did you mean \"application_point\"?"},
           {"application_point = \"a.position\"\nsliding_body = \"a\"\n",
            "give application_point, a place in the world, or"},
           {"unilateral = 1\n", "unilateral is true, or a table"},
           {"unilateral = { free_side = \"up\" }\n", "there is no free_side \"up\"; known: positive, negative"},
           {"unilateral = { reengages = true }\n", "did you mean \"reengage\"?"}})
    EXPECT_NE(message_of(with(more)).find(says), std::string::npos) << message_of(with(more));
  EXPECT_NE(
      message_of(
          two_bodies("[[constraint]]\nname = \"c\"\nequation = \"a.position = [0.1, 2, -0.3]\"\nunilateral = true\n"))
          .find("a unilateral constraint is one equation on positions, and this has 3 rows"),
      std::string::npos);
  EXPECT_NE(
      message_of(with("[solver]\nstepping = \"rk5\"\n")).find("there is no stepping \"rk5\"; did you mean \"rk4\"?"),
      std::string::npos);
}

TEST(SceneFile, ConstraintsMayYield) {
  const auto with = [](const std::string& more) {
    return two_bodies("[[constraint]]\nname = \"c\"\nequation = \"a.position = [0.1, 2, -0.3]\"\n" + more);
  };
  const scene::Model model = scene::load_text(with("compliance = { stiffness = 100 }\n"), "scene.toml");
  const System system = model.system();
  const ConstraintId c = system.find_constraint("c");
  EXPECT_EQ(system.constraint(c).function().rows(), 0);
  ASSERT_EQ(laws_on(system, c).size(), 1u);
  EXPECT_EQ(laws_on(system, c)[0].terms().size(), 3u);
  for (const auto& [more, says] : std::vector<std::pair<std::string, std::string>>{
           {"compliance = 100\n", "compliance is a table"},
           {"compliance = { stifness = 1 }\n", "did you mean \"stiffness\"?"},
           {"compliance = { stiffness = -1 }\n", "stiffness must not be negative, got -1"},
           {"compliance = { angular_stiffness = 1 }\n", "none of its rows has a finite stiffness"},
           {"complience = { stiffness = 1 }\n", "did you mean \"compliance\"?"},
           {"compliance = { stiffness = 1 }\nlaw = { type = \"viscous\", coefficient = 1 }\n",
            "a constraint with compliance has no law"}})
    EXPECT_NE(message_of(with(more)).find(says), std::string::npos) << message_of(with(more));
  EXPECT_NE(message_of(two_bodies("[[constraint]]\nname = \"c\"\nvelocity = \"a.velocity.x = 0\"\ncompliance = { "
                                  "stiffness = 1 }\n"))
                .find("compliance needs a constraint on positions"),
            std::string::npos);
}

TEST(SceneFile, StartVelocitiesFollowFromOneRate) {
  const auto pendulum = [](const std::string& velocity) {
    return "schema = 2\n[start]\nvelocity = \"" + velocity + "\"\n" + R"([[body]]
name = "arm"
mass = 2
shape = { box = [1, 0.1, 0.1] }
position = [0.5, 0, 0]
[[body]]
name = "bob"
kind = "particle"
mass = 1
position = [1, 0, 0]
[[joint]]
name = "pivot"
type = "hinge"
b = "arm"
at = [0, 0, 0]
axis = [0, 0, 1]
[[joint]]
name = "end"
type = "ball"
a = "arm"
b = "bob"
at = [1, 0, 0]
)";
  };
  const scene::Model model = scene::load_text(pendulum("arm.omega.z = 3"), "scene.toml");
  EXPECT_NEAR((model.bodies[0].start.w - Vector3d(0, 0, 3)).norm(), 0, 1e-12);
  EXPECT_NEAR((model.bodies[0].start.v - Vector3d(0, 1.5, 0)).norm(), 0, 1e-12);
  EXPECT_NEAR((model.bodies[1].start.v - Vector3d(0, 3, 0)).norm(), 0, 1e-12);
  // One that is not linear.
  const scene::Model energetic = scene::load_text(pendulum("arm.velocity.y + 0.5*bob.velocity.y^2 = 1"), "scene.toml");
  EXPECT_NEAR(energetic.bodies[1].start.v.y(), 1, 1e-9);
  EXPECT_NE(
      message_of(pendulum("arm.omega.x = 3"))
          .find("no start velocities satisfy this equation and the constraints. The best ones leave its left side"),
      std::string::npos)
      << message_of(pendulum("arm.omega.x = 3"));
  // Ones that have no derivative at rest, of any size.
  for (const double rate : {1e-3, 3.0, 1e3}) {
    const scene::Model squared =
        scene::load_text(pendulum("norm2(arm.omega) = " + std::to_string(rate) + "^2"), "scene.toml");
    EXPECT_NEAR(squared.bodies[0].start.w.z(), rate, 1e-9 * (1 + rate));
    EXPECT_NEAR(squared.bodies[1].start.v.y(), rate, 1e-9 * (1 + rate));
  }
  EXPECT_NE(message_of(pendulum("norm2(arm.omega) = -1")).find("left side 1 above its right side, in the unit of"),
            std::string::npos)
      << message_of(pendulum("norm2(arm.omega) = -1"));
  EXPECT_NE(message_of(pendulum("arm.x = 0.5")).find("no velocity occurs in it"), std::string::npos);
  EXPECT_NE(message_of(pendulum("amr.omega.z = 3")).find("unknown name 'amr'; did you mean \"arm\"?"),
            std::string::npos);
}

TEST(ModeRecord, KnowsWhenFrictionSticksAndSlides) {
  const scene::Model model = scene::load_text(R"(schema = 2
[world]
gravity = [0, -10, 0]
[[body]]
name = "block"
kind = "particle"
mass = 1
velocity = [1, 0, 0]
[[constraint]]
name = "ground"
equation = "block.y = 0"
law = { type = "coulomb", mu = 0.5 }
[[force]]
name = "push"
body = "block"
force = "[max(0, 20*(t - 1)), 0, 0]"
[[log]]
channel = "[sticks(ground), stick_time(ground), slip_time(ground)]"
)",
                                              "scene.toml");
  System system = model.system();
  Stepper stepper(system, system.initial_state(), {.method = Method::rk4});
  scene::ModeRecord record;
  const auto value = [&] {
    const auto x = model.logs[0]({system, stepper.state(), stepper.reactions(), &record});
    return Vector3d(x[0], x[1], x[2]);
  };
  (void)stepper.reactions();
  record.begin(system, stepper.dynamics(), stepper.t());
  EXPECT_EQ(value().x(), 0);
  EXPECT_TRUE(std::isnan(value().y()));
  for (int i = 0; i < 150; ++i) {
    stepper.step(0.01);
    record.add(system, stepper.switches());
    if (i == 50) {
      EXPECT_EQ(value().x(), 1);
      EXPECT_NEAR(value().y(), 0.2, 1e-9);
      EXPECT_TRUE(std::isnan(value().z()));
    }
  }
  EXPECT_EQ(value().x(), 0);
  EXPECT_NEAR(value().z(), 1.25, 1e-9);
  EXPECT_NEAR(value().y(), 0.2, 1e-9);
  ASSERT_EQ(record.changes().size(), 2u);
  EXPECT_STREQ(scene::to_string(record.changes()[1].what), "slides");
  EXPECT_EQ(record.changes()[1].law, "coulomb");
  EXPECT_TRUE(std::isnan(model.logs[0]({system, stepper.state(), stepper.reactions()})[0]));
}

TEST(ModeRecord, HasConstraintsThatAreOpenAtTheStart) {
  const scene::Model model = scene::load_text(R"toml(schema = 2
[[body]]
name = "ball"
kind = "particle"
mass = 2
position = [0, 1, 0]
[[constraint]]
name = "floor"
equation = "ball.y = 0"
unit = "m"
unilateral = { reengage = true }
[[log]]
channel = "[release_time(floor), gap(floor), lambda(floor)]"
[[log]]
channel = "reaction(floor)"
)toml",
                                              "scene.toml");
  System system = model.system();
  EXPECT_TRUE(scene::is_open(system, system.find_constraint("floor"), system.initial_state()));
  Stepper stepper(system, system.initial_state());
  scene::ModeRecord record;
  (void)stepper.reactions();
  record.begin(system, stepper.dynamics(), stepper.t());
  ASSERT_EQ(record.changes().size(), 1u);
  EXPECT_EQ(record.changes()[0].t, 0);
  EXPECT_STREQ(scene::to_string(record.changes()[0].what), "releases");
  const scene::Observation at{system, stepper.state(), stepper.reactions(), &record};
  const auto x = model.logs[0](at);
  EXPECT_EQ(Vector3d(x[0], x[1], x[2]), Vector3d(0, 1, 0));
  const auto force = model.logs[1](at);
  EXPECT_EQ(Vector3d(force[0], force[1], force[2]), Vector3d::Zero());
}

TEST(Judge, ExpectsWholeRuns) {
  const scene::Model model = scene::load_text(R"toml(schema = 2
[world]
duration = 1
dt = 0.1
[[body]]
name = "ball"
kind = "particle"
mass = 2
velocity = [1, 0, 0]
[[expect]]
value = "ball.velocity.x"
throughout = true
[[expect]]
value = "sqrt(0.25 - ball.x)"
throughout = true
is = 0
)toml",
                                              "scene.toml");
  const System system = model.system();
  State state = system.initial_state();
  const auto judged = [&](int steps) {
    scene::Judge judge(model, scene::Host::bare, 0.1);
    for (int i = 0; i <= steps; ++i) {
      state.t = 0.1 * i;
      state[BodyId{1}].p.x() = state.t;
      judge.see({system, state, {}});
    }
    judge.end(1);
    return judge;
  };
  const auto none = judged(0), early = judged(9), whole = judged(10);
  EXPECT_FALSE(none.verdicts()[0].met);
  EXPECT_EQ(none.why_not(none.verdicts()[0]), "the run took no step");
  EXPECT_FALSE(early.verdicts()[0].met);
  EXPECT_FALSE(early.verdicts()[0].judged);
  EXPECT_EQ(early.why_not(early.verdicts()[0]), "the run ended early, at 0.9 s");
  EXPECT_TRUE(whole.verdicts()[0].met);
  EXPECT_TRUE(whole.verdicts()[1].judged);
  EXPECT_FALSE(whole.verdicts()[1].met);
  ASSERT_TRUE(whole.verdicts()[1].not_a_number_at.has_value());
  EXPECT_NEAR(*whole.verdicts()[1].not_a_number_at, 0.3, 1e-12);
}

TEST(SceneEquation, KinksThatDoNotMatterAtTheStartAreTaken) {
  for (const char* equation : {"(a.x - 0.1)*max(a.x, 0.1) = b.x", "square(a.x - 0.1)*sign(a.x - 0.1) + a.y = 2"})
    EXPECT_EQ(message_of(two_bodies("[[constraint]]\nname = \"c\"\nequation = \"" + std::string(equation) + "\"\n")),
              "(no error)");
}

TEST(SceneFile, MakesBodiesOfTheirShapes) {
  const scene::Model model = scene::load_text(R"(schema = 2
[[body]]
name = "box"
density = 500
shape = { box = [0.2, 0.4, 0.6] }
[[body]]
name = "ball"
mass = 3
shape = { sphere = 0.5 }
[[body]]
name = "rod"
mass = 3
shape = { cylinder = [0.1, 2] }
[[body]]
name = "pill"
mass = 2
shape = { capsule = [0.1, 1e-9] }
)",
                                              "scene.toml");
  const double m = 500 * 0.2 * 0.4 * 0.6;
  EXPECT_NEAR(model.bodies[0].mass, m, 1e-12);
  EXPECT_NEAR(model.bodies[0].inertia(0, 0), m / 12 * (0.16 + 0.36), 1e-12);
  EXPECT_NEAR(model.bodies[0].inertia(1, 1), m / 12 * (0.04 + 0.36), 1e-12);
  EXPECT_NEAR(model.bodies[1].inertia(2, 2), 0.4 * 3 * 0.25, 1e-12);
  EXPECT_NEAR(model.bodies[2].inertia(1, 1), 0.5 * 3 * 0.01, 1e-12);
  EXPECT_NEAR(model.bodies[2].inertia(0, 0), 3 * (3 * 0.01 + 4) / 12, 1e-12);
  EXPECT_NEAR(model.bodies[3].inertia(0, 0), 0.4 * 2 * 0.01, 1e-8);  // of no length: a ball
}

TEST(SceneFile, GeneratorsRepeatWhatTheyHold) {
  const scene::Model model = scene::load_text(R"(schema = 2
[params]
gap = 0.5
[[chain]]
name = "link"
count = 1000
step = [0, -0.1, 0]
mass = 0.1
shape = { sphere = 0.04 }
[[repeat]]
count = 3
[[repeat.body]]
name = "bead{i}"
kind = "particle"
mass = "i"
position = ["gap*i", 0, 0]
[[repeat.constraint]]
name = "line{i}"
equation = "bead{i}.y = {i-1}*0"
[[repeat.repeat]]
index = "j"
count = 2
[[repeat.repeat.body]]
name = "leaf{i}_{j}"
kind = "fixed"
)",
                                              "scene.toml");
  ASSERT_EQ(model.bodies.size(), 1000u + 3u + 6u);
  ASSERT_EQ(model.constraints.size(), 1003u);
  const System system = model.system();
  const State start = system.initial_state();
  EXPECT_LT((start[system.find_body("link1000")].p - Vector3d(0, -99.95, 0)).norm(), 1e-12);
  EXPECT_EQ(system.mass(system.find_body("bead3")), 3);
  EXPECT_EQ(start[system.find_body("bead3")].p.x(), 1.5);
  EXPECT_GE(system.find_body("leaf3_2").index, 0);
  for (const scene::SceneConstraint& c : model.constraints) {
    const Constraint& made = system.constraint(system.find_constraint(c.name));
    for (const double x : rows_of(made, start, 0).position) ASSERT_NEAR(x, 0, 1e-12) << c.name;
  }
}

TEST(SceneFile, JointsCloseAtTheStartWhateverTheyAreGivenIn) {
  for (const char* type : {"ball", "hinge", "slider", "weld", "universal", "cylindrical", "planar", "point_on_line",
                           "point_on_plane", "rod", "gear"}) {
    const std::string name = type;
    const bool rod = name == "rod", gear = name == "gear";
    const scene::Model model =
        scene::load_text(two_bodies("[[joint]]\nname = \"c\"\ntype = \"" + name + "\"\na = \"a\"\nb = \"b\"\n" +
                                    (rod || gear ? "" : "at = [0.3, 1, -0.2]\n") +
                                    (rod || name == "ball" || name == "weld" ? "" : "axis = [1, -2, 0.5]\n") +
                                    (gear ? "ratio = 2\n" : "")),
                         "scene.toml");
    const System system = model.system();
    const Constraint& c = system.constraint(system.find_constraint("c"));
    for (const double x : rows_of(c, system.initial_state(), 0).position) EXPECT_NEAR(x, 0, 1e-14) << type;
  }
}

TEST(SceneFile, DrivenBodiesKnowTheirAccelerations) {
  const scene::Model model = scene::load_text(R"(schema = 2
[[body]]
name = "d"
kind = "kinematic"
motion = { position = "[sin(2*t), t^2, 0]", axis = [0, 0, 2], angle = "3*t^2" }
[[body]]
name = "p"
kind = "particle"
mass = 1
)",
                                              "scene.toml");
  const BodyState s = model.bodies[0].motion(0.5);
  EXPECT_LT((s.p - Vector3d(std::sin(1), 0.25, 0)).norm(), 1e-15);
  EXPECT_LT((s.v - Vector3d(2 * std::cos(1), 1, 0)).norm(), 1e-15);
  EXPECT_LT((s.a - Vector3d(-4 * std::sin(1), 2, 0)).norm(), 1e-15);
  EXPECT_LT((s.w - Vector3d(0, 0, 3)).norm(), 1e-15);
  EXPECT_LT((s.alpha - Vector3d(0, 0, 6)).norm(), 1e-15);
}

std::vector<std::pair<std::string, std::string>> corpus() {
  std::vector<std::pair<std::string, std::string>> out;
  for (const char* folder : {"/demos/scenes", "/tests/scenes/broken"})
    for (const auto& entry : std::filesystem::directory_iterator(std::string(LINCHPIN_SOURCE_DIR) + folder)) {
      if (entry.path().extension() != ".toml") continue;
      std::ifstream in(entry.path());
      out.emplace_back(entry.path().string(), std::string(std::istreambuf_iterator<char>(in), {}));
    }
  std::sort(out.begin(), out.end());
  return out;
}

// Whatever is done to a file: it loads, or it is refused with a message.
TEST(SceneFile, MutationsAreReadOrRefused) {
  const auto files = corpus();
  ASSERT_GT(files.size(), 50u);
  const std::string words[] = {"(",    ")",   "[[", "]]", "=",  "\"", "'",  "\n",         "{i}",   "1e308", "-1",
                               "nan",  "inf", "t",  "^",  "/0", ".",  ",",  "[repeat]",   "sqrt(", "0",     "\xff",
                               "a.b.", "*",   "#",  "{",  "}",  "e",  "^-", "count = 99", "world", "]",     "\t"};
  // LINCHPIN_MUTATIONS=1000000 for a long look, with other mutations.
  const char* more = std::getenv("LINCHPIN_MUTATIONS");
  const int rounds = more ? std::atoi(more) : 6000;
  std::mt19937 random(20261120u + static_cast<unsigned>(more ? rounds : 0));
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  int loaded = 0, refused = 0;
  for (int round = 0; round < rounds; ++round) {
    const auto& [path, original] = files[below(files.size())];
    std::string text = original.size() > 20000 ? original.substr(0, 20000) : original;
    for (std::size_t edit = 0, edits = 1 + below(4); edit < edits && !text.empty(); ++edit) {
      const std::size_t at = below(text.size());
      switch (below(5)) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.insert(at, words[below(std::size(words))]);
          break;
        case 2:
          text.erase(at, 1 + below(12));
          break;
        case 3:
          text.insert(at, text.substr(below(text.size()), below(40)));
          break;
        default:
          text.resize(at + 1);
          break;
      }
    }
    // What is tried is the reader, not the patience: long chains and grids take their time by right.
    if (text.find("[[chain]]") != std::string::npos || text.find("[[grid]]") != std::string::npos) continue;
    try {
      (void)scene::load_text(text, path);
      ++loaded;
    } catch (const scene::SceneError& e) {
      ++refused;
      ASSERT_NE(std::string(e.what()).find(": error: "), std::string::npos) << e.what();
    }
  }
  EXPECT_GT(loaded, 100);
  EXPECT_GT(refused, 1000);
}

TEST(SceneFile, NoiseIsRefusedAtOnce) {
  std::mt19937 random(7);
  for (const std::size_t size : {std::size_t{0}, std::size_t{100}, std::size_t{1} << 16, std::size_t{10} << 20}) {
    std::string text(size, ' ');
    for (char& c : text) c = static_cast<char>(random());
    EXPECT_THROW((void)scene::load_text(text, "noise.toml"), scene::SceneError) << size;
  }
  EXPECT_THROW((void)scene::load_text("schema = 2\nx = " + std::string(100000, '['), "deep.toml"), scene::SceneError);
  std::string key = "a";
  for (int i = 0; i < 50000; ++i) key += ".a";
  EXPECT_THROW((void)scene::load_text("schema = 2\n[" + key + "]\n", "deep.toml"), scene::SceneError);
  std::string sum = "0";
  for (int i = 0; i < 3000; ++i) sum += " + a.x";
  EXPECT_NO_THROW((void)scene::load_text(two_bodies("[[constraint]]\nname = \"c\"\nequation = \"" + sum + " = 1\"\n"),
                                         "long.toml"));
}

// ---- coordinates ----

const std::string two_coordinates = R"(schema = 2
[params]
m = 0.7
[[coordinate]]
name = "r"
start = 0.4
rate = -1.1
[[coordinate]]
name = "phi"
start = 1.3
rate = 2.0
)";

void expect_same_kinetics(const Kinetics& is, const Kinetics& should) {
  ASSERT_EQ(is.size(), should.size());
  const std::vector<double> q = {0.4, 1.3}, rate = {-1.1, 2.0};
  std::vector<double> M(4), h(2), other_M(4), other_h(2);
  is.evaluate(q, rate, 0.6, M, h);
  should.evaluate(q, rate, 0.6, other_M, other_h);
  expect_same(M, other_M);
  expect_same(h, other_h);
  EXPECT_EQ(is.energy(q, rate, 0.6), should.energy(q, rate, 0.6));
  EXPECT_NEAR(is.energy_integral(q, rate, 0.6), should.energy_integral(q, rate, 0.6), 1e-15);
}

TEST(SceneCoordinates, HaveTheMassMatrixOfTheSameLambda) {
  const scene::Model model = scene::load_text(
      two_coordinates + "[lagrangian]\nkinetic = \"0.5*m*(r'^2 + r^2*(phi' + sin(t))^2) + 0.1*m*r'*phi'\"\n", "s.toml");
  EXPECT_EQ(model.options.method, Method::rk4);
  const auto lambda = [](const auto& s) {
    const double m = 0.7;
    return 0.5 * m * (square(s.rate[0]) + square(s.q[0]) * square(s.rate[1] + sin(s.t))) +
           0.1 * m * s.rate[0] * s.rate[1];
  };
  expect_same_kinetics(*model.kinetics(), *kinetic_energy(2, lambda, true));
  EXPECT_TRUE(model.kinetics()->rheonomic());
  // By entries of M.
  const auto quadratic = kinetic_energy(2, [](const auto& s) {
    return 0.5 * 0.7 * square(s.rate[0]) + 0.5 * (0.7 * square(s.q[0])) * square(s.rate[1]);
  });
  for (const char* mass : {"[[\"m\", 0], [0, \"m*r^2\"]]", "[\"m\", \"m*r^2\"]"})
    expect_same_kinetics(
        *scene::load_text(two_coordinates + "[lagrangian]\nmass = " + mass + "\n", "s.toml").kinetics(), *quadratic);
}

TEST(SceneForce, OfAPotentialIsItsGradientOnBodiesAndCoordinates) {
  const std::string text = two_bodies("") + R"([[coordinate]]
name = "u1"
start = 0.3
[lagrangian]
kinetic = "0.5*u1'^2"
[[force]]
name = "V"
potential = "2*dist2(a.point(0.1, 0, 0.2), b.position) + u1^3*dot(a.axis(0, 1, 0), b.axis(1, 0, 0)) + 0.1*t*u1"
)";
  const scene::Model model = scene::load_text(text, "s.toml");
  const System system = model.system();
  State state = system.initial_state();
  for (BodyState& s : state.bodies) s.v.setZero(), s.w.setZero();
  state.t = 0.7;
  const ConstrainedProblem problem = assemble(system, state);
  ASSERT_EQ(problem.n(), 13);
  int column = 0;
  for (const BodyId id : {BodyId{1}, BodyId{2}, BodyId{3}}) {
    for (int k = 0; k < system.dof(id); ++k, ++column) {
      const auto shifted = [&](double h) {
        State moved = state;
        const Vector3d e = h * Vector3d::Unit(k % 3);
        advance(moved[id], k < 3 ? e : Vector3d::Zero(), k < 3 ? Vector3d::Zero() : e, 1);
        return potential_energy(system, moved);
      };
      const double gradient = (shifted(1e-6) - shifted(-1e-6)) / 2e-6;
      EXPECT_NEAR(problem.Q[static_cast<std::size_t>(column)], -gradient, 1e-6) << column;
    }
  }
}

TEST(SceneFile, BulletFilesComeThroughTheSameDoor) {
  const std::string file = std::string(LINCHPIN_SOURCE_DIR) + "/demos/scenes/pendulum.bullet";
  EXPECT_THROW((void)scene::load(file), scene::NeedsHost);
  const auto import = [](const std::string&) {
    scene::Imported out;
    out.bodies.resize(1);
    out.bodies[0].name = "bar";
    out.bodies[0].mass = 2;
    out.bodies[0].inertia = Matrix3d::Identity();
    scene::SceneConstraint pin;
    pin.name = "pin";
    pin.type = "point2point";
    pin.bodies = {BodyId{1}, ground};
    pin.make = [](const std::vector<BodyId>& id) {
      return joints::ball("pin", id[0], Vector3d(0, 1, 0), id[1], Vector3d(0, 1, 0));
    };
    out.joints = {pin};
    out.gravity = Vector3d(0, 0, -5);
    return out;
  };
  const scene::Model model = scene::load(file, import);
  EXPECT_EQ(model.constraints.size(), 1u);
  EXPECT_TRUE(model.constraints[0].imported);
  EXPECT_EQ(model.gravity.z(), -5);
  EXPECT_EQ(model.system().constraint_count(), 1);
  // Names of what came with it are taken.
  EXPECT_THROW((void)scene::load_text("schema = 2\ninclude = \"x.bullet\"\n[[joint]]\nname = \"pin\"\ntype = \"ball\"\n"
                                      "b = \"bar\"\nat = [0, 0, 0]\n",
                                      "s.toml", import),
               scene::SceneError);
}

// ---- what is asked of a run ----

TEST(Judge, HasAStepEndAtEveryTimeThatIsWaitedFor) {
  scene::Model model = scene::load_text(R"(schema = 2
[world]
duration = 1
dt = 0.25
[[body]]
name = "p"
kind = "particle"
mass = 1
[[expect]]
value = "p.x"
at = 0.5
is = 0
[[expect]]
value = "p.x"
at = 0.55
is = 0
[[expect]]
value = "p.y"
at = 0.7
is = 0
bullet = false
[[expect]]
value = "p.z"
at = 0.55
is = 0
)",
                                        "s.toml");
  scene::Judge judge(model, scene::Host::bare, model.dt);
  EXPECT_EQ(judge.parts(0.25, 0.25), std::vector<double>{0.25}) << "a step that ends there anyway";
  const std::vector<double> parts = judge.parts(0.5, 0.25);
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_NEAR(parts[0], 0.05, 1e-15);
  EXPECT_NEAR(parts[1], 0.15, 1e-15);
  EXPECT_NEAR(parts[2], 0.05, 1e-15);
  EXPECT_EQ(scene::Judge(model, scene::Host::bullet_float64, model.dt).parts(0.5, 0.25).size(), 2u)
      << "not judged there";

  // What the run did not come to is not met, and says so.
  const System system = model.system();
  State state = system.initial_state();
  for (const double t : {0.0, 0.5}) {
    state.t = t;
    judge.see({system, state, {}});
  }
  EXPECT_EQ(judge.why_not(judge.verdicts()[0]), "");
  EXPECT_TRUE(judge.verdicts()[0].met);
  EXPECT_FALSE(judge.verdicts()[1].met);
  EXPECT_EQ(judge.why_not(judge.verdicts()[1]), "the run ends at 0.5 s, before this time");
}

TEST(Channel, HasTheUnitOfWhatItIs) {
  const auto unit = [](const std::string& channel) {
    return scene::load_text(R"(schema = 2
[[body]]
name = "p"
kind = "particle"
mass = 1
[[coordinate]]
name = "phi"
unit = "rad"
[[coordinate]]
name = "x"
unit = "m"
[[coordinate]]
name = "q"
[lagrangian]
mass = [1, 1, 1]
[[constraint]]
name = "turns"
equation = "phi = t"
unit = "rad"
[[constraint]]
name = "pulls"
equation = "x = p.x"
unit = "m"
[[constraint]]
name = "mixes"
equation = "q = phi"
unit = "custom"
[[log]]
channel = ")" + channel + "\"\n",
                            "s.toml")
        .logs.front()
        .unit();
  };
  EXPECT_EQ(unit("phi"), "rad");
  EXPECT_EQ(unit("phi'"), "rad/s");
  EXPECT_EQ(unit("-x"), "m");
  EXPECT_EQ(unit("abs(x')"), "m/s");
  EXPECT_EQ(unit("q"), "");
  EXPECT_EQ(unit("q'"), "");
  EXPECT_EQ(unit("reaction(turns, phi)"), "N m");
  EXPECT_EQ(unit("reaction(pulls, x)"), "N");
  EXPECT_EQ(unit("reaction(pulls, p)"), "N");
  EXPECT_EQ(unit("norm(reaction(pulls, p))"), "N");
  EXPECT_EQ(unit("reaction(mixes, q)"), "");
  EXPECT_EQ(unit("lambda(turns)"), "N m");
  EXPECT_EQ(unit("lambda(pulls)"), "N");
  EXPECT_EQ(unit("gap(turns)"), "rad");
  EXPECT_EQ(unit("gap(pulls)"), "m");
  EXPECT_EQ(unit("gap(mixes)"), "");
  EXPECT_EQ(unit("work(turns)"), "J");
  EXPECT_EQ(unit("p.position"), "m");
  EXPECT_EQ(unit("norm(p.velocity)"), "m/s");
  EXPECT_EQ(unit("t"), "s");
  for (const char* other :
       {"norm2(p.position)", "phi^2", "energy()^2", "sin(phi)", "2*x", "dist2(p.position, [1, 2, 3])"})
    EXPECT_EQ(unit(other), "") << other;
  EXPECT_EQ(scene::force_unit("deg"), "J/deg");
}

TEST(Channel, HasTheNameThatTheFileGives) {
  const scene::Model model = scene::load_text(
      two_bodies("[[log]]\nname = \"height, above all\"\nchannel = \"a.y\"\n[[log]]\nchannel = \"b.y\"\n"
                 "[[expect]]\nname = \"height, above all\"\nvalue = \"a.y\"\nat = 0\nis = 2\n"),
      "scene.toml");
  EXPECT_EQ(model.logs[0].title(), "height, above all");
  EXPECT_EQ(model.logs[0].text(), "a.y");
  EXPECT_EQ(model.logs[1].title(), "b.y");
  EXPECT_TRUE(model.expectations[0].value.has_name());
  const auto error = [](const std::string& more) { return message_of(two_bodies(more)); };
  EXPECT_NE(error("[[log]]\nname = \"y\"\nchannel = \"a.y\"\n[[log]]\nname = \"y\"\nchannel = \"b.y\"\n")
                .find("scene.toml:26:8: error: there are two of [[log]] with the name \"y\"; rename one"),
            std::string::npos);
  EXPECT_NE(error("[[log]]\nname = \"\"\nchannel = \"a.y\"\n").find("log: a name is not empty"), std::string::npos);
  EXPECT_NE(error("[[log]]\nname = 3\nchannel = \"a.y\"\n").find("log, name is a text in quotes, not a number"),
            std::string::npos);
  EXPECT_NE(error("[[expect]]\nnam = \"y\"\nvalue = \"a.y\"\nat = 0\nis = 2\n")
                .find("expect: unknown key \"nam\"; did you mean \"name\"?"),
            std::string::npos);
}

// ---- analysis ----

scene::Classification classified(const std::string& scene, const char* name) {
  const System system = scene::load_text(scene, "scene.toml").system();
  return scene::classify(system, system.find_constraint(name), system.initial_state());
}

scene::Classification classified_file(const std::string& file, const char* name) {
  const System system = scene::load(std::string(LINCHPIN_SOURCE_DIR) + "/demos/scenes/" + file + ".toml").system();
  return scene::classify(system, system.find_constraint(name), system.initial_state());
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos);
  return text.replace(at, from.size(), to);
}

TEST(Classify, KnowsTheClassics) {
  EXPECT_EQ(classified_file("skate", "edge").kind, scene::Integrability::nonholonomic);
  EXPECT_EQ(classified_file("rolling-disk", "rolling").kind, scene::Integrability::nonholonomic);
  EXPECT_EQ(classified_file("ball-on-turntable", "rolling").kind, scene::Integrability::nonholonomic);
  EXPECT_EQ(classified_file("nonholonomic-particle", "screw").kind, scene::Integrability::nonholonomic);
  EXPECT_FALSE(classified_file("appell-hamel", "cone").linear);
  EXPECT_EQ(classified_file("rolling-cylinder", "rolling").kind, scene::Integrability::integrable_here);
  EXPECT_EQ(classified_file("rotating-wire", "plane").kind, scene::Integrability::holonomic);
  EXPECT_TRUE(classified_file("rotating-wire", "plane").rheonomic);
  EXPECT_FALSE(classified_file("rotating-wire", "parabola").rheonomic);
  EXPECT_TRUE(classified_file("moving-sphere", "sphere").rheonomic);
  EXPECT_FALSE(classified_file("moving-sphere", "sphere").catastatic);
  EXPECT_TRUE(classified_file("straight-wire", "along").rheonomic);
  const scene::Classification edge = classified_file("turning-edge", "edge");
  EXPECT_EQ(edge.kind, scene::Integrability::nonholonomic);
  EXPECT_TRUE(edge.rheonomic && edge.catastatic);
}

TEST(Classify, SeesThroughADisguise) {
  const auto particle = [](const std::string& row) {
    return classified(
        "schema = 2\n[[body]]\nname = \"p\"\nkind = \"particle\"\nmass = 1\nposition = [1, 0.5, 0.3]\n"
        "[[constraint]]\nname = \"c\"\nvelocity = \"" +
            row + "\"\n",
        "c");
  };
  const scene::Classification exact = particle("p.x*p.velocity.x + p.y*p.velocity.y = 3*t^2");
  EXPECT_EQ(exact.kind, scene::Integrability::exact);
  EXPECT_FALSE(exact.catastatic);
  EXPECT_EQ(exact.integral, "0.5*p.x^2 + 0.5*p.y^2 - t^3");
  // y z dx + x z dy + 2 x y dz is no differential, but times z it is that of x y z^2.
  EXPECT_EQ(particle("p.y*p.z*p.velocity.x + p.x*p.z*p.velocity.y + 2*p.x*p.y*p.velocity.z = 0").kind,
            scene::Integrability::integrating_factor);
  EXPECT_EQ(particle("p.velocity.z = p.y*p.velocity.x - p.x*p.velocity.y").kind, scene::Integrability::nonholonomic);
  // The rate of a function of the orientation: exact, though turns do not commute.
  const scene::Classification turn = classified(
      two_bodies("[[constraint]]\nname = \"c\"\nvelocity = \"dot(cross(a.omega, a.axis(u)), [0, 0, 1]) = 0\"\n"), "c");
  EXPECT_EQ(turn.kind, scene::Integrability::exact);
  EXPECT_EQ(turn.integral, "0.2*a.axis(1, 0, 0).z - 0.3*a.axis(0, 1, 0).z + 0.9*a.axis(0, 0, 1).z");
  const scene::Classification mixed =
      classified(two_bodies("[[constraint]]\nname = \"c\"\nvelocity = \"dot(a.velocity(0, 0.5, 0), "
                            "[1, 0, 0]) = b.z*b.velocity.x + b.x*b.velocity.z\"\n"),
                 "c");
  EXPECT_EQ(mixed.kind, scene::Integrability::exact);
  const scene::Classification angle = classified(
      two_coordinates +
          "[lagrangian]\nmass = [1, 1]\n[[constraint]]\nname = \"c\"\nvelocity = \"cos(phi)*phi' = 2*r' + 2*t\"\n",
      "c");
  EXPECT_EQ(angle.kind, scene::Integrability::exact);
  EXPECT_EQ(angle.integral, "sin(phi) - 2*r - t^2");
  EXPECT_EQ(classified(two_bodies("[[constraint]]\nname = \"c\"\nvelocity = \"a.omega.z = 0\"\n"), "c").kind,
            scene::Integrability::nonholonomic);
}

// Rows of bodies: functions of positions, whose gradients are the rows. Nothing else occurs in what is named: no time
// in rows without it, no axes in rows on points that do not turn.
TEST(Classify, NamesTheIntegralAndNothingElse) {
  const auto integral = [](const std::string& row) {
    return classified(two_bodies("[[constraint]]\nname = \"c\"\nvelocity = \"" + row + "\"\n"), "c").integral;
  };
  EXPECT_EQ(integral("dot(a.position - [1, 2, 3], a.velocity) = 0"),
            "-a.x - 2*a.y - 3*a.z + 0.5*a.x^2 + 0.5*a.y^2 + 0.5*a.z^2");
  EXPECT_EQ(integral("a.x*b.velocity.y + b.y*a.velocity.x = 0"), "a.x*b.y");
  EXPECT_EQ(integral("(a.x - b.x)*(a.velocity.x - b.velocity.x) = t"), "0.5*a.x^2 - a.x*b.x + 0.5*b.x^2 - 0.5*t^2");
  EXPECT_EQ(integral("1e-8*dot(a.position - b.position, a.velocity - b.velocity) = 0"),
            "5e-09*a.x^2 - 1e-08*a.x*b.x + 5e-09*a.y^2 - 1e-08*a.y*b.y + 5e-09*a.z^2 - 1e-08*a.z*b.z + 5e-09*b.x^2 + "
            "5e-09*b.y^2 + 5e-09*b.z^2");
  EXPECT_EQ(
      integral("dot(cross(a.omega - b.omega, a.axis(0, 0, 1)), b.axis(1, 0, 0)) = 0"),
      "a.axis(0, 0, 1).x*b.axis(1, 0, 0).x + a.axis(0, 0, 1).y*b.axis(1, 0, 0).y + a.axis(0, 0, 1).z*b.axis(1, 0, "
      "0).z");
  EXPECT_EQ(integral("3*a.x^2*a.velocity.x = b.velocity.y"), "-b.y + a.x^3");
  // Exact, but of no polynomial: nothing is named.
  const std::string sine = "[[constraint]]\nname = \"c\"\nvelocity = \"cos(a.x)*a.velocity.x = 0\"\n";
  EXPECT_EQ(classified(two_bodies(sine), "c").kind, scene::Integrability::exact);
  EXPECT_EQ(classified(two_bodies(sine), "c").integral, "");
}

// Without t in its equation a turntable changes with nothing, though it asks for motion. The rate of x − t does.
TEST(Classify, ATurntableIsNotRheonomic) {
  const scene::Classification turntable = classified_file("ball-on-turntable", "rolling");
  EXPECT_FALSE(turntable.rheonomic);
  EXPECT_FALSE(turntable.catastatic);
}

std::vector<scene::IntegrableCombination> combinations(const System& system) {
  std::vector<scene::Classification> kinds;
  for (int i = 0; i < system.constraint_count(); ++i)
    kinds.push_back(scene::classify(system, ConstraintId{i}, system.initial_state()));
  return integrable_combinations(system, kinds, system.initial_state());
}

// A ball that rolls on a table: v + w × (−a e_z) = 0 is nonholonomic, and keeps the height of the ball all the same,
// whatever the axes in which the three rows are written.
TEST(IntegrableCombinations, OfARollingBallAreItsHeight) {
  const auto ball = [](const std::string& velocity) {
    return scene::load_text(R"(schema = 2
[[body]]
name = "ball"
mass = 1
shape = { sphere = 0.1 }
position = [0, 0, 0.1]
rotation = { axis = [1, 2, 3], angle = 0.7 }
[[constraint]]
name = "rolls"
velocity = )" + velocity + "\n",
                            "s.toml")
        .system();
  };
  const auto plain = combinations(ball("\"ball.velocity + cross(ball.omega, [0, 0, -0.1]) = [0, 0, 0]\""));
  ASSERT_EQ(plain.size(), 1u);
  ASSERT_EQ(plain[0].rows.size(), 1u);
  EXPECT_EQ(plain[0].rows[0].row, 2);
  EXPECT_TRUE(plain[0].constant);
  EXPECT_EQ(plain[0].integral, "ball.z");
  // Mixed, with numbers.
  const auto mixed = combinations(
      ball("[\"ball.velocity.x - 0.1*ball.omega.y + ball.velocity.z = 0\", \"ball.velocity.y + 0.1*ball.omega.x = 0\", "
           "\"2*ball.velocity.x - 0.2*ball.omega.y = 0\"]"));
  ASSERT_EQ(mixed.size(), 1u);
  ASSERT_EQ(mixed[0].rows.size(), 2u);
  EXPECT_EQ(mixed[0].rows[0].row, 0);
  EXPECT_NEAR(mixed[0].rows[0].coefficient, 1, 1e-6);
  EXPECT_EQ(mixed[0].rows[1].row, 2);
  EXPECT_NEAR(mixed[0].rows[1].coefficient, -0.5, 1e-6);
  EXPECT_EQ(mixed[0].integral, "ball.z");
  // In the axes of the ball: no row alone, and no combination with the same numbers everywhere.
  std::string turned;
  for (const char* axis : {"1, 0, 0", "0, 1, 0", "0, 0, 1"})
    turned += std::string(turned.empty() ? "[" : ", ") +
              "\"dot(ball.velocity + cross(ball.omega, [0, 0, -0.1]), ball.axis(" + axis + ")) = 0\"";
  const auto in_axes = combinations(ball(turned + "]"));
  ASSERT_EQ(in_axes.size(), 1u);
  EXPECT_EQ(in_axes[0].rows.size(), 3u);
  EXPECT_FALSE(in_axes[0].constant);
  // What is nonholonomic through and through, and what is so by a small term alone, has none.
  EXPECT_TRUE(
      combinations(scene::load(std::string(LINCHPIN_SOURCE_DIR) + "/demos/scenes/skate.toml").system()).empty());
  EXPECT_TRUE(combinations(scene::load_text(two_bodies("[[constraint]]\nname = \"c\"\nvelocity = [\"a.velocity.z = "
                                                       "1e-6*a.y*a.velocity.x\", \"a.omega.z = 0\"]\n"),
                                            "s.toml")
                               .system())
                  .empty());
}

// dz = k y dx is no differential for any k but 0; w = dz − k y dx has w ∧ dw = −k dx ∧ dy ∧ dz.
TEST(Classify, JudgesTermsByTheirOwnSize) {
  for (const char* k : {"1", "1e-3", "1e-5", "3e-6", "1e-6", "1e-8"})
    EXPECT_EQ(classified(two_bodies("[[constraint]]\nname = \"c\"\nvelocity = \"a.velocity.z = " + std::string(k) +
                                    "*a.y*a.velocity.x\"\n"),
                         "c")
                  .kind,
              scene::Integrability::nonholonomic)
        << k;
  // Far from the origin, where positions have fewer digits, an exact row stays one.
  const std::string far = replaced(two_bodies("[[constraint]]\nname = \"c\"\nvelocity = \"dot(a.position - b.position, "
                                              "a.velocity - b.velocity) = 0\"\n"),
                                   "[0.1, 2.0, -0.3]", "[1e4, 2e4, 3]");
  EXPECT_EQ(classified(replaced(far, "[-0.4, 0.6, 0.2]", "[1e4, 2.1e4, 0]"), "c").kind, scene::Integrability::exact);
  // x dy − y dx is integrable with 1/x², at the origin too.
  EXPECT_EQ(classified(replaced(two_bodies("[[constraint]]\nname = \"c\"\nvelocity = [\"a.x*a.velocity.y = "
                                           "a.y*a.velocity.x\", \"b.velocity.z = 0\"]\n"),
                                "[0.1, 2.0, -0.3]", "[0, 0, 0]"),
                       "c")
                .kind,
            scene::Integrability::integrating_factor);
}

TEST(Classify, OfRowsNotLinearInTheVelocities) {
  const auto row = [](const std::string& text) {
    return classified(two_bodies("[[constraint]]\nname = \"c\"\nvelocity = \"" + text + "\"\n"), "c");
  };
  EXPECT_FALSE(row("a.velocity.x^2 = 1").rheonomic);
  EXPECT_FALSE(row("a.velocity.x^2 = 1").catastatic);
  EXPECT_TRUE(row("a.velocity.x^2*t = a.velocity.y^2").rheonomic);  // not at rest, where t multiplies nothing
  EXPECT_TRUE(row("a.velocity.x = 1").rheonomic);                   // the rate of x − t
  EXPECT_FALSE(row("a.velocity.x^2 = a.velocity.y^2").zero_jacobian);
  // As it starts; a whole constraint that holds nothing is no scene.
  const auto two = [](const std::string& text) {
    return classified(two_bodies("[[constraint]]\nname = \"c\"\nvelocity = [\"" + text + "\", \"b.velocity.z = 0\"]\n"),
                      "c");
  };
  EXPECT_TRUE(two("(a.velocity.x - 0.4)^3 = 0").zero_jacobian);
  EXPECT_THROW((void)row("(a.velocity.x - 0.4)^3 = 0"), scene::SceneError);
  // Steep is not dead, however steep beside the start.
  EXPECT_FALSE(classified(replaced(two_bodies("[[constraint]]\nname = \"c\"\nequation = \"a.x^1000000000000 = 1\"\n"),
                                   "[0.1, 2.0, -0.3]", "[1, 0, 0]"),
                          "c")
                   .zero_jacobian);
}

TEST(Equilibrium, RodsAt45Degrees) {  // T-1.11: tan = 1/3, F = sqrt(5/2) m g, w^2 = sqrt(5/2) g/(1.2 L)
  const scene::Model model = scene::load(std::string(LINCHPIN_SOURCE_DIR) + "/demos/scenes/rods-at-45-degrees.toml");
  const System system = model.system();
  const auto found = scene::find_equilibria(system, system.initial_state());
  ASSERT_EQ(found.size(), 2u);
  const State& s = found[0].state;
  const Vector3d d = s[BodyId{2}].p - s[BodyId{1}].p;
  EXPECT_NEAR(std::abs(d.y() / d.x()), 1.0 / 3, 1e-9);
  EXPECT_EQ(found[0].stability, scene::Equilibrium::Stability::stable);
  ASSERT_EQ(found[0].frequencies_squared.size(), 1u);
  EXPECT_NEAR(found[0].frequencies_squared[0], std::sqrt(2.5) * 9.81 / (1.2 * 0.9), 1e-6);
  EXPECT_EQ(found[1].stability, scene::Equilibrium::Stability::unstable);
}

// A disk rolls on its rim, with a weight on it. Its rows are all on velocities, and hold its centre above the road by
// r times the sine between its axis and the vertical: it does not sink in while a place of rest is looked for.
TEST(Equilibrium, AWheelThatRollsStaysOnItsRoad) {
  const System system = scene::load_text(R"~(schema = 2
[params]
r = 0.35
[world]
gravity = [0, 0, -9.81]
[[body]]
name = "disk"
mass = 1.2
shape = { cylinder = ["r", 0.02] }
rotation = { axis = [1, 0, 0], angle = 0.4 }
position = [0, 0, "r*cos(0.4)"]
[[body]]
name = "weight"
kind = "particle"
mass = 0.5
position = [0.2, 0, "r*cos(0.4)"]
[[joint]]
name = "glue"
type = "ball"
a = "disk"
b = "weight"
at = [0.2, 0, "r*cos(0.4)"]
[[constraint]]
name = "rolling"
velocity = "disk.velocity + cross(disk.omega, r/sqrt(1 - disk.axis(0, 1, 0).z^2)*(disk.axis(0, 1, 0).z*disk.axis(0, 1, 0) - [0, 0, 1])) = [0, 0, 0]"
)~",
                                         "s.toml")
                            .system();
  scene::EquilibriumSearch search;
  search.starts = 4;
  const auto found = find_equilibria(system, system.initial_state(), search);
  ASSERT_FALSE(found.empty());
  for (const scene::Equilibrium& e : found) {
    const BodyState& disk = e.state[system.find_body("disk")];
    const double up = disk.R().col(1).z();
    EXPECT_NEAR(disk.p.z(), 0.35 * std::sqrt(1 - up * up), 1e-7);
  }
}

TEST(Equilibrium, RotatingHoopOnEitherSideOfTheBifurcation) {
  std::ifstream in(std::string(LINCHPIN_SOURCE_DIR) + "/demos/scenes/rotating-hoop.toml");
  const std::string text(std::istreambuf_iterator<char>(in), {});
  for (const double w : {4.3, 4.43, 4.45, 4.5, 7.0}) {  // sqrt(g/R) = 4.4294
    const System system = scene::load_text(replaced(text, "w = 7.0", "w = " + std::to_string(w)), "hoop.toml").system();
    const auto turning = scene::rotation_of_kinematic_bodies(system);
    ASSERT_TRUE(turning);
    scene::EquilibriumSearch search;
    search.omega = turning->first;
    const auto found = find_equilibria(system, system.initial_state(), search);
    const auto at_angle = [&](double cosine) -> const scene::Equilibrium* {
      for (const scene::Equilibrium& e : found)
        if (std::abs(-e.state[BodyId{2}].p.y() / 0.5 - cosine) < 1e-7) return &e;
      return nullptr;
    };
    ASSERT_TRUE(at_angle(1));
    EXPECT_EQ(at_angle(1)->stability,
              w < 4.4294 ? scene::Equilibrium::Stability::stable : scene::Equilibrium::Stability::unstable);
    ASSERT_TRUE(at_angle(-1));
    EXPECT_EQ(at_angle(-1)->stability, scene::Equilibrium::Stability::unstable);
    const double cosine = 9.81 / (0.5 * w * w);
    EXPECT_EQ(at_angle(cosine) != nullptr, w > 4.4294);
    if (w < 4.4294) continue;
    EXPECT_EQ(at_angle(cosine)->stability, scene::Equilibrium::Stability::stable);
    EXPECT_NEAR(at_angle(cosine)->frequencies_squared[0], w * w * (1 - cosine * cosine), 1e-5);  // (w sin)^2
  }
}

// What a law of a file gives, for a thrust of 10 N on what slips with 1 m/s along x.
TEST(Scene, LawsOfACatalogueAreThoseOfTheCore) {
  const auto written = [](const std::string& law) {
    const System system =
        scene::load_text(
            "schema = 2\n[[body]]\nname = \"box\"\nmass = 1\ninertia = [1, 1, 1]\n[[joint]]\n"
            "name = \"floor\"\ntype = \"slider\"\nb = \"box\"\nat = [0, 0, 0]\naxis = [1, 0, 0]\nlaw = " +
                law,
            "laws.toml")
            .system();
    return laws_on(system, system.find_constraint("floor"))[0];
  };
  BodyState box, turned;
  turned.q = Eigen::AngleAxisd(0.5 * 3.14159265358979, Vector3d::UnitZ());
  ConstraintReaction n;
  n.normal = {0, 0, 10};
  n.slip_velocity = n.relative_velocity = {1, 0, 0};
  n.internal_state = {1e-4, 0, 0};
  n.first = &turned;
  n.second = &box;
  const std::vector<std::pair<std::string, Law>> cases = {
      {"{ type = \"lugre\", stiffness = 1e4, damping = 20, mu = 0.4, mu_kinetic = 0.3, speed = 0.5, viscous = 2 }",
       laws::lugre({.stiffness = 1e4, .damping = 20, .mu_static = 0.4, .mu_kinetic = 0.3, .speed = 0.5, .viscous = 2})},
      {"{ type = \"constant_force\", vector = [1, 2, 3] }", laws::constant_force({1, 2, 3})},
      {"{ type = \"constant_force\", vector = [1, 2, 3], axes = \"first\" }",
       laws::constant_force({1, 2, 3}, Axes::of_first)},
      {"{ type = \"lorentz\", charge = 2, E = [1, 0, 3], B = [0, 0.5, 0] }", laws::lorentz(2, {1, 0, 3}, {0, 0.5, 0})},
      {"{ type = \"coulomb\", mu = 0.4, belt = [3, 0, 0] }", laws::coulomb(0.4).on_belt({3, 0, 0})},
      {"{ type = \"viscous\", coefficient = 2, belt = [3, 0, 0], belt_on = \"second\" }",
       laws::viscous(2).on_belt({3, 0, 0}, Side::second)}};
  for (const auto& [text, law] : cases) EXPECT_EQ(written(text)(n).force, law(n).force) << text;
  EXPECT_THROW(written("{ type = \"coulomb\", mu = 0.4, belt_on = \"first\" }"), scene::SceneError);
  EXPECT_THROW(written("{ type = \"lugre\", stiffness = 0, mu = 0.4, speed = 1 }"), scene::SceneError);
}

// A motor's w t is held, and named; a force or a row on velocities likewise, each by what it is.
TEST(Equilibrium, WhatMovesWithTimeByItself) {
  const System system = scene::load_text(R"~(
schema = 2
[[body]]
name = "hoop"
mass = 1
inertia = [0.1, 0.1, 0.1]
[[body]]
name = "p"
kind = "particle"
mass = 1
position = [1, 0, 0]
[[joint]]
name = "axle"
type = "hinge"
b = "hoop"
at = [0, 0, 0]
axis = [0, 1, 0]
[[joint]]
name = "motor"
type = "prescribed_angle"
b = "hoop"
axis = [0, 1, 0]
angle = "0.1*(1 - cos(7*t))"
[[constraint]]
name = "shutter"
equation = "p.x*cos(t) + p.z*sin(t) = 1"
[[constraint]]
name = "belt"
velocity = "p.velocity.y = 2"
[[force]]
name = "steady"
body = "p"
force = "[0, 1, 0]"
[[force]]
name = "shaker"
body = "p"
force = "[0, sin(t)^2, 0]"
)~",
                                         "moving.toml")
                            .system();
  const scene::TimeDependence changing = scene::time_dependence(system);
  ASSERT_EQ(changing.constraints.size(), 2u);
  EXPECT_EQ(changing.constraints[0], system.find_constraint("motor"));  // at rest itself at t = 0
  EXPECT_EQ(changing.constraints[1], system.find_constraint("shutter"));
  EXPECT_EQ(changing.forces, std::vector<std::string>{"shaker"});
  const auto asking = scene::requiring_motion(system, system.initial_state(), Vector3d::Zero(), Vector3d::Zero());
  ASSERT_EQ(asking.size(), 1u);
  EXPECT_EQ(asking[0], system.find_constraint("belt"));
}

// At the bifurcation itself three places are one to rounding, with no stiffness to second order.
TEST(Equilibrium, RotatingHoopAtTheBifurcation) {
  std::ifstream in(std::string(LINCHPIN_SOURCE_DIR) + "/demos/scenes/rotating-hoop.toml");
  const std::string text(std::istreambuf_iterator<char>(in), {});
  const System system = scene::load_text(replaced(text, "w = 7.0", "w = 4.42944692"), "hoop.toml").system();
  scene::EquilibriumSearch search;
  search.omega = scene::rotation_of_kinematic_bodies(system)->first;
  const auto found = find_equilibria(system, system.initial_state(), search);
  ASSERT_EQ(found.size(), 2u);  // bottom and top
  EXPECT_EQ(found[0].stability, scene::Equilibrium::Stability::marginal);
  EXPECT_EQ(found[0].frequencies_squared[0], 0);
  EXPECT_FALSE(found[0].continuum) << "a rate of 0, and yet rest at one place only";
  EXPECT_NEAR(found[0].state[BodyId{2}].p.x(), 0, 1e-4);  // the other two are at 2e-5 to either side
}

// M = 1, K = [[1, 5], [-5, 1]]: λ² = −1 ± 5i. No potential, and an oscillation that grows.
TEST(Equilibrium, OfCirculatoryForcesFlutters) {
  const auto found_with = [](const std::string& c) {
    const System system = scene::load_text("schema = 2\n[world]\ngravity = [0, 0, 0]\n[params]\nc = " + c + R"(
[[body]]
name = "p"
kind = "particle"
mass = 1
position = [0.5, 0.2, 0]
[[force]]
name = "s"
body = "p"
force = "[-p.x - c*p.y, c*p.x - p.y, 0]"
[[constraint]]
name = "plane"
equation = "p.z = 0"
)",
                                           "curl.toml")
                              .system();
    return scene::find_equilibria(system, system.initial_state());
  };
  auto found = found_with("5");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].stability, scene::Equilibrium::Stability::unstable);
  ASSERT_EQ(found[0].imaginary_parts.size(), 2u);
  EXPECT_NEAR(found[0].frequencies_squared[0], 1, 1e-8);
  EXPECT_NEAR(found[0].imaginary_parts[0], -5, 1e-8);
  EXPECT_NEAR(found[0].imaginary_parts[1], 5, 1e-8);
  // However weak they are.
  EXPECT_EQ(found_with("1e-3")[0].stability, scene::Equilibrium::Stability::unstable);
  found = found_with("0");
  EXPECT_EQ(found[0].stability, scene::Equilibrium::Stability::stable);
  EXPECT_TRUE(found[0].imaginary_parts.empty());
}

// What turns is told from what matters and from how it goes on, and a place in it has to stay one.
TEST(Equilibrium, InATurningFrame) {
  const auto hoop = [](const std::string& axis, const std::string& angle, const std::string& more) {
    return scene::load_text("schema = 2\n[[body]]\nname = \"h\"\nkind = \"kinematic\"\nmotion = { axis = " + axis +
                                ", angle = \"" + angle + "\" }\n" + more + R"([[body]]
name = "p"
kind = "particle"
mass = 1
position = [0.3, -0.4, 0]
[[constraint]]
name = "c"
equation = ["norm2(p.position) = 0.25", "h.to_body(p.position).z = 0"]
)",
                            "hoop.toml")
        .system();
  };
  const std::string lift = "[[body]]\nname = \"lift\"\nkind = \"kinematic\"\nmotion = { position = \"[3, t, 0]\" }\n";
  ASSERT_TRUE(scene::rotation_of_kinematic_bodies(hoop("[0, 1, 0]", "5*t", "")));
  const System with_lift = hoop("[0, 1, 0]", "5*t", lift);  // which nothing is tied to
  ASSERT_TRUE(scene::rotation_of_kinematic_bodies(with_lift));
  EXPECT_NEAR(scene::rotation_of_kinematic_bodies(with_lift)->first.y(), 5, 1e-12);
  EXPECT_EQ(scene::moving_kinematic_bodies(with_lift).size(), 1u);
  const System unsteady = hoop("[0, 1, 0]", "5*t + 0.1*sin(t)", "");
  EXPECT_FALSE(scene::rotation_of_kinematic_bodies(unsteady));  // though its angular acceleration is 0 at the start
  EXPECT_EQ(scene::moving_kinematic_bodies(unsteady).size(), 1u);
  scene::EquilibriumSearch search;
  search.omega = Vector3d(0, 5, 0);
  const auto found = find_equilibria(with_lift, with_lift.initial_state(), search);
  ASSERT_EQ(found.size(), 4u);
  EXPECT_EQ(found[0].stability, scene::Equilibrium::Stability::unstable);  // the bottom: w^2 = g/R - 25
  EXPECT_NEAR(found[0].frequencies_squared[0], 9.81 / 0.5 - 25, 1e-6);
  // About a level axis the weight goes round: y = g/w^2 balances at the start only, x = 0 always.
  const System level = hoop("[1, 0, 0]", "5*t", "");
  search.omega = scene::rotation_of_kinematic_bodies(level)->first;
  const auto always = find_equilibria(level, level.initial_state(), search);
  ASSERT_EQ(always.size(), 2u);
  for (const scene::Equilibrium& e : always) EXPECT_NEAR(e.state[BodyId{2}].p.x(), 0, 1e-9);
}

// A rope hangs, and about the twists of its links nothing is decided: zeros, not rounding. Its lowest frequency is near
// that of a hanging chain of length L: w^2 = (2.4048/2)^2 g/L, the first zero of J0.
TEST(Equilibrium, RopeHangsStraight) {
  const System rope = scene::load(std::string(LINCHPIN_SOURCE_DIR) + "/demos/scenes/rope.toml").system();
  scene::EquilibriumSearch search;
  search.starts = 1;
  const auto found = find_equilibria(rope, rope.initial_state(), search);
  ASSERT_FALSE(found.empty());
  const scene::Equilibrium& down = found[0];
  EXPECT_EQ(down.stability, scene::Equilibrium::Stability::marginal);
  EXPECT_EQ(std::count(down.frequencies_squared.begin(), down.frequencies_squared.end(), 0.0), 30);
  EXPECT_NEAR(down.state[BodyId{30}].p.y(), -2.95, 1e-6);
  EXPECT_NEAR(down.frequencies_squared[30], 2.4048256 * 2.4048256 / 4 * 9.81 / 3.0, 2e-3);
}

// A door on a vertical hinge rests wherever it stands. The moments of its weight and of what bears it are large and
// cancel: what is left of them is rounding, and no stiffness.
TEST(Equilibrium, ADoorOnAVerticalHingeIsOneContinuumOfPlaces) {
  const std::string door = R"(
    schema = 2
    [[body]]
    name = "door"
    mass = 10
    shape = { box = [1, 2, 0.05] }
    position = [0.5, 0, 0]
    [[joint]]
    name = "h1"
    type = "hinge"
    b = "door"
    at = [0, 0.8, 0]
    axis = [0, 1, 0]
  )";
  std::string two = replaced(door, "h1", "h2");
  two = two.substr(two.find("[[joint]]"));
  for (const std::string& text : {door, replaced(door, "0.8", "0"), door + replaced(two, "0.8", "-0.8")}) {
    const System system = scene::load_text(text, "door.toml").system();
    const auto found = scene::find_equilibria(system, system.initial_state());
    ASSERT_EQ(found.size(), 1u) << text;
    EXPECT_EQ(found[0].stability, scene::Equilibrium::Stability::marginal);
    EXPECT_EQ(found[0].frequencies_squared, std::vector<double>{0});
    EXPECT_TRUE(found[0].continuum);
  }
  // A hinge that leans by an angle makes a pendulum of it, however slow: w^2 = m g sin(angle) (1/2) / I.
  for (const double lean : {1e-2, 1e-4, 1e-5}) {
    const System system =
        scene::load_text(replaced(door, "axis = [0, 1, 0]", "axis = [" + std::to_string(lean) + ", 1, 0]"), "door.toml")
            .system();
    const double w2 = 9.81 * std::sin(std::atan(lean)) * 0.5 / ((1 + 0.05 * 0.05) / 12 + 0.25);
    const auto found = scene::find_equilibria(system, system.initial_state());
    ASSERT_EQ(found.size(), 2u) << lean;
    EXPECT_EQ(found[0].stability, scene::Equilibrium::Stability::stable);
    EXPECT_EQ(found[1].stability, scene::Equilibrium::Stability::unstable);
    EXPECT_NEAR(found[0].frequencies_squared[0] / w2, 1, 0.05);
    EXPECT_NEAR(found[1].frequencies_squared[0] / w2, -1, 0.05);
    for (const scene::Equilibrium& e : found) EXPECT_FALSE(e.continuum);
  }
}

TEST(Equilibrium, SearchStopsWhenTold) {
  const System rope = scene::load(std::string(LINCHPIN_SOURCE_DIR) + "/demos/scenes/rope.toml").system();
  scene::EquilibriumSearch search;
  int asked = 0;
  search.go_on = [&](int, int) { return ++asked < 3; };
  EXPECT_TRUE(find_equilibria(rope, rope.initial_state(), search).empty());
  EXPECT_LT(asked, 200);
}

// Where no constraint holds anything, all forces vanish at rest.
TEST(Equilibrium, OfCoordinatesAndOfFreeBodies) {
  const System hoop = scene::load(std::string(LINCHPIN_SOURCE_DIR) + "/demos/scenes/hoop-in-its-angle.toml").system();
  const auto found = scene::find_equilibria(hoop, hoop.initial_state());
  const double cosine = 9.81 / (0.5 * 49);
  int stable = 0;
  for (const scene::Equilibrium& e : found) {
    const double c = std::cos(e.state[BodyId{1}].p.x());
    if (e.stability != scene::Equilibrium::Stability::stable) {
      EXPECT_NEAR(std::abs(c), 1, 1e-12);
      continue;
    }
    ++stable;
    EXPECT_NEAR(c, cosine, 1e-9);
    EXPECT_NEAR(e.frequencies_squared[0], 49 * (1 - cosine * cosine), 1e-5);
  }
  EXPECT_GE(stable, 2);
  const System hung = scene::load_text(R"t(schema = 2
[[body]]
name = "p"
kind = "particle"
mass = 2
position = [0.3, -0.4, 0.2]
[[force]]
name = "k"
potential = "0.5*100*(p.x^2 + 2*p.y^2 + 3*p.z^2)"
)t",
                                       "hung.toml")
                          .system();
  const auto rest = scene::find_equilibria(hung, hung.initial_state());
  ASSERT_EQ(rest.size(), 1u);
  EXPECT_NEAR(rest[0].state[BodyId{1}].p.y(), -2 * 9.81 / 200, 1e-9);
  EXPECT_NEAR(rest[0].frequencies_squared[2], 150, 1e-4);
}

}  // namespace
}  // namespace linchpin::test::scene_test
