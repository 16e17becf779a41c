/* elastic: a job that goes on when processes die, and takes new ones in while it runs.
 *
 * A line is fitted to points by gradient descent, data-parallel: each rank has a share of the points, and one
 * all_reduce a step adds the gradients. There is no launcher. The first process begins alone, and the others
 * come when they like; any of them may be killed at any time, the first as well.
 *
 *     elastic --folder /tmp/job --first &
 *     elastic --folder /tmp/job & elastic --folder /tmp/job & sleep 3
 *     kill -9 %1; elastic --folder /tmp/job & wait
 *
 * The folder is where rank 0 leaves the id that new processes come to. Only the job may be able to read it:
 * the id holds the job's secret. Processes on other hosts need a folder that all hosts see.
 *
 * Hocket is used in: begin(), come(), publish(), catch_up(), take_in(), recover() and train(). */
#define _DEFAULT_SOURCE
#include <getopt.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "capi/hocket.h"

enum { POINTS = 100000, COME_AGAIN_MS = 50 };

static struct {
    const char* folder;
    int first, steps, pause_ms, patience_s; /* patience: how long a new process looks for the job */
} options = {NULL, 0, 500, 10, 60};

/* The state that all ranks share and new ones receive: how far training is. */
static struct { double step, slope, offset; } state = {0, 0, 0};

static hkt_comm* comm;
static hkt_unique_id id; /* rank 0's id, with which new processes join */
static int has_id;
static char id_file[4096];

static void fail(const char* text) {
    fprintf(stderr, "elastic, process %d: %s\n", (int)getpid(), text);
    exit(1);
}

static int is_rank_0(void) {
    return hkt_comm_rank(comm) == 0;
}

/* Creates an id for new processes on rank 0, and stores it where they look. */
static void publish(void) {
    char fresh[4096 + 16];
    FILE* file;
    if (!is_rank_0() || has_id) return;
    if (hkt_unique_id_create(&id) != HKT_SUCCESS) fail(hkt_last_error());
    has_id = 1;
    snprintf(fresh, sizeof fresh, "%s.%d", id_file, (int)getpid());
    umask(077);
    if (!(file = fopen(fresh, "w")) || fwrite(&id, sizeof id, 1, file) != 1 || fclose(file) != 0 ||
        rename(fresh, id_file) != 0)
        fail("the id cannot be written into the folder");
}

/* ---- How a process joins the job --------------------------------------------------------------- */

static void begin(void) {
    hkt_comm_options alone = HKT_COMM_OPTIONS_INIT;
    alone.rank = 0, alone.world_size = 1;
    if (hkt_comm_create(&alone, &comm) != HKT_SUCCESS) fail(hkt_last_error());
}

/* An id may be used up, or its process may have died meanwhile: then there will be another one. */
static void come(void) {
    const time_t until = time(NULL) + options.patience_s;
    while (time(NULL) <= until) {
        hkt_comm_options newcomer = HKT_COMM_OPTIONS_INIT;
        hkt_unique_id found;
        FILE* file = fopen(id_file, "r");
        const int is_there = file && fread(&found, sizeof found, 1, file) == 1;
        if (file) fclose(file);
        newcomer.rank = HKT_NEWCOMER, newcomer.unique_id = &found;
        newcomer.timeout_ms = 1000 * (int64_t)(until - time(NULL) + 1);
        if (is_there && hkt_comm_create(&newcomer, &comm) == HKT_SUCCESS) return;
        usleep(COME_AGAIN_MS * 1000);
    }
    fail(*hkt_last_error() ? hkt_last_error() : "there is no id in the folder; does the job run?");
}

/* ---- Collective operations of the ranks -------------------------------------------------------- */

/* All ranks continue from rank 0's state: it may have made the last step when others have not, or new ones
 * came. */
static hkt_status catch_up(void) {
    return hkt_broadcast(&state, &state, 3, HKT_FLOAT64, 0, comm, NULL);
}

/* Admits waiting processes, if there are any. */
static hkt_status take_in(void) {
    hkt_comm* grown;
    const hkt_status status = hkt_comm_grow(comm, HKT_ALL_WAITING, is_rank_0() ? &id : NULL, &grown);
    if (status == HKT_SUCCESS && !grown) return HKT_SUCCESS; /* no process waits */
    has_id = 0;                                              /* it is used up */
    if (status == HKT_SUCCESS) {
        hkt_comm_destroy(comm);
        comm = grown;
        if (is_rank_0()) printf("step %.0f: there are %d ranks\n", state.step, hkt_comm_size(comm));
        publish();
        return catch_up();
    }
    /* Either a rank was lost, or a new process has died while joining, and the others use the next id. */
    if (hkt_comm_status(comm) == HKT_SUCCESS) publish();
    return hkt_comm_status(comm);
}

/* One step of gradient descent on the mean of (slope * x + offset - y)^2. */
static hkt_status train(void) {
    const int rank = hkt_comm_rank(comm), ranks = hkt_comm_size(comm);
    double gradient[3] = {0, 0, 0}; /* and the loss */
    hkt_status status;
    long i;
    for (i = rank; i < POINTS; i += ranks) {
        const double x = (double)i / POINTS, y = 3 * x - 1 + 0.1 * sin((double)i);
        const double error = state.slope * x + state.offset - y;
        gradient[0] += 2 * error * x / POINTS, gradient[1] += 2 * error / POINTS;
        gradient[2] += error * error / POINTS;
    }
    status = hkt_all_reduce(gradient, gradient, 3, HKT_FLOAT64, HKT_SUM, comm, NULL);
    if (status != HKT_SUCCESS) return status;
    state.slope -= 0.5 * gradient[0], state.offset -= 0.5 * gradient[1], state.step += 1;
    if (rank == 0 && (int)state.step % 50 == 0)
        printf("step %.0f: %d rank%s, loss %.6f\n", state.step, ranks, ranks == 1 ? "" : "s", gradient[2]);
    return HKT_SUCCESS;
}

/* The remaining ranks form a new communicator. */
static void recover(hkt_status status) {
    hkt_comm* left;
    if (status != HKT_ERROR_PEER_LOST && status != HKT_ERROR_ABORTED && status != HKT_ERROR_TIMEOUT)
        fail(hkt_comm_last_error(comm));
    if (hkt_comm_shrink(comm, &left) != HKT_SUCCESS) fail(hkt_comm_last_error(comm));
    hkt_comm_destroy(comm);
    comm = left;
    if (is_rank_0())
        printf("step %.0f: %d rank%s left\n", state.step, hkt_comm_size(comm),
               hkt_comm_size(comm) == 1 ? " is" : "s are");
    publish();
}

static void read_options(int count, char** words) {
    static const struct option known[] = {{"folder", 1, NULL, 'f'},   {"first", 0, NULL, '1'},
                                          {"steps", 1, NULL, 's'},    {"pause-ms", 1, NULL, 'p'},
                                          {"patience", 1, NULL, 't'}, {NULL, 0, NULL, 0}};
    int option;
    while ((option = getopt_long(count, words, "", known, NULL)) != -1) switch (option) {
            case 'f':
                options.folder = optarg;
                break;
            case '1':
                options.first = 1;
                break;
            case 's':
                options.steps = atoi(optarg);
                break;
            case 'p':
                options.pause_ms = atoi(optarg);
                break;
            case 't':
                options.patience_s = atoi(optarg);
                break;
            default:
                options.folder = NULL, optind = count + 1;
        }
    if (options.folder && optind == count) return;
    fail("usage: elastic --folder FOLDER [--first] [--steps N] [--pause-ms N] [--patience SECONDS]");
}

int main(int count, char** words) {
    hkt_status status;
    read_options(count, words);
    setvbuf(stdout, NULL, _IOLBF, 0);
    mkdir(options.folder, 0700);
    snprintf(id_file, sizeof id_file, "%s/id", options.folder);
    options.first ? begin() : come();
    publish();
    /* New ranks begin with catch_up(), and so do all others whenever the communicator has changed. */
    for (status = catch_up();; status = catch_up()) {
        while (status == HKT_SUCCESS && state.step < options.steps) {
            status = train();
            if (status == HKT_SUCCESS) status = take_in();
            usleep((useconds_t)options.pause_ms * 1000);
        }
        if (status == HKT_SUCCESS) break;
        recover(status);
    }
    /* Processes that still wait get an error. */
    if (has_id && is_rank_0()) unlink(id_file), hkt_unique_id_destroy(&id);
    printf("rank %d of %d: %.0f steps, slope %.6f, offset %.6f\n", hkt_comm_rank(comm), hkt_comm_size(comm),
           state.step, state.slope, state.offset);
    hkt_comm_destroy(comm);
    return 0;
}
