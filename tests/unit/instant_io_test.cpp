// The file form of a ConstrainedProblem: nothing is lost, and whatever is wrong is named with its place.
#include "instants.h"

#include <linchpin/dynamics.h>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

namespace linchpin::test::instant_io_test {
namespace {

const std::string example = R"({ "schema": 1, "t": 0.5,
  "mass_blocks": [ [[2.0]], [[1.0, 0.1], [0.1, 3.0]] ],
  "Q": [0.0, -9.81, 0.5], "c": [0.0, 1.0, 0.0],
  "rows": [ { "constraint": "rod", "entries": [[0, 1.0], [2, -0.5]], "b": 0.25 } ] })";

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const auto at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), by);
}

void expect_same(const ConstrainedProblem& x, const ConstrainedProblem& y) {
  EXPECT_EQ(x.t, y.t);
  EXPECT_EQ(x.block_sizes, y.block_sizes);
  EXPECT_EQ(x.mass, y.mass);
  EXPECT_EQ(x.Q, y.Q);
  EXPECT_EQ(x.c, y.c);
  EXPECT_EQ(x.row_start, y.row_start);
  EXPECT_EQ(x.b, y.b);
  EXPECT_EQ(x.row_constraint, y.row_constraint);
  EXPECT_EQ(x.constraints, y.constraints);
  ASSERT_EQ(x.entries.size(), y.entries.size());
  for (std::size_t i = 0; i < x.entries.size(); ++i) {
    EXPECT_EQ(x.entries[i].column, y.entries[i].column);
    EXPECT_EQ(x.entries[i].value, y.entries[i].value);
  }
}

void expect_refused(const std::string& text, const std::string& says) {
  try {
    (void)read_json(text);
    ADD_FAILURE() << "accepted, should say: " << says;
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find(says), std::string::npos) << error.what() << "\nexpected: " << says;
  }
}

TEST(InstantFile, ReadsTheExample) {
  const ConstrainedProblem x = read_json(example);
  EXPECT_EQ(x.t, 0.5);
  EXPECT_EQ(x.block_sizes, (std::vector<int>{1, 2}));
  EXPECT_EQ(x.mass, (std::vector<double>{2, 1, 0.1, 0.1, 3}));
  EXPECT_EQ(x.row_start, (std::vector<int>{0, 2}));
  EXPECT_EQ(x.entries[1].column, 2);
  EXPECT_EQ(x.constraints, (std::vector<std::string>{"rod"}));
  EXPECT_EQ(x.invalid(), "");
}

TEST(InstantFile, RoundTripIsExact) {
  for (const auto seed : seeds(30)) {
    SCOPED_TRACE(repeat_with(seed));
    Random random(seed);
    const ConstrainedProblem x = random_instant(random);
    expect_same(read_json(write_json(x)), x);
  }
  ConstrainedProblem odd = read_json(example);
  odd.t = std::numeric_limits<double>::denorm_min();
  odd.Q = {-0.0, std::numeric_limits<double>::max(), 0.1 + 0.2};
  odd.c = {5e-324, 1e22, 123456789012345678.0};
  odd.constraints = {"Gelenk \"ä\" \\ \n 3"};
  const ConstrainedProblem back = read_json(write_json(odd));
  expect_same(back, odd);
  EXPECT_TRUE(std::signbit(back.Q[0]));
}

TEST(InstantFile, OptionalKeysAndOrder) {
  ConstrainedProblem x = read_json(replaced(example, R"(, "c": [0.0, 1.0, 0.0])", ""));
  EXPECT_EQ(x.c, (std::vector<double>{0, 0, 0}));
  EXPECT_EQ(read_json(replaced(example, R"( "t": 0.5,)", "")).t, 0);
  x = read_json(replaced(example, "[[0, 1.0], [2, -0.5]]", "[[2, -0.5], [0, 1]]"));
  EXPECT_EQ(x.entries[0].column, 0);  // ascending, whatever the file's order
  EXPECT_EQ(x.entries[0].value, 1);
  EXPECT_EQ(read_json(R"({"schema":1,"mass_blocks":[],"Q":[],"rows":[]})").n(), 0);
}

TEST(InstantFile, RowsOfOneConstraintShareItsName) {
  const ConstrainedProblem x = read_json(R"({"schema": 1, "mass_blocks": [[[1]]], "Q": [0], "rows": [
    {"constraint": "a", "entries": [[0, 1]], "b": 0},
    {"constraint": "b", "entries": [], "b": 0},
    {"constraint": "a", "entries": [[0, 2]], "b": 0}]})");
  EXPECT_EQ(x.constraints, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(x.row_constraint, (std::vector<int>{0, 1, 0}));
  EXPECT_EQ(solve(x).redundant, (std::vector<std::string>{"a", "b"}));
}

// Not JSON, but what failing programs write: a fault of the data that solve names, not one of the file.
TEST(InstantFile, NumbersThatAreNotFiniteAreLeftToSolve) {
  for (const char* word : {"NaN", "nan", "Infinity", "-Infinity", "null", "1e999", "-1e999"}) {
    SCOPED_TRACE(word);
    const ConstrainedProblem x = read_json(replaced(example, "-9.81", word));
    EXPECT_FALSE(std::isfinite(x.Q[1]));
    EXPECT_EQ(solve(x).status, Status::invalid);
    EXPECT_NE(solve(x).reason.find("Q[1]"), std::string::npos) << solve(x).reason;
  }
  ConstrainedProblem x = read_json(example);
  x.b[0] = std::nan("");
  EXPECT_TRUE(std::isnan(read_json(write_json(x)).b[0]));
  EXPECT_EQ(read_json(replaced(example, "rod", "NaN -Infinity 1e999")).constraints[0], "NaN -Infinity 1e999");
}

TEST(InstantFile, ParseErrorsNameLineAndColumn) {
  expect_refused("", "line 1, column 1: the file is empty");
  expect_refused(" \n ", "the file is empty");
  expect_refused(replaced(example, "-9.81,", "-9.81,,"), "line 3, column 20");
  expect_refused("{\n  \"schema\": 1,\n  oops }", "line 3, column 3");
  expect_refused(example.substr(0, example.size() - 3), "line 4, column");
  expect_refused(example + " x", "line 4");
  expect_refused("\xff\xfe{}", "line 1, column 1");
}

TEST(InstantFile, ShapeErrorsNameKeyAndIndex) {
  expect_refused("[]", "the file: expected an object, found array");
  expect_refused(replaced(example, R"("schema": 1)", R"("schema": 2)"), "schema: the file has schema 2");
  expect_refused(replaced(example, R"("schema": 1, )", ""), "schema: missing");
  expect_refused(replaced(example, R"("Q")", R"("q")"), "q: unknown key; did you mean \"Q\"?");
  expect_refused(replaced(example, "mass_blocks", "mass_block"),
                 "mass_block: unknown key; did you mean \"mass_blocks\"?");
  expect_refused(replaced(example, R"("b": 0.25)", R"("B": 0.25)"), "rows[0].B: unknown key; did you mean \"b\"?");
  expect_refused(replaced(example, R"(, "b": 0.25)", ""), "rows[0].b: missing");
  expect_refused(replaced(example, R"("b": 0.25)", R"("b": "0.25")"), "rows[0].b: expected a number, found string");
  expect_refused(replaced(example, R"("b": 0.25)", R"("b": 1, "b": 2)"), "\"b\" appears twice");
  expect_refused(replaced(example, "[0.1, 3.0]", "[0.1]"), "mass_blocks[1][1]: has 1 numbers in a block of 2 rows");
  expect_refused(replaced(example, "[[2.0]]", "[]"), "mass_blocks[0]");
  expect_refused(replaced(example, "[[2.0]]", "2.0"), "mass_blocks[0]: expected an array, found number");
  expect_refused(replaced(example, "[0.0, -9.81, 0.5]", "[0.0, -9.81]"),
                 "Q: has 2 numbers; the mass blocks have 3 rows");
  expect_refused(replaced(example, "[0.0, 1.0, 0.0]", "[0.0]"), "c: has 1 numbers");
  expect_refused(replaced(example, "[0.0, -9.81, 0.5]", "[0.0, true, 0.5]"), "Q[1]: expected a number, found boolean");
  expect_refused(replaced(example, "[2, -0.5]", "[3, -0.5]"), "rows[0].entries[1][0]: column 3");
  expect_refused(replaced(example, "[2, -0.5]", "[-1, -0.5]"), "rows[0].entries[1][0]: column -1");
  expect_refused(replaced(example, "[2, -0.5]", "[99999999999, -0.5]"), "rows[0].entries[1][0]");
  expect_refused(replaced(example, "[2, -0.5]", "[1.5, -0.5]"), "rows[0].entries[1][0]: expected a column, found 1.5");
  expect_refused(replaced(example, "[2, -0.5]", "[2]"), "rows[0].entries[1]: expected [column, value]");
  expect_refused(replaced(example, "[2, -0.5]", "[0, -0.5]"), "rows[0].entries: column 0 appears twice");
  expect_refused(replaced(example, "\"rod\"", "7"), "rows[0].constraint: expected a name, found number");
  expect_refused(replaced(example, "\"rod\"", "\"\""), "rows[0].constraint");
}

// A file of nothing but brackets must not exhaust the stack.
TEST(InstantFile, DeepNestingIsRefused) {
  EXPECT_THROW((void)read_json(std::string(200000, '[')), std::invalid_argument);
}

}  // namespace
}  // namespace linchpin::test::instant_io_test
