#include "csv_file.h"

#include "job.h"

#include <stdexcept>

namespace linchpin::worker {

std::unique_ptr<cli::Csv> open_csv(const std::string& file) {
  try {
    return std::make_unique<cli::Csv>(file);
  } catch (const std::runtime_error& e) {
    throw Refused("csv", e.what());
  }
}

void close_csv(cli::Csv& csv) {
  try {
    csv.close();
  } catch (const std::runtime_error& e) {
    throw Refused("csv", e.what());
  }
}

}  // namespace linchpin::worker
