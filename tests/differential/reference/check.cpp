#include "tests/differential/reference/check.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace hocket::reference {
namespace {

using Contributions = std::uint64_t;  // a bit for each rank

constexpr std::size_t most_places = 4'000'000;

Contributions only(std::int64_t rank) {
    return Contributions{1} << rank;
}
Contributions all(std::int64_t ranks) {
    return ranks == 64 ? ~Contributions{0} : only(ranks) - 1;
}

Piece whole() {
    return {Fraction(0, 1), Fraction(1, 1)};
}
Piece own_piece(std::int64_t rank, std::int64_t ranks) {
    return {Fraction(rank, ranks), Fraction(rank + 1, ranks)};
}

std::vector<Piece> pieces_of(Collective::Holds holds, std::int64_t rank, std::int64_t ranks) {
    if (holds == Collective::Holds::nothing) return {};
    if (holds == Collective::Holds::own_piece) return {own_piece(rank, ranks)};
    return {whole()};
}

// The atoms of a piece, from `begin` to before `end`.
struct Atoms {
    std::size_t begin = 0;
    std::size_t end = 0;

    std::size_t size() const { return end - begin; }
};

// As many on both sides.
struct AtomShift {
    Atoms from;
    Atoms to;
};

// That a transfer writes to a place.
struct Touch {
    Place place;
    Place source;
    const Transfer* transfer = nullptr;
};

// The contents of a place: the ranks whose contributions it has (no ranks: it is empty), and which atom of x
// they were at the start.
struct Content {
    Contributions ranks = 0;
    std::size_t atom = 0;

    friend bool operator==(const Content& a, const Content& b) {
        return a.ranks == b.ranks && a.atom == b.atom;
    }
};

class Prover {
  public:
    Prover(const Plan& plan, const std::string& collective, std::int64_t root, std::int64_t ranks)
        : plan_(plan), collective_(collective), root_(root), ranks_(ranks) {}

    Proof prove();

  private:
    void find_boundaries();
    void cut_alike();
    void sort();
    void find_atoms();
    void fill_inputs();
    std::vector<Touch> touches_of_phase(std::size_t begin, std::size_t end) const;
    void run_phase(std::size_t begin, std::size_t end);
    Write gather_write(std::vector<Touch>::const_iterator begin,
                       std::vector<Touch>::const_iterator end) const;
    Content result_of(const Write& write, Position at) const;
    Content promise(std::int64_t rank, std::size_t atom) const;
    void check_strands(const Strands& strands) const;
    void check_outputs() const;

    Atoms atoms_of(const Piece& piece) const { return {number_of(piece.begin), number_of(piece.end)}; }
    std::size_t number_of(const Fraction& boundary) const {
        const auto& all = proof_.boundaries;
        return static_cast<std::size_t>(std::lower_bound(all.begin(), all.end(), boundary) - all.begin());
    }
    std::size_t atom_count() const { return proof_.boundaries.size() - 1; }
    // The atoms of x are the first of them.
    std::size_t atoms_of_x() const { return number_of(Fraction(1, 1)); }
    std::size_t index(const Place& place) const { return place.rank * atom_count() + place.atom; }
    std::string name(const Place& place) const;

    const Plan& plan_;
    const std::string& collective_;
    const std::int64_t root_;
    const std::int64_t ranks_;
    Proof proof_;
    std::vector<std::vector<AtomShift>> atoms_;  // by transfer
    std::vector<Content> held_;                  // by place
};

Proof Prover::prove() {
    find_boundaries();
    find_atoms();
    fill_inputs();
    std::size_t begin = 0;
    while (begin < plan_.transfers.size()) {
        std::size_t end = begin;
        while (end < plan_.transfers.size() && plan_.transfers[end].phase == plan_.transfers[begin].phase) {
            ++end;
        }
        run_phase(begin, end);
        begin = end;
    }
    for (const Strands& strands : plan_.parallels) check_strands(strands);
    check_outputs();
    return std::move(proof_);
}

void Prover::find_boundaries() {
    std::vector<Fraction>& boundaries = proof_.boundaries;
    const auto add = [&](const Piece& piece) {
        boundaries.push_back(piece.begin);
        boundaries.push_back(piece.end);
    };
    add(whole());
    for (std::int64_t rank = 0; rank < ranks_; ++rank) add(own_piece(rank, ranks_));
    for (const Transfer& transfer : plan_.transfers) {
        for (const Shift& shift : transfer.shifts) {
            add(shift.from);
            add(shift.to);
        }
    }
    sort();
    const bool has_shifts =
        std::any_of(plan_.transfers.begin(), plan_.transfers.end(), [](const Transfer& transfer) {
            return std::any_of(transfer.shifts.begin(), transfer.shifts.end(),
                               [](const Shift& shift) { return !(shift.from == shift.to); });
        });
    if (has_shifts || plan_.generations > 1 || collective_of(collective_).exchanges) cut_alike();
    if (atom_count() * ranks_ > most_places) throw Refusal("too large: the number of places");
}

// Gives all pieces of all ranks the boundaries of each of them.
void Prover::cut_alike() {
    std::vector<Fraction> alike;
    const std::int64_t pieces = plan_.generations * ranks_;
    for (const Fraction& boundary : proof_.boundaries) {
        const std::int64_t divisor = boundary.denominator * ranks_;  // in units of its inverse
        const std::int64_t inside = boundary.numerator * ranks_ % boundary.denominator;
        for (std::int64_t piece = 0; piece < pieces; ++piece) {
            alike.push_back(Fraction(piece * boundary.denominator + inside, divisor));
        }
        if (alike.size() > most_places) throw Refusal("too large: the number of places");
    }
    alike.push_back(Fraction(plan_.generations, 1));
    proof_.boundaries = std::move(alike);
    sort();
}

void Prover::sort() {
    std::vector<Fraction>& boundaries = proof_.boundaries;
    std::sort(boundaries.begin(), boundaries.end());
    boundaries.erase(std::unique(boundaries.begin(), boundaries.end()), boundaries.end());
}

void Prover::find_atoms() {
    std::size_t touched = 0;
    for (const Transfer& transfer : plan_.transfers) {
        std::vector<AtomShift>& atoms = atoms_.emplace_back();
        for (const Shift& shift : transfer.shifts) {
            atoms.push_back({atoms_of(shift.from), atoms_of(shift.to)});
            touched += atoms.back().to.size();
        }
        if (touched > 2'000'000) refuse(transfer.at, "too large: the number of places that are written");
    }
}

void Prover::fill_inputs() {
    held_.resize(atom_count() * ranks_);
    for (std::int64_t rank = 0; rank < ranks_; ++rank) {
        for (const Piece& piece : input_of(rank, collective_, root_, ranks_)) {
            const Atoms atoms = atoms_of(piece);
            for (std::size_t atom = atoms.begin; atom < atoms.end; ++atom) {
                held_[index({rank, atom})] = {only(rank), atom};
            }
        }
    }
}

// Sorted by place, and then by the rank that sends.
std::vector<Touch> Prover::touches_of_phase(std::size_t begin, std::size_t end) const {
    std::vector<Touch> touches;
    for (std::size_t i = begin; i < end; ++i) {
        const Transfer& transfer = plan_.transfers[i];
        for (const AtomShift& atoms : atoms_[i]) {
            for (std::size_t atom = 0; atom < atoms.to.size(); ++atom) {
                touches.push_back({{transfer.to, atoms.to.begin + atom},
                                   {transfer.from, atoms.from.begin + atom},
                                   &transfer});
            }
        }
    }
    std::sort(touches.begin(), touches.end(), [](const Touch& a, const Touch& b) {
        return std::tie(a.place.rank, a.place.atom, a.source.rank, a.source.atom) <
               std::tie(b.place.rank, b.place.atom, b.source.rank, b.source.atom);
    });
    return touches;
}

// All transfers of a phase read the values from before it, so nothing is written until all results are known.
void Prover::run_phase(std::size_t begin, std::size_t end) {
    const std::vector<Touch> touches = touches_of_phase(begin, end);
    std::vector<std::pair<std::size_t, Content>> results;
    auto first = touches.begin();
    while (first != touches.end()) {
        const auto last = std::find_if(first, touches.end(),
                                       [&](const Touch& touch) { return !(touch.place == first->place); });
        Write write = gather_write(first, last);
        results.push_back({index(write.place), result_of(write, first->transfer->at)});
        proof_.writes.push_back(std::move(write));
        first = last;
    }
    for (const auto& [place, content] : results) held_[place] = content;
}

Write Prover::gather_write(std::vector<Touch>::const_iterator begin,
                           std::vector<Touch>::const_iterator end) const {
    Write write;
    write.phase = begin->transfer->phase;
    write.place = begin->place;
    for (auto touch = begin; touch != end; ++touch) {
        if (end - begin > 1 && !touch->transfer->combines) {
            refuse(touch->transfer->at, name(write.place) + " is written twice at once");
        }
        write.operands.push_back(touch->source);
    }
    if (begin->transfer->combines) {
        auto& operands = write.operands;
        const auto before = [](const Place& a, const Place& b) { return a.rank < b.rank; };
        operands.insert(std::lower_bound(operands.begin(), operands.end(), write.place, before), write.place);
    }
    return write;
}

Content Prover::result_of(const Write& write, Position at) const {
    Content result;
    for (const Place& place : write.operands) {
        const Content& more = held_[index(place)];
        if (more.ranks == 0) {
            const bool is_sent = !(place == write.place);
            refuse(at, name(place) + (is_sent ? " is sent before anything is in it"
                                              : " is combined into before it holds anything"));
        }
        if (result.ranks != 0 && result.atom != more.atom) {
            refuse(at, "what was at different places is combined in " + name(write.place));
        }
        if ((result.ranks & more.ranks) != 0) {
            refuse(at, "a contribution is counted twice in " + name(write.place));
        }
        result = {result.ranks | more.ranks, more.atom};
    }
    return result;
}

void Prover::check_strands(const Strands& strands) const {
    struct Use {
        std::size_t strand = 0;  // the only one so far; they count from 1
        bool is_shared = false;
        bool is_written = false;
    };
    std::vector<Use> uses(held_.size());
    const auto note = [&](const Place& place, std::size_t strand, bool writes) {
        Use& use = uses[index(place)];
        use.is_shared |= use.strand != 0 && use.strand != strand;
        use.is_written |= writes;
        use.strand = strand;
        if (use.is_shared && use.is_written) refuse(strands.at, "parallel strands touch " + name(place));
    };
    for (std::size_t strand = 1; strand < strands.starts.size(); ++strand) {
        for (std::size_t i = strands.starts[strand - 1]; i < strands.starts[strand]; ++i) {
            for (const AtomShift& atoms : atoms_[i]) {
                for (std::size_t atom = 0; atom < atoms.to.size(); ++atom) {
                    note({plan_.transfers[i].from, atoms.from.begin + atom}, strand, false);
                    note({plan_.transfers[i].to, atoms.to.begin + atom}, strand, true);
                }
            }
        }
    }
}

// The contents that the collective promises the rank for an atom of the result.
Content Prover::promise(std::int64_t rank, std::size_t atom) const {
    const Collective& collective = collective_of(collective_);
    if (collective.reduces) return {all(ranks_), atom};
    if (!collective.exchanges && !collective.starts_divided()) return {only(root_), atom};
    std::int64_t owner = 0;
    while (atom >= atoms_of(own_piece(owner, ranks_)).end) ++owner;
    if (!collective.exchanges) return {only(owner), atom};
    const std::size_t inside = atom - atoms_of(own_piece(owner, ranks_)).begin;
    return {only(owner), atoms_of(own_piece(rank, ranks_)).begin + inside};
}

void Prover::check_outputs() const {
    // It lies behind its positions before the exchanges.
    const std::size_t start = atom_count() - atoms_of_x();
    for (std::int64_t rank = 0; rank < ranks_; ++rank) {
        for (const Piece& piece : output_of(rank, collective_, root_, ranks_)) {
            const Atoms atoms = atoms_of(piece);
            for (std::size_t atom = atoms.begin; atom < atoms.end; ++atom) {
                const Place place{rank, start + atom};
                if (held_[index(place)] == promise(rank, atom)) continue;
                throw Refusal(name(place) + " does not end with what the collective promises");
            }
        }
    }
}

std::string Prover::name(const Place& place) const {
    const auto text = [](const Fraction& fraction) {
        return std::to_string(fraction.numerator) + "/" + std::to_string(fraction.denominator);
    };
    return "[" + text(proof_.boundaries[place.atom]) + ", " + text(proof_.boundaries[place.atom + 1]) +
           ") of rank " + std::to_string(place.rank);
}

}  // namespace

std::vector<Piece> input_of(std::int64_t rank, const std::string& collective, std::int64_t root,
                            std::int64_t ranks) {
    const Collective& which = collective_of(collective);
    return pieces_of(rank == root ? which.root_starts : which.others_start, rank, ranks);
}

std::vector<Piece> output_of(std::int64_t rank, const std::string& collective, std::int64_t root,
                             std::int64_t ranks) {
    const Collective& which = collective_of(collective);
    return pieces_of(rank == root ? which.root_ends : which.others_end, rank, ranks);
}

Proof prove(const Plan& plan, const std::string& collective, std::int64_t root, std::int64_t ranks) {
    return Prover(plan, collective, root, ranks).prove();
}

}  // namespace hocket::reference
