// Plans that combine memory of devices as kernels of the devices (HOCKET_CUDA_PLANS), for tests.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "capi/vocabulary.hpp"
#include "tests/capi/device/messages.hpp"
#include "tests/capi/plan.hpp"
#include "tests/support/random_elements.hpp"
#include "tests/support/test.hpp"

namespace hocket::test {

using Environment = std::map<std::string, std::string>;
inline const Environment on = {{"HOCKET_CUDA_PLANS", "on"}, {"HOCKET_CUDA_CODE", "off"}};

inline Environment with(Environment more) {
    more.insert(on.begin(), on.end());
    return more;
}

struct Combining {
    hkt_collective collective;
    std::string schedule = "";
    DataType type = DataType::float32;
    hkt_op op = HKT_SUM;
    std::size_t count = 20'011;  // as the collective's function takes it
    int root = 0;
    bool in_place = false;
};

// In elements; and where the one buffer begins in the other in place.
struct Sizes {
    std::size_t send, recv, in_place = 0;
};

inline Sizes sizes_of(const Combining& what, int rank, int ranks) {
    const std::size_t all = what.count * static_cast<std::size_t>(ranks);
    switch (what.collective) {
        case HKT_REDUCE_SCATTER:
            return {all, what.count, what.count * static_cast<std::size_t>(rank)};
        case HKT_REDUCE:
            return {what.count, rank == what.root ? what.count : 0};
        default:
            return {what.count, what.count};
    }
}

inline Plan plan_of(hkt_comm* comm, const Combining& what) {
    hkt_plan_options options = HKT_PLAN_OPTIONS_INIT;
    options.schedule = what.schedule.c_str();
    options.root = what.root;
    hkt_plan* plan = nullptr;
    const hkt_type type = capi::all_types[static_cast<std::size_t>(what.type)];
    must(comm, hkt_plan_create(comm, what.collective, type, what.op, &options, &plan));
    return Plan(plan);
}

inline Bytes random_elements(DataType type, std::size_t count, std::uint64_t seed) {
    Bytes bytes(count * element_size(type));
    std::mt19937_64 random(seed);
    fill_with_random(type, bytes.data(), count, random);
    return bytes;
}

// Launches of plans' kernels by this process, where that can be counted.
inline std::size_t launches(const Cuda& cuda) {
    return Cuda::is_fake() ? cuda.count("cuLaunchKernel") : 0;
}

// The same start on memory of the host and on a device, twice. kernels: by each start on a device; nullopt:
// any number.
inline void check(const Cuda& cuda, hkt_comm* comm, const Combining& what,
                  std::optional<std::size_t> kernels = 1) {
    const int rank = hkt_comm_rank(comm);
    const std::size_t element = element_size(what.type);
    const Sizes sizes = sizes_of(what, rank, hkt_comm_size(comm));
    const Plan plan = plan_of(comm, what);
    const bool is_one = what.in_place && sizes.recv > 0;
    for (int start = 0; start < 2; ++start) {
        Bytes from = random_elements(what.type, sizes.send, static_cast<std::uint64_t>(97 * rank + start));
        Bytes to(sizes.recv * element, std::byte{0x77});
        const DeviceMemory send(cuda, std::max<std::size_t>(1, from.size())),
            recv(cuda, std::max<std::size_t>(1, to.size()));
        send.write(from);
        recv.write(to);
        std::byte* const own = is_one ? from.data() + sizes.in_place * element : to.data();
        must(comm, hkt_plan_start(plan.get(), from.data(), own, what.count, nullptr));
        const std::size_t before = launches(cuda);
        must(comm, hkt_plan_start(plan.get(), send.data(),
                                  is_one ? send.data() + sizes.in_place * element : recv.data(), what.count,
                                  nullptr));
        if (Cuda::is_fake() && kernels)
            expect(launches(cuda) - before == *kernels, std::to_string(launches(cuda) - before) + " kernels");
        Bytes sent = send.read(), received = recv.read();
        sent.resize(from.size());
        received.resize(to.size());
        // In place, nobody promises what the rest of send becomes.
        if (is_one) {
            const auto part = [&](Bytes& bytes) {
                const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(sizes.in_place * element);
                return Bytes(begin, begin + static_cast<std::ptrdiff_t>(sizes.recv * element));
            };
            expect(part(sent) == part(from), what.schedule + ": another result on a device, in place");
        } else {
            expect(sent == from, what.schedule + ": it wrote to what it sends");
            expect(received == to, what.schedule + ": another result on a device");
        }
    }
}

// Ranks of one host, which may fail, and then may leave something behind.
inline std::vector<Outcome> run_on_a_host(int ranks, Environment more,
                                          const std::function<void(int, const Cuda&)>& body) {
    more.emplace("FAKE_CUDA_DELAY_US", "60");
    return run_ranks({ranks, with(std::move(more)), 50}, [&](int rank) {
        setenv("HOCKET_HOST_ID", "a", 1);
        body(rank, Cuda::load());
    });
}

// Each rank is a thread; ranks_of: by process.
inline void run_threads(const std::vector<int>& ranks_of,
                        const std::function<void(const Cuda&, hkt_comm*)>& body) {
    int all = 0;
    for (const int ranks : ranks_of) all += ranks;
    const auto outcomes =
        run_on_a_host(static_cast<int>(ranks_of.size()), {}, [&](int process, const Cuda& cuda) {
            int first = 0;
            for (int before = 0; before < process; ++before)
                first += ranks_of[static_cast<std::size_t>(before)];
            const int own = ranks_of[static_cast<std::size_t>(process)];
            std::vector<std::string> errors(static_cast<std::size_t>(own));
            std::vector<std::thread> threads;
            for (int i = 0; i < own; ++i)
                threads.emplace_back([&, i] {
                    try {
                        cuda.use_device(0);
                        hkt_comm_options options = HKT_COMM_OPTIONS_INIT;
                        options.rank = first + i;
                        options.world_size = all;
                        const Comm comm = join(&options);
                        body(cuda, comm.get());
                    } catch (const std::exception& error) {
                        errors[static_cast<std::size_t>(i)] = error.what();
                    }
                });
            for (std::thread& thread : threads) thread.join();
            for (const std::string& error : errors) expect(error.empty(), error);
            if (!Cuda::is_fake()) return;
            for (const char* what : {"pinned", "streams", "events", "opened"})
                expect(cuda.count(what) == 0, std::string("left behind: ") + what);
        });
    CHECK(problems(outcomes) == "");
}

}  // namespace hocket::test
