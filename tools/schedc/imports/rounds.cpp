#include "tools/schedc/imports/rounds.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>

namespace hocket::tools::imports {
namespace {

constexpr int always = std::numeric_limits<int>::max();

// A value is in its place from behind the round `after` to the round `until`, which still reads it.
struct Stay {
    int after = 0, until = 0;
    bool overlaps(const Stay& other) const { return after < other.until && other.after < until; }
};

// Versions of a scratch chunk that are combined on each other, and so are in one place.
struct Guest {
    Stay stay;
    int gpu = 0, chunk = 0;
    std::vector<int> versions;
};

class Placing {
  public:
    Placing(const Algorithm& algorithm, const Flow& flow)
        : algorithm_(algorithm),
          flow_(flow),
          by_slot_(versions_by_slot(flow)),
          rounds_((check_fixed(), order(algorithm, flow))),
          places_(flow.versions.size(), -1),
          stays_(flow.slots.fixed_count()) {}

    std::vector<Round> place() {
        for (int slot = 0; slot < flow_.slots.fixed_count(); ++slot)
            for (std::size_t i = 0; i < by_slot_[slot].size(); ++i) {
                places_[by_slot_[slot][i]] = slot;
                stays_[slot].push_back(stay_of(slot, i));
            }
        std::vector<Guest> guests = find_guests();
        std::ranges::stable_sort(guests, {}, [](const Guest& guest) { return guest.stay.after; });
        for (const Guest& guest : guests) accommodate(guest);
        return transfers();
    }

  private:
    // Where input and output have one place, all of the input's values must come first.
    void check_fixed() const {
        for (int slot = 0; slot < flow_.slots.fixed_count(); ++slot) {
            const std::vector<int>& versions = by_slot_[slot];
            for (std::size_t i = 0; i < versions.size(); ++i) {
                const Version& version = flow_.versions[versions[i]];
                const bool is_lost = version.is_result && i + 1 < versions.size();
                const int base = version.base;
                if (is_lost)
                    refuse_shared(flow_.versions[versions[i + 1]].made, slot);
                else if (base >= 0 && (i == 0 || versions[i - 1] != base))
                    refuse_shared(version.made, slot);
            }
        }
    }

    [[noreturn]] void refuse_shared(const Place& place, int slot) const {
        refuse(algorithm_, place,
               fmt::format("it writes {} while another value is needed there: the file has an input and an "
                           "output apart, and Hocket's ranks have one place for both",
                           chunk_text(algorithm_, flow_.slots.chunk_of(slot))),
               std::string(algorithm_.words->needs_output_alone));
    }

    Stay stay_of(int slot, std::size_t index) const {
        const int v = by_slot_[slot][index];
        const Version& version = flow_.versions[v];
        Stay stay{-1, 0};
        if (!version.writers.empty()) {
            stay.after = always;
            for (const int writer : version.writers) {
                stay.after = std::min(stay.after, rounds_[writer]);
                stay.until = std::max(stay.until, rounds_[writer] + 1);
            }
        }
        for (const int reader : version.readers) stay.until = std::max(stay.until, rounds_[reader]);
        // Something is combined into it, at last in these rounds.
        if (index + 1 < by_slot_[slot].size())
            if (const Version& next = flow_.versions[by_slot_[slot][index + 1]]; next.base == v)
                for (const int writer : next.writers) stay.until = std::max(stay.until, rounds_[writer]);
        if (version.is_result) stay.until = always;
        return stay;
    }

    std::vector<Guest> find_guests() const {
        std::vector<Guest> guests;
        for (int slot = flow_.slots.fixed_count(); slot < flow_.slot_count; ++slot)
            for (std::size_t i = 0; i < by_slot_[slot].size(); ++i) {
                const int v = by_slot_[slot][i];
                const Version& version = flow_.versions[v];
                if (version.writers.empty()) continue;
                const Stay stay = stay_of(slot, i);
                if (version.base < 0) {
                    guests.push_back({stay, flow_.moves[version.writers[0]].to, version.chunk, {v}});
                    continue;
                }
                guests.back().stay.until = std::max(guests.back().stay.until, stay.until);
                guests.back().versions.push_back(v);
            }
        return guests;
    }

    void accommodate(const Guest& guest) {
        const std::vector<int> slots = possible_slots(guest);
        const auto free = std::ranges::find_if(slots, [&](int slot) {
            return std::ranges::none_of(stays_[slot],
                                        [&](const Stay& stay) { return stay.overlaps(guest.stay); });
        });
        if (free == slots.end()) {
            const Version& version = flow_.versions[guest.versions[0]];
            refuse(
                algorithm_, version.made,
                flow_.slots.by_rank()
                    ? "its scratch chunk has no place: all chunks of this GPU that could hold it are in use"
                    : "its scratch chunk has no place: Hocket's ranks have one place for each chunk of this "
                      "collective, and the value there is still needed",
                std::string(algorithm_.words->has_no_scratch));
        }
        stays_[*free].push_back(guest.stay);
        for (const int v : guest.versions) places_[v] = *free;
    }

    // Where data of this chunk may lie: in its own place and, if chunks belong to ranks, in other ranks'
    // ones; best where the scratch buffer has it, so that neighbours stay neighbours.
    std::vector<int> possible_slots(const Guest& guest) const {
        std::vector<int> slots{flow_.slots.fixed(guest.gpu, false, guest.chunk)};
        if (!flow_.slots.by_rank()) return slots;
        const int offset = flow_.slots.scratch_offset(flow_.versions[guest.versions[0]].slot, guest.gpu);
        if (offset < algorithm_.chunks && (offset - guest.chunk) % algorithm_.chunks_of_piece == 0)
            slots.insert(slots.begin(), flow_.slots.fixed(guest.gpu, false, offset));
        for (const bool in_second : {false, true})
            for (int chunk = guest.chunk % algorithm_.chunks_of_piece;
                 chunk < algorithm_.chunks && (!in_second || flow_.slots.has_second());
                 chunk += algorithm_.chunks_of_piece)
                slots.push_back(flow_.slots.fixed(guest.gpu, in_second, chunk));
        return slots;
    }

    // Each transfer is in its round once: what comes later puts those together that are alike, and takes them
    // for different ones.
    std::vector<Round> transfers() const {
        std::vector<Round> rounds(rounds_.empty() ? 0 : *std::ranges::max_element(rounds_) + 1);
        std::map<std::tuple<int, int, int>, std::size_t> known;  // by round, source and target: its place
        for (std::size_t m = 0; m < flow_.moves.size(); ++m) {
            const Move& move = flow_.moves[m];
            if (move.is_dropped) continue;
            const int source = places_[move.source], target = places_[move.target];
            if (source == target && !move.combines) continue;  // it is there already
            if (source == target)
                refuse(algorithm_, move.receiver, "it combines a chunk with itself",
                       "each contribution may be in a result once");
            check_chunks(move, source, target);
            Round& round = rounds[rounds_[m]];
            const auto [again, is_new] = known.try_emplace({rounds_[m], source, target}, round.size());
            if (is_new)
                round.push_back(
                    {move.from, move.to, source, target, move.combines, move.sender, move.receiver});
            else if (move.combines || round[again->second].combines)
                refuse(algorithm_, move.receiver,
                       fmt::format("it combines with {} what {} combines there already",
                                   short_text(algorithm_, move.sender),
                                   short_text(algorithm_, round[again->second].receiver)),
                       "each contribution may be in a result once");
            else
                round[again->second].has_more = true;
        }
        std::erase_if(rounds, [](const Round& round) { return round.empty(); });
        return rounds;
    }

    // The proof would say so, too, but not which of the file's chunks it is about.
    void check_chunks(const Move& move, int source, int target) const {
        const int from = flow_.slots.chunk_of(source), to = flow_.slots.chunk_of(target);
        if (flow_.slots.by_rank() ? (from - to) % algorithm_.chunks_of_piece == 0 : from == to) return;
        refuse(algorithm_, move.receiver,
               fmt::format("it brings {}, from {}, to the place of {}", chunk_text(algorithm_, from),
                           short_text(algorithm_, move.sender), chunk_text(algorithm_, to)),
               flow_.slots.by_rank()
                   ? "a chunk can come to another piece, but stays at its place in the piece"
                   : "chunks of this collective stay at their places: both ends of a connection "
                     "must use the same one");
    }

    const Algorithm& algorithm_;
    const Flow& flow_;
    const std::vector<std::vector<int>> by_slot_;
    const std::vector<int> rounds_;         // by move
    std::vector<int> places_;               // by version: a slot of input or output
    std::vector<std::vector<Stay>> stays_;  // by such a slot
};

}  // namespace

std::vector<Round> rounds_of(const Algorithm& algorithm, const Flow& flow) {
    return Placing(algorithm, flow).place();
}

}  // namespace hocket::tools::imports
