// The derivatives of a motion of a scene with respect to its [params], for `linchpin sensitivities` and for Python.
#pragma once

#include <linchpin/scene.h>
#include <linchpin/sensitivity.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace linchpin::cli {

/// The run whose derivatives are asked for.
struct SensitivityRequest {
  std::string scene;                                                ///< name of the text in messages
  std::string text;                                                 ///< of the scene
  std::vector<std::string> parameters;                              ///< names in [params]
  std::vector<std::string> columns;                                 ///< channels after those of [[log]]
  std::string until;                                                ///< ends where this quantity crosses zero, or empty
  std::optional<double> dt, duration;                               ///< [s]; otherwise those of the scene
  int every = 1;                                                    ///< steps between two samples
  scene::BulletImporter import;                                     ///< reads included .bullet files
  std::function<scene::MjcfScene(const std::string&)> import_mjcf;  ///< reads MJCF files
  std::string until_option = "--until";                             ///< name of `until` in messages
  std::string column_option = "--column";                           ///< name of `columns` in messages
};

/// Values and derivatives at one time.
struct SensitivitySample {
  double t = 0;                    ///< [s]
  std::vector<double> value;       ///< by column
  std::vector<double> derivative;  ///< [columns × parameters]
};

/// A mode change with the derivatives of its time.
struct SensitivityEvent {
  double t = 0;              ///< [s]
  std::string constraint;    ///< name
  std::string what;          ///< sticks, slides, …
  std::vector<double> time;  ///< [parameters] [s/unit]
};

/// A run with its derivatives.
struct SceneSensitivities {
  std::vector<double> values;              ///< of the parameters
  std::vector<std::string> columns;        ///< titles with units
  std::vector<SensitivitySample> samples;  ///< the start first, the end last
  std::vector<SensitivityEvent> events;
  /// With `until`: derivatives of the time at the end [s/unit]. The last sample is that of the crossing, whose time
  /// changes with the parameters.
  std::vector<double> end_time;
  std::string method;                 ///< integration method of the run
  std::vector<std::string> left_out;  ///< titles of logs that depend on the motion before, and have no derivative here
  std::vector<std::string> warnings;  ///< of the steps
};

/// Runs the scene.
/// @param look  is called with the model that has been read
/// @throws SceneError  @throws std::invalid_argument  for options that do not fit the scene, a rejected step, or a
/// motion without derivatives
SceneSensitivities scene_sensitivities(const SensitivityRequest& request,
                                       const std::function<void(const scene::Model&)>& look);

}  // namespace linchpin::cli
