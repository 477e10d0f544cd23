// Marks the public names of linchpin::scene: see linchpin/export.h.
#pragma once

#include <linchpin/export.h>

/// Marks the public names of linchpin::scene.
#if defined(LINCHPIN_SCENE_BUILD)
#define LINCHPIN_SCENE_API LINCHPIN_EXPORT
#elif defined(LINCHPIN_SCENE_SHARED)
#define LINCHPIN_SCENE_API LINCHPIN_IMPORT
#else
#define LINCHPIN_SCENE_API LINCHPIN_STATIC
#endif
