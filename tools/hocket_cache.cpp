// hocket-cache: fills, shows, checks and serves a folder of the data cache. It loads through the public C ABI
// alone; to show and to check a folder it reads its segments itself, of all datasets, and changes nothing.
#include <fmt/format.h>

#include "tools/hocket_cache_commands.hpp"

namespace {

int run(const hocket::cache_tool::Options& options) {
    using namespace hocket::cache_tool;
    Signals signals;
    switch (options.command) {
        case Command::warm:
            return warm(options, signals);
        case Command::stat:
            return stat(options);
        case Command::verify:
            return verify(options, signals);
        case Command::serve:
            return serve(options, signals);
    }
    return 2;
}

}  // namespace

int main(int argc, char** argv) {
    int exit_code = 0;
    const auto options = hocket::cache_tool::parse_options(argc, argv, exit_code);
    if (!options) return exit_code;
    try {
        return run(*options);
    } catch (const std::exception& error) {
        fmt::print(stderr, "hocket-cache: {}\n", error.what());
        return 1;
    }
}
