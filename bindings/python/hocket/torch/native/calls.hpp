// The calls of one communicator that come from C++, beside those from Python (hocket/state.py): the
// communicator is destroyed only when none of either kind is inside.
#pragma once

#include "hocket.h"
#include "python.hpp"

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Hooks.hpp>

#include <unistd.h>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace hocket::torch {

class Calls {
  public:
    explicit Calls(std::uintptr_t comm) : comm_(reinterpret_cast<hkt_comm*>(comm)) {}

    // One call. comm() is null if the communicator is being destroyed: then it must not be called.
    class Inside {
      public:
        explicit Inside(Calls& calls) : calls_(calls) { ++calls_.inside_; }
        ~Inside() { --calls_.inside_; }
        Inside(const Inside&) = delete;
        Inside& operator=(const Inside&) = delete;

        hkt_comm* comm() const { return calls_.is_closed_ ? nullptr : calls_.comm_; }

      private:
        Calls& calls_;
    };

    // For hocket.state: what it asks of all things that use a communicator.
    bool is_under_way() const { return inside_ > 0; }

    // No call begins any more, and those that are inside end. A forked child has none of its parent's
    // threads.
    void close() {
        is_closed_ = true;
        if (inside_ > 0 && process_ == getpid()) hkt_comm_abort(comm_);
        while (inside_ > 0 && process_ == getpid()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }

    // Requests that have not ended, and whose works are those of C++.
    std::atomic<std::int64_t> in_flight = 0;

    // Whether Python may have works that C++ has started: it ends those that nobody waits for if it is asked
    // to.
    std::atomic<bool> has_handed_over = false;

    // Keeps tensors of operations that had not ended when the communicator was closed: C may write to them
    // until it is destroyed.
    void keep(std::vector<at::Tensor> tensors) {
        const std::lock_guard lock(mutex_);
        kept_.push_back(std::move(tensors));
    }

    void destroyed() {
        std::vector<std::vector<at::Tensor>> kept;
        const std::lock_guard lock(mutex_);
        kept.swap(kept_);
    }

  private:
    hkt_comm* const comm_;
    std::atomic<std::int64_t> inside_ = 0;
    std::atomic<bool> is_closed_ = false;
    const pid_t process_ = getpid();
    std::mutex mutex_;
    std::vector<std::vector<at::Tensor>> kept_;
};

// The functions that torch's flight recorder wants called when an operation has succeeded.
class Completions {
  public:
    void add(std::int64_t id, c10d::CompletionHook hook) {
        const std::lock_guard lock(mutex_);
        hooks_[id] = std::move(hook);
        are_any_ = true;
    }

    void remove(std::int64_t id) {
        const std::lock_guard lock(mutex_);
        hooks_.erase(id);
        are_any_ = !hooks_.empty();
    }

    bool are_any() const { return are_any_; }

    void tell(std::uint64_t key) const {
        if (!are_any_) return;
        std::map<std::int64_t, c10d::CompletionHook> hooks;
        {
            const std::lock_guard lock(mutex_);
            hooks = hooks_;  // a hook takes locks of its own, under which it removes itself
        }
        for (const auto& [_, hook] : hooks) hook({key, std::nullopt});
    }

    // A key for each work, never used again.
    static std::uint64_t new_key() {
        static std::atomic<std::uint64_t> last = 0;
        return ++last;
    }

  private:
    mutable std::mutex mutex_;
    std::map<std::int64_t, c10d::CompletionHook> hooks_;
    std::atomic<bool> are_any_ = false;
};

// What a group's backend and its works have in common.
struct Group {
    std::shared_ptr<Calls> calls;
    std::shared_ptr<Completions> completions;
    Object operations;  // hocket.torch.native.binding.Bridge
};

}  // namespace hocket::torch
