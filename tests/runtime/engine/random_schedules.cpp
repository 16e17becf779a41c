#include "tests/runtime/engine/random_schedules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "tests/differential/generator.hpp"

namespace hocket::test {

Seeds seeds_from(const char* variable, Seeds usual) {
    const char* text = std::getenv(variable);
    if (text == nullptr) return usual;
    char* end = nullptr;
    const std::uint64_t first = std::strtoull(text, &end, 10);
    return {first, *end == ':' ? std::strtoull(end + 1, nullptr, 10) : first};
}

std::map<int, std::vector<RandomSchedule>> random_schedules(const std::string& folder, Seeds seeds,
                                                            int most_ranks) {
    differential::GeneratorOptions options = differential::options_from_environment();
    options.mutated_percent = 0;
    std::map<int, std::vector<RandomSchedule>> all;
    for (std::uint64_t seed = seeds.first; seed <= seeds.last; ++seed) {
        const differential::Program program = differential::generate(seed, options);
        const auto ranks = static_cast<int>(program.ranks());
        if (ranks < 2 || ranks > most_ranks) continue;
        const reference::Meaning meaning(
            {program.text(), program.schedule, program.collective, program.levels, program.root});
        if (!meaning.refusal().empty()) continue;
        const std::string file = fmt::format("{}/{}.sched", folder, seed);
        std::ofstream(file) << program.text();
        const dsl::Collective collective =
            *std::find_if(std::begin(dsl::all_collectives), std::end(dsl::all_collectives),
                          [&](dsl::Collective one) { return dsl::name_of(one) == program.collective; });
        all[ranks].push_back({seed, collective, file + ":" + program.schedule,
                              program.topology_is_defined ? file + ":" + program.topology : program.topology,
                              ranks, static_cast<dsl::Rank>(program.root)});
    }
    return all;
}

}  // namespace hocket::test
