#include "runtime/engine/job/options.hpp"

#include <fmt/format.h>

#include <strings.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <string_view>

#include "runtime/base/error.hpp"
#include "runtime/base/installed.hpp"
#include "runtime/transport/net/listening.hpp"
#include "runtime/transport/net/sealing.hpp"

namespace hocket::engine {
namespace {

[[noreturn]] void refuse_option(const std::string& text) {
    throw Error(Status::invalid_argument, text);
}

using Reader = EnvironmentReader;

struct Place {
    std::optional<std::int64_t> rank, size;
    const char* rank_name = "RANK";
    const char* size_name = "WORLD_SIZE";
};

// SLURM_NTASKS may be that of an allocation in which srun started fewer processes.
Place place_from(const Reader& reader) {
    const bool is_step = reader.text("SLURM_STEP_NUM_TASKS").has_value();
    const char* const names[][2] = {{"RANK", "WORLD_SIZE"},
                                    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                    {"PMI_RANK", "PMI_SIZE"},
                                    {"SLURM_PROCID", is_step ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS"}};
    for (const auto& [rank, size] : names) {
        const Place place{reader.number(rank, 0, INT32_MAX - 1), reader.number(size, 1, INT32_MAX), rank,
                          size};
        if (place.rank || place.size) return place;
    }
    return {};
}

// A launcher's variables are also set where it did not start this process: in the shell and the batch script
// of an allocation. Returns the hint for that case.
std::string way_out(const char* name) {
    const std::string_view text = name;
    if (text == "RANK" || text == "WORLD_SIZE" || text == "rank" || text == "world_size") return "";
    return "; start all ranks by the launcher or, if this is to be one process alone, set RANK=0 and "
           "WORLD_SIZE=1";
}

void resolve_place(Options& options, const Choices& choices, const Reader& reader) {
    Place place;
    if (!choices.rank || !choices.world_size) place = place_from(reader);
    if (choices.rank) place.rank = *choices.rank, place.rank_name = "rank";
    if (choices.world_size) place.size = *choices.world_size, place.size_name = "world_size";
    if (!place.rank && !place.size && choices.meets_elsewhere)
        refuse_option(
            "unique_id or store says where the ranks meet, but nothing says which of them this is; set rank "
            "and world_size (or RANK and WORLD_SIZE), or, to join ranks that are at work, rank = "
            "HKT_NEWCOMER");
    if (!place.rank && !place.size) return;
    if (!place.size)
        refuse_option(fmt::format("{} is {} but {} is not set; set both, or neither for a world of one{}",
                                  place.rank_name, *place.rank, place.size_name, way_out(place.rank_name)));
    check_range(place.size_name, *place.size, 1, INT32_MAX);
    if (!place.rank && *place.size > 1)
        refuse_option(fmt::format("{} is {} but {} is not set; every process needs its own rank{}",
                                  place.size_name, *place.size, place.rank_name, way_out(place.size_name)));
    options.world_size = static_cast<int>(*place.size);
    const std::int64_t rank = place.rank.value_or(0);
    if (rank < 0 || rank >= *place.size)
        refuse_option(fmt::format("{} is {} but {} is {}; ranks go from 0 to {}", place.rank_name, rank,
                                  place.size_name, *place.size, *place.size - 1));
    options.rank = static_cast<int>(rank);
}

// Reads MASTER_ADDR, which must be a name or an address and nothing else. "[::1]" is taken as "::1".
std::string host_from(const std::string& text, const char* name) {
    const bool has_brackets = text.starts_with('[') && text.ends_with(']');
    std::string host = has_brackets ? text.substr(1, text.size() - 2) : text;
    const auto colons = std::count(host.begin(), host.end(), ':');
    const std::string number = host.substr(0, host.find('%'));  // the part before the interface
    const bool is_number = number.find_first_not_of("0123456789abcdefABCDEF:.") == number.npos;
    const bool is_plain = !host.empty() && host.find_first_of("[]/ \t\r\n") == host.npos;
    if (is_plain && (has_brackets ? colons > 1 : colons == 0 || (colons > 1 && is_number))) return host;
    refuse_option(
        fmt::format("{} is \"{}\"; it must be the name or an address of rank 0's host and nothing else: the "
                    "port goes into MASTER_PORT",
                    name, text));
}

// Invalid numbers from a launcher matter only to processes that take their rank from them.
int job_rank_from(const Reader& reader, int rank) {
    try {
        return static_cast<int>(place_from(reader).rank.value_or(rank));
    } catch (const Error&) {
        return rank;
    }
}

// Returns the hint on how to run a lone process where a launcher's variables give the number of ranks.
std::string lone_process(const Choices& choices, const Reader& reader) {
    if (choices.world_size) return "";
    const Place place = place_from(reader);
    if (std::string_view(place.size_name) == "WORLD_SIZE") return "";
    return fmt::format("; {} says that there are {}{}", place.size_name, place.size.value_or(1),
                       way_out(place.size_name));
}

void resolve_rendezvous_point(Options& options, const Choices& choices, const Reader& reader) {
    const auto meets_at = choices.master_addr ? choices.master_addr : reader.text("MASTER_ADDR");
    options.master_addr = meets_at ? *meets_at : transport::loopback_address();
    options.secret = choices.secret ? *choices.secret : reader.text("HOCKET_SECRET").value_or("");
    if (options.world_size == 1) return;
    options.master_addr = host_from(options.master_addr, choices.master_addr ? "master_addr" : "MASTER_ADDR");
    // A program that has chosen another port has chosen a secret, too.
    if (options.secret.empty() && reader.text("TORCHELASTIC_USE_AGENT_STORE") == "True")
        refuse_option(
            "torchrun has started this process, and MASTER_PORT belongs to its store; let the ranks meet in "
            "that store (hkt_comm_options.store), or set MASTER_PORT to another port and HOCKET_SECRET");
    const auto port = choices.master_port
                          ? std::optional(check_range("master_port", *choices.master_port, 1, 65535))
                          : reader.number("MASTER_PORT", 1, 65535);
    if (options.rank == 0) options.listen_fd = choices.listen_fd.value_or(-1);
    if (!port && options.listen_fd < 0)
        refuse_option(
            fmt::format("MASTER_PORT is not set; give all {} ranks the port on which rank 0 listens "
                        "(hocket-run does){}",
                        options.world_size, lone_process(choices, reader)));
    options.master_port = static_cast<int>(port.value_or(0));
    // The launcher's socket is only for the rendezvous point that the launcher named.
    if (options.rank == 0 && !choices.master_addr && !choices.master_port && !choices.listen_fd)
        options.listen_fd = static_cast<int>(reader.number("HOCKET_LISTEN_FD", 0, INT32_MAX).value_or(-1));
    if (options.secret.empty())
        refuse_option(
            "HOCKET_SECRET is not set; give all ranks of the job the same secret text (hocket-run does)");
}

ExecutorKind executor_from(const Reader& reader) {
    const auto text = reader.text("HOCKET_EXECUTOR");
    if (!text) return ExecutorKind::automatic;
    if (*text == "jit") return ExecutorKind::jit;
    if (*text == "interpreter") return ExecutorKind::interpreter;
    refuse_option(fmt::format("HOCKET_EXECUTOR is \"{}\"; it must be jit or interpreter", *text));
}

bool has_background_from(const Reader& reader) {
    const std::string text = reader.text("HOCKET_PROGRESS").value_or("calls");
    if (text != "calls" && text != "thread")
        refuse_option(fmt::format("HOCKET_PROGRESS is \"{}\"; it must be calls or thread", text));
    return text == "thread";
}

LogLevel log_from(const Reader& reader) {
    constexpr std::pair<const char*, LogLevel> levels[] = {
        {"warn", LogLevel::warn}, {"info", LogLevel::info}, {"debug", LogLevel::debug}};
    const std::string text = reader.text("HOCKET_LOG").value_or("warn");
    for (const auto& [name, level] : levels)
        if (strcasecmp(text.c_str(), name) == 0) return level;
    refuse_option(fmt::format("HOCKET_LOG is \"{}\"; it must be warn, info or debug", text));
}

int recording_signal_from(const Reader& reader, bool has_folder) {
    constexpr std::pair<const char*, int> signals[] = {
        {"USR1", SIGUSR1}, {"USR2", SIGUSR2}, {"HUP", SIGHUP}, {"QUIT", SIGQUIT}};
    const auto text = reader.text("HOCKET_FLIGHT_SIGNAL");
    if (!text) return 0;
    for (const auto& [name, signal] : signals)
        if (*text == name || *text == std::string("SIG") + name) {
            if (has_folder) return signal;
            refuse_option(
                "HOCKET_FLIGHT_SIGNAL is set and HOCKET_FLIGHT_RECORDER is not; name the folder that "
                "recordings are written to");
        }
    refuse_option(fmt::format("HOCKET_FLIGHT_SIGNAL is \"{}\"; it must be USR1, USR2, HUP or QUIT", *text));
}

std::optional<kernels::Path> hand_over_from(const Reader& reader) {
    const auto text = reader.text("HOCKET_HAND_OVER");
    if (!text) return std::nullopt;
    if (*text == "cache") return kernels::Path::cache;
    if (*text == "memory") return kernels::Path::memory;
    refuse_option(fmt::format("HOCKET_HAND_OVER is \"{}\"; it must be cache or memory", *text));
}

SingleCopy single_copy_from(const Reader& reader) {
    if (!reader.text("HOCKET_SINGLE_COPY")) return SingleCopy::measured;
    return reader.is_on("HOCKET_SINGLE_COPY", true) ? SingleCopy::always : SingleCopy::off;
}

void resolve_tuning(Options& options, const Reader& reader, const Environment& environment) {
    const auto named = reader.text("HOCKET_TUNING");
    options.tuning_is_named = named && *named != "off";
    if (!named)
        options.tuning = default_tuning_file(environment);
    else if (options.tuning_is_named)
        options.tuning = *named;
}

std::vector<std::string> split_path(std::string_view text) {
    std::vector<std::string> folders;
    while (!text.empty()) {
        const auto end = std::min(text.find(':'), text.size());
        if (end > 0) folders.emplace_back(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return folders;
}

// Returns the folders that were named, then Hocket's own. Hocket's own may be missing if folders were named.
std::vector<std::string> schedule_path_from(std::string_view named) {
    std::vector<std::string> folders = split_path(named);
    if (const auto own = library_folder()) {
        folders.push_back(*own);
    } else if (folders.empty()) {
        throw Error(Status::not_found,
                    fmt::format("Hocket's schedules are not where they are installed, as {} is no folder; "
                                "install Hocket as a whole, or name a folder of schedules in "
                                "HOCKET_SCHEDULE_PATH",
                                installed_place(HOCKET_SCHEDULES_FOLDER).string()));
    }
    return folders;
}

// Returns the place of a file or folder of this user's; "" if there is none.
std::string place_in_cache(const Environment& environment, const std::string& file) {
    const Reader reader(environment);
    // The XDG Base Directory Specification says that a relative path is to be ignored.
    if (const auto cache = reader.text("XDG_CACHE_HOME"); cache && cache->front() == '/')
        return *cache + "/hocket/" + file;
    const auto home = reader.text("HOME");
    return home ? *home + "/.cache/hocket/" + file : "";
}

}  // namespace

std::string default_tuning_file(const Environment& environment) {
    return place_in_cache(environment, "tuning.json");
}

std::optional<std::string> library_folder() {
    std::error_code ignored;
    const auto place = installed_place(HOCKET_SCHEDULES_FOLDER);
    if (!std::filesystem::is_directory(place, ignored)) return std::nullopt;
    return std::filesystem::canonical(place, ignored).string();
}

Options resolve(const Choices& choices, const Environment& environment) {
    const Reader reader(environment);
    Options options;
    options.is_newcomer = choices.is_newcomer;
    if (choices.is_newcomer)
        options.world_size = 0;
    else
        resolve_place(options, choices, reader);
    options.job_rank = job_rank_from(reader, options.rank);
    if (!choices.meets_elsewhere) resolve_rendezvous_point(options, choices, reader);
    const auto text = [&](const std::optional<std::string>& choice, const char* name) {
        return choice ? *choice : reader.text(name).value_or("");
    };
    const std::string for_all = reader.text("HOCKET_PROVIDER_FOR_ALL").value_or("");
    options.provider_carries_all = !for_all.empty();
    options.provider = options.provider_carries_all ? for_all : text(choices.provider, "HOCKET_PROVIDER");
    options.host_id = reader.text("HOCKET_HOST_ID").value_or("");
    // The ranks that a new process joins have outgrown the topology that they had declared.
    if (!choices.is_newcomer) options.topology = text(choices.topology, "HOCKET_TOPOLOGY");
    options.probes_links = reader.is_on("HOCKET_PROBE", true);
    options.schedule = text(choices.schedule, "HOCKET_SCHEDULE");
    options.schedule_path = schedule_path_from(text(choices.schedule_path, "HOCKET_SCHEDULE_PATH"));
    resolve_tuning(options, reader, environment);
    options.executor = choices.executor == ExecutorKind::automatic ? executor_from(reader) : choices.executor;
    options.has_background = choices.has_background ? *choices.has_background : has_background_from(reader);
    if (choices.timeout)
        options.timeout = std::chrono::milliseconds(check_timeout("timeout_ms", choices.timeout->count(), 1));
    else if (const auto ms = reader.timeout("HOCKET_TIMEOUT_MS", 1))
        options.timeout = std::chrono::milliseconds(*ms);
    options.join_timeout = options.timeout;
    options.shares_buffers =
        choices.shares_buffers ? *choices.shares_buffers : reader.is_on("HOCKET_SHARE_BUFFERS", false);
    options.cuda_ipc = reader.is_on("HOCKET_CUDA_IPC", true);
    options.cuda_plans = reader.is_on("HOCKET_CUDA_PLANS", false);
    const auto code = reader.text("HOCKET_CUDA_CODE");
    options.cuda_code = !code ? place_in_cache(environment, "kernels") : *code == "off" ? "" : *code;
    if (const auto bytes = reader.number("HOCKET_CUDA_PACKETS", 0, jit::most_packet_bytes))
        options.cuda_packets = static_cast<std::uint64_t>(*bytes);
    options.cuda_launches_block = reader.text("CUDA_LAUNCH_BLOCKING").value_or("0") == "1";
    reader.is_on(transport::encryption_variable, false);  // read where connections are made; refused here
    options.hand_over = hand_over_from(reader);
    options.single_copy = single_copy_from(reader);
    options.log = log_from(reader);
    options.recording.folder = reader.text("HOCKET_FLIGHT_RECORDER").value_or("");
    options.trace = reader.text("HOCKET_TRACE").value_or("");
    options.recording.signal = recording_signal_from(reader, !options.recording.folder.empty());
    if (const auto threads = reader.number("HOCKET_KERNEL_THREADS", 1, 256))
        options.kernel_threads = static_cast<unsigned>(*threads);
    if (const auto ms = reader.timeout("HOCKET_HEARTBEAT_TIMEOUT_MS", 100))
        options.heartbeat_timeout = std::chrono::milliseconds(*ms);
    return options;
}

Options resolve(const Choices& choices) {
    return resolve(choices, process_environment());
}

}  // namespace hocket::engine
