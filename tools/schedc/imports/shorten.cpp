#include <algorithm>

#include "tools/schedc/imports/flow.hpp"

namespace hocket::tools::imports {
namespace {

class Shortening {
  public:
    explicit Shortening(Flow& flow) : flow_(flow), later_(flow.versions.size()), last_(flow.slot_count, -1) {
        for (int v = 0; v < static_cast<int>(flow.versions.size()); ++v) {
            last_[flow.versions[v].slot] = v;
            if (flow.versions[v].base >= 0) ++later_[flow.versions[v].base];
        }
    }

    void pass_through() {
        for (int v = 0; v < static_cast<int>(flow_.versions.size()); ++v)
            if (can_join(v)) {
                join(v);
            } else if (can_pass_through(v)) {
                const Move by = flow_.moves[flow_.versions[v].writers[0]];
                const std::vector<int> readers = flow_.versions[v].readers;
                drop(flow_.versions[v].writers[0]);
                for (const int reader : readers) take_from(flow_.moves[reader], reader, by);
                flow_.versions[v].readers.clear();
            }
    }

    void drop_unread() {
        for (bool is_changed = true; is_changed;) {
            is_changed = false;
            for (int v = static_cast<int>(flow_.versions.size()); v-- > 0;) {
                Version& version = flow_.versions[v];
                if (flow_.slots.is_fixed(version.slot) || !version.readers.empty() || later_[v] > 0 ||
                    version.writers.empty())
                    continue;
                for (const int writer : std::vector<int>(version.writers)) drop(writer);
                if (version.base >= 0) --later_[version.base];
                is_changed = true;
            }
        }
    }

  private:
    // Between GPUs a value goes the way that the file gives it: only the receiver may read it once more. What
    // a GPU has copied for itself may come from where it was, if that is still there.
    bool can_pass_through(int v) const {
        const Version& version = flow_.versions[v];
        if (flow_.slots.is_fixed(version.slot) || version.base >= 0 || later_[v] > 0 ||
            version.writers.size() != 1)
            return false;
        const Move& by = flow_.moves[version.writers[0]];
        const int from = flow_.versions[by.source].slot;
        const auto is_possible = [&](int reader) {
            const Move& move = flow_.moves[reader];
            const bool joins_itself = move.combines && flow_.versions[move.target].slot == from;
            return !joins_itself && (by.from == by.to || move.from == move.to);
        };
        const bool stays = by.from == by.to && last_[from] == by.source;
        return (version.readers.size() == 1 || stays) && std::ranges::all_of(version.readers, is_possible);
    }

    // True for a sum in scratch that is only combined into something else: its parts may be combined there.
    bool can_join(int v) const {
        const Version& sum = flow_.versions[v];
        if (flow_.slots.is_fixed(sum.slot) || sum.base < 0 || later_[v] > 0 || sum.readers.size() != 1)
            return false;
        const Move& reader = flow_.moves[sum.readers[0]];
        if (!reader.combines || reader.from != reader.to) return false;
        const auto can_come = [&](int writer) {
            return flow_.versions[flow_.moves[writer].source].slot != flow_.versions[reader.target].slot;
        };
        for (int part = v; part >= 0; part = flow_.versions[part].base) {
            const Version& version = flow_.versions[part];
            const bool is_inner = part == v || (later_[part] == 1 && version.readers.empty());
            if (!is_inner || version.slot != sum.slot || !std::ranges::all_of(version.writers, can_come))
                return false;
        }
        return true;
    }

    void join(int v) {
        const int reader = flow_.versions[v].readers[0];
        const int target = flow_.moves[reader].target;
        drop(reader);
        for (int part = v; part >= 0; part = flow_.versions[part].base) {
            for (const int writer : flow_.versions[part].writers) {
                flow_.moves[writer].target = target;
                flow_.moves[writer].combines = true;
                flow_.versions[target].writers.push_back(writer);
            }
            flow_.versions[part].writers.clear();
        }
    }

    void take_from(Move& move, int number, const Move& by) {
        move.source = by.source;
        if (by.from != by.to) move.from = by.from, move.sender = by.sender;
        flow_.versions[by.source].readers.push_back(number);
    }

    void drop(int number) {
        Move& move = flow_.moves[number];
        move.is_dropped = true;
        std::erase(flow_.versions[move.source].readers, number);
        std::erase(flow_.versions[move.target].writers, number);
    }

    Flow& flow_;
    std::vector<int> later_;  // by version: how many are combined on its base
    std::vector<int> last_;   // by slot: its last version
};

}  // namespace

void shorten(Flow& flow) {
    Shortening shortening(flow);
    shortening.pass_through();
    shortening.drop_unread();
}

}  // namespace hocket::tools::imports
