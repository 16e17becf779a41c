#include <limits>
#include <map>
#include <optional>
#include <random>

#include "dsl/base/rational.hpp"
#include "dsl/prediction/flows.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using dsl::Rational;

namespace {

constexpr double never = std::numeric_limits<double>::infinity();

Rational quotient(Rational a, Rational b) {
    return a * Rational(b.den(), b.num());
}

// A flow of the exact solver.
struct ExactFlow {
    std::vector<std::pair<std::size_t, Rational>> hops;  // link, share
    Rational begin, left, rate, end;
    bool is_done = false;
    int priority = 0;
};

// Sets the max-min fair rates of the flows: all grow alike, and those on a full link stop.
void share_what_is_left(std::vector<ExactFlow*> flows, std::vector<Rational>& left) {
    const std::vector<Rational>& rates = left;
    while (!flows.empty()) {
        std::vector<Rational> weight(rates.size());
        for (const ExactFlow* flow : flows)
            for (const auto& [link, part] : flow->hops) weight[link] = weight[link] + part;
        std::optional<Rational> level;
        for (std::size_t i = 0; i < rates.size(); ++i)
            if (weight[i] > Rational(0) && (!level || quotient(left[i], weight[i]) < *level))
                level = quotient(left[i], weight[i]);
        std::vector<bool> full(rates.size());
        for (std::size_t i = 0; i < rates.size(); ++i)
            full[i] = weight[i] > Rational(0) && quotient(left[i], weight[i]) == *level;
        std::vector<ExactFlow*> open;
        for (ExactFlow* flow : flows) {
            const bool stops = std::any_of(flow->hops.begin(), flow->hops.end(),
                                           [&](const auto& hop) { return full[hop.first]; });
            if (!stops) {
                open.push_back(flow);
                continue;
            }
            flow->rate = *level;
            for (const auto& [link, part] : flow->hops) left[link] = left[link] - part * *level;
        }
        flows = open;
    }
}

// One priority after the other, the highest first.
void share(const std::vector<ExactFlow*>& flows, std::vector<Rational> left) {
    for (const int priority : {2, 1, 0}) {
        std::vector<ExactFlow*> its;
        for (ExactFlow* flow : flows)
            if (flow->priority == priority) its.push_back(flow);
        share_what_is_left(its, left);
    }
}

// Finds the exact end of each flow.
void simulate(std::vector<ExactFlow>& flows, const std::vector<Rational>& rates) {
    for (Rational now;;) {
        std::vector<ExactFlow*> active;
        std::optional<Rational> next;
        for (ExactFlow& flow : flows) {
            if (flow.is_done) continue;
            if (flow.begin > now) {
                if (!next || flow.begin < *next) next = flow.begin;
            } else {
                active.push_back(&flow);
            }
        }
        if (active.empty() && !next) return;
        share(active, rates);
        for (const ExactFlow* flow : active) {
            if (flow->rate == Rational(0)) continue;
            const Rational end = now + quotient(flow->left, flow->rate);
            if (!next || end < *next) next = end;
        }
        for (ExactFlow* flow : active) {
            flow->left = flow->left - flow->rate * (*next - now);
            if (flow->left == Rational(0)) {
                flow->is_done = true;
                flow->end = *next;
            }
        }
        now = *next;
    }
}

// Runs flows that begin at given times. Returns when each ends.
struct Start {
    double time;
    dsl::RouteId route;
    double bytes;
};
std::vector<double> ends_of(dsl::Flows& flows, std::vector<Start> starts) {
    std::vector<std::size_t> order(starts.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return starts[a].time < starts[b].time; });
    std::vector<double> ends(starts.size(), -1);
    std::size_t started = 0;
    while (true) {
        const double begin = started < order.size() ? starts[order[started]].time : never;
        const double time = std::min(begin, flows.next());
        if (time == never) return ends;
        for (const dsl::FlowId flow : flows.advance(time)) ends[order[flow]] = time;
        while (started < order.size() && starts[order[started]].time <= time) {
            const Start& start = starts[order[started++]];
            flows.start(start.route, start.bytes);
        }
    }
}

}  // namespace

TEST_CASE("flows share a link equally, and take what others leave") {
    dsl::Flows flows({1, 3}, true);
    const dsl::Hop both[] = {{0, 1}, {1, 1}}, second[] = {{1, 1}};
    const dsl::RouteId narrow = flows.add_route(both), wide = flows.add_route(second);
    CHECK(flows.next() == never);
    flows.start(narrow, 1);
    flows.start(narrow, 1);
    flows.start(wide, 4);
    CHECK(flows.next() == 2);
    CHECK(flows.rate_of(narrow) == 0.5);
    CHECK(flows.rate_of(wide) == 2);
    CHECK(flows.advance(2) == std::vector<dsl::FlowId>{0, 1, 2});
    // A share of 1/4 leaves three quarters of the link.
    const dsl::Hop quarter[] = {{0, 0.25}};
    const dsl::Hop whole[] = {{0, 1}};
    const dsl::RouteId spread = flows.add_route(quarter), full = flows.add_route(whole);
    flows.start(spread, 1);
    flows.start(full, 1);
    CHECK(flows.next() == 2 + 1 / 0.8);
    CHECK(flows.rate_of(full) == 0.8);
}

TEST_CASE("flows of one route are drained together, whenever they began") {
    dsl::Flows flows({2}, true);
    const dsl::Hop hop[] = {{0, 1}};
    const dsl::RouteId route = flows.add_route(hop);
    const std::vector<double> ends =
        ends_of(flows, {{0, route, 4}, {1, route, 1}, {1, route, 1}, {2, route, 8}});
    // Alone until 1; then a third each; a fourth comes at 2.
    CHECK(ends[1] == Approx(1 + 1 + (1.0 - 2.0 / 3) * 4 / 2).epsilon(1e-14));
    CHECK(ends[2] == ends[1]);
    CHECK(ends[3] == Approx((4 + 1 + 1 + 8) / 2.0).epsilon(1e-14));
}

TEST_CASE("only what shares links with a change is solved again") {
    dsl::Flows flows({1, 1, 1}, true);
    std::vector<Start> starts;
    for (dsl::LinkId link = 0; link < 3; ++link) {
        const dsl::Hop hop[] = {{link, 1}};
        starts.push_back({0, flows.add_route(hop), 1.0 + link});
    }
    CHECK(ends_of(flows, starts) == std::vector<double>{1, 2, 3});
    CHECK(flows.solutions() == 1);
    CHECK(flows.visits() == 3);
}

TEST_CASE("a change of fast flows leaves slower ones alone, and the links that only these fill") {
    constexpr int wide = 100;
    std::vector<double> rates(1, 1);
    rates.resize(1 + wide, 100);
    dsl::Flows flows(rates, true);
    std::vector<dsl::RouteId> fast;
    for (dsl::LinkId link = 1; link <= wide; ++link) {  // the first link holds a slow flow of each other
        const dsl::Hop slow_hops[] = {{0, 1}, {link, 1}}, fast_hops[] = {{link, 1}};
        flows.start(flows.add_route(slow_hops), 1e6);
        fast.push_back(flows.add_route(fast_hops));
        flows.start(fast.back(), link == 7 ? 1 : 1e6);
    }
    const auto visits_of_next = [&] {
        const std::size_t before = flows.visits();
        flows.next();
        return flows.visits() - before;
    };
    CHECK(visits_of_next() >= wide + 1);
    flows.advance(flows.next());
    CHECK(visits_of_next() == 0);  // the seventh link holds nothing now, and isn't full
    const dsl::FlowId again = flows.start(fast[6], 1);
    CHECK(visits_of_next() == 1);
    CHECK(flows.rate_of(fast[6]) == Approx(100 - 1.0 / wide).epsilon(1e-14));
    CHECK(flows.advance(flows.next()) == std::vector<dsl::FlowId>{again});
    // Where one flow takes another's place, nothing changes.
    flows.start(fast[20], 1);
    flows.next();
    CHECK(flows.advance(flows.next()).size() == 1);
    flows.start(fast[20], 1);
    CHECK(visits_of_next() == 0);
    // A slow flow more takes from all.
    flows.start(flows.add_route(std::vector<dsl::Hop>{{0, 1}}), 1);
    CHECK(visits_of_next() >= wide);
}

TEST_CASE("ends that are out of date do not pile up") {
    dsl::Flows flows({3, 3}, true);
    const dsl::Hop both[] = {{0, 1}, {1, 1}}, first[] = {{0, 1}}, second[] = {{1, 1}};
    const dsl::RouteId sides[] = {flows.add_route(first), flows.add_route(second)};
    for (const dsl::RouteId side : sides) flows.start(side, 1e6);
    flows.start(flows.add_route(both), 1e9);
    for (int i = 0; i < 2000; ++i) {  // the two links hold the long flow in turn, behind a shorter one
        flows.start(flows.add_route(i % 2 ? second : first), 1);
        CHECK(flows.next() == Approx(i + 1).epsilon(1e-12));
        CHECK(flows.advance(flows.next()).size() == 1);
        CHECK(flows.endings() < 100);
    }
}

TEST_CASE("a queue of ends has the earliest in front, whatever is set") {
    std::mt19937 random(3);
    dsl::EndQueue queue;
    std::map<std::uint32_t, double> times;
    for (int i = 0; i < 20000; ++i) {
        const std::uint32_t item = random() % 50;
        const double time = random() % 4 == 0 ? never : random() % 100;
        queue.set(item, time);
        time == never ? void(times.erase(item)) : void(times[item] = time);
        dsl::EndQueue::End least = dsl::EndQueue().front();
        for (const auto& [other, its] : times) least = std::min(least, {its, other});
        REQUIRE(queue.front().time == least.time);
        REQUIRE(queue.front().item == least.item);
    }
}

TEST_CASE("flows on random networks end when an exact solver says") {
    std::mt19937 random(35);
    const auto below = [&](std::uint32_t most) { return static_cast<std::int64_t>(random() % most); };
    int compared = 0, ends = 0, together = 0;
    for (int trial = 0; trial < 3000; ++trial) {
        std::vector<Rational> rates;
        std::vector<double> as_double;
        for (std::int64_t i = 2 + below(4); i > 0; --i) {
            rates.push_back(Rational(1 + below(6)));
            as_double.push_back(rates.back().value());
        }
        dsl::Flows flows(as_double, true);
        std::vector<ExactFlow> exact;
        std::vector<Start> starts;
        std::vector<dsl::RouteId> routes;
        std::vector<int> priorities;
        const std::uint32_t most_priorities = trial % 2 ? 3 : 1;
        std::vector<std::vector<std::pair<std::size_t, Rational>>> all_hops;
        const bool spreads = below(2) == 0;
        for (std::int64_t i = 1 + below(4); i > 0; --i) {
            std::vector<dsl::Hop> hops;
            std::vector<std::pair<std::size_t, Rational>> exact_hops;
            for (std::size_t link = 0; link < rates.size(); ++link)
                if (below(2) == 0 || (hops.empty() && link + 1 == rates.size())) {
                    const Rational part(1, spreads ? 1 + below(3) : 1);
                    hops.push_back({static_cast<dsl::LinkId>(link), part.value()});
                    exact_hops.emplace_back(link, part);
                }
            priorities.push_back(static_cast<int>(below(most_priorities)));
            routes.push_back(flows.add_route(hops, priorities.back()));
            all_hops.push_back(exact_hops);
        }
        for (std::int64_t i = 1 + below(7); i > 0; --i) {
            const std::size_t route =
                static_cast<std::size_t>(below(static_cast<std::uint32_t>(routes.size())));
            const std::int64_t begin = below(4), bytes = 1 + below(8);
            exact.push_back(
                {all_hops[route], Rational(begin), Rational(bytes), {}, {}, false, priorities[route]});
            starts.push_back({double(begin), routes[route], double(bytes)});
        }
        try {
            simulate(exact, rates);
        } catch (const std::overflow_error&) {
            continue;  // fractions of more than 63 bits
        }
        ++compared;
        const std::vector<double> got = ends_of(flows, starts);
        std::map<double, int> times;
        for (std::size_t i = 0; i < got.size(); ++i) {
            CHECK(got[i] == Approx(exact[i].end.value()).epsilon(1e-12).margin(0));
            ++times[got[i]];
            ++ends;
        }
        for (std::size_t i = 0; i < got.size(); ++i)  // what ends together is one event
            for (std::size_t j = 0; j < i; ++j)
                if (exact[i].end == exact[j].end) {
                    CHECK(got[i] == got[j]);
                    ++together;
                }
    }
    CHECK(compared > 2900);
    CHECK(ends > 5000);
    CHECK(together > 500);
}

TEST_CASE("solutions of large random networks are certified, and the same each time") {
    const auto run = [](std::uint32_t seed, int priorities) {
        std::mt19937 random(seed);
        std::vector<double> rates;
        for (int i = 0; i < 60; ++i) rates.push_back(1 + double(random() % 1000) / 7);
        dsl::Flows flows(rates, true);
        std::vector<Start> starts;
        for (int i = 0; i < 400; ++i) {
            std::vector<dsl::Hop> hops;
            for (dsl::LinkId link = random() % 20; link < 60; link += 1 + random() % 40)
                hops.push_back({link, 1.0 / double(1 + random() % 3)});
            const dsl::RouteId route = flows.add_route(hops, i % priorities);
            for (int j = random() % 3; j >= 0; --j)
                starts.push_back({double(random() % 50), route, 1 + double(random() % 1000)});
        }
        std::vector<double> ends = ends_of(flows, starts);
        CHECK(*std::min_element(ends.begin(), ends.end()) > 0);
        return ends;
    };
    for (const int priorities : {1, 3, 8})
        for (const std::uint32_t seed : {7, 8}) CHECK(run(seed, priorities) == run(seed, priorities));
}

TEST_CASE("a flow that ends where it is, but gets no rate, waits for those before it") {
    dsl::Flows flows({1});
    const dsl::Hop hop[] = {{0, 1}};
    const dsl::RouteId low = flows.add_route(hop, 0), high = flows.add_route(hop, 1);
    flows.start(low, 1e30);
    flows.next();
    flows.advance(6e17);
    flows.start(high, 1e6);
    // One byte is nothing beside what the other flow of its route has sent.
    const dsl::FlowId small = flows.start(low, 1);
    const double end = flows.next();
    CHECK(end == Approx(6e17 + 1e6).epsilon(1e-15));
    CHECK(flows.advance(end).size() == 1);
    CHECK(flows.advance(flows.next()) == std::vector<dsl::FlowId>{small});
}

TEST_CASE("following flows stops at a deadline") {
    const dsl::Deadline deadline(std::chrono::duration<double>(0));
    dsl::Flows flows({1}, false, deadline);
    const dsl::Hop hop[] = {{0, 1}};
    const dsl::RouteId route = flows.add_route(hop);
    const auto run = [&] {
        for (int i = 0; i < 10000; ++i) {
            flows.start(route, 1);
            flows.advance(flows.next());
        }
    };
    CHECK_THROWS_AS(run(), dsl::DeadlineError);
}
