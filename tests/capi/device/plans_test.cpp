// Collectives that combine memory of devices as kernels of the devices (HOCKET_CUDA_PLANS).
#include <algorithm>
#include <cmath>
#include <csignal>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "capi/vocabulary.hpp"
#include "tests/capi/device/messages.hpp"
#include "tests/runtime/engine/random_schedules.hpp"
#include "tests/support/random_elements.hpp"
#include "tests/support/tally.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using namespace hocket::test;

namespace {

using Environment = std::map<std::string, std::string>;
const Environment on = {{"HOCKET_CUDA_PLANS", "on"}};

Environment with(Environment more) {
    more.insert(on.begin(), on.end());
    return more;
}

struct Combining {
    hkt_collective collective;
    std::string schedule;
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

Sizes sizes_of(const Combining& what, int rank, int ranks) {
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

struct DestroyPlan {
    void operator()(hkt_plan* plan) const { hkt_plan_destroy(plan); }
};
using Plan = std::unique_ptr<hkt_plan, DestroyPlan>;

Plan plan_of(hkt_comm* comm, const Combining& what) {
    hkt_plan_options options = HKT_PLAN_OPTIONS_INIT;
    options.schedule = what.schedule.c_str();
    options.root = what.root;
    hkt_plan* plan = nullptr;
    const hkt_type type = capi::all_types[static_cast<std::size_t>(what.type)];
    must(comm, hkt_plan_create(comm, what.collective, type, what.op, &options, &plan));
    return Plan(plan);
}

Bytes random_elements(DataType type, std::size_t count, std::uint64_t seed) {
    Bytes bytes(count * element_size(type));
    std::mt19937_64 random(seed);
    fill_with_random(type, bytes.data(), count, random);
    return bytes;
}

// Launches of plans' kernels by this process, where that can be counted.
std::size_t launches(const Cuda& cuda) {
    return Cuda::is_fake() ? cuda.count("cuLaunchKernel") : 0;
}

// The same start on memory of the host and on a device, twice. kernels: by each start on a device; nullopt:
// any number.
void check(const Cuda& cuda, hkt_comm* comm, const Combining& what, std::optional<std::size_t> kernels = 1) {
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

std::vector<Combining> library_for(int ranks) {
    std::vector<Combining> all;
    const auto add = [&](hkt_collective collective, std::initializer_list<const char*> schedules) {
        for (const char* schedule : schedules)
            for (const bool in_place : {false, true})
                all.push_back({.collective = collective,
                               .schedule = schedule,
                               .root = static_cast<int>(all.size()) % ranks,
                               .in_place = in_place});
    };
    add(HKT_ALL_REDUCE, {"direct", "ring", "double_tree", "flat", "exchange", "reproducible", "default"});
    if ((ranks & (ranks - 1)) == 0) add(HKT_ALL_REDUCE, {"halving"});
    add(HKT_REDUCE_SCATTER, {"direct", "ring", "default"});
    add(HKT_REDUCE, {"direct", "binomial", "default"});
    return all;
}

void expect_in(const std::string& text, const std::string& part) {
    expect(text.find(part) != std::string::npos, "\"" + part + "\" is not in: " + text);
}

// Ranks of one host, which may fail, and then may leave something behind.
std::vector<Outcome> run_on_a_host(int ranks, Environment more,
                                   const std::function<void(int, const Cuda&)>& body) {
    more.emplace("FAKE_CUDA_DELAY_US", "60");
    return run_ranks({ranks, with(std::move(more)), 50}, [&](int rank) {
        setenv("HOCKET_HOST_ID", "a", 1);
        body(rank, Cuda::load());
    });
}

// Each rank is a thread; ranks_of: by process.
void run_threads(const std::vector<int>& ranks_of, const std::function<void(const Cuda&, hkt_comm*)>& body) {
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

}  // namespace

// ---- The host's bits ----------------------------------------------------------------------------

TEST_CASE("the library's schedules that combine give the host's bits as kernels of devices") {
    for (const std::string hosts : {"aa", "aaa", "aaaa"}) {
        INFO(hosts);
        CHECK(run_on_devices(
                  hosts,
                  [&](const Cuda& cuda, hkt_comm* comm) {
                      for (const Combining& what : library_for(static_cast<int>(hosts.size())))
                          check(cuda, comm, what);
                      if (Cuda::is_fake())
                          expect(cuda.count("cuMemcpyDtoHAsync") == 0, "something went by way of the host");
                      expect(hkt_comm_info(comm, "by_host") == std::string(), hkt_comm_info(comm, "by_host"));
                  },
                  on) == "");
    }
}

TEST_CASE("kernels of devices combine every type by every operator as the host does") {
    for (const DataType type : all_types) {
        INFO(name_of(type));
        const auto check_all = [&](const Cuda& cuda, hkt_comm* comm) {
            std::size_t number = static_cast<std::size_t>(type);
            for (const ReduceOp op : all_ops) {
                if (!supports(op, type)) continue;
                ++number;
                hkt_op given = capi::all_ops[static_cast<std::size_t>(op)];
                const double factor = row_of(type).kind == kind::floating ? 0.37 : 1;
                if (row_of(op).multiplies)
                    must(comm, hkt_premul_sum_create(factor + hkt_comm_rank(comm), comm, &given));
                check(cuda, comm,
                      {.collective = number % 3 == 0 ? HKT_REDUCE_SCATTER : HKT_ALL_REDUCE,
                       .schedule = number % 2 == 0 ? "ring" : "direct",
                       .type = type,
                       .op = given,
                       .count = 17'000 + number,
                       .in_place = number % 4 < 2});
            }
        };
        CHECK(run_on_devices("aaa", check_all, on) == "");
    }
}

TEST_CASE("operators of schedule files combine on devices as on the host") {
    const TemporaryFolder folder;
    const std::string file = folder.path() + "/mine.sched";
    std::ofstream(file) << "operator absmax(a, b) commutative associative = select(abs(a) >= abs(b), a, b)\n"
                           "operator drift(a, b) = b - 0.25 * a\n";
    CHECK(run_on_devices(
              "aaa",
              [&](const Cuda& cuda, hkt_comm* comm) {
                  for (const char* name : {"absmax", "drift"})
                      for (const DataType type : {DataType::float32, DataType::bfloat16}) {
                          hkt_op op = HKT_SUM;
                          must(comm, hkt_op_create(comm, (file + ":" + name).c_str(), &op));
                          check(cuda, comm,
                                {.collective = HKT_ALL_REDUCE, .schedule = "direct", .type = type, .op = op});
                      }
              },
              on) == "");
}

TEST_CASE("counts by rank combine on devices as on the host") {
    CHECK(run_on_devices(
              "aaaa",
              [&](const Cuda& cuda, hkt_comm* comm) {
                  const auto rank = static_cast<std::size_t>(hkt_comm_rank(comm));
                  std::mt19937_64 random(17);  // the same on all ranks
                  for (int start = 0; start < 4; ++start) {
                      std::vector<std::size_t> counts;
                      std::size_t all = 0;
                      for (int i = 0; i < 4; ++i) all += counts.emplace_back(3000 + random() % 9000);
                      const Bytes from = random_elements(DataType::float32, all, rank + 5);
                      Bytes wanted(4 * counts[rank]);
                      const DeviceMemory send(cuda, from.size()), recv(cuda, wanted.size());
                      send.write(from);
                      const auto reduce = [&](const void* in, void* out) {
                          must(comm, hkt_reduce_scatter_v(in, out, counts.data(), HKT_FLOAT32, HKT_SUM, comm,
                                                          nullptr));
                      };
                      reduce(from.data(), wanted.data());
                      const std::size_t before = launches(cuda);
                      reduce(send.data(), recv.data());
                      if (Cuda::is_fake()) expect(launches(cuda) == before + 1, "it is no kernel");
                      expect(recv.read() == wanted, "another result on a device");
                  }
              },
              on) == "");
}

TEST_CASE("random schedules that combine give the host's bits as kernels of devices") {
    const TemporaryFolder folder;
    const Seeds seeds = seeds_from("HOCKET_DEVICE_SEEDS", {1, 120});
    const std::map<dsl::Collective, hkt_collective> combining = {
        {dsl::Collective::all_reduce, HKT_ALL_REDUCE},
        {dsl::Collective::reduce_scatter, HKT_REDUCE_SCATTER},
        {dsl::Collective::reduce, HKT_REDUCE}};
    std::size_t compared = 0;
    const Tally as_kernels;
    for (const auto& [ranks, all] : random_schedules(folder.path(), seeds, 4)) {
        INFO(ranks << " ranks");
        compared += static_cast<std::size_t>(std::count_if(
            all.begin(), all.end(), [&](const auto& one) { return combining.contains(one.collective); }));
        const auto outcomes = run_on_a_host(ranks, {}, [&](int rank, const Cuda& cuda) {
            for (const RandomSchedule& one : all) {
                const auto collective = combining.find(one.collective);
                if (collective == combining.end()) continue;
                hkt_comm_options options = HKT_COMM_OPTIONS_INIT;
                options.topology = one.topology.c_str();
                const Comm comm = join(&options);
                const DataType type = one.seed % 3 == 0 ? DataType::bfloat16 : DataType::float32;
                try {
                    // A schedule that computes, or has too many pieces, goes by way of the host.
                    const Combining what{.collective = collective->second,
                                         .schedule = one.schedule,
                                         .type = type,
                                         .count = 17'001 + one.seed * 13,
                                         .root = static_cast<int>(one.root),
                                         .in_place = one.seed % 2 == 0};
                    const std::size_t before = launches(cuda);
                    check(cuda, comm.get(), what, std::nullopt);
                    const bool is_kernel = launches(cuda) > before;
                    if (Cuda::is_fake())
                        expect(is_kernel == (hkt_comm_info(comm.get(), "by_host") == std::string()),
                               "no kernel, and no reason, or both");
                    if (is_kernel && rank == 0) as_kernels.add();
                } catch (const std::exception& error) {
                    throw std::runtime_error("seed " + std::to_string(one.seed) + ": " + error.what() + "\n" +
                                             hkt_comm_info(comm.get(), "by_host"));
                }
            }
        });
        CHECK(problems(outcomes) == "");
    }
    WARN(compared << " schedules compared, " << as_kernels.value() << " as kernels");
    CHECK(compared >= (seeds.last - seeds.first) / 10);
    if (Cuda::is_fake()) CHECK(as_kernels.value() >= static_cast<int>(compared / 2));
}

TEST_CASE("random counts of several types, started in turn, give the host's bits") {
    CHECK(run_on_devices(
              "aaaa",
              [&](const Cuda& cuda, hkt_comm* comm) {
                  std::mt19937_64 random(4711);  // the same on all ranks
                  const DataType types[] = {DataType::float32, DataType::float16, DataType::int8,
                                            DataType::float64};
                  for (int i = 0; i < 12; ++i) {
                      const DataType type = types[random() % std::size(types)];
                      const std::size_t least = (std::size_t{16} << 10) / element_size(type) + 1;
                      const Combining what{
                          .collective = random() % 2 == 0 ? HKT_ALL_REDUCE : HKT_REDUCE_SCATTER,
                          .schedule = random() % 2 == 0 ? "direct" : "ring",
                          .type = type,
                          .count = least + random() % 100'000,
                          .in_place = random() % 2 == 0};
                      check(cuda, comm, what);
                  }
              },
              on) == "");
}

// The other threads may allocate while a kernel waits, and wait for it.
TEST_CASE("ranks that are threads of one process combine by way of the host, and say so") {
    for (const std::vector<int>& ranks_of : {std::vector{3}, std::vector{2, 2}, std::vector{1, 2}}) {
        INFO(ranks_of.size() << " processes");
        run_threads(ranks_of, [&](const Cuda& cuda, hkt_comm* comm) {
            for (const bool in_place : {false, true})
                for (const char* schedule : {"direct", "ring"}) {
                    const Combining what{
                        .collective = HKT_ALL_REDUCE, .schedule = schedule, .in_place = in_place};
                    const std::size_t element = 4;
                    const Plan plan = plan_of(comm, what);
                    for (int start = 0; start < 3; ++start) {
                        Bytes from = random_elements(what.type, what.count,
                                                     static_cast<std::uint64_t>(hkt_comm_rank(comm) + start));
                        Bytes to(what.count * element);
                        const DeviceMemory send(cuda, from.size()), recv(cuda, from.size());
                        send.write(from);
                        must(comm, hkt_plan_start(plan.get(), from.data(), to.data(), what.count, nullptr));
                        const DeviceMemory& result = in_place ? send : recv;
                        must(comm,
                             hkt_plan_start(plan.get(), send.data(), result.data(), what.count, nullptr));
                        expect(result.read() == to, "another result on a device");
                    }
                }
            expect(launches(cuda) == 0, "a kernel waits for threads of its process");
            const std::string told = hkt_comm_info(comm, "by_host");
            const bool is_alone = ranks_of[0] == 1 && hkt_comm_rank(comm) == 0;
            for (const char* schedule : {"direct", "ring"})
                if (!is_alone)
                    expect_in(told, std::string("all_reduce by ") + schedule +
                                        ": ranks of the host are threads of one process");
            if (is_alone) expect_in(told, "cannot go from device to device");
        });
    }
}

TEST_CASE("ranks that differ in being in place give the host's bits") {
    CHECK(run_on_devices(
              "aaa",
              [&](const Cuda& cuda, hkt_comm* comm) {
                  for (const hkt_collective collective : {HKT_ALL_REDUCE, HKT_REDUCE_SCATTER})
                      for (const char* schedule : {"direct", "ring"})
                          for (int start = 0; start < 2; ++start)
                              check(cuda, comm,
                                    {.collective = collective,
                                     .schedule = schedule,
                                     .in_place = (hkt_comm_rank(comm) + start) % 2 == 1});
              },
              on) == "");
}

TEST_CASE("several starts in flight, of one plan and of others, give the host's bits") {
    CHECK(run_on_devices(
              "aaa",
              [&](const Cuda& cuda, hkt_comm* comm) {
                  constexpr std::size_t count = 30'000;
                  const Plan ring = plan_of(comm, {.collective = HKT_ALL_REDUCE, .schedule = "ring"}),
                             direct = plan_of(comm, {.collective = HKT_ALL_REDUCE, .schedule = "direct"});
                  DeviceStream stream(cuda);
                  must(comm, hkt_comm_set_stream(comm, stream.handle()));
                  std::vector<std::unique_ptr<DeviceMemory>> memory;
                  std::vector<hkt_request*> requests;
                  for (int i = 0; i < 6; ++i) {
                      memory.push_back(std::make_unique<DeviceMemory>(cuda, 4 * count));
                      memory.back()->write(
                          random_elements(DataType::float32, count,
                                          static_cast<std::uint64_t>(10 * i + hkt_comm_rank(comm))));
                      if (i == 2) stream.be_busy(30);
                      requests.emplace_back();
                      must(comm, hkt_plan_start(i % 3 == 0 ? ring.get() : direct.get(), memory.back()->data(),
                                                memory.back()->data(), count, &requests.back()));
                  }
                  for (hkt_request* request : requests) must(comm, hkt_wait(request));
                  for (int i = 0; i < 6; ++i) {
                      Bytes wanted = random_elements(
                          DataType::float32, count, static_cast<std::uint64_t>(10 * i + hkt_comm_rank(comm)));
                      must(comm, hkt_plan_start(i % 3 == 0 ? ring.get() : direct.get(), wanted.data(),
                                                wanted.data(), count, nullptr));
                      expect(memory[static_cast<std::size_t>(i)]->read(stream.handle()) == wanted,
                             "another result of start " + std::to_string(i));
                  }
              },
              on) == "");
}

TEST_CASE("a warm start allocates, loads and opens nothing") {
    if (!Cuda::is_fake()) HOCKET_SKIP("a real driver does not count calls");
    CHECK(run_on_devices(
              "aaa",
              [&](const Cuda& cuda, hkt_comm* comm) {
                  const Plan plan = plan_of(comm, {.collective = HKT_ALL_REDUCE, .schedule = "ring"});
                  const DeviceMemory memory(cuda, 400'000);
                  const auto start = [&] {
                      must(comm, hkt_plan_start(plan.get(), memory.data(), memory.data(), 100'000, nullptr));
                  };
                  start();
                  const auto counts = [&] {
                      std::vector<unsigned long long> all;
                      for (const char* function :
                           {"cuMemAlloc", "cuMemFree", "cuMemHostAlloc", "cuMemFreeHost", "cuModuleLoadData",
                            "cuIpcOpenMemHandle", "cuIpcCloseMemHandle", "cuStreamCreate", "cuEventCreate",
                            "cuMemsetD8Async"})
                          all.push_back(cuda.count(function));
                      return all;
                  };
                  const auto before = counts();
                  for (int i = 0; i < 5; ++i) start();
                  expect(counts() == before, "a warm start has called one of these functions");
              },
              on) == "");
}

TEST_CASE("plans that ranks have made at different times start together") {
    CHECK(run_on_devices(
              "aa",
              [&](const Cuda& cuda, hkt_comm* comm) {
                  const Combining what{.collective = HKT_ALL_REDUCE, .schedule = "direct"};
                  const Plan first = plan_of(comm, what), second = plan_of(comm, what);
                  const DeviceMemory memory(cuda, 80'044), host_like(cuda, 80'044);
                  for (int i = 0; i < 4; ++i) {
                      // Rank 1 uses two plans in turn, rank 0 one, which is the same to the others.
                      hkt_plan* const plan =
                          hkt_comm_rank(comm) == 1 && i % 2 == 1 ? second.get() : first.get();
                      Bytes wanted = random_elements(what.type, what.count, static_cast<std::uint64_t>(i));
                      memory.write(wanted);
                      must(comm, hkt_plan_start(plan, memory.data(), memory.data(), what.count, nullptr));
                      must(comm, hkt_plan_start(plan, wanted.data(), wanted.data(), what.count, nullptr));
                      expect(memory.read() == wanted, "another result");
                  }
              },
              on) == "");
}

// A kernel's memory is of one context, so there rank 1's kernel has been started less often than the others'.
TEST_CASE("a rank that changes to another context of its device combines with the others") {
    CHECK(
        run_on_devices(
            "aa",
            [&](const Cuda& cuda, hkt_comm* comm) {
                const Combining what{.collective = HKT_ALL_REDUCE, .schedule = "ring"};
                const Plan plan = plan_of(comm, what);
                void* other = nullptr;
                must(cuda.context_create(&other, 0, 0), "cuCtxCreate");
                for (int i = 0; i < 5; ++i) {
                    if (hkt_comm_rank(comm) == 1 && i % 2 == 1)
                        must(cuda.context_set_current(other), "cuCtxSetCurrent");
                    else
                        cuda.use_device(0);
                    Bytes wanted = random_elements(what.type, what.count, static_cast<std::uint64_t>(i));
                    const DeviceMemory memory(cuda, wanted.size());
                    memory.write(wanted);
                    const std::size_t before = launches(cuda);
                    must(comm, hkt_plan_start(plan.get(), memory.data(), memory.data(), what.count, nullptr));
                    if (Cuda::is_fake()) expect(launches(cuda) == before + 1, "it is no kernel");
                    must(comm, hkt_plan_start(plan.get(), wanted.data(), wanted.data(), what.count, nullptr));
                    expect(memory.read() == wanted, "another result");
                }
            },
            with({{"HOCKET_TIMEOUT_MS", "8000"}})) == "");
}

// ---- By way of the host -------------------------------------------------------------------------

TEST_CASE("starts that cannot be kernels go by way of the host, and say why once") {
    if (!Cuda::is_fake()) HOCKET_SKIP("a real device can");
    struct Way {
        const char* name;
        Environment more;  // of rank 1
        std::string told[2];
    };
    const std::string other = "rank 1 cannot go from device to device";
    const Way ways[] = {
        {"no IPC", {{"HOCKET_CUDA_IPC", "off"}}, {other, "all_reduce by ring: HOCKET_CUDA_IPC is off"}},
        {"blocking launches",
         {{"CUDA_LAUNCH_BLOCKING", "1"}},
         {other, "with CUDA_LAUNCH_BLOCKING=1 kernels"}},
        {"an old device",
         {{"FAKE_CUDA_CAPABILITY", "75"}},
         {other, "the device has compute capability 7.5, and kernels of plans need 8.0"}},
        {"a driver that refuses PTX", {{"FAKE_CUDA_CAPABILITY", "90"}}, {other, "cuModuleLoadData failed"}},
        {"no compiler", {{"HOCKET_JIT_LIBRARY", "/nonexistent.so"}}, {other, "/nonexistent.so"}},
    };
    for (const Way& way : ways) {
        INFO(way.name);
        const auto outcomes = run_on_a_host(2, {}, [&](int rank, const Cuda& cuda) {
            if (rank == 1)
                for (const auto& [name, value] : way.more) setenv(name.c_str(), value.c_str(), 1);
            const Comm comm = join();
            for (int i = 0; i < 2; ++i)
                check(cuda, comm.get(), {.collective = HKT_ALL_REDUCE, .schedule = "ring"}, 0);
            const std::string told = hkt_comm_info(comm.get(), "by_host");
            expect_in(told, way.told[rank]);
            expect(std::ranges::count(told, '\n') == 0, "it says so more than once: " + told);
        });
        CHECK(problems(outcomes) == "");
    }
}

TEST_CASE("a rank whose buffers are on the host takes the others with it") {
    CHECK(run_on_devices(
              "aaa",
              [&](const Cuda& cuda, hkt_comm* comm) {
                  constexpr std::size_t count = 20'000;
                  const Plan plan = plan_of(comm, {.collective = HKT_ALL_REDUCE, .schedule = "direct"});
                  for (int start = 0; start < 6; ++start) {
                      const bool is_on_host = start % 3 != 2 && hkt_comm_rank(comm) == start % 3;
                      Bytes wanted = random_elements(DataType::float32, count,
                                                     static_cast<std::uint64_t>(start + hkt_comm_rank(comm)));
                      Bytes host = wanted;
                      const DeviceMemory memory(cuda, 4 * count);
                      memory.write(host);
                      void* const data = is_on_host ? host.data() : memory.data();
                      const std::size_t before = launches(cuda);
                      must(comm, hkt_plan_start(plan.get(), data, data, count, nullptr));
                      if (Cuda::is_fake())
                          expect(launches(cuda) - before == (start % 3 == 2 ? 1u : 0u), "the other way");
                      must(comm, hkt_plan_start(plan.get(), wanted.data(), wanted.data(), count, nullptr));
                      expect((is_on_host ? host : memory.read()) == wanted, "another result");
                  }
              },
              on) == "");
}

TEST_CASE("without HOCKET_CUDA_PLANS combining goes by way of the host") {
    CHECK(run_on_devices("aa", [&](const Cuda& cuda, hkt_comm* comm) {
              check(cuda, comm, {.collective = HKT_ALL_REDUCE, .schedule = "ring"}, 0);
              expect_in(hkt_comm_info(comm, "by_host"), "HOCKET_CUDA_PLANS is off");
          }) == "");
}

TEST_CASE("ranks that differ in HOCKET_CUDA_PLANS are refused") {
    const auto outcomes = run_ranks({2, {}, 50}, [&](int rank) {
        setenv("HOCKET_CUDA_PLANS", rank == 0 ? "on" : "off", 1);
        hkt_comm* comm = nullptr;
        expect(hkt_comm_create(nullptr, &comm) == HKT_ERROR_MISMATCH, "it was not refused");
        expect_in(hkt_last_error(), "the ranks differ in HOCKET_CUDA_PLANS");
    });
    CHECK(problems(outcomes) == "");
}

// ---- Failures -----------------------------------------------------------------------------------

namespace {

constexpr std::size_t count = 50'000;

hkt_status start_ring(hkt_comm* comm, const DeviceMemory& memory, std::size_t elements,
                      hkt_request** request) {
    const Plan plan = plan_of(comm, {.collective = HKT_ALL_REDUCE, .schedule = "ring"});
    hkt_request* made = nullptr;
    hkt_status status = hkt_plan_start(plan.get(), memory.data(), memory.data(), elements, &made);
    if (status != HKT_SUCCESS) return status;
    if (request != nullptr) {
        *request = made;
        return HKT_SUCCESS;
    }
    return hkt_wait(made);
}

void expect_nothing_left(const Cuda& cuda) {
    for (const char* what : {"pinned", "streams", "events", "opened"})
        expect(cuda.count(what) == 0, std::string("left behind: ") + what);
}

}  // namespace

TEST_CASE("a rank that does not start is named when the deadline comes") {
    const Tally done;
    const auto outcomes = run_on_a_host(3, {{"HOCKET_TIMEOUT_MS", "1000"}}, [&](int rank, const Cuda& cuda) {
        {
            const DeviceMemory memory(cuda, 4 * count);
            const Comm comm = join();
            if (rank == 1) {
                done.await(2);
                return;
            }
            const hkt_status status = start_ring(comm.get(), memory, count, nullptr);
            done.add();
            const std::string text = hkt_comm_last_error(comm.get());
            expect(status == HKT_ERROR_TIMEOUT, std::string(hkt_error_string(status)) + ": " + text);
            expect_in(text, "rank 1");
        }
        if (Cuda::is_fake()) expect_nothing_left(cuda);
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("a rank that is late is waited for") {
    const auto outcomes = run_on_a_host(3, {{"HOCKET_TIMEOUT_MS", "20000"}}, [&](int rank, const Cuda& cuda) {
        const Comm comm = join();
        for (int late = 0; late < 3; ++late) {
            if (rank == late) std::this_thread::sleep_for(std::chrono::milliseconds(400));
            check(cuda, comm.get(), {.collective = HKT_ALL_REDUCE, .schedule = "ring"});
        }
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("ranks that start different things on devices are told so") {
    const auto outcomes = run_on_a_host(3, {{"HOCKET_TIMEOUT_MS", "5000"}}, [&](int rank, const Cuda& cuda) {
        const DeviceMemory memory(cuda, 4 * count);
        const Comm comm = join();
        const hkt_status status = start_ring(comm.get(), memory, rank == 2 ? count - 1 : count, nullptr);
        const std::string text = hkt_comm_last_error(comm.get());
        expect(status == HKT_ERROR_MISMATCH, std::string(hkt_error_string(status)) + ": " + text);
        expect_in(text, "rank 2");
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("a rank that dies while kernels wait for it is named, with the step that waits") {
    if (!Cuda::is_fake()) HOCKET_SKIP("a real driver cannot hold a kernel");
    const Tally launched;
    const auto outcomes = run_on_a_host(3, {}, [&](int rank, const Cuda& cuda) {
        {
            const DeviceMemory memory(cuda, 4 * count);
            const Comm comm = join();
            if (rank == 1) cuda.hold_kernels(1);
            hkt_request* request = nullptr;
            must(comm.get(), start_ring(comm.get(), memory, count, &request));
            hkt_status status = HKT_IN_PROGRESS;
            expect(eventually([&] {
                       status = hkt_test(request);
                       return status != HKT_IN_PROGRESS || launches(cuda) > 0;
                   }),
                   "it does not launch");
            launched.add();
            if (rank == 1) {
                launched.await(3);
                std::this_thread::sleep_for(std::chrono::milliseconds(300));  // the others' kernels wait
                raise(SIGKILL);
            }
            if (status == HKT_IN_PROGRESS) status = hkt_wait(request);
            const std::string text = hkt_comm_last_error(comm.get());
            expect(status == HKT_ERROR_PEER_LOST, std::string(hkt_error_string(status)) + ": " + text);
            expect_in(text, "rank 1 was lost");
            expect_in(text, "ring.sched:");
        }
        expect_nothing_left(cuda);
    });
    CHECK(outcomes[1].signal == SIGKILL);
    CHECK(outcomes[0].text + outcomes[2].text == "");
    CHECK((outcomes[0].ok && outcomes[2].ok));
}

// Rank 2 combines what rank 3 has with its own for rank 0, and then rank 3's kernel has nothing more to do.
TEST_CASE("a start ends when the kernels of all ranks have") {
    if (!Cuda::is_fake()) HOCKET_SKIP("a real driver cannot hold a kernel");
    const Tally launched, looked;
    const auto outcomes = run_on_a_host(4, {}, [&](int rank, const Cuda& cuda) {
        const DeviceMemory memory(cuda, 4 * count);
        const Comm comm = join();
        const Plan plan = plan_of(comm.get(), {.collective = HKT_REDUCE, .schedule = "binomial"});
        if (rank == 0) cuda.hold_kernels(1);
        hkt_request* request = nullptr;
        must(comm.get(), hkt_plan_start(plan.get(), memory.data(), memory.data(), count, &request));
        expect(eventually([&] {
                   (void)hkt_test(request);
                   return launches(cuda) > 0;
               }),
               "it does not launch");
        launched.meet(4);
        for (int i = 0; rank == 3 && i < 300; ++i) {
            expect(hkt_test(request) == HKT_IN_PROGRESS, "it has ended");
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        looked.meet(4);
        cuda.hold_kernels(0);
        must(comm.get(), hkt_wait(request));
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("a kernel that does not come is a timeout on all ranks, which names rank and line") {
    if (!Cuda::is_fake()) HOCKET_SKIP("a real driver cannot hold a kernel");
    for (const bool in_calls : {true, false}) {
        INFO((in_calls ? "the hosts wait" : "the hosts are in no call"));
        const auto outcomes =
            run_on_a_host(3, {{"HOCKET_TIMEOUT_MS", "1500"}}, [&](int rank, const Cuda& cuda) {
                const DeviceMemory memory(cuda, 4 * count);
                {
                    const Comm comm = join();
                    if (rank == 1) cuda.hold_kernels(1);
                    hkt_request* request = nullptr;
                    hkt_status status = start_ring(comm.get(), memory, count, &request);
                    if (status == HKT_SUCCESS) {
                        status = HKT_IN_PROGRESS;
                        eventually([&] {
                            status = hkt_test(request);
                            return status != HKT_IN_PROGRESS || launches(cuda) > 0;
                        });
                    }
                    if (!in_calls) {
                        // Meanwhile the clock of the host's deadline stands still, and a few tests do not
                        // take it there: the kernel's own deadline has passed.
                        std::this_thread::sleep_for(std::chrono::milliseconds(2500));
                        for (int i = 0; rank != 1 && status == HKT_IN_PROGRESS && i < 5; ++i) {
                            status = hkt_test(request);
                            if (status == HKT_IN_PROGRESS)
                                std::this_thread::sleep_for(std::chrono::milliseconds(100));
                        }
                        expect(rank == 1 || status != HKT_IN_PROGRESS, "its kernel has no deadline");
                    }
                    if (status == HKT_IN_PROGRESS) status = hkt_wait(request);
                    cuda.hold_kernels(0);
                    const std::string text = hkt_comm_last_error(comm.get());
                    expect(status == HKT_ERROR_TIMEOUT, std::string(hkt_error_string(status)) + ": " + text);
                    if (rank != 1) {
                        expect_in(text, "ring.sched:");
                        expect_in(text, "waiting for rank ");
                    }
                    // What is behind the kernel on the caller's stream goes on.
                    (void)memory.read();
                }
                // Rank 1's kernel had not ended when it had to go on, so other ranks' memory stays open
                // there.
                if (rank != 1) expect_nothing_left(cuda);
            });
        CHECK(problems(outcomes) == "");
    }
}

TEST_CASE("a device that lacks memory for a kernel is asked again, and says why once") {
    if (!Cuda::is_fake()) HOCKET_SKIP("a real driver does not fail on demand");
    const auto outcomes = run_on_a_host(2, {}, [&](int rank, const Cuda& cuda) {
        const DeviceMemory first(cuda, 4 * count), second(cuda, 4 * count);
        const Comm comm = join();
        constexpr int out_of_memory = 2;
        if (rank == 1) cuda.fail("cuMemAlloc", 0, out_of_memory);
        for (const DeviceMemory* memory : {&first, &second})
            must(comm.get(), start_ring(comm.get(), *memory, count, nullptr));
        expect(launches(cuda) == 0, "a kernel without memory");
        const std::string told = hkt_comm_info(comm.get(), "by_host");
        expect_in(told, rank == 1 ? "there is no memory for loading the kernel of all_reduce by ring"
                                  : "rank 1 cannot go from device to device");
        expect(std::ranges::count(told, '\n') == 0, "it says so more than once: " + told);
        if (rank == 1) cuda.fail("", 0, 0);
        must(comm.get(), start_ring(comm.get(), first, count, nullptr));
        expect(launches(cuda) == 1, "it is no kernel");
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("where the driver fails in a start that is a kernel, every rank is told") {
    if (!Cuda::is_fake()) HOCKET_SKIP("a real driver does not fail on demand");
    for (const char* function :
         {"cuLaunchKernel", "cuMemsetD8Async", "cuDeviceGetAttribute", "cuModuleLoadData",
          "cuFuncGetAttribute", "cuIpcOpenMemHandle", "cuEventRecord"}) {
        INFO(function);
        const Tally ready;
        const auto outcomes =
            run_on_a_host(3, {{"HOCKET_TIMEOUT_MS", "8000"}}, [&](int rank, const Cuda& cuda) {
                const DeviceMemory memory(cuda, 4 * count);
                const Comm comm = join();
                ready.meet(3);
                if (rank == 0) cuda.fail(function, 0, 719);
                const hkt_status status = start_ring(comm.get(), memory, count, nullptr);
                const std::string text = hkt_comm_last_error(comm.get());
                if (rank == 0) cuda.fail("", 0, 0);
                expect(status == HKT_ERROR_DEVICE, std::string(hkt_error_string(status)) + ": " + text);
                expect_in(text, std::string(function) + " failed: CUDA_ERROR_LAUNCH_FAILED");
            });
        CHECK(problems(outcomes) == "");
    }
}
