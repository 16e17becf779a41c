// Lets the processes of a job find each other, and detects that one of them died, over TCP connections to
// rank 0, which every rank keeps open as long as it is a member.
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
    bool is_newcomer = false;  // rank 0 decides rank and world_size
    int newcomers = 0;         // rank 0: how many of world_size; they get the last ranks, as they arrive
    bool newcomers_wait =
        false;  // rank 0: the newcomers are in the lobby; joining fails if one of them has gone
    std::shared_ptr<Lobby> lobby = nullptr;  // rank 0: where the others join; null: at its listening socket
    std::string master_addr = "127.0.0.1";   // where rank 0 listens
    int master_port = 0;
    int listen_fd = -1;  // rank 0: a socket that already listens (HOCKET_LISTEN_FD); -1: bind master_port
    bool host_listens = false;  // rank 0 listens before others know of it: a refusal means it has gone
    std::string secret;  // never sent: both sides prove that they know it (HMAC-SHA256 of fresh nonces)
    std::chrono::milliseconds join_timeout{60000};
    // Returns a reason to give up joining that this rank knows from elsewhere: a rank that is to join has
    // died. Called now and then. Empty: there is no such source.
    std::function<std::optional<std::string>()> abandoned = {};
    std::chrono::milliseconds heartbeat_interval{500};
    std::chrono::milliseconds heartbeat_timeout{10000};  // see silence.hpp
};

// A rank that left without saying goodbye, or fell silent. It may be this one, if the others have given it
// up, for example because it was suspended for too long.
struct Loss {
    int rank;
    std::string reason;  // "its connection closed (the process ended)", "no heartbeat for 10.2 s (...)"
};

// A rank's report of a failure of the job, in words that only the ranks' callers interpret.
struct Report {
    int rank;
    std::string text;
};

inline constexpr std::size_t max_report_size = 4096;

class Bootstrap {
  public:
    // Joins the job. Returns when all ranks have joined. A world of one opens no socket. Throws
    // hocket::Error: bootstrap (address, secret, duplicate or out-of-range rank, differing world sizes),
    // timeout (names the ranks that are missing), peer_lost (options.abandoned says so), out_of_memory. If a
    // rank fails after it has reached rank 0, it reports its error to the others, which throw it too. A
    // stranger (wrong secret, wrong protocol, a port scanner) is turned away and logged to stderr, without
    // effect on the others.
    static std::unique_ptr<Bootstrap> join(const BootstrapOptions& options);
    virtual ~Bootstrap() = default;  // leaves, if that was not done yet, and waits for no link

    virtual int rank() const = 0;
    virtual int world_size() const = 0;

    // Collective: every rank gives a blob (at most 1 MiB) and gets all of them, by rank. Ranks make these
    // calls in the same order. Throws peer_lost, timeout. One caller at a time. operation: the number of this
    // call among the rank's operations, which a rank that waits long reports (wait_in); nullopt: it has no
    // number.
    virtual std::vector<std::string> all_gather(std::string_view mine, std::chrono::milliseconds timeout,
                                                std::optional<std::uint64_t> operation = std::nullopt) = 0;

    // A rendezvous of all ranks, independent of everything else, which may be given up and resumed. come():
    // this rank has come to its next rendezvous, or to the same one as before if it has not been told yet
    // that all had come to that: by all_have_come(), or by absent() without ranks. Thread-safe, never blocks.
    // all_have_come() waits until all ranks have come to the rendezvous, and returns false if the time came
    // first. Throws peer_lost, or bootstrap after a report.
    virtual void come() = 0;
    virtual bool all_have_come(std::chrono::steady_clock::time_point until) = 0;
    // Asks rank 0 and returns the ranks that have not come to the rendezvous, ascending; nullopt if rank 0
    // did not answer within `patience`.
    virtual std::optional<std::vector<int>> absent(std::chrono::milliseconds patience) = 0;

    // Returns the first rank that was lost: the same one on all survivors, as far as rank 0 can tell.
    // Thread-safe, never blocks. A rank that said goodbye (leave) is not lost.
    virtual std::optional<Loss> loss() const = 0;

    // Returns true if rank 0, from which all news comes, has sent anything since `then`, or has left. True on
    // rank 0.
    virtual bool has_heard_host_since(std::chrono::steady_clock::time_point then) const = 0;

    // Returns true once `rank` has said goodbye.
    virtual bool has_left(int rank) const = 0;

    // Reports a failure to all ranks. Only the first call counts. At most max_report_size bytes are passed
    // on. Returns at once; the report is sent before a later leave(). A report is passed on if it was given
    // before this rank saw rank 0 leave; afterwards no rank is left to pass it on. A rank that has learnt of
    // a loss no longer receives reports.
    virtual void report(std::string_view text) = 0;

    // Returns the report that came first: the same one on all ranks. It also ends all_gather. Thread-safe, as
    // report() is; never blocks.
    virtual std::optional<Report> reported() const = 0;

    // Returns true if there is a loss, a report or a difference. Reads one flag, because it is called before
    // each operation.
    virtual bool has_bad_news() const = 0;

    // Returns the time at which the first of them became known here; nullopt if none has. Thread-safe, never
    // blocks.
    virtual std::optional<std::chrono::steady_clock::time_point> bad_news_since() const = 0;

    // Returns the report of `rank`, if it is known here: all ranks get the first report; later ones reach
    // rank 0 and the rank whose report was first.
    virtual std::optional<Report> reported_by(int rank) const = 0;

    // Find ranks that have started different operations (comparison.hpp). wait_in(): this rank has waited
    // unusually long in its operation with this number; call it again now and then. asked: called on the
    // member's thread when a rank waits in an operation with this number; it must not block. Call tell()
    // then, from any thread, with that operation, or with the latest that this rank has started. After
    // on_question({}) the previous function is no longer called. All are thread-safe, and never block for
    // long.
    using Asked = std::function<void(std::uint64_t number)>;
    virtual void wait_in(std::uint64_t number) = 0;
    virtual void on_question(Asked asked) = 0;
    virtual void tell(const Account& account) = 0;
    // Returns the different operations that ranks have started, if a difference was found; the same on all
    // ranks. It is bad news, as a report is: it also ends all_gather.
    virtual std::optional<Difference> difference() const = 0;
    // Returns the ranks that make no progress on the operation with this number, in which this one waits, as
    // of their last answers: most_idle at most.
    virtual std::map<int, Idleness> idle_in(std::uint64_t number) const = 0;

    // Returns a descriptor that becomes readable, and stays so, with the first loss, report, difference or
    // goodbye; for the poll set of code that waits. -1 in a world of one.
    virtual int event_fd() const = 0;

    // Says goodbye and closes. Idempotent; waits no longer than 500 ms; where a link is down, until it is up
    // again, the rank behind it is lost, or 30 s are over, unless a rank was lost before.
    virtual void leave() = 0;
};

}  // namespace hocket::transport
