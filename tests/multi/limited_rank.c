/* limited_rank STAGE RANK RESOURCE VALUE: joins, all_reduces, and prints what came of both: "create STATUS
 * TEXT", "all_reduce STATUS TEXT", a line each. RANK (-1: each rank) may use no more than VALUE of RESOURCE
 * (descriptors, addresses) from STAGE (create, all_reduce) on. RESOURCE folder: it removes its working folder
 * VALUE instead. */
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

static void limit(char** argument, const char* stage) {
    const int rank = atoi(argument[2]);
    if (strcmp(argument[1], stage) != 0 || (rank >= 0 && rank != my_rank())) return;
    if (strcmp(argument[3], "folder") == 0) {
        if (chdir(argument[4]) != 0 || rmdir(argument[4]) != 0) exit(2);
        return;
    }
    const struct rlimit value = {strtoull(argument[4], NULL, 10), strtoull(argument[4], NULL, 10)};
    if (setrlimit(strcmp(argument[3], "addresses") == 0 ? RLIMIT_AS : RLIMIT_NOFILE, &value) != 0) exit(2);
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
    if (argc != 5) return 2;
    hkt_comm* comm = NULL;
    limit(argv, "create");
    hkt_status status = hkt_comm_create(NULL, &comm);
    if (!tell("create", status, hkt_last_error())) return 1;
    limit(argv, "all_reduce");
    float value = 1;
    status = hkt_all_reduce(&value, &value, 1, HKT_FLOAT32, HKT_SUM, comm, NULL);
    const int is_right = tell("all_reduce", status, hkt_comm_last_error(comm));
    hkt_comm_destroy(comm);
    return is_right ? 0 : 1;
}
