// Kernels of plans on the caller's stream, and in graphs.
#include <chrono>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "tests/capi/device/plans.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/long_form.hpp"
#include "tests/support/tally.hpp"

using namespace hocket;
using namespace hocket::test;

// ---- On the stream ------------------------------------------------------------------------------

TEST_CASE("a start returns at once, and its stream has the result") {
    CHECK(run_on_devices(
              "aaa",
              [&](const Cuda& cuda, hkt_comm* comm) {
                  const Operation what{.collective = HKT_ALL_REDUCE, .schedule = "ring"};
                  const Plan plan = plan_of(comm, what),
                             other = plan_of(comm, {.collective = HKT_ALL_REDUCE});
                  const DeviceMemory memory(cuda, 4 * what.count);
                  Bytes wanted =
                      random_elements(what.type, what.count, static_cast<std::uint64_t>(hkt_comm_rank(comm)));
                  DeviceStream stream(cuda), second(cuda);
                  const auto start = [&](hkt_plan* which, void* data) {
                      must(comm, hkt_plan_start(which, data, data, what.count, nullptr));
                  };
                  // The ranks meet for the first start of each plan.
                  for (hkt_plan* which : {plan.get(), other.get()}) start(which, memory.data());
                  memory.write(wanted);
                  must(comm, hkt_comm_set_stream(comm, stream.handle()));
                  stream.hold();
                  for (int i = 0; i < 10; ++i) start(i % 3 == 0 ? other.get() : plan.get(), memory.data());
                  // Behind those, on another stream.
                  const DeviceMemory beside(cuda, 4 * what.count);
                  beside.write(wanted);
                  must(comm, hkt_comm_set_stream(comm, second.handle()));
                  start(plan.get(), beside.data());
                  stream.go_on();
                  Bytes once = wanted;
                  start(plan.get(), once.data());
                  for (int i = 0; i < 10; ++i) start(i % 3 == 0 ? other.get() : plan.get(), wanted.data());
                  expect(memory.read(stream.handle()) == wanted, "another result");
                  expect(beside.read(second.handle()) == once, "another result beside it");
              },
              on) == "");
}

TEST_CASE("a failure of a start that nobody waits for comes with a later call") {
    if (!Cuda::is_fake()) HOCKET_SKIP("a real driver cannot hold a kernel");
    const Tally ready, done;
    const auto outcomes = run_on_a_host(3, {{"HOCKET_TIMEOUT_MS", "3000"}}, [&](int rank, const Cuda& cuda) {
        const Operation what{.collective = HKT_ALL_REDUCE, .schedule = "ring"};
        const DeviceMemory memory(cuda, 4 * what.count);
        const Comm comm = join();
        const Plan plan = plan_of(comm.get(), what);
        const auto start = [&] {
            return hkt_plan_start(plan.get(), memory.data(), memory.data(), what.count, nullptr);
        };
        ready.meet(3);  // they meet for the first start
        must(comm.get(), start());
        if (rank != 1) {
            must(comm.get(), start());
            expect(eventually([&] { return hkt_comm_status(comm.get()) != HKT_SUCCESS; }), "no error comes");
            const std::string text = hkt_comm_last_error(comm.get());
            expect(hkt_comm_status(comm.get()) == HKT_ERROR_TIMEOUT, text);
            expect_in(text, "waiting for rank ");
            expect_in(text, "ring.sched:");
            expect(start() == HKT_ERROR_TIMEOUT, "a start after that");
            done.add();
        } else {
            done.await(2);
        }
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("blocking starts alone leave no more behind than what is in flight") {
    if (!Cuda::is_fake()) HOCKET_SKIP("a real driver does not count events");
    CHECK(run_on_devices(
              "aa",
              [&](const Cuda& cuda, hkt_comm* comm) {
                  const Operation what{.collective = HKT_ALL_REDUCE, .schedule = "direct", .count = 5000};
                  const Plan plan = plan_of(comm, what);
                  const DeviceMemory memory(cuda, 4 * what.count);
                  DeviceStream stream(cuda);
                  must(comm, hkt_comm_set_stream(comm, stream.handle()));
                  for (int i = 1; i <= 200; ++i) {
                      must(comm,
                           hkt_plan_start(plan.get(), memory.data(), memory.data(), what.count, nullptr));
                      if (i % 20 == 0) must(cuda.stream_synchronize(stream.handle()), "cuStreamSynchronize");
                      if (i % 100 == 0)
                          expect(cuda.count("events") < 50, std::to_string(cuda.count("events")) + " events");
                  }
              },
              with({{"FAKE_CUDA_DELAY_US", "0"}})) == "");
}

TEST_CASE("a program that makes blocking starts alone is told of a rank that does not start") {
    if (!Cuda::is_fake()) HOCKET_SKIP("a real device may need longer");
    const Tally ready, done;
    const auto outcomes = run_on_a_host(3, {{"HOCKET_TIMEOUT_MS", "3000"}}, [&](int rank, const Cuda& cuda) {
        const Operation what{.collective = HKT_ALL_REDUCE, .schedule = "ring"};
        const DeviceMemory memory(cuda, 4 * what.count);
        const Comm comm = join();
        const Plan plan = plan_of(comm.get(), what);
        const auto start = [&] {
            return hkt_plan_start(plan.get(), memory.data(), memory.data(), what.count, nullptr);
        };
        ready.meet(3);
        must(comm.get(), start());
        if (rank == 1) {
            done.await(2);
            return;
        }
        hkt_status status = HKT_SUCCESS;
        for (int i = 0; i < 20 && status == HKT_SUCCESS; ++i) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1000));  // the host's clock stands still
            status = start();
        }
        const std::string text = hkt_comm_last_error(comm.get());
        done.add();
        expect(status == HKT_ERROR_TIMEOUT, std::string(hkt_error_string(status)) + ": " + text);
        expect_in(text, "waiting for rank ");
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("a start comes behind earlier ones on other streams, also if one was captured between them") {
    CHECK(run_on_devices(
              "aa",
              [&](const Cuda& cuda, hkt_comm* comm) {
                  const Operation what{.collective = HKT_ALL_REDUCE, .schedule = "ring"};
                  const Plan plan = plan_of(comm, what);
                  const DeviceMemory first(cuda, 4 * what.count), second(cuda, 4 * what.count);
                  DeviceStream one(cuda), captured(cuda), other(cuda);
                  const auto start = [&](DeviceStream& stream, const DeviceMemory& memory,
                                         hkt_request** request) {
                      must(comm, hkt_comm_set_stream(comm, stream.handle()));
                      must(comm,
                           hkt_plan_start(plan.get(), memory.data(), memory.data(), what.count, request));
                  };
                  start(one, first, nullptr);
                  must(cuda.stream_synchronize(one.handle()), "cuStreamSynchronize");
                  one.hold();
                  start(one, first, nullptr);
                  const DeviceGraph graph(cuda, captured.handle(), [&] { start(captured, first, nullptr); });
                  hkt_request* request = nullptr;
                  start(other, second, &request);
                  for (int i = 0; i < 100; ++i) {
                      expect(hkt_test(request) == HKT_IN_PROGRESS, "it came before an earlier one");
                      std::this_thread::sleep_for(std::chrono::milliseconds(2));
                  }
                  one.go_on();
                  must(comm, hkt_wait(request));
              },
              on) == "");
}

TEST_CASE("a start waits for room for its arguments, and takes no memory while kernels run") {
    if (!Cuda::is_fake()) HOCKET_SKIP("a real driver does not count calls");
    CHECK(run_on_devices(
              "aa",
              [&](const Cuda& cuda, hkt_comm* comm) {
                  const Operation what{.collective = HKT_ALL_REDUCE, .schedule = "ring", .count = 2000};
                  const Plan plan = plan_of(comm, what);
                  const DeviceMemory memory(cuda, 4 * what.count);
                  DeviceStream stream(cuda);
                  must(comm, hkt_comm_set_stream(comm, stream.handle()));
                  const auto start = [&](void* data, std::size_t count) {
                      must(comm, hkt_plan_start(plan.get(), data, data, count, nullptr));
                  };
                  start(memory.data(), what.count);
                  Bytes wanted =
                      random_elements(what.type, what.count, static_cast<std::uint64_t>(hkt_comm_rank(comm)));
                  must(cuda.stream_synchronize(stream.handle()), "cuStreamSynchronize");
                  memory.write(wanted);
                  const auto taken = [&] { return cuda.count("cuMemAlloc") + cuda.count("cuMemHostAlloc"); };
                  const auto before = taken();
                  stream.hold();
                  std::jthread releases([&] {
                      std::this_thread::sleep_for(std::chrono::milliseconds(300));
                      stream.go_on();
                  });
                  for (std::size_t i = 0; i < 280; ++i) start(memory.data(), what.count - i);
                  releases.join();
                  expect(taken() == before, "it has taken memory");
                  for (std::size_t i = 0; i < 280; ++i) start(wanted.data(), what.count - i);
                  expect(memory.read(stream.handle()) == wanted, "another result");
              },
              on) == "");
}

TEST_CASE("graphs of more starts than there is room for get more of it") {
    CHECK(run_on_devices(
              "aa",
              [&](const Cuda& cuda, hkt_comm* comm) {
                  const Operation what{.collective = HKT_ALL_REDUCE, .schedule = "ring", .count = 2000};
                  const Plan plan = plan_of(comm, what);
                  const DeviceMemory memory(cuda, 4 * what.count);
                  DeviceStream stream(cuda);
                  must(comm, hkt_comm_set_stream(comm, stream.handle()));
                  const auto start_all = [&](void* data) {
                      for (std::size_t i = 0; i < 280; ++i)
                          must(comm, hkt_plan_start(plan.get(), data, data, what.count - i, nullptr));
                  };
                  must(comm, hkt_plan_start(plan.get(), memory.data(), memory.data(), what.count, nullptr));
                  Bytes wanted =
                      random_elements(what.type, what.count, static_cast<std::uint64_t>(hkt_comm_rank(comm)));
                  const DeviceGraph graph(cuda, stream.handle(), [&] { start_all(memory.data()); });
                  must(cuda.stream_synchronize(stream.handle()), "cuStreamSynchronize");
                  memory.write(wanted);
                  graph.launch(stream.handle());
                  start_all(wanted.data());
                  expect(memory.read(stream.handle()) == wanted, "another result");
              },
              on) == "");
}

TEST_CASE("the first start on a stream that each thread has of its own goes by way of the host") {
    CHECK(run_on_devices(
              "aa",
              [&](const Cuda& cuda, hkt_comm* comm) {
                  void* const own = reinterpret_cast<void*>(2);  // CU_STREAM_PER_THREAD
                  must(comm, hkt_comm_set_stream(comm, own));
                  check(cuda, comm, {.collective = HKT_ALL_REDUCE, .schedule = "ring"}, 0);
                  expect_in(hkt_comm_info(comm, "by_host"), "CU_STREAM_PER_THREAD");
                  must(comm, hkt_comm_set_stream(comm, nullptr));
                  check(cuda, comm, {.collective = HKT_ALL_REDUCE, .schedule = "ring"});
                  must(comm, hkt_comm_set_stream(comm, own));
                  check(cuda, comm, {.collective = HKT_ALL_REDUCE, .schedule = "ring"});
              },
              on) == "");
}

// ---- In graphs ----------------------------------------------------------------------------------

TEST_CASE("starts in graphs give the host's bits in every replay, mixed with others") {
    CHECK(run_on_devices(
              "aaa",
              [&](const Cuda& cuda, hkt_comm* comm) {
                  constexpr std::size_t count = 20'011;
                  std::mt19937_64 random(99);  // the same on all ranks
                  const Plan plans[] = {plan_of(comm, {.collective = HKT_ALL_REDUCE, .schedule = "ring"}),
                                        plan_of(comm, {.collective = HKT_ALL_REDUCE, .schedule = "direct"})};
                  DeviceStream stream(cuda), beside(cuda);
                  must(comm, hkt_comm_set_stream(comm, stream.handle()));
                  const DeviceMemory memory(cuda, 4 * count), larger(cuda, 8 * count);
                  const auto start = [&](std::size_t which, void* data, std::size_t elements) {
                      must(comm, hkt_plan_start(plans[which].get(), data, data, elements, nullptr));
                  };
                  for (const std::size_t which : {0, 1}) start(which, memory.data(), count);
                  // Each graph has some starts; bit i of the pattern chooses the plan of the i-th.
                  std::vector<std::unique_ptr<DeviceGraph>> graphs;
                  const unsigned patterns[] = {0b1, 0b0110, 0b10};
                  const int starts[] = {1, 4, 2};
                  for (std::size_t g = 0; g < 3; ++g)
                      graphs.push_back(std::make_unique<DeviceGraph>(cuda, stream.handle(), [&] {
                          for (int i = 0; i < starts[g]; ++i)
                              start(patterns[g] >> i & 1, memory.data(), count);
                      }));
                  // More starts with other arguments than are kept for those that have ended.
                  for (std::size_t i = 1; i <= 150; ++i) start(i % 2, larger.data(), count - i);
                  must(cuda.stream_synchronize(stream.handle()), "cuStreamSynchronize");
                  for (int round = 0; round < in_long_form(40, 10); ++round) {
                      Bytes wanted =
                          random_elements(DataType::float32, count,
                                          static_cast<std::uint64_t>(round * 10 + hkt_comm_rank(comm)));
                      memory.write(wanted);
                      for (int step = 0; step < 3; ++step) {
                          const std::size_t choice = random() % 5;
                          if (choice < 3) {
                              graphs[choice]->launch(stream.handle());
                              for (int i = 0; i < starts[choice]; ++i)
                                  start(patterns[choice] >> i & 1, wanted.data(), count);
                          } else {
                              start(choice - 3, memory.data(), count);
                              start(choice - 3, wanted.data(), count);
                          }
                      }
                      // A larger start than all before has other memory, and graphs keep theirs.
                      if (round == in_long_form(20, 6)) start(0, larger.data(), 2 * count);
                      expect(memory.read(stream.handle()) == wanted,
                             "another result in round " + std::to_string(round));
                  }
                  must(comm, hkt_barrier(comm));
              },
              on) == "");
}

TEST_CASE("every collective can be captured, and its replays give the host's bits") {
    CHECK(run_on_devices(
              "aaa",
              [&](const Cuda& cuda, hkt_comm* comm) {
                  DeviceStream stream(cuda);
                  must(comm, hkt_comm_set_stream(comm, stream.handle()));
                  for (const hkt_collective collective :
                       {HKT_ALL_REDUCE, HKT_REDUCE_SCATTER, HKT_REDUCE, HKT_ALL_GATHER, HKT_BROADCAST,
                        HKT_GATHER, HKT_SCATTER, HKT_ALL_TO_ALL}) {
                      const Operation what{.collective = collective, .schedule = "default", .count = 7001};
                      const Plan plan = plan_of(comm, what);
                      const Sizes sizes = sizes_of(what, hkt_comm_rank(comm), 3);
                      Buffers buffers(cuda, sizes, 4, false);
                      const auto start = [&](bool on_device) {
                          must(comm, hkt_plan_start(plan.get(), buffers.send(on_device),
                                                    buffers.recv(on_device), what.count, nullptr));
                      };
                      start(true);
                      const DeviceGraph graph(cuda, stream.handle(), [&] { start(true); });
                      for (int round = 0; round < 3; ++round) {
                          must(cuda.stream_synchronize(stream.handle()), "cuStreamSynchronize");
                          buffers.write(
                              random_elements(what.type, sizes.send,
                                              static_cast<std::uint64_t>(round + 7 * hkt_comm_rank(comm))));
                          graph.launch(stream.handle());
                          start(false);
                          must(cuda.stream_synchronize(stream.handle()), "cuStreamSynchronize");
                          buffers.compare(hkt_collective_name(collective));
                      }
                      must(comm, hkt_barrier(comm));
                  }
                  expect(hkt_comm_info(comm, "by_host") == std::string(), hkt_comm_info(comm, "by_host"));
              },
              on) == "");
}

TEST_CASE("a start that the ranks have to meet for is refused in a graph, and may be started before") {
    CHECK(run_on_devices(
              "aa",
              [&](const Cuda& cuda, hkt_comm* comm) {
                  const Operation what{.collective = HKT_ALL_REDUCE, .schedule = "ring"};
                  const Plan plan = plan_of(comm, what);
                  const DeviceMemory memory(cuda, 4 * what.count);
                  DeviceStream stream(cuda);
                  must(comm, hkt_comm_set_stream(comm, stream.handle()));
                  const auto start = [&] {
                      return hkt_plan_start(plan.get(), memory.data(), memory.data(), what.count, nullptr);
                  };
                  hkt_status refused = HKT_SUCCESS;
                  {
                      const DeviceGraph graph(cuda, stream.handle(), [&] { refused = start(); });
                  }
                  expect(refused == HKT_ERROR_INVALID_ARGUMENT, hkt_error_string(refused));
                  expect_in(hkt_comm_last_error(comm), "start it once before the capture");
                  must(comm, start());
                  const DeviceGraph graph(cuda, stream.handle(), [&] { must(comm, start()); });
                  Bytes wanted =
                      random_elements(what.type, what.count, static_cast<std::uint64_t>(hkt_comm_rank(comm)));
                  must(cuda.stream_synchronize(stream.handle()), "cuStreamSynchronize");
                  memory.write(wanted);
                  graph.launch(stream.handle());
                  must(comm, hkt_plan_start(plan.get(), wanted.data(), wanted.data(), what.count, nullptr));
                  expect(memory.read(stream.handle()) == wanted, "another result");
              },
              on) == "");
}

TEST_CASE("a replay that a rank does not launch is told by hkt_comm_status, with the rank") {
    const Tally ready, done;
    const auto outcomes = run_on_a_host(3, {{"HOCKET_TIMEOUT_MS", "3000"}}, [&](int rank, const Cuda& cuda) {
        const Operation what{.collective = HKT_ALL_REDUCE, .schedule = "direct"};
        const DeviceMemory memory(cuda, 4 * what.count);
        DeviceStream stream(cuda);
        const Comm comm = join();
        must(comm.get(), hkt_comm_set_stream(comm.get(), stream.handle()));
        const Plan plan = plan_of(comm.get(), what);
        const auto start = [&] {
            must(comm.get(), hkt_plan_start(plan.get(), memory.data(), memory.data(), what.count, nullptr));
        };
        ready.meet(3);
        start();
        const DeviceGraph graph(cuda, stream.handle(), start);
        graph.launch(stream.handle());
        must(cuda.stream_synchronize(stream.handle()), "cuStreamSynchronize");
        expect(hkt_comm_status(comm.get()) == HKT_SUCCESS, "a good replay is an error");
        if (rank == 1) {
            done.await(2);
            return;
        }
        graph.launch(stream.handle());
        expect(eventually([&] { return hkt_comm_status(comm.get()) != HKT_SUCCESS; }), "no error comes");
        const std::string text = hkt_comm_last_error(comm.get());
        expect(hkt_comm_status(comm.get()) == HKT_ERROR_TIMEOUT, text);
        expect_in(text, "all_reduce by direct in a graph");
        expect_in(text, "rank 1");
        must(cuda.stream_synchronize(stream.handle()), "cuStreamSynchronize");  // what follows goes on
        done.add();
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("a replay that a rank does not launch is told while a start of another plan is in flight") {
    if (!Cuda::is_fake()) HOCKET_SKIP("a real device may need longer");
    const Tally ready, done;
    const auto outcomes = run_on_a_host(3, {{"HOCKET_TIMEOUT_MS", "4000"}}, [&](int rank, const Cuda& cuda) {
        const Operation what{.collective = HKT_ALL_REDUCE, .schedule = "direct"};
        const DeviceMemory memory(cuda, 4 * what.count), beside(cuda, 4 * what.count);
        DeviceStream stream(cuda), held(cuda);
        const Comm comm = join();
        const Plan plan = plan_of(comm.get(), what),
                   other = plan_of(comm.get(), {.collective = HKT_ALL_REDUCE, .schedule = "ring"});
        const auto start = [&](const Plan& which, const DeviceStream& on, const DeviceMemory& data) {
            must(comm.get(), hkt_comm_set_stream(comm.get(), on.handle()));
            must(comm.get(), hkt_plan_start(which.get(), data.data(), data.data(), what.count, nullptr));
        };
        ready.meet(3);
        start(plan, stream, memory);
        start(other, held, beside);
        const DeviceGraph graph(cuda, stream.handle(), [&] { start(plan, stream, memory); });
        must(cuda.stream_synchronize(held.handle()), "cuStreamSynchronize");
        expect(hkt_comm_status(comm.get()) == HKT_SUCCESS, "an error before");
        if (rank == 1) {
            done.await(2);
            return;
        }
        graph.launch(stream.handle());
        std::this_thread::sleep_for(std::chrono::milliseconds(1000));
        held.hold();
        start(other, held, beside);
        expect(eventually([&] { return hkt_comm_status(comm.get()) != HKT_SUCCESS; }), "no error comes");
        held.go_on();
        const std::string text = hkt_comm_last_error(comm.get());
        expect_in(text, "all_reduce by direct in a graph");
        expect_in(text, "rank 1");
        done.add();
    });
    CHECK(problems(outcomes) == "");
}
