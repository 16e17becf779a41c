#include "runtime/params/server/checkpoints.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/base/log.hpp"
#include "runtime/base/thread.hpp"
#include "runtime/params/checkpoint/checkpoint_file.hpp"
#include "runtime/params/links/content.hpp"
#include "runtime/transport/net/frame.hpp"

namespace hocket::params {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

constexpr std::chrono::seconds retry_time{1};
constexpr std::string_view prefix = "server-", of_round = ".round-", suffix = ".checkpoint";

fs::path file_of(const fs::path& folder, std::uint32_t index) {
    return folder / fmt::format("{}{}{}", prefix, index, suffix);
}

fs::path file_of_round(const fs::path& folder, std::uint32_t index, Clock round) {
    return folder / fmt::format("{}{}{}{}{}", prefix, index, of_round, round, suffix);
}

// Returns the number if the whole text is one.
std::optional<std::uint64_t> number_in(std::string_view text) {
    std::uint64_t number = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || stop != text.data() + text.size()) return std::nullopt;
    return number;
}

// A checkpoint's file name, parsed.
struct FileName {
    std::uint32_t index;
    std::optional<Clock> round;
};

// Returns nothing if the file is not a checkpoint.
std::optional<FileName> name_of(const fs::path& file) {
    const std::string text = file.filename();
    if (!text.starts_with(prefix) || !text.ends_with(suffix)) return std::nullopt;
    const auto middle =
        std::string_view(text).substr(prefix.size(), text.size() - prefix.size() - suffix.size());
    const auto dot = middle.find(of_round);
    const auto index = number_in(middle.substr(0, dot));
    if (!index || *index >= most_servers) return std::nullopt;
    FileName name{static_cast<std::uint32_t>(*index), {}};
    if (dot == std::string_view::npos) return name;
    name.round = number_in(middle.substr(dot + of_round.size()));
    return name.round ? std::optional(name) : std::nullopt;
}

// Calls `action` for the name of each checkpoint in the folder. A range-for would throw if a disk fails
// halfway.
template <typename Action>
void for_each_name(const fs::path& folder, std::error_code& error, Action action) {
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
        if (const auto name = name_of(entry->path())) action(*name);
}

// Returns the indices of the servers that have checkpoints in the folder.
std::set<std::uint32_t> servers_in(const fs::path& folder, std::error_code& error) {
    std::set<std::uint32_t> servers;
    for_each_name(folder, error, [&](const FileName& name) { servers.insert(name.index); });
    return servers;
}

std::vector<Clock> list_whole_rounds(const fs::path& folder, std::uint32_t index, std::error_code& error) {
    std::vector<Clock> rounds;
    for_each_name(folder, error, [&](const FileName& name) {
        if (name.index == index && name.round) rounds.push_back(*name.round);
    });
    std::sort(rounds.begin(), rounds.end());
    return rounds;
}

[[noreturn]] void cannot_list(const fs::path& folder, const std::error_code& error) {
    throw Error(Status::io, fmt::format("the folder for checkpoints, {}, cannot be read: {}", folder.string(),
                                        error.message()));
}

std::uint32_t the_only_server(const fs::path& folder) {
    std::error_code error;
    const std::set<std::uint32_t> found = servers_in(folder, error);
    if (found.empty())
        throw Error(Status::not_found, fmt::format("{} has no checkpoint of a server{}", folder.string(),
                                                   error ? ": " + error.message() : ""));
    if (error) cannot_list(folder, error);
    if (found.size() == 1) return *found.begin();
    throw Error(
        Status::invalid_argument,
        fmt::format("{} has the checkpoints of {} servers; say which one this server takes the place of "
                    "with --index N (in the API: index)",
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

// Requires that the contents have the shape that this version expects. Their checksums show only that they
// are as they were written, perhaps by another version.
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
    if (std::error_code error; !fs::is_directory(folder, error))
        throw Error(Status::io,
                    fmt::format("the folder for checkpoints, {}, cannot be used: {}; make it first",
                                folder.string(), error ? error.message() : "it is not a folder"));
    const std::string probe = fmt::format("{}{}", prefix.substr(0, prefix.size() - 1), suffix);
    require_writable(folder / probe);
    // A checkpoint of whole rounds is as large as the weights, and its name is not written a second time.
    remove_what_dead_writers_left(
        folder, [&](const std::string& name) { return name == probe || name_of(name).has_value(); });
    std::error_code error;
    const std::set<std::uint32_t> found = servers_in(folder, error);
    if (error) cannot_list(folder, error);
    if (is_new && !found.empty())
        throw Error(Status::invalid_argument,
                    fmt::format("{} is a checkpoint, which a new job would replace; continue from it with "
                                "--restore (API: `restore`), or choose another folder",
                                file_of(folder, *found.begin()).string()));
}

std::vector<Clock> whole_rounds_in(const fs::path& folder, std::uint32_t index) {
    std::error_code ignored;
    return list_whole_rounds(folder, index, ignored);
}

namespace {

std::string listed(const std::vector<Clock>& rounds) {
    return rounds.empty() ? "none" : fmt::format("{}", fmt::join(rounds, ", "));
}

// Returns the age of a checkpoint that may be the latest. Throws Error(io) if that cannot be told: an older
// one in its place would lack rounds.
CheckpointAge known_age_of(const fs::path& file, const fs::path& folder, std::uint32_t index) {
    try {
        return read_age(file);
    } catch (const Error& error) {
        std::vector<Clock> whole;
        for (const Clock round : whole_rounds_in(folder, index))
            if (age_of(file_of_round(folder, index, round)).is_known) whole.push_back(round);
        throw Error(
            Status::io,
            fmt::format("{}. An older checkpoint would lack rounds: put back a copy of this one, or let all "
                        "servers go back to the same whole rounds, with --round N (in the API: round). This "
                        "server has whole checkpoints of {}",
                        error.what(), listed(whole)));
    }
}

// The same as whole_rounds_in(), but a restored server must not overlook one. Throws Error(io).
std::vector<Clock> all_whole_rounds_in(const fs::path& folder, std::uint32_t index) {
    std::error_code error;
    std::vector<Clock> rounds = list_whole_rounds(folder, index, error);
    if (error) cannot_list(folder, error);
    return rounds;
}

// file: server-0.checkpoint.
fs::path latest(const fs::path& file, const fs::path& folder, std::uint32_t index) {
    fs::path best = file;
    CheckpointAge age;
    if (std::error_code ignored; fs::exists(file, ignored)) age = known_age_of(file, folder, index);
    const std::vector<Clock> rounds = all_whole_rounds_in(folder, index);
    for (auto round = rounds.rbegin(); round != rounds.rend(); ++round) {
        const fs::path other = file_of_round(folder, index, *round);
        const bool may_be_later = !age.is_known || *round > age.lowest;
        const CheckpointAge its = may_be_later ? known_age_of(other, folder, index) : age_of(other);
        if (age.is_known && std::pair(its.incarnation, its.lowest) <= std::pair(age.incarnation, age.lowest))
            continue;
        best = other;
        age = its;
    }
    return best;
}

fs::path of_whole_round(const fs::path& file, const fs::path& folder, std::uint32_t index, Clock round) {
    const std::vector<Clock> rounds = all_whole_rounds_in(folder, index);
    if (std::binary_search(rounds.begin(), rounds.end(), round)) return file_of_round(folder, index, round);
    const CheckpointAge age = age_of(file);
    if (age.is_known && age.lowest == round && age.highest == round) return file;
    throw Error(Status::not_found,
                fmt::format("{} has no checkpoint of all rounds below {}; it has those of {}",
                            folder.string(), round, listed(rounds)));
}

// Returns a name that no file has, for a checkpoint that a job has gone back from: it is no longer taken for
// the latest, and never overwritten.
fs::path aside(const fs::path& file) {
    fs::path name = file;
    name += ".old";
    std::error_code ignored;
    for (int number = 2; fs::exists(name, ignored); ++number)
        name = file.string() + fmt::format(".old.{}", number);
    return name;
}

// Keeps a second name for server-0.checkpoint, which is about to be replaced, if it has later rounds or may
// have them. Throws Error(io).
void keep_aside(const fs::path& of_moment, Clock round) {
    std::error_code error;
    const CheckpointAge age = age_of(of_moment);
    if (!fs::exists(of_moment, error) || (age.is_known && age.highest <= round)) return;
    const fs::path name = aside(of_moment);
    fs::create_hard_link(of_moment, name, error);
    if (error) fs::copy_file(of_moment, name, error);  // not every file system has links
    if (error)
        throw Error(Status::io, fmt::format("the checkpoint {} cannot be kept as {}: {}", of_moment.string(),
                                            name.string(), error.message()));
}

// Until then, the new server-0.checkpoint is the latest of all by its incarnation.
void put_aside_later_rounds(const fs::path& folder, std::uint32_t index, Clock round) {
    std::error_code ignored;
    for (const Clock other : whole_rounds_in(folder, index)) {
        const fs::path file = file_of_round(folder, index, other);
        if (other > round) fs::rename(file, aside(file), ignored);
    }
}

// Returns an incarnation after all that a server of this folder may have had.
std::uint32_t next_incarnation(const fs::path& of_moment, const fs::path& folder, std::uint32_t index) {
    constexpr std::uint32_t most_restarts_since = 16;  // of servers that wrote only the damaged checkpoint
    const CheckpointAge age = age_of(of_moment);
    std::uint32_t latest = age.incarnation;
    for (const Clock round : all_whole_rounds_in(folder, index))
        latest = std::max(latest, age_of(file_of_round(folder, index, round)).incarnation);
    std::error_code ignored;
    return latest + 1 + (!age.is_known && fs::exists(of_moment, ignored) ? most_restarts_since : 0);
}

}  // namespace

RestoredShard restore_shard(const CheckpointOptions& options, Memory& memory,
                            const MakeCalculator& make_calculator) {
    const fs::path& folder = options.folder;
    const std::optional<Clock> round = options.round;
    const std::uint32_t number = options.index ? *options.index : the_only_server(folder);
    const fs::path of_moment = file_of(folder, number);
    const fs::path file =
        round ? of_whole_round(of_moment, folder, number, *round) : latest(of_moment, folder, number);
    std::vector<Block> blocks;  // in the file's order
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
    if (round) {
        for (const auto& [worker, first] : restored.snapshot.firsts)
            restored.snapshot.departed.emplace(worker, Departed{worker, first, *round});
        restored.snapshot.firsts.clear();
    }
    // Written before any worker hears of this incarnation: a server that replaces this one must have a later
    // incarnation, also later than any that the job has gone back from.
    restored.snapshot.incarnation =
        std::max(restored.snapshot.incarnation, next_incarnation(of_moment, folder, number));
    if (round) keep_aside(of_moment, *round);
    write_checkpoint(of_moment, described(restored.snapshot, restored.name));
    if (round) put_aside_later_rounds(folder, number, *round);
    return restored;
}

Checkpoints::Checkpoints(fs::path folder, ShardName name, std::optional<Clock> clock,
                         transport::Mailbox& mailbox, Written written)
    : folder_(std::move(folder)),
      file_(file_of(folder_, name.index)),
      name_(std::move(name)),
      last_(clock),
      mailbox_(mailbox),
      written_(std::move(written)) {}

Checkpoints::~Checkpoints() {
    *is_alive_ = false;
    if (writer_.joinable()) writer_.join();
}

bool Checkpoints::is_due(Clock clock, bool is_wanted) const {
    if (try_again_) return !is_writing() && transport::Clock::now() >= *try_again_;
    // One of a moment is on its way; those of whole rounds delay none.
    if (next_ || writes_moment_) return false;
    return is_wanted || !last_ || (!name_.job.staleness && clock >= *last_ + name_.every);
}

void Checkpoints::write(Snapshot snapshot, Done done) {
    next_ = std::move(snapshot);
    if (done) next_done_.push_back(std::move(done));
    if (!is_writing()) begin();
}

void Checkpoints::write_whole(Snapshot cut) {
    next_whole_.push_back(std::move(cut));
    if (!is_writing()) begin();
}

void Checkpoints::finish(const Snapshot& snapshot) {
    *is_alive_ = false;
    if (writer_.joinable()) writer_.join();
    store(snapshot);
}

// A server that was taken for dead and replaced must not overwrite the checkpoints of its replacement;
// write_file() checks that.
void Checkpoints::store(const Snapshot& snapshot) const {
    write_file(file_, snapshot);
}

// Keeps as many checkpoints as the servers can be apart: workers are at most that far from the last
// checkpoint that the slowest server has written.
void Checkpoints::store_whole(const Snapshot& cut) const {
    const Clock round = lowest_clock(cut);
    write_file(file_of_round(folder_, name_.index, round), cut);
    const Clock apart = 2 * name_.every + name_.job.staleness.value_or(0) + 2;
    for (const Clock old : whole_rounds_in(folder_, name_.index))
        if (std::error_code ignored; old + apart + name_.every < round)
            fs::remove(file_of_round(folder_, name_.index, old), ignored);
}

void Checkpoints::write_file(const fs::path& file, const Snapshot& snapshot) const {
    if (age_of(file_).incarnation > snapshot.incarnation)
        throw Error(Status::io,
                    fmt::format("{} belongs to another server, which has replaced this one", file_.string()));
    write_checkpoint(file, described(snapshot, name_));
}

struct Checkpoints::Work {
    std::optional<Snapshot> snapshot, whole;
    std::vector<Done> done;
    std::string error, error_of_whole;  // "": it is written, or there is none
    bool has_failed() const { return !error.empty() || !error_of_whole.empty(); }
};

void Checkpoints::begin() {
    auto work = std::make_shared<Work>();
    work->snapshot = std::exchange(next_, {});
    work->done = std::exchange(next_done_, {});
    if (!next_whole_.empty()) {
        work->whole = std::move(next_whole_.front());
        next_whole_.pop_front();
    }
    writes_moment_ = work->snapshot.has_value();
    if (writes_moment_) last_ = lowest_clock(*work->snapshot);
    const auto do_work = [this, work, is_alive = is_alive_] {
        // Neither keeps the other from being written.
        const auto attempt = [](std::string& error, const auto& write) {
            try {
                write();
            } catch (const std::exception& failed) {
                error = failed.what();
            }
        };
        if (work->whole) attempt(work->error_of_whole, [&] { store_whole(*work->whole); });
        if (work->snapshot) attempt(work->error, [&] { store(*work->snapshot); });
        mailbox_.post([this, work, is_alive] {
            if (!*is_alive) return;
            writer_.join();
            ended(*work);
            // After an error, whole rounds wait until it is time to try again.
            if (next_ || (!work->has_failed() && !next_whole_.empty())) begin();
        });
    };
    try {
        writer_ = start_thread("hkt-params-disk", do_work);
    } catch (const Error& failed) {
        work->error = work->error_of_whole = failed.what();
        ended(*work);
    }
}

void Checkpoints::ended(Work& work) {
    writes_moment_ = false;
    try_again_.reset();
    if (work.has_failed()) try_again_ = transport::Clock::now() + retry_time;
    // Values are shared, so this copies no weights.
    if (work.whole && !work.error_of_whole.empty()) next_whole_.push_front(*work.whole);
    if (work.whole) written_(*work.whole, work.error_of_whole, true);
    if (work.snapshot) written_(*work.snapshot, work.error, false);
    for (const Done& tell : work.done) tell(work.error);
}

}  // namespace hocket::params
