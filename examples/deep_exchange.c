#include "examples/deep_exchange.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "examples/words_model.h"

enum { MOST_TENSORS = 2 * DEEP_LAYERS };

static void check(hkt_status status) {
    if (status != HKT_SUCCESS) fail(hkt_last_error());
}

static void check_comm(Exchange* x, hkt_status status) {
    if (status != HKT_SUCCESS) fail(hkt_comm_last_error(x->comm));
}

int pulls_named(const char* name) {
    /* In the order of hkt_overlap_pulls. */
    static const char* const names[] = {"auto", "backward", "forward"};
    for (int i = 0; i < (int)(sizeof names / sizeof *names); ++i)
        if (strcmp(name, names[i]) == 0) return i;
    fail("--pulls is one of auto, backward and forward");
    return -1;
}

int method_named(const char* name) {
    /* In the order of hkt_overlap_method. */
    static const char* const names[] = {"optimum",    "sequential", "layers",  "algorithm1",
                                        "algorithm2", "ibatch",     "mg_wfbp", "buckets"};
    for (int i = 0; i < (int)(sizeof names / sizeof *names); ++i)
        if (strcmp(name, names[i]) == 0) return i;
    fail(
        "--method is one of optimum, sequential, layers, algorithm1, algorithm2, ibatch, mg_wfbp and "
        "buckets");
    return -1;
}

/* ---- Workers and the way they exchange ------------------------------------------------------ */

void exchange_join(Exchange* x) {
    hkt_comm_options how = HKT_COMM_OPTIONS_INIT;
    how.progress = HKT_PROGRESS_THREAD; /* gradients move while this thread computes */
    check(hkt_comm_create(&how, &x->comm));
    x->number = hkt_comm_rank(x->comm);
    x->workers = hkt_comm_size(x->comm);
}

float* exchange_allocate(Exchange* x, size_t count) {
    void* memory;
    if (x->comm == NULL) return allocate(count, sizeof(float));
    check_comm(x, hkt_mem_alloc(x->comm, count * sizeof(float), &memory));
    return memset(memory, 0, count * sizeof(float));
}

void exchange_free(Exchange* x, float* memory) {
    if (x->comm == NULL)
        free(memory);
    else
        check_comm(x, hkt_mem_free(x->comm, memory));
}

/* Describes the model to Hocket. */
typedef struct {
    size_t count;
    hkt_params_tensor tensors[MOST_TENSORS];
    size_t first[MOST_TENSORS]; /* where each tensor begins in the array of weights */
    char names[MOST_TENSORS][32];
    hkt_overlap_layer layers[DEEP_LAYERS];
} Description;

static void add_tensor(Description* d, const DeepLayer* layer, const char* what, size_t first, size_t count) {
    if (count == 0) return;
    char* const name = d->names[d->count];
    snprintf(name, sizeof *d->names, "%s.%s", layer->name, what);
    d->tensors[d->count] = (hkt_params_tensor){name, count, HKT_FLOAT32};
    d->first[d->count++] = first;
}

static void describe(const Deep* deep, Description* d) {
    memset(d, 0, sizeof *d);
    for (int i = 0; i < DEEP_LAYERS; ++i) {
        const DeepLayer* const layer = deep_layer(deep, i);
        const size_t before = d->count;
        add_tensor(d, layer, "weights", layer->first, layer->weights);
        add_tensor(d, layer, "biases", layer->first + layer->weights, layer->biases);
        d->layers[i] = (hkt_overlap_layer){layer->name, d->count - before};
    }
}

static void place_tensors(const Description* d, float* array, void** places) {
    for (size_t i = 0; i < d->count; ++i) places[i] = array + d->first[i];
}

void exchange_among_ranks(Exchange* x, const Deep* deep, float* gradients,
                          const hkt_overlap_run_options* options) {
    Description d;
    void* places[MOST_TENSORS];
    describe(deep, &d);
    place_tensors(&d, gradients, places);
    check(hkt_overlap_with_ranks(x->comm, d.tensors, d.count, places, d.layers, DEEP_LAYERS, options,
                                 &x->overlap));
}

void exchange_with_service(Exchange* x, const Deep* deep, float* gradients, float* weights,
                           const char* address, int workers, int number, float rate,
                           const hkt_overlap_run_options* options) {
    Description d;
    void *gradient_places[MOST_TENSORS], *weight_places[MOST_TENSORS];
    /* Sgd(RATE) divides last, which gives other bits if the number of workers is no power of two. */
    char update[80];
    snprintf(update, sizeof update, "w = w - %.9g * (g / workers)", rate);
    describe(deep, &d);
    place_tensors(&d, gradients, gradient_places);
    place_tensors(&d, weights, weight_places);
    hkt_params_options how = HKT_PARAMS_OPTIONS_INIT;
    how.address = address;
    how.update = update;
    how.tree = "direct"; /* gradients are added in the order of the workers */
    how.workers = workers;
    how.number = number;
    check(hkt_params_open(d.tensors, d.count, (const void* const*)weight_places, &how, &x->params));
    x->workers = workers;
    x->number = hkt_params_number(x->params);
    if (x->number >= workers)
        fail(
            "the job has all of its --workers: there is no part of a batch left; pass --workers with how "
            "many there are");
    check(hkt_overlap_with_params(x->params, (const void* const*)gradient_places, weight_places, d.layers,
                                  DEEP_LAYERS, options, &x->overlap));
}

void exchange_close(Exchange* x) {
    hkt_overlap_close(x->overlap);
    x->overlap = NULL;
}

void exchange_leave(Exchange* x) {
    hkt_params_close(x->params);
    hkt_comm_destroy(x->comm);
}

/* ---- A step ----------------------------------------------------------------------------------- */

void exchange_forward(Exchange* x, int layer) {
    if (x->overlap != NULL) check(hkt_overlap_forward(x->overlap, layer));
}

void exchange_begin_backward(Exchange* x) {
    if (x->overlap != NULL) check(hkt_overlap_begin_backward(x->overlap));
}

void exchange_backward(Exchange* x, int layer) {
    if (x->overlap != NULL) check(hkt_overlap_backward(x->overlap, layer));
}

void exchange_finish(Exchange* x) {
    if (x->overlap != NULL) check(hkt_overlap_finish(x->overlap));
}

/* ---- Results ---------------------------------------------------------------------------------- */

static hkt_overlap_run_stats stats_of(Exchange* x) {
    hkt_overlap_run_stats stats = {0};
    if (x->overlap != NULL) check(hkt_overlap_get_stats(x->overlap, &stats, sizeof stats));
    return stats;
}

uint64_t exchange_plans(Exchange* x) {
    return stats_of(x).plans;
}

typedef hkt_status (*PlannedFn)(hkt_overlap* overlap, size_t* ends, size_t* batches);

static void print_batches(Exchange* x, const char* name, PlannedFn planned) {
    size_t ends[DEEP_LAYERS], batches = 0;
    if (x->overlap != NULL) check(planned(x->overlap, ends, &batches));
    printf("\"%s\": [", name);
    for (size_t i = 0; i < batches; ++i) printf("%s%zu", i == 0 ? "" : ", ", ends[i]);
    printf("], ");
}

void print_exchange(Exchange* x) {
    const hkt_overlap_run_stats stats = stats_of(x);
    printf("\"way\": \"%s\", ", x->params ? "service" : x->overlap ? "ranks" : "alone");
    print_batches(x, "ends", hkt_overlap_batches);
    print_batches(x, "pull_ends", hkt_overlap_pull_batches);
    printf("\"iterations\": %llu, \"plans\": %llu, \"batches\": %llu, \"predicted_seconds\": %.6f, ",
           (unsigned long long)stats.iterations, (unsigned long long)stats.plans,
           (unsigned long long)stats.batches, stats.predicted_seconds);
    printf("\"measured_seconds\": %.6f, \"computation\": %.6f, \"communication\": %.6f, \"overlap\": %.6f",
           stats.measured_seconds, stats.computation, stats.communication, stats.overlap);
}

void save_profile(Exchange* x, const char* file) {
    const char* json;
    if (x->overlap == NULL) fail("--save-profile: one process alone exchanges nothing, and has no profile");
    check(hkt_overlap_profile(x->overlap, &json));
    FILE* const stream = fopen(file, "w");
    if (stream == NULL || fputs(json, stream) < 0 || fclose(stream) != 0) {
        perror(file);
        fail("the profile could not be written");
    }
}
