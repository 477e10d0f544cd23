// The page of a sweep: the table with what a page needs to draw it, for the template of tools/report.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace linchpin::cli {

struct SweepPicture {
  std::string scene;
  std::vector<std::string> parameters;
  bool random = false;  ///< samples, no grid
  std::string header;   ///< of the table
  struct Column {
    bool expected = false;      ///< the value of an [[expect]]
    double tolerance = 0;       ///< of that; 0: not judged
    std::vector<double> known;  ///< what that expects, by row; NaN where there is nothing
    double at_own = 0;          ///< the same at the scene's own parameters
  };
  std::vector<Column> columns;  ///< as the header has them after status and time
  std::vector<double> own;      ///< values that the scene itself gives to the parameters
  std::vector<std::string> rows;
};

/// A page of at most so many rows opens in a second or two.
constexpr std::size_t most_rows_of_page = 50'000;

nlohmann::ordered_json sweep_json(const SweepPicture& picture);

}  // namespace linchpin::cli
