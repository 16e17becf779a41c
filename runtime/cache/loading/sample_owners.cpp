#include "runtime/cache/loading/sample_owners.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <coroutine>
#include <utility>

namespace hocket::cache {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds most_patience_with_peers = 5s, patience_with_silence = 30s;

}  // namespace

void SampleOwners::set(CachePeers* peers, bool give_encoded) {
    peers_ = peers;
    give_encoded_ = give_encoded;
    if (peers != nullptr) silent_until_.assign(peers->count(), Loop::Clock::time_point{});
}

std::optional<int> SampleOwners::other_owner(std::uint64_t key) const {
    if (peers_ == nullptr) return std::nullopt;
    const int owner = owner_of(key, peers_->count());
    return owner == peers_->self() ? std::nullopt : std::optional<int>(owner);
}

// Awaits the owner's answer.
struct SampleOwners::Question final : SampleAsker {
    SampleOwners& owners;
    CachePeers& peers;
    const int owner;
    const std::uint64_t key;
    RoomGate::Use use;
    ArenaBlock block = {};
    std::uint64_t bytes = 0;
    Status status = Status::internal;
    bool found_no_room = false;
    std::string text = {};
    std::coroutine_handle<> asking = {};

    Question(SampleOwners& by, CachePeers& among, int peer, Load& load)
        : owners(by),
          peers(among),
          owner(peer),
          key(load.key),
          use(by.room_.use_of(load, !by.give_encoded_)) {}

    bool await_ready() const { return false; }
    void await_suspend(std::coroutine_handle<> handle) {
        asking = handle;
        const auto patience = std::min(owners.options_.timeout / 4, most_patience_with_peers);
        peers.ask(owner, key, patience, *this);
    }
    void await_resume() const {}

    SampleRoom room(std::uint64_t wanted) override {
        try {
            use.bytes = wanted;
            block = owners.room_.gate().look(use);
        } catch (const Error&) {  // larger than the memory: the source will report that
            return {};
        }
        bytes = wanted;
        found_no_room = !block;
        // A prefetch must not hold up the answers behind it: its room may become free only after a load that
        // waits for one of these answers.
        const bool later = found_no_room && !use.position;
        if (later) ++owners.answers_put_off_;
        return {.data = block.data(), .later = later};
    }
    void answered(Status with, const std::string& why) override {
        status = with;
        text = why;
        owners.loop_.post([this] { asking.resume(); });
    }
};

Task<bool> SampleOwners::ask(Load& load) {
    const std::optional<int> owner = other_owner(load.key);
    if (!owner) co_return false;
    if (peers_->is_down(*owner) || Loop::Clock::now() < silent_until_[*owner]) {
        note_unasked(load, Status::peer_lost, "it has failed to answer, and is not asked again for a while");
        co_return false;
    }
    load.spare->take();  // the answer contains the sample's size
    const std::uint64_t put_off = answers_put_off_;
    Question question(*this, *peers_, *owner, load);
    co_await question;
    if (question.found_no_room && load.is_prefetch) {
        if (room_.give_up(load)) co_return false;
        const bool found = co_await ask(load);  // a caller waits for it now
        co_return found;
    }
    if (question.status != Status::success || !question.block) {
        if (question.found_no_room) {  // not the owner's fault
            note_unasked(load, Status::timeout, room_.gate().why_full(question.use.bytes));
            co_return false;
        }
        if (question.status != Status::not_found) {
            note_failure(question.text);
            note_unasked(load, question.status, question.text);
        }
        // If an answer had to wait for room here, that is not the owner's fault, either.
        if (question.status == Status::timeout && answers_put_off_ == put_off)
            silent_until_[*owner] = Loop::Clock::now() + patience_with_silence;
        co_return false;
    }
    ++counters_.peer_hits;
    counters_.peer_read_bytes += question.bytes;
    load.block = std::move(question.block);
    load.bytes = question.bytes;
    load.is_copy = load.is_decoded = !give_encoded_;
    load.is_fresh = give_encoded_;
    co_return true;
}

// The owner alone knows if a sample has been put.
void SampleOwners::note_unasked(Load& load, Status status, const std::string& why) const {
    if (options_.source) return;
    const std::optional<int> owner = other_owner(load.key);  // none: the cache is being closed
    const std::string name = owner ? peers_->name(*owner) : "another process";
    load.owner_failed.emplace(
        status, fmt::format("{} owns sample {}, and did not give it: {}; the cache has no source", name,
                            load.key, why));
}

void SampleOwners::note_failure(const std::string& text) {
    ++counters_.peer_failures;
    const std::lock_guard lock(trouble_mutex_);
    trouble_ = text;
}

std::string SampleOwners::trouble() const {
    const std::lock_guard lock(trouble_mutex_);
    return trouble_;
}

// Awaits the owner's confirmation that it has taken a sample.
struct SampleOwners::Offer final : SampleAsker {
    SampleOwners& owners;
    CachePeers& peers;
    const int owner;
    const std::uint64_t key;
    const std::span<const std::byte> bytes;
    Status status = Status::internal;
    std::string text = {};
    std::coroutine_handle<> offering = {};

    Offer(SampleOwners& by, CachePeers& among, int peer, std::uint64_t of, std::span<const std::byte> what)
        : owners(by), peers(among), owner(peer), key(of), bytes(what) {}

    bool await_ready() const { return false; }
    void await_suspend(std::coroutine_handle<> handle) {
        offering = handle;
        peers.offer(owner, key, bytes, owners.options_.timeout, *this);
    }
    void await_resume() const {}
    SampleRoom room(std::uint64_t) override { return {}; }
    void answered(Status with, const std::string& why) override {
        status = with;
        text = why;
        owners.loop_.post([this] { offering.resume(); });
    }
};

Task<> SampleOwners::give(int owner, std::uint64_t key, std::span<const std::byte> bytes) {
    CachePeers& peers = *peers_;  // set_peers() may be called meanwhile
    Offer offer(*this, peers, owner, key, bytes);
    co_await offer;
    if (offer.status != Status::success)
        throw Error(offer.status, fmt::format("hkt_cache_put: sample {} belongs to {}: {}", key,
                                              peers.name(owner), offer.text));
}

}  // namespace hocket::cache
