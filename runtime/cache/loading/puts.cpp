#include "runtime/cache/loading/puts.hpp"

#include <fmt/format.h>

#include <chrono>
#include <coroutine>
#include <cstring>
#include <exception>

#include "runtime/base/caught.hpp"
#include "runtime/cache/directory/key_flight.hpp"

namespace hocket::cache {
namespace {

using namespace std::chrono_literals;

[[noreturn]] void other_bytes(std::uint64_t key) {
    throw Error(
        Status::mismatch,
        fmt::format("hkt_cache_put: sample {} is there already, with other bytes: a key is written once. Use "
                    "another key, or another hkt_cache_options.dataset",
                    key));
}

}  // namespace

Task<> Puts::put(std::uint64_t key, ArenaBlock encoded, std::uint64_t bytes, bool own, Done done) {
    std::optional<Error> error;
    const std::optional<int> owner = own ? std::nullopt : steps_.owners.other_owner(key);
    try {
        if (owner)
            co_await steps_.owners.give(*owner, key, encoded.span().first(bytes));
        else if (directory_ != nullptr)
            co_await put_on_disk(key, encoded, bytes);
        else
            co_await put_in_memory(key, encoded, bytes);
    } catch (const std::exception& thrown) {
        error = error_of(thrown);
    }
    encoded = ArenaBlock();
    done(error);
}

Task<> Puts::put_on_disk(std::uint64_t key, ArenaBlock& encoded, std::uint64_t bytes) {
    const Loop::Clock::time_point deadline = Loop::Clock::now() + options_.timeout;
    KeyFlight flight(directory_, key);
    while (!flight.begin()) {
        if (Loop::Clock::now() >= deadline)
            throw Error(
                Status::timeout,
                fmt::format("hkt_cache_put: another process has been loading sample {} until the deadline",
                            key));
        co_await loop_.delay(1ms);
    }
    directory_->refresh();
    Load there{.key = key, .deadline = deadline, .is_put = true};
    bool found = co_await steps_.disk.read(there);
    while (!found && directory_->find(key) &&
           Loop::Clock::now() < deadline) {  // the kernel was out of memory
        co_await loop_.delay(1ms);
        found = co_await steps_.disk.read(there);
    }
    if (found) {
        if (there.bytes != bytes || std::memcmp(there.block.data(), encoded.data(), bytes) != 0)
            other_bytes(key);
        co_return;
    }
    const bool stored = co_await steps_.writes.write(key, encoded.span(), bytes);
    if (!stored)
        throw Error(Status::io, fmt::format("hkt_cache_put: sample {} of {} bytes is not on the disk: {}",
                                            key, bytes, directory_->stats().trouble));
}

// Awaits a sample that memory has, or that is on its way.
struct Puts::Look final : Waiter {
    Puts& puts;
    const std::uint64_t key;
    Lent lent = {};
    std::optional<Error> error = std::nullopt;
    bool must_load = false, suspended = false;
    std::coroutine_handle<> looking = {};

    Look(Puts& by, std::uint64_t of) : puts(by), key(of) {}
    ~Look() {
        if (lent.resident != nullptr) puts.memory_.release(lent);
    }

    bool await_ready() const { return false; }
    bool await_suspend(std::coroutine_handle<> handle) {
        looking = handle;
        const Memory::Answer answer = puts.memory_.get(key, *this, 0, lent, Memory::User::other);
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
    void resume() {  // on the loop's thread, as all publishing is
        if (suspended) puts.loop_.post([this] { looking.resume(); });
    }
};

Task<> Puts::put_in_memory(std::uint64_t key, ArenaBlock& encoded, std::uint64_t bytes) {
    Load load{.key = key, .deadline = Loop::Clock::now() + options_.timeout};
    if (options_.decode) {
        co_await steps_.calls.decode(load, encoded.span().first(bytes));
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
        if (look.must_load) {  // it was evicted in between
            memory_.publish(key, load.block.give_away(), load.bytes, false, false);
            co_return;
        }
        if (look.error) continue;  // the error is of a get whose load failed meanwhile
        if (look.lent.bytes != load.bytes || std::memcmp(look.lent.data, load.block.data(), load.bytes) != 0)
            other_bytes(key);
        co_return;
    }
}

}  // namespace hocket::cache
