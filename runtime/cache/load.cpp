// The steps of one load.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "runtime/cache/directory/key_flight.hpp"
#include "runtime/cache/loader.hpp"

namespace hocket::cache {
namespace {

using namespace std::chrono_literals;

// At whether another process has loaded a sample: between the first looks, and between the later ones.
constexpr std::chrono::microseconds first_look = 200us, last_look = 10ms;
constexpr std::chrono::milliseconds most_patience_with_peers = 5s, patience_with_silence = 30s;

std::string error_text(std::int64_t negative) {
    return std::generic_category().message(static_cast<int>(-negative));
}

[[noreturn]] void source_failed(const std::string& path, const char* call, std::int64_t negative) {
    throw Error(Status::io,
                fmt::format("the source cannot be read: {}: {}: {}", path, call, error_text(negative)));
}

[[noreturn]] void source_changed(const std::string& path, const std::string& how) {
    throw Error(Status::io,
                fmt::format("the source has changed since the cache was opened: {}: {}; open the cache again",
                            path, how));
}

}  // namespace

Task<> Loader::bring(Load& load, KeyFlight& flight) {
    if (!keep_spare(load)) co_return;
    bool found = false;
    if (directory_ != nullptr) found = co_await from_disk(load);
    if (found || load.gave_up) co_return;
    if (!load.own) found = co_await from_owner(load);
    if (found || load.gave_up) co_return;
    if (directory_ != nullptr) {
        found = co_await wait_for_flight(load, flight);
        if (found || load.gave_up) co_return;
    }
    co_await from_source(load);
}

RoomGate::Use Loader::use_of(const Load& load, bool is_decoded) const {
    const bool is_final = is_decoded || !options_.decode || load.is_put;
    const Share share = is_final ? Share::none : Share::encoded;
    if (!load.is_prefetch) return {.bytes = 0, .share = share, .key = load.key};
    const bool may_displace = load.position && is_near(*load.position);
    return {.bytes = 0, .position = may_displace ? *load.position : UINT64_MAX, .share = share};
}

// Further ahead, a sample takes only room that nothing with a position of its own is in. With memory for a
// part of the samples, loading half of it ahead still spares that part of the loads, as loading nothing ahead
// would; loading all of it ahead would spare few.
bool Loader::is_near(std::uint64_t position) const {
    return position < memory_.cursor() + std::max<std::uint64_t>(options_.depth, memory_.evictable() / 2);
}

// There was no room for a prefetch. True: nobody waits for it, and the load ends. False: somebody has come.
bool Loader::give_up(Load& load) {
    if (!load.is_prefetch) return false;
    load.gave_up = memory_.abandon(load.key);
    load.is_prefetch = false;
    load.deadline = Clock::now() + options_.timeout;
    return load.gave_up;
}

// What a function makes has no size before: a prefetch takes as much room as others have, or is not begun,
// lest the source is read in vain. False: it gave up.
bool Loader::keep_spare(Load& load) {
    if (!load.is_prefetch || (!options_.read && !options_.decode)) return true;
    RoomGate::Use use = use_of(load, true);
    use.bytes = made_bytes_;
    ArenaBlock block = gate_.look(use);
    if (!block) return !give_up(load);
    load.spare->keep(std::move(block));
    return true;
}

Task<ArenaBlock> Loader::room(Load& load, std::uint64_t bytes) {
    if (!options_.decode && load.spare != nullptr) load.spare->take();  // no function makes it
    RoomGate::Use use = use_of(load, false);
    use.bytes = bytes;
    ArenaBlock block = gate_.look(use);
    if (block || give_up(load)) co_return block;
    use.position.reset();
    use.key = load.key;
    block = co_await gate_.wait(use, load.deadline);
    if (!block) throw Error(Status::timeout, gate_.why_full(bytes));
    co_return block;
}

// A key may have several records: where one proves damaged, the next one may be right.
Task<bool> Loader::from_disk(Load& load) {
    while (const std::optional<Place> place = directory_->find(load.key)) {
        const Entry& entry = place->entry;
        const std::uint64_t reach = std::max(align_up(entry.bytes, place->unit), place->unit);
        ArenaBlock block = co_await room(load, reach);
        if (load.gave_up) co_return false;
        const std::int64_t got = co_await loop_.read(place->fd, block.data(), reach, entry.offset);
        if (got == -EAGAIN || got == -ENOMEM) co_return false;  // no fault of the record
        if (got < static_cast<std::int64_t>(entry.bytes) ||
            !Directory::is_right(*place, {block.data(), entry.bytes})) {
            directory_->forget(*place);
            continue;
        }
        ++counters_.disk_hits;
        counters_.disk_read_bytes += entry.bytes;
        load.block = std::move(block);
        load.bytes = entry.bytes;
        co_return true;
    }
    co_return false;
}

// Until the flight is ours, or the sample is on the disk.
Task<bool> Loader::wait_for_flight(Load& load, KeyFlight& flight) {
    for (std::chrono::microseconds pause = first_look;; pause = std::min(2 * pause, last_look)) {
        const bool begun = flight.begin();
        directory_->refresh();
        const bool found = co_await from_disk(load);
        if (found || load.gave_up) co_return found;
        if (begun || Clock::now() >= load.deadline) co_return false;
        co_await loop_.delay(pause);
    }
}

// ---- The source ---------------------------------------------------------------------------------

Task<> Loader::from_source(Load& load) {
    if (!options_.source)
        throw Error(Status::not_found,
                    fmt::format("sample {} has not been put, and the cache has no source", load.key));
    const Origin origin = options_.source->origin(load.key);
    if (const auto* file = std::get_if<WholeFile>(&origin)) {
        co_await read_whole(load, *file);
    } else if (const auto* part = std::get_if<PartOfFile>(&origin)) {
        co_await read_part(load, *part);
    } else {
        co_await call_read(load);
    }
    if (load.gave_up) co_return;
    ++counters_.source_reads;
    counters_.source_read_bytes += load.bytes;
    load.is_fresh = true;
}

Task<> Loader::read_part(Load& load, const PartOfFile& part) {
    ArenaBlock block = co_await room(load, part.bytes);
    if (load.gave_up) co_return;
    const std::int64_t got = co_await loop_.read(part.fd, block.data(), part.bytes, part.offset);
    if (got < 0) source_failed(part.path, "read", got);
    if (static_cast<std::uint64_t>(got) < part.bytes)
        source_changed(part.path, fmt::format("it ends in the middle of sample {}", load.key));
    struct stat now;
    if (fstat(part.fd, &now) != 0) source_failed(part.path, "fstat", -errno);
    if (now.st_mtim.tv_sec * std::int64_t{1000000000} + now.st_mtim.tv_nsec != part.changed_ns)
        source_changed(part.path, "it has been written");
    load.block = std::move(block);
    load.bytes = part.bytes;
}

Task<> Loader::read_whole(Load& load, const WholeFile& file) {
    ArenaBlock block = co_await room(load, file.bytes);
    if (load.gave_up) co_return;
    const int fd = co_await loop_.open(file.path, O_RDONLY);
    if (fd == -ENOENT) source_changed(file.path, "it is gone");
    if (fd == -irregular_file) source_changed(file.path, "it is not a regular file any more");
    if (fd < 0) source_failed(file.path, "open", fd);
    const std::int64_t got = co_await loop_.read(fd, block.data(), file.bytes, 0);
    Files::close(fd);
    if (got < 0) source_failed(file.path, "read", got);
    struct statx now;
    const int status = co_await loop_.status(file.path, now);
    if (status == -ENOENT) source_changed(file.path, "it is gone");
    if (status < 0) source_failed(file.path, "statx", status);
    const std::int64_t changed_ns = now.stx_mtime.tv_sec * std::int64_t{1000000000} + now.stx_mtime.tv_nsec;
    if (now.stx_size != file.bytes || static_cast<std::uint64_t>(got) != file.bytes)
        source_changed(file.path, fmt::format("it had {} bytes, now {}", file.bytes, now.stx_size));
    if (changed_ns != file.changed_ns) source_changed(file.path, "it has been written");
    load.block = std::move(block);
    load.bytes = file.bytes;
}

namespace {

// What a function of the embedder has answered.
void check(Status status, const Value& value, const char* function, const std::string& sample) {
    if (status == Status::limit && !value.trouble().empty())  // our refusal, handed on
        throw Error(Status::limit, value.trouble());
    if (status != Status::success) {
        const std::string why = value.trouble().empty() ? "" : ": " + value.trouble();
        throw Error(static_cast<int>(status) < 0 ? status : Status::invalid_argument,
                    fmt::format("the {} function failed for {} with status {}{}", function, sample,
                                static_cast<int>(status), why));
    }
    if (!value.is_reserved())
        throw Error(Status::invalid_argument,
                    fmt::format("the {} function returned success for {}, but reserved no room for it "
                                "(hkt_cache_value_reserve)",
                                function, sample));
}

// A prefetch does not keep a worker for longer.
constexpr std::chrono::milliseconds patience_of_prefetch = 50ms;

}  // namespace

void Loader::take(Load& load, Value& value) {
    load.block = std::move(value.block);
    load.bytes = value.bytes;
    made_bytes_ = std::max(load.bytes, made_bytes_ - made_bytes_ / 16);
}

Task<> Loader::call_read(Load& load) {
    for (;;) {
        const Clock::time_point deadline =
            load.is_prefetch ? Clock::now() + patience_of_prefetch : load.deadline;
        Value value(gate_, use_of(load, false), deadline, options_.decode ? nullptr : load.spare);
        const auto call = [&] { return options_.read(load.key, value); };
        const Status status = co_await loop_.on_worker(readers_, call);
        if (value.found_no_room()) {
            if (!load.is_prefetch) throw Error(Status::timeout, value.trouble());
            if (give_up(load)) co_return;
            continue;
        }
        check(status, value, "read", name_of(load.key));
        take(load, value);
        co_return;
    }
}

Task<> Loader::decode(Load& load, std::span<const std::byte> encoded) {
    for (;;) {
        const Clock::time_point deadline =
            load.is_prefetch ? Clock::now() + patience_of_prefetch : load.deadline;
        RoomGate::Use use = use_of(load, true);
        use.beside = encoded.size();
        Value value(gate_, use, deadline, load.spare);
        const auto call = [&] { return options_.decode(load.key, encoded, value); };
        const Status status = co_await loop_.on_worker(decoders_, call);
        if (value.found_no_room()) {
            if (!load.is_prefetch) throw Error(Status::timeout, value.trouble());
            if (give_up(load)) co_return;
            continue;
        }
        check(status, value, "decode", name_of(load.key));
        take(load, value);
        co_return;
    }
}

// ---- The owner ----------------------------------------------------------------------------------

// Awaits the owner's answer.
struct Loader::Question final : Asker {
    Loader& loader;
    Peers& peers;
    const int owner;
    const std::uint64_t key;
    RoomGate::Use use;
    ArenaBlock block = {};
    std::uint64_t bytes = 0;
    Status status = Status::internal;
    bool found_no_room = false;
    std::string text = {};
    std::coroutine_handle<> asking = {};

    Question(Loader& by, Peers& among, int peer, const Load& load)
        : loader(by),
          peers(among),
          owner(peer),
          key(load.key),
          use(by.use_of(load, !by.peers_give_encoded_)) {}

    bool await_ready() const { return false; }
    void await_suspend(std::coroutine_handle<> handle) {
        asking = handle;
        const auto patience = std::min(loader.options_.timeout / 4, most_patience_with_peers);
        peers.ask(owner, key, patience, *this);
    }
    void await_resume() const {}

    PeerRoom room(std::uint64_t wanted) override {
        try {
            use.bytes = wanted;
            block = loader.gate_.look(use);
        } catch (const Error&) {  // larger than the memory: the source will say so
            return {};
        }
        bytes = wanted;
        found_no_room = !block;
        // A prefetch must not hold up the answers behind it: who has to go on before there is room for it may
        // be waiting for them.
        const bool later = found_no_room && !use.position;
        if (later) ++loader.answers_put_off_;
        return {.data = block.data(), .later = later};
    }
    void answered(Status with, const std::string& why) override {
        status = with;
        text = why;
        loader.loop_.post([this] { asking.resume(); });
    }
};

void Loader::note_failure(const std::string& text) {
    ++counters_.peer_failures;
    const std::lock_guard lock(peer_trouble_mutex_);
    peer_trouble_ = text;
}

std::string Loader::peer_trouble() const {
    const std::lock_guard lock(peer_trouble_mutex_);
    return peer_trouble_;
}

Task<bool> Loader::from_owner(Load& load) {
    if (peers_ == nullptr) co_return false;
    const int owner = owner_of(load.key, peers_->count());
    if (owner == peers_->self() || peers_->is_down(owner) || Clock::now() < silent_until_[owner])
        co_return false;
    load.spare->take();  // the answer has a size
    const std::uint64_t put_off = answers_put_off_;
    Question question(*this, *peers_, owner, load);
    co_await question;
    if (question.found_no_room && load.is_prefetch) {
        if (give_up(load)) co_return false;
        const bool found = co_await from_owner(load);  // somebody waits for it now
        co_return found;
    }
    if (question.status != Status::success || !question.block) {
        if (question.found_no_room) co_return false;  // the owner is not to blame
        if (question.status != Status::not_found) note_failure(question.text);
        if (question.status == Status::timeout && answers_put_off_ == put_off)  // it was not we who kept it
            silent_until_[owner] = Clock::now() + patience_with_silence;
        co_return false;
    }
    ++counters_.peer_hits;
    counters_.peer_read_bytes += question.bytes;
    load.block = std::move(question.block);
    load.bytes = question.bytes;
    load.is_copy = load.is_decoded = !peers_give_encoded_;
    load.is_fresh = peers_give_encoded_;
    co_return true;
}

}  // namespace hocket::cache
