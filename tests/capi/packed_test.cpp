// Random schedules whose data travel in narrower formats, or of which only the largest elements do, on ranks
// that share memory, between hosts and both: every element has the bits of a plain calculation, start after
// start, with what the states keep.
#include <hocket.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/capi/comm.hpp"
#include "tests/capi/computing.hpp"
#include "tests/runtime/engine/ranks.hpp"
#include "tests/support/long_form.hpp"
#include "tests/support/packed.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/test.hpp"

using namespace hocket::test;
using hocket::dsl::WireFormat;

namespace {

struct Topology {
    int inner = 1, outer = 1;
    int ranks() const { return inner * outer; }
    int size(int level) const { return level == 0 ? inner : level == 1 ? outer : ranks(); }
    // The rank's number in its group, and the group's ranks. Level 2 is both.
    int member(int rank, int level) const {
        return level == 0 ? rank % inner : level == 1 ? rank / inner : rank;
    }
    std::vector<int> group(int rank, int level) const {
        std::vector<int> members;
        for (int other = 0; other < ranks(); ++other)
            if (level == 2 || (level == 0 ? other / inner == rank / inner : other % inner == rank % inner))
                members.push_back(other);
        return members;
    }
};

enum class Movement { scatter, gather, reduce };  // reduce_scatter, all_gather, all_reduce

struct Statement {
    Movement way = Movement::scatter;
    int level = 0;
    bool is_packed = false, keeps = false;
    std::optional<WireFormat> format = {};  // of packed values; none: the largest elements
    double density = 0;
    std::string text = {};
};

struct PackedSchedule {
    std::vector<Statement> statements;
    std::string text;
};

class PackedGenerator {
  public:
    PackedGenerator(unsigned seed, const Topology& topology) : random_(seed), topology_(topology) {}

    PackedSchedule schedule() {
        PackedSchedule made;
        std::vector<int> levels{2};
        if (topology_.outer > 1 && below(3) > 0) levels = below(2) ? std::vector{0, 1} : std::vector{1, 0};
        std::vector<int> scattered;
        for (const int level : levels) {
            if (below(4) == 0) {
                add(made, Movement::reduce, level);
                continue;
            }
            add(made, Movement::scatter, level);
            scattered.push_back(level);
        }
        std::reverse(scattered.begin(), scattered.end());
        for (const int level : scattered) add(made, Movement::gather, level);
        bool is_lossy = false;  // what a state kept before may be left out later
        for (const Statement& statement : made.statements)
            is_lossy |= statement.is_packed && !statement.format && !statement.keeps;
        made.text =
            std::string("schedule random all_reduce(x) approximate") + (is_lossy ? " lossy" : "") + " {\n";
        for (const Statement& statement : made.statements) made.text += statement.text;
        made.text += "}\n";
        return made;
    }

  private:
    std::size_t below(std::size_t limit) { return random_() % limit; }

    // Returns the name of the format.
    std::string set_format(Statement& statement) {
        const std::size_t kind = below(std::size(hocket::dsl::wire_format_rows) + 3);
        if (kind >= std::size(hocket::dsl::wire_format_rows)) {
            static const double densities[] = {0.001, 0.01, 0.1, 0.25, 1};
            statement.density = densities[below(5)];
            return "mstopk(" + std::to_string(statement.density) + ")";
        }
        WireFormat format{static_cast<WireFormat::Kind>(kind)};
        static const std::uint32_t blocks[] = {8, 32, 256, 1000};
        if (format.has_scales()) format.block = blocks[below(4)];
        statement.format = format;
        return format.text();
    }

    void add(PackedSchedule& made, Movement way, int level) {
        Statement statement{way, level, way == Movement::reduce || below(5) > 0};
        const std::string over = level == 2 ? "world" : "levels[" + std::to_string(level) + "]";
        const std::string state = "e" + std::to_string(made.statements.size());
        static const char* const names[] = {"reduce_scatter", "all_gather", "all_reduce"};
        statement.text = std::string("    ") + names[static_cast<int>(way)] + " x over " + over;
        if (way == Movement::gather) {
            static const char* const algorithms[] = {"", " using ring", " using direct"};
            statement.text += algorithms[below(3)];
        }
        if (statement.is_packed) {
            statement.text += " as " + set_format(statement);
            statement.keeps = below(2) == 0;
            if (statement.keeps)
                statement.text = "    state " + state + " like x\n" + statement.text + " keeping " + state;
        } else if (way == Movement::scatter) {
            statement.text += " using direct";  // adds in the order of ranks
        }
        statement.text += "\n";
        made.statements.push_back(statement);
    }

    std::mt19937 random_;
    Topology topology_;
};

// ---- What a schedule means ---------------------------------------------------------------------

// All ranks, in step. T: the type of x.
template <typename T>
class Meaning {
  public:
    // factors: by rank, for its input.
    Meaning(const PackedSchedule& schedule, const Topology& topology, std::size_t count,
            std::vector<float> factors)
        : schedule_(schedule),
          topology_(topology),
          count_(count),
          factors_(std::move(factors)),
          states_(schedule.statements.size()) {
        for (auto& state : states_)
            state.assign(static_cast<std::size_t>(topology.ranks()), std::vector<float>(count, 0.0f));
    }

    std::vector<std::vector<float>> start(std::size_t number) {
        x_.clear();
        parts_.assign(static_cast<std::size_t>(topology_.ranks()), {0, 1});
        for (std::size_t rank = 0; rank < parts_.size(); ++rank) {
            std::vector<float>& x = x_.emplace_back();
            for (std::size_t i = 0; i < count_; ++i)
                x.push_back(rounded<T>(rounded<T>(scrambled_input(rank, number, i)) * factors_[rank]));
        }
        for (std::size_t s = 0; s < schedule_.statements.size(); ++s)
            run(schedule_.statements[s], states_[s]);
        return x_;
    }

  private:
    struct Part {
        std::size_t number, parts;
    };
    std::size_t begin(const Part& part) const { return part.number * count_ / part.parts; }
    std::size_t end(const Part& part) const { return (part.number + 1) * count_ / part.parts; }
    Part within(const Part& part, int i, int parts) const {
        return {part.number * static_cast<std::size_t>(parts) + static_cast<std::size_t>(i),
                part.parts * static_cast<std::size_t>(parts)};
    }

    // What arrives of each rank's part, which is divided into so many pieces.
    std::vector<std::vector<float>> sent(const Statement& statement, int pieces,
                                         std::vector<std::vector<float>>& state) {
        std::vector<std::vector<float>> all = x_;
        for (std::size_t rank = 0; statement.is_packed && rank < x_.size(); ++rank)
            for (int piece = 0; piece < pieces; ++piece) {
                const Part part = within(parts_[rank], piece, pieces);
                std::vector<float> values;
                for (std::size_t i = begin(part); i < end(part); ++i)
                    values.push_back(statement.keeps ? state[rank][i] + x_[rank][i] : x_[rank][i]);
                const std::vector<float> arrived =
                    statement.format ? travelled(*statement.format, values)
                                     : travelled_largest<T>(statement.density, begin(part), values);
                for (std::size_t i = begin(part); i < end(part); ++i) {
                    const std::size_t at = i - begin(part);
                    all[rank][i] = arrived[at];
                    const float left = values[at] - arrived[at];
                    if (statement.keeps) state[rank][i] = std::isfinite(left) ? left : 0;
                }
            }
        return all;
    }

    void run(const Statement& statement, std::vector<std::vector<float>>& state) {
        const int size = topology_.size(statement.level);
        if (size == 1) return;
        const auto all = sent(statement, statement.way == Movement::scatter ? size : 1, state);
        for (int rank = 0; rank < topology_.ranks(); ++rank) {
            Part& part = parts_[static_cast<std::size_t>(rank)];
            std::vector<float>& x = x_[static_cast<std::size_t>(rank)];
            const std::vector<int> group = topology_.group(rank, statement.level);
            if (statement.way != Movement::gather) {
                if (statement.way == Movement::scatter)
                    part = within(part, topology_.member(rank, statement.level), size);
                for (std::size_t i = begin(part); i < end(part); ++i) {
                    float sum = 0;
                    for (const int member : group) sum += all[static_cast<std::size_t>(member)][i];
                    x[i] = rounded<T>(sum);
                }
                continue;
            }
            part = {part.number / static_cast<std::size_t>(size),
                    part.parts / static_cast<std::size_t>(size)};
            for (int m = 0; m < size; ++m) {
                const Part theirs = within(part, m, size);
                for (std::size_t i = begin(theirs); i < end(theirs); ++i) {
                    const float value = all[static_cast<std::size_t>(group[static_cast<std::size_t>(m)])][i];
                    x[i] = statement.is_packed ? rounded<T>(0 + value) : value;  // 0 + -0 is 0
                }
            }
        }
    }

    const PackedSchedule& schedule_;
    Topology topology_;
    std::size_t count_;
    std::vector<float> factors_;
    std::vector<std::vector<std::vector<float>>> states_;  // by statement, rank and element
    std::vector<std::vector<float>> x_;
    std::vector<Part> parts_;
};

// ---- Running it --------------------------------------------------------------------------------

template <typename T>
void check_packed(hkt_comm* comm, int rank, const std::string& path, const PackedSchedule& schedule,
                  const Topology& topology, hkt_type type, std::size_t count, unsigned seed) {
    hkt_plan_options options = HKT_PLAN_OPTIONS_INIT;
    options.schedule = path.c_str();
    options.executor = seed % 4 == 0 ? HKT_EXECUTOR_INTERPRETER : HKT_EXECUTOR_DEFAULT;
    // Sums, averages, and sums of inputs that each rank multiplies by a factor of its own.
    const auto ranks = static_cast<std::size_t>(topology.ranks());
    hkt_op op = HKT_SUM;
    std::vector<float> factors(ranks, 1.0f);
    if (seed % 7 == 5) {
        op = HKT_AVERAGE;
        factors.assign(ranks, 1.0f / static_cast<float>(ranks));
    } else if (seed % 7 == 6) {
        for (std::size_t i = 0; i < ranks; ++i) factors[i] = 0.75f - static_cast<float>(i);
        must(comm, hkt_premul_sum_create(factors[static_cast<std::size_t>(rank)], comm, &op));
    }
    hkt_plan* made = nullptr;
    must(comm, hkt_plan_create(comm, HKT_ALL_REDUCE, type, op, &options, &made));
    const std::unique_ptr<hkt_plan, void (*)(hkt_plan*)> plan(made, hkt_plan_destroy);
    Meaning<T> meaning(schedule, topology, count, factors);
    for (std::size_t start = 0; start < 3; ++start) {
        const std::vector<float> wanted = meaning.start(start)[static_cast<std::size_t>(rank)];
        std::vector<T> x, y(count);
        for (std::size_t i = 0; i < count; ++i)
            x.push_back(static_cast<T>(scrambled_input(static_cast<std::size_t>(rank), start, i)));
        T* const result = seed % 3 == 0 ? x.data() : y.data();
        must(comm, hkt_plan_start(plan.get(), x.data(), result, count, nullptr));
        for (std::size_t i = 0; i < count; ++i)
            expect(static_cast<float>(result[i]) == wanted[i], [&] {
                return "element " + std::to_string(i) + " of " + std::to_string(count) + " is " +
                       std::to_string(static_cast<float>(result[i])) + ", not " + std::to_string(wanted[i]) +
                       ", in start " + std::to_string(start) + ", seed " + std::to_string(seed) + ":\n" +
                       schedule.text;
            });
    }
}

}  // namespace

TEST_CASE("data in narrower formats arrive as their formats say, in every layout") {
    const unsigned schedules = in_long_form(600u, 21u);
    struct Place {
        const char *hosts, *topology;
        Topology shape;
    };
    for (const Place& place :
         {Place{"aaa", "3", {3, 1}}, Place{"aabb", "2x2", {2, 2}}, Place{"aaaa", "2x2", {2, 2}},
          Place{"abcd", "4", {4, 1}}, Place{"aabbcc", "2x3", {2, 3}}}) {
        const TemporaryFolder folder;
        std::vector<PackedSchedule> all;
        for (unsigned seed = 0; seed < schedules; ++seed) {
            all.push_back(PackedGenerator(seed, place.shape).schedule());
            std::ofstream(folder.path() + "/" + std::to_string(seed) + ".sched") << all.back().text;
        }
        const std::string hosts = place.hosts;
        const auto outcomes = run_ranks({static_cast<int>(hosts.size()), {}, 600}, [&](int rank) {
            setenv("HOCKET_HOST_ID", hosts.substr(static_cast<std::size_t>(rank), 1).c_str(), 1);
            hkt_comm_options options = HKT_COMM_OPTIONS_INIT;
            options.topology = place.topology;
            const Comm comm = join(&options);
            static const std::size_t counts[] = {1, 70'001, 100, 4099, 3, 0, 1000};
            // Usually, each placement has one of the longest, which take most of the time.
            const unsigned with_most = static_cast<unsigned>(hosts.size()) % 3 * 7 + 1;
            for (unsigned seed = 0; seed < schedules; ++seed) {
                const std::string path = folder.path() + "/" + std::to_string(seed) + ".sched";
                std::size_t count = counts[seed % std::size(counts)];
                if (!is_long_form() && count > 5000 && seed != with_most) count /= 10;
                const auto with = [&](auto element, hkt_type type) {
                    check_packed<decltype(element)>(comm.get(), rank, path, all[seed], place.shape, type,
                                                    count, seed);
                };
                if (seed % 5 < 3) with(float{}, HKT_FLOAT32);
                if (seed % 5 == 3) with(hocket::BFloat16{}, HKT_BFLOAT16);
                if (seed % 5 == 4) with(hocket::Float16{}, HKT_FLOAT16);
            }
        });
        INFO(place.hosts << " " << place.topology);
        CHECK(problems(outcomes) == "");
    }
}

TEST_CASE("selections that travel like a format are those of the statements that it stands for") {
    const TemporaryFolder folder;
    const std::string path = folder.path() + "/short.sched";
    std::ofstream(path) << "schedule short all_reduce(x) approximate {\n"
                           "    reduce_scatter x over levels[0]\n"
                           "    state e like x\n"
                           "    all_reduce x over levels[1] as mstopk(0.05) keeping e\n"
                           "    all_gather x over levels[0]\n}\n";
    const auto outcomes = run_ranks({4, {}, 120}, [&](int rank) {
        setenv("HOCKET_HOST_ID", rank < 2 ? "a" : "b", 1);
        const Comm comm = join();
        std::vector<std::unique_ptr<hkt_plan, void (*)(hkt_plan*)>> plans;
        for (const std::string& name : {std::string("hitopk(0.05)"), path}) {
            hkt_plan_options options = HKT_PLAN_OPTIONS_INIT;
            options.schedule = name.c_str();
            hkt_plan* made = nullptr;
            must(comm.get(),
                 hkt_plan_create(comm.get(), HKT_ALL_REDUCE, HKT_FLOAT32, HKT_SUM, &options, &made));
            plans.emplace_back(made, hkt_plan_destroy);
        }
        for (std::size_t start = 0; start < 4; ++start) {
            std::vector<float> x, results[2];
            for (std::size_t i = 0; i < 30'000; ++i)  // no two are equal
                x.push_back(scrambled_input(static_cast<std::size_t>(rank), start, i));
            for (std::size_t i = 0; i < 2; ++i) {
                results[i].resize(x.size());
                must(comm.get(),
                     hkt_plan_start(plans[i].get(), x.data(), results[i].data(), x.size(), nullptr));
            }
            expect(results[0] == results[1], "they differ in start " + std::to_string(start));
            expect(std::count(results[0].begin(), results[0].end(), 0.0f) < 29'000, "nothing was sent");
        }
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("a NaN among the largest elements reaches all ranks, and later starts have none") {
    constexpr std::size_t count = 1000, ranks = 4, starts = 3;
    auto* const results = static_cast<float*>(shared_memory(starts * ranks * count * sizeof(float)));
    const auto result = [&](std::size_t start, std::size_t rank) {
        return results + (start * ranks + rank) * count;
    };
    const auto outcomes = run_ranks({static_cast<int>(ranks), {}, 120}, [&](int own) {
        const auto rank = static_cast<std::size_t>(own);
        setenv("HOCKET_HOST_ID", rank < 2 ? "a" : "b", 1);
        const Comm comm = join();
        hkt_plan_options options = HKT_PLAN_OPTIONS_INIT;
        options.schedule = "oktopk(0.25)";
        hkt_plan* made = nullptr;
        must(comm.get(), hkt_plan_create(comm.get(), HKT_ALL_REDUCE, HKT_FLOAT32, HKT_SUM, &options, &made));
        const std::unique_ptr<hkt_plan, void (*)(hkt_plan*)> plan(made, hkt_plan_destroy);
        for (std::size_t start = 0; start < starts; ++start) {
            std::vector<float> x;
            for (std::size_t i = 0; i < count; ++i) x.push_back(scrambled_input(rank, start, i));
            if (rank == 1 && start == 1) x[10] = std::numeric_limits<float>::infinity();
            must(comm.get(), hkt_plan_start(plan.get(), x.data(), result(start, rank), count, nullptr));
        }
    });
    CHECK(problems(outcomes) == "");
    for (std::size_t start = 0; start < starts; ++start) {
        INFO("start " << start);
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < count; ++i) {
            const bool may_be_any = start == 1 && i < count / ranks;  // the part that the infinity is in
            wrong += !may_be_any && !std::isfinite(result(start, 0)[i]);
        }
        CHECK(wrong == 0);
        const bool has_any = !std::all_of(result(start, 0), result(start, 0) + count,
                                          [](float value) { return std::isfinite(value); });
        CHECK(has_any == (start == 1));
        for (std::size_t rank = 1; rank < ranks; ++rank)
            CHECK(std::memcmp(result(start, 0), result(start, rank), count * sizeof(float)) == 0);
    }
}

TEST_CASE("a plan whose operator or type has no narrower formats is refused") {
    const auto outcomes = run_ranks({2, {}, 60}, [](int) {
        const Comm comm = join();
        hkt_plan_options options = HKT_PLAN_OPTIONS_INIT;
        options.schedule = "quantised";
        const auto refusal = [&](hkt_type type, hkt_op op) {
            hkt_plan* plan = nullptr;
            expect(hkt_plan_create(comm.get(), HKT_ALL_REDUCE, type, op, &options, &plan) ==
                       HKT_ERROR_INVALID_ARGUMENT,
                   "it was accepted");
            return std::string(hkt_comm_last_error(comm.get()));
        };
        const auto expect_text = [](const std::string& text, const char* wanted) {
            expect(text.find(wanted) != std::string::npos, text);
        };
        expect_text(
            refusal(HKT_FLOAT32, HKT_MAX),
            "schedule quantised(int8) adds up values in a narrower format, so its operator must be sum");
        expect_text(refusal(HKT_FLOAT32, HKT_PRODUCT), "average or premul_sum, not product");
        expect_text(refusal(HKT_FLOAT64, HKT_SUM), "float32, float16 and bfloat16, not of float64");
        expect_text(refusal(HKT_INT32, HKT_SUM), "not with int32");
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("between hosts alone, reduce_scatter and all_gather round what crosses, once") {
    struct Place {
        const char *hosts, *topology;
        int inner, outer;
    };
    for (const Place& place :
         {Place{"aabb", "2x2", 2, 2}, Place{"aaaa", "2x2", 2, 2}, Place{"aabbcc", "2x3", 2, 3}}) {
        const std::string hosts = place.hosts;
        const auto outcomes = run_ranks({static_cast<int>(hosts.size()), {}, 120}, [&](int rank) {
            setenv("HOCKET_HOST_ID", hosts.substr(static_cast<std::size_t>(rank), 1).c_str(), 1);
            hkt_comm_options options = HKT_COMM_OPTIONS_INIT;
            options.topology = place.topology;
            const Comm comm = join(&options);
            const auto ranks = static_cast<std::size_t>(hosts.size());
            const WireFormat format{WireFormat::Kind::int4, 64};
            for (const std::size_t count : {0, 1, 70, 5000}) {
                const auto piece_of = [&](std::size_t from, std::size_t piece) {
                    std::vector<float> values;
                    for (std::size_t i = 0; i < count; ++i)
                        values.push_back(scrambled_input(from, 0, piece * count + i));
                    return values;
                };
                const auto run = [&](hkt_collective collective, const std::vector<float>& send,
                                     std::size_t size) {
                    hkt_plan_options with = HKT_PLAN_OPTIONS_INIT;
                    with.schedule = "quantised_hosts(int4(64))";
                    hkt_plan* made = nullptr;
                    must(comm.get(),
                         hkt_plan_create(comm.get(), collective, HKT_FLOAT32, HKT_SUM, &with, &made));
                    const std::unique_ptr<hkt_plan, void (*)(hkt_plan*)> plan(made, hkt_plan_destroy);
                    std::vector<float> received(size);
                    must(comm.get(),
                         hkt_plan_start(plan.get(), send.data(), received.data(), count, nullptr));
                    return received;
                };
                std::vector<float> send;
                for (std::size_t piece = 0; piece < ranks; ++piece)
                    for (const float value : piece_of(static_cast<std::size_t>(rank), piece))
                        send.push_back(value);
                std::vector<float> wanted(count, 0.0f);
                for (int host = 0; host < place.outer; ++host) {
                    std::vector<float> sum(count, 0.0f);
                    for (int member = 0; member < place.inner; ++member) {
                        const auto values = piece_of(static_cast<std::size_t>(host * place.inner + member),
                                                     static_cast<std::size_t>(rank));
                        for (std::size_t i = 0; i < count; ++i) sum[i] += values[i];
                    }
                    const std::vector<float> arrived = travelled(format, sum);
                    for (std::size_t i = 0; i < count; ++i) wanted[i] += arrived[i];
                }
                expect(run(HKT_REDUCE_SCATTER, send, count) == wanted,
                       "reduce_scatter of " + std::to_string(count));
                std::vector<float> all;
                for (std::size_t from = 0; from < ranks; ++from)
                    for (const float value : travelled(format, piece_of(from, 0))) all.push_back(value);
                expect(run(HKT_ALL_GATHER, piece_of(static_cast<std::size_t>(rank), 0), ranks * count) == all,
                       "all_gather of " + std::to_string(count));
            }
        });
        INFO(place.hosts << " " << place.topology);
        CHECK(problems(outcomes) == "");
    }
}
