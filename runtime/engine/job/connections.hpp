// The connections of a rank to the others of its communicator: the bootstrap, the memory that ranks of a host
// share, and the fabric. All are made when the ranks meet.
#pragma once

#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/caught.hpp"
#include "runtime/engine/job/agreement.hpp"
#include "runtime/engine/job/options.hpp"
#include "runtime/engine/job/tuning.hpp"
#include "runtime/engine/run/local_peers.hpp"
#include "runtime/transport/bootstrap/bootstrap.hpp"
#include "runtime/transport/fabric/fabric.hpp"
#include "runtime/transport/window/window.hpp"

namespace hocket::engine {

class Connections {
  public:
    // Joins the job; collective. Throws hocket::Error.
    explicit Connections(const Options& options);
    Connections(const Connections&) = delete;

    // The options with what the ranks have agreed on: rank, size, topology, recovery, planning.
    const Options& options() const { return options_; }
    int rank() const { return options_.rank; }
    int size() const { return options_.world_size; }
    const Agreement& agreement() const { return agreement_; }
    // Returns the number of this rank's host: ranks that share memory have the same number.
    int host() const { return host_; }
    // Returns the numeric address at which the other ranks reach this one.
    std::string own_address() const;
    // Returns the job's shape as rank 0 sees it.
    JobShape shape() const;

    // Returns the topology by which schedules are chosen: the job's, with what was measured of its links.
    const std::string& planning_topology() const { return planning_topology_; }
    // Returns what was measured of the links, for people; or why nothing was.
    const std::string& links_text() const { return links_text_; }

    const std::string& provider() const { return provider_; }          // "none" in a world of one
    const std::string& provider_why() const { return provider_why_; }  // reasons for it; "" without messages
    // Connections that others have taken over from, for people; "" if there are none. Thread-safe. The text
    // stays valid.
    const std::string& lost_rails() const {
        static const std::string none;
        return fabric_ ? fabric_->lost_rails() : none;
    }

    transport::Bootstrap& bootstrap() const { return *bootstrap_; }
    // The ranks of this host that share memory with this one; null if there are none.
    LocalPeers* local_peers() const { return local_peers_.get(); }
    // Connects this rank to those that share no memory with it; null if there are none.
    transport::Fabric* fabric() const { return fabric_.get(); }
    // The memory that the ranks of this host share. This rank allocates in its own part.
    transport::Window& window() const { return *window_; }

    // The barriers with which a communicator begins that has new processes.
    int first_barriers() const { return first_barriers_; }

    // Makes a part of the communicator. If one rank fails, the others would wait for it: so all ranks fail,
    // with the error that rank 0 received first.
    template <typename Make>
    auto make_on_all(Make make) {
        try {
            return make();
        } catch (const std::exception& error) {
            throw told_to_all(error_of(error));
        }
    }

  private:
    void meet();
    void check_schedule() const;
    void open_window(transport::WindowInvitation invitation);
    std::unique_ptr<transport::Fabric> open_card_of_all(const std::vector<std::string>& wanted_nics);
    void open_fabric(const std::vector<std::string>& wanted_nics);
    void learn_links(bool may_probe);
    Error told_to_all(const Error& own);

    Options options_;
    std::string provider_ = "none", provider_why_;
    std::string planning_topology_, links_text_;
    std::unique_ptr<transport::Bootstrap> bootstrap_;
    Agreement agreement_;
    int host_ = 0, first_barriers_ = 0;
    bool one_host_ = false, topology_is_found_ = false;
    std::unique_ptr<transport::Window> own_window_;  // if no memory is shared
    std::unique_ptr<LocalPeers> local_peers_;
    transport::Window* window_ = nullptr;
    std::unique_ptr<transport::Fabric> fabric_;
};

// Returns the text of a loss, for errors.
std::string loss_text(const transport::Loss& loss);

}  // namespace hocket::engine
