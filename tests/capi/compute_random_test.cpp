// Random schedules that compute: schedules that the proof accepts run on several ranks, and are compared with
// a plain calculation of each statement. So the test finds accepted schedules whose ranks end with different
// or wrong values.
#include <hocket.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/base/half.hpp"
#include "runtime/compute/kernels/selection.hpp"
#include "tests/capi/comm.hpp"
#include "tests/runtime/engine/ranks.hpp"
#include "tests/support/device.hpp"
#include "tests/support/long_form.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/test.hpp"

using namespace hocket::test;

namespace {

using Values = std::vector<double>;

// A calculation left the numbers of which float32 rounds no sum: the schedule is of no use here.
struct Inexact {};

double exact(double value) {
    if (!(std::fabs(value) < 1024) || value * 4096 != std::floor(value * 4096)) throw Inexact();
    return value;
}

// ---- What the statements mean ------------------------------------------------------------------

// The part that a rank works on: of `parts` equal ones the one of this number.
struct Part {
    std::size_t number = 0, parts = 1;
    std::size_t begin(std::size_t count) const { return number * count / parts; }
    std::size_t end(std::size_t count) const { return (number + 1) * count / parts; }
};

struct Selection {
    std::vector<std::size_t> indices;
    Values values;
};

struct RankState {
    std::map<std::string, Values> buffers;  // each as long as x; only the rank's part counts
    std::map<std::string, Part> parts;      // of each buffer
    std::map<std::string, std::map<std::size_t, Selection>> selections;  // by name and rank
    std::map<std::string, std::map<std::size_t, double>> sums;
};

// All ranks, in step. Ranks are numbered level by level, innermost first.
struct World {
    std::size_t count, inner, outer, start = 0;
    std::vector<RankState> ranks;

    // levels: 0, 1, or 2 for both.
    std::vector<std::size_t> group(std::size_t rank, int levels) const {
        std::vector<std::size_t> members;
        for (std::size_t other = 0; other < ranks.size(); ++other)
            if (levels == 2 || (levels == 0 ? other / inner == rank / inner : other % inner == rank % inner))
                members.push_back(other);
        return members;
    }
    std::size_t size_of(int level) const { return level == 0 ? inner : outer; }
    Part within(std::size_t rank, Part part, int level) const {
        const std::size_t size = size_of(level);
        return {part.number * size + (level == 0 ? rank % inner : rank / inner), part.parts * size};
    }
};

using Action = std::function<void(World&)>;

struct Expression {
    std::string text;
    std::function<double(const RankState&, std::size_t)> value;
};

// The k of the largest magnitude; of those that tie for the last places, the run that the rank's draw begins.
std::vector<std::size_t> indices_of_largest(const Values& x, std::size_t begin, std::size_t end,
                                            std::size_t k, const hocket::kernels::Draw& draw) {
    std::vector<std::size_t> order(end - begin);
    std::iota(order.begin(), order.end(), begin);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return std::fabs(x[a]) > std::fabs(x[b]); });
    if (k > 0) {
        const double least = std::fabs(x[order[k - 1]]);
        const auto ties =
            std::find_if(order.begin(), order.end(), [&](std::size_t i) { return std::fabs(x[i]) == least; });
        const auto last =
            std::find_if(ties, order.end(), [&](std::size_t i) { return std::fabs(x[i]) != least; });
        const auto first = hocket::kernels::first_of_ties(draw, static_cast<std::uint64_t>(last - ties),
                                                          k - static_cast<std::size_t>(ties - order.begin()));
        std::rotate(ties, ties + static_cast<std::ptrdiff_t>(first), last);
    }
    order.resize(k);
    std::sort(order.begin(), order.end());
    return order;
}

// ---- Random schedules --------------------------------------------------------------------------

struct Schedule {
    std::string text;
    std::vector<std::string> states;
    std::vector<Action> actions;
    bool has_multiples_alone = true;  // nothing is calculated but multiples of the inputs, and their largest
};

class Generator {
  public:
    Generator(unsigned seed, bool two_levels) : random_(seed), two_levels_(two_levels) {}

    Schedule schedule() {
        // Some computations, a reduction, more of them, and so on: mostly right, and often wrong in one
        // place.
        if (below(2) == 0) state();
        computations(2);
        if (below(3) > 0) {
            reduce_in_parts();
        } else if (two_levels_ && below(2) == 0) {
            all_reduce(0);
            computations(2);
            all_reduce(1);
            computations(4);
        } else {
            all_reduce(2);
            computations(4);
        }
        computations(1);
        return std::move(made_);
    }

  private:
    std::size_t below(std::size_t limit) { return random_() % limit; }
    void say(const std::string& line, Action action) {
        made_.text += "    " + line + "\n";
        made_.actions.push_back(std::move(action));
    }
    static std::string name_of(int levels) {
        return levels == 2 ? "world" : "levels[" + std::to_string(levels) + "]";
    }

    Expression leaf() {
        const std::size_t choice = below(6);
        if (choice == 0) {
            static const double numbers[] = {0.5, 1, 2, -1, 0, 0.25};
            const double number = numbers[below(6)];
            made_.has_multiples_alone = false;
            std::string text = std::to_string(number);
            if (number < 0) text = "(" + text + ")";
            return {text, [=](const RankState&, std::size_t) { return number; }};
        }
        std::string name = choice <= 3 ? "x" : "w";
        if (choice == 5 && !made_.states.empty()) name = made_.states[below(made_.states.size())];
        made_.has_multiples_alone &= name != "w";
        return {name, [=](const RankState& rank, std::size_t i) { return rank.buffers.at(name)[i]; }};
    }

    Expression expression(int depth) {
        if (depth == 0) return leaf();
        const Expression a = expression(depth - 1), b = leaf();
        const auto both = [&](const std::string& text, double (*function)(double, double)) {
            return Expression{text, [=](const RankState& rank, std::size_t i) {
                                  return exact(function(a.value(rank, i), b.value(rank, i)));
                              }};
        };
        switch (below(9)) {
            case 0:
            case 1:
                return both(a.text + " + (" + b.text + ")", [](double x, double y) { return x + y; });
            case 2:
                return both(a.text + " - (" + b.text + ")", [](double x, double y) { return x - y; });
            case 3:
                return both("max(" + a.text + ", " + b.text + ")",
                            [](double x, double y) { return std::max(x, y); });
            case 4:
                return both("min(" + a.text + ", " + b.text + ")",
                            [](double x, double y) { return std::min(x, y); });
            case 5:
                return {"abs(" + a.text + ")",
                        [=](const RankState& rank, std::size_t i) { return std::fabs(a.value(rank, i)); }};
            case 6:
                made_.has_multiples_alone = false;
                return both("select(" + a.text + " > " + b.text + ", 2, " + b.text + ")",
                            [](double x, double y) { return x > y ? 2 : y; });
            default: {
                const double factor = below(2) == 0 ? 0.5 : -1;
                return {
                    (factor < 0 ? "-(" : "0.5 * (") + a.text + ")",
                    [=](const RankState& rank, std::size_t i) { return exact(factor * a.value(rank, i)); }};
            }
        }
    }

    void assign(const std::string& target, const Expression& value) {
        say(target + " = " + value.text, [=](World& world) {
            for (RankState& rank : world.ranks) {
                const Part part = rank.parts.at(target);
                Values result = rank.buffers.at(target);
                for (std::size_t i = part.begin(world.count); i < part.end(world.count); ++i)
                    result[i] = value.value(rank, i);
                rank.buffers.at(target) = std::move(result);
            }
        });
    }

    void computations(std::size_t most) {
        for (std::size_t i = below(most + 1); i-- > 0;) {
            if (below(5) == 0) {
                made_.has_multiples_alone = false;
                total();
            } else if (!made_.states.empty() && below(2) == 0) {
                const std::string state = made_.states[below(made_.states.size())];
                const Expression value = leaf();
                assign(state, {"0.5 * " + state + " + (" + value.text + ")",
                               [=](const RankState& rank, std::size_t at) {
                                   return exact(0.5 * rank.buffers.at(state)[at] + value.value(rank, at));
                               }});
            } else {
                assign("x", expression(1 + static_cast<int>(below(2))));
            }
        }
    }

    void state() {
        const std::string name = "e" + std::to_string(made_.states.size());
        made_.states.push_back(name);
        say("state " + name + " like x", [=](World& world) {
            for (RankState& rank : world.ranks) {
                rank.buffers.try_emplace(name, world.count, 0.0);
                rank.parts[name] = rank.parts.at("x");
            }
        });
    }

    // A sum over all elements, or the largest of them, which may also be found before any reduction.
    void total() {
        const std::string name = "n" + std::to_string(names_++);
        const Expression value = leaf();
        const bool adds = below(2) == 0;
        const double nothing = adds ? 0 : -std::numeric_limits<double>::infinity();
        const auto join = [=](double a, double b) { return adds ? exact(a + b) : std::max(a, b); };
        say("let " + name + (adds ? " = total(" : " = largest(") + value.text + " + 0 * x)",
            [=](World& world) {
                for (std::size_t r = 0; r < world.ranks.size(); ++r) {
                    RankState& rank = world.ranks[r];
                    double folded = nothing;
                    const Part part = rank.parts.at("x");
                    for (std::size_t i = part.begin(world.count); i < part.end(world.count); ++i)
                        folded = join(folded, exact(value.value(rank, i)));
                    rank.sums[name] = {{r, folded}};
                }
            });
        if (!adds && scattered_.empty()) {
            if (below(10) > 0) gather_pieces(name, 2);
        } else {
            for (const int level : scattered_)
                if (below(10) > 0) gather_pieces(name, level);
        }
        const std::string read = (adds ? "sum(" : "max(") + name + ")";
        assign("x", {"select(" + read + " > 1, x, 0.5 * x)", [=](const RankState& rank, std::size_t i) {
                         double folded = nothing;
                         for (const auto& [from, value_of] : rank.sums.at(name))
                             folded = join(folded, value_of);
                         return exact(folded > 1 ? rank.buffers.at("x")[i] : 0.5 * rank.buffers.at("x")[i]);
                     }});
    }

    // Gathers a selection or sums.
    void gather_pieces(const std::string& name, int levels) {
        say("all_gather " + name + " over " + name_of(levels), [=](World& world) {
            const std::vector<RankState> before = world.ranks;
            for (std::size_t r = 0; r < world.ranks.size(); ++r)
                for (const std::size_t other : world.group(r, levels)) {
                    for (const auto& all : {before[other].selections})
                        if (const auto found = all.find(name); found != all.end())
                            world.ranks[r].selections[name].insert(found->second.begin(),
                                                                   found->second.end());
                    if (const auto found = before[other].sums.find(name); found != before[other].sums.end())
                        world.ranks[r].sums[name].insert(found->second.begin(), found->second.end());
                }
        });
    }

    void all_reduce(int levels) {
        const Travel in = travel(levels);
        say("all_reduce x over " + name_of(levels) + in.text, [=](World& world) {
            if (world.group(0, levels).size() > 1) in.apply(world, 1);
            const std::vector<RankState> before = world.ranks;
            for (std::size_t r = 0; r < world.ranks.size(); ++r) add_group(world, before, r, levels);
        });
    }

    static void add_group(World& world, const std::vector<RankState>& before, std::size_t r, int levels) {
        RankState& rank = world.ranks[r];
        const Part part = rank.parts.at("x");
        for (std::size_t i = part.begin(world.count); i < part.end(world.count); ++i) {
            double sum = 0;
            for (const std::size_t other : world.group(r, levels)) sum += before[other].buffers.at("x")[i];
            rank.buffers.at("x")[i] = exact(sum);
        }
    }

    // Data may travel rounded to 16 bits, or only the largest of them, and a new state may keep the rest.
    struct Travel {
        enum class Form { whole, float16, bfloat16, largest } form = Form::whole;
        std::string text = {};   // " as float16 keeping e0"
        std::string state = {};  // empty: none

        Values of(const Values& piece, std::size_t first) const {
            Values arrived(piece.size(), 0.0);
            if (form == Form::largest) {
                const std::size_t k = hocket::kernels::selected_of(piece.size(), 0.25);
                for (const std::size_t i : indices_of_largest(piece, 0, piece.size(), k, {0, 0, first}))
                    arrived[i] = piece[i];
                return arrived;
            }
            for (std::size_t i = 0; i < piece.size(); ++i) {
                const auto number = static_cast<float>(piece[i]);
                arrived[i] = form == Form::float16 ? double{static_cast<float>(hocket::Float16(number))}
                                                   : double{static_cast<float>(hocket::BFloat16(number))};
            }
            return arrived;
        }
        // Replaces each rank's part of x by what arrives of it, in so many pieces.
        void apply(World& world, std::size_t pieces) const {
            if (form == Form::whole) return;
            for (RankState& rank : world.ranks)
                for (std::size_t piece = 0; piece < pieces; ++piece) {
                    const Part all = rank.parts.at("x"),
                               part{all.number * pieces + piece, all.parts * pieces};
                    const std::size_t begin = part.begin(world.count), end = part.end(world.count);
                    Values& x = rank.buffers.at("x");
                    Values values;
                    for (std::size_t i = begin; i < end; ++i)
                        values.push_back(exact(state.empty() ? x[i] : x[i] + rank.buffers.at(state)[i]));
                    const Values arrived = of(values, begin);
                    for (std::size_t i = begin; i < end; ++i) {
                        x[i] = arrived[i - begin];
                        if (!state.empty()) rank.buffers.at(state)[i] = values[i - begin] - x[i];
                    }
                }
        }
    };
    Travel travel(int level) {
        Travel travel;
        if (below(3) > 0 || (level == 1 && !two_levels_)) return travel;
        static constexpr std::pair<Travel::Form, const char*> forms[] = {
            {Travel::Form::float16, "float16"},
            {Travel::Form::bfloat16, "bfloat16"},
            {Travel::Form::largest, "mstopk(0.25)"}};
        const auto& [form, name] = forms[below(std::size(forms))];
        travel.form = form;
        travel.text = std::string(" as ") + name;
        if (below(3) > 0) return travel;
        if (below(3) > 0) state();  // else one that another statement may have made for another part
        if (made_.states.empty()) return travel;
        travel.state = made_.states.back();
        travel.text += " keeping " + travel.state;
        return travel;
    }

    void scatter(int level) {
        scattered_.push_back(level);
        const Travel in = travel(level);
        say("reduce_scatter x over " + name_of(level) + in.text, [=](World& world) {
            if (world.size_of(level) > 1) in.apply(world, world.size_of(level));
            const std::vector<RankState> before = world.ranks;
            for (std::size_t r = 0; r < world.ranks.size(); ++r) {
                Part& part = world.ranks[r].parts.at("x");
                part = world.within(r, part, level);
                add_group(world, before, r, level);
            }
        });
        if (below(10) == 0) return;
        say("partition w over " + name_of(level), [=](World&) {});
    }

    void gather(int level) {
        scattered_.pop_back();
        const Travel in = travel(level);
        say("all_gather x over " + name_of(level) + in.text, [=](World& world) {
            if (world.size_of(level) > 1) in.apply(world, 1);
            const std::vector<RankState> before = world.ranks;
            for (std::size_t r = 0; r < world.ranks.size(); ++r) {
                for (const std::size_t other : world.group(r, level)) {
                    const Part part = before[other].parts.at("x");
                    for (std::size_t i = part.begin(world.count); i < part.end(world.count); ++i)
                        world.ranks[r].buffers.at("x")[i] = before[other].buffers.at("x")[i];
                }
                Part& part = world.ranks[r].parts.at("x");
                const std::size_t size = level == 0 ? world.inner : world.outer;
                part = {part.number / size, part.parts / size};
            }
        });
    }

    // reduce_scatter, then the remaining reduction, as selections or whole, then all_gather.
    void reduce_in_parts() {
        scatter(0);
        computations(2);
        if (below(2) == 0) state();
        if (two_levels_ && below(2) == 0) {
            scatter(1);
            if (below(2) == 0) state();
            computations(3);
            gather(1);
        } else if (two_levels_ && below(3) > 0) {
            select(1);
            computations(2);
        } else if (two_levels_) {
            all_reduce(1);
            computations(3);
        } else {
            computations(3);
        }
        gather(0);
    }

    void select(int levels) {
        state();
        const std::string e = made_.states.back(), s = "s" + std::to_string(names_++);
        const auto value = [=](const RankState& rank, std::size_t i) {
            return exact(rank.buffers.at(e)[i] + rank.buffers.at("x")[i]);
        };
        if (below(10) > 0) assign(e, {e + " + x", value});
        say("let " + s + " = mstopk(" + e + ", 0.25)", [=](World& world) {
            for (std::size_t r = 0; r < world.ranks.size(); ++r) {
                RankState& rank = world.ranks[r];
                const Part part = rank.parts.at(e);
                const std::size_t begin = part.begin(world.count), end = part.end(world.count);
                const Values& x = rank.buffers.at(e);
                Selection chosen;
                chosen.indices = indices_of_largest(
                    x, begin, end, hocket::kernels::selected_of(end - begin, 0.25), {0, world.start, r});
                for (const std::size_t i : chosen.indices) chosen.values.push_back(x[i]);
                rank.selections[s] = {{r, std::move(chosen)}};
            }
        });
        const std::size_t rest = below(10);
        if (rest > 0)
            say(rest > 5 ? e + " = cleared(" + e + ", " + s + ")" : e + " = " + e + " - dense(" + s + ")",
                [=](World& world) {
                    for (std::size_t r = 0; r < world.ranks.size(); ++r)
                        for (const std::size_t i : world.ranks[r].selections.at(s).at(r).indices)
                            world.ranks[r].buffers.at(e)[i] = 0;
                });
        if (below(10) > 0) gather_pieces(s, levels);
        say("x = sum(" + s + ")", [=](World& world) {
            for (RankState& rank : world.ranks) {
                const Part part = rank.parts.at("x");
                Values& x = rank.buffers.at("x");
                std::fill(x.begin() + static_cast<std::ptrdiff_t>(part.begin(world.count)),
                          x.begin() + static_cast<std::ptrdiff_t>(part.end(world.count)), 0.0);
                for (const auto& [from, sparse] : rank.selections.at(s))
                    for (std::size_t i = 0; i < sparse.indices.size(); ++i)
                        x[sparse.indices[i]] = exact(x[sparse.indices[i]] + sparse.values[i]);
            }
        });
    }

    std::mt19937 random_;
    bool two_levels_;
    Schedule made_;
    std::vector<int> scattered_;
    int names_ = 0;
};

// ---- Running them ------------------------------------------------------------------------------

double whole_input(std::size_t rank, std::size_t start, std::size_t i) {
    return static_cast<double>((i * 7 + rank * 5 + start * 3 + i * i % 5) % 13) - 6;
}
double further(std::size_t i) {
    return static_cast<double>(i % 5) - 2;
}

struct Sizes {
    std::size_t inner, outer, count;
    std::size_t ranks() const { return inner * outer; }
};

// An operator, and the factor that it has for each rank's input: schedules that select, or send values in
// narrower formats, average by multiplying inputs.
struct Operator {
    hkt_op op = HKT_SUM;
    std::function<double(std::size_t rank)> factor = [](std::size_t) { return 1.0; };
};

bool adds_terms(const Schedule& schedule) {
    return schedule.text.find("mstopk") != std::string::npos ||
           schedule.text.find(" as ") != std::string::npos;
}

bool averages(const Schedule& schedule, const Sizes& sizes, unsigned number) {
    return number % 4 != 0 && adds_terms(schedule) && schedule.has_multiples_alone &&
           std::has_single_bit(sizes.ranks());
}

// `number` chooses. The factors are exact.
Operator operator_for(hkt_comm* comm, std::size_t rank, const Schedule& schedule, const Sizes& sizes,
                      unsigned number) {
    if (averages(schedule, sizes, number))
        return {HKT_AVERAGE, [n = sizes.ranks()](std::size_t) { return 1.0 / static_cast<double>(n); }};
    if (number % 4 == 0 || !adds_terms(schedule)) return {};
    Operator made{HKT_SUM, [](std::size_t of) { return of % 2 == 0 ? -0.5 : 2.0; }};
    must(comm, hkt_premul_sum_create(made.factor(rank), comm, &made.op));
    return made;
}

constexpr std::size_t starts = 3;

// By start and rank: the contents of x in the end.
std::vector<std::vector<Values>> meaning(const Schedule& schedule, const Sizes& sizes, const Operator& op) {
    World world{sizes.count, sizes.inner, sizes.outer, 0, std::vector<RankState>(sizes.ranks())};
    std::vector<std::vector<Values>> results;
    for (; world.start < starts; ++world.start) {
        for (std::size_t r = 0; r < sizes.ranks(); ++r) {
            RankState& rank = world.ranks[r];
            Values x(sizes.count), w(sizes.count);
            for (std::size_t i = 0; i < sizes.count; ++i) {
                x[i] = op.factor(r) * whole_input(r, world.start, i);
                w[i] = further(i);
            }
            rank.buffers["x"] = x;
            rank.buffers["w"] = w;
            rank.parts["x"] = Part();
        }
        for (const Action& action : schedule.actions) action(world);
        std::vector<Values>& all = results.emplace_back();
        for (const RankState& rank : world.ranks) all.push_back(rank.buffers.at("x"));
    }
    return results;
}

struct Coverage {
    int accepted = 0, refused = 0, with_state = 0, with_selection = 0, with_sums = 0, with_largest = 0,
        packed = 0, largest = 0, kept = 0, averaged = 0;
};

// Starts the plan with x, y and w on the host or on a device, as the bits of `places` say.
hkt_status start_at(const Cuda& cuda, hkt_plan* plan, const std::vector<float>& x, std::vector<float>& y,
                    const std::vector<float>& w, unsigned places) {
    const std::size_t bytes = x.size() * sizeof(float);
    std::array<std::optional<DeviceMemory>, 3> memory;
    std::array<const void*, 3> buffers{x.data(), y.data(), w.data()};
    for (std::size_t i = 0; i < buffers.size(); ++i) {
        if ((places >> i & 1) == 0) continue;
        const auto* contents = static_cast<const std::byte*>(buffers[i]);
        memory[i].emplace(cuda, bytes);
        memory[i]->write({contents, contents + bytes});
        buffers[i] = memory[i]->data();
    }
    hkt_start_options with = HKT_START_OPTIONS_INIT;
    with.buffers = &buffers[2];
    with.buffer_count = 1;
    const hkt_status status =
        hkt_plan_start_with(plan, buffers[0], const_cast<void*>(buffers[1]), x.size(), &with, nullptr);
    if (status == HKT_SUCCESS && memory[1]) std::memcpy(y.data(), memory[1]->read().data(), bytes);
    return status;
}

// On a rank: returns whether the schedule is accepted, and if so, checks that it does what its statements
// say, wherever its buffers are.
bool run_one(hkt_comm* comm, const Cuda& cuda, std::size_t rank, const std::string& path,
             const Schedule& schedule, const Sizes& sizes, unsigned number) {
    const Operator op = operator_for(comm, rank, schedule, sizes, number);
    hkt_plan_options options = HKT_PLAN_OPTIONS_INIT;
    options.schedule = path.c_str();
    hkt_plan* plan = nullptr;
    if (hkt_plan_create(comm, HKT_ALL_REDUCE, HKT_FLOAT32, op.op, &options, &plan) != HKT_SUCCESS)
        return false;
    const std::unique_ptr<hkt_plan, void (*)(hkt_plan*)> owner(plan, hkt_plan_destroy);
    std::vector<std::vector<Values>> wanted;
    try {
        wanted = meaning(schedule, sizes, op);
    } catch (const Inexact&) {
        return true;
    }
    std::vector<float> x(sizes.count), y(sizes.count), w(sizes.count);
    for (std::size_t i = 0; i < sizes.count; ++i) w[i] = static_cast<float>(further(i));
    for (std::size_t start = 0; start < starts; ++start) {
        for (std::size_t i = 0; i < sizes.count; ++i) x[i] = static_cast<float>(whole_input(rank, start, i));
        // Of every other schedule, in each combination, by rank and start.
        const unsigned places =
            number % 2 == 0 ? 0 : (number / 2 + static_cast<unsigned>(rank) * 3 + start * 5) % 8;
        const hkt_status status = start_at(cuda, plan, x, y, w, places);
        expect(status == HKT_SUCCESS, hkt_comm_last_error(comm));
        for (std::size_t i = 0; i < sizes.count; ++i) {
            const double right = wanted[start][rank][i];
            expect(wanted[start][0][i] == right, [&] {
                return "it was accepted, but rank 0 and rank " + std::to_string(rank) +
                       " are to end with different values in start " + std::to_string(start) + ":\n" +
                       schedule.text;
            });
            expect(static_cast<double>(y[i]) == right, [&] {
                return "element " + std::to_string(i) + " of " + std::to_string(sizes.count) + " is " +
                       std::to_string(y[i]) + ", not " + std::to_string(right) + ", in start " +
                       std::to_string(start) + ":\n" + schedule.text;
            });
        }
    }
    return true;
}

}  // namespace

TEST_CASE("random schedules that are accepted give what their statements say, on all ranks") {
    const char* const more = std::getenv("HOCKET_COMPUTE_SCHEDULES");  // for a longer run
    const unsigned schedules = more ? static_cast<unsigned>(std::stoul(more)) : in_long_form(250u, 100u);
    struct Place {
        const char *hosts, *topology;
        std::size_t inner, outer;
    };
    auto* const tally = static_cast<Coverage*>(shared_memory(sizeof(Coverage)));
    for (const Place& place : {Place{"aaa", "3", 3, 1}, Place{"aabb", "2x2", 2, 2},
                               Place{"aaaa", "2x2", 2, 2}, Place{"ab", "1x2", 1, 2}}) {
        const TemporaryFolder folder;
        std::vector<Schedule> all;
        for (unsigned i = 0; i < schedules; ++i) {
            all.push_back(Generator(i, place.outer > 1).schedule());
            std::ofstream(folder.path() + "/" + std::to_string(i) + ".sched")
                << "schedule random all_reduce(x) with w approximate {\n"
                << all.back().text << "}\n";
        }
        const std::string hosts = place.hosts;
        const auto outcomes = run_ranks({static_cast<int>(hosts.size()), {}, 600}, [&](int rank) {
            setenv("HOCKET_HOST_ID", hosts.substr(static_cast<std::size_t>(rank), 1).c_str(), 1);
            hkt_comm_options options = HKT_COMM_OPTIONS_INIT;
            options.topology = place.topology;
            const Cuda& cuda = Cuda::load();
            const Comm comm = join(&options);
            for (unsigned i = 0; i < schedules; ++i) {
                const Sizes sizes{place.inner, place.outer, i % 7 == 0 ? std::size_t{3} : 40 + i % 5};
                const bool is_accepted =
                    run_one(comm.get(), cuda, static_cast<std::size_t>(rank),
                            folder.path() + "/" + std::to_string(i) + ".sched", all[i], sizes, i);
                if (rank != 0) continue;
                ++(is_accepted ? tally->accepted : tally->refused);
                const auto has = [&](const char* word) {
                    return is_accepted && all[i].text.find(word) != std::string::npos ? 1 : 0;
                };
                tally->with_state += has("state ");
                tally->with_selection += has(" = mstopk(");
                tally->with_sums += has("total(");
                tally->with_largest += has("largest(");
                tally->packed += has(" as ");
                tally->largest += has(" as mstopk");
                tally->kept += has("keeping");
                tally->averaged += is_accepted && averages(all[i], sizes, i);
            }
        });
        INFO(place.hosts << " " << place.topology);
        CHECK(problems(outcomes) == "");
    }
    // A generator whose schedules are all refused, or all alike, would test nothing.
    INFO("accepted " << tally->accepted << ", refused " << tally->refused << ", with states "
                     << tally->with_state << ", with selections " << tally->with_selection << ", with sums "
                     << tally->with_sums << ", in narrower formats " << tally->packed << ", the largest "
                     << tally->largest << ", keeping the rest " << tally->kept << ", averaged "
                     << tally->averaged);
    CHECK(tally->accepted > 60);
    CHECK(tally->refused > 60);
    CHECK(tally->with_state > 20);
    CHECK(tally->with_selection > 3);
    CHECK(tally->with_sums > 8);
    CHECK(tally->with_largest > 8);
    CHECK(tally->packed > 10);
    CHECK(tally->largest > 3);
    CHECK(tally->kept > 0);
    if (is_long_form()) CHECK(tally->averaged > 0);  // few schedules have an average at all
}
