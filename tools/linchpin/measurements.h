// Recordings of measurements: CSV tables, and MCAP files that linchpin writes. What a column means is for the scene to
// say (scene_fit.h).
#pragma once

#include <linchpin/scene.h>

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace linchpin::cli {

/// Samples of one quantity.
struct MeasuredColumn {
  std::string name;               ///< the title without the unit: an expression of the scene, or the name of a log
  std::string unit;               ///< in square brackets behind it; empty: none
  std::size_t column = 0;         ///< of the title in its line, from 1; 0: the file has no lines
  std::vector<double> t, values;  ///< of the samples [s], [unit]; times increase
  /// Place of each sample in its file; empty if the file has no lines.
  std::vector<std::size_t> lines;
};

/// One file of measurements.
struct MeasuredFile {
  std::string file;                     ///< its name in messages
  std::string text;                     ///< its text; empty if it has no lines
  std::size_t title_line = 0;           ///< line of the titles; 0: the file has no lines
  std::vector<MeasuredColumn> columns;  ///< in the order of the file
};

/// The fault at a place of a file of measurements. Its text has the form of other faults of files.
/// @param line  from 1; 0: the file as a whole
scene::SceneError measurement_error(const MeasuredFile& in, std::size_t line, std::size_t column,
                                    const std::string& message);

/// Whether samples of a column are read. The others may have any text.
using WantedColumn = std::function<bool(const std::string& name, const std::string& title)>;

/// Reads a table: titles in the first line, then one row for each time. One column is the time, "t [s]" or "time [ms]".
/// Fields end with commas, semicolons or tabs. An empty field is no sample. Lines that begin with # are comments.
/// @throws SceneError with line and column
MeasuredFile read_measured_table(const std::string& file, std::string text, const WantedColumn& wanted);

/// Reads the messages of an MCAP file that linchpin has written: positions of bodies, wrenches, coordinates and
/// signals.
/// @throws SceneError
MeasuredFile read_measured_mcap(const std::string& file, std::string_view bytes, const WantedColumn& wanted);

/// Reads a file of either kind.
inline MeasuredFile read_measurements(const std::string& file, std::string bytes, const WantedColumn& wanted) {
  return bytes.starts_with("\x89MCAP") ? read_measured_mcap(file, bytes, wanted)
                                       : read_measured_table(file, std::move(bytes), wanted);
}

}  // namespace linchpin::cli
