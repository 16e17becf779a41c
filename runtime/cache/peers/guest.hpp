// The questions and offers of one other process, over a connection that it has made.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "runtime/cache/peers/mailbox.hpp"
#include "runtime/cache/peers/questions.hpp"
#include "runtime/cache/peers/stream.hpp"
#include "runtime/net/admission.hpp"

namespace hocket::cache {

// Of the loop's thread. Answers may come on any thread, and when the guest is gone.
class PeerGuest final : public std::enable_shared_from_this<PeerGuest>, private PeerStream::Owner {
  public:
    // identity: of this process. left: its connection has ended; the guest must not be destroyed in
    // that call.
    PeerGuest(transport::SocketLoop& loop, std::shared_ptr<PeerMailbox> mailbox, SampleAnswerer& answerer,
              std::string identity, transport::Admitted admitted, std::function<void()> left);

    // Lets go of all answers, and of an offer that has come in part. left is not called.
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
    const std::shared_ptr<PeerMailbox> mailbox_;
    SampleAnswerer& answerer_;
    const std::string mismatch_;  // why nothing is answered; "": all is well
    const std::function<void()> left_;
    PeerStream stream_;

    std::unordered_map<std::uint64_t, Asked> asked_;  // by id: until the answer is sent, or nobody wants it
    std::size_t unwanted_ = 0;                        // with the answerer, though nobody wants the answer
    bool has_begun_ = false;                          // the message that arrives is in asked_, or was
    PeerHeader offer_;                                // that arrives in room_
    std::byte* room_ = nullptr;
};

}  // namespace hocket::cache
