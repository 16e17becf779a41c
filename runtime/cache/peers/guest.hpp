// The questions and offers that one other process sends over a connection that it has made.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "runtime/cache/peers/questions.hpp"
#include "runtime/cache/peers/stream.hpp"
#include "runtime/transport/net/admission.hpp"
#include "runtime/transport/net/mailbox.hpp"

namespace hocket::cache {

// Of the loop's thread. Answers may come on any thread, and also after the guest is gone.
class PeerGuest final : public std::enable_shared_from_this<PeerGuest>, private PeerStream::Owner {
  public:
    // identity: of this process. left: is called when the connection has ended; it must not destroy the
    // guest.
    PeerGuest(transport::SocketLoop& loop, std::shared_ptr<transport::Mailbox> mailbox,
              SampleAnswerer& answerer, std::string identity, transport::Admitted admitted,
              std::function<void()> left);

    // Lets go of all answers, and of an offer that has arrived in part. Does not call left.
    void close();

  private:
    struct Asked {
        PeerHeader header;
        std::optional<transport::SocketLoop::Timer> timer;
        bool is_with_answerer = false;
    };

    SampleRoom begins(const PeerHeader& header) override;
    void ends(const PeerHeader& header, bool is_intact) override;
    void broke(const std::string& why) override;

    void expire(std::uint64_t id);
    void end_offer(const PeerHeader& header, bool is_intact);
    void give_room_back();
    std::function<void(SampleAnswerer::Answer)> answer_to(std::uint64_t id);
    void answered(std::uint64_t id, SampleAnswerer::Answer answer);
    void reply(std::uint64_t id, SampleAnswerer::Answer answer);
    void forget(std::uint64_t id);

    transport::SocketLoop& loop_;
    const std::shared_ptr<transport::Mailbox> mailbox_;
    SampleAnswerer& answerer_;
    const std::string mismatch_;  // why no question is answered; "": all are
    const std::function<void()> left_;
    PeerStream stream_;

    std::unordered_map<std::uint64_t, Asked> asked_;  // by id: until the answer is sent, or nobody wants it
    std::size_t unwanted_ = 0;                        // the answerer has them, but nobody wants the answer
    bool has_begun_ = false;                          // the message that is arriving is, or was, in asked_
    PeerHeader offer_;                                // the one that is arriving in room_
    std::byte* room_ = nullptr;
};

}  // namespace hocket::cache
