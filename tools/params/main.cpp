// hocket-params: serves the weights of a model, and shows a service's state, through the public C ABI only.
#include <stdexcept>

#include "tools/params/commands.hpp"
#include "tools/tool.hpp"

namespace hocket::params_tool {

void check(hkt_status status) {
    if (status < 0) throw std::runtime_error(hkt_last_error());
}

}  // namespace hocket::params_tool

int main(int argc, char** argv) {
    using namespace hocket::params_tool;
    return hocket::tools::run_tool("hocket-params", [&] {
        int exit_code = 0;
        const auto options = parse_options(argc, argv, exit_code);
        if (!options) return exit_code;
        return options->command == Command::serve ? serve(*options) : status(*options);
    });
}
