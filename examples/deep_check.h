/* Whether deep_model.c computes the gradients of its loss. */
#pragma once

#include <stdint.h>

/* Prints a line for each tensor. 1: the slopes of the loss that were measured are those of the gradients. */
int check_gradients(uint64_t seed);
