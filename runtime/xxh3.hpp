// XXH3 of large memory. The library's own names take the least that a processor of this kind has; what is
// chosen by what this processor has is two to four times faster, and gives the same digests.
#pragma once

#if HOCKET_HAVE_XXH3_DISPATCH
#include <xxh_x86dispatch.h>  // renames the functions
#else
#include <xxhash.h>
#endif
