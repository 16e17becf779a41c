// Random schedules with states and a selection. Those that the proof accepts are run on symbols, start after
// start, by a simulation that shares nothing with the proof and follows each rank's contribution to each
// start until it is sent. Each contribution is sent in only one start, selected values reach every rank, and
// a contribution in a state is kept until it is sent or is in a result. HOCKET_SELECTIONS = 100000 runs that
// many schedules.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "tests/dsl/errors.hpp"
#include "tests/support/long_form.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using namespace hocket::test;

namespace {

// The kinds of a term: "0 * v"; "v"; one that only asks about v, "select(v, 0, 0)".
constexpr int times_0 = 0, times_1 = 1, asked = 2;
constexpr int elements = 3, starts = 7, x = 0, most_states = 4;

struct Statement {
    enum class Kind : std::uint8_t { update, select, subtract, clear, gather, sum } kind;
    int target = x;
    std::vector<std::pair<int, int>> terms = {};  // of an update: factors, see below, and variables
};

struct Program {
    int ranks = 2;
    bool is_scattered = false;  // x is reduced and scattered before, and gathered after the statements
    // How x travels then. As bfloat16 nothing of what is in a value changes; of the largest elements' rest a
    // state (y on the first way, z on the last) keeps all, or nothing does.
    enum class Form : std::uint8_t { whole, rounded, largest, largest_kept } in = Form::whole, out = Form::whole;
    int states = 0;
    std::vector<Statement> statements;
};

std::string name_of(int variable) {
    return variable == x ? "x" : std::string(1, static_cast<char>('d' + variable));
}

std::string program_text(const Program& program) {
    using Form = Program::Form;
    const auto travel = [](const char* collective, Form form, const std::string& state) {
        const bool keeps = form == Form::largest_kept;
        return (keeps ? "state " + state + " like x\n" : "") + collective + " x over world" +
               (form == Form::whole     ? ""
                : form == Form::rounded ? " as bfloat16"
                : keeps                 ? " as mstopk(0.5) keeping " + state
                                        : " as mstopk(0.5)") +
               "\n";
    };
    std::string text = program.is_scattered ? travel("reduce_scatter", program.in, "y") : "";
    for (int state = 1; state <= program.states; ++state)
        text += fmt::format("state {} like x\n", name_of(state));
    for (const Statement& statement : program.statements) {
        const std::string target = name_of(statement.target);
        switch (statement.kind) {
            case Statement::Kind::update: {
                std::string sum;
                for (const auto& [factor, variable] : statement.terms) {
                    const char* const forms[] = {"0 * {}", "{}", "select({}, 0, 0)"};
                    sum += sum.empty() ? "" : " + ";
                    sum += fmt::format(fmt::runtime(forms[factor]), name_of(variable));
                }
                text += fmt::format("{} = {}\n", target, sum);
                break;
            }
            case Statement::Kind::select:
                text += fmt::format("let s = mstopk({}, 0.5)\n", target);
                break;
            case Statement::Kind::subtract:
                text += fmt::format("{0} = {0} - dense(s)\n", target);
                break;
            case Statement::Kind::clear:
                text += fmt::format("{0} = cleared({0}, s)\n", target);
                break;
            case Statement::Kind::gather:
                text += "all_gather s over world\n";
                break;
            case Statement::Kind::sum:
                text += "x = sum(s)\n";
                break;
        }
    }
    return text + (program.is_scattered ? travel("all_gather", program.out, "z") : "");
}

// ---- Programs ----------------------------------------------------------------------------------

class Generator {
  public:
    explicit Generator(unsigned seed) : random_(seed) {}

    Program program() {
        Program program;
        program.is_scattered = chance(50);
        program.in = static_cast<Program::Form>(below(4));
        program.out = static_cast<Program::Form>(below(4));
        program.states = 1 + below(most_states);
        const int selected = chance(70) ? 1 : x;
        if (chance(30)) delay(program, selected);
        for (int more = below(3); more > 0; --more)
            program.statements.push_back(update(program, below(program.states + 1), -1));
        program.statements.push_back(update(program, selected, x));
        program.statements.push_back({Statement::Kind::select, selected});
        std::vector<int> order(static_cast<std::size_t>(program.states));
        for (int i = 0; i < program.states; ++i) order[static_cast<std::size_t>(i)] = i + 1;
        std::shuffle(order.begin(), order.end(), random_);
        std::set<int> left;  // they cannot be read again
        for (const int state : order) {
            if (state == selected) {
                program.statements.push_back({Statement::Kind::subtract, state});
                left.insert(state);
                continue;
            }
            if (chance(60)) program.statements.push_back(update(program, state, -1, left));
            if (chance(60)) {
                program.statements.push_back({Statement::Kind::clear, state});
                left.insert(state);
            }
        }
        if (!program.is_scattered) program.statements.push_back({Statement::Kind::gather});
        program.statements.push_back({Statement::Kind::sum});
        for (int state = 1; state <= program.states; ++state)
            if (chance(15) && !left.contains(state))
                program.statements.push_back(update(program, state, -1, left));
        if (chance(20)) disturb(program);
        return program;
    }

  private:
    int below(int limit) { return static_cast<int>(random_() % static_cast<unsigned>(limit)); }
    bool chance(int percent) { return below(100) < percent; }

    // must: a variable that is in it; -1: none.
    Statement update(const Program& program, int target, int must, const std::set<int>& left = {}) {
        Statement statement{Statement::Kind::update, target};
        std::set<int> in{target};
        // A state may be overwritten once it was read, if its contents go on.
        if (chance(60) || target == x)
            statement.terms.emplace_back(chance(50) || target == x ? 1 : 0, target);
        if (must >= 0 && in.insert(must).second) statement.terms.emplace_back(1, must);
        for (int more = below(3); more > 0 || statement.terms.empty(); --more) {
            const int variable = below(program.states + 1);
            if (left.contains(variable)) continue;
            if (in.insert(variable).second || statement.terms.empty())
                statement.terms.emplace_back(chance(75) ? times_1 : chance(60) ? times_0 : asked, variable);
        }
        return statement;
    }

    // Each start moves the selected values on by one state; the last state returns them.
    void delay(Program& program, int selected) {
        std::vector<int> chain(static_cast<std::size_t>(program.states));
        for (int i = 0; i < program.states; ++i) chain[static_cast<std::size_t>(i)] = program.states - i;
        std::erase(chain, selected);
        if (chain.empty()) return;
        program.statements.push_back({Statement::Kind::update, x, {{1, x}, {1, chain[0]}}});
        for (std::size_t i = 0; i < chain.size(); ++i)
            program.statements.push_back(
                {Statement::Kind::update, chain[i], {{1, i + 1 < chain.size() ? chain[i + 1] : selected}}});
    }

    // Makes unlikely programs: swaps two statements, drops one, or repeats one.
    void disturb(Program& program) {
        auto& all = program.statements;
        const auto at = [&] { return all.begin() + below(static_cast<int>(all.size())); };
        switch (below(3)) {
            case 0:
                return std::iter_swap(at(), at());
            case 1:
                all.erase(at());
                return;
            default:
                const Statement again = *at();
                all.insert(at(), again);
        }
    }

    std::mt19937 random_;
};

// ---- Simulation --------------------------------------------------------------------------------

// A contribution: rank, start, element. Rank -1 stands for the sum of all ranks.
using Contribution = std::tuple<int, int, int>;
using Value = std::map<Contribution, double>;
using Buffer = std::array<Value, elements>;

class Simulation {
  public:
    Simulation(const Program& program, unsigned seed) : program_(program), random_(seed) {}

    // Returns the error, or "".
    std::string run() {
        memory_.assign(static_cast<std::size_t>(program_.ranks),
                       std::vector<Buffer>(static_cast<std::size_t>(program_.states) + 1));
        traces_.assign(memory_.size(), std::vector<Traces>(memory_[0].size()));
        kept_in_.assign(memory_.size(), {});
        kept_out_.assign(memory_.size(), {});
        for (int start = 0; start < starts && wrong_.empty(); ++start) run_start(start);
        return wrong_;
    }

  private:
    using Kind = Statement::Kind;
    using Form = Program::Form;
    using Traces = std::array<std::set<Contribution>, elements>;

    // A rank's part of x, of which it alone has something if x is scattered.
    bool has(std::size_t rank, int element) const {
        return !program_.is_scattered || element % program_.ranks == static_cast<int>(rank);
    }

    void run_start(int start) {
        is_unread_.assign(memory_.size(), std::vector<bool>(memory_[0].size(), false));
        for (std::size_t rank = 0; rank < memory_.size(); ++rank)
            for (int at = 0; at < elements; ++at) {
                Value& given = memory_[rank][x][static_cast<std::size_t>(at)];
                std::set<Contribution>& trace = traces_[rank][x][static_cast<std::size_t>(at)];
                given.clear(), trace.clear();
                if (!has(rank, at)) continue;
                if (program_.is_scattered && program_.in >= Form::largest) {
                    receive(start, at, given, trace);
                    continue;
                }
                const Contribution one{program_.is_scattered ? -1 : static_cast<int>(rank), start, at};
                given[one] = 1;
                trace.insert(one);
            }
        selected_.assign(memory_.size(), {});
        is_selected_.assign(memory_.size(), {});
        selected_traces_.assign(memory_.size(), {});
        bool is_gathered = false;
        for (const Statement& statement : program_.statements) {
            is_gathered |= statement.kind == Kind::gather;
            for (std::size_t rank = 0; rank < memory_.size(); ++rank)
                run_on(rank, statement, start, is_gathered);
            for (std::size_t rank = 0; rank < memory_.size(); ++rank) trace_on(rank, statement, is_gathered);
        }
        for (std::size_t rank = 0; rank < memory_.size(); ++rank)
            for (std::size_t by = 0; by < memory_.size(); ++by)
                for (int at = 0; at < elements; ++at)
                    if (by == rank || !program_.is_scattered)
                        require_arrived(rank, by, static_cast<std::size_t>(at));
        if (program_.is_scattered && program_.out >= Form::largest) gather_largest();
        require_kept(start);
    }

    // Each rank sends the owner of an element what it has of it, or keeps it for the next start.
    void receive(int start, int at, Value& given, std::set<Contribution>& trace) {
        for (int from = 0; from < program_.ranks; ++from) {
            auto& kept = kept_in_[static_cast<std::size_t>(from)][static_cast<std::size_t>(at)];
            const Contribution one{from, start, at};
            kept.insert(one);
            if (random_() % 2 == 0) {
                for (const Contribution& sent : kept) given[sent] = 1;
                trace.insert(kept.begin(), kept.end());
                kept.clear();
            } else if (program_.in == Form::largest) {
                kept.clear();
            }
        }
    }

    // The owner of an element gives all ranks what it has of it, or keeps it for the next start.
    void gather_largest() {
        for (std::size_t rank = 0; rank < traces_.size(); ++rank)
            for (std::size_t at = 0; at < elements; ++at) {
                auto& trace = traces_[rank][x][at];
                auto& kept = kept_out_[rank][at];
                kept.insert(trace.begin(), trace.end());
                trace.clear();
                if (random_() % 2 == 0) {
                    trace = kept;
                    kept.clear();
                } else if (program_.out == Form::largest) {
                    kept.clear();
                }
            }
    }

    // Checks that every contribution to a state is in a state, was sent, or is in a result. Multiplication by
    // 0 loses nothing.
    void require_kept(int start) {
        std::set<Contribution> there;
        const auto add_all = [&](const Traces& buffer) {
            for (const auto& trace : buffer) there.insert(trace.begin(), trace.end());
        };
        for (const auto& rank : traces_)
            for (std::size_t state = 1; state < rank.size(); ++state) add_all(rank[state]);
        for (const auto* kept : {&kept_in_, &kept_out_})
            for (const Traces& of : *kept) add_all(of);
        for (const auto& rank : traces_)
            for (const auto& trace : rank[x]) done_.insert(trace.begin(), trace.end());
        std::erase_if(in_states_, [&](const Contribution& one) { return done_.contains(one); });
        for (const auto& [rank, given, at] : in_states_)
            if (!there.contains({rank, given, at}))
                wrong_ = fmt::format("what rank {} gave to start {} at {} is lost in start {}", rank, given,
                                     at, start);
        in_states_.insert(there.begin(), there.end());
    }

    // Like run_on, but follows only which contributions go where, without their factors.
    void trace_on(std::size_t rank, const Statement& statement, bool is_gathered) {
        const bool is_update = statement.kind == Statement::Kind::update;
        for (const auto& [factor, variable] : statement.terms)
            is_unread_[rank][static_cast<std::size_t>(variable)] = false;
        auto& own = traces_[rank];
        Traces& target = own[static_cast<std::size_t>(statement.target)];
        Traces result;
        for (std::size_t at = 0; at < elements; ++at) {
            const bool takes =
                statement.kind == Statement::Kind::subtract || statement.kind == Statement::Kind::clear;
            if (statement.kind == Statement::Kind::update) {
                for (const auto& [factor, variable] : statement.terms) {
                    if (factor == asked) continue;
                    const auto& term = own[static_cast<std::size_t>(variable)][at];
                    result[at].insert(term.begin(), term.end());
                }
            } else if (statement.kind != Statement::Kind::sum && !(takes && is_selected_[rank][at])) {
                result[at] = target[at];
            }
            if (statement.kind == Statement::Kind::select)
                selected_traces_[rank][at] = is_selected_[rank][at] ? target[at] : std::set<Contribution>();
            if (statement.kind == Statement::Kind::sum)
                for (std::size_t by = 0; by < memory_.size(); ++by)
                    if (by == rank || is_gathered)
                        result[at].insert(selected_traces_[by][at].begin(), selected_traces_[by][at].end());
            if (statement.target == x) continue;
            // What nothing has read since this start has put it there may be overwritten.
            if (is_update && is_unread_[rank][static_cast<std::size_t>(statement.target)])
                for (const Contribution& one : target[at]) in_states_.erase(one);
            in_states_.insert(result[at].begin(), result[at].end());
        }
        target = std::move(result);
        is_unread_[rank][static_cast<std::size_t>(statement.target)] = is_update;
    }

    void run_on(std::size_t rank, const Statement& statement, int start, bool is_gathered) {
        auto& own = memory_[rank];
        Buffer& target = own[static_cast<std::size_t>(statement.target)];
        Buffer result;
        for (std::size_t at = 0; at < elements; ++at) switch (statement.kind) {
                case Kind::update:
                    for (const auto& [factor, variable] : statement.terms)
                        if (factor == times_1) add(result[at], own[static_cast<std::size_t>(variable)][at]);
                    break;
                case Kind::select:
                    is_selected_[rank][at] = random_() % 2 == 0;
                    selected_[rank][at] = is_selected_[rank][at] ? target[at] : Value();
                    for (const auto& [contribution, factor] : selected_[rank][at]) send(contribution, start);
                    result[at] = target[at];
                    break;
                case Kind::subtract:
                case Kind::clear:
                    if (!is_selected_[rank][at]) result[at] = target[at];
                    break;
                case Kind::gather:
                    result[at] = target[at];
                    break;
                case Kind::sum:
                    for (std::size_t by = 0; by < memory_.size(); ++by)
                        if (by == rank || is_gathered) add(result[at], selected_[by][at]);
                    break;
            }
        target = std::move(result);
    }

    static void add(Value& sum, const Value& value) {
        for (const auto& [contribution, factor] : value) sum[contribution] += factor;
    }

    void send(const Contribution& contribution, int start) {
        const auto [entry, is_new] = sent_.try_emplace(contribution, start);
        if (is_new || entry->second == start) return;
        const auto& [rank, given, at] = contribution;
        wrong_ = fmt::format("what rank {} gave to start {} at {} is sent in start {} and in start {}", rank,
                             given, at, entry->second, start);
    }

    void require_arrived(std::size_t rank, std::size_t by, std::size_t at) {
        for (const auto& [contribution, factor] : selected_[by][at])
            if (!memory_[rank][x][at].contains(contribution))
                wrong_ = fmt::format("what rank {} selected at {} does not reach rank {}", by, at, rank);
    }

    const Program& program_;
    std::mt19937 random_;
    std::vector<std::vector<Buffer>> memory_;  // by rank, then by variable
    std::vector<Buffer> selected_;             // by rank
    std::vector<std::array<bool, elements>> is_selected_;
    std::map<Contribution, int> sent_;         // in which start
    std::vector<std::vector<Traces>> traces_;  // as memory_
    std::vector<Traces> kept_in_, kept_out_;   // by rank: what is not among the largest, on both ways
    std::vector<Traces> selected_traces_;      // by rank
    std::set<Contribution> in_states_,
        done_;                                  // have been in a state; are in a result
    std::vector<std::vector<bool>> is_unread_;  // by rank, then by variable
    std::string wrong_;
};

}  // namespace

TEST_CASE("the simulation of schedules that select notices what is sent twice, and what is lost") {
    using Kind = Statement::Kind;
    Program program;
    program.states = 1;
    program.statements = {{Kind::update, 1, {{1, 1}, {1, x}}},
                          {Kind::select, 1},
                          {Kind::subtract, 1},
                          {Kind::gather},
                          {Kind::sum}};
    CHECK(Simulation(program, 1).run() == "");
    Program keeps = program, loses = program;
    keeps.statements.erase(keeps.statements.begin() + 2);
    CHECK_THAT(Simulation(keeps, 1).run(), Catch::Contains("is sent in start"));
    loses.statements.erase(loses.statements.begin() + 3);
    CHECK_THAT(Simulation(loses, 1).run(), Catch::Contains("does not reach rank"));
    Program late = program, dropped = program;
    std::swap(late.statements[0], late.statements[1]);
    CHECK_THAT(Simulation(late, 1).run(), Catch::Contains("is lost in start 0"));
    dropped.states = 2;
    dropped.statements.push_back({Kind::update, 1, {{1, 2}}});
    CHECK_THAT(Simulation(dropped, 1).run(), Catch::Contains("is lost in start 0"));
}

TEST_CASE("in random schedules that are accepted each contribution is sent once, arrives, and is not lost") {
    const unsigned seed = GENERATE(1u, 2u, 3u, 4u);
    const char* const wanted = std::getenv("HOCKET_SELECTIONS");
    const int programs = wanted ? std::atoi(wanted) / 4 : test::in_long_form(1200, 100);
    Generator generator(seed);
    int accepted = 0;
    for (int i = 0; i < programs; ++i) {
        const Program program = generator.program();
        const std::string text = program_text(program);
        if (!check_error("schedule t all_reduce(x) approximate {\n" + text + "}", dsl::Collective::all_reduce,
                         std::to_string(program.ranks))
                 .empty())
            continue;
        ++accepted;
        for (unsigned run = 0; run < 10; ++run) {
            const std::string wrong = Simulation(program, run).run();
            INFO("seed " << seed << ", program " << i << ":\n" << text);
            REQUIRE(wrong == "");
        }
    }
    CHECK(accepted > programs / 20);
}
