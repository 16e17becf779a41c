#include "capi/handles.hpp"

#include <fmt/format.h>

namespace hocket::capi {

void Handle::refuse_a_parents(const char* what) {
    refuse(fmt::format(
        "this {0} belongs to a process that this one was forked from: a forked child can only destroy its "
        "copy of it. Make another {0} here; or start the child by exec (Python: spawn) instead of fork",
        what));
}

}  // namespace hocket::capi
