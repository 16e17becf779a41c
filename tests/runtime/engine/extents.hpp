// The sizes of the buffers of a rank's start, by the contract of its collective.
#pragma once

#include <algorithm>
#include <cstdint>

#include "dsl/base/collective.hpp"

namespace hocket::test {

// All in elements. A buffer holds `sent` or `received` elements of x, from `send_begin` or `recv_begin` on.
struct Extents {
    std::uint64_t whole, sent, received, send_begin, recv_begin;

    Extents(dsl::Collective collective, dsl::Rank root, dsl::Rank rank, dsl::Rank ranks,
            std::uint64_t count) {
        const dsl::Contract contract = contract_of(collective);
        const dsl::Share input = contract.input.of(rank == root), output = contract.output.of(rank == root);
        const auto own = static_cast<std::uint64_t>(rank) * count;
        whole = contract.is_by_rank() ? static_cast<std::uint64_t>(ranks) * count : count;
        const auto held = [&](dsl::Share share) {
            return share == dsl::Share::none ? 0 : share == dsl::Share::own ? count : whole;
        };
        sent = held(input);
        received = held(output);
        send_begin = input == dsl::Share::own ? own : 0;
        recv_begin = output == dsl::Share::own ? own : 0;
    }
};

// The rank that sends element i of x, in collectives that do not combine; `count` elements are one piece.
inline dsl::Rank sender_of(dsl::Collective collective, dsl::Rank root, std::uint64_t count, std::uint64_t i) {
    const dsl::Contract contract = contract_of(collective);
    return contract.gathers() || contract.exchanges() ? static_cast<dsl::Rank>(i / count) : root;
}

// The position of that element in its send buffer; `rank` receives it.
inline std::uint64_t place_at_sender(dsl::Collective collective, dsl::Rank rank, std::uint64_t count,
                                     std::uint64_t i) {
    const dsl::Contract contract = contract_of(collective);
    if (contract.exchanges()) return static_cast<std::uint64_t>(rank) * count + i % count;
    return contract.gathers() ? i % count : i;
}

}  // namespace hocket::test
