#include "tools/schedc/imports/divide.hpp"

#include <fmt/format.h>

#include <optional>

namespace hocket::tools::imports {
namespace {

using dsl::Collective;

constexpr std::int64_t most_places = 1 << 22;  // chunks of all buffers of all GPUs

bool is_input_piece(Collective collective) {
    return collective == Collective::all_gather || collective == Collective::gather;
}
bool is_output_piece(Collective collective) {
    return collective == Collective::reduce_scatter || collective == Collective::scatter;
}

int said(const Gpu& gpu, Buffer buffer) {
    return gpu.chunks[static_cast<int>(buffer)];
}

std::string_view field(const Algorithm& algorithm, Buffer buffer) {
    return algorithm.words->chunk_fields[static_cast<int>(buffer)];
}

// The number that all GPUs give, except for those that give 0. Nothing if all give 0.
std::optional<int> common(const Algorithm& algorithm, Buffer buffer) {
    int found = 0, first = 0;
    for (int id = 0; id < algorithm.ranks(); ++id) {
        const int one = said(algorithm.gpus[id], buffer);
        if (found > 0 && one > 0 && one != found) {
            const std::string_view name = field(algorithm, buffer);
            refuse(algorithm, {id, -1, -1},
                   fmt::format("{} is {}, but {} of gpu {}", name, one, found, first),
                   "all ranks of a collective have buffers of the same size");
        }
        if (found == 0 && one > 0) found = one, first = id;
    }
    return found > 0 ? std::optional(found) : std::nullopt;
}

void check_sizes(const Algorithm& algorithm) {
    if (algorithm.chunks > most_chunks)
        refuse(algorithm, {},
               fmt::format("the buffer has {} chunks, more than {}", algorithm.chunks, most_chunks), larger);
    std::int64_t places = std::int64_t{2} * algorithm.ranks() * algorithm.chunks;
    for (const Gpu& gpu : algorithm.gpus) places += said(gpu, Buffer::scratch);
    if (places > most_places)
        refuse(algorithm, {}, fmt::format("all buffers have {} chunks, more than {}", places, most_places),
               larger);
}

}  // namespace

void divide(Algorithm& algorithm) {
    const int ranks = algorithm.ranks();
    const bool input_is_piece = is_input_piece(algorithm.collective);
    const bool output_is_piece = is_output_piece(algorithm.collective);
    const bool by_rank = input_is_piece || output_is_piece || algorithm.collective == Collective::all_to_all;
    const std::optional<int> input = common(algorithm, Buffer::input);
    const std::optional<int> output = common(algorithm, Buffer::output);
    // In place, files say either how large the piece is, or how large all of the buffer is.
    const auto in_all = [&](std::optional<int> one, bool is_piece, std::optional<int> other) {
        if (!one || !is_piece || (algorithm.in_place && one == other)) return one;
        return std::optional(*one * ranks);
    };
    const std::optional<int> of_input = in_all(input, input_is_piece, output);
    const std::optional<int> of_output = in_all(output, output_is_piece, input);
    const std::string_view i = field(algorithm, Buffer::input), o = field(algorithm, Buffer::output);
    if (!of_input && !of_output)
        refuse(algorithm, {}, fmt::format("no GPU has chunks: all {} and {} are 0", i, o),
               fmt::format("{} and {} say into how many chunks the buffers are divided", i, o));
    if (of_input && of_output && of_input != of_output)
        refuse(algorithm, {},
               fmt::format("{}=\"{}\" and {}=\"{}\" do not fit together for this collective on {} GPUs", i,
                           *input, o, *output, ranks),
               "input and output must have chunks of the same size");
    algorithm.chunks = of_input ? *of_input : *of_output;
    check_sizes(algorithm);
    if (algorithm.chunks % ranks == 0)
        algorithm.chunks_of_piece = algorithm.chunks / ranks;
    else if (by_rank)
        refuse(algorithm, {},
               fmt::format("the buffer has {} chunks, which {} GPUs cannot divide", algorithm.chunks, ranks),
               "this collective needs the same number of chunks for each GPU");
}

int limit_of(const Algorithm& algorithm, int gpu, Buffer buffer) {
    const int own = said(algorithm.gpus[gpu], buffer);
    if (buffer == Buffer::scratch || own > 0) return own;
    const bool is_piece = buffer == Buffer::input ? is_input_piece(algorithm.collective)
                                                  : is_output_piece(algorithm.collective);
    return is_piece ? algorithm.chunks_of_piece : algorithm.chunks;
}

void check_range(const Algorithm& algorithm, const Place& place, int gpu, const Chunks& chunks, int count) {
    const int most = limit_of(algorithm, gpu, chunks.buffer);
    if (chunks.offset >= 0 && count <= most && chunks.offset <= most - count) return;
    const std::string whose = gpu == place.gpu ? "" : fmt::format(" of gpu {}", gpu);
    refuse(algorithm, place,
           fmt::format("{} is outside of the buffer{}, which has {} chunk{}", text_of(chunks, count), whose,
                       most, most == 1 ? "" : "s"),
           fmt::format("make {} of the GPU larger, or the chunk's number or count smaller",
                       field(algorithm, chunks.buffer)));
}

}  // namespace hocket::tools::imports
