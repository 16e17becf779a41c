// Collectives of memory of devices as kernels of the devices: the host's bits.
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tests/capi/device/plans.hpp"
#include "tests/runtime/engine/random_schedules.hpp"
#include "tests/support/long_form.hpp"
#include "tests/support/tally.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace hocket;
using namespace hocket::test;

namespace {

std::vector<Operation> library_for(int ranks) {
    std::vector<Operation> all;
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
    add(HKT_ALL_GATHER, {"ring", "direct", "default"});
    add(HKT_BROADCAST, {"direct", "binomial", "tree", "chain(3)", "scatter", "default"});
    add(HKT_GATHER, {"direct", "binomial", "default"});
    add(HKT_SCATTER, {"direct", "binomial", "default"});
    add(HKT_ALL_TO_ALL, {"direct", "pairwise", "bruck", "default"});
    return all;
}

}  // namespace

TEST_CASE("the library's schedules give the host's bits as kernels of devices") {
    for (const std::string hosts : {"aa", "aaa", "aaaa"}) {
        INFO(hosts);
        CHECK(run_on_devices(
                  hosts,
                  [&](const Cuda& cuda, hkt_comm* comm) {
                      // With each 5th, each schedule occurs on some number of ranks, in place or not.
                      std::size_t number = hosts.size() * 2;
                      for (const Operation& what : library_for(static_cast<int>(hosts.size())))
                          if (number++ % in_long_form(1u, 5u) == 0) check(cuda, comm, what);
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
                if (number % in_long_form(1u, 5u) != 0) continue;  // that is each operator, of some type
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

TEST_CASE("a rank whose count is 0 has no recv, and combines with the others' kernels") {
    CHECK(run_on_devices(
              "aaa",
              [&](const Cuda& cuda, hkt_comm* comm) {
                  const auto rank = static_cast<std::size_t>(hkt_comm_rank(comm));
                  const std::size_t counts[] = {7000, 0, 9000};
                  const Bytes from = random_elements(DataType::float32, 16'000, rank);
                  Bytes wanted(4 * counts[rank]);
                  const DeviceMemory send(cuda, from.size()), recv(cuda, wanted.size() + 1);
                  send.write(from);
                  const auto reduce = [&](const void* in, void* out) {
                      must(comm, hkt_reduce_scatter_v(in, rank == 1 ? nullptr : out, counts, HKT_FLOAT32,
                                                      HKT_SUM, comm, nullptr));
                  };
                  for (int start = 0; start < 2; ++start) {
                      reduce(from.data(), wanted.data());
                      const std::size_t before = launches(cuda);
                      reduce(send.data(), recv.data());
                      if (Cuda::is_fake()) expect(launches(cuda) == before + 1, "it is no kernel");
                      Bytes received = recv.read();
                      received.resize(wanted.size());
                      expect(received == wanted, "another result on a device");
                  }
              },
              on) == "");
}

TEST_CASE("counts by rank move on devices as on the host, also if one is 0") {
    CHECK(run_on_devices(
              "aaaa",
              [&](const Cuda& cuda, hkt_comm* comm) {
                  const auto rank = static_cast<std::size_t>(hkt_comm_rank(comm));
                  std::mt19937_64 random(23);  // the same on all ranks
                  for (int start = 0; start < 12; ++start) {
                      std::vector<std::size_t> counts;
                      std::size_t all = 0;
                      for (int i = 0; i < 4; ++i)
                          all += counts.emplace_back(1 + random() % (start < 8 ? 9000 : 90'000));
                      const auto root = static_cast<std::int32_t>(random() % 4);
                      const bool has_empty = start % 4 == 3, is_root = root == hkt_comm_rank(comm);
                      if (has_empty) all -= std::exchange(counts[random() % 4], 0);
                      const auto run = [&](const void* in, void* out) {
                          if (start % 3 == 0)
                              return hkt_all_gather_v(in, out, counts.data(), HKT_INT16, comm, nullptr);
                          if (start % 3 == 1)
                              return hkt_gather_v(in, out, counts.data(), HKT_INT16, root, comm, nullptr);
                          return hkt_scatter_v(in, out, counts.data(), HKT_INT16, root, comm, nullptr);
                      };
                      const std::size_t piece = 2 * counts[rank];
                      const bool sends_all = start % 3 == 2 && is_root,
                                 takes_all = start % 3 == 0 || (start % 3 == 1 && is_root);
                      const std::size_t sent = sends_all        ? 2 * all
                                               : start % 3 == 2 ? 0
                                                                : piece,
                                        received = takes_all        ? 2 * all
                                                   : start % 3 == 1 ? 0
                                                                    : piece;
                      const Bytes from = contents(sent, static_cast<int>(rank) + start);
                      Bytes wanted(received);
                      const DeviceMemory send(cuda, sent + 1), recv(cuda, received + 1);
                      Bytes padded = from;
                      padded.resize(sent + 1);
                      send.write(padded);
                      must(comm, run(from.data(), wanted.data()));
                      const std::size_t before = launches(cuda);
                      must(comm, run(sent > 0 ? send.data() : nullptr, received > 0 ? recv.data() : nullptr));
                      // A rank without a buffer cannot know where the others' are.
                      const bool is_kernel = start % 3 == 0 || !has_empty;
                      if (Cuda::is_fake())
                          expect(launches(cuda) == before + (is_kernel ? 1 : 0), "not the way expected");
                      Bytes got = recv.read();
                      got.resize(received);
                      expect(got == wanted, "another result on a device in start " + std::to_string(start));
                  }
              },
              on) == "");
}

TEST_CASE("a collective of a file is a kernel if every rank has a buffer") {
    const TemporaryFolder folder;
    const std::string file = folder.path() + "/own.sched";
    std::ofstream(file) << "collective handed(x) over g {\n"
                           "    before x : 0\n"
                           "    after  x : 1 = x : 0\n"
                           "}\n"
                           "algorithm one handed(x) over g { x : 0 -> 1 }\n"
                           "collective around(x) over g {\n"
                           "    before each r in g  x : r\n"
                           "    after  each r in g  x : r + 1 = x : r\n"
                           "}\n"
                           "algorithm all around(x) over g { each r in g  x : r -> r + 1 }\n";
    CHECK(run_on_devices(
              "aaa",
              [&](const Cuda& cuda, hkt_comm* comm) {
                  const int rank = hkt_comm_rank(comm);
                  for (const bool is_around : {false, true}) {
                      hkt_plan_options options = HKT_PLAN_OPTIONS_INIT;
                      const std::string collective = file + (is_around ? ":around" : ":handed"),
                                        schedule = file + (is_around ? ":all" : ":one");
                      options.collective = collective.c_str();
                      options.schedule = schedule.c_str();
                      hkt_plan* made = nullptr;
                      must(comm,
                           hkt_plan_create(comm, HKT_ALL_REDUCE, HKT_FLOAT32, HKT_SUM, &options, &made));
                      const Plan plan(made);
                      const DeviceMemory send(cuda, 80'000), recv(cuda, 80'000);
                      send.write(contents(80'000, rank));
                      const std::size_t before = launches(cuda);
                      must(comm, hkt_plan_start(plan.get(), send.data(), recv.data(), 20'000, nullptr));
                      if (Cuda::is_fake())
                          expect(launches(cuda) == before + (is_around ? 1 : 0), "not the way expected");
                      if (is_around || rank == 1)
                          expect(recv.read() == contents(80'000, is_around ? (rank + 2) % 3 : 0),
                                 "another result of " + collective);
                  }
              },
              on) == "");
}

TEST_CASE("small inputs go by packets, in turn with larger ones, and give the host's bits") {
    struct Way {
        const char* most;  // HOCKET_CUDA_PACKETS of rank 1
        std::size_t bytes;
    };
    for (const Way way : {Way{"16384", 16384}, Way{"1000", 1000}, Way{"0", 0}}) {
        INFO("at most " << way.most << " bytes");
        const auto outcomes = run_on_a_host(3, {}, [&](int rank, const Cuda& cuda) {
            if (rank == 1) setenv("HOCKET_CUDA_PACKETS", way.most, 1);
            const Comm comm = join();
            must(comm.get(), hkt_comm_set_stream(comm.get(), nullptr));  // the driver is known from now on
            std::mt19937_64 random(31);                                  // the same on all ranks
            const hkt_collective collectives[] = {HKT_ALL_REDUCE, HKT_REDUCE_SCATTER, HKT_ALL_GATHER,
                                                  HKT_ALL_TO_ALL, HKT_BROADCAST};
            const DataType types[] = {DataType::float32, DataType::int8, DataType::bfloat16};
            for (int i = 0; i < in_long_form(40, 10); ++i) {
                const std::size_t which = static_cast<std::size_t>(i) % std::size(collectives);
                Operation what{.collective = collectives[which],
                               .schedule = which == 0 ? "exchange" : "direct",
                               .type = types[random() % std::size(types)],
                               .in_place = random() % 2 == 0};
                const std::size_t element = element_size(what.type),
                                  parts = which == 1 || which == 3 ? 3 : 1;  // of the input
                // Some at the limit, and just beyond it.
                const std::size_t bytes =
                    random() % 3 == 0 ? way.bytes + random() % 3 * element : 1 + random() % 20'000;
                what.count = std::max<std::size_t>(1, bytes / element / parts);
                const bool is_small = which < 4 && sizes_of(what, rank, 3).send * element <= way.bytes;
                const auto before = Cuda::is_fake() ? cuda.count("by packets") : 0;
                check(cuda, comm.get(), what);
                if (Cuda::is_fake())
                    expect(cuda.count("by packets") - before == (is_small ? 2u : 0u), "not the way expected");
            }
        });
        CHECK(problems(outcomes) == "");
    }
}

TEST_CASE("a barrier has no kernel") {
    if (!Cuda::is_fake()) HOCKET_SKIP("a real driver does not count calls");
    CHECK(run_on_devices(
              "aa",
              [&](const Cuda& cuda, hkt_comm* comm) {
                  const DeviceMemory memory(cuda, 4);
                  must(comm, hkt_comm_set_stream(comm, nullptr));  // the driver is known from now on
                  must(comm, hkt_barrier(comm));
                  expect(cuda.count("cuModuleLoadData") == 0, "a kernel was loaded");
              },
              on) == "");
}

TEST_CASE("random schedules give the host's bits as kernels of devices") {
    const TemporaryFolder folder;
    const Seeds seeds = seeds_from("HOCKET_DEVICE_SEEDS", {1, in_long_form(120u, 25u)});
    const std::map<dsl::Collective, hkt_collective> known = {
        {dsl::Collective::all_reduce, HKT_ALL_REDUCE}, {dsl::Collective::reduce_scatter, HKT_REDUCE_SCATTER},
        {dsl::Collective::reduce, HKT_REDUCE},         {dsl::Collective::all_gather, HKT_ALL_GATHER},
        {dsl::Collective::broadcast, HKT_BROADCAST},   {dsl::Collective::gather, HKT_GATHER},
        {dsl::Collective::scatter, HKT_SCATTER},       {dsl::Collective::all_to_all, HKT_ALL_TO_ALL}};
    std::size_t compared = 0;
    const Tally as_kernels;
    for (const auto& [ranks, all] : random_schedules(folder.path(), seeds, 4)) {
        INFO(ranks << " ranks");
        compared += static_cast<std::size_t>(std::count_if(
            all.begin(), all.end(), [&](const auto& one) { return known.contains(one.collective); }));
        const auto outcomes = run_on_a_host(ranks, {}, [&](int rank, const Cuda& cuda) {
            for (const RandomSchedule& one : all) {
                const auto collective = known.find(one.collective);
                if (collective == known.end()) continue;
                hkt_comm_options options = HKT_COMM_OPTIONS_INIT;
                options.topology = one.topology.c_str();
                const Comm comm = join(&options);
                const DataType type = one.seed % 3 == 0 ? DataType::bfloat16 : DataType::float32;
                try {
                    // A schedule that computes, or has too many pieces, goes by way of the host.
                    const Operation what{.collective = collective->second,
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
                  const hkt_collective collectives[] = {HKT_ALL_REDUCE, HKT_REDUCE_SCATTER, HKT_ALL_GATHER,
                                                        HKT_ALL_TO_ALL, HKT_BROADCAST};
                  for (int i = 0; i < in_long_form(24, 8); ++i) {
                      const DataType type = types[random() % std::size(types)];
                      const std::size_t least = (std::size_t{16} << 10) / element_size(type) + 1;
                      const Operation what{.collective = collectives[random() % std::size(collectives)],
                                           .schedule = random() % 2 == 0 ? "direct" : "default",
                                           .type = type,
                                           .count = least + random() % 100'000,
                                           .in_place = random() % 2 == 0};
                      check(cuda, comm, what);
                  }
              },
              on) == "");
}

// To free memory waits for the device, and so for ranks that are ahead.
TEST_CASE("ranks that are threads of one process give the host's bits as kernels of devices") {
    for (const std::vector<int>& ranks_of : {std::vector{3}, std::vector{2, 1}}) {
        INFO(ranks_of.size() << " processes");
        run_threads(ranks_of, [&](const Cuda& cuda, hkt_comm* comm) {
            const Operation what{.collective = HKT_ALL_REDUCE};
            const DeviceMemory send(cuda, 4 * what.count), recv(cuda, 4 * what.count);
            DeviceStream stream(cuda);
            must(comm, hkt_comm_set_stream(comm, stream.handle()));
            for (const char* schedule : {"direct", "ring", "double_tree"})
                for (const bool in_place : {false, true}) {
                    const Plan plan = plan_of(comm, {.collective = HKT_ALL_REDUCE, .schedule = schedule});
                    for (int start = 0; start < 3; ++start) {
                        Bytes from = random_elements(what.type, what.count,
                                                     static_cast<std::uint64_t>(hkt_comm_rank(comm) + start));
                        send.write(from);
                        const DeviceMemory& result = in_place ? send : recv;
                        must(comm,
                             hkt_plan_start(plan.get(), send.data(), result.data(), what.count, nullptr));
                        must(comm, hkt_plan_start(plan.get(), from.data(), from.data(), what.count, nullptr));
                        expect(result.read(stream.handle()) == from, "another result on a device");
                    }
                }
            expect(hkt_comm_info(comm, "by_host") == std::string(), hkt_comm_info(comm, "by_host"));
            must(comm, hkt_barrier(comm));
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
                      hkt_request* request = nullptr;
                      must(comm, hkt_plan_start(plan.get(), memory.data(), memory.data(), 100'000, &request));
                      must(comm, hkt_wait(request));
                  };
                  start();
                  const auto counts = [&] {
                      std::vector<unsigned long long> all;
                      for (const char* function :
                           {"cuMemAlloc", "cuMemFree", "cuMemHostAlloc", "cuMemFreeHost", "cuModuleLoadData",
                            "cuIpcOpenMemHandle", "cuIpcCloseMemHandle", "cuStreamCreate", "cuEventCreate",
                            "cuMemsetD8Async", "cuMemcpyHtoDAsync"})
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
                  const Operation what{.collective = HKT_ALL_REDUCE, .schedule = "direct"};
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

TEST_CASE("a rank that changes to another context of its device is told so, and the others, too") {
    const auto outcomes = run_on_a_host(2, {{"HOCKET_TIMEOUT_MS", "8000"}}, [&](int rank, const Cuda& cuda) {
        const Comm comm = join();
        const Operation what{.collective = HKT_ALL_REDUCE, .schedule = "ring"};
        const Plan plan = plan_of(comm.get(), what);
        const DeviceMemory first(cuda, 4 * what.count);
        must(comm.get(), hkt_plan_start(plan.get(), first.data(), first.data(), what.count, nullptr));
        must(comm.get(), hkt_barrier(comm.get()));
        void* other = nullptr;
        if (rank == 1) must(cuda.context_create(&other, 0, 0), "cuCtxCreate");
        const DeviceMemory second(cuda, 4 * what.count);
        hkt_request* request = nullptr;
        hkt_status status = hkt_plan_start(plan.get(), second.data(), second.data(), what.count, &request);
        if (status == HKT_SUCCESS) status = hkt_wait(request);
        expect(status == HKT_ERROR_DEVICE, hkt_error_string(status));
        expect_in(hkt_comm_last_error(comm.get()), "in another context");
    });
    CHECK(problems(outcomes) == "");
}
