// A schedule as GOAL, the language of the simulator LogGOPSim.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string_view>
#include <unordered_map>

#include "dsl/base/diagnostic.hpp"
#include "dsl/prediction/layout.hpp"
#include "tools/schedc/predict.hpp"

namespace hocket::tools {
namespace {

using namespace dsl;

constexpr std::size_t most_exported = 10'000'000;  // messages, of about 100 bytes of text each

class GoalWriter {
  public:
    GoalWriter(const MessageLayout& layout, double bytes)
        : layout_(layout),
          bytes_(bytes),
          before_(layout.nodes()),
          received_(layout.nodes()),
          tags_(layout.messages.size()) {
        std::unordered_map<std::uint64_t, std::uint32_t> messages_of_pair;
        for (MessageId id = 0; id < layout.messages.size(); ++id) {
            const MessageLayout::Message& message = layout.messages[id];
            received_[message.to].push_back(id);
            tags_[id] =
                messages_of_pair[std::uint64_t(message.source) << 32 | std::uint32_t(message.destination)]++;
        }
        for (NodeId node = 0; node < layout.nodes(); ++node)
            for (const NodeId next : layout.after(node)) before_[next].push_back(node);
    }

    std::string text() {
        add("num_ranks {}\n", layout_.graph.ranks);
        std::vector<std::vector<NodeId>> nodes(static_cast<std::size_t>(layout_.graph.ranks));
        for (NodeId node = 0; node < layout_.nodes(); ++node)
            nodes[static_cast<std::size_t>(layout_.rank_of(node))].push_back(node);
        for (std::size_t rank = 0; rank < nodes.size(); ++rank) {
            add("\nrank {} {{\n", rank);
            labels_ = 0;
            if (nodes[rank].empty()) add("l1: calc 0\n");  // the simulator wants each rank to do something
            for (const NodeId node : nodes[rank]) add_phase(node);
            add("}}\n");
        }
        return std::move(text_);
    }

  private:
    template <typename... Args>
    void add(fmt::format_string<Args...> format, Args&&... args) {
        fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
    }

    // The phase's operations wait for an operation that does nothing, and that for all of the phases before:
    // otherwise each would have to wait for each.
    void add_phase(NodeId node) {
        const std::uint32_t begin = ++labels_;
        add("l{}: calc 0\n", begin);
        for (const NodeId earlier : before_[node])
            for (std::uint32_t label = labels_of_[earlier].first; label <= labels_of_[earlier].second;
                 ++label)
                add("l{} requires l{}\n", begin, label);
        for (const MessageId id : layout_.waiting_for(node))
            add_operation(id, "send", "to", layout_.messages[id].destination, begin);
        for (const MessageId id : received_[node])
            add_operation(id, "recv", "from", layout_.messages[id].source, begin);
        // An empty phase ends as it begins.
        labels_of_[node] = {labels_ > begin ? begin + 1 : begin, labels_};
    }

    void add_operation(MessageId id, std::string_view what, std::string_view way, Rank other,
                       std::uint32_t begin) {
        const auto size = std::max<std::int64_t>(std::llround(layout_.messages[id].moved * bytes_), 1);
        add("l{}: {} {}b {} {} tag {}\n", ++labels_, what, size, way, other, tags_[id]);
        add("l{} requires l{}\n", labels_, begin);
    }

    const MessageLayout& layout_;
    double bytes_;
    std::vector<std::vector<NodeId>> before_;       // by node
    std::vector<std::vector<MessageId>> received_;  // by node
    std::vector<std::uint32_t> tags_;               // by message: its number among those of its pair of ranks
    std::unordered_map<NodeId, std::pair<std::uint32_t, std::uint32_t>>
        labels_of_;             // first and last of a phase
    std::uint32_t labels_ = 0;  // of the rank
    std::string text_;
};

}  // namespace

std::string goal_text(const StepGraph& graph, const Network& network, double bytes, double value_bytes,
                      const Deadline& deadline) {
    // The simulator has costs of its own, so data in memory are messages like all others.
    const MessageLayout layout(graph, network,
                               {.ideal = true, .deadline = deadline, .value_bytes = value_bytes});
    if (layout.messages.size() > most_exported)
        throw DiagnosticError(Span(),
                              fmt::format("{} messages are too many to export", layout.messages.size()),
                              fmt::format("GOAL is written for at most {}: take fewer ranks", most_exported));
    return GoalWriter(layout, bytes).text();
}

}  // namespace hocket::tools
