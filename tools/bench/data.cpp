#include "tools/bench/data.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "capi/vocabulary.hpp"
#include "runtime/compute/kernels/cpu/apply.hpp"

namespace hocket::bench {
namespace {

constexpr unsigned char guard_byte = 0x5a, poison_byte = 0xa5;

std::uint64_t mix(std::uint64_t z) {  // splitmix64's finaliser
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

template <class Action>
auto with_type(hkt_type type, Action action) {
    return hocket::with_type(capi::find_type(type).value(), action);
}

// The input of one rank.
template <DataType type>
class Input {
  public:
    using Stored = typename ElementOf<type>::Stored;
    using Worked = typename ElementOf<type>::Worked;

    Input(const Layout& layout, std::uint64_t round) : layout_(layout), round_(round) {}

    Stored operator()(int rank, std::size_t i) const {
        const std::uint64_t bits = mix(i + mix(rank + 1 + mix(round_)));
        const bool multiplies = layout_.op == HKT_PRODUCT;
        if constexpr (row_of(type).kind == kind::floating)
            return static_cast<Stored>(multiplies ? power_of_two(bits)
                                                  : static_cast<Worked>(whole_number(rank, i, bits)));
        else if constexpr (row_of(type).kind == kind::truth)
            return static_cast<Stored>(balanced(bits, layout_.op == HKT_MAX || layout_.op == HKT_BOR,
                                                layout_.op == HKT_MIN || layout_.op == HKT_BAND) &
                                       1);
        else
            return static_cast<Stored>(multiplies  // odd: no product loses bits
                                           ? bits | 1
                                           : balanced(bits, layout_.op == HKT_BOR, layout_.op == HKT_BAND));
    }

  private:
    // Sums over all ranks, multiplied or not, stay below 2^digits and are thus exact in any order. If there
    // are more ranks than that allows, some send 0.
    std::int64_t whole_number(int rank, std::size_t i, std::uint64_t bits) const {
        const std::uint64_t most = std::uint64_t{1} << std::numeric_limits<Stored>::digits,
                            parts = layout_.ranks * (multiplies(layout_.op) ? largest_factor : 1),
                            span = std::max<std::uint64_t>(most / parts, 2);
        if ((rank + i) % ((parts + most - 1) / most) != 0) return 0;
        return static_cast<std::int64_t>(bits % span) - static_cast<std::int64_t>(span / 2);
    }

    // Among the random bits of many ranks there is almost always a 1 and a 0, so an or or an and over all
    // ranks would detect nothing. Here the bit of about one rank decides.
    std::uint64_t balanced(std::uint64_t bits, bool are_ored, bool are_anded) const {
        std::uint64_t rare = bits;
        for (int others = layout_.ranks; others > 2; others /= 2) rare &= bits = mix(bits);
        return are_ored ? rare : are_anded ? ~rare : bits;
    }

    // Has either sign. Products of all ranks' values, in any order, are also such numbers, and exact.
    Worked power_of_two(std::uint64_t bits) const {
        const std::uint64_t most = -std::numeric_limits<Stored>::min_exponent / layout_.ranks;
        const int exponent = static_cast<int>(bits / 2 % (2 * most + 1)) - static_cast<int>(most);
        return std::ldexp(static_cast<Worked>(bits % 2 == 0 ? 1 : -1), exponent);
    }

    const Layout& layout_;
    std::uint64_t round_;
};

// Rounds to the stored type.
template <DataType type>
auto rounded(typename ElementOf<type>::Worked value) {
    return static_cast<typename ElementOf<type>::Worked>(
        static_cast<typename ElementOf<type>::Stored>(value));
}

std::size_t count_other(const unsigned char* begin, const unsigned char* end, unsigned char byte) {
    return static_cast<std::size_t>(std::count_if(begin, end, [=](unsigned char b) { return b != byte; }));
}

// Returns the expected result for an element of a rank's input; if values are combined, for all ranks'
// elements in that place.
template <DataType type>
auto expected(const Layout& layout, const Input<type>& input, int origin, std::size_t place) {
    using Worked = typename ElementOf<type>::Worked;
    const auto sent = [&](int rank) { return static_cast<Worked>(input(rank, place)); };
    if (!layout.contract().combines()) return sent(origin);
    return with_op(capi::find_op(layout.op).value(), [&]<ReduceOp op>(OpConstant<op>) -> Worked {
        if constexpr (supports(op, type)) {
            const auto part = [&](int rank) {
                const Worked value = sent(rank);
                if constexpr (!row_of(op).multiplies) return value;
                return rounded<type>(kernels::product(value, static_cast<Worked>(factor_of(rank))));
            };
            Worked value = part(0);
            for (int rank = 1; rank < layout.ranks; ++rank) value = kernels::apply<op>(value, part(rank));
            const auto divisor = divisor_of(op, static_cast<std::uint32_t>(layout.ranks));
            return divisor == 1 ? value : rounded<type>(kernels::divided(value, divisor));
        }
        throw std::logic_error("no such operator for the type");  // pairs_of returns no such pair
    });
}

// Calls action(index, found, expected) with each wrong element of recv, until it returns false.
template <class Action>
void for_each_wrong(const Layout& layout, std::uint64_t round, const void* recv, Action action) {
    with_type(layout.type, [&]<DataType type>(TypeConstant<type>) {
        const Input<type> input(layout, round);
        const auto* values = static_cast<const typename ElementOf<type>::Stored*>(recv);
        std::size_t i = 0;
        for (const auto& [rank, begin, count] : layout.origins())
            for (std::size_t k = 0; k < count; ++k, ++i) {
                const auto right = expected(layout, input, rank, begin + k);
                const auto found = static_cast<decltype(right)>(values[i]);
                if (found != right && !action(i, found, right)) return;
            }
    });
}

}  // namespace

void Layout::divide(const std::vector<std::size_t>& pieces) {
    count = std::accumulate(pieces.begin(), pieces.end(), std::size_t{0});
    counts.clear();
    for (int piece = 0; piece < ranks; ++piece)
        counts.push_back(pieces[(contract().exchanges() ? rank + piece : piece) % ranks]);
}

std::size_t Layout::piece_count(int of_rank, int piece) const {
    if (!subject.has_counts()) return count;
    return counts[contract().exchanges() ? (of_rank + piece + ranks - rank) % ranks : piece];
}

std::size_t Layout::piece_begin(int of_rank, int piece) const {
    std::size_t begin = 0;
    for (int before = 0; before < piece; ++before) begin += piece_count(of_rank, before);
    return begin;
}

std::vector<Origin> Layout::origins() const {
    if (!receives()) return {};
    if (subject.is_messages()) return {{rank_before(), 0, count}};
    if (!contract().gathers() && !contract().exchanges())
        return {{root, recv_offset_in_place(), recv_count()}};
    std::vector<Origin> origins;
    for (int from = 0; from < ranks; ++from)
        origins.push_back(
            {from, contract().exchanges() ? piece_begin(from, rank) : 0, piece_count(rank, from)});
    return origins;
}

std::size_t Layout::elements(dsl::Share share) const {
    switch (share) {
        case dsl::Share::none:
            return 0;
        case dsl::Share::own:
            return piece_count(rank, rank);
        case dsl::Share::whole:
            return larger_count();
    }
    throw std::logic_error("a share that the table does not have");
}

std::size_t Layout::most_recv_count() const {
    const dsl::Shares output = contract().output;
    return std::max(elements(output.root), elements(output.others));
}

Range Layout::used_in_place() const {
    const Range sent{send_offset_in_place(), send_offset_in_place() + send_count()},
        received{recv_offset_in_place(), recv_offset_in_place() + recv_count()};
    if (!sends()) return received;
    if (!receives()) return sent;
    return {std::min(sent.begin, received.begin), std::max(sent.end, received.end)};
}

Range Layout::covered_in_place() const {
    const std::size_t begin = send_offset_in_place(), end = begin + send_count(),
                      covered = recv_offset_in_place();
    return {std::clamp(covered, begin, end) - begin, std::clamp(covered + recv_count(), begin, end) - begin};
}

// Piece r ends where (r + 1)^2 of ranks^2 equal parts end.
std::vector<std::size_t> uneven_pieces(std::size_t count, int ranks) {
    const auto number = static_cast<std::size_t>(ranks);
    const std::size_t parts = number * number, whole = count / parts, rest = count % parts;
    std::vector<std::size_t> pieces;
    for (std::size_t rank = 0, begin = 0; rank < number; ++rank) {
        const std::size_t square = (rank + 1) * (rank + 1), end = whole * square + rest * square / parts;
        pieces.push_back(end - begin);
        begin = end;
    }
    return pieces;
}

Layout layout_for(const Subject& subject, hkt_type type, hkt_op op, int root, int rank, int ranks,
                  std::size_t bytes) {
    Layout layout{subject, type, op, root, rank, ranks, bytes / hkt_type_size(type)};
    if (subject.has_counts())
        layout.divide(uneven_pieces(layout.count, ranks));
    else if (subject.contract().is_by_rank())
        layout.count /= ranks;
    return layout;
}

std::vector<Layout> layouts_for(const Subject& subject, hkt_type type, hkt_op op, int root, int rank,
                                int ranks, const std::vector<std::size_t>& bytes) {
    const bool nothing_too = std::find(bytes.begin(), bytes.end(), 0) != bytes.end();
    std::vector<Layout> layouts;
    for (std::size_t size : bytes) {
        const Layout layout = layout_for(subject, type, op, root, rank, ranks, size);
        const bool repeated = !layouts.empty() && layouts.back().count == layout.count;
        if (!repeated && (layout.count > 0 || nothing_too)) layouts.push_back(layout);
    }
    return layouts;
}

void fill_input(const Layout& layout, std::uint64_t round, void* send) {
    with_type(layout.type, [&]<DataType type>(TypeConstant<type>) {
        const Input<type> input(layout, round);
        auto* values = static_cast<typename ElementOf<type>::Stored*>(send);
        for (std::size_t i = 0; i < layout.send_count(); ++i) values[i] = input(layout.rank, i);
    });
}

std::size_t count_wrong(const Layout& layout, std::uint64_t round, const void* recv) {
    std::size_t wrong = 0;
    for_each_wrong(layout, round, recv, [&](std::size_t, auto, auto) {
        ++wrong;
        return true;
    });
    return wrong;
}

std::optional<WrongElement> first_wrong(const Layout& layout, std::uint64_t round, const void* recv) {
    std::optional<WrongElement> first;
    for_each_wrong(layout, round, recv, [&](std::size_t index, auto found, auto expected) {
        first = {index, fmt::format("{}", found), fmt::format("{}", expected)};
        return false;
    });
    return first;
}

std::size_t count_overwritten(const Layout& layout, std::uint64_t round, const void* send, Range skipped) {
    return with_type(layout.type, [&]<DataType type>(TypeConstant<type>) {
        using Stored = typename ElementOf<type>::Stored;
        using Bits = std::array<std::byte, sizeof(Stored)>;  // NaN differs from itself
        const Input<type> input(layout, round);
        const auto* values = static_cast<const Stored*>(send);
        std::size_t changed = 0;
        for (std::size_t i = 0; i < layout.send_count(); ++i) {
            const Stored sent = input(layout.rank, i);
            changed += (i < skipped.begin || i >= skipped.end) &&
                       std::bit_cast<Bits>(values[i]) != std::bit_cast<Bits>(sent);
        }
        return changed;
    });
}

GuardedBuffer::GuardedBuffer(std::size_t bytes, const Allocate& allocate)
    : bytes_(bytes), memory_(allocate(bytes + 2 * guard_bytes)) {
    std::fill(begin(), end(), guard_byte);
    poison();
    to_device();
}

void GuardedBuffer::poison() {
    std::fill(begin() + guard_bytes, end() - guard_bytes, poison_byte);
}

std::size_t GuardedBuffer::overwritten_guards() const {
    return count_other(begin(), begin() + guard_bytes, guard_byte) +
           count_other(end() - guard_bytes, end(), guard_byte);
}

std::size_t GuardedBuffer::overwritten_outside(Range bytes) const {
    const unsigned char* data = begin() + guard_bytes;
    return count_other(data, data + bytes.begin, poison_byte) +
           count_other(data + bytes.end, data + bytes_, poison_byte);
}

}  // namespace hocket::bench
