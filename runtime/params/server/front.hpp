// The first server's tasks in addition to its shard: it keeps track of all servers, admits workers, and
// begins the job.
//
// A worker sends the job's description here, and receives the servers' addresses. The job begins when all
// servers and as many workers as its description requires have connected; those workers are its founders.
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

// Used only on the service's thread.
class Front {
  public:
    // Describes how a job began; sent to each server.
    struct Beginning {
        Job job;
        std::uint32_t servers = 1;  // how many have chunks
        std::vector<Worker> founders;
        std::vector<Worker> givers;  // those of them that have first weights; the servers use the first one's
        std::string run;             // a name for this run of the job, unique among all runs
        std::uint64_t every = 1;     // rounds between two checkpoints, of all servers
    };
    struct Own {
        std::string at, rack;  // this server's address, and its rack
        std::uint64_t every;   // passed on in Beginning
    };
    // begin: starts this server's own shard. incarnation: how often the first server was replaced.
    Front(std::uint32_t servers, Own own, MakeCalculator make_calculator,
          std::function<void(const Beginning&)> begin);

    // Continues a job that has begun.
    void restore(Job job, std::string run, std::uint32_t incarnation);

    // Throws transport::ProtocolError.
    void take_open(Link& link, const nlohmann::json& note);
    void take_serve(Link& link, const nlohmann::json& note);
    // Another server announces that it is being stopped: the end of its connection is then not an error.
    void take_leaving(Link& link);
    void lost(Link& link);  // it has ended or is about to be destroyed
    // Announces that this server is being stopped. Each connection ends when the other server has read that.
    void leave();
    bool has_left() const;

    // Returns the addresses of the servers that have chunks; nothing until all of them have connected.
    std::optional<std::vector<std::string>> places() const;
    void tell_places(Link& worker) const;  // sends the known addresses
    // Called when a server has a new address, after the job has begun.
    std::function<void(const nlohmann::json& note)> tell_workers;
    // Called when the racks of more servers are known, after the job has begun; the other servers are told as
    // well.
    std::function<void(const std::vector<std::string>& racks)> tell_own_shard;
    const std::optional<Job>& job() const { return job_; }
    // Names, for people, the processes that have not connected; "": none is missing.
    std::string missing() const;

  private:
    struct Caller {
        Link* link;
        std::optional<Worker> wanted;
        bool has_weights;
    };

    struct Known {                      // a server
        std::string at, rack, process;  // at: "" before it connects. process: identifies the process
        Link* link = nullptr;           // null: this server itself, or not connected
        std::uint32_t incarnation = 0;  // the latest that has connected
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
    std::vector<Caller> callers_;  // not yet answered
    std::uint32_t incarnation_ = 0;
    Worker next_ = 0;
};

}  // namespace hocket::params
