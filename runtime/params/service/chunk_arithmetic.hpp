// The protocol's arithmetic on real elements, for the chunks of one server.
#pragma once

#include <memory>
#include <vector>

#include "runtime/params/job/job.hpp"
#include "runtime/params/links/content.hpp"
#include "runtime/params/protocol/message.hpp"
#include "runtime/params/service/calculator.hpp"

namespace hocket::params {

// Not thread-safe: use from one thread at a time. Chunks are numbered from the server's first one.
class ChunkArithmetic final : public Arithmetic {
  public:
    ChunkArithmetic(std::shared_ptr<const Layout> layout, std::uint32_t server,
                    std::shared_ptr<Memory> memory, std::shared_ptr<const Calculator> calculator);

    Value sum(Chunk chunk, const std::vector<Value>& parts) override;
    Value updated(Chunk chunk, Clock clock, const Value& weights, const std::vector<Value>& parts,
                  const std::vector<Worker>& workers) override;

    Value zero_weights(Chunk chunk);  // including their states
    // Adds states of zeros to weights that came from elsewhere.
    Value with_states(Chunk chunk, const Value& weights);
    ChunkShape shape(Chunk chunk) const;

  private:
    const Layout::Place& place(Chunk chunk) const {
        return layout_->place(layout_->first_of(server_) + chunk);
    }
    Value sum_of_sparse(Chunk chunk, const std::vector<const Content*>& parts);
    Block dense(Chunk chunk, const Content* content);
    Block zeros(std::uint64_t bytes);

    const std::shared_ptr<const Layout> layout_;
    const std::uint32_t server_;
    const std::shared_ptr<Memory> memory_;
    const std::shared_ptr<const Calculator> calculator_;
};

}  // namespace hocket::params
