#include "tests/dsl/simulate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <random>
#include <tuple>
#include <utility>

namespace hocket::test {
namespace {

using dsl::AreaId;
using dsl::Op;
using dsl::OpId;
using dsl::Rank;
using dsl::RankProgram;
using Data = std::vector<std::uint64_t>;
using MessageKey = std::tuple<Rank, Rank, std::uint32_t>;

constexpr std::uint64_t poison = 0 - std::uint64_t{1'000'000'007};

// Completing a value adds this number, so a value that is completed twice differs.
constexpr std::uint64_t completed = std::uint64_t{1} << 62;

std::uint64_t contribution(Rank rank, std::uint64_t element) {
    return static_cast<std::uint64_t>(rank + 1) * 1'000'003 + element * 31;
}

class Simulated {
  public:
    Simulated(const RankProgram& program, const SimulationOptions& options)
        : program_(program), options_(options) {
        for (const dsl::Rational& boundary : program.boundaries)
            offsets_.push_back(boundary.offset(options.count));
        // All areas are as large as all buffers here; elements that a rank must not touch are poisoned and
        // checked.
        size_ = options.count * static_cast<std::uint64_t>(program.buffers);
        areas_.assign(program.areas(), Data(size_, poison));
        for (std::uint64_t i = 0; i < options.count; ++i)
            if (holds(program.input(), i)) areas_[dsl::input_area][i] = given(program.rank, i);
        input_ = areas_[dsl::input_area];
        for (const Op& op : program.ops) waits_.push_back(op.waits_for);
        for (OpId id = 0; id < waits_.size(); ++id)
            if (waits_[id] == 0) ready_.push_back(id);
    }

    bool done() const { return finished_ == program_.ops.size(); }

    void meet(std::vector<Simulated>& ranks) { ranks_ = &ranks; }

    // Runs one operation that can run; false if there is none.
    bool step(std::map<MessageKey, Data>& wire, std::mt19937& random) {
        if (options_.in_order) return step_in_order(wire);
        // Every other seed gives each operation a rank of its own, so that some are put off for very long.
        if (options_.seed % 2 == 0)
            std::sort(ready_.begin(), ready_.end(), [&](OpId a, OpId b) { return turn(a) < turn(b); });
        else
            std::shuffle(ready_.begin(), ready_.end(), random);
        for (std::size_t i = 0; i < ready_.size(); ++i) {
            const OpId id = ready_[i];
            if (!run(program_.ops[id], wire)) continue;
            ready_.erase(ready_.begin() + static_cast<std::ptrdiff_t>(i));
            ++finished_;
            for (const OpId successor : program_.ops[id].successors)
                if (--waits_[successor] == 0) ready_.push_back(successor);
            return true;
        }
        return false;
    }

    std::uint64_t turn(OpId op) const {
        std::uint64_t mixed = (op + 1) * 0x9e3779b97f4a7c15 + options_.seed * 0xc2b2ae3d27d4eb4f;
        mixed = (mixed ^ mixed >> 29) * 0xbf58476d1ce4e5b9;
        return mixed ^ mixed >> 32;
    }

    // As they stand in the program, without a look at dependencies.
    bool step_in_order(std::map<MessageKey, Data>& wire) {
        if (done() || !run(program_.ops[finished_], wire)) return false;
        ++finished_;
        return true;
    }

    // Its caller does. Copies that local peers are shown stay.
    void reuse_buffers() {
        if (program_.protocol == dsl::Protocol::bandwidth) areas_[dsl::input_area].assign(size_, poison);
        if (program_.protocol == dsl::Protocol::bandwidth || !program_.shares_output)
            areas_[dsl::output_area].assign(size_, poison);
    }

    std::string check() {
        const bool is_overwritten = options_.in_place && program_.output() != dsl::Share::none;
        if (!is_overwritten && area(dsl::input_area) != input_)
            return fmt::format("rank {} wrote to its send buffer", program_.rank);
        if (options_.results) return keep_output(), "";
        const Data output = result();
        for (std::uint64_t i = 0; i < options_.count; ++i) {
            if (!holds(program_.output(), i)) {
                if (!options_.in_place && output[i] != poison)
                    return fmt::format("rank {} wrote beside its output at {}", program_.rank, i);
                continue;
            }
            const std::optional<std::uint64_t> wanted =
                options_.expected ? options_.expected(program_.rank, i) : expected(i);
            if (!wanted) return fmt::format("rank {} is to hold nothing at {}", program_.rank, i);
            if (output[i] != *wanted)
                return fmt::format("rank {} has {} at {}, not {}", program_.rank, output[i], i, *wanted);
        }
        return "";
    }

  private:
    void keep_output() {
        Data output = result();
        for (std::uint64_t i = 0; i < options_.count; ++i)
            if (!holds(program_.output(), i)) output[i] = poison;
        (*options_.results)[static_cast<std::size_t>(program_.rank)] = std::move(output);
    }

    // The last of the buffers.
    Data result() {
        return Data(area(dsl::output_area).end() - std::ptrdiff_t(options_.count),
                    area(dsl::output_area).end());
    }

    // The element that an operation reads or writes at `at`.
    std::uint64_t& element(AreaId id, std::uint64_t at) {
        if (id < program_.first_shifted()) return area(id)[at];
        const dsl::ShiftedArea& shifted = program_.shifted[id - program_.first_shifted()];
        return area(shifted.of)[at - offsets_[shifted.at] + offsets_[shifted.from]];
    }

    // In place, input and output are the same memory, unless the input must be copied.
    Data& area(AreaId id) {
        if (id >= dsl::areas_of_a_rank && id < program_.first_scratch()) {
            const Rank owner = program_.local_peers[id / dsl::areas_of_a_rank - 1];
            return (*ranks_)[owner].area(id % dsl::areas_of_a_rank);
        }
        const bool copied = program_.protocol == dsl::Protocol::latency || program_.buffers > 1;
        return areas_[id == dsl::input_area && options_.in_place && !copied ? dsl::output_area : id];
    }

    bool owns(Rank rank, std::uint64_t i) const {
        const dsl::Rational begin(rank, program_.ranks), end(rank + 1, program_.ranks);
        return begin.offset(options_.count) <= i && i < end.offset(options_.count);
    }
    bool holds(dsl::Share share, std::uint64_t i) const {
        return share == dsl::Share::whole || (share == dsl::Share::own && owns(program_.rank, i));
    }
    bool holds_input(std::uint64_t i) const { return holds(program_.input(), i); }
    bool holds_output(std::uint64_t i) const { return holds(program_.output(), i); }

    std::uint64_t given(Rank rank, std::uint64_t i) const {
        return options_.input ? options_.input(rank, i) : contribution(rank, i);
    }
    std::uint64_t folded(std::uint64_t a, std::uint64_t b) const {
        return options_.fold ? options_.fold(a, b) : a + b;
    }

    std::uint64_t expected(std::uint64_t i) const {
        const dsl::Contract contract = contract_of(program_.collective);
        const std::uint64_t piece = options_.count / static_cast<std::uint64_t>(program_.ranks);
        if (contract.exchanges())
            return contribution(static_cast<Rank>(i / piece),
                                static_cast<std::uint64_t>(program_.rank) * piece + i % piece);
        if (contract.spreads()) return contribution(program_.root, i);
        std::uint64_t sum = 0;
        for (Rank rank = 0; rank < program_.ranks; ++rank) {
            if (contract.gathers() && owns(rank, i)) return contribution(rank, i);
            sum += contribution(rank, i);
        }
        return program_.ranks > 1 ? sum + completed : sum;
    }

    // A message: its own piece and the further ones.
    Data gathered(const Op& op) {
        const Data& own = area(op.area);
        Data message(own.begin() + offsets_[op.begin], own.begin() + offsets_[op.end]);
        for (const auto& [begin, end, id] : op.further)
            for (auto i = offsets_[begin]; i < offsets_[end]; ++i) message.push_back(area(id)[i]);
        return message;
    }

    void scatter(const Data& message, const Op& op) {
        std::size_t next = 0;
        const auto take = [&](std::uint64_t begin, std::uint64_t end, AreaId id) {
            if (end - begin > message.size() - next)
                throw std::runtime_error("a message is shorter than expected");
            for (auto i = begin; i < end; ++i) area(id)[i] = message[next++];
        };
        take(offsets_[op.begin], offsets_[op.end], op.area);
        for (const auto& [begin, end, id] : op.further) take(offsets_[begin], offsets_[end], id);
        if (next != message.size()) throw std::runtime_error("a message is longer than expected");
    }

    bool run(const Op& op, std::map<MessageKey, Data>& wire) {
        const auto begin = offsets_[op.begin], end = offsets_[op.end];
        Data& target = area(op.area);
        switch (op.kind) {
            case Op::Kind::send:
                wire[{program_.rank, op.peer, op.message}] = gathered(op);
                return true;
            case Op::Kind::receive: {
                const auto message = wire.find({op.peer, program_.rank, op.message});
                if (message == wire.end()) return false;
                scatter(message->second, op);
                wire.erase(message);
                return true;
            }
            case Op::Kind::copy:
            case Op::Kind::combine:
                for (auto i = begin; i < end; ++i) {
                    std::uint64_t result = element(op.operands[0], i);
                    for (std::size_t operand = 1; operand < op.operands.size(); ++operand)
                        result = folded(result, element(op.operands[operand], i));
                    if (op.completes && !options_.fold) result += completed;
                    target[i] = result;
                    for (const AreaId other : op.also) area(other)[i] = result;
                }
                return true;
            case Op::Kind::signal:
                if (op.message != signals_ + 1) throw std::runtime_error("signals are out of order");
                signals_ = op.message;
                return true;
            case Op::Kind::await:
                return (*ranks_)[op.peer].signals_ >= op.message;
            case Op::Kind::compute:
                throw std::runtime_error("this simulation moves and combines values, and computes nothing");
        }
        return false;
    }

    const RankProgram& program_;
    const SimulationOptions& options_;
    std::vector<std::uint64_t> offsets_;
    std::uint64_t size_ = 0;  // of all buffers
    std::vector<Data> areas_;
    Data input_;
    std::vector<std::uint32_t> waits_;
    std::vector<OpId> ready_;
    std::size_t finished_ = 0;
    std::uint32_t signals_ = 0;
    std::vector<Simulated>* ranks_ = nullptr;

  public:
    void start_in_place() {
        const Data& input = areas_[dsl::input_area];
        std::copy_n(input.begin(), options_.count,
                    areas_[dsl::output_area].end() - std::ptrdiff_t(options_.count));
    }
};

}  // namespace

std::string simulate(const std::vector<RankProgram>& programs, const SimulationOptions& options) {
    std::mt19937 random(options.seed);
    if (options.results) options.results->assign(programs.size(), {});
    std::vector<Simulated> ranks;
    ranks.reserve(programs.size());
    for (const RankProgram& program : programs) {
        ranks.emplace_back(program, options);
        if (options.in_place) ranks.back().start_in_place();
    }
    for (Simulated& rank : ranks) rank.meet(ranks);
    std::map<MessageKey, Data> wire;
    const auto done = [](const Simulated& rank) { return rank.done(); };
    for (Simulated& rank : ranks)
        if (std::string error = rank.done() ? rank.check() : ""; !error.empty()) return error;
    while (!std::all_of(ranks.begin(), ranks.end(), done)) {
        bool moved = false;
        const std::size_t start = random() % ranks.size();
        for (std::size_t i = 0; i < ranks.size() && !moved; ++i) {
            Simulated& rank = ranks[(start + i) % ranks.size()];
            moved = rank.step(wire, random);
            // Its caller goes on at once, while other ranks may still be running.
            if (!moved || !rank.done()) continue;
            if (std::string error = rank.check(); !error.empty()) return error;
            rank.reuse_buffers();
        }
        if (!moved) return "the ranks are stuck";
    }
    if (!wire.empty()) return "a message was sent that nobody receives";
    return "";
}

namespace {

// The progress of each rank, with the operations that could go on.
class Meeting {
  public:
    explicit Meeting(const std::vector<RankProgram>& programs)
        : programs_(programs), waits_(programs.size()), signals_(programs.size(), 0) {
        for (std::size_t rank = 0; rank < programs.size(); ++rank)
            for (const Op& op : programs[rank].ops) waits_[rank].push_back(op.waits_for), ++left_;
        for (std::size_t rank = 0; rank < programs.size(); ++rank)
            for (OpId id = 0; id < waits_[rank].size(); ++id)
                if (programs[rank].ops[id].waits_for == 0) offer(rank, id);
    }

    std::size_t left() const { return left_; }

  private:
    // Local work is done at once; a send or receive waits for its other half.
    void offer(std::size_t rank, OpId id) {
        const Op& op = programs_[rank].ops[id];
        if (op.is_elementwise()) return finish(rank, id);
        if (op.kind == Op::Kind::signal) {
            signals_[rank] = op.message;
            finish(rank, id);
            for (const auto& [waiting, await] : std::exchange(awaiting_, {})) offer(waiting, await);
            return;
        }
        if (op.kind == Op::Kind::await) {
            if (signals_[op.peer] >= op.message) return finish(rank, id);
            awaiting_.emplace_back(rank, id);
            return;
        }
        const bool sends = op.kind == Op::Kind::send;
        const auto self = static_cast<Rank>(rank);
        const MessageKey key{sends ? self : op.peer, sends ? op.peer : self, op.message};
        const auto other = offered_.find(key);
        if (other == offered_.end()) {
            offered_[key] = {rank, id};
            return;
        }
        const auto [peer, peer_id] = other->second;
        offered_.erase(other);
        finish(rank, id);
        finish(peer, peer_id);
    }

    void finish(std::size_t rank, OpId id) {
        --left_;
        for (const OpId successor : programs_[rank].ops[id].successors)
            if (--waits_[rank][successor] == 0) offer(rank, successor);
    }

    const std::vector<RankProgram>& programs_;
    std::vector<std::vector<std::uint32_t>> waits_;
    std::map<MessageKey, std::pair<std::size_t, OpId>> offered_;
    std::vector<std::uint32_t> signals_;  // by rank
    std::vector<std::pair<std::size_t, OpId>> awaiting_;
    std::size_t left_ = 0;
};

}  // namespace

std::string rendezvous(const std::vector<RankProgram>& programs) {
    const std::size_t left = Meeting(programs).left();
    return left == 0 ? "" : fmt::format("{} operations wait for each other", left);
}

}  // namespace hocket::test
