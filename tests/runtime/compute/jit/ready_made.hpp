// The collection of kernels that the build folder has.
#pragma once

#include <filesystem>

#include "runtime/base/installed.hpp"
#include "runtime/compute/jit/code_collection.hpp"

namespace hocket::test {

// Unit tests are not linked with libhocket.so, beside which it lies.
inline jit::CodeCollection ready_made_of_build() {
    const std::filesystem::path build = own_file().parent_path().parent_path();
    return jit::CodeCollection((build / "capi" / jit::CodeCollection::file_name).string());
}
// A build for a sanitizer has none.
inline bool has_ready_made() {
    return std::filesystem::exists(ready_made_of_build().path());
}

}  // namespace hocket::test
