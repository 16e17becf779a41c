// Code shared by the drivers of all libraries, so that all are measured alike: the channel to compare-peers,
// the barrier, the clock, the buffers' contents and the check of the results.
//
//     DRIVER SOCKET SHARED RANKS [WHERE]
//
// There is one process per rank. It connects to the unix socket SOCKET and sends its rank. While another
// library is measured, it blocks in read(), not inside its library: so a library that polls costs the others
// nothing. The ranks of one library share the file SHARED, with the barrier and each iteration's start and
// end times. WHERE is for the library (a folder to meet in, an address). An answer is "ok NUMBER" or "error
// TEXT".
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "dsl/base/collective.hpp"

namespace peers {

using hocket::dsl::Collective;
using hocket::dsl::Contract;
using hocket::dsl::Share;

constexpr int kRoot = 0;

// The arguments of a command. count: elements of the whole array; if that is divided by rank, of one rank's
// part. Both buffers have room for the whole array. The root of a broadcast sends from `send` (in place); the
// others receive into recv.
struct Call {
    Collective collective;
    std::string algorithm;  // one of algorithms()
    const float* send;
    float* recv;
    std::size_t count;
};

// The contract of one of the collectives that the drivers know. (contract_of() also knows those of schedule
// files, and would need Hocket's library.)
inline const Contract& contract_in_table(const Call& call) {
    return hocket::dsl::contracts[static_cast<std::size_t>(call.collective)];
}

struct Buffers {
    float* send = nullptr;
    float* recv = nullptr;
};

struct Place {
    int rank;
    int ranks;
    std::string where;
};

// The buffers are never freed.
inline Buffers allocate_plain(std::size_t bytes) {
    auto* send = static_cast<float*>(std::aligned_alloc(4096, bytes));
    auto* recv = static_cast<float*>(std::aligned_alloc(4096, bytes));
    if (send == nullptr || recv == nullptr) throw std::runtime_error("out of memory");
    return {send, recv};
}

class Library {
  public:
    virtual ~Library() = default;
    virtual void join(const Place& place) = 0;
    virtual void leave() = 0;
    // bytes: a multiple of the page size. memory: "malloc", or another kind that the library offers.
    virtual Buffers allocate(const std::string& memory, std::size_t bytes) {
        if (memory != "malloc") throw std::runtime_error("no such memory here: " + memory);
        return allocate_plain(bytes);
    }
    // Returns the function that runs one iteration; the preparation is not timed. All ranks call it together.
    virtual std::function<void()> prepare(const Call& call) = 0;
};

constexpr int kMostIterations = 1024;

inline void pause_briefly() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

// Spins as long as that can help, then lets other threads run, because ranks may outnumber the cores.
template <typename Done>
void spin_until(const Done& done, bool crowded) {
    for (int spin = crowded ? 50 : 5000; spin > 0; --spin) {
        if (done()) return;
        pause_briefly();
    }
    while (!done()) sched_yield();
}

inline bool more_than_cores(int ranks) {
    return ranks > sysconf(_SC_NPROCESSORS_ONLN);
}

// Maps a file that all ranks share; the first rank creates it, filled with zeros.
inline void* map_shared(const std::string& path, std::size_t bytes) {
    int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0)
        throw std::runtime_error(path + ": " + std::strerror(errno));
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (memory == MAP_FAILED) throw std::runtime_error(path + ": " + std::strerror(errno));
    return memory;
}

// The barrier, then for each rank kMostIterations start times and as many end times, in ns of
// CLOCK_MONOTONIC.
class Shared {
  public:
    Shared(const std::string& path, int rank, int ranks)
        : ranks_(ranks),
          crowded_(more_than_cores(ranks)),
          barrier_(static_cast<Barrier*>(map_shared(path, kHead + ranks * kPerRank))),
          times_(
              reinterpret_cast<std::int64_t*>(reinterpret_cast<char*>(barrier_) + kHead + rank * kPerRank)) {}

    void meet() {
        const auto generation = barrier_->generation.load(std::memory_order_relaxed);
        if (barrier_->arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == ranks_) {
            barrier_->arrived.store(0, std::memory_order_relaxed);
            barrier_->generation.store(generation + 1, std::memory_order_release);
            return;
        }
        spin_until([&] { return barrier_->generation.load(std::memory_order_acquire) != generation; },
                   crowded_);
    }

    void time(int iteration, std::int64_t start, std::int64_t end) {
        times_[iteration] = start;
        times_[kMostIterations + iteration] = end;
    }

  private:
    struct Barrier {
        alignas(64) std::atomic<int> arrived;
        alignas(64) std::atomic<int> generation;
    };
    static constexpr std::size_t kHead = 4096;
    static constexpr std::size_t kPerRank = 2 * kMostIterations * sizeof(std::int64_t);

    int ranks_;
    bool crowded_;
    Barrier* barrier_;
    std::int64_t* times_;
};

inline std::int64_t now_ns() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * std::int64_t{1000000000} + time.tv_nsec;
}

// Returns small integers, so that sums are exact in any order; a different value for each rank and place.
inline float input(int rank, std::size_t i) {
    return static_cast<float>((i + 911 * rank) % 8191);
}

class Driver {
  public:
    Driver(Library& library, const Place& place, const std::string& shared)
        : library_(library), place_(place), shared_(shared, place.rank, place.ranks) {}

    // Runs the command and returns the number to answer with.
    std::int64_t obey(const std::string& line) {
        std::istringstream words(line);
        std::string verb;
        words >> verb;
        if (verb == "join") return join();
        if (verb == "allocate") return allocate(words);
        if (verb == "run") return run(words);
        throw std::runtime_error("unknown command: " + line);
    }

  private:
    std::int64_t join() {
        shared_.meet();
        const auto start = now_ns();
        library_.join(place_);
        shared_.time(0, start, now_ns());
        return 0;
    }

    // Implements: allocate MEMORY BYTES
    std::int64_t allocate(std::istringstream& words) {
        std::string memory;
        std::size_t bytes = 0;
        words >> memory >> bytes;
        const Buffers buffers = library_.allocate(memory, bytes);
        for (std::size_t i = 0; i < bytes / sizeof(float); ++i) buffers.send[i] = input(place_.rank, i);
        std::memset(buffers.recv, 0xff, bytes);
        allocated_.push_back({memory, buffers});
        return 0;
    }

    // Implements: run COLLECTIVE ALGORITHM MEMORY COUNT WARMUP ITERATIONS CHECK TOUCH. Returns the number of
    // wrong elements.
    std::int64_t run(std::istringstream& words) {
        std::string collective, algorithm, memory;
        std::size_t count = 0;
        int warmup = 0, iterations = 0, check = 0, touches = 0;
        words >> collective >> algorithm >> memory >> count >> warmup >> iterations >> check >> touches;
        if (!words || iterations > kMostIterations) throw std::runtime_error("malformed run command");
        const Buffers buffers = buffers_in(memory);
        const Call call{named(collective), algorithm, buffers.send, buffers.recv, count};
        if (check) std::memset(buffers.recv, 0xff, result_count(call) * sizeof(float));
        const auto once = library_.prepare(call);
        if (check) {
            shared_.meet();
            once();
        }
        const std::int64_t wrong = check ? count_wrong(call) : 0;
        for (int i = -warmup; i < iterations; ++i) {
            if (touches) touch(call);
            shared_.meet();
            const auto start = now_ns();
            once();
            const auto end = now_ns();
            if (i >= 0) shared_.time(i, start, end);
        }
        return wrong;
    }

    Buffers buffers_in(const std::string& memory) const {
        for (const auto& [name, buffers] : allocated_)
            if (name == memory) return buffers;
        throw std::runtime_error("nothing is allocated in " + memory);
    }

    static Collective named(const std::string& name) {
        for (const Collective collective : hocket::dsl::all_collectives)
            if (hocket::dsl::contracts[static_cast<std::size_t>(collective)].name == name) return collective;
        throw std::runtime_error("unknown collective: " + name);
    }

    Share received(const Call& call) const { return contract_in_table(call).output.of(place_.rank == kRoot); }

    std::size_t result_count(const Call& call) const {
        if (received(call) == Share::none) return 0;
        const bool is_all_parts = received(call) == Share::whole && contract_in_table(call).is_by_rank();
        return is_all_parts ? call.count * place_.ranks : call.count;
    }

    std::size_t input_count(const Call& call) const {
        const Contract& contract = contract_in_table(call);
        const Share held = contract.input.of(place_.rank == kRoot);
        if (held == Share::none) return 0;
        const bool is_all_parts = held == Share::whole && contract.is_by_rank();
        return is_all_parts ? call.count * place_.ranks : call.count;
    }

    // Reads the result and writes the input anew, with the same values, as a program does that trains: then
    // this core's caches hold both, and the other cores' copies of the input are stale.
    void touch(const Call& call) {
        float seen = 0;
        for (std::size_t i = 0; i < result_count(call); ++i) seen += call.recv[i];
        seen_ = seen;
        const auto begin = static_cast<unsigned>(911 * place_.rank % 8191);
        unsigned value = begin;
        for (std::size_t i = 0; i < input_count(call); ++i) {
            const_cast<float*>(call.send)[i] = static_cast<float>(value);
            if (++value == 8191) value = 0;
        }
    }

    std::int64_t count_wrong(const Call& call) const {
        if (call.collective == Collective::broadcast && place_.rank == kRoot) return 0;
        std::int64_t wrong = 0;
        for (std::size_t i = 0; i < result_count(call); ++i) wrong += call.recv[i] != expected(call, i);
        return wrong;
    }

    float expected(const Call& call, std::size_t i) const {
        const Contract& contract = contract_in_table(call);
        const std::size_t at = received(call) == Share::own ? place_.rank * call.count + i : i;
        if (contract.exchanges())
            return input(static_cast<int>(i / call.count), place_.rank * call.count + i % call.count);
        if (!contract.combines())
            return contract.gathers() ? input(static_cast<int>(at / call.count), at % call.count)
                                      : input(kRoot, at);
        float sum = 0;
        for (int rank = 0; rank < place_.ranks; ++rank) sum += input(rank, at);
        return sum;
    }

    Library& library_;
    Place place_;
    Shared shared_;
    std::vector<std::pair<std::string, Buffers>> allocated_;
    volatile float seen_ = 0;  // so that the compiler keeps the reads
};

inline int rank_from_environment() {
    for (const char* name : {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK"})
        if (const char* value = std::getenv(name)) return std::atoi(value);
    throw std::runtime_error("this process's rank is not in the environment");
}

// Pins rank r to core r modulo the number of cores, for every library. Otherwise two ranks sometimes stay on
// one core while another core idles, and chance decides which library that affects.
inline void pin(int rank) {
    cpu_set_t allowed, mine;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
    int nth = rank % CPU_COUNT(&allowed);
    for (int core = 0; core < CPU_SETSIZE; ++core) {
        if (!CPU_ISSET(core, &allowed) || nth-- > 0) continue;
        CPU_ZERO(&mine);
        CPU_SET(core, &mine);
        sched_setaffinity(0, sizeof mine, &mine);
        return;
    }
}

inline FILE* connect_to(const char* path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    int channel = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (channel < 0 || connect(channel, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
        throw std::runtime_error(std::string(path) + ": " + std::strerror(errno));
    return fdopen(channel, "r+");
}

// Obeys commands until compare-peers closes the channel. If a command takes longer than a minute, the process
// ends.
template <typename Obeying>
void serve(FILE* channel, Obeying& driver) {
    char line[256];
    while (std::fgets(line, sizeof line, channel) != nullptr) {
        alarm(60);
        std::string answer;
        try {
            answer = "ok " + std::to_string(driver.obey(line));
        } catch (const std::exception& error) {
            answer = std::string("error ") + error.what();
        }
        for (char& c : answer)
            if (c == '\n') c = ' ';
        std::fprintf(channel, "%s\n", answer.c_str());
        std::fflush(channel);
        alarm(0);
    }
}

inline int drive(Library& library, int argc, char** argv) {
    if (argc < 4) {
        std::fprintf(stderr, "usage: %s SOCKET SHARED RANKS [WHERE] (started by bench/compare-peers)\n",
                     argv[0]);
        return 2;
    }
    try {
        const Place place{rank_from_environment(), std::atoi(argv[3]), argc > 4 ? argv[4] : ""};
        pin(place.rank);
        FILE* channel = connect_to(argv[1]);
        Driver driver(library, place, argv[2]);
        std::fprintf(channel, "rank %d\n", place.rank);
        std::fflush(channel);
        serve(channel, driver);
        alarm(10);
        library.leave();
        return 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
        return 1;
    }
}

}  // namespace peers
