// Lets the surviving ranks find each other after others were lost, rank 0 perhaps among them.
//
// Every rank has a recovery socket from the beginning, at which it listens, and whose address all ranks know.
// The kernel refuses connections to the recovery socket of a process that has ended. So each survivor
// connects to the ranks before it, one after another; the first that exists leads. The leader waits until
// every rank after it has come, or is gone; it then decides which ranks survive, and tells them where to
// meet. If one of them dies meanwhile, all begin again.
//
// Communicators that are made from one another this way share the recovery sockets, and number the ranks as
// the first of them did. So some ranks may have a later communicator than others when the next rank is lost.
//
// A rank that neither comes nor has ended is unknown: the wait for it ends at the deadline, and all ranks
// that wait together give it up together. A part goes on without the unknown ranks only if it has more ranks
// than they are, or as many and the first rank.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/transport/bootstrap/invitation.hpp"
#include "runtime/transport/bootstrap/link.hpp"
#include "runtime/transport/net/socket.hpp"

namespace hocket::transport {

// The connections over which survivors were counted. All ranks keep them until they have met, so that their
// leader detects at once if one dies meanwhile: they have no other connections yet.
class Company {
  public:
    void add(int rank, Link link) { links_.insert_or_assign(rank, std::move(link)); }
    // For the leader, while it waits for the others: says which of them has gone. Never waits.
    std::optional<std::string> loss() const;

  private:
    std::map<int, Link> links_;  // by rank; the leader has one to each other rank, the others one to it
};

// The recovery of this process; thread-safe unless stated otherwise.
class Recovery {
  public:
    // address: numeric, where the other ranks reach this host. Throws Error(bootstrap).
    explicit Recovery(const std::string& address);

    const Endpoint& own() const { return own_; }

    // Call before all other functions: sets where all ranks are, which of them this is, and the shared
    // secret.
    void settle(std::vector<Endpoint> all, int self, std::string secret);

    int self() const { return self_; }
    void note_lost(int rank);
    std::set<int> lost() const;  // as far as known here

    struct Regrouped {
        std::vector<int> survivors;  // ascending
        Invitation rendezvous;       // from the first of them
        Company company{};
    };
    // Reasons to treat ranks that are not here as unknown even if they have ended: they may have gone on
    // without this one first.
    struct Doubt {
        bool was_given_up = false;    // all others count this rank as lost
        std::set<int> of_ranks = {};  // these ranks waited less long than this rank took to come
    };

    // Gathers the survivors, all of which must call it. Throws Error: timeout (a rank that has not ended did
    // not come; it is lost from now on), bootstrap (too many are unknown: they may have gone on without this
    // one). One caller at a time; others wait.
    Regrouped regroup(Clock::time_point deadline, Doubt doubt);

  private:
    class Leader;
    Regrouped lead_or_follow(Clock::time_point deadline);
    std::optional<Regrouped> follow(int leader, Clock::time_point deadline);
    void throw_given_up(std::string_view payload);
    bool is_gone(int rank) const;

    Endpoint own_;
    Socket listener_;
    std::vector<Endpoint> all_;
    int self_ = 0;
    std::string secret_;
    std::mutex regrouping_;  // guards the next two
    Doubt doubt_;
    std::set<int> answered_;    // ranks that took this one in during this call: they are alive
    mutable std::mutex mutex_;  // guards lost_
    std::set<int> lost_;
};

}  // namespace hocket::transport
