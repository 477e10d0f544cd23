// The version of linchpin: of these headers, and of the library that a program is linked with. Before 1.0 a minor
// version may change the interface.
#pragma once

#include <linchpin/export.h>

// The one place where the version is written. CMake, the commands and the package read it here.
/// Changes of the interface.
#define LINCHPIN_VERSION_MAJOR 0
/// Before 1.0: changes of the interface. Later: additions.
#define LINCHPIN_VERSION_MINOR 1
/// Repairs.
#define LINCHPIN_VERSION_PATCH 0
/// The three numbers as a text.
#define LINCHPIN_VERSION "0.1.0"

namespace linchpin {

/// The version of the library, such as "0.1.0". It differs from LINCHPIN_VERSION if a program was compiled with the
/// headers of another version. Any thread may call it.
LINCHPIN_API const char* version() noexcept;

}  // namespace linchpin
