// The pulls of a worker: the chunks that they wait for, and where their weights are copied to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "runtime/params/worker/requests.hpp"
#include "runtime/params/worker/upstream.hpp"

namespace hocket::params {

struct Waiting {                                                    // for weights of a chunk
    ParameterRequest* request = nullptr;                            // null: it was given up
    Clock clock = 0;                                                // the lowest of weights that it accepts
    std::vector<std::pair<Layout::Piece, std::byte*>> places = {};  // each with the address of its tensor
};
using Wanted = std::map<Chunk, Waiting>;  // by one request

// Return where the weights of tensors, or of chunks of all tensors, are to be copied.
Wanted wanted_of_tensors(const Layout& layout, std::uint32_t first, std::span<std::byte* const> weights);
Wanted wanted_of_chunks(const Layout& layout, std::span<const Chunk> chunks,
                        std::span<std::byte* const> weights);

// Used only on the service's thread.
class Pulls {
  public:
    // All references must outlive it. layout: null until there are upstreams. is_bounded: the job's staleness
    // is.
    Pulls(bool is_bounded, const std::shared_ptr<const Layout>& layout, Requests& requests,
          const std::vector<std::unique_ptr<Upstream>>& upstreams)
        : is_bounded_(is_bounded), layout_(layout), requests_(requests), upstreams_(upstreams) {}

    void take(const std::shared_ptr<Wanted>& wanted);
    // Each waits for the one before.
    void take_in_turn(std::span<const std::shared_ptr<Wanted>> turns);
    // Call after a request has ended or weights have come.
    void take_turns();
    void hand_out(Chunk chunk, const Node::Pulled& pulled);
    void forget(const ParameterRequest* request);
    void clear();

  private:
    void pull_again(Chunk chunk, const std::list<Waiting>& waiting);

    const bool is_bounded_;
    const std::shared_ptr<const Layout>& layout_;
    Requests& requests_;
    const std::vector<std::unique_ptr<Upstream>>& upstreams_;  // by server
    std::map<Chunk, std::list<Waiting>> waiting_;
    std::deque<std::shared_ptr<Wanted>> turns_;  // pulls that each wait for the one before
    const ParameterRequest* turn_ = nullptr;     // the pull before turns_'s first one, while it is open
    bool is_taking_turns_ = false;
};

}  // namespace hocket::params
