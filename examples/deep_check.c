#include "examples/deep_check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "examples/deep_model.h"
#include "examples/words_model.h"

static double loss_with(Deep* deep, const float* weights) {
    for (int i = 0; i < DEEP_LAYERS; ++i) deep_forward(deep, weights, i);
    return deep_loss(deep);
}

static void move(float* restrict weights, const float* restrict from, const float* restrict direction,
                 size_t count, double distance) {
    for (size_t i = 0; i < count; ++i) weights[i] = (float)(from[i] + distance * direction[i]);
}

/* Floats are too coarse to show the effect of one of many weights, but not that of many together: a random
 * half of the tensor's weights is moved a little along its gradient, in both directions. */
static double error_along_gradient(Deep* deep, float* weights, size_t first, const float* gradients,
                                   size_t count, uint64_t* state) {
    const double change = 0.001; /* of the loss: much more than rounding, and small compared with curvature */
    float* const direction = allocate(2 * count, sizeof *direction);
    float *const from = direction + count, *const to = weights + first;
    double slope = 0;
    for (size_t i = 0; i < count; ++i) {
        direction[i] = random_bits(state) >> 63 ? gradients[i] : 0;
        slope += (double)direction[i] * direction[i];
    }
    memcpy(from, to, count * sizeof *to);
    const double distance = change / slope;
    move(to, from, direction, count, distance / 2);
    const double above = loss_with(deep, weights);
    move(to, from, direction, count, -distance / 2);
    const double below = loss_with(deep, weights);
    memcpy(to, from, count * sizeof *to);
    free(direction);
    return slope > 0 ? fabs((above - below) / change - 1) : INFINITY;
}

/* Returns the largest error of all tensors. */
static double largest_error(Deep* deep, float* weights, uint64_t* state) {
    float* const gradients = allocate(deep_size(deep), sizeof *gradients);
    double largest = 0;
    loss_with(deep, weights);
    for (int i = DEEP_LAYERS - 1; i >= 0; --i) deep_backward(deep, weights, gradients, i);
    for (int i = 0; i < DEEP_LAYERS; ++i) {
        const DeepLayer* const layer = deep_layer(deep, i);
        for (int biases = 0; biases <= (layer->biases > 0); ++biases) {
            const size_t first = layer->first + (biases ? layer->weights : 0);
            const double error = error_along_gradient(deep, weights, first, gradients + first,
                                                      biases ? layer->biases : layer->weights, state);
            printf("%-10s %-8s differ by %.5f of the slope\n", layer->name, biases ? "biases" : "weights",
                   error);
            if (!(error <= largest)) largest = error; /* NaN is an error, too */
        }
    }
    free(gradients);
    return largest;
}

int check_gradients(uint64_t seed) {
    enum { LESSONS = 16 };
    const double most = 0.03; /* values that reach their floor between two losses make about 0.005 */
    DeepLesson lessons[LESSONS];
    for (int n = 0; n < LESSONS; ++n) { /* random letters: the contents do not matter */
        for (int i = 0; i < DEEP_PLACES; ++i) lessons[n].letters[i] = random_bits(&seed) % DEEP_LETTERS;
        lessons[n].next = random_bits(&seed) % DEEP_LETTERS;
    }
    Deep* const deep = deep_create(LESSONS);
    float* const weights = allocate(deep_size(deep), sizeof *weights);
    deep_initialise(deep, weights, seed);
    deep_begin(deep, lessons, LESSONS);
    const double error = largest_error(deep, weights, &seed);
    free(weights);
    deep_destroy(deep);
    printf("largest difference %.4f: %s\n", error, error < most ? "gradients are right" : "WRONG");
    return error < most;
}
