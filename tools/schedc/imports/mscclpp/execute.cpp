#include "tools/schedc/imports/mscclpp/execute.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "tools/schedc/imports/mscclpp/matching.hpp"
#include "tools/schedc/imports/mscclpp/ordering.hpp"
#include "tools/schedc/imports/values.hpp"

namespace hocket::tools::imports::mscclpp {
namespace {

constexpr std::size_t most_snapshots = std::size_t{1} << 28;  // numbers in all snapshots

// Threadblocks take turns: each does operations as long as it can.
class Execution {
  public:
    explicit Execution(Plan& plan)
        : plan_(plan),
          algorithm_(plan.algorithm),
          values_(algorithm_, none_),
          units_(count_units()),
          ordering_(plan, units_),
          data_(plan.blocks.size()),
          packets_at_(plan.blocks.size()) {
        for (int g = 0; g < algorithm_.ranks(); ++g) {
            first_block_.push_back(static_cast<int>(turns_.size()));
            for (int b = 0; b < static_cast<int>(plan.blocks[g].size()); ++b) turns_.push_back({g, b, 0});
        }
        is_held_.resize(turns_.size());
        for (int block = 0; block < static_cast<int>(turns_.size()); ++block) note_arrival(block);
    }

    Flow run() {
        for (bool goes_on = true; goes_on;) {
            goes_on = false;
            for (int block = 0; block < static_cast<int>(turns_.size()); ++block)
                while (has_operation(block) && !is_held_[block] && !awaited(block)) {
                    do_operation(block);
                    goes_on = true;
                }
        }
        for (int block = 0; block < static_cast<int>(turns_.size()); ++block)
            if (has_operation(block)) refuse_standstill();
        values_.check_results();
        note_ends();
        return values_.take();
    }

  private:
    // Numbers the chunks of all data operations.
    std::size_t count_units() {
        std::size_t units = 0, blocks = 0, snapshots = 0, with_packets = 0;
        for (const auto& of_gpu : plan_.blocks) {
            first_unit_.emplace_back();
            for (const auto& ops : of_gpu) {
                ++blocks;
                std::vector<int>& first = first_unit_.back().emplace_back();
                for (const Operation& op : ops) {
                    first.push_back(static_cast<int>(units));
                    for (const Part& part : op.parts) {
                        units += static_cast<std::size_t>(part.count);
                        if (std::ranges::any_of(part.sources, &Region::is_packets))
                            with_packets += static_cast<std::size_t>(part.count);
                    }
                    snapshots += op.kind == Kind::data ? 0 : 1;
                }
            }
        }
        if (units * (2 * blocks + 1) > most_clocks || units * (snapshots + with_packets) > most_snapshots)
            refuse(algorithm_, {},
                   fmt::format(
                       "{} threadblocks move {} chunks, with {} signals, waits and nops: these are too many",
                       blocks, units, snapshots),
                   larger);
        return units;
    }

    const std::vector<Operation>& operations(int block) const {
        return plan_.blocks[turns_[block].gpu][turns_[block].block];
    }
    bool has_operation(int block) const {
        return turns_[block].step < static_cast<int>(operations(block).size());
    }
    const Operation& operation(int block) const { return operations(block)[turns_[block].step]; }

    int slot_of(const Region& region, int index) const {
        Chunks chunks = region.chunks;
        chunks.offset += index;
        return values_.name_of(region.gpu, chunks, 0).slot;
    }

    // Packets are numbered behind the data of a scratch buffer.
    int room(int gpu) const { return algorithm_.gpus[gpu].chunks[static_cast<int>(Buffer::scratch)] / 2; }

    // As the file counts.
    std::string shown(const Region& region, int index) const {
        const int chunk = region.chunks.offset + index - (region.is_packets ? room(region.gpu) : 0);
        return text_of({region.chunks.buffer, chunk / algorithm_.parts_of_one}, 1);
    }

    // An operation waits for packets in a chunk of this region, or for this barrier, stream or semaphore.
    struct Awaited {
        const Region* packets = nullptr;
        int number = 0;
    };

    // The next operation's obstacle, if no barrier holds the threadblock; nothing if it can go on.
    std::optional<Awaited> awaited(int block) const {
        const Operation& op = operation(block);
        for (const Part& part : op.parts)
            for (const Region& source : part.sources)
                for (int i = 0; source.is_packets && part.polls && i < part.count; ++i)
                    if (!packets_.are_there(slot_of(source, i))) return Awaited{&source, i};
        const std::optional<int> number = ordering_.awaited(turns_[block].gpu, op);
        if (number) return Awaited{nullptr, *number};
        return std::nullopt;
    }

    std::string awaited_text(int block) const {
        const Operation& op = operation(block);
        if (op.kind == Kind::barrier) return fmt::format("barrier {}", op.barrier);
        const Awaited what = *awaited(block);
        if (what.packets)
            return fmt::format("packets in {} of gpu {}", shown(*what.packets, what.number),
                               what.packets->gpu);
        if (op.kind == Kind::wait) return fmt::format("a signal of gpu {}", plan_.streams[what.number].from);
        return fmt::format("semaphore {}", what.number);
    }

    std::vector<int>& at_barrier(int block) {
        return arrivals_[{turns_[block].gpu, operation(block).barrier}];
    }

    // A barrier holds all but the last of its threadblocks.
    void note_arrival(int block) {
        if (!has_operation(block) || operation(block).kind != Kind::barrier) return;
        std::vector<int>& all = at_barrier(block);
        all.push_back(block);
        is_held_[block] = std::ssize(all) < operation(block).participants;
    }

    void go_on(int block) {
        ++turns_[block].step;
        is_held_[block] = false;
        note_arrival(block);
    }

    void do_operation(int block) {
        const Operation& op = operation(block);
        if (op.kind == Kind::barrier) {  // whoever comes last goes on for all
            const std::vector<int> all = std::exchange(at_barrier(block), {});
            ordering_.meet(all);
            for (const int one : all) go_on(one);
            return;
        }
        if (op.kind == Kind::data)
            do_data(block, op);
        else
            ordering_.act(block, turns_[block].gpu, op);
        go_on(block);
    }

    void do_data(int block, const Operation& op) {
        const Place& place = turns_[block];
        int unit = first_unit_[place.gpu][place.block][place.step];
        for (std::size_t i = 0; i < op.parts.size(); ++i) {
            const Part& part = op.parts[i];
            const int lane = static_cast<int>(i);
            for (int index = 0; index < part.count; ++index, ++unit) {
                do_unit(block, part, index, unit);
                if (part.stream < 0)
                    ordering_.of(block).add(unit, is_seen);
                else
                    ordering_.put(block, part.stream, lane, unit);
            }
            if (op.signals) ordering_.signal(block, part.stream, lane, false);
            if (op.flushes) ordering_.flush(block, part.stream, lane);
        }
    }

    void do_unit(int block, const Part& part, int index, int unit) {
        const Snapshot settled = ordering_.of(block).settled();
        Clock known;
        for (const Region& source : part.sources)
            if (source.is_packets) {
                if (known.empty()) known = *settled;
                read_packet(turns_[block], part, slot_of(source, index), known);
            }
        for (const Region& region : part.sources) note_use(turns_[block], region, index);
        for (const Region& region : part.targets) note_use(turns_[block], region, index);
        const Actor actor{
            turns_[block], {unit, 0, turns_[block]}, known.empty() ? settled.get() : &known, 1, true};
        std::vector<int> made = move(actor, part, index);
        const bool sends = std::ranges::any_of(part.targets, &Region::is_packets);
        const OverUnits by_packets = sends && !known.empty() ? over_units(known) : nullptr;
        for (std::size_t i = 0; i < part.targets.size(); ++i)
            if (part.targets[i].is_packets && !is_source(part, part.targets[i], index))
                packets_.add(slot_of(part.targets[i], index), made[i], unit, settled, by_packets);
        if (!known.empty()) ordering_.of(block).add(known);
    }

    void read_packet(const Place& place, const Part& part, int slot, Clock& known) const {
        if (!part.polls && (!packets_.are_there(slot) || !packets_.are_known(slot, known)))
            refuse(algorithm_, place,
                   "it puts packets that need not be there yet: a port channel does not wait for their flags",
                   "let a nop stand behind what writes them, or use 'rppkt'");
        packets_.join(known, slot);
    }

    // Packets that an operation stores to all GPUs of a group come back to their own place.
    bool is_source(const Part& part, const Region& target, int index) const {
        return part.sources.size() == 1 && slot_of(part.sources[0], index) == slot_of(target, index);
    }

    // True if packets of this value are there already: another threadblock has written the same.
    bool are_written(const Actor& actor, const Region& target, int index, int value) const {
        const int slot = slot_of(target, index);
        if (!target.is_packets || !packets_.are_there(slot)) return false;
        if (packets_.has_value(slot, value)) return true;
        refuse(algorithm_, actor.place,
               fmt::format("it writes packets to {} of gpu {}, where other packets have been written before: "
                           "their flags "
                           "are the same",
                           shown(target, index), target.gpu),
               "use another chunk of scratch");
    }

    // A chunk of packets takes the place of two chunks of data.
    void note_use(const Place& place, const Region& region, int index) {
        if (region.chunks.buffer != Buffer::scratch) return;
        const int chunk = region.chunks.offset + index - (region.is_packets ? room(region.gpu) : 0);
        const std::set<int>&data = data_[region.gpu], &packets = packets_at_[region.gpu];
        const bool is_wrong = region.is_packets ? data.contains(2 * chunk) || data.contains(2 * chunk + 1)
                                                : packets.contains(chunk / 2);
        if (is_wrong)
            refuse(
                algorithm_, place,
                fmt::format("{} of gpu {} holds {}, and other operations have {} there: packets take twice "
                            "the room, from "
                            "twice the chunk's number on",
                            shown(region, index), region.gpu, region.is_packets ? "packets" : "data",
                            region.is_packets ? "data" : "packets"),
                "keep data and packets apart in the scratch buffer");
        (region.is_packets ? packets_at_ : data_)[region.gpu].insert(chunk);
    }

    Name name(const Region& region, int index) const {
        Name result = values_.name_of(region.gpu, region.chunks, index);
        result.is_flagged = region.is_packets;
        return result;
    }

    // Returns the version that each target gets.
    std::vector<int> move(const Actor& actor, const Part& part, int index) {
        std::vector<Name> sources;
        for (const Region& source : part.sources) sources.push_back(name(source, index));
        Incoming in{-1, part.targets[0].gpu, actor.place};
        const bool is_sum = sources.size() > 1;
        if (is_sum)
            in.version = sum(actor, std::move(sources), name(part.targets[0], index));
        else
            in = {values_.read(actor, sources[0]), sources[0].gpu, actor.place};
        std::vector<int> made;
        for (const Region& target : part.targets) {
            const bool is_there = (is_sum && made.empty()) ||
                                  (target.is_packets && is_source(part, target, index)) ||
                                  are_written(actor, target, index, in.version);
            made.push_back(in.version);
            if (is_there) continue;
            values_.pass_on(in.version);
            values_.copy(actor, name(target, index), in);
        }
        return made;
    }

    // A sum is made where one of its operands is, if it can be.
    int sum(const Actor& actor, std::vector<Name> operands, const Name& to) {
        const auto there = std::ranges::find(operands, to.slot, &Name::slot);
        if (there != operands.end()) std::iter_swap(operands.begin(), there);
        std::vector<Incoming> values;
        for (std::size_t i = 1; i < operands.size(); ++i)
            values.push_back({values_.read(actor, operands[i]), operands[i].gpu, actor.place});
        int made = -1;
        for (std::size_t i = 0; i < values.size(); ++i)
            made = values_.combine(actor, to, i == 0 ? operands[0] : to, values[i]);
        return made;
    }

    // Results may be read when a GPU's threadblocks are over: then all that was written there should be
    // known.
    void note_ends() {
        for (int g = 0; g < algorithm_.ranks(); ++g) {
            Clock known(units_);
            for (std::size_t b = 0; b < plan_.blocks[g].size(); ++b)
                join(known, ordering_.of(first_block_[g] + static_cast<int>(b)).all());
            const std::optional<Place> writer = values_.unseen_result(g, known);
            if (!writer) continue;
            algorithm_.notes.push_back(fmt::format(
                "In the file gpu {} does not wait for what {} writes; the schedule's results are complete.",
                g, short_text(algorithm_, *writer)));
            return;
        }
    }

    [[noreturn]] void refuse_standstill() const {
        std::string text;
        Place first;
        int count = 0;
        for (int block = 0; block < static_cast<int>(turns_.size()); ++block) {
            if (!has_operation(block)) continue;
            if (first.gpu < 0) first = turns_[block];
            if (++count <= 8)
                text += fmt::format("{}{} waits for {}", count > 1 ? "; " : "",
                                    short_text(algorithm_, turns_[block]), awaited_text(block));
        }
        if (count > 8) text += "; ...";
        refuse(algorithm_, first, "nothing goes on here: " + text,
               "change the order of these operations, or let something come before them that they wait for");
    }

    Plan& plan_;
    Algorithm& algorithm_;
    std::vector<std::vector<std::vector<int>>> first_unit_;  // by GPU, threadblock and operation
    const std::set<Place> none_;
    Values values_;
    std::size_t units_ = 0;
    Ordering ordering_;
    Packets packets_;
    std::vector<std::set<int>> data_, packets_at_;  // by GPU: chunks of scratch that hold them
    std::vector<Place> turns_;                      // by threadblock: its next operation
    std::vector<int> first_block_;                  // by GPU
    std::vector<bool> is_held_;                     // by threadblock: at a barrier, where others are missing
    std::map<std::pair<int, int>, std::vector<int>> arrivals_;  // by GPU and barrier
};

}  // namespace

Flow execute(Plan& plan) {
    check_matching(plan);
    return Execution(plan).run();
}

}  // namespace hocket::tools::imports::mscclpp
