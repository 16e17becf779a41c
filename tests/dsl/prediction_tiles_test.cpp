#include "dsl/planning/estimate.hpp"
#include "dsl/planning/predictable.hpp"
#include "dsl/planning/tiling.hpp"
#include "tests/dsl/cases.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using dsl::Collective;

namespace {

constexpr double MiB = 1 << 20;

std::unique_ptr<dsl::CheckedSchedule> checked(const std::string& schedule, const std::string& topology,
                                              Collective collective = Collective::all_reduce) {
    return dsl::check_schedule(test::request(collective, schedule, topology));
}

dsl::ScheduleToPredict to_predict(const std::string& schedule, const std::string& topology,
                                  Collective collective = Collective::all_reduce) {
    const auto network_of = [](const dsl::Topology& found) {
        return std::make_shared<const dsl::Network>(found);
    };
    return dsl::Planner().to_predict(test::request(collective, schedule, topology), network_of,
                                     dsl::WhoseSteps::of_all_ranks);
}

double seconds(const std::string& schedule, const std::string& topology, double bytes,
               dsl::PredictOptions options = {}, Collective collective = Collective::all_reduce) {
    options.certifies = true;
    return dsl::PredictableSchedule(to_predict(schedule, topology, collective), options)
        .predict(bytes, dsl::no_deadline)
        .seconds;
}

// As one start that is not divided.
double whole_seconds(const std::string& schedule, const std::string& topology, double bytes,
                     dsl::PredictOptions options = {}, Collective collective = Collective::all_reduce) {
    const auto whole = checked(schedule, topology, collective);
    const dsl::Network network(whole->levels());
    return dsl::Predictor(whole->graph(), network, options).predict(bytes).seconds;
}

}  // namespace

TEST_CASE("a start is divided by its size, by the ranks, and by the messages in flight") {
    CHECK(dsl::tiles_for(512 * 1024 - 1, 8, 1) == 1);
    CHECK(dsl::tiles_for(512 * 1024, 8, 1) == 2);
    CHECK(dsl::tiles_for(1 << 30, 8, 1) == 8);
    CHECK(dsl::tiles_for(1 << 20, 16, 1) == 2);  // 32 KiB for each rank
    CHECK(dsl::tiles_for(1 << 30, 8, 100) == 2);
    CHECK(dsl::tiles_for(1 << 30, 8, 1000) == 1);
    const auto none = [](dsl::Rank, dsl::Rank) { return false; };
    CHECK(dsl::most_messages(checked("ring", "4")->graph(), none) == 12);
    CHECK(dsl::most_messages(checked("ring", "4")->graph(),
                             [](dsl::Rank a, dsl::Rank b) { return a / 2 == b / 2; }) == 6);
}

TEST_CASE("tiles make pipelines of trees, and add nothing to what fills links anyway") {
    const std::string hosts = "2mx4h@200Mb/s";
    for (const char* schedule : {"double_tree", "parameter_server"})
        CHECK(seconds(schedule, hosts, 4 * MiB) < 0.9 * whole_seconds(schedule, hosts, 4 * MiB));
    // Each host's link carries x 2 (N - 1) / N times, in a ring by one sender to each.
    const double least = 2 * 7.0 / 8 * 4 * MiB / 25e6;
    CHECK(seconds("ring", hosts, 4 * MiB) > least);
    CHECK(seconds("ring", hosts, 4 * MiB) < 1.01 * least);
    // With rounds from two other hosts at once, links have several senders.
    CHECK(seconds("halving", hosts, 4 * MiB) > whole_seconds("halving", hosts, 4 * MiB));
}

TEST_CASE("what the engine does not divide is predicted as a whole") {
    for (const char* topology : {"8m", "8h", "2x4"})
        CHECK(seconds("double_tree", topology, 4 * MiB) == whole_seconds("double_tree", topology, 4 * MiB));
    const std::string hosts = "2mx4h";
    CHECK(seconds("double_tree", hosts, 500e3) == whole_seconds("double_tree", hosts, 500e3));
    CHECK(seconds("double_tree", hosts, 4 * MiB, {.ideal = true}) ==
          whole_seconds("double_tree", hosts, 4 * MiB, {.ideal = true}));
    CHECK(seconds("hitopk(0.01)", hosts, 4 * MiB) == whole_seconds("hitopk(0.01)", hosts, 4 * MiB));
    CHECK(seconds("ring", hosts, 4 * MiB, {}, Collective::all_gather) ==
          whole_seconds("ring", hosts, 4 * MiB, {}, Collective::all_gather));
}

TEST_CASE("tiles carry all bytes, in as many messages each") {
    dsl::PredictableSchedule schedule(to_predict("blueconnect", "2mx2h"));
    const dsl::Prediction tiled = schedule.predict(4 * MiB, dsl::no_deadline);
    const auto whole = checked("blueconnect", "2mx2h");
    const dsl::Network network(whole->levels());
    const dsl::Prediction once = dsl::Predictor(whole->graph(), network).predict(4 * MiB);
    CHECK(tiled.messages == 8 * once.messages);
    for (std::size_t i = 0; i < once.links.size(); ++i)
        CHECK(tiled.links[i].bytes == Approx(once.links[i].bytes));
    // Another size may have another number of tiles.
    CHECK(schedule.predict(500e3, dsl::no_deadline).messages == once.messages);
    CHECK(schedule.predict(4 * MiB, dsl::no_deadline).seconds == tiled.seconds);
}
