#include "reference.hpp"

#include <algorithm>
#include <sstream>
#include <utility>

#include "reference_check.hpp"
#include "reference_layout.hpp"

namespace hocket::reference {
namespace {

using Fold = std::function<std::uint64_t(std::uint64_t, std::uint64_t)>;

struct Elements {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
};

std::uint64_t boundary(const Fraction& fraction, std::uint64_t count) {
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::uint64_t>(Wide{count} * static_cast<std::uint64_t>(fraction.numerator) /
                                      static_cast<std::uint64_t>(fraction.denominator));
}

Elements elements_of(const Piece& piece, std::uint64_t count) {
    return {boundary(piece.begin, count), boundary(piece.end, count)};
}

std::uint64_t folded(const std::vector<std::int64_t>& ranks, const std::vector<Values>& held,
                     std::uint64_t element, const Fold& fold) {
    std::uint64_t result = held[ranks[0]][element].value();
    for (std::size_t i = 1; i < ranks.size(); ++i) result = fold(result, held[ranks[i]][element].value());
    return result;
}

// One phase at a time: all that it writes is worked out before any of it is written.
void run_writes(const Proof& proof, std::uint64_t count, const Fold& fold, std::vector<Values>& held) {
    struct Result {
        std::int64_t rank;
        std::uint64_t element;
        std::uint64_t value;
    };
    std::vector<Result> results;
    auto write = proof.writes.begin();
    while (write != proof.writes.end()) {
        const std::int64_t phase = write->phase;
        results.clear();
        for (; write != proof.writes.end() && write->phase == phase; ++write) {
            const std::size_t atom = write->place.atom;
            const Elements elements =
                elements_of({proof.boundaries[atom], proof.boundaries[atom + 1]}, count);
            for (std::uint64_t element = elements.begin; element < elements.end; ++element) {
                results.push_back({write->place.rank, element, folded(write->operands, held, element, fold)});
            }
        }
        for (const Result& result : results) held[result.rank][result.element] = result.value;
    }
}

void append_pieces(const std::vector<Piece>& pieces, std::ostringstream& out) {
    const auto append = [&](const Fraction& fraction) {
        out << fraction.numerator;
        if (fraction.denominator != 1) out << "/" << fraction.denominator;
    };
    for (std::size_t i = 0; i < pieces.size(); ++i) {
        out << (i == 0 ? " [" : " + [");
        append(pieces[i].begin);
        out << ", ";
        append(pieces[i].end);
        out << ")";
    }
}

}  // namespace

struct Meaning::Parts {
    std::string refusal;
    std::string collective;
    std::int64_t root = 0;
    std::int64_t ranks = 0;
    Plan plan;
    Proof proof;
};

Meaning::Meaning(const Request& request) : parts_(std::make_unique<Parts>()) {
    try {
        const Topology topology(request.levels);
        parts_->collective = request.collective;
        parts_->root = collective_of(request.collective).has_root() ? request.root : 0;
        parts_->ranks = topology.ranks();
        parts_->plan = lay_out(request, topology);
        parts_->proof = prove(parts_->plan, parts_->collective, parts_->root, parts_->ranks);
    } catch (const Refusal& refusal) {
        parts_->refusal = refusal.what();
    }
}

Meaning::Meaning(Meaning&&) noexcept = default;
Meaning::~Meaning() = default;

const std::string& Meaning::refusal() const {
    return parts_->refusal;
}

std::vector<Values> Meaning::run(
    std::uint64_t count, const std::function<std::uint64_t(std::int64_t, std::uint64_t)>& input,
    const std::function<std::uint64_t(std::uint64_t, std::uint64_t)>& fold) const {
    const Parts& parts = *parts_;
    std::vector<Values> held(parts.ranks, Values(count));
    for (std::int64_t rank = 0; rank < parts.ranks; ++rank) {
        for (const Piece& piece : input_of(rank, parts.collective, parts.root, parts.ranks)) {
            const Elements elements = elements_of(piece, count);
            for (std::uint64_t i = elements.begin; i < elements.end; ++i) held[rank][i] = input(rank, i);
        }
    }

    run_writes(parts.proof, count, fold, held);

    std::vector<Values> outputs(parts.ranks, Values(count));
    for (std::int64_t rank = 0; rank < parts.ranks; ++rank) {
        for (const Piece& piece : output_of(rank, parts.collective, parts.root, parts.ranks)) {
            const Elements elements = elements_of(piece, count);
            for (std::uint64_t i = elements.begin; i < elements.end; ++i) outputs[rank][i] = held[rank][i];
        }
    }
    return outputs;
}

std::string Meaning::transfers() const {
    std::ostringstream out;
    for (const Transfer& transfer : parts_->plan.transfers) {
        out << "phase " << transfer.phase << ": rank " << transfer.from
            << (transfer.combines ? " +> " : " -> ") << "rank " << transfer.to;
        append_pieces(transfer.pieces, out);
        out << "\n";
    }
    return out.str();
}

}  // namespace hocket::reference
