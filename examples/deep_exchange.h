/* How the workers of deep_words exchange gradients while they compute: a plan that Hocket measures and runs
 * (docs/overlap.md). */
#pragma once

#include <stddef.h>

#include "capi/hocket.h"
#include "examples/deep_model.h"

typedef struct {
    hkt_comm* comm;       /* of ranks */
    hkt_params* params;   /* of a worker of a parameter service */
    hkt_overlap* overlap; /* null: this process is alone, and nothing is exchanged */
    int number, workers;
} Exchange;

/* The method of that name; fails with the names that there are. */
int method_named(const char* name);

/* The hkt_overlap_pulls of that name; fails with the names that there are. */
int pulls_named(const char* name);

/* Joins the ranks of hocket-run, if there are others. */
void exchange_join(Exchange* exchange);

/* Memory for gradients. Zeroed. */
float* exchange_allocate(Exchange* exchange, size_t count);
void exchange_free(Exchange* exchange, float* memory);

/* Ranks' gradients become their mean. */
void exchange_among_ranks(Exchange* exchange, const Deep* deep, float* gradients,
                          const hkt_overlap_run_options* options);

/* Joins the service at "host:port", which takes `rate` times the mean of the gradients from the weights. A
 * worker's number is below workers, or -1: the service gives it one. weights become the service's. */
void exchange_with_service(Exchange* exchange, const Deep* deep, float* gradients, float* weights,
                           const char* address, int workers, int number, float rate,
                           const hkt_overlap_run_options* options);

/* As hkt_overlap_forward, begin_backward, backward and finish; they do nothing in a process that is alone. */
void exchange_forward(Exchange* exchange, int layer);
void exchange_begin_backward(Exchange* exchange);
void exchange_backward(Exchange* exchange, int layer);
void exchange_finish(Exchange* exchange);

/* How many plans were made so far. */
uint64_t exchange_plans(Exchange* exchange);

/* Members of an object: "way": "ranks", "ends": [...], "pull_ends": [...], and all of hkt_overlap_run_stats.
 */
void print_exchange(Exchange* exchange);

/* Writes what options.profile can be in another run. Fails with a message. */
void save_profile(Exchange* exchange, const char* file);

void exchange_close(Exchange* exchange); /* nothing is exchanged any more; the memory is the caller's again */
void exchange_leave(Exchange* exchange);
