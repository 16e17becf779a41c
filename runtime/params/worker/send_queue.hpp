// The messages that a worker has not yet sent to its parent, in the order in which they are sent.
//
// A backward pass produces the gradients of the first layers last, and the next forward pass needs the
// weights of the first layers first. So if sums have to wait for the link, those of the first chunks are sent
// first.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <utility>

#include "runtime/params/protocol/message.hpp"

namespace hocket::params {

class SendQueue {
  public:
    // A sum overtakes sums of later rounds and, within its round, those of later chunks. All other messages
    // keep their order: they overtake nothing, and nothing overtakes them.
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
