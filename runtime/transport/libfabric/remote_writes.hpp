// Long messages by RMA: the sender writes them straight to where they are received.
//
// The sender offers the message under its tag, with offer_bit set: every receive takes its message or the
// offer of it, so that both match in the same order, whatever the two sides think of sizes. A receive that
// has taken an offer answers with the addresses and keys of its memory, the sender writes, and each write
// tells the receiver with immediate data. Where a write carries none, or it would take the receiver's
// buffers, the sender waits until all writes are delivered, and sends a message. Nobody polls memory. An
// offer begins with the message's checksum, as messages with a header do (message_memory.hpp).
//
// Tags with answer_bit or signal_bit are those of answers and signals: no two that are in flight to one rank
// from another are the same.
#pragma once

#include <rdma/fi_domain.h>
#include <rdma/fi_eq.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/transport/fabric/fabric.hpp"
#include "runtime/transport/libfabric/endpoint_objects.hpp"
#include "runtime/transport/libfabric/message_memory.hpp"
#include "runtime/transport/libfabric/provider.hpp"

namespace hocket::transport {

class RemoteWrites {
  public:
    static constexpr std::uint64_t offer_bit = std::uint64_t{1} << tag_bits;
    static constexpr std::uint64_t answer_bit = offer_bit << 1, signal_bit = offer_bit << 2;

    RemoteWrites(const fi_info& info, RmaWay way, const EndpointObjects& objects, MessageMemory& memory);
    ~RemoteWrites();

    // Starts a message that MessageMemory::is_written(). Returns false if the provider has no room now.
    // Throws Error(transport), as all functions here.
    bool offer(fi_addr_t to, std::uint64_t tag, std::uint32_t checksum, std::span<const Segment> segments,
               Message& message);

    // Call it for the completion of a receive that has taken an offer. Returns the message's completion if
    // that is the end of it: if it is longer than its segments.
    std::optional<Completion> accept(Message& message, fi_addr_t from, const fi_cq_tagged_entry& entry);

    // Returns true if the completion with this context is one for step_ended().
    bool owns(const void* context) const { return steps_.contains(context); }

    // Both return the completion of the message that ends with this, if one does. error: empty if all is
    // well.
    std::optional<Completion> step_ended(const void* context, const std::string& error);
    std::optional<Completion> written(std::uint64_t immediate_data);

    // Posts what the provider had no room for.
    void retry();

    bool has_refused() const { return !refused_.empty(); }  // retry() must be called before long
    bool has_steps() const { return !steps_.empty(); }      // the provider works for it

  private:
    struct Step;
    struct Transfer;

    Transfer& begin(Message& message, fi_addr_t peer, Registrations::Slot slot);
    void advance(Transfer& transfer);
    bool advance_sent(Transfer& transfer);
    bool advance_received(Transfer& transfer);
    bool write_next(Transfer& transfer);
    bool send(Transfer& transfer, Step& step, std::uint64_t tag, std::uint32_t data,
              std::span<std::byte> bytes);
    bool receive(Transfer& transfer, Step& step, std::uint64_t tag, std::span<std::byte> into);
    bool posted(Transfer& transfer, Step& step, const char* what, ssize_t code);
    std::optional<Completion> settle(Transfer& transfer);
    std::optional<Completion> complete(Transfer& transfer);
    bool has_room_for_arrivals(const Transfer& transfer) const;

    std::string provider_;
    RmaWay way_;
    std::uint64_t flags_of_sends_;
    fid_ep* endpoint_;
    MessageMemory& memory_;
    std::size_t most_arrivals_;  // of immediate data that this rank has let others send
    std::size_t arrivals_ = 0;
    std::uint32_t next_id_ = 0;
    std::unordered_map<std::uint32_t, std::unique_ptr<Transfer>> transfers_;
    std::unordered_map<const void*, Step*> steps_;  // in flight, by context
    std::vector<std::uint32_t> refused_;            // transfers with something to post
};

}  // namespace hocket::transport
