#define _POSIX_C_SOURCE 200809L
#include "examples/words_data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

WordList find_words(const char* file, size_t most_words) {
    FILE* stream = fopen(file, "r");
    if (stream == NULL) {
        perror(file);
        fail("no word list: install Debian's wamerican, or name a file with --words");
    }
    WordList list = {dup(fileno(stream)), "", 0, NULL};
    size_t room = 0;
    uint64_t offset = 0;
    char line[256];
    while ((most_words == 0 || list.count < most_words) && fgets(line, sizeof line, stream)) {
        const size_t length = strcspn(line, "\n");
        if (length > 0 && strspn(line, "abcdefghijklmnopqrstuvwxyz") == length) {
            if (list.count == room) {
                room = 2 * room + 1024;
                list.words = realloc(list.words, room * sizeof *list.words);
                if (list.words == NULL) fail("out of memory");
            }
            list.words[list.count++] = (struct Word){offset, (uint32_t)length};
        }
        offset += strlen(line);
    }
    struct stat status;
    if (list.file < 0 || fstat(list.file, &status) != 0) fail("the word list cannot be read");
    fclose(stream);
    if (list.count == 0) fail("the word list has no words of lower-case letters");
    snprintf(list.dataset, sizeof list.dataset, "%.180s %lld %lld %zu", file, (long long)status.st_size,
             (long long)status.st_mtime, list.count);
    return list;
}

void free_words(WordList* list) {
    close(list->file);
    free(list->words);
}

/* ---- Functions that the cache calls ----------------------------------------------------------- */

static hkt_status read_word(void* context, uint64_t key, hkt_cache_value* sample) {
    const WordList* list = context;
    if (key >= list->count) return HKT_ERROR_NOT_FOUND;
    const struct Word word = list->words[key];
    void* letters = hkt_cache_value_reserve(sample, word.length);
    if (letters == NULL) return HKT_ERROR_LIMIT;
    return pread(list->file, letters, word.length, word.offset) == word.length ? HKT_SUCCESS : HKT_ERROR_IO;
}

static hkt_status decode_word(void* unused, uint64_t key, const void* letters, size_t length,
                              hkt_cache_value* sample) {
    (void)unused, (void)key;
    Lesson* lessons = hkt_cache_value_reserve(sample, (length + 1) * sizeof *lessons);
    if (lessons == NULL) return HKT_ERROR_LIMIT;
    Lesson lesson = {{0}, 0};
    for (size_t i = 0; i <= length; ++i) { /* letter 0 follows the last one: the word's edge */
        lesson.next = i < length ? ((const char*)letters)[i] - 'a' + 1 : 0;
        lessons[i] = lesson;
        memmove(lesson.context, lesson.context + 1, CONTEXT - 1);
        lesson.context[CONTEXT - 1] = lesson.next;
    }
    return HKT_SUCCESS;
}

/* ---- Functions that training calls ------------------------------------------------------------ */

static void check(hkt_status status) {
    if (status != HKT_SUCCESS) fail(hkt_last_error());
}

hkt_cache* open_cache(WordList* list, hkt_comm* comm) {
    hkt_cache_options how = HKT_CACHE_OPTIONS_INIT;
    how.read = read_word;
    how.read_context = list;
    how.dataset = list->dataset;
    how.decode = decode_word;
    how.decoder = "lessons of 5 letters and the next";
    how.comm = comm;
    hkt_cache* cache;
    check(hkt_cache_open(&how, &cache));
    return cache;
}

void shuffled(uint64_t* keys, size_t count, uint64_t seed) {
    for (size_t i = 0; i < count; ++i) keys[i] = i;
    for (size_t i = count - 1; i > 0; --i) {
        const size_t j = random_bits(&seed) % (i + 1);
        const uint64_t swap = keys[i];
        keys[i] = keys[j];
        keys[j] = swap;
    }
}

static void fetch(Batches* b) {
    if (b->fetched == b->batches) return;
    check(hkt_cache_get_batch(b->cache, b->order + b->fetched * b->part, b->part, b->words[b->fetched % 2],
                              &b->request));
    ++b->fetched;
}

Batches begin_batches(hkt_cache* cache, const uint64_t* keys, size_t batches, size_t batch, size_t first,
                      size_t end) {
    const size_t part = end - first;
    Batches b = {.cache = cache, .part = part, .batches = batches};
    b.order = allocate(batches * part + 1, sizeof *b.order);
    for (int i = 0; i < 2; ++i) b.words[i] = allocate(part + 1, sizeof **b.words);
    for (size_t i = 0; i < batches; ++i)
        memcpy(b.order + i * part, keys + i * batch + first, part * sizeof *keys);
    check(hkt_cache_set_order(cache, b.order, batches * part, 0));
    fetch(&b);
    return b;
}

const hkt_sample* next_batch(Batches* b) {
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    check(hkt_wait(b->request));
    b->request = NULL;
    clock_gettime(CLOCK_MONOTONIC, &end);
    b->seconds_waiting += end.tv_sec - start.tv_sec + 1e-9 * (end.tv_nsec - start.tv_nsec);
    if (b->given > 0) hkt_cache_release(b->cache, b->words[(b->given - 1) % 2], b->part);
    fetch(b);
    return b->words[b->given++ % 2];
}

void end_batches(Batches* b) {
    if (b->request != NULL) { /* training has ended in the middle of the epoch */
        check(hkt_wait(b->request));
        hkt_cache_release(b->cache, b->words[b->given % 2], b->part);
    }
    if (b->given > 0) hkt_cache_release(b->cache, b->words[(b->given - 1) % 2], b->part);
    for (int i = 0; i < 2; ++i) free(b->words[i]);
    free(b->order);
}
