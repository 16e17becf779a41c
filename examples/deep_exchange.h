/* Exchanges the gradients of the workers of deep_words while they compute: by a plan that Hocket measures
 * and runs (docs/overlap.md). */
#pragma once

#include <stddef.h>

#include "capi/hocket.h"
#include "examples/deep_model.h"

typedef struct {
    hkt_comm* comm;       /* set for ranks */
    hkt_params* params;   /* set for a worker of a parameter service */
    hkt_overlap* overlap; /* null: this process is alone and exchanges nothing */
    int number, workers;
} Exchange;

/* Returns the method of that name; fails with the list of names. */
int method_named(const char* name);

/* Returns the hkt_overlap_pulls of that name; fails with the list of names. */
int pulls_named(const char* name);

/* Joins the ranks of hocket-run, if there are any others. */
void exchange_join(Exchange* exchange);

/* Allocates zeroed memory for gradients. */
float* exchange_allocate(Exchange* exchange, size_t count);
void exchange_free(Exchange* exchange, float* memory);

/* Replaces the ranks' gradients by their mean. */
void exchange_among_ranks(Exchange* exchange, const Deep* deep, float* gradients,
                          const hkt_overlap_run_options* options);

/* Joins the service at "host:port", which subtracts `rate` times the mean of the gradients from the
 * weights. A worker's number is below workers, or -1: the service assigns one. Copies the service's
 * weights to `weights`. */
void exchange_with_service(Exchange* exchange, const Deep* deep, float* gradients, float* weights,
                           const char* address, int workers, int number, float rate,
                           const hkt_overlap_run_options* options);

/* Call hkt_overlap_forward, begin_backward, backward and finish; they do nothing in a process that is
 * alone. */
void exchange_forward(Exchange* exchange, int layer);
void exchange_begin_backward(Exchange* exchange);
void exchange_backward(Exchange* exchange, int layer);
void exchange_finish(Exchange* exchange);

/* Returns the number of plans made so far. */
uint64_t exchange_plans(Exchange* exchange);

/* Prints members of a JSON object: "way": "ranks", "ends": [...], "pull_ends": [...], and all of
 * hkt_overlap_run_stats. */
void print_exchange(Exchange* exchange);

/* Writes a profile that another run can use as options.profile. Fails with a message. */
void save_profile(Exchange* exchange, const char* file);

/* Nothing is exchanged any more; the memory belongs to the caller again. */
void exchange_close(Exchange* exchange);
void exchange_leave(Exchange* exchange);
