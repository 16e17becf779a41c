// What a worker has not sent to its parent yet, and in which order it goes.
//
// A backward pass makes the gradients of the first layers last, and the next forward pass needs the weights
// of the first layers first. So where sums have to wait for the link those of the first chunks go first.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <utility>

#include "runtime/params/protocol/message.hpp"

namespace hocket::params {

class SendQueue {
  public:
    // A sum overtakes sums of later rounds, and of its round those of later chunks. All else has its turn: it
    // overtakes nothing, and nothing overtakes it.
    void add(Message message) {
        const auto* const sum = std::get_if<Sum>(&message);
        if (!sum) ++turn_;
        const Place place{turn_, sum ? sum->clock : 0, sum ? sum->chunk : 0};
        if (!sum) ++turn_;
        messages_.emplace(place, std::move(message));
    }

    bool is_empty() const { return messages_.empty(); }
    const Message& first() const { return messages_.begin()->second; }
    void drop_first() { messages_.erase(messages_.begin()); }
    void clear() { messages_.clear(); }

  private:
    struct Place {
        std::uint64_t turn;
        Clock clock;
        Chunk chunk;
        auto operator<=>(const Place&) const = default;
    };

    std::multimap<Place, Message> messages_;
    std::uint64_t turn_ = 0;
};

}  // namespace hocket::params
