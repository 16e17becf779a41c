/* A rank that knows its place in the job by its launcher's variables alone. */
#include <hocket.h>
#include <stdio.h>

int main(void) {
    hkt_comm* comm = NULL;
    int64_t sum;
    if (hkt_comm_create(NULL, &comm) != HKT_SUCCESS) {
        fprintf(stderr, "%s\n", hkt_last_error());
        return 1;
    }
    sum = hkt_comm_rank(comm);
    if (hkt_all_reduce(&sum, &sum, 1, HKT_INT64, HKT_SUM, comm, NULL) != HKT_SUCCESS) {
        fprintf(stderr, "%s\n", hkt_comm_last_error(comm));
        return 1;
    }
    printf("rank %d of %d, sum %d\n", (int)hkt_comm_rank(comm), (int)hkt_comm_size(comm), (int)sum);
    hkt_comm_destroy(comm);
    return 0;
}
