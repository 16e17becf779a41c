/* A rank that all_reduces until something fails, and then says what and when. For loss_test.cpp. */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "capi/hocket.h"

static int64_t now_ms(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * (int64_t)1000 + time.tv_nsec / 1000000;
}

int main(int argc, char** argv) {
    enum { count = 10007 };
    static float values[count];
    hkt_comm* comm = NULL;
    hkt_plan* plan = NULL;
    hkt_plan_options how = HKT_PLAN_OPTIONS_INIT;
    how.schedule = argc > 1 ? argv[1] : NULL;
    if (hkt_comm_create(NULL, &comm) != HKT_SUCCESS ||
        hkt_plan_create(comm, HKT_ALL_REDUCE, HKT_FLOAT32, HKT_MAX, &how, &plan) != HKT_SUCCESS) {
        fprintf(stderr, "%s\n", hkt_comm_last_error(comm));
        return 2;
    }
    for (int i = 0;; ++i) {
        const hkt_status status = hkt_plan_start(plan, values, values, count, NULL);
        if (status != HKT_SUCCESS) {
            const int64_t noticed = now_ms();
            printf("status %d at %" PRId64 "\n", status, noticed);
            fprintf(stderr, "%s\n", hkt_comm_last_error(comm));
            hkt_plan_destroy(plan);
            hkt_comm_destroy(comm);
            printf("destroyed after %" PRId64 " ms\n", now_ms() - noticed);
            return 3;
        }
        if (i == 20) {
            printf("running as %d\n", (int)getpid());
            fflush(stdout);
        }
    }
}
