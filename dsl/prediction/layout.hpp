// The messages of a step graph and what each waits for.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "dsl/base/deadline.hpp"
#include "dsl/base/nothing.hpp"
#include "dsl/graph/step_graph.hpp"
#include "dsl/graph/symmetry.hpp"
#include "dsl/prediction/link_classes.hpp"
#include "dsl/prediction/network.hpp"

namespace hocket::dsl {

// A rank's part in a phase.
using NodeId = std::uint32_t;
using MessageId = std::uint32_t;

struct PredictOptions {
    // Messages cost their latency and their bytes alone. Otherwise senders, receivers of several streams, and
    // memory cost what the estimate charges for them (dsl/prediction/costs.hpp).
    bool ideal = false;
    bool timeline = false;   // keep the times of all messages
    bool certifies = false;  // check that each solution is max-min fair
    Deadline deadline = {};
    double value_bytes = usual_value_bytes;  // of x's type: selections have an index for each value
    // The graph is this many starts (dsl/planning/tiling.hpp). On links, an earlier one goes first.
    std::uint32_t tiles = 1;
    // If not null, the graph holds the steps of rank 0 alone, and these motions make those of all ranks of
    // them. It must outlive what is made with the options.
    const Symmetry* symmetry = nullptr;
};

// A message's links. If rank 0 stands for all, the first link of each class stands for the class.
struct Path {
    std::vector<Hop> hops;
    double latency = 0;     // seconds
    std::size_t last = 0;   // the hop with the link by which it arrives
    double last_share = 1;  // that link's part of the hop's share
    double like_it = 1;     // of the messages that it stands for, those that arrive by that same link
};

// With a symmetry, the messages are those that rank 0 sends and fetches. Each stands for one of every rank.
// All ranks' parts in a phase are one node, as they begin and end at the same time.
class MessageLayout {
  public:
    MessageLayout(const StepGraph& graph, const Network& network, const PredictOptions& options);

    struct Message {
        double moved = 0;  // of x: what it brings from other ranks; of a calculation, what it goes through
        double flow = 0;   // of x: what its links carry, or the receiver's core touches
        double latency;    // seconds
        Rank source, destination;
        NodeId from, to;       // the sender's phase, or `nothing` for a fetch, and the receiver's
        std::uint32_t origin;  // of its first step
        std::uint32_t phase;
        std::uint32_t round;  // of calibrated predictions
        std::uint32_t path;   // index into paths
        std::int32_t level;
        std::uint32_t tile = 0;
        std::uint32_t fetched_from = 0;  // the number of other ranks that a fetch comes from
        // The receiver's core gets it when all sources are ready.
        bool is_fetch() const { return from == nothing; }
        // Nothing comes from another rank.
        bool is_calculation() const { return source == destination; }
    };
    std::size_t nodes() const { return ranks_.size(); }
    Rank rank_of(NodeId node) const { return ranks_[node]; }
    // The messages that wait for a node to begin: those that it sends, and fetches from it.
    std::span<const MessageId> waiting_for(NodeId node) const { return list(waits_begin_, waits_, node); }
    std::span<const NodeId> after(NodeId node) const { return list(after_begin_, after_, node); }

    // Returns the number of messages for which each stands.
    std::uint64_t copies() const { return classes_ ? static_cast<std::uint64_t>(graph.ranks) : 1; }
    // Null without a symmetry.
    const LinkClasses* classes() const { return classes_ ? &*classes_ : nullptr; }
    // Adds to `from` by which links senders send the messages of this path that arrive by one link; at most
    // most_sources.
    void add_senders(const Message& message, std::vector<std::uint64_t>& from) const;

    const StepGraph& graph;
    const Network& network;
    PredictOptions options;
    std::vector<Message> messages;
    std::vector<Path> paths;
    std::vector<double> rates;           // by link of the network
    std::vector<std::uint32_t> before;   // by node: the nodes that it waits for
    std::vector<std::uint32_t> parts;    // by node: the messages that it ends with, and one for its begin
    std::vector<std::uint32_t> sources;  // by message: the nodes that it waits for
    std::vector<MessageId> by_round;     // calibrated: messages that are not fetches, round by round

  private:
    // A rank's progress in a strand: the nodes that its next one waits for.
    struct Progress {
        std::vector<NodeId> last;
        std::vector<NodeId> before;  // `last` when the last `parallel` in it began
        std::uint32_t block = 0;
        std::vector<std::uint32_t> branches;  // strands of that `parallel` since
    };
    using Pairs = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

    struct Memory {             // a level of it, as many ranks share its cores
        double latency, scale;  // scale: of the rate of cores to the level's
    };

    std::uint32_t tile_of(std::uint32_t strand) const {
        const auto strands = static_cast<std::uint32_t>(graph.strands.size());
        return options.tiles > 1 ? (strand - 1) / ((strands - 1) / options.tiles) : 0;
    }
    static std::span<const std::uint32_t> list(const std::vector<std::size_t>& begin,
                                               const std::vector<std::uint32_t>& items, std::uint32_t index) {
        return {items.data() + begin[index], begin[index + 1] - begin[index]};
    }
    Progress& progress(std::uint32_t strand, Rank rank);
    std::vector<NodeId>& last_of(std::uint32_t strand, Rank rank);
    void add_phase(std::size_t begin, std::size_t end, DeadlineCounter& counter);
    NodeId node_of(std::uint32_t strand, Rank rank);
    void add_fetch(std::span<const std::uint32_t> steps, DeadlineCounter& counter);
    bool fetches(const Step& step) const;
    std::uint32_t path_between(Rank from, Rank to, DeadlineCounter& counter);
    Path path_of(Rank from, Rank to) const;
    bool is_laid_out(const Step& step, bool is_fetch) const;
    void order_by_round();
    void share_cores();

    std::optional<LinkClasses> classes_;
    std::vector<std::vector<Rank>> ends_;  // with a symmetry, by level: the ranks that share rank 0's end
    std::vector<Memory> memory_;           // by level
    std::vector<Rank> ranks_;              // by node
    std::vector<double> shares_;           // by region
    std::vector<std::uint32_t> rounds_;    // by step, if calibrated
    std::vector<NodeId> current_;          // by rank: the node of the current phase
    std::vector<std::uint32_t> current_phase_;  // by rank: a counter of phases
    std::uint32_t phases_ = 0;
    std::unordered_map<std::uint64_t, Progress> progress_;  // by strand and rank
    std::unordered_map<std::uint64_t, std::uint32_t> path_numbers_;
    std::size_t hops_ = 0;              // of all paths
    std::vector<std::uint64_t> order_;  // scratch
    Pairs edges_, waits_list_;
    std::vector<std::size_t> after_begin_, waits_begin_;
    std::vector<std::uint32_t> after_, waits_;
};

}  // namespace hocket::dsl
