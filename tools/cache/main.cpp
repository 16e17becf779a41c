// hocket-cache: fills, shows, checks and serves a folder of the data cache, and makes indexes of sources. It
// loads through the public C ABI only. To show and check a folder it reads the folder's segments itself, of
// all datasets, and changes nothing.
#include "tools/cache/commands.hpp"
#include "tools/tool.hpp"

namespace {

int run(const hocket::cache_tool::Options& options) {
    using namespace hocket::cache_tool;
    hocket::tools::Signals signals;
    switch (options.command) {
        case Command::warm:
            return warm(options, signals);
        case Command::stat:
            return stat(options);
        case Command::verify:
            return verify(options, signals);
        case Command::serve:
            return serve(options, signals);
        case Command::index:
            return index(options, signals);
    }
    return 2;
}

}  // namespace

int main(int argc, char** argv) {
    return hocket::tools::run_tool("hocket-cache", [&] {
        int exit_code = 0;
        const auto options = hocket::cache_tool::parse_options(argc, argv, exit_code);
        return options ? run(*options) : exit_code;
    });
}
