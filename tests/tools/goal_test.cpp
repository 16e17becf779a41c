// Reads the text in GOAL again, and compares it with the messages that it was made from.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <tuple>

#include "dsl/prediction/layout.hpp"
#include "tests/dsl/cases.hpp"
#include "tests/support/long_form.hpp"
#include "tests/support/test.hpp"
#include "tools/schedc/predict.hpp"

using namespace hocket;

namespace {

struct Operation {
    std::string what = "calc";  // or send, recv
    int peer = -1, tag = 0;
    std::int64_t bytes = 0;
    std::vector<std::string> needs = {};  // labels
};

// By rank: the operations by label.
using Goal = std::vector<std::map<std::string, Operation>>;

void add_line(std::map<std::string, Operation>& rank, const std::string& line) {
    static const std::regex message("(l[0-9]+): (send|recv) ([0-9]+)b (to|from) ([0-9]+) tag ([0-9]+)"),
        calculation("(l[0-9]+): calc 0"), dependency("(l[0-9]+) requires (l[0-9]+)");
    std::smatch found;
    if (std::regex_match(line, found, dependency)) {
        REQUIRE(rank.contains(found[2]));  // the simulator's reader knows only what it has read
        return rank.at(found[1]).needs.push_back(found[2]);
    }
    Operation operation;
    if (std::regex_match(line, found, message)) {
        REQUIRE((found[2] == "send") == (found[4] == "to"));
        operation = {found[2], std::stoi(found[5]), std::stoi(found[6]), std::stoll(found[3]), {}};
    } else {
        REQUIRE(std::regex_match(line, found, calculation));
    }
    REQUIRE(rank.emplace(found[1], operation).second);
}

Goal parse(const std::string& text) {
    std::istringstream lines(text);
    std::string line;
    Goal goal;
    REQUIRE(std::getline(lines, line));
    const std::string head = line;
    bool is_open = false;
    while (std::getline(lines, line)) {
        INFO(line);
        if (line.empty()) continue;
        if (line == "}") {
            REQUIRE(std::exchange(is_open, false));
            REQUIRE(!goal.back().empty());
        } else if (!is_open) {
            REQUIRE(line == fmt::format("rank {} {{", goal.size()));
            goal.emplace_back();
            is_open = true;
        } else {
            add_line(goal.back(), line);
        }
    }
    REQUIRE(!is_open);
    REQUIRE(head == fmt::format("num_ranks {}", goal.size()));
    return goal;
}

// A rank's phase, as both sides can say it.
struct Phase {
    std::set<std::size_t> after;  // the rank's phases that it waits for, by number
    // Peer, the number of the sender's phase, bytes.
    std::multiset<std::tuple<int, std::size_t, std::int64_t>> received;
    std::multiset<std::tuple<int, std::int64_t>> sent;  // peer, bytes

    friend bool operator==(const Phase&, const Phase&) = default;
};
using Phases = std::vector<std::vector<Phase>>;  // by rank

// Each `calc` begins a phase of all that needs it, and needs all of each phase before.
Phases phases_of(const Goal& goal) {
    Phases phases(goal.size());
    std::vector<std::map<std::string, std::size_t>> phase_of(goal.size());  // by label
    std::map<std::tuple<std::size_t, int, int>, std::pair<std::size_t, std::int64_t>> sends;
    for (std::size_t rank = 0; rank < goal.size(); ++rank) {
        // Labels count, so the order of their numbers is that of the text.
        std::map<int, std::string> begins;
        for (const auto& [label, operation] : goal[rank])
            if (operation.what == "calc") begins.emplace(std::stoi(label.substr(1)), label);
        for (const auto& [_, label] : begins) phase_of[rank].emplace(label, phase_of[rank].size());
        phases[rank].resize(begins.size());
        for (const auto& [label, operation] : goal[rank]) {
            if (operation.what == "calc") continue;
            REQUIRE(operation.needs.size() == 1);
            const std::size_t phase = phase_of[rank].at(operation.needs[0]);
            REQUIRE(goal[rank].at(operation.needs[0]).what == "calc");
            phase_of[rank].emplace(label, phase);
            if (operation.what != "send") continue;
            phases[rank][phase].sent.emplace(operation.peer, operation.bytes);
            REQUIRE(sends
                        .emplace(std::tuple(rank, operation.peer, operation.tag),
                                 std::pair(phase, operation.bytes))
                        .second);
        }
    }
    for (std::size_t rank = 0; rank < goal.size(); ++rank)
        for (const auto& [label, operation] : goal[rank]) {
            Phase& phase = phases[rank][phase_of[rank].at(label)];
            if (operation.what == "calc") {
                std::map<std::size_t, std::size_t> needed;  // phase -> operations
                for (const std::string& before : operation.needs) ++needed[phase_of[rank].at(before)];
                for (const auto& [before, count] : needed) {
                    const Phase& whole = phases[rank][before];
                    std::size_t operations = 0;
                    for (const auto& [other, its] : phase_of[rank])
                        operations += its == before && goal[rank].at(other).what != "calc";
                    CHECK(count == std::max<std::size_t>(operations, 1));
                    CHECK(operations >= whole.sent.size());
                    phase.after.insert(before);
                }
            } else if (operation.what == "recv") {
                const auto send = sends.extract({std::size_t(operation.peer), int(rank), operation.tag});
                REQUIRE(!send.empty());
                CHECK(send.mapped().second == operation.bytes);
                phase.received.emplace(operation.peer, send.mapped().first, operation.bytes);
            }
        }
    CHECK(sends.empty());
    return phases;
}

Phases phases_of(const dsl::MessageLayout& layout, double bytes) {
    Phases phases(std::size_t(layout.graph.ranks));
    std::vector<std::size_t> number(layout.nodes());
    for (dsl::NodeId node = 0; node < layout.nodes(); ++node) {
        auto& own = phases[std::size_t(layout.rank_of(node))];
        number[node] = own.size();
        own.emplace_back();
    }
    const auto phase = [&](dsl::NodeId node) -> Phase& {
        return phases[std::size_t(layout.rank_of(node))][number[node]];
    };
    for (dsl::NodeId node = 0; node < layout.nodes(); ++node)
        for (const dsl::NodeId next : layout.after(node)) phase(next).after.insert(number[node]);
    for (const auto& message : layout.messages) {
        const auto size = std::max<std::int64_t>(std::llround(message.moved * bytes), 1);
        phase(message.from).sent.emplace(message.destination, size);
        phase(message.to).received.emplace(message.source, number[message.from], size);
    }
    for (auto& own : phases)
        if (own.empty()) own.emplace_back();  // the simulator wants each rank to do something
    return phases;
}

}  // namespace

TEST_CASE("GOAL has the messages of the layout, their bytes, and what each waits for") {
    using enum dsl::Collective;
    std::vector<test::Case> all = test::cases();
    all.push_back({all_reduce, "hitopk", {"2mx3h"}});
    all.push_back({all_reduce, "naive_ag(0.01)", {"4"}});
    int number = 0;
    for (const test::Case& one : all)
        for (const char* topology : one.topologies) {
            // Usually, one of three topologies.
            if (number++ % test::in_long_form(1, 3) != 0 && one.topologies.size() > 1) continue;
            INFO(one.schedule << " on " << topology);
            const auto checked = dsl::check_schedule(test::request(one.collective, one.schedule, topology));
            const dsl::Network network = dsl::find_network("", checked->levels());
            for (const double bytes : {90720.0, 5.0}) {
                const dsl::MessageLayout layout(checked->graph(), network, {.ideal = true});
                const Phases expected = phases_of(layout, bytes);
                const Phases found = phases_of(parse(tools::goal_text(
                    checked->graph(), network, bytes, dsl::usual_value_bytes, dsl::no_deadline)));
                REQUIRE(found.size() == expected.size());
                for (std::size_t rank = 0; rank < found.size(); ++rank) CHECK(found[rank] == expected[rank]);
            }
        }
}
