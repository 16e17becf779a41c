// The functions of libfabric that Hocket links against are defined here, and call the loaded library. (All
// other functions are inline in libfabric's headers and call through the objects that these return.)
#include "runtime/transport/libfabric/libfabric.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <rdma/fabric.h>
#include <rdma/fi_errno.h>

#include <cstdlib>

#include "runtime/base/error.hpp"

namespace hocket::transport {
namespace {

// HOCKET_LIBFABRIC names the library's file if it is none that the loader finds, as that of a network's
// vendor.
const char* file_name() {
    const char* named = std::getenv("HOCKET_LIBFABRIC");
    return named && *named ? named : "libfabric.so.1";
}

struct Library {
    decltype(&::fi_getinfo) getinfo;
    decltype(&::fi_freeinfo) freeinfo;
    decltype(&::fi_dupinfo) dupinfo;
    decltype(&::fi_fabric) fabric;
    decltype(&::fi_strerror) strerror;
};

[[noreturn]] void refuse_library() {
    const char* why = dlerror();
    throw Error(Status::transport,
                fmt::format("cannot load {}, which this provider needs: {}; install libfabric 1.17 or "
                            "later (Debian, Ubuntu: apt install libfabric1), or name its file "
                            "(HOCKET_LIBFABRIC)",
                            file_name(), why == nullptr ? "unknown reason" : why));
}

Library load() {
    void* handle = dlopen(file_name(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) refuse_library();
    const auto find = [&](auto& function, const char* name) {
        void* found = dlsym(handle, name);
        if (found == nullptr) refuse_library();
        function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(found);
    };
    Library library{};
    find(library.getinfo, "fi_getinfo");
    find(library.freeinfo, "fi_freeinfo");
    find(library.dupinfo, "fi_dupinfo");
    find(library.fabric, "fi_fabric");
    find(library.strerror, "fi_strerror");
    return library;
}

const Library& loaded() {
    static const Library library = load();  // after a failure the next call tries again
    return library;
}

}  // namespace

void load_libfabric() {
    loaded();
}

}  // namespace hocket::transport

using hocket::transport::loaded;

#pragma GCC visibility push(hidden)
extern "C" {

int fi_getinfo(uint32_t version, const char* node, const char* service, uint64_t flags, const fi_info* hints,
               fi_info** info) {
    return loaded().getinfo(version, node, service, flags, hints, info);
}
void fi_freeinfo(fi_info* info) {
    loaded().freeinfo(info);
}
fi_info* fi_dupinfo(const fi_info* info) {
    return loaded().dupinfo(info);
}
int fi_fabric(fi_fabric_attr* attributes, fid_fabric** fabric, void* context) {
    return loaded().fabric(attributes, fabric, context);
}
const char* fi_strerror(int number) {
    return loaded().strerror(number);
}

}  // extern "C"
#pragma GCC visibility pop
