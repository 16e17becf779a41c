#include <algorithm>

#include "tools/schedc/imports/longest.hpp"
#include "tools/schedc/imports/rounds.hpp"

namespace hocket::tools::imports {
namespace {

// What the values alone ask for.
class Ordering {
  public:
    Ordering(const Algorithm& algorithm, const Flow& flow) : algorithm_(algorithm), flow_(flow) {
        for (std::size_t move = 0; move < flow.moves.size(); ++move) waits_.add_node();
        add_values();
    }

    // Steps of a threadblock follow each other, and those that wait follow those that they wait for; they may
    // be in one round.
    void add_threadblocks() {
        std::vector<std::vector<int>> first(algorithm_.gpus.size());
        for (std::size_t g = 0; g < algorithm_.gpus.size(); ++g)
            for (const std::vector<Step>& steps : algorithm_.gpus[g].blocks) {
                first[g].push_back(waits_.add_node());
                for (std::size_t s = 0; s < steps.size(); ++s) {
                    const int before = first[g].back() + static_cast<int>(s);
                    waits_.add(waits_.add_node(), before, 0);
                }
            }
        const auto node_of = [&](const Place& place) { return first[place.gpu][place.block] + place.step; };
        for (int move = 0; move < static_cast<int>(flow_.moves.size()); ++move)
            for (const Place& end : {flow_.moves[move].sender, flow_.moves[move].receiver}) {
                if (flow_.moves[move].is_dropped) continue;
                waits_.add(move, node_of(end), 0);
                waits_.add(node_of(end) + 1, move, 0);
            }
        for (std::size_t g = 0; g < algorithm_.gpus.size(); ++g)
            for (std::size_t b = 0; b < algorithm_.gpus[g].blocks.size(); ++b) {
                const std::vector<Step>& steps = algorithm_.gpus[g].blocks[b];
                for (std::size_t s = 0; s < steps.size(); ++s)
                    if (steps[s].dependency_block >= 0)
                        waits_.add(first[g][b] + static_cast<int>(s),
                                   first[g][steps[s].dependency_block] + steps[s].dependency_step + 1, 0);
            }
    }

    std::optional<std::vector<int>> rounds() {
        std::optional<std::vector<int>> all = waits_.earliest(&on_circle_);
        if (!all) return all;
        all->resize(flow_.moves.size());
        for (std::size_t move = 0; move < flow_.moves.size(); ++move)
            if (flow_.moves[move].is_dropped) (*all)[move] = -1;
        return all;
    }

    [[noreturn]] void refuse_circle() const {
        int move = on_circle_;
        if (move >= static_cast<int>(flow_.moves.size())) move = circle_moves_[move - flow_.moves.size()];
        refuse(
            algorithm_, move >= 0 ? flow_.moves[move].receiver : Place(),
            "what it moves needs a buffer besides x: a value that is still needed lies in its place",
            "Hocket's ranks have one place for a chunk of the input and the same chunk of the output, and no "
            "scratch buffer; let steps read a chunk before it is overwritten");
    }

  private:
    void add_values() {
        for (const std::vector<int>& versions : versions_by_slot(flow_)) {
            int closed_before = -1;
            for (const int v : versions) {
                const Version& version = flow_.versions[v];
                const int shown = version.writers.empty()
                                      ? (version.readers.empty() ? -1 : version.readers[0])
                                      : version.writers[0];
                const int ready = add_node(shown), closed = add_node(shown);
                waits_.add(closed, ready, 0);
                for (const int writer : version.writers) {
                    waits_.add(ready, writer, 1);
                    if (closed_before >= 0) waits_.add(writer, closed_before, 0);
                }
                if (closed_before >= 0) waits_.add(ready, closed_before, 0);
                for (const int reader : version.readers) {
                    waits_.add(reader, ready, 0);
                    waits_.add(closed, reader, 0);
                }
                closed_before = closed;
            }
        }
    }

    int add_node(int move) {
        circle_moves_.push_back(move);
        return waits_.add_node();
    }

    const Algorithm& algorithm_;
    const Flow& flow_;
    Waits waits_;
    std::vector<int> circle_moves_;  // of nodes behind those of moves: a move to name in errors
    int on_circle_ = 0;
};

}  // namespace

std::vector<std::vector<int>> versions_by_slot(const Flow& flow) {
    std::vector<std::vector<int>> versions(flow.slot_count);
    for (const bool by_output : {false, true})
        for (int v = 0; v < static_cast<int>(flow.versions.size()); ++v)
            if (flow.versions[v].by_output == by_output) versions[flow.versions[v].slot].push_back(v);
    return versions;
}

std::vector<int> order(const Algorithm& algorithm, const Flow& flow) {
    Ordering ordered(algorithm, flow);
    ordered.add_threadblocks();
    if (const auto rounds = ordered.rounds()) return *rounds;
    // Sends do not wait for their receivers, so steps may overtake each other.
    Ordering by_values(algorithm, flow);
    if (const auto rounds = by_values.rounds()) return *rounds;
    by_values.refuse_circle();
}

}  // namespace hocket::tools::imports
