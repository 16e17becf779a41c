/* A rank with a data cache over a function, for cache_ranks_test.cpp:
 *     cache_ranks SAMPLES [VICTIM]
 * Gets all samples, in an order of its own, and says how often the source was read on all ranks together.
 * Then rank VICTIM dies while the others get as many again, until they notice it. Folder, memory and so on
 * come from the environment. */
#define _POSIX_C_SOURCE 200809L
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "capi/hocket.h"

enum { most_rounds = 1000 };

static hkt_comm* comm;
static hkt_cache* cache;

static void fail(const char* what, const char* why) {
    printf("failed: %s: %s\n", what, why);
    exit(2);
}

static uint64_t mixed(uint64_t x) { /* splitmix64 */
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static size_t size_of(uint64_t key) {
    return mixed(key) % 30000;
}

static hkt_status read_sample(void* reads, uint64_t key, hkt_cache_value* sample) {
    const struct timespec one_ms = {0, 1000000};
    nanosleep(&one_ms, NULL);
    __atomic_fetch_add((int64_t*)reads, 1, __ATOMIC_RELAXED);
    uint8_t* to = hkt_cache_value_reserve(sample, size_of(key));
    if (to == NULL) return HKT_ERROR_LIMIT;
    for (size_t i = 0; i < size_of(key); ++i) to[i] = (uint8_t)(mixed(key) >> (i % 8 * 8));
    return HKT_SUCCESS;
}

static void check(const hkt_sample* sample) {
    const uint8_t* bytes = sample->data;
    int right = sample->bytes == size_of(sample->key);
    for (size_t i = 0; right && i < sample->bytes; ++i)
        right = bytes[i] == (uint8_t)(mixed(sample->key) >> (i % 8 * 8));
    if (!right) fail("get", "a sample has other bytes");
}

static void get_all(uint64_t first, uint64_t count, uint64_t seed) {
    enum { batch = 16 };
    hkt_sample samples[batch];
    uint64_t keys[batch];
    for (uint64_t i = 0; i < count; i += batch) {
        const size_t some = count - i < batch ? count - i : batch;
        for (size_t k = 0; k < some; ++k) keys[k] = first + (i + k + seed * 37) % count;
        if (hkt_cache_get_batch(cache, keys, some, samples, NULL) != HKT_SUCCESS)
            fail("get_batch", hkt_last_error());
        for (size_t k = 0; k < some; ++k) check(samples + k);
        hkt_cache_release(cache, samples, some);
    }
}

int main(int argc, char** argv) {
    const uint64_t count = argc > 1 ? strtoull(argv[1], NULL, 10) : 100;
    const int victim = argc > 2 ? atoi(argv[2]) : -1;
    setvbuf(stdout, NULL, _IOLBF, 0);
    int64_t reads = 0, all_reads = 0;
    if (hkt_comm_create(NULL, &comm) != HKT_SUCCESS) fail("comm", hkt_last_error());
    hkt_cache_options how = HKT_CACHE_OPTIONS_INIT;
    how.read = read_sample;
    how.read_context = &reads;
    how.dataset = getenv("DATASET") != NULL ? getenv("DATASET") : "cache_ranks";
    how.comm = comm;
    if (hkt_cache_open(&how, &cache) != HKT_SUCCESS) fail("open", hkt_last_error());

    get_all(0, count, hkt_comm_rank(comm));
    if (hkt_all_reduce(&reads, &all_reads, 1, HKT_INT64, HKT_SUM, comm, NULL) != HKT_SUCCESS)
        fail("all_reduce", hkt_comm_last_error(comm));
    hkt_cache_stats stats;
    if (hkt_cache_get_stats(cache, &stats, sizeof stats) != HKT_SUCCESS) fail("stats", hkt_last_error());
    printf("reads of all ranks: %lld; served %s; from peers %s\n", (long long)all_reads,
           stats.served > 0 ? "some" : "none", stats.peer_hits > 0 ? "some" : "none");
    if (victim >= 0) {
        hkt_barrier(comm);
        if (hkt_comm_rank(comm) == victim) raise(SIGKILL);
        /* The victim may still answer for a while, if the system lets it die late. */
        uint64_t round = 0;
        do {
            get_all(++round * count, count, hkt_comm_rank(comm));
            hkt_cache_get_stats(cache, &stats, sizeof stats);
        } while (stats.peer_failures == 0 && round < most_rounds);
        printf("all right without rank %d: %s\n", victim,
               stats.peer_failures > 0 ? "it was missed" : "nobody missed it");
        return 0;
    }
    hkt_barrier(comm);
    hkt_cache_close(cache);
    hkt_comm_destroy(comm);
    return 0;
}
