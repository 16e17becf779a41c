#include "runtime/cache/server.hpp"

#include <optional>
#include <utility>

namespace hocket::cache {

// A sample that a peer has asked for and that is being loaded.
struct Server::Asked final : Waiter {
    Server& server;
    std::function<void(Answer)> answer;

    Asked(Server& by, std::function<void(Answer)> to) : server(by), answer(std::move(to)) {}

    void have(std::size_t, const Lent& lent) override {
        ++server.counters_.served;
        answer({.bytes = {lent.data, lent.bytes},
                .done = [&memory = server.memory_, lent] { memory.release(lent); }});
        delete this;
    }
    void failed(std::size_t, const Error& error) override {
        answer({.status = error.status(), .text = error.what()});
        delete this;
    }
};

void Server::question(std::uint64_t key, std::function<void(Answer)> answer) {
    auto asked = std::make_unique<Asked>(*this, std::move(answer));
    Lent lent;
    const Memory::Answer found = memory_.get(key, *asked, 0, lent, Memory::User::other);
    Asked* const deletes_itself = asked.release();
    switch (found) {
        case Memory::Answer::lent:
            deletes_itself->have(0, lent);
            return;
        case Memory::Answer::must_load:
            loader_.load({key}, true);
            return;
        case Memory::Answer::waiting:
            return;
    }
}

SampleRoom Server::room(std::uint64_t, std::uint64_t bytes) {
    try {
        ArenaBlock block = loader_.gate().look({.bytes = bytes, .share = Share::offered});
        if (!block) return {.later = true};
        const std::lock_guard lock(mutex_);
        std::byte* const data = block.data();
        arriving_.insert_or_assign(data, std::move(block));
        return {.data = data};
    } catch (const Error&) {  // larger than the memory: PeerGuest refuses the offer
        return {};
    }
}

void Server::offered(std::uint64_t key, std::byte* data, std::uint64_t bytes, bool complete,
                     std::function<void(Answer)> answer) {
    if (data == nullptr) {
        answer(
            {.status = Status::limit, .text = "the sample is larger than the memory of its owner's cache"});
        return;
    }
    ArenaBlock block;
    {
        const std::lock_guard lock(mutex_);
        block = std::move(arriving_.extract(data).mapped());
    }
    if (!complete) {
        answer({.status = Status::io, .text = "the sample did not arrive whole"});
        return;
    }
    loader_.put(key, std::move(block), bytes, true,
                [answer = std::move(answer)](const std::optional<Error>& error) {
                    if (error)
                        answer({.status = error->status(), .text = error->what()});
                    else
                        answer({});
                });
}

}  // namespace hocket::cache
