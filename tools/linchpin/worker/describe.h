// What a .bullet file holds, as the JSON from which the command makes a Model: for the verbs that need no world.
#pragma once

#include "worker_common/job.h"

#include <string>

namespace linchpin::worker {

/// @throws Refused("scene", …).
Json describe(const std::string& file);

}  // namespace linchpin::worker
