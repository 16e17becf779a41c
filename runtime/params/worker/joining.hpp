// A worker's way into a job: once all servers have reserved a round for it, it joins them at the latest of
// these.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/params/worker/requests.hpp"
#include "runtime/params/worker/upstream.hpp"
#include "runtime/transport/net/socket_loop.hpp"

namespace hocket::params {

// Used only on the service's thread.
class Joining {
  public:
    // All references must outlive it. begin: joins all servers at this round. failed: says why the worker
    // cannot join.
    Joining(transport::SocketLoop& loop, Requests& requests,
            const std::vector<std::unique_ptr<Upstream>>& upstreams, std::function<void(Clock first)> begin,
            std::function<void(const std::string& why)> failed)
        : loop_(loop),
          requests_(requests),
          upstreams_(upstreams),
          begin_(std::move(begin)),
          failed_(std::move(failed)) {}

    // Called when a server has done so: see Upstream::Handlers.
    void reserved();
    void postponed();
    void joined();

  private:
    bool asks_again();
    std::string torn() const;

    transport::SocketLoop& loop_;
    Requests& requests_;
    const std::vector<std::unique_ptr<Upstream>>& upstreams_;
    const std::function<void(Clock)> begin_;
    const std::function<void(const std::string&)> failed_;
    std::size_t joined_count_ = 0;
    // Until when it asks again for a starting point that fits together.
    std::optional<transport::Clock::time_point> asks_until_;
};

}  // namespace hocket::params
