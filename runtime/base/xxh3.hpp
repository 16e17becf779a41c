// XXH3 of large memory. The library's own names use only what every processor of this architecture has. The
// dispatched functions use what this processor has: they are two to four times faster, with the same digests.
#pragma once

#if HOCKET_HAVE_XXH3_DISPATCH
#include <xxh_x86dispatch.h>  // renames the functions
#else
#include <xxhash.h>
#endif
