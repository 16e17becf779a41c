// Onto the disk: what came from the source, and what is put.
#include <fmt/format.h>

#include <cstring>

#include "runtime/cache/directory/key_flight.hpp"
#include "runtime/cache/loader.hpp"

namespace hocket::cache {

using namespace std::chrono_literals;

// Whoever waits for samples does not wait for a disk that is slower than the source: beyond half of the
// memory, what is fetched is not stored this time.
bool Loader::may_store() {
    if (directory_ == nullptr || options_.store == Store::none) return false;
    if (options_.store == Store::all || unwritten_bytes_ <= memory_.capacity() / 2) return true;
    ++counters_.writes_skipped;
    return false;
}

// What is on its way to the disk, however that ends.
class Loader::Writing {
  public:
    Writing(Loader& loader, std::uint64_t bytes)
        : loader_(loader), bytes_(bytes), number_(*loader.writes_.insert(++loader.writes_begun_).first) {
        loader_.unwritten_bytes_ += bytes_;
    }
    Writing(const Writing&) = delete;
    ~Writing() {
        loader_.writes_.erase(number_);
        loader_.unwritten_bytes_ -= bytes_;
        loader_.pump();  // prefetches wait for the disk
    }

  private:
    Loader& loader_;
    const std::uint64_t bytes_, number_;
};

// memory: the block that the sample lies in, at its start. A failure is the directory's to remember.
Task<bool> Loader::store(std::uint64_t key, std::span<std::byte> memory, std::uint64_t bytes) {
    const Writing writing(*this, bytes);
    const bool stored = co_await writer_->write(key, memory, bytes);
    co_return stored;
}

// ---- What is put --------------------------------------------------------------------------------

void Loader::put(std::uint64_t key, ArenaBlock encoded, std::uint64_t bytes, bool own, Done done) {
    auto block = std::make_shared<ArenaBlock>(std::move(encoded));  // a std::function must be copyable
    loop_.post([this, key, block, bytes, own, done = std::move(done)] {
        loop_.spawn(run_put(key, std::move(*block), bytes, own, done));
    });
}

Task<> Loader::run_put(std::uint64_t key, ArenaBlock encoded, std::uint64_t bytes, bool own, Done done) {
    std::optional<Error> error;
    const int owner = peers_ == nullptr || own ? -1 : owner_of(key, peers_->count());
    try {
        if (owner >= 0 && owner != peers_->self())
            co_await put_there(*peers_, owner, key, encoded.span().first(bytes));
        else if (directory_ != nullptr)
            co_await put_on_disk(key, encoded, bytes);
        else
            co_await put_in_memory(key, encoded, bytes);
    } catch (const Error& thrown) {
        error = thrown;
    } catch (const std::exception& thrown) {
        error.emplace(Status::internal, thrown.what());
    }
    encoded = ArenaBlock();
    done(error);
}

namespace {

[[noreturn]] void other_bytes(std::uint64_t key) {
    throw Error(
        Status::mismatch,
        fmt::format("hkt_cache_put: sample {} is there already, with other bytes: a key is written once. Use "
                    "another key, or another hkt_cache_options.dataset",
                    key));
}

}  // namespace

Task<> Loader::put_on_disk(std::uint64_t key, ArenaBlock& encoded, std::uint64_t bytes) {
    const Clock::time_point deadline = Clock::now() + options_.timeout;
    KeyFlight flight(directory_, key);
    while (!flight.begin()) {
        if (Clock::now() >= deadline)
            throw Error(
                Status::timeout,
                fmt::format("hkt_cache_put: another process has been loading sample {} until the deadline",
                            key));
        co_await loop_.delay(1ms);
    }
    directory_->refresh();
    Load there{.key = key, .deadline = deadline, .is_put = true};
    bool found = co_await from_disk(there);
    while (!found && directory_->find(key) && Clock::now() < deadline) {  // the kernel had no memory for it
        co_await loop_.delay(1ms);
        found = co_await from_disk(there);
    }
    if (found) {
        if (there.bytes != bytes || std::memcmp(there.block.data(), encoded.data(), bytes) != 0)
            other_bytes(key);
        co_return;
    }
    const bool stored = co_await store(key, encoded.span(), bytes);
    if (!stored)
        throw Error(Status::io, fmt::format("hkt_cache_put: sample {} of {} bytes is not on the disk: {}",
                                            key, bytes, directory_->stats().trouble));
}

// Awaits a sample that memory has, or that is on its way.
struct Loader::Look final : Waiter {
    Loader& loader;
    const std::uint64_t key;
    Lent lent = {};
    std::optional<Error> error = std::nullopt;
    bool must_load = false, suspended = false;
    std::coroutine_handle<> looking = {};

    Look(Loader& by, std::uint64_t of) : loader(by), key(of) {}
    ~Look() {
        if (lent.resident != nullptr) loader.memory_.release(lent);
    }

    bool await_ready() const { return false; }
    bool await_suspend(std::coroutine_handle<> handle) {
        looking = handle;
        const Memory::Answer answer = loader.memory_.get(key, *this, 0, lent, Memory::User::other);
        must_load = answer == Memory::Answer::must_load;
        suspended = answer == Memory::Answer::waiting;
        return suspended;
    }
    void await_resume() const {}
    void have(std::size_t, const Lent& given) override {
        lent = given;
        resume();
    }
    void failed(std::size_t, const Error& why) override {
        error = why;
        resume();
    }
    void resume() {  // on the loop's thread, as all that publishes is
        if (suspended) loader.loop_.post([this] { looking.resume(); });
    }
};

Task<> Loader::put_in_memory(std::uint64_t key, ArenaBlock& encoded, std::uint64_t bytes) {
    Load load{.key = key, .deadline = Clock::now() + options_.timeout};
    if (options_.decode) {
        co_await decode(load, encoded.span().first(bytes));
    } else {
        load.block = std::move(encoded);
        load.bytes = bytes;
    }
    for (;;) {
        if (memory_.begin_load(key)) {
            memory_.publish(key, load.block.give_away(), load.bytes, false, false);
            co_return;
        }
        Look look(*this, key);
        co_await look;
        if (look.must_load) {  // it was evicted just now
            memory_.publish(key, load.block.give_away(), load.bytes, false, false);
            co_return;
        }
        if (look.error) continue;  // of a get that came too early
        if (look.lent.bytes != load.bytes || std::memcmp(look.lent.data, load.block.data(), load.bytes) != 0)
            other_bytes(key);
        co_return;
    }
}

// Awaits that a peer has taken a sample.
struct Loader::Offer final : Asker {
    Loader& loader;
    Peers& peers;
    const int owner;
    const std::uint64_t key;
    const std::span<const std::byte> bytes;
    Status status = Status::internal;
    std::string text = {};
    std::coroutine_handle<> offering = {};

    Offer(Loader& by, Peers& among, int peer, std::uint64_t of, std::span<const std::byte> what)
        : loader(by), peers(among), owner(peer), key(of), bytes(what) {}

    bool await_ready() const { return false; }
    void await_suspend(std::coroutine_handle<> handle) {
        offering = handle;
        peers.offer(owner, key, bytes, loader.options_.timeout, *this);
    }
    void await_resume() const {}
    PeerRoom room(std::uint64_t) override { return {}; }
    void answered(Status with, const std::string& why) override {
        status = with;
        text = why;
        loader.loop_.post([this] { offering.resume(); });
    }
};

Task<> Loader::put_there(Peers& peers, int owner, std::uint64_t key, std::span<const std::byte> bytes) {
    Offer offer(*this, peers, owner, key, bytes);
    co_await offer;
    if (offer.status != Status::success)
        throw Error(offer.status, fmt::format("hkt_cache_put: sample {} belongs to {}: {}", key,
                                              peers.name(owner), offer.text));
}

}  // namespace hocket::cache
