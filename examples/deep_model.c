#include "examples/deep_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "examples/deep_matrix.h"
#include "examples/words_model.h"

enum {
    TAPS = 3, /* the places of its input that a convolution reads */
    LAST = DEEP_LAYERS - 1,
    FLOOR = -1 /* smaller values are raised to it; with 0 their mean would be far from 0, and learning slow */
};

struct Deep {
    DeepLayer layers[DEEP_LAYERS];
    size_t size, count;
    const DeepLesson* lessons;
    float* values[DEEP_LAYERS];  /* outputs, by lesson and then by place */
    float* columns[DEEP_LAYERS]; /* of convolutions: the inputs that each place depends on */
    float* slopes[2];            /* gradients of the loss by the outputs of even and of odd layers */
    float* column_slopes;
};

/* ---- Layers ----------------------------------------------------------------------------------- */

static const struct {
    const char* name;
    DeepKind kind;
    int width, stride;
} shapes[DEEP_LAYERS] = {{"embedding", DEEP_EMBEDDING, 64, 1}, {"conv1", DEEP_CONVOLUTION, 128, 1},
                         {"conv2", DEEP_CONVOLUTION, 128, 1},  {"conv3", DEEP_CONVOLUTION, 128, 1},
                         {"conv4", DEEP_CONVOLUTION, 128, 1},  {"conv5", DEEP_CONVOLUTION, 160, 2},
                         {"conv6", DEEP_CONVOLUTION, 160, 1},  {"conv7", DEEP_CONVOLUTION, 160, 1},
                         {"conv8", DEEP_CONVOLUTION, 192, 2},  {"conv9", DEEP_CONVOLUTION, 192, 1},
                         {"conv10", DEEP_CONVOLUTION, 256, 2}, {"dense1", DEEP_DENSE, 1024, 1},
                         {"dense2", DEEP_DENSE, 768, 1},       {"output", DEEP_DENSE, DEEP_LETTERS, 1}};

static size_t outputs(const DeepLayer* layer) {
    return (size_t)layer->places * layer->width;
}

static size_t add_layer(DeepLayer* layer, int index, size_t first) {
    const DeepLayer* const before = layer - 1; /* not used for the embedding, which is the first layer */
    *layer = (DeepLayer){.name = shapes[index].name,
                         .kind = shapes[index].kind,
                         .places = DEEP_PLACES,
                         .width = shapes[index].width,
                         .stride = shapes[index].stride,
                         .inputs = DEEP_LETTERS,
                         .first = first};
    if (layer->kind == DEEP_CONVOLUTION) {
        layer->places = before->places / layer->stride;
        layer->inputs = (size_t)TAPS * before->width;
    } else if (layer->kind == DEEP_DENSE) {
        layer->places = 1;
        layer->inputs = outputs(before);
    }
    layer->weights = layer->inputs * layer->width;
    layer->biases = layer->kind == DEEP_EMBEDDING ? 0 : layer->width;
    return first + layer->weights + layer->biases;
}

Deep* deep_create(size_t lessons) {
    Deep* const deep = allocate(1, sizeof *deep);
    size_t widest = 0, most_columns = 0;
    for (int i = 0; i < DEEP_LAYERS; ++i) {
        DeepLayer* const layer = deep->layers + i;
        deep->size = add_layer(layer, i, deep->size);
        deep->values[i] = allocate(lessons * outputs(layer), sizeof(float));
        if (outputs(layer) > widest) widest = outputs(layer);
        if (layer->kind != DEEP_CONVOLUTION) continue;
        const size_t columns = layer->places * layer->inputs;
        deep->columns[i] = allocate(lessons * columns, sizeof(float));
        if (columns > most_columns) most_columns = columns;
    }
    for (int i = 0; i < 2; ++i) deep->slopes[i] = allocate(lessons * widest, sizeof(float));
    deep->column_slopes = allocate(lessons * most_columns, sizeof(float));
    return deep;
}

void deep_destroy(Deep* deep) {
    for (int i = 0; i < DEEP_LAYERS; ++i) {
        free(deep->values[i]);
        free(deep->columns[i]);
    }
    for (int i = 0; i < 2; ++i) free(deep->slopes[i]);
    free(deep->column_slopes);
    free(deep);
}

const DeepLayer* deep_layer(const Deep* deep, int layer) {
    return deep->layers + layer;
}

size_t deep_size(const Deep* deep) {
    return deep->size;
}

double deep_operations(const Deep* deep, int layer) {
    const DeepLayer* const l = deep->layers + layer;
    return l->kind == DEEP_EMBEDDING ? 0 : 2.0 * l->places * l->weights;
}

/* A convolution that keeps the shape adds its input to its output. Then the first layers learn as early as
 * the last ones. */
static int adds_input(const Deep* deep, int layer) {
    const DeepLayer* const l = deep->layers + layer;
    return l->kind == DEEP_CONVOLUTION && l->stride == 1 && l->width == l[-1].width;
}

static float random_normal(uint64_t* state) {
    float sum = 0; /* of 12 uniform numbers: nearly normal, and the same on every machine */
    for (int i = 0; i < 12; ++i) sum += (float)(random_bits(state) >> 40) / (1 << 24);
    return sum - 6;
}

void deep_initialise(const Deep* deep, float* weights, uint64_t seed) {
    for (int i = 0; i < DEEP_LAYERS; ++i) {
        const DeepLayer* const layer = deep->layers + i;
        float scale = sqrtf(1.0f / layer->inputs); /* keeps the size of values from layer to layer */
        if (i == 0) scale = 0.5f;
        /* The input is added to it; and the first guesses should be careful. */
        if (adds_input(deep, i) || i == LAST) scale /= 2;
        for (size_t k = 0; k < layer->weights; ++k) weights[layer->first + k] = scale * random_normal(&seed);
        memset(weights + layer->first + layer->weights, 0, layer->biases * sizeof *weights);
    }
    /* Letter 0 (no letter) contributes nothing, so the letters that are there count more. */
    memset(weights, 0, deep->layers->width * sizeof *weights);
}

/* ---- Forward ---------------------------------------------------------------------------------- */

void deep_begin(Deep* deep, const DeepLesson* lessons, size_t count) {
    deep->lessons = lessons;
    deep->count = count;
}

static void embed(Deep* deep, const float* weights) {
    const DeepLayer* const layer = deep->layers;
    float* to = deep->values[0];
    for (size_t n = 0; n < deep->count; ++n)
        for (int place = 0; place < layer->places; ++place, to += layer->width)
            memcpy(to, weights + deep->lessons[n].letters[place] * layer->width, layer->width * sizeof *to);
}

/* Returns the first place of the input that an output's place depends on; negative ones are zeros. The
 * last one is the last of those that the stride joins, so no letter is seen before its time. */
static int first_tap(const DeepLayer* layer, int place) {
    return layer->stride * (place + 1) - TAPS;
}

static void gather_columns(const DeepLayer* layer, size_t count, const float* input, float* columns) {
    const DeepLayer* const before = layer - 1;
    for (size_t n = 0; n < count; ++n, input += outputs(before))
        for (int place = 0; place < layer->places; ++place, columns += layer->inputs) {
            const int first = first_tap(layer, place), missing = first < 0 ? -first : 0;
            const size_t zeros = (size_t)missing * before->width;
            memset(columns, 0, zeros * sizeof *columns);
            memcpy(columns + zeros, input + (size_t)(first + missing) * before->width,
                   (layer->inputs - zeros) * sizeof *columns);
        }
}

/* Adds each place's column gradients to the gradients of the input. */
static void scatter_columns(const DeepLayer* layer, size_t count, const float* columns, float* input) {
    const DeepLayer* const before = layer - 1;
    for (size_t n = 0; n < count; ++n, input += outputs(before))
        for (int place = 0; place < layer->places; ++place, columns += layer->inputs) {
            const int first = first_tap(layer, place), missing = first < 0 ? -first : 0;
            const size_t zeros = (size_t)missing * before->width;
            add_scaled(input + (size_t)(first + missing) * before->width, 1, columns + zeros,
                       layer->inputs - zeros);
        }
}

static void add_and_cut(float* restrict values, const float* restrict biases, const float* restrict input,
                        size_t rows, size_t width) {
    for (size_t r = 0; r < rows; ++r, values += width) {
        for (size_t i = 0; i < width; ++i) values[i] += biases[i];
        if (input != NULL)
            for (size_t i = 0; i < width; ++i) values[i] += input[r * width + i];
        for (size_t i = 0; i < width; ++i) values[i] = values[i] > FLOOR ? values[i] : FLOOR;
    }
}

/* Returns the matrix that the layer's weights are multiplied with. */
static const float* rows_of_inputs(const Deep* deep, int layer) {
    return deep->layers[layer].kind == DEEP_CONVOLUTION ? deep->columns[layer] : deep->values[layer - 1];
}

void deep_forward(Deep* deep, const float* weights, int index) {
    const DeepLayer* const layer = deep->layers + index;
    weights += layer->first;
    if (index == 0) {
        embed(deep, weights);
        return;
    }
    const float* const input = deep->values[index - 1];
    float* const values = deep->values[index];
    const size_t rows = deep->count * layer->places, width = layer->width;
    if (layer->kind == DEEP_CONVOLUTION) gather_columns(layer, deep->count, input, deep->columns[index]);
    multiply(rows, width, layer->inputs, matrix(rows_of_inputs(deep, index), layer->inputs),
             matrix(weights, width), values);
    const float* const biases = weights + layer->weights;
    if (index == LAST)
        for (size_t r = 0; r < rows; ++r) add_scaled(values + r * width, 1, biases, width);
    else
        add_and_cut(values, biases, adds_input(deep, index) ? input : NULL, rows, width);
}

/* ---- Backward --------------------------------------------------------------------------------- */

double deep_loss(Deep* deep) {
    const float* value = deep->values[LAST];
    float* slope = deep->slopes[LAST % 2];
    double loss = 0;
    for (size_t n = 0; n < deep->count; ++n, value += DEEP_LETTERS, slope += DEEP_LETTERS) {
        const int next = deep->lessons[n].next;
        double highest = value[0], sum = 0;
        for (int i = 1; i < DEEP_LETTERS; ++i)
            if (value[i] > highest) highest = value[i];
        for (int i = 0; i < DEEP_LETTERS; ++i) sum += exp(value[i] - highest);
        for (int i = 0; i < DEEP_LETTERS; ++i)
            slope[i] = (float)((exp(value[i] - highest) / sum - (i == next)) / deep->count);
        loss += log(sum) + highest - value[next];
    }
    return loss / deep->count;
}

static void learn_embedding(const Deep* deep, float* gradients) {
    const DeepLayer* const layer = deep->layers;
    const float* slope = deep->slopes[0];
    memset(gradients, 0, layer->weights * sizeof *gradients);
    for (size_t n = 0; n < deep->count; ++n)
        for (int place = 0; place < layer->places; ++place, slope += layer->width)
            add_scaled(gradients + deep->lessons[n].letters[place] * layer->width, 1, slope, layer->width);
}

static void backward_through_inputs(Deep* deep, const float* weights, int index) {
    const DeepLayer* const layer = deep->layers + index;
    const size_t rows = deep->count * layer->places, inputs = deep->count * outputs(layer - 1);
    const float* const slopes = deep->slopes[index % 2];
    float* const before = deep->slopes[(index + 1) % 2];
    const int convolves = layer->kind == DEEP_CONVOLUTION;
    multiply(rows, layer->inputs, layer->width, matrix(slopes, layer->width),
             transposed(weights, layer->width), convolves ? deep->column_slopes : before);
    if (!convolves) return;
    if (adds_input(deep, index))
        memcpy(before, slopes, inputs * sizeof *before);
    else
        memset(before, 0, inputs * sizeof *before);
    scatter_columns(layer, deep->count, deep->column_slopes, before);
}

void deep_backward(Deep* deep, const float* weights, float* gradients, int index) {
    const DeepLayer* const layer = deep->layers + index;
    weights += layer->first;
    gradients += layer->first;
    if (index == 0) {
        learn_embedding(deep, gradients);
        return;
    }
    float* const slopes = deep->slopes[index % 2];
    const float* const values = deep->values[index];
    const size_t rows = deep->count * layer->places, width = layer->width;
    if (index != LAST)
        for (size_t i = 0; i < rows * width; ++i) slopes[i] = values[i] > FLOOR ? slopes[i] : 0;
    multiply(layer->inputs, width, rows, transposed(rows_of_inputs(deep, index), layer->inputs),
             matrix(slopes, width), gradients);
    float* const biases = gradients + layer->weights;
    memset(biases, 0, width * sizeof *biases);
    for (size_t r = 0; r < rows; ++r) add_scaled(biases, 1, slopes + r * width, width);
    backward_through_inputs(deep, weights, index);
}
