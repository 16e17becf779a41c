#include <algorithm>

#include "runtime/params/job/job.hpp"

namespace hocket::params {

std::uint64_t chunk_bytes_of(const Job& job) {
    constexpr std::uint64_t parts = 128, least = 64 << 10, most = 512 << 10;
    if (job.chunk_bytes != 0) return job.chunk_bytes;
    std::uint64_t bytes = 0;
    for (const Tensor& tensor : job.tensors) bytes += tensor.count * element_size(tensor.type);
    return std::clamp(bytes / parts, least, most);
}

Layout::Layout(const Job& job, std::uint32_t servers) {
    cut(job);
    deal(servers);
}

// Packs consecutive tensors of one type into chunks, so that many small tensors travel in one message.
void Layout::cut(const Job& job) {
    const std::uint64_t chunk_bytes = chunk_bytes_of(job);
    for (std::uint32_t number = 0; number < job.tensors.size(); ++number) {
        const Tensor& tensor = job.tensors[number];
        const std::uint64_t room = std::max<std::uint64_t>(chunk_bytes / element_size(tensor.type), 1);
        first_pieces_.push_back(static_cast<std::uint32_t>(pieces_.size()));
        for (std::uint64_t first = 0; first < tensor.count;) {
            const std::uint64_t rest = tensor.count - first;
            const bool fits = !places_.empty() && places_.back().type == tensor.type &&
                              places_.back().count + (job.cuts_tensors ? 1 : rest) <= room;
            if (!fits) places_.push_back({tensor.type, 0, static_cast<std::uint32_t>(pieces_.size()), 0});
            Place& place = places_.back();
            const std::uint64_t count = job.cuts_tensors ? std::min(rest, room - place.count) : rest;
            pieces_.push_back({number, static_cast<Chunk>(places_.size() - 1), first, place.count, count});
            place.count += count;
            ++place.pieces;
            first += count;
        }
        bytes_ += tensor.count * element_size(tensor.type);
    }
    first_pieces_.push_back(static_cast<std::uint32_t>(pieces_.size()));
}

// Assigns a chunk to the server whose share of all bytes contains the chunk's middle. Each server gets at
// least one chunk if there are enough.
void Layout::deal(std::uint32_t servers) {
    firsts_.assign(servers + 1, static_cast<Chunk>(places_.size()));
    firsts_[0] = 0;
    std::uint64_t before = 0;
    std::uint32_t server = 0;
    for (Chunk chunk = 0; chunk < places_.size(); ++chunk) {
        const double middle = static_cast<double>(before) + static_cast<double>(places_[chunk].bytes()) / 2;
        const auto share = static_cast<std::uint32_t>(middle / static_cast<double>(bytes_) * servers);
        const bool others_need_the_rest = places_.size() - chunk < servers - server;
        if (chunk > 0 && server < servers - 1 && (server < share || others_need_the_rest))
            firsts_[++server] = chunk;
        before += places_[chunk].bytes();
    }
}

std::span<const Layout::Piece> Layout::pieces_of_chunk(Chunk chunk) const {
    return std::span(pieces_).subspan(places_[chunk].first_piece, places_[chunk].pieces);
}

std::span<const Layout::Piece> Layout::pieces_of_tensor(std::uint32_t tensor) const {
    return std::span(pieces_).subspan(first_pieces_[tensor],
                                      first_pieces_[tensor + 1] - first_pieces_[tensor]);
}

std::uint32_t Layout::server_of(Chunk chunk) const {
    const auto after = std::upper_bound(firsts_.begin(), firsts_.end(), chunk);
    return static_cast<std::uint32_t>(after - firsts_.begin()) - 1;
}

std::uint64_t Layout::largest_chunk() const {
    std::uint64_t largest = 0;
    for (const Place& place : places_) largest = std::max(largest, place.bytes());
    return largest;
}

}  // namespace hocket::params
