// The transfers of a round, merged into slices, and as text.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/schedc/imports/rounds.hpp"

namespace hocket::tools::imports {

inline constexpr int whole = -1;

// One transfer of a text: chunks [chunk, chunk + length), or the same part of each of them.
struct Line {
    int from = 0, to = 0;
    bool combines = false, source_in_second = false, target_in_second = false;
    int part = whole;
    int source = 0, target = 0, length = 1;
    Place sender, receiver;  // of the first chunk
    bool has_more = false;   // other steps move the rest
};

// How chunks of the file are chunks of x: as many of them make up one.
struct Division {
    int ranks = 0;                  // chunks of x
    int parts = 1;                  // parts of each chunk of x, or of x as a whole,
    bool is_whole_divided = false;  // where the file's chunks belong to no rank
    bool is_cyclic = false;         // neighbours in the file are the same part of neighbours in x

    int chunk_of(int chunk) const { return is_cyclic ? chunk % ranks : chunk / parts; }
    int part_of(int chunk) const { return is_cyclic ? chunk / ranks : chunk % parts; }
};

// With length 1. Chunks of x all of whose parts go the same way are one line.
std::vector<Line> chunk_lines(const Round& round, const Slots& slots, const Division& division);

// Neighbours that go the same way become slices.
std::vector<Line> merged(std::vector<Line> lines, const Division& division);

// The same lines as each rank sees them, for rank 0: if all ranks do alike. Chunks of ranks and `to` are then
// relative to the rank. Nothing if they do not.
std::optional<std::vector<Line>> alike(const std::vector<Line>& lines, const Division& division);

}  // namespace hocket::tools::imports
