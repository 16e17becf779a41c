// From device to device inside a host, collectives that only move data do what their schedules say.
#include <algorithm>
#include <csignal>
#include <memory>
#include <optional>
#include <vector>

#include "tests/capi/device/messages.hpp"
#include "tests/capi/plan.hpp"
#include "tests/runtime/engine/random_schedules.hpp"
#include "tests/support/long_form.hpp"
#include "tests/support/tally.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/test.hpp"

using namespace hocket::test;
namespace dsl = hocket::dsl;

namespace {

constexpr std::size_t rank_bytes = 100'003;  // of each rank

struct Moving {
    hkt_collective collective;
    std::string schedule;
    int root = 0;
};

// The bytes of a rank's buffers, and where the one begins in the other in place.
struct Sizes {
    std::size_t send, recv, in_place = 0;
    bool sends_from_recv = false;
};

Sizes sizes_of(const Moving& moving, int rank, int ranks) {
    const bool is_root = rank == moving.root;
    const std::size_t all = rank_bytes * static_cast<std::size_t>(ranks),
                      own = rank_bytes * static_cast<std::size_t>(rank);
    switch (moving.collective) {
        case HKT_ALL_GATHER:
            return {rank_bytes, all, own, true};
        case HKT_BROADCAST:
            return {is_root ? rank_bytes : 0, rank_bytes};
        case HKT_GATHER:
            return {rank_bytes, is_root ? all : 0, own, true};
        case HKT_SCATTER:
            return {is_root ? all : 0, rank_bytes, own, false};
        default:
            return {all, all};
    }
}

Plan plan_of(hkt_comm* comm, const Moving& moving) {
    hkt_plan_options options = HKT_PLAN_OPTIONS_INIT;
    options.schedule = moving.schedule.c_str();
    options.root = moving.root;
    hkt_plan* plan = nullptr;
    must(comm, hkt_plan_create(comm, moving.collective, HKT_UINT8, HKT_SUM, &options, &plan));
    return Plan(plan);
}

// The same start on memory of the host, and on a device.
void check_plan_apart(const Cuda& cuda, hkt_comm* comm, hkt_plan* plan, const Sizes& sizes) {
    const Bytes input = contents(sizes.send, hkt_comm_rank(comm) + 3);
    Bytes wanted(sizes.recv, std::byte{0x77});
    must(comm, hkt_plan_start(plan, input.data(), wanted.data(), rank_bytes, nullptr));
    const DeviceMemory send(cuda, std::max<std::size_t>(1, sizes.send)),
        recv(cuda, std::max<std::size_t>(1, sizes.recv));
    for (int start = 0; start < 2; ++start) {
        send.write(input);
        recv.write(Bytes(sizes.recv, std::byte{0x77}));
        must(comm, hkt_plan_start(plan, send.data(), recv.data(), rank_bytes, nullptr));
        Bytes got = recv.read(), kept = send.read();
        got.resize(sizes.recv);
        kept.resize(sizes.send);
        expect(got == wanted, "another result on a device");
        expect(kept == input, "it wrote to what it sends");
    }
}

void check_plan_in_place(const Cuda& cuda, hkt_comm* comm, hkt_plan* plan, const Sizes& sizes) {
    const Bytes input = contents(sizes.send, hkt_comm_rank(comm) + 5);
    Bytes wanted(std::max(sizes.send, sizes.recv) + sizes.in_place, std::byte{0x77});
    const std::size_t send_at = sizes.sends_from_recv ? sizes.in_place : 0,
                      recv_at = sizes.sends_from_recv ? 0 : sizes.in_place;
    std::copy(input.begin(), input.end(), wanted.begin() + static_cast<std::ptrdiff_t>(send_at));
    const DeviceMemory memory(cuda, wanted.size());
    memory.write(wanted);
    must(comm, hkt_plan_start(plan, wanted.data() + send_at, wanted.data() + recv_at, rank_bytes, nullptr));
    must(comm, hkt_plan_start(plan, memory.data() + send_at, memory.data() + recv_at, rank_bytes, nullptr));
    expect(memory.read() == wanted, "another result on a device, in place");
}

void check(const Cuda& cuda, hkt_comm* comm, const Moving& moving) {
    const Sizes sizes = sizes_of(moving, hkt_comm_rank(comm), hkt_comm_size(comm));
    try {
        const Plan plan = plan_of(comm, moving);
        check_plan_apart(cuda, comm, plan.get(), sizes);
        if (moving.collective != HKT_ALL_TO_ALL) check_plan_in_place(cuda, comm, plan.get(), sizes);
    } catch (const std::exception& error) {
        throw std::runtime_error(moving.schedule + " from rank " + std::to_string(moving.root) + ": " +
                                 error.what());
    }
}

std::vector<Moving> library_for(int ranks) {
    std::vector<Moving> all;
    const auto add = [&](hkt_collective collective, std::initializer_list<const char*> schedules) {
        for (const char* schedule : schedules)
            all.push_back({collective, schedule, static_cast<int>(all.size()) % ranks});
    };
    add(HKT_ALL_GATHER, {"ring", "direct", "default"});
    add(HKT_BROADCAST, {"direct", "binomial", "tree", "chain", "chain(3)", "scatter", "default"});
    add(HKT_GATHER, {"direct", "binomial", "default"});
    add(HKT_SCATTER, {"direct", "binomial", "default"});
    add(HKT_ALL_TO_ALL, {"direct", "pairwise", "bruck", "default"});
    if ((ranks & (ranks - 1)) == 0) add(HKT_ALL_GATHER, {"doubling"});
    return all;
}

std::optional<hkt_collective> moving_only(dsl::Collective collective) {
    switch (collective) {
        case dsl::Collective::all_gather:
            return HKT_ALL_GATHER;
        case dsl::Collective::broadcast:
            return HKT_BROADCAST;
        case dsl::Collective::gather:
            return HKT_GATHER;
        case dsl::Collective::scatter:
            return HKT_SCATTER;
        case dsl::Collective::all_to_all:
            return HKT_ALL_TO_ALL;
        default:
            return std::nullopt;
    }
}

void expect_no_way_by_the_host(const Cuda& cuda) {
    if (!Cuda::is_fake()) return;
    expect(cuda.count("cuMemcpyAsync") > 0, "nothing went from device to device");
    expect(cuda.count("cuMemHostAlloc") == 0, "something went by way of the host");
}

// Ranks of one host, which may fail, and then may leave something behind.
std::vector<Outcome> run_on_a_host(int ranks, const std::function<void(int, const Cuda&)>& body) {
    return run_ranks({ranks, {{"FAKE_CUDA_DELAY_US", "60"}}, 50}, [&](int rank) {
        setenv("HOCKET_HOST_ID", "a", 1);
        body(rank, Cuda::load());
    });
}

}  // namespace

TEST_CASE("the library's schedules that move data give the host's bits from device to device") {
    for (const std::string hosts : {"aa", "aaa", "aaaa", "aaaaa"}) {
        INFO(hosts);
        CHECK(run_on_devices(hosts, [&](const Cuda& cuda, hkt_comm* comm) {
                  std::size_t number = hosts.size();
                  for (const Moving& moving : library_for(static_cast<int>(hosts.size())))
                      if (number++ % in_long_form(1, 3) == 0) check(cuda, comm, moving);
                  expect_no_way_by_the_host(cuda);
              }) == "");
    }
}

TEST_CASE("random schedules that move data give the host's bits from device to device") {
    const TemporaryFolder folder;
    const Seeds seeds = seeds_from("HOCKET_DEVICE_SEEDS", {1, in_long_form(300u, 50u)});
    std::size_t compared = 0;
    for (const auto& [ranks, all] : random_schedules(folder.path(), seeds, 5)) {
        INFO(ranks << " ranks");
        const auto is_moved = [](const RandomSchedule& one) {
            return moving_only(one.collective).has_value();
        };
        compared += static_cast<std::size_t>(std::count_if(all.begin(), all.end(), is_moved));
        const auto outcomes = run_on_a_host(ranks, [&](int, const Cuda& cuda) {
            for (const RandomSchedule& one : all) {
                const auto collective = moving_only(one.collective);
                if (!collective) continue;
                hkt_comm_options options = HKT_COMM_OPTIONS_INIT;
                options.topology = one.topology.c_str();
                const Comm comm = join(&options);
                check(cuda, comm.get(), {*collective, one.schedule, static_cast<int>(one.root)});
            }
        });
        CHECK(problems(outcomes) == "");
    }
    WARN(compared << " schedules compared");
    CHECK(compared >= (seeds.last - seeds.first) / 10);
}

TEST_CASE("the schedule says which ranks copy from and to each other's devices") {
    if (!Cuda::is_fake()) HOCKET_SKIP("only the tests' driver sees whose memory copies are from");
    struct Way {
        const char* schedule;
        unsigned long long met;  // by each rank
    };
    for (const Way way : {Way{"ring", 1}, Way{"direct", 3}})
        CHECK(run_on_devices("aaaa", [&](const Cuda& cuda, hkt_comm* comm) {
                  check(cuda, comm, {HKT_ALL_GATHER, way.schedule});
                  expect(cuda.count("met") == way.met, std::string(way.schedule) + ": copies from or to " +
                                                           std::to_string(cuda.count("met")) + " others");
              }) == "");
}

TEST_CASE("a start whose schedule needs memory that the device lacks goes by way of the host") {
    if (!Cuda::is_fake()) HOCKET_SKIP("a real driver does not fail on demand");
    const Moving moving{HKT_GATHER, "binomial"};
    CHECK(run_on_devices("aaaa", [&](const Cuda& cuda, hkt_comm* comm) {
              const int rank = hkt_comm_rank(comm);
              const Plan plan = plan_of(comm, moving);
              const DeviceMemory from(cuda, rank_bytes), to(cuda, 4 * rank_bytes);
              for (const bool has_room : {false, true, true}) {
                  from.write(contents(rank_bytes, rank));
                  const auto before = cuda.count("cuMemHostAlloc"), copies = cuda.count("cuMemcpyAsync");
                  if (rank == 2 && !has_room) cuda.fail("cuMemAlloc", 0, 2);
                  must(comm, hkt_plan_start(plan.get(), from.data(), to.data(), rank_bytes, nullptr));
                  if (rank == 2) cuda.fail("", 0, 0);
                  expect((cuda.count("cuMemHostAlloc") == before) == has_room, "the other way");
                  expect(has_room || cuda.count("cuMemcpyAsync") == copies, "it copied between devices");
                  if (rank != 0) continue;
                  Bytes wanted;
                  for (int other = 0; other < 4; ++other) {
                      const Bytes piece = contents(rank_bytes, other);
                      wanted.insert(wanted.end(), piece.begin(), piece.end());
                  }
                  expect(to.read() == wanted, "another result");
              }
              // Two for this test's own buffers; the work area is kept from one start to the next.
              if (rank == 2) expect(cuda.count("cuMemAlloc") == 4, "work areas are allocated anew");
          }) == "");
}

TEST_CASE("where the device has no memory for a schedule because it has failed, every rank is told") {
    if (!Cuda::is_fake()) HOCKET_SKIP("a real driver does not fail on demand");
    const Tally ready;
    const auto outcomes = run_on_a_host(4, [&](int rank, const Cuda& cuda) {
        const DeviceMemory from(cuda, rank_bytes), to(cuda, 4 * rank_bytes);
        const Comm comm = join();
        const Plan plan = plan_of(comm.get(), {HKT_GATHER, "binomial"});
        ready.meet(4);  // a rank without a plan would not get one once it hears of the failure
        if (rank == 2) cuda.fail("cuMemAlloc", 0, 719);
        const hkt_status status = hkt_plan_start(plan.get(), from.data(), to.data(), rank_bytes, nullptr);
        if (rank == 2) cuda.fail("", 0, 0);
        // Leaves of the tree may be done by then.
        if (status == HKT_SUCCESS && rank % 2 == 1) return;
        expect(status == HKT_ERROR_DEVICE, hkt_error_string(status));
        expect_in(hkt_comm_last_error(comm.get()), "cuMemAlloc failed: CUDA_ERROR_LAUNCH_FAILED");
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("a rank that dies after its first step is named, with the step that waits for it") {
    if (!Cuda::is_fake()) HOCKET_SKIP("a real driver cannot hold a copy");
    const Tally copied;
    const auto outcomes = run_on_a_host(3, [&](int rank, const Cuda& cuda) {
        {
            const DeviceMemory from(cuda, rank_bytes), to(cuda, 3 * rank_bytes);
            const Comm comm = join();
            const Plan plan = plan_of(comm.get(), {HKT_ALL_GATHER, "ring"});
            if (rank == 1) cuda.hold_copies(1);
            hkt_request* request = nullptr;
            hkt_status status = hkt_plan_start(plan.get(), from.data(), to.data(), rank_bytes, &request);
            // Rank 1 makes a copy that does not end, so rank 2 gets no signal for its second step.
            if (status == HKT_SUCCESS)
                expect(eventually([&] {
                           status = hkt_test(request);
                           if (rank == 1 && cuda.count("cuMemcpyAsync") > 0) copied.add();
                           return status != HKT_IN_PROGRESS ||
                                  (copied.value() > 0 && cuda.count("cuMemcpyAsync") > 0);
                       }),
                       "it does not come so far");
            if (rank == 1) raise(SIGKILL);
            if (status == HKT_IN_PROGRESS) status = hkt_wait(request);
            const std::string text = hkt_comm_last_error(comm.get());
            expect(status == HKT_ERROR_PEER_LOST, std::string(hkt_error_string(status)) + ": " + text);
            expect_in(text, "rank 1 was lost");
            // Rank 0 has all pieces but is not sure that rank 2 is done with its buffers, or waits for one.
            expect_in(text, rank == 2 ? "ring.sched:12: x[r - s] : r -> r + 1" : "ring.sched:");
        }
        for (const char* what : {"pinned", "streams", "events", "opened"})
            expect(cuda.count(what) == 0, std::string("left behind: ") + what);
    });
    CHECK(outcomes[1].signal == SIGKILL);
    CHECK(outcomes[0].text + outcomes[2].text == "");
    CHECK((outcomes[0].ok && outcomes[2].ok));
}

TEST_CASE("memory is not written once its start has failed") {
    if (!Cuda::is_fake()) HOCKET_SKIP("a real driver cannot hold a copy");
    const Tally ready, freed, ended;
    const auto outcomes = run_on_a_host(3, [&](int rank, const Cuda& cuda) {
        setenv("HOCKET_TIMEOUT_MS", rank == 2 ? "3000" : "20000", 1);
        auto from = std::make_unique<DeviceMemory>(cuda, rank_bytes),
             to = std::make_unique<DeviceMemory>(cuda, rank_bytes);
        const Comm comm = join();
        const Plan plan = plan_of(comm.get(), {HKT_BROADCAST, "chain(1)"});
        ready.meet(3);  // rank 2 waits for the others no longer than its deadline
        if (rank == 0) cuda.hold_copies(1);
        hkt_request* request = nullptr;
        must(comm.get(), hkt_plan_start(plan.get(), from->data(), to->data(), rank_bytes, &request));
        if (rank == 2) {
            const hkt_status status = hkt_wait(request);
            expect(status == HKT_ERROR_TIMEOUT, hkt_error_string(status));
            expect_in(hkt_comm_last_error(comm.get()), "waiting for rank 1 to be done with the buffers");
            to.reset();
            freed.add();
            return;
        }
        // Rank 1 would go on once rank 0's copy has ended.
        if (rank == 0) {
            expect(eventually([&] {
                       (void)hkt_test(request);
                       return cuda.count("cuMemcpyAsync") > 0;
                   }),
                   "it does not copy");
            freed.await(1);
            cuda.hold_copies(0);
        }
        const hkt_status status = hkt_wait(request);
        if (rank == 0) ended.add();
        ended.await(1);  // rank 0 copies to rank 1
        // Rank 0 may be done before it hears of the failure.
        expect(status == HKT_ERROR_TIMEOUT || (rank == 0 && status == HKT_SUCCESS), hkt_error_string(status));
        // Rank 0 copies to itself, too.
        expect(cuda.count("cuMemcpyAsync") == (rank == 0 ? 2 : 0), "a copy after the failure");
    });
    CHECK(problems(outcomes) == "");
}
