// linchpin beside Simbody, MuJoCo and ODE: error against cost on the same scenes.
//   linchpin-bench-others [--only SCENE] [--csv] [--picture FILE.svg]
// prints a table for docs/reference/benchmarks.md, or CSV, and draws it. Codes that were not found when it was built
// are named on stderr.
#include "scenes.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

namespace {

using linchpin::others::Row;

std::string digits(double x) {
  if (!std::isfinite(x)) return "–";
  char out[32];
  std::snprintf(out, sizeof out, x >= 1e-3 && x < 100 ? "%.2g" : x >= 100 && x < 1e5 ? "%.0f" : "%.1e", x);
  std::string text = out;
  if (const auto e = text.find("e-0"); e != std::string::npos) text.erase(e + 2, 1);
  return text;
}

// One panel for each scene: error over cost, both by powers of ten, a colour for each code. What did not arrive, or is
// off by more than a metre, lies on the upper edge.
std::string drawing(const std::vector<Row>& rows) {
  constexpr int width = 420, height = 300, left = 60, right = 12, top = 28, bottom = 44;
  constexpr double least_cost = 1e-4, most_cost = 10, least_error = 1e-12, most_error = 1;
  const auto& scenes = linchpin::others::scenes();
  const std::pair<const char*, const char*> colours[] = {
      {"linchpin", "#0b6e4f"}, {"Simbody 3.7", "#c8553d"}, {"MuJoCo 2.2.2", "#3d5a98"}, {"ODE 0.16", "#b08900"}};
  std::ostringstream out;
  out << "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 " << 2 * width << ' ' << 2 * height + 24
      << "' font-family='sans-serif' font-size='11'><rect width='100%' height='100%' fill='#fff'/>\n";
  int legend = left;
  for (const auto& [code, colour] : colours) {
    out << "<circle cx='" << legend << "' cy='" << 2 * height + 10 << "' r='4' fill='" << colour << "'/><text x='"
        << legend + 8 << "' y='" << 2 * height + 14 << "'>" << code << "</text>\n";
    legend += 110;
  }
  for (std::size_t k = 0; k < scenes.size(); ++k) {
    const int x0 = width * int(k % 2), y0 = height * int(k / 2);
    const auto place = [](double value, double least, double most) {
      return std::log(std::clamp(value, least, most) / least) / std::log(most / least);
    };
    const auto x = [&](double cost) { return x0 + left + (width - left - right) * place(cost, least_cost, most_cost); };
    const auto y = [&](double error) {
      return y0 + height - bottom - (height - top - bottom) * place(error, least_error, most_error);
    };
    out << "<text x='" << x0 + left << "' y='" << y0 + 18 << "' font-weight='bold'>" << scenes[k].title << "</text>\n";
    for (int e = -4; e <= 1; ++e)
      out << "<path d='M" << x(std::pow(10, e)) << ' ' << y(least_error) << "V" << y(most_error)
          << "' stroke='#ddd'/><text text-anchor='middle' x='" << x(std::pow(10, e)) << "' y='" << y0 + height - 28
          << "'>1e" << e << "</text>\n";
    for (int e = -12; e <= 0; e += 2)
      out << "<path d='M" << x(least_cost) << ' ' << y(std::pow(10, e)) << "H" << x(most_cost)
          << "' stroke='#ddd'/><text text-anchor='end' x='" << x0 + left - 6 << "' y='" << y(std::pow(10, e)) + 4
          << "'>1e" << e << "</text>\n";
    out << "<text text-anchor='middle' x='" << x0 + left + (width - left - right) / 2 << "' y='" << y0 + height - 12
        << "'>CPU seconds a second</text>\n<text transform='translate(" << x0 + 14 << ',' << y0 + height / 2
        << ") rotate(-90)' text-anchor='middle'>error [m]</text>\n";
    for (const Row& r : rows) {
      if (r.scene != scenes[k].name) continue;
      for (const auto& [code, colour] : colours)
        if (r.code == code)
          out << "<circle cx='" << x(r.cost) << "' cy='" << y(std::isfinite(r.error) ? r.error : most_error)
              << "' r='4' fill='" << colour << "' fill-opacity='0.75'><title>" << r.code << ", " << r.method << ", "
              << r.formulation << "</title></circle>\n";
    }
  }
  out << "</svg>\n";
  return out.str();
}

}  // namespace

int main(int argc, char** argv) {
  std::string only, picture;
  bool csv = false;
  for (int i = 1; i < argc; ++i) {
    if (!std::strcmp(argv[i], "--csv")) {
      csv = true;
    } else if (!std::strcmp(argv[i], "--only") && i + 1 < argc) {
      only = argv[++i];
    } else if (!std::strcmp(argv[i], "--picture") && i + 1 < argc) {
      picture = argv[++i];
    } else {
      std::fprintf(stderr, "linchpin-bench-others: %s? --only SCENE, --csv and --picture FILE are known\n", argv[i]);
      return 2;
    }
  }
#ifndef LINCHPIN_WITH_SIMBODY
  std::fprintf(stderr, "without Simbody (libsimbody-dev was not found when this was built)\n");
#endif
#ifndef LINCHPIN_WITH_MUJOCO
  std::fprintf(stderr, "without MuJoCo (libmujoco-dev was not found when this was built)\n");
#endif
#ifndef LINCHPIN_WITH_ODE
  std::fprintf(stderr, "without ODE (libode-dev was not found when this was built)\n");
#endif
  if (csv)
    std::printf("scene,code,formulation,method,steps,error_m,cpu_s_per_s,note\n");
  else
    std::printf(
        "| scene | code | how it is put | method | steps | error [m] | CPU ms a second "
        "|\n|---|---|---|---|---|---|---|\n");
  std::vector<Row> all;
  const auto print = [&](const Row& r) {
    all.push_back(r);
    if (csv)
      std::printf("%s,%s,\"%s\",\"%s\",%ld,%g,%g,\"%s\"\n", r.scene.c_str(), r.code.c_str(), r.formulation.c_str(),
                  r.method.c_str(), r.steps, r.error, r.cost, r.note.c_str());
    else
      std::printf("| `%s` | %s | %s | %s | %ld | %s | %s |\n", r.scene.c_str(), r.code.c_str(), r.formulation.c_str(),
                  r.method.c_str(), r.steps, std::isfinite(r.error) ? digits(r.error).c_str() : "did not arrive",
                  digits(1e3 * r.cost).c_str());
    if (!r.note.empty())
      std::fprintf(stderr, "%s, %s, %s: %s\n", r.scene.c_str(), r.code.c_str(), r.method.c_str(), r.note.c_str());
    std::fflush(stdout);
  };
  bool found = false;
  for (const auto& scene : linchpin::others::scenes()) {
    if (!only.empty() && scene.name != only) continue;
    found = true;
    by_linchpin(scene, print);
#ifdef LINCHPIN_WITH_SIMBODY
    by_simbody(scene, print);
#endif
#ifdef LINCHPIN_WITH_MUJOCO
    by_mujoco(scene, print);
#endif
#ifdef LINCHPIN_WITH_ODE
    by_ode(scene, print);
#endif
  }
  if (!found) {
    std::fprintf(stderr, "linchpin-bench-others: no scene \"%s\"; known:", only.c_str());
    for (const auto& scene : linchpin::others::scenes()) std::fprintf(stderr, " \"%s\"", scene.name.c_str());
    std::fprintf(stderr, "\n");
    return 2;
  }
  if (!picture.empty()) std::ofstream(picture) << drawing(all);
  return 0;
}
