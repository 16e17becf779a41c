/* Ranks of which one does something else, for recorder_test.cpp, as the argument says. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "capi/hocket.h"

static hkt_comm* comm;
static float values[5000];

static void must(hkt_status status) {
    if (status == HKT_SUCCESS) return;
    fprintf(stderr, "%s\n", hkt_comm_last_error(comm));
    exit(3);
}

static void all_reduce(size_t count) {
    must(hkt_all_reduce(values, values, count, HKT_FLOAT32, HKT_SUM, comm, NULL));
}

/* Longer than any test waits, also where signals come. */
static void rest(void) {
    struct timespec left = {600, 0};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) continue;
}

/* Until the test sends SIGUSR2, which main() has blocked: when all ranks have said that they run. Before that
 * the others may still be in the operation before. */
static void wait_for_the_test(void) {
    sigset_t own;
    int number;
    sigemptyset(&own);
    sigaddset(&own, SIGUSR2);
    sigwait(&own, &number);
}

static volatile sig_atomic_t handled;
static void own_handler(int signal) {
    (void)signal;
    handled = 1;
}

int main(int argc, char** argv) {
    const char* const mode = argc > 1 ? argv[1] : "";
    const int has_handler = strcmp(mode, "handler") == 0;
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = own_handler;
    if (has_handler) sigaction(SIGUSR1, &action, NULL);
    sigset_t of_the_test;
    sigemptyset(&of_the_test);
    sigaddset(&of_the_test, SIGUSR2);
    sigprocmask(SIG_BLOCK, &of_the_test, NULL);
    must(hkt_comm_create(NULL, &comm));
    const int rank = hkt_comm_rank(comm), last = hkt_comm_size(comm) - 1, is_odd_one = rank == 2;
    for (int i = 0; i < 3; ++i) all_reduce(1000);
    printf("running as %d\n", (int)getpid());
    fflush(stdout);
    if (strcmp(mode, "late") == 0) {
        if (is_odd_one) rest();
        all_reduce(5000);
    } else if (strcmp(mode, "quits") == 0) {
        if (is_odd_one) rest();
        if (rank == 1) {
            wait_for_the_test();
            return 5;
        }
        all_reduce(5000);
    } else if (strcmp(mode, "lingers") == 0) {
        /* exec closes the rank's connections; the process ends when the others have ended. */
        if (rank == 1) {
            wait_for_the_test();
            execlp("sh", "sh", "-c", "sleep 1; exit 5", (char*)NULL);
        }
        all_reduce(5000);
    } else if (strcmp(mode, "mismatch") == 0) {
        all_reduce(is_odd_one ? 17 : 16);
    } else if (strcmp(mode, "ends") == 0) {
        if (is_odd_one) {
            wait_for_the_test();
            kill(getpid(), SIGKILL);
        }
        for (;;) all_reduce(5000);
    } else if (strcmp(mode, "message") == 0) {
        if (is_odd_one) rest();
        if (rank == 0) must(hkt_recv(values, 5000, HKT_FLOAT32, 2, 7, comm, NULL));
        hkt_barrier(comm);
    } else if (strcmp(mode, "circle") == 0) {
        /* Both pairs' ranks have started both operations, and each waits in another one first. */
        hkt_comm *whole = comm, *pair[2] = {NULL, NULL};
        hkt_request* requests[2] = {NULL, NULL};
        static float large[2][1 << 20];
        const int32_t ranks[2] = {0, 1};
        for (int i = 0; i < 2; ++i) must(hkt_comm_create_group(whole, ranks, 2, &pair[i]));
        if (rank > 1) rest();
        for (int i = 0; i < 2; ++i)
            must(hkt_all_reduce(large[i], large[i], 1 << 20, HKT_FLOAT32, HKT_SUM, pair[i], &requests[i]));
        must(hkt_wait(requests[rank]));
    } else if (strcmp(mode, "group") == 0) {
        hkt_comm *whole = comm, *group = NULL;
        must(hkt_comm_split(comm, rank % 2, -rank, &group)); /* ranks 2, 0; ranks 3, 1 */
        comm = group;
        if (!is_odd_one) all_reduce(5000);
        comm = whole;
        hkt_barrier(comm);
    } else if (has_handler) {
        printf("ready\n");
        fflush(stdout);
        while (!handled) sleep(1);
        printf("handled\n");
        all_reduce(1000);
    } else if (strcmp(mode, "child") == 0) {
        /* A forked child's handling of the signal must not affect its parent. */
        fflush(stdout);
        const pid_t child = fork();
        if (child == 0) {
            signal(SIGUSR1, SIG_IGN);
            kill(getpid(), SIGUSR1);
            _exit(0);
        }
        int status = 0;
        waitpid(child, &status, 0);
        printf("child ended with %d\n", status);
        all_reduce(1000);
    } else if (strcmp(mode, "barrier") == 0) {
        if (is_odd_one || rank == last) wait_for_the_test();
        while (hkt_barrier_monitored(comm, 300) != HKT_SUCCESS) {
            printf("%s\n", hkt_comm_last_error(comm));
            fflush(stdout);
            if (hkt_comm_status(comm) != HKT_SUCCESS) return 4;
        }
        must(hkt_barrier_monitored(comm, 60000));
        all_reduce(1000);
        printf("all are here\n");
    }
    hkt_comm_destroy(comm);
    return 0;
}
