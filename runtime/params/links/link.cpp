#include "runtime/params/links/link.hpp"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/transport/net/frame.hpp"
#include "runtime/transport/net/transfer.hpp"

namespace hocket::params {
namespace {

using Json = nlohmann::json;
using transport::ProtocolError;

enum Kind : std::uint8_t { note = 1, message, heartbeat, returned, last_kind = returned };
enum class Elements : std::uint8_t { none, dense, sparse };

constexpr std::uint64_t most_body = 64 << 20;
// Bounds the size of a note: enough for a job of some 100,000 tensors, or for the most members. Parsing a
// note takes a server's time, and memory of many times the note's length.
constexpr std::uint64_t most_note = 16 << 20;
constexpr std::size_t most_values_of_note = 1 << 20;
// Bounds the rate of a guest's notes, each counted as at least least_note bytes. No guest needs to send more.
constexpr double notes_per_second = 1 << 20;
constexpr std::uint64_t least_note = 1024;
constexpr std::chrono::seconds link_farewell_time{2};
constexpr int small_buffer = 128 << 10;
// If two ticks are further apart, this process did not listen in between: it was stopped or busy.
constexpr std::chrono::milliseconds longest_between_ticks{200};
// Bytes in the kernel's send buffer, which later messages cannot overtake.
constexpr int most_unsent = 256 << 10;
constexpr std::uint64_t most_read_at_once = 4 << 20, most_pieces = 64;
constexpr std::uint64_t cost_of_message = 512;  // counted against the read budget, in bytes
constexpr std::size_t most_body_at_once = 64 << 10;
constexpr int deepest_note = 16;
// Bounds the answers queued for a peer that keeps sending requests without reading, and the elements lent to
// it.
constexpr std::size_t most_answers = 16384, most_lent = 16384;

Value* value_in(Message& message) {
    if (auto* const sum = std::get_if<Sum>(&message)) return &sum->value;
    if (auto* const weights = std::get_if<Weights>(&message)) return &weights->value;
    return nullptr;
}

Chunk chunk_in(const Message& message) {
    if (const auto* const sum = std::get_if<Sum>(&message)) return sum->chunk;
    return std::get<Weights>(message).chunk;
}

void require_indices(const Content& content, const ChunkShape& shape) {
    const std::uint32_t* const indices = sparse_indices(content, shape.element_bytes);
    const std::uint64_t entries = sparse_entries(content.bytes, shape.element_bytes);
    const bool ascend =
        std::adjacent_find(indices, indices + entries, std::greater_equal<>()) == indices + entries;
    if (!ascend || indices[entries - 1] >= shape.count)
        throw ProtocolError("it sent indices that are not ascending, or not of the chunk");
}

}  // namespace

// The header as it is on the wire. Processes of one job have the same byte order, which their elements need
// as well.
struct Link::Header {
    std::uint8_t kind;
    Elements elements;
    std::uint8_t is_lent;
    std::uint8_t zero = 0;
    std::uint32_t body_bytes;
    std::uint64_t value_bytes;
    std::uint64_t place;   // of lent elements, in the sender's memory
    std::uint64_t number;  // of the elements that are lent or returned
};

Link::Link(transport::SocketLoop& loop, transport::Socket socket, std::shared_ptr<Memory> memory,
           Owner& owner, Side side)
    : is_host_(side == Side::host),
      loop_(loop),
      socket_(std::move(socket)),
      memory_(std::move(memory)),
      owner_(&owner),
      heard_(transport::Clock::now()),
      spoke_(heard_),
      ticked_(heard_) {
    transport::keep_alive(socket_);
    setsockopt(socket_.fd(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &most_unsent, sizeof most_unsent);
    if (transport::is_on_this_host(socket_)) offer_memory();
    show_interest();
}

// ---- Out -------------------------------------------------------------------------------------------------

void Link::send(const Json& text) {
    put(Kind::note, text.dump(-1, ' ', false, Json::error_handler_t::replace), nullptr, false);
}

void Link::send(const Message& message) {
    Message copy = message;
    Value* const value = value_in(copy);
    put(Kind::message, encode(message), value ? *value : nullptr, true);
}

void Link::send_heartbeat() {
    put(Kind::heartbeat, "", nullptr, false);
}

void Link::offer_memory() {
    lease_.emplace(*memory_);
    const MemoryName& name = memory_->name();
    send(Json{{"memory", "offered"},
              {"process", name.process},
              {"descriptor", name.descriptor},
              {"bytes", name.bytes},
              {"token", name.token},
              {"lease_place", lease_->place()},
              {"lease", lease_->number()}});
}

void Link::put(std::uint8_t kind, std::string_view body, Value value, bool may_lend) {
    if (!is_open() || is_closing_) return;
    Header header{};
    header.kind = kind;
    header.body_bytes = static_cast<std::uint32_t>(body.size());
    const Content* const content = content_of(value);
    Outgoing out;
    if (content) {
        header.elements = content->is_sparse ? Elements::sparse : Elements::dense;
        header.value_bytes = content->bytes;
        bytes_sent_ += content->bytes;
        if (may_lend && lends_ && lent_.size() < most_lent) {
            header.is_lent = 1;
            header.place = memory_->offset_of(content->block.get());
            header.number = next_lent_++;
            lent_.emplace(header.number, std::move(value));
        } else {
            out.value_bytes = content->bytes;
            out.value = std::move(value);
        }
    }
    out.text.assign(reinterpret_cast<const char*>(&header), sizeof header);
    out.text += body;
    outgoing_.push_back(std::move(out));
    if (outgoing_.size() == 1) show_interest();
}

std::vector<iovec> Link::next_pieces() const {
    std::vector<iovec> pieces;
    std::uint64_t skipped = sent_of_first_;
    const auto add = [&](const void* data, std::uint64_t bytes) {
        const std::uint64_t skip = std::min(skipped, bytes);
        skipped -= skip;
        if (skip < bytes)
            pieces.push_back({const_cast<char*>(static_cast<const char*>(data)) + skip, bytes - skip});
    };
    for (const Outgoing& out : outgoing_) {
        add(out.text.data(), out.text.size());
        if (out.value) add(content_of(out.value)->block.get(), out.value_bytes);
        if (pieces.size() >= most_pieces) break;
    }
    return pieces;
}

void Link::flush() {
    std::uint64_t budget = most_read_at_once;
    while (!outgoing_.empty()) {
        std::vector<iovec> pieces = next_pieces();
        const transport::Transfer sent = transport::send_some(socket_, pieces);
        if (sent.has_ended) return fail(sent.why());
        if (sent.bytes == 0) break;
        spoke_ = transport::Clock::now();
        drop_sent(sent.bytes);
        budget -= std::min<std::uint64_t>(budget, sent.bytes);
        if (budget == 0) break;
    }
    if (outgoing_.empty()) is_closing_ ? end_sending() : owner_->has_sent(*this);
    show_interest();
}

void Link::drop_sent(std::uint64_t bytes) {
    sent_of_first_ += bytes;
    while (!outgoing_.empty()) {
        const std::uint64_t all = outgoing_.front().text.size() + outgoing_.front().value_bytes;
        if (sent_of_first_ < all) break;
        sent_of_first_ -= all;
        outgoing_.pop_front();
    }
}

// ---- In --------------------------------------------------------------------------------------------------

void Link::ready(std::uint32_t events) {
    if (events & EPOLLOUT) flush();
    if (!is_open()) return;
    const bool has_ended = events & (EPOLLHUP | EPOLLERR);
    if (is_closing_) return discard();
    if (has_ended && (held_ || must_read_first())) return fail(transport::Transfer{}.why());
    if (events & ~std::uint32_t{EPOLLOUT}) receive();
    show_interest();
}

// Reads a limited amount, so that other connections get their turns however much arrives on this one.
void Link::receive() try {
    budget_ = most_read_at_once;
    while (is_open() && !held_ && !is_closing_ && !must_read_first() && budget_ > 0) {
        if (reading_ == Reading::header) {
            incoming_.resize(sizeof(Header));
            if (!read_some(reinterpret_cast<std::byte*>(incoming_.data()), sizeof(Header))) return;
            budget_ -= std::min(budget_, cost_of_message);
            header_is_complete();
        } else if (reading_ == Reading::body) {
            if (!read_body()) return;
            body_is_complete();
            if (incoming_.capacity() > most_body_at_once) std::string().swap(incoming_);
        } else {
            if (!read_some(content_.block.get(), content_.bytes)) return;
            bytes_received_ += content_.bytes;
            value_is_complete();
        }
    }
} catch (const ProtocolError& error) {  // other errors are this process's own and would not end the peer
    fail(error.what());
}

// Grows the buffer with the bytes received, not to the announced length.
bool Link::read_body() {
    Header header;
    std::memcpy(&header, incoming_.data(), sizeof header);
    const std::size_t whole = sizeof header + header.body_bytes;
    for (;;) {
        incoming_.resize(std::min<std::size_t>(whole, std::max(incoming_.size(), have_ + most_body_at_once)));
        if (!read_some(reinterpret_cast<std::byte*>(incoming_.data()), incoming_.size())) return false;
        if (incoming_.size() == whole) return true;
        have_ = incoming_.size();
    }
}

// Reads until `bytes` bytes are there in all, counting those from earlier calls; returns false if more must
// arrive first.
bool Link::read_some(std::byte* to, std::uint64_t bytes) {
    PriorityGate* const gate = owner_->gate();
    while (have_ < bytes) {
        if (budget_ == 0) return false;
        if (gate && !gate->may_receive()) {
            hold(gate->look_again());
            return false;
        }
        const transport::Transfer got =
            transport::receive_some(socket_, std::span(to + have_, bytes - have_));
        if (got.has_ended) fail(got.why());
        if (got.bytes == 0) return false;
        heard_ = transport::Clock::now();
        if (gate) gate->received(got.bytes);
        have_ += got.bytes;
        budget_ -= std::min<std::uint64_t>(budget_, got.bytes);
    }
    have_ = 0;
    return true;
}

void Link::header_is_complete() {
    Header header;
    std::memcpy(&header, incoming_.data(), sizeof header);
    if (header.kind < 1 || header.kind > last_kind || header.elements > Elements::sparse || header.zero != 0)
        throw ProtocolError("it sent a message that is not the parameter service's");
    if (header.body_bytes > (header.kind == Kind::note ? most_note : most_body))
        throw ProtocolError("it sent a message that is too long");
    if (header.kind == Kind::returned) {
        lent_.erase(header.number);
        return;
    }
    if (header.body_bytes == 0) {
        if (header.kind != Kind::heartbeat) throw ProtocolError("it sent an empty message");
        return;
    }
    have_ = sizeof header;
    reading_ = Reading::body;
}

void Link::body_is_complete() {
    Header header;
    std::memcpy(&header, incoming_.data(), sizeof header);
    reading_ = Reading::header;
    if (header.kind == Kind::note) return take_note();
    message_ = decode(std::string_view(incoming_).substr(sizeof header), owner_->bounds(*this));
    if (std::holds_alternative<Weights>(*message_) && header.elements != Elements::dense)
        throw ProtocolError("it sent weights, but not all elements of a chunk");
    if (!value_in(*message_) || header.elements == Elements::none) {
        if (header.elements != Elements::none || header.value_bytes != 0)
            throw ProtocolError("it sent elements with a message that has none");
        return owner_->received(*this, *std::exchange(message_, std::nullopt));
    }
    begin_value(chunk_in(*message_));
}

void Link::begin_value(Chunk chunk) {
    Header header;
    std::memcpy(&header, incoming_.data(), sizeof header);
    const ChunkShape shape = owner_->shape_of(*this, chunk);
    const bool is_sparse = header.elements == Elements::sparse;
    const bool fits = is_sparse ? sparse_entries(header.value_bytes, shape.element_bytes) > 0 &&
                                      header.value_bytes < shape.bytes()
                                : header.value_bytes == shape.bytes();
    if (!fits)
        throw ProtocolError(
            fmt::format("it sent {} bytes of elements for a chunk of {}", header.value_bytes, shape.bytes()));
    content_ = {nullptr, header.value_bytes, is_sparse};
    if (header.is_lent) return take_lent(header.place, header.number);
    content_.block = memory_->allocate(header.value_bytes);
    reading_ = Reading::value;
}

void Link::take_lent(std::uint64_t place, std::uint64_t number) {
    if (!others_) throw ProtocolError("it lent memory that it did not offer");
    const std::shared_ptr<const OthersMemory> lender = others_;
    std::byte* const from = lender->at(place, content_.bytes);
    bytes_received_ += content_.bytes;
    budget_ -= std::min(budget_, content_.bytes);
    if (from && owner_->reads_lent(*this, *message_) && !content_.is_sparse) {
        content_.block = Block(lender, from);
        content_.lender = lender;
        value_is_complete();
    } else {
        content_.block = memory_->allocate(content_.bytes);
        lender->read(content_.block.get(), place, content_.bytes);
        if (lender->is_lent()) value_is_complete();
    }
    if (!is_open()) return;
    if (!lender->is_lent()) return fail("it has given up this connection");
    Header back{};
    back.kind = Kind::returned;
    back.number = number;
    outgoing_.push_back({std::string(reinterpret_cast<const char*>(&back), sizeof back), nullptr, 0});
    show_interest();
}

void Link::value_is_complete() {
    reading_ = Reading::header;
    Message message = *std::exchange(message_, std::nullopt);
    if (content_.is_sparse) require_indices(content_, owner_->shape_of(*this, chunk_in(message)));
    *value_in(message) = value_of(std::exchange(content_, {}));
    owner_->received(*this, std::move(message));
}

// Limits a worker's notes: a server handles all workers on one thread, and no worker may monopolize it.
void Link::charge_note() {
    if (!is_host_) return;
    const auto now = transport::Clock::now();
    const double left = std::chrono::duration<double>(now - std::exchange(charged_, now)).count();
    notes_ = std::max(0.0, notes_ - left * notes_per_second);
    notes_ += static_cast<double>(std::max<std::uint64_t>(incoming_.size(), least_note));
    if (notes_ > static_cast<double>(most_note)) throw ProtocolError("it sent too many notes");
}

void Link::take_note() {
    charge_note();
    Json json;
    try {
        std::size_t values = 0;
        const auto require_flat = [&](int depth, Json::parse_event_t, Json&) {
            if (depth > deepest_note || ++values > most_values_of_note)
                throw ProtocolError("it sent a note that cannot be read");
            return true;
        };
        json = Json::parse(std::string_view(incoming_).substr(sizeof(Header)), require_flat);
        if (json.contains("memory")) return take_memory(json);
    } catch (const Json::exception&) {
        throw ProtocolError("it sent a note that cannot be read");
    }
    owner_->received(*this, json);
}

void Link::take_memory(const Json& json) {
    if (json.at("memory") == "taken") {
        lends_ = lease_.has_value();
        return;
    }
    const MemoryName name{json.at("process").get<std::int64_t>(), json.at("descriptor").get<int>(),
                          json.at("bytes").get<std::uint64_t>(), json.at("token").get<std::uint64_t>()};
    others_ = OthersMemory::open(name, json.at("lease_place").get<std::uint64_t>(),
                                 json.at("lease").get<std::uint64_t>());
    if (others_) send(Json{{"memory", "taken"}});
}

// ---- The end ---------------------------------------------------------------------------------------------

void Link::close() {
    if (!is_open()) return;
    loop_.forget(socket_.fd());
    socket_.close();
    if (held_) loop_.cancel(*held_);
    held_.reset();
    lease_.reset();  // first: afterwards the elements may be written over
    lends_ = false;
    lent_.clear();
    outgoing_.clear();
    content_ = {};
}

void Link::close_when_sent() {
    if (!is_open() || is_closing_) return;
    is_closing_ = true;
    closing_until_ = transport::Clock::now() + link_farewell_time;
    if (outgoing_.empty()) end_sending();
    show_interest();
}

void Link::end_sending() {
    shutdown(socket_.fd(), SHUT_WR);
}

void Link::discard() {
    char scratch[16384];
    for (std::uint64_t read = 0; read < most_read_at_once;) {
        const transport::Transfer got = transport::receive_some(socket_, scratch);
        if (got.has_ended) close();
        if (got.bytes == 0) return;
        read += got.bytes;
    }
}

void Link::tick(transport::Clock::time_point now) {
    const auto away = now - std::exchange(ticked_, now) - longest_between_ticks;
    if (away > away.zero()) heard_ = std::min(now, heard_ + away);
    if (is_closing_ && now > closing_until_) close();
}

void Link::fail(const std::string& why) {
    if (!is_open()) return;
    close();
    if (!is_closing_) owner_->broke(*this, why);
}

// Shrinks the receive buffer: data that the kernel has already accepted still arrives, so from now on it
// should accept little.
void Link::hold(transport::Clock::time_point until) {
    if (!std::exchange(has_small_buffer_, true))
        setsockopt(socket_.fd(), SOL_SOCKET, SO_RCVBUF, &small_buffer, sizeof small_buffer);
    held_ = loop_.at(until, [this] {
        held_.reset();
        heard_ = transport::Clock::now();
        show_interest();
    });
    show_interest();
}

bool Link::must_read_first() const {
    return is_host_ && outgoing_.size() > most_answers;
}

void Link::show_interest() {
    if (!is_open()) return;
    const bool waits = (held_ || must_read_first()) && !is_closing_;
    const std::uint32_t interest =
        (waits ? 0U : std::uint32_t{EPOLLIN}) | (outgoing_.empty() ? 0U : std::uint32_t{EPOLLOUT});
    if (!waits && socket_.has_more()) loop_.again(socket_.fd());
    if (interest == interest_) return;
    loop_.watch(socket_.fd(), interest, *this);
    interest_ = interest;
}

}  // namespace hocket::params
