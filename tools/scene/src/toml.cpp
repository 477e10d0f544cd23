// The one place where toml++ is compiled. Where its parser asserts, or lets the compiler assume, what a damaged file
// breaks, its next lines are the proper error: assertions are off (source.h), and assumptions with them, in every
// build.
#undef NDEBUG
#define TOML_IMPLEMENTATION
#include "source.h"
