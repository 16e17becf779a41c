/* Matrix products for deep_model.c, on one thread. */
#pragma once

#include <stddef.h>

/* Element (r, c) is at[r * row + c * column]: for a transposed matrix the two numbers are exchanged. */
typedef struct {
    const float* at;
    size_t row, column;
} Matrix;

static inline Matrix matrix(const float* at, size_t columns) {
    return (Matrix){at, columns, 1};
}

static inline Matrix transposed(const float* at, size_t columns) {
    return (Matrix){at, 1, columns};
}

/* Computes c = a b; a is rows x depth, b is depth x columns, and c's rows follow each other in memory. The
 * order of all additions depends only on the sizes, so the bits are the same from run to run on one kind
 * of processor; others may lack an instruction that multiplies and adds with one rounding. One call at a
 * time. */
void multiply(size_t rows, size_t columns, size_t depth, Matrix a, Matrix b, float* c);
