#include "solver_spec.h"

#include "messages.h"

#include <charconv>
#include <stdexcept>

namespace linchpin::cli {

namespace {

const std::vector<std::string> known_solvers = {"exact",  "bullet:si",    "bullet:nncg", "bullet:mlcp", "bullet:lemke",
                                                "mujoco", "mujoco:stiff", "bare:exact",  "bullet:exact"};

int parse_iterations(const std::string& name, std::string_view digits) {
  int n = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), n);
  if (error != std::errc() || end != digits.data() + digits.size() || n < 1 || n > 100000)
    throw std::invalid_argument("solver \"" + name + "\": iterations are a whole number from 1 to 100000, not \"" +
                                std::string(digits) + "\"");
  return n;
}

}  // namespace

SolverSpec parse_solver(const std::string& name) {
  SolverSpec spec{name, "exact", 10};
  if (name == "exact") return spec;
  if (name == "mujoco" || name == "mujoco:stiff") {
    spec.kind = name == "mujoco" ? "mujoco" : "stiff";
    return spec;
  }
  if (name == "bare:exact" || name == "bullet:exact") {
    spec.host = name.substr(0, name.find(':'));
    return spec;
  }
  const std::size_t first = name.find(':');
  const std::size_t second = first == std::string::npos ? first : name.find(':', first + 1);
  const std::string stem = name.substr(0, second);
  bool found = false;
  for (const std::string& each : known_solvers) found = found || (each == stem && each.starts_with("bullet:"));
  if (!found) {
    const std::string near = nearest(stem, known_solvers);
    throw std::invalid_argument(
        "there is no solver \"" + name + "\"" +
        (near.empty() ? "; known: exact, bullet:si, bullet:nncg, bullet:mlcp, bullet:lemke, mujoco, mujoco:stiff, "
                        "bare:exact, bullet:exact"
                      : "; did you mean \"" + near + "\"?"));
  }
  spec.kind = stem.substr(first + 1);
  if (second == std::string::npos) return spec;
  if (spec.kind != "si" && spec.kind != "nncg")
    throw std::invalid_argument("solver \"" + name + "\": " + stem + " is direct and takes no number of iterations");
  spec.iterations = parse_iterations(name, std::string_view(name).substr(second + 1));
  return spec;
}

std::vector<SolverSpec> parse_solvers(std::string_view names) {
  std::vector<SolverSpec> specs;
  for (std::size_t at = 0; at <= names.size();) {
    const std::size_t end = std::min(names.find(',', at), names.size());
    const std::string name(names.substr(at, end - at));
    at = end + 1;
    if (name.empty()) throw std::invalid_argument("--with has an empty name in \"" + std::string(names) + "\"");
    specs.push_back(parse_solver(name));
    for (std::size_t i = 0; i + 1 < specs.size(); ++i) {
      const SolverSpec& other = specs[i];
      if (other.host == specs.back().host && other.kind == specs.back().kind &&
          other.iterations == specs.back().iterations)
        throw std::invalid_argument("--with names one solver twice: \"" + other.name + "\" and \"" + name + "\"");
    }
  }
  return specs;
}

void demand_solver_of(bool mjcf, const SolverSpec& solver) {
  if (mjcf && solver.is_of_bullet())
    throw std::invalid_argument(
        "solver \"" + solver.name +
        "\" is Bullet's, and MuJoCo runs this file. Known for MJCF files: exact, mujoco, mujoco:stiff");
  if (!mjcf && solver.is_of_mujoco())
    throw std::invalid_argument("solver \"" + solver.name +
                                "\" is MuJoCo's, which runs MJCF files only. Known for this scene: exact, bullet:si, "
                                "bullet:nncg, bullet:mlcp, bullet:lemke");
}

}  // namespace linchpin::cli
