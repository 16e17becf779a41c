#define _DEFAULT_SOURCE
#define _POSIX_C_SOURCE 200809L
#include "examples/words_service.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TENSORS = 5 };

typedef struct {
    int servers, staleness; /* staleness: a number, or HKT_UNBOUNDED */
    char* tree;             /* null: the service's default */
} Wanted;

static void check(hkt_status status) {
    if (status < 0) fail(hkt_last_error());
}

static void fail_params(const char* what, const char* part) {
    char text[250];
    snprintf(
        text, sizeof text,
        "--params: %s: \"%.100s\"; it is like servers=2,staleness=0,tree=rack, with a number or unbounded "
        "as staleness",
        what, part);
    fail(text);
}

static int number_of(const char* value) {
    char* end;
    const long number = strtol(value, &end, 10);
    if (end == value || *end != '\0' || number < 0 || number > 1000000) fail_params("not a number", value);
    return (int)number;
}

static Wanted read_options(char* text) {
    char* const names[] = {"servers", "staleness", "tree", NULL};
    int given[3] = {0, 0, 0};
    Wanted wanted = {1, 0, NULL};
    const size_t length = strlen(text);
    /* getsubopt does not report an empty last option. */
    if (length == 0 || text[length - 1] == ',') fail_params("a part is empty", text);
    while (*text != '\0') {
        char* value = NULL;
        const int which = getsubopt(&text, names, &value);
        /* For an unknown name, getsubopt's value is the whole option. */
        if (which < 0 || value == NULL || *value == '\0')
            fail_params("not understood", which < 0 ? value : names[which]);
        if (given[which]++) fail_params("given twice", names[which]);
        if (which == 0) wanted.servers = number_of(value);
        if (which == 1) wanted.staleness = strcmp(value, "unbounded") == 0 ? HKT_UNBOUNDED : number_of(value);
        if (which == 2) wanted.tree = value;
    }
    if (wanted.servers < 1) fail("--params: servers is 1 or more");
    return wanted;
}

static void list_tensors(Model m, hkt_params_tensor* tensors, float** weights) {
    const struct {
        const char* name;
        size_t count;
        float* weights;
    } all[TENSORS] = {{"embedding", LETTERS * EMBEDDING, m.embedding},
                      {"w1", (size_t)INPUTS * m.hidden, m.w1},
                      {"b1", m.hidden, m.b1},
                      {"w2", (size_t)LETTERS * m.hidden, m.w2},
                      {"b2", LETTERS, m.b2}};
    for (int i = 0; i < TENSORS; ++i) {
        if (tensors != NULL) tensors[i] = (hkt_params_tensor){all[i].name, all[i].count, HKT_FLOAT32};
        weights[i] = all[i].weights;
    }
}

static void serve(hkt_params_server* server) {
    const int a_day = 24 * 3600 * 1000;
    hkt_status status;
    do status = hkt_params_server_wait(server, a_day);
    while (status == HKT_IN_PROGRESS);
    check(status);
    hkt_params_server_stop(server);
}

Service open_service(hkt_comm* comm, const char* text, Model m, float rate, size_t last, hkt_comm** workers) {
    char* const copy = strdup(text);
    if (copy == NULL) fail("out of memory");
    const Wanted wanted = read_options(copy);
    hkt_params_tensor tensors[TENSORS];
    float* weights[TENSORS];
    list_tensors(m, tensors, weights);
    const int rank = hkt_comm_rank(comm), learners = hkt_comm_size(comm) - wanted.servers,
              is_server = rank >= learners;
    char update[200];
    if (wanted.staleness == HKT_UNBOUNDED) /* then each worker's gradient is a separate round */
        snprintf(update, sizeof update, "w = w - %.9g * (1 - 0.9 * (round - 1) / %zu) * g / %d", rate,
                 last * learners, learners);
    else
        snprintf(update, sizeof update, "w = w - %.9g * (1 - 0.9 * (round - 1) / %zu) * g / workers", rate,
                 last);
    hkt_params_options options = HKT_PARAMS_OPTIONS_INIT;
    options.update = update;
    options.staleness = wanted.staleness;
    options.tree = wanted.tree;
    Service service = {NULL, wanted.staleness};
    hkt_params_server* server;
    if (hkt_params_open_with_ranks(comm, wanted.servers, tensors, TENSORS,
                                   rank == 0 ? (const void* const*)weights : NULL, &options, &service.params,
                                   &server) != HKT_SUCCESS)
        fail(hkt_comm_last_error(comm));
    if (hkt_comm_split(comm, is_server ? HKT_NO_COLOR : 0, rank, workers) != HKT_SUCCESS)
        fail(hkt_comm_last_error(comm));
    free(copy);
    if (server != NULL) {
        serve(server);
        hkt_comm_destroy(comm);
        exit(0);
    }
    return service;
}

static void pull(Service service, Model m, int staleness) {
    float* weights[TENSORS];
    list_tensors(m, NULL, weights);
    check(hkt_params_pull(service.params, 0, TENSORS, (void* const*)weights, staleness, NULL));
}

void step_by_service(Service service, Model m, Model g) {
    float* gradients[TENSORS];
    list_tensors(g, NULL, gradients);
    check(hkt_params_push(service.params, 0, TENSORS, (const void* const*)gradients, NULL));
    check(hkt_params_clock(service.params, NULL));
    pull(service, m, service.staleness);
}

void finish_by_service(Service service, Model m, hkt_comm* workers) {
    pull(service, m, 0);
    if (service.staleness != HKT_UNBOUNDED) return;
    /* When each worker has pulled its own weights, all workers' gradients have arrived. */
    if (hkt_barrier(workers) != HKT_SUCCESS) fail(hkt_comm_last_error(workers));
    pull(service, m, 0);
}

void step_alone(float* restrict weights, const float* restrict g, size_t count, int workers, float rate,
                size_t step, size_t last) {
    /* As in the update: numbers in double, elements in float. */
    char text[32];
    snprintf(text, sizeof text, "%.9g", rate);
    const float factor = (float)(atof(text) * (1 - 0.9 * (double)step / (double)last));
    for (size_t i = 0; i < count; ++i) weights[i] = weights[i] - factor * g[i] / (float)workers;
}
