#include "runtime/cache/cache.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <future>
#include <utility>

#include "runtime/cache/segments/space.hpp"

namespace hocket::cache {
namespace {

// Returns half of the space available to this folder, whether it is used already or not.
std::uint64_t default_limit(const Files& files, const std::string& folder, bool writable) {
    std::error_code error;
    if (writable) std::filesystem::create_directories(folder, error);
    const auto space = std::filesystem::space(folder, error);
    if (error) return 0;
    const std::int64_t used = used_bytes(files, folder);
    return (space.available + static_cast<std::uint64_t>(std::max<std::int64_t>(used, 0))) / 2;
}

Digest dataset_of(const CacheOptions& options) {
    return mix(options.source ? options.source->fingerprint() : Digest{}, options.dataset);
}

// Returns a label for people who look into the folder.
std::string label_of(const CacheOptions& options) {
    const std::string location = options.source ? options.source->location() : "";
    if (options.dataset.empty() || location.empty()) return options.dataset + location;
    return fmt::format("{} from {}", options.dataset, location);
}

std::string text(const Digest& digest) {
    return fmt::format("{:016x}{:016x}", digest[0], digest[1]);
}

}  // namespace

Cache::Cache(CacheOptions options)
    : options_(std::move(options)), files_(options_.faults), memory_(options_.memory_bytes) {
    dataset_ = dataset_of(options_);
    if (!options_.folder.empty()) {
        const bool writable = options_.store != Store::none;
        const std::uint64_t limit =
            options_.disk_bytes != 0 ? options_.disk_bytes : default_limit(files_, options_.folder, writable);
        const DirectoryOptions disk{.folder = options_.folder,
                                    .limit_bytes = limit,
                                    .dataset = dataset_,
                                    .label = label_of(options_),
                                    .writable = writable,
                                    .source_samples = options_.source ? options_.source->count() : 0};
        directory_ = std::make_unique<Directory>(files_, disk);
    }
    loader_ = std::make_unique<Loader>(options_, files_, memory_, directory_.get(), counters_);
    server_ = std::make_unique<Server>(memory_, *loader_, counters_);
}

// First stops the peers, then lets all loads and writes end, then closes the folder, which makes it durable.
Cache::~Cache() {
    guests_.clear();
    loader_->set_peers(nullptr);
    peers_.reset();
    loader_.reset();
    directory_.reset();
}

std::string Cache::identity(bool decoded) const {
    return fmt::format("dataset {}, decoder {}", text(dataset_),
                       decoded && options_.decode ? text(mix({}, options_.decoder)) : "none");
}

void Cache::set_peers(std::unique_ptr<CachePeers> peers, bool give_encoded) {
    peers_ = std::move(peers);
    loader_->set_peers(peers_.get(), give_encoded);
}

void Cache::add_guests(std::unique_ptr<CachePeers> service) {
    const std::lock_guard lock(mutex_);
    guests_.push_back(std::move(service));
}

bool Cache::wait(Batch& batch, Batch::Clock::time_point until) {
    const auto start = Batch::Clock::now();
    struct Count {
        Counters& counters;
        const Batch::Clock::time_point start;
        ~Count() {
            counters.wait_ns +=
                std::chrono::duration_cast<std::chrono::nanoseconds>(Batch::Clock::now() - start).count();
        }
    } const count{counters_, start};
    return batch.wait(until);
}

Lent Cache::get(std::uint64_t key) {
    Lent sample;
    if (memory_.get_if_there(key, sample)) return sample;
    wait(get_batch({&key, 1}, &sample));
    return sample;
}

Batch& Cache::get_batch(std::span<const std::uint64_t> keys, Lent* samples) {
    Batch& batch = *Batch::create(memory_, samples, keys.size(), Batch::Clock::now() + options_.timeout);
    std::vector<std::uint64_t> to_load;
    to_load.reserve(keys.size());
    std::size_t there = 0;
    for (std::size_t i = 0; i < keys.size(); ++i) {
        samples[i] = {};
        switch (memory_.get(keys[i], batch, i, samples[i])) {
            case Memory::Answer::lent:
                ++there;
                break;
            case Memory::Answer::must_load:
                to_load.push_back(keys[i]);
                break;
            case Memory::Answer::waiting:
                ++counters_.shared_loads;
                break;
        }
    }
    if (!to_load.empty()) loader_->load(std::move(to_load));
    batch.open(there);
    return batch;
}

void Cache::put(std::uint64_t key, std::span<const std::byte> bytes) {
    if (key < count())
        throw Error(
            Status::invalid_argument,
            fmt::format("hkt_cache_put: sample {} is {} of the source, and comes from there: put samples "
                        "under keys from {} on, or into a cache without a source",
                        key, options_.source->name(key), count()));
    ArenaBlock block = loader_->gate().wait_blocking({.bytes = bytes.size(), .share = Share::put},
                                                     Loader::Clock::now() + options_.timeout);
    if (!block) throw Error(Status::timeout, loader_->gate().why_full(bytes.size()));
    if (!bytes.empty()) std::memcpy(block.data(), bytes.data(), bytes.size());
    std::promise<std::optional<Error>> answer;
    loader_->put(key, std::move(block), bytes.size(), false,
                 [&](const std::optional<Error>& error) { answer.set_value(error); });
    if (const std::optional<Error> error = answer.get_future().get()) throw *error;
}

void Cache::prefetch(std::span<const std::uint64_t> keys) {
    loader_->prefetch({keys.begin(), keys.end()});
}

void Cache::set_order(std::span<const std::uint64_t> keys, std::uint64_t cursor) {
    if (cursor > keys.size())
        throw Error(Status::invalid_argument,
                    fmt::format("hkt_cache_set_order: the cursor is {}, but the order has {} keys", cursor,
                                keys.size()));
    std::shared_ptr<const Order> order;
    if (!keys.empty()) order = std::make_shared<const Order>(keys, cursor);
    // The lock makes memory_ and loader_ keep the same order if two threads set one at once.
    const std::lock_guard lock(mutex_);
    memory_.set_order(order);
    loader_->set_order(std::move(order));
}

std::uint64_t Cache::count() const {
    return options_.source ? options_.source->count().value_or(0) : 0;
}

std::uint64_t Cache::find(const std::string& name) const {
    const auto key = options_.source ? options_.source->find(name) : std::nullopt;
    if (!key)
        throw Error(Status::not_found,
                    fmt::format("the source has no file \"{}\" (names are relative to its folder)", name));
    return *key;
}

std::string Cache::name(std::uint64_t key) const {
    const std::uint64_t samples = count();
    if (!options_.source || (options_.source->count() && key >= samples))
        throw Error(Status::not_found,
                    fmt::format("there is no sample {}: the source has {}, numbered from 0", key, samples));
    return options_.source->name(key);
}

void Cache::flush() {
    loader_->settle();
    if (directory_) directory_->flush();
}

Directory::Verification Cache::verify(const Progress& progress) {
    return directory_ ? directory_->verify(progress) : Directory::Verification{};
}

Cache::Stats Cache::stats() const {
    Stats stats{.memory = memory_.stats(),
                .disk = {},
                .counters = &counters_,
                .io = loader_->io_name(),
                .trouble = "",
                .damage = "",
                .peer_trouble = ""};
    if (directory_) stats.disk = directory_->stats();
    stats.trouble = stats.disk.trouble;
    stats.damage = stats.disk.damage;
    stats.peer_trouble = loader_->peer_trouble();
    return stats;
}

}  // namespace hocket::cache
