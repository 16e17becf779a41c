// A rank that has joined: one thread, asleep in poll(2), that exchanges heartbeats, relays blobs and detects
// ranks that leave or die. The members form a star around rank 0.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "runtime/transport/bootstrap/bootstrap.hpp"
#include "runtime/transport/bootstrap/link.hpp"
#include "runtime/transport/net/event.hpp"

namespace hocket::transport {

class Member : public Bootstrap {
  public:
    // Prepares all that a member needs; begin() makes it one.
    explicit Member(const BootstrapOptions& options);
    ~Member() override;

    // links: on rank 0 by rank (entry 0 is empty), elsewhere only the link to rank 0. Call once.
    void begin(std::vector<Link> links) noexcept;

    int rank() const override { return rank_; }
    int world_size() const override { return world_size_; }
    std::vector<std::string> all_gather(std::string_view mine, std::chrono::milliseconds timeout,
                                        std::optional<std::uint64_t> operation) override;
    void come() override;
    bool all_have_come(Clock::time_point until) override;
    std::optional<std::vector<int>> absent(std::chrono::milliseconds patience) override;
    std::optional<Loss> loss() const override;
    void report(std::string_view text) override;
    std::optional<Report> reported() const override;
    bool has_bad_news() const override { return has_bad_news_.load(std::memory_order_relaxed); }
    std::optional<Clock::time_point> bad_news_since() const override;
    std::optional<Report> reported_by(int rank) const override;
    void wait_in(std::uint64_t number) override;
    void on_question(Asked asked) override;
    void tell(const Account& account) override;
    std::optional<Difference> difference() const override;
    std::map<int, Idleness> idle_in(std::uint64_t number) const override;
    bool has_heard_host_since(Clock::time_point then) const override;
    bool has_left(int rank) const override;
    int event_fd() const override { return event_.fd(); }
    void leave() override;

  private:
    void end(bool waits_for_links);
    void throw_if_hopeless() const;  // for the caller, which holds mutex_
    void throw_if_broken() const;    // the same, but ignores ranks that have left

    // Called on the thread:
    void run();
    void step();
    void say_goodbye();
    bool is_cut_off(const std::vector<bool>& ended, Clock::time_point now);
    void note_absence(Clock::time_point now);
    void judge_silence(Clock::time_point now);
    std::string others_silent_with(std::size_t index, Clock::time_point now);
    std::optional<std::string> own_absence();
    void send_pending_blob();
    void send_pending_report();
    void send_pending_meeting();
    void note_come(int rank, std::uint32_t number);
    void note_met(std::uint32_t number);
    void note_absent(std::uint32_t number, std::vector<int> ranks);
    std::vector<int> absent_from(std::uint32_t number) const;
    void send_pending_comparison();
    void note_wait(std::uint64_t number);
    void ask_all(std::uint64_t number);
    void ask_here(std::uint64_t number);
    void note_account(int rank, Account account);
    bool note_idle(int rank, std::uint64_t number, Idleness idleness);
    void note_difference(Difference difference);
    void look_at_difference();
    void send_departures();
    void listen_to(std::size_t index);
    Link::State take_from(std::size_t index);
    void handle(int from, const Frame& frame);
    void handle_at_host(int from, const Frame& frame);
    void handle_at_guest(const Frame& frame);
    void take_part(int from, std::uint32_t number, std::string_view blob);
    void note_given_up(int by, const std::string& reason);
    void note_lost(int rank, const std::string& reason);
    void note_left(int rank);
    void note_bad_news();  // call with mutex_ held
    void note_report(int rank, std::string_view text);
    void tell_all(FrameType type, std::string_view payload);
    void send_all(std::string frames);
    int rank_of(std::size_t link) const { return rank_ == 0 ? static_cast<int>(link) : 0; }

    const int rank_, world_size_;
    const HeartbeatTimes times_;
    Event event_, wake_;

    std::atomic<bool> has_bad_news_{false};
    std::atomic<Clock::time_point> host_heard_{};  // on ranks other than 0
    mutable std::mutex mutex_;                     // guards the members below, up to links_
    std::optional<Clock::time_point> bad_news_since_;
    std::condition_variable changed_;
    std::optional<Loss> loss_;
    std::vector<Report> reports_;                // in order of arrival; the first is the same on all ranks
    std::optional<std::string> pending_report_;  // given by the caller; the thread will take it
    bool has_reported_ = false;
    std::vector<bool> left_;
    bool has_begun_ = false, leaving_ = false;
    bool waits_for_links_ = false;                   // as it leaves
    std::uint32_t gather_number_ = 0;                // of the current all_gather
    std::optional<std::string> pending_blob_;        // given by the caller; the thread will take it
    std::vector<std::optional<std::string>> parts_;  // rank 0: from all ranks; others: from rank 0's answer
    std::size_t missing_parts_;
    std::optional<std::vector<std::string>> result_;  // complete; the caller will take it
    bool gather_broken_ = false;
    // Rendezvous are numbered from 1. This rank has come to `rendezvous_`; all have come to `met_`.
    std::uint32_t rendezvous_ = 0, met_ = 0;
    bool has_come_ = false;                          // until this rank has been told that all have come
    bool has_to_come_ = false, has_to_ask_ = false;  // the thread must tell rank 0
    std::vector<std::uint32_t> come_;                // rank 0: by rank, the last rendezvous that it came to
    std::optional<std::vector<int>> absent_;         // the answer to the last question, if it has arrived
    std::optional<std::uint64_t> pending_wait_;      // given by the caller; the thread will take it
    std::vector<Account> pending_accounts_;          // given by the caller, too
    std::optional<Difference> difference_;
    // By number and rank: ranks that make no progress on an operation, as rank 0 has told all of them.
    std::map<std::uint64_t, std::map<int, Idleness>> idle_;
    std::mutex asked_mutex_;  // guards asked_; held while it is called
    Asked asked_;

    std::vector<Link> links_;  // the members from here on belong to the thread
    Clock::time_point next_beat_;
    Clock::time_point awake_;    // when the thread last ran
    Clock::duration absence_{};  // the last long time in which the process did not run
    Clock::time_point back_since_{};
    std::vector<int> departures_;  // rank 0: ranks that said goodbye, not yet told to the others
    Clock::time_point departures_due_;
    Comparison comparison_;  // used by rank 0
    std::mutex leave_mutex_;
    std::thread thread_;
};

}  // namespace hocket::transport
