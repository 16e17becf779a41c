// The parts of Computer that pack values and add up packed ones.
#include <algorithm>
#include <array>
#include <stdexcept>

#include "runtime/compute/kernels/cpu/packing.hpp"
#include "runtime/compute/program/computer.hpp"

namespace hocket::compute {

using dsl::WireFormat;

// A piece that an assignment uses.
struct Computer::PackedTerm {
    kernels::PackedPiece piece;
    std::uint64_t begin;  // the element of the target at which its values begin
};

// Calls call(begin, n, to) for strips of whole blocks of a piece: its elements begin .. begin + n - 1, and
// the place where they are packed.
template <typename Call>
void Computer::for_strips_to_pack(const dsl::Op& pack, const Start& start, Call call) const {
    const DataType type = type_of(program_.computations[pack.computation].elements[0], type_);
    const dsl::MessagePart& from = pack.reads[0][0];
    const std::uint64_t count =
        (start.byte_offsets[from.end] - start.byte_offsets[from.begin]) / element_size(type);
    const WireFormat& format = format_of(pack);
    const std::uint64_t most = strip_elements / format.block * format.block;
    std::byte* to = at(pack.part(0), start);
    for (std::uint64_t done = 0; done < count;) {
        const std::uint64_t n = std::min(count - done, most);
        call(done, n, to);
        to += format.bytes(n);
        done += n;
    }
}

const WireFormat& Computer::format_of(const dsl::Op& pack) const {
    return *program_.extra_at(program_.computations[pack.computation].target).buffer.format;
}

// Elements of 16 bits are widened first.
void Computer::pack(const dsl::Op& op, const Start& start) const {
    const DataType type = type_of(program_.computations[op.computation].elements[0], type_);
    const std::byte* const from = at(op.reads[0][0], start);
    std::vector<float> widened(type == DataType::float32 ? 0 : strip_elements);
    for_strips_to_pack(op, start, [&](std::uint64_t begin, std::uint64_t n, std::byte* to) {
        const std::byte* const values = from + begin * element_size(type);
        if (type == DataType::float32)
            return kernels::pack(format_of(op), reinterpret_cast<const float*>(values), n, to);
        const FormulaOperand elements{values, type};
        formulas_[op.computation].run({{&elements, 1}, {}, {}}, n,
                                      reinterpret_cast<std::byte*>(widened.data()));
        kernels::pack(format_of(op), widened.data(), n, to);
    });
}

// add: the operation e = e + x.
void Computer::pack_with_feedback(const dsl::Op& add, const Feedback& feedback, const Start& start) const {
    const dsl::Op& pack = program_.ops[feedback.select];
    const dsl::Computation& sum = program_.computations[add.computation];
    for_strips_to_pack(pack, start, [&](std::uint64_t begin, std::uint64_t n, std::byte* to) {
        std::array<FormulaOperand, 2> operands;
        for (std::size_t i = 0; i < operands.size(); ++i) {
            const DataType type = type_of(sum.elements[i], type_);
            operands[i] = {at(add.reads[i][0], start) + begin * element_size(type), type};
        }
        float* const e = reinterpret_cast<float*>(at(add.part(0), start)) + begin;
        formulas_[add.computation].run({operands, {}, {}}, n, reinterpret_cast<std::byte*>(e));
        kernels::pack(format_of(pack), e, n, to);
        kernels::subtract_unpacked({format_of(pack), to, n}, 0, n, e);
    });
}

// first: the element of x at which the target begins.
std::vector<Computer::PackedTerm> Computer::packed_terms(const dsl::Op& op, const Start& start,
                                                         std::uint64_t first) const {
    const dsl::Computation& computation = program_.computations[op.computation];
    const std::int64_t position = computation.sparse[0].buffer;
    const std::size_t extra = dsl::extra_index(position);
    const dsl::ExtraBuffer& buffer = program_.extra_at(position).buffer;
    std::vector<PackedTerm> terms;
    for (const dsl::MessagePart& part : op.reads[computation.elements.size()]) {
        const auto [begin, count] = start.extras.region(extra, piece_of(part, position));
        terms.push_back({{*buffer.format, at(part, start), count}, begin - first});
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
    const auto apply = adds ? kernels::add_unpacked : kernels::subtract_unpacked;
    const std::vector<PackedTerm> terms = packed_terms(op, start, target.first);
    std::vector<float> strip(is_direct ? 0 : std::min(target.count, strip_elements));
    for (std::uint64_t begin = 0; begin < target.count; begin += strip_elements) {
        const std::uint64_t n = std::min(strip_elements, target.count - begin), end = begin + n;
        float* const to = is_direct ? reinterpret_cast<float*>(target.begin) + begin : strip.data();
        if (!stays) formulas_[op.computation].run({}, n, reinterpret_cast<std::byte*>(to));
        for (const PackedTerm& term : terms) {
            const std::uint64_t from = std::max(begin, term.begin),
                                last = std::min(end, term.begin + term.piece.count);
            if (from >= last) continue;
            apply(term.piece, from - term.begin, last - from, to + (from - begin));
        }
        if (is_direct) continue;
        const FormulaOperand sums{reinterpret_cast<const std::byte*>(strip.data()), DataType::float32};
        rounding_->run({{&sums, 1}, {}, {}}, n, target.begin + begin * element_size(type));
    }
}

}  // namespace hocket::compute
