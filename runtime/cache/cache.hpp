// The data cache: samples by number, from memory, the disk, other ranks or the source (Shi et al. 2021,
// section 4.1).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/cache/batch.hpp"
#include "runtime/cache/directory/directory.hpp"
#include "runtime/cache/loading/counters.hpp"
#include "runtime/cache/loading/loader.hpp"
#include "runtime/cache/memory/memory.hpp"
#include "runtime/cache/options.hpp"
#include "runtime/cache/peers/questions.hpp"
#include "runtime/cache/server.hpp"

namespace hocket::cache {

// All functions are thread-safe, and throw hocket::Error with the codes that hocket.h documents.
class Cache {
  public:
    // Does not use the samples of other datasets in options.folder, but may evict their sealed segments to
    // make room (directory/directory.hpp).
    explicit Cache(CacheOptions options);
    ~Cache();

    // Names the dataset and, if decoded samples are meant, the decoder, in hexadecimal digits. Peers whose
    // identities differ must not exchange samples.
    std::string identity(bool decoded) const;
    // Answers peers' questions. Valid as long as the cache lives.
    SampleAnswerer& answerer() { return *server_; }
    // give_encoded: the peers return the source's bytes; else the decoder's output.
    void set_peers(std::unique_ptr<CachePeers> peers, bool give_encoded);
    // Adds a service for processes that ask this cache (hkt_cache_serve). It is kept until the cache closes.
    void add_guests(std::unique_ptr<CachePeers> service);

    Lent get(std::uint64_t key);
    // The caller must end the batch with its wait() or test().
    Batch& get_batch(std::span<const std::uint64_t> keys, Lent* samples);
    // Waits for the batch and records the time spent. Returns false if `until` is reached first; the batch
    // continues.
    bool wait(Batch& batch, Batch::Clock::time_point until = Batch::Clock::time_point::max());
    void release(const Lent& sample) { memory_.release(sample); }

    void put(std::uint64_t key, std::span<const std::byte> bytes);
    void prefetch(std::span<const std::uint64_t> keys);
    void set_order(std::span<const std::uint64_t> keys, std::uint64_t cursor);
    std::uint64_t cursor() const { return memory_.cursor(); }
    std::uint64_t count() const;
    std::uint64_t find(const std::string& name) const;
    // The sample's, by which find() finds it, as Source::name() says. Throws Error(not_found).
    std::string name(std::uint64_t key) const;
    void flush();

    using Progress = std::function<bool(std::uint64_t done, std::uint64_t all)>;
    Directory::Verification verify(const Progress& progress);

    struct Stats {
        Memory::Stats memory;
        DirectoryStats disk;
        const Counters* counters;
        std::string io, trouble, damage, peer_trouble;
    };
    Stats stats() const;

    const CacheOptions& options() const { return options_; }

  private:
    const CacheOptions options_;
    const Files files_;
    Counters counters_;
    Memory memory_;
    std::unique_ptr<Directory> directory_;
    std::unique_ptr<Loader> loader_;
    std::unique_ptr<Server> server_;
    std::unique_ptr<CachePeers> peers_;
    std::mutex mutex_;  // guards guests_; also held while an order is set
    std::vector<std::unique_ptr<CachePeers>> guests_;
    Digest dataset_{};
};

}  // namespace hocket::cache
