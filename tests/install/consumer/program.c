/* A user's program: C99, and C++11 as well. */
#include <hocket.h>
#include <stdio.h>

int main(void) {
    const hkt_comm_options options = HKT_COMM_OPTIONS_INIT;
    hkt_comm* comm = NULL;
    float x = 1;
    if (hkt_comm_create(&options, &comm) != HKT_SUCCESS) {
        fprintf(stderr, "%s\n", hkt_last_error());
        return 1;
    }
    if (hkt_all_reduce(&x, &x, 1, HKT_FLOAT32, HKT_SUM, comm, NULL) != HKT_SUCCESS) {
        fprintf(stderr, "%s\n", hkt_comm_last_error(comm));
        return 1;
    }
    printf("sum %g of %d ranks, version %s, schedules in %s\n", (double)x, (int)hkt_comm_size(comm),
           hkt_version(), hkt_comm_info(comm, "schedule_path"));
    hkt_comm_destroy(comm);
    return 0;
}
