// The table that a worker program writes, with errors as the command knows them (job.h).
#pragma once

#include "csv.h"

#include <memory>
#include <string>

namespace linchpin::worker {

/// @throws Refused("csv", …) when the file cannot be written
std::unique_ptr<cli::Csv> open_csv(const std::string& file);
/// @throws Refused("csv", …) when the disk did not take all of it
void close_csv(cli::Csv& csv);

}  // namespace linchpin::worker
