// Runs the programs of this folder under the native solver and under linchpin, and prints the gaps and times of both.
// Usage: demos [--seconds 20] [--awake] [--record FOLDER] [name ...]
// The exit code is 0 if every exact run kept its joints closed.
#include "measure.h"
#include "program.h"

#include <linchpin/bullet.h>
#include <linchpin/bullet_recorder.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

extern bool gDisableDeactivation;  // Bullet's

namespace {

constexpr bool single = sizeof(btScalar) == 4;

struct Run {
  Run(const programs::Entry& entry, std::optional<linchpin::bullet::Mode> mode) : program(entry.make()) {
    if (mode) solver.emplace(program->world, linchpin::bullet::Options{.mode = *mode});
  }

  /// Records the steps from now on.
  void record(std::string_view title) {
    recorder.emplace(*solver, program->world, linchpin::bullet::RecorderOptions{.title = std::string(title)});
  }

  void step() {
    using Clock = std::chrono::steady_clock;
    const auto start = Clock::now();
    program->step();
    spent += std::chrono::duration<double>(Clock::now() - start).count();
    watch.look(*program);
  }

  std::unique_ptr<programs::Program> program;
  std::optional<linchpin::bullet::Solver> solver;  ///< Empty: Bullet alone.
  std::optional<linchpin::bullet::Recorder> recorder;
  programs::Watch watch;
  double spent = 0;  ///< [s]
};

int usage(std::string_view word) {
  const bool asked = word == "--help" || word == "-h";
  std::FILE* out = asked ? stdout : stderr;
  if (!asked) std::fprintf(out, "demos: '%s' is not a program and not an option\n", std::string(word).c_str());
  std::fprintf(out,
               "demos [--seconds 20] [--awake] [--record FOLDER] [program ...]\n"
               "  --seconds  time to simulate [s]\n"
               "  --awake    No body falls asleep, so that both solvers have the same work.\n"
               "  --record   Writes FOLDER/PROGRAM-exact.rec and FOLDER/PROGRAM-native.rec, from which `linchpin "
               "report` makes a page.\n"
               "Without a name, all programs run:\n");
  for (const programs::Entry& entry : programs::all()) std::fprintf(out, "  %s\n", std::string(entry.name).c_str());
  return asked ? 0 : 2;
}

}  // namespace

int main(int argc, char** argv) {
  double seconds = 20;
  std::string folder;
  std::vector<std::string> wanted;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word(argv[i]);
    if (word == "--seconds" && i + 1 < argc && std::atof(argv[i + 1]) > 0)
      seconds = std::atof(argv[++i]);
    else if (word == "--record" && i + 1 < argc)
      folder = argv[++i];
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
    using linchpin::bullet::Mode;
    const bool records = !folder.empty();
    Run native(entry, records ? std::optional(Mode::passive) : std::nullopt), held(entry, Mode::exact);
    for (Run* run : {&native, &held})
      if (records) run->record(entry.title);
    const long steps = std::lround(seconds / held.program->dt);
    for (long i = 0; i < steps; ++i) {  // in turns, so that whatever else the machine does falls on both
      if (native.watch.alive) native.step();
      if (held.watch.alive) held.step();
    }
    for (const auto& [run, solver] : {std::pair{&native, "native"}, std::pair{&held, "exact"}})
      if (records) run->recorder->write(folder + "/" + std::string(entry.name) + "-" + solver + ".rec");
    const linchpin::bullet::Counts& c = held.solver->counts();
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
