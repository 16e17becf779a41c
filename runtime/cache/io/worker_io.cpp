#include "runtime/cache/io/worker_io.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>

#include "runtime/base/error.hpp"

namespace hocket::cache {
namespace {

constexpr unsigned most_threads = 32;

std::int64_t perform(const Files& files, const Operation& operation) {
    const Transfer& transfer = operation.transfer;
    switch (operation.kind) {
        case Operation::Kind::open:
            return files.open_linked(*operation.path,
                                     operation.flags & ~O_NONBLOCK);  // Files adds it where needed
        case Operation::Kind::close:
            return Files::close(transfer.fd);
        case Operation::Kind::status:
            return files.status(*operation.path, *operation.status);
        case Operation::Kind::transfer:
            break;
    }
    return transfer.call == FileCall::read
               ? files.read(transfer.fd, transfer.data, transfer.bytes, transfer.offset)
               : files.write(transfer.fd, transfer.data, transfer.bytes, transfer.offset);
}

}  // namespace

WorkerIo::WorkerIo(const Files& files, unsigned depth)
    : files_(files), slots_(std::clamp(depth, 1u, most_threads)), workers_(most_threads) {
    for (Slot& slot : slots_) {
        slot.io = this;
        free_.push(slot);
    }
}

void WorkerIo::submit(Operation& operation) {
    queue_.push(operation);
    start_queued();
}

void WorkerIo::wait(std::optional<std::chrono::nanoseconds> timeout, Fifo<Operation>& done) {
    {
        std::unique_lock lock(mutex_);
        const auto has_news = [this] { return woken_ || !done_.empty(); };
        if (timeout) {
            changed_.wait_for(lock, *timeout, has_news);
        } else {
            changed_.wait(lock, has_news);
        }
        woken_ = false;
        while (!done_.empty()) {
            Slot& slot = static_cast<Slot&>(done_.pop());
            done.push(*slot.operation);
            free_.push(slot);
        }
    }
    start_queued();
}

// Notifies under the lock: the waiting thread may end and destroy this object as soon as it is woken.
void WorkerIo::wake() {
    const std::lock_guard lock(mutex_);
    woken_ = true;
    changed_.notify_one();
}

void WorkerIo::start_queued() {
    while (!queue_.empty() && !free_.empty()) {
        Slot& slot = static_cast<Slot&>(free_.pop());
        slot.operation = &queue_.pop();
        try {
            workers_.submit(slot);
        } catch (const Error&) {  // no thread can be started for it
            slot.operation->result = -EAGAIN;
            give_back(slot);
        }
    }
}

void WorkerIo::carry_out(Slot& slot) {
    slot.operation->result = perform(files_, *slot.operation);
    give_back(slot);
}

void WorkerIo::give_back(Slot& slot) {
    const std::lock_guard lock(mutex_);
    done_.push(slot);
    changed_.notify_one();
}

}  // namespace hocket::cache
