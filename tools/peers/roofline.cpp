// The roofline: collectives written by hand for ranks that share all of their memory, as a limit to compare
// with. WHERE is the file that all ranks map: flags, slots, and every rank's buffers. compare-peers takes for
// each size the fastest of three ways:
//   pass    everyone says that it is there; each rank then takes its share of the elements, reads it from all
//   its
//           sources and writes it to all its targets in one pass; everyone says that it is done
//   stream  the same with stores that go around the caches
//   slots   each rank copies its input into its slot and reads the others' slots: one synchronisation
#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <tuple>

#include "driver.hpp"

namespace {

using peers::Buffers;
using peers::Call;
using peers::Collective;

constexpr int kMostRanks = 32;
constexpr std::size_t kSlotFloats = 16 * 1024;

struct Flag {
    alignas(128) std::atomic<std::uint64_t> value;
};

// A short input shares the sequence number's cache line: one line moves, not two.
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

// Around the caches; to is aligned to the vector.
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

// Every target[i] = the sum of all source[i], in one pass. The numbers of sources and targets are known to
// the compiler where they are not 0.
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

    // Mapped at once, so that every rank knows where every other one's buffers are.
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

    // ---- pass and stream
    // -----------------------------------------------------------------------------------------

    void meet() {
        control_->flags[place_.rank].value.store(++meetings_, std::memory_order_release);
        for (int rank = 0; rank < place_.ranks; ++rank)
            peers::spin_until(
                [&] { return control_->flags[rank].value.load(std::memory_order_acquire) >= meetings_; },
                crowded_);
    }

    // This rank's share: whole cache lines.
    std::pair<std::size_t, std::size_t> share(std::size_t count) const {
        const std::size_t part = round_up((count + place_.ranks - 1) / place_.ranks, 64 / sizeof(float));
        const std::size_t begin = std::min(count, part * place_.rank);
        return {begin, std::min(part, count - begin)};
    }

    std::function<void()> in_one_pass(const Call& call, bool streaming) {
        Sources sources;
        Targets targets;
        std::size_t count = call.count;
        if (call.collective == Collective::all_reduce) {
            std::size_t begin;
            std::tie(begin, count) = share(call.count);
            for (int rank = 0; rank < place_.ranks; ++rank) {
                sources.push_back(send_of(rank) + begin);
                targets.push_back(recv_of(rank) + begin);
            }
        } else if (call.collective == Collective::reduce_scatter) {
            for (int rank = 0; rank < place_.ranks; ++rank)
                sources.push_back(send_of(rank) + place_.rank * count);
            targets.push_back(call.recv);
        } else if (call.collective == Collective::all_gather) {
            sources.push_back(call.send);
            for (int rank = 0; rank < place_.ranks; ++rank)
                targets.push_back(recv_of(rank) + place_.rank * count);
        } else {
            std::size_t begin;
            std::tie(begin, count) = share(call.count);
            sources.push_back(send_of(0) + begin);
            for (int rank = 1; rank < place_.ranks; ++rank) targets.push_back(recv_of(rank) + begin);
        }
        // Short parts of an all_gather start in the middle of a vector.
        const bool aligned = reinterpret_cast<std::uintptr_t>(targets[0]) % kVectorBytes == 0;
        return [this, sources, targets, count, streaming = streaming && aligned] {
            meet();
            streaming ? sum_into<true>(sources, targets, count) : sum_into<false>(sources, targets, count);
            meet();
        };
    }

    // ---- slots
    // ---------------------------------------------------------------------------------------------------

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
        const bool scatters = call.collective == Collective::reduce_scatter;
        if (call.count * (scatters ? place_.ranks : 1) > kSlotFloats)
            throw std::runtime_error("too much for a slot");
        if (call.collective == Collective::broadcast) return [this, call] { broadcast_through_slots(call); };
        return
            [this, call, sources = Sources(place_.ranks), targets = Targets{call.recv}, scatters]() mutable {
                // No rank can be two operations ahead: to end one it needs all the others' slots of that one.
                ++sequence_;
                publish(call.send, call.count * (scatters ? place_.ranks : 1));
                for (int rank = 0; rank < place_.ranks; ++rank) {
                    wait_for(rank, sequence_);
                    sources[rank] = slot(rank).data + (scatters ? place_.rank * call.count : 0);
                    if (call.collective == Collective::all_gather)
                        std::memcpy(call.recv + rank * call.count, sources[rank], call.count * sizeof(float));
                }
                if (call.collective != Collective::all_gather) sum_into<false>(sources, targets, call.count);
            };
    }

    void broadcast_through_slots(const Call& call) {
        ++sequence_;
        if (place_.rank == 0) {
            // Nobody waits for the readers at the end, so a slot may still be in use when it is needed again.
            for (int rank = 1; rank < place_.ranks && sequence_ > 2; ++rank) wait_for(rank, sequence_ - 2);
            return publish(call.send, call.count);
        }
        wait_for(0, sequence_);
        std::memcpy(call.recv, slot(0).data, call.count * sizeof(float));
        publish(call.recv, 0);
    }

    peers::Place place_{};
    bool crowded_ = false;
    Control* control_ = nullptr;
    std::size_t bytes_ = 0;
    std::uint64_t meetings_ = 0;
    std::uint64_t sequence_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
    Roofline library;
    return peers::drive(library, argc, argv);
}
