#include "runtime/params/server/checkpoints.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "runtime/error.hpp"
#include "runtime/log.hpp"
#include "runtime/net/frame.hpp"
#include "runtime/params/checkpoint/checkpoint_file.hpp"
#include "runtime/params/links/content.hpp"
#include "runtime/thread.hpp"

namespace hocket::params {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

constexpr std::chrono::seconds retry_time{1};
constexpr std::string_view prefix = "server-", suffix = ".checkpoint";

fs::path file_of(const fs::path& folder, std::uint32_t index) {
    return folder / fmt::format("{}{}{}", prefix, index, suffix);
}

std::vector<fs::path> files_in(const fs::path& folder, std::error_code& error) {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(folder, error)) {
        const std::string name = entry.path().filename();
        if (name.starts_with(prefix) && name.ends_with(suffix)) found.push_back(entry.path());
    }
    return found;
}

fs::path the_only_file(const fs::path& folder) {
    std::error_code error;
    const std::vector<fs::path> found = files_in(folder, error);
    if (found.size() == 1) return found[0];
    if (found.empty())
        throw Error(Status::not_found, fmt::format("{} has no checkpoint of a server{}", folder.string(),
                                                   error ? ": " + error.message() : ""));
    throw Error(
        Status::invalid_argument,
        fmt::format("{} has the checkpoints of {} servers; say which one this server takes the place of "
                    "(index, or --index)",
                    folder.string(), found.size()));
}

Clock lowest_clock(const Snapshot& snapshot) {
    return *std::min_element(snapshot.clocks.begin(), snapshot.clocks.end());
}

Checkpoint described(const Snapshot& snapshot, const ShardName& name) {
    Json departed = Json::array();
    for (const auto& [worker, one] : snapshot.departed) departed.push_back({worker, one.first, one.end});
    Checkpoint checkpoint;
    checkpoint.job =
        Json{{"job", encode(name.job)},           {"index", name.index}, {"servers", name.servers},
             {"all_servers", name.all_servers},   {"run", name.run},     {"every", name.every},
             {"applied", Json(snapshot.applied)}, {"departed", departed}}
            .dump();
    checkpoint.incarnation = snapshot.incarnation;
    checkpoint.firsts = snapshot.firsts;
    for (Chunk chunk = 0; chunk < snapshot.clocks.size(); ++chunk) {
        const Content& content = *content_of(snapshot.weights[chunk]);
        CheckpointChunk described{snapshot.clocks[chunk], {{content.block.get(), content.bytes}}};
        for (const Block& state : content.states)
            described.buffers.emplace_back(state.get(), content.state_bytes);
        checkpoint.chunks.push_back(std::move(described));
    }
    return checkpoint;
}

// Its contents are known to be as they were written; but were they by this version?
void require_shape(const fs::path& file, const RestoredShard& restored, const Calculator& calculator) {
    const auto& [name, snapshot] = restored;
    const auto refuse = [&](const std::string& why) {
        throw Error(Status::io,
                    fmt::format("{} is the checkpoint of another version of Hocket: {}", file.string(), why));
    };
    if (name.index >= name.servers || name.servers > name.all_servers || name.all_servers > most_servers)
        refuse(fmt::format("it is of server {} of {}", name.index, name.servers));
    const Layout layout(name.job, name.servers);
    if (snapshot.clocks.size() != layout.chunks_of(name.index))
        refuse(fmt::format("it has {} chunks, and {} are expected", snapshot.clocks.size(),
                           layout.chunks_of(name.index)));
    for (Chunk chunk = 0; chunk < snapshot.clocks.size(); ++chunk) {
        const Layout::Place& place = layout.place(layout.first_of(name.index) + chunk);
        const Content& content = *content_of(snapshot.weights[chunk]);
        if (content.bytes != place.bytes())
            refuse(fmt::format("chunk {} has {} bytes", chunk, content.bytes));
        const std::uint64_t state_bytes = place.count * calculator.state_bytes(place.type);
        if (content.states.size() != calculator.states() ||
            (!content.states.empty() && content.state_bytes != state_bytes))
            refuse(fmt::format("chunk {} has {} states of {} bytes, and the update {} keeps {} of {}", chunk,
                               content.states.size(), content.state_bytes, name.job.update,
                               calculator.states(), state_bytes));
    }
    for (const auto& [worker, first] : snapshot.firsts)
        if (!name.job.staleness && (!snapshot.applied.contains(worker) ||
                                    snapshot.applied.at(worker).size() != snapshot.clocks.size()))
            refuse(fmt::format("it does not say which updates of worker {} it has", worker));
}

}  // namespace

void require_folder(const fs::path& folder, bool is_new) {
    require_writable(folder / fmt::format("{}{}", prefix.substr(0, prefix.size() - 1), suffix));
    std::error_code error;
    const std::vector<fs::path> found = files_in(folder, error);
    if (is_new && !found.empty())
        throw Error(
            Status::invalid_argument,
            fmt::format("{} is a checkpoint, which a new job would replace; go on from it (restore, or "
                        "--restore), or take another folder",
                        found[0].string()));
}

RestoredShard restore_shard(const fs::path& folder, std::optional<std::uint32_t> index, Memory& memory,
                            const MakeCalculator& make_calculator) {
    const fs::path file = index ? file_of(folder, *index) : the_only_file(folder);
    std::vector<Block> blocks;  // in the order of the file
    const Checkpoint checkpoint = read_checkpoint(file, [&](std::size_t bytes) {
        return blocks.emplace_back(memory.allocate(std::max<std::size_t>(bytes, 1))).get();
    });
    RestoredShard restored;
    try {
        const Json name = Json::parse(checkpoint.job);
        restored.name.job = decode_job(name.at("job").get<std::string>());
        name.at("index").get_to(restored.name.index);
        name.at("servers").get_to(restored.name.servers);
        name.at("all_servers").get_to(restored.name.all_servers);
        name.at("run").get_to(restored.name.run);
        name.at("every").get_to(restored.name.every);
        name.at("applied").get_to(restored.snapshot.applied);
        for (const Json& one : name.value("departed", Json::array())) {
            const auto worker = one.at(0).get<Worker>();
            restored.snapshot.departed.emplace(
                worker, Departed{worker, one.at(1).get<Clock>(), one.at(2).get<Clock>()});
        }
    } catch (const std::exception& error) {
        throw Error(Status::io, fmt::format("{} is a checkpoint, but of something else: {}", file.string(),
                                            error.what()));
    }
    restored.snapshot.incarnation = checkpoint.incarnation + 1;
    restored.snapshot.firsts = checkpoint.firsts;
    std::size_t next = 0;
    for (const CheckpointChunk& chunk : checkpoint.chunks) {
        Content content{blocks[next], chunk.buffers.at(0).size()};
        content.states.assign(blocks.begin() + static_cast<std::ptrdiff_t>(next) + 1,
                              blocks.begin() + static_cast<std::ptrdiff_t>(next + chunk.buffers.size()));
        if (!content.states.empty()) content.state_bytes = chunk.buffers[1].size();
        next += chunk.buffers.size();
        restored.snapshot.clocks.push_back(chunk.clock);
        restored.snapshot.weights.push_back(value_of(std::move(content)));
    }
    require_shape(file, restored, *make_calculator(restored.name.job));
    // Before anybody hears of this incarnation: who takes this server's place in turn must be a later one.
    write_checkpoint(file, described(restored.snapshot, restored.name));
    return restored;
}

Checkpoints::Checkpoints(fs::path folder, ShardName name, std::optional<Clock> clock,
                         transport::Mailbox& mailbox, Written written)
    : file_(file_of(folder, name.index)),
      name_(std::move(name)),
      last_(clock),
      mailbox_(mailbox),
      written_(std::move(written)) {}

Checkpoints::~Checkpoints() {
    *is_alive_ = false;
    if (writer_.joinable()) writer_.join();
}

bool Checkpoints::is_due(Clock clock, bool is_wanted) const {
    if (is_writing()) return false;
    if (try_again_) return transport::Clock::now() >= *try_again_;
    return is_wanted || !last_ || clock >= *last_ + name_.every;
}

void Checkpoints::write(Snapshot snapshot, Done done) {
    next_ = std::move(snapshot);
    if (done) next_done_.push_back(std::move(done));
    if (!is_writing()) begin();
}

void Checkpoints::finish(const Snapshot& snapshot) {
    *is_alive_ = false;
    if (writer_.joinable()) writer_.join();
    store(snapshot);
}

// A server that was thought to be dead, and has another one in its place, must not write over what that has.
void Checkpoints::store(const Snapshot& snapshot) const {
    if (incarnation_of(file_) > snapshot.incarnation)
        throw Error(Status::io,
                    fmt::format("{} is of another server, which has taken this one's place", file_.string()));
    write_checkpoint(file_, described(snapshot, name_));
}

void Checkpoints::begin() {
    auto snapshot = std::make_shared<const Snapshot>(std::move(*std::exchange(next_, std::nullopt)));
    last_ = lowest_clock(*snapshot);
    auto done = std::make_shared<const std::vector<Done>>(std::exchange(next_done_, {}));
    writer_ = start_thread("hkt-params-disk", [this, snapshot, done, is_alive = is_alive_] {
        std::string error;
        try {
            store(*snapshot);
        } catch (const std::exception& failed) {
            error = failed.what();
        }
        mailbox_.post([this, snapshot, done, error, is_alive] {
            if (!*is_alive) return;
            writer_.join();
            try_again_.reset();
            if (!error.empty()) try_again_ = transport::Clock::now() + retry_time;
            written_(*snapshot, error);
            for (const Done& tell : *done) tell(error);
            if (next_) begin();
        });
    });
}

}  // namespace hocket::params
