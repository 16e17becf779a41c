/* Checks that deep_model.c computes the gradients of its loss. */
#pragma once

#include <stdint.h>

/* Prints a line for each tensor. Returns 1 if the measured slopes of the loss match the gradients. */
int check_gradients(uint64_t seed);
