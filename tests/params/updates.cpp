#include "tests/params/updates.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace hocket::test {
namespace {

using params::Clock;

struct Slot {
    std::int64_t count = 0, sum = 0;
    bool operator==(const Slot&) const = default;
};
using Slots = std::vector<Slot>;  // of one chunk

// Each chunk has each slot once.
std::vector<Slots> slots_by_chunk(const params::Layout& layout,
                                  const std::vector<std::vector<std::int64_t>>& tensors) {
    std::vector<Slots> result(layout.chunks(), Slots(slots));
    for (params::Chunk chunk = 0; chunk < layout.chunks(); ++chunk)
        for (const auto& piece : layout.pieces_of_chunk(chunk))
            for (std::uint64_t i = piece.first; i < piece.first + piece.count; i += 2) {
                const Slot here{tensors[piece.tensor][i], tensors[piece.tensor][i + 1]};
                result[chunk][i / 2 % slots] = here;
            }
    return result;
}

}  // namespace

params::Job job_of_faults(std::uint32_t workers, Clock staleness, const std::string& tree) {
    params::Job job;
    job.chunk_bytes = slots * 2 * sizeof(std::int64_t);
    job.tensors = {{"one", DataType::int64, 9 * slots * 2}, {"two", DataType::int64, 6 * slots * 2}};
    job.update = "add";
    job.workers = workers;
    job.staleness = staleness;
    job.tree = tree;
    return job;
}

Weights::Weights(const params::Job& job) {
    for (const params::Tensor& tensor : job.tensors) tensors_.emplace_back(tensor.count);
}

std::vector<std::byte*> Weights::pointers() {
    std::vector<std::byte*> result;
    for (auto& tensor : tensors_) result.push_back(reinterpret_cast<std::byte*>(tensor.data()));
    return result;
}

void Weights::make_update(std::uint64_t slot, Clock round) {
    for (auto& tensor : tensors_) {
        std::fill(tensor.begin(), tensor.end(), 0);
        for (std::uint64_t i = slot * 2; i < tensor.size(); i += slots * 2) {
            tensor[i] = 1;
            tensor[i + 1] = static_cast<std::int64_t>(round) + 1;
        }
    }
}

std::map<std::uint64_t, Weights::Seen> Weights::read(const params::Layout& layout,
                                                     std::map<std::uint64_t, Clock>& firsts) const {
    const std::vector<Slots> chunks = slots_by_chunk(layout, tensors_);
    std::map<std::uint64_t, Seen> result;
    for (std::uint64_t slot = 0; slot < slots; ++slot) {
        for (params::Chunk chunk = 0; chunk < chunks.size(); ++chunk) {
            const auto [count, sum] = chunks[chunk][slot];
            if (count == 0 && sum == 0) continue;
            const std::int64_t rest = sum - count * (count + 1) / 2;  // count times the first round
            const bool is_whole = count > 0 && rest >= 0 && rest % count == 0;
            const auto known =
                is_whole ? firsts.emplace(slot, static_cast<Clock>(rest / count)).first : firsts.find(slot);
            if (!is_whole || static_cast<Clock>(rest / count) != known->second)
                throw std::runtime_error(fmt::format(
                    "chunk {} has {} updates of slot {} whose rounds, from 1, are {} in sum; its first is {}",
                    chunk, count, slot, sum,
                    known == firsts.end() ? "not known" : std::to_string(known->second)));
        }
        const auto first = firsts.find(slot);
        if (first == firsts.end()) continue;
        Seen seen{first->second, UINT64_MAX, 0};
        for (const Slots& chunk : chunks) {
            const Clock end = first->second + static_cast<Clock>(chunk[slot].count);
            seen.least = std::min(seen.least, end);
            seen.most = std::max(seen.most, end);
        }
        result.emplace(slot, seen);
    }
    return result;
}

std::uint64_t Weights::hash() const {
    std::uint64_t hash = 0;
    for (const auto& tensor : tensors_)
        for (const std::int64_t value : tensor)
            hash = hash * 0x100000001b3u + static_cast<std::uint64_t>(value);
    return hash;
}

}  // namespace hocket::test
