// hkt_cache_* as embedders use it.
#include <hocket.h>

#include <array>
#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/temporary_folder.hpp"
#include "tests/support/test.hpp"

using Catch::Contains;
using hocket::test::TemporaryFolder;

namespace {

struct Squares {
    std::atomic<int> reads = 0;
};

hkt_status read_square(void* context, uint64_t key, hkt_cache_value* sample) {
    ++static_cast<Squares*>(context)->reads;
    if (key > 1000) return HKT_ERROR_NOT_FOUND;
    void* const to = hkt_cache_value_reserve(sample, sizeof key);
    const uint64_t square = key * key;
    std::memcpy(to, &square, sizeof square);
    return HKT_SUCCESS;
}

hkt_status add_one(void*, uint64_t, const void* encoded, size_t bytes, hkt_cache_value* sample) {
    uint64_t value = 0;
    if (bytes != sizeof value) return HKT_ERROR_INTERNAL;
    std::memcpy(&value, encoded, sizeof value);
    ++value;
    std::memcpy(hkt_cache_value_reserve(sample, sizeof value), &value, sizeof value);
    return HKT_SUCCESS;
}

hkt_cache_options squares(Squares& source) {
    hkt_cache_options options = HKT_CACHE_OPTIONS_INIT;
    options.read = read_square;
    options.read_context = &source;
    options.dataset = "squares";
    options.memory_bytes = 1 << 20;
    return options;
}

struct Cache {
    hkt_cache* handle = nullptr;
    explicit Cache(const hkt_cache_options& options) {
        if (hkt_cache_open(&options, &handle) != HKT_SUCCESS) throw std::runtime_error(hkt_last_error());
    }
    Cache(const Cache&) = delete;
    ~Cache() { hkt_cache_close(handle); }
    operator hkt_cache*() const { return handle; }
};

uint64_t value_of(const hkt_sample& sample) {
    uint64_t value = 0;
    REQUIRE(sample.bytes == sizeof value);
    std::memcpy(&value, sample.data, sizeof value);
    return value;
}

std::string refusal_of(const hkt_cache_options& options, hkt_status expected = HKT_ERROR_INVALID_ARGUMENT) {
    hkt_cache* cache = nullptr;
    CHECK(hkt_cache_open(&options, &cache) == expected);
    CHECK(cache == nullptr);
    return hkt_last_error();
}

}  // namespace

TEST_CASE("a sample is read and decoded once, and lent") {
    Squares source;
    hkt_cache_options options = squares(source);
    options.decode = add_one;
    options.decoder = "plus one";
    Cache cache(options);
    hkt_sample first, again;
    REQUIRE(hkt_cache_get(cache, 12, &first) == HKT_SUCCESS);
    REQUIRE(hkt_cache_get(cache, 12, &again) == HKT_SUCCESS);
    CHECK(value_of(first) == 145);
    CHECK(first.key == 12);
    CHECK(first.data == again.data);
    CHECK(reinterpret_cast<std::uintptr_t>(first.data) % 64 == 0);
    hkt_cache_release(cache, &first, 1);
    hkt_cache_release(cache, &again, 1);
    CHECK(source.reads == 1);
    hkt_cache_stats stats;
    REQUIRE(hkt_cache_get_stats(cache, &stats, sizeof stats) == HKT_SUCCESS);
    CHECK(stats.source_reads == 1);
    CHECK(stats.memory_hits == 1);
    CHECK(stats.memory_lent == 0);
    CHECK(std::string(stats.trouble).empty());
    CHECK_THAT(std::string(stats.io), Contains("io_uring"));
}

TEST_CASE("batches complete through the requests of collectives") {
    Squares source;
    Cache cache(squares(source));
    std::array<uint64_t, 3> keys{3, 4, 5};
    std::array<hkt_sample, 3> samples{};
    hkt_request* request = nullptr;
    REQUIRE(hkt_cache_get_batch(cache, keys.data(), keys.size(), samples.data(), &request) == HKT_SUCCESS);
    keys = {};
    hkt_status status = HKT_IN_PROGRESS;
    while ((status = hkt_test(request)) == HKT_IN_PROGRESS) std::this_thread::yield();
    CHECK(status == HKT_SUCCESS);
    CHECK(value_of(samples[2]) == 25);
    hkt_cache_release(cache, samples.data(), samples.size());

    keys = {3, 2000, 6};
    REQUIRE(hkt_cache_get_batch(cache, keys.data(), keys.size(), samples.data(), &request) == HKT_SUCCESS);
    CHECK(hkt_wait(request) == HKT_ERROR_NOT_FOUND);
    CHECK_THAT(hkt_last_error(), Contains("2000"));
    CHECK(samples[0].lent == nullptr);
    hkt_cache_release(cache, samples.data(), samples.size());

    hkt_comm_options alone = HKT_COMM_OPTIONS_INIT;
    alone.rank = 0;
    alone.world_size = 1;
    hkt_comm* comm = nullptr;
    REQUIRE(hkt_comm_create(&alone, &comm) == HKT_SUCCESS);
    float value = 1, sum = 0;
    hkt_request *batch = nullptr, *collective = nullptr;
    keys = {7, 8, 9};
    REQUIRE(hkt_cache_get_batch(cache, keys.data(), keys.size(), samples.data(), &batch) == HKT_SUCCESS);
    REQUIRE(hkt_all_reduce(&value, &sum, 1, HKT_FLOAT32, HKT_SUM, comm, &collective) == HKT_SUCCESS);
    CHECK(hkt_wait(collective) == HKT_SUCCESS);
    CHECK(hkt_wait(batch) == HKT_SUCCESS);
    hkt_cache_release(cache, samples.data(), samples.size());
    hkt_comm_destroy(comm);
}

TEST_CASE("options that make no sense are refused with what to do") {
    Squares source;
    hkt_cache_options options = squares(source);
    options.size = 3;
    CHECK_THAT(refusal_of(options), Contains("HKT_CACHE_OPTIONS_INIT"));
    options = squares(source);
    options.dataset = nullptr;
    CHECK_THAT(refusal_of(options), Contains("dataset"));
    options = squares(source);
    options.source = "/tmp";
    CHECK_THAT(refusal_of(options), Contains("both"));
    options = squares(source);
    options.decode = add_one;
    CHECK_THAT(refusal_of(options), Contains("decoder"));
    options = squares(source);
    options.servers = "nowhere";
    options.secret = "s";
    CHECK_THAT(refusal_of(options), Contains("nowhere"));
    options = HKT_CACHE_OPTIONS_INIT;
    options.source = "/no/such/source";
    CHECK_THAT(refusal_of(options, HKT_ERROR_NOT_FOUND), Contains("/no/such/source"));
    const TemporaryFolder folder;
    const std::string inside = folder / "cache";
    options = HKT_CACHE_OPTIONS_INIT;
    options.source = folder.path().c_str();
    options.folder = inside.c_str();
    CHECK_THAT(refusal_of(options), Contains("in its source"));
    const std::string file = folder / "file";
    std::fclose(std::fopen(file.c_str(), "w"));
    options = squares(source);
    options.folder = file.c_str();
    CHECK_THAT(refusal_of(options, HKT_ERROR_IO), Contains(file));
    CHECK(hkt_cache_open(nullptr, nullptr) == HKT_ERROR_INVALID_ARGUMENT);
}

TEST_CASE("null handles are errors, not crashes") {
    hkt_sample sample;
    uint64_t key = 0;
    CHECK(hkt_cache_get(nullptr, 1, &sample) == HKT_ERROR_INVALID_ARGUMENT);
    CHECK(hkt_cache_get_batch(nullptr, &key, 1, &sample, nullptr) == HKT_ERROR_INVALID_ARGUMENT);
    CHECK(hkt_cache_put(nullptr, 1, "x", 1) == HKT_ERROR_INVALID_ARGUMENT);
    CHECK(hkt_cache_find(nullptr, "x", &key) == HKT_ERROR_INVALID_ARGUMENT);
    const char* name = nullptr;
    CHECK(hkt_cache_name(nullptr, 0, &name) == HKT_ERROR_INVALID_ARGUMENT);
    CHECK(hkt_cache_flush(nullptr) == HKT_ERROR_INVALID_ARGUMENT);
    CHECK(hkt_cache_value_reserve(nullptr, 1) == nullptr);
    CHECK(hkt_cache_count(nullptr) == 0);
    CHECK(hkt_cache_cursor(nullptr) == 0);
    hkt_cache_release(nullptr, &sample, 1);
    hkt_cache_close(nullptr);
    Squares source;
    Cache cache(squares(source));
    CHECK(hkt_cache_get(cache, 1, nullptr) == HKT_ERROR_INVALID_ARGUMENT);
    CHECK(hkt_cache_get_batch(cache, nullptr, 1, &sample, nullptr) == HKT_ERROR_INVALID_ARGUMENT);
    CHECK(hkt_cache_set_order(cache, &key, 1, 2) == HKT_ERROR_INVALID_ARGUMENT);
}

TEST_CASE("a folder outlives the cache, and another process's cache is served from it over the network") {
    const TemporaryFolder folder;
    Squares source, other;
    hkt_cache_options options = squares(source);
    options.folder = folder.path().c_str();
    {
        Cache cache(options);
        for (uint64_t key = 0; key < 50; ++key) {
            hkt_sample sample;
            REQUIRE(hkt_cache_get(cache, key, &sample) == HKT_SUCCESS);
            hkt_cache_release(cache, &sample, 1);
        }
        const uint64_t put = 77;
        CHECK(hkt_cache_put(cache, 5000, &put, sizeof put) == HKT_SUCCESS);
        CHECK(hkt_cache_flush(cache) == HKT_SUCCESS);
    }
    CHECK(source.reads == 50);
    Cache server(options);
    int32_t port = 0;
    REQUIRE(hkt_cache_serve(server, "127.0.0.1", 0, "secret", &port) == HKT_SUCCESS);
    const std::string servers = "127.0.0.1:" + std::to_string(port);
    hkt_cache_options client = squares(other);
    client.servers = servers.c_str();
    client.secret = "secret";
    Cache cache(client);
    for (const uint64_t key : {uint64_t{7}, uint64_t{49}, uint64_t{5000}}) {
        hkt_sample sample;
        REQUIRE(hkt_cache_get(cache, key, &sample) == HKT_SUCCESS);
        CHECK(value_of(sample) == (key == 5000 ? 77 : key * key));
        hkt_cache_release(cache, &sample, 1);
    }
    CHECK(other.reads == 0);
    CHECK(source.reads == 50);
    hkt_cache_options decoding = client;
    decoding.decode = add_one;
    decoding.decoder = "plus one";
    decoding.folder = nullptr;
    Cache decoder(decoding);
    hkt_sample decoded;
    REQUIRE(hkt_cache_get(decoder, 9, &decoded) == HKT_SUCCESS);
    CHECK(value_of(decoded) == 82);
    hkt_cache_release(decoder, &decoded, 1);
    CHECK(other.reads == 0);
    CHECK(hkt_cache_serve(decoder, "127.0.0.1", 0, "secret", nullptr) == HKT_ERROR_INVALID_ARGUMENT);
    client.secret = "another";
    Cache stranger(client);
    REQUIRE(hkt_cache_get(stranger, 9, &decoded) == HKT_SUCCESS);  // from its own source
    hkt_cache_release(stranger, &decoded, 1);
    CHECK(other.reads == 1);
    hkt_cache_stats stats;
    REQUIRE(hkt_cache_get_stats(stranger, &stats, sizeof stats) == HKT_SUCCESS);
    CHECK_THAT(stats.peer_trouble, Contains("secret"));
    hkt_cache_verification found;
    REQUIRE(hkt_cache_verify(server, nullptr, nullptr, &found, sizeof found) == HKT_SUCCESS);
    CHECK(found.records == 51);
    CHECK(found.bad_records == 0);
    CHECK(std::string(found.findings).empty());
}

TEST_CASE("a batch is copied into memory of the caller, one sample after another") {
    Squares source;
    const Cache cache(squares(source));
    const uint64_t keys[] = {3, 1, 3, 1000};
    uint64_t offsets[5] = {}, copied[4] = {7, 7, 7, 7};
    // Without room the call only returns the places.
    CHECK(hkt_cache_copy_batch(cache, keys, 4, copied, sizeof copied - 1, offsets) == HKT_SUCCESS);
    CHECK((offsets[0] == 0 && offsets[1] == 8 && offsets[4] == 32));
    CHECK((copied[0] == 7 && copied[3] == 7));
    CHECK(hkt_cache_copy_batch(cache, keys, 4, nullptr, sizeof copied, offsets) == HKT_SUCCESS);
    CHECK(hkt_cache_copy_batch(cache, keys, 4, copied, sizeof copied, offsets) == HKT_SUCCESS);
    CHECK((copied[0] == 9 && copied[1] == 1 && copied[2] == 9 && copied[3] == 1000000));
    CHECK(source.reads == 3);

    const uint64_t unknown[] = {3, 1001};
    CHECK(hkt_cache_copy_batch(cache, unknown, 2, copied, sizeof copied, offsets) == HKT_ERROR_NOT_FOUND);
    CHECK(hkt_cache_copy_batch(cache, keys, 4, copied, sizeof copied, nullptr) == HKT_ERROR_INVALID_ARGUMENT);
    CHECK(hkt_cache_copy_batch(cache, nullptr, 0, nullptr, 0, offsets) == HKT_SUCCESS);
    hkt_cache_stats stats;
    REQUIRE(hkt_cache_get_stats(cache, &stats, sizeof stats) == HKT_SUCCESS);
    CHECK(stats.memory_lent == 0);  // nothing is kept on loan, also of the call that failed
}
