#define _GNU_SOURCE /* program_invocation_short_name */
#include "examples/words_model.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void fail(const char* what) {
    fprintf(stderr, "%s: %s\n", program_invocation_short_name, what);
    exit(1);
}

void* allocate(size_t count, size_t size) {
    void* memory = calloc(count, size);
    if (memory == NULL) fail("out of memory");
    return memory;
}

uint64_t random_bits(uint64_t* state) { /* splitmix64 */
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static float random_unit(uint64_t* state) {
    return (float)(random_bits(state) >> 40) / (1 << 24);
}

size_t model_size(int hidden) {
    return LETTERS * EMBEDDING + INPUTS * hidden + hidden + LETTERS * hidden + LETTERS;
}

Model model_in(float* memory, int hidden) {
    Model m;
    m.hidden = hidden;
    m.embedding = memory;
    m.w1 = m.embedding + LETTERS * EMBEDDING;
    m.b1 = m.w1 + INPUTS * hidden;
    m.w2 = m.b1 + hidden;
    m.b2 = m.w2 + LETTERS * hidden;
    return m;
}

static void fill_random(float* values, size_t count, float scale, uint64_t* state) {
    for (size_t i = 0; i < count; ++i) values[i] = scale * (2 * random_unit(state) - 1);
}

void initialise(Model m, uint64_t seed) {
    fill_random(m.embedding, LETTERS * EMBEDDING, 1.0f, &seed);
    fill_random(m.w1, INPUTS * m.hidden, sqrtf(3.0f / INPUTS), &seed);
    fill_random(m.w2, LETTERS * m.hidden, sqrtf(1.0f / m.hidden), &seed);
}

/* Eight running sums: a compiler may not reorder a float sum, but it can vectorise these. */
static float dot(const float* a, const float* b, int count) {
    float lanes[8] = {0}, rest = 0;
    int i = 0;
    for (; i + 8 <= count; i += 8)
        for (int k = 0; k < 8; ++k) lanes[k] += a[i + k] * b[i + k];
    for (; i < count; ++i) rest += a[i] * b[i];
    for (int k = 0; k < 8; ++k) rest += lanes[k];
    return rest;
}

void add_scaled(float* restrict to, float scale, const float* restrict from, size_t count) {
    for (size_t i = 0; i < count; ++i) to[i] += scale * from[i];
}

/* Computes the inputs, the hidden layer and the probabilities of the next letter. */
static void forward(Model m, const uint8_t* context, float* x, float* h, float* p) {
    const int hidden = m.hidden;
    for (int c = 0; c < CONTEXT; ++c)
        memcpy(x + c * EMBEDDING, m.embedding + context[c] * EMBEDDING, EMBEDDING * sizeof *x);
    memcpy(h, m.b1, hidden * sizeof *h);
    for (int i = 0; i < INPUTS; ++i) add_scaled(h, x[i], m.w1 + i * hidden, hidden);
    for (int j = 0; j < hidden; ++j) h[j] = tanhf(h[j]);
    float highest = -INFINITY, total = 0;
    for (int k = 0; k < LETTERS; ++k) {
        p[k] = m.b2[k] + dot(m.w2 + k * hidden, h, hidden);
        if (p[k] > highest) highest = p[k];
    }
    for (int k = 0; k < LETTERS; ++k) total += p[k] = expf(p[k] - highest);
    for (int k = 0; k < LETTERS; ++k) p[k] /= total;
}

float loss_of(Model m, const Lesson* lesson) {
    float x[INPUTS], h[m.hidden], p[LETTERS];
    forward(m, lesson->context, x, h, p);
    return -logf(p[lesson->next] + 1e-30f);
}

float learn(Model m, Model g, const Lesson* lesson) {
    const int hidden = m.hidden;
    float x[INPUTS], p[LETTERS], h[hidden], dh[hidden];
    forward(m, lesson->context, x, h, p);
    const float loss = -logf(p[lesson->next] + 1e-30f);
    memset(dh, 0, sizeof dh);
    p[lesson->next] -= 1; /* now the gradient of the softmax's input */
    for (int k = 0; k < LETTERS; ++k) {
        add_scaled(dh, p[k], m.w2 + k * hidden, hidden);
        add_scaled(g.w2 + k * hidden, p[k], h, hidden);
        g.b2[k] += p[k];
    }
    for (int j = 0; j < hidden; ++j) dh[j] *= 1 - h[j] * h[j];
    add_scaled(g.b1, 1, dh, hidden);
    for (int i = 0; i < INPUTS; ++i) {
        add_scaled(g.w1 + i * hidden, x[i], dh, hidden);
        g.embedding[lesson->context[i / EMBEDDING] * EMBEDDING + i % EMBEDDING] +=
            dot(m.w1 + i * hidden, dh, hidden);
    }
    return loss;
}

void invent_word(Model m, uint64_t* random_state, char* word, size_t room) {
    float x[INPUTS], h[m.hidden], p[LETTERS];
    uint8_t context[CONTEXT] = {0};
    size_t length = 0;
    while (length + 1 < room) {
        forward(m, context, x, h, p);
        float draw = random_unit(random_state);
        int letter = 0;
        while (letter < LETTERS - 1 && (draw -= p[letter]) > 0) ++letter;
        if (letter == 0) break;
        word[length++] = 'a' + letter - 1;
        memmove(context, context + 1, CONTEXT - 1);
        context[CONTEXT - 1] = letter;
    }
    word[length] = '\0';
}
