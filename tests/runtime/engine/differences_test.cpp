// Ranks that start different operations: for every pair of operations, and for every rank that differs, no
// rank waits for its deadline.
#include <fmt/format.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <thread>

#include "runtime/engine/communicator.hpp"
#include "runtime/engine/groups.hpp"
#include "tests/runtime/engine/failures.hpp"
#include "tests/support/tally.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using namespace std::chrono_literals;
using dsl::Collective;
using engine::Communicator;
using engine::PlanChoice;
using test::expect;
using test::run_ranks;

namespace {

constexpr int ranks = 3;

// An operation that a rank starts, and its name in errors.
struct Act {
    enum class Kind { collective, barrier, split };
    Kind kind = Kind::collective;
    PlanChoice choice = {};
    std::uint64_t count = 12;
    std::string name;

    // Operations in which this rank receives nothing, and those in which the others need nothing from it.
    bool only_takes_from(int rank) const { return goes_one_way(choice.root == rank); }
    bool needs_nothing_of(int rank) const { return goes_one_way(choice.root != rank); }

  private:
    bool goes_one_way(bool away_from_root) const {
        const dsl::Contract& contract = contract_of(choice.collective);
        return kind == Kind::collective && (away_from_root ? contract.spreads() : contract.concentrates());
    }
};

Act act_of(Collective collective) {
    return {.choice = {.collective = collective}, .name = fmt::format("{} #0 (", dsl::name_of(collective))};
}

std::vector<Act> acts() {
    std::vector<Act> all;
    for (const Collective collective : dsl::all_collectives) all.push_back(act_of(collective));
    all.push_back({.kind = Act::Kind::barrier, .name = "barrier #0 ("});
    all.push_back({.kind = Act::Kind::split, .name = "a split #0 ("});
    return all;
}

// One rank starts another operation than the others.
struct Case {
    Act others, differs;
    int rank;

    std::string text() const {
        return fmt::format("rank {} starts {}, the others {}", rank, differs.name, others.name);
    }
    const Act& of(int which) const { return which == rank ? differs : others; }
    // The only pairs in which no rank may have to wait: the rank only sends, and the others need nothing from
    // it, as in a broadcast against a reduce of a rank that is not the root. Its messages wait at their
    // destination. The next operation reveals the difference.
    bool may_end_well() const { return differs.only_takes_from(rank) && others.needs_nothing_of(rank); }
};

// A case on a communicator of its own.
class Run {
  public:
    Run(Communicator& parent, const Case& of)
        : case_(of),
          comm_(engine::split(parent, "for a case", 0, parent.rank())),
          send_(512, 1.0),
          recv_(512) {}
    ~Run() {
        if (thread_.joinable()) thread_.join();
    }
    Run(const Run&) = delete;

    void start() {
        const Act& act = case_.of(comm_->rank());
        if (act.kind == Act::Kind::split)
            thread_ = std::thread([this] {
                failure_ = test::failure_of([&] { engine::split(*comm_, "a split", 0, 0); });
                has_ended_ = true;
            });
        else
            failure_ = test::failure_of([&] {
                request_ = act.kind == Act::Kind::barrier
                               ? &comm_->exchanges().start_barrier()
                               : &comm_->start(comm_->plans().cached_plan(act.choice, act.count),
                                               send_.data(), recv_.data(), act.count);
            });
        if (!request_ && act.kind != Act::Kind::split) has_ended_ = true;
    }
    bool has_ended() {
        if (!has_ended_ && request_) {
            bool done = false;
            failure_ = test::failure_of([&] { done = comm_->progress().test(*request_); });
            has_ended_ = done || failure_ != "no failure";
        }
        return has_ended_;
    }
    const std::string& failure() const { return failure_; }
    const Case& of() const { return case_; }
    std::string next() {
        return test::failure_of([&] { comm_->exchanges().barrier(), comm_->exchanges().barrier(); });
    }

  private:
    const Case& case_;
    std::unique_ptr<Communicator> comm_;
    std::vector<double> send_, recv_;
    engine::Execution* request_ = nullptr;
    std::thread thread_;
    std::atomic<bool> has_ended_ = false;
    std::string failure_ = "no failure";
};

void check_failure(const std::string& failure, const Case& of, const std::string& when) {
    const auto has = [&](const std::string& part) { return failure.find(part) != std::string::npos; };
    expect(failure.starts_with("-8:") && has(of.others.name) && has(of.differs.name) &&
               has(fmt::format("rank {}", of.rank)),
           fmt::format("{}: {}: {}", of.text(), when, failure));
}

// Runs many cases at the same time, as each takes a moment to be noticed. failed: the number of failed ranks,
// by case.
void check(Communicator& parent, std::span<const Case> cases, std::atomic<int>* failed,
           const std::function<void()>& meet) {
    std::vector<std::unique_ptr<Run>> runs;
    for (const Case& one : cases) runs.push_back(std::make_unique<Run>(parent, one));
    for (const auto& run : runs) run->start();
    for (bool is_over = false; !is_over;) {
        is_over = true;
        for (const auto& run : runs) is_over &= run->has_ended();
        std::this_thread::sleep_for(1ms);
    }
    for (std::size_t i = 0; i < runs.size(); ++i) failed[i] += runs[i]->failure() == "no failure" ? 0 : 1;
    meet();  // no rank leaves a communicator that others still use
    for (std::size_t i = 0; i < runs.size(); ++i) {
        Run& run = *runs[i];
        if (run.failure() != "no failure") check_failure(run.failure(), run.of(), "at once");
        expect(failed[i] > 0 || run.of().may_end_well(), run.of().text() + ": no rank has noticed");
        check_failure(run.next(), run.of(), "afterwards");
    }
    meet();
}

struct Way {
    const char* name;
    const char* provider;
    bool each_rank;                  // differs in each pair; else one does
    std::size_t one_of;              // takes one of this many pairs
    std::size_t at_once;             // libfabric keeps the memory of endpoints that were closed in use
    std::vector<std::string> hosts;  // by rank; empty: all share one
};

const std::vector<Way>& ways() {
    static const std::vector<Way> all = {{"tcp", "tcp", true, 1, 30, {}},
                                         {"libfabric", "ofi+tcp", false, 4, 6, {}},
                                         {"memory", "", false, 1, 30, {}},
                                         {"mixed", "", false, 1, 30, {"a", "a", "b"}}};
    return all;
}

void check_together(const Way& way, std::span<const Case> cases) {
    const test::Tally met;
    auto* const failed =
        static_cast<std::atomic<int>*>(test::shared_memory(cases.size() * sizeof(std::atomic<int>)));
    const auto outcomes = run_ranks(
        {ranks, {{"HOCKET_PROVIDER_FOR_ALL", way.provider}, {"HOCKET_TIMEOUT_MS", "40000"}}}, [&](int rank) {
            if (!way.hosts.empty()) setenv("HOCKET_HOST_ID", way.hosts[rank].c_str(), 1);
            const auto parent = Communicator::create(engine::resolve({}));
            int rendezvous = 0;
            check(*parent, cases, failed, [&] { met.meet(ranks * ++rendezvous); });
        });
    INFO(way.name);
    CHECK(test::problems(outcomes) == "");
}

// cases: for each pair one for each rank.
void check_everywhere(const std::vector<Case>& cases) {
    for (const Way& way : ways()) {
        std::vector<Case> chosen;
        for (std::size_t i = 0; i < cases.size(); ++i)
            if (i / ranks % way.one_of == 0 && (way.each_rank || i % ranks == i / ranks % ranks))
                chosen.push_back(cases[i]);
        for (std::size_t begin = 0; begin < chosen.size(); begin += way.at_once)
            check_together(way,
                           std::span(chosen).subspan(begin, std::min(way.at_once, chosen.size() - begin)));
    }
}

}  // namespace

TEST_CASE("any two operations that ranks start in each other's place are named, without a deadline") {
    std::vector<Case> cases;
    for (const Act& others : acts())
        for (const Act& differs : acts())
            for (int rank = 0; rank < ranks; ++rank)
                if (others.name != differs.name) cases.push_back({others, differs, rank});
    check_everywhere(cases);
}

TEST_CASE("so are counts, types, operators, roots and schedules that differ in any collective") {
    std::vector<Case> cases;
    for (const Collective collective : dsl::all_collectives) {
        const dsl::Contract& contract = contract_of(collective);
        const auto with = [&](const Act& changed, const std::string& word) {
            Act act = changed;
            act.name = word;
            return act;
        };
        const auto add = [&](Act one, const std::string& word, Act other, const std::string& other_word) {
            for (int rank = 0; rank < ranks; ++rank)
                cases.push_back({with(one, word), with(other, other_word), rank});
        };
        const Act usual = act_of(collective);
        Act changed = usual;
        changed.count = 13;
        add(usual, ", 12 elements)", changed, ", 13 elements)");
        changed = usual;
        changed.choice.type = DataType::int32;
        add(usual, ", float32", changed, ", int32");
        if (contract.combines()) {
            changed = usual;
            changed.choice.op = ReduceOp::max;
            add(usual, "float32 sum", changed, "float32 max");
        }
        if (contract.has_root()) {
            changed = usual;
            changed.choice.root = 1;
            add(usual, " rank 0, 12", changed, " rank 1, 12");
        }
    }
    for (const auto& [collective, one, other] : {std::tuple(Collective::reduce, "direct", "binomial"),
                                                 std::tuple(Collective::broadcast, "chain", "binomial"),
                                                 std::tuple(Collective::gather, "binomial", "direct"),
                                                 std::tuple(Collective::scatter, "binomial", "direct"),
                                                 std::tuple(Collective::all_reduce, "ring", "direct")})
        for (int rank = 0; rank < ranks; ++rank) {
            Act act = act_of(collective), changed = act;
            act.choice.schedule = one, changed.choice.schedule = other;
            act.name = fmt::format("({}", one), changed.name = fmt::format("({}", other);
            cases.push_back({act, changed, rank});
        }
    check_everywhere(cases);
}

TEST_CASE("files with schedules of one name and other text are told apart by the files, and what they do") {
    const auto folder =
        std::filesystem::temp_directory_path() / fmt::format("hocket-differences-{}", getpid());
    const auto write = [&](const char* name, const char* hops) {
        std::filesystem::create_directories(folder / name);
        std::ofstream(folder / name / "mine.sched") << "schedule mine broadcast(x, root) {\n"
                                                    << hops << "}\n";
        return (folder / name / "mine.sched").string();
    };
    const std::string one = write("one", "    x : root -> root + 1\n    x : root + 1 -> root + 2\n"),
                      other = write("other", "    x : root -> root + 2\n    x : root + 2 -> root + 1\n");
    std::vector<Case> cases;
    for (int rank = 0; rank < ranks; ++rank) {
        Act act = act_of(Collective::broadcast), changed = act;
        act.choice.schedule = one, changed.choice.schedule = other;
        act.name = one, changed.name = other;
        cases.push_back({act, changed, rank});
    }
    check_everywhere(cases);
    std::filesystem::remove_all(folder);
}

TEST_CASE("a rank that is late, or has gone on to compute, is known by what it starts") {
    for (const Way& way : ways()) {
        const test::Tally have_come, seen;
        const auto outcomes = run_ranks(
            {ranks, {{"HOCKET_PROVIDER_FOR_ALL", way.provider}, {"HOCKET_TIMEOUT_MS", "40000"}}},
            [&](int rank) {
                if (!way.hosts.empty()) setenv("HOCKET_HOST_ID", way.hosts[rank].c_str(), 1);
                const auto comm = Communicator::create(engine::resolve({}));
                std::vector<float> data(512, 1);
                const auto run = [&](Collective collective) {
                    return test::failure_of([&] {
                        comm->run(
                            comm->plans().cached_plan({.collective = collective, .schedule = "direct"}, 8),
                            data.data(), data.data() + 256, 8);
                    });
                };
                // Late by more than the time after which waiting ranks ask, but without a difference.
                if (rank == 2) std::this_thread::sleep_for(700ms);
                const std::string first_of_all = run(Collective::all_reduce);
                expect(first_of_all == "no failure", "a late rank is blamed: " + first_of_all);
                have_come.meet(ranks);  // a difference in the next operation would end this one, too
                // A root that only sends is done at once, and computes from then on.
                if (rank == 0) {
                    const std::string first = run(Collective::scatter);
                    seen.await(2);
                    const std::string text = first != "no failure" ? first : run(Collective::all_reduce);
                    return test::expect_contains(text, {"-8:", "scatter #1 (", "all_reduce #1 ("});
                }
                test::expect_contains(run(Collective::all_reduce),
                                      {"-8:", "scatter #1 (", "all_reduce #1 (", "rank 0"});
                seen.add();
            });
        INFO(way.name);
        CHECK(test::problems(outcomes) == "");
    }
}

TEST_CASE("what a message shows is named by what was started, though its sender computes for long") {
    for (const Way& way : ways()) {
        const test::Tally failed;
        const auto outcomes = run_ranks(
            {ranks, {{"HOCKET_PROVIDER_FOR_ALL", way.provider}, {"HOCKET_TIMEOUT_MS", "40000"}}},
            [&](int rank) {
                if (!way.hosts.empty()) setenv("HOCKET_HOST_ID", way.hosts[rank].c_str(), 1);
                const auto comm = Communicator::create(engine::resolve({}));
                std::vector<float> data(512, 1);
                // Rank 1 only sends in its gather, and rank 0 in its scatter: both may end well.
                std::string text = test::failure_of([&] {
                    const Collective collective = rank == 1 ? Collective::gather : Collective::scatter;
                    comm->run(comm->plans().cached_plan({.collective = collective, .schedule = "direct"}, 8),
                              data.data(), data.data() + 256, 8);
                });
                if (rank == 1) failed.await(2);
                if (text == "no failure")
                    text =
                        test::failure_of([&] { comm->exchanges().barrier(), comm->exchanges().barrier(); });
                test::expect_contains(text, {"-8:", "scatter #0 (", "gather #0 (", "rank 1"});
                if (rank != 1) failed.add();
            });
        INFO(way.name);
        CHECK(test::problems(outcomes) == "");
    }
}

TEST_CASE("a TIMEOUT does not blame ranks that come by, or wait again, for one that is not there") {
    for (const char* const provider : {"", "tcp"})
        for (const bool comes_by : {true, false}) {
            // A rank that waits again must be asked again before the end.
            const char* const limit = comes_by ? "3000" : "5000";
            const test::Tally ended;
            const auto outcomes = run_ranks(
                {ranks, {{"HOCKET_PROVIDER_FOR_ALL", provider}, {"HOCKET_TIMEOUT_MS", limit}}},
                [&](int rank) {
                    const auto comm = Communicator::create(engine::resolve({}));
                    std::vector<float> data(512, 1);
                    if (rank == 2) return ended.await(2);
                    engine::Execution& request =
                        comm->start(comm->plans().cached_plan(
                                        {.collective = Collective::all_reduce, .schedule = "direct"}, 8),
                                    data.data(), data.data() + 256, 8);
                    const std::string text = test::failure_of([&] {
                        while (rank == 1 && comes_by && !comm->progress().test(request))
                            std::this_thread::sleep_for(50ms);
                        // Meanwhile it is asked, and answers that no thread moves the operation.
                        if (rank == 1) std::this_thread::sleep_for(1200ms);
                        comm->progress().wait(request);
                    });
                    ended.add();
                    expect(text.find("no thread of it is in a call") == std::string::npos, text);
                    test::expect_contains(
                        text, {"-7:", "rank 2 had not started it when it was asked, nor any other"});
                });
            INFO(provider << (comes_by ? ", comes by" : ", waits again"));
            CHECK(test::problems(outcomes) == "");
        }
}

TEST_CASE("a TIMEOUT names on each rank those that have not started it, however many ranks wait in between") {
    for (const Way& way : ways())
        for (const int late : {0, 2}) {  // the one that asks all; one of those that answer
            const test::Tally ended;
            const auto outcomes = run_ranks(
                {ranks, {{"HOCKET_PROVIDER_FOR_ALL", way.provider}, {"HOCKET_TIMEOUT_MS", "3000"}}},
                [&](int rank) {
                    if (!way.hosts.empty()) setenv("HOCKET_HOST_ID", way.hosts[rank].c_str(), 1);
                    const auto comm = Communicator::create(engine::resolve({}));
                    std::vector<float> data(512, 1);
                    const auto run = [&] {
                        comm->run(comm->plans().cached_plan(
                                      {.collective = Collective::all_reduce, .schedule = "ring"}, 8),
                                  data.data(), data.data() + 256, 8);
                    };
                    run();
                    if (rank == late) return ended.await(2);
                    const std::string text = test::failure_of(run);
                    ended.add();
                    const std::string named = fmt::format(
                        "\n  rank {} had not started it when it was asked; the latest that it had "
                        "started was all_reduce #0 (ring",
                        late);
                    test::expect_contains(text, {"-7:", named.c_str()});
                    for (int other = 0; other < ranks; ++other)
                        if (other != late)
                            expect(text.find(fmt::format("rank {} had not", other)) == std::string::npos,
                                   text);
                });
            INFO(way.name << ", rank " << late);
            CHECK(test::problems(outcomes) == "");
        }
}

TEST_CASE("a TIMEOUT does not blame ranks that are kept waiting in an earlier operation") {
    constexpr int many = 4, late = 2;
    for (const char* const provider : {"", "tcp"}) {
        const test::Tally ended;
        const auto outcomes = run_ranks(
            {many, {{"HOCKET_PROVIDER_FOR_ALL", provider}, {"HOCKET_TIMEOUT_MS", "2500"}}}, [&](int rank) {
                const auto comm = Communicator::create(engine::resolve({}));
                std::vector<float> data(512, 1);
                const auto run = [&](Collective collective, const char* schedule) {
                    comm->run(comm->plans().cached_plan({.collective = collective, .schedule = schedule}, 8),
                              data.data(), data.data() + 256, 8);
                };
                if (rank == late) return ended.await(many - 1);
                // Ranks 0 and 1 pass the data on and go on to the second operation; rank 3 waits in the
                // first.
                const std::string text = test::failure_of([&] {
                    run(Collective::broadcast, "chain");
                    run(Collective::all_reduce, "ring");
                });
                ended.add();
                test::expect_contains(text, {"-7:", "\n  rank 2 had not started it when it was asked"});
                for (const int other : {0, 1, 3})
                    expect(text.find(fmt::format("rank {} had not", other)) == std::string::npos, text);
            });
        INFO(provider);
        CHECK(test::problems(outcomes) == "");
    }
}
