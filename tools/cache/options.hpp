// hocket-cache's command line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hocket::cache_tool {

enum class Command { warm, stat, verify, serve, index };

struct Options {
    Command command{};
    std::string folder;                              // the disk level's folder
    std::string source, index, dataset;              // "": none given
    std::string servers;                             // for warm; "": none
    std::uint64_t disk_bytes = 0, memory_bytes = 0;  // 0: none given
    int depth = 64;                                  // samples requested at once
    std::string host;                                // the host to listen at; IPv6 without its brackets
    int port = 0;
    bool json = false;
    std::string index_file;            // that index makes
    std::vector<std::string> sources;  // of index
};

// Returns nothing and sets exit_code if the program should end (help, or an error that was printed).
std::optional<Options> parse_options(int argc, char** argv, int& exit_code);

}  // namespace hocket::cache_tool
