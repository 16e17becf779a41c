#include "runtime/overlap/pipeline.hpp"

#include <algorithm>

namespace hocket::overlap {
namespace {

// `busy`: the time at which the link or the processor has finished its work so far.
void communicate(BatchTimes& batch, const Sums& sums, double& busy, double ready) {
    batch.startup_begin = std::max(busy, ready);
    batch.transfer_begin = batch.startup_begin + sums.startup();
    busy = batch.transfer_end = batch.transfer_begin + sums.transfer(batch.begin, batch.end);
}

void compute(BatchTimes& batch, const Sums& sums, double& busy, double ready) {
    batch.compute_begin = std::max(busy, ready);
    busy = batch.compute_end = batch.compute_begin + sums.computation(batch.begin, batch.end);
}

}  // namespace

double seconds_of(const Sums& sums, const Batches& batches) {
    double seconds = 0;
    for (std::size_t index = batches.size(); index-- > 0;) {
        const std::size_t begin = begin_of(batches, index);
        seconds = sums.communication(begin, batches[index]) +
                  std::max(sums.computation(begin, sums.layers()), seconds);
    }
    return seconds;
}

Timeline simulate(const Sums& sums, const Batches& batches, Direction direction) {
    Timeline timeline;
    double link = 0, processor = 0;
    for (std::size_t turn = 0; turn < batches.size(); ++turn) {
        const std::size_t index = direction == Direction::forward ? turn : batches.size() - 1 - turn;
        BatchTimes& batch = timeline.batches.emplace_back();
        batch.begin = begin_of(batches, index);
        batch.end = batches[index];
        if (direction == Direction::forward) {
            communicate(batch, sums, link, 0);
            compute(batch, sums, processor, batch.transfer_end);
        } else {
            compute(batch, sums, processor, 0);
            communicate(batch, sums, link, batch.compute_end);
        }
        timeline.communication += sums.communication(batch.begin, batch.end);
        timeline.computation += sums.computation(batch.begin, batch.end);
    }
    timeline.seconds = std::max(link, processor);
    // The link and the processor never wait at the same time: one of them is busy from the beginning to the
    // end of its work, and then the other one, without a pause.
    timeline.overlap = std::max(0.0, timeline.communication + timeline.computation - timeline.seconds);
    return timeline;
}

}  // namespace hocket::overlap
