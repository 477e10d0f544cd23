// `linchpin bench mechanisms`: the published mechanisms of the gallery, without an engine.
#pragma once

namespace linchpin::cli {

/// Runs each of them by its own method and prints a line of error and time, or one JSON object. @return exit code
int bench_mechanisms(bool json);

}  // namespace linchpin::cli
