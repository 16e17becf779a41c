// Sends and receives between two ranks, matched by peer and tag, outside the common order of collectives.
//
// Hocket does the matching itself, independently of the link that carries the packets (packet_link.hpp).
// Messages make progress only in begin() and advance(), which Progress calls.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "runtime/engine/messages/message_request.hpp"
#include "runtime/engine/messages/packet_link.hpp"
#include "runtime/engine/messages/tag_queues.hpp"
#include "runtime/engine/run/local_peers.hpp"
#include "runtime/transport/fabric/fabric.hpp"

namespace hocket::engine {

// The mismatch of a receive and its send, which have different sizes.
struct SizeMismatch {
    const MessageRequest* receive;
    std::uint64_t sent_bytes, sent_element;
};

class PointToPoint : private PacketInbox {
  public:
    PointToPoint(int rank, int ranks, LocalPeers* local_peers, transport::Fabric* fabric);
    ~PointToPoint();

    // Makes a request, lent to the caller until release(). Its memory lives as long as this object, so that
    // the use of a request that is over can be detected.
    MessageRequest& make(const MessageStart& start);
    void release(MessageRequest& request);

    // Returns true if the message may be copied directly between devices. Assumes that both buffers are in
    // device memory.
    bool may_go_direct(const MessageStart& start);

    // This function and the following ones throw what the fabric and devices throw.
    void begin(MessageRequest& request);
    bool advance();  // true if anything moved

    // Completes a packet or message body that was sent or received successfully.
    void completed(const transport::Completion& completion);
    static int peer_of(const transport::Message& message);
    // Returns true if no request waits for the message.
    static bool is_dispensable(const transport::Message& message);

    // Returns the requests that are in progress or have ended since the last retire(), in the order of their
    // starts.
    const std::vector<MessageRequest*>& open() const { return open_; }
    // Returns the tags of messages from a rank, or any_rank, that have arrived and that no receive has taken,
    // ascending.
    std::vector<int> tags_not_received(int rank) const;
    // Calls note() for each request that has ended since the last call. Returns true if there were any.
    template <typename Note>
    bool retire(Note note) {
        if (!any_ended_) return false;
        any_ended_ = false;
        std::erase_if(open_, [&](const MessageRequest* one) {
            const bool has_ended = one->status != Status::in_progress;
            if (has_ended) note(*one);
            return has_ended;
        });
        return true;
    }
    bool is_idle() const { return open_.empty() && unsent_controls_ == 0; }
    // Returns true if it is idle and the fabric uses none of its memory.
    bool is_quiet() const;
    const std::optional<SizeMismatch>& mismatch() const { return mismatch_; }

    // Ends all requests with this status after a failure; nothing makes progress afterwards.
    void end_all(Status status);
    // Call before end_all(): stops copies by this rank's devices, and waits up to a second for each copy that
    // is under way. Returns true if other ranks' devices may copy from this rank's.
    bool let_go();

  private:
    using Work = MessageRequest::Work;
    struct Control {  // a packet that answers or ends an offered message
        PacketHeader header;
        MessageRequest* request;  // ends when the packet is sent; may be null
    };
    struct Unexpected {  // a packet that arrived before its receive was started
        PacketHeader header;
        std::unique_ptr<std::byte[]> payload;
        std::uint64_t order;  // of arrival, among the packets of all peers
    };
    struct Peer {
        int rank = 0;
        std::unique_ptr<PacketLink> link;               // null: this rank itself
        std::deque<Control> controls;                   // not sent yet
        std::deque<MessageRequest*> unannounced_sends;  // the peer has not yet been told of these
        TagQueues<MessageRequest*> receives;            // not matched yet
        TagQueues<Unexpected> unexpected;
        // By sequence: sends that the peer has not accepted or taken, and receives that get their data from
        // the peer's packets.
        std::unordered_map<std::uint64_t, MessageRequest*> offered_sends, arriving_receives;
        std::uint64_t next_sequence = 0;
        int posted_bodies = 0;  // receives that the fabric carries

        // also_any: there are receives from any rank.
        bool awaits_packet(bool also_any) const {
            return also_any || receives.size() + offered_sends.size() + arriving_receives.size() > 0 ||
                   (!unannounced_sends.empty() && link && link->waits_for_credit());
        }
    };

    // Peers and their queues.
    Peer& peer_at(int rank);
    Peer* peer_of_earliest(int tag);
    std::optional<MessageRequest*> pop_receive(Peer& peer, int tag);
    std::unique_ptr<PacketLink> link_to(int rank);
    MessageRequest& find(std::unordered_map<std::uint64_t, MessageRequest*>& among, std::uint64_t sequence);

    // Packets to a peer. Those that return Sent try at once; controls wait in a queue.
    bool send_queued(Peer& peer);
    Sent send_packet(Peer& peer, const PacketHeader& header, const std::byte* payload, std::size_t bytes,
                     MessageRequest* request);
    Sent announce(Peer& peer, MessageRequest& send);
    Sent offer(Peer& peer, MessageRequest& send, PacketHeader header);
    void queue_control(Peer& peer, const PacketHeader& header, MessageRequest* request = nullptr);

    // Packets from a peer.
    void take(int rank, const PacketHeader& header, const std::byte* payload) override;
    void take_packet(Peer& peer, const PacketHeader& header, const std::byte* payload);
    void take_accept(Peer& peer, MessageRequest& send, std::uint64_t place);
    void take_piece(Peer& peer, MessageRequest& receive, const std::byte* payload);
    void match(Peer& peer, MessageRequest& receive, const PacketHeader& header, const std::byte* payload);

    std::byte* address(Peer& peer, std::uint64_t place, std::size_t bytes) const;
    std::uint64_t place_of(Peer& peer, const MessageRequest& request) const;

    void give_work(MessageRequest& request, Work work);
    bool do_work(MessageRequest& request, std::uint64_t& budget);
    // Each does one kind of Work, and returns true if anything moved.
    bool copy_part(Peer& peer, MessageRequest& request, std::uint64_t& budget);
    bool send_body(Peer& peer, MessageRequest& send, std::uint64_t& budget);
    bool accept(Peer& peer, MessageRequest& receive);
    bool pull(Peer& peer, MessageRequest& receive);
    static bool await_staging(MessageRequest& send);

    void end_pull(MessageRequest& receive);
    void finish(MessageRequest& request);

    std::vector<MessageRequest*> open_;
    std::size_t unsent_controls_ = 0;  // of all peers
    const int rank_;
    LocalPeers* const local_peers_;
    transport::Fabric* const fabric_;
    std::vector<std::unique_ptr<Peer>> peers_;               // by rank; null: no message yet
    std::vector<Peer*> known_peers_;                         // those of peers_ that are not null
    TagQueues<MessageRequest*> receives_from_any_;           // not matched yet
    std::uint64_t started_ = 0, came_unexpected_ = 0;        // so far
    std::vector<std::unique_ptr<MessageRequest>> requests_;  // all that were ever made
    std::vector<MessageRequest*> released_, with_work_;      // some of requests_
    bool any_ended_ = false;
    std::optional<SizeMismatch> mismatch_;
};

}  // namespace hocket::engine
