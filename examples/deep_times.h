/* How long deep_words takes, and a checksum of what it has learned. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "examples/deep_model.h"

typedef struct {
    double *steps, *forward, *backward; /* seconds; of layers: those of a pass follow each other */
    size_t count, passes, room;         /* steps, passes; room for either */
} Times;

double seconds_now(void);

void times_begin(Times* times, size_t steps);
void times_end(Times* times);

/* From `start` until now the layer went forward, or backward. A pass is complete with layer 0's way back. */
void add_forward(Times* times, int layer, double start);
void add_backward(Times* times, int layer, double start);

void add_step(Times* times, double seconds);
void forget_steps(Times* times); /* those so far; layers stay */

/* "timed_steps": N, "median_seconds": S, "minimum_seconds": S */
void print_step_times(const Times* times);

/* Bytes and medians of all layers, as a table. */
void print_layers(const Times* times, const Deep* deep);

uint64_t checksum(const float* values, size_t count); /* FNV-1a, of the bytes */
