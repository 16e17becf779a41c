// What the first server does beside its shard: it knows all servers, takes workers in, and begins the job.
//
// A worker says the job's description here, and hears where the servers are. The job begins when all servers
// and as many workers as its description says have come; those are its founders.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "runtime/params/job/job.hpp"
#include "runtime/params/links/link.hpp"
#include "runtime/params/service/calculator.hpp"

namespace hocket::params {

// Of the service's thread.
class Front {
  public:
    // How a job began, as each server hears it.
    struct Beginning {
        Job job;
        std::uint32_t servers = 1;  // that have chunks
        std::vector<Worker> founders;
        bool has_weights = false;
        std::string run;          // the name of this run of the job, which no other has
        std::uint64_t every = 1;  // rounds between two checkpoints, of all servers
    };
    struct Own {
        std::string at, rack;  // where this server is reached, and which rack it is in
        std::uint64_t every;   // for Beginning
    };
    // begin: for this server's own shard. incarnation: how often the first server was replaced.
    Front(std::uint32_t servers, Own own, MakeCalculator make_calculator,
          std::function<void(const Beginning&)> begin);

    // Goes on with a job that has begun.
    void restore(Job job, std::string run, std::uint32_t incarnation);

    // Throws transport::ProtocolError.
    void take_open(Link& link, const nlohmann::json& note);
    void take_serve(Link& link, const nlohmann::json& note);
    // Another server says that it is being stopped: the end of its connection is no trouble.
    void take_leaving(Link& link);
    void lost(Link& link);  // it has ended, or is going to be destroyed
    // This server is being stopped. The connections end when the others have heard it.
    void leave();
    bool has_left() const;

    // Where the servers that have chunks are; nothing while one of them has not come.
    std::optional<std::vector<std::string>> places() const;
    void tell_places(Link& worker) const;  // those that are known
    // Called when a server has come to another place, once the job has begun.
    std::function<void(const nlohmann::json& note)> tell_workers;
    // Called when the racks of more servers are known, once the job has begun; the others hear it, too.
    std::function<void(const std::vector<std::string>& racks)> tell_own_shard;
    const std::optional<Job>& job() const { return job_; }
    // Who has not come, for people; "": nobody is waited for.
    std::string missing() const;

  private:
    struct Caller {
        Link* link;
        std::optional<Worker> wanted;
        bool has_weights;
    };

    struct Known {                      // a server
        std::string at, rack, process;  // at: "": it has not come. process: which it is
        Link* link = nullptr;           // null: this one, or there is none now
        std::uint32_t incarnation = 0;  // the latest that has come
    };

    void try_to_begin();
    void try_to_answer();
    void answer(const Caller& caller, Worker number);
    void tell_server(std::uint32_t index);
    void tell_racks();
    void forget(Known& server) const;
    std::vector<std::string> all_places() const;
    std::uint32_t used_servers() const;
    std::optional<std::uint32_t> index_of(const Link& link) const;

    const std::uint32_t servers_;
    const std::uint64_t every_;
    const MakeCalculator make_calculator_;
    const std::function<void(const Beginning&)> begin_;
    std::optional<Job> job_;
    std::optional<Beginning> beginning_;
    std::vector<Known> known_;     // by server
    std::vector<Caller> callers_;  // that have not been answered
    std::uint32_t incarnation_ = 0;
    Worker next_ = 0;
};

}  // namespace hocket::params
