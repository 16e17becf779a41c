// Measures the cost of loading libhocket.so and of a communicator of one rank, and nothing else; started by
// bench/embedding, which passes the library. Prints lines of "NAME VALUE".
#include <capi/hocket.h>
#include <dlfcn.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <fstream>

namespace {

double processor_seconds() {
    rusage used;
    getrusage(RUSAGE_SELF, &used);
    return static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           1e-6 * static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

double resident_mebibytes() {
    std::ifstream file("/proc/self/statm");
    double size = 0, resident = 0;
    file >> size >> resident;
    return resident * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2) return 2;
    const double before = processor_seconds(), memory_before = resident_mebibytes();
    const auto begin = std::chrono::steady_clock::now();
    void* const library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    const std::chrono::duration<double> loading = std::chrono::steady_clock::now() - begin;
    if (library == nullptr) return 1;
    const double loaded = processor_seconds();
    const auto create = reinterpret_cast<decltype(&hkt_comm_create)>(dlsym(library, "hkt_comm_create"));
    hkt_comm_options options = HKT_COMM_OPTIONS_INIT;
    options.rank = 0;
    options.world_size = 1;
    hkt_comm* comm = nullptr;
    if (create(&options, &comm) != HKT_SUCCESS) return 1;
    const double created = processor_seconds();
    std::printf("load_seconds %.9g\nload %.9g\ncreate %.9g\nwhole %.9g\nmebibytes %.9g\n", loading.count(),
                loaded - before, created - loaded, created, resident_mebibytes() - memory_before);
    return 0;
}
