#include "dsl/planning/estimate.hpp"

#include "tests/dsl/errors.hpp"
#include "tests/support/long_form.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using dsl::Collective;

namespace {

constexpr double us = 1e-6;
constexpr double wait = dsl::memory_latency;
constexpr double bytes = 1 << 20;

double estimated(const std::string& schedule, const std::string& topology,
                 Collective collective = Collective::all_reduce, double size = bytes, dsl::Rank root = 0) {
    const auto checked = dsl::check_schedule(test::request(collective, schedule, topology, 0, root));
    return dsl::estimate(checked->graph(), checked->levels(), size);
}

Approx about(double seconds) {
    return Approx(seconds).epsilon(1e-9);
}

}  // namespace

TEST_CASE(
    "a message is estimated by a latency, what else the sender sends, and the bytes of the busier end") {
    const double rate = 1.25e9, alpha = 30 * us;  // of a host
    const double fan = 1.4 * alpha;               // three messages at once: 0.8 + 3 x 0.2
    // Each of two senders more costs 8 % of what 64 KiB of buffers don't hold.
    const auto crowded = [](double received) { return received + 0.16 * (received - 64 * 1024); };
    CHECK(estimated("exchange", "4h") == about(fan + crowded(3 * bytes) / rate));
    CHECK(estimated("direct", "4h") == about(2 * (fan + crowded(0.75 * bytes) / rate)));
    CHECK(estimated("exchange", "4h", Collective::all_reduce, 16 * 1024) ==
          about(fan + 3 * 16 * 1024 / rate));
    CHECK(estimated("ring", "4h") == about(6 * (alpha + 0.25 * bytes / rate)));
    CHECK(estimated("butterfly", "4h") == about(2 * (alpha + bytes / rate)));
    CHECK(estimated("halving", "4h") == about(4 * alpha + 1.5 * bytes / rate));
    CHECK(estimated("ring", "1") == 0);
    CHECK(estimated("ring", "4") == about(6 * (20 * us + 0.25 * bytes / rate)));  // a level without figures
    CHECK(estimated("ring", "4h@1Gb/s") == about(6 * (alpha + 0.25 * bytes / 125e6)));
}

TEST_CASE("what a rank sends another in a phase is one message, however many pieces it has") {
    const test::TemporarySchedule file(
        "algorithm two reduce_scatter(x) over g { let y = x.part(0 of 2) let z = x.part(1 of 2)\n"
        " each r in g, q in g where q != r { y : r +> q z : r +> q } }");
    // Half of each of two chunks is in two pieces: four pieces for the one peer.
    const auto checked = dsl::check_schedule(test::request(Collective::reduce_scatter, file.path(), "2h"));
    CHECK(dsl::estimate(checked->graph(), checked->levels(), bytes) == about(30 * us + bytes / 1.25e9));
}

TEST_CASE("in an estimate who has the data sends on, who has sent goes on, and pipelines overlap") {
    const double alpha = 30 * us, tile = bytes / 16 / 1.25e9, whole = bytes / 1.25e9;
    CHECK(estimated("binomial", "4h", Collective::broadcast) == about(2 * (alpha + whole)));
    CHECK(estimated("direct", "4h", Collective::broadcast) == about(1.4 * alpha + 3 * whole));
    // The last of 16 tiles leaves after 15 others, and passes two links.
    CHECK(estimated("chain", "3h", Collective::broadcast) ==
          about(15 * (0.2 * alpha + tile) + 2 * (alpha + tile)));
    CHECK(estimated("chain", "3h", Collective::broadcast, bytes, 2) ==
          about(15 * (0.2 * alpha + tile) + 2 * (alpha + tile)));
}

TEST_CASE("of two ends, the one with more messages in a phase makes each of them wait") {
    const double alpha = 30 * us, rate = 1.25e9, fan = 1.4 * alpha;  // three messages: 0.8 + 3 x 0.2
    // Three send one each to the root, and the root sends three.
    CHECK(estimated("direct", "4h", Collective::gather, 8) == about(fan + 6 / rate));
    CHECK(estimated("direct", "4h", Collective::scatter, 8) == about(fan + 6 / rate));
    // Those who have sent go on after their own message.
    const test::TemporarySchedule file(
        "algorithm two reduce(x, root) over g { let y = x.part(0 of 2) let z = x.part(1 of 2)\n"
        " each q in g where q != root y : q +> root\n"
        " each q in g where q != root z : q +> root }");
    CHECK(estimated(file.path(), "4h", Collective::reduce, 8) == about(0.2 * alpha + fan + 16 / rate));
    // One rank for all: of a thousand messages to one rank, the last waits for a fifth of a latency each.
    dsl::Library library({HOCKET_SCHEDULES_DIR});
    const dsl::Topology many = dsl::grid_topology("1000h");
    const dsl::Runnable direct = dsl::find_runnable(library, "direct", Collective::gather);
    CHECK(dsl::estimate(dsl::elaborate(direct, library, many, {0, 0, {}}), many, 8, 0) ==
          about((0.8 + 0.2 * 999) * alpha + 8 * 0.999 / rate));
}

TEST_CASE("memory is estimated by one synchronisation a phase, and one pass over all sources") {
    const double rate = dsl::memory_bandwidth;
    CHECK(estimated("exchange", "4m") == about(wait + 5 * bytes / rate));  // 3 sources, its own, the result
    CHECK(estimated("direct", "4m") == about(2 * wait + (5.0 / 4 + 2 * 3.0 / 4) * bytes / rate));
    CHECK(estimated("ring", "4m") == about(6 * wait + (3 * 3.0 / 4 + 2 * 3.0 / 4) * bytes / rate));
    CHECK(estimated("direct", "4m", Collective::broadcast) == about(wait + 2 * bytes / rate));
    // With half as many cores as ranks, everything takes twice as long, and cores are handed over; with more,
    // nothing is gained.
    CHECK(estimated("direct", "4m/2") == about(2 * (estimated("direct", "4m") + 2 * dsl::core_switch)));
    CHECK(estimated("direct", "4m/8") == about(estimated("direct", "4m")));
    CHECK(estimated("exchange", "2mx2m") == about(estimated("exchange", "4m")));
}

TEST_CASE("what a rank copies within its own buffers takes time, but waits for nobody") {
    const double rate = dsl::memory_bandwidth;
    CHECK(estimated("direct", "4m", Collective::all_to_all) == about(wait + 2 * bytes / rate));
    // All of x once, and then half of it in each of two steps.
    CHECK(estimated("bruck", "4m", Collective::all_to_all) == about(2 * wait + (2 + 2) * bytes / rate));
    // Between hosts as well. A copy of the own half goes beside the message; one of all of x comes before it.
    const double message = dsl::fabric_latency + bytes / 2 / dsl::fabric_bandwidth;
    CHECK(estimated("direct", "2h", Collective::all_to_all) == about(message));
    CHECK(estimated("bruck", "2h", Collective::all_to_all) == about(message + 2 * bytes / rate));
}

TEST_CASE("a shared link carries the bytes of all its ranks") {
    const double fabric = 125e6, memory = dsl::memory_bandwidth;
    // Halves over the link, by both ranks of a host at once.
    CHECK(estimated("sharded", "2mx2h@1Gb/s") ==
          about(wait + 1.5 * bytes / memory + 30 * us + bytes / fabric + wait + bytes / memory));
    // Everyone sends everything to the two ranks of the other host.
    CHECK(estimated("exchange", "2mx2h@1Gb/s") == about(1.2 * 30 * us + 4 * bytes / fabric));
    // Links of their own carry half as much.
    const test::TemporarySchedule own(
        "topology own(n = 2) { level local[n] { medium memory latency 1us bandwidth 8GB/s }\n"
        " level host[2] { medium fabric latency 30us bandwidth 1Gb/s } }");
    CHECK(estimated("exchange", own.path()) ==
          about(1.2 * 30 * us + (2 * bytes + 0.08 * (2 * bytes - 64 * 1024)) / fabric));
}

TEST_CASE("ranks of one host share its link, however many they are") {
    const double rate = dsl::fabric_bandwidth, alpha = dsl::fabric_latency;
    // Ranks 3 and 4 of the second host get x from rank 0, whose host sends it twice; ranks 1 and 2 fetch it.
    const double busy = alpha * dsl::message_share;
    CHECK(estimated("direct", "3+2h", Collective::broadcast) == about(alpha + busy + 2 * bytes / rate));
    // The first host sends what its three ranks have to two others: 6 fifths of x in all.
    CHECK(estimated("direct", "3+2h", Collective::all_gather) ==
          Approx(alpha + 2 * busy + 1.2 * bytes / rate).epsilon(0.2));
    // In a ring one rank of each host sends, what the others have sent in memory, too.
    const double ring = estimated("ring", "3+2h", Collective::all_gather);
    CHECK(ring > 0.8 * bytes / rate + alpha);
    CHECK(ring < 0.8 * bytes / rate + 4 * alpha);
    CHECK(estimated("ring", "3+2h") < 0.7 * estimated("direct", "3+2h"));
    // With one rank on each they are hosts as ever; all on one are in memory.
    CHECK(estimated("ring", "1+1+1h") == about(estimated("ring", "3h")));
    CHECK(estimated("direct", "2+2h") == Approx(estimated("direct", "2mx2h")).epsilon(1e-6));
    CHECK(estimated("ring", "3+1h", Collective::all_gather) > 0.75 * bytes / rate);
}

TEST_CASE("ranks that are dealt to hosts in turn are joined by what is between their hosts") {
    // Rank 0 is with 2: 1 and 3 are on the other host.
    CHECK(estimated("direct", "2hx2m", Collective::broadcast) == about(1.2 * 30 * us + 2 * bytes / 1.25e9));
}

TEST_CASE("strands go side by side") {
    // Two halves of x, on two ports in turn: two messages a step, and never two on one port.
    CHECK(estimated("bml", "bcube(2, 2)") == about(4 * 1.2 * 20 * us + 0.75 * bytes / 1.25e9));
    const test::TemporarySchedule file(
        "schedule s all_reduce(x) {\n"
        "  parallel t in 0 ..< 2 { let y = x.part(t of 2)\n"
        "    parallel u in 0 ..< 2 { let z = y.part(u of 2) all_reduce z over world using exchange }\n"
        "    all_reduce y over world using exchange }\n"
        "}");
    dsl::Library library({HOCKET_SCHEDULES_DIR});
    const dsl::Runnable s = dsl::find_runnable(library, file.path(), Collective::all_reduce);
    const dsl::Topology topology = dsl::grid_topology("2h");
    // Not a right all-reduce, but as good for this: all quarters at once, then both halves at once.
    CHECK(dsl::estimate(dsl::elaborate(s, library, topology, {0, std::nullopt, {}}), topology, bytes) ==
          about(30 * us * (1.6 + 1.2) + 2 * bytes / 1.25e9));
}

TEST_CASE("groups that don't touch each other go side by side, and share what they share") {
    // The level-wise schedule has the pairs of ranks across hosts one after the other in its text.
    CHECK(estimated("nested", "4mx2h") ==
          about(wait + 5 * bytes / dsl::memory_bandwidth + 30 * us + 4 * bytes / 1.25e9));
}

TEST_CASE("more bytes never take less time") {
    int number = 0;
    for (const test::Case& item : test::cases())
        for (const char* topology : {"4", "4m/2", "2mx2h@1Gb/s", "2x4", "8h"}) {  // all are powers of two
            if (number++ % test::in_long_form(1, 7) != 0) continue;
            const bool needs_levels = std::string_view(item.schedule).starts_with("two_level");
            const bool has_levels = std::string_view(topology).find('x') != std::string_view::npos;
            if (*item.schedule == '\0' || (needs_levels && !has_levels)) continue;
            dsl::Library library({HOCKET_SCHEDULES_DIR});
            const auto checked = dsl::check_schedule(test::request(item.collective, item.schedule, topology));
            const dsl::StepGraph graph = checked->graph();
            const dsl::Estimate estimate(graph, checked->levels());
            double before = 0;
            for (double size = 8; size < 1 << 30; size *= 8) {
                const double seconds = estimate.seconds(size);
                INFO(item.schedule << " on " << topology << " at " << size);
                CHECK(seconds > before);
                CHECK(seconds == dsl::estimate(graph, checked->levels(), size));
                before = seconds;
            }
        }
}

TEST_CASE("where all ranks do the same, one stands for all") {
    dsl::Library library({HOCKET_SCHEDULES_DIR});
    for (const std::string name :
         {"ring", "direct", "halving", "exchange", "butterfly", "bml", "sharded", "nested", "blueconnect"})
        for (const std::string text : {"8", "16h", "8m", "2x4", "8m/2", "2mx8h", "4mx4h@1Gb/s", "4m/2x4h"}) {
            const auto checked = dsl::check_schedule(test::request(Collective::all_reduce, name, text));
            const dsl::Topology& topology = checked->levels();
            const dsl::Runnable runnable = dsl::find_runnable(library, name, Collective::all_reduce);
            const double all = dsl::estimate(checked->graph(), topology, bytes);
            const auto own = dsl::elaborate(runnable, library, topology,
                                            {0, 0, dsl::chooser_of(checked->graph().choices)});
            const double one = dsl::estimate(own, topology, bytes, 0);
            INFO(name << " on " << text);
            // Only some of a ring's messages go far: with one rank for all it is thought to be slower.
            if (name == "ring" && topology.levels.size() > 1)
                CHECK(one >= all);
            else
                CHECK(one == Approx(all).epsilon(0.01));
        }
}

TEST_CASE("a group sees its own levels, and of what is shared its part") {
    const dsl::Topology hosts = dsl::grid_topology("4m/2x3h@8GB/s");
    const dsl::Topology inside = dsl::restricted_to(dsl::make_group(hosts, {0}), hosts, true);
    REQUIRE(inside.levels.size() == 1);
    CHECK(inside.levels[0].bandwidth == Approx(dsl::memory_bandwidth / 2));  // two ranks a core
    CHECK(inside.levels[0].latency == Approx(2 * (wait + dsl::core_switch)));
    CHECK(inside.levels[0].cores == 0);
    const dsl::Topology across = dsl::restricted_to(dsl::make_group(hosts, {1}), hosts, true);
    REQUIRE(across.levels.size() == 1);
    CHECK(across.levels[0].bandwidth == Approx(2e9));  // a quarter of the link
    CHECK(across.levels[0].shared_by.empty());
    const dsl::Topology alone = dsl::restricted_to(dsl::make_group(hosts, {1}), hosts, false);
    CHECK(alone.levels[0].bandwidth == Approx(8e9));
    // With three levels, the two that remain share a link with each other, and with the third.
    const dsl::Topology three = dsl::grid_topology("2mx4mx3h@8GB/s");
    const dsl::Topology two = dsl::restricted_to(dsl::make_group(three, {0, 2}), three, true);
    CHECK(two.levels[1].shared_by == two.levels[0].name);
    CHECK(two.levels[1].bandwidth == Approx(2e9));
}
