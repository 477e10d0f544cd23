// One scene with other values of its parameters: a case of a sweep. The result of a case depends on these values alone.
#pragma once

#include "simulation_options.h"

#include <linchpin/scene.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace linchpin::cli {

/// The parameters of all cases.
struct ExperimentCases {
  std::vector<std::string> names;                            ///< names in [params]
  std::uint64_t size = 0;                                    ///< number of cases
  std::function<std::vector<double>(std::uint64_t)> values;  ///< values by name, of the case of a number
};

/// What a case is about.
enum class ExperimentKind {
  motion,        ///< the motion from the start
  equilibrium,   ///< a place where the scene can rest
  linearization  ///< the eigenvalues of small motions
};

/// How a case runs, and what it records.
struct ExperimentOptions {
  std::string scene;                 ///< name of the scene's text in messages; includes are relative to it
  std::vector<std::string> columns;  ///< channels after those of [[log]]
  std::string until;                 ///< a case ends where this quantity crosses zero; empty: after the duration
  ExperimentKind kind = ExperimentKind::motion;
  bool at_equilibrium = false;  ///< a linearization is about a place of rest, and not about the start
  int starts = 24;              ///< start poses of the search for equilibria
  /// Steps and gravity of a model. @throws std::invalid_argument
  std::function<Simulation(const scene::Model&)> simulation;
  scene::BulletImporter import;                                     ///< reads included .bullet files
  std::function<scene::MjcfScene(const std::string&)> import_mjcf;  ///< reads MJCF files
  std::string until_option = "--until";                             ///< name of `until` in messages
  std::string column_option = "--column";                           ///< name of `columns` in messages
};

/// What came of a case.
struct ExperimentResult {
  std::string status;                                   ///< "ok", "ok, but …", or the reason of a failure
  double t = std::numeric_limits<double>::quiet_NaN();  ///< end of the motion [s]; NaN of an equilibrium
  std::string stability;                                ///< of an equilibrium or of a steady motion
  std::vector<double> values;                           ///< by column; NaN if the case failed
};

/// What is wrong with an expression that the caller gives, with the place in it.
struct BadExpression {
  std::string text;
};

/// A scene as an experiment. Any number of threads may run cases of one experiment at the same time.
class Experiment {
 public:
  /// Reads the scene with the values of some case.
  /// @param look  is called with the model that has been read
  /// @throws SceneError @throws BadExpression @throws std::invalid_argument for options that do not fit the scene
  Experiment(ExperimentOptions options, std::string text, const ExperimentCases& cases,
             const std::function<void(const scene::Model&)>& look);

  const std::vector<std::string>& files() const { return files_; }      ///< all files of the scene, itself first
  const std::vector<std::string>& columns() const { return columns_; }  ///< titles with units
  /// Tolerances of the expectations, which are the first columns.
  const std::vector<double>& tolerances() const { return tolerances_; }
  /// Runs a case.
  ExperimentResult run(const std::vector<double>& values) const;
  /// What the scene expects with these values, by column; NaN where it says nothing, or is none.
  std::vector<double> known(const std::vector<double>& values) const;
  /// The values that the scene itself gives to the parameters.
  std::vector<double> own() const;

 private:
  /// @throws SceneError of the first case @throws BadExpression
  scene::Model any_of(const ExperimentCases& cases) const;
  /// Whether `until` is the expression that is wrong.
  bool of_until(const std::vector<double>& values) const;
  std::string at(const scene::Expectation& e) const;
  void explain_holes(ExperimentResult& result) const;
  /// What every reading of the scene has in place of the file's own: the parameters with these values.
  scene::Overrides overrides(const std::vector<double>& values) const;
  scene::Model load(const std::vector<double>& values) const;
  std::vector<std::pair<const scene::Channel*, bool>> channels(const scene::Model& model) const;
  void add_column(const std::string& name, const std::string& unit);
  System system_of(const scene::Model& model) const;
  void move(const scene::Model& model, ExperimentResult& result) const;
  void rest(const scene::Model& model, ExperimentResult& result) const;
  void linearized(const scene::Model& model, ExperimentResult& result) const;
  State state_to_linearize(const scene::Model& model, System& system) const;
  void add_channels(const scene::Model& model, const System& system, const State& state,
                    std::span<const Reaction> reactions, ExperimentResult& result) const;
  void add_mode_columns(const scene::Model& model);

  ExperimentOptions options_;
  std::string text_;
  std::vector<std::string> names_, files_, columns_;
  std::size_t mode_columns_ = 0;    // Of the columns, the last ones are those of modes.
  std::vector<double> tolerances_;  // of the columns of expectations, which are the first
};

}  // namespace linchpin::cli
