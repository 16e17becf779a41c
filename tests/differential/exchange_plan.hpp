// Random plans of an all_to_all that are right: the plan keeps the contents of each place of each member's
// buffers, and the way of each piece. First some pieces stray, several at once, to places without needed
// data; then all go to their destinations.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "tests/differential/plan.hpp"

namespace hocket::differential {

class ExchangePlanning {
  public:
    ExchangePlanning(Random& random, int size) : random_(random), size_(size) {}

    // A plan for all of x; `second`: the second buffer, null if there is none. The plan's views live as long
    // as this object.
    Plan plan(const View& x, const View* second, int depth = 0);

  private:
    // The places of all members: `chunk` of a member's first or second buffer.
    struct Place {
        int buffer, member, chunk;
        bool operator==(const Place&) const = default;
    };
    // The members whose contributions a place has, and of which chunk of x; no members: the place is empty.
    struct Content {
        int chunk = 0;
        std::uint32_t members = 0;
    };
    // The data that `source` has for `destination`.
    struct Parcel {
        int source, destination;
        Place at;
    };

    Plan in_parts(const View& x, const View* second, int depth);
    Plan of_pieces(const View& x, const View* second);
    void stray(Plan& sequence);
    void stray_together(Plan& sequence);
    void combine_waste(Plan& sequence);
    Plan deliver();
    std::vector<std::vector<std::size_t>> circles() const;

    Place goal(const Parcel& parcel) const {
        return {static_cast<int>(views_of_buffers_.size()) - 1, parcel.destination, parcel.source};
    }
    std::size_t index(const Place& place) const {
        return static_cast<std::size_t>((place.buffer * size_ + place.member) * size_ + place.chunk);
    }
    Place any_place() {
        return {static_cast<int>(random_.below(static_cast<std::int64_t>(views_of_buffers_.size()))),
                static_cast<int>(random_.below(size_)), static_cast<int>(random_.below(size_))};
    }
    // The parcel that is there, if any.
    Parcel* parcel_at(const Place& place);
    Move move(const Place& from, const Place& to, int length = 1, bool combines = false) const;
    void add(Plan& sequence, std::vector<Move> moves) const;

    Random& random_;
    int size_;
    std::deque<View> views_;
    std::vector<const View*> views_of_buffers_;
    std::vector<Content> contents_;
    std::vector<Parcel> parcels_;
};

}  // namespace hocket::differential
