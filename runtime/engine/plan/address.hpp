// An area's virtual base may lie before the memory that it addresses (dsl/projection/rank_program.hpp).
// Pointer arithmetic is undefined there, so addresses are calculated as numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "dsl/projection/rank_program.hpp"

namespace hocket::engine {

inline std::byte* address(std::byte* base, std::uint64_t offset) {
    return reinterpret_cast<std::byte*>(reinterpret_cast<std::uintptr_t>(base) + offset);
}

inline std::byte* virtual_base(const void* memory, std::uint64_t offset) {
    return reinterpret_cast<std::byte*>(reinterpret_cast<std::uintptr_t>(memory) - offset);
}

// Returns the index of the local peer whose area it is; nullopt for the rank's own areas. Not for shifted
// areas.
inline std::optional<std::size_t> local_peer_of(const dsl::RankProgram& program, dsl::AreaId area) {
    if (area < dsl::areas_of_a_rank || area >= program.first_scratch()) return std::nullopt;
    return area / dsl::areas_of_a_rank - 1;
}

// Places the shifted areas. The areas that they shift must be placed already.
inline void place_shifted(const dsl::RankProgram& program, const std::uint64_t* byte_offsets,
                          std::byte** areas) {
    for (std::size_t i = 0; i < program.shifted.size(); ++i) {
        const dsl::ShiftedArea& shifted = program.shifted[i];
        areas[program.first_shifted() + i] =
            address(areas[shifted.of], byte_offsets[shifted.from] - byte_offsets[shifted.at]);
    }
}

}  // namespace hocket::engine
