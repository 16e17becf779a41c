#include "runtime/transport/libfabric/endpoint.hpp"

#include <fmt/format.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <utility>

#include "runtime/base/error.hpp"
#include "runtime/transport/libfabric/endpoint_objects.hpp"
#include "runtime/transport/libfabric/libfabric.hpp"
#include "runtime/transport/libfabric/message_memory.hpp"
#include "runtime/transport/libfabric/provider.hpp"
#include "runtime/transport/libfabric/remote_writes.hpp"
#include "runtime/transport/libfabric/signal_guard.hpp"

namespace hocket::transport {
namespace {

using namespace std::chrono_literals;

static_assert(sizeof(Message::provider_context) >= sizeof(fi_context2));

constexpr auto shortest_nap = 5us, longest_nap = 200us;
// A provider's descriptor may stay silent when only a poll makes progress, so no sleep on it is longer.
constexpr auto longest_sleep = 10ms;

class FabricEndpoint : public Fabric {
  public:
    // info: as it was found for this address. reason: for this provider, for people.
    FabricEndpoint(Info info, const std::string& source_address, const std::string& reason);
    ~FabricEndpoint() override { close(); }

    std::string provider() const override { return provider_; }
    std::string why() const override { return why_; }
    std::string local_address() const override;
    void connect(std::span<const std::string> addresses, const Patience& patience) override;
    bool send(int peer, std::uint64_t tag, std::uint32_t checksum, std::span<const Segment> segments,
              Message& message) override;
    bool receive(int peer, std::uint64_t tag, std::span<const Segment> segments, Message& message) override;
    std::size_t poll(std::span<Completion> completions) override;
    void wait(std::span<pollfd> others, std::chrono::microseconds at_most) override;
    void abandon() override { close(); }

  private:
    fi_addr_t address_of(int peer) const { return peers_[static_cast<std::size_t>(peer)]; }
    bool writes_to(int peer) const { return takes_writes_[static_cast<std::size_t>(peer)]; }
    std::optional<Completion> completion_of(const fi_cq_tagged_entry& entry);
    bool posted(const char* what, Message& message, ssize_t code);
    std::optional<Completion> failed_completion();
    void sleep(std::chrono::microseconds at_most);
    void close();
    void require_open() const;

    std::string provider_, why_;
    bool uses_rxm_ = false;
    RmaWay rma_ = RmaWay::none;
    EndpointObjects objects_;
    MessageMemory memory_;
    std::optional<RemoteWrites> writes_;  // if the provider has RMA
    std::vector<fi_addr_t> peers_;
    std::vector<bool> takes_writes_;  // by peer
    std::size_t in_flight_ = 0;
    std::chrono::microseconds nap_ = shortest_nap;
    std::vector<pollfd> wait_set_;
};

FabricEndpoint::FabricEndpoint(Info info, const std::string& source_address, const std::string& reason) {
    const Rma rma = choose_rma(info, source_address);
    provider_ = info->fabric_attr->prov_name;
    why_ = reason + "; " + rma.why;
    if (!carries_data(*info)) why_ += "; checksums go ahead of messages, for want of remote CQ data";
    uses_rxm_ = has_rxm(*info);
    objects_ = open_endpoint(*info);
    memory_ = MessageMemory(*info, rma.way, objects_);
    if (rma.way != RmaWay::none) writes_.emplace(*info, rma.way, objects_, memory_);
    rma_ = rma.way;
}

// The provider's address follows a byte that says how this rank takes long messages, and one that says how
// long the header of a message is.
std::string FabricEndpoint::local_address() const {
    const char beginning[] = {static_cast<char>(rma_), static_cast<char>(memory_.header_bytes())};
    return std::string(beginning, sizeof beginning) + objects_.local_address;
}

void FabricEndpoint::connect(std::span<const std::string> addresses, const Patience&) {
    peers_.assign(addresses.size(), FI_ADDR_UNSPEC);
    takes_writes_.clear();
    for (std::size_t rank = 0; rank < addresses.size(); ++rank) {
        const std::string& address = addresses[rank];
        if (address.size() < 2 || address[1] != static_cast<char>(memory_.header_bytes()))
            throw Error(Status::transport,
                        fmt::format("libfabric's provider '{}' carries data beside messages (remote CQ data) "
                                    "on this rank or on rank {}, and not on both; give it the same settings "
                                    "on all ranks",
                                    provider_, rank));
        takes_writes_.push_back(writes_ && address.starts_with(static_cast<char>(rma_)));
        const int inserted =
            fi_av_insert(objects_.addresses.get(), address.data() + 2, 1, &peers_[rank], 0, nullptr);
        if (inserted != 1)
            throw Error(
                Status::transport,
                fmt::format("libfabric's provider '{}' does not accept the address of rank {}; do all "
                            "ranks use the same provider and the same libfabric?",
                            provider_, rank));
    }
}

bool FabricEndpoint::send(int peer, std::uint64_t tag, std::uint32_t checksum,
                          std::span<const Segment> segments, Message& message) {
    require_open();
    message.segments = {};
    message.peer = peer;
    if (writes_to(peer) && memory_.is_written(bytes_in(segments))) {
        if (!writes_->offer(address_of(peer), tag, checksum, segments, message)) return false;
        ++in_flight_;
        return true;
    }
    auto places = memory_.find_tagged(segments, MessageMemory::Direction::send, message, checksum);
    if (!places) return false;
    const fi_msg_tagged what{.msg_iov = places->entries.data(),
                             .desc = places->descriptors.data(),
                             .iov_count = places->count,
                             .addr = address_of(peer),
                             .tag = tag,
                             .ignore = 0,
                             .context = message.provider_context,
                             .data = checksum};
    const std::uint64_t beside = memory_.header_bytes() == 0 ? FI_REMOTE_CQ_DATA : 0;
    return posted("send to", message, fi_tsendmsg(objects_.endpoint.get(), &what, beside | FI_COMPLETION));
}

bool FabricEndpoint::receive(int peer, std::uint64_t tag, std::span<const Segment> segments,
                             Message& message) {
    require_open();
    message.segments = segments;
    message.peer = peer;
    auto places = memory_.find_tagged(segments, MessageMemory::Direction::receive, message);
    if (!places) return false;
    const fi_msg_tagged what{.msg_iov = places->entries.data(),
                             .desc = places->descriptors.data(),
                             .iov_count = places->count,
                             .addr = address_of(peer),
                             .tag = tag,
                             .ignore = writes_to(peer) ? RemoteWrites::offer_bit : 0,
                             .context = message.provider_context,
                             .data = 0};
    return posted("receive from", message, fi_trecvmsg(objects_.endpoint.get(), &what, FI_COMPLETION));
}

bool FabricEndpoint::posted(const char* what, Message& message, ssize_t code) {
    if (code == 0) {
        ++in_flight_;
        return true;
    }
    memory_.refused(message);
    if (code == -FI_EAGAIN || code == -FI_ENOMEM) return false;
    throw Error(Status::transport,
                fmt::format("libfabric's provider '{}' could not {} rank {}: {}", provider_, what,
                            message.peer, fi_strerror(static_cast<int>(-code))));
}

std::size_t FabricEndpoint::poll(std::span<Completion> completions) {
    require_open();
    if (completions.empty()) return 0;
    if (writes_) writes_->retry();
    std::array<fi_cq_tagged_entry, 64> entries;
    const std::size_t room = std::min(entries.size(), completions.size());
    const ssize_t n = fi_cq_read(objects_.completions.get(), entries.data(), room);
    if (n == -FI_EAGAIN || n == 0) return 0;
    nap_ = shortest_nap;
    if (n == -FI_EAVAIL) {
        auto failed = failed_completion();
        if (!failed) return 0;
        completions[0] = std::move(*failed);
        --in_flight_;
        return 1;
    }
    check_fabric(provider_, "cannot read the completion queue", n);
    std::size_t taken = 0;
    for (ssize_t i = 0; i < n; ++i)
        if (auto completion = completion_of(entries[i])) completions[taken++] = std::move(*completion);
    in_flight_ -= taken;
    return taken;
}

// Returns the completion of the message that ends with this, if one does.
std::optional<Completion> FabricEndpoint::completion_of(const fi_cq_tagged_entry& entry) {
    if (writes_) {
        if ((entry.flags & FI_REMOTE_WRITE) != 0) return writes_->written(entry.data);
        if (writes_->owns(entry.op_context)) return writes_->step_ended(entry.op_context, "");
    }
    Completion completion;
    completion.message = static_cast<Message*>(entry.op_context);
    if (writes_ && !completion.message->segments.empty() && (entry.tag & RemoteWrites::offer_bit) != 0)
        return writes_->accept(*completion.message, address_of(completion.message->peer), entry);
    completion.ok = true;
    completion.bytes = entry.len;
    completion.checksum = static_cast<std::uint32_t>(entry.data);
    if (!completion.message->segments.empty()) memory_.take_header(completion);
    memory_.end(completion);
    return completion;
}

std::optional<Completion> FabricEndpoint::failed_completion() {
    fi_cq_err_entry entry{};
    check_fabric(provider_, "cannot read the completion queue's errors",
                 fi_cq_readerr(objects_.completions.get(), &entry, 0));
    const int code = std::abs(entry.err);  // providers disagree about the sign
    if (writes_ && writes_->owns(entry.op_context))
        return writes_->step_ended(entry.op_context, fi_strerror(code));
    Completion completion;
    completion.message = static_cast<Message*>(entry.op_context);
    completion.truncated = code == FI_ETRUNC || code == FI_EMSGSIZE;
    completion.error = fi_strerror(code);
    completion.bytes = entry.len;
    completion.checksum = static_cast<std::uint32_t>(entry.data);
    if (!completion.message)
        throw Error(Status::transport,
                    fmt::format("libfabric's provider '{}' reports a failure that belongs to "
                                "no message: {}",
                                provider_, completion.error));
    if (!completion.message->segments.empty()) memory_.take_header(completion);
    memory_.end(completion);
    return completion;
}

void FabricEndpoint::wait(std::span<pollfd> others, std::chrono::microseconds at_most) {
    wait_set_.assign(others.begin(), others.end());
    if (writes_ && writes_->has_refused()) at_most = std::min(at_most, longest_nap);
    if (objects_.completions && objects_.wait_fd >= 0) {
        fid_t fid = &objects_.completions->fid;
        if (fi_trywait(objects_.fabric.get(), &fid, 1) != 0) at_most = 0us;  // an event may be pending
        wait_set_.push_back({objects_.wait_fd, POLLIN, 0});
        sleep(std::min<std::chrono::microseconds>(at_most, longest_sleep));
    } else {
        sleep(std::min(at_most, nap_));
        nap_ = std::min<std::chrono::microseconds>(nap_ * 2, longest_nap);
    }
    std::copy_n(wait_set_.begin(), others.size(), others.begin());
}

void FabricEndpoint::sleep(std::chrono::microseconds at_most) {
    const auto left = std::max(at_most, 0us);
    const timespec time{static_cast<time_t>(left.count() / 1000000),
                        static_cast<long>(left.count() % 1000000 * 1000)};
    if (ppoll(wait_set_.data(), wait_set_.size(), &time, nullptr) < 0)
        for (pollfd& entry : wait_set_) entry.revents = 0;  // interrupted: the caller polls by itself
}

void FabricEndpoint::close() {
    // rxm of libfabric 1.17 can crash when it is closed in the middle of a long message.
    if (uses_rxm_ && (in_flight_ > 0 || (writes_ && writes_->has_steps()))) {
        memory_.keep_for_ever();
        objects_.keep_for_ever();
        return;
    }
    objects_.endpoint.reset();
    memory_.close();
    objects_.close();
}

void FabricEndpoint::require_open() const {
    if (!objects_.endpoint)
        throw Error(Status::transport,
                    "the fabric endpoint was given up after a failure; only destruction is left");
}

}  // namespace

std::unique_ptr<Fabric> open_libfabric(const std::string& provider, const std::string& source_address) {
    const SignalHandlersKept guard;
    load_libfabric();
    return std::make_unique<FabricEndpoint>(choose_provider(provider, source_address), source_address,
                                            "asked for by name");
}

std::unique_ptr<Fabric> open_network_card(const std::string& source_address) {
    if (!may_have_network_card()) return nullptr;
    const SignalHandlersKept guard;
    load_libfabric();
    Info card = find_card(source_address);
    if (!card) return nullptr;
    return std::make_unique<FabricEndpoint>(std::move(card), source_address,
                                            "the network card of all ranks' hosts");
}

}  // namespace hocket::transport
