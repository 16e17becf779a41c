#include "tests/differential/reference/reference.hpp"

#include <algorithm>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "tests/differential/reference/check.hpp"
#include "tests/differential/reference/layout.hpp"

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

Elements elements_of(std::size_t atom, const Proof& proof, std::uint64_t count) {
    return elements_of(Piece{proof.boundaries[atom], proof.boundaries[atom + 1]}, count);
}

// Folds the i-th elements of the operands' places.
std::uint64_t folded(const Write& write, const Proof& proof, std::uint64_t count,
                     const std::vector<Values>& held, std::uint64_t i, const Fold& fold) {
    std::optional<std::uint64_t> result;
    for (const Place& operand : write.operands) {
        const Elements elements = elements_of(operand.atom, proof, count);
        if (elements.begin + i >= elements.end) throw std::logic_error("an operand is too short");
        const std::uint64_t value = held[operand.rank][elements.begin + i].value();
        result = result ? fold(*result, value) : value;
    }
    return result.value();
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
            const Elements elements = elements_of(write->place.atom, proof, count);
            for (std::uint64_t element = elements.begin; element < elements.end; ++element) {
                const std::uint64_t value =
                    folded(*write, proof, count, held, element - elements.begin, fold);
                results.push_back({write->place.rank, element, value});
            }
        }
        for (const Result& result : results) held[result.rank][result.element] = result.value;
    }
}

void append_pieces(const std::vector<Shift>& shifts, Piece Shift::*side, std::ostringstream& out) {
    const auto append = [&](const Fraction& fraction) {
        out << fraction.numerator;
        if (fraction.denominator != 1) out << "/" << fraction.denominator;
    };
    for (std::size_t i = 0; i < shifts.size(); ++i) {
        out << (i == 0 ? " [" : " + [");
        append((shifts[i].*side).begin);
        out << ", ";
        append((shifts[i].*side).end);
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
    const auto generations = static_cast<std::uint64_t>(parts.plan.generations);
    std::vector<Values> held(parts.ranks, Values(count * generations));
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
            for (std::uint64_t i = elements.begin; i < elements.end; ++i) {
                outputs[rank][i] = held[rank][count * (generations - 1) + i];
            }
        }
    }
    return outputs;
}

bool Meaning::shifts() const {
    for (const Transfer& transfer : parts_->plan.transfers) {
        for (const Shift& shift : transfer.shifts) {
            if (!(shift.from == shift.to)) return true;
        }
    }
    return false;
}

std::string Meaning::transfers() const {
    std::ostringstream out;
    for (const Transfer& transfer : parts_->plan.transfers) {
        out << "phase " << transfer.phase << ": rank " << transfer.from
            << (transfer.combines ? " +> " : " -> ") << "rank " << transfer.to;
        append_pieces(transfer.shifts, &Shift::from, out);
        out << " to";
        append_pieces(transfer.shifts, &Shift::to, out);
        out << "\n";
    }
    return out.str();
}

}  // namespace hocket::reference
