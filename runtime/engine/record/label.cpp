#include "runtime/engine/record/label.hpp"

#include <fmt/format.h>

namespace hocket::record {

std::string type_text(const Label& label) {
    std::string text = label.type;
    if (!label.op.empty()) text += " " + label.op;
    if (label.root >= 0) text += fmt::format(" {} rank {}", label.spreads ? "from" : "to", label.root);
    return text;
}

std::string source_text(const Label& label) {
    if (label.source.empty()) return "";
    return fmt::format("{} in {}, fingerprint {:016x}", label.schedule, label.source, label.fingerprint);
}

std::string describe(const Label& label, std::uint64_t number, std::uint64_t count) {
    if (!label.purpose.empty()) return fmt::format("{} #{} ({} ranks)", label.purpose, number, label.ranks);
    std::string text = fmt::format("{} #{} ({} on {}, {}", label.collective, number, label.schedule,
                                   label.topology, type_text(label));
    // By pair, each rank has different counts.
    if (!label.is_by_pair) text += fmt::format(", {} element{}", count, count == 1 ? "" : "s");
    return text + ")";
}

}  // namespace hocket::record
