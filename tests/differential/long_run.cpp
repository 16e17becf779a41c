// Many random programs, compared: long_run [options] FIRST LAST. Prints the smallest form of each kind of
// difference, and in the end the counts. Exits with 1 if there were differences.
#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <mutex>
#include <thread>

#include "tests/differential/comparison.hpp"
#include "tests/differential/generator.hpp"

using namespace hocket::differential;

namespace {

struct Figures {
    int right = 0, refused = 0, different = 0;
};

class Run {
  public:
    Run(std::uint64_t first, std::uint64_t last, GeneratorOptions options, int shown, bool prints)
        : next_(first), last_(last), options_(options), shown_(shown), prints_(prints) {}

    int run(unsigned workers) {
        std::vector<std::thread> threads;
        const auto start = std::chrono::steady_clock::now();
        for (unsigned worker = 0; worker < workers; ++worker)
            threads.emplace_back([this, worker] { work(worker); });
        for (std::thread& thread : threads) thread.join();
        const double seconds =
            std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        return summary(seconds);
    }

  private:
    // Each worker has a file of its own; after a crash the seed stands in it, too.
    void work(unsigned worker) {
        const std::string file = (std::filesystem::temp_directory_path() /
                                  fmt::format("differential-{}-{}.sched", getpid(), worker))
                                     .string();
        for (std::uint64_t seed = next_++; seed <= last_; seed = next_++) {
            const Program program = generate(seed, options_);
            const Comparison comparison = compare(program, {file});
            if (prints_) std::cout << report(program, comparison);
            count(program, comparison, file);
        }
        std::filesystem::remove(file);
    }

    void count(const Program& program, const Comparison& comparison, const std::string& file) {
        bool shows = false;
        {
            const std::lock_guard lock(mutex_);
            for (const std::string& key : {program.collective, program.family,
                                           std::string(program.mutations ? "mutated" : "as made")}) {
                Figures& figures = figures_[key];
                figures.right += comparison.outcome == Comparison::Outcome::right;
                figures.refused += comparison.outcome == Comparison::Outcome::refused;
                figures.different += comparison.outcome == Comparison::Outcome::different;
            }
            if (comparison.outcome == Comparison::Outcome::right) ++totals_.right;
            if (comparison.outcome == Comparison::Outcome::refused) ++totals_.refused;
            if (comparison.outcome == Comparison::Outcome::different) {
                ++totals_.different;
                auto& seeds = seeds_[comparison.kind];
                shows = static_cast<int>(seeds.size()) < shown_;
                seeds.push_back(program.seed);
            }
            if (comparison.outcome == Comparison::Outcome::refused && program.mutations == 0)
                seeds_["refused as made"].push_back(program.seed);
        }
        if (!shows) return;
        const Program smallest = reduced(program, {file});
        const std::string text = report(smallest, compare(smallest, {file, true}));
        const std::lock_guard lock(mutex_);
        std::cout << "---- different\n" << text << std::endl;
    }

    int summary(double seconds) const {
        const int all = totals_.right + totals_.refused + totals_.different;
        std::cout << fmt::format("{} programs in {:.1f} s: {} right, {} refused, {} different\n", all,
                                 seconds, totals_.right, totals_.refused, totals_.different);
        for (const auto& [key, figures] : figures_)
            std::cout << fmt::format("  {:15} {:7} right {:7} refused {:5} different\n", key, figures.right,
                                     figures.refused, figures.different);
        for (const auto& [kind, seeds] : seeds_) {
            std::cout << fmt::format("  {} ({}):", kind, seeds.size());
            for (std::size_t i = 0; i < seeds.size() && i < 20; ++i) std::cout << ' ' << seeds[i];
            std::cout << '\n';
        }
        return totals_.different == 0 ? 0 : 1;
    }

    std::atomic<std::uint64_t> next_;
    std::uint64_t last_;
    GeneratorOptions options_;
    int shown_;
    bool prints_;
    std::mutex mutex_;
    Figures totals_;
    std::map<std::string, Figures> figures_;
    std::map<std::string, std::vector<std::uint64_t>> seeds_;
};

}  // namespace

int main(int argc, char** argv) {
    GeneratorOptions options = options_from_environment();
    int shown = 3;
    bool prints = false;
    unsigned workers = 2;
    std::vector<std::uint64_t> numbers;
    for (int i = 1; i < argc; ++i) {
        const std::string word = argv[i];
        if (word == "--print")
            prints = true;
        else if (word == "--show" && i + 1 < argc)
            shown = std::atoi(argv[++i]);
        else if (word == "--mutated" && i + 1 < argc)
            options.mutated_percent = std::atoi(argv[++i]);
        else if (word == "--workers" && i + 1 < argc)
            workers = static_cast<unsigned>(std::atoi(argv[++i]));
        else
            numbers.push_back(std::strtoull(word.c_str(), nullptr, 10));
    }
    if (numbers.size() != 2) {
        std::cerr << "usage: differential_long_run [--mutated PERCENT] [--show DIFFERENCES] [--print] "
                     "[--workers N] FIRST LAST\n";
        return 2;
    }
    return Run(numbers[0], numbers[1], options, shown, prints).run(workers);
}
