#include "runtime/params/worker/staging.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/base/error.hpp"
#include "runtime/params/links/copy.hpp"

namespace hocket::params {

Staging::Staging(std::shared_ptr<const Job> job, std::shared_ptr<const Layout> layout,
                 std::shared_ptr<Memory> memory, std::function<void(Chunk, Value)> full)
    : job_(std::move(job)), layout_(std::move(layout)), memory_(std::move(memory)), full_(std::move(full)) {
    begin_round();
}

void Staging::begin_round() {
    is_claimed_.assign(job_->tensors.size(), false);
    filling_.resize(layout_->chunks());
    for (Chunk chunk = 0; chunk < filling_.size(); ++chunk) {
        const std::uint32_t pieces = layout_->place(chunk).pieces;
        filling_[chunk].block = nullptr;
        filling_[chunk].left = pieces;
        filling_[chunk].is_there.assign(pieces, false);
    }
}

// Claims all of the tensors, with the memory for their elements, or none.
void Staging::claim(std::uint32_t first, std::size_t count, const std::function<void()>& make_room) {
    const std::lock_guard lock(mutex_);
    const auto begin = is_claimed_.begin() + first, end = begin + static_cast<std::ptrdiff_t>(count);
    if (const auto claimed = std::find(begin, end, true); claimed != end) {
        const auto tensor = static_cast<std::size_t>(claimed - is_claimed_.begin());
        throw Error(
            Status::invalid_argument,
            fmt::format("tensor {} ({}) was pushed in this round already; hkt_params_clock ends the round",
                        tensor, job_->tensors[tensor].name));
    }
    make_room();
    std::fill(begin, end, true);
}

// The caller holds the lock.
void Staging::make_room(const Layout::Piece& piece) {
    Filling& filling = filling_[piece.chunk];
    if (!filling.block) filling.block = memory_->allocate(layout_->place(piece.chunk).bytes());
}

std::byte* Staging::room(const Layout::Piece& piece) {
    const std::lock_guard lock(mutex_);
    return filling_[piece.chunk].block.get() + piece.at * element_size(layout_->place(piece.chunk).type);
}

void Staging::add(std::uint32_t first, std::span<const std::byte* const> gradients) {
    const auto tensors_end = first + static_cast<std::uint32_t>(gradients.size());
    claim(first, gradients.size(), [&] {
        for (std::uint32_t tensor = first; tensor < tensors_end; ++tensor)
            for (const Layout::Piece& piece : layout_->pieces_of_tensor(tensor)) make_room(piece);
    });
    for (std::uint32_t tensor = first; tensor < tensors_end; ++tensor) {
        const std::uint64_t size = element_size(job_->tensors[tensor].type);
        for (const Layout::Piece& piece : layout_->pieces_of_tensor(tensor)) {
            copy_bytes(room(piece), gradients[tensor - first] + piece.first * size, piece.count * size);
            piece_is_there(piece);
        }
    }
}

void Staging::add_sparse(std::uint32_t tensor, std::span<const std::uint32_t> indices,
                         const std::byte* values) {
    const Tensor& of = job_->tensors[tensor];
    const bool ascend =
        std::adjacent_find(indices.begin(), indices.end(), std::greater_equal<>()) == indices.end();
    if (!ascend || (!indices.empty() && indices.back() >= of.count))
        throw Error(
            Status::invalid_argument,
            fmt::format("the indices of a sparse update of tensor {} ({}) must ascend, and be below {}, its "
                        "number of elements",
                        tensor, of.name, of.count));
    std::vector<SparsePiece> pieces;
    claim(tensor, 1, [&] {
        for (const Layout::Piece& piece : layout_->pieces_of_tensor(tensor)) {
            const auto begin = std::lower_bound(indices.begin(), indices.end(), piece.first);
            const auto end = std::lower_bound(begin, indices.end(), piece.first + piece.count);
            pieces.push_back(sparse_piece(piece, {begin, end},
                                          values + (begin - indices.begin()) * element_size(of.type)));
        }
        for (const SparsePiece& sparse : pieces)
            if (!sparse.is_dense) filling_[sparse.piece.chunk].left = 0;
    });
    for (SparsePiece& sparse : pieces) sparse.is_dense ? fill_densely(sparse) : fill(sparse);
}

// A chunk that has other tensors as well becomes dense. The caller holds the lock.
Staging::SparsePiece Staging::sparse_piece(const Layout::Piece& piece, std::span<const std::uint32_t> indices,
                                           const std::byte* values) {
    const Layout::Place& place = layout_->place(piece.chunk);
    const std::uint64_t bytes = sparse_bytes(indices.size(), element_size(place.type));
    SparsePiece sparse{piece, indices, values, {nullptr, bytes, true}};
    sparse.is_dense = place.pieces > 1 || bytes >= place.bytes();
    if (sparse.is_dense)
        make_room(piece);
    else if (!indices.empty())
        sparse.content.block = memory_->allocate(bytes);
    return sparse;
}

void Staging::fill(SparsePiece& sparse) {
    const auto& [piece, indices, values, content, is_dense] = sparse;
    if (!content.block) return full_(piece.chunk, nullptr);
    const std::uint64_t size = element_size(layout_->place(piece.chunk).type);
    std::memcpy(content.block.get(), values, indices.size() * size);
    auto* const to =
        reinterpret_cast<std::uint32_t*>(content.block.get() + sparse_indices_at(indices.size(), size));
    for (std::size_t i = 0; i < indices.size(); ++i)
        to[i] = static_cast<std::uint32_t>(indices[i] - piece.first);
    full_(piece.chunk, value_of(std::move(sparse.content)));
}

void Staging::fill_densely(const SparsePiece& sparse) {
    const Layout::Piece& piece = sparse.piece;
    const std::uint64_t size = element_size(layout_->place(piece.chunk).type);
    std::byte* const to = room(piece);
    std::memset(to, 0, piece.count * size);
    for (std::size_t i = 0; i < sparse.indices.size(); ++i)
        std::memcpy(to + (sparse.indices[i] - piece.first) * size, sparse.values + i * size, size);
    piece_is_there(piece);
}

void Staging::piece_is_there(const Layout::Piece& piece) {
    Block block;
    {
        const std::lock_guard lock(mutex_);
        Filling& filling = filling_[piece.chunk];
        filling.is_there[static_cast<std::size_t>(&piece - layout_->pieces_of_chunk(piece.chunk).data())] =
            true;
        if (--filling.left > 0) return;
        block = std::move(filling.block);
    }
    full_(piece.chunk, value_of({std::move(block), layout_->place(piece.chunk).bytes()}));
}

void Staging::finish() {
    for (Chunk chunk = 0; chunk < filling_.size(); ++chunk) {
        Filling& filling = filling_[chunk];
        if (filling.left == 0) continue;
        const Layout::Place& place = layout_->place(chunk);
        if (!filling.block) {
            full_(chunk, nullptr);
            continue;
        }
        const auto pieces = layout_->pieces_of_chunk(chunk);
        for (std::size_t i = 0; i < pieces.size(); ++i)
            if (!filling.is_there[i])
                std::memset(filling.block.get() + pieces[i].at * element_size(place.type), 0,
                            pieces[i].count * element_size(place.type));
        full_(chunk, value_of({std::move(filling.block), place.bytes()}));
    }
    begin_round();
}

}  // namespace hocket::params
