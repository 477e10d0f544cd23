// Runs the programs of this folder under the native solver and, one line more, under linchpin, and prints what became
// of both. demos [--seconds 20] [name ...]; exit code 0 when every exact run kept its joints closed.
#include "measure.h"
#include "program.h"

#include <linchpin/bullet.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <optional>
#include <string>

namespace {

constexpr bool single = sizeof(btScalar) == 4;

struct Run {
  explicit Run(const programs::Entry& entry) : program(entry.make()) {}

  void step() {
    using Clock = std::chrono::steady_clock;
    const auto start = Clock::now();
    program->step();
    spent += std::chrono::duration<double>(Clock::now() - start).count();
    if (!programs::finite(program->world)) return void(alive = false);
    const programs::Gap g = programs::largest_gap(program->world);
    gap.length = std::max(gap.length, g.length);
    gap.angle = std::max(gap.angle, g.angle);
    depth = std::max(depth, programs::deepest_penetration(program->world));
    watch_energy(programs::energy(program->world));
  }
  // A gain is a mean over a second above the highest energy of the first second without motors.
  void watch_energy(double e) {
    const double since = program->t - program->passive_from;
    if (since <= 0) return;
    if (since <= 1) highest = std::max(highest, e);
    sum += e;
    if (++count < std::lround(1 / program->dt)) return;
    gain = std::max(gain, sum / count - highest);
    sum = count = 0;
  }

  std::unique_ptr<programs::Program> program;
  programs::Gap gap;
  double depth = 0, spent = 0, highest = -1e300, gain = -1e300, sum = 0;
  int count = 0;
  bool alive = true;
};

}  // namespace

int main(int argc, char** argv) {
  double seconds = 20;
  std::vector<std::string> wanted;
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]) == "--seconds" && i + 1 < argc)
      seconds = std::atof(argv[++i]);
    else
      wanted.emplace_back(argv[i]);
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
      if (native.alive) native.step();
      if (held.alive) held.step();
    }
    const linchpin::bullet::Counts& c = exact.counts();
    std::printf("%-18s %5.0f  %10.1e %10.1e %10.1e %10.1e %8.2f %8.2f %10.2g %5ld %9.2f %6.2f%s%s\n",
                std::string(entry.name).c_str(), 1 / held.program->dt, held.gap.length, held.gap.angle,
                native.gap.length, native.gap.angle, 1e3 * held.depth, 1e3 * native.depth, held.gain, c.fallbacks,
                c.solves ? double(c.solves - c.substepped + c.substeps) / double(c.solves) : 1,
                held.spent / native.spent, held.alive ? "" : "  NOT FINITE",
                native.alive ? "" : "  (native not finite)");
    std::fflush(stdout);
    good = good && held.alive && held.gap.length <= (single ? 1e-4 : 1e-9);
  }
  return good ? 0 : 1;
}
