// The cost of a step of the MuJoCo adapter, beside mj_step of the same model with its soft equalities. Both run in one
// process and take turns of a few steps, so that other work on the machine slows both. A run is repeated, and each turn
// counts with its shortest time.
//
//   linchpin-bench-mujoco [--solver exact|native] [--steps N] [--repeats N] [MODEL…]
//
// Prints one JSON object for each model. With --solver one of the two runs alone, for a profile.
#include "models.h"

#include <linchpin/mujoco.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <exception>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

namespace {

using namespace linchpin;
using Clock = std::chrono::steady_clock;

constexpr int steps_of_turn = 25;

struct Settings {
  bool with_exact = true, with_native = true;
  int steps = 500, repeats = 7;
  std::vector<std::string> models;
};

/// One of the two ways to step a model, with its own data.
class Run {
 public:
  Run(mjModel& m, bool exact) : m_(m), data_(mj_makeData(&m)) {
    if (exact) solver_.emplace(m, *data_);
  }
  void begin() {
    mj_resetData(&m_, data_.get());
    if (solver_) solver_->reset();
    turn_ = 0;
  }
  void take_turn() {
    const auto start = Clock::now();
    for (int i = 0; i < steps_of_turn; ++i) step();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (turn_ == shortest_.size()) shortest_.push_back(std::numeric_limits<double>::infinity());
    shortest_[turn_] = std::min(shortest_[turn_], seconds);
    ++turn_;
    contacts_ += data_->ncon;
    if (solver_)
      for (const Reaction& r : solver_->reactions()) gap_ = std::max(gap_, r.gap);
  }
  double us_per_step() const {
    return 1e6 * std::accumulate(shortest_.begin(), shortest_.end(), 0.0) / double(steps_of_turn * shortest_.size());
  }
  double gap() const { return gap_; }
  double mean_contacts(int repeats) const { return double(contacts_) / double(shortest_.size()) / repeats; }
  std::string summary() { return solver_ ? solver_->summary() : ""; }

 private:
  void step() {
    bench::control(m_, *data_);
    if (solver_)
      solver_->step();
    else
      mj_step(&m_, data_.get());
  }

  mjModel& m_;
  bench::DataPointer data_;
  std::optional<mujoco::Solver> solver_;
  std::vector<double> shortest_;
  std::size_t turn_ = 0;
  long contacts_ = 0;
  double gap_ = 0;
};

void measure(const std::string& name, const Settings& settings) {
  const bench::ModelPointer m = bench::load(name);
  std::optional<Run> exact, native;
  if (settings.with_exact) exact.emplace(*m, true);
  if (settings.with_native) native.emplace(*m, false);
  for (int repeat = 0; repeat < settings.repeats; ++repeat) {
    if (exact) exact->begin();
    if (native) native->begin();
    for (int step = 0; step < settings.steps; step += steps_of_turn) {
      if (native) native->take_turn();
      if (exact) exact->take_turn();
    }
  }
  nlohmann::ordered_json out{{"model", name}, {"bodies", m->nbody - 1}, {"coordinates", m->nv}};
  if (exact) {
    out["us_exact"] = exact->us_per_step();
    out["contacts"] = exact->mean_contacts(settings.repeats);
    out["max_gap"] = exact->gap();
  }
  if (native) out["us_native"] = native->us_per_step();
  if (exact && native) out["ratio"] = exact->us_per_step() / native->us_per_step();
  std::printf("%s\n", out.dump().c_str());
  std::fflush(stdout);
}

Settings read(int argc, char** argv) {
  Settings out;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto value = [&] { return std::string(i + 1 < argc ? argv[++i] : ""); };
    if (word == "--solver") {
      const std::string which = value();
      out.with_exact = which == "exact";
      out.with_native = which == "native";
    } else if (word == "--steps") {
      out.steps = std::stoi(value());
    } else if (word == "--repeats") {
      out.repeats = std::stoi(value());
    } else {
      out.models.push_back(word);
    }
  }
  if (out.models.empty())
    out.models = {"air:1",    "air:2",    "air:4",    "air:8",   "ground:1",     "ground:2",
                  "ground:4", "ground:8", "four-bar", "bennett", "five-bar-leg", "rod-leg"};
  return out;
}

}  // namespace

int main(int argc, char** argv) try {
  const Settings settings = read(argc, argv);
  for (const std::string& name : settings.models) measure(name, settings);
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
