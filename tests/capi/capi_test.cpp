// The C ABI alone: this program is linked with libhocket.so and nothing else of Hocket.
#include <hocket.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <numeric>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/capi/comm.hpp"
#include "tests/runtime/engine/ranks.hpp"
#include "tests/support/tally.hpp"
#include "tests/support/test.hpp"

using namespace hocket::test;
using Catch::Contains;

namespace {

// Stands for its handle.
struct JoinedComm {
    Comm comm = join();
    operator hkt_comm*() const { return comm.get(); }
};

std::string error_of(hkt_comm* comm) {
    return hkt_comm_last_error(comm);
}

std::string read_file(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
}

void write_file(const std::string& path, const std::string& text) {
    std::FILE* file = std::fopen(path.c_str(), "w");
    if (file == nullptr) throw std::runtime_error("cannot write " + path);
    std::fputs(text.c_str(), file);
    std::fclose(file);
}

}  // namespace

TEST_CASE("types and operators have names, and types sizes") {
    CHECK(hkt_version() == std::to_string(HKT_VERSION_MAJOR) + "." + std::to_string(HKT_VERSION_MINOR) + "." +
                               std::to_string(HKT_VERSION_PATCH));
    CHECK(std::string(hkt_error_string(HKT_SUCCESS)) == "success");
    CHECK(std::string(hkt_error_string(HKT_ERROR_PEER_LOST)) == "peer lost");
    CHECK(std::string(hkt_error_string(static_cast<hkt_status>(-99))) == "unknown status");
    CHECK(hkt_type_size(HKT_FLOAT32) == 4);
    CHECK(hkt_type_size(HKT_INT64) == 8);
    CHECK(hkt_type_size(static_cast<hkt_type>(200)) == 0);
}

namespace {

// Tries all constants that have a name: hocket.h's constants are small numbers.
template <typename Constant>
std::vector<Constant> all_named(const char* (*name_of)(Constant)) {
    std::vector<Constant> all;
    for (int number = 0; number < 256; ++number)
        if (name_of(static_cast<Constant>(number)) != nullptr) all.push_back(static_cast<Constant>(number));
    return all;
}

template <typename Constant>
void check_names(const char* (*name_of)(Constant), hkt_status (*from_name)(const char*, Constant*)) {
    for (const Constant constant : all_named(name_of)) {
        Constant found = static_cast<Constant>(0);
        CHECK(from_name(name_of(constant), &found) == HKT_SUCCESS);
        CHECK(found == constant);
    }
    Constant untouched = static_cast<Constant>(1);
    for (const char* unknown : {"", "nothing", "Sum", "float32 "}) {
        CHECK(from_name(unknown, &untouched) == HKT_ERROR_INVALID_ARGUMENT);
        CHECK_THAT(hkt_last_error(), Contains("'" + std::string(unknown) + "' is not a"));
        for (const Constant constant : all_named(name_of))
            CHECK_THAT(hkt_last_error(), Contains(name_of(constant)));
    }
    CHECK(untouched == static_cast<Constant>(1));
    CHECK(from_name(nullptr, &untouched) == HKT_ERROR_INVALID_ARGUMENT);
    CHECK_THAT(hkt_last_error(), Contains("the name is null"));
    CHECK(from_name("sum", nullptr) == HKT_ERROR_INVALID_ARGUMENT);
    CHECK(name_of(static_cast<Constant>(-1)) == nullptr);
}

}  // namespace

TEST_CASE("types, operators and collectives have the names of their constants") {
    check_names(hkt_type_name, hkt_type_from_name);
    check_names(hkt_op_name, hkt_op_from_name);
    check_names(hkt_collective_name, hkt_collective_from_name);
    CHECK(hkt_type_name(HKT_FLOAT32) == std::string("float32"));
    CHECK(hkt_type_name(HKT_INT64) == std::string("int64"));
    CHECK(hkt_type_name(HKT_BOOL) == std::string("bool"));
    CHECK(hkt_op_name(HKT_MAX) == std::string("max"));
    CHECK(hkt_collective_name(HKT_ALL_GATHER) == std::string("all_gather"));
    for (const hkt_type type : all_named(hkt_type_name)) CHECK(hkt_type_size(type) > 0);
}

TEST_CASE("an operator runs for the types that it exists for, and is refused for the others") {
    const JoinedComm comm{alone()};
    const std::uint64_t send = 1;
    CHECK(hkt_op_supports(static_cast<hkt_op>(200), HKT_FLOAT32) == 0);
    CHECK(hkt_op_supports(HKT_SUM, static_cast<hkt_type>(200)) == 0);
    CHECK(hkt_op_supports(HKT_SUM, HKT_FLOAT32) == 1);
    CHECK(hkt_op_supports(HKT_SUM, HKT_BOOL) == 0);
    CHECK(hkt_op_supports(HKT_BAND, HKT_BOOL) == 1);
    CHECK(hkt_op_supports(HKT_BXOR, HKT_FLOAT16) == 0);
    for (const hkt_type type : all_named(hkt_type_name))
        for (const hkt_op named : all_named(hkt_op_name)) {
            CAPTURE(hkt_type_name(type), hkt_op_name(named));
            hkt_op op = named;
            if (named == HKT_PREMUL_SUM) REQUIRE(hkt_premul_sum_create(1, comm, &op) == HKT_SUCCESS);
            std::uint64_t recv = 0;
            hkt_plan *reducing = nullptr, *moving = nullptr;
            const hkt_status statuses[] = {
                hkt_all_reduce(&send, &recv, 1, type, op, comm, nullptr),
                hkt_reduce_scatter(&send, &recv, 1, type, op, comm, nullptr),
                hkt_plan_create(comm, HKT_ALL_REDUCE, type, op, nullptr, &reducing),
                hkt_plan_create(comm, HKT_BROADCAST, type, op, nullptr, &moving)};
            hkt_plan_destroy(reducing);
            hkt_plan_destroy(moving);
            if (hkt_op_supports(op, type) == 1) {
                for (const hkt_status status : statuses) CHECK(status == HKT_SUCCESS);
                CHECK(recv != 0);
                continue;
            }
            for (int i = 0; i < 3; ++i) CHECK(statuses[i] == HKT_ERROR_INVALID_ARGUMENT);
            CHECK(statuses[3] == HKT_SUCCESS);  // a broadcast has no operator
            CHECK_THAT(error_of(comm), Contains(std::string("operator ") + hkt_op_name(op) +
                                                " does not exist for " + hkt_type_name(type)));
            CHECK(recv == 0);
        }
}

TEST_CASE("null handles are errors, never crashes") {
    float x = 0;
    CHECK(hkt_comm_create(nullptr, nullptr) == HKT_ERROR_INVALID_ARGUMENT);
    CHECK_THAT(hkt_last_error(), Contains("comm is null"));
    CHECK(hkt_all_reduce(&x, &x, 1, HKT_FLOAT32, HKT_SUM, nullptr, nullptr) == HKT_ERROR_INVALID_ARGUMENT);
    CHECK(hkt_reduce_scatter(&x, &x, 1, HKT_FLOAT32, HKT_SUM, nullptr, nullptr) ==
          HKT_ERROR_INVALID_ARGUMENT);
    CHECK(hkt_all_gather(&x, &x, 1, HKT_FLOAT32, nullptr, nullptr) == HKT_ERROR_INVALID_ARGUMENT);
    CHECK(hkt_broadcast(&x, &x, 1, HKT_FLOAT32, 0, nullptr, nullptr) == HKT_ERROR_INVALID_ARGUMENT);
    CHECK(hkt_barrier(nullptr) == HKT_ERROR_INVALID_ARGUMENT);
    CHECK(hkt_barrier_monitored(nullptr, 10) == HKT_ERROR_INVALID_ARGUMENT);
    CHECK(hkt_comm_dump(nullptr, "/tmp/x") == HKT_ERROR_INVALID_ARGUMENT);
    CHECK(hkt_wait(nullptr) == HKT_ERROR_INVALID_ARGUMENT);
    CHECK(hkt_test(nullptr) == HKT_ERROR_INVALID_ARGUMENT);
    CHECK(hkt_comm_status(nullptr) == HKT_ERROR_INVALID_ARGUMENT);
    CHECK(hkt_plan_start(nullptr, &x, &x, 1, nullptr) == HKT_ERROR_INVALID_ARGUMENT);
    CHECK(hkt_comm_rank(nullptr) == -1);
    CHECK(hkt_comm_size(nullptr) == -1);
    CHECK(hkt_comm_info(nullptr, "provider") == nullptr);
    CHECK(std::string(hkt_plan_explain(nullptr)).empty());
    hkt_comm_destroy(nullptr);
    hkt_plan_destroy(nullptr);
}

TEST_CASE("arguments are checked, with words that name them") {
    const JoinedComm comm{alone()};
    std::array<float, 8> x{};
    const auto refused = [&](hkt_status status, const char* words) {
        CHECK(status == HKT_ERROR_INVALID_ARGUMENT);
        CHECK_THAT(error_of(comm), Contains(words));
    };
    refused(hkt_all_reduce(x.data(), x.data(), 8, static_cast<hkt_type>(200), HKT_SUM, comm, nullptr),
            "type is 200");
    refused(hkt_all_reduce(x.data(), x.data(), 8, HKT_FLOAT32, static_cast<hkt_op>(-1), comm, nullptr),
            "operator is -1");
    refused(hkt_all_reduce(nullptr, x.data(), 8, HKT_FLOAT32, HKT_SUM, comm, nullptr), "send is null");
    refused(hkt_all_reduce(x.data(), nullptr, 8, HKT_FLOAT32, HKT_SUM, comm, nullptr), "recv is null");
    refused(hkt_all_reduce(x.data(), x.data() + 1, 4, HKT_FLOAT32, HKT_SUM, comm, nullptr), "overlap");
    const char* inside = reinterpret_cast<const char*>(x.data()) + 1;
    refused(hkt_all_reduce(inside, x.data() + 4, 2, HKT_FLOAT32, HKT_SUM, comm, nullptr),
            "send is not aligned");
    refused(hkt_broadcast(x.data(), x.data(), 8, HKT_FLOAT32, 1, comm, nullptr), "root is 1");
    refused(hkt_broadcast(x.data(), x.data(), 8, HKT_FLOAT32, -1, comm, nullptr), "root is -1");
    refused(hkt_all_gather(x.data(), x.data(), SIZE_MAX, HKT_FLOAT32, comm, nullptr), "does not fit");
    CHECK(hkt_all_reduce(nullptr, nullptr, 0, HKT_FLOAT32, HKT_SUM, comm, nullptr) == HKT_SUCCESS);
    CHECK(hkt_comm_status(comm) == HKT_SUCCESS);  // a refused call breaks nothing

    hkt_plan* plan = nullptr;
    hkt_plan_options options = HKT_PLAN_OPTIONS_INIT;
    refused(hkt_plan_create(comm, static_cast<hkt_collective>(70), HKT_FLOAT32, HKT_SUM, nullptr, &plan),
            "collective is 70");
    options.executor = 5;
    refused(hkt_plan_create(comm, HKT_ALL_REDUCE, HKT_FLOAT32, HKT_SUM, &options, &plan), "executor is 5");
    options.size = 1;
    refused(hkt_plan_create(comm, HKT_ALL_REDUCE, HKT_FLOAT32, HKT_SUM, &options, &plan), "size is 1");
    options = HKT_PLAN_OPTIONS_INIT;
    options.schedule = "nowhere";
    CHECK(hkt_plan_create(comm, HKT_ALL_REDUCE, HKT_FLOAT32, HKT_SUM, &options, &plan) ==
          HKT_ERROR_NOT_FOUND);
    CHECK_THAT(error_of(comm), Contains("nowhere"));
    CHECK(plan == nullptr);
}

TEST_CASE("a communicator tells about itself") {
    const JoinedComm comm{alone()};
    CHECK(std::string(hkt_comm_info(comm, "provider")) == "none");
    CHECK(std::string(hkt_comm_info(comm, "topology")) == "1");
    CHECK_THAT(hkt_comm_info(comm, "schedule_path"), Contains("schedules"));
    CHECK_THAT(hkt_comm_info(comm, "executor"), Contains("jit") || Contains("interpreter"));
    CHECK(hkt_comm_info(comm, "colour") == nullptr);
}

TEST_CASE("a wrong option is refused before anything is joined") {
    hkt_comm* comm = nullptr;
    hkt_comm_options options = HKT_COMM_OPTIONS_INIT;
    options.rank = 3;
    options.world_size = 2;
    CHECK(hkt_comm_create(&options, &comm) == HKT_ERROR_INVALID_ARGUMENT);
    CHECK_THAT(hkt_last_error(), Contains("rank is 3") && Contains("world_size is 2"));
    options = HKT_COMM_OPTIONS_INIT;
    options.size = 3;
    CHECK(hkt_comm_create(&options, &comm) == HKT_ERROR_INVALID_ARGUMENT);
    CHECK_THAT(hkt_last_error(), Contains("HKT_COMM_OPTIONS_INIT"));
    CHECK(comm == nullptr);
}

TEST_CASE("collectives, requests and plans work across processes") {
    const auto outcomes =
        run_ranks({4, {{"HOCKET_TOPOLOGY", "2x2"}, {"HOCKET_SCHEDULE_PATH", "/nonexistent"}}}, [](int rank) {
            const JoinedComm comm;
            expect(hkt_comm_rank(comm) == rank && hkt_comm_size(comm) == 4, "rank or size");

            std::vector<std::int32_t> mine(1001), all(4004), part(1001);
            std::iota(mine.begin(), mine.end(), rank * 10000);
            must(comm, hkt_all_gather(mine.data(), all.data(), 1001, HKT_INT32, comm, nullptr));
            for (int i = 0; i < 4004; ++i) expect(all[i] == i / 1001 * 10000 + i % 1001, "all_gather");
            must(comm, hkt_reduce_scatter(all.data(), part.data(), 1001, HKT_INT32, HKT_SUM, comm, nullptr));
            for (int i = 0; i < 1001; ++i) expect(part[i] == 4 * (rank * 10000 + i), "reduce_scatter");
            must(comm, hkt_broadcast(rank == 2 ? mine.data() : nullptr, part.data(), 1001, HKT_INT32, 2, comm,
                                     nullptr));
            for (int i = 0; i < 1001; ++i) expect(part[i] == 20000 + i, "broadcast");

            hkt_plan* plan = nullptr;
            hkt_plan_options options = HKT_PLAN_OPTIONS_INIT;
            options.schedule = "blueconnect";
            must(comm, hkt_plan_create(comm, HKT_ALL_REDUCE, HKT_FLOAT64, HKT_MAX, &options, &plan));
            expect(std::strstr(hkt_plan_explain(plan), ".sched:") != nullptr, hkt_plan_explain(plan));
            constexpr int flights = 8;
            std::vector<std::vector<double>> data;
            std::vector<hkt_request*> requests(flights);
            for (int i = 0; i < flights; ++i) data.emplace_back(500 * i, rank + i);
            for (int i = 0; i < flights; ++i)
                must(comm,
                     hkt_plan_start(plan, data[i].data(), data[i].data(), data[i].size(), &requests[i]));
            for (int i = flights - 1; i >= 0; --i) {
                hkt_status status = HKT_IN_PROGRESS;
                if (i % 2)
                    status = hkt_wait(requests[i]);
                else
                    while ((status = hkt_test(requests[i])) == HKT_IN_PROGRESS) {
                    }
                must(comm, status);
                for (const double value : data[i]) expect(value == 3 + i, "all_reduce");
            }
            hkt_plan_destroy(plan);
            must(comm, hkt_barrier(comm));
        });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("a schedule that is wrong is refused with the compiler's words") {
    const std::string path = "/tmp/hocket-capi-test-" + std::to_string(getpid()) + ".sched";
    write_file(path, "schedule broken all_reduce(x) {\n    reduce_scatter x over world using ring\n}\n");
    const auto outcomes = run_ranks({3}, [&](int) {
        const JoinedComm comm;
        hkt_plan* plan = nullptr;
        hkt_plan_options options = HKT_PLAN_OPTIONS_INIT;
        options.schedule = path.c_str();
        const hkt_status status =
            hkt_plan_create(comm, HKT_ALL_REDUCE, HKT_FLOAT32, HKT_SUM, &options, &plan);
        expect(status == HKT_ERROR_SCHEDULE, "status " + std::to_string(status));
        expect(error_of(comm).find(path) != std::string::npos, error_of(comm));
        expect(hkt_comm_status(comm) == HKT_SUCCESS, "a refused schedule broke the communicator");
        must(comm, hkt_barrier(comm));
    });
    unlink(path.c_str());
    CHECK(problems(outcomes) == "");
}

TEST_CASE("the communicator's schedule rules the collectives that it exists for") {
    const auto outcomes = run_ranks({3, {{"HOCKET_SCHEDULE", "ring"}}}, [](int rank) {
        const JoinedComm comm;
        std::vector<float> x(100, static_cast<float>(rank));
        hkt_plan* plan = nullptr;
        must(comm, hkt_plan_create(comm, HKT_ALL_REDUCE, HKT_FLOAT32, HKT_SUM, nullptr, &plan));
        expect(std::strstr(hkt_plan_explain(plan), "ring.sched:") != nullptr, hkt_plan_explain(plan));
        hkt_plan_destroy(plan);
        must(comm, hkt_plan_create(comm, HKT_BROADCAST, HKT_FLOAT32, HKT_SUM, nullptr, &plan));
        expect(std::strstr(hkt_plan_explain(plan), "ring.sched:") == nullptr, hkt_plan_explain(plan));
        hkt_plan_destroy(plan);
        must(comm, hkt_broadcast(x.data(), x.data(), x.size(), HKT_FLOAT32, 2, comm, nullptr));
        expect(x[0] == 2 && x[99] == 2, "broadcast");
        must(comm, hkt_all_reduce(x.data(), x.data(), x.size(), HKT_FLOAT32, HKT_SUM, comm, nullptr));
        expect(x[0] == 6 && x[99] == 6, "all_reduce");

        hkt_plan_options options = HKT_PLAN_OPTIONS_INIT;  // a plan's own schedule is strict
        options.schedule = "ring";
        expect(hkt_plan_create(comm, HKT_BROADCAST, HKT_FLOAT32, HKT_SUM, &options, &plan) ==
                   HKT_ERROR_NOT_FOUND,
               "a plan got another schedule than it was to have");
        expect(error_of(comm).find("no schedule 'ring' for broadcast") != std::string::npos, error_of(comm));
        must(comm, hkt_barrier(comm));
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("a schedule that exists for no collective is refused when ranks join") {
    const auto outcomes = run_ranks({2, {{"HOCKET_SCHEDULE", "rnig"}}}, [](int) {
        hkt_comm* comm = nullptr;
        expect(hkt_comm_create(nullptr, &comm) == HKT_ERROR_NOT_FOUND, "no communicator");
        const std::string text = hkt_last_error();
        expect(text.find("no schedule 'rnig' (did you mean 'ring'?)") != std::string::npos, text);
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("differences that send no message are noticed as hocket.h says") {
    const std::map<std::string, std::string> soon = {{"HOCKET_TIMEOUT_MS", "20000"}};
    const Tally noticed, ended;
    const auto expect_both_counts = [](const JoinedComm& comm) {
        const std::string text = error_of(comm);
        expect(text.find("100 elements") != std::string::npos &&
                   text.find("rank 1 started all_reduce #0") != std::string::npos &&
                   text.find(" 0 elements") != std::string::npos,
               text);
    };
    const auto count_0 = run_ranks({3, soon}, [&](int rank) {
        const JoinedComm comm;
        std::vector<float> x(100);
        const std::size_t count = rank == 1 ? 0 : x.size();
        const hkt_status status =
            hkt_all_reduce(x.data(), x.data(), count, HKT_FLOAT32, HKT_SUM, comm, nullptr);
        noticed.add();
        if (rank != 1) return expect(status == HKT_ERROR_MISMATCH, error_of(comm));
        must(comm, status);
        noticed.await(3);
        expect(hkt_barrier(comm) == HKT_ERROR_MISMATCH, error_of(comm));
        expect_both_counts(comm);
    });
    CHECK(problems(count_0) == "");

    // A rank that sends no message is asked.
    auto by_messages = soon;
    by_messages["HOCKET_PROVIDER_FOR_ALL"] = "tcp";
    const auto count_0_by_messages = run_ranks({3, by_messages}, [&](int rank) {
        const JoinedComm comm;
        std::vector<float> x(100);
        const std::size_t count = rank == 1 ? 0 : x.size();
        const hkt_status status =
            hkt_all_reduce(x.data(), x.data(), count, HKT_FLOAT32, HKT_SUM, comm, nullptr);
        ended.add();
        if (rank != 1) return expect(status == HKT_ERROR_MISMATCH, error_of(comm));
        must(comm, status);
        ended.await(3);
        expect(hkt_barrier(comm) == HKT_ERROR_MISMATCH, error_of(comm));
        expect_both_counts(comm);
    });
    CHECK(problems(count_0_by_messages) == "");

    const auto roots = run_ranks({2, soon}, [](int rank) {
        const JoinedComm comm;
        std::vector<float> x(100);
        must(comm, hkt_broadcast(x.data(), x.data(), x.size(), HKT_FLOAT32, rank, comm, nullptr));
        expect(hkt_barrier(comm) == HKT_ERROR_MISMATCH, error_of(comm));
        const std::string text = error_of(comm);
        for (const char* part : {"ranks 0 and 1 started different operations", "barrier #1 (2 ranks)"})
            expect(text.find(part) != std::string::npos, text);
    });
    CHECK(problems(roots) == "");
}

TEST_CASE("after a kill every call says so, everywhere, long before a heartbeat is missed") {
    auto* time_of_death = static_cast<double*>(shared_memory(sizeof(double)));
    for (const char* provider : {"", "tcp"}) {
        const auto outcomes = run_ranks(
            {4, {{"HOCKET_PROVIDER_FOR_ALL", provider}, {"HOCKET_SCHEDULE", "ring"}}}, [&](int rank) {
                hkt_comm* comm = nullptr;
                if (hkt_comm_create(nullptr, &comm) != HKT_SUCCESS)
                    throw std::runtime_error(hkt_last_error());
                std::vector<float> data(5000, 1);
                hkt_status status = HKT_SUCCESS;
                for (int i = 0; status == HKT_SUCCESS; ++i) {
                    if (rank == 1 && i == 30) {
                        *time_of_death = now_ms();
                        raise(SIGKILL);
                    }
                    status = hkt_all_reduce(data.data(), data.data(), data.size(), HKT_FLOAT32, HKT_MAX, comm,
                                            nullptr);
                }
                const double elapsed = now_ms() - *time_of_death;
                const std::string text = error_of(comm);
                expect(status == HKT_ERROR_PEER_LOST, text);
                expect(elapsed < 8000,
                       "known after " + std::to_string(elapsed) + " ms");  // the heartbeat's: 10 s
                expect(text.find("rank 1 was lost") != std::string::npos, text);
                // The news may come before the next operation begins.
                const bool is_between = text.find("was between operations") != std::string::npos;
                for (const char* part : {"was in all_reduce #", "step ", "ring.sched:"})
                    expect(is_between || text.find(part) != std::string::npos, text);
                expect(hkt_comm_status(comm) == HKT_ERROR_PEER_LOST, "status");
                expect(hkt_barrier(comm) == HKT_ERROR_PEER_LOST, "barrier");
                hkt_comm_destroy(comm);
            });
        INFO(provider);
        CHECK(outcomes[1].signal == SIGKILL);
        for (const int survivor : {0, 2, 3}) CHECK(outcomes[survivor].text == "");
    }
}

TEST_CASE("threads may share a communicator") {
    const auto outcomes = run_ranks({2}, [](int rank) {
        const JoinedComm comm;
        std::vector<std::int64_t> data(3000, rank + 1);
        std::vector<hkt_request*> requests(30);
        std::vector<std::vector<std::int64_t>> results(30, std::vector<std::int64_t>(3000));
        for (int i = 0; i < 30; ++i)
            must(comm, hkt_all_reduce(data.data(), results[i].data(), 3000, HKT_INT64, HKT_SUM, comm,
                                      &requests[i]));
        std::vector<std::thread> threads;
        std::array<hkt_status, 30> statuses{};
        for (int t = 0; t < 3; ++t)
            threads.emplace_back([&, t] {
                for (int i = t; i < 30; i += 3) statuses[i] = hkt_wait(requests[i]);
            });
        for (auto& thread : threads) thread.join();
        for (int i = 0; i < 30; ++i) {
            must(comm, statuses[i]);
            for (const auto value : results[i]) expect(value == 3, "a sum is wrong");
        }
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("the library shows hkt_ symbols of version HOCKET_0.1 and no others") {
    std::FILE* nm = popen("nm -D --defined-only --with-symbol-versions " HOCKET_LIBRARY, "r");
    REQUIRE(nm != nullptr);
    std::string text;
    char buffer[4096];
    while (std::fgets(buffer, sizeof buffer, nm) != nullptr) text += buffer;
    REQUIRE(pclose(nm) == 0);
    std::istringstream lines(text);
    int functions = 0;
    for (std::string address, kind, name; lines >> address >> kind >> name;) {
        if (kind == "A") continue;  // the version itself
        CHECK_THAT(name, Catch::StartsWith("hkt_") && Catch::EndsWith("@@HOCKET_0.1"));
        ++functions;
    }
    CHECK(functions == 133);
}

TEST_CASE(
    "a recording of the last operations, beside a thread that waits; a monitored barrier that all come to") {
    const auto outcomes = run_ranks({2}, [](int rank) {
        JoinedComm comm;
        std::vector<float> data(100);
        must(comm, hkt_all_reduce(data.data(), data.data(), 100, HKT_FLOAT32, HKT_MAX, comm, nullptr));
        const std::string path = "/tmp/hocket-capi-test-" + std::to_string(getpid()) + ".json";
        const auto dumped = [&] {
            must(comm, hkt_comm_dump(comm, path.c_str()));
            const std::string text = read_file(path);
            std::remove(path.c_str());
            return text;
        };
        if (rank == 0) {
            // The other rank answers only after it was seen that this one waits.
            std::thread waiting(
                [&] { must(comm, hkt_recv(data.data(), 100, HKT_FLOAT32, 1, 5, comm, nullptr)); });
            std::string text;
            while (text.find("rank 1 has not sent it") == std::string::npos) text = dumped();
            must(comm, hkt_send(data.data(), 1, HKT_FLOAT32, 1, 6, comm, nullptr));
            waiting.join();
            for (const char* part : {"\"collective\": \"all_reduce\"", "\"op\": \"max\"", "\"count\": 100",
                                     "\"tag\": 5", "\"waits_for\": 1"})
                expect(text.find(part) != std::string::npos, part + text);
            expect(hkt_comm_dump(comm, "/nonexistent/x") == HKT_ERROR_IO, "a folder that is not there");
            expect(hkt_comm_dump(comm, "") == HKT_ERROR_INVALID_ARGUMENT, "no path");
        } else {
            must(comm, hkt_recv(data.data(), 1, HKT_FLOAT32, 0, 6, comm, nullptr));
            must(comm, hkt_send(data.data(), 100, HKT_FLOAT32, 0, 5, comm, nullptr));
        }
        expect(dumped().find("in flight") == std::string::npos, "all have ended");
        for (int i = 0; i < 50; ++i) must(comm, hkt_barrier_monitored(comm, 30000));
        expect(hkt_barrier_monitored(comm, 0) == HKT_ERROR_INVALID_ARGUMENT, "no time");
        must(comm, hkt_barrier(comm));
    });
    CHECK(problems(outcomes) == "");
    const JoinedComm single{alone()};
    CHECK(hkt_barrier_monitored(single, 1) == HKT_SUCCESS);
}

TEST_CASE("a rank that waits in a monitored barrier moves what others need of it") {
    const auto outcomes = run_ranks({2, {{"HOCKET_PROVIDER_FOR_ALL", "tcp"}}}, [](int rank) {
        JoinedComm comm;
        std::vector<float> data(1 << 20, 1.0f);
        hkt_request* request = nullptr;
        must(comm,
             hkt_all_reduce(data.data(), data.data(), data.size(), HKT_FLOAT32, HKT_SUM, comm, &request));
        if (rank == 1) must(comm, hkt_wait(request));  // needs all of rank 0's messages
        must(comm, hkt_barrier_monitored(comm, 30000));
        if (rank == 0) must(comm, hkt_wait(request));
        expect(data[data.size() - 1] == 2.0f, "the sum");
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("shared memory is allocated, registered and given back, alone and among ranks") {
    for (const int ranks : {1, 3}) {
        const auto outcomes = run_ranks({ranks}, [ranks](int rank) {
            const JoinedComm comm;
            constexpr std::size_t count = 100'003, bytes = count * sizeof(float);
            void* allocated = nullptr;
            must(comm, hkt_mem_alloc(comm, bytes, &allocated));
            expect(reinterpret_cast<std::uintptr_t>(allocated) % 4096 == 0, "it is not page-aligned");
            std::vector<float> plain(count);
            auto* shared = static_cast<float*>(allocated);
            for (int round = 0; round < 3; ++round) {
                // The second round with the plain buffer registered, the third as it was.
                if (round == 1) must(comm, hkt_mem_register(comm, plain.data(), bytes));
                if (round == 2) must(comm, hkt_mem_deregister(comm, plain.data()));
                for (std::size_t i = 0; i < count; ++i)
                    shared[i] = static_cast<float>(rank + round) + static_cast<float>(i % 7);
                must(comm, hkt_all_reduce(shared, plain.data(), count, HKT_FLOAT32, HKT_SUM, comm, nullptr));
                for (std::size_t i = 0; i < count; ++i) {
                    float want = 0;
                    for (int r = 0; r < ranks; ++r)
                        want += static_cast<float>(r + round) + static_cast<float>(i % 7);
                    if (plain[i] != want)
                        return expect(false, "a wrong sum in round " + std::to_string(round));
                }
            }
            must(comm, hkt_mem_free(comm, allocated));
            must(comm, hkt_mem_free(comm, nullptr));
        });
        CHECK(problems(outcomes) == "");
    }
}

TEST_CASE("memory that is not what it should be is refused in words") {
    const JoinedComm comm{alone()};
    void* memory = &memory;
    CHECK(hkt_mem_alloc(comm, 0, &memory) == HKT_SUCCESS);
    CHECK(memory == nullptr);
    CHECK(hkt_mem_alloc(comm, SIZE_MAX / 2, &memory) == HKT_ERROR_OUT_OF_MEMORY);
    CHECK(error_of(comm) != "");
    CHECK(hkt_mem_alloc(comm, 100, nullptr) == HKT_ERROR_INVALID_ARGUMENT);
    CHECK(hkt_mem_alloc(nullptr, 100, &memory) == HKT_ERROR_INVALID_ARGUMENT);
    int stack[10];
    CHECK(hkt_mem_free(comm, stack) == HKT_ERROR_INVALID_ARGUMENT);
    CHECK(hkt_mem_register(comm, stack, sizeof stack) == HKT_ERROR_INVALID_ARGUMENT);
    CHECK(error_of(comm) != "");
    CHECK(hkt_mem_deregister(comm, stack) == HKT_ERROR_INVALID_ARGUMENT);
    CHECK(hkt_mem_register(comm, &memory, SIZE_MAX / 4) == HKT_ERROR_INVALID_ARGUMENT);
    CHECK_THAT(error_of(comm), Catch::Contains("not all of them are mapped"));
}

TEST_CASE("texts can be read by everyone, whatever bytes a name has") {
    const JoinedComm comm{alone()};
    hkt_plan* plan = nullptr;
    hkt_plan_options options = HKT_PLAN_OPTIONS_INIT;
    options.schedule = "ri\xffng\x1b[31m\xe2\x82";
    CHECK(hkt_plan_create(comm, HKT_ALL_REDUCE, HKT_FLOAT32, HKT_SUM, &options, &plan) == HKT_ERROR_SCHEDULE);
    CHECK_THAT(error_of(comm), Catch::Contains("ri?ng?[31m??"));
    options.schedule = "gr\xc3\xbc\xc3\x9f";
    CHECK(hkt_plan_create(comm, HKT_ALL_REDUCE, HKT_FLOAT32, HKT_SUM, &options, &plan) == HKT_ERROR_SCHEDULE);
    CHECK_THAT(error_of(comm), Catch::Contains("gr\xc3\xbc\xc3\x9f"));
}

TEST_CASE("a second wait for a request says what is wrong with it") {
    const JoinedComm comm{alone()};
    float data[10] = {};
    hkt_request* request = nullptr;
    REQUIRE(hkt_all_reduce(data, data, 10, HKT_FLOAT32, HKT_SUM, comm, &request) == HKT_SUCCESS);
    CHECK(hkt_wait(request) == HKT_SUCCESS);
    CHECK(hkt_wait(request) == HKT_ERROR_INVALID_ARGUMENT);
    CHECK_THAT(error_of(comm), Catch::Contains("was it waited for before"));
}

TEST_CASE("a plan tells which schedule it takes for a count, and why") {
    const auto outcomes = run_ranks({4}, [](int) {
        const JoinedComm comm;
        hkt_plan* plan = nullptr;
        must(comm, hkt_plan_create(comm, HKT_ALL_REDUCE, HKT_FLOAT32, HKT_SUM, nullptr, &plan));
        const std::string small = hkt_plan_schedule(plan, 1), large = hkt_plan_schedule(plan, 1 << 20);
        expect(small.rfind("exchange\n", 0) == 0, small);
        expect(large.rfind("direct\n", 0) == 0, large);
        expect(large.find(" us") != std::string::npos, large);
        hkt_plan_destroy(plan);
    });
    CHECK(problems(outcomes) == "");
}

namespace {

// A floating-point type, by the bits of its elements.
struct FloatBits {
    hkt_type type;
    std::size_t size;
    std::uint64_t infinity;         // all bits of the exponent
    std::uint64_t some_numbers[3];  // 1, 2, -3

    std::uint64_t sign() const { return std::uint64_t{1} << (size * 8 - 1); }
    bool is_nan(std::uint64_t bits) const { return (bits & ~sign()) > infinity; }
    std::uint64_t at(const std::vector<std::byte>& elements, std::size_t i) const {
        std::uint64_t bits = 0;
        std::memcpy(&bits, &elements[i * size], size);  // of this little-endian machine
        return bits;
    }
};

constexpr FloatBits float_types[] = {
    {HKT_FLOAT32, 4, 0x7f800000, {0x3f800000, 0x40000000, 0xc0400000}},
    {HKT_FLOAT64, 8, 0x7ff0000000000000, {0x3ff0000000000000, 0x4000000000000000, 0xc008000000000000}},
    {HKT_FLOAT16, 2, 0x7c00, {0x3c00, 0x4000, 0xc200}},
    {HKT_BFLOAT16, 2, 0x7f80, {0x3f80, 0x4000, 0xc040}}};

// Some NaNs, of any bits: quiet and signalling, of both signs.
std::vector<std::byte> with_nans(const FloatBits& type, std::size_t count, int rank) {
    std::vector<std::byte> elements(count * type.size);
    for (std::size_t i = 0; i < count; ++i) {
        const std::size_t drawn = i * 2654435761u + static_cast<std::size_t>(rank) * 40503u;
        std::uint64_t bits = type.some_numbers[drawn / 64 % 3];
        if (drawn / 1024 % 5 == 0)
            bits = type.infinity | (1 + drawn / 8192 % 7) | (drawn % 2 ? type.sign() : 0) |
                   (drawn / 2 % 2 ? (type.infinity & ~(type.infinity << 1)) >> 1 : 0);
        std::memcpy(&elements[i * type.size], &bits, type.size);
    }
    return elements;
}

}  // namespace

TEST_CASE("a NaN stays a NaN with every executor, type and operator, and all else has the same bits") {
    constexpr std::size_t count = 777;
    for (const char* provider : {"", "tcp"}) {
        const auto outcomes = run_ranks({3, {{"HOCKET_PROVIDER_FOR_ALL", provider}}}, [](int) {
            const JoinedComm comm;
            const int rank = hkt_comm_rank(comm);
            for (const FloatBits& type : float_types)
                for (const hkt_op op : {HKT_SUM, HKT_PRODUCT, HKT_MAX, HKT_MIN, HKT_AVERAGE}) {
                    const std::string what = std::string(hkt_type_name(type.type)) + " " + hkt_op_name(op);
                    std::vector<std::vector<std::byte>> inputs, results;
                    for (int other = 0; other < hkt_comm_size(comm); ++other)
                        inputs.push_back(with_nans(type, count, other));
                    for (const int executor :
                         {HKT_EXECUTOR_DEFAULT, HKT_EXECUTOR_INTERPRETER, HKT_EXECUTOR_JIT}) {
                        hkt_plan_options options = HKT_PLAN_OPTIONS_INIT;
                        options.executor = executor;
                        options.schedule = "exchange";
                        hkt_plan* plan = nullptr;
                        must(comm, hkt_plan_create(comm, HKT_ALL_REDUCE, type.type, op, &options, &plan));
                        const auto& own = inputs[static_cast<std::size_t>(rank)];
                        auto& result = results.emplace_back(own.size());
                        must(comm, hkt_plan_start(plan, own.data(), result.data(), count, nullptr));
                        hkt_plan_destroy(plan);
                        std::size_t nans = 0;
                        for (std::size_t i = 0; i < count; ++i) {
                            bool is_one = false;
                            for (const auto& input : inputs) is_one |= type.is_nan(type.at(input, i));
                            nans += is_one ? 1 : 0;
                            const std::uint64_t bits = type.at(result, i);
                            expect(type.is_nan(bits) == is_one,
                                   [&] { return what + ": a NaN, or none, for one of the inputs"; });
                            expect(is_one || bits == type.at(results[0], i),
                                   [&] { return what + ": other bits of a number"; });
                        }
                        expect(nans > 50 && nans < count - 50, "some NaNs");
                    }
                }
        });
        INFO(provider);
        CHECK(problems(outcomes) == "");
    }
}
