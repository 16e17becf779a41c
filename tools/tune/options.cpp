#include "tools/tune/options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <sstream>

#include "capi/vocabulary.hpp"
#include "runtime/base/log.hpp"
#include "tools/quantity_options.hpp"
#include "tools/version_option.hpp"

namespace hocket::tune {
namespace {

std::vector<std::string> collective_names() {
    std::vector<std::string> names;
    for (const hkt_collective collective : capi::all_collectives)
        names.emplace_back(hkt_collective_name(collective));
    return names;
}

}  // namespace

std::optional<Options> parse_options(int argc, char** argv, bool quiet, int& exit_code) {
    CLI::App app{
        "Measures which schedules are the fastest for a job of this shape, and writes the table that later "
        "jobs choose by; or measures the levels of its topology. Start it with hocket-run -n N.",
        "hocket-tune"};
    Options options;
    std::vector<std::string> names = collective_names();
    app.add_option(
        "-o,--output", options.file,
        "the table; by default HOCKET_TUNING, else hocket/tuning.json in XDG_CACHE_HOME or ~/.cache");
    app.add_option("--collective", names, "measure these; by default all")
        ->check(CLI::IsMember(collective_names()))
        ->delimiter(',');
    app.add_option("-b,--minbytes", options.min_bytes, "smallest size")
        ->transform(tools::as_size())
        ->capture_default_str();
    app.add_option("-e,--maxbytes", options.max_bytes, "largest size")
        ->transform(tools::as_size())
        ->capture_default_str();
    app.add_option("-f,--stepfactor", options.factor, "multiply by this from size to size")
        ->check(CLI::Range(2, 1 << 20))
        ->capture_default_str();
    app.add_option("--seconds", options.seconds,
                   "how long to measure, about (60; with --topology 10); making plans takes more time")
        ->check(CLI::Range(0.1, 86400.0));
    auto* topology = app.add_option(
        "--topology", options.topology_file,
        "measure the levels of the job's topology instead, and write it with their figures to this .sched "
        "file");
    for (const char* other : {"--output", "--collective", "--minbytes", "--maxbytes", "--stepfactor"})
        topology->excludes(other);
    tools::add_version(app, "hocket-tune");
    try {
        app.parse(argc, argv);
        if (options.min_bytes < 1 || options.min_bytes > options.max_bytes ||
            options.max_bytes > std::size_t{1} << 48)
            throw CLI::ValidationError("sizes go from 1 byte, --minbytes up to --maxbytes");
        if (*topology && !options.topology_file.ends_with(".sched"))
            throw CLI::ValidationError("--topology " + options.topology_file +
                                       ": the name of a topology's file ends in .sched");
    } catch (const CLI::ParseError& error) {
        std::ostringstream out, err;
        exit_code = app.exit(error, out, err) == 0 ? 0 : 2;
        if (!quiet) fmt::print("{}", out.str()), write_log(err.str(), endless_patience);
        return std::nullopt;
    }
    if (options.seconds == 0) options.seconds = options.topology_file.empty() ? 60 : 10;
    options.collectives.resize(names.size());
    for (std::size_t i = 0; i < names.size(); ++i)
        hkt_collective_from_name(names[i].c_str(), &options.collectives[i]);
    return options;
}

std::vector<std::size_t> sizes_of(const Options& options) {
    std::vector<std::size_t> sizes;
    for (std::size_t size = options.min_bytes; size <= options.max_bytes; size *= options.factor)
        sizes.push_back(size);
    return sizes;
}

}  // namespace hocket::tune
