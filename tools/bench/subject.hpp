// What can be measured and checked: each collective; where its data are divided by rank, its function with
// counts by rank, too; and messages between two ranks. There is no list of them but the collectives' own.
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
    // Else it is run by its function alone.
    bool has_plans() const { return kind == Kind::collective; }
    // A message that comes may not lie where another is still to be sent.
    bool has_in_place() const { return !is_messages(); }
    // Of messages: as a collective's would be.
    const dsl::Contract& contract() const;
    std::string name() const;

    hkt_collective collective;  // says nothing of messages
    Kind kind;
};

const std::vector<Subject>& all_subjects();
std::optional<Subject> find_subject(std::string_view name);

}  // namespace hocket::bench
