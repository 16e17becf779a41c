#include "tools/schedc/imports/mscclpp/execute.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <set>

#include "tools/schedc/imports/mscclpp/knowledge.hpp"
#include "tools/schedc/imports/mscclpp/matching.hpp"
#include "tools/schedc/imports/values.hpp"

namespace hocket::tools::imports::mscclpp {
namespace {

constexpr std::size_t most_snapshots = std::size_t{1} << 28;  // numbers in all snapshots

// A put of a port channel that may still be on its way.
struct InFlight {
    int unit = 0, lane = 0;   // lane: the thread that has started it
    bool is_settled = false;  // a nop came after it
};

// Threadblocks take turns: each does operations as long as it can.
class Execution {
  public:
    explicit Execution(Plan& plan)
        : plan_(plan),
          algorithm_(plan.algorithm),
          values_(algorithm_, none_),
          signals_(plan.streams.size()),
          in_flight_(plan.streams.size()),
          units_(count_units()) {
        for (int g = 0; g < algorithm_.ranks(); ++g) {
            first_block_.push_back(static_cast<int>(blocks_.size()));
            for (int b = 0; b < static_cast<int>(plan.blocks[g].size()); ++b)
                blocks_.push_back({{g, b, 0}, Knowledge(units_)});
            releases_.emplace_back(plan.semaphores[g].size());
            acquired_.emplace_back(plan.semaphores[g].size());
            data_.emplace_back();
            packets_at_.emplace_back();
        }
    }

    Flow run() {
        for (bool goes_on = true; goes_on;) {
            goes_on = false;
            for (Turn& block : blocks_)
                while (has_operation(block) && !awaited(block)) {
                    do_operation(block);
                    goes_on = true;
                }
        }
        for (const Turn& block : blocks_)
            if (has_operation(block)) refuse_standstill();
        values_.check_results();
        note_ends();
        return values_.take();
    }

  private:
    struct Turn {
        Place next;
        Knowledge knowledge;
        std::set<int> streams = {};  // of port channels, with puts that may be on their way
        std::size_t at_barrier = 0;  // how often it has come to a barrier, if it waits there
    };

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

    const std::vector<Operation>& operations(const Turn& block) const {
        return plan_.blocks[block.next.gpu][block.next.block];
    }
    bool has_operation(const Turn& block) const {
        return block.next.step < static_cast<int>(operations(block).size());
    }
    const Operation& operation(const Turn& block) const { return operations(block)[block.next.step]; }
    Turn& block_of(int gpu, int block) {
        return blocks_[static_cast<std::size_t>(first_block_[gpu] + block)];
    }

    int slot_of(const Region& region, int index) const {
        Chunks chunks = region.chunks;
        chunks.offset += index;
        return values_.name_of(region.gpu, chunks, 0).slot;
    }

    // As the file counts.
    std::string shown(const Region& region, int index) const {
        return text_of({region.chunks.buffer, (region.chunks.offset + index) / algorithm_.parts_of_one}, 1);
    }

    // What the next operation waits for, in words; nothing if it can go on.
    std::optional<std::string> awaited(const Turn& block) const {
        const Operation& op = operation(block);
        const int gpu = block.next.gpu;
        if (op.kind == Kind::wait) {
            for (const int stream : op.streams)
                if (signals_[stream].empty())
                    return fmt::format("a signal of gpu {}", plan_.streams[stream].from);
        } else if (op.kind == Kind::acquire) {
            for (const int semaphore : op.semaphores)
                if (missing_release(gpu, semaphore, std::ranges::count(op.semaphores, semaphore)))
                    return fmt::format("semaphore {}", semaphore);
        } else if (op.kind == Kind::barrier) {
            if (!all_are_at(gpu, op.barrier, op.participants)) return fmt::format("barrier {}", op.barrier);
        }
        for (const Part& part : op.parts)
            for (const Region& source : part.sources)
                for (int i = 0; source.is_packets && part.polls && i < part.count; ++i)
                    if (!packets_.are_there(slot_of(source, i)))
                        return fmt::format("packets in {} of gpu {}", shown(source, i), source.gpu);
        return std::nullopt;
    }

    bool missing_release(int gpu, int semaphore, std::int64_t count) const {
        const std::int64_t first = plan_.semaphores[gpu][semaphore];
        return acquired_[gpu][semaphore] + count > first + std::ssize(releases_[gpu][semaphore]);
    }

    bool all_are_at(int gpu, int barrier, int participants) const {
        int there = 0;
        for (std::size_t b = 0; b < plan_.blocks[gpu].size(); ++b) {
            const Turn& other = blocks_[static_cast<std::size_t>(first_block_[gpu]) + b];
            if (!has_operation(other)) continue;
            const Operation& op = operation(other);
            there += op.kind == Kind::barrier && op.barrier == barrier ? 1 : 0;
        }
        return there == participants;
    }

    void do_operation(Turn& block) {
        const Operation& op = operation(block);
        switch (op.kind) {
            case Kind::data:
                do_data(block, op);
                break;
            case Kind::nop:
                settle(block);
                break;
            case Kind::barrier:
                meet(block, op);
                return;
            case Kind::signal:
                signal(block, op);
                break;
            case Kind::wait:
                wait(block, op);
                break;
            case Kind::flush:
                flush(block, op);
                break;
            case Kind::acquire:
                acquire(block, op);
                break;
            case Kind::release:
                for (const int semaphore : op.semaphores)
                    releases_[block.next.gpu][semaphore].push_back(block.knowledge.settled());
                break;
        }
        ++block.next.step;
    }

    void settle(Turn& block) {
        block.knowledge.settle();
        for (const int stream : block.streams)
            for (InFlight& one : in_flight_[stream]) one.is_settled = true;
    }

    // Whoever comes last goes on for all.
    void meet(Turn& block, const Operation& op) {
        const int gpu = block.next.gpu, barrier = op.barrier;
        std::vector<Turn*> all;
        for (std::size_t b = 0; b < plan_.blocks[gpu].size(); ++b) {
            Turn& other = blocks_[static_cast<std::size_t>(first_block_[gpu]) + b];
            if (has_operation(other) && operation(other).kind == Kind::barrier &&
                operation(other).barrier == barrier)
                all.push_back(&other);
        }
        Clock together = all[0]->knowledge.all();
        for (const Turn* one : all) join(together, one->knowledge.all());
        for (Turn* one : all) {
            one->knowledge.add(together);
            settle(*one);
            ++one->next.step;
        }
    }

    struct Signal {
        Snapshot known;
        std::vector<int> units;  // puts that came before it on its channel
        bool is_relaxed = false;
    };

    void signal(Turn& block, const Operation& op) {
        for (std::size_t lane = 0; lane < op.streams.size(); ++lane)
            send(block, op.streams[lane], static_cast<int>(lane), op.is_relaxed);
    }

    // A channel's puts and signals stay in the order in which one thread starts them.
    void send(Turn& block, int stream, int lane, bool is_relaxed) {
        Signal one{block.knowledge.settled(), {}, is_relaxed};
        for (const InFlight& put : in_flight_[stream])
            if (put.is_settled || put.lane == lane) one.units.push_back(put.unit);
        signals_[stream].push_back(std::move(one));
    }

    void wait(Turn& block, const Operation& op) {
        for (const int stream : op.streams) {
            const Signal one = std::move(signals_[stream].front());
            signals_[stream].pop_front();
            if (one.is_relaxed || op.is_relaxed) {
                Clock reads(one.known->size());
                join_reads(reads, *one.known);
                block.knowledge.add(reads);
            } else {
                block.knowledge.add(*one.known);
            }
            for (const int unit : one.units)
                block.knowledge.add(unit, one.is_relaxed || op.is_relaxed ? is_over : is_seen);
        }
    }

    void flush(Turn& block, const Operation& op) {
        for (std::size_t lane = 0; lane < op.streams.size(); ++lane)
            finish_puts(block, op.streams[lane], static_cast<int>(lane));
    }

    void finish_puts(Turn& block, int stream, int lane) {
        std::erase_if(in_flight_[stream], [&](const InFlight& put) {
            const bool is_done = put.is_settled || put.lane == lane;
            if (is_done) block.knowledge.add(put.unit, is_seen);
            return is_done;
        });
    }

    void acquire(Turn& block, const Operation& op) {
        for (const int semaphore : op.semaphores) {
            const int number =
                acquired_[block.next.gpu][semaphore]++ - plan_.semaphores[block.next.gpu][semaphore];
            if (number >= 0) block.knowledge.add(*releases_[block.next.gpu][semaphore][number]);
        }
    }

    void do_data(Turn& block, const Operation& op) {
        const Place place = block.next;
        int unit = first_unit_[place.gpu][place.block][place.step];
        for (std::size_t lane = 0; lane < op.parts.size(); ++lane) {
            const Part& part = op.parts[lane];
            for (int i = 0; i < part.count; ++i, ++unit) {
                do_unit(block, part, i, unit);
                if (part.stream < 0)
                    block.knowledge.add(unit, is_seen);
                else
                    in_flight_[part.stream].push_back({unit, static_cast<int>(lane), false});
            }
            if (part.stream < 0) continue;
            block.streams.insert(part.stream);
            if (op.signals) send(block, part.stream, static_cast<int>(lane), false);
            if (op.flushes) finish_puts(block, part.stream, static_cast<int>(lane));
        }
    }

    void do_unit(Turn& block, const Part& part, int index, int unit) {
        const Snapshot settled = block.knowledge.settled();
        Clock known;
        std::vector<int> read_packets;
        for (const Region& source : part.sources)
            if (source.is_packets) {
                if (known.empty()) known = *settled;
                read_packets.push_back(slot_of(source, index));
                read_packet(block, part, read_packets.back(), known);
            }
        for (const Region& region : part.sources) note_use(block, region, index);
        for (const Region& region : part.targets) note_use(block, region, index);
        const Actor actor{block.next, {unit, 0, block.next}, known.empty() ? settled.get() : &known, 1};
        std::vector<int> made = move(actor, part, index);
        for (std::size_t i = 0; i < part.targets.size(); ++i)
            if (part.targets[i].is_packets)
                packets_.add(slot_of(part.targets[i], index), made[i], unit, settled, read_packets);
        if (!known.empty()) block.knowledge.add(known);
    }

    void read_packet(const Turn& block, const Part& part, int slot, Clock& known) const {
        if (!part.polls && (!packets_.are_there(slot) || !packets_.are_known(slot, known)))
            refuse(algorithm_, block.next,
                   "it puts packets that need not be there yet: a port channel does not wait for their flags",
                   "let a nop stand behind what writes them, or use 'rppkt'");
        packets_.join(known, slot);
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
    void note_use(const Turn& block, const Region& region, int index) {
        if (region.chunks.buffer != Buffer::scratch) return;
        const int chunk = region.chunks.offset + index;
        const std::set<int>&data = data_[region.gpu], &packets = packets_at_[region.gpu];
        const bool is_wrong = region.is_packets ? data.contains(2 * chunk) || data.contains(2 * chunk + 1)
                                                : packets.contains(chunk / 2);
        if (is_wrong)
            refuse(
                algorithm_, block.next,
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
            const bool is_there = (is_sum && made.empty()) || are_written(actor, target, index, in.version);
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
                join(known, block_of(g, static_cast<int>(b)).knowledge.all());
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
        for (const Turn& block : blocks_) {
            if (!has_operation(block)) continue;
            if (first.gpu < 0) first = block.next;
            if (++count <= 8)
                text += fmt::format("{}{} waits for {}", count > 1 ? "; " : "",
                                    short_text(algorithm_, block.next), *awaited(block));
        }
        if (count > 8) text += "; ...";
        refuse(algorithm_, first, "nothing goes on here: " + text,
               "change the order of these operations, or let something come before them that they wait for");
    }

    Plan& plan_;
    Algorithm& algorithm_;
    const std::set<Place> none_;
    Values values_;
    std::vector<Turn> blocks_;
    std::vector<int> first_block_;                              // by GPU
    std::vector<std::vector<std::vector<int>>> first_unit_;     // by GPU, threadblock and operation
    std::vector<std::deque<Signal>> signals_;                   // by stream
    std::vector<std::vector<InFlight>> in_flight_;              // by stream
    std::vector<std::vector<std::vector<Snapshot>>> releases_;  // by GPU and semaphore
    std::vector<std::vector<int>> acquired_;
    Packets packets_;
    std::vector<std::set<int>> data_, packets_at_;  // by GPU: chunks of scratch that hold them
    std::size_t units_ = 0;
};

}  // namespace

Flow execute(Plan& plan) {
    check_matching(plan);
    return Execution(plan).run();
}

}  // namespace hocket::tools::imports::mscclpp
