/* A program of the time of version 0.1.0: it knows hocket.h as frozen_1.h has it, and works with the library
 * of today. Its structs end where memory ends, so that reading or writing more of them than it knows is a
 * crash.
 */
#include "frozen_1.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define REQUIRE(condition)                                                                \
    do {                                                                                  \
        if (!(condition)) {                                                               \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #condition, hkt_last_error()); \
            exit(1);                                                                      \
        }                                                                                 \
    } while (0)

/* The last bytes of a page that nothing follows. */
static void* at_the_end(size_t bytes) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char* memory = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(memory != MAP_FAILED);
    REQUIRE(mprotect(memory + page, page, PROT_NONE) == 0);
    memset(memory, 0xa5, page);
    return memory + page - bytes;
}

static hkt_status read_square(void* context, uint64_t key, hkt_cache_value* sample) {
    const uint64_t square = key * key;
    void* to = hkt_cache_value_reserve(sample, sizeof square);
    if (to == NULL) return HKT_ERROR_LIMIT;
    memcpy(to, &square, sizeof square);
    ++*(int*)context;
    return HKT_SUCCESS;
}

static hkt_comm* join(void) {
    hkt_comm* comm = NULL;
    hkt_comm_options* options = at_the_end(sizeof *options);
    *options = (hkt_comm_options)HKT_COMM_OPTIONS_INIT;
    options->rank = 0;
    options->world_size = 1;
    options->executor = HKT_EXECUTOR_INTERPRETER;
    options->timeout_ms = 30000;
    REQUIRE(hkt_comm_create(options, &comm) == HKT_SUCCESS);
    REQUIRE(hkt_comm_rank(comm) == 0 && hkt_comm_size(comm) == 1);
    REQUIRE(strcmp(hkt_comm_info(comm, "executor"), "interpreter") == 0);
    return comm;
}

static void use_collectives(hkt_comm* comm) {
    const double send[3] = {1.5, -2.0, 4.0};
    double recv[3] = {0};
    hkt_plan* plan = NULL;
    hkt_request* request = NULL;
    hkt_plan_options* options = at_the_end(sizeof *options);
    *options = (hkt_plan_options)HKT_PLAN_OPTIONS_INIT;
    options->schedule = "ring";
    options->executor = HKT_EXECUTOR_INTERPRETER;

    REQUIRE(hkt_all_reduce(send, recv, 3, HKT_FLOAT64, HKT_SUM, comm, NULL) == HKT_SUCCESS);
    REQUIRE(memcmp(send, recv, sizeof send) == 0);
    REQUIRE(hkt_plan_create(comm, HKT_ALL_GATHER, HKT_FLOAT64, HKT_SUM, options, &plan) == HKT_SUCCESS);
    memset(recv, 0, sizeof recv);
    REQUIRE(hkt_plan_start(plan, send, recv, 3, &request) == HKT_SUCCESS);
    REQUIRE(hkt_wait(request) == HKT_SUCCESS);
    REQUIRE(memcmp(send, recv, sizeof send) == 0);
    REQUIRE(strcmp(hkt_plan_schedule(plan, 3), "ring") == 0);
    hkt_plan_destroy(plan);
}

static void use_cache(void) {
    int reads = 0;
    uint64_t square = 0;
    hkt_cache* cache = NULL;
    hkt_sample sample;
    hkt_cache_stats* stats = at_the_end(sizeof *stats);
    hkt_cache_verification* found = at_the_end(sizeof *found);
    hkt_cache_options* options = at_the_end(sizeof *options);
    *options = (hkt_cache_options)HKT_CACHE_OPTIONS_INIT;
    options->read = read_square;
    options->read_context = &reads;
    options->dataset = "squares";
    options->memory_bytes = 1 << 20;
    options->io = HKT_CACHE_IO_THREADS;
    options->workers = 2;
    options->timeout_ms = 30000;

    REQUIRE(hkt_cache_open(options, &cache) == HKT_SUCCESS);
    REQUIRE(hkt_cache_get(cache, 12, &sample) == HKT_SUCCESS);
    memcpy(&square, sample.data, sizeof square);
    REQUIRE(square == 144 && sample.bytes == sizeof square && reads == 1);
    hkt_cache_release(cache, &sample, 1);
    REQUIRE(hkt_cache_get_stats(cache, stats, sizeof *stats) == HKT_SUCCESS);
    REQUIRE(stats->gets == 1 && stats->source_reads == 1 && stats->memory_samples == 1);
    REQUIRE(strncmp(stats->io, "threads", 7) == 0 && strcmp(stats->damage, "") == 0);
    REQUIRE(hkt_cache_verify(cache, NULL, NULL, found, sizeof *found) == HKT_SUCCESS);
    REQUIRE(found->bad_records == 0 && strcmp(found->findings, "") == 0);
    hkt_cache_close(cache);
}

int main(void) {
    hkt_comm* comm = join();
    use_collectives(comm);
    hkt_comm_destroy(comm);
    use_cache();
    return 0;
}
