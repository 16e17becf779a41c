// What the planner of overlap starts from: how long each layer of a model communicates and computes.
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
    // Seconds of the forward pass, where `compute` is the backward pass's. All layers have it, or none.
    std::optional<double> forward = {};
    bool operator==(const Layer&) const = default;
};

struct Profile {
    double startup = 0;         // seconds that each communication takes besides its transfers
    std::vector<Layer> layers;  // the model's first one first, in both directions
    // What pulls cost that follow each other in the forward pass, by themselves.
    std::optional<CostLine> pull = {};
    // No plan changes these, so plans are made without them.
    double before = 0;   // seconds of an iteration outside the backward pass: the forward pass, and the rest
    double latency = 0;  // seconds that a communication takes besides, if none is under way when it begins
    // How much longer layers compute while something communicates, as a share: communication takes processors
    // and memory, too.
    double contention = 0;
    bool operator==(const Profile&) const = default;
};

// What a profile may hold. Within these bounds no sum overflows.
inline constexpr std::size_t most_layers = 20'000;
inline constexpr double longest_time = 1e9;  // seconds
inline constexpr double largest_contention = 1000;
inline constexpr std::uint64_t most_bytes = std::uint64_t{1} << 48;

// Finite, and from 0 to longest_time.
bool is_time(double seconds);
// What a layer may be called: a text of one line in UTF-8, up to 256 bytes.
bool is_name(const std::string& name);
// "seconds, from 0 to 1e9": what is_time wants, for messages.
std::string time_words();

// Throws Error(invalid_argument) that says what is wrong, at which path of the JSON text, and what is wanted:
// "layers[3].transfer is -1; it must be seconds, from 0 to 1e9". Members that it does not know are passed
// over.
Profile parse_profile(const std::string& text);

// The text of which parse_profile makes this profile.
std::string json_of(const Profile& profile);

// Throws Error(invalid_argument) as above, with the file's name, and Error(io) if it cannot be read.
Profile read_profile(const std::string& file);

}  // namespace hocket::overlap
