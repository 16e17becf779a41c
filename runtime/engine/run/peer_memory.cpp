#include "runtime/engine/run/peer_memory.hpp"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>
#include <utility>

#include "runtime/base/error.hpp"

namespace hocket::engine {
namespace {

std::uint64_t random_word() {
    std::random_device device;
    return (std::uint64_t{device()} << 32 | device()) | 1;
}

// process_vm_readv or process_vm_writev, of one stretch. Returns the bytes that were copied, or -1.
using Call = ssize_t (*)(pid_t, const iovec*, unsigned long, const iovec*, unsigned long, unsigned long);

ssize_t call_once(Call call, pid_t process, const std::byte* own, const std::byte* theirs,
                  std::uint64_t bytes) {
    const iovec here{const_cast<std::byte*>(own), bytes}, there{const_cast<std::byte*>(theirs), bytes};
    return call(process, &here, 1, &there, 1, 0);
}

}  // namespace

PeerMemory::PeerMemory(SingleCopy use, std::vector<int> ranks)
    : use_(use), ranks_(std::move(ranks)), word_(random_word()), peers_(ranks_.size()) {
#ifdef PR_SET_PTRACER
    if (use_ == SingleCopy::always) prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
#endif
}

void PeerMemory::show(Card& card) const {
    card.process = getpid();
    card.address = reinterpret_cast<std::uintptr_t>(&word_);
    card.word = word_;
    card.is_shown.store(1, std::memory_order_release);
}

bool PeerMemory::find_all() const {
    return std::ranges::all_of(peers_, [](const Peer& peer) {
        std::uint64_t found = 0;
        const auto* there = reinterpret_cast<const std::byte*>(peer.address);
        return call_once(process_vm_readv, peer.process, reinterpret_cast<std::byte*>(&found), there,
                         sizeof found) == sizeof found &&
               found == peer.word;
    });
}

bool PeerMemory::can_lend(const void* buffer, std::uint64_t bytes) {
    const auto is_same = [&](const Lent& lent) { return lent.buffer == buffer && lent.bytes == bytes; };
    if (bytes == 0 || std::ranges::any_of(lent_, is_same)) return true;
    const auto* begin = static_cast<const std::byte*>(buffer);
    for (const std::byte* at : {begin, begin + bytes - 1}) {
        std::byte found{};
        if (call_once(process_vm_readv, getpid(), &found, at, 1) != 1) return false;
    }
    lent_[next_lent_] = {buffer, bytes};
    next_lent_ = 1 - next_lent_;
    return true;
}

PeerMemory::Outcome PeerMemory::read(int member, std::byte* to, const std::byte* from,
                                     std::uint64_t bytes) const {
    return copy_all(process_vm_readv, member, to, from, bytes);
}

PeerMemory::Outcome PeerMemory::write(int member, std::byte* to, const std::byte* from,
                                      std::uint64_t bytes) const {
    return copy_all(process_vm_writev, member, from, to, bytes);
}

template <typename Call>
PeerMemory::Outcome PeerMemory::copy_all(Call call, int member, const std::byte* own, const std::byte* theirs,
                                         std::uint64_t bytes) const {
    while (bytes > 0) {
        const ssize_t copied =
            call_once(call, peers_[static_cast<std::size_t>(member)].process, own, theirs, bytes);
        if (copied < 0 && errno == EINTR) continue;
        if (copied < 0 && errno == ESRCH) return Outcome::process_is_gone;
        // Only a page that is not there ends a copy early.
        if (copied <= 0) refuse(copied < 0 ? errno : EFAULT, member, theirs, bytes);
        own += copied, theirs += copied, bytes -= static_cast<std::uint64_t>(copied);
    }
    ++copies_;
    return Outcome::done;
}

void PeerMemory::refuse(int error, int member, const std::byte* at, std::uint64_t bytes) const {
    const int rank = ranks_[static_cast<std::size_t>(member)];
    if (error == EFAULT)
        throw Error(Status::invalid_argument,
                    fmt::format("{} bytes at {} of rank {}'s buffer are not there, or this rank's that they "
                                "are copied from or to: a buffer was given back while the collective ran, "
                                "or the kernel cannot copy this kind of memory\n"
                                "  hint: keep buffers until the operation has ended; for special memory, set "
                                "HOCKET_SINGLE_COPY=off on all ranks",
                                bytes, static_cast<const void*>(at), rank));
    throw Error(Status::io, fmt::format("the kernel no longer lets this process use rank {}'s memory: {}\n"
                                        "  hint: set HOCKET_SINGLE_COPY=off on all ranks",
                                        rank, std::strerror(error)));
}

}  // namespace hocket::engine
