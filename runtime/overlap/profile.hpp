// The planner's input: how long each layer of a model communicates and computes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/overlap/cost_line.hpp"

namespace hocket::overlap {

struct Layer {
    std::string name;
    double transfer = 0, compute = 0;  // seconds
    std::optional<std::uint64_t> bytes;
    // Seconds of the forward pass; `compute` is then the backward pass. Set in all layers or in none.
    std::optional<double> forward = {};
    bool operator==(const Layer&) const = default;
};

struct Profile {
    double startup = 0;         // seconds that each communication takes in addition to its transfers
    std::vector<Layer> layers;  // the model's first one first, in both directions
    // The cost of pulls that follow each other in the forward pass, in separate batches.
    std::optional<CostLine> pull = {};
    // Plans do not change these, so planning ignores them.
    double before = 0;   // seconds of an iteration outside the backward pass: the forward pass, and the rest
    double latency = 0;  // additional seconds of a communication that begins while none is under way
    // How much longer layers compute during communication, as a share: communication also takes processors
    // and memory.
    double contention = 0;
    bool operator==(const Profile&) const = default;
};

// Limits of a profile. Within these no sum overflows.
inline constexpr std::size_t most_layers = 20'000;
inline constexpr double longest_time = 1e9;  // seconds
inline constexpr double largest_contention = 1000;
inline constexpr std::uint64_t most_bytes = std::uint64_t{1} << 48;

// Returns true for finite times from 0 to longest_time.
bool is_time(double seconds);
// Returns true for valid layer names: one line of UTF-8, up to 256 bytes.
bool is_name(const std::string& name);
// Describes for messages what is_time() accepts: "seconds, from 0 to 1e9".
std::string time_words();

// Throws Error(invalid_argument) that says what is wrong, at which path of the JSON text, and what is
// expected: "layers[3].transfer is -1; it must be seconds, from 0 to 1e9". Ignores unknown members.
Profile parse_profile(const std::string& text);

// Returns a text from which parse_profile() makes this profile.
std::string json_of(const Profile& profile);

// Throws Error(invalid_argument) as above, with the file's name, and Error(io) if it cannot be read.
Profile read_profile(const std::string& file);

}  // namespace hocket::overlap
