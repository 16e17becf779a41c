/* hocket.h is plain C11, and a world of one needs nothing but the library. */
#include <hocket.h>
#include <stdio.h>
#include <string.h>

#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #condition, hkt_comm_last_error(comm)); \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

int main(void) {
    hkt_comm_options options = HKT_COMM_OPTIONS_INIT;
    hkt_plan_options plan_options = HKT_PLAN_OPTIONS_INIT;
    hkt_comm* comm = NULL;
    hkt_plan* plan = NULL;
    hkt_request* request = NULL;
    const float send[3] = {1.5f, -2.0f, 4.0f};
    float recv[3] = {0};

    options.rank = 0;
    options.world_size = 1;
    REQUIRE(hkt_comm_create(&options, &comm) == HKT_SUCCESS);
    REQUIRE(hkt_comm_rank(comm) == 0 && hkt_comm_size(comm) == 1);
    REQUIRE(hkt_all_reduce(send, recv, 3, HKT_FLOAT32, HKT_SUM, comm, NULL) == HKT_SUCCESS);
    REQUIRE(memcmp(send, recv, sizeof send) == 0);
    REQUIRE(hkt_plan_create(comm, HKT_BROADCAST, HKT_FLOAT32, HKT_SUM, &plan_options, &plan) == HKT_SUCCESS);
    memset(recv, 0, sizeof recv);
    REQUIRE(hkt_plan_start(plan, send, recv, 3, &request) == HKT_SUCCESS);
    REQUIRE(hkt_wait(request) == HKT_SUCCESS);
    REQUIRE(memcmp(send, recv, sizeof send) == 0);
    REQUIRE(hkt_barrier(comm) == HKT_SUCCESS);
    hkt_plan_destroy(plan);
    hkt_comm_destroy(comm);
    return 0;
}
