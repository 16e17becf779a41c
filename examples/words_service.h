/* Trains words through a parameter service: servers keep the weights, and workers push gradients to them
 * and pull weights from them (docs/params.md). */
#pragma once

#include <stddef.h>

#include "capi/hocket.h"
#include "examples/words_model.h"

typedef struct {
    hkt_params* params; /* of a worker */
    int staleness;      /* a number, or HKT_UNBOUNDED */
} Service;

/* The last ranks of comm serve, the others are workers. text: "servers=2,staleness=0,tree=rack"; staleness
 * can be "unbounded", too. m: the first weights, on rank 0. rate: the first step's; it falls to a tenth by
 * the step `last`. Does not return on servers: they end with the program when all workers have left. Sets
 * *workers to the communicator of the workers. */
Service open_service(hkt_comm* comm, const char* text, Model m, float rate, size_t last, hkt_comm** workers);

/* Makes a step: the servers take g into the mean over all workers, and m is set to their weights. */
void step_by_service(Service service, Model m, Model g);

/* Collective among the workers. Sets m to the weights after all steps of all workers. */
void finish_by_service(Service service, Model m, hkt_comm* workers);

/* Does what step_by_service does, for `count` weights, in the same order and with the same bits; g: the
 * sum over the workers. */
void step_alone(float* restrict weights, const float* restrict g, size_t count, int workers, float rate,
                size_t step, size_t last);
