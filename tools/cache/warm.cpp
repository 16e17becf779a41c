// hocket-cache warm: gets every sample once, so that it is on the disk afterwards.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <regex>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "tools/cache/commands.hpp"
#include "tools/cache/handle.hpp"
#include "tools/cache/progress.hpp"
#include "tools/cache/texts.hpp"
#include "tools/tool.hpp"

namespace hocket::cache_tool {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t named_failures = 5;
constexpr std::uint64_t most_failures = 1000;  // beyond this the source is at fault, not a sample

// The pause between two looks at the disk. If the disk refuses samples, everything read before that is
// noticed is read in vain. A look counts everything in memory and may take long; then the pauses are longer.
constexpr std::chrono::milliseconds shortest_pause{10}, pause_of_start{1};
constexpr int pause_per_look = 10;

// Samples that failed alike: their texts differ in numbers alone, of samples, objects and times.
struct Failure {
    std::string text;  // of the first
    std::uint64_t count;
};

// The status that a server answered with is a part of the reason.
std::string without_numbers(const std::string& text) {
    static const std::regex numbers("(answered [0-9]+)|[0-9]+");
    return std::regex_replace(text, numbers, "$1");
}

// The threads that get the samples of a cache, each one sample at a time. So no thread holds memory while it
// waits for more, and it is known which sample failed.
class Loading {
  public:
    Loading(hkt_cache* cache, int most_threads)
        : cache_(cache),
          count_(hkt_cache_count(cache)),
          most_threads_(static_cast<std::size_t>(most_threads)) {}
    ~Loading() { stop(); }

    // Returns false if there are already as many as allowed.
    bool add_thread() {
        if (threads_.size() >= most_threads_) return false;
        try {
            threads_.emplace_back([this] { load(); });
        } catch (const std::system_error&) {  // fewer will do
            if (threads_.empty()) throw;
            most_threads_ = threads_.size();
        }
        return true;
    }

    void stop() { stopped_ = true; }
    void join() { threads_.clear(); }
    bool has_ended() const { return done_ + failed_ == count_; }

    std::uint64_t count() const { return count_; }
    std::uint64_t failed() const { return failed_; }
    Step step() const { return {done_ + failed_, count_, done_, bytes_}; }
    std::vector<Failure> failures() const {  // the first few kinds
        const std::lock_guard lock(mutex_);
        return failures_;
    }

  private:
    void load() {
        for (std::uint64_t key; !stopped_ && (key = next_.fetch_add(1)) < count_;) {
            try {
                load(key);
            } catch (const std::exception& error) {
                note(error.what());
            }
        }
    }

    void load(std::uint64_t key) {
        hkt_sample sample{};
        check(hkt_cache_get(cache_, key, &sample), fmt::format("sample {}", key).c_str());
        bytes_ += sample.bytes;
        hkt_cache_release(cache_, &sample, 1);
        ++done_;
    }

    void note(const std::string& text) {
        const std::lock_guard lock(mutex_);
        const auto is_alike = [kind = without_numbers(text)](const Failure& failure) {
            return without_numbers(failure.text) == kind;
        };
        const auto known = std::ranges::find_if(failures_, is_alike);
        if (known != failures_.end())
            ++known->count;
        else if (failures_.size() < named_failures)
            failures_.push_back({text, 1});
        ++failed_;
    }

    hkt_cache* cache_;
    const std::uint64_t count_;
    std::size_t most_threads_;
    std::atomic<bool> stopped_ = false;
    std::atomic<std::uint64_t> next_ = 0, done_ = 0, failed_ = 0, bytes_ = 0;
    mutable std::mutex mutex_;
    std::vector<Failure> failures_;
    std::vector<std::jthread> threads_;
};

bool has_refused(const hkt_cache_stats& stats) {
    const bool is_well_but_for_damage = std::string_view(stats.trouble) == stats.damage;
    return stats.not_written > 0 && !is_well_but_for_damage;
}

// Looks at the disk. Returns how long to wait until the next look.
std::chrono::milliseconds look(hkt_cache* cache, bool& refused) {
    const auto start = Clock::now();
    refused = has_refused(stats_of(cache));
    const auto pause = std::chrono::ceil<std::chrono::milliseconds>(pause_per_look * (Clock::now() - start));
    return std::max(shortest_pause, pause);
}

// Runs until everything is loaded, or there is a reason to end. Starts threads one after another: if the disk
// takes nothing, that is noticed before many samples are read.
void load_all(hkt_cache* cache, Loading& loading, tools::Signals& signals) {
    Progress progress;
    bool refused = false;
    while (!loading.has_ended() && !refused && loading.failed() < most_failures) {
        const bool is_starting = loading.add_thread();
        const auto pause = look(cache, refused);
        progress.show(loading.step());
        if (signals.wait(is_starting ? pause_of_start : pause) != 0) break;
    }
    loading.stop();
    loading.join();
}

void print_result(const Options& options, const Loading& loading, const hkt_cache_stats& stats,
                  Clock::duration time) {
    const double seconds = std::chrono::duration<double>(time).count();
    const auto figures = [](std::uint64_t samples, std::uint64_t bytes) {
        return fmt::format("{} ({})", samples, bytes_text(static_cast<double>(bytes)));
    };
    const std::uint64_t fetched = stats.source_reads + stats.peer_hits;
    const std::uint64_t on_disk = std::min(stats.disk_samples, loading.count());
    const std::uint64_t stored = std::min(fetched - std::min(stats.not_written, fetched), on_disk);
    fmt::print("{}: {} of {} on disk, {} of them before; {} read from the source", options.folder, on_disk,
               count_text(loading.count(), "sample"), on_disk - stored,
               figures(stats.source_reads, stats.source_read_bytes));
    if (!options.servers.empty())
        fmt::print(", {} from servers", figures(stats.peer_hits, stats.peer_read_bytes));
    if (fetched > stored) fmt::print(", {} not stored", fetched - stored);
    fmt::print(", in {}", duration_text(time));
    if (seconds > 0) fmt::print(", {}/s", bytes_text(static_cast<double>(loading.step().bytes) / seconds));
    fmt::print("\n");
}

void complain(const std::string& text) {
    tools::say("hocket-cache: {}", text);
}

void complain_of_failures(const Loading& loading, const hkt_cache_stats& stats) {
    std::uint64_t others = loading.failed();
    for (const Failure& failure : loading.failures()) {
        complain(failure.text);
        if (failure.count > 1) complain(fmt::format("... and {} more failed like it", failure.count - 1));
        others -= failure.count;
    }
    if (others > 0) complain(fmt::format("... and {} more failed", others));
    if (loading.failed() >= most_failures && !loading.has_ended())
        complain(fmt::format("given up after {} failures", loading.failed()));
    if (stats.peer_failures > 0)
        complain(
            fmt::format("servers failed to answer for {}, read from the source then; the last because: {}",
                        count_text(stats.peer_failures, "sample"), stats.peer_trouble));
}

// Explains what to do about samples that could be loaded but are not on the disk.
void complain_of_disk(const Loading& loading, const hkt_cache_stats& stats) {
    if (has_refused(stats))
        complain(
            fmt::format("the disk takes no more: {}. Make room (or raise --disk), and start this "
                        "command again for the rest",
                        stats.trouble));
    else if (loading.failed() == 0)
        complain(fmt::format("{} not on the disk: it was slower than the source; start it again for the rest",
                             count_text(loading.count() - stats.disk_samples, "sample")));
}

}  // namespace

int warm(const Options& options, tools::Signals& signals) {
    const auto start = Clock::now();
    const Cache cache = open_cache(options);
    Loading loading(cache.get(), options.depth);
    load_all(cache.get(), loading, signals);
    check(hkt_cache_flush(cache.get()), "the loaded samples may not survive a loss of power");

    const hkt_cache_stats stats = stats_of(cache.get());
    print_result(options, loading, stats, Clock::now() - start);
    complain_of_failures(loading, stats);
    if (signals.wait({}) != 0) {
        complain("interrupted; samples on the disk stay there, start it again for the rest");
        return 128 + signals.wait({});
    }
    if (loading.failed() == 0 && stats.disk_samples >= loading.count()) return 0;
    complain_of_disk(loading, stats);
    return 1;
}

}  // namespace hocket::cache_tool
