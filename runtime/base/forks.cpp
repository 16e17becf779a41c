#include "runtime/base/forks.hpp"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <new>
#include <utility>
#include <vector>

namespace hocket::forks {

constinit std::atomic<std::uint32_t> detail::generation{0};

// Lives as long as the process: handles may be destroyed after static objects are.
class Registry {
  public:
    static Registry& get() {
        static Registry& registry = *new Registry;
        return registry;
    }

    std::mutex& mutex() { return mutex_; }

    void set(int fd, bool closes) {
        const auto word = static_cast<std::size_t>(fd) / 64;
        const std::uint64_t bit = std::uint64_t{1} << (fd % 64);
        if (word >= closed_.size()) {
            if (!closes) return;
            closed_.resize(word + 1);
        }
        closes ? closed_[word] |= bit : closed_[word] &= ~bit;
    }

    void list(Inherited& inherited) {
        if (std::exchange(inherited.is_listed_, true)) return;
        inherited.previous_ = nullptr;
        inherited.next_ = std::exchange(first_, &inherited);
        if (inherited.next_) inherited.next_->previous_ = &inherited;
    }
    void unlist(Inherited& inherited) {
        if (!std::exchange(inherited.is_listed_, false)) return;
        (inherited.previous_ ? inherited.previous_->next_ : first_) = inherited.next_;
        if (inherited.next_) inherited.next_->previous_ = inherited.previous_;
    }

    void go_on_in_children(int change) { go_on_ += change; }

  private:
    Registry() {
        if (pthread_atfork([] { get().mutex_.lock(); }, [] { get().mutex_.unlock(); },
                           [] { get().in_child(); }) != 0)
            throw std::bad_alloc();
    }

    void in_child() {
        if (go_on_ > 0) return mutex_.unlock();
        detail::generation.fetch_add(1, std::memory_order_relaxed);
        for (Inherited* inherited = first_; inherited; inherited = inherited->next_) inherited->in_child();
        for (std::size_t word = 0; word < closed_.size(); ++word)
            for (std::uint64_t& bits = closed_[word]; bits != 0; bits &= bits - 1)
                ::close(static_cast<int>(word * 64) + std::countr_zero(bits));
        // The parent's registrations do not concern this process's own children.
        first_ = nullptr;
        mutex_.unlock();
    }

    std::mutex mutex_;
    std::vector<std::uint64_t> closed_;  // one bit per descriptor
    Inherited* first_ = nullptr;
    int go_on_ = 0;  // the number of ChildrenGoOn objects
};

void close_in_children(int fd) {
    if (fd < 0) return;
    const auto lock = no_fork();
    Registry::get().set(fd, true);
}

void keep_in_children(int fd) noexcept {
    if (fd < 0) return;
    const auto lock = no_fork();
    Registry::get().set(fd, false);
}

int close(int fd) noexcept {
    const auto lock = no_fork();
    Registry::get().set(fd, false);
    return ::close(fd);
}

void Inherited::begin() {
    const auto lock = no_fork();
    Registry::get().list(*this);
}

void Inherited::end() noexcept {
    const auto lock = no_fork();
    Registry::get().unlist(*this);
}

ChildrenGoOn::ChildrenGoOn() {
    const auto lock = no_fork();
    Registry::get().go_on_in_children(1);
}

ChildrenGoOn::~ChildrenGoOn() {
    const auto lock = no_fork();
    Registry::get().go_on_in_children(-1);
}

std::unique_lock<std::mutex> no_fork() {
    return std::unique_lock(Registry::get().mutex());
}

}  // namespace hocket::forks
