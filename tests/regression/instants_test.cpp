// Saved problems that once went wrong, or would. A pair of files in instants/ is a test: `name.json` as `write_json`
// left it, `name.expected.json` with why it is there and what is known of the answer.
#include "instants.h"
#include "tolerances.h"

#include <linchpin/dynamics.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace linchpin::test::instants_test {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<fs::path> problems() {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(fs::path(LINCHPIN_SOURCE_DIR) / "tests/regression/instants")) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".json") && !name.ends_with(".expected.json")) found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

TEST(SavedInstants, StayRight) {
  using Names = std::vector<std::string>;
  ASSERT_GE(problems().size(), 4u);
  for (const fs::path& path : problems()) {
    SCOPED_TRACE(path.string());
    const ConstrainedProblem x = read_json(text_of(path));
    const auto expected = nlohmann::json::parse(text_of(fs::path(path).replace_extension(".expected.json")));
    const Acceleration y = solve(x);
    EXPECT_EQ(to_string(y.status), expected.at("status").get<std::string>()) << y.reason;
    EXPECT_EQ(y.rank, expected.at("rank").get<int>());
    EXPECT_LE(error(y.vdot, vector(expected.at("vdot").get<std::vector<double>>())),
              scaled(expected.at("tolerance").get<double>()));
    EXPECT_EQ(y.undetermined, expected.at("undetermined").get<Names>());
    EXPECT_EQ(y.contradictory, expected.at("contradictory").get<Names>());

    // What the answer says of itself, recomputed from the data.
    const Eigen::VectorXd Q = vector(x.Q), c = vector(x.c);
    EXPECT_NEAR(y.residual, norm_inf(constraint_matrix(x) * y.vdot - vector(x.b)), tol_rounding(norm_inf(vector(x.b))));
    const Eigen::VectorXd left = mass_matrix(x) * y.vdot - Q - y.ideal - y.nonideal;
    EXPECT_LE(norm_inf(left), tol_rounding(norm_inf(Q) + norm_inf(y.ideal) + norm_inf(y.nonideal) + norm_inf(c)));
  }
}

}  // namespace
}  // namespace linchpin::test::instants_test
