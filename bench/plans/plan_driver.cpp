// Starts plans of schedules that compute, as a user would: only through the C interface. A script of bench/
// starts one process per rank and gives commands (bench/peers/driver.hpp has the channel, barrier and clock):
//
//     allocate COUNT BUFFERS            a send and a receive buffer of COUNT float32, and further buffers
//     plan SCHEDULE TENSORS             answers with the plan's number. TENSORS: a file of sizes, or "-"
//     run PLAN ITERATIONS               steps, each timed
//     drop PLAN
//     hash                              of the receive buffer's bits
#include <capi/hocket.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <memory>

#include "bench/peers/driver.hpp"

namespace {

constexpr double rate = 0.01, density = 0.01, beta1 = 0.9, beta2 = 0.999;

// Resembles a gradient: four random numbers added, so that few sums are large. Multiples of 2^-20, so that
// sums of them are exact in any order.
float gradient(int rank, std::size_t i) {
    std::uint64_t bits = static_cast<std::uint64_t>(rank + 1) << 40 | i;
    bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9;
    bits = (bits ^ bits >> 27) * 0x94d049bb133111eb;
    bits ^= bits >> 31;
    int sum = -131070;
    for (int part = 0; part < 4; ++part) sum += static_cast<int>(bits >> 16 * part & 0xffff);
    return static_cast<float>(sum) / (1 << 20);
}

struct DestroyPlan {
    void operator()(hkt_plan* plan) const { hkt_plan_destroy(plan); }
};
struct DestroyComm {
    void operator()(hkt_comm* comm) const { hkt_comm_destroy(comm); }
};

class PlanDriver {
  public:
    PlanDriver(int rank, int ranks, const std::string& shared) : rank_(rank), shared_(shared, rank, ranks) {
        hkt_comm* comm = nullptr;
        if (hkt_comm_create(nullptr, &comm) != HKT_SUCCESS) throw std::runtime_error(hkt_last_error());
        comm_.reset(comm);
    }

    std::int64_t obey(const std::string& line) {
        std::istringstream words(line);
        std::string verb;
        words >> verb;
        if (verb == "allocate") return allocate(words);
        if (verb == "plan") return plan(words);
        if (verb == "run") return run(words);
        if (verb == "drop") return drop(words);
        if (verb == "hash") return hash();
        throw std::runtime_error("unknown command: " + line);
    }

  private:
    struct Made {
        std::unique_ptr<hkt_plan, DestroyPlan> plan;
        int starts = 0;
    };

    void check(hkt_status status) const {
        if (status != HKT_SUCCESS) throw std::runtime_error(hkt_comm_last_error(comm_.get()));
    }

    float* memory() const {
        void* memory = nullptr;
        check(hkt_mem_alloc(comm_.get(), count_ * sizeof(float), &memory));
        return static_cast<float*>(memory);
    }

    std::int64_t allocate(std::istringstream& words) {
        std::size_t further = 0;
        words >> count_ >> further;
        if (!words) throw std::runtime_error("malformed allocate command");
        send_ = memory();
        recv_ = memory();
        for (std::size_t i = 0; i < count_; ++i) send_[i] = gradient(rank_, i);
        std::fill_n(recv_, count_, 0.0f);
        for (std::size_t k = 0; k < further; ++k) {
            float* const buffer = memory();
            for (std::size_t i = 0; i < count_; ++i) buffer[i] = gradient(-1, i);  // the same on all ranks
            further_.push_back(buffer);
        }
        return 0;
    }

    std::int64_t plan(std::istringstream& words) {
        std::string schedule, file;
        words >> schedule >> file;
        std::vector<std::size_t> tensors;
        if (file != "-") {
            std::ifstream sizes(file);
            tensors.assign(std::istream_iterator<std::size_t>(sizes), {});
            if (tensors.empty()) throw std::runtime_error(file + " has no sizes");
        }
        hkt_plan_options how = HKT_PLAN_OPTIONS_INIT;
        how.schedule = schedule.c_str();
        how.tensor_counts = tensors.empty() ? nullptr : tensors.data();
        how.tensors = tensors.size();
        hkt_plan* plan = nullptr;
        check(hkt_plan_create(comm_.get(), HKT_ALL_REDUCE, HKT_FLOAT32, HKT_SUM, &how, &plan));
        plans_.push_back({std::unique_ptr<hkt_plan, DestroyPlan>(plan)});
        return static_cast<std::int64_t>(plans_.size()) - 1;
    }

    Made& named(std::istringstream& words) {
        std::size_t number = 0;
        words >> number;
        if (!words || number >= plans_.size() || plans_[number].plan == nullptr)
            throw std::runtime_error("there is no such plan");
        return plans_[number];
    }

    std::int64_t drop(std::istringstream& words) {
        named(words).plan.reset();
        return 0;
    }

    std::int64_t run(std::istringstream& words) {
        Made& made = named(words);
        int iterations = 0;
        words >> iterations;
        if (!words || iterations > peers::kMostIterations) throw std::runtime_error("malformed run command");
        for (int i = 0; i < iterations; ++i) {
            const std::vector<double> parameters = parameters_of(made.plan.get(), ++made.starts);
            hkt_start_options how = HKT_START_OPTIONS_INIT;
            how.parameters = parameters.data();
            how.parameter_count = parameters.size();
            how.buffers = further_.data();
            how.buffer_count = further_.size();
            shared_.meet();
            const auto start = peers::now_ns();
            check(hkt_plan_start_with(made.plan.get(), send_, recv_, count_, &how, nullptr));
            shared_.time(i, start, peers::now_ns());
        }
        return 0;
    }

    // Returns the parameters that the schedule takes at its t-th start.
    static std::vector<double> parameters_of(hkt_plan* plan, int t) {
        std::vector<double> values;
        for (std::size_t k = 0; hkt_plan_parameter(plan, k) != nullptr; ++k) {
            const std::string name = hkt_plan_parameter(plan, k);
            if (name == "rate")
                values.push_back(rate);
            else if (name == "density")
                values.push_back(density);
            else if (name == "left1")
                values.push_back(1 - std::pow(beta1, t));
            else if (name == "left2")
                values.push_back(1 - std::pow(beta2, t));
            else
                throw std::runtime_error("no value is known for the parameter " + name);
        }
        return values;
    }

    // Returns FNV-1a over words of 32 bits; 63 bits of it.
    std::int64_t hash() const {
        std::uint64_t hash = 0xcbf29ce484222325u;
        for (std::size_t i = 0; i < count_; ++i) {
            std::uint32_t bits = 0;
            std::memcpy(&bits, recv_ + i, sizeof bits);
            hash = (hash ^ bits) * 0x100000001b3u;
        }
        return static_cast<std::int64_t>(hash >> 1);
    }

    int rank_;
    peers::Shared shared_;
    std::unique_ptr<hkt_comm, DestroyComm> comm_;
    std::size_t count_ = 0;
    float *send_ = nullptr, *recv_ = nullptr;  // allocated by the communicator, like the further buffers
    std::vector<const void*> further_;
    std::vector<Made> plans_;  // destroyed before the communicator
};

int drive(int argc, char** argv) {
    if (argc != 4) {
        std::fprintf(stderr, "usage: %s SOCKET SHARED RANKS (started by the scripts of bench/)\n", argv[0]);
        return 2;
    }
    const int rank = peers::rank_from_environment();
    peers::pin(rank);
    FILE* const channel = peers::connect_to(argv[1]);
    PlanDriver driver(rank, std::atoi(argv[3]), argv[2]);
    std::fprintf(channel, "rank %d\n", rank);
    std::fflush(channel);
    peers::serve(channel, driver);
    alarm(10);  // the communicator is not destroyed
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return drive(argc, argv);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
        return 1;
    }
}
