// Sources of a batch are compiled as one (linchpin_batches in cmake/LinchpinTargets.cmake). There the unnamed
// namespaces of two sources are one. Two private functions of the same name are then overloads, and a call may find the
// wrong one without an error. The test reads the sources of each target with batches, and fails for such a name.
//
// A line that opens or closes a namespace begins in the first column, as clang-format writes it. So does the definition
// of a function or a type of a namespace.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <istream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace {

namespace fs = std::filesystem;
using Strings = std::set<std::string>;

/// Names that two sources of a target have today. Their overloads take arguments of different types. Do not add one.
const Strings known = {"linchpin::finite",
                       "linchpin::number",
                       "linchpin::require_finite",
                       "linchpin::require_nonnegative",
                       "linchpin::bench::chain",
                       "linchpin::cli::has",
                       "linchpin::cli::number",
                       "linchpin::cli::print",
                       "linchpin::cli::read",
                       "linchpin::cli::refuse",
                       "linchpin::cli::shown",
                       "linchpin::cli::three",
                       "linchpin::recording::column",
                       "linchpin::recording::number",
                       "linchpin::scene::Reader",
                       "linchpin::scene::kind_of",
                       "linchpin::worker::six"};

/// Returns the functions and types that a source defines in unnamed namespaces, each with the namespaces around it.
Strings private_names(std::istream& source) {
  static const std::regex opens(R"(^(?:inline )?namespace( [\w:]+)? \{$)"), closes(R"(^\}  // namespace.*)"),
      function(
          R"(^(?!return |else |using |typedef |static_assert|friend )(?:[\w:<>,&*\[\]]+ +)*[\w:<>,&*\[\]]+[ &*]+(\w+)\(.*)"),
      type(R"(^(?:template <.*> )?(?:struct|enum class|class|enum|union) (\w+)[^;]*\{.*)");
  Strings found;
  std::vector<std::string> around;
  for (std::string line; std::getline(source, line);) {
    std::smatch match;
    if (std::regex_match(line, match, opens)) {
      around.push_back(match[1].str());
    } else if (std::regex_match(line, closes)) {
      if (!around.empty()) around.pop_back();
    } else if (!around.empty() && around.back().empty() &&
               (std::regex_match(line, match, type) ||
                (!line.ends_with(';') && std::regex_match(line, match, function)))) {
      std::string name;
      for (const std::string& each : around)
        if (!each.empty()) name += each.substr(1) + "::";
      found.insert(name + match[1].str());
    }
  }
  return found;
}

/// Returns the names that more than one of the sources defines, with these sources.
std::map<std::string, Strings> shared_names(const std::vector<fs::path>& sources) {
  std::map<std::string, Strings> by_name;
  for (const fs::path& path : sources) {
    std::ifstream source(path);
    for (const std::string& name : private_names(source)) by_name[name].insert(path.filename().string());
  }
  std::erase_if(by_name, [](const auto& each) { return each.second.size() < 2 || known.contains(each.first); });
  return by_name;
}

/// Reads the list that CMake has written: the folder of the target, and its sources.
std::vector<fs::path> sources_of(const fs::path& list) {
  std::ifstream file(list);
  std::string folder;
  std::getline(file, folder);
  std::vector<fs::path> sources;
  for (std::string line; std::getline(file, line);)
    if (line.ends_with(".cpp")) sources.push_back(fs::path(folder) / line);
  return sources;
}

TEST(PrivateNames, AreDifferentInTheSourcesOfABatch) {
  if (!fs::exists(LINCHPIN_BATCHES_DIR)) GTEST_SKIP() << "built without batches (LINCHPIN_BATCHES)";
  std::size_t count = 0;
  for (const auto& list : fs::directory_iterator(LINCHPIN_BATCHES_DIR)) {
    const std::vector<fs::path> sources = sources_of(list.path());
    count += sources.size();
    for (const auto& [name, files] : shared_names(sources)) {
      std::string all;
      for (const std::string& file : files) all += (all.empty() ? "" : ", ") + file;
      ADD_FAILURE() << list.path().stem().string() << ": " << all << " define the private name " << name
                    << ". Sources of a batch are compiled as one. Rename all but one of them, or let them share it";
    }
  }
  EXPECT_GT(count, 50u) << "the lists of sources are not read";
}

TEST(PrivateNames, AreFoundInASource) {
  std::istringstream source(R"(namespace linchpin {
namespace {
struct Part {
enum class Kind { one, two };
template <class T> struct Box {
class Declared;
int declared(int x);
int twice(int x) { return 2 * x; }
const std::vector<int>& all_of(const Part& part) {
  int local(int x) {
template <class T>
T* first(T* from) {
constexpr double limit(double x) {
Part::Part(int x) {
}  // namespace
int visible(int x) {
}  // namespace linchpin
)");
  Strings names;
  for (const std::string& name : private_names(source)) names.insert(name.substr(name.rfind(':') + 1));
  EXPECT_EQ(names, (Strings{"Part", "Kind", "Box", "twice", "all_of", "first", "limit"}));
}

}  // namespace
