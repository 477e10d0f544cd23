// A library file that names std::x includes the header of x, itself or by a header of the project. Builds with
// LINCHPIN_BATCHES read common standard headers before each file, and would not notice that one is missing.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;
using Strings = std::set<std::string>;

// Header -> names of std that it has. Names of several headers stand with each of them.
const std::map<std::string, std::string> names_of_headers = {
    {"algorithm",
     "all_of any_of binary_search clamp copy copy_n count count_if equal fill fill_n find find_if find_if_not "
     "for_each is_sorted lexicographical_compare lower_bound max max_element min min_element minmax mismatch none_of "
     "nth_element partition remove remove_if replace reverse rotate set_difference set_intersection set_union sort "
     "stable_partition stable_sort swap_ranges transform unique upper_bound"},
    {"array", "array"},
    {"atomic", "atomic memory_order_relaxed memory_order_acquire memory_order_release"},
    {"bit", "bit_cast popcount"},
    {"charconv", "from_chars to_chars"},
    {"chrono", "chrono"},
    {"cmath",
     "abs acos asin atan atan2 cbrt ceil copysign cos exp fabs floor fma fmod frexp hypot isfinite isinf isnan "
     "ldexp log log10 lround nearbyint nextafter pow round signbit sin sqrt tan trunc"},
    {"condition_variable", "condition_variable"},
    {"cstdio", "snprintf fprintf printf fputs FILE fopen fclose"},
    {"cstdlib", "abs exit getenv strtod strtol"},
    {"cstring", "memcpy memset memcmp strlen strcmp"},
    {"deque", "deque"},
    {"exception", "exception exception_ptr current_exception rethrow_exception uncaught_exceptions terminate"},
    {"fstream", "ifstream ofstream fstream"},
    {"functional", "function invoke reference_wrapper ref cref plus minus less greater hash"},
    {"initializer_list", "initializer_list"},
    {"iosfwd", "ostream"},
    {"iomanip", "setprecision setw setfill"},
    {"iostream", "cout cerr cin"},
    {"iterator", "back_inserter inserter advance distance next prev"},
    {"limits", "numeric_limits"},
    {"list", "list"},
    {"map", "map multimap"},
    {"memory", "unique_ptr shared_ptr weak_ptr make_unique make_shared allocator"},
    {"mutex", "mutex lock_guard unique_lock scoped_lock once_flag call_once"},
    {"numbers", "numbers"},
    {"numeric", "accumulate inner_product iota partial_sum"},
    {"optional", "optional nullopt"},
    {"ostream", "ostream endl flush"},
    {"queue", "queue priority_queue"},
    {"random", "mt19937 mt19937_64 uniform_real_distribution normal_distribution uniform_int_distribution"},
    {"set", "set multiset"},
    {"source_location", "source_location"},
    {"span", "span"},
    {"sstream", "ostringstream istringstream stringstream"},
    {"stdexcept", "invalid_argument runtime_error logic_error out_of_range domain_error"},
    {"string", "string to_string stod stoi getline"},
    {"string_view", "string_view"},
    {"thread", "thread this_thread"},
    {"tuple", "tuple tie make_tuple"},
    {"type_traits",
     "is_same_v is_base_of_v is_convertible_v enable_if_t conditional_t decay_t remove_cvref_t "
     "is_invocable_v is_invocable_r_v is_arithmetic_v is_trivially_copyable_v"},
    {"typeinfo", "type_info bad_cast"},
    {"unordered_map", "unordered_map unordered_multimap"},
    {"unordered_set", "unordered_set"},
    {"utility", "exchange forward in_place pair swap as_const index_sequence make_index_sequence make_pair"},
    {"variant", "variant visit monostate holds_alternative get_if"},
    {"vector", "vector"},
};

// What a standard header is known to bring with it.
const std::map<std::string, Strings> brought = {
    {"stdexcept", {"exception"}},
    {"map", {"utility"}},
    {"unordered_map", {"utility"}},
    {"algorithm", {"utility"}},
    {"memory", {"utility"}},
    {"vector", {"initializer_list"}},
    {"string", {"initializer_list", "string_view"}},
    {"sstream", {"ostream", "string"}},
    {"iostream", {"ostream"}},
    {"fstream", {"ostream"}},
    {"functional", {"utility"}},
    {"optional", {"utility"}},
    {"tuple", {"utility"}},
};

std::string text_of(const fs::path& file) {
  std::ifstream in(file);
  std::stringstream all;
  all << in.rdbuf();
  return all.str();
}

/// The text without comments and string literals.
std::string code_of(const std::string& text) {
  static const std::regex nothing(R"(//[^\n]*|/\*[\s\S]*?\*/|"(?:[^"\\\n]|\\.)*")");
  std::string out;
  for (std::size_t at = 0; at < text.size();) {  // line by line: a regex over a long text overflows the stack
    std::size_t end = text.find('\n', at);
    if (end == std::string::npos) end = text.size();
    const std::string line = text.substr(at, end - at);
    out += line.find("#include") == std::string::npos ? std::regex_replace(line, nothing, "") : line;
    out += '\n';
    at = end + 1;
  }
  return out;
}

class Headers {
 public:
  explicit Headers(fs::path root) : root_(std::move(root)) {}

  /// All standard headers that a file includes, by headers of the project too.
  const Strings& of(const fs::path& file) {
    const std::string key = file.lexically_normal().generic_string();
    if (const auto known = known_.find(key); known != known_.end()) return known->second;
    known_[key] = {};  // includes in a ring end here
    Strings found;
    static const std::regex include(R"(^\s*#\s*include\s*[<"]([^>"]+)[>"])");
    std::istringstream lines(text_of(file));
    for (std::string line; std::getline(lines, line);) {
      std::smatch m;
      if (!std::regex_search(line, m, include)) continue;
      if (const fs::path own = find(file, m[1]); !own.empty()) {
        const Strings& inner = of(own);
        found.insert(inner.begin(), inner.end());
      } else {
        found.insert(m[1]);
        if (const auto more = brought.find(m[1]); more != brought.end())
          found.insert(more->second.begin(), more->second.end());
      }
    }
    return known_[key] = found;
  }

 private:
  fs::path find(const fs::path& from, const std::string& name) const {
    std::vector<fs::path> places{from.parent_path()};
    for (const char* home : {"plugin", "adapters/bullet", "adapters/minimal", "tools/scene", "tools/recording"})
      for (const char* folder : {"include", "src", "."}) places.push_back(root_ / home / folder);
    for (const fs::path& place : places)
      if (fs::is_regular_file(place / name)) return place / name;
    return {};
  }

  fs::path root_;
  std::map<std::string, Strings> known_;
};

Strings missing_headers(Headers& headers, const fs::path& file) {
  std::map<std::string, Strings> headers_of;  // by name of std
  for (const auto& [header, names] : names_of_headers) {
    std::istringstream words(names);
    for (std::string name; words >> name;) headers_of[name].insert(header);
  }
  const Strings& has = headers.of(file);
  const std::string code = code_of(text_of(file));
  static const std::regex use(R"(\bstd::(\w+))");
  Strings missing;
  for (auto m = std::sregex_iterator(code.begin(), code.end(), use); m != std::sregex_iterator(); ++m) {
    const auto of = headers_of.find((*m)[1]);
    if (of == headers_of.end()) continue;
    bool there = false;
    for (const std::string& header : of->second) there = there || has.count(header) > 0;
    if (!there) missing.insert("<" + *of->second.begin() + "> for std::" + of->first);
  }
  return missing;
}

TEST(StandardHeaders, AreIncludedByTheLibraryFilesThatUseThem) {
  const fs::path root = LINCHPIN_SOURCE_DIR;
  Headers headers(root);
  for (const char* folder :
       {"plugin/include", "plugin/src", "adapters/bullet/include", "adapters/bullet/src", "adapters/minimal/include",
        "adapters/minimal/src", "tools/scene/include", "tools/scene/src", "tools/recording/include"})
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      if (entry.path().extension() != ".h" && entry.path().extension() != ".cpp") continue;
      for (const std::string& what : missing_headers(headers, entry.path()))
        ADD_FAILURE() << fs::relative(entry.path(), root).generic_string() << ": include " << what;
    }
}

TEST(StandardHeaders, AMissingOneIsFound) {
  const fs::path file = fs::path(testing::TempDir()) / "standard_headers_test.h";
  std::ofstream(file) << "#include <vector>\n// std::map\nstd::vector<double> a;\nconst char* b = \"std::set\";\n"
                         "std::optional<int> c;\n";
  Headers headers(LINCHPIN_SOURCE_DIR);
  EXPECT_EQ(missing_headers(headers, file), Strings{"<optional> for std::optional"});
  fs::remove(file);
}

}  // namespace
