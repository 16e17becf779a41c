#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <set>
#include <string_view>
#include <thread>

#include "capi/growth.hpp"
#include "capi/handles.hpp"
#include "capi/joining.hpp"
#include "runtime/base/log.hpp"
#include "runtime/engine/groups.hpp"
#include "runtime/engine/job/losses.hpp"

using namespace hocket;

namespace {

constexpr std::chrono::seconds longest_calls_take{5};  // after they were told to end

static_assert(HKT_ALL_WAITING == engine::those_waiting);
static_assert(HKT_EXECUTOR_DEFAULT == static_cast<int>(engine::ExecutorKind::automatic) &&
              HKT_EXECUTOR_JIT == static_cast<int>(engine::ExecutorKind::jit) &&
              HKT_EXECUTOR_INTERPRETER == static_cast<int>(engine::ExecutorKind::interpreter));

thread_local std::string borrowed_text;  // the calling thread's copy of a communicator's text

// Makes the handle of a communicator for some of this one's ranks; the program has set no options for it.
std::unique_ptr<hkt_comm> handle_like(const hkt_comm& whole) {
    auto made = std::make_unique<hkt_comm>();
    made->interruption = whole.interruption;
    return made;
}

hkt_status make_group(const char* function, const std::string& what, hkt_comm& comm, std::int32_t color,
                      std::int32_t key, hkt_comm** group) {
    if (group == nullptr)
        capi::refuse(fmt::format("{}: group is null; pass the address of an hkt_comm*", function));
    *group = nullptr;
    auto made = handle_like(comm);
    made->engine = engine::split(*comm.engine, what, color < 0 ? std::nullopt : std::optional(color), key);
    if (made->engine) *group = made.release();
    return HKT_SUCCESS;
}

// Waits until the calls of other threads have ended, before the communicator is freed. Returns false if one
// does not end: it still needs what it works on.
bool others_have_ended(hkt_comm& comm) {
    using namespace std::chrono_literals;
    const auto is_still = [&] { return comm.calls.load(std::memory_order_acquire) == 0; };
    if (is_still()) return true;
    const auto until = std::chrono::steady_clock::now() + longest_calls_take;
    comm.engine->progress().abort(
        "hkt_comm_destroy was called while other calls of the communicator were under way");
    while (!is_still() && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(1ms);
    if (is_still()) return true;
    log_line(
        "hocket: warning: hkt_comm_destroy: a call of another thread does not end; the memory that it uses "
        "is not freed");
    return false;
}

// Makes the calls that hkt_request_callback promised, before the communicator is freed. Returns false if this
// is such a call itself.
bool has_called_all(hkt_comm& comm) {
    if (comm.engine->progress().caller().is_this_thread()) {
        log_line(
            "hocket: warning: hkt_comm_destroy was called from a callback of the communicator, and did "
            "nothing; call it from another thread");
        return false;
    }
    comm.engine->progress().caller().finish();
    return true;
}

engine::ExecutorKind executor_of(std::int32_t value) {
    if (value < HKT_EXECUTOR_DEFAULT || value > HKT_EXECUTOR_INTERPRETER)
        capi::refuse(fmt::format("hkt_comm_options.executor is {}; it must be an hkt_executor", value));
    return static_cast<engine::ExecutorKind>(value);
}

std::optional<bool> has_background(std::int32_t progress) {
    if (progress < HKT_PROGRESS_DEFAULT || progress > HKT_PROGRESS_THREAD)
        capi::refuse(fmt::format("hkt_comm_options.progress is {}; it must be an hkt_progress", progress));
    if (progress == HKT_PROGRESS_DEFAULT) return std::nullopt;
    return progress == HKT_PROGRESS_THREAD;
}

std::optional<bool> shares_buffers(std::int64_t share) {
    if (share < HKT_SHARE_BUFFERS_DEFAULT || share > HKT_SHARE_BUFFERS_ON)
        capi::refuse(
            fmt::format("hkt_comm_options.share_buffers is {}; it must be an hkt_share_buffers", share));
    if (share == HKT_SHARE_BUFFERS_DEFAULT) return std::nullopt;
    return share == HKT_SHARE_BUFFERS_ON;
}

engine::Choices choices_of(const hkt_comm_options& given) {
    engine::Choices choices;
    const auto text = [](const char* value) {
        return value == nullptr || *value == '\0' ? std::nullopt : std::optional<std::string>(value);
    };
    if (given.rank < HKT_NEWCOMER || given.world_size < 0)
        capi::refuse(
            fmt::format("hkt_comm_options asks for rank {} of {}; ranks are 0 to world_size - 1, "
                        "HKT_NEWCOMER is -2, and -1 and 0 mean RANK and WORLD_SIZE",
                        given.rank, given.world_size));
    choices.is_newcomer = given.rank == HKT_NEWCOMER;
    if (choices.is_newcomer && (given.world_size != 0 || !given.unique_id || given.store))
        capi::refuse(
            "hkt_comm_options.rank is HKT_NEWCOMER: then unique_id says where rank 0 takes this process in, "
            "store must be null, and world_size 0, as rank 0 gives both numbers");
    if (given.rank >= 0) choices.rank = given.rank;
    if (given.world_size > 0) choices.world_size = given.world_size;
    if (given.master_port != 0) choices.master_port = given.master_port;
    choices.master_addr = text(given.master_addr);
    choices.secret = text(given.secret);
    choices.provider = text(given.provider);
    choices.topology = text(given.topology);
    choices.schedule = text(given.schedule);
    choices.schedule_path = text(given.schedule_path);
    choices.executor = executor_of(given.executor);
    choices.has_background = has_background(given.progress);
    choices.shares_buffers = shares_buffers(given.share_buffers);
    if (given.listen_fd != 0) choices.listen_fd = given.listen_fd;
    if (given.timeout_ms != 0) choices.timeout = std::chrono::milliseconds(given.timeout_ms);
    return choices;
}

}  // namespace

extern "C" {

hkt_status hkt_comm_create(const hkt_comm_options* options, hkt_comm** comm) {
    return capi::guarded([&] {
        if (comm == nullptr) capi::refuse("hkt_comm_create: comm is null; pass the address of an hkt_comm*");
        *comm = nullptr;
        auto made = std::make_unique<hkt_comm>();
        const hkt_comm_options given = capi::read_options(options);
        made->interruption = {given.is_interrupted, given.interrupt_user};
        engine::Choices choices = choices_of(given);
        choices.meets_elsewhere = capi::meets_by_invitation(given);
        engine::Options resolved = engine::resolve(choices);
        capi::accept_invitation(given, resolved);
        try {
            made->engine = engine::Communicator::create(resolved);
        } catch (const Error& error) {
            throw capi::with_rendezvous(given, error);
        }
        *comm = made.release();
        return HKT_SUCCESS;
    });
}

hkt_status hkt_unique_id_create(hkt_unique_id* id) {
    return capi::guarded([&] {
        if (id == nullptr)
            capi::refuse("hkt_unique_id_create: id is null; pass the address of an hkt_unique_id");
        capi::invite(*id);
        return HKT_SUCCESS;
    });
}

hkt_status hkt_unique_id_waiting(const hkt_unique_id* id, int32_t* count) {
    return capi::guarded([&] {
        if (id == nullptr || count == nullptr) capi::refuse("hkt_unique_id_waiting: id or count is null");
        *count = static_cast<std::int32_t>(capi::waiting_at(*id));
        return HKT_SUCCESS;
    });
}

hkt_status hkt_unique_id_destroy(const hkt_unique_id* id) {
    return capi::guarded([&] {
        if (id == nullptr) capi::refuse("hkt_unique_id_destroy: id is null");
        capi::close_door(*id);
        return HKT_SUCCESS;
    });
}

hkt_status hkt_comm_split(hkt_comm* comm, int32_t color, int32_t key, hkt_comm** group) {
    return capi::guarded(comm, [&] {
        if (comm == nullptr) capi::refuse("hkt_comm_split: comm is null");
        if (color < HKT_NO_COLOR)
            capi::refuse(
                fmt::format("hkt_comm_split: the color is {}; it must be 0 or more, or HKT_NO_COLOR", color));
        return make_group("hkt_comm_split", "hkt_comm_split", *comm, color, key, group);
    });
}

hkt_status hkt_comm_create_group(hkt_comm* comm, const int32_t* ranks, size_t count, hkt_comm** group) {
    return capi::guarded(comm, [&] {
        const char* const function = "hkt_comm_create_group";
        if (comm == nullptr) capi::refuse(fmt::format("{}: comm is null", function));
        if (ranks == nullptr || count == 0) capi::refuse(fmt::format("{}: there are no ranks", function));
        std::set<std::int32_t> known;
        std::optional<std::size_t> place;
        for (std::size_t i = 0; i < count; ++i) {
            if (ranks[i] < 0 || ranks[i] >= comm->engine->size())
                capi::refuse(fmt::format("{}: ranks[{}] is {}; ranks go from 0 to {}", function, i, ranks[i],
                                         comm->engine->size() - 1));
            if (!known.insert(ranks[i]).second)
                capi::refuse(fmt::format("{}: rank {} is in the list twice", function, ranks[i]));
            if (ranks[i] == comm->engine->rank()) place = i;
        }
        return make_group(
            function, fmt::format("{} of ranks {}", function, fmt::join(ranks, ranks + count, ", ")), *comm,
            place ? 0 : HKT_NO_COLOR, static_cast<std::int32_t>(place.value_or(0)), group);
    });
}

void hkt_comm_destroy(hkt_comm* comm) {
    if (comm == nullptr) return;
    if (comm->is_of_a_parent())
        capi::give_up(comm->engine);
    else if (!has_called_all(*comm) || !others_have_ended(*comm))
        return;
    delete comm;
}

hkt_status hkt_comm_shrink(hkt_comm* comm, hkt_comm** shrunken) {
    return capi::guarded(comm, [&] {
        if (comm == nullptr) capi::refuse("hkt_comm_shrink: comm is null");
        if (shrunken == nullptr)
            capi::refuse("hkt_comm_shrink: shrunken is null; pass the address of an hkt_comm*");
        *shrunken = nullptr;
        auto made = handle_like(*comm);
        made->engine = engine::shrink(*comm->engine);
        *shrunken = made.release();
        return HKT_SUCCESS;
    });
}

hkt_status hkt_comm_grow(hkt_comm* comm, int32_t newcomers, const hkt_unique_id* id, hkt_comm** grown) {
    return capi::guarded(comm, [&] {
        if (comm == nullptr) capi::refuse("hkt_comm_grow: comm is null");
        if (grown == nullptr) capi::refuse("hkt_comm_grow: grown is null; pass the address of an hkt_comm*");
        *grown = nullptr;
        const int most = INT32_MAX - comm->engine->size();
        if (newcomers < 0 || newcomers > most)
            capi::refuse(
                fmt::format("hkt_comm_grow: newcomers is {}; it must be 1 to {}, or HKT_ALL_WAITING (0)",
                            newcomers, most));
        auto made = handle_like(*comm);
        made->engine = engine::grow(*comm->engine, newcomers, id ? capi::text_of(*id) : "");
        if (made->engine) *grown = made.release();
        return HKT_SUCCESS;
    });
}

hkt_status hkt_comm_lost(hkt_comm* comm, int32_t* ranks, size_t room, size_t* count) {
    return capi::guarded(comm, [&] {
        if (comm == nullptr) capi::refuse("hkt_comm_lost: comm is null");
        if (count == nullptr || (ranks == nullptr && room > 0))
            capi::refuse("hkt_comm_lost: count is null, or ranks is null and room is not 0");
        const std::vector<int> lost = engine::lost_ranks(comm->engine->connections());
        *count = lost.size();
        std::copy_n(lost.begin(), std::min(room, lost.size()), ranks);
        return HKT_SUCCESS;
    });
}

hkt_status hkt_comm_abort(hkt_comm* comm) {
    return capi::guarded(comm, [&] {
        if (comm == nullptr) capi::refuse("hkt_comm_abort: comm is null");
        comm->engine->progress().abort("hkt_comm_abort was called");
        return HKT_SUCCESS;
    });
}

hkt_status hkt_comm_dump(hkt_comm* comm, const char* path) {
    return capi::guarded(comm, [&] {
        if (comm == nullptr) capi::refuse("hkt_comm_dump: comm is null");
        if (path == nullptr || *path == '\0')
            capi::refuse("hkt_comm_dump: path is null or empty; name the file to write");
        comm->engine->recorder().save_to(path, "call");
        return HKT_SUCCESS;
    });
}

int32_t hkt_comm_rank(const hkt_comm* comm) {
    return comm == nullptr || comm->is_of_a_parent() ? -1 : comm->engine->rank();
}

int32_t hkt_comm_size(const hkt_comm* comm) {
    return comm == nullptr || comm->is_of_a_parent() ? -1 : comm->engine->size();
}

hkt_status hkt_comm_status(hkt_comm* comm) {
    return capi::guarded(comm, [&] {
        if (comm == nullptr) capi::refuse("hkt_comm_status: comm is null");
        if (const auto failure = comm->engine->progress().failure())
            throw Error(failure->status, failure->text);
        return HKT_SUCCESS;
    });
}

const char* hkt_comm_info(const hkt_comm* comm, const char* key) {
    if (comm == nullptr || key == nullptr || comm->is_of_a_parent()) return nullptr;
    const std::string_view name = key;
    const engine::Communicator& engine = *comm->engine;
    if (name == "provider") return engine.connections().provider().c_str();
    if (name == "provider_why") return engine.connections().provider_why().c_str();
    if (name == "lost_rails") return engine.connections().lost_rails().c_str();
    if (name == "topology") return engine.options().topology.c_str();
    if (name == "planning_topology") return engine.connections().planning_topology().c_str();
    if (name == "links") return engine.connections().links_text().c_str();
    if (name == "schedule_path") return engine.schedule_path().c_str();
    if (name == "executor") return name_of(engine.options().executor).data();
    if (name == "by_host") return engine.devices().by_host().c_str();
    if (name == "progress") return engine.options().has_background ? "thread" : "calls";
    return nullptr;
}

const char* hkt_comm_last_error(const hkt_comm* comm) {
    if (comm == nullptr || comm->is_of_a_parent()) return hkt_last_error();
    try {
        borrowed_text = comm->last_error.text();
    } catch (...) {
        return "out of memory";
    }
    return borrowed_text.c_str();
}

hkt_status hkt_premul_sum_create(double factor, hkt_comm* comm, hkt_op* op) {
    return capi::guarded(comm, [&] {
        if (comm == nullptr) capi::refuse("hkt_premul_sum_create: comm is null");
        if (op == nullptr) capi::refuse("hkt_premul_sum_create: op is null; pass the address of an hkt_op");
        *op = comm->operators.make(ReduceOp::premul_sum, factor);
        return HKT_SUCCESS;
    });
}

hkt_status hkt_op_create(hkt_comm* comm, const char* name, hkt_op* op) {
    return capi::guarded(comm, [&] {
        if (comm == nullptr) capi::refuse("hkt_op_create: comm is null");
        if (name == nullptr || *name == '\0')
            capi::refuse("hkt_op_create: name is null or empty; pass \"NAME\", or \"FILE.sched:NAME\"");
        if (op == nullptr) capi::refuse("hkt_op_create: op is null; pass the address of an hkt_op");
        *op = comm->operators.make(comm->engine->plans().maker().find_operator(name));
        return HKT_SUCCESS;
    });
}

hkt_status hkt_op_destroy(hkt_op op, hkt_comm* comm) {
    return capi::guarded(comm, [&] {
        if (comm == nullptr) capi::refuse("hkt_op_destroy: comm is null");
        comm->operators.destroy(op);
        return HKT_SUCCESS;
    });
}

hkt_status hkt_comm_set_stream(hkt_comm* comm, void* stream) {
    return capi::guarded(comm, [&] {
        if (comm == nullptr) capi::refuse("hkt_comm_set_stream: comm is null");
        comm->engine->devices().set_stream(static_cast<device::Stream>(stream));
        return HKT_SUCCESS;
    });
}

}  // extern "C"
