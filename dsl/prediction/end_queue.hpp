// A queue of numbered things by time, each at most once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace hocket::dsl {

class EndQueue {
  public:
    static constexpr double never = std::numeric_limits<double>::infinity();

    struct End {
        double time;
        std::uint32_t item;
        bool operator<(const End& other) const {
            return time != other.time ? time < other.time : item < other.item;
        }
    };
    // Sets an item's time; never: it has none.
    void set(std::uint32_t item, double time) {
        if (item >= places_.size()) places_.resize(item + 1, nowhere);
        std::size_t place = places_[item];
        if (place == nowhere) {
            if (time == never) return;
            place = heap_.size();
            heap_.push_back({time, item});
        } else if (time == never) {
            places_[item] = nowhere;
            const End last = heap_.back();
            heap_.pop_back();
            if (place == heap_.size()) return;
            return settle(place, last);
        }
        settle(place, {time, item});
    }
    // The earliest; of several, the lowest item.
    End front() const { return heap_.empty() ? End{never, nowhere} : heap_.front(); }

  private:
    static constexpr std::uint32_t nowhere = ~std::uint32_t{0};

    // Puts an end at a place, or above or below it where it belongs.
    void settle(std::size_t place, End end) {
        for (; place > 0 && end < heap_[(place - 1) / 2]; place = (place - 1) / 2)
            put(place, heap_[(place - 1) / 2]);
        for (std::size_t child; (child = 2 * place + 1) < heap_.size(); place = child) {
            if (child + 1 < heap_.size() && heap_[child + 1] < heap_[child]) ++child;
            if (!(heap_[child] < end)) break;
            put(place, heap_[child]);
        }
        put(place, end);
    }
    void put(std::size_t place, End end) {
        heap_[place] = end;
        places_[end.item] = static_cast<std::uint32_t>(place);
    }

    std::vector<End> heap_;
    std::vector<std::uint32_t> places_;  // by item
};

}  // namespace hocket::dsl
