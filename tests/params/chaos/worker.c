/* A worker of the chaos test (tests/params/chaos/run): pushes updates that say of themselves whose they are,
 * and of which round, and writes down what it finds in all weights that it pulls. The test judges that later,
 * when it knows what happened to everybody.
 *
 * Weights are blocks. A block has a unit for each worker that ever comes, its slot: four integers, to which
 * an update of round r adds 1, r + 1, (r + 1)^2, and a number that only this round of this slot has. So the
 * sum of the updates of consecutive rounds, each once, is told from every other sum. */
#define _DEFAULT_SOURCE /* clock_gettime, usleep */
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "capi/hocket.h"

/* Blocks lie across chunks, and chunks across tensors. Chunks have whole units. */
enum { SLOTS = 64, PARTS = 4, UNIT_BYTES = PARTS * 8, BLOCK = SLOTS * PARTS, TENSORS = 3, BLOCKS = 20 };
static const int blocks_of[TENSORS] = {7, 1, 12};

struct options {
    int slot, workers, number, sleep_ms, checkpoint_each;
    int64_t staleness, timeout_ms;
    uint64_t chunk_bytes;
    const char *tree, *rack, *log, *end, *manner; /* whole, sparse, apart */
};

static FILE* log_file;
static volatile sig_atomic_t is_asked_to_leave;
static int64_t weights[BLOCKS * BLOCK], update[BLOCKS * BLOCK];
static hkt_params* params;

static void say(const char* format, ...) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    fprintf(log_file, "%.4f ", (double)now.tv_sec + (double)now.tv_nsec * 1e-9);
    va_list arguments;
    va_start(arguments, format);
    vfprintf(log_file, format, arguments);
    va_end(arguments);
    fputc('\n', log_file);
    fflush(log_file);
}

/* Its text has lines, and is one in the log. */
static void fail(const char* call, hkt_status status) {
    char text[4096];
    snprintf(text, sizeof text, "%s", hkt_last_error());
    for (char* at = text; *at; ++at)
        if (*at == '\n') *at = '|';
    say("error %s in %s: %s", hkt_error_string(status), call, text);
    hkt_params_close(params);
    say("closed");
    exit(3);
}

static void check(const char* call, hkt_status status) {
    if (status != HKT_SUCCESS) fail(call, status);
}

static void wait_for(const char* call, hkt_request* request) {
    hkt_status status;
    while ((status = hkt_wait_for(request, 100)) == HKT_IN_PROGRESS) {
    }
    check(call, status);
}

/* 40 bits, so that a sum of many does not overflow. */
static int64_t mark(int slot, uint64_t round) {
    uint64_t x = ((uint64_t)slot << 40) + round + 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return (int64_t)((x ^ (x >> 31)) >> 24);
}

static void add_round(int64_t unit[PARTS], int slot, uint64_t round) {
    const int64_t counted = (int64_t)round + 1;
    unit[0] += 1;
    unit[1] += counted;
    unit[2] += counted * counted;
    unit[3] += mark(slot, round);
}

/* From which round to before which one a unit has all, each once. 0: it has something else. */
static int read_unit(const int64_t unit[PARTS], int slot, uint64_t* first, uint64_t* end) {
    const int64_t count = unit[0], rest = unit[1] - count * (count + 1) / 2;
    if (count <= 0 || count > 1000000 || rest < 0 || rest % count != 0) return 0;
    *first = (uint64_t)(rest / count);
    *end = *first + (uint64_t)count;
    int64_t expected[PARTS] = {0};
    for (uint64_t round = *first; round < *end; ++round) add_round(expected, slot, round);
    return memcmp(expected, unit, sizeof expected) == 0;
}

/* " SLOT:FIRST:END*BLOCKS,END*BLOCKS" of each slot that some block has something of; END 0: this block has
 * not. */
static void describe(char* text, size_t size) {
    size_t used = 0;
    text[0] = 0;
    for (int slot = 0; slot < SLOTS; ++slot) {
        uint64_t slots_first = UINT64_MAX, ends[BLOCKS];
        const int64_t* before = NULL;
        for (int block = 0; block < BLOCKS; ++block) {
            const int64_t* const unit = weights + (block * SLOTS + slot) * PARTS;
            static const int64_t nothing[PARTS];
            uint64_t first = 0;
            ends[block] = 0;
            if (memcmp(unit, nothing, sizeof nothing) == 0) continue;
            if (before && memcmp(unit, before, sizeof nothing) == 0)
                first = slots_first, ends[block] = ends[(before - weights) / PARTS / SLOTS];
            else if (!read_unit(unit, slot, &first, &ends[block])) {
                say("WRONG: block %d of slot %d has %" PRId64 " updates: %" PRId64 " %" PRId64 " %" PRId64,
                    block, slot, unit[0], unit[1], unit[2], unit[3]);
                exit(9);
            }
            before = unit;
            if (slots_first != UINT64_MAX && slots_first != first) {
                say("WRONG: slot %d begins with round %" PRIu64 " and with %" PRIu64, slot, slots_first,
                    first);
                exit(9);
            }
            slots_first = first;
        }
        if (!before) continue;
        used += (size_t)snprintf(text + used, size - used, " %d:%" PRIu64 ":", slot, slots_first);
        for (int block = 0, next; block < BLOCKS; block = next) {
            for (next = block; next < BLOCKS && ends[next] == ends[block];) ++next;
            used += (size_t)snprintf(text + used, size - used, "%s%" PRIu64 "*%d", block ? "," : "",
                                     ends[block], next - block);
        }
    }
}

static uint64_t round_now(void) {
    hkt_params_stats stats;
    check("stats", hkt_params_get_stats(params, &stats, sizeof stats));
    return stats.round;
}

static void tensor_starts(int64_t* from, void* starts[TENSORS]) {
    for (int i = 0, block = 0; i < TENSORS; block += blocks_of[i++]) starts[i] = from + block * BLOCK;
}

static void pull(const struct options* options, int64_t staleness) {
    void* starts[TENSORS];
    tensor_starts(weights, starts);
    struct timespec began;
    clock_gettime(CLOCK_MONOTONIC, &began);
    if (strcmp(options->manner, "apart") == 0) {
        hkt_request* requests[TENSORS];
        for (int i = TENSORS; i-- > 0;)
            check("pull", hkt_params_pull(params, (size_t)i, 1, starts + i, staleness, &requests[i]));
        for (int i = 0; i < TENSORS; ++i) wait_for("pull", requests[i]);
    } else
        check("pull", hkt_params_pull(params, 0, TENSORS, starts, staleness, NULL));
    static char text[SLOTS * BLOCKS * 24];
    describe(text, sizeof text);
    say("pull %" PRIu64 " staleness %" PRId64 " began %.4f:%s", round_now(), staleness,
        (double)began.tv_sec + (double)began.tv_nsec * 1e-9, text);
}

static void push_sparse(const struct options* options) {
    for (int i = 0, block = 0; i < TENSORS; block += blocks_of[i++]) {
        uint32_t indices[BLOCKS * PARTS];
        int64_t values[BLOCKS * PARTS];
        size_t count = 0;
        for (int b = 0; b < blocks_of[i]; ++b)
            for (int part = 0; part < PARTS; ++part) {
                const int at = (b * SLOTS + options->slot) * PARTS + part;
                indices[count] = (uint32_t)at;
                values[count++] = update[block * BLOCK + at];
            }
        check("push_sparse", hkt_params_push_sparse(params, (size_t)i, count, indices, values, NULL));
    }
}

static void push(const struct options* options, uint64_t round) {
    void* starts[TENSORS];
    tensor_starts(update, starts);
    const void* const* const gradients = (const void* const*)starts;
    for (int block = 0; block < BLOCKS; ++block) {
        int64_t* const unit = update + (block * SLOTS + options->slot) * PARTS;
        memset(unit, 0, UNIT_BYTES);
        add_round(unit, options->slot, round);
    }
    if (strcmp(options->manner, "sparse") == 0 && round % 2 == 0) return push_sparse(options);
    if (strcmp(options->manner, "apart") != 0)
        return check("push", hkt_params_push(params, 0, TENSORS, gradients, NULL));
    hkt_request* requests[TENSORS];
    for (int i = TENSORS; i-- > 0;)
        check("push", hkt_params_push(params, (size_t)i, 1, gradients + i, &requests[i]));
    for (int i = 0; i < TENSORS; ++i) wait_for("push", requests[i]);
}

/* Where all end. 0: the test has not said it yet. */
static uint64_t end_of(const struct options* options) {
    uint64_t end = 0;
    FILE* const file = fopen(options->end, "r");
    if (!file) return 0;
    if (fscanf(file, "%" SCNu64, &end) != 1) end = 0;
    fclose(file);
    return end;
}

static void train(const struct options* options) {
    for (;;) {
        const uint64_t round = round_now(), end = end_of(options);
        /* Now and then fresher weights than it would have to ask for. */
        pull(options,
             options->staleness > 0 && round % 5 == 0 ? (int64_t)(round / 5 % 2) : options->staleness);
        if (is_asked_to_leave || (end != 0 && round >= end)) return;
        usleep((useconds_t)(options->sleep_ms * 500 + rand() % (options->sleep_ms * 1000 + 1)));
        push(options, round);
        check("clock", hkt_params_clock(params, NULL));
        if (options->checkpoint_each == 0 || (round + 1) % (uint64_t)options->checkpoint_each != 0) continue;
        const hkt_status status = hkt_params_checkpoint(params, NULL);
        if (status == HKT_ERROR_IO || status == HKT_ERROR_TIMEOUT)
            say("no checkpoint: %s", hkt_last_error()); /* the disk may be full: the test knows */
        else
            check("checkpoint", status);
    }
}

/* When all others have pushed all, too, all weights have all. */
static void end(const struct options* options) {
    if (!is_asked_to_leave) {
        char last[4096];
        snprintf(last, sizeof last, "%s.last", options->end);
        say("paused %" PRIu64, round_now());
        while (access(last, F_OK) != 0) usleep(20000);
    }
    pull(options, options->staleness == HKT_UNBOUNDED ? HKT_UNBOUNDED : 0);
    const uint64_t round = round_now();
    say("leaves %" PRIu64, round);
    hkt_params_close(params);
    say("left %" PRIu64, round);
}

static void on_signal(int signal) {
    (void)signal;
    is_asked_to_leave = 1;
}

static void open_params(const struct options* options) {
    hkt_params_tensor tensors[TENSORS] = {{"a", 0, HKT_INT64}, {"b", 0, HKT_INT64}, {"c", 0, HKT_INT64}};
    for (int i = 0; i < TENSORS; ++i) tensors[i].count = (size_t)(blocks_of[i] * BLOCK);
    hkt_params_options wanted = HKT_PARAMS_OPTIONS_INIT;
    wanted.update = "sum";
    wanted.staleness = options->staleness;
    wanted.tree = options->tree;
    wanted.rack = options->rack;
    wanted.workers = options->workers;
    wanted.number = options->number;
    wanted.chunk_bytes = options->chunk_bytes;
    wanted.timeout_ms = options->timeout_ms;
    check("open", hkt_params_open(tensors, TENSORS, NULL, &wanted, &params));
    say("ready number %d first %" PRIu64, hkt_params_number(params), round_now());
}

int main(int count, char** words) {
    struct options options = {
        .number = -1, .workers = 1, .sleep_ms = 20, .manner = "whole", .timeout_ms = 20000};
    for (int i = 1; i + 1 < count; i += 2) {
        const char *const name = words[i], *const value = words[i + 1];
        if (strcmp(name, "--slot") == 0)
            options.slot = atoi(value);
        else if (strcmp(name, "--workers") == 0)
            options.workers = atoi(value);
        else if (strcmp(name, "--number") == 0)
            options.number = atoi(value);
        else if (strcmp(name, "--sleep-ms") == 0)
            options.sleep_ms = atoi(value);
        else if (strcmp(name, "--checkpoint-each") == 0)
            options.checkpoint_each = atoi(value);
        else if (strcmp(name, "--staleness") == 0)
            options.staleness = atol(value);
        else if (strcmp(name, "--timeout-ms") == 0)
            options.timeout_ms = atol(value);
        else if (strcmp(name, "--chunk-bytes") == 0)
            options.chunk_bytes = strtoull(value, NULL, 10);
        else if (strcmp(name, "--tree") == 0)
            options.tree = value;
        else if (strcmp(name, "--rack") == 0)
            options.rack = value;
        else if (strcmp(name, "--log") == 0)
            options.log = value;
        else if (strcmp(name, "--end") == 0)
            options.end = value;
        else if (strcmp(name, "--manner") == 0)
            options.manner = value;
        else
            return fprintf(stderr, "what is %s?\n", name), 2;
    }
    if (!options.log || !options.end || options.slot >= SLOTS || !(log_file = fopen(options.log, "w")))
        return 2;
    signal(SIGTERM, on_signal);
    srand((unsigned)options.slot);
    open_params(&options);
    train(&options);
    end(&options);
    return 0;
}
