// Any bytes as an equation or an expression: a tape, or a Fault at a place in the text. What compiles is run on all
// number types. The first byte says what the text may speak of.
#include "expression.h"
#include "fuzz.h"

#include <array>

using namespace linchpin;
using namespace linchpin::scene;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const bool equation = data[0] & 1, motion = data[0] & 2, asking = data[0] & 4;
  Names names;
  names.constants["L"] = 1.5;
  names.constants["w"] = 3.0;
  names.constants["u"] = Vector3d(1, 2, 3);
  names.constants["zero"] = 0.0;
  names.bodies = {"world", "load", "hinge 3", "p", "theta"};
  names.kinds = {BodyKind::fixed, BodyKind::rigid, BodyKind::rigid, BodyKind::particle, BodyKind::coordinate};
  const auto of_file = std::make_shared<Constants>(names.constants);
  const auto arm =
      std::make_shared<const Definition>(Definition{"arm", "load.point(0, L, 0) - p.position", of_file.get(), {}});
  names.definitions = std::make_shared<const Definition>(Definition{"reach", "norm(arm)*w", of_file.get(), arm});
  names.motion = motion;
  names.time = !(data[0] & 8);
  if (asking) {
    names.inputs = {{"N", Type::scalar, {}}, {"slip_velocity", Type::vector, {}}};
    names.observables = {{"reaction", Type::vector, {}}, {"lambda", Type::scalar, {}}, {"energy", Type::scalar, "-"}};
    Input applied{"applied_force", Type::vector, {}};
    applied.kind = Input::Of::force;
    names.observables.push_back(applied);
    names.constraints = {"rope"};
    names.constraint_bodies = {{1, 3}};
    names.constraint_rows = {2};
    names.forces = {"wind"};
    names.force_bodies = {{1, 4}};
    names.accelerations = true;
  }
  try {
    Compiler compiler(names);
    equation ? compiler.equation(text) : (void)compiler.expression(text);
    const auto tape = std::make_shared<const Tape>(compiler.finish());
    std::vector<BodyState> X(tape->bodies.size());
    for (std::size_t k = 0; k < X.size(); ++k) X[k].p = {0.1 * double(k), 0.2, -0.3}, X[k].v = {1, 2, 3};
    if (asking) {
      const std::vector<Vector3d> given(tape->inputs.size(), Vector3d(1, 2, 3));
      Evaluator evaluate(tape);
      fuzz::require(evaluate(X, 0.5, given).size() == static_cast<std::size_t>(tape->rows()), "rows");
    } else {
      const Level level = motion ? Level::velocity : Level::position;
      if (const auto fault = trouble(*tape, level, X, 0.5)) throw *fault;
      const auto f = make_function(tape, level, RowUnit::custom);
      const auto m = static_cast<std::size_t>(f->rows());
      std::vector<double> A(m * 6 * X.size()), b(m), position(m), velocity(m);
      f->linearize(X, 0.5, {A, b, position, velocity});
    }
  } catch (const Fault& fault) {
    fuzz::require(fault.at <= text.size(), "a fault beyond the text");
    fuzz::require(std::string_view(fault.what()).size() < 5000, "a fault of more than 5 kB");
  }
  return 0;
}
