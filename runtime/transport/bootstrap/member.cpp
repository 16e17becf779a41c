#include "runtime/transport/bootstrap/member.hpp"

#include <fmt/format.h>

#include <utility>

#include "runtime/base/error.hpp"
#include "runtime/base/thread.hpp"
#include "runtime/transport/net/texts.hpp"

namespace hocket::transport {

Member::Member(const BootstrapOptions& options)
    : rank_(options.rank),
      world_size_(options.world_size),
      times_{options.heartbeat_interval, options.heartbeat_timeout},
      left_(options.world_size),
      parts_(options.world_size),
      missing_parts_(parts_.size()),
      come_(options.world_size),
      next_beat_(Clock::now()),
      awake_(Clock::now()) {
    thread_ = start_thread("hkt-member", [this] { run(); });
}

// What has not left by now has failed to join, or to do what it joined for.
Member::~Member() {
    end(false);
}

void Member::begin(std::vector<Link> links) noexcept {
    const std::lock_guard lock(mutex_);
    links_ = std::move(links);
    for (Link& link : links_) link.silence().heard();  // ranks that have joined are silent until all have
    awake_ = Clock::now();
    has_begun_ = true;
    changed_.notify_all();
}

std::vector<std::string> Member::all_gather(std::string_view mine, std::chrono::milliseconds timeout,
                                            std::optional<std::uint64_t> operation) {
    if (mine.size() > max_blob_size)
        throw Error(Status::invalid_argument, fmt::format("all_gather takes at most {} bytes a rank, not {}",
                                                          max_blob_size, mine.size()));
    const auto deadline = Clock::now() + timeout;
    Impatience impatience(Clock::now());
    std::unique_lock lock(mutex_);
    throw_if_hopeless();
    if (gather_broken_)
        throw Error(Status::timeout,
                    "an earlier exchange of settings did not end: this job can only be left now");
    gather_broken_ = true;
    pending_blob_ = std::string(mine);
    wake_.raise();
    while (!result_) {  // a loss after the answer does not invalidate it
        throw_if_hopeless();
        const auto until = operation ? std::min(deadline, impatience.due()) : deadline;
        if (changed_.wait_until(lock, until) == std::cv_status::timeout && !result_) {
            throw_if_hopeless();
            if (operation && impatience.is_due(Clock::now())) {
                pending_wait_ = operation;
                wake_.raise();
            }
            if (Clock::now() < deadline) continue;
            throw Error(Status::timeout,
                        fmt::format("the exchange of settings did not end within {} on rank {}: not "
                                    "all ranks have come to it",
                                    seconds_text(timeout), rank_));
        }
    }
    gather_broken_ = false;
    return *std::exchange(result_, std::nullopt);
}

void Member::come() {
    const std::lock_guard lock(mutex_);
    if (has_come_) return;  // also if all have come since: this rank has not heard of it
    has_come_ = true;
    ++rendezvous_;
    has_to_come_ = true;
    wake_.raise();
}

bool Member::all_have_come(Clock::time_point until) {
    std::unique_lock lock(mutex_);
    while (met_ < rendezvous_) {
        throw_if_broken();
        if (changed_.wait_until(lock, until) == std::cv_status::timeout && met_ < rendezvous_) return false;
    }
    has_come_ = false;
    return true;
}

std::optional<std::vector<int>> Member::absent(std::chrono::milliseconds patience) {
    const auto until = Clock::now() + patience;
    std::unique_lock lock(mutex_);
    absent_.reset();
    has_to_ask_ = true;
    wake_.raise();
    while (!absent_ && met_ < rendezvous_) {
        throw_if_broken();
        if (changed_.wait_until(lock, until) == std::cv_status::timeout) break;
    }
    if (met_ < rendezvous_) return std::exchange(absent_, std::nullopt);
    has_come_ = false;
    return std::vector<int>();
}

void Member::throw_if_hopeless() const {
    throw_if_broken();
    for (int rank = 0; rank < world_size_; ++rank)
        if (left_[rank] && !(rank_ == 0 && parts_[rank]))
            throw Error(Status::peer_lost,
                        fmt::format("rank {} has left the job, but rank {} still waits for it in an "
                                    "exchange of settings; do all ranks run the same program?",
                                    rank, rank_));
}

void Member::throw_if_broken() const {
    if (leaving_)
        throw Error(Status::bootstrap, fmt::format("this rank ({}) has already left the job", rank_));
    if (loss_)
        throw Error(Status::peer_lost,
                    fmt::format("rank {} was lost: {}; look at the output of rank {} first", loss_->rank,
                                loss_->reason, loss_->rank));
    if (difference_)
        throw Error(Status::mismatch,
                    fmt::format("ranks {} and {} have started different operations",
                                difference_->started[0].ranks[0], difference_->started[1].ranks[0]));
    if (!reports_.empty())
        throw Error(Status::bootstrap, fmt::format("rank {} reported a failure", reports_.front().rank));
}

std::optional<Loss> Member::loss() const {
    const std::lock_guard lock(mutex_);
    return loss_;
}

void Member::report(std::string_view text) {
    const std::lock_guard lock(mutex_);
    if (std::exchange(has_reported_, true)) return;
    pending_report_ = std::string(text.substr(0, max_report_size));
    wake_.raise();
}

std::optional<Clock::time_point> Member::bad_news_since() const {
    const std::lock_guard lock(mutex_);
    return bad_news_since_;
}

std::optional<Report> Member::reported() const {
    const std::lock_guard lock(mutex_);
    if (reports_.empty()) return std::nullopt;
    return reports_.front();
}

std::optional<Report> Member::reported_by(int rank) const {
    const std::lock_guard lock(mutex_);
    for (const Report& report : reports_)
        if (report.rank == rank) return report;
    return std::nullopt;
}

void Member::wait_in(std::uint64_t number) {
    const std::lock_guard lock(mutex_);
    pending_wait_ = number;
    wake_.raise();
}

void Member::on_question(Asked asked) {
    const std::lock_guard lock(asked_mutex_);
    asked_ = std::move(asked);
}

void Member::tell(const Account& account) {
    const std::lock_guard lock(mutex_);
    pending_accounts_.push_back(account);
    wake_.raise();
}

std::optional<Difference> Member::difference() const {
    const std::lock_guard lock(mutex_);
    return difference_;
}

std::map<int, Idleness> Member::idle_in(std::uint64_t number) const {
    const std::lock_guard lock(mutex_);
    const auto known = idle_.find(number);
    return known == idle_.end() ? std::map<int, Idleness>() : known->second;
}

bool Member::has_heard_host_since(Clock::time_point then) const {
    return rank_ == 0 || host_heard_.load() >= then || has_left(0);
}

bool Member::has_left(int rank) const {
    const std::lock_guard lock(mutex_);
    return rank >= 0 && rank < world_size_ && left_[rank];
}

void Member::leave() {
    end(true);
}

void Member::end(bool waits_for_links) {
    const std::lock_guard one_at_a_time(leave_mutex_);
    {
        const std::lock_guard lock(mutex_);
        if (!std::exchange(leaving_, true)) waits_for_links_ = waits_for_links;
        left_[rank_] = true;
        changed_.notify_all();
    }
    wake_.raise();
    if (thread_.joinable()) thread_.join();
}

}  // namespace hocket::transport
