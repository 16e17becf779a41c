// Everything that can be measured and checked: each collective; if its data are divided by rank, also its
// function with counts by rank; and messages between two ranks. There is no list of them except that of the
// collectives.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "capi/hocket.h"
#include "capi/vocabulary.hpp"
#include "dsl/base/collective.hpp"

namespace hocket::bench {

inline const dsl::Contract& contract_of(hkt_collective collective) {
    return dsl::contract_of(capi::find_collective(collective).value());
}

struct Subject {
    // messages: every rank sends to the next one, the last to the first.
    enum class Kind : std::uint8_t { collective, with_counts, messages };

    Subject(hkt_collective its_collective = HKT_ALL_REDUCE, Kind its_kind = Kind::collective)
        : collective(its_collective), kind(its_kind) {}

    bool operator==(const Subject&) const = default;
    bool has_counts() const { return kind == Kind::with_counts; }
    bool is_messages() const { return kind == Kind::messages; }
    // Returns false if only its function can run it.
    bool has_plans() const { return kind == Kind::collective; }
    // In place, a received message could overwrite one that is still to be sent.
    bool has_in_place() const { return !is_messages(); }
    // For messages, as if they were a collective.
    const dsl::Contract& contract() const;
    std::string name() const;

    hkt_collective collective;  // meaningless for messages
    Kind kind;
};

const std::vector<Subject>& all_subjects();
std::optional<Subject> find_subject(std::string_view name);

}  // namespace hocket::bench
