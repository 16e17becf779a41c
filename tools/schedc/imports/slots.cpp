#include "tools/schedc/imports/flow.hpp"

namespace hocket::tools::imports {

using dsl::Collective;

Slots::Slots(const Algorithm& algorithm)
    : chunks_(algorithm.chunks), piece_(algorithm.chunks_of_piece), ranks_(algorithm.ranks()) {
    const Collective collective = algorithm.collective;
    const bool input_is_piece = collective == Collective::all_gather || collective == Collective::gather;
    const bool output_is_piece =
        collective == Collective::reduce_scatter || collective == Collective::scatter;
    const bool exchanges = collective == Collective::all_to_all;
    by_rank_ = input_is_piece || output_is_piece || exchanges;
    has_second_ = exchanges && !algorithm.in_place;
    int scratch = fixed_count();
    for (int gpu = 0; gpu < ranks_; ++gpu) {
        const Gpu& one = algorithm.gpus[gpu];
        // In place, a file may number the piece as a part of the whole buffer.
        const auto begin = [&](bool is_piece, Buffer buffer) {
            const bool is_whole = algorithm.in_place && one.chunks[static_cast<int>(buffer)] == chunks_;
            return is_piece && !is_whole ? gpu * piece_ : 0;
        };
        input_begin_.push_back(fixed(gpu, false, begin(input_is_piece, Buffer::input)));
        output_begin_.push_back(fixed(gpu, has_second_, begin(output_is_piece, Buffer::output)));
        scratch_begin_.push_back(scratch);
        scratch += one.chunks[static_cast<int>(Buffer::scratch)];
    }
    scratch_begin_.push_back(scratch);
}

int Slots::of(int gpu, const Chunks& chunks) const {
    const std::vector<int>& begins = chunks.buffer == Buffer::input    ? input_begin_
                                     : chunks.buffer == Buffer::output ? output_begin_
                                                                       : scratch_begin_;
    return begins[gpu] + chunks.offset;
}

}  // namespace hocket::tools::imports
