// An area's virtual base may lie before the memory it stands for (dsl/rank_program.hpp), where pointer
// arithmetic has no defined meaning; so addresses are reckoned as numbers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hocket::engine {

inline std::byte* address(std::byte* base, std::uint64_t offset) {
    return reinterpret_cast<std::byte*>(reinterpret_cast<std::uintptr_t>(base) + offset);
}

inline std::byte* virtual_base(const void* memory, std::uint64_t offset) {
    return reinterpret_cast<std::byte*>(reinterpret_cast<std::uintptr_t>(memory) - offset);
}

}  // namespace hocket::engine
