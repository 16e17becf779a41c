#include "runtime/cache/peers/guest.hpp"

#include <fmt/format.h>

#include <utility>

#include "runtime/transport/net/frame.hpp"
#include "runtime/transport/net/texts.hpp"

namespace hocket::cache {
namespace {

std::string mismatch_text(const std::string& here, const std::string& there) {
    if (here == there) return "";
    return fmt::format(
        "it caches another dataset, or has another decoder: {} there, {} here; all processes "
        "must be given the same",
        transport::printable(here), transport::printable(there));
}

}  // namespace

PeerGuest::PeerGuest(transport::SocketLoop& loop, std::shared_ptr<transport::Mailbox> mailbox,
                     SampleAnswerer& answerer, const std::string& identity, transport::Admitted admitted,
                     std::function<void()> left)
    : loop_(loop),
      mailbox_(std::move(mailbox)),
      answerer_(answerer),
      mismatch_(mismatch_text(identity, admitted.hello.identity)),
      left_(std::move(left)),
      stream_(loop, std::move(admitted.socket), *this) {}

void PeerGuest::close() {
    stream_.close();
    give_room_back();
    for (auto& [id, asked] : asked_) {
        if (asked.timer) loop_.cancel(*asked.timer);
        if (asked.is_with_answerer) ++unwanted_;
    }
    asked_.clear();
}

void PeerGuest::broke(const std::string&) {
    close();
    left_();
}

SampleRoom PeerGuest::begins(const PeerHeader& header) {
    if (!has_begun_) {
        if (header.kind == PeerMessage::answer)
            throw transport::ProtocolError("it sent an answer where questions belong");
        if (asked_.size() + unwanted_ >= max_peer_questions) return {nullptr, true};
        const auto [entry, is_new] = asked_.try_emplace(header.id, Asked{header, std::nullopt});
        if (!is_new) throw transport::ProtocolError("it asked twice under one number");
        const auto patience = std::chrono::milliseconds(header.patience_ms);
        entry->second.timer =
            loop_.at(transport::Clock::now() + patience, [this, id = header.id] { expire(id); });
        has_begun_ = true;
    }
    if (header.kind == PeerMessage::question || !mismatch_.empty() || !asked_.contains(header.id)) return {};
    const SampleRoom room = answerer_.room(header.key, header.bytes);
    if (!room.later) {
        offer_ = header;
        room_ = room.data;
    }
    return room;
}

void PeerGuest::ends(const PeerHeader& header, bool is_intact) {
    has_begun_ = false;
    const auto entry = asked_.find(header.id);
    if (entry == asked_.end()) return;
    if (!mismatch_.empty()) return reply(header.id, {Status::mismatch, mismatch_});
    if (header.kind == PeerMessage::offer) return end_offer(header, is_intact);
    entry->second.is_with_answerer = true;
    answerer_.question(header.key, answer_to(header.id));
}

void PeerGuest::end_offer(const PeerHeader& header, bool is_intact) {
    if (room_ == nullptr && header.bytes > 0)
        return reply(header.id,
                     {Status::limit, fmt::format("there is no room for the {} bytes of sample {}: they are "
                                                 "more than the memory of its owner's cache",
                                                 header.bytes, header.key)});
    if (!is_intact) {
        give_room_back();
        return reply(header.id,
                     {Status::io, fmt::format("the {} bytes that came for sample {} are not those of their "
                                              "checksum; offer it again",
                                              header.bytes, header.key)});
    }
    asked_.at(header.id).is_with_answerer = true;
    answerer_.offered(header.key, std::exchange(room_, nullptr), header.bytes, true, answer_to(header.id));
}

void PeerGuest::give_room_back() {
    if (room_ == nullptr) return;
    answerer_.offered(offer_.key, std::exchange(room_, nullptr), offer_.bytes, false,
                      [](const SampleAnswerer::Answer&) {});
}

// The asker's deadline has passed, so the answer is not wanted any more.
void PeerGuest::expire(std::uint64_t id) {
    Asked& asked = asked_.at(id);
    asked.timer.reset();
    if (room_ != nullptr && offer_.id == id) {
        stream_.drop();
        give_room_back();
    }
    if (asked.is_with_answerer) ++unwanted_;
    asked_.erase(id);
    stream_.take_back(id);
}

std::function<void(SampleAnswerer::Answer)> PeerGuest::answer_to(std::uint64_t id) {
    return [mailbox = mailbox_, guest = weak_from_this(), id](SampleAnswerer::Answer given) {
        const auto answer = std::make_shared<SampleAnswerer::Answer>(std::move(given));
        const auto deliver = [guest, id, answer] {
            if (const auto still_there = guest.lock())
                still_there->answered(id, std::move(*answer));
            else if (answer->done)
                answer->done();
        };
        if (!mailbox->post(deliver) && answer->done) answer->done();
    };
}

void PeerGuest::answered(std::uint64_t id, SampleAnswerer::Answer answer) {
    const auto entry = asked_.find(id);
    if (entry == asked_.end()) {
        --unwanted_;
        if (answer.done) answer.done();
        return;
    }
    entry->second.is_with_answerer = false;
    reply(id, std::move(answer));
}

void PeerGuest::reply(std::uint64_t id, SampleAnswerer::Answer answer) {
    PeerHeader header = asked_.at(id).header;
    const bool is_offer = header.kind == PeerMessage::offer;
    header.kind = PeerMessage::answer;
    header.patience_ms = 0;
    header.status = answer.status;
    const std::byte* payload = answer.bytes.data();
    header.bytes = answer.bytes.size();
    std::shared_ptr<const std::string> text;
    if (answer.status != Status::success) {
        text = std::make_shared<const std::string>(answer.text.substr(0, max_peer_text));
        payload = reinterpret_cast<const std::byte*>(text->data());
        header.bytes = text->size();
    } else if (is_offer) {
        header.bytes = 0;
    }
    stream_.send(header, payload, [this, id, text, done = std::move(answer.done)] {
        forget(id);
        if (done) done();
    });
}

void PeerGuest::forget(std::uint64_t id) {
    const auto entry = asked_.find(id);
    if (entry == asked_.end()) return;
    if (entry->second.timer) loop_.cancel(*entry->second.timer);
    asked_.erase(entry);
}

}  // namespace hocket::cache
