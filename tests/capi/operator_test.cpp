// Operators that schedule files define, as an embedder uses them: against a fold in plain C++.
#include <hocket.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "runtime/base/half.hpp"
#include "tests/capi/comm.hpp"
#include "tests/runtime/engine/ranks.hpp"
#include "tests/support/long_form.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/test.hpp"

using namespace hocket::test;
using Catch::Contains;

namespace {

class OperatorFile {
  public:
    explicit OperatorFile(const std::string& text) { std::ofstream(path()) << text; }
    std::string path() const { return folder_.path() + "/mine.sched"; }
    const std::string& folder() const { return folder_.path(); }
    std::string named(const std::string& name) const { return path() + ":" + name; }

  private:
    TemporaryFolder folder_;
};

const char* const operators = R"(
operator absmax(a, b) commutative associative = select(abs(a) >= abs(b), a, b)
operator first(a, b) associative = a
operator drift(a, b) = b - 0.25 * a
operator other_drift(a, b) = b - 0.5 * a
)";

hkt_op made(hkt_comm* comm, const std::string& name) {
    hkt_op op = HKT_OP_LAST;
    must(comm, hkt_op_create(comm, name.c_str(), &op));
    return op;
}

// Ranks alone, in memory, by messages, and both.
void in_every_placement(const std::function<void(hkt_comm*)>& body) {
    for (const std::string hosts : {"a", "aa", "aaa", "aaaa", "ab", "abc", "aabb", "abcd"}) {
        const auto outcomes = run_ranks({static_cast<int>(hosts.size()), {}, 180}, [&](int rank) {
            setenv("HOCKET_HOST_ID", hosts.substr(static_cast<std::size_t>(rank), 1).c_str(), 1);
            body(join().get());
        });
        INFO(hosts);
        CHECK(problems(outcomes) == "");
    }
}

// Multiples of 1/4 so small that no type rounds the result of drift for up to four of them, in any order of
// steps. The largest magnitude is often met twice, with different signs: then it matters which one comes
// first.
float operand(int rank, std::size_t i) {
    const auto whole = static_cast<int>((i * 5 + static_cast<std::size_t>(rank) * 3) % 7) - 3;
    return static_cast<float>(whole) * 4;
}

using Fold = float (*)(float, float);
float absmax(float x, float y) {
    return std::fabs(x) >= std::fabs(y) ? x : y;
}
float first(float x, float) {
    return x;
}
float drift(float x, float y) {
    return y - 0.25f * x;
}

float folded(Fold fold, int ranks, std::size_t i) {
    float result = operand(0, i);
    for (int rank = 1; rank < ranks; ++rank) result = fold(result, operand(rank, i));
    return result;
}

// A commutative operator may give either of two that tie.
bool is_right(Fold fold, float result, float expected) {
    return fold == absmax ? std::fabs(result) == std::fabs(expected) : result == expected;
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
struct Type<hocket::Float16> {
    static constexpr hkt_type value = HKT_FLOAT16;
};
template <>
struct Type<hocket::BFloat16> {
    static constexpr hkt_type value = HKT_BFLOAT16;
};

enum class CallWay { function, request, jit_plan, interpreter_plan };

hkt_status call(hkt_comm* comm, hkt_collective collective, hkt_type type, hkt_op op, CallWay way,
                const void* send, void* recv, std::size_t count) {
    if (way == CallWay::jit_plan || way == CallWay::interpreter_plan) {
        hkt_plan_options options = HKT_PLAN_OPTIONS_INIT;
        const bool has_jit = std::string(hkt_comm_info(comm, "executor")) == "jit";
        options.executor = way == CallWay::jit_plan && has_jit ? HKT_EXECUTOR_JIT : HKT_EXECUTOR_INTERPRETER;
        hkt_plan* plan = nullptr;
        must(comm, hkt_plan_create(comm, collective, type, op, &options, &plan));
        const hkt_status status = hkt_plan_start(plan, send, recv, count, nullptr);
        hkt_plan_destroy(plan);
        return status;
    }
    hkt_request* request = nullptr;
    hkt_request** const place = way == CallWay::request ? &request : nullptr;
    const hkt_status status =
        collective == HKT_ALL_REDUCE ? hkt_all_reduce(send, recv, count, type, op, comm, place)
        : collective == HKT_REDUCE   ? hkt_reduce(send, recv, count, type, op, 0, comm, place)
                                     : hkt_reduce_scatter(send, recv, count, type, op, comm, place);
    return request ? hkt_wait(request) : status;
}

template <typename T>
void check_operator(hkt_comm* comm, const std::string& name, Fold fold, hkt_collective collective,
                    CallWay way, std::size_t count) {
    const int rank = hkt_comm_rank(comm), ranks = hkt_comm_size(comm);
    const bool scatters = collective == HKT_REDUCE_SCATTER;
    const std::size_t whole = scatters ? static_cast<std::size_t>(ranks) * count : count,
                      begin = scatters ? static_cast<std::size_t>(rank) * count : 0;
    std::vector<T> send(whole), recv(count);
    for (std::size_t i = 0; i < whole; ++i) send[i] = static_cast<T>(operand(rank, i));
    const hkt_op op = made(comm, name);
    must(comm, call(comm, collective, Type<T>::value, op, way, send.data(), recv.data(), count));
    must(comm, hkt_op_destroy(op, comm));
    for (std::size_t i = 0; i < count && (collective != HKT_REDUCE || rank == 0); ++i)
        expect(is_right(fold, static_cast<float>(recv[i]), folded(fold, ranks, begin + i)), [&] {
            return name + ": element " + std::to_string(i) + " of " + hkt_collective_name(collective) + ", " +
                   hkt_type_name(Type<T>::value) + ", way " + std::to_string(static_cast<int>(way)) +
                   ", is " + std::to_string(static_cast<float>(recv[i]));
        });
}

template <typename T>
void check_type(hkt_comm* comm, const OperatorFile& file) {
    const std::pair<const char*, Fold> folds[] = {{"absmax", absmax}, {"first", first}, {"drift", drift}};
    std::size_t number = static_cast<std::size_t>(hkt_comm_size(comm));
    // float32 in every size; other types differ only in the arithmetic.
    const std::vector<std::size_t> counts = std::is_same_v<T, float>
                                                ? std::vector<std::size_t>{0, 1, 19, 40'001}
                                                : std::vector<std::size_t>{1999};
    for (const auto& [name, fold] : folds)
        for (const hkt_collective collective : {HKT_ALL_REDUCE, HKT_REDUCE_SCATTER, HKT_REDUCE})
            for (const CallWay way :
                 {CallWay::function, CallWay::request, CallWay::jit_plan, CallWay::interpreter_plan})
                for (const std::size_t count : counts)
                    if (number++ % in_long_form(1, 5) == 0)
                        check_operator<T>(comm, file.named(name), fold, collective, way, count);
}

// The error for a name, of a rank alone.
std::string refusal_of(hkt_comm* comm, const std::string& name, hkt_status expected) {
    hkt_op op = HKT_MAX;
    const std::string text = failure_of(comm, hkt_op_create(comm, name.c_str(), &op), expected);
    CHECK(op == HKT_MAX);
    return text;
}

}  // namespace

TEST_CASE("operators of a schedule file combine what the ranks have, in the order that they ask for") {
    const OperatorFile file(operators);
    in_every_placement([&](hkt_comm* comm) {
        check_type<float>(comm, file);
        const int turn = is_long_form() ? -1 : hkt_comm_size(comm) % 3;  // usually, one of the others
        if (turn <= 0) check_type<double>(comm, file);
        if (turn < 0 || turn == 1) check_type<hocket::Float16>(comm, file);
        if (turn < 0 || turn == 2) check_type<hocket::BFloat16>(comm, file);
    });
}

TEST_CASE("pieces of different counts are combined by an operator of a schedule file, too") {
    const OperatorFile file(operators);
    in_every_placement([&](hkt_comm* comm) {
        const int rank = hkt_comm_rank(comm), ranks = hkt_comm_size(comm);
        const std::size_t all_counts[] = {3, 0, 1000, 1};
        const std::vector<std::size_t> counts(all_counts, all_counts + ranks);
        std::size_t begin = 0, whole = 0;
        for (int other = 0; other < ranks; ++other) {
            begin += other < rank ? counts[static_cast<std::size_t>(other)] : 0;
            whole += counts[static_cast<std::size_t>(other)];
        }
        std::vector<float> send(whole), recv(counts[static_cast<std::size_t>(rank)]);
        for (std::size_t i = 0; i < whole; ++i) send[i] = operand(rank, i);
        must(comm, hkt_reduce_scatter_v(send.data(), recv.data(), counts.data(), HKT_FLOAT32,
                                        made(comm, file.named("drift")), comm, nullptr));
        for (std::size_t i = 0; i < recv.size(); ++i)
            expect(recv[i] == folded(drift, ranks, begin + i), "another result");
    });
}

TEST_CASE("numbers of 16 bits are folded as float32, and rounded once") {
    // 2048 + 1 is 2048 as a float16, but 2048 + 1 + 1 is 2050.
    const OperatorFile file("operator plus(a, b) = a + b");
    in_every_placement([&](hkt_comm* comm) {
        const int rank = hkt_comm_rank(comm), ranks = hkt_comm_size(comm);
        const std::vector<hocket::Float16> send(100, hocket::Float16(rank == 0 ? 2048.0f : 1.0f));
        std::vector<hocket::Float16> recv(100);
        must(comm, hkt_all_reduce(send.data(), recv.data(), 100, HKT_FLOAT16, made(comm, file.path()), comm,
                                  nullptr));
        const float expected[] = {2048, 2048, 2050, 2052};  // 2051 lies between two: the even one
        for (const hocket::Float16& value : recv)
            expect(static_cast<float>(value) == expected[ranks - 1], "rounded otherwise");
    });
}

TEST_CASE("a schedule that was named is refused if it needs more than the operator promises") {
    const OperatorFile file(operators);
    const auto outcomes = run_ranks({4, {}, 60}, [&](int) {
        const Comm comm = join();
        const auto plan_of = [&](const char* name, const char* schedule) {
            hkt_plan_options options = HKT_PLAN_OPTIONS_INIT;
            options.schedule = schedule;
            hkt_plan* plan = nullptr;
            const hkt_status status = hkt_plan_create(comm.get(), HKT_ALL_REDUCE, HKT_FLOAT32,
                                                      made(comm.get(), file.named(name)), &options, &plan);
            hkt_plan_destroy(plan);
            return status;
        };
        for (const char* schedule : {"ring", "direct", "halving", "exchange"})
            must(comm.get(), plan_of("absmax", schedule));
        must(comm.get(), plan_of("drift", "direct"));
        must(comm.get(), plan_of("first", "butterfly"));
        const std::string text = failure_of(comm.get(), plan_of("first", "ring"), HKT_ERROR_SCHEDULE);
        expect(text.find("with operator first, which is not said to be commutative") != std::string::npos &&
                   text.find("mine.sched:3") != std::string::npos,
               text);
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("ranks that combine with different operators do not agree") {
    const OperatorFile file(operators);
    for (const std::string hosts : {"aa", "ab"}) {
        const auto outcomes = run_ranks({2, {}, 60}, [&](int rank) {
            setenv("HOCKET_HOST_ID", hosts.substr(static_cast<std::size_t>(rank), 1).c_str(), 1);
            const Comm comm = join();
            const hkt_op op = made(comm.get(), file.named(rank == 0 ? "drift" : "other_drift"));
            const std::vector<float> send(50);
            std::vector<float> recv(50);
            const std::string text =
                failure_of(comm.get(),
                           hkt_all_reduce(send.data(), recv.data(), 50, HKT_FLOAT32, op, comm.get(), nullptr),
                           HKT_ERROR_MISMATCH);
            expect(text.find("drift") != std::string::npos, text);
        });
        INFO(hosts);
        CHECK(problems(outcomes) == "");
    }
}

TEST_CASE("an operator of a schedule file is one as long as it is not destroyed, and of one communicator") {
    const OperatorFile file(operators);
    const Comm one = alone(), another = alone();
    hkt_comm* const comm = one.get();
    const float send = 5;
    float recv = 0;
    const auto all_reduce = [&](hkt_op op, hkt_comm* in, hkt_type type = HKT_FLOAT32) {
        return hkt_all_reduce(&send, &recv, 1, type, op, in, nullptr);
    };
    const hkt_op op = made(comm, file.named("absmax"));
    CHECK(op != made(comm, file.named("absmax")));
    CHECK(all_reduce(op, comm) == HKT_SUCCESS);
    CHECK(recv == 5);
    CHECK(hkt_op_name(op) == std::string("user-defined"));
    for (const hkt_type type : {HKT_FLOAT32, HKT_FLOAT64, HKT_FLOAT16, HKT_BFLOAT16})
        CHECK(hkt_op_supports(op, type) == 1);
    CHECK(hkt_op_supports(op, HKT_INT32) == 0);
    CHECK(hkt_op_supports(op, static_cast<hkt_type>(77)) == 0);
    hkt_op found = HKT_MAX;
    CHECK(hkt_op_from_name("user-defined", &found) == HKT_ERROR_INVALID_ARGUMENT);
    CHECK_THAT(failure_of(comm, all_reduce(op, comm, HKT_INT32), HKT_ERROR_INVALID_ARGUMENT),
               Contains("the operator absmax (") && Contains("mine.sched:2") &&
                   Contains("does not exist for int32: operators of schedule files are of floating-point"));
    CHECK_THAT(failure_of(another.get(), all_reduce(op, another.get()), HKT_ERROR_INVALID_ARGUMENT),
               Contains("there is no operator " + std::to_string(op)));
    hkt_plan* plan = nullptr;
    must(comm, hkt_plan_create(comm, HKT_ALL_REDUCE, HKT_FLOAT32, op, nullptr, &plan));
    must(comm, hkt_op_destroy(op, comm));
    CHECK_THAT(failure_of(comm, all_reduce(op, comm), HKT_ERROR_INVALID_ARGUMENT), Contains("or destroyed"));
    CHECK_THAT(failure_of(comm, hkt_op_destroy(op, comm), HKT_ERROR_INVALID_ARGUMENT), Contains("destroyed"));
    recv = 0;
    must(comm, hkt_plan_start(plan, &send, &recv, 1, nullptr));  // it keeps its operator
    CHECK(recv == 5);
    hkt_plan_destroy(plan);
}

TEST_CASE("a name alone is looked up in the communicator's folders") {
    const OperatorFile file(operators);
    hkt_comm_options options = HKT_COMM_OPTIONS_INIT;
    options.rank = 0;
    options.world_size = 1;
    options.schedule_path = file.folder().c_str();
    const Comm comm = join(&options);
    CHECK(hkt_op_supports(made(comm.get(), "drift"), HKT_FLOAT64) == 1);
    CHECK_THAT(refusal_of(comm.get(), "draft", HKT_ERROR_NOT_FOUND),
               Contains("there are: absmax, drift, first, other_drift"));
}

TEST_CASE("what is wrong with a name or a definition is said when the operator is made") {
    const OperatorFile file("operator good(a, b) = a\noperator bad(a, b) = a + c");
    const Comm one = alone();
    hkt_comm* const comm = one.get();
    CHECK_THAT(refusal_of(comm, "nothing", HKT_ERROR_NOT_FOUND), Contains("there is no operator 'nothing'"));
    CHECK_THAT(refusal_of(comm, file.named("nothing"), HKT_ERROR_NOT_FOUND),
               Contains("defines no operator 'nothing'"));
    CHECK_THAT(refusal_of(comm, "/none/x.sched:a", HKT_ERROR_NOT_FOUND), Contains("cannot read"));
    CHECK_THAT(refusal_of(comm, file.named("bad"), HKT_ERROR_SCHEDULE),
               Contains("mine.sched:2:26: error:") && Contains("'c'"));
    CHECK_THAT(refusal_of(comm, "", HKT_ERROR_INVALID_ARGUMENT), Contains("name is null or empty"));
    hkt_op op = HKT_MAX;
    CHECK(hkt_op_create(comm, nullptr, &op) == HKT_ERROR_INVALID_ARGUMENT);
    CHECK(hkt_op_create(nullptr, "good", &op) == HKT_ERROR_INVALID_ARGUMENT);
    CHECK(op == HKT_MAX);
    CHECK(hkt_op_create(comm, file.named("good").c_str(), nullptr) == HKT_ERROR_INVALID_ARGUMENT);
    CHECK(hkt_comm_status(comm) == HKT_SUCCESS);
}
