// The protocol of the parameter service, in every order of events: each update counts once, weights are never
// older than asked for, and all workers come to their end. (docs/params.md lists the promises.)
#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>
#include <unordered_set>
#include <vector>

#include "tests/runtime/params/world.hpp"
#include "tests/support/long_form.hpp"

namespace {

using namespace hocket::params;

struct Found {
    std::size_t states = 0;
    bool all = true;    // the search was exhaustive
    std::string fault;  // with the path to it
};

std::string text_of(const std::vector<Event>& path) {
    std::string text;
    for (const Event& event : path) text += "\n  " + event.text();
    return text;
}

std::string fault_of(const World& world, bool is_stuck) {
    if (!world.wrong().empty()) return world.wrong();
    return is_stuck ? world.unfinished() : "";
}

// tools/test --long sets the number of states to visit of each setup.
bool is_long() {
    return std::getenv("HOCKET_PARAMS_LONG") != nullptr;
}

std::size_t most_states() {
    return is_long() ? std::strtoull(std::getenv("HOCKET_PARAMS_LONG"), nullptr, 10)
                     : hocket::test::in_long_form(std::size_t{700}, std::size_t{100});
}

int most_walks() {
    return is_long() ? 5000 : hocket::test::in_long_form(150, 25);
}

// Depth first: it keeps only a world for each step of the current path.
class Explorer {
  public:
    Found run(const World& from) {
        visit(from);
        return found_;
    }

  private:
    void visit(const World& world) {
        if (!seen_.insert(std::hash<std::string>()(world.digest())).second) return;
        if (seen_.size() > most_states()) {
            found_.all = false;
            return;
        }
        ++found_.states;
        const std::vector<Event> events = world.events();
        const std::string fault = fault_of(world, events.empty());
        if (!fault.empty()) {
            found_.fault = fault + text_of(path_);
            return;
        }
        for (const Event& event : events) {
            World next = world;
            next.happen(event);
            path_.push_back(event);
            visit(next);
            path_.pop_back();
            if (!found_.fault.empty() || !found_.all) return;
        }
    }

    std::unordered_set<std::size_t> seen_;
    std::vector<Event> path_;
    Found found_;
};

// Random paths through state spaces that are too large to be visited as a whole.
Found walk(const World& from, int walks) {
    Found found;
    std::mt19937 random(20261124);
    for (int i = 0; i < walks && found.fault.empty(); ++i) {
        World world = from;
        std::vector<Event> path;
        for (;;) {
            const std::vector<Event> events = world.events();
            const std::string fault = fault_of(world, events.empty());
            if (!fault.empty()) found.fault = fault + text_of(path);
            if (events.empty() || !fault.empty()) break;
            // Prefers messages: otherwise all faults would come at the beginning.
            std::vector<Event> likely;
            for (const Event& event : events)
                if (event.kind <= Event::Kind::overtake_sums) likely.push_back(event);
            const auto& among = likely.empty() || random() % 8 == 0 ? events : likely;
            path.push_back(among[random() % among.size()]);
            world.happen(path.back());
            ++found.states;
        }
    }
    return found;
}

World after(World world, const std::vector<Event>& path) {
    for (const Event& event : path) {
        const std::vector<Event> possible = world.events();
        INFO(event.text());
        REQUIRE(std::find(possible.begin(), possible.end(), event) != possible.end());
        world.happen(event);
    }
    return world;
}

const std::vector<std::string> shapes = {"direct", "binary", "degree 1", "rack"};

// Visits all states if they are few enough, and random paths otherwise.
// times: more walks, for a fault that needs several others just before it.
void check_from(const World& world, int times = 1) {
    const Found found = Explorer().run(world);
    CHECK(found.fault == "");
    if (found.all) return;
    if (is_long()) WARN("not all states: " << found.states);
    CHECK(walk(world, times * most_walks()).fault == "");
}

void check(const Setup& setup, int times = 1) {
    INFO(setup.workers << " workers, " << setup.servers << " servers, " << setup.chunks << " chunks, "
                       << setup.rounds << " rounds, staleness "
                       << (setup.staleness ? std::to_string(*setup.staleness) : "unbounded") << ", tree "
                       << setup.shape.text());
    check_from(World(setup), times);
}

void check_all_shapes(Setup setup, int times = 1) {
    for (const std::string& shape : shapes)
        for (const Clock staleness : {0, 1}) {
            setup.shape = Shape::parse(shape);
            setup.staleness = staleness;
            check(setup, times);
        }
}

}  // namespace

TEST_CASE("each update counts once, and nobody waits for ever") {
    check_all_shapes({.servers = 1, .rounds = 2});
    check_all_shapes({.servers = 2, .rounds = 1});
    check_all_shapes({.servers = 1, .chunks = 2, .rounds = 2});
}

TEST_CASE("wants overtake sums") {
    check_all_shapes({.servers = 1, .chunks = 2, .rounds = 2, .wants_overtake = true});
    check_all_shapes({.servers = 1, .rounds = 2, .faults = {.crashes = 1}, .wants_overtake = true});
    check_all_shapes({.servers = 1, .rounds = 2, .faults = {.cuts = 1}, .wants_overtake = true});
}

TEST_CASE("sums overtake those of other chunks") {
    check_all_shapes({.servers = 1, .chunks = 2, .rounds = 2, .sums_overtake = true});
    check_all_shapes({.workers = 2, .servers = 1, .chunks = 3, .rounds = 2, .sums_overtake = true});
    check_all_shapes(
        {.servers = 1, .chunks = 2, .rounds = 1, .faults = {.crashes = 1}, .sums_overtake = true});
}

TEST_CASE("a worker is killed") {
    check_all_shapes({.servers = 1, .rounds = 2, .faults = {.crashes = 1}});
    check_all_shapes({.servers = 2, .rounds = 1, .faults = {.crashes = 1}});
}

TEST_CASE("two workers are killed") {
    check_all_shapes({.workers = 4, .servers = 1, .rounds = 2, .faults = {.crashes = 2}});
}

TEST_CASE("a worker comes, also when another one has been killed") {
    check_all_shapes({.servers = 1, .rounds = 3, .faults = {.joins = 1}});
    check_all_shapes({.workers = 2, .servers = 2, .rounds = 2, .faults = {.crashes = 1, .joins = 1}});
    check_all_shapes({.workers = 1, .servers = 2, .rounds = 4, .faults = {.crashes = 1, .joins = 1}});
}

TEST_CASE("connections end while all live") {
    check_all_shapes({.servers = 1, .rounds = 2, .faults = {.broken_links = 1}});
    check_all_shapes({.servers = 1, .rounds = 2, .faults = {.cuts = 1}});
    check_all_shapes({.workers = 2, .servers = 1, .rounds = 2, .faults = {.broken_links = 1, .cuts = 1}});
}

TEST_CASE("another server takes the place of one that was killed, and goes on from its snapshot") {
    check_all_shapes({.workers = 2, .servers = 1, .rounds = 2, .faults = {.server_crashes = 1}});
    check_all_shapes(
        {.workers = 2, .servers = 1, .rounds = 1, .faults = {.crashes = 1, .server_crashes = 1}});
}

TEST_CASE("a worker comes when its server has been replaced") {
    check_all_shapes({.workers = 2, .servers = 1, .rounds = 2, .faults = {.joins = 1, .server_crashes = 1}});
    check_all_shapes({.workers = 2, .servers = 2, .rounds = 2, .faults = {.joins = 1, .server_crashes = 2}});
}

TEST_CASE("a server is replaced again before the first successor knows who has died") {
    check_all_shapes(
        {.workers = 2, .servers = 1, .rounds = 2, .faults = {.crashes = 1, .joins = 1, .server_crashes = 2}},
        20);
}

TEST_CASE("a server goes on without a worker that lives, and is restarted before that one is back") {
    check_all_shapes(
        {.workers = 2, .servers = 1, .rounds = 2, .faults = {.cuts = 1, .restarts = 1, .give_ups = 1}});
}

TEST_CASE("a worker that one server has given up comes to the next one") {
    check_all_shapes({.workers = 3,
                      .servers = 1,
                      .rounds = 1,
                      .faults = {.crashes = 1, .server_crashes = 2, .give_ups = 1}});
}

// Worker 0 dies when only worker 2 has seen weights with its update of round 1. The server is replaced, and
// its successor goes on without worker 2. Random paths come by so many faults in this order too seldom.
std::vector<Event> path_to_unknown_losses() {
    using Kind = Event::Kind;
    std::vector<Event> path;
    const auto hear = [&](Worker worker) { path.push_back({Kind::deliver, 0, the_server, worker}); };
    const auto say = [&](Worker worker) { path.push_back({Kind::deliver, 0, worker, the_server}); };
    for (const Worker worker : {0, 1, 2}) {
        hear(worker);  // that it takes part
        say(worker);   // that it wants the first weights
        hear(worker);
        say(worker);  // its update of round 0
        say(worker);  // that it wants the next weights
    }
    path.push_back({Kind::snapshot});
    for (const Worker worker : {0, 1, 2}) {
        hear(worker);
        say(worker);
        say(worker);
    }
    hear(2);  // what the snapshot covers
    hear(2);
    path.push_back({Kind::crash_and_lose, 0, 0});
    path.push_back({Kind::replace});
    path.push_back({Kind::give_up_living, 0, 2});
    return path;
}

TEST_CASE("a worker that one server has given up has seen what only the next one hears of") {
    const auto check_with = [](Faults faults) {
        const Setup setup{.servers = 1, .rounds = 2, .shape = Shape::parse("direct"), .faults = faults};
        check_from(after(World(setup), path_to_unknown_losses()));
    };
    check_with({.crashes = 1, .server_crashes = 2, .give_ups = 1});
    check_with({.crashes = 2, .server_crashes = 2, .give_ups = 1});
    check_with({.crashes = 1, .joins = 1, .server_crashes = 2, .give_ups = 1});
    check_with({.crashes = 1, .server_crashes = 3, .give_ups = 1});
}

TEST_CASE("a worker leaves, and its server is replaced before its next checkpoint") {
    check_all_shapes({.workers = 2, .servers = 1, .rounds = 2, .faults = {.server_crashes = 1, .leaves = 1}});
    check_all_shapes({.workers = 2, .servers = 2, .rounds = 1, .faults = {.server_crashes = 1, .leaves = 1}});
}

TEST_CASE("a worker closes in the middle of a round, and its server is replaced") {
    check_all_shapes({.workers = 2, .servers = 1, .rounds = 2, .faults = {.closes = 1}});
    for (const Chunk chunks : {1, 2})
        check_all_shapes({.workers = 2,
                          .servers = 1,
                          .chunks = chunks,
                          .rounds = 2,
                          .faults = {.server_crashes = 1, .closes = 1}});
    check_all_shapes({.workers = 3, .servers = 2, .rounds = 2, .faults = {.server_crashes = 2, .closes = 1}});
}

TEST_CASE("all processes end, and servers go back to the last clock of which all have a snapshot") {
    check_all_shapes({.workers = 2, .servers = 2, .rounds = 3, .faults = {.blackouts = 1}, .cut_every = 1});
    check_all_shapes(
        {.workers = 2, .servers = 1, .chunks = 2, .rounds = 4, .faults = {.blackouts = 1}, .cut_every = 2});
    // A worker with a new connection sends its updates again, chunk by chunk, so some chunks get further
    // ahead than others.
    check_all_shapes({.workers = 2,
                      .servers = 1,
                      .chunks = 2,
                      .rounds = 3,
                      .faults = {.cuts = 1, .blackouts = 1},
                      .cut_every = 1});
    check_all_shapes({.workers = 2,
                      .servers = 2,
                      .rounds = 3,
                      .faults = {.cuts = 1, .server_crashes = 1, .blackouts = 1},
                      .cut_every = 1});
}

TEST_CASE("anything may happen") {
    for (const std::string& shape : shapes)
        for (const Clock staleness : {0, 1, 2}) {
            const Setup setup{.workers = 5,
                              .servers = 2,
                              .chunks = 2,
                              .rounds = 4,
                              .staleness = staleness,
                              .shape = Shape::parse(shape),
                              .faults = {2, 2, 2, 2, 1},
                              .wants_overtake = true,
                              .sums_overtake = true};
            CHECK(walk(World(setup), most_walks()).fault == "");
        }
}

TEST_CASE("anything may happen, and servers are replaced again and again") {
    for (const std::string& shape : shapes)
        for (const Clock staleness : {0, 1})
            for (const int servers : {1, 2}) {
                const Setup setup{
                    .workers = 3,
                    .servers = servers,
                    .rounds = 3,
                    .staleness = staleness,
                    .shape = Shape::parse(shape),
                    .faults = {.crashes = 2, .joins = 1, .cuts = 2, .server_crashes = 3, .give_ups = 2}};
                CHECK(walk(World(setup), most_walks()).fault == "");
            }
}

TEST_CASE("with unbounded staleness each update counts once, and nobody waits for anybody") {
    const auto check_unbounded = [](Setup setup) {
        setup.staleness = std::nullopt;
        setup.shape = Shape::parse("direct");
        check(setup);
    };
    check_unbounded({.servers = 1, .chunks = 2, .rounds = 2});
    check_unbounded({.servers = 2, .rounds = 2, .faults = {.crashes = 1}});
    check_unbounded({.workers = 2, .servers = 1, .rounds = 2, .faults = {.joins = 1}});
    check_unbounded({.workers = 2, .servers = 1, .rounds = 2, .faults = {.cuts = 2}});
    check_unbounded({.workers = 2, .servers = 1, .rounds = 2, .faults = {.crashes = 1, .server_crashes = 1}});
    check_unbounded(
        {.workers = 2, .servers = 1, .rounds = 2, .faults = {.cuts = 1, .restarts = 1, .give_ups = 1}});
    check_unbounded({.workers = 2, .servers = 1, .rounds = 2, .faults = {.server_crashes = 1, .leaves = 1}});
    check_unbounded(
        {.workers = 2, .servers = 1, .chunks = 2, .rounds = 2, .faults = {.server_crashes = 1, .closes = 1}});
    const Setup any{.workers = 4,
                    .servers = 2,
                    .chunks = 2,
                    .rounds = 4,
                    .staleness = std::nullopt,
                    .shape = Shape::parse("direct"),
                    .faults = {2, 2, 0, 2, 2}};
    CHECK(walk(World(any), most_walks()).fault == "");
}
