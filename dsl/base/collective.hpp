// The table of collectives holds everything the code knows about a collective by name. A row says which part
// of the data each rank has at the start, which part each must have at the end, and whether values are
// combined. The verifier proves the row's promise; projection, planner, runtime, C ABI and tools read it.
// Collectives that a schedule file defines have rows, too, which are added when the file is read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>

namespace hocket::dsl {

using Rank = std::int32_t;

// The part of a collective's data x that a rank's buffer holds: none (the buffer is ignored), the rank's own
// piece (x is then divided into one piece per rank, in rank order), or all of it.
enum class Share : std::uint8_t { none, own, whole };

// The value at a place of a rank's result. copies: the input value of the rank that had this place. combines:
// all ranks' values of this place, combined. exchanges: piece s of rank r's result is piece r of rank s's
// input.
enum class Effect : std::uint8_t { copies, combines, exchanges };

// ROW(name, its constant in hocket.h, share of the send buffers: the root's, the others',
//           share of the receive buffers: the root's, the others', effect)
#define HOCKET_COLLECTIVES(ROW)                                               \
    ROW(all_reduce, HKT_ALL_REDUCE, whole, whole, whole, whole, combines)     \
    ROW(reduce_scatter, HKT_REDUCE_SCATTER, whole, whole, own, own, combines) \
    ROW(all_gather, HKT_ALL_GATHER, own, own, whole, whole, copies)           \
    ROW(broadcast, HKT_BROADCAST, whole, none, whole, whole, copies)          \
    ROW(gather, HKT_GATHER, own, own, whole, none, copies)                    \
    ROW(reduce, HKT_REDUCE, whole, whole, whole, none, combines)              \
    ROW(scatter, HKT_SCATTER, whole, none, own, own, copies)                  \
    ROW(all_to_all, HKT_ALL_TO_ALL, whole, whole, whole, whole, exchanges)

// Numbers above the table's are of collectives that files define.
enum class Collective : std::uint16_t {
#define HOCKET_ROW(name, ...) name,
    HOCKET_COLLECTIVES(HOCKET_ROW)
#undef HOCKET_ROW
};

inline constexpr Collective all_collectives[] = {
#define HOCKET_ROW(name, ...) Collective::name,
    HOCKET_COLLECTIVES(HOCKET_ROW)
#undef HOCKET_ROW
};

struct Shares {
    Share root, others;
    constexpr Share of(bool is_root) const { return is_root ? root : others; }
    constexpr bool has(Share share) const { return root == share || others == share; }
    constexpr bool differ() const { return root != others; }
};

// The facts about a collective that a file defines which hold on every topology. A rank of which its contract
// says nothing has no buffer (Share::none), which only a topology shows: dsl/graph/promise.hpp.
struct OwnContract {
    std::string name;
    std::string text;  // of the definition, as ast::print has it: two are the same if their texts are
    Share input = Share::whole, output = Share::whole;
    bool combines = false;
    bool has_root = false;
    bool is_by_rank = false;  // the definition names chunks of x
};

struct Contract {
    std::string_view name;
    Shares input, output;
    Effect effect;
    const OwnContract* own = nullptr;  // if a file defines it

    constexpr bool combines() const { return effect == Effect::combines; }
    constexpr bool exchanges() const { return effect == Effect::exchanges; }

    // True if one rank's buffers differ from those of all others, or if a definition names a root.
    constexpr bool has_root() const { return own ? own->has_root : input.differ() || output.differ(); }
    // True if the data come from the root, or go to the root.
    constexpr bool spreads() const { return input.differ(); }
    constexpr bool concentrates() const { return output.differ(); }
    // True if x is divided by rank: the collective's function then takes the count of one piece.
    constexpr bool is_by_rank() const {
        return own ? own->is_by_rank : scatters() || gathers() || exchanges();
    }
    constexpr bool scatters() const { return output.has(Share::own); }
    constexpr bool gathers() const { return input.has(Share::own); }
};

// Defined outside contract_of, where the compiler would write the table onto the stack at every call.
inline constexpr Contract contracts[] = {
#define HOCKET_ROW(name, constant, in_root, in_others, out_root, out_others, effect) \
    {#name, {Share::in_root, Share::in_others}, {Share::out_root, Share::out_others}, Effect::effect},
    HOCKET_COLLECTIVES(HOCKET_ROW)
#undef HOCKET_ROW
};

// Stands for a collective that no file has been found to define.
inline constexpr Collective undefined_collective{0xffff};

constexpr bool is_own(Collective collective) {
    return static_cast<std::size_t>(collective) >= std::size(contracts);
}

// Returns the collective that a file defines so. The same definition gives the same collective wherever it
// stands, as long as the process lives. Thread-safe. Throws std::length_error after 60000 different ones.
Collective define(OwnContract contract);
// Throws std::logic_error if the number is not a collective's. Thread-safe.
const Contract& own_contract(Collective collective);
// Returns a number that is the same in every process.
std::uint64_t identity_of(Collective collective);

constexpr const Contract& contract_of(Collective collective) {
    return is_own(collective) ? own_contract(collective) : contracts[static_cast<std::size_t>(collective)];
}

constexpr std::string_view name_of(Collective collective) {
    return contract_of(collective).name;
}

}  // namespace hocket::dsl
