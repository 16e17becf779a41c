// Predicts how long a step graph takes on a network, and where the time goes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dsl/base/source.hpp"
#include "dsl/graph/step_graph.hpp"
#include "dsl/prediction/layout.hpp"
#include "dsl/prediction/network.hpp"

namespace hocket::dsl {

// Times on the critical path: the messages that, one after the other, made the last rank wait. They sum to
// the total.
struct PathShare {
    double seconds = 0;
    double latency = 0;          // of these seconds: latency, and senders' work for messages
    double bytes = 0;            // of all messages, not only those on the path
    std::uint64_t messages = 0;  // likewise
    // Likewise: what ranks copy, pack or calculate in memory of their own, in each phase. Their seconds
    // count.
    std::uint64_t calculations = 0;
};

struct LineShare : PathShare {
    StepOrigin origin;
};

struct LevelShare : PathShare {
    std::string name;
};

struct LinkUse {
    double bytes = 0;
    double busy = 0;  // the part of the time for which its whole rate would be needed
};

// All that a rank sends to another in a phase. In a calibrated prediction also all that it fetches from
// memory in a phase, from itself if the sources are several, and what it calculates there, from itself.
struct MessageTimes {
    std::uint32_t phase = 0, origin = 0;  // origin: index into StepGraph::origins
    int level = -1;                       // of the topology
    Rank source = 0, destination = 0;
    std::uint32_t fetched_from = 0;  // the number of other ranks that a fetch comes from
    double bytes = 0;
    double begin = 0, sent = 0, arrived = 0;  // seconds; from begin to sent its bytes flow
};

struct Prediction {
    double seconds = 0;
    double latency = 0;              // as in PathShare
    std::vector<LineShare> lines;    // in the order of their first message
    std::vector<LevelShare> levels;  // of the topology
    std::vector<LinkUse> links;      // of the network, by LinkId
    // With a symmetry, by LinkId: how many links are like this one, at the first of them; 0 at the others.
    std::vector<std::uint32_t> alike;
    std::vector<MessageTimes> timeline;  // in the order of the graph
    std::vector<MessageId> critical;     // with a timeline: its messages on the critical path, the last first
    std::uint64_t messages = 0, calculations = 0;  // as in PathShare
    std::size_t solutions = 0;                     // of rates
    LinkId busiest = 0;  // the first of the links that are used most, if there are links
};

// Lays out the messages of a graph on a network once, to predict several sizes.
//
// A rank's phase begins after the phases that it had before in the strand; strands run side by side. What a
// rank sends to another in a phase is one message, which begins with the sender's phase. A phase of a rank
// ends when the bytes of all that it sends have left, and all that it gets has arrived. Bytes flow at the
// max-min fair rate.
// - Ideal: after a message's latency its bytes flow, and have then arrived. All of a rank's messages go at
// once.
// - Calibrated: the rank is busy for a part of the latency for each message of its phase, then the bytes
// flow,
//   and arrive after the rest of the latency. Several senders to one end in a round disturb each other there.
//   What comes by memory the receiver's core fetches, as soon as all sources are ready: its links carry the
//   bytes that are touched, and its latency counts once.
class Predictor {
  public:
    // Both must outlive it. Throws DeadlineError.
    Predictor(const StepGraph& graph, const Network& network, const PredictOptions& options = {});

    // bytes: of x. Throws DiagnosticError for a size or a time that is not finite, and DeadlineError.
    Prediction predict(double bytes) const { return predict(bytes, layout_.options.deadline); }
    // With another deadline than that of the options.
    Prediction predict(double bytes, const Deadline& deadline) const;

  private:
    class Run;
    MessageLayout layout_;
};

}  // namespace hocket::dsl
