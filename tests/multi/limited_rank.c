/* limited_rank STAGE RANK RESOURCE VALUE [BYTES]: joins, all_reduces, and prints what came of both: "create
 * STATUS TEXT", "all_reduce STATUS TEXT", a line each. RANK (-1: each rank) may use no more than VALUE of
 * RESOURCE (descriptors, addresses; addresses_left: besides those that it uses) from STAGE (create, alloc,
 * all_reduce) on. RESOURCE folder: it removes its working folder VALUE instead. BYTES: it allocates as much
 * from its communicator ("alloc STATUS TEXT"), and all_reduces that; memory of its own if it gets none. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "capi/hocket.h"

static int my_rank(void) {
    const char* rank = getenv("RANK");
    return rank == NULL ? 0 : atoi(rank);
}

static rlim_t addresses_in_use(void) {
    unsigned long long pages = 0;
    FILE* file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%llu", &pages) != 1) exit(2);
    fclose(file);
    return (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

static void limit(char** argument, const char* stage) {
    const int rank = atoi(argument[2]);
    if (strcmp(argument[1], stage) != 0 || (rank >= 0 && rank != my_rank())) return;
    if (strcmp(argument[3], "folder") == 0) {
        if (chdir(argument[4]) != 0 || rmdir(argument[4]) != 0) exit(2);
        return;
    }
    rlim_t most = strtoull(argument[4], NULL, 10);
    if (strcmp(argument[3], "addresses_left") == 0) most += addresses_in_use();
    const struct rlimit value = {most, most};
    if (setrlimit(strcmp(argument[3], "descriptors") == 0 ? RLIMIT_NOFILE : RLIMIT_AS, &value) != 0) exit(2);
}

static int tell(const char* call, hkt_status status, const char* text) {
    char line[8192];
    size_t i = 0;
    if (status == HKT_SUCCESS) text = "";
    for (; text[i] != '\0' && i + 1 < sizeof line; ++i) line[i] = text[i] == '\n' ? '|' : text[i];
    line[i] = '\0';
    printf("%s %d %s\n", call, (int)status, line);
    fflush(stdout);
    return status == HKT_SUCCESS;
}

int main(int argc, char** argv) {
    if (argc < 5) return 2;
    hkt_comm* comm = NULL;
    limit(argv, "create");
    hkt_status status = hkt_comm_create(NULL, &comm);
    if (!tell("create", status, hkt_last_error())) return 1;
    limit(argv, "alloc");
    float one = 1;
    void* memory = &one;
    const size_t bytes = argc > 5 ? strtoull(argv[5], NULL, 10) : sizeof one;
    if (argc > 5) {
        status = hkt_mem_alloc(comm, bytes, &memory);
        if (!tell("alloc", status, hkt_comm_last_error(comm))) memory = malloc(bytes);
        if (memory == NULL) return 2;
    }
    limit(argv, "all_reduce");
    status = hkt_all_reduce(memory, memory, bytes / sizeof one, HKT_FLOAT32, HKT_SUM, comm, NULL);
    const int is_right = tell("all_reduce", status, hkt_comm_last_error(comm));
    hkt_comm_destroy(comm);
    return is_right ? 0 : 1;
}
