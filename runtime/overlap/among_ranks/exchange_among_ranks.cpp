#include "runtime/overlap/among_ranks/exchange_among_ranks.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "runtime/base/error.hpp"
#include "runtime/base/xxh3.hpp"

namespace hocket::overlap {
namespace {

std::vector<std::uint64_t> bytes_of(const RankedGradients& gradients) {
    std::vector<std::uint64_t> bytes;
    for (const std::uint64_t count : gradients.counts) bytes.push_back(count * element_size(gradients.type));
    return bytes;
}

// Checks before any communication, so that no other rank is waited for in vain.
engine::Communicator& checked(engine::Communicator& communicator) {
    if (communicator.size() > 1 && !communicator.options().has_background)
        throw Error(Status::invalid_argument,
                    "nothing moves this communicator's operations while its program computes: set "
                    "hkt_comm_options.progress to HKT_PROGRESS_THREAD, or HOCKET_PROGRESS=thread");
    return communicator;
}

}  // namespace

ExchangeAmongRanks::ExchangeAmongRanks(engine::Communicator& communicator, RankedGradients gradients)
    : communicator_(checked(communicator)),
      gradients_(std::move(gradients)),
      layers_(bytes_of(gradients_), gradients_.layer_tensors),
      plans_(communicator.plans().make({.collective = dsl::Collective::all_reduce,
                                        .type = gradients_.type,
                                        .op = gradients_.op,
                                        .schedule = gradients_.schedule})),
      memory_(std::make_shared<engine::GatherMemory>(communicator.connections().window())) {
    check_schedule();
}

// Requires a schedule that allows several batches of any size at once.
void ExchangeAmongRanks::check_schedule() const {
    const std::uint64_t all =
        std::accumulate(gradients_.counts.begin(), gradients_.counts.end(), std::uint64_t{0});
    const dsl::RankProgram& program =
        communicator_.plans().plan_for(*plans_, std::max<std::uint64_t>(all, 1)).plan->program();
    if (program.computes())
        throw Error(Status::invalid_argument,
                    fmt::format("schedule {} keeps a state, or calculates with more than x: such a schedule "
                                "needs plans of its own (hkt_plan_create); an overlap takes one that only "
                                "combines, as \"reproducible\" or \"ring\"",
                                program.schedule));
}

Description ExchangeAmongRanks::description() const {
    return {{"types", std::string(name_of(gradients_.type))},
            {"operators", fmt::format("{}", gradients_.op.identity())},
            {"schedules", gradients_.schedule},
            {"layers", fmt::format("{}", fmt::join(gradients_.layer_tensors, " "))},
            {"tensors", fmt::format("{}", fmt::join(gradients_.counts, " "))}};
}

ExchangeAmongRanks::~ExchangeAmongRanks() {
    for (InFlight& batch : in_flight_) try {
            if (batch.execution != nullptr)
                communicator_.progress().wait(*std::exchange(batch.execution, nullptr));
        } catch (const std::exception&) {
            // The communicator has failed, and reports it at its next call.
        }
}

void ExchangeAmongRanks::begin(const IterationPlan& plan) {
    while (in_flight_.size() < plan.backward.size()) in_flight_.emplace_back();
}

// Returns the address of the tensors if they lie one after another, or else of the memory that they were
// gathered in.
std::byte* ExchangeAmongRanks::place_of(std::size_t first_tensor, std::size_t last_tensor,
                                        std::unique_ptr<engine::GatheredTensors>& gathered) const {
    std::byte *place = nullptr, *end = nullptr;
    std::vector<std::uint64_t> bytes;
    bool lie_together = true;
    for (std::size_t tensor = first_tensor; tensor < last_tensor; ++tensor) {
        bytes.push_back(gradients_.counts[tensor] * element_size(gradients_.type));
        std::byte* const memory = gradients_.memory[tensor];
        if (place == nullptr) place = memory;
        lie_together &= end == nullptr || end == memory;
        end = memory + bytes.back();
    }
    if (lie_together) return place;
    gathered = std::make_unique<engine::GatheredTensors>(memory_);
    std::byte* const room = gathered->room_for(bytes);
    std::byte* const* const tensors = gradients_.memory.data() + first_tensor;
    engine::GatheredTensors::copy_into(room, reinterpret_cast<const void* const*>(tensors), bytes);
    gathered->expect(room, reinterpret_cast<void* const*>(tensors), bytes);
    return room;
}

std::uint64_t ExchangeAmongRanks::start(std::size_t batch, std::size_t first, std::size_t last) {
    const std::size_t first_tensor = layers_.first_tensor(first), last_tensor = layers_.first_tensor(last);
    const auto begin = gradients_.counts.begin();
    const std::uint64_t count =
        std::accumulate(begin + static_cast<std::ptrdiff_t>(first_tensor),
                        begin + static_cast<std::ptrdiff_t>(last_tensor), std::uint64_t{0});
    if (count == 0) return 0;
    InFlight& one = in_flight_[batch];
    std::byte* place = nullptr;
    std::unique_ptr<engine::GatheredTensors> gathered;
    try {
        place = place_of(first_tensor, last_tensor, gathered);
    } catch (const std::exception& error) {
        communicator_.progress().cannot_start(error);
        throw;
    }
    one.execution = &communicator_.start(communicator_.plans().plan_for(*plans_, count).plan, place, place,
                                         engine::Extent(count), gradients_.factor);
    one.execution->add(std::move(gathered));
    communicator_.progress().tell_end(*one.execution, engine::Moment{&one.ended});
    return count * element_size(gradients_.type);
}

std::optional<overlap::Clock::time_point> ExchangeAmongRanks::wait(std::size_t batch,
                                                                   Clock::time_point until) {
    InFlight& one = in_flight_[batch];
    // Consumed even if this throws.
    engine::Execution* const execution = std::exchange(one.execution, nullptr);
    if (!communicator_.progress().wait(*execution, until)) {
        one.execution = execution;
        return std::nullopt;
    }
    return Clock::time_point(std::chrono::nanoseconds(one.ended.load()));
}

std::vector<std::int64_t> ExchangeAmongRanks::greatest(std::vector<std::int64_t> own) {
    return communicator_.size() == 1 ? own : communicator_.exchanges().greatest(own, "plan of overlap");
}

std::string difference_among_ranks(engine::Communicator& communicator, const Description* description) {
    if (communicator.size() == 1) return "";
    // All ranks contribute this many numbers, including those that were refused.
    constexpr std::size_t most = 16;
    if (description != nullptr && description->size() > most)
        throw Error(Status::internal, "an overlap is described by more than there is room for");
    std::vector<std::int64_t> own(1 + 2 * most);
    own[0] = description == nullptr ? 1 : 0;
    for (std::size_t i = 0; description != nullptr && i < description->size(); ++i) {
        const std::string& text = (*description)[i].second;
        own[1 + 2 * i] = static_cast<std::int64_t>(XXH3_64bits(text.data(), text.size()) >> 1);
        own[2 + 2 * i] = -own[1 + 2 * i];
    }
    const std::vector<std::int64_t> all = communicator.exchanges().greatest(own, "options of overlap");
    if (all[0] != 0) return "options: those of another one were refused there";
    for (std::size_t i = 0; i < description->size(); ++i)
        if (all[1 + 2 * i] != own[1 + 2 * i] || all[2 + 2 * i] != own[2 + 2 * i])
            return (*description)[i].first;
    return "";
}

}  // namespace hocket::overlap
