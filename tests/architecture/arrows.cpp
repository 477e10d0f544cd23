// Reads every include line of the project and fails on an arrow that the design does not have.
//
//   std, Eigen <- plugin <- tools/scene <- tools, demos, benchmarks          nothing but tests -> tests
//   host SDK   <- adapters/<host> (sees the core, no other adapter, no scenes)
//   inside the core, by the folders of plugin/src:
//     math <- model <- problem <- force_laws <- dynamics <- projection <- integrators
//                      problem <- joint_kernel
//     integrators, joint_kernel <- host <- articulated
//
// A file may also include what lies below the head of an arrow, because files include what they use. A public header
// belongs to the folder of its own name, to the folder that holds the source of the same name, or to `model`.
// A new folder of the core is a line in `core_folders`, a new area a line in `areas`: both are meant to be noticed.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <random>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;
using Strings = std::set<std::string>;

// Folder of plugin/src -> the folders it may include.
const std::map<std::string, Strings> core_folders = {
    {"math", {}},
    {"model", {"math"}},
    {"problem", {"model", "math"}},
    {"force_laws", {"problem", "model", "math"}},
    {"dynamics", {"force_laws", "problem", "model", "math"}},
    {"projection", {"dynamics", "force_laws", "problem", "model", "math"}},
    {"integrators", {"projection", "dynamics", "force_laws", "problem", "model", "math"}},
    {"joint_kernel", {"problem", "model", "math"}},
    {"host", {"joint_kernel", "integrators", "projection", "dynamics", "force_laws", "problem", "model", "math"}},
    {"articulated",
     {"host", "joint_kernel", "integrators", "projection", "dynamics", "force_laws", "problem", "model", "math"}},
};

// Longest prefix wins. What may be included from outside the area itself, by the kinds that `classify` knows.
struct Area {
  std::string prefix;
  Strings may;
};
const std::vector<Area> areas = {
    {"plugin/", {"std", "Eigen", "core"}},
    {"plugin/src/problem/problem_json.cpp", {"std", "Eigen", "core", "nlohmann"}},
    {"adapters/bullet/", {"std", "Eigen", "core", "Bullet"}},
    {"adapters/mujoco/", {"std", "Eigen", "core", "MuJoCo"}},
    {"adapters/minimal/", {"std", "Eigen", "core", "toy engine"}},
    {"adapters/minimal/engine/", {"std", "Eigen"}},
    {"tools/scene/", {"std", "Eigen", "core", "nlohmann", "toml++", "tinyxml2", "yaml-cpp"}},
    {"tools/scene/src/sdf.cpp", {"std", "system"}},
    {"tools/scene/sdf_module.cpp", {"std", "tinyxml2", "sdformat"}},
    // What a run leaves behind. One header of it is compiled with a Bullet program, in that program's precision, and
    // one with a program that simulates a scene.
    {"tools/recording/", {"std", "system", "Eigen", "core", "nlohmann"}},
    {"tools/recording/include/linchpin/recording.h", {"std", "core"}},
    {"tools/recording/include/linchpin/bullet_recorder.h", {"std", "core", "adapter/bullet"}},
    {"tools/recording/include/linchpin/scene_recorder.h", {"std", "core", "scene"}},
    // Scenes as worlds of Bullet.
    {"tools/bullet_scene/", {"std", "Eigen", "core", "scene", "adapter/bullet", "Bullet"}},
    {"tools/linchpin/", {"std", "system", "Eigen", "core", "scene", "recording", "nlohmann", "CLI11"}},
    {"tools/linchpin/mpi_module.cpp", {"std", "MPI"}},
    // The parts that all worker programs share, and the worker of MuJoCo.
    {"tools/linchpin/worker_common/", {"std", "system", "core", "scene", "recording", "nlohmann", "bullet scene"}},
    {"tools/linchpin/mujoco_worker/",
     {"std", "system", "Eigen", "core", "scene", "recording", "nlohmann", "adapter/mujoco", "MuJoCo", "bullet scene"}},
    {"tools/linchpin/worker/",
     {"std", "system", "Eigen", "core", "scene", "recording", "nlohmann", "adapter/bullet", "Bullet", "bullet scene"}},
    {"demos/papers/", {"std", "Eigen", "core", "scene"}},
    {"demos/", {"std", "Eigen", "core", "scene", "recording", "adapter/bullet", "Bullet", "bullet scene"}},
    {"benchmarks/", {"std", "Eigen", "core", "scene", "adapter/bullet", "Bullet", "nlohmann", "programs"}},
    {"benchmarks/mujoco/", {"std", "core", "adapter/mujoco", "MuJoCo", "nlohmann"}},
    // The codes that linchpin is held beside.
    {"benchmarks/others/", {"std", "Eigen", "core", "scene", "Simbody", "MuJoCo", "ODE"}},
    // Tests may include anything; their lines are still read, so that a stray file is noticed.
    {"tests/", {"*"}},
};

bool starts_with(const std::string& text, const std::string& prefix) { return text.rfind(prefix, 0) == 0; }

const Area* area_of(const std::string& file) {
  const Area* best = nullptr;
  for (const Area& area : areas)
    if (starts_with(file, area.prefix) && (!best || area.prefix.size() > best->prefix.size())) best = &area;
  return best;
}

// The folder whose private files a file may include by name.
std::string home_of(const std::string& file) {
  for (const char* home :
       {"plugin/", "adapters/bullet/", "adapters/mujoco/", "adapters/minimal/", "tools/scene/", "tools/recording/",
        "tools/bullet_scene/", "tools/linchpin/", "demos/", "benchmarks/", "tests/"})
    if (starts_with(file, home)) return home;
  return "";
}

// Where an included name leads: a kind, or a path in the repository, or nothing that is known.
struct Target {
  std::string kind;
  std::string path;
};

Target classify(const std::string& root, const std::string& file, const std::string& name) {
  // Beside the including file, or in a folder that the build gives to it.
  std::vector<fs::path> places = {fs::path(file).parent_path()};
  const std::string home = home_of(file);
  if (!home.empty()) {
    places.push_back(home);
    places.push_back(home + "src");
  }
  for (const fs::path& place : places) {
    const fs::path candidate = (place / name).lexically_normal();
    if (fs::is_regular_file(fs::path(root) / candidate)) return {"file", candidate.generic_string()};
  }

  if (starts_with(name, "linchpin/")) {
    if (name == "linchpin/bullet.h") return {"adapter/bullet", ""};
    if (name == "linchpin/mujoco.h") return {"adapter/mujoco", ""};
    if (name == "linchpin/minimal.h") return {"adapter/minimal", ""};
    // The first is of any host, the second of Bullet's as well: whoever includes it sees Bullet.
    if (name == "linchpin/recording.h") return {"recording", ""};
    if (name == "linchpin/bullet_recorder.h" || name == "linchpin/scene_recorder.h") return {"recording", ""};
    if (name == "linchpin/bullet_simulation.h") return {"bullet scene", ""};
    if (name == "linchpin/scene.h" || starts_with(name, "linchpin/scene/")) return {"scene", ""};
    return {"core", name.substr(std::string("linchpin/").size())};
  }
  if (starts_with(name, "recording/")) return {"recording", ""};
  if (starts_with(name, "bullet_scene/")) return {"bullet scene", ""};
  if (name == "toy.h") return {"toy engine", ""};
  // The programs of demos/ are a library: benchmarks and tests use what demos show.
  if (starts_with(name, "programs/")) return {"programs", ""};
  static const std::vector<std::pair<std::regex, std::string>> kinds = {
      {std::regex("Eigen/.*"), "Eigen"},
      {std::regex("nlohmann/.*"), "nlohmann"},
      {std::regex("CLI/.*"), "CLI11"},
      {std::regex("toml\\+\\+/.*"), "toml++"},
      {std::regex("tinyxml2\\.h"), "tinyxml2"},
      {std::regex("yaml-cpp/.*"), "yaml-cpp"},
      {std::regex("sdf/.*"), "sdformat"},
      {std::regex("mpi\\.h"), "MPI"},
      {std::regex("Simbody\\.h"), "Simbody"},
      {std::regex("mujoco/mujoco\\.h"), "MuJoCo"},
      {std::regex("ode/ode\\.h"), "ODE"},
      {std::regex("gtest/.*|gmock/.*"), "GoogleTest"},
      {std::regex("benchmark/.*"), "benchmark"},
      {std::regex("(LinearMath|Bullet[A-Za-z0-9]*)/.*|bt[A-Z].*\\.h"), "Bullet"},
      {std::regex("[a-z_]+|cxxabi\\.h"), "std"},  // the latter asked for by __has_include
      {std::regex("(unistd|fcntl|poll|signal|spawn|dirent|dlfcn|sys/[a-z]+)\\.h"), "system"},
  };
  for (const auto& [pattern, kind] : kinds)
    if (std::regex_match(name, pattern)) return {kind, ""};
  return {"", ""};
}

// The folder of the core that a file belongs to ("dynamics"), or "" where that is none that is declared.
std::string core_folder(const std::string& root, const std::string& file) {
  std::string folder;
  if (starts_with(file, "plugin/src/")) {
    folder = fs::path(file.substr(std::string("plugin/src/").size())).begin()->string();
    return core_folders.count(folder) ? folder : "";
  }
  const std::string stem = fs::path(file).stem().string(), source = stem + ".cpp";
  if (core_folders.count(stem)) return stem;
  for (const auto& [name, below] : core_folders)
    if (fs::is_regular_file(fs::path(root) / "plugin/src" / name / source)) return name;
  return "model";
}

std::optional<std::string> check_core_arrow(const std::string& root, const std::string& file,
                                            const std::string& included) {
  if (included == "plugin/include/linchpin/export.h") return std::nullopt;  // Only macros: any folder may include it.
  const std::string from = core_folder(root, file), to = core_folder(root, included);
  if (from.empty()) return "lies in no folder of the core; declare it in tests/architecture/arrows.cpp";
  if (to.empty()) return "includes " + included + ", which lies in no folder of the core";
  if (from == to || core_folders.at(from).count(to)) return std::nullopt;
  return from + " must not include " + to;
}

// What is wrong with `line` standing in `file` (a path from the root), if anything.
std::optional<std::string> check_line(const std::string& root, const std::string& file, const std::string& line) {
  const Area* area = area_of(file);
  if (!area) return "lies in no area; declare it in tests/architecture/arrows.cpp";

  static const std::regex host_name("\\b(bt[A-Z][A-Za-z0-9]+|BT_[A-Z_]+|Bullet|toy)\\b");
  std::smatch match;
  if (starts_with(file, "plugin/") && std::regex_search(line, match, host_name))
    return "the core names a host: " + match.str();

  static const std::regex directive("^\\s*#\\s*include\\b(.*)");
  if (!std::regex_match(line, match, directive)) return std::nullopt;
  const std::string rest = match[1];
  static const std::regex named("\\s*[<\"]([^>\"]+)[>\"].*");
  if (!std::regex_match(rest, match, named)) return "an include that cannot be read";
  const std::string name = match[1];
  if (area->may.count("*")) return std::nullopt;

  const Target target = classify(root, file, name);
  if (target.kind.empty()) return "includes <" + name + ">, which is neither ours nor a library we know";
  if (target.kind == "file") {
    if (starts_with(target.path, "tests/")) return "includes the test file " + target.path;
    if (home_of(target.path) != home_of(file)) return "reaches into " + target.path;
    // Within a home, what the smaller area may not include it may not borrow either.
    for (const std::string& kind : area_of(target.path)->may)
      if (!area->may.count(kind) && area_of(target.path)->prefix.size() > area->prefix.size())
        return "includes " + target.path + ", which may see more than it";
    if (starts_with(file, "plugin/")) return check_core_arrow(root, file, target.path);
    return std::nullopt;
  }
  // An area's own public header, by its installed name.
  if (target.kind == "adapter/bullet" && starts_with(file, "adapters/bullet/")) return std::nullopt;
  if (target.kind == "adapter/mujoco" && starts_with(file, "adapters/mujoco/")) return std::nullopt;
  if (target.kind == "adapter/minimal" && starts_with(file, "adapters/minimal/")) return std::nullopt;
  if (target.kind == "scene" && starts_with(file, "tools/scene/")) return std::nullopt;
  if (target.kind == "recording" && starts_with(file, "tools/recording/")) return std::nullopt;
  if (target.kind == "bullet scene" && starts_with(file, "tools/bullet_scene/")) return std::nullopt;
  if (!area->may.count(target.kind)) return "must not include <" + name + "> (" + target.kind + ")";
  if (target.kind == "core") {
    const std::string header = "plugin/include/linchpin/" + target.path;
    if (!fs::is_regular_file(fs::path(root) / header)) return "includes <" + name + ">, which is no header of the core";
    if (starts_with(file, "plugin/")) return check_core_arrow(root, file, header);
  }
  return std::nullopt;
}

struct Finding {
  std::size_t files = 0;
  std::size_t includes = 0;
  std::vector<std::string> problems;
};

Finding check_tree(const std::string& root) {
  static const Strings extensions = {".h", ".hpp", ".cpp", ".cc", ".inl", ".ipp"};
  Finding finding;
  std::vector<std::string> files;
  for (const char* top : {"plugin", "adapters", "tools", "demos", "benchmarks", "tests"}) {
    if (!fs::is_directory(fs::path(root) / top)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(root) / top))
      if (entry.is_regular_file() && extensions.count(entry.path().extension().string()))
        files.push_back(entry.path().lexically_relative(root).generic_string());
  }
  std::sort(files.begin(), files.end());
  for (const std::string& file : files) {
    ++finding.files;
    std::ifstream in(fs::path(root) / file);
    std::string line;
    for (int number = 1; std::getline(in, line); ++number) {
      if (line.find("#include") != std::string::npos) ++finding.includes;
      if (const auto problem = check_line(root, file, line))
        finding.problems.push_back(file + ":" + std::to_string(number) + ": " + *problem);
    }
  }
  return finding;
}

TEST(Arrows, WholeTree) {
  const Finding finding = check_tree(LINCHPIN_SOURCE_DIR);
  for (const std::string& problem : finding.problems) ADD_FAILURE() << problem;
  // An empty walk would be a silent yes.
  EXPECT_GT(finding.files, 1u);
  EXPECT_GT(finding.includes, 5u);
}

TEST(Arrows, SayNo) {
  const std::vector<std::pair<std::string, std::string>> offending = {
      {"plugin/src/model/system.cpp", "#include <btBulletDynamicsCommon.h>"},
      {"plugin/src/model/system.cpp", "#include <BulletDynamics/Dynamics/btRigidBody.h>"},
      {"plugin/src/model/system.cpp", "#include <linchpin/bullet.h>"},
      {"plugin/src/model/system.cpp", "// as btRigidBody does"},
      {"plugin/src/model/system.cpp", "// as Bullet does"},
      {"plugin/src/model/system.cpp", "#include <linchpin/extra.h>"},
      {"plugin/src/model/system.cpp", "#include <linchpin/problem.h>"},
      {"plugin/src/model/system.cpp", "#include \"problem/kept_assembly.h\""},
      {"plugin/src/problem/factorization.cpp", "#include <nlohmann/json.hpp>"},
      {"plugin/include/linchpin/dynamics.h", "#include <nlohmann/json.hpp>"},
      {"plugin/src/problem/factorization.cpp", "#include <unistd.h>"},
      {"plugin/src/problem/factorization.cpp", "#include <boost/any.hpp>"},
      {"plugin/src/problem/factorization.cpp", "  #  include <linchpin/stepper.h>"},
      {"plugin/src/problem/factorization.cpp", "#include <linchpin/dynamics.h>"},
      {"plugin/src/force_laws/law_solver.cpp", "#include <linchpin/dynamics.h>"},
      {"plugin/src/joint_kernel/rows.h", "#include <linchpin/projection.h>"},
      {"plugin/src/projection/projection.cpp", "#include <linchpin/stepper.h>"},
      {"plugin/include/linchpin/joints.h", "#include <linchpin/dynamics.h>"},
      {"plugin/include/linchpin/problem.h", "#include <linchpin/dynamics.h>"},
      {"plugin/include/linchpin/assembly.h", "#include <linchpin/report.h>"},
      {"plugin/include/linchpin/report.h", "#include <linchpin/stepper.h>"},
      {"plugin/src/math/householder_qr.cpp", "#include <linchpin/system.h>"},
      {"plugin/include/linchpin/export.h", "#include <linchpin/dynamics.h>"},
      {"plugin/src/extra/system.cpp", "#include <linchpin/system.h>"},
      {"plugin/src/system.cpp", "#include <linchpin/system.h>"},
      {"plugin/src/model/system.cpp", "#include SYSTEM_HEADER"},
      {"plugin/src/model/system.cpp", "#include \"../../tests/architecture/preludes/none.h\""},
      {"adapters/bullet/src/solver.cpp", "#include <linchpin/scene.h>"},
      {"adapters/bullet/src/solver.cpp", "#include <nlohmann/json.hpp>"},
      {"adapters/bullet/src/solver.cpp", "#include <linchpin/unheard_of.h>"},
      {"adapters/bullet/src/solver.cpp", "#include \"host/context.h\""},
      {"plugin/src/host/context.h", "#include <linchpin/articulated.h>"},
      {"adapters/other/src/solver.cpp", "#include <vector>"},
      {"adapters/minimal/src/solver.cpp", "#include <linchpin/bullet.h>"},
      {"adapters/minimal/src/solver.cpp", "#include \"host/context.h\""},
      {"adapters/minimal/engine/toy.cpp", "#include <linchpin/system.h>"},
      {"tools/linchpin/main.cpp", "#include <linchpin/bullet.h>"},
      {"tools/linchpin/main.cpp", "#include <btBulletDynamicsCommon.h>"},
      {"tools/scene/load.cpp", "#include <CLI/CLI.hpp>"},
      {"tools/scene/load.cpp", "#include <linchpin/bullet.h>"},
      {"tools/scene/simulation.cpp", "#include <linchpin/bullet_simulation.h>"},
      {"tools/linchpin/main.cpp", "#include \"bullet_scene/built.h\""},
      {"tools/bullet_scene/built.cpp", "#include <nlohmann/json.hpp>"},
      {"demos/papers/wire.cpp", "#include <linchpin/bullet.h>"},
      {"demos/papers/wire.cpp", "#include \"../../tests/architecture/preludes/none.h\""},
      {"demos/quickstart/drop_in.cpp", "#include <nlohmann/json.hpp>"},
  };
  for (const auto& [file, line] : offending)
    EXPECT_TRUE(check_line(LINCHPIN_SOURCE_DIR, file, line)) << "nothing said about " << line << " in " << file;
}

TEST(Arrows, SayYes) {
  const std::vector<std::pair<std::string, std::string>> rightful = {
      {"plugin/src/model/system.cpp", "#include <linchpin/system.h>  // own header"},
      {"plugin/src/model/system.cpp", "#include \"linchpin/system.h\""},
      {"plugin/src/model/system.cpp", "#include \"model/system_impl.h\""},
      {"plugin/src/problem/problem_json.cpp", "#include <nlohmann/json.hpp>"},
      {"plugin/src/problem/sparse_factorization.cpp", "#include <Eigen/SparseCholesky>"},
      {"plugin/src/problem/factorization.cpp", "#include <linchpin/problem.h>"},
      {"plugin/src/integrators/stepper.cpp", "#include <linchpin/projection.h>"},
      {"plugin/include/linchpin/dynamics.h", "#include <linchpin/system.h>"},
      {"plugin/include/linchpin/joints.h", "#include <linchpin/constraint.h>"},
      {"plugin/include/linchpin/constraint.h", "/// A line that only talks about #include <linchpin/report.h>"},
      {"plugin/include/linchpin/constraint.h", "#include <linchpin/detail/residual.h>"},
      {"adapters/bullet/src/solver.cpp", "#include <linchpin/bullet.h>"},
      {"adapters/bullet/src/solver.cpp", "#include <linchpin/dynamics.h>"},
      {"adapters/bullet/src/solver.cpp", "#include <BulletDynamics/Dynamics/btRigidBody.h>"},
      {"adapters/minimal/src/solver.cpp", "#include <linchpin/minimal.h>"},
      {"adapters/minimal/src/solver.cpp", "#include \"toy.h\""},
      {"tools/linchpin/main.cpp", "#include <sys/wait.h>"},
      {"tools/linchpin/main.cpp", "#include <CLI/CLI.hpp>"},
      {"tools/linchpin/worker/main.cpp", "#include <BulletWorldImporter/btBulletWorldImporter.h>"},
      {"tools/linchpin/worker/main.cpp", "#include <linchpin/bullet.h>"},
      {"tools/linchpin/worker/scene.h", "#include \"bullet_scene/built.h\""},
      {"tools/bullet_scene/bullet_simulation.cpp", "#include <linchpin/bullet_simulation.h>"},
      {"demos/robots/arm.cpp", "#include <linchpin/bullet_simulation.h>"},
      {"demos/quickstart/drop_in.cpp", "#include <linchpin/bullet.h>"},
      {"demos/papers/wire.cpp", "#include <linchpin/dynamics.h>"},
      {"tests/unit/system.cpp", "#include \"anything/at_all.h\""},
  };
  for (const auto& [file, line] : rightful) {
    const auto problem = check_line(LINCHPIN_SOURCE_DIR, file, line);
    EXPECT_FALSE(problem) << line << " in " << file << ": " << problem.value_or("");
  }
}

// The walk itself, over a tree with one good and one bad file, and private files on both sides of a fence.
TEST(Arrows, WalkFindsTheBadFile) {
  const fs::path root = fs::temp_directory_path() / ("linchpin-arrows-" + std::to_string(std::random_device{}()));
  const auto write = [&](const std::string& file, const std::string& text) {
    fs::create_directories((root / file).parent_path());
    std::ofstream(root / file) << text;
  };
  write("plugin/include/linchpin/system.h", "#include <vector>\n");
  write("plugin/src/model/system.cpp", "#include <linchpin/system.h>\n#include <vector>\n");
  write("plugin/src/problem/factorization.cpp", "#include <vector>\n#include <btBulletDynamicsCommon.h>\n");
  write("plugin/src/problem/dense_factorization.h", "#include <linchpin/system.h>\n");
  write("plugin/src/problem/dense_factorization.cpp", "#include \"problem/dense_factorization.h\"\n");
  write("adapters/bullet/src/solver.cpp", "#include \"../../../plugin/src/problem/dense_factorization.h\"\n");
  write("tools/linchpin/protocol.h", "#include <string>\n");
  write("tools/linchpin/worker/host.h", "#include <linchpin/bullet.h>\n");
  write("tools/linchpin/worker/main.cpp", "#include \"protocol.h\"\n#include \"host.h\"\n");
  write("tools/linchpin/main.cpp", "#include \"protocol.h\"\n#include \"worker/host.h\"\n");
  const Finding finding = check_tree(root.string());
  fs::remove_all(root);

  EXPECT_EQ(finding.files, 10u);
  ASSERT_EQ(finding.problems.size(), 3u) << testing::PrintToString(finding.problems);
  EXPECT_TRUE(starts_with(finding.problems[0], "adapters/bullet/src/solver.cpp:1: ")) << finding.problems[0];
  EXPECT_TRUE(starts_with(finding.problems[1], "plugin/src/problem/factorization.cpp:2: ")) << finding.problems[1];
  EXPECT_TRUE(starts_with(finding.problems[2], "tools/linchpin/main.cpp:2: ")) << finding.problems[2];
}

}  // namespace
