// Measures the cost of Hocket in a program: one process for each rank, started by bench/embedding. Prints
// lines of "NAME VALUE" for its own rank.
//
//     overlap SHARED    starts 4 MiB, computes for 50 ms, waits: the duration of the wait
//     latency SHARED    1 KiB, with a progress thread and without, interleaved
//     idle SHARED       processor time of a second in which nothing is in flight, with a progress thread
//     start SHARED      processor time of creating a communicator, and of the first all_reduce of 4 KiB
//     groups SHARED     splits a communicator and destroys the group, 1,000 times
//     shrink SHARED     the last rank kills itself: the time until the others have a correct result again
#include <capi/hocket.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fcntl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

double seconds(Clock::duration duration) {
    return std::chrono::duration<double>(duration).count();
}

void must(hkt_comm* comm, hkt_status status) {
    if (status != HKT_SUCCESS)
        throw std::runtime_error(comm == nullptr ? hkt_last_error() : hkt_comm_last_error(comm));
}

hkt_comm* join(hkt_progress progress = HKT_PROGRESS_CALLS) {
    hkt_comm_options options = HKT_COMM_OPTIONS_INIT;
    options.progress = progress;
    hkt_comm* comm = nullptr;
    must(nullptr, hkt_comm_create(&options, &comm));
    return comm;
}

double median(std::vector<double> values) {
    std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                     values.end());
    return values[values.size() / 2];
}

double processor_seconds() {
    rusage used;
    getrusage(RUSAGE_SELF, &used);
    return static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           1e-6 * static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

void print(const char* name, double value) {
    std::printf("%s %.9g\n", name, value);
}

void compute(std::chrono::milliseconds time) {
    const auto until = Clock::now() + time;
    while (Clock::now() < until) continue;
}

void overlap() {
    constexpr std::size_t count = 1 << 20;
    for (const hkt_progress progress : {HKT_PROGRESS_CALLS, HKT_PROGRESS_THREAD}) {
        hkt_comm* const comm = join(progress);
        void* memory = nullptr;
        must(comm, hkt_mem_alloc(comm, count * sizeof(float), &memory));
        auto* const data = static_cast<float*>(memory);
        std::vector<double> waits, alone;
        for (int round = 0; round < 30; ++round) {
            std::fill_n(data, count, 1.0F);
            must(comm, hkt_barrier(comm));
            hkt_request* request = nullptr;
            const auto begin = Clock::now();
            must(comm, hkt_all_reduce(data, data, count, HKT_FLOAT32, HKT_MAX, comm, &request));
            if (round % 2 == 0) compute(std::chrono::milliseconds(50));
            const auto from = Clock::now();
            must(comm, hkt_wait(request));
            (round % 2 == 0 ? waits : alone)
                .push_back(seconds(Clock::now() - (round % 2 == 0 ? from : begin)));
        }
        const std::string name = progress == HKT_PROGRESS_THREAD ? "thread" : "calls";
        print((name + "_wait_after_50ms").c_str(), median(waits));
        print((name + "_alone").c_str(), median(alone));
        hkt_comm_destroy(comm);
    }
}

void latency() {
    constexpr std::size_t count = 256;
    hkt_comm* const comms[] = {join(HKT_PROGRESS_CALLS), join(HKT_PROGRESS_THREAD)};
    std::vector<float> data(count, 1);
    std::vector<double> blocking[2], started[2];
    for (int round = 0; round < 200; ++round)
        for (int i = 0; i < 2; ++i) {
            hkt_comm* const comm = comms[i];
            constexpr int calls = 50;
            must(comm, hkt_barrier(comm));
            auto from = Clock::now();
            for (int call = 0; call < calls; ++call)
                must(comm,
                     hkt_all_reduce(data.data(), data.data(), count, HKT_FLOAT32, HKT_MAX, comm, nullptr));
            blocking[i].push_back(seconds(Clock::now() - from) / calls);
            from = Clock::now();
            for (int call = 0; call < calls; ++call) {
                hkt_request* request = nullptr;
                must(comm,
                     hkt_all_reduce(data.data(), data.data(), count, HKT_FLOAT32, HKT_MAX, comm, &request));
                must(comm, hkt_wait(request));
            }
            started[i].push_back(seconds(Clock::now() - from) / calls);
        }
    print("calls_blocking", median(blocking[0]));
    print("thread_blocking", median(blocking[1]));
    print("calls_started", median(started[0]));
    print("thread_started", median(started[1]));
    for (hkt_comm* comm : comms) hkt_comm_destroy(comm);
}

void idle() {
    hkt_comm* const comm = join(HKT_PROGRESS_THREAD);
    hkt_request* request = nullptr;
    float one = 1;
    must(comm, hkt_all_reduce(&one, &one, 1, HKT_FLOAT32, HKT_SUM, comm, &request));
    must(comm, hkt_wait(request));
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    const double before = processor_seconds();
    std::this_thread::sleep_for(std::chrono::seconds(1));
    print("processor_share", processor_seconds() - before);
    must(comm, hkt_barrier(comm));
    hkt_comm_destroy(comm);
}

void start() {
    const double before = processor_seconds();
    hkt_comm* const comm = join();
    const double joined = processor_seconds();
    std::vector<float> data(1024, 1);
    must(comm, hkt_all_reduce(data.data(), data.data(), data.size(), HKT_FLOAT32, HKT_SUM, comm, nullptr));
    const double after = processor_seconds();
    print("before", before);
    print("create", joined - before);
    print("first_all_reduce", after - joined);
    hkt_comm_destroy(comm);
}

double entries_of(const char* folder) {
    return static_cast<double>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

double resident_mebibytes() {
    std::ifstream file("/proc/self/statm");
    double size = 0, resident = 0;
    file >> size >> resident;
    return resident * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
}

void groups() {
    hkt_comm* const comm = join();
    const auto cycle = [&] {
        hkt_comm* group = nullptr;
        must(comm, hkt_comm_split(comm, 0, 0, &group));
        std::int32_t one = 1;
        must(group, hkt_all_reduce(&one, &one, 1, HKT_INT32, HKT_SUM, group, nullptr));
        hkt_comm_destroy(group);
    };
    for (int round = 0; round < 100; ++round) cycle();
    print("descriptors_before", entries_of("/proc/self/fd"));
    print("threads_before", entries_of("/proc/self/task"));
    print("mebibytes_before", resident_mebibytes());
    const auto from = Clock::now();
    for (int round = 0; round < 1000; ++round) cycle();
    print("seconds_each", seconds(Clock::now() - from) / 1000);
    // A joined thread may still be listed.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    print("descriptors_after", entries_of("/proc/self/fd"));
    print("threads_after", entries_of("/proc/self/task"));
    print("mebibytes_after", resident_mebibytes());
    hkt_comm_destroy(comm);
}

void shrink(const char* shared) {
    const int file = open(shared, O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, 4096) != 0) throw std::runtime_error("the shared file");
    auto* const died = static_cast<std::atomic<std::int64_t>*>(
        mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
    hkt_comm* const comm = join();
    std::vector<std::int64_t> data(1024, 1);
    const auto sum = [&](hkt_comm* on) {
        std::fill(data.begin(), data.end(), 1);
        return hkt_all_reduce(data.data(), data.data(), data.size(), HKT_INT64, HKT_SUM, on, nullptr);
    };
    for (int round = 0; round < 20; ++round) must(comm, sum(comm));
    if (hkt_comm_rank(comm) == (std::getenv("VICTIM") != nullptr ? std::atoi(std::getenv("VICTIM")) : 0)) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        died->store(Clock::now().time_since_epoch().count());
        raise(SIGKILL);
    }
    while (sum(comm) == HKT_SUCCESS) continue;
    hkt_comm* left = nullptr;
    must(comm, hkt_comm_shrink(comm, &left));
    must(left, sum(left));
    const auto now = Clock::now().time_since_epoch().count();
    for (const std::int64_t value : data)
        if (value != hkt_comm_size(left)) throw std::runtime_error("the sum is wrong");
    print("seconds", 1e-9 * static_cast<double>(now - died->load()));
    must(left, hkt_barrier(left));
    hkt_comm_destroy(left);
    hkt_comm_destroy(comm);
}

}  // namespace

int main(int count, char** arguments) {
    try {
        const std::string mode = count > 2 ? arguments[1] : "";
        if (mode == "overlap") return overlap(), 0;
        if (mode == "latency") return latency(), 0;
        if (mode == "idle") return idle(), 0;
        if (mode == "start") return start(), 0;
        if (mode == "groups") return groups(), 0;
        if (mode == "shrink") return shrink(arguments[2]), 0;
        std::fprintf(stderr, "usage: driver overlap|latency|idle|start|groups|shrink SHARED\n");
        return 2;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
