// How the processes of a job find each other, and learn that one of them died: over TCP connections to rank
// 0, which every rank keeps open as long as it is a member.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/transport/bootstrap/comparison.hpp"

namespace hocket::transport {

class Lobby;

struct BootstrapOptions {
    int rank = 0;
    int world_size = 1;
    bool is_newcomer = false;  // rank and world_size are what rank 0 says
    int newcomers = 0;         // rank 0: how many of world_size are; they get the last numbers, as they come
    bool newcomers_wait =
        false;  // rank 0: they are in the lobby already; joining fails if one of them has gone
    std::shared_ptr<Lobby> lobby = nullptr;  // rank 0: where the others come to; null: where it listens
    std::string master_addr = "127.0.0.1";   // where rank 0 listens
    int master_port = 0;
    int listen_fd = -1;  // rank 0: a socket that already listens (HOCKET_LISTEN_FD); -1: bind master_port
    bool host_listens = false;  // rank 0 listens before others know of it: where nobody does, it has gone
    std::string secret;  // never sent: both sides prove that they know it (HMAC-SHA256 of fresh nonces)
    std::chrono::milliseconds join_timeout{60000};
    // Why joining is to be given up, if something that this rank knows from elsewhere says so: a rank that is
    // to join has died. Asked now and then. Empty: it knows of nothing.
    std::function<std::optional<std::string>()> abandoned = {};
    std::chrono::milliseconds heartbeat_interval{500};
    std::chrono::milliseconds heartbeat_timeout{10000};  // see silence.hpp
};

// A rank that left without saying goodbye, or fell silent. It may be this one, if the others have given it
// up, for example because it did not run for too long.
struct Loss {
    int rank;
    std::string reason;  // "its connection closed (the process ended)", "no heartbeat for 10.2 s (...)"
};

// What a rank found to be wrong with the job, in words that only the ranks' callers understand.
struct Report {
    int rank;
    std::string text;
};

inline constexpr std::size_t max_report_size = 4096;

class Bootstrap {
  public:
    // Returns when all ranks have joined. A world of one opens no socket. Throws hocket::Error: bootstrap
    // (address, secret, duplicate or out-of-range rank, differing world sizes), timeout (names the ranks that
    // are missing), peer_lost (options.abandoned says so), out_of_memory. If a rank fails after it has
    // reached rank 0, it tells its error to the others, which throw it too. A stranger (wrong secret, wrong
    // protocol, a port scanner) is turned away and logged to stderr, and does not disturb the others.
    static std::unique_ptr<Bootstrap> join(const BootstrapOptions& options);
    virtual ~Bootstrap() = default;  // calls leave(), if that was not done yet

    virtual int rank() const = 0;
    virtual int world_size() const = 0;

    // Collective: every rank gives a blob (at most 1 MiB) and gets all of them, by rank. Ranks call these in
    // the same order. Throws peer_lost, timeout. One caller at a time. operation: the number that this has
    // among the operations of the rank: a rank that waits in it for long says so (wait_in); none: it is none.
    virtual std::vector<std::string> all_gather(std::string_view mine, std::chrono::milliseconds timeout,
                                                std::optional<std::uint64_t> operation = std::nullopt) = 0;

    // A rendezvous of all ranks beside everything else, which may be given up and taken up again. come():
    // this rank has come to its next rendezvous; to the same one as before if not all had come to that yet.
    // Thread-safe, never blocks. all_have_come() waits until all ranks have come to the rendezvous; false:
    // the time has come first. Throws peer_lost, or bootstrap after a report.
    virtual void come() = 0;
    virtual bool all_have_come(std::chrono::steady_clock::time_point until) = 0;
    // Who has not come to it, ascending; rank 0 is asked. None: it did not answer within `patience`.
    virtual std::optional<std::vector<int>> absent(std::chrono::milliseconds patience) = 0;

    // The first rank that was lost: the same one on all survivors, as far as rank 0 can tell. Thread-safe,
    // never blocks. A rank that said goodbye (leave) is not lost.
    virtual std::optional<Loss> loss() const = 0;

    // Whether rank 0, from which all news comes, has said anything since then, or has left. True on rank 0.
    virtual bool has_heard_host_since(std::chrono::steady_clock::time_point then) const = 0;

    // True once `rank` has said goodbye.
    virtual bool has_left(int rank) const = 0;

    // Tells all ranks that something is wrong. Only the first call counts. At most max_report_size bytes are
    // passed on. Returns at once; the report is sent before a leave() that follows. A report is passed on if
    // it was given before this rank saw rank 0 leave; after that nobody is left to pass it on. A rank that
    // has learnt of a loss no longer hears reports.
    virtual void report(std::string_view text) = 0;

    // The report that came first: the same one on all ranks. It also ends all_gather. Thread-safe, as
    // report() is; never blocks.
    virtual std::optional<Report> reported() const = 0;

    // Whether there is a loss, a report or a difference. Reads one flag: it is asked before each operation.
    virtual bool has_bad_news() const = 0;

    // When the first of them came to be known here; nothing if none has. Thread-safe, never blocks.
    virtual std::optional<std::chrono::steady_clock::time_point> bad_news_since() const = 0;

    // What `rank` has reported, if that is known here: all ranks get the first report; later ones reach rank
    // 0 and the rank whose report was first.
    virtual std::optional<Report> reported_by(int rank) const = 0;

    // Finding ranks that have started different operations (comparison.hpp). wait_in(): this rank waits in
    // its operation of this number, for longer than is usual; to be called again now and then. asked: called
    // on the member's thread when a rank waits in an operation of this number; it must not block. tell() is
    // to be called then, from any thread, with that operation, or with the latest that this rank has started.
    // After on_question({}) the one before is not called any more. All are thread-safe, and never block for
    // long.
    using Asked = std::function<void(std::uint64_t number)>;
    virtual void wait_in(std::uint64_t number) = 0;
    virtual void on_question(Asked asked) = 0;
    virtual void tell(const Account& account) = 0;
    // What ranks have started instead of the same, if that was found; the same on all ranks. Bad news, as a
    // report is: it also ends all_gather.
    virtual std::optional<Difference> difference() const = 0;
    // The ranks that do not move the operation of this number, which this one waits in, as they were when
    // they were asked last: most_idle at most.
    virtual std::map<int, Idleness> idle_in(std::uint64_t number) const = 0;

    // Becomes readable, and stays so, with the first loss, report, difference or goodbye; for the poll set of
    // code that waits. -1 in a world of one.
    virtual int event_fd() const = 0;

    // Says goodbye and closes. Idempotent; waits no longer than 500 ms.
    virtual void leave() = 0;
};

}  // namespace hocket::transport
