/* The model that deep_words trains: 14 layers that read the last letters of a word and guess the next one.
 * An embedding; causal convolutions over the letters, some of which halve the number of places; dense layers.
 * As in networks for images, the first layers have few weights that work at each place, and the last ones
 * many that work once. It knows nothing of Hocket.
 *
 * All weights are in one array of floats, layer after layer, in each the weights and then the biases (the
 * embedding has none). Gradients are in another one, laid out alike. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { DEEP_PLACES = 16, DEEP_LETTERS = 27, DEEP_LAYERS = 14 };

typedef struct {
    uint8_t letters[DEEP_PLACES]; /* the last one is the latest; 0: before the word's beginning */
    uint8_t next;                 /* 0: the word's end */
} DeepLesson;

typedef enum { DEEP_EMBEDDING, DEEP_CONVOLUTION, DEEP_DENSE } DeepKind;

typedef struct {
    const char* name;
    DeepKind kind;
    int places, width;      /* of its output: places, and channels per place */
    int stride;             /* of a convolution: input places per output place */
    size_t inputs;          /* of each output: the rows of the matrix of weights */
    size_t first;           /* where its weights begin in the array */
    size_t weights, biases; /* how many there are; biases follow the weights */
} DeepLayer;

typedef struct Deep Deep;

/* Allocates memory to compute up to `lessons` lessons. Fails instead of returning null. */
Deep* deep_create(size_t lessons);
void deep_destroy(Deep* deep);

const DeepLayer* deep_layer(const Deep* deep, int layer);
size_t deep_size(const Deep* deep);                  /* weights and biases of all layers */
double deep_operations(const Deep* deep, int layer); /* multiplications and additions of a lesson, forward */

/* Makes the same weights for the same seed. */
void deep_initialise(const Deep* deep, float* weights, uint64_t seed);

/* A pass: pass the lessons (which must stay valid), then run layers forward from 0 on, take the loss, and
 * run layers backward from the last to 0. deep_backward writes the layer's gradients of the mean loss, and
 * does not need the layer's weights after it returns. */
void deep_begin(Deep* deep, const DeepLesson* lessons, size_t count);
void deep_forward(Deep* deep, const float* weights, int layer);
double deep_loss(Deep* deep); /* returns the mean of -log of the probability of the actual next letter */
void deep_backward(Deep* deep, const float* weights, float* gradients, int layer);
