#include "tests/support/once_for_children.hpp"

#include <dlfcn.h>
#include <rdma/fabric.h>

#include "runtime/transport/libfabric/signal_guard.hpp"

namespace hocket::test {
namespace {

bool load_libfabric() {
    const transport::SignalHandlersKept handlers;
    void* const library = dlopen("libfabric.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return false;
    const auto getinfo = reinterpret_cast<decltype(&::fi_getinfo)>(dlsym(library, "fi_getinfo"));
    const auto freeinfo = reinterpret_cast<decltype(&::fi_freeinfo)>(dlsym(library, "fi_freeinfo"));
    fi_info* found = nullptr;
    if (getinfo(FI_VERSION(1, 17), nullptr, nullptr, 0, nullptr, &found) == 0) freeinfo(found);
    return true;
}

}  // namespace

void load_libfabric_for_children() {
    [[maybe_unused]] static const bool is_loaded = load_libfabric();
}

void load_compiler_for_children() {
#ifdef HOCKET_JIT_FOR_CHILDREN
    [[maybe_unused]] static void* const loaded = dlopen(HOCKET_JIT_FOR_CHILDREN, RTLD_NOW | RTLD_LOCAL);
#endif
}

}  // namespace hocket::test
