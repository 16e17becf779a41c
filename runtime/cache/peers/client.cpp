#include "runtime/cache/peers/client.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/base/thread.hpp"
#include "runtime/transport/net/texts.hpp"

namespace hocket::cache {
namespace {

using namespace std::chrono_literals;

constexpr auto dial_time = 5s;
constexpr std::chrono::milliseconds first_pause = 100ms, longest_pause = 5s;

const char* text_of(transport::DialError::Kind kind) {
    switch (kind) {
        case transport::DialError::Kind::unreachable:
            return "{}; is its process running, and is there a way to it (a firewall, another network)?";
        case transport::DialError::Kind::silent:
            return "{}; does it hang?";
        case transport::DialError::Kind::refused:
            return "it refused the connection: {}";
        default:
            return "the process that answers there is no peer of this job: {}; is it the port of another job "
                   "or program, or does HOCKET_SECRET differ?";
    }
}

}  // namespace

PeerClient::PeerClient(transport::SocketLoop& loop, transport::Mailbox& mailbox, transport::Dial dial,
                       std::string name)
    : loop_(loop), mailbox_(mailbox), dial_(std::move(dial)), name_(std::move(name)), pause_(first_pause) {}

bool PeerClient::is_down() const {
    return is_closed_ || transport::Clock::now() < down_until_.load();
}

void PeerClient::ask(const Question& question) {
    const std::uint64_t id = next_id_++;
    const auto entry = open_.emplace(id, Open{question, std::nullopt}).first;
    if (is_down()) return finish(entry, Status::peer_lost, lost_);
    entry->second.timer = loop_.at(question.deadline, [this, id] { expire(id); });
    if (stream_ && stream_->is_open()) return send(id, question);
    unsent_.push_back(id);
    if (!dialler_.joinable()) start_to_dial();
}

void PeerClient::close(const std::string& why) {
    stop_dialling();
    if (dialler_.joinable()) dialler_.join();
    if (stream_) stream_->close();
    lose(why);
}

void PeerClient::send(std::uint64_t id, const Question& question) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(question.deadline - transport::Clock::now()).count();
    PeerHeader header;
    header.kind = question.offered ? PeerMessage::offer : PeerMessage::question;
    header.id = id;
    header.key = question.key;
    header.bytes = question.offered ? question.offered->size() : 0;
    header.patience_ms = static_cast<std::uint32_t>(std::clamp<long>(left, 0, UINT32_MAX));
    stream_->send(header, question.offered ? question.offered->data() : nullptr, nullptr);
}

// Ends the question; from now on nothing may touch the asker's memory.
void PeerClient::expire(std::uint64_t id) {
    const auto entry = open_.find(id);
    entry->second.timer.reset();
    if (stream_) stream_->take_back(id);
    if (arriving_ == id) stream_->drop();
    finish(entry, Status::timeout,
           fmt::format("{} has not answered for sample {} within {} ms; is it overloaded, or stopped? "
                       "HOCKET_TIMEOUT_MS sets how long is waited",
                       name_, entry->second.question.key, entry->second.question.patience.count()));
}

void PeerClient::finish(Entry entry, Status status, const std::string& text) {
    const auto [id, ended] = *entry;
    open_.erase(entry);
    if (ended.timer) loop_.cancel(*ended.timer);
    // An answer may arrive before the offer is sent completely.
    if (ended.question.offered && stream_) stream_->take_back(id);
    ended.question.asker->answered(status, text);
}

SampleRoom PeerClient::begins(const PeerHeader& header) {
    if (header.kind != PeerMessage::answer)
        throw transport::ProtocolError("it sent a question where answers belong");
    if (header.id == 0 || header.id >= next_id_)
        throw transport::ProtocolError("it answered a question that was not asked");
    const auto entry = open_.find(header.id);
    if (entry == open_.end()) return {};  // the answer is too late
    const Question& question = entry->second.question;
    if (question.key != header.key) throw transport::ProtocolError("it answered for another sample");
    if (header.status != Status::success) {
        text_.resize(header.bytes);
        return {reinterpret_cast<std::byte*>(text_.data()), false};
    }
    if (question.offered) {
        if (header.bytes > 0) throw transport::ProtocolError("it sent data in answer to an offer");
        return {};
    }
    const SampleRoom room = question.asker->room(header.bytes);
    if (room.later) return room;
    if (room.data == nullptr && header.bytes > 0) {
        finish(entry, Status::limit,
               fmt::format("there is no room for the {} bytes of sample {} from {}", header.bytes, header.key,
                           name_));
        return {};
    }
    arriving_ = header.id;
    return room;
}

void PeerClient::ends(const PeerHeader& header, bool is_intact) {
    arriving_ = 0;
    pause_ = first_pause;
    const auto entry = open_.find(header.id);
    if (entry == open_.end()) return;
    if (!is_intact)
        finish(entry, Status::io,
               fmt::format("the {} bytes that {} sent for sample {} are not those of their checksum; if this "
                           "happens again, test its memory and the network",
                           header.bytes, name_, header.key));
    else if (header.status != Status::success)
        finish(entry, header.status, fmt::format("{}: {}", name_, transport::printable(text_)));
    else
        finish(entry, Status::success, "");
}

void PeerClient::broke(const std::string& why) {
    lose(fmt::format("the connection with {} broke: {}; did its process end?", name_, why));
}

void PeerClient::lose(const std::string& why) {
    lost_ = why;
    down_until_ = transport::Clock::now() + pause_;
    pause_ = std::min(2 * pause_, longest_pause);
    arriving_ = 0;
    unsent_.clear();
    for (auto lost = std::exchange(open_, {}); !lost.empty();) {
        auto& [id, open] = *lost.begin();
        if (open.timer) loop_.cancel(*open.timer);
        SampleAsker* asker = open.question.asker;
        lost.erase(lost.begin());
        asker->answered(Status::peer_lost, why);
    }
}

void PeerClient::start_to_dial() try {
    dialler_ = start_thread("hkt-peer-dial", [this] {
        auto socket = std::make_shared<transport::Socket>();
        std::string error;
        try {
            const auto abandoned = [this] {
                return is_closed_ ? std::optional<std::string>("it is not asked any more") : std::nullopt;
            };
            *socket = transport::dial(dial_, {transport::Clock::now() + dial_time, abandoned});
        } catch (const transport::DialError& failed) {
            error = fmt::format(fmt::runtime(text_of(failed.kind)), failed.what());
        } catch (const std::exception& failed) {
            error = failed.what();
        }
        mailbox_.post([this, socket, error] { dialled(std::move(*socket), error); });
    });
} catch (const Error& error) {
    lose(fmt::format("there is no connection with {}: no thread to make it ({})", name_, error.what()));
}

void PeerClient::dialled(transport::Socket socket, const std::string& error) {
    if (is_closed_) return;
    dialler_.join();
    if (!socket.is_open()) return lose(fmt::format("there is no connection with {}: {}", name_, error));
    PeerStream::Owner& self = *this;
    stream_ = std::make_unique<PeerStream>(loop_, std::move(socket), self);
    for (const std::uint64_t id : std::exchange(unsent_, {}))
        if (const auto entry = open_.find(id); entry != open_.end()) send(id, entry->second.question);
}

}  // namespace hocket::cache
