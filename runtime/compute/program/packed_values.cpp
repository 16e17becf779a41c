// The parts of Computer that pack values and add up packed ones.
#include <algorithm>
#include <stdexcept>

#include "runtime/compute/kernels/cpu/packing.hpp"
#include "runtime/compute/program/computer.hpp"

namespace hocket::compute {
namespace {

using dsl::WireFormat;

constexpr std::uint64_t packed_strip = 1 << 14;  // stay in the processor's cache
static_assert(packed_strip % WireFormat::most_block == 0);

}  // namespace

// A piece that an assignment uses.
struct Computer::PackedTerm {
    kernels::PackedPiece piece;
    std::uint64_t begin;  // the element of the target at which its values begin
};

// A part's first block begins with the part. Elements of 16 bits are widened in strips of whole blocks.
void Computer::pack(const dsl::Op& op, const Start& start) const {
    const dsl::Computation& computation = program_.computations[op.computation];
    const std::size_t extra = dsl::extra_index(computation.target);
    const dsl::ExtraBuffer& buffer = program_.extras[extra].buffer;
    const DataType type = type_of(computation.elements[0], type_);
    const std::byte* const from = at(op.reads[0][0], start);
    const std::uint64_t first = start.extras.region(extra, program_.rank).begin,
                        whole_blocks = packed_strip / buffer.format.block * buffer.format.block;
    std::vector<float> strip(type == DataType::float32 ? 0 : whole_blocks);
    std::byte* const pieces = at(op.part(0), start);
    for (std::int64_t part = 0; part < buffer.parts; ++part) {
        const dsl::PieceOf piece{program_.rank, part};
        const auto [begin, count] = start.extras.region(extra, piece, buffer.parts);
        std::byte* to =
            pieces + (start.extras.piece(extra, piece) - start.extras.piece(extra, {program_.rank, 0}));
        const std::byte* values = from + (begin - first) * element_size(type);
        if (type == DataType::float32) {
            kernels::pack(buffer.format, reinterpret_cast<const float*>(values), count, to);
            continue;
        }
        for (std::uint64_t done = 0; done < count;) {
            const std::uint64_t n = std::min(count - done, whole_blocks);
            const FormulaOperand elements{values + done * element_size(type), type};
            formulas_[op.computation].run({{&elements, 1}, {}, {}}, n,
                                          reinterpret_cast<std::byte*>(strip.data()));
            kernels::pack(buffer.format, strip.data(), n, to);
            to += buffer.format.bytes(n);
            done += n;
        }
    }
}

// first: the element of x at which the target begins.
std::vector<Computer::PackedTerm> Computer::packed_terms(const dsl::Op& op, const Start& start,
                                                         std::uint64_t first) const {
    const dsl::Computation& computation = program_.computations[op.computation];
    const std::int64_t position = computation.sparse[0].buffer;
    const std::size_t extra = dsl::extra_index(position);
    const dsl::ExtraBuffer& buffer = program_.extras[extra].buffer;
    std::vector<PackedTerm> terms;
    for (const dsl::MessagePart& part : op.reads[computation.elements.size()]) {
        const dsl::Rational within = program_.boundaries[part.begin] - dsl::Rational(position);
        const auto [begin, count] =
            start.extras.region(extra, dsl::piece_at(buffer, within, program_.ranks), buffer.parts);
        terms.push_back({{buffer.format, at(part, start), count}, begin - first});
    }
    return terms;
}

// Adds up the pieces in the order of their ranks, in float32, and rounds once. Works in strips, to which each
// piece adds its values in turn. stays: the formula is the target itself.
void Computer::assign_packed(const dsl::Op& op, const Start& start, const Target& target, bool stays) const {
    const dsl::Computation& computation = program_.computations[op.computation];
    const DataType type = type_of(computation.target, type_);
    const bool is_direct = type == DataType::float32;
    if (computation.sparse.size() != 1 || (!stays && !computation.elements.empty()) || (stays && !is_direct))
        throw std::logic_error("packed values are added to 0, or taken out of the state that they came from");
    const bool adds = computation.sparse[0].use == dsl::Computation::Sparse::Use::add;
    const std::vector<PackedTerm> terms = packed_terms(op, start, target.first);
    std::vector<float> strip(is_direct ? 0 : std::min(target.count, packed_strip));
    for (std::uint64_t begin = 0; begin < target.count; begin += packed_strip) {
        const std::uint64_t n = std::min(packed_strip, target.count - begin), end = begin + n;
        float* const to = is_direct ? reinterpret_cast<float*>(target.begin) + begin : strip.data();
        if (!stays) formulas_[op.computation].run({}, n, reinterpret_cast<std::byte*>(to));
        for (const PackedTerm& term : terms) {
            const std::uint64_t from = std::max(begin, term.begin),
                                last = std::min(end, term.begin + term.piece.count);
            if (from >= last) continue;
            (adds ? kernels::add_unpacked : kernels::subtract_unpacked)(term.piece, from - term.begin,
                                                                        last - from, to + (from - begin));
        }
        if (is_direct) continue;
        const FormulaOperand sums{reinterpret_cast<const std::byte*>(strip.data()), DataType::float32};
        rounding_->run({{&sums, 1}, {}, {}}, n, target.begin + begin * element_size(type));
    }
}

}  // namespace hocket::compute
