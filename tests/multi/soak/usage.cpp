#include "tests/multi/soak/usage.hpp"

#include <fmt/format.h>
#include <malloc.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <span>

namespace hocket::soak {
namespace {

constexpr std::int64_t kibibyte = 1024, mebibyte = 1024 * kibibyte;
constexpr std::size_t least_samples = 16;

// The entries of /proc/self/status that are in kB, or plain numbers.
std::map<std::string, std::int64_t> process_status() {
    std::map<std::string, std::int64_t> values;
    std::ifstream status("/proc/self/status");
    std::string name;
    for (std::int64_t value; status >> name; status.ignore(1000, '\n'))
        if (status >> value)
            values[name.substr(0, name.size() - 1)] = value;
        else
            status.clear();
    return values;
}

}  // namespace

Usage Usage::now() {
    malloc_trim(0);
    auto status = process_status();
    const auto heap = mallinfo2();
    Usage usage;
    usage.resident = status["VmRSS"] * kibibyte;
    usage.own = status["RssAnon"] * kibibyte;
    usage.threads = status["Threads"];
    usage.heap = static_cast<std::int64_t>(heap.uordblks + heap.hblkhd);
    std::map<ino_t, std::int64_t> memory_files;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
        std::error_code closed;  // the descriptor of this very listing
        const std::string target = std::filesystem::read_symlink(entry, closed);
        struct stat file {};
        if (closed || stat(entry.path().c_str(), &file) != 0) continue;
        ++usage.descriptors;
        if (target.starts_with("/memfd:")) memory_files[file.st_ino] = file.st_blocks * 512;
    }
    for (const auto& [inode, bytes] : memory_files) usage.shared += bytes;
    return usage;
}

std::string Usage::text() const {
    return fmt::format(
        "{:.1f} MiB resident, {:.1f} own, {:.2f} in the heap, {:.1f} shared by all ranks, {} descriptors, "
        "{} threads",
        static_cast<double>(resident) / mebibyte, static_cast<double>(own) / mebibyte,
        static_cast<double>(heap) / mebibyte, static_cast<double>(shared) / mebibyte, descriptors, threads);
}

bool UsageHistory::is_judged() const {
    return samples_.size() >= least_samples;
}

std::string UsageHistory::growth() const {
    const std::size_t part = samples_.size() / 4;  // the first is the warm-up
    if (!is_judged()) return "";
    const std::span early(samples_.begin() + static_cast<std::ptrdiff_t>(part), part),
        late(samples_.end() - static_cast<std::ptrdiff_t>(part), part);
    struct Judged {
        const char* name;
        std::int64_t Usage::*figure;
        std::int64_t allowed;
    };
    // Own memory also holds the free pieces between the used ones of the heap. Their number settles slowly.
    constexpr Judged all[] = {{"own memory", &Usage::own, 8 * mebibyte},
                              {"heap", &Usage::heap, 256 * kibibyte},
                              {"shared memory", &Usage::shared, 4 * mebibyte},
                              {"descriptors", &Usage::descriptors, 0},
                              {"threads", &Usage::threads, 0}};
    std::string text;
    for (const auto& [name, figure, allowed] : all) {
        const auto lowest = [&](auto samples) {
            const auto below = [&](const Usage& a, const Usage& b) { return a.*figure < b.*figure; };
            return *std::ranges::min_element(samples, below).*figure;
        };
        const std::int64_t before = lowest(early), after = lowest(late);
        if (after - before > allowed)
            text += fmt::format(
                "{} grew from {} (the lowest of samples {} to {} of {}) to {} (the lowest of the last {}); "
                "{} more would be allowed\n",
                name, before, part + 1, 2 * part, samples_.size(), after, part, allowed);
    }
    return text;
}

}  // namespace hocket::soak
