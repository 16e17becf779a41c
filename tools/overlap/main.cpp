// hocket-overlap: shows the plans that each method makes of a profile. Uses no other process and no clock.
#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "dsl/base/named_file.hpp"
#include "tools/overlap/options.hpp"
#include "tools/overlap/report.hpp"
#include "tools/tool.hpp"

namespace hocket::overlap_tool {
namespace {

void write(const std::string& file, const std::string& text) {
    try {
        OutputFile stream(file);
        errno = EIO;
        stream << text;
        stream.close();
        if (!stream) throw std::runtime_error(std::strerror(errno));
    } catch (const std::runtime_error& error) {
        throw std::runtime_error(fmt::format("the picture {} cannot be written: {}", file, error.what()));
    }
}

int plan(const Options& options) {
    const overlap::Profile read = overlap::read_profile(options.profile);
    const bool is_both = !options.is_backward && overlap::has_forward(read);
    const overlap::Profile profile = is_both ? overlap::of_forward_pass(read) : read;
    const auto plans = plan_all(profile, options.planning);
    if (!options.picture.empty())
        write(options.picture, picture_text(profile, options.planning.direction, plans));
    if (is_both)
        fmt::print("{}", options.json ? both_json_text(read, options.planning) + "\n"
                                      : both_table_text(read, options.planning));
    else if (options.json)
        fmt::print("{}\n", json_text(profile, options.planning.direction, plans));
    else
        fmt::print("{}", table_text(profile, plans));
    return 0;
}

}  // namespace
}  // namespace hocket::overlap_tool

int main(int argc, char** argv) {
    using namespace hocket::overlap_tool;
    return hocket::tools::run_tool("hocket-overlap", [&] {
        int exit_code = 0;
        const auto options = parse_options(argc, argv, exit_code);
        return options ? plan(*options) : exit_code;
    });
}
