#include "capi/growth.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "runtime/base/error.hpp"

namespace hocket::capi::growth {
namespace {

[[noreturn]] void refuse(const std::string& text) {
    throw Error(Status::invalid_argument, text);
}

}  // namespace

void check_size(std::size_t size, std::size_t first, const char* name, const char* cure) {
    if (size < first)
        refuse(fmt::format("{} is {}, but the first version had {} bytes; {}", name, size, first, cure));
    if (size > largest_struct)
        refuse(fmt::format("{} is {}, but no version has more than {} bytes; {}", name, size, largest_struct,
                           cure));
}

void check_place(const void* to, const char* name) {
    if (to == nullptr) refuse(fmt::format("{} is given, but the pointer to the struct is null", name));
}

void take(void* options, std::size_t known, const void* given, std::size_t size, const char* name) {
    const auto* bytes = static_cast<const unsigned char*>(given);
    std::memcpy(options, bytes, std::min(size, known));
    if (size <= known) return;
    if (std::any_of(bytes + known, bytes + size, [](unsigned char byte) { return byte != 0; }))
        refuse(fmt::format(
            "{} is {}; this library (version {}) knows {} bytes of that struct, and the bytes after "
            "those are not 0: the program was compiled with a newer hocket.h, and asks for an "
            "option that this library does not have",
            name, size, HOCKET_VERSION, known));
}

void give(void* to, std::size_t size, const void* answer, std::size_t known) {
    const std::size_t both = std::min(size, known);
    std::memcpy(to, answer, both);
    std::memset(static_cast<unsigned char*>(to) + both, 0, size - both);
}

}  // namespace hocket::capi::growth
