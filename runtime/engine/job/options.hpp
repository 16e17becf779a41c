// What a communicator needs to know before it can join its job: what the embedder chose, or else the
// environment, or else a default. Every environment variable that the engine reads is a field here.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/environment.hpp"
#include "runtime/engine/plan/executor.hpp"
#include "runtime/transport/bootstrap/regroup.hpp"

namespace hocket::engine {

struct Planning;

// What is said on stderr: what goes wrong; also what was chosen, and who comes and goes; also why.
enum class LogLevel : std::uint8_t { warn, info, debug };

struct Options {
    // RANK and WORLD_SIZE; else OMPI_COMM_WORLD_RANK and _SIZE (Open MPI), PMI_RANK and PMI_SIZE (MPICH,
    // Intel MPI), SLURM_PROCID and SLURM_STEP_NUM_TASKS or SLURM_NTASKS; else a world of one. A pair is taken
    // as a whole.
    int rank = 0;
    int world_size = 1;
    // This process's number in its job, for people. It is not `rank` where a program numbers the ranks of a
    // communicator itself.
    int job_rank = 0;
    std::string master_addr = "127.0.0.1";  // MASTER_ADDR: where rank 0 listens
    int master_port = 0;                    // MASTER_PORT: 1 .. 65535, needed if world_size > 1
    int listen_fd = -1;                     // HOCKET_LISTEN_FD: rank 0's socket that already listens there
    // Instead of a socket, where ranks meet by invitation: rank 0's. Given up when all have joined.
    std::shared_ptr<transport::Lobby> lobby = nullptr;
    bool is_newcomer = false;  // rank and world_size are what rank 0 says
    int newcomers = 0;         // these four as in transport::BootstrapOptions
    bool newcomers_wait = false;
    bool host_listens = false;
    std::function<std::optional<std::string>()> abandoned = {};
    std::string secret;  // HOCKET_SECRET: needed if world_size > 1
    // HOCKET_PROVIDER: "tcp", or one of libfabric's, for all messages; "": memory inside a host,
    // tcp between hosts.
    std::string provider;
    std::string host_id;   // HOCKET_HOST_ID: ranks with the same one share memory; "": detected
    std::string topology;  // HOCKET_TOPOLOGY: see dsl::PlanRequest
    std::string schedule;  // HOCKET_SCHEDULE: see dsl::PlanRequest
    std::vector<std::string> schedule_path;  // HOCKET_SCHEDULE_PATH ("a:b"), then Hocket's own library
    std::string tuning;            // HOCKET_TUNING: hocket-tune's table, "" for "off"; default_tuning_file
    bool tuning_is_named = false;  // whether HOCKET_TUNING names it
    ExecutorKind executor = ExecutorKind::automatic;  // HOCKET_EXECUTOR: jit or interpreter
    bool has_background = false;                      // HOCKET_PROGRESS: thread or calls
    std::chrono::milliseconds timeout{60000};         // HOCKET_TIMEOUT_MS: of joining, and of an operation
    std::chrono::milliseconds join_timeout{60000};    // as timeout, but for those that shrink a communicator
    bool cuda_ipc = true;                             // HOCKET_CUDA_IPC: "on" or "off"
    unsigned kernel_threads = 1;                      // HOCKET_KERNEL_THREADS: of a selection
    // Where its ranks find each other if some are lost, if a communicator that these were in has such places
    // already; and their numbers there, by rank.
    std::shared_ptr<transport::Recovery> recovery = nullptr;
    std::vector<int> numbers_in_recovery = {};
    // Of communicators that this one has grown out of. They only show that the process is there.
    std::vector<std::shared_ptr<transport::Recovery>> earlier_recoveries = {};
    std::shared_ptr<Planning> planning = nullptr;  // of the communicator that this one comes out of
    LogLevel log = LogLevel::warn;                 // HOCKET_LOG: warn, info or debug
    std::string recordings;                        // HOCKET_FLIGHT_RECORDER: a folder; "": none
    std::string trace;                             // HOCKET_TRACE: a folder; "": none
    int recording_signal = 0;                      // HOCKET_FLIGHT_SIGNAL: USR1, USR2, HUP or QUIT; 0: none
    std::chrono::milliseconds heartbeat_timeout{10000};  // HOCKET_HEARTBEAT_TIMEOUT_MS: a silent rank is lost
};

// What the embedder has set; the rest is taken from the environment.
struct Choices {
    std::optional<int> rank, world_size, master_port, listen_fd;
    std::optional<std::string> master_addr, secret, provider, topology, schedule, schedule_path;
    ExecutorKind executor = ExecutorKind::automatic;
    std::optional<bool> has_background;
    std::optional<std::chrono::milliseconds> timeout;
    // The caller finds out where the ranks meet: address, port, socket and secret are not looked for here.
    bool meets_elsewhere = false;
    bool is_newcomer = false;  // nor are rank and world_size
};

// Throws hocket::Error: invalid_argument, naming the field or variable, its value and what it may be;
// not_found if there are no schedules: neither Hocket's own folder nor one that was named.
Options resolve(const Choices& choices, const Environment& environment);
Options resolve(const Choices& choices);  // from the process's environment

// hocket/tuning.json in XDG_CACHE_HOME, else in ~/.cache; "" if there is no HOME.
std::string default_tuning_file(const Environment& environment);

// The folder of Hocket's own schedules, as it was installed with this library or program
// (runtime/base/installed.hpp; a build folder has a link to the source tree's). None: there is no such
// folder.
std::optional<std::string> library_folder();

}  // namespace hocket::engine
