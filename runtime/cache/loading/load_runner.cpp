#include "runtime/cache/loading/load_runner.hpp"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <utility>

#include "runtime/base/caught.hpp"

namespace hocket::cache {

LoadRunner::LoadRunner(const LoadOptions& options, Memory& memory, Directory* directory, Counters& counters,
                       const Steps& steps, std::function<void(const Load&)> ended)
    : options_(options),
      memory_(memory),
      directory_(directory),
      counters_(counters),
      steps_(steps),
      ended_(std::move(ended)) {}

Task<> LoadRunner::run(Load load) {
    std::optional<Error> error;
    bool has_ended = false;
    try {
        co_await serve(load, has_ended);
    } catch (const std::exception& thrown) {
        error = error_of(thrown);
    }
    if (has_ended) co_return;
    if (error) {
        ++counters_.failures;
        if (error->status() == Status::limit)
            error.emplace(Status::limit, fmt::format("{}: {}", options_.name_of(load.key), error->what()));
        memory_.fail(load.key, *error);
    }
    ended_(load);
}

// Delivers a sample to the callers that wait for it, and then to the disk if it came from the source.
Task<> LoadRunner::serve(Load& load, bool& has_ended) {
    KeyFlight flight(directory_, load.key);  // held until the sample is stored, where other processes find it
    Spare spare(steps_.room.gate());
    load.spare = &spare;
    co_await bring(load, flight);
    if (load.gave_up) co_return;
    const bool to_disk = load.is_fresh && steps_.writes.may_store();
    if (options_.decode && !load.is_decoded) {
        const std::uint64_t bytes = load.bytes;
        ArenaBlock encoded = std::move(load.block);
        co_await steps_.calls.decode(load, {encoded.data(), bytes});
        encoded.give_share();
        if (!load.gave_up) memory_.publish(load.key, load.block.give_away(), load.bytes, load.is_copy, false);
        has_ended = true;
        ended_(load);
        // Stores it even if the load gave up, so that the source is not read again.
        if (to_disk) co_await steps_.writes.write(load.key, encoded.span(), bytes);
    } else {
        load.block.shrink(load.bytes);  // the write below then ends where the block does
        const Block block = load.block.give_away();
        const std::optional<Lent> kept = memory_.publish(load.key, block, load.bytes, load.is_copy, to_disk);
        has_ended = true;
        ended_(load);
        if (!to_disk) co_return;
        const auto release = [this](const Lent* lent) { memory_.release(*lent); };
        const std::unique_ptr<const Lent, decltype(release)> pinned(&*kept, release);
        co_await steps_.writes.write(load.key, {block.data, block.bytes}, load.bytes);
    }
}

Task<> LoadRunner::bring(Load& load, KeyFlight& flight) {
    if (!steps_.room.keep_spare(load)) co_return;
    bool found = false;
    if (directory_ != nullptr) found = co_await steps_.disk.read(load);
    if (found || load.gave_up) co_return;
    if (!load.own) found = co_await steps_.owners.ask(load);
    if (found || load.gave_up) co_return;
    if (directory_ != nullptr) {
        found = co_await steps_.disk.wait_for_flight(load, flight);
        if (found || load.gave_up) co_return;
    }
    co_await steps_.source.read(load);
}

}  // namespace hocket::cache
