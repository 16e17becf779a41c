// An algorithm of another library, as far as all formats have it: buffers in chunks, and who acts in which
// order.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dsl/base/collective.hpp"

namespace hocket::tools::imports {

enum class Buffer : std::uint8_t { input, output, scratch };

struct Chunks {
    Buffer buffer = Buffer::input;
    int offset = 0;
};

// Where something stands in the file. -1: left out.
struct Place {
    int gpu = -1, block = -1, step = -1;
    auto operator<=>(const Place&) const = default;
};

// A step of a threadblock, for orders and for texts.
struct Step {
    int number = 0, inner = -1;                       // as the file counts; inner: in a loop
    int dependency_block = -1, dependency_step = -1;  // of the same GPU; -1: none
};

struct Gpu {
    int chunks[3] = {};  // of each buffer
    std::vector<std::vector<Step>> blocks;
};

// What a format calls things, and what its users can do.
struct Words {
    std::string_view origin;                   // the library
    std::string_view step;                     // "step", "op"
    std::string_view chunk_fields[3];          // the numbers of chunks of each buffer
    std::string_view reads_nothing;            // a chunk is read that holds nothing
    std::string_view writes_no_result;         // in place
    std::string_view copies_no_result;         // out of place
    std::string_view needs_output_alone;       // input and output differ
    std::string_view has_no_scratch;           // a scratch chunk has no place
    std::string (*order)(const Place& other);  // how to wait for it
};

struct Algorithm {
    std::string path, name;
    const Words* words = nullptr;
    dsl::Collective collective = dsl::Collective::all_reduce;
    bool in_place = false;
    int root = 0;
    // Each GPU gets the input of the one so many numbers before it; the collective then says how chunks lie.
    // 0: the collective itself.
    int shift = 0;
    // Into how many chunks x is divided, and each rank's piece of it; 0 pieces: the chunks belong to no rank.
    int chunks = 0, chunks_of_piece = 0;
    // So many chunks here are so many of the file's.
    int chunks_of_one = 1, parts_of_one = 1;
    std::vector<std::string> notes;  // sentences about what the schedule leaves out
    std::vector<Gpu> gpus;

    int ranks() const { return static_cast<int>(gpus.size()); }
};

// More than any machine that these formats are for has. They keep the time and the memory of an import small.
inline constexpr int most_gpus = 1024, most_blocks = 4096, most_steps = 65536, most_chunks = 65536;
inline constexpr std::int64_t most_moved = 1 << 18;               // chunks, by all steps
inline constexpr std::size_t most_clocks = std::size_t{1} << 25;  // numbers in all clocks
inline constexpr const char* larger = "larger algorithms are not imported";

// "gpu 0 tb 1 step 2", short for comments, and ", threadblock 1" in errors.
std::string short_text(const Algorithm& algorithm, const Place& place);

// "step 2", "op 2.1"
std::string step_text(const Algorithm& algorithm, const Place& place);

// "chunk 2", as the file counts, and "part 1 of 2 of chunk 2"
std::string chunk_text(const Algorithm& algorithm, int chunk);

// "i[3]", "s[0 ..< 4]"
std::string text_of(const Chunks& chunks, int count);

// What a file says is not printed whole, whatever it is.
std::string excerpt(std::string_view text);

// The collective that a file names, by one of the names that the formats have for it.
dsl::Collective collective_of(const Algorithm& algorithm, std::string_view field, std::string_view name);

// Throws DiagnosticError: "FILE: gpu 0, threadblock 1, step 2: message".
[[noreturn]] void refuse(const Algorithm& algorithm, const Place& place, const std::string& message,
                         const std::string& hint);

}  // namespace hocket::tools::imports
