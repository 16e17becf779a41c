#include "runtime/cache/io/ring_io.hpp"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/base/forks.hpp"

namespace hocket::cache {
namespace {

using namespace std::chrono_literals;

constexpr unsigned largest_depth = 16384;

// Operations are submitted in batches of four, while others are still being prepared; otherwise the disk
// would idle meanwhile. fio makes 62,000 reads of 4 KiB a second at depth 32; batches of four reach 1.02 of
// that, of eight 0.88, of one 0.96 (virtual disk, Linux 6.18).
constexpr unsigned batch = 4;

[[noreturn]] void refuse(const std::string& why) {
    throw Error(Status::io, "io_uring: " + why);
}

// Uses the best flags that this kernel supports. A ring that begins disabled belongs to the thread that
// enables it.
int open_ring(unsigned entries, io_uring* ring) {
    constexpr unsigned always = IORING_SETUP_R_DISABLED;
    int result = -EINVAL;
    for (const unsigned flags : {IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
                                     IORING_SETUP_COOP_TASKRUN | IORING_SETUP_SUBMIT_ALL,
                                 IORING_SETUP_COOP_TASKRUN | IORING_SETUP_SUBMIT_ALL, 0u}) {
        result = io_uring_queue_init(entries, ring, always | flags);
        if (result != -EINVAL) break;
    }
    return result;
}

FileCall call_of(const Operation& operation) {
    if (operation.kind == Operation::Kind::transfer) return operation.transfer.call;
    if (operation.kind == Operation::Kind::status) return FileCall::status;
    return (operation.flags & O_CREAT) != 0 ? FileCall::create : FileCall::open;
}

}  // namespace

RingIo::RingIo(const Files& files, unsigned depth)
    : files_(files), most_(std::clamp(depth, 1u, largest_depth)) {
    // Has one entry more than there are operations, for the read that listens for wakes. The ring holds twice
    // as many completions, which is always enough.
    const int result = open_ring(most_ + 1, &ring_);
    if (result < 0) refuse(std::strerror(-result));
    try {
        require_operations();
        wakes_ = eventfd(0, EFD_CLOEXEC);
        if (wakes_ < 0) refuse(std::string("eventfd: ") + std::strerror(errno));
        forks::close_in_children(wakes_);
        forks::close_in_children(ring_.ring_fd);
        io_uring_ring_dontfork(&ring_);
    } catch (...) {
        io_uring_queue_exit(&ring_);
        throw;
    }
}

RingIo::~RingIo() {
    forks::keep_in_children(ring_.ring_fd);
    forks::keep_in_children(wakes_);
    io_uring_queue_exit(&ring_);
    close(wakes_);
}

void RingIo::require_operations() {
    // Without EXT_ARG, waiting with a deadline would take additional operations.
    if ((ring_.features & IORING_FEAT_EXT_ARG) == 0) refuse("Linux 5.11 or later is needed");
    const std::unique_ptr<io_uring_probe, decltype(&io_uring_free_probe)> probe(
        io_uring_get_probe_ring(&ring_), &io_uring_free_probe);
    if (!probe) refuse("the kernel does not tell which operations it knows");
    for (const int code :
         {IORING_OP_READ, IORING_OP_WRITE, IORING_OP_OPENAT, IORING_OP_CLOSE, IORING_OP_STATX})
        if (!io_uring_opcode_supported(probe.get(), code))
            refuse("the kernel does not allow the io_uring operation " + std::to_string(code) +
                   " (number in linux/io_uring.h)");
}

void RingIo::enter() {
    // Makes the system call directly: the shared library of liburing 2.3 does not export
    // io_uring_enable_rings.
    if (syscall(SYS_io_uring_register, ring_.ring_fd, IORING_REGISTER_ENABLE_RINGS, nullptr, 0) != 0)
        throw Error(Status::io, std::string("the cache's io_uring could not be enabled: ") +
                                    std::strerror(errno) + "; HOCKET_CACHE_IO=threads does without");
}

void RingIo::wait(std::optional<std::chrono::nanoseconds> timeout, Fifo<Operation>& done) {
    start_queued();
    if (!listening_) listen_for_wakes();
    enter_kernel(failed_.empty() ? timeout : 0ns);
    reap(done);
    // The disk begins with the next operations before those that are done are looked at.
    start_queued();
    if (io_uring_sq_ready(&ring_) > 0) io_uring_submit(&ring_);
    done.append(failed_);
}

// The loop waits for threads that wake it before it ends, so the object is there until this returns.
void RingIo::wake() {
    const std::uint64_t one = 1;
    while (::write(wakes_, &one, sizeof one) < 0 && errno == EINTR) {
    }
}

void RingIo::start_queued() {
    while (!queue_.empty() && in_flight_ < most_) {
        Operation& operation = queue_.pop();
        Fault fault;
        if (files_.may_fail() && operation.kind != Operation::Kind::close)
            fault = files_.fault(call_of(operation), operation.path ? *operation.path : std::string());
        if (fault.error != 0) {
            operation.result = -fault.error;
            failed_.push(operation);
        } else {
            prepare(operation, fault);
            ++in_flight_;
            // Entries that fail here are submitted with the next batch.
            if (io_uring_sq_ready(&ring_) >= batch) io_uring_submit(&ring_);
        }
    }
}

// There is always a free entry: the ring has one for each operation in flight, and one for listening.
void RingIo::prepare(Operation& operation, const Fault& fault) {
    io_uring_sqe* const entry = io_uring_get_sqe(&ring_);
    const Transfer& transfer = operation.transfer;
    switch (operation.kind) {
        case Operation::Kind::transfer:
            prepare_transfer(entry, transfer, transfer.next(fault));
            break;
        case Operation::Kind::open:
            io_uring_prep_openat(entry, AT_FDCWD, operation.path->c_str(),
                                 operation.flags | O_CLOEXEC | O_NOCTTY, 0);
            break;
        case Operation::Kind::close:
            io_uring_prep_close(entry, transfer.fd);
            break;
        case Operation::Kind::status:
            io_uring_prep_statx(entry, AT_FDCWD, operation.path->c_str(), 0, STATX_BASIC_STATS,
                                operation.status);
            break;
    }
    io_uring_sqe_set_data(entry, &operation);
}

void RingIo::prepare_transfer(io_uring_sqe* entry, const Transfer& transfer, std::size_t bytes) const {
    std::byte* const data = transfer.data + transfer.moved;
    const std::uint64_t offset = transfer.offset + transfer.moved;
    const auto length = static_cast<unsigned>(bytes);
    if (transfer.call == FileCall::read)
        io_uring_prep_read(entry, transfer.fd, data, length, offset);
    else
        io_uring_prep_write(entry, transfer.fd, data, length, offset);
}

void RingIo::listen_for_wakes() {
    io_uring_sqe* const entry = io_uring_get_sqe(&ring_);
    io_uring_prep_read(entry, wakes_, &wakes_read_, sizeof wakes_read_, 0);
    io_uring_sqe_set_data(entry, nullptr);
    listening_ = true;
}

void RingIo::enter_kernel(std::optional<std::chrono::nanoseconds> timeout) {
    int result;
    if (timeout == 0ns) {
        result = io_uring_submit_and_get_events(&ring_);
    } else {
        __kernel_timespec limit{};
        if (timeout) limit = {timeout->count() / 1'000'000'000, timeout->count() % 1'000'000'000};
        io_uring_cqe* first;
        result = io_uring_submit_and_wait_timeout(&ring_, &first, 1, timeout ? &limit : nullptr, nullptr);
    }
    if (result >= 0 || result == -ETIME || result == -EINTR) return;
    if (result != -EAGAIN && result != -EBUSY)
        throw Error(Status::io, std::string("the cache cannot wait for its files: io_uring_enter: ") +
                                    std::strerror(-result) + "; HOCKET_CACHE_IO=threads does without");
    std::this_thread::sleep_for(1ms);  // the kernel is out of memory for the moment
}

void RingIo::reap(Fifo<Operation>& done) {
    unsigned head, count = 0;
    io_uring_cqe* completion;
    io_uring_for_each_cqe(&ring_, head, completion) {
        ++count;
        auto* const operation = static_cast<Operation*>(io_uring_cqe_get_data(completion));
        if (operation == nullptr) {
            listening_ = false;
            continue;
        }
        --in_flight_;
        if (const auto result = outcome(*operation, completion->res)) {
            operation->result = *result;
            done.push(*operation);
        } else {
            queue_.push(*operation);
        }
    }
    io_uring_cq_advance(&ring_, count);
}

// Handles the result as Files::open_linked does.
std::optional<std::int64_t> RingIo::opened(Operation& operation, int returned) {
    if (returned == -EINTR) return {};
    if (returned == -EWOULDBLOCK && (operation.flags & O_NONBLOCK) != 0) {
        operation.flags &= ~O_NONBLOCK;
        return {};
    }
    return Files::regular(returned);
}

// Returns nothing if the operation continues.
std::optional<std::int64_t> RingIo::outcome(Operation& operation, int returned) {
    if (operation.kind == Operation::Kind::transfer) return operation.transfer.took(returned);
    if (operation.kind == Operation::Kind::close) return returned == -EINTR ? 0 : returned;
    if (operation.kind == Operation::Kind::open) return opened(operation, returned);
    return returned == -EINTR ? std::optional<std::int64_t>() : returned;
}

}  // namespace hocket::cache
