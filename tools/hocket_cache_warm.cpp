// hocket-cache warm: every sample is got once, and so comes to lie on the disk.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "tools/hocket_cache_commands.hpp"
#include "tools/hocket_cache_handle.hpp"
#include "tools/hocket_cache_progress.hpp"
#include "tools/hocket_cache_texts.hpp"

namespace hocket::cache_tool {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t named_failures = 5;
constexpr std::uint64_t most_failures = 1000;  // then it is the source that fails, not a sample
constexpr std::chrono::milliseconds look_every{100};

// Threads that get the samples of a cache one by one: so no thread holds memory while it waits for more, and
// it is known which sample failed.
class Loading {
  public:
    Loading(hkt_cache* cache, int threads) : cache_(cache), count_(hkt_cache_count(cache)) {
        try {
            for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { load(); });
        } catch (const std::system_error&) {  // fewer will do
            if (threads_.empty()) throw;
        }
    }
    ~Loading() { stop(); }

    void stop() { stopped_ = true; }
    void join() { threads_.clear(); }
    bool has_ended() const { return done_ + failed_ == count_; }

    std::uint64_t count() const { return count_; }
    std::uint64_t failed() const { return failed_; }
    Step step() const { return {done_ + failed_, count_, done_, bytes_}; }
    std::vector<std::string> failures() const {  // the first few
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
        if (failures_.size() < named_failures) failures_.push_back(text);
        ++failed_;
    }

    hkt_cache* cache_;
    const std::uint64_t count_;
    std::atomic<bool> stopped_ = false;
    std::atomic<std::uint64_t> next_ = 0, done_ = 0, failed_ = 0, bytes_ = 0;
    mutable std::mutex mutex_;
    std::vector<std::string> failures_;
    std::vector<std::jthread> threads_;
};

// Why the disk takes no more; "" if it does.
std::string refusal(hkt_cache* cache) {
    const hkt_cache_stats stats = stats_of(cache);
    return stats.not_written > 0 ? std::string(stats.trouble) : "";
}

// Until all is loaded or there is a reason to end: that is returned, "" if there is none.
std::string load_all(hkt_cache* cache, Loading& loading, Signals& signals) {
    Progress progress;
    std::string reason;
    while (!loading.has_ended() && reason.empty()) {
        progress.show(loading.step());
        if (signals.wait(look_every) != 0)
            reason = "interrupted";
        else if (loading.failed() >= most_failures)
            reason = fmt::format("given up after {} failures", loading.failed());
        else if (const std::string why = refusal(cache); !why.empty())
            reason = "the disk takes no more: " + why;
    }
    loading.stop();
    loading.join();
    return reason;
}

void print_result(const Options& options, const Loading& loading, const hkt_cache_stats& stats,
                  Clock::duration time) {
    const double seconds = std::chrono::duration<double>(time).count();
    fmt::print("{}: {} of {} on disk; {} ({}) read from the source", options.folder,
               std::min(stats.disk_samples, loading.count()), count_text(loading.count(), "sample"),
               stats.source_reads, bytes_text(static_cast<double>(stats.source_read_bytes)));
    fmt::print(", {} there already, in {}", stats.disk_hits, duration_text(time));
    if (seconds > 0) fmt::print(", {}/s", bytes_text(static_cast<double>(loading.step().bytes) / seconds));
    fmt::print("\n");
}

void complain(const std::string& text) {
    fmt::print(stderr, "hocket-cache: {}\n", text);
}

}  // namespace

int warm(const Options& options, Signals& signals) {
    const auto start = Clock::now();
    const Cache cache = open_cache(options);
    Loading loading(cache.get(), options.depth);
    const std::string reason = load_all(cache.get(), loading, signals);
    check(hkt_cache_flush(cache.get()), "what was loaded may not survive a loss of power");

    const hkt_cache_stats stats = stats_of(cache.get());
    const std::string trouble = stats.trouble;
    print_result(options, loading, stats, Clock::now() - start);
    for (const std::string& failure : loading.failures()) complain(failure);
    if (loading.failed() > named_failures)
        complain(fmt::format("... and {} more failed", loading.failed() - named_failures));
    if (signals.wait({}) != 0) {
        complain("interrupted; what is on the disk stays, start it again for the rest");
        return 128 + signals.wait({});
    }
    if (!reason.empty()) complain(reason);
    if (loading.failed() > 0 || !reason.empty()) return 1;
    if (stats.disk_samples >= loading.count()) return 0;
    complain(fmt::format(
        "{} not on the disk: {}", count_text(loading.count() - stats.disk_samples, "sample"),
        trouble.empty() ? "it was slower than the source; start it again for the rest" : trouble));
    return 1;
}

}  // namespace hocket::cache_tool
