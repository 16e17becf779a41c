// Collects a worker's gradients of its current round until they fill chunks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "runtime/params/job/job.hpp"
#include "runtime/params/links/content.hpp"

namespace hocket::params {

// Thread-safe, except for finish().
class Staging {
  public:
    // full: called once a round for each chunk whose elements are complete, on the thread that brought the
    // last of them.
    Staging(std::shared_ptr<const Job> job, std::shared_ptr<const Layout> layout,
            std::shared_ptr<Memory> memory, std::function<void(Chunk chunk, Value gradient)> full);

    // Copies the gradients of the tensors first, first + 1, ... Throws Error(invalid_argument) if one of them
    // was already added in this round, and Error(out_of_memory); then none of them is added.
    void add(std::uint32_t first, std::span<const std::byte* const> gradients);
    // Only the elements at these indices are nonzero; the indices must ascend. Throws as add() does.
    void add_sparse(std::uint32_t tensor, std::span<const std::uint32_t> indices, const std::byte* values);
    // Ends the round: tensors that were not added count as zeros. The next round begins.
    void finish();

  private:
    struct Filling {
        Block block;             // null: nothing is there yet
        std::uint32_t left = 0;  // missing pieces
        std::vector<bool> is_there;
    };

    struct SparsePiece {
        const Layout::Piece& piece;
        std::span<const std::uint32_t> indices;
        const std::byte* values;
        Content content;  // of a chunk that stays sparse; its block is null if it has no entries
        bool is_dense = false;
    };

    void claim(std::uint32_t first, std::size_t count, const std::function<void()>& make_room);
    void make_room(const Layout::Piece& piece);
    std::byte* room(const Layout::Piece& piece);
    void piece_is_there(const Layout::Piece& piece);
    SparsePiece sparse_piece(const Layout::Piece& piece, std::span<const std::uint32_t> indices,
                             const std::byte* values);
    void fill(SparsePiece& sparse);
    void fill_densely(const SparsePiece& sparse);
    void begin_round();

    const std::shared_ptr<const Job> job_;
    const std::shared_ptr<const Layout> layout_;
    const std::shared_ptr<Memory> memory_;
    const std::function<void(Chunk, Value)> full_;
    std::mutex mutex_;              // guards the members below, but not the elements
    std::vector<Filling> filling_;  // by chunk
    std::vector<bool> is_claimed_;  // by tensor
};

}  // namespace hocket::params
