#include "dsl/prediction/predict.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <queue>
#include <stdexcept>
#include <tuple>
#include <unordered_map>

#include "dsl/base/diagnostic.hpp"
#include "dsl/prediction/costs.hpp"
#include "dsl/prediction/flows.hpp"
#include "dsl/prediction/layout.hpp"

namespace hocket::dsl {
namespace {

constexpr const char* following_messages = "predicting: following messages";
constexpr double never = std::numeric_limits<double>::infinity();

}  // namespace

// One prediction: the messages of a layout for one size.
class Predictor::Run {
  public:
    Run(const MessageLayout& layout, double bytes, const Deadline& deadline);
    Prediction run();

  private:
    using Message = MessageLayout::Message;
    // The time at which a message's bytes begin to flow, or the message arrives.
    struct Event {
        double time;
        MessageId message;
        bool arrives;
        bool operator>(const Event& other) const {
            return std::tie(time, message) > std::tie(other.time, other.message);
        }
    };
    // What one end of a link gets in a round.
    struct Arrivals {
        double received = 0;
        std::vector<std::uint64_t> from;
    };

    double bytes_of(const Message& message) const { return message.flow * bytes_; }
    // The latency between the last byte's leaving and the arrival.
    double latency_after(MessageId id) const {
        if (is_ideal_) return 0;
        const Message& message = layout_.messages[id];
        return message.latency * (message.is_fetch() ? 1 : 1 - message_share + message_share * queues_[id]);
    }
    void find_crowds();
    void find_queues();
    RouteId route_of(MessageId id);
    void begin(NodeId node);
    void leave(MessageId id);
    void sent(MessageId id);
    void arrive(MessageId id);
    void end_part(NodeId node, MessageId cause);
    void step();
    void use_links(const Message& message, double crowd);
    void follow_path(Prediction& prediction) const;
    void describe(Prediction& prediction) const;
    void add_timeline(Prediction& prediction) const;
    std::vector<std::uint32_t> lines_of_origins(Prediction& prediction) const;

    const MessageLayout& layout_;
    double bytes_;
    bool is_ideal_;
    Flows flows_;
    DeadlineCounter deadline_;
    double now_ = 0, last_ = 0;
    std::size_t arrivals_ = 0;
    NodeId last_node_ = nothing;
    std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
    std::vector<NodeId> ready_;
    std::vector<MessageId> by_flow_;
    std::vector<double> crowds_;  // by message, if calibrated: the factor on the last link
    // By message, if calibrated: as many messages more as it waited for before it left keep its receiver
    // busy.
    std::vector<std::uint32_t> queues_;
    std::vector<double> free_;  // by rank, if calibrated: when its work for messages is done
    std::vector<RouteId> route_by_path_;
    std::unordered_map<std::uint64_t, std::unordered_map<std::uint32_t, RouteId>> crowded_routes_;
    std::vector<LinkUse> use_;
    // By node:
    std::vector<double> begun_;
    std::vector<std::uint32_t> before_, parts_;
    std::vector<NodeId> after_which_;     // the last that it waited for
    std::vector<MessageId> end_because_;  // the last part of it; nothing: its begin
    // By message:
    std::vector<std::uint32_t> sources_;
    std::vector<NodeId> launched_by_;
    std::vector<double> left_, sent_, arrived_;
};

Predictor::Run::Run(const MessageLayout& layout, double bytes, const Deadline& deadline)
    : layout_(layout),
      bytes_(bytes),
      is_ideal_(layout.options.ideal),
      flows_(layout.rates, layout.options.certifies, deadline),
      deadline_(deadline),
      free_(static_cast<std::size_t>(layout.graph.ranks), 0),
      route_by_path_(layout.paths.size(), nothing),
      use_(layout.rates.size()),
      begun_(layout.nodes(), 0),
      before_(layout.before),
      parts_(layout.parts),
      after_which_(layout.nodes(), nothing),
      end_because_(layout.nodes(), nothing),
      sources_(layout.sources),
      launched_by_(layout.messages.size(), nothing),
      left_(layout.messages.size(), 0) {
    if (layout.options.timeline) {
        sent_.resize(layout.messages.size());
        arrived_.resize(layout.messages.size());
    }
    if (is_ideal_) return;
    find_crowds();
    find_queues();
}

// Several senders to one end in a round get in each other's way there.
void Predictor::Run::find_crowds() {
    const auto& messages = layout_.messages;
    crowds_.assign(messages.size(), 1);
    std::unordered_map<LinkId, Arrivals> ends;
    const auto arrives_by = [&](MessageId id) {
        const Path& path = layout_.paths[messages[id].path];
        return path.hops[path.last].link;
    };
    const std::vector<MessageId>& order = layout_.by_round;
    for (std::size_t begin = 0, end = 0; begin < order.size(); begin = end) {
        ends.clear();
        for (; end < order.size() && messages[order[end]].round == messages[order[begin]].round; ++end) {
            const Message& message = messages[order[end]];
            Arrivals& arrivals = ends[arrives_by(order[end])];
            arrivals.received += bytes_of(message) * layout_.paths[message.path].like_it;
            layout_.add_senders(message, arrivals.from);
        }
        deadline_.check(following_messages, end - begin);
        for (std::size_t i = begin; i < end; ++i) {
            const Arrivals& arrivals = ends[arrives_by(order[i])];
            if (arrivals.received > 0)
                crowds_[order[i]] =
                    crowded_bytes(arrivals.received, arrivals.from.size()) / arrivals.received;
        }
    }
}

// A receiver is busy with each message for as long as its sender. Of the two, the one with more messages in
// the round counts, and a message has waited for its sender's before it left.
void Predictor::Run::find_queues() {
    const auto& messages = layout_.messages;
    queues_.assign(messages.size(), 0);
    if (layout_.classes()) return;  // all ranks do the same, so each gets as many as it sends
    // Tiles have no rounds of their own, and messages of different rounds do not wait for each other. Starts
    // in tiles are large, so that a share of the latency would count little.
    if (layout_.options.tiles > 1) return;
    struct Count {
        std::uint32_t sent = 0, received = 0;
    };
    std::vector<Count> counts(free_.size());
    const auto count_of = [&](Rank rank) -> Count& { return counts[static_cast<std::size_t>(rank)]; };
    const std::vector<MessageId>& order = layout_.by_round;
    for (std::size_t begin = 0, end = 0; begin < order.size(); begin = end) {
        for (; end < order.size() && messages[order[end]].round == messages[order[begin]].round; ++end) {
            const Message& message = messages[order[end]];
            ++count_of(message.source).sent;
            ++count_of(message.destination).received;
        }
        deadline_.check(following_messages, end - begin);
        for (std::size_t i = begin; i < end; ++i) {
            const Message& message = messages[order[i]];
            const std::uint32_t sent = count_of(message.source).sent,
                                received = count_of(message.destination).received;
            queues_[order[i]] = received > sent ? received - sent : 0;
        }
        for (std::size_t i = begin; i < end; ++i) {
            const Message& message = messages[order[i]];
            count_of(message.source) = count_of(message.destination) = {};
        }
    }
}

RouteId Predictor::Run::route_of(MessageId id) {
    const Message& message = layout_.messages[id];
    const double crowd = is_ideal_ ? 1 : crowds_[id];
    const int priority = -static_cast<int>(message.tile);
    if (message.is_fetch()) {
        const Hop core{layout_.network.core_of(message.destination), 1};
        const auto [entry, is_new] = crowded_routes_[~std::uint64_t{message.tile}].try_emplace(core.link, 0);
        if (is_new) entry->second = flows_.add_route({&core, 1}, priority);
        return entry->second;
    }
    RouteId& known = crowd == 1 && message.tile == 0
                         ? route_by_path_[message.path]
                         : crowded_routes_[std::bit_cast<std::uint64_t>(crowd) + message.tile]
                               .try_emplace(message.path, nothing)
                               .first->second;
    if (known == nothing) {
        const Path& path = layout_.paths[message.path];
        std::vector<Hop> hops = path.hops;
        hops[path.last].share += path.last_share * (crowd - 1);
        known = flows_.add_route(hops, priority);
    }
    return known;
}

// ---- Events ------------------------------------------------------------------------------------

// A rank's phase begins. Its messages leave after their latency if all is ideal; otherwise after the rank's
// work for all of them.
void Predictor::Run::begin(NodeId node) {
    begun_[node] = now_;
    const auto waiting = layout_.waiting_for(node);
    double& free = free_[static_cast<std::size_t>(layout_.rank_of(node))];
    const double from = std::max(now_, free);
    const auto own = std::count_if(waiting.begin(), waiting.end(),
                                   [&](MessageId id) { return layout_.messages[id].from == node; });
    for (const MessageId id : waiting) {
        const Message& message = layout_.messages[id];
        launched_by_[id] = node;
        if (--sources_[id] > 0) continue;
        double time = is_ideal_ ? now_ + message.latency : now_;
        if (!is_ideal_ && !message.is_fetch()) {
            time = from + message_share * message.latency * static_cast<double>(own);
            free = std::max(free, time);
        }
        if (time > now_)
            events_.push({time, id, false});
        else
            leave(id);
    }
    end_part(node, nothing);
}

void Predictor::Run::leave(MessageId id) {
    const Message& message = layout_.messages[id];
    left_[id] = now_;
    const double bytes = bytes_of(message);
    if (!(bytes > 0)) return sent(id);
    use_links(message, is_ideal_ ? 1 : crowds_[id]);
    flows_.start(route_of(id), bytes);
    by_flow_.push_back(id);
}

void Predictor::Run::use_links(const Message& message, double crowd) {
    const double bytes = bytes_of(message);
    const auto use = [&](LinkId link, double share) {
        use_[link].bytes += bytes * share;
        use_[link].busy += bytes * share / layout_.rates[link];
    };
    if (message.is_fetch()) return use(layout_.network.core_of(message.destination), 1);
    const Path& path = layout_.paths[message.path];
    for (const Hop& hop : path.hops) use(hop.link, hop.share);
    const LinkId last = path.hops[path.last].link;
    use_[last].busy += bytes * path.last_share * (crowd - 1) / layout_.rates[last];
}

void Predictor::Run::sent(MessageId id) {
    const Message& message = layout_.messages[id];
    if (!sent_.empty()) sent_[id] = now_;
    if (!message.is_fetch()) end_part(message.from, id);
    const double latency = latency_after(id);
    if (latency > 0)
        events_.push({now_ + latency, id, true});
    else
        arrive(id);
}

void Predictor::Run::arrive(MessageId id) {
    if (!arrived_.empty()) arrived_[id] = now_;
    deadline_.note(++arrivals_, layout_.messages.size());
    end_part(layout_.messages[id].to, id);
}

void Predictor::Run::end_part(NodeId node, MessageId cause) {
    if (--parts_[node] > 0) return;
    end_because_[node] = cause;
    if (last_node_ == nothing || now_ > last_) last_ = now_, last_node_ = node;
    for (const NodeId other : layout_.after(node))
        if (--before_[other] == 0) {
            after_which_[other] = node;
            ready_.push_back(other);
        }
}

// Everything that happens at the next moment.
void Predictor::Run::step() {
    const double time = std::min(flows_.next(), events_.empty() ? never : events_.top().time);
    now_ = std::max(now_, time);
    for (const FlowId flow : flows_.advance(now_)) sent(by_flow_[flow]);
    while (!events_.empty() && events_.top().time <= now_ * (1 + same_time)) {
        const Event event = events_.top();
        events_.pop();
        deadline_.check(following_messages);
        event.arrives ? arrive(event.message) : leave(event.message);
    }
    for (std::size_t i = 0; i < ready_.size(); ++i) {
        deadline_.check(following_messages);
        begin(ready_[i]);
    }
    ready_.clear();
}

Prediction Predictor::Run::run() {
    for (NodeId node = 0; node < layout_.nodes(); ++node)
        if (before_[node] == 0) ready_.push_back(node);
    for (std::size_t i = 0; i < ready_.size(); ++i) begin(ready_[i]);
    ready_.clear();
    while (flows_.next() < never || (!events_.empty() && events_.top().time < never)) step();
    if (std::any_of(parts_.begin(), parts_.end(), [](std::uint32_t left) { return left > 0; }))
        throw DiagnosticError(Span(), "this takes longer than can be said",
                              "the size, a rate or a latency is out of any range");
    deadline_.note(0, 0);
    Prediction prediction;
    prediction.seconds = last_;
    prediction.solutions = flows_.solutions();
    describe(prediction);
    follow_path(prediction);
    if (layout_.options.timeline) add_timeline(prediction);
    return prediction;
}

// ---- What it says ------------------------------------------------------------------------------

// Adds a line for each pair of a transfer and its call. Returns each origin's line.
std::vector<std::uint32_t> Predictor::Run::lines_of_origins(Prediction& prediction) const {
    using Key = std::tuple<const SourceFile*, std::uint32_t, const SourceFile*, std::uint32_t>;
    std::map<Key, std::uint32_t> known;
    std::vector<std::uint32_t> lines;
    for (const StepOrigin& origin : layout_.graph.origins) {
        const Key key{origin.transfer.file, origin.transfer.begin, origin.call.file, origin.call.begin};
        const auto [entry, is_new] = known.try_emplace(key, prediction.lines.size());
        if (is_new) prediction.lines.emplace_back().origin = origin;
        lines.push_back(entry->second);
    }
    return lines;
}

void Predictor::Run::describe(Prediction& prediction) const {
    const std::vector<std::uint32_t> lines = lines_of_origins(prediction);
    for (const Level& level : layout_.network.topology().levels)
        prediction.levels.emplace_back().name = level.name;
    for (const Message& message : layout_.messages)
        for (PathShare* share : {static_cast<PathShare*>(&prediction.lines[lines[message.origin]]),
                                 static_cast<PathShare*>(&prediction.levels[message.level])}) {
            if (message.is_calculation()) {
                share->calculations += layout_.copies();
                continue;
            }
            share->bytes += message.moved * bytes_ * static_cast<double>(layout_.copies());
            share->messages += layout_.copies();
        }
    for (const LevelShare& level : prediction.levels) {
        prediction.messages += level.messages;
        prediction.calculations += level.calculations;
    }
    prediction.links = use_;
    if (const LinkClasses* classes = layout_.classes())
        for (LinkId link = 0; link < use_.size(); ++link) {
            prediction.links[link] = use_[classes->first(link)];
            prediction.alike.push_back(classes->members(link));
        }
    for (LinkUse& use : prediction.links) use.busy = last_ > 0 ? use.busy / last_ : 0;
    // Rounding decides nothing: of links that are used alike, the first.
    for (LinkId link = 1; link < prediction.links.size(); ++link)
        if (prediction.links[link].busy > prediction.links[prediction.busiest].busy * (1 + 1e-9))
            prediction.busiest = link;
}

// From the end back to the beginning, by what each phase waited for last.
void Predictor::Run::follow_path(Prediction& prediction) const {
    Prediction ignored;
    const std::vector<std::uint32_t> lines = lines_of_origins(ignored);
    double end = last_;
    for (NodeId node = last_node_; node != nothing;) {
        const MessageId id = end_because_[node];
        NodeId begun = node;
        if (id != nothing) {
            const Message& message = layout_.messages[id];
            begun = launched_by_[id];
            const double seconds = end - begun_[begun];
            const double latency =
                std::min(seconds, left_[id] - begun_[begun] + (node == message.to ? latency_after(id) : 0));
            for (PathShare* share : {static_cast<PathShare*>(&prediction.lines[lines[message.origin]]),
                                     static_cast<PathShare*>(&prediction.levels[message.level])}) {
                share->seconds += seconds;
                share->latency += latency;
            }
            prediction.latency += latency;
            if (layout_.options.timeline) prediction.critical.push_back(id);
        }
        end = begun_[begun];
        node = after_which_[begun];
    }
    std::erase_if(prediction.lines,
                  [](const LineShare& line) { return line.messages + line.calculations == 0; });
}

void Predictor::Run::add_timeline(Prediction& prediction) const {
    prediction.timeline.reserve(layout_.messages.size());
    for (MessageId id = 0; id < layout_.messages.size(); ++id) {
        const Message& message = layout_.messages[id];
        prediction.timeline.push_back({message.phase, message.origin, message.level,
                                       message.fetched_from > 1 ? message.destination : message.source,
                                       message.destination, message.fetched_from, message.moved * bytes_,
                                       left_[id], sent_[id], arrived_[id]});
    }
}

Predictor::Predictor(const StepGraph& graph, const Network& network, const PredictOptions& options)
    : layout_(graph, network, options) {}

Prediction Predictor::predict(double bytes, const Deadline& deadline) const {
    if (!(bytes > 0) || !(bytes <= 0x1p63))
        throw DiagnosticError(Span(), fmt::format("a size of {} bytes can't be predicted", bytes),
                              "a size is more than 0, and at most 2^63: 64K, 1G");
    return Run(layout_, bytes, deadline).run();
}

}  // namespace hocket::dsl
