#include "tools/tune/topology.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <stdexcept>

#include "dsl/base/named_file.hpp"
#include "dsl/elaboration/find.hpp"
#include "tools/bench/comm.hpp"
#include "tools/result_place.hpp"
#include "tools/tool.hpp"
#include "tools/tune/levels.hpp"

namespace hocket::tune {
namespace {

constexpr unsigned readable_by_all = 0644;

void write(const std::string& file, const std::string& text) try {
    replace_file(file, text, readable_by_all);
} catch (const std::runtime_error& error) {
    throw std::runtime_error(fmt::format("{} cannot be written: {}", file, error.what()));
}

std::string rate_text(double rate) {
    return fmt::format("{:.4g} GB/s", rate / 1e9);
}

void print(const dsl::Topology& topology, const std::vector<LevelFigures>& figures) {
    fmt::print("# {:12}  {:>5}  {:6}  {:>10}  {:>12}  {:>12}  {:>12}\n", "level", "size", "medium", "latency",
               "a pair alone", "slowest link", "fastest link");
    for (std::size_t i = 0; i < topology.levels.size(); ++i) {
        const dsl::Level& level = topology.levels[i];
        if (level.size == 1) continue;
        fmt::print("  {:12}  {:5}  {:6}  {:>7.1f} us  {:>12}  {:>12}  {:>12}\n", level.name, level.size,
                   name_of(level.medium), figures[i].latency * 1e6, rate_text(figures[i].alone),
                   rate_text(figures[i].slowest()), rate_text(figures[i].fastest()));
    }
}

}  // namespace

void measure_topology(hkt_comm* comm, const std::string& file, double seconds) {
    bench::on_rank_0(comm, [&] { tools::check_place(file); });
    dsl::Library library(bench::schedule_folders(comm));
    const std::string name = bench::info(comm, "topology"), provider = bench::info(comm, "provider");
    const dsl::Topology topology = dsl::find_topology(library, name, hkt_comm_size(comm));
    const bool speaks = hkt_comm_rank(comm) == 0;
    const std::string about = fmt::format("hocket-tune {}: {} ranks, topology {}, provider {}", hkt_version(),
                                          topology.ranks(), name, provider);
    if (speaks) fmt::print("# {}; about {:.0f} s\n", about, seconds), tools::flush_output();
    const auto figures = measure_levels(comm, topology, seconds);
    if (speaks) print(topology, figures);
    const std::string network = network_text(topology, figures),
                      network_file = std::filesystem::path(file).replace_extension(".network").string();
    bench::on_rank_0(comm, [&] {
        write(file, topology_text(with_figures(topology, figures), {about}));
        if (!network.empty())
            write(network_file, fmt::format("# {}\n{}", about, network));
        else
            std::filesystem::remove(network_file);  // of an earlier run, with other links
    });
    if (!speaks) return;
    fmt::print("# written to {}{}\n", file,
               network.empty() ? "" : fmt::format("; links differ: schedc predict -N {}", network_file));
}

}  // namespace hocket::tune
