// The roofline: collectives written by hand for ranks that share all of their memory, as a limit to compare
// with. WHERE is the file that all ranks map: it has flags, slots, and every rank's buffers. For each size,
// compare-peers takes the fastest of three ways:
//   pass    every rank signals that it is ready; reads its share of the elements from all its sources and
//           writes it to all its targets in one pass; and signals that it is done
//   stream  the same with stores that go around the caches
//   slots   each rank copies its input into its slot and reads the others' slots: one synchronisation
#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <utility>

#include "driver.hpp"

namespace {

using peers::Buffers;
using peers::Call;
using peers::Collective;
using peers::Contract;
using peers::Share;

constexpr int kMostRanks = 32;
constexpr std::size_t kSlotFloats = 16 * 1024;

struct Flag {
    alignas(128) std::atomic<std::uint64_t> value;
};

// A short input is in the same cache line as the sequence number, so that one line moves, not two.
struct Slot {
    alignas(128) std::atomic<std::uint64_t> sequence;
    float data[kSlotFloats];
};

struct Control {
    Flag flags[kMostRanks];
    Slot slots[2][kMostRanks];
};

constexpr std::size_t round_up(std::size_t value, std::size_t unit) {
    return (value + unit - 1) / unit * unit;
}
constexpr std::size_t kControlBytes = round_up(sizeof(Control), 4096);

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
#elif defined(__AVX__)
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif
using Vector __attribute__((vector_size(kVectorBytes))) = float;
constexpr std::size_t kLanes = kVectorBytes / sizeof(float);

Vector load(const float* from) {
    Vector value;
    std::memcpy(&value, from, sizeof value);
    return value;
}

void store(float* to, Vector value) {
    std::memcpy(to, &value, sizeof value);
}

// Stores around the caches; `to` must be aligned to the vector.
void stream(float* to, Vector value) {
#if defined(__AVX512F__)
    _mm512_stream_ps(to, value);
#elif defined(__AVX__)
    _mm256_stream_ps(to, value);
#elif defined(__SSE2__)
    _mm_stream_ps(to, value);
#else
    store(to, value);
#endif
}

void finish_streaming() {
#if defined(__SSE2__)
    _mm_sfence();
#endif
}

using Sources = std::vector<const float*>;
using Targets = std::vector<float*>;

// Computes every target[i] = the sum of all source[i], in one pass. The compiler knows the numbers of sources
// and targets unless they are 0.
template <std::size_t source_count, std::size_t target_count, bool streaming>
void sum_pass(const Sources& sources, const Targets& targets, std::size_t count) {
    const std::size_t reads = source_count ? source_count : sources.size();
    const std::size_t writes = target_count ? target_count : targets.size();
    const float* const* source = sources.data();
    float* const* target = targets.data();
    std::size_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
        Vector sum = load(source[0] + i);
        for (std::size_t s = 1; s < reads; ++s) sum += load(source[s] + i);
        for (std::size_t t = 0; t < writes; ++t)
            streaming ? stream(target[t] + i, sum) : store(target[t] + i, sum);
    }
    for (; i < count; ++i) {
        float sum = source[0][i];
        for (std::size_t s = 1; s < reads; ++s) sum += source[s][i];
        for (std::size_t t = 0; t < writes; ++t) target[t][i] = sum;
    }
    if (streaming) finish_streaming();
}

template <std::size_t source_count, bool streaming>
void sum_pass_of(const Sources& sources, const Targets& targets, std::size_t count) {
    switch (targets.size()) {
        case 1:
            return sum_pass<source_count, 1, streaming>(sources, targets, count);
        case 2:
            return sum_pass<source_count, 2, streaming>(sources, targets, count);
        case 3:
            return sum_pass<source_count, 3, streaming>(sources, targets, count);
        case 4:
            return sum_pass<source_count, 4, streaming>(sources, targets, count);
        default:
            return sum_pass<source_count, 0, streaming>(sources, targets, count);
    }
}

template <bool streaming>
void sum_into(const Sources& sources, const Targets& targets, std::size_t count) {
    switch (sources.size()) {
        case 1:
            return sum_pass_of<1, streaming>(sources, targets, count);
        case 2:
            return sum_pass_of<2, streaming>(sources, targets, count);
        case 4:
            return sum_pass_of<4, streaming>(sources, targets, count);
        default:
            return sum_pass_of<0, streaming>(sources, targets, count);
    }
}

class Roofline : public peers::Library {
  public:
    void join(const peers::Place& place) override {
        if (place.ranks > kMostRanks) throw std::runtime_error("the roofline has room for 32 ranks");
        place_ = place;
        crowded_ = peers::more_than_cores(place.ranks);
        control_ = static_cast<Control*>(peers::map_shared(place.where, kControlBytes));
    }

    void leave() override {}

    // Allocates in the file that all ranks map, so every rank knows where all buffers are.
    Buffers allocate(const std::string& memory, std::size_t bytes) override {
        if (memory != "malloc") throw std::runtime_error("no such memory here: " + memory);
        bytes_ = bytes;
        control_ =
            static_cast<Control*>(peers::map_shared(place_.where, kControlBytes + 2 * bytes * place_.ranks));
        return {send_of(place_.rank), recv_of(place_.rank)};
    }

    std::function<void()> prepare(const Call& call) override {
        if (call.algorithm == "slots") return through_slots(call);
        return in_one_pass(call, call.algorithm == "stream");
    }

  private:
    float* buffer(int index) {
        return reinterpret_cast<float*>(reinterpret_cast<char*>(control_) + kControlBytes + index * bytes_);
    }
    float* send_of(int rank) { return buffer(2 * rank); }
    float* recv_of(int rank) { return buffer(2 * rank + 1); }

    // ---- pass and stream ----------------------------------------------------------------------

    void meet() {
        control_->flags[place_.rank].value.store(++meetings_, std::memory_order_release);
        for (int rank = 0; rank < place_.ranks; ++rank)
            peers::spin_until(
                [&] { return control_->flags[rank].value.load(std::memory_order_acquire) >= meetings_; },
                crowded_);
    }

    // Returns this rank's share, in whole cache lines.
    std::pair<std::size_t, std::size_t> share(std::size_t count) const {
        const std::size_t part = round_up((count + place_.ranks - 1) / place_.ranks, 64 / sizeof(float));
        const std::size_t begin = std::min(count, part * place_.rank);
        return {begin, std::min(part, count - begin)};
    }

    // Each rank copies its own piece from every rank.
    std::function<void()> exchange_in_one_pass(const Call& call, bool streaming) {
        return [this, call, streaming] {
            meet();
            for (int step = 0; step < place_.ranks; ++step) {
                const int rank = (place_.rank + step) % place_.ranks;
                const Sources sources{send_of(rank) + place_.rank * call.count};
                const Targets targets{call.recv + rank * call.count};
                const bool aligned = reinterpret_cast<std::uintptr_t>(targets[0]) % kVectorBytes == 0;
                if (streaming && aligned)
                    sum_into<true>(sources, targets, call.count);
                else
                    sum_into<false>(sources, targets, call.count);
            }
            meet();
        };
    }

    std::function<void()> in_one_pass(const Call& call, bool streaming) {
        const Contract& contract = peers::contract_in_table(call);
        if (contract.exchanges()) return exchange_in_one_pass(call, streaming);
        // The part of the data that this rank moves.
        const auto [begin, count] =
            contract.is_by_rank() ? std::pair(place_.rank * call.count, call.count) : share(call.count);
        Sources sources;
        Targets targets;
        for (int rank = 0; rank < place_.ranks; ++rank) {
            const bool is_root = rank == peers::kRoot, is_mine = rank == place_.rank;
            const bool gives = contract.combines() || (contract.gathers() ? is_mine : is_root);
            if (gives) sources.push_back(send_of(rank) + (contract.gathers() ? 0 : begin));
            const Share result = contract.output.of(is_root);
            const bool has_it = call.collective == Collective::broadcast && is_root;
            if (result == Share::whole && !has_it) targets.push_back(recv_of(rank) + begin);
            if (result == Share::own && is_mine) targets.push_back(recv_of(rank));
        }
        // Short parts of gathered data may begin in the middle of a vector.
        const bool aligned = reinterpret_cast<std::uintptr_t>(targets[0]) % kVectorBytes == 0;
        return [this, sources, targets, count = count, streaming = streaming && aligned] {
            meet();
            streaming ? sum_into<true>(sources, targets, count) : sum_into<false>(sources, targets, count);
            meet();
        };
    }

    // ---- slots --------------------------------------------------------------------------------

    Slot& slot(int rank) { return control_->slots[sequence_ % 2][rank]; }

    void wait_for(int rank, std::uint64_t sequence) {
        peers::spin_until([&] { return slot(rank).sequence.load(std::memory_order_acquire) >= sequence; },
                          crowded_);
    }

    void publish(const float* data, std::size_t count) {
        std::memcpy(slot(place_.rank).data, data, count * sizeof(float));
        slot(place_.rank).sequence.store(sequence_, std::memory_order_release);
    }

    std::function<void()> through_slots(const Call& call) {
        const Contract& contract = peers::contract_in_table(call);
        const bool scatters = contract.scatters() || contract.exchanges();
        if (call.count * (scatters ? place_.ranks : 1) > kSlotFloats)
            throw std::runtime_error("too much for a slot");
        if (contract.spreads()) return [this, call, scatters] { from_root_through_slots(call, scatters); };
        if (contract.concentrates()) return [this, call] { to_root_through_slots(call); };
        return [this, call, sources = Sources(place_.ranks), targets = Targets{call.recv}, scatters,
                combines = contract.combines()]() mutable {
            // No rank can be two operations ahead: to end an operation it needs the slots of all others for
            // that operation.
            ++sequence_;
            publish(call.send, call.count * (scatters ? place_.ranks : 1));
            for (int rank = 0; rank < place_.ranks; ++rank) {
                wait_for(rank, sequence_);
                sources[rank] = slot(rank).data + (scatters ? place_.rank * call.count : 0);
                if (!combines)
                    std::memcpy(call.recv + rank * call.count, sources[rank], call.count * sizeof(float));
            }
            if (combines) sum_into<false>(sources, targets, call.count);
        };
    }

    // No rank waits for the readers at the end of an operation, so a slot may still be in use when it is
    // needed again.
    void await_reader(int rank) {
        if (sequence_ > 2) wait_for(rank, sequence_ - 2);
    }

    void from_root_through_slots(const Call& call, bool scatters) {
        ++sequence_;
        const std::size_t begin = scatters ? place_.rank * call.count : 0;
        if (place_.rank == peers::kRoot) {
            for (int rank = 0; rank < place_.ranks; ++rank) await_reader(rank);
            publish(call.send, call.count * (scatters ? place_.ranks : 1));
            if (scatters) std::memcpy(call.recv, call.send + begin, call.count * sizeof(float));
            return;
        }
        wait_for(peers::kRoot, sequence_);
        std::memcpy(call.recv, slot(peers::kRoot).data + begin, call.count * sizeof(float));
        publish(call.recv, 0);
    }

    void to_root_through_slots(const Call& call) {
        ++sequence_;
        if (place_.rank != peers::kRoot) {
            await_reader(peers::kRoot);
            return publish(call.send, call.count);
        }
        const bool combines = peers::contract_in_table(call).combines();
        parts_.assign(place_.ranks, call.send);
        for (int rank = 0; rank < place_.ranks; ++rank) {
            if (rank != place_.rank) {
                wait_for(rank, sequence_);
                parts_[rank] = slot(rank).data;
            }
            if (!combines)
                std::memcpy(call.recv + rank * call.count, parts_[rank], call.count * sizeof(float));
        }
        if (combines) sum_into<false>(parts_, {call.recv}, call.count);
        publish(call.send, 0);
    }

    peers::Place place_{};
    bool crowded_ = false;
    Control* control_ = nullptr;
    std::size_t bytes_ = 0;
    std::uint64_t meetings_ = 0;
    std::uint64_t sequence_ = 0;
    Sources parts_;  // of the current operation
};

}  // namespace

int main(int argc, char** argv) {
    Roofline library;
    return peers::drive(library, argc, argv);
}
