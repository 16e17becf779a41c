/* A rank that knows its place in the job by its launcher's variables alone. */
#include <hocket.h>
#include <stdio.h>
#include <unistd.h>

/* MPICH's launcher ends a job with its first failed rank, and may then lose the rank's last lines. */
static int fail(const char* reason) {
    fprintf(stderr, "%s\n", reason);
    sleep(1);
    return 1;
}

int main(void) {
    hkt_comm* comm = NULL;
    int64_t sum;
    if (hkt_comm_create(NULL, &comm) != HKT_SUCCESS) return fail(hkt_last_error());
    sum = hkt_comm_rank(comm);
    if (hkt_all_reduce(&sum, &sum, 1, HKT_INT64, HKT_SUM, comm, NULL) != HKT_SUCCESS)
        return fail(hkt_comm_last_error(comm));
    printf("rank %d of %d, sum %d\n", (int)hkt_comm_rank(comm), (int)hkt_comm_size(comm), (int)sum);
    hkt_comm_destroy(comm);
    return 0;
}
