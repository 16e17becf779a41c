/* The lessons of deep_words: the words of words_data.h, one letter of each word of a batch at a time. */
#pragma once

#include "examples/deep_model.h"
#include "examples/words_data.h"

typedef struct {
    WordList list;
    hkt_cache* cache;
    uint64_t *keys, seed;
    size_t batch, first, end; /* words of a batch; the range of them that this process learns from */
    size_t epoch, step, step_of_epoch;
    Batches batches;
    DeepLesson* lessons;
} Course;

/* file, most_words: as for find_words. comm's ranks call this together; null: this process reads alone.
 * Fails with a message. The lessons of a batch depend only on the seed and the number of the step, no
 * matter how many processes share them. */
void course_begin(Course* course, const char* file, size_t most_words, hkt_comm* comm, size_t batch,
                  size_t first, size_t end, uint64_t seed);

/* Returns a lesson of each word from `first` to `end` of the next batch; valid until the next call. */
const DeepLesson* course_next(Course* course);
void course_end(Course* course);
