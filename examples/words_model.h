/* The model that words trains: a small neural network with its gradient. It knows nothing of Hocket. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { LETTERS = 27, CONTEXT = 5, EMBEDDING = 8, INPUTS = CONTEXT * EMBEDDING }; /* letter 0: a word's edge */

typedef struct {
    uint8_t context[CONTEXT], next;
} Lesson; /* the letter that came next after these */

/* Views into one array of model_size() floats, so that one broadcast or all_reduce moves the whole model. */
typedef struct {
    int hidden;
    float* embedding; /* [LETTERS][EMBEDDING] */
    float *w1, *b1;   /* [INPUTS][hidden], [hidden] */
    float *w2, *b2;   /* [LETTERS][hidden], [LETTERS] */
} Model;

/* Ends the program with a message. */
void fail(const char* what);

/* Allocates zeroed memory; fails instead of returning null. */
void* allocate(size_t count, size_t size);

uint64_t random_bits(uint64_t* state);

size_t model_size(int hidden);
Model model_in(float* memory, int hidden);
void initialise(Model m, uint64_t seed);

/* Returns the lesson's loss: -log of the model's probability for the actual next letter. */
float loss_of(Model m, const Lesson* lesson);

/* Does the same, and adds its gradient to g. */
float learn(Model m, Model g, const Lesson* lesson);

/* Adds scale * from to `to`. */
void add_scaled(float* restrict to, float scale, const float* restrict from, size_t count);

/* Writes a word of at most room - 1 letters, as the model would spell it. */
void invent_word(Model m, uint64_t* random_state, char* word, size_t room);
