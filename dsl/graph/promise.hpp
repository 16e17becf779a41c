// What a collective that a file defines promises on one topology: who holds what before, who must hold what
// after. x is one chunk, or has one for each rank.
#pragma once

#include <cstdint>
#include <vector>

#include "dsl/base/collective.hpp"
#include "dsl/base/nothing.hpp"
#include "dsl/base/source.hpp"

namespace hocket::dsl {

struct Promise {
    // What a chunk of a rank must hold at the end.
    struct Wanted {
        std::uint32_t members = nothing;  // index into members; `nothing`: may hold anything
        std::uint32_t claim = 0;          // index into claims
        Rank chunk = 0;                   // of the inputs
    };

    Rank chunks = 0;                         // 0: the collective is one of the table's
    std::vector<bool> held;                  // by place: rank * chunks + chunk
    std::vector<Wanted> wanted;              // by place
    std::vector<std::vector<Rank>> members;  // ranks, ascending: those whose values are combined
    std::vector<Span> claims;                // the contract's statements
    std::vector<bool> gives, gets;  // by rank: it holds something before, and must hold something after
    bool moves = false;             // a chunk must hold another chunk of the inputs

    bool is_given() const { return chunks > 0; }
    std::size_t place(Rank rank, Rank chunk) const {
        return static_cast<std::size_t>(rank) * static_cast<std::size_t>(chunks) +
               static_cast<std::size_t>(chunk);
    }
};

}  // namespace hocket::dsl
