/* The data of words: a list of words, treated as if on slow storage; each word is a sample. Two functions
 * are for Hocket's cache: one reads a word, one decodes it into the form that the model learns from. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "capi/hocket.h"
#include "examples/words_model.h"

typedef struct {
    int file;
    char dataset[256]; /* identifies the words: file, size, time, number of words */
    size_t count;
    struct Word {
        uint64_t offset;
        uint32_t length;
    } * words; /* their positions in the file */
} WordList;

/* Finds the words of lower-case letters in the file, one per line; most_words 0: all. Fails if there are
 * none. */
WordList find_words(const char* file, size_t most_words);
void free_words(WordList* list);

/* Opens the cache in front of the list: words are read and decoded once, by the rank that owns them.
 * comm's ranks call this together; fails with the cache's message. */
hkt_cache* open_cache(WordList* list, hkt_comm* comm);

/* A word as decoded by the cache's decoder: the next letter after each of its prefixes. */
static inline const Lesson* lessons_in(const hkt_sample* word, size_t* count) {
    *count = word->bytes / sizeof(Lesson);
    return word->data;
}

/* Returns 0 .. count - 1 in random order; the same order for the same seed. */
void shuffled(uint64_t* keys, size_t count, uint64_t seed);

/* A rank's part of each batch of an epoch, one batch after another; the next one is fetched while one is
 * used. */
typedef struct {
    hkt_cache* cache;
    uint64_t* order; /* the rank's keys for all batches */
    size_t part, batches, fetched, given;
    hkt_sample* words[2]; /* of the batches fetched last */
    hkt_request* request;
    double seconds_waiting;
} Batches;

/* keys: of the whole epoch, `batch` keys per batch, the same on all ranks; this rank takes `first` to
 * `end` of each batch. */
Batches begin_batches(hkt_cache* cache, const uint64_t* keys, size_t batches, size_t batch, size_t first,
                      size_t end);
const hkt_sample* next_batch(Batches* batches); /* returns end - first words, valid until the next call */
void end_batches(Batches* batches);
