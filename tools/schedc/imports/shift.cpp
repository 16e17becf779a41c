#include "tools/schedc/imports/shift.hpp"

#include <fmt/format.h>

namespace hocket::tools::imports {

void find_shift(Algorithm& algorithm, const Flow& flow) {
    const int ranks = algorithm.ranks();
    for (const Version& result : flow.versions) {
        if (!result.is_result) continue;
        const Version* origin = &result;
        while (!origin->writers.empty()) {
            const Move& last = flow.moves[origin->writers[0]];
            if (last.combines)
                refuse(algorithm, last.receiver, "it combines data, which no sending and receiving does",
                       "name the algorithm's collective");
            origin = &flow.versions[last.source];
        }
        const int to = flow.slots.gpu_of(result.slot), from = flow.slots.gpu_of(origin->slot);
        const int shift = (to - from + ranks) % ranks;
        if (shift == 0 || (algorithm.shift > 0 && algorithm.shift != shift))
            refuse(algorithm, {to, -1, -1},
                   fmt::format(
                       "it gets {} of gpu {}: all GPUs must get the input of the one equally many numbers "
                       "before them",
                       chunk_text(algorithm, flow.slots.chunk_of(origin->slot)), from),
                   "name the algorithm's collective, or write the schedule with a collective of its own");
        algorithm.shift = shift;
    }
}

}  // namespace hocket::tools::imports
