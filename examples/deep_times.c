#define _POSIX_C_SOURCE 200809L
#include "examples/deep_times.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "examples/words_model.h"

double seconds_now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + 1e-9 * time.tv_nsec;
}

void times_begin(Times* t, size_t steps) {
    *t = (Times){.room = steps};
    t->steps = allocate(steps, sizeof *t->steps);
    t->forward = allocate(steps * DEEP_LAYERS, sizeof *t->forward);
    t->backward = allocate(steps * DEEP_LAYERS, sizeof *t->backward);
}

void times_end(Times* t) {
    free(t->steps);
    free(t->forward);
    free(t->backward);
}

/* Returns the slot for a layer's time in this pass. After many passes the first ones are overwritten. */
static double* of_pass(const Times* t, double* all, int layer) {
    return all + t->passes % t->room * DEEP_LAYERS + layer;
}

void add_forward(Times* t, int layer, double start) {
    *of_pass(t, t->forward, layer) = seconds_now() - start;
}

void add_backward(Times* t, int layer, double start) {
    *of_pass(t, t->backward, layer) = seconds_now() - start;
    if (layer == 0) ++t->passes;
}

void add_step(Times* t, double seconds) {
    t->steps[t->count++ % t->room] = seconds;
}

void forget_steps(Times* t) {
    t->count = 0;
}

static int by_size(const void* a, const void* b) {
    const double x = *(const double*)a, y = *(const double*)b;
    return (x > y) - (x < y);
}

/* Returns the median of every `stride`th value; stores these in order in sorted. */
static double median(const double* values, size_t count, size_t stride, double* sorted) {
    for (size_t i = 0; i < count; ++i) sorted[i] = values[i * stride];
    qsort(sorted, count, sizeof *sorted, by_size);
    return count == 0 ? 0 : (sorted[(count - 1) / 2] + sorted[count / 2]) / 2;
}

static size_t kept(const Times* t, size_t count) {
    return count < t->room ? count : t->room;
}

void print_step_times(const Times* t) {
    double* const sorted = allocate(t->room, sizeof *sorted);
    const double middle = median(t->steps, kept(t, t->count), 1, sorted);
    printf("\"timed_steps\": %zu, \"median_seconds\": %.6f, \"minimum_seconds\": %.6f", t->count, middle,
           sorted[0]);
    free(sorted);
}

void print_layers(const Times* t, const Deep* deep) {
    double* const sorted = allocate(t->room, sizeof *sorted);
    const size_t passes = kept(t, t->passes);
    double forward = 0, backward = 0;
    printf("layer       places  width    bytes  forward ms  backward ms\n");
    for (int i = 0; i < DEEP_LAYERS; ++i) {
        const DeepLayer* const layer = deep_layer(deep, i);
        const double ahead = 1e3 * median(t->forward + i, passes, DEEP_LAYERS, sorted),
                     back = 1e3 * median(t->backward + i, passes, DEEP_LAYERS, sorted);
        printf("%-10s %7d %6d %8zu %11.3f %12.3f\n", layer->name, layer->places, layer->width,
               (layer->weights + layer->biases) * sizeof(float), ahead, back);
        forward += ahead;
        backward += back;
    }
    printf("%-10s %7s %6s %8zu %11.3f %12.3f\n", "all", "", "", deep_size(deep) * sizeof(float), forward,
           backward);
    free(sorted);
}

uint64_t checksum(const float* values, size_t count) {
    uint64_t hash = 0xcbf29ce484222325u;
    const unsigned char* const bytes = (const unsigned char*)values;
    for (size_t i = 0; i < count * sizeof *values; ++i) hash = (hash ^ bytes[i]) * 0x100000001b3u;
    return hash;
}
