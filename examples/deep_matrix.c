#include "examples/deep_matrix.h"

#include <string.h>

/* A tile of the result stays in registers during the loop over the depth: 12 vectors of 8 floats, of
 * AVX2's 16. Blocks of both matrices are copied into panels in the order in which tiles read them. A panel
 * of b (16 KiB) stays in the first-level cache, a block of a (96 KiB) in the second-level one. */
enum { TILE_ROWS = 6, TILE_COLUMNS = 16, BLOCK_ROWS = 96, BLOCK_COLUMNS = 512, BLOCK_DEPTH = 256 };

static _Alignas(64) float panels_of_a[BLOCK_ROWS * BLOCK_DEPTH], panels_of_b[BLOCK_COLUMNS * BLOCK_DEPTH];

/* Columns of a tile: two vectors' worth. Uses GCC's vectors, because GCC does not reliably keep an array
 * of floats in registers. */
#define DEFINE_TILE(name, floats, attribute)                                                     \
    typedef float name##_vector __attribute__((vector_size(4 * floats), aligned(4), may_alias)); \
    attribute static void name(size_t depth, const float* a, const float* b, float* tile) {      \
        name##_vector sums[TILE_ROWS][2] = {{{0}}};                                              \
        for (size_t k = 0; k < depth; ++k, a += TILE_ROWS, b += TILE_COLUMNS) {                  \
            const name##_vector left = *(const name##_vector*)b,                                 \
                                right = *(const name##_vector*)(b + floats);                     \
            _Pragma("GCC unroll 6") for (int i = 0; i < TILE_ROWS; ++i) {                        \
                sums[i][0] += a[i] * left;                                                       \
                sums[i][1] += a[i] * right;                                                      \
            }                                                                                    \
        }                                                                                        \
        for (int i = 0; i < TILE_ROWS; ++i, tile += TILE_COLUMNS) {                              \
            *(name##_vector*)tile = sums[i][0];                                                  \
            *(name##_vector*)(tile + floats) = sums[i][1];                                       \
        }                                                                                        \
    }

DEFINE_TILE(half_tile, 4, )

static void tile_of_halves(size_t depth, const float* a, const float* b, float* tile) {
    half_tile(depth, a, b, tile);
    half_tile(depth, a, b + TILE_COLUMNS / 2, tile + TILE_COLUMNS / 2);
}

typedef void (*Tile)(size_t depth, const float* a, const float* b, float* tile);

#ifdef __x86_64__
DEFINE_TILE(avx2_tile, 8, __attribute__((target("avx2,fma"))))

static Tile choose_tile(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? avx2_tile : tile_of_halves;
}
#else
static Tile choose_tile(void) {
    return tile_of_halves;
}
#endif

static size_t at_most(size_t count, size_t most) {
    return count < most ? count : most;
}

/* Copies panels of `width` rows each (for b: columns), one step of the depth after another. Elements
 * beyond the matrix are 0. */
static void copy_panels(const float* from, size_t rows, size_t depth, size_t row, size_t step, size_t width,
                        float* to) {
    for (size_t first = 0; first < rows; first += width, from += width * row) {
        const size_t count = at_most(rows - first, width);
        if (count < width) memset(to, 0, width * depth * sizeof *to);
        if (row == 1)
            for (size_t k = 0; k < depth; ++k) memcpy(to + k * width, from + k * step, count * sizeof *to);
        else
            for (size_t i = 0; i < count; ++i)
                for (size_t k = 0; k < depth; ++k) to[k * width + i] = from[i * row + k * step];
        to += width * depth;
    }
}

static void put_tile(const float* tile, size_t rows, size_t columns, float* c, size_t row, int first) {
    for (size_t i = 0; i < rows; ++i, tile += TILE_COLUMNS, c += row)
        if (first)
            memcpy(c, tile, columns * sizeof *c);
        else
            for (size_t j = 0; j < columns; ++j) c[j] += tile[j];
}

static void multiply_block(size_t rows, size_t columns, size_t depth, float* c, size_t row, int first,
                           Tile tile) {
    float sums[TILE_ROWS * TILE_COLUMNS];
    for (size_t j = 0; j < columns; j += TILE_COLUMNS)
        for (size_t i = 0; i < rows; i += TILE_ROWS) {
            tile(depth, panels_of_a + i * depth, panels_of_b + j * depth, sums);
            put_tile(sums, at_most(rows - i, TILE_ROWS), at_most(columns - j, TILE_COLUMNS), c + i * row + j,
                     row, first);
        }
}

void multiply(size_t rows, size_t columns, size_t depth, Matrix a, Matrix b, float* c) {
    const Tile tile = choose_tile();
    for (size_t k = 0; k < depth; k += BLOCK_DEPTH) {
        const size_t steps = at_most(depth - k, BLOCK_DEPTH);
        for (size_t j = 0; j < columns; j += BLOCK_COLUMNS) {
            const size_t wide = at_most(columns - j, BLOCK_COLUMNS);
            copy_panels(b.at + k * b.row + j * b.column, wide, steps, b.column, b.row, TILE_COLUMNS,
                        panels_of_b);
            for (size_t i = 0; i < rows; i += BLOCK_ROWS) {
                const size_t high = at_most(rows - i, BLOCK_ROWS);
                copy_panels(a.at + i * a.row + k * a.column, high, steps, a.row, a.column, TILE_ROWS,
                            panels_of_a);
                multiply_block(high, wide, steps, c + i * columns + j, columns, k == 0, tile);
            }
        }
    }
}
