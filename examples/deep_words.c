/* deep_words: trains a model of 14 layers (deep_model.h) to guess the next letter of a word.
 *
 * Several workers share each batch. While a worker computes the gradients of a layer, those of the layers
 * after it are on their way already, in batches of layers that are planned from what Hocket measures in the
 * first steps (docs/overlap.md). The workers are ranks, whose all_reduce makes the mean of their gradients:
 *
 *     hocket-run -n 4 deep_words --method optimum
 *
 * or workers of a parameter service, which get the weights that it makes of their gradients:
 *
 *     export HOCKET_SECRET=some-text
 *     hocket-params serve --listen 127.0.0.1:7000 &
 *     for i in 0 1 2 3; do deep_words --params 127.0.0.1:7000 --workers 4 --number $i & done; wait
 *
 * or one process does the work of all, one after another, which gives the same weights, bit for bit:
 *
 *     deep_words --workers 4
 *
 * --report ends with a line of JSON: how long a step took, the plan, and a checksum of all weights. --layers
 * ends with a table of the layers. The words come as in words.c, but each process reads them by itself.
 *
 * Hocket is used in deep_exchange.c, and in words_data.c. */
#define _POSIX_C_SOURCE 200809L
#include <getopt.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "examples/deep_check.h"
#include "examples/deep_exchange.h"
#include "examples/deep_lessons.h"
#include "examples/deep_model.h"
#include "examples/deep_times.h"

static struct {
    const char *words, *params, *save_profile; /* params: null for no service */
    int steps, batch, seed, max_words;         /* max_words: 0 for all */
    int workers, number;                       /* workers 0, number -1: not given */
    int report, layers, check_gradients;
    float rate;
    hkt_overlap_run_options plan;
} options = {.words = "/usr/share/dict/words",
             .steps = 60,
             .batch = 1024,
             .seed = 1,
             .number = -1,
             .rate = 0.1f,
             .plan = HKT_OVERLAP_RUN_OPTIONS_INIT};

/* The state of one training process. sum: of the gradients of several workers. */
typedef struct {
    Deep* deep;
    size_t size;
    float *weights, *gradients, *sum;
    Exchange exchange;
    Course course;
    Times times;
} Training;

/* ---- A step ----------------------------------------------------------------------------------- */

/* Computes the gradients of the mean loss of these lessons; returns the loss. */
static double compute(Training* t, const DeepLesson* lessons, size_t count) {
    double start;
    deep_begin(t->deep, lessons, count);
    for (int i = 0; i < DEEP_LAYERS; ++i) {
        exchange_forward(&t->exchange, i);
        start = seconds_now();
        deep_forward(t->deep, t->weights, i);
        add_forward(&t->times, i, start);
    }
    exchange_begin_backward(&t->exchange);
    const double loss = deep_loss(t->deep);
    for (int i = DEEP_LAYERS - 1; i >= 0; --i) {
        start = seconds_now();
        deep_backward(t->deep, t->weights, t->gradients, i);
        add_backward(&t->times, i, start);
        exchange_backward(&t->exchange, i);
    }
    return loss;
}

static void go_down(float* restrict weights, const float* restrict slope, size_t count) {
    for (size_t i = 0; i < count; ++i) weights[i] -= options.rate * slope[i];
}

static size_t first_of_part(int part) {
    return (size_t)options.batch * part / options.workers;
}

/* Returns this worker's loss. Sets *ended to the time when the gradients had been exchanged. */
static double step_together(Training* t, double* ended) {
    const DeepLesson* const lessons = course_next(&t->course);
    const double loss = compute(t, lessons, t->course.end - t->course.first);
    exchange_finish(&t->exchange);
    *ended = seconds_now();
    if (t->exchange.params == NULL) go_down(t->weights, t->gradients, t->size);
    return loss;
}

/* Works as all_reduce and the service do: the sum is complete before it is divided. */
static double step_alone(Training* t, double* ended) {
    const DeepLesson* const lessons = course_next(&t->course);
    double loss = 0;
    for (int worker = 0; worker < options.workers; ++worker) {
        const size_t first = first_of_part(worker), end = first_of_part(worker + 1);
        loss += compute(t, lessons + first, end - first) / options.workers;
        if (worker == 0)
            memcpy(t->sum, t->gradients, t->size * sizeof *t->sum);
        else
            for (size_t i = 0; i < t->size; ++i) t->sum[i] += t->gradients[i];
    }
    for (size_t i = 0; i < t->size; ++i) t->sum[i] /= options.workers;
    go_down(t->weights, t->sum, t->size);
    *ended = seconds_now();
    return loss;
}

/* ---- Training --------------------------------------------------------------------------------- */

static int shows(const Training* t) {
    return t->exchange.number == 0 && !options.report;
}

static double train(Training* t) {
    double ended = seconds_now(), loss = 0;
    uint64_t plans = exchange_plans(&t->exchange);
    for (int step = 1; step <= options.steps; ++step) {
        const double started = ended;
        loss = t->exchange.overlap != NULL ? step_together(t, &ended) : step_alone(t, &ended);
        add_step(&t->times, ended - started);
        if (shows(t)) printf("step %d  loss %.4f  %.4f s\n", step, loss, ended - started);
        if (exchange_plans(&t->exchange) == plans) continue;
        plans = exchange_plans(&t->exchange);
        if (step < options.steps) forget_steps(&t->times); /* the next step is the first with this plan */
    }
    /* With a service: waits for the weights after the last step. */
    exchange_forward(&t->exchange, DEEP_LAYERS - 1);
    return loss;
}

static void print_report(Training* t, double loss) {
    printf("{\"steps\": %d, \"workers\": %d, \"number\": %d, \"loss\": %.6f, ", options.steps,
           options.workers, t->exchange.number, loss);
    print_step_times(&t->times);
    printf(", ");
    print_exchange(&t->exchange);
    printf(", \"checksum\": \"%016llx\"}\n", (unsigned long long)checksum(t->weights, t->size));
}

/* Determines the number of workers, and this one's number, as far as known before a service is asked. */
static void join(Exchange* exchange) {
    if (options.params == NULL) {
        exchange_join(exchange);
        if (exchange->workers > 1 && options.workers > 0)
            fail("--workers: one process does the work of all, but this job has more than one rank");
        if (exchange->workers > 1) options.workers = exchange->workers;
    }
    if (options.workers == 0) options.workers = 1;
    if (options.workers > options.batch)
        fail("there are more workers than words in a batch (--batch): each worker needs one");
    if (options.params == NULL && options.number >= 0) fail("--number is a worker's of a service (--params)");
    if (options.number >= options.workers) fail("--number is below --workers");
}

static void begin(Training* t) {
    Exchange* const exchange = &t->exchange;
    join(exchange);
    t->deep = deep_create((options.batch + options.workers - 1) / options.workers);
    t->size = deep_size(t->deep);
    t->weights = allocate(t->size, sizeof *t->weights);
    t->gradients = exchange_allocate(exchange, t->size);
    t->sum = allocate(t->size, sizeof *t->sum);
    deep_initialise(t->deep, t->weights, options.seed);
    if (options.params != NULL)
        exchange_with_service(exchange, t->deep, t->gradients, t->weights, options.params, options.workers,
                              options.number, options.rate, &options.plan);
    else if (exchange->workers > 1)
        exchange_among_ranks(exchange, t->deep, t->gradients, &options.plan);
    const int alone = exchange->overlap == NULL;
    course_begin(&t->course, options.words, options.max_words, NULL, options.batch,
                 alone ? 0 : first_of_part(exchange->number),
                 alone ? (size_t)options.batch : first_of_part(exchange->number + 1), options.seed);
    times_begin(&t->times, options.steps);
    if (shows(t))
        printf("deep_words: %d layers, %.1f MB of weights, %zu words, batches of %d for %d worker%s\n",
               DEEP_LAYERS, 4e-6 * t->size, t->course.list.count, options.batch, options.workers,
               options.workers == 1 ? "" : "s");
}

static void end(Training* t) {
    exchange_close(&t->exchange);
    exchange_free(&t->exchange, t->gradients);
    exchange_leave(&t->exchange);
    times_end(&t->times);
    course_end(&t->course);
    deep_destroy(t->deep);
    free(t->weights);
    free(t->sum);
}

/* ---- Options ---------------------------------------------------------------------------------- */

static const char usage[] =
    "options: --words FILE --max-words N --steps N --batch N --seed N --rate R\n"
    "         --params HOST:PORT --number N --workers N\n"
    "         --method M --bucket-bytes N --measure STEPS --look-every STEPS\n"
    "         --pulls auto|backward|forward --schedule NAME\n"
    "         --profile FILE --save-profile FILE --report --layers --help\n"
    "         M: optimum, sequential, layers, algorithm1, algorithm2, ibatch, mg_wfbp or buckets\n"
    "         HOCKET_PARAMS_ADDRESS stands for --params";

static int whole_number(const char* text) {
    char* end;
    const long value = strtol(text, &end, 10);
    if (end == text || *end != '\0' || value < 0 || value > 1000000000)
        fail("an option wants a whole number");
    return (int)value;
}

static float fraction(const char* text) {
    char* end;
    const float value = strtof(text, &end);
    if (end == text || *end != '\0' || !(value > 0 && value < 1000)) fail("--rate wants a number above 0");
    return value;
}

/* Reads the whole file; the memory is never freed. */
static const char* read_text(const char* file) {
    enum { ROOM = 1 << 20 };
    char* const text = allocate(ROOM, 1);
    FILE* const stream = fopen(file, "r");
    if (stream == NULL || fread(text, 1, ROOM - 1, stream) == 0 || ferror(stream)) {
        perror(file);
        fail("--profile: the file cannot be read");
    }
    fclose(stream);
    return text;
}

static void take_option(int option, const char* text) {
    switch (option) {
        case 0:
            break; /* a flag */
        case 'w':
            options.words = text;
            break;
        case 'p':
            options.params = text;
            break;
        case 'o':
            options.save_profile = text;
            break;
        case 's':
            options.steps = whole_number(text);
            break;
        case 'b':
            options.batch = whole_number(text);
            break;
        case 'S':
            options.seed = whole_number(text);
            break;
        case 'x':
            options.max_words = whole_number(text);
            break;
        case 'n':
            options.workers = whole_number(text);
            break;
        case 'i':
            options.number = whole_number(text);
            break;
        case 'r':
            options.rate = fraction(text);
            break;
        case 'M':
            options.plan.method = method_named(text);
            break;
        case 'P':
            options.plan.pulls = pulls_named(text);
            break;
        case 'c':
            options.plan.schedule = text;
            break;
        case 'B':
            options.plan.bucket_bytes = whole_number(text);
            break;
        case 'm':
            options.plan.measure = whole_number(text);
            break;
        case 'l':
            options.plan.look_every = whole_number(text);
            break;
        case 'f':
            options.plan.profile = read_text(text);
            break;
        case 'h':
            printf("Trains a model of 14 layers on words.\n    hocket-run -n 4 deep_words OPTIONS\n%s\n",
                   usage);
            exit(0);
        default:
            fail(usage);
    }
}

static void parse_options(int argc, char** argv) {
    static const struct option names[] = {{"report", 0, &options.report, 1},
                                          {"layers", 0, &options.layers, 1},
                                          {"check-gradients", 0, &options.check_gradients, 1},
                                          {"words", 1, 0, 'w'},
                                          {"params", 1, 0, 'p'},
                                          {"save-profile", 1, 0, 'o'},
                                          {"steps", 1, 0, 's'},
                                          {"batch", 1, 0, 'b'},
                                          {"seed", 1, 0, 'S'},
                                          {"max-words", 1, 0, 'x'},
                                          {"workers", 1, 0, 'n'},
                                          {"number", 1, 0, 'i'},
                                          {"rate", 1, 0, 'r'},
                                          {"method", 1, 0, 'M'},
                                          {"pulls", 1, 0, 'P'},
                                          {"schedule", 1, 0, 'c'},
                                          {"bucket-bytes", 1, 0, 'B'},
                                          {"measure", 1, 0, 'm'},
                                          {"look-every", 1, 0, 'l'},
                                          {"profile", 1, 0, 'f'},
                                          {"help", 0, 0, 'h'},
                                          {0, 0, 0, 0}};
    int option;
    options.params = getenv("HOCKET_PARAMS_ADDRESS");
    while ((option = getopt_long(argc, argv, "", names, NULL)) != -1) take_option(option, optarg);
    if (optind < argc) fail(usage);
    if (options.params != NULL && *options.params == '\0') options.params = NULL;
    if (options.steps < 1 || options.batch < 1) fail("--steps and --batch must be positive");
}

int main(int argc, char** argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    parse_options(argc, argv);
    if (options.check_gradients) return check_gradients(options.seed) ? 0 : 1;
    Training training = {0};
    begin(&training);
    const double loss = train(&training);
    const int is_first = training.exchange.number == 0;
    if (is_first && options.save_profile != NULL) save_profile(&training.exchange, options.save_profile);
    if (is_first && options.layers) print_layers(&training.times, training.deep);
    if (is_first && options.report) print_report(&training, loss);
    end(&training);
    if (fflush(stdout) != 0 || ferror(stdout)) fail("not all output could be written");
    return 0;
}
