/* Measures the time of deep_words, and computes a checksum of its weights. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "examples/deep_model.h"

typedef struct {
    double *steps, *forward, *backward; /* in seconds; of layers: those of one pass follow each other */
    size_t count, passes, room;         /* steps, passes; the capacity for either */
} Times;

double seconds_now(void);

void times_begin(Times* times, size_t steps);
void times_end(Times* times);

/* Records that the layer ran forward, or backward, from `start` until now. A pass is complete with layer
 * 0's backward pass. */
void add_forward(Times* times, int layer, double start);
void add_backward(Times* times, int layer, double start);

void add_step(Times* times, double seconds);
void forget_steps(Times* times); /* drops the steps so far; keeps the layers' times */

/* Prints "timed_steps": N, "median_seconds": S, "minimum_seconds": S */
void print_step_times(const Times* times);

/* Prints the bytes and medians of all layers, as a table. */
void print_layers(const Times* times, const Deep* deep);

uint64_t checksum(const float* values, size_t count); /* returns FNV-1a of the bytes */
