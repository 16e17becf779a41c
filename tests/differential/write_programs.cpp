// Writes random programs that are right to files, for real runs: write_programs FIRST LAST FOLDER. Each is
// SEED.sched; its first line names the collective, what to run, topology, ranks and root:
//   # all_reduce main(ring) 2x3 6 0
// The topology of a file that defines one is the file's.
#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <iostream>

#include "tests/differential/generator.hpp"

using namespace hocket::differential;

int main(int argc, char** argv) {
    if (argc != 4) {
        std::cerr << "usage: " << argv[0] << " FIRST LAST FOLDER\n";
        return 2;
    }
    GeneratorOptions options = options_from_environment();
    options.mutated_percent = 0;
    for (std::uint64_t seed = std::strtoull(argv[1], nullptr, 10), last = std::strtoull(argv[2], nullptr, 10);
         seed <= last; ++seed) {
        const Program program = generate(seed, options);
        const hocket::reference::Meaning meaning(
            {program.text(), program.schedule, program.collective, program.levels, program.root});
        if (!meaning.refusal().empty()) continue;
        const std::string path = fmt::format("{}/{}.sched", argv[3], seed);
        std::string topology = program.topology_is_defined ? path + ":" + program.topology : program.topology;
        std::ofstream file(path);
        // Spaces would end a word of the line.
        std::string schedule;
        for (const char letter : program.schedule)
            if (letter != ' ') schedule += letter;
        file << fmt::format("# {} {} {} {} {}\n", program.collective, schedule, topology, program.ranks(),
                            program.root)
             << program.text();
        if (!file.flush()) {
            std::cerr << path << " cannot be written\n";
            return 1;
        }
        std::cout << path << '\n';
    }
    return 0;
}
