// The types behind the opaque handles of hocket.h. An hkt_request is a Request by another name (an
// engine::Execution or MessageRequest, a cache::Batch, a params::ParameterRequest), so a start allocates
// nothing.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "capi/errors.hpp"
#include "capi/hocket.h"
#include "capi/joined_requests.hpp"
#include "capi/operators.hpp"
#include "runtime/base/forks.hpp"
#include "runtime/base/request.hpp"
#include "runtime/cache/cache.hpp"
#include "runtime/engine/communicator.hpp"
#include "runtime/params/worker/worker.hpp"

namespace hocket::capi {

// The base of every handle. It remembers which process made the handle: see runtime/base/forks.hpp.
class Handle {
  public:
    bool is_of_a_parent() const { return made_in_ != forks::generation(); }

    // Throws Error(invalid_argument) if a parent process made the handle. what: "communicator".
    void require_own(const char* what) const {
        if (is_of_a_parent()) [[unlikely]]
            refuse_a_parents(what);
    }

  private:
    [[noreturn]] static void refuse_a_parents(const char* what);

    const std::uint32_t made_in_ = forks::generation();
};

// Releases what a handle of the parent process holds without destroying it: its threads do not exist here,
// its locks may be held for ever, and its descriptors were closed when the process forked. The memory stays
// until the process ends.
template <typename Held>
void give_up(std::unique_ptr<Held>& held) {
    [[maybe_unused]] Held* const kept = held.release();
}
template <typename Held>
void give_up(std::shared_ptr<Held>& held) {
    [[maybe_unused]] const auto* const kept = new std::shared_ptr<Held>(std::move(held));
}

// The program's function that may end a wait: hkt_comm_options.is_interrupted, or that of another struct.
struct Interruption {
    static constexpr std::chrono::milliseconds asked_every{50};

    int (*is_interrupted)(void* user) = nullptr;  // null: never
    void* user = nullptr;
    const char* name = "hkt_comm_options.is_interrupted";
};

}  // namespace hocket::capi

struct hkt_comm : hocket::capi::Handle {
    hocket::capi::JoinedRequests joined;
    std::unique_ptr<hocket::engine::Communicator> engine;
    hocket::capi::MadeOperators operators;
    hocket::capi::LastError last_error;
    hocket::capi::Interruption interruption;
    std::atomic<int> calls{0};  // under way; hkt_comm_destroy waits for them
};

struct hkt_plan : hocket::capi::Handle {
    hkt_comm* comm;
    double factor;             // as in engine::Start
    std::uint64_t pieces = 1;  // x has this many times the count of a start
    std::unique_ptr<hocket::engine::SizedPlans> plans;
    std::vector<std::uint64_t> tensor_counts;                     // empty: x is one tensor
    std::shared_ptr<hocket::engine::GatherMemory> gather_memory;  // null unless x is a list of tensors
    std::once_flag explained;
    std::string explanation;
    std::mutex state_mutex;
    std::optional<std::uint64_t> state_count = std::nullopt;  // of the starts, if the plan keeps a state
    bool has_empty_state = false;  // the state has no count: the start or the loaded state was empty
};

struct hkt_cache : hocket::capi::Handle {
    std::unique_ptr<hocket::cache::Cache> cache;
};

struct hkt_params : hocket::capi::Handle {
    std::unique_ptr<hocket::params::Client> client;
    hocket::capi::Interruption interruption;
    bool is_unbounded;
};

namespace hocket::capi {

// Returns the communicator that a plan belongs to; null if there is no plan.
inline hkt_comm* comm_of(const hkt_plan* plan) {
    return plan == nullptr ? nullptr : plan->comm;
}

inline hkt_request* handle(Request& request) {
    return reinterpret_cast<hkt_request*>(&request);
}
inline Request& request_of(hkt_request* request) {
    return *reinterpret_cast<Request*>(request);
}

// Like guarded() in errors.hpp, for a call of this communicator; null if the caller gave none. An error about
// a communicator of the parent process is kept for hkt_last_error, because such a communicator must not be
// touched.
template <typename Call>
hkt_status guarded(hkt_comm* comm, Call call) noexcept {
    if (comm == nullptr) return guarded(call);
    if (comm->is_of_a_parent()) [[unlikely]]
        return guarded([&]() -> hkt_status {
            comm->require_own("communicator");
            return HKT_SUCCESS;
        });
    comm->calls.fetch_add(1, std::memory_order_acquire);
    const hkt_status status = guarded(&comm->last_error, call);
    comm->calls.fetch_sub(1, std::memory_order_release);
    return status;
}

}  // namespace hocket::capi
