#include "runtime/params/service/chunk_arithmetic.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

namespace hocket::params {

ChunkArithmetic::ChunkArithmetic(std::shared_ptr<const Layout> layout, std::uint32_t server,
                                 std::shared_ptr<Memory> memory, std::shared_ptr<const Calculator> calculator)
    : layout_(std::move(layout)),
      server_(server),
      memory_(std::move(memory)),
      calculator_(std::move(calculator)) {}

ChunkShape ChunkArithmetic::shape(Chunk chunk) const {
    return {place(chunk).count, element_size(place(chunk).type)};
}

// ---- Sums ------------------------------------------------------------------------------------------------

Value ChunkArithmetic::sum(Chunk chunk, const std::vector<Value>& parts) {
    std::vector<const Content*> contents;  // the parts that are not zeros
    const Value* only = nullptr;
    for (const Value& part : parts)
        if (part) contents.push_back(content_of(*(only = &part)));
    if (contents.empty()) return nullptr;
    if (contents.size() == 1) return *only;
    const bool are_sparse =
        std::all_of(contents.begin(), contents.end(), [](auto* c) { return c->is_sparse; });
    if (are_sparse)
        if (Value sparse = sum_of_sparse(chunk, contents)) return sparse;
    std::vector<Block> blocks;
    std::vector<const std::byte*> operands;
    for (const Content* const content : contents) {
        blocks.push_back(dense(chunk, content));
        operands.push_back(blocks.back().get());
    }
    Content result{memory_->allocate(place(chunk).bytes()), place(chunk).bytes()};
    calculator_->sum(place(chunk).type, operands, place(chunk).count, result.block.get());
    return value_of(std::move(result));
}

// Fills each part with zeros where another part has an entry, so the sum has the same bits as a dense one.
// Returns null if the result would be no smaller than a dense one.
Value ChunkArithmetic::sum_of_sparse(Chunk chunk, const std::vector<const Content*>& parts) {
    const std::uint64_t size = element_size(place(chunk).type);
    std::vector<std::uint32_t> all;
    for (const Content* const part : parts) {
        const std::uint32_t* const indices = sparse_indices(*part, size);
        std::vector<std::uint32_t> merged;
        std::set_union(all.begin(), all.end(), indices, indices + sparse_entries(part->bytes, size),
                       std::back_inserter(merged));
        all = std::move(merged);
    }
    Content result{nullptr, sparse_bytes(all.size(), size), true};
    if (result.bytes >= place(chunk).bytes()) return nullptr;
    std::vector<std::vector<std::byte>> spread;
    std::vector<const std::byte*> operands;
    for (const Content* const part : parts) {
        const std::uint32_t* const indices = sparse_indices(*part, size);
        std::vector<std::byte>& values = spread.emplace_back(all.size() * size);
        std::size_t at = 0;
        for (std::size_t i = 0; i < sparse_entries(part->bytes, size); ++i) {
            while (all[at] != indices[i]) ++at;
            std::memcpy(values.data() + at * size, part->block.get() + i * size, size);
        }
        operands.push_back(values.data());
    }
    result.block = memory_->allocate(result.bytes);
    calculator_->sum(place(chunk).type, operands, all.size(), result.block.get());
    std::memcpy(result.block.get() + sparse_indices_at(all.size(), size), all.data(), all.size() * 4);
    return value_of(std::move(result));
}

Block ChunkArithmetic::zeros(std::uint64_t bytes) {
    Block block = memory_->allocate(bytes);
    std::memset(block.get(), 0, bytes);
    return block;
}

Block ChunkArithmetic::dense(Chunk chunk, const Content* content) {
    if (content && !content->is_sparse) return content->block;
    Block block = zeros(place(chunk).bytes());
    if (!content) return block;
    const std::uint64_t size = element_size(place(chunk).type);
    const std::uint32_t* const indices = sparse_indices(*content, size);
    for (std::size_t i = 0; i < sparse_entries(content->bytes, size); ++i)
        std::memcpy(block.get() + indices[i] * size, content->block.get() + i * size, size);
    return block;
}

// ---- Weights ---------------------------------------------------------------------------------------------

Value ChunkArithmetic::updated(Chunk chunk, Clock clock, const Value& weights,
                               const std::vector<Value>& parts, const std::vector<Worker>& workers) {
    const Value total = sum(chunk, parts);
    const Block gradient = dense(chunk, content_of(total));
    const Content& old = *content_of(weights);
    Content result{memory_->allocate(old.bytes), old.bytes};
    result.state_bytes = old.state_bytes;
    std::vector<const std::byte*> before{old.block.get()};
    std::vector<std::byte*> after{result.block.get()};
    for (const Block& state : old.states) {
        before.push_back(state.get());
        result.states.push_back(memory_->allocate(old.state_bytes));
        after.push_back(result.states.back().get());
    }
    std::vector<std::uint64_t> tensors;
    for (const Layout::Piece& piece : layout_->pieces_of_chunk(layout_->first_of(server_) + chunk))
        tensors.push_back(piece.count);
    calculator_->update(place(chunk).type, before, gradient.get(), place(chunk).count, tensors,
                        {static_cast<std::uint32_t>(workers.size()), clock + 1}, after);
    return value_of(std::move(result));
}

Value ChunkArithmetic::zero_weights(Chunk chunk) {
    const std::uint64_t bytes = place(chunk).bytes();
    return with_states(chunk, value_of({zeros(bytes), bytes}));
}

Value ChunkArithmetic::with_states(Chunk chunk, const Value& weights) {
    Content result{dense(chunk, content_of(weights)), place(chunk).bytes()};
    result.state_bytes = place(chunk).count * calculator_->state_bytes(place(chunk).type);
    for (std::size_t i = 0; i < calculator_->states(); ++i)
        result.states.push_back(zeros(result.state_bytes));
    return value_of(std::move(result));
}

}  // namespace hocket::params
