// Plans that run as kernels of the devices that have the buffers (HOCKET_CUDA_PLANS), for tests.
#pragma once

#include <algorithm>
#include <array>
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

struct Operation {
    hkt_collective collective;
    std::string schedule = "";
    DataType type = DataType::float32;
    hkt_op op = HKT_SUM;
    std::size_t count = 20'011;  // as the collective's function takes it
    int root = 0;
    bool in_place = false;
};

// Of a rank's buffers, in elements; and where they begin in one buffer if the rank is in place.
struct Sizes {
    std::size_t send, recv;
    std::size_t send_at = 0, recv_at = 0;
};

inline Sizes sizes_of(const Operation& what, int rank, int ranks) {
    const bool is_root = rank == what.root;
    const std::size_t one = what.count, all = one * static_cast<std::size_t>(ranks),
                      own = one * static_cast<std::size_t>(rank);
    switch (what.collective) {
        case HKT_REDUCE_SCATTER:
            return {all, one, 0, own};
        case HKT_REDUCE:
            return {one, is_root ? one : 0};
        case HKT_BROADCAST:
            return {is_root ? one : 0, one};
        case HKT_ALL_GATHER:
            return {one, all, own, 0};
        case HKT_GATHER:
            return is_root ? Sizes{one, all, own, 0} : Sizes{one, 0};
        case HKT_SCATTER:
            return is_root ? Sizes{all, one, 0, own} : Sizes{0, one};
        case HKT_ALL_TO_ALL:
            return {all, all};
        default:
            return {one, one};
    }
}

inline Plan plan_of(hkt_comm* comm, const Operation& what) {
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

// A rank's send and recv: apart, or in one buffer.
class Buffers {
  public:
    Buffers(const Cuda& cuda, const Sizes& sizes, std::size_t element, bool is_one)
        : sizes_(sizes),
          element_(element),
          is_one_(is_one),
          on_host_{Bytes(send_bytes(), std::byte{0x77}), Bytes(recv_bytes(), std::byte{0x77})},
          send_(cuda, std::max<std::size_t>(1, send_bytes())),
          recv_(cuda, std::max<std::size_t>(1, recv_bytes())) {}

    // The same on the host and on the device. input: of sizes.send elements.
    void write(const Bytes& input) {
        on_host_ = {Bytes(send_bytes(), std::byte{0x77}), Bytes(recv_bytes(), std::byte{0x77})};
        std::ranges::copy(input, on_host_[0].begin() + offset(send_at()));
        send_.write(on_host_[0]);
        recv_.write(on_host_[1]);
    }
    const std::byte* send(bool on_device) const {
        return (on_device ? send_.data() : on_host_[0].data()) + send_at() * element_;
    }
    std::byte* recv(bool on_device) {
        std::byte* const block = is_one_     ? (on_device ? send_.data() : on_host_[0].data())
                                 : on_device ? recv_.data()
                                             : on_host_[1].data();
        return block + (is_one_ ? sizes_.recv_at * element_ : 0);
    }
    // In place, nobody promises what the rest of send becomes.
    void compare(const std::string& name) const {
        const Bytes sent = first(send_.read(), send_bytes()), received = first(recv_.read(), recv_bytes());
        const auto result = [&](const Bytes& block) {
            const auto begin = block.begin() + offset(sizes_.recv_at);
            return Bytes(begin, begin + offset(sizes_.recv));
        };
        if (is_one_)
            return expect(result(sent) == result(on_host_[0]),
                          name + ": another result on a device, in place");
        expect(sent == on_host_[0], name + ": it wrote to what it sends");
        expect(received == on_host_[1], name + ": another result on a device");
    }

  private:
    std::size_t send_at() const { return is_one_ ? sizes_.send_at : 0; }
    std::size_t send_bytes() const {
        return element_ *
               (is_one_ ? std::max(sizes_.send_at + sizes_.send, sizes_.recv_at + sizes_.recv) : sizes_.send);
    }
    std::size_t recv_bytes() const { return is_one_ ? 0 : element_ * sizes_.recv; }
    std::ptrdiff_t offset(std::size_t elements) const {
        return static_cast<std::ptrdiff_t>(elements * element_);
    }
    static Bytes first(Bytes bytes, std::size_t count) {
        bytes.resize(count);
        return bytes;
    }

    const Sizes sizes_;
    const std::size_t element_;
    const bool is_one_;
    std::array<Bytes, 2> on_host_;
    const DeviceMemory send_, recv_;
};

// The same start on memory of the host and on a device, twice. kernels: by each start on a device; nullopt:
// any number.
inline void check(const Cuda& cuda, hkt_comm* comm, const Operation& what,
                  std::optional<std::size_t> kernels = 1) {
    const int rank = hkt_comm_rank(comm);
    const Sizes sizes = sizes_of(what, rank, hkt_comm_size(comm));
    const Plan plan = plan_of(comm, what);
    Buffers buffers(cuda, sizes, element_size(what.type), what.in_place && sizes.send > 0 && sizes.recv > 0);
    for (int start = 0; start < 2; ++start) {
        buffers.write(random_elements(what.type, sizes.send, static_cast<std::uint64_t>(97 * rank + start)));
        must(comm, hkt_plan_start(plan.get(), buffers.send(false), buffers.recv(false), what.count, nullptr));
        const std::size_t before = launches(cuda);
        must(comm, hkt_plan_start(plan.get(), buffers.send(true), buffers.recv(true), what.count, nullptr));
        if (Cuda::is_fake() && kernels)
            expect(launches(cuda) - before == *kernels, std::to_string(launches(cuda) - before) + " kernels");
        buffers.compare(what.schedule);
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
