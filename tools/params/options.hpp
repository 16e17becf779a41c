// hocket-params' command line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace hocket::params_tool {

enum class Command { serve, status };

struct Options {
    Command command{};
    std::string listen = ":0";
    std::string join, checkpoints, rack;  // "": none given
    int servers = 1;
    std::uint64_t every = 10;  // rounds
    bool restore = false, once = false;
    std::int64_t index = -1;  // of the checkpoint to restore; -1: the only one's
    std::uint64_t round = 0;  // to go back to; 0: the latest checkpoint
    bool accept_torn = false;
    std::int64_t silence_ms = 2000, return_ms = 10000;
    std::string address;  // of the server to ask
    std::int64_t timeout_ms = 10000;
    bool json = false;
};

// Returns nothing and sets exit_code if the program should end (help, or an error that was printed).
std::optional<Options> parse_options(int argc, char** argv, int& exit_code);

}  // namespace hocket::params_tool
