// The table of adapters/README.md says what a host can do, as its fixture declares it.
#include "host_world.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

namespace linchpin::test::declared_features_test {

namespace {

constexpr std::size_t columns = 5;  ///< of the table

/// The row of the table for a feature.
const char* row_of(Feature feature) {
  switch (feature) {
    case Feature::kinematic_bodies:
      return "kinematic bodies, which the program moves";
    case Feature::joint_motors:
      return "motors of such joints";
    case Feature::joint_breaking:
      return "joint breaking thresholds";
    case Feature::steps_by_stages:
      return "steps by stages (`rk4`, `adaptive`)";
    case Feature::separate_islands:
      return "a constraint that fails leaves only its own island to the host";
    case Feature::long_steps_to_host:
      return "the host solves a step that is too long for substeps";
    case Feature::passive_mode:
      return "`Mode::passive`";
    case Feature::threads:
      return "islands on several threads, with the same bits";
    case Feature::joint_limits:
      return "limits of joints";
    case Feature::joint_springs:
      return "springs of joints";
    case Feature::sleeping:
      return "sleeping";
    case Feature::swept_contacts:
      return "bodies that the host stops within a step (CCD)";
    case Feature::native_fallback:
      return "the host solves a user's constraint in a step that is left to it";
    case Feature::native_comparison:
      return "the native solver beside it in the same run";
    case Feature::articulated_bodies:
      return "articulated bodies of the host";
    case Feature::debug_draw:
      return "reactions are drawn";
  }
  return "";
}

/// Cells of a row of a Markdown table, without the blanks around them; none for other lines.
std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  if (line.empty() || line[0] != '|') return cells;
  for (std::size_t at = 1, end = 0; (end = line.find('|', at)) != std::string::npos; at = end + 1) {
    const std::size_t first = std::min(line.find_first_not_of(' ', at), end),
                      last = line.find_last_not_of(' ', end - 1);
    cells.push_back(last < first ? "" : line.substr(first, last + 1 - first));
  }
  return cells;
}

std::vector<std::vector<std::string>> read_table() {
  std::ifstream file(LINCHPIN_SOURCE_DIR "/adapters/README.md");
  std::vector<std::vector<std::string>> rows;
  for (std::string line; std::getline(file, line);)
    if (auto cells = cells_of(line); cells.size() == columns) rows.push_back(std::move(cells));
  return rows;
}

bool is_no(const std::string& cell) { return cell == "no" || cell.starts_with("no:") || cell.starts_with("no "); }

TEST(DeclaredFeatures, AreThoseOfTheTableOfAdapters) {
  const auto table = read_table();
  const auto row = [&](const std::string& name) {
    const auto at = std::find_if(table.begin(), table.end(), [&](const auto& cells) { return cells[0] == name; });
    EXPECT_NE(at, table.end()) << "adapters/README.md has no row '" << name << "'";
    return at == table.end() ? std::vector<std::string>(columns) : *at;
  };
  const std::unique_ptr<HostWorld> world = make_host_world();
  const auto components = row("component");
  const auto of_host =
      std::find(components.begin(), components.end(), "`linchpin::" + std::string(world->name()) + "`");
  ASSERT_NE(of_host, components.end()) << "adapters/README.md has no column for " << world->name();
  for (const Feature feature : all_features) {
    const auto cells = row(row_of(feature));
    auto column = static_cast<std::size_t>(of_host - components.begin());
    while (column > 1 && cells[column] == "the same") --column;
    const std::string& cell = cells[column];
    EXPECT_EQ(is_no(cell), !world->has(feature)) << row_of(feature) << ": '" << cell << "'";
  }
}

}  // namespace

}  // namespace linchpin::test::declared_features_test
