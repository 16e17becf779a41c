#include "tests/differential/plan.hpp"

#include <algorithm>
#include <bit>

namespace hocket::differential {

std::vector<int> Planning::members(Members set) const {
    std::vector<int> result;
    for (int member = 0; member < request_.size; ++member)
        if (set >> member & 1) result.push_back(member);
    return result;
}

// At least one.
Planning::Members Planning::some_of(Members set) {
    if (random_.chance(40)) return set;
    Members some = 0;
    for (const int member : members(set))
        if (random_.chance(50)) some |= Members{1} << member;
    return some ? some : Members{1} << any_of(set);
}

void Planning::add(Plan& sequence, std::vector<Move> moves, bool can_be_serial) {
    random_.shuffle(moves);
    if (can_be_serial && moves.size() > 1 && random_.chance(20)) {
        for (const Move& move : moves) sequence.parts.push_back({Plan::Kind::phase, {move}});
        return;
    }
    sequence.parts.push_back({Plan::Kind::phase, std::move(moves)});
}

// Merges classes, several groups of classes at once: in each group, some members of some classes get the data
// of the others, and are the new class.
void Planning::merge(Piece& piece, Plan& sequence) {
    random_.shuffle(piece.classes);
    const int style = static_cast<int>(random_.below(3));  // pairs, few, all
    std::vector<Members> next;
    std::vector<Move> moves;
    bool can_be_serial = true;
    std::size_t done = 0;
    const std::size_t limit =
        random_.chance(50) ? piece.classes.size() : 2 + static_cast<std::size_t>(random_.below(3));
    while (done < piece.classes.size()) {
        std::size_t meeting = style == 0   ? 2
                              : style == 1 ? 2 + static_cast<std::size_t>(random_.below(3))
                                           : piece.classes.size();
        meeting = std::min(meeting, piece.classes.size() - done);
        if (meeting < 2 || done >= limit) {
            next.push_back(piece.classes[done++]);
            continue;
        }
        const bool exchanges = random_.chance(45);
        Members receivers = 0;
        for (std::size_t to = done; to < done + meeting; ++to) {
            if (to > done && !exchanges) break;
            if (to > done && random_.chance(15)) continue;
            if (to > done) can_be_serial = false;
            const Members chosen = some_of(piece.classes[to]);
            receivers |= chosen;
            for (const int receiver : members(chosen))
                for (std::size_t from = done; from < done + meeting; ++from)
                    if (from != to)
                        moves.push_back({piece.view, piece.first, piece.last, any_of(piece.classes[from]),
                                         receiver, true});
        }
        next.push_back(receivers);
        done += meeting;
    }
    piece.classes = std::move(next);
    piece.fresh = false;
    add(sequence, std::move(moves), can_be_serial);
}

void Planning::spread(const Piece& piece, Members& holders, Members must, Plan& sequence) {
    const int style = static_cast<int>(random_.below(4));
    const Members first = holders;
    int last = any_of(holders);
    while (must & ~holders) {
        const Members missing = must & ~holders;
        std::vector<Move> moves;
        const auto give = [&](int source, int destination) {
            moves.push_back({piece.view, piece.first, piece.last, source, destination, false});
        };
        if (style == 0) {  // a chain
            const int next = any_of(missing);
            give(last, next);
            last = next;
        } else if (style == 1) {  // each holder serves one
            std::vector<int> sources = members(holders), destinations = members(missing);
            random_.shuffle(sources);
            random_.shuffle(destinations);
            for (std::size_t i = 0; i < std::min(sources.size(), destinations.size()); ++i)
                give(sources[i], destinations[i]);
        } else {
            for (const int destination : members(style == 2 ? missing : some_of(missing)))
                give(any_of(style == 2 ? first : holders), destination);
        }
        for (const Move& move : moves) holders |= Members{1} << move.destination;
        add(sequence, std::move(moves), true);
    }
    // Sending a holder the data again does no harm.
    if (random_.chance(4) && std::popcount(holders) > 1) {
        const int source = any_of(holders);
        const int destination = any_of(holders & ~(Members{1} << source));
        sequence.parts.push_back(
            {Plan::Kind::phase, {{piece.view, piece.first, piece.last, source, destination, false}}});
    }
}

bool Planning::split_parts(const Piece& piece, Members must, Members& holders, int depth, Plan& sequence) {
    const bool whole = piece.first == 0 && piece.last == request_.size;
    const bool is_nested = piece.view->parent && piece.view->parent->parent;
    if (splits_left_ <= 0 || is_nested || (!whole && !request_.chunks_of_parts_agree)) return false;
    splits_left_ -= 3;
    const int parts = static_cast<int>(random_.between(2, random_.chance(70) ? 2 : 4));
    const Members meeting = must | Members{1} << any_of(must ? must : everyone());
    if (random_.chance(50)) {
        views_.push_back({piece.view, of_the_round, parts});
        Piece round = piece;
        round.view = &views_.back();
        Plan body = process(round, meeting, holders, depth + 1);
        sequence.parts.push_back({Plan::Kind::rounds, {}, {std::move(body)}, round.view});
        return true;
    }
    Plan all{Plan::Kind::independent};
    holders = everyone();
    for (int index = 0; index < parts; ++index) {
        views_.push_back({piece.view, index, parts});
        Piece part = piece;
        part.view = &views_.back();
        Members part_holders = 0;
        all.parts.push_back(process(part, meeting, part_holders, depth + 1));
        holders &= part_holders;
    }
    sequence.parts.push_back(std::move(all));
    return true;
}

bool Planning::split_chunks(const Piece& piece, Members must, Members& holders, int depth, Plan& sequence) {
    const int chunks = piece.last - piece.first;
    if (chunks < 2) return false;
    std::vector<int> cuts{piece.first};
    for (int cut = piece.first + 1; cut < piece.last; ++cut)
        if (random_.below(chunks) < 2 || splits_left_ <= 0 || (depth > 1 && random_.chance(70)))
            cuts.push_back(cut);
    if (cuts.size() == 1) cuts.push_back(static_cast<int>(random_.between(piece.first + 1, piece.last - 1)));
    cuts.push_back(piece.last);
    const Members meeting = scatters() ? 0 : must | Members{1} << any_of(must ? must : everyone());
    Plan all{Plan::Kind::independent};
    holders = everyone();
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
        Piece part = piece;
        part.first = cuts[i];
        part.last = cuts[i + 1];
        Members part_holders = 0;
        all.parts.push_back(process(part, meeting, part_holders, depth + 1));
        holders &= part_holders;
    }
    sequence.parts.push_back(std::move(all));
    return true;
}

bool Planning::split_alike(const Piece& piece, Members must, Members& holders, int depth, Plan& sequence) {
    const bool whole = piece.first == 0 && piece.last == request_.size;
    if (!whole || !piece.fresh || turned_ || is_from_root() || is_to_root()) return false;
    if (!scatters() && must != everyone()) return false;
    Piece first = piece;
    first.last = 1;
    Plan symmetric{Plan::Kind::symmetric};
    symmetric.turns_by_xor = std::has_single_bit(static_cast<unsigned>(request_.size)) && random_.chance(50);
    turned_ = true;
    symmetric.parts.push_back(process(first, scatters() ? 1 : everyone(), holders, depth + 1));
    turned_ = false;
    sequence.parts.push_back(std::move(symmetric));
    return true;
}

bool Planning::split(const Piece& piece, Members must, Members& holders, int depth, Plan& sequence) {
    switch (random_.below(3)) {
        case 0:
            return split_parts(piece, must, holders, depth, sequence);
        case 1:
            return split_alike(piece, must, holders, depth, sequence);
        default:
            return split_chunks(piece, must, holders, depth, sequence);
    }
}

// must: the members that have to hold the piece afterwards. holders: those that do.
Plan Planning::process(Piece piece, Members must, Members& holders, int depth) {
    Plan sequence;
    const bool whole = piece.first == 0 && piece.last == request_.size;
    if (whole && piece.fresh && request_.with_families && !turned_ &&
        (scatters() || (must & ~receivers()) == 0) && random_.chance(depth == 0 ? 10 : 25)) {
        holders = is_to_root() ? root() : everyone();
        return {Plan::Kind::family, {}, {}, piece.view, false, request_.collective};
    }
    const bool one_chunk = piece.last - piece.first == 1;
    const bool must_split = (gathers() || scatters()) && !one_chunk;
    if (gathers() && one_chunk) piece.classes = {Members{1} << piece.first};
    if (scatters() && one_chunk) must = Members{1} << piece.first | (is_from_root() ? detour() : 0);

    if (reduces())
        while (piece.classes.size() > 1 && random_.chance(depth == 0 ? 20 : 35)) merge(piece, sequence);
    bool is_split = false;
    if (must_split || (splits_left_ > 0 && random_.chance(depth == 0 ? 75 : depth == 1 ? 35 : 10))) {
        --splits_left_;
        is_split = split(piece, must, holders, depth, sequence);
        while (!is_split && must_split) is_split = split(piece, must, holders, depth, sequence);
    }
    if (!is_split) {
        while (piece.classes.size() > 1) merge(piece, sequence);
        holders = piece.classes[0];
    }
    if (is_split && scatters()) return sequence;
    spread(piece, holders, must, sequence);
    return sequence;
}

Plan Planning::plan(const View& view) {
    Piece piece{&view, 0, request_.size, {}, true};
    if (is_from_root()) {
        piece.classes = {root()};
    } else {
        for (int member = 0; member < request_.size; ++member) piece.classes.push_back(Members{1} << member);
    }
    Members holders = 0;
    return process(piece, receivers() | (is_to_root() ? detour() : 0), holders, 0);
}

Planning::Members Planning::detour() {
    Members some = 0;
    if (random_.chance(40))
        for (int member = 0; member < request_.size; ++member)
            if (random_.chance(35)) some |= Members{1} << member;
    return some;
}

}  // namespace hocket::differential
