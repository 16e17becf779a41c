// Sums of inputs that are multiplied first, as an embedder asks for them.
#include <hocket.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/capi/comm.hpp"
#include "tests/runtime/engine/ranks.hpp"
#include "tests/support/long_form.hpp"
#include "tests/support/test.hpp"

using namespace hocket::test;
using Catch::Contains;

namespace {

hkt_op premul_sum(hkt_comm* comm, double factor) {
    hkt_op op = HKT_SUM;
    must(comm, hkt_premul_sum_create(factor, comm, &op));
    return op;
}

// A rank alone, ranks in memory, between hosts, and both.
void in_every_placement(const std::function<void(hkt_comm*)>& body) {
    for (const std::string hosts : {"a", "aaaa", "aabb", "abcd"}) {
        const auto outcomes = run_ranks({static_cast<int>(hosts.size()), {}, 180}, [&](int rank) {
            setenv("HOCKET_HOST_ID", hosts.substr(static_cast<std::size_t>(rank), 1).c_str(), 1);
            body(join().get());
        });
        INFO(hosts);
        CHECK(problems(outcomes) == "");
    }
}

double factor_of(int rank) {
    return 3 - 2 * rank;
}

// Whole numbers so small that no sum of them, multiplied, is rounded by any type that has them.
std::int64_t premul_input(int rank, std::size_t i) {
    return static_cast<std::int64_t>((i * 7 + static_cast<std::size_t>(rank)) % 10);
}

std::int64_t multiplied_sum(int ranks, std::size_t i) {
    std::int64_t sum = 0;
    for (int rank = 0; rank < ranks; ++rank)
        sum += static_cast<std::int64_t>(factor_of(rank)) * premul_input(rank, i);
    return sum;
}

template <typename T>
struct Type;
template <>
struct Type<float> {
    static constexpr hkt_type value = HKT_FLOAT32;
};
template <>
struct Type<double> {
    static constexpr hkt_type value = HKT_FLOAT64;
};
template <>
struct Type<std::int16_t> {
    static constexpr hkt_type value = HKT_INT16;
};

// Memory of the process, or of the communicator.
template <typename T>
class Buffer {
  public:
    Buffer(hkt_comm* comm, std::size_t count, bool in_window) : comm_(comm), own_(count), data_(own_.data()) {
        if (!in_window) return;
        void* memory = nullptr;
        must(comm, hkt_mem_alloc(comm, count * sizeof(T), &memory));
        data_ = window_ = static_cast<T*>(memory);
    }
    ~Buffer() { hkt_mem_free(comm_, window_); }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    T* data() { return data_; }

  private:
    hkt_comm* comm_;
    std::vector<T> own_;
    T *data_, *window_ = nullptr;
};

// The way to call a collective: by its function, or by a plan that is made for it.
enum class CallWay { function, request, plan };

hkt_status call(hkt_comm* comm, hkt_collective collective, hkt_type type, hkt_op op, CallWay way,
                const void* send, void* recv, std::size_t count) {
    hkt_request* request = nullptr;
    hkt_request** place = way == CallWay::request ? &request : nullptr;
    hkt_status status = HKT_SUCCESS;
    if (way == CallWay::plan) {
        hkt_plan* plan = nullptr;
        must(comm, hkt_plan_create(comm, collective, type, op, nullptr, &plan));
        status = hkt_plan_start(plan, send, recv, count, nullptr);
        hkt_plan_destroy(plan);
    } else if (collective == HKT_ALL_REDUCE) {
        status = hkt_all_reduce(send, recv, count, type, op, comm, place);
    } else if (collective == HKT_REDUCE) {
        status = hkt_reduce(send, recv, count, type, op, 0, comm, place);
    } else {
        status = hkt_reduce_scatter(send, recv, count, type, op, comm, place);
    }
    return request ? hkt_wait(request) : status;
}

template <typename T>
void check(hkt_comm* comm, hkt_collective collective, std::size_t count, CallWay way, bool in_window,
           bool in_place) {
    const int rank = hkt_comm_rank(comm), ranks = hkt_comm_size(comm);
    const bool scatters = collective == HKT_REDUCE_SCATTER;
    const std::size_t pieces = scatters ? static_cast<std::size_t>(ranks) : 1, whole = pieces * count,
                      begin = scatters ? static_cast<std::size_t>(rank) * count : 0;
    const bool receives = collective != HKT_REDUCE || rank == 0;
    Buffer<T> from(comm, whole, in_window), to(comm, count, in_window);
    T *send = from.data(), *recv = in_place ? send + begin : to.data();
    for (std::size_t i = 0; i < whole; ++i) send[i] = static_cast<T>(premul_input(rank, i));
    const hkt_op op = premul_sum(comm, factor_of(rank));
    must(comm, call(comm, collective, Type<T>::value, op, way, send, receives ? recv : nullptr, count));
    must(comm, hkt_op_destroy(op, comm));
    const std::string what = std::string(hkt_collective_name(collective)) + " of " + std::to_string(count) +
                             " " + hkt_type_name(Type<T>::value) + ", way " +
                             std::to_string(static_cast<int>(way)) + (in_window ? ", in the window" : "") +
                             (in_place ? ", in place" : "");
    for (std::size_t i = 0; receives && i < count; ++i)
        expect(recv[i] == static_cast<T>(multiplied_sum(ranks, begin + i)),
               [&] { return what + ": element " + std::to_string(i) + " is wrong"; });
    for (std::size_t i = 0; i < whole; ++i) {
        const bool is_covered = in_place && receives && i >= begin && i < begin + count;
        expect(is_covered || send[i] == static_cast<T>(premul_input(rank, i)),
               [&] { return what + ": send was written to"; });
    }
}

template <typename T>
void check_type(hkt_comm* comm) {
    std::size_t number = sizeof(T);
    for (const hkt_collective collective : {HKT_ALL_REDUCE, HKT_REDUCE_SCATTER, HKT_REDUCE})
        for (const std::size_t count : {0, 1, 7, 65'537})
            for (const CallWay way : {CallWay::function, CallWay::request, CallWay::plan})
                for (const bool in_window : {false, true})
                    for (const bool in_place : {false, true})
                        if (number++ % in_long_form(1, 5) == 0)
                            check<T>(comm, collective, count, way, in_window, in_place);
}

void refused_by(hkt_comm* comm, hkt_status status, const std::string& words) {
    CHECK(status == HKT_ERROR_INVALID_ARGUMENT);
    CHECK_THAT(hkt_comm_last_error(comm), Contains(words));
}

}  // namespace

TEST_CASE("each rank's input is multiplied by its factor before inputs are added") {
    in_every_placement([](hkt_comm* comm) {
        check_type<float>(comm);
        check_type<double>(comm);
        check_type<std::int16_t>(comm);
    });
}

TEST_CASE("pieces of different counts are multiplied, too") {
    in_every_placement([](hkt_comm* comm) {
        const int rank = hkt_comm_rank(comm), ranks = hkt_comm_size(comm);
        const std::size_t all_counts[] = {3, 0, 1000, 1};
        const std::vector<std::size_t> counts(all_counts, all_counts + ranks);
        std::size_t begin = 0, whole = 0;
        for (int other = 0; other < ranks; ++other) {
            begin += other < rank ? counts[static_cast<std::size_t>(other)] : 0;
            whole += counts[static_cast<std::size_t>(other)];
        }
        const std::size_t own = counts[static_cast<std::size_t>(rank)];
        for (const bool in_place : {false, true}) {
            std::vector<double> send(whole), apart(own + 1);
            for (std::size_t i = 0; i < whole; ++i) send[i] = static_cast<double>(premul_input(rank, i));
            double* recv = in_place ? send.data() + begin : apart.data();
            const hkt_op op = premul_sum(comm, factor_of(rank));
            must(comm,
                 hkt_reduce_scatter_v(send.data(), recv, counts.data(), HKT_FLOAT64, op, comm, nullptr));
            for (std::size_t i = 0; i < own; ++i)
                expect(recv[i] == static_cast<double>(multiplied_sum(ranks, begin + i)), "another sum");
        }
    });
}

// 3 * 2049 is 6147, of which float16 keeps 6148, and 2049 itself it would take for 2048. 3 * 2048 is 6144, so
// that rank 0's product less rank 1's is 4, and would be 3 if they were rounded only when added. The same
// with 257 and 256, of which bfloat16 makes 772 and 768.
TEST_CASE("numbers of 16 bits are multiplied as float32, and rounded before they are added") {
    struct Case {
        hkt_type type;
        double factors[2];
        std::uint16_t three, one_product, difference;
    };
    in_every_placement([](hkt_comm* comm) {
        const int rank = hkt_comm_rank(comm), ranks = hkt_comm_size(comm);
        for (const Case& c : {Case{HKT_FLOAT16, {2049, -2048}, 0x4200, 0x6e01, 0x4400},
                              {HKT_BFLOAT16, {257, -256}, 0x4040, 0x4441, 0x4080}}) {
            const hkt_op op = premul_sum(comm, rank < 2 ? c.factors[rank] : 0);
            for (const std::size_t count : {1, 7, 65'537}) {
                const std::vector<std::uint16_t> send(count, c.three);
                std::vector<std::uint16_t> recv(count);
                must(comm, hkt_all_reduce(send.data(), recv.data(), count, c.type, op, comm, nullptr));
                expect(recv == std::vector<std::uint16_t>(count, ranks == 1 ? c.one_product : c.difference),
                       std::string(hkt_type_name(c.type)) + ": another sum");
            }
        }
    });
}

TEST_CASE("integers wrap around, and floats follow IEEE 754") {
    const Comm comm = alone();
    std::int8_t small = 100;
    must(comm.get(),
         hkt_all_reduce(&small, &small, 1, HKT_INT8, premul_sum(comm.get(), 3), comm.get(), nullptr));
    CHECK(small == 44);
    std::uint64_t large = 3;
    must(comm.get(),
         hkt_all_reduce(&large, &large, 1, HKT_UINT64, premul_sum(comm.get(), 0x1p63), comm.get(), nullptr));
    CHECK(large == 1ull << 63);
    const float zero = 0;
    float product = 0;
    must(comm.get(), hkt_all_reduce(&zero, &product, 1, HKT_FLOAT32,
                                    premul_sum(comm.get(), std::numeric_limits<double>::infinity()),
                                    comm.get(), nullptr));
    CHECK(std::isnan(product));
}

TEST_CASE("an operator that was made is one as long as it is not destroyed, and of one communicator") {
    const Comm one = alone(), other = alone();
    hkt_comm* comm = one.get();
    const float send = 5;
    float recv = 0;
    const auto all_reduce = [&](hkt_op op, hkt_comm* in) {
        return hkt_all_reduce(&send, &recv, 1, HKT_FLOAT32, op, in, nullptr);
    };
    const hkt_op twice = premul_sum(comm, 2), thrice = premul_sum(comm, 3), twice_too = premul_sum(comm, 2);
    CHECK((twice != thrice && twice != twice_too));
    for (const auto& [op, product] : {std::pair(twice, 10.f), {thrice, 15.f}, {twice_too, 10.f}}) {
        CHECK(all_reduce(op, comm) == HKT_SUCCESS);
        CHECK(recv == product);
        CHECK(hkt_op_name(op) == std::string("premul_sum"));
        CHECK(hkt_op_supports(op, HKT_INT8) == 1);
        CHECK(hkt_op_supports(op, HKT_BOOL) == 0);
        refused_by(other.get(), all_reduce(op, other.get()), "there is no operator " + std::to_string(op));
        refused_by(other.get(), hkt_op_destroy(op, other.get()),
                   "there is no operator " + std::to_string(op));
    }
    CHECK(hkt_op_destroy(twice, comm) == HKT_SUCCESS);
    refused_by(comm, all_reduce(twice, comm),
               "of this communicator: it was made for another one, or destroyed");
    refused_by(comm, hkt_op_destroy(twice, comm), "destroyed");
    CHECK(all_reduce(twice_too, comm) == HKT_SUCCESS);
    CHECK(premul_sum(comm, 2) != twice);
    CHECK(all_reduce(twice, comm) == HKT_ERROR_INVALID_ARGUMENT);
    CHECK(hkt_comm_status(comm) == HKT_SUCCESS);
}

TEST_CASE("a plan keeps the factor that it was created with") {
    const Comm one = alone();
    hkt_comm* comm = one.get();
    const hkt_op twice = premul_sum(comm, 2), thrice = premul_sum(comm, 3);
    hkt_plan *by_two = nullptr, *by_three = nullptr;
    must(comm, hkt_plan_create(comm, HKT_ALL_REDUCE, HKT_INT32, twice, nullptr, &by_two));
    must(comm, hkt_plan_create(comm, HKT_ALL_REDUCE, HKT_INT32, thrice, nullptr, &by_three));
    must(comm, hkt_op_destroy(twice, comm));
    must(comm, hkt_op_destroy(thrice, comm));
    for (int round = 0; round < 2; ++round)
        for (const auto& [plan, product] : {std::pair(by_two, 14), {by_three, 21}}) {
            const std::int32_t send = 7;
            std::int32_t recv = 0;
            hkt_request* request = nullptr;
            must(comm, hkt_plan_start(plan, &send, &recv, 1, &request));
            must(comm, hkt_wait(request));
            CHECK(recv == product);
        }
    hkt_plan_destroy(by_two);
    hkt_plan_destroy(by_three);
}

TEST_CASE("what is wrong with an operator or its factor is said before anything moves") {
    const Comm one = alone();
    hkt_comm* comm = one.get();
    const std::int32_t send = 5;
    std::int32_t recv = -1;
    hkt_plan* plan = nullptr;
    const std::size_t count = 1;
    const auto refused_everywhere = [&](hkt_type type, hkt_op op, const std::string& words) {
        refused_by(comm, hkt_all_reduce(&send, &recv, 1, type, op, comm, nullptr), words);
        refused_by(comm, hkt_reduce(&send, &recv, 1, type, op, 0, comm, nullptr), words);
        refused_by(comm, hkt_reduce_scatter(&send, &recv, 1, type, op, comm, nullptr), words);
        refused_by(comm, hkt_reduce_scatter_v(&send, &recv, &count, type, op, comm, nullptr), words);
        refused_by(comm, hkt_plan_create(comm, HKT_ALL_REDUCE, type, op, nullptr, &plan), words);
    };
    refused_everywhere(HKT_INT32, HKT_PREMUL_SUM, "hkt_premul_sum_create");
    refused_everywhere(HKT_BOOL, HKT_PREMUL_SUM, "premul_sum does not exist for bool");
    const hkt_op half = premul_sum(comm, 0.5), huge = premul_sum(comm, 1e300), minus = premul_sum(comm, -1);
    refused_everywhere(HKT_BOOL, half, "premul_sum does not exist for bool");
    refused_everywhere(HKT_INT32, half,
                       "the factor 0.5 is not a whole number from -2147483648 to 2147483647");
    refused_everywhere(HKT_INT64, huge, "the factor 1e+300 is not a whole number");
    refused_everywhere(HKT_UINT8, minus, "the factor -1 is not a whole number from 0 to 255");
    refused_everywhere(HKT_FLOAT32, huge, "the factor 1e+300 is beyond the range");
    refused_everywhere(HKT_INT32, HKT_OP_LAST, "it must be one of HKT_SUM");
    refused_everywhere(HKT_INT32, static_cast<hkt_op>(77),
                       ", or an operator that hkt_premul_sum_create or hkt_op_create made");
    CHECK_THAT(hkt_comm_last_error(comm), !Contains("HKT_PREMUL_SUM"));
    // Constants from which no operator can be made.
    refused_everywhere(HKT_INT32, static_cast<hkt_op>(256 + HKT_SUM), "it must be one of HKT_SUM");
    CHECK(recv == -1);
    CHECK(plan == nullptr);
    refused_by(comm, hkt_op_destroy(HKT_SUM, comm), "a constant");
    refused_by(comm, hkt_op_destroy(HKT_PREMUL_SUM, comm), "a constant");
    refused_by(comm, hkt_premul_sum_create(1, comm, nullptr), "op is null");
    hkt_op op = HKT_MAX;
    CHECK(hkt_premul_sum_create(1, nullptr, &op) == HKT_ERROR_INVALID_ARGUMENT);
    CHECK(op == HKT_MAX);
    CHECK(hkt_op_destroy(half, nullptr) == HKT_ERROR_INVALID_ARGUMENT);
    CHECK(hkt_op_name(HKT_OP_LAST) == nullptr);
    CHECK(hkt_op_name(static_cast<hkt_op>(256 + HKT_SUM)) == nullptr);
    // A broadcast asks for no operator.
    CHECK(hkt_plan_create(comm, HKT_BROADCAST, HKT_INT32, HKT_PREMUL_SUM, nullptr, &plan) == HKT_SUCCESS);
    hkt_plan_destroy(plan);
    CHECK(hkt_comm_status(comm) == HKT_SUCCESS);
}

TEST_CASE("operators are made while other threads start operations") {
    const Comm one = alone();
    hkt_comm* comm = one.get();
    std::atomic<int> wrong = 0;
    const auto work = [&](int own) {
        for (int i = 0; i < 500; ++i) {
            hkt_op op = HKT_SUM;
            const std::int32_t send = 11;
            std::int32_t recv = 0;
            wrong += hkt_premul_sum_create(own, comm, &op) != HKT_SUCCESS;
            wrong += hkt_all_reduce(&send, &recv, 1, HKT_INT32, op, comm, nullptr) != HKT_SUCCESS;
            wrong += recv != 11 * own;
            wrong += hkt_op_destroy(op, comm) != HKT_SUCCESS;
        }
    };
    std::vector<std::thread> threads;
    for (int own = 1; own <= 4; ++own) threads.emplace_back(work, own);
    for (std::thread& thread : threads) thread.join();
    CHECK(wrong == 0);
}

TEST_CASE("ranks whose operators differ are told so, ranks whose factors differ are not") {
    for (const char* hosts : {"aa", "ab"}) {
        const auto outcomes = run_ranks({2, {{"HOCKET_TIMEOUT_MS", "20000"}}, 60}, [&](int rank) {
            setenv("HOCKET_HOST_ID", std::string(1, hosts[rank]).c_str(), 1);
            const Comm comm = join();
            const hkt_op op = premul_sum(comm.get(), rank == 0 ? 10 : 100);
            for (const std::size_t count : {1, 100'000}) {
                std::vector<std::int32_t> data(count, 3);
                must(comm.get(),
                     hkt_all_reduce(data.data(), data.data(), count, HKT_INT32, op, comm.get(), nullptr));
                expect(data == std::vector<std::int32_t>(count, 330), "another sum");
            }
            std::vector<std::int32_t> data(100'000, 3);
            const hkt_status status = hkt_all_reduce(data.data(), data.data(), data.size(), HKT_INT32,
                                                     rank == 0 ? op : HKT_SUM, comm.get(), nullptr);
            expect(status == HKT_ERROR_MISMATCH, "a premul_sum and a sum: no mismatch");
        });
        INFO(hosts);
        CHECK(problems(outcomes) == "");
    }
}
