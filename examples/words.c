/* words: learns to spell English, data-parallel.
 *
 * A character-level language model (the last CONTEXT letters -> embedding -> tanh layer -> softmax over the
 * next letter) is trained on the system's dictionary by stochastic gradient descent. Every rank holds all
 * weights and takes its part of each batch; one all_reduce a step sums the gradients. The batch is the same
 * whatever the number of ranks, so one process and four learn the same up to rounding.
 *
 *     hocket-run -n 4 words --schedule blueconnect --topology 2x2
 *
 * Hocket appears in: join(), sum(), the broadcast in main(), and prove_equal_weights(). */
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
#include "examples/words_model.h"

static struct {
    const char *schedule, *topology, *words;
    int epochs, steps, batch, hidden, seed, max_words; /* steps, max_words: 0 is no limit */
    float rate;
} options = {NULL, NULL, "/usr/share/dict/words", 4, 0, 256, 128, 1, 0, 1.0f};

static hkt_comm* comm;
static int rank, ranks;
static double seconds_communicating;

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

static hkt_plan* plan_sum(hkt_type type) {
    hkt_plan_options how = HKT_PLAN_OPTIONS_INIT;
    how.schedule = options.schedule;
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

/* This rank's part of count things; parts differ by at most one. */
static size_t first_of_part(size_t count, int part) {
    return count * part / ranks;
}

static double mean_loss(Model m, const Sample* samples, size_t count) {
    double total = 0;
    for (size_t i = first_of_part(count, rank); i < first_of_part(count, rank + 1); ++i)
        total += loss_of(m, samples + i);
    hkt_plan* plan = plan_sum(HKT_FLOAT64);
    sum(plan, &total, 1);
    hkt_plan_destroy(plan);
    return total / count;
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

/* ---- What people see -------------------------------------------------------------------------- */

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

/* Trains for one epoch or until `step` reaches `last`; returns the mean loss of its batches. */
static double train_epoch(Model m, float* weights, float* gradient, const Sample* samples, size_t steps,
                          int epoch, hkt_plan* plan, size_t* step, size_t last) {
    const size_t size = model_size(options.hidden);
    const Model g = model_in(gradient, options.hidden);
    const double start = now();
    double total = 0, shown = start;
    size_t done = 0;
    for (; done < steps && *step < last; ++done, ++*step) {
        const Sample* batch = samples + done * options.batch;
        memset(gradient, 0, (size + 1) * sizeof *gradient);
        for (size_t i = first_of_part(options.batch, rank); i < first_of_part(options.batch, rank + 1); ++i)
            gradient[size] += learn(m, g, batch + i); /* the loss travels behind the gradient */
        sum(plan, gradient, size + 1);
        total += gradient[size] / options.batch;
        const float rate = options.rate * (1 - 0.9f * *step / last); /* falls to a tenth */
        add_scaled(weights, -rate / options.batch, gradient, size);
        if (rank == 0 && on_terminal() && now() > shown + 0.1) {
            shown = now();
            show_progress(epoch, done + 1, steps, total / (done + 1),
                          (done + 1) * options.batch / (shown - start));
        }
    }
    if (rank == 0) {
        if (on_terminal()) printf("\r\033[K"); /* over the progress bar */
        printf("epoch %d  loss %.4f  %.0f samples/s\n", epoch, total / done,
               done * options.batch / (now() - start));
    }
    return total / done;
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
    "         --max-words N --rate R --help";

static void parse_options(int argc, char** argv) {
    static const struct option names[] = {
        {"schedule", 1, 0, 0},  {"topology", 1, 0, 0}, {"words", 1, 0, 0},  {"epochs", 1, 0, 0},
        {"steps", 1, 0, 0},     {"batch", 1, 0, 0},    {"hidden", 1, 0, 0}, {"seed", 1, 0, 0},
        {"max-words", 1, 0, 0}, {"rate", 1, 0, 0},     {"help", 0, 0, 'h'}, {0, 0, 0, 0}};
    const char** texts[] = {&options.schedule, &options.topology, &options.words};
    int* numbers[] = {&options.epochs, &options.steps, &options.batch,
                      &options.hidden, &options.seed,  &options.max_words};
    int index = 0, answer;
    while ((answer = getopt_long(argc, argv, "", names, &index)) == 0)
        if (index < 3)
            *texts[index] = optarg;
        else if (index < 9)
            *numbers[index - 3] = whole_number(optarg);
        else
            options.rate = strtof(optarg, NULL);
    if (answer == 'h') {
        printf("Trains a small language model, data-parallel.\n    hocket-run -n 4 words OPTIONS\n%s\n",
               usage);
        exit(0);
    }
    if (answer != -1 || optind < argc) fail(usage);
    if (options.epochs < 1 || options.batch < 1 || options.hidden < 1 || options.hidden > 4096 ||
        !(options.rate > 0))
        fail("epochs, batch, hidden (up to 4096) and rate must be positive");
}

int main(int argc, char** argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    parse_options(argc, argv);
    size_t count;
    Sample* samples = read_samples(options.words, options.max_words, &count);
    shuffle(samples, count, options.seed);
    if (count < (size_t)options.batch) fail("fewer samples than one batch");
    join();

    const size_t size = model_size(options.hidden), steps = count / options.batch;
    const size_t last = options.steps > 0 ? (size_t)options.steps : steps * options.epochs;
    float* weights = allocate(size, sizeof *weights);
    float* gradient = allocate(size + 1, sizeof *gradient);
    const Model m = model_in(weights, options.hidden);
    if (rank == 0) initialise(m, options.seed);
    check(hkt_broadcast(weights, weights, size, HKT_FLOAT32, 0, comm, NULL));
    hkt_plan* plan = plan_sum(HKT_FLOAT32);
    if (rank == 0)
        printf("words: %zu samples, %zu weights, batches of %d on %d rank%s, schedule %s on %s over %s\n",
               count, size, options.batch, ranks, ranks == 1 ? "" : "s",
               options.schedule ? options.schedule : "(default)", hkt_comm_info(comm, "topology"),
               hkt_comm_info(comm, "provider"));

    const size_t tested = count < 20000 ? count : 20000;
    Sample* test = allocate(tested, sizeof *test); /* the same samples before and after */
    memcpy(test, samples, tested * sizeof *test);
    const double first_loss = mean_loss(m, test, tested), start = now();
    seconds_communicating = 0;
    size_t step = 0;
    for (int epoch = 1; step < last; ++epoch) {
        train_epoch(m, weights, gradient, samples, steps, epoch, plan, &step, last);
        shuffle(samples, count, options.seed + epoch);
    }
    const double seconds = now() - start, share = seconds_communicating / seconds;
    const double final_loss = mean_loss(m, test, tested);
    if (rank == 0) {
        printf("trained in %.1f s: %.0f samples/s, %.0f %% of the time in all_reduce (waiting included)\n",
               seconds, step * options.batch / seconds, 100 * share);
        printf("loss %.4f before, ln %d = %.4f would be guessing\n", first_loss, LETTERS, log(LETTERS));
        printf("final loss %.9f after %zu steps\n", final_loss, step);
    }
    prove_equal_weights(weights, size);
    if (rank == 0) print_words(m, 12, options.seed);
    hkt_plan_destroy(plan);
    hkt_comm_destroy(comm);
    free(gradient);
    free(weights);
    free(test);
    free(samples);
    return 0;
}
