/* words: learns to spell English, data-parallel.
 *
 * A character-level language model (the last CONTEXT letters -> embedding -> tanh layer -> softmax over the
 * next letter) is trained on the system's dictionary by stochastic gradient descent. Every rank holds all
 * weights and takes its part of each batch of words; one all_reduce a step sums the gradients. The batch does
 * not depend on the number of ranks, so one process and four learn the same up to rounding.
 *
 *     hocket-run -n 4 words --schedule blueconnect --topology 2x2
 *
 * --gradients names a schedule that sends only the largest elements of the gradients (docs/sparse.md). It has
 * a plan of its own, which keeps what was not sent for the steps that follow:
 *
 *     hocket-run -n 4 words --gradients 'hitopk(0.01)' --topology 2x2
 *
 * --params trains through a parameter service (words_service.c): here the last 2 ranks keep the weights, and
 * the other 4 learn. --workers 4 does the same in one process, with the same bits where staleness is 0 and
 * the tree direct:
 *
 *     hocket-run -n 6 words --params servers=2,staleness=0,tree=rack
 *
 * The words come through the data cache: each is read and decoded once, by the rank that owns it. The order
 * of the epoch tells the cache which words will be needed next. With HOCKET_CACHE_FOLDER set, the next run
 * reads them from there.
 *
 * Hocket is used in: join(), plan_sum() to sum_gradient(), the broadcast in main(), prove_equal_weights(),
 * print_cache(), words_data.c and words_service.c. */
#define _POSIX_C_SOURCE 200809L
#define _DEFAULT_SOURCE
#include <getopt.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "capi/hocket.h"
#include "examples/words_data.h"
#include "examples/words_model.h"
#include "examples/words_service.h"

static struct {
    const char *schedule, *topology, *words, *gradients; /* gradients: null is dense */
    const char* params;                                  /* null: no service */
    int epochs, steps, batch, hidden, seed, max_words;   /* steps, max_words: 0 is no limit */
    int warm_up;                                         /* steps in which the density falls from 1 */
    int workers; /* number of workers whose work this process does, as with a service; 0: only its own */
    float rate, density;
} options = {NULL, NULL, "/usr/share/dict/words", NULL, NULL, 4, 0, 32, 128, 1, 0, 0, 0, 1.0f, 0.01f};

static hkt_comm* comm; /* of the ranks that train */
static hkt_cache* cache;
static Service service;
static int rank, ranks;
static double seconds_communicating, seconds_waiting; /* waiting: for words */

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + 1e-9 * time.tv_nsec;
}

static void check(hkt_status status) {
    if (status != HKT_SUCCESS) fail(hkt_comm_last_error(comm));
}

/* ---- Ranks ------------------------------------------------------------------------------------ */

static void join(void) {
    hkt_comm_options how = HKT_COMM_OPTIONS_INIT;
    how.topology = options.topology;
    check(hkt_comm_create(&how, &comm));
    rank = hkt_comm_rank(comm);
    ranks = hkt_comm_size(comm);
}

static hkt_plan* plan_sum(hkt_type type, const char* schedule) {
    hkt_plan_options how = HKT_PLAN_OPTIONS_INIT;
    how.schedule = schedule;
    hkt_plan* plan;
    check(hkt_plan_create(comm, HKT_ALL_REDUCE, type, HKT_SUM, &how, &plan));
    return plan;
}

/* Replaces each value by its sum over all ranks. */
static void sum(hkt_plan* plan, void* values, size_t count) {
    const double start = now();
    check(hkt_plan_start(plan, values, values, count, NULL));
    seconds_communicating += now() - start;
}

/* The gradient's plan, and a plan for the loss and the number of lessons, of which nothing may be left
 * out. The second is null if everything is sent; then they are sent with the gradient. */
typedef struct {
    hkt_plan *gradient, *counts;
    int takes_density; /* each start of the gradient's schedule takes its density */
} Sums;

static Sums plan_sums(void) {
    Sums sums = {plan_sum(HKT_FLOAT32, options.gradients ? options.gradients : options.schedule), NULL, 0};
    if (options.gradients == NULL) return sums;
    sums.counts = plan_sum(HKT_FLOAT32, options.schedule);
    const char* parameter = hkt_plan_parameter(sums.gradient, 0);
    sums.takes_density = parameter != NULL && strcmp(parameter, "density") == 0;
    if (parameter != NULL && (!sums.takes_density || hkt_plan_parameter(sums.gradient, 1) != NULL))
        fail("the schedule of the gradients may take a density at each start, but nothing else");
    if (options.warm_up > 0 && !sums.takes_density)
        fail("--warm-up is for a schedule that is given its density at each start, as dgc is");
    return sums;
}

static void destroy_sums(Sums sums) {
    hkt_plan_destroy(sums.gradient);
    hkt_plan_destroy(sums.counts);
}

/* Returns the density, which falls exponentially from 1 in the first steps and then stays. */
static double density_at(size_t step) {
    return step < (size_t)options.warm_up ? pow(options.density, (double)step / options.warm_up)
                                          : options.density;
}

/* The loss and the number of lessons are stored behind the gradient. */
static void sum_gradient(Sums sums, float* gradient, size_t size, size_t step) {
    if (sums.counts == NULL) {
        sum(sums.gradient, gradient, size + 2);
        return;
    }
    const double density = density_at(step), start = now();
    hkt_start_options how = HKT_START_OPTIONS_INIT;
    how.parameters = &density;
    how.parameter_count = sums.takes_density;
    check(hkt_plan_start_with(sums.gradient, gradient, gradient, size, &how, NULL));
    seconds_communicating += now() - start;
    sum(sums.counts, gradient + size, 2);
}

/* Returns where a rank's share of `count` things begins; the sizes of shares differ by at most one. */
static size_t first_of_part(size_t count, int part, int parts) {
    return count * part / parts;
}

/* Sums the totals over all ranks. */
static void sum_totals(double* totals) {
    hkt_plan* plan = plan_sum(HKT_FLOAT64, options.schedule);
    sum(plan, totals, 2);
    hkt_plan_destroy(plan);
}

static double mean_loss(Model m, const uint64_t* keys, size_t count) {
    double total[2] = {0, 0}; /* loss, lessons */
    const size_t end = first_of_part(count, rank + 1, ranks);
    for (size_t i = first_of_part(count, rank, ranks); i < end; ++i) {
        hkt_sample word;
        if (hkt_cache_get(cache, keys[i], &word) != HKT_SUCCESS) fail(hkt_last_error());
        size_t lessons;
        const Lesson* lesson = lessons_in(&word, &lessons);
        for (size_t k = 0; k < lessons; ++k) total[0] += loss_of(m, lesson + k);
        total[1] += lessons;
        hkt_cache_release(cache, &word, 1);
    }
    sum_totals(total);
    return total[0] / total[1];
}

static void prove_equal_weights(const float* weights, size_t count) {
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
    const unsigned char* bytes = (const unsigned char*)weights;
    for (size_t i = 0; i < count * sizeof *weights; ++i) hash = (hash ^ bytes[i]) * 0x100000001b3u;
    uint64_t lowest, highest, *all = allocate(ranks, sizeof *all);
    check(hkt_all_gather(&hash, all, 1, HKT_INT64, comm, NULL));
    check(hkt_all_reduce(&hash, &lowest, 1, HKT_INT64, HKT_MIN, comm, NULL));
    check(hkt_all_reduce(&hash, &highest, 1, HKT_INT64, HKT_MAX, comm, NULL));
    int equal = lowest == hash && highest == hash;
    for (int r = 0; r < ranks; ++r) equal = equal && all[r] == hash;
    free(all);
    if (!equal) fail("the ranks' weights differ");
    if (rank == 0)
        printf("weights: %d rank%s hold the same %zu floats, bit for bit (hash %016llx)\n", ranks,
               ranks == 1 ? "" : "s", count, (unsigned long long)hash);
}

/* ---- Output for people ----------------------------------------------------------------------- */

/* HOCKET_RUN_TERMINAL: hocket-run shows this rank's output on a terminal. */
static int on_terminal(void) {
    return isatty(STDOUT_FILENO) || getenv("HOCKET_RUN_TERMINAL") != NULL;
}

static void show_progress(int epoch, size_t step, size_t steps, double loss, double samples_per_second) {
    char bar[] = "------------------------------";
    memset(bar, '#', (sizeof bar - 1) * step / steps);
    printf("\repoch %d [%s] loss %.4f  %.0f samples/s ", epoch, bar, loss, samples_per_second);
    fflush(stdout);
}

static void print_words(Model m, int count, uint64_t seed) {
    char word[24];
    printf("invented:");
    for (int w = 0; w < count; ++w) {
        invent_word(m, &seed, word, sizeof word);
        printf(" %s", word);
    }
    putchar('\n');
}

/* Computes the gradient of this rank's part of a batch, followed by the loss and the number of lessons. */
static void learn_batch(Model m, Model g, const hkt_sample* words, size_t count, float* counts) {
    for (size_t i = 0; i < count; ++i) {
        size_t lessons;
        const Lesson* lesson = lessons_in(words + i, &lessons);
        for (size_t k = 0; k < lessons; ++k) counts[0] += learn(m, g, lesson + k);
        counts[1] += lessons;
    }
}

/* Sums the gradients of all ranks; each rank then makes the same step. */
static void learn_together(Model m, float* weights, float* gradient, size_t size, const hkt_sample* words,
                           size_t count, Sums sums, size_t step, size_t last, double* totals) {
    memset(gradient, 0, (size + 2) * sizeof *gradient);
    learn_batch(m, model_in(gradient, options.hidden), words, count, gradient + size);
    sum_gradient(sums, gradient, size, step);
    for (int i = 0; i < 2; ++i) totals[i] += gradient[size + i];
    const float rate = options.rate * (1 - 0.9f * step / last); /* falls to a tenth */
    add_scaled(weights, -rate / gradient[size + 1], gradient, size);
}

/* Sets mean to the mean gradient of some words; adds the loss and the number of lessons to totals. */
static void learn_mean(Model m, float* gradient, size_t size, const hkt_sample* words, size_t count,
                       float* mean, double* totals) {
    memset(gradient, 0, (size + 2) * sizeof *gradient);
    learn_batch(m, model_in(gradient, options.hidden), words, count, gradient + size);
    memset(mean, 0, size * sizeof *mean);
    add_scaled(mean, 1 / gradient[size + 1], gradient, size);
    for (int i = 0; i < 2; ++i) totals[i] += gradient[size + i];
}

/* Sends this worker's mean to the servers, and receives their weights. */
static void learn_by_service(Model m, float* gradient, size_t size, const hkt_sample* words, size_t count,
                             float* mean, double* totals) {
    learn_mean(m, gradient, size, words, count, mean, totals);
    const double start = now();
    step_by_service(service, m, model_in(mean, options.hidden));
    seconds_communicating += now() - start;
}

/* Does the same for all workers, one after another, in this process. */
static void learn_as_workers(Model m, float* weights, float* gradient, size_t size, const hkt_sample* words,
                             float* mean, size_t step, size_t last, double* totals) {
    float* const sum = mean + size;
    memset(sum, 0, size * sizeof *sum);
    for (int worker = 0; worker < options.workers; ++worker) {
        const size_t first = first_of_part(options.batch, worker, options.workers),
                     end = first_of_part(options.batch, worker + 1, options.workers);
        learn_mean(m, gradient, size, words + first, end - first, mean, totals);
        add_scaled(sum, 1, mean, size);
    }
    step_alone(weights, sum, size, options.workers, options.rate, step, last);
}

/* Trains for one epoch or until `step` reaches `last`; returns the number of lessons. */
static double train_epoch(Model m, float* weights, float* gradient, const uint64_t* keys, size_t steps,
                          int epoch, Sums sums, size_t* step, size_t last) {
    const size_t size = model_size(options.hidden), first = first_of_part(options.batch, rank, ranks),
                 end = first_of_part(options.batch, rank + 1, ranks);
    const double start = now();
    double totals[2] = {0, 0}, shown = start;             /* loss, lessons */
    float* const mean = allocate(2 * size, sizeof *mean); /* followed by a sum of means */
    Batches batches = begin_batches(cache, keys, steps, options.batch, first, end);
    for (size_t done = 0; done < steps && *step < last; ++done, ++*step) {
        const hkt_sample* const words = next_batch(&batches);
        if (service.params != NULL)
            learn_by_service(m, gradient, size, words, end - first, mean, totals);
        else if (options.workers > 0)
            learn_as_workers(m, weights, gradient, size, words, mean, *step, last, totals);
        else
            learn_together(m, weights, gradient, size, words, end - first, sums, *step, last, totals);
        if (rank == 0 && on_terminal() && now() > shown + 0.1) {
            shown = now();
            show_progress(epoch, done + 1, steps, totals[0] / totals[1], totals[1] / (shown - start));
        }
    }
    if (service.params != NULL) sum_totals(totals);
    free(mean);
    seconds_waiting += batches.seconds_waiting;
    end_batches(&batches);
    if (rank == 0) {
        if (on_terminal()) printf("\r\033[K"); /* over the progress bar */
        printf("epoch %d  loss %.4f  %.0f lessons/s\n", epoch, totals[0] / totals[1],
               totals[1] / (now() - start));
    }
    return totals[1];
}

/* Prints where this rank's words came from. */
static void print_cache(double seconds) {
    hkt_cache_stats stats;
    if (hkt_cache_get_stats(cache, &stats, sizeof stats) != HKT_SUCCESS) fail(hkt_last_error());
    const uint64_t all =
        stats.memory_hits + stats.shared_loads + stats.disk_hits + stats.peer_hits + stats.source_reads;
    printf(
        "words of rank %d: %.1f %% were in memory; %llu came from the list, %llu from the disk, %llu from "
        "other ranks; "
        "%.1f %% of the time waited for\n",
        rank, 100.0 * (stats.memory_hits + stats.shared_loads) / (all > 0 ? all : 1),
        (unsigned long long)stats.source_reads, (unsigned long long)stats.disk_hits,
        (unsigned long long)stats.peer_hits, 100 * seconds_waiting / seconds);
}

static int whole_number(const char* text) {
    char* end;
    const long value = strtol(text, &end, 10);
    if (end == text || *end != '\0' || value < 0 || value > 1000000000)
        fail("an option wants a whole number");
    return (int)value;
}

static const char usage[] =
    "options: --schedule S --topology T --words FILE --epochs N --steps N --batch N --hidden N --seed N\n"
    "         --max-words N --rate R --gradients S --density D --warm-up STEPS\n"
    "         --params servers=N,staleness=N|unbounded,tree=T --workers N --help\n"
    "         T: direct, binary, \"degree N\", rack or auto (docs/params.md)";

static void parse_options(int argc, char** argv) {
    static const struct option names[] = {
        {"schedule", 1, 0, 0}, {"topology", 1, 0, 0}, {"words", 1, 0, 0},     {"gradients", 1, 0, 0},
        {"params", 1, 0, 0},   {"epochs", 1, 0, 0},   {"steps", 1, 0, 0},     {"batch", 1, 0, 0},
        {"hidden", 1, 0, 0},   {"seed", 1, 0, 0},     {"max-words", 1, 0, 0}, {"warm-up", 1, 0, 0},
        {"workers", 1, 0, 0},  {"rate", 1, 0, 0},     {"density", 1, 0, 0},   {"help", 0, 0, 'h'},
        {0, 0, 0, 0}};
    const char** texts[] = {&options.schedule, &options.topology, &options.words, &options.gradients,
                            &options.params};
    int* numbers[] = {&options.epochs, &options.steps,     &options.batch,   &options.hidden,
                      &options.seed,   &options.max_words, &options.warm_up, &options.workers};
    float* fractions[] = {&options.rate, &options.density};
    int index = 0, answer;
    while ((answer = getopt_long(argc, argv, "", names, &index)) == 0)
        if (index < 5)
            *texts[index] = optarg;
        else if (index < 13)
            *numbers[index - 5] = whole_number(optarg);
        else
            *fractions[index - 13] = strtof(optarg, NULL);
    if (answer == 'h') {
        printf("Trains a small language model, data-parallel.\n    hocket-run -n 4 words OPTIONS\n%s\n",
               usage);
        exit(0);
    }
    if (answer != -1 || optind < argc) fail(usage);
    if (options.epochs < 1 || options.batch < 1 || options.hidden < 1 || options.hidden > 4096 ||
        !(options.rate > 0))
        fail("epochs, batch, hidden (up to 4096) and rate must be positive");
    if ((options.params || options.workers > 0) && options.gradients)
        fail("--gradients is for all_reduce: it goes with neither --params nor --workers");
    if (options.params && options.schedule)
        fail("--schedule is for all_reduce: it does not go with --params");
    if (options.params && options.workers > 0)
        fail("--workers is for one process without a service: it does not go with --params");
    if (options.workers > options.batch)
        fail("--workers is more than --batch: each worker needs a word of each batch");
}

/* From now on comm is the workers' communicator. */
static void use_service(Model m, size_t last) {
    hkt_comm *const all = comm, *workers;
    service = open_service(all, options.params, m, options.rate, last, &workers);
    hkt_comm_destroy(all);
    comm = workers;
    rank = hkt_comm_rank(comm);
    ranks = hkt_comm_size(comm);
}

int main(int argc, char** argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    parse_options(argc, argv);
    WordList list = find_words(options.words, options.max_words);
    const size_t count = list.count;
    if (count < (size_t)options.batch) fail("fewer words than one batch");
    join();
    if (options.workers > 0 && ranks > 1)
        fail("--workers: one process does the work of all workers, but this job has more than one");

    const size_t size = model_size(options.hidden), steps = count / options.batch;
    const size_t last = options.steps > 0 ? (size_t)options.steps : steps * options.epochs;
    float* weights = allocate(size, sizeof *weights);
    float* gradient = allocate(size + 2, sizeof *gradient);
    const Model m = model_in(weights, options.hidden);
    if (rank == 0) initialise(m, options.seed);
    if (options.params != NULL) use_service(m, last);
    cache = open_cache(&list, comm);
    check(hkt_broadcast(weights, weights, size, HKT_FLOAT32, 0, comm, NULL));
    const Sums sums = plan_sums();
    if (rank == 0)
        printf("words: %zu words, %zu weights, batches of %d on %d rank%s, %s %s on %s over %s\n", count,
               size, options.batch, ranks, ranks == 1 ? "" : "s",
               options.params ? "parameter service" : "schedule",
               options.params      ? options.params
               : options.gradients ? options.gradients
               : options.schedule  ? options.schedule
                                   : "(default)",
               hkt_comm_info(comm, "topology"), hkt_comm_info(comm, "provider"));

    uint64_t* keys = allocate(count, sizeof *keys);
    const size_t tested = count < 2000 ? count : 2000;
    uint64_t* test = allocate(tested, sizeof *test); /* the same words before and after */
    shuffled(keys, count, options.seed);
    memcpy(test, keys, tested * sizeof *test);
    const double first_loss = mean_loss(m, test, tested), start = now();
    seconds_communicating = 0;
    size_t step = 0;
    double lessons = 0;
    for (int epoch = 1; step < last; ++epoch) {
        lessons += train_epoch(m, weights, gradient, keys, steps, epoch, sums, &step, last);
        shuffled(keys, count, options.seed + epoch);
    }
    if (service.params != NULL) finish_by_service(service, m, comm);
    const double seconds = now() - start, share = seconds_communicating / seconds;
    const double final_loss = mean_loss(m, test, tested);
    if (rank == 0) {
        printf("trained in %.1f s: %.0f lessons/s, %.0f %% of the time in %s (waiting included)\n", seconds,
               lessons / seconds, 100 * share, service.params ? "push and pull" : "all_reduce");
        print_cache(seconds);
        printf("loss %.4f before, ln %d = %.4f would be guessing\n", first_loss, LETTERS, log(LETTERS));
        printf("final loss %.9f after %zu steps\n", final_loss, step);
    }
    prove_equal_weights(weights, size);
    if (rank == 0) print_words(m, 12, options.seed);
    destroy_sums(sums);
    hkt_params_close(service.params);
    hkt_cache_close(cache);
    hkt_comm_destroy(comm);
    free(gradient);
    free(weights);
    free(test);
    free(keys);
    free_words(&list);
    if (fflush(stdout) != 0 || ferror(stdout)) fail("not all output could be written");
    return 0;
}
