// Options that no step can be made with, and indices of constraints that do not exist.
#include <linchpin/laws.h>
#include <linchpin/minimal.h>

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <stdexcept>
#include <string>

namespace linchpin::test {
namespace {

std::string refusal_of(const std::function<void(host::SolverOptions&)>& set) {
  toy::World world;
  host::SolverOptions options;
  set(options);
  try {
    const minimal::Solver solver(world, options);
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "accepted";
}

TEST(BadInput, OptionsAreRefusedByNameAndValue) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(refusal_of([&](host::SolverOptions& o) { o.max_tension_frequency = nan; }),
            "linchpin: Options::max_tension_frequency must be above 0, got nan");
  EXPECT_EQ(refusal_of([](host::SolverOptions& o) { o.max_tension_frequency = 0; }),
            "linchpin: Options::max_tension_frequency must be above 0, got 0");
  EXPECT_EQ(refusal_of([](host::SolverOptions& o) { o.rank_tolerance = -1; }),
            "linchpin: Options::rank_tolerance must be above 0, got -1");
  EXPECT_EQ(refusal_of([](host::SolverOptions& o) { o.max_newton = -5; }),
            "linchpin: Options::max_newton must be at least 0, got -5");
  EXPECT_EQ(refusal_of([](host::SolverOptions& o) { o.max_substeps = 0; }),
            "linchpin: Options::max_substeps must be at least 1, got 0");
  EXPECT_EQ(refusal_of([](host::SolverOptions& o) { o.threads = 0; }),
            "linchpin: Options::threads must be at least 1, got 0");
  EXPECT_EQ(refusal_of([](host::SolverOptions&) {}), "accepted");
}

TEST(BadInput, IndicesOfNoConstraintAreRefused) {
  toy::World world;
  minimal::Solver solver(world);
  for (const int entry : {-1, 999}) {
    EXPECT_THROW(solver.remove(entry), std::out_of_range);
    EXPECT_THROW((void)solver.solver().laws_of(entry), std::out_of_range);
    EXPECT_THROW((void)solver.solver().add_law(entry, laws::viscous(1)), std::out_of_range);
  }
}

}  // namespace
}  // namespace linchpin::test
