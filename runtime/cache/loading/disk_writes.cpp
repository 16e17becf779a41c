#include "runtime/cache/loading/disk_writes.hpp"

#include <chrono>
#include <utility>

namespace hocket::cache {

using namespace std::chrono_literals;

DiskWrites::DiskWrites(const LoadOptions& options, Loop& loop, const Files& files, const Memory& memory,
                       Directory* directory, Counters& counters, std::function<void()> ended)
    : options_(options), loop_(loop), memory_(memory), counters_(counters), ended_(std::move(ended)) {
    if (directory != nullptr) writer_.emplace(loop, files, *directory);
}

// Readers should not wait for a disk that is slower than the source: if more than half of the memory waits to
// be written, a fetched sample is not stored this time.
bool DiskWrites::may_store() {
    if (!writer_ || options_.store == Store::none) return false;
    if (options_.store == Store::all || unwritten_bytes_ <= memory_.capacity() / 2) return true;
    ++counters_.writes_skipped;
    return false;
}

// Counts a write as long as it is under way, however it ends.
class DiskWrites::Writing {
  public:
    Writing(DiskWrites& writes, std::uint64_t bytes)
        : writes_(writes), bytes_(bytes), number_(*writes.writes_.insert(++writes.writes_begun_).first) {
        writes_.unwritten_bytes_ += bytes_;
    }
    Writing(const Writing&) = delete;
    ~Writing() {
        writes_.writes_.erase(number_);
        writes_.unwritten_bytes_ -= bytes_;
        writes_.ended_();
    }

  private:
    DiskWrites& writes_;
    const std::uint64_t bytes_, number_;
};

Task<bool> DiskWrites::write(std::uint64_t key, std::span<std::byte> memory, std::uint64_t bytes) {
    const Writing writing(*this, bytes);
    const bool stored = co_await writer_->write(key, memory, bytes);
    co_return stored;
}

Task<> DiskWrites::settle() {
    const std::uint64_t last = writes_begun_;  // waits only for these: other writes begin all the time
    while (!writes_.empty() && *writes_.begin() <= last) co_await loop_.delay(1ms);
}

}  // namespace hocket::cache
