// Marks the public names of the libraries. A shared library exports these names and no others. A static library works
// without any definition.
//
// CMake defines LINCHPIN_CORE_SHARED for the shared library and for its programs, and LINCHPIN_CORE_BUILD while the
// shared library itself is compiled. Each other library has a macro and two such definitions of its own.
#pragma once

#if defined(_WIN32) || defined(__CYGWIN__)
#define LINCHPIN_EXPORT __declspec(dllexport)
#define LINCHPIN_IMPORT __declspec(dllimport)
#define LINCHPIN_STATIC
#define LINCHPIN_PRIVATE
#elif defined(__GNUC__)
/// Exports a name from a shared library, while the library is compiled.
#define LINCHPIN_EXPORT __attribute__((visibility("default")))
/// Imports a name from a shared library.
#define LINCHPIN_IMPORT __attribute__((visibility("default")))
/// Marks a name of a static library.
#define LINCHPIN_STATIC __attribute__((visibility("default")))
/// Marks a part of a public class that is not exported.
#define LINCHPIN_PRIVATE __attribute__((visibility("hidden")))
#else
#define LINCHPIN_EXPORT
#define LINCHPIN_IMPORT
#define LINCHPIN_STATIC
#define LINCHPIN_PRIVATE
#endif

/// Marks the public names of the core.
#if defined(LINCHPIN_CORE_BUILD)
#define LINCHPIN_API LINCHPIN_EXPORT
#elif defined(LINCHPIN_CORE_SHARED)
#define LINCHPIN_API LINCHPIN_IMPORT
#else
#define LINCHPIN_API LINCHPIN_STATIC
#endif
