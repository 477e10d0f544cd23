#include <linchpin/version.h>

namespace linchpin {

const char* version() noexcept { return LINCHPIN_VERSION; }

}  // namespace linchpin
