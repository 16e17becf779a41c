#include "runtime/params/worker/pulls.hpp"

#include <fmt/format.h>

#include <utility>

#include "runtime/params/links/copy.hpp"

namespace hocket::params {

Wanted wanted_of_tensors(const Layout& layout, std::uint32_t first, std::span<std::byte* const> weights) {
    Wanted wanted;
    for (std::uint32_t i = 0; i < weights.size(); ++i)
        for (const Layout::Piece& piece : layout.pieces_of_tensor(first + i))
            wanted[piece.chunk].places.emplace_back(piece, weights[i]);
    return wanted;
}

Wanted wanted_of_chunks(const Layout& layout, std::span<const Chunk> chunks,
                        std::span<std::byte* const> weights) {
    Wanted wanted;
    for (const Chunk chunk : chunks)
        for (const Layout::Piece& piece : layout.pieces_of_chunk(chunk))
            wanted[chunk].places.emplace_back(piece, weights[piece.tensor]);
    return wanted;
}

void Pulls::take_in_turn(std::span<const std::shared_ptr<Wanted>> turns) {
    turns_.insert(turns_.end(), turns.begin(), turns.end());
    take_turns();
}

// Starting a pull may deliver weights that are already here, and thereby end the turn.
void Pulls::take_turns() {
    if (std::exchange(is_taking_turns_, true)) return;
    while (turn_ == nullptr && !turns_.empty()) {
        const std::shared_ptr<Wanted> wanted = std::move(turns_.front());
        turns_.pop_front();
        const ParameterRequest* const request = wanted->begin()->second.request;
        if (!requests_.is_open(request)) continue;
        turn_ = request;
        take(wanted);
    }
    is_taking_turns_ = false;
}

void Pulls::take(const std::shared_ptr<Wanted>& wanted) {
    if (upstreams_.empty() || !requests_.is_open(wanted->begin()->second.request))
        return;  // so its memory must not be written
    for (auto& [chunk, waiting] : *wanted) {
        const Clock clock = waiting.clock;
        waiting_[chunk].push_back(std::move(waiting));
        const std::uint32_t server = layout_->server_of(chunk);
        upstreams_[server]->node().pull(chunk - layout_->first_of(server), clock);
    }
    for (const auto& upstream : upstreams_) upstream->deliver();
}

void Pulls::hand_out(Chunk chunk, const Node::Pulled& pulled) {
    const auto found = waiting_.find(chunk);
    if (found == waiting_.end()) return;
    const std::uint64_t size = element_size(layout_->place(chunk).type);
    const Content& content = *content_of(pulled.weights);
    const std::byte* const from = content.block.get();
    for (auto waiting = found->second.begin(); waiting != found->second.end();) {
        if (waiting->clock > pulled.clock) {
            ++waiting;
            continue;
        }
        for (const auto& [piece, tensor] : waiting->places)
            copy_bytes(tensor + piece.first * size, from + piece.at * size, piece.count * size);
        if (content.lender && !content.lender->is_lent()) return pull_again(chunk, found->second);
        if (waiting->request != nullptr && requests_.one_is_there(*waiting->request) &&
            waiting->request == turn_)
            turn_ = nullptr;
        waiting = found->second.erase(waiting);
        if (!is_bounded_) break;  // each pull has its own answer
    }
    if (found->second.empty()) waiting_.erase(found);
}

// The connection that lent the weights was closed, so the copy is invalid. Asks for the weights again in the
// next epoch.
void Pulls::pull_again(Chunk chunk, const std::list<Waiting>& waiting) {
    const std::uint32_t server = layout_->server_of(chunk);
    for (const Waiting& one : waiting)
        upstreams_[server]->node().pull(chunk - layout_->first_of(server), one.clock);
}

// The request's memory is not written any more. With unbounded staleness the request's answers still arrive:
// an answer is for the pull that has waited longest, so an empty entry stays in its place.
void Pulls::forget(const ParameterRequest* request) {
    if (request == turn_) turn_ = nullptr;
    std::erase_if(turns_, [&](const auto& wanted) { return wanted->begin()->second.request == request; });
    for (auto& [chunk, waiting] : waiting_)
        if (is_bounded_)
            waiting.remove_if([&](const Waiting& one) { return one.request == request; });
        else
            for (Waiting& one : waiting)
                if (one.request == request) one = {nullptr, one.clock, {}};
}

void Pulls::clear() {
    waiting_.clear();
    turns_.clear();
    turn_ = nullptr;
}

}  // namespace hocket::params
