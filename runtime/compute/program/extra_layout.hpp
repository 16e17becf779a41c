// The layout of the buffers besides x, for a schedule that computes.
//
// States and given buffers have areas of their own; a position in them is at its fraction of the count, as in
// x. Selections and sums are in the work area behind x, one piece per rank. A piece of a selection holds its
// values and then, at a multiple of 4 bytes, their indices, which count from the beginning of the region that
// the rank selected from. A piece of packed values holds the blocks of its format. A piece of sums holds a
// float64 for each tensor.
#pragma once

#include <cstdint>
#include <span>

#include "dsl/projection/rank_program.hpp"
#include "runtime/base/layout.hpp"
#include "runtime/base/types.hpp"
#include "runtime/compute/program/arguments.hpp"

namespace hocket::compute {

// Returns the type of states and given buffers: float32 for all types of up to 32 bits.
constexpr DataType working_type(DataType type) {
    return type == DataType::float64 ? DataType::float64 : DataType::float32;
}

// Returns the type of a buffer's elements, by its position, where x has this type.
constexpr DataType type_of(std::int64_t buffer, DataType type) {
    return buffer < dsl::first_extra ? type : working_type(type);
}

// Returns the offset of the indices in a selection's piece: the bytes of its k values, rounded up to the
// alignment.
constexpr std::uint64_t bytes_of_values(std::uint64_t k, DataType type) {
    return (k * element_size(type) + sizeof(std::uint32_t) - 1) / sizeof(std::uint32_t) *
           sizeof(std::uint32_t);
}

class ExtraLayout {
  public:
    ExtraLayout() = default;
    // densities: by extra buffer; used for those that select only. tensors: their number.
    ExtraLayout(const dsl::RankProgram& program, DataType type, const Layout& layout,
                std::vector<double> densities, std::uint64_t tensors);

    // Returns the work area's bytes, including x and its alignment.
    std::uint64_t work_bytes() const { return work_bytes_; }
    // Returns the offset of a position in its area. Only for positions beyond x.
    std::uint64_t offset(const dsl::Rational& position) const;

    // Returns the number of elements in a piece of this extra buffer, which selects.
    std::uint64_t selected(std::size_t extra, const dsl::PieceOf& piece) const;
    // The first element of x in a piece's region, and the number of elements.
    struct Stretch {
        std::uint64_t begin, count;
    };
    Stretch region(std::size_t extra, const dsl::PieceOf& piece) const;

    const std::vector<double>& densities() const { return densities_; }

  private:
    const dsl::RankProgram* program_ = nullptr;
    Layout layout_{0};
    std::uint64_t element_ = 0, work_bytes_ = 0;
    std::vector<double> densities_;
    // By extra buffer. begins_: of the pieces, and then the end.
    std::vector<std::vector<std::uint64_t>> selected_, begins_;
};

// Returns the densities of a start. Throws Error (invalid_argument) if one is not from 0 to 1.
std::vector<double> densities_of(const dsl::RankProgram& program, const Arguments* arguments);

}  // namespace hocket::compute
