#include "runtime/cache/loading/embedder_calls.hpp"

#include <fmt/format.h>

#include <chrono>
#include <string>
#include <utility>

#include "runtime/cache/room/value.hpp"

namespace hocket::cache {
namespace {

using namespace std::chrono_literals;

// The longest time that a prefetch may occupy a worker.
constexpr std::chrono::milliseconds patience_of_prefetch = 50ms;

Loop::Clock::time_point deadline_of_call(const Load& load) {
    return load.is_prefetch ? Loop::Clock::now() + patience_of_prefetch : load.deadline;
}

// Checks the result of a function of the embedder.
void check(Status status, const Value& value, const char* function, const LoadOptions& options,
           std::uint64_t key) {
    if (status == Status::success && value.is_reserved()) return;
    if (status == Status::limit && !value.trouble().empty())  // our refusal, passed through
        throw Error(Status::limit, value.trouble());
    if (status == Status::success)
        throw Error(Status::invalid_argument,
                    fmt::format("the {} function returned success for {}, but reserved no room for it "
                                "(hkt_cache_value_reserve)",
                                function, options.name_of(key)));
    const std::string why = value.trouble().empty() ? "" : ": " + value.trouble();
    throw Error(static_cast<int>(status) < 0 ? status : Status::invalid_argument,
                fmt::format("the {} function failed for {} with status {}{}", function, options.name_of(key),
                            static_cast<int>(status), why));
}

}  // namespace

EmbedderCalls::EmbedderCalls(const LoadOptions& options, Loop& loop, LoadRoom& room)
    : options_(options),
      loop_(loop),
      room_(room),
      readers_(options.workers.value_or(default_readers)),
      decoders_(options.workers.value_or(default_decoders)) {}

Task<> EmbedderCalls::read(Load& load) {
    for (bool is_over = false; !is_over;) {
        Value value(room_.gate(), room_.use_of(load, false), deadline_of_call(load),
                    options_.decode ? nullptr : load.spare);
        const auto call = [&] { return options_.read(load.key, value); };
        const Status status = co_await loop_.on_worker(readers_, call);
        is_over = has_taken(load, status, value, "read");
    }
}

Task<> EmbedderCalls::decode(Load& load, std::span<const std::byte> encoded) {
    for (bool is_over = false; !is_over;) {
        RoomGate::Use use = room_.use_of(load, true);
        use.beside = encoded.size();
        Value value(room_.gate(), use, deadline_of_call(load), load.spare);
        const auto call = [&] { return options_.decode(load.key, encoded, value); };
        const Status status = co_await loop_.on_worker(decoders_, call);
        is_over = has_taken(load, status, value, "decode");
    }
}

// Returns false if the load was a prefetch that found no room, and a caller waits for it by now; then call
// again.
bool EmbedderCalls::has_taken(Load& load, Status status, Value& value, const char* function) {
    if (value.found_no_room()) {
        if (!load.is_prefetch) throw Error(Status::timeout, value.trouble());
        return room_.give_up(load);
    }
    check(status, value, function, options_, load.key);
    load.block = std::move(value.block);
    load.bytes = value.bytes;
    room_.note_made(load.bytes);
    return true;
}

}  // namespace hocket::cache
