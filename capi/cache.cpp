// hkt_cache_*: checks and translates the arguments, nothing more.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <vector>

#include "capi/growth.hpp"
#include "capi/handles.hpp"
#include "runtime/cache/among_ranks/cache_peers.hpp"
#include "runtime/cache/environment.hpp"
#include "runtime/cache/objects/url.hpp"

using namespace hocket;

static_assert(sizeof(hkt_sample) == sizeof(cache::Lent) &&
              offsetof(hkt_sample, data) == offsetof(cache::Lent, data) &&
              offsetof(hkt_sample, bytes) == offsetof(cache::Lent, bytes) &&
              offsetof(hkt_sample, key) == offsetof(cache::Lent, key) &&
              offsetof(hkt_sample, lent) == offsetof(cache::Lent, resident));

static_assert(HKT_CACHE_STORE_DEFAULT == static_cast<int>(cache::Store::unless_behind) &&
              HKT_CACHE_STORE_ALL == static_cast<int>(cache::Store::all) &&
              HKT_CACHE_STORE_NONE == static_cast<int>(cache::Store::none));

namespace {

cache::Cache& opened(const hkt_cache* handle, const char* function) {
    if (handle == nullptr) capi::refuse(fmt::format("{}: cache is null", function));
    handle->require_own("cache");
    return *handle->cache;
}

cache::Value* value_of(hkt_cache_value* value) {
    return reinterpret_cast<cache::Value*>(value);
}
hkt_cache_value* handle(cache::Value& value) {
    return reinterpret_cast<hkt_cache_value*>(&value);
}

void take_functions(const hkt_cache_options& given, cache::CacheOptions& options) {
    if (given.read != nullptr) {
        options.read = [read = given.read, context = given.read_context](std::uint64_t key,
                                                                         cache::Value& sample) {
            return static_cast<Status>(read(context, key, handle(sample)));
        };
        options.source = cache::callback_source(options.dataset);
    }
    if (given.decode != nullptr) {
        if (capi::text_of(given.decoder).empty())
            capi::refuse(
                "hkt_cache_options.decode is set, but decoder is not: say there in words what it does, so "
                "that samples of another decoder are not taken for its own");
        options.decoder = given.decoder;
        options.decode = [decode = given.decode, context = given.decode_context](
                             std::uint64_t key, std::span<const std::byte> encoded, cache::Value& sample) {
            return static_cast<Status>(decode(context, key, encoded.data(), encoded.size(), handle(sample)));
        };
    }
}

void check_options(const hkt_cache_options& given) {
    if (given.source != nullptr && given.read != nullptr)
        capi::refuse(
            "hkt_cache_options has both a source and a read function: samples come from one of them");
    if (given.source_index != nullptr && given.source == nullptr)
        capi::refuse("hkt_cache_options.source_index is set, but not source");
    if (given.read != nullptr && capi::text_of(given.dataset).empty())
        capi::refuse(
            "hkt_cache_options.read needs a dataset: a name and a version of the samples, so that samples on "
            "the disk are never taken for others");
    if (given.comm != nullptr && given.servers != nullptr)
        capi::refuse(
            "hkt_cache_options has both comm and servers: a sample's owner is either a rank or a server");
    if (given.io < HKT_CACHE_IO_DEFAULT || given.io > HKT_CACHE_IO_THREADS)
        capi::refuse(fmt::format("hkt_cache_options.io is {}; it must be an hkt_cache_io", given.io));
    if (given.store < HKT_CACHE_STORE_DEFAULT || given.store > HKT_CACHE_STORE_NONE)
        capi::refuse(
            fmt::format("hkt_cache_options.store is {}; it must be an hkt_cache_store", given.store));
    if (given.depth < 0 || given.depth > 4096 || given.workers < 0 || given.workers > 1024 ||
        given.timeout_ms < 0)
        capi::refuse(fmt::format(
            "hkt_cache_options has depth {}, workers {}, timeout_ms {}: depth is up to 4096, workers "
            "up to 1024, timeout_ms is not negative, and 0 is the default of each",
            given.depth, given.workers, given.timeout_ms));
}

// A cache folder inside the source is refused: the cache's own files would become samples.
void check_apart(const std::string& folder, const std::string& source) {
    if (folder.empty()) return;
    std::error_code ignored;
    const std::string inner = std::filesystem::weakly_canonical(folder, ignored).string() + "/",
                      outer = std::filesystem::weakly_canonical(source, ignored).string() + "/";
    if (inner.starts_with(outer))
        capi::refuse(fmt::format(
            "the cache's folder {} is in its source {}: the source is never written; give another folder",
            folder, source));
}

void take_source(const hkt_cache_options& given, cache::CacheOptions& options) {
    if (!cache::is_url(given.source)) check_apart(options.folder, given.source);
    options.source = cache::open_source(given.source, capi::text_of(given.source_index), options.timeout);
    options.depth = options.source->depth();
}

std::unique_ptr<cache::Cache> open_cache(const hkt_cache_options& given) {
    warn_of_misspelt_variables("cache");
    cache::CacheOptions options = cache::from_environment();
    if (given.folder != nullptr) options.folder = given.folder;
    if (given.memory_bytes != 0) options.memory_bytes = given.memory_bytes;
    if (given.disk_bytes != 0) options.disk_bytes = given.disk_bytes;
    options.dataset = capi::text_of(given.dataset);
    take_functions(given, options);
    if (given.io == HKT_CACHE_IO_URING) options.io = cache::IoKind::ring;
    if (given.io == HKT_CACHE_IO_THREADS) options.io = cache::IoKind::threads;
    options.store = static_cast<cache::Store>(given.store);
    if (given.workers != 0) options.workers = static_cast<unsigned>(given.workers);
    if (given.timeout_ms != 0)
        options.timeout = std::chrono::milliseconds(std::min(given.timeout_ms, longest_timeout_ms));
    if (given.source != nullptr) take_source(given, options);
    if (given.depth != 0) options.depth = static_cast<unsigned>(given.depth);
    if (options.source) options.source->limit_reads(options.depth);
    return std::make_unique<cache::Cache>(std::move(options));
}

// The calling thread's copies of the texts that these functions return.
struct Texts {
    std::string io, trouble, damage, peer_trouble, findings, name;
};
Texts& own_texts() {
    thread_local Texts texts;
    return texts;
}

}  // namespace

extern "C" {

void* hkt_cache_value_reserve(hkt_cache_value* value, size_t bytes) {
    return value == nullptr ? nullptr : value_of(value)->reserve(bytes);
}

hkt_status hkt_cache_open(const hkt_cache_options* options, hkt_cache** cache) {
    return capi::guarded([&] {
        if (cache == nullptr)
            capi::refuse("hkt_cache_open: cache is null; pass the address of an hkt_cache*");
        *cache = nullptr;
        const hkt_cache_options given = capi::read_options(options);
        const auto make = [&] {
            check_options(given);
            return open_cache(given);
        };
        auto made = std::make_unique<hkt_cache>();
        if (given.comm != nullptr) {
            given.comm->require_own("communicator");
            made->cache = cache::open_with_ranks(*given.comm->engine, make);
        } else {
            made->cache = make();
            if (given.servers == nullptr || *given.servers != '\0')
                cache::join_servers(*made->cache, capi::text_of(given.servers), capi::text_of(given.secret));
        }
        *cache = made.release();
        return HKT_SUCCESS;
    });
}

void hkt_cache_close(hkt_cache* cache) {
    if (cache != nullptr && cache->is_of_a_parent()) capi::give_up(cache->cache);
    delete cache;
}

hkt_status hkt_cache_get(hkt_cache* cache, uint64_t key, hkt_sample* sample) {
    return capi::guarded([&] {
        cache::Cache& from = opened(cache, "hkt_cache_get");
        if (sample == nullptr)
            capi::refuse("hkt_cache_get: sample is null; pass the address of an hkt_sample");
        const cache::Lent lent = from.get(key);
        *sample = {lent.data, lent.bytes, lent.key, lent.resident};
        return HKT_SUCCESS;
    });
}

hkt_status hkt_cache_get_batch(hkt_cache* cache, const uint64_t* keys, size_t count, hkt_sample* samples,
                               hkt_request** request) {
    return capi::guarded([&] {
        if (request != nullptr) *request = nullptr;
        cache::Cache& from = opened(cache, "hkt_cache_get_batch");
        capi::check_array(keys, count, "hkt_cache_get_batch", "keys");
        capi::check_array(samples, count, "hkt_cache_get_batch", "samples");
        cache::Batch& batch = from.get_batch({keys, count}, reinterpret_cast<cache::Lent*>(samples));
        batch.user = cache;
        if (request == nullptr)
            from.wait(batch);
        else
            *request = capi::handle(batch);
        return HKT_SUCCESS;
    });
}

hkt_status hkt_cache_copy_batch(hkt_cache* cache, const uint64_t* keys, size_t count, void* memory,
                                size_t room, uint64_t* offsets) {
    return capi::guarded([&] {
        const char* const function = "hkt_cache_copy_batch";
        cache::Cache& from = opened(cache, function);
        capi::check_array(keys, count, function, "keys");
        if (offsets == nullptr) capi::refuse(fmt::format("{}: offsets is null", function));
        std::vector<cache::Lent> samples(count);
        from.wait(from.get_batch({keys, count}, samples.data()));
        offsets[0] = 0;
        for (std::size_t i = 0; i < count; ++i) offsets[i + 1] = offsets[i] + samples[i].bytes;
        const bool fits = memory != nullptr && offsets[count] <= room;
        for (std::size_t i = 0; i < count; ++i) {
            if (fits && samples[i].bytes > 0)
                std::memcpy(static_cast<std::byte*>(memory) + offsets[i], samples[i].data, samples[i].bytes);
            from.release(samples[i]);
        }
        return HKT_SUCCESS;
    });
}

void hkt_cache_release(hkt_cache* cache, const hkt_sample* samples, size_t count) {
    if (cache == nullptr || samples == nullptr || cache->is_of_a_parent()) return;
    for (std::size_t i = 0; i < count; ++i) {
        if (samples[i].lent == nullptr) continue;
        cache->cache->release({static_cast<const std::byte*>(samples[i].data), samples[i].bytes,
                               samples[i].key, static_cast<cache::Resident*>(samples[i].lent)});
    }
}

hkt_status hkt_cache_put(hkt_cache* cache, uint64_t key, const void* data, size_t bytes) {
    return capi::guarded([&] {
        cache::Cache& to = opened(cache, "hkt_cache_put");
        capi::check_array(data, bytes, "hkt_cache_put", "data");
        to.put(key, {static_cast<const std::byte*>(data), bytes});
        return HKT_SUCCESS;
    });
}

hkt_status hkt_cache_prefetch(hkt_cache* cache, const uint64_t* keys, size_t count) {
    return capi::guarded([&] {
        cache::Cache& into = opened(cache, "hkt_cache_prefetch");
        capi::check_array(keys, count, "hkt_cache_prefetch", "keys");
        into.prefetch({keys, count});
        return HKT_SUCCESS;
    });
}

hkt_status hkt_cache_set_order(hkt_cache* cache, const uint64_t* keys, size_t count, uint64_t cursor) {
    return capi::guarded([&] {
        cache::Cache& of = opened(cache, "hkt_cache_set_order");
        capi::check_array(keys, count, "hkt_cache_set_order", "keys");
        of.set_order({keys, count}, cursor);
        return HKT_SUCCESS;
    });
}

uint64_t hkt_cache_cursor(const hkt_cache* cache) {
    return cache == nullptr || cache->is_of_a_parent() ? 0 : cache->cache->cursor();
}

uint64_t hkt_cache_count(const hkt_cache* cache) {
    return cache == nullptr || cache->is_of_a_parent() ? 0 : cache->cache->count();
}

hkt_status hkt_cache_find(const hkt_cache* cache, const char* name, uint64_t* key) {
    return capi::guarded([&] {
        const cache::Cache& in = opened(cache, "hkt_cache_find");
        if (name == nullptr || key == nullptr) capi::refuse("hkt_cache_find: name or key is null");
        *key = in.find(name);
        return HKT_SUCCESS;
    });
}

hkt_status hkt_cache_name(const hkt_cache* cache, uint64_t key, const char** name) {
    return capi::guarded([&] {
        const cache::Cache& in = opened(cache, "hkt_cache_name");
        if (name == nullptr) capi::refuse("hkt_cache_name: name is null");
        *name = (own_texts().name = in.name(key)).c_str();
        return HKT_SUCCESS;
    });
}

hkt_status hkt_cache_flush(hkt_cache* cache) {
    return capi::guarded([&] {
        opened(cache, "hkt_cache_flush").flush();
        return HKT_SUCCESS;
    });
}

hkt_status hkt_cache_get_stats(hkt_cache* cache, hkt_cache_stats* stats, size_t size) {
    return capi::guarded([&] {
        const cache::Cache& of = opened(cache, "hkt_cache_get_stats");
        const capi::Place place(stats, size);
        const cache::Cache::Stats now = of.stats();
        const cache::Counters& counts = *now.counters;
        Texts& texts = own_texts();
        texts.io = now.io;
        texts.damage = now.damage;
        texts.trouble = now.trouble + (now.trouble.empty() || now.damage.empty() ? "" : "; ") + now.damage;
        texts.peer_trouble = now.peer_trouble;
        const hkt_cache_stats answer = {
            .gets = now.memory.hits + now.memory.misses,
            .memory_hits = now.memory.hits,
            .disk_hits = counts.disk_hits,
            .peer_hits = counts.peer_hits,
            .source_reads = counts.source_reads,
            .failures = counts.failures,
            .disk_read_bytes = counts.disk_read_bytes,
            .peer_read_bytes = counts.peer_read_bytes,
            .source_read_bytes = counts.source_read_bytes,
            .disk_written_bytes = now.disk.written_bytes,
            .shared_loads = counts.shared_loads,
            .prefetched = now.memory.prefetched,
            .evicted = now.memory.evicted,
            .corrupt = now.disk.corrupt,
            .not_written = now.disk.not_written + counts.writes_skipped,
            .peer_failures = counts.peer_failures,
            .served = counts.served,
            .wait_ns = counts.wait_ns,
            .memory_bytes = now.memory.capacity,
            .memory_used = now.memory.used,
            .memory_lent = now.memory.lent,
            .memory_samples = now.memory.resident,
            .table_bytes = now.memory.table_bytes,
            .disk_bytes = now.disk.limit_bytes,
            .disk_used = now.disk.used_bytes,
            .disk_samples = now.disk.records,
            .disk_segments = now.disk.segments,
            .io = texts.io.c_str(),
            .peer_trouble = texts.peer_trouble.c_str(),
            .trouble = texts.trouble.c_str(),
            .damage = texts.damage.c_str(),
        };
        place.write(answer);
        return HKT_SUCCESS;
    });
}

hkt_status hkt_cache_verify(hkt_cache* cache, int (*progress)(void* context, uint64_t done, uint64_t all),
                            void* context, hkt_cache_verification* verification, size_t size) {
    return capi::guarded([&] {
        cache::Cache& of = opened(cache, "hkt_cache_verify");
        const capi::Place place(verification, size);
        const auto go_on = [&](std::uint64_t done, std::uint64_t all) {
            return progress == nullptr || progress(context, done, all) == 0;
        };
        const cache::Directory::Verification found = of.verify(go_on);
        std::string& findings = own_texts().findings;
        findings.clear();
        for (const std::string& finding : found.findings) findings += finding + "\n";
        const hkt_cache_verification answer = {found.segments,     found.records,     found.bytes,
                                               found.bad_segments, found.bad_records, findings.c_str()};
        place.write(answer);
        return HKT_SUCCESS;
    });
}

hkt_status hkt_cache_serve(hkt_cache* cache, const char* host, int32_t port, const char* secret,
                           int32_t* bound) {
    return capi::guarded([&] {
        cache::Cache& of = opened(cache, "hkt_cache_serve");
        if (host == nullptr || *host == '\0')
            capi::refuse(
                "hkt_cache_serve: host is not set: the address to listen at, such as ::, which is all of "
                "this host's");
        if (port < 0 || port > 65535)
            capi::refuse(fmt::format("hkt_cache_serve: port is {}; it must be 0 to 65535", port));
        const int at = cache::serve(of, host, port, capi::text_of(secret));
        if (bound != nullptr) *bound = at;
        return HKT_SUCCESS;
    });
}

}  // extern "C"
