// Our flows against SimGrid's: random flows, and the messages of schedules with what they wait for. Its model
// is CM02, without cross-traffic and windows of TCP: flows share links max-min fairly, after a latency. (With
// different latencies its flows would share unequally, so all of a case have the same, or none.) SimGrid runs
// once in a process, so all cases lie beside each other on one platform, and share nothing.
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <random>
#include <set>
#include <simgrid/s4u.hpp>

#include "dsl/prediction/flows.hpp"
#include "dsl/prediction/layout.hpp"
#include "dsl/prediction/predict.hpp"
#include "tests/dsl/errors.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
namespace sg = simgrid::s4u;

namespace {

constexpr double size = 64 << 20;

// The hosts and links of a network in SimGrid. A route has its latency on its first link.
class Platform {
  public:
    Platform(sg::NetZone& zone, std::string name, const dsl::Network& network)
        : zone_(zone), name_(std::move(name)), network_(network) {
        for (dsl::Rank rank = 0; rank < network.ranks(); ++rank)
            hosts_.push_back(zone.create_host(fmt::format("{} host {}", name_, rank), 1e9));
        for (std::size_t i = 0; i < network.links().size(); ++i)
            links_.push_back(zone.create_link(fmt::format("{} link {}", name_, i), network.links()[i].rate)
                                 ->set_latency(0));
    }
    void add_route(dsl::Rank from, dsl::Rank to) {
        if (!routed_.insert({from, to}).second) return;
        const dsl::Route route = network_.route(from, to);
        std::vector<sg::LinkInRoute> links;
        for (const dsl::Hop& hop : route.hops) {
            REQUIRE(hop.share == 1);  // SimGrid knows no parts
            links.emplace_back(links_[hop.link]);
        }
        if (route.latency > 0) links_[route.hops.front().link]->set_latency(route.latency);
        zone_.add_route(host(from)->get_netpoint(), host(to)->get_netpoint(), nullptr, nullptr, links, false);
    }
    sg::Host* host(dsl::Rank rank) const { return hosts_[static_cast<std::size_t>(rank)]; }
    sg::CommPtr send(dsl::Rank from, dsl::Rank to, double bytes) const {
        return sg::Comm::sendto_async(host(from), host(to), static_cast<std::uint64_t>(std::llround(bytes)));
    }

  private:
    sg::NetZone& zone_;
    std::string name_;
    const dsl::Network& network_;
    std::vector<sg::Host*> hosts_;
    std::vector<sg::Link*> links_;
    std::set<std::pair<dsl::Rank, dsl::Rank>> routed_;
};

// Something that both simulate: it ends at these times.
class Case {
  public:
    Case(std::string its_name, std::unique_ptr<dsl::Network> network)
        : name(std::move(its_name)), network_(std::move(network)) {}
    virtual ~Case() = default;
    // Lays out the hosts, and starts what simulates it.
    void place(sg::NetZone& zone) {
        platform_.emplace(zone, name, *network_);
        add_routes();
        sg::Actor::create(name, platform_->host(0), [this] { run(); });
    }
    std::string name;
    std::vector<double> ours, simgrids;

  protected:
    virtual void add_routes() = 0;
    virtual void run() = 0;

    std::unique_ptr<dsl::Network> network_;
    std::optional<Platform> platform_;
};

class RandomFlows : public Case {
  public:
    struct Flow {
        dsl::Rank from, to;
        double begin, bytes;
    };

    RandomFlows(std::string its_name, std::unique_ptr<dsl::Network> network, std::vector<Flow> flows)
        : Case(std::move(its_name), std::move(network)), flows_(std::move(flows)) {
        std::vector<double> rates;
        for (const dsl::NetworkLink& link : network_->links()) rates.push_back(link.rate);
        dsl::Flows sharing(rates, true);
        ours.resize(flows_.size());
        for (std::size_t started = 0;;) {
            const double begin = started < flows_.size() ? flows_[started].begin : dsl::EndQueue::never;
            const double time = std::min(begin, sharing.next());
            if (time == dsl::EndQueue::never) break;
            for (const dsl::FlowId flow : sharing.advance(time)) ours[flow] = time;
            for (; started < flows_.size() && flows_[started].begin <= time; ++started)
                sharing.start(
                    sharing.add_route(network_->route(flows_[started].from, flows_[started].to).hops),
                    flows_[started].bytes);
        }
    }

  protected:
    void add_routes() override {
        for (const Flow& flow : flows_) platform_->add_route(flow.from, flow.to);
    }
    void run() override {
        simgrids.resize(flows_.size());
        std::vector<sg::CommPtr> open;
        std::vector<std::size_t> numbers;
        for (std::size_t started = 0; started < flows_.size() || !open.empty();) {
            const double now = sg::Engine::get_clock();
            if (started < flows_.size() && flows_[started].begin <= now) {
                const Flow& flow = flows_[started];
                open.push_back(platform_->send(flow.from, flow.to, flow.bytes));
                numbers.push_back(started++);
                continue;
            }
            const double wait = started < flows_.size() ? flows_[started].begin - now : -1;
            if (open.empty()) {
                sg::this_actor::sleep_for(wait);
                continue;
            }
            const ssize_t ended = sg::Comm::wait_any_for(open, wait);
            if (ended < 0) continue;
            simgrids[numbers[static_cast<std::size_t>(ended)]] = sg::Engine::get_clock();
            open.erase(open.begin() + ended);
            numbers.erase(numbers.begin() + ended);
        }
    }

  private:
    std::vector<Flow> flows_;
};

// The messages of an ideal prediction: a rank's phase begins after those before it, and ends when all that it
// sends and gets has arrived.
class Schedule : public Case {
  public:
    Schedule(const std::string& schedule, const std::string& topology, const std::string& network)
        : Schedule(fmt::format("{} on {}, {}", schedule, topology, network),
                   dsl::check_schedule(test::request(dsl::Collective::all_reduce, schedule, topology)),
                   network) {}

  protected:
    void add_routes() override {
        for (const auto& message : layout_->messages)
            platform_->add_route(message.source, message.destination);
    }
    void run() override {
        before_ = layout_->before;
        parts_ = layout_->parts;
        for (dsl::NodeId node = 0; node < layout_->nodes(); ++node)
            if (before_[node] == 0) begin(node);
        while (!open_.empty()) {
            const auto ended = sg::Comm::wait_any(open_);
            const dsl::MessageId id = numbers_[static_cast<std::size_t>(ended)];
            open_.erase(open_.begin() + ended);
            numbers_.erase(numbers_.begin() + ended);
            end_part(layout_->messages[id].from);
            end_part(layout_->messages[id].to);
        }
        simgrids.push_back(sg::Engine::get_clock());
    }

  private:
    Schedule(std::string its_name, std::shared_ptr<const dsl::CheckedSchedule> checked,
             const std::string& network)
        : Case(std::move(its_name),
               std::make_unique<dsl::Network>(dsl::find_network(network, checked->levels()))),
          checked_(std::move(checked)) {
        const dsl::PredictOptions options{.ideal = true};
        layout_.emplace(checked_->graph(), *network_, options);
        ours.push_back(dsl::Predictor(checked_->graph(), *network_, options).predict(size).seconds);
    }
    void begin(dsl::NodeId node) {
        for (const dsl::MessageId id : layout_->waiting_for(node)) {
            const auto& message = layout_->messages[id];
            open_.push_back(platform_->send(message.source, message.destination, message.flow * size));
            numbers_.push_back(id);
        }
        end_part(node);
    }
    void end_part(dsl::NodeId node) {
        if (--parts_[node] > 0) return;
        for (const dsl::NodeId other : layout_->after(node))
            if (--before_[other] == 0) begin(other);
    }

    std::shared_ptr<const dsl::CheckedSchedule> checked_;
    std::optional<dsl::MessageLayout> layout_;
    std::vector<std::uint32_t> before_, parts_;
    std::vector<sg::CommPtr> open_;
    std::vector<dsl::MessageId> numbers_;
};

// A connected graph of 4 to 11 ranks and some switches, and flows between drawn ranks: some of one pair, some
// that begin together.
std::unique_ptr<Case> random_flows(std::uint32_t seed) {
    std::mt19937 random(seed);
    const auto below = [&](std::uint32_t most) { return static_cast<int>(random() % most); };
    const int ranks = 4 + below(8), vertices = ranks + below(5);
    const auto name = [&](int vertex) { return fmt::format("{}{}", vertex < ranks ? "" : "s", vertex); };
    std::string text = fmt::format("routing hash({}); latency none", seed);
    for (int vertex = 1; vertex < vertices; ++vertex)
        for (int i = 0; i <= below(3); ++i) {
            // Several links to different vertices before it.
            const int other = (below(static_cast<std::uint32_t>(vertex)) + i) % vertex;
            const std::string link = fmt::format("link {} {} ", name(other), name(vertex));
            if (text.find(link) == std::string::npos) text += fmt::format("; {}{}MB/s", link, 1 + below(50));
        }
    std::vector<RandomFlows::Flow> flows;
    for (int i = 20 + below(40); i > 0; --i) {
        const int from = below(static_cast<std::uint32_t>(ranks)),
                  to = (from + 1 + below(static_cast<std::uint32_t>(ranks - 1))) % ranks;
        const double begin = 0.1 * below(20);
        flows.push_back({from, to, begin, 1e5 * (1 + below(100))});
    }
    std::stable_sort(flows.begin(), flows.end(),
                     [](const auto& a, const auto& b) { return a.begin < b.begin; });
    const dsl::Topology topology = dsl::flat_topology(ranks);
    return std::make_unique<RandomFlows>(fmt::format("random flows {}", seed),
                                         std::make_unique<dsl::Network>(dsl::find_network(text, topology)),
                                         std::move(flows));
}

// Simulates all cases, once.
const std::vector<std::unique_ptr<Case>>& cases() {
    static const std::vector<std::unique_ptr<Case>> all = [] {
        std::vector<std::unique_ptr<Case>> list;
        for (std::uint32_t seed = 1; seed <= 40; ++seed) list.push_back(random_flows(seed));
        const std::string none = "; latency none";
        list.push_back(std::make_unique<Schedule>("ring", "16", "fattree(4)@10Gb/s,20us; routing hash(1)"));
        list.push_back(
            std::make_unique<Schedule>("direct", "16", "fattree(4)@10Gb/s; routing hash(2)" + none));
        list.push_back(
            std::make_unique<Schedule>("bml", "bcube(4, 2)", "order digits; routing hash(1)" + none));
        list.push_back(
            std::make_unique<Schedule>("blueconnect", "4x4", "fattree(4)@10Gb/s; routing hash(3)" + none));
        list.push_back(
            std::make_unique<Schedule>("double_tree", "16", "torus(4,4)@10Gb/s; routing hash(4)" + none));
        list.push_back(std::make_unique<Schedule>("halving", "16", "ring@10Gb/s; routing hash(5)" + none));
        static int count = 1;
        static char program[] = "test";
        static char* arguments[] = {program, nullptr};
        sg::Engine engine(&count, arguments);
        for (const char* setting :
             {"network/model:CM02", "network/crosstraffic:0", "network/TCP-gamma:0", "maxmin/precision:1e-9",
              "surf/precision:1e-9", "contexts/factory:thread"})
            sg::Engine::set_config(setting);
        sg::NetZone* zone = sg::create_full_zone("all");
        for (const auto& its : list) its->place(*zone);
        zone->seal();
        engine.run();
        return list;
    }();
    return all;
}

// Returns the number of times that were compared.
template <typename Kind>
std::size_t compare() {
    std::size_t times = 0;
    for (const auto& its : cases()) {
        if (!dynamic_cast<const Kind*>(its.get())) continue;
        INFO(its->name);
        REQUIRE(its->ours.size() == its->simgrids.size());
        for (std::size_t i = 0; i < its->ours.size(); ++i, ++times) {
            CHECK(its->ours[i] > 0);
            CHECK(its->simgrids[i] == Approx(its->ours[i]).epsilon(1e-6).margin(0));
        }
    }
    return times;
}

}  // namespace

TEST_CASE("random flows end when SimGrid says") {
    CHECK(compare<RandomFlows>() >= 800);
}

TEST_CASE("schedules take as long as their messages do in SimGrid") {
    CHECK(compare<Schedule>() == 6);
}
