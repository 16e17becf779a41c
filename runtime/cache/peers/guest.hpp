// Handles the questions and offers that another process sends over a connection that it has made.
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

// Used only on the loop's thread. Answers may arrive on any thread, also after the guest is destroyed.
class PeerGuest final : public std::enable_shared_from_this<PeerGuest>, private PeerStream::Owner {
  public:
    // identity: of this process. left: called when the connection has ended; must not destroy the guest.
    PeerGuest(transport::SocketLoop& loop, std::shared_ptr<transport::Mailbox> mailbox,
              SampleAnswerer& answerer, const std::string& identity, transport::Admitted admitted,
              std::function<void()> left);

    // Releases all answers, and an offer that has arrived in part. Does not call left.
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
    const std::string mismatch_;  // why questions are refused; "": they are answered
    const std::function<void()> left_;
    PeerStream stream_;

    std::unordered_map<std::uint64_t, Asked> asked_;  // by id, until the answer is sent or no longer wanted
    std::size_t unwanted_ = 0;  // questions at the answerer whose answer is no longer wanted
    bool has_begun_ = false;    // the arriving message is, or was, in asked_
    PeerHeader offer_;          // the offer that is arriving in room_
    std::byte* room_ = nullptr;
};

}  // namespace hocket::cache
