#include "tests/differential/exchange_plan.hpp"

#include <algorithm>

namespace hocket::differential {

Plan ExchangePlanning::plan(const View& x, const View* second, int depth) {
    if (depth < 2 && random_.chance(25)) return in_parts(x, second, depth);
    // One member leaves little to plan; larger groups' plans would be too long to read.
    if (size_ == 1 || size_ > 5 || random_.chance(30)) {
        Plan family{Plan::Kind::family, {}, {}, &x, false, "all_to_all"};
        family.second = second;
        return family;
    }
    return of_pieces(x, second);
}

Plan ExchangePlanning::in_parts(const View& x, const View* second, int depth) {
    const auto parts = static_cast<int>(random_.between(2, 3));
    const auto part = [&](int index) {
        views_.push_back({&x, index, parts});
        const View* of_x = &views_.back();
        if (second) views_.push_back({second, index, parts, of_x});
        return plan(*of_x, second ? &views_.back() : nullptr, depth + 1);
    };
    if (random_.chance(50)) {
        const std::size_t made = views_.size();
        Plan body = part(of_the_round);
        return {Plan::Kind::rounds, {}, {std::move(body)}, &views_[made]};
    }
    Plan all{Plan::Kind::independent};
    for (int index = 0; index < parts; ++index) all.parts.push_back(part(index));
    return all;
}

Plan ExchangePlanning::of_pieces(const View& x, const View* second) {
    views_of_buffers_ = {&x};
    if (second) views_of_buffers_.push_back(second);
    contents_.assign(static_cast<std::size_t>(size_ * size_) * views_of_buffers_.size(), {});
    parcels_.clear();
    for (int source = 0; source < size_; ++source)
        for (int destination = 0; destination < size_; ++destination) {
            const Place at{0, source, destination};
            parcels_.push_back({source, destination, at});
            contents_[index(at)] = {destination, std::uint32_t{1} << source};
        }
    Plan sequence;
    while (random_.chance(50)) {
        switch (random_.below(4)) {
            case 0:
                stray_together(sequence);
                break;
            case 1:
                combine_waste(sequence);
                break;
            default:
                stray(sequence);
        }
    }
    sequence.parts.push_back(deliver());
    return sequence;
}

ExchangePlanning::Parcel* ExchangePlanning::parcel_at(const Place& place) {
    const auto found = std::find_if(parcels_.begin(), parcels_.end(),
                                    [&](const Parcel& parcel) { return parcel.at == place; });
    return found == parcels_.end() ? nullptr : &*found;
}

Move ExchangePlanning::move(const Place& from, const Place& to, int length, bool combines) const {
    Move move{views_of_buffers_[static_cast<std::size_t>(from.buffer)],
              from.chunk,
              from.chunk + length,
              from.member,
              to.member,
              combines};
    if (from.buffer != to.buffer || from.chunk != to.chunk) {
        move.to_view = views_of_buffers_[static_cast<std::size_t>(to.buffer)];
        move.to_first = to.chunk;
    }
    return move;
}

void ExchangePlanning::add(Plan& sequence, std::vector<Move> moves) const {
    if (!moves.empty()) sequence.parts.push_back({Plan::Kind::phase, std::move(moves)});
}

// Some parcels at once, each to a place that is free or left in the same phase.
void ExchangePlanning::stray(Plan& sequence) {
    std::vector<std::size_t> order(parcels_.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    random_.shuffle(order);
    order.resize(static_cast<std::size_t>(random_.between(1, std::min<std::int64_t>(6, size_ * size_))));
    std::vector<Place> left;
    for (const std::size_t i : order) left.push_back(parcels_[i].at);
    std::vector<Place> free = left;
    for (int tries = 0; tries < 8; ++tries) {
        const Place place = any_place();
        if (!parcel_at(place) && std::find(free.begin(), free.end(), place) == free.end())
            free.push_back(place);
    }
    random_.shuffle(free);
    const std::vector<Content> before = contents_;
    std::vector<Move> moves;
    for (std::size_t i = 0; i < order.size(); ++i) {
        parcels_[order[i]].at = free[i];
        if (left[i] == free[i]) continue;
        contents_[index(free[i])] = before[index(left[i])];
        moves.push_back(move(left[i], free[i]));
    }
    random_.shuffle(moves);
    add(sequence, std::move(moves));
}

// Chunks that lie together, as one transfer. Where they come from stays theirs, unless it is overwritten.
void ExchangePlanning::stray_together(Plan& sequence) {
    if (size_ < 2) return;
    const auto length = static_cast<int>(random_.between(2, size_));
    Place from = any_place(), to = any_place();
    from.chunk = static_cast<int>(random_.between(0, size_ - length));
    to.chunk = static_cast<int>(random_.between(0, size_ - length));
    if (from == to) return;
    const auto is_from = [&](const Place& place) {
        return place.buffer == from.buffer && place.member == from.member && place.chunk >= from.chunk &&
               place.chunk < from.chunk + length;
    };
    for (int i = 0; i < length; ++i) {
        const Place source{from.buffer, from.member, from.chunk + i};
        const Place target{to.buffer, to.member, to.chunk + i};
        if (contents_[index(source)].members == 0) return;
        if (parcel_at(target) && !is_from(target)) return;
    }
    const std::vector<Content> before = contents_;
    std::vector<std::pair<Parcel*, int>> moved;
    for (int i = 0; i < length; ++i) {
        const Place source{from.buffer, from.member, from.chunk + i};
        contents_[index({to.buffer, to.member, to.chunk + i})] = before[index(source)];
        if (Parcel* parcel = parcel_at(source)) moved.emplace_back(parcel, i);
    }
    for (const auto& [parcel, i] : moved) parcel->at = {to.buffer, to.member, to.chunk + i};
    add(sequence, {move(from, to, length)});
}

// Combines into data that are no longer needed: only data from one chunk of the inputs can be combined.
void ExchangePlanning::combine_waste(Plan& sequence) {
    for (int tries = 0; tries < 30; ++tries) {
        const Place from = any_place(), to = any_place();
        const Content& more = contents_[index(from)];
        Content& into = contents_[index(to)];
        if (more.members == 0 || into.members == 0 || more.chunk != into.chunk ||
            (more.members & into.members) != 0 || parcel_at(to))
            continue;
        into.members |= more.members;
        return add(sequence, {move(from, to, 1, true)});
    }
}

// Parcels that are in each other's way, by number: the first one's goal is free, or the last one's place.
std::vector<std::vector<std::size_t>> ExchangePlanning::circles() const {
    const auto at = [&](const Place& place) {
        std::size_t i = 0;
        while (i < parcels_.size() && !(parcels_[i].at == place)) ++i;
        return i;
    };
    std::vector<std::vector<std::size_t>> all;
    std::vector<bool> seen(parcels_.size(), false);
    // Chains first, from parcels whose goal is free; the rest are cycles.
    for (const bool only_chains : {true, false})
        for (std::size_t i = 0; i < parcels_.size(); ++i) {
            const bool is_there = parcels_[i].at == goal(parcels_[i]);
            if (seen[i] || is_there || (only_chains && at(goal(parcels_[i])) < parcels_.size())) continue;
            std::vector<std::size_t>& circle = all.emplace_back();
            for (std::size_t next = i; next < parcels_.size() && !seen[next];) {
                seen[next] = true;
                circle.push_back(next);
                // Continues with the parcel whose goal is this one's place.
                const Place place = parcels_[next].at;
                next = 0;
                while (next < parcels_.size() && !(goal(parcels_[next]) == place)) ++next;
            }
        }
    return all;
}

Plan ExchangePlanning::deliver() {
    std::vector<std::vector<std::size_t>> groups = circles();
    const bool at_once = random_.chance(30);
    Plan all{at_once ? Plan::Kind::sequence : Plan::Kind::independent};
    std::vector<Move> joined;
    random_.shuffle(groups);
    for (const std::vector<std::size_t>& group : groups) {
        std::vector<Move> moves;
        for (const std::size_t i : group) moves.push_back(move(parcels_[i].at, goal(parcels_[i])));
        const Place last = parcels_[group.back()].at;
        const bool is_chain = !(goal(parcels_[group.front()]) == last);
        if (at_once || random_.chance(40)) {
            joined.insert(joined.end(), moves.begin(), moves.end());
            continue;
        }
        Plan own;
        if (is_chain && random_.chance(50))
            for (const Move& each : moves) add(own, {each});
        else
            add(own, std::move(moves));
        all.parts.push_back(std::move(own));
    }
    random_.shuffle(joined);
    add(all, std::move(joined));
    return all;
}

}  // namespace hocket::differential
