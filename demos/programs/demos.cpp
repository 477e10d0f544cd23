// Runs the programs of this folder under the native solver and, one line more, under linchpin, and prints what became
// of both. demos [--seconds 20] [--awake] [name ...]; exit code 0 when every exact run kept its joints closed.
#include "measure.h"
#include "program.h"

#include <linchpin/bullet.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <string>
#include <string_view>

extern bool gDisableDeactivation;  // Bullet's

namespace {

constexpr bool single = sizeof(btScalar) == 4;

struct Run {
  explicit Run(const programs::Entry& entry) : program(entry.make()) {}

  void step() {
    using Clock = std::chrono::steady_clock;
    const auto start = Clock::now();
    program->step();
    spent += std::chrono::duration<double>(Clock::now() - start).count();
    watch.look(*program);
  }

  std::unique_ptr<programs::Program> program;
  programs::Watch watch;
  double spent = 0;  ///< [s]
};

int usage(std::string_view word) {
  const bool asked = word == "--help" || word == "-h";
  std::FILE* out = asked ? stdout : stderr;
  if (!asked) std::fprintf(out, "demos: '%s' is not a program and not an option\n", std::string(word).c_str());
  std::fprintf(
      out,
      "demos [--seconds 20] [--awake] [program ...]\n--awake: no body falls asleep, so both solvers have equal work\n"
      "programs (default: all):\n");
  for (const programs::Entry& entry : programs::all()) std::fprintf(out, "  %s\n", std::string(entry.name).c_str());
  return asked ? 0 : 2;
}

}  // namespace

int main(int argc, char** argv) {
  double seconds = 20;
  std::vector<std::string> wanted;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word(argv[i]);
    if (word == "--seconds" && i + 1 < argc && std::atof(argv[i + 1]) > 0)
      seconds = std::atof(argv[++i]);
    else if (word == "--awake")
      gDisableDeactivation = true;
    else if (std::any_of(programs::all().begin(), programs::all().end(),
                         [&](const programs::Entry& entry) { return entry.name == word; }))
      wanted.emplace_back(word);
    else
      return usage(word);
  }
  std::printf("%s precision, %g s each\n", single ? "single" : "double", seconds);
  std::printf("%-18s %5s  %-21s %-21s %-17s %10s %5s %9s %6s\n", "", "", "gap exact", "gap native", "deepest [mm]",
              "energy", "fall-", "substeps", "time");
  std::printf("%-18s %5s  %10s %10s %10s %10s %8s %8s %10s %5s %9s %6s\n", "", "Hz", "m", "rad", "m", "rad", "exact",
              "native", "gain [J]", "backs", "per step", "ratio");
  bool good = true;
  for (const programs::Entry& entry : programs::all()) {
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), entry.name) == wanted.end()) continue;
    Run native(entry), held(entry);
    linchpin::bullet::Solver exact(held.program->world);  // the one line
    const long steps = std::lround(seconds / held.program->dt);
    for (long i = 0; i < steps; ++i) {  // in turns, so that whatever else the machine does falls on both
      if (native.watch.alive) native.step();
      if (held.watch.alive) held.step();
    }
    const linchpin::bullet::Counts& c = exact.counts();
    char gain[16] = "-";  // not known before a second without motors has been seen
    if (held.watch.gain > -1e299) std::snprintf(gain, sizeof gain, "%.2g", held.watch.gain);
    std::printf("%-18s %5.0f  %10.1e %10.1e %10.1e %10.1e %8.2f %8.2f %10s %5ld %9.2f %6.2f%s%s\n",
                std::string(entry.name).c_str(), 1 / held.program->dt, held.watch.gap.length, held.watch.gap.angle,
                native.watch.gap.length, native.watch.gap.angle, 1e3 * held.watch.depth, 1e3 * native.watch.depth, gain,
                c.fallbacks, c.solves ? double(c.solves - c.substepped_steps + c.substeps) / double(c.solves) : 1,
                held.spent / native.spent, held.watch.alive ? "" : "  NOT FINITE",
                native.watch.alive ? "" : "  (native not finite)");
    std::fflush(stdout);
    good = good && held.watch.alive && held.watch.gap.length <= (single ? 1e-4 : 1e-9);
  }
  return good ? 0 : 1;
}
