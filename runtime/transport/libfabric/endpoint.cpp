#include "runtime/transport/libfabric/endpoint.hpp"

#include <fmt/format.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "runtime/base/error.hpp"
#include "runtime/transport/libfabric/endpoint_objects.hpp"
#include "runtime/transport/libfabric/libfabric.hpp"
#include "runtime/transport/libfabric/provider.hpp"
#include "runtime/transport/libfabric/signal_guard.hpp"

namespace hocket::transport {
namespace {

using namespace std::chrono_literals;

static_assert(sizeof(Message::provider_context) >= sizeof(fi_context2));

constexpr auto shortest_nap = 5us, longest_nap = 200us;
// A provider's descriptor may stay silent when only a poll makes progress, so no sleep on it is longer.
constexpr auto longest_sleep = 10ms;

// Messages with more segments go through a bounce buffer, even if the provider would take more.
constexpr std::size_t most_entries = 16;

// Copies a message out of its bounce buffer once it has been received, and frees the buffer.
void empty_bounce(const Completion& completion) {
    Message& message = *completion.message;
    if (completion.ok && !message.segments.empty())
        SegmentCursor(message.segments).write(message.bounce.get(), completion.bytes);
    message.bounce.reset();
}

class FabricEndpoint : public Fabric {
  public:
    FabricEndpoint(const std::string& provider, const std::string& source_address);
    ~FabricEndpoint() override { close(); }

    std::string provider() const override { return provider_; }
    std::string why() const override { return "asked for by name"; }
    std::string local_address() const override { return objects_.local_address; }
    void connect(std::span<const std::string> addresses, const Patience& patience) override;
    bool send(int peer, std::uint64_t tag, std::uint32_t checksum, std::span<const Segment> segments,
              Message& message) override;
    bool receive(int peer, std::uint64_t tag, std::span<const Segment> segments, Message& message) override;
    std::size_t poll(std::span<Completion> completions) override;
    void wait(std::span<pollfd> others, std::chrono::microseconds at_most) override;
    void abandon() override { close(); }

  private:
    bool post_send(std::uint64_t tag, std::uint32_t checksum, std::span<const Segment> segments,
                   Message& message);
    bool post_receive(std::uint64_t tag, Message& message);
    bool posted(const char* what, int peer, ssize_t code) const;
    Completion failed_completion();
    void sleep(std::chrono::microseconds at_most);
    void close();
    void require_open() const;

    std::string provider_;
    bool uses_rxm_ = false;
    std::size_t most_sent_segments_ = 1, most_received_segments_ = 1;  // of one message to the provider
    EndpointObjects objects_;
    std::vector<fi_addr_t> peers_;
    std::size_t in_flight_ = 0;
    std::chrono::microseconds nap_ = shortest_nap;
    std::vector<pollfd> wait_set_;
};

FabricEndpoint::FabricEndpoint(const std::string& provider, const std::string& source_address) {
    const Info info = choose_provider(provider, source_address);
    provider_ = info->fabric_attr->prov_name;
    uses_rxm_ = provider_.find("ofi_rxm") != provider_.npos;
    // Over rxm of 1.17 a receive never ends if its buffer is too short for a long message of several
    // segments: rxm waits for as many reads as there are segments, but issues fewer.
    most_sent_segments_ = uses_rxm_ ? 1 : std::min(info->tx_attr->iov_limit, most_entries);
    most_received_segments_ = std::min(info->rx_attr->iov_limit, most_entries);
    objects_ = open_endpoint(*info);
}

void FabricEndpoint::connect(std::span<const std::string> addresses, const Patience&) {
    peers_.assign(addresses.size(), FI_ADDR_UNSPEC);
    for (std::size_t rank = 0; rank < addresses.size(); ++rank) {
        const int inserted =
            fi_av_insert(objects_.addresses.get(), addresses[rank].data(), 1, &peers_[rank], 0, nullptr);
        if (inserted != 1)
            throw Error(
                Status::transport,
                fmt::format("libfabric's provider '{}' does not accept the address of rank {}; do all "
                            "ranks use the same HOCKET_PROVIDER and the same libfabric?",
                            provider_, rank));
    }
}

bool FabricEndpoint::send(int peer, std::uint64_t tag, std::uint32_t checksum,
                          std::span<const Segment> segments, Message& message) {
    require_open();
    message.segments = {};
    message.peer = peer;
    const bool done = post_send(tag, checksum, segments, message);
    if (done) ++in_flight_;
    return done;
}

bool FabricEndpoint::post_send(std::uint64_t tag, std::uint32_t checksum, std::span<const Segment> segments,
                               Message& message) {
    const fi_addr_t to = peers_[message.peer];
    Segment whole = segments.front();
    if (segments.size() > 1 && segments.size() <= most_sent_segments_) {
        std::array<iovec, most_entries> entries;
        const fi_msg_tagged what{.msg_iov = entries.data(),
                                 .desc = nullptr,
                                 .iov_count = SegmentCursor(segments).describe(entries, SIZE_MAX),
                                 .addr = to,
                                 .tag = tag,
                                 .ignore = 0,
                                 .context = message.provider_context,
                                 .data = checksum};
        return posted("send to", message.peer,
                      fi_tsendmsg(objects_.endpoint.get(), &what, FI_REMOTE_CQ_DATA | FI_COMPLETION));
    }
    if (segments.size() > 1) {
        whole.bytes = bytes_in(segments);
        if (!message.bounce) {  // otherwise this is a repeated attempt
            message.bounce = std::make_unique_for_overwrite<std::byte[]>(whole.bytes);
            SegmentCursor(segments).read(message.bounce.get(), whole.bytes);
        }
        whole.data = message.bounce.get();
    }
    return posted("send to", message.peer,
                  fi_tsenddata(objects_.endpoint.get(), whole.data, whole.bytes, nullptr, checksum, to, tag,
                               message.provider_context));
}

bool FabricEndpoint::receive(int peer, std::uint64_t tag, std::span<const Segment> segments,
                             Message& message) {
    require_open();
    message.segments = segments;
    message.peer = peer;
    const bool done = post_receive(tag, message);
    if (done) ++in_flight_;
    return done;
}

bool FabricEndpoint::post_receive(std::uint64_t tag, Message& message) {
    const fi_addr_t from = peers_[message.peer];
    Segment whole = message.segments.front();
    if (message.segments.size() > 1 && message.segments.size() <= most_received_segments_) {
        std::array<iovec, most_entries> entries;
        const fi_msg_tagged what{.msg_iov = entries.data(),
                                 .desc = nullptr,
                                 .iov_count = SegmentCursor(message.segments).describe(entries, SIZE_MAX),
                                 .addr = from,
                                 .tag = tag,
                                 .ignore = 0,
                                 .context = message.provider_context,
                                 .data = 0};
        return posted("receive from", message.peer,
                      fi_trecvmsg(objects_.endpoint.get(), &what, FI_COMPLETION));
    }
    if (message.segments.size() > 1) {
        whole.bytes = bytes_in(message.segments);
        if (!message.bounce) message.bounce = std::make_unique_for_overwrite<std::byte[]>(whole.bytes);
        whole.data = message.bounce.get();
    }
    return posted("receive from", message.peer,
                  fi_trecv(objects_.endpoint.get(), whole.data, whole.bytes, nullptr, from, tag, 0,
                           message.provider_context));
}

bool FabricEndpoint::posted(const char* what, int peer, ssize_t code) const {
    if (code == 0) return true;
    if (code == -FI_EAGAIN || code == -FI_ENOMEM) return false;
    throw Error(Status::transport, fmt::format("libfabric's provider '{}' could not {} rank {}: {}",
                                               provider_, what, peer, fi_strerror(static_cast<int>(-code))));
}

std::size_t FabricEndpoint::poll(std::span<Completion> completions) {
    require_open();
    if (completions.empty()) return 0;
    std::array<fi_cq_tagged_entry, 64> entries;
    const std::size_t room = std::min(entries.size(), completions.size());
    const ssize_t n = fi_cq_read(objects_.completions.get(), entries.data(), room);
    if (n == -FI_EAGAIN || n == 0) return 0;
    nap_ = shortest_nap;
    if (n == -FI_EAVAIL) {
        completions[0] = failed_completion();
        --in_flight_;
        return 1;
    }
    check_fabric(provider_, "cannot read the completion queue", n);
    std::size_t taken = 0;
    for (ssize_t i = 0; i < n; ++i) {
        const fi_cq_tagged_entry& entry = entries[i];
        Completion& completion = completions[taken];
        completion = Completion{};
        completion.message = static_cast<Message*>(entry.op_context);
        completion.ok = true;
        completion.bytes = entry.len;
        completion.checksum = static_cast<std::uint32_t>(entry.data);
        if (completion.message->bounce) empty_bounce(completion);
        ++taken;
    }
    in_flight_ -= taken;
    return taken;
}

Completion FabricEndpoint::failed_completion() {
    fi_cq_err_entry entry{};
    check_fabric(provider_, "cannot read the completion queue's errors",
                 fi_cq_readerr(objects_.completions.get(), &entry, 0));
    const int code = std::abs(entry.err);  // providers disagree about the sign
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
    completion.message->bounce.reset();
    return completion;
}

void FabricEndpoint::wait(std::span<pollfd> others, std::chrono::microseconds at_most) {
    wait_set_.assign(others.begin(), others.end());
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
    if (uses_rxm_ && in_flight_ > 0)
        objects_.keep_for_ever();  // rxm of libfabric 1.17 can crash when it is closed in the middle of a
                                   // long message
    else
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
    return std::make_unique<FabricEndpoint>(provider, source_address);
}

}  // namespace hocket::transport
