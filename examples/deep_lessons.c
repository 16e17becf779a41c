#include "examples/deep_lessons.h"

#include <stdlib.h>
#include <string.h>

static void begin_epoch(Course* c) {
    shuffled(c->keys, c->list.count, c->seed + c->epoch);
    c->batches = begin_batches(c->cache, c->keys, c->list.count / c->batch, c->batch, c->first, c->end);
    c->step_of_epoch = 0;
}

void course_begin(Course* c, const char* file, size_t most_words, hkt_comm* comm, size_t batch, size_t first,
                  size_t end, uint64_t seed) {
    *c = (Course){
        .list = find_words(file, most_words), .batch = batch, .first = first, .end = end, .seed = seed};
    if (c->list.count < batch) fail("fewer words than one batch: take a smaller --batch");
    c->cache = open_cache(&c->list, comm);
    c->keys = allocate(c->list.count, sizeof *c->keys);
    c->lessons = allocate(end - first, sizeof *c->lessons);
    begin_epoch(c);
}

/* Makes a lesson from the first `known` letters of the word; the next letter is to be guessed. */
static DeepLesson lesson_of(const Lesson* word, size_t known) {
    DeepLesson lesson = {{0}, word[known].next};
    for (size_t i = 0; i < known && i < DEEP_PLACES; ++i)
        lesson.letters[DEEP_PLACES - 1 - i] = word[known - 1 - i].next;
    return lesson;
}

const DeepLesson* course_next(Course* c) {
    if (c->step_of_epoch == c->list.count / c->batch) {
        end_batches(&c->batches);
        ++c->epoch;
        begin_epoch(c);
    }
    const hkt_sample* const words = next_batch(&c->batches);
    for (size_t i = c->first; i < c->end; ++i) {
        size_t letters; /* including the word's end */
        const Lesson* const word = lessons_in(words + (i - c->first), &letters);
        uint64_t state = c->seed * 0x9e3779b97f4a7c15u ^ (c->step * c->batch + i);
        c->lessons[i - c->first] = lesson_of(word, random_bits(&state) % letters);
    }
    ++c->step;
    ++c->step_of_epoch;
    return c->lessons;
}

void course_end(Course* c) {
    end_batches(&c->batches);
    hkt_cache_close(c->cache);
    free(c->lessons);
    free(c->keys);
    free_words(&c->list);
}
