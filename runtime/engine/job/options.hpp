// The options of a communicator that joins its job. Each is the embedder's choice, or else the environment's,
// or else a default. Every environment variable that the engine reads is a field here.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/environment.hpp"
#include "runtime/compute/jit/interface/device_plan.hpp"
#include "runtime/compute/kernels/cpu/hand_over.hpp"
#include "runtime/engine/plan/executor.hpp"
#include "runtime/engine/record/recording.hpp"
#include "runtime/engine/run/peer_memory.hpp"
#include "runtime/transport/bootstrap/bootstrap.hpp"
#include "runtime/transport/bootstrap/regroup.hpp"

namespace hocket::engine {

struct LinkFigures;
struct Planning;

// The messages on stderr. warn: problems; info: also choices, and ranks that join or leave; debug: also
// reasons.
enum class LogLevel : std::uint8_t { warn, info, debug };

// The provider that stands for whichever network card all hosts have.
inline constexpr const char* card_provider = "card";

// Of the bootstrap's options, these are the environment's:
// - rank and world_size: RANK and WORLD_SIZE; else OMPI_COMM_WORLD_RANK and _SIZE (Open MPI), PMI_RANK and
//   PMI_SIZE (MPICH, Intel MPI), SLURM_PROCID and SLURM_STEP_NUM_TASKS or SLURM_NTASKS; else a world of one.
//   Both numbers come from the same pair.
// - master_addr: MASTER_ADDR; master_port: MASTER_PORT, 1 .. 65535; listen_fd: HOCKET_LISTEN_FD; secret:
//   HOCKET_SECRET. Port and secret are needed if world_size > 1.
// - heartbeat_timeout: HOCKET_HEARTBEAT_TIMEOUT_MS.
struct Options : transport::BootstrapOptions {
    // This process's number in its job, for texts. It differs from `rank` where a program numbers the ranks
    // of a communicator itself.
    int job_rank = 0;
    // HOCKET_PROVIDER: "tcp", "card" (a network card that all hosts have, else tcp) or one of libfabric's
    // carries messages between hosts; "": tcp. Named by HOCKET_PROVIDER_FOR_ALL, it carries them inside hosts
    // too, and ranks share no memory.
    std::string provider;
    bool provider_carries_all = false;
    std::string host_id;       // HOCKET_HOST_ID: ranks with the same id share memory; "": detected
    std::string topology;      // HOCKET_TOPOLOGY: see dsl::PlanRequest
    bool probes_links = true;  // HOCKET_PROBE: "on" or "off": measures links between hosts when ranks meet
    std::string schedule;      // HOCKET_SCHEDULE: see dsl::PlanRequest
    std::vector<std::string> schedule_path;  // HOCKET_SCHEDULE_PATH ("a:b"), then Hocket's own library
    std::string tuning;            // HOCKET_TUNING: hocket-tune's table, "" for "off"; default_tuning_file
    bool tuning_is_named = false;  // true if HOCKET_TUNING names the file
    ExecutorKind executor = ExecutorKind::automatic;  // HOCKET_EXECUTOR: jit or interpreter
    bool has_background = false;                      // HOCKET_PROGRESS: thread or calls
    std::chrono::milliseconds timeout{60000};         // HOCKET_TIMEOUT_MS: for joining, and for an operation
    bool shares_buffers = false;  // HOCKET_SHARE_BUFFERS: "on" or "off": private buffers that are used often
    bool cuda_ipc = true;         // HOCKET_CUDA_IPC: "on" or "off"
    bool cuda_plans = false;      // HOCKET_CUDA_PLANS: "on" or "off": kernels of devices run plans
    std::string cuda_code;        // HOCKET_CUDA_CODE: the folder of kernels' code, "" for "off"
    std::uint64_t cuda_packets = jit::most_packet_bytes;  // HOCKET_CUDA_PACKETS: 0 to that
    bool cuda_launches_block = false;                     // CUDA_LAUNCH_BLOCKING, of CUDA
    std::optional<kernels::Path> hand_over;         // HOCKET_HAND_OVER: cache or memory; not set: measured
    SingleCopy single_copy = SingleCopy::measured;  // HOCKET_SINGLE_COPY: "on", "off"; not set: measured
    unsigned kernel_threads = 1;                    // HOCKET_KERNEL_THREADS: for a selection
    // The recovery where the ranks find each other if some are lost, if a communicator that they were in has
    // one already; and their numbers in it, by rank.
    std::shared_ptr<transport::Recovery> recovery = nullptr;
    std::vector<int> numbers_in_recovery = {};
    // The recoveries of communicators that this one has grown out of. They only show that the process is
    // alive.
    std::vector<std::shared_ptr<transport::Recovery>> earlier_recoveries = {};
    std::shared_ptr<Planning> planning = nullptr;        // of the communicator that this one was made from
    std::shared_ptr<const LinkFigures> links = nullptr;  // where they were measured
    LogLevel log = LogLevel::warn;                       // HOCKET_LOG: warn, info or debug
    // HOCKET_FLIGHT_RECORDER: the folder; HOCKET_FLIGHT_SIGNAL: USR1, USR2, HUP or QUIT.
    record::RecordingOptions recording;
    std::string trace;  // HOCKET_TRACE: a folder; "": no trace
};

// The options that the embedder has set; the environment supplies the rest.
struct Choices {
    std::optional<int> rank, world_size, master_port, listen_fd;
    std::optional<std::string> master_addr, secret, provider, topology, schedule, schedule_path;
    ExecutorKind executor = ExecutorKind::automatic;
    std::optional<bool> has_background, shares_buffers;
    std::optional<std::chrono::milliseconds> timeout;
    // The caller determines where the ranks meet: address, port, socket and secret are not read here.
    bool meets_elsewhere = false;
    bool is_newcomer = false;  // nor are rank and world_size
};

// Throws hocket::Error: invalid_argument, naming the field or variable, its value and the valid values;
// not_found if there are no schedules, neither in Hocket's own folder nor in a named one.
Options resolve(const Choices& choices, const Environment& environment);
Options resolve(const Choices& choices);  // from the process's environment

// Returns hocket/tuning.json in XDG_CACHE_HOME, or else in ~/.cache; "" if there is no HOME.
std::string default_tuning_file(const Environment& environment);

// Returns the folder of Hocket's own schedules, as it was installed with this library or program
// (runtime/base/installed.hpp; a build folder has a link to the source tree's). Returns nullopt if it does
// not exist.
std::optional<std::string> library_folder();

}  // namespace hocket::engine
