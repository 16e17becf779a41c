// Enqueues the kernels of a selection.
#include <algorithm>

#include "runtime/compute/kernels/cpu/paper_topk.hpp"
#include "runtime/compute/kernels/cuda/emit.cuh"
#include "runtime/compute/kernels/cuda/finish.cuh"
#include "runtime/compute/kernels/cuda/kernels.hpp"
#include "runtime/compute/kernels/cuda/paper.cuh"
#include "runtime/compute/kernels/cuda/sample.cuh"
#include "runtime/compute/kernels/cuda/take_out.cuh"

namespace hocket::kernels::cuda {
namespace {

// Returns the slots of all ranges. Those of a range hold twice its share of k, and one in 64 of its elements:
// the layers of a model differ. Not smaller for more elements or a larger k, so one workspace serves all
// smaller calls.
std::uint64_t room_for(std::uint64_t count, std::uint64_t k, std::uint64_t ranges) {
    return 2 * std::min(k, most_taken_of(count)) + count / 64 + warp_lanes * ranges;
}

// The layout of a workspace, in bytes. Everything before `cleared` is initially 0.
struct Layout {
    std::uint64_t written;
    std::uint64_t cleared;
    std::uint64_t sums, hits, indices, words, end;
    std::uint64_t room;  // elements

    Layout(std::uint64_t word_size, std::uint64_t count, std::uint64_t k) {
        const std::uint64_t ranges = most_ranges_of(word_size, count);
        room = room_for(count, k, ranges);
        std::uint64_t at = sizeof(State);
        const auto place = [&](std::uint64_t bytes) {
            const std::uint64_t begin = (at + 255) / 256 * 256;
            at = begin + bytes;
            return begin;
        };
        written = place(8 * ((ranges + block_warps - 1) / block_warps));
        cleared = at;
        sums = place(8 * ((count + paper_chunk - 1) / paper_chunk));
        hits = place(4 * ranges);
        indices = place(4 * room);
        words = place(word_size * room);
        end = at;
    }
};

std::uint64_t workspace_of(std::uint64_t word_size, std::uint64_t count, std::uint64_t k) {
    return count == 0 ? 0 : Layout(word_size, count, std::min(k, count)).end;
}

bool is_valid(const Selection& selection, std::uint64_t word_size, const Workspace& workspace) {
    return can_select(selection.type) && selection.count <= most_selectable &&
           workspace.bytes >= workspace_of(word_size, selection.count, selection.k);
}

// One selection. Elements: the elements to select from. Stored: the type of the words that they leave.
template <typename Elements, typename Stored, typename Output>
class Launches {
    using Word = typename Elements::Word;

  public:
    Launches(const Selection& selection, const Elements& elements, const Word* words, const Output& output,
             void* workspace, void* stream)
        : selection_(selection),
          elements_(elements),
          output_(output),
          stream_(stream),
          count_(selection.count),
          k_(std::min(selection.k, selection.count)),
          layout_(sizeof(Word), count_, k_),
          memory_(static_cast<std::byte*>(workspace)),
          state_(reinterpret_cast<State*>(memory_)),
          candidates_{words, ranges_of(words, count_, layout_.room), at<std::uint32_t>(layout_.hits),
                      at<Word>(layout_.words), at<std::uint32_t>(layout_.indices)} {}

    int enqueue(bool skip_non_finite) {
        if (k_ == 0)
            if (const int error = clear_results()) return error;
        if (count_ == 0 || (k_ == 0 && !Elements::calculates)) return ok;
        if (const int error = clear(memory_, layout_.cleared, stream_)) return error;
        if constexpr (Elements::calculates)
            if (skip_non_finite)
                launch<look_for_non_finite<Elements>>(blocks_for(count_, 8 * block_threads), block_threads,
                                                      stream_, elements_, count_, state_, non_finite());
        if (k_ == 0 || k_ == count_ || selection_.thresholds > 0)
            calculate();
        else
            take_out_few();
        if (k_ > 0) select();
        if constexpr (Elements::calculates)
            if (!skip_non_finite)
                launch<drop_non_finite>(blocks_for(count_, 8 * block_threads), block_threads, stream_,
                                        output_.residual, count_, k_ == 0, non_finite());
        return launch_error();
    }

  private:
    template <typename Type>
    Type* at(std::uint64_t offset) const {
        return reinterpret_cast<Type*>(memory_ + offset);
    }

    // Kernels note here that an element is not finite. If some are selected, the last kernel passes it on to
    // the caller.
    std::uint32_t* non_finite() const {
        return k_ == 0 && selection_.non_finite != nullptr ? selection_.non_finite : &state_->non_finite;
    }

    // The results if nothing is selected.
    int clear_results() {
        if (const int error = clear(selection_.selected, sizeof *selection_.selected, stream_)) return error;
        if (selection_.non_finite == nullptr) return ok;
        return clear(selection_.non_finite, sizeof *selection_.non_finite, stream_);
    }

    void calculate() {
        if constexpr (Elements::calculates)
            launch<calculate_sums<Elements>>(blocks_for(count_, 8 * block_threads), block_threads, stream_,
                                             elements_, count_, state_);
    }

    void take_out_few() {
        const SamplePlan plan = plan_sample(count_, k_);
        if (plan.sampled == 0) return calculate();
        launch<sample_floor<Elements>>(sample_blocks(plan), block_threads, stream_, elements_, plan, state_);
        launch<take_out<Elements>>(blocks_of(candidates_.ranges), block_threads, stream_, elements_,
                                   candidates_, k_, state_);
    }

    void select() {
        if (k_ < count_ && selection_.thresholds > 0) bisect_thresholds();
        launch<finish<Word, Output>>(blocks_of(candidates_.ranges), block_threads, stream_, candidates_, k_,
                                     selection_.draw, output_, at<std::uint64_t>(layout_.written), state_,
                                     selection_.selected, selection_.non_finite);
    }

    void bisect_thresholds() {
        const std::uint32_t infinity =
            infinity_of<Word>(std::is_same_v<Stored, Float16>    ? DataType::float16
                              : std::is_same_v<Stored, BFloat16> ? DataType::bfloat16
                                                                 : DataType::float32);
        const std::uint64_t of_block = paper_chunk * (block_threads / paper_lanes);
        double* const sums = at<double>(layout_.sums);
        launch<sum_magnitudes<Stored>>(blocks_for(count_, of_block), block_threads, stream_, candidates_.all,
                                       count_, infinity, sums, state_);
        launch<find_mean<Stored>>(1, warp_lanes, stream_, sums, count_, k_, infinity, state_);
        for (std::uint64_t round = 0; round <= selection_.thresholds; ++round)
            launch<bisect<Stored>>(blocks_for(count_, 8 * block_threads), block_threads, stream_,
                                   candidates_.all, count_, k_, round == 0, infinity, state_);
    }

    const Selection& selection_;
    const Elements elements_;
    const Output output_;
    void* const stream_;
    const std::uint64_t count_, k_;
    const Layout layout_;
    std::byte* const memory_;
    State* const state_;
    const Candidates<Word> candidates_;
};

}  // namespace

std::uint64_t hocket_cuda_topk_workspace(DataType type, std::uint64_t count, std::uint64_t k) {
    return workspace_of(element_size(type), count, k);
}

int hocket_cuda_topk(const Selection* selection, const Workspace* workspace, void* stream) {
    if (!is_valid(*selection, element_size(selection->type), *workspace)) return invalid_value;
    return with_selectable(selection->type, [&]<typename Stored>(const Stored*) {
        using Word = WordOf<Stored>;
        const auto* words = static_cast<const Word*>(selection->elements);
        const PlainOutput<Word> output{static_cast<Word*>(selection->values), selection->indices,
                                       infinity_of<Word>(selection->type)};
        return Launches<PlainElements<Word>, Stored, PlainOutput<Word>>(*selection, {words}, words, output,
                                                                        workspace->memory, stream)
            .enqueue(false);
    });
}

int hocket_cuda_topk_with_feedback(const Selection* selection, const Feedback* feedback,
                                   const Workspace* workspace, void* stream) {
    if (!is_valid(*selection, sizeof(float), *workspace) || !can_select(feedback->sent_as))
        return invalid_value;
    return with_selectable(selection->type, [&]<typename Stored>(const Stored*) {
        const Sums<Stored> sums{static_cast<const Stored*>(selection->elements), feedback->residual,
                                feedback->decay, feedback->scale};
        const SettledOutput output{selection->values, selection->indices, feedback->residual,
                                   feedback->sent_as};
        const auto* words = reinterpret_cast<const std::uint32_t*>(feedback->residual);
        return Launches<Sums<Stored>, float, SettledOutput>(*selection, sums, words, output,
                                                            workspace->memory, stream)
            .enqueue(feedback->skip_non_finite);
    });
}

}  // namespace hocket::kernels::cuda
