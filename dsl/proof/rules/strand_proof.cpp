#include "dsl/proof/rules/strand_proof.hpp"

#include <fmt/format.h>

namespace hocket::dsl {

void StrandProof::begin() {
    if (subject_.graph.strands.size() <= 1) return;
    written_.assign(subject_.places(), nothing);
    read_.assign(subject_.places(), nothing);
}

// Returns true if the two run side by side: their ancestors include different strands of one `parallel`.
bool StrandProof::concurrent(std::uint32_t a, std::uint32_t b) const {
    for (std::uint32_t x = a; x != 0; x = subject_.graph.strands[x].parent)
        for (std::uint32_t y = b; y != 0; y = subject_.graph.strands[y].parent)
            if (x != y && subject_.graph.strands[x].block == subject_.graph.strands[y].block) return true;
    return false;
}

void StrandProof::check(const Step& step, std::size_t at, bool writes) {
    const auto clash = [&](std::uint32_t other) {
        return other != nothing && other != step.strand && concurrent(other, step.strand);
    };
    // Strands that only read the same place don't disturb each other, so the earlier reader stays recorded.
    if (clash(written_[at]) || (writes && clash(read_[at])))
        subject_.refuse(
            step,
            fmt::format("this strand {} {} of rank {}, which a parallel strand {}",
                        writes ? "writes" : "reads", subject_.chunk_text(at), subject_.rank_of(at),
                        clash(written_[at]) ? "writes" : "reads"),
            {{subject_.graph.strands[step.strand].span, "the strands of this parallel"}},
            "strands must work on different parts of the buffer; if one needs what another brings, "
            "it comes after it: `for` instead of `parallel`");
    std::uint32_t& record = writes ? written_[at] : read_[at];
    if (!clash(record)) record = step.strand;
}

}  // namespace hocket::dsl
