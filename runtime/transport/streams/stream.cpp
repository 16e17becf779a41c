#include "runtime/transport/streams/stream.hpp"

#include <fmt/format.h>
#include <limits.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <iterator>
#include <new>

#include "runtime/transport/net/transfer.hpp"

namespace hocket::transport {
namespace {

static_assert(std::endian::native == std::endian::little, "headers travel as they lie in memory");

// Room for a message of 16 KiB with its header, and for the headers of some more.
constexpr std::size_t stage_size = 20 * 1024;
// Sizes at which a start allocates nothing if there was a similar one before.
constexpr std::size_t usual_messages = 256, spare_blocks = 4, most_spare_blocks = 32, block_size = 16 * 1024;
// Bytes that move in one direction before the other one has its turn.
constexpr std::size_t bytes_a_turn = 1 << 20;
// Segments that one system call moves.
constexpr std::size_t segments_a_call = 256;
static_assert(segments_a_call <= IOV_MAX);

// Between two processes of one host, the bytes under way should fit into the caches: with the megabytes that
// the kernel chooses, messages take up to twice the time. Over a link the kernel's choice stands, because the
// kernel knows the link's delay.
constexpr int send_buffer_on_one_host = 256 * 1024;

// The kernel begins with a window of 64 KiB: a message of 64 KiB and its header would wait for an
// acknowledgement. It enlarges the buffer in steps while messages wait.
constexpr int receive_room_on_one_host = 2 * 1024 * 1024;

// Enlarges the buffer to receive this many bytes in, as far as the kernel's limit for its own choice allows
// (tcp_rmem). SO_RCVBUF has another limit (rmem_max), which is mostly smaller, and keeps the kernel from
// enlarging the buffer further. The mark itself is of no use here: a reader wants the first byte.
void make_room_to_receive(int fd, int bytes) {
    for (const int mark : {bytes, 1}) setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &mark, sizeof mark);
}

std::size_t room_in(std::span<const iovec> parts) {
    std::size_t bytes = 0;
    for (const iovec& part : parts) bytes += part.iov_len;
    return bytes;
}

Completion completion_of(Message* message, std::size_t bytes, std::uint32_t checksum) {
    Completion completion;
    completion.message = message;
    completion.ok = true;
    completion.bytes = bytes;
    completion.checksum = checksum;
    return completion;
}

Completion received(Message* message, std::size_t bytes, std::uint32_t checksum, std::size_t room) {
    Completion completion = completion_of(message, bytes, checksum);
    if (bytes > room) {
        completion.ok = false;
        completion.truncated = true;
        completion.error = "the message is longer than its buffer";
    }
    return completion;
}

}  // namespace

Stream::Stream(Socket socket, RailNotes* notes)
    : socket_(std::move(socket)), notes_(notes), stage_(new std::byte[stage_size]) {
    keep_alive(socket_);
    if (is_on_this_host(socket_)) {
        setsockopt(socket_.fd(), SOL_SOCKET, SO_SNDBUF, &send_buffer_on_one_host,
                   sizeof send_buffer_on_one_host);
        make_room_to_receive(socket_.fd(), receive_room_on_one_host);
    }
    outgoing_.reserve(usual_messages);
    wanted_.reserve(usual_messages);
    unasked_.reserve(usual_messages);
    at_once_.reserve(usual_messages);
    blocks_.reserve(most_spare_blocks);
    while (blocks_.size() < spare_blocks) blocks_.emplace_back(new std::byte[block_size]);
}

Answers Stream::answers() const {
    Answers answers = answers_of(socket_);
    answers.are_missing |= answers.is_probing;
    return answers;
}

void Stream::send(std::uint64_t tag, std::uint32_t checksum, std::span<const Segment> segments,
                  Message& message, std::vector<Completion>& done, Part part) {
    outgoing_.push_back(
        {{tag, bytes_in(segments), checksum, part.stripes, part.lane}, SegmentCursor(segments), &message});
    if (outgoing_.size() == first_ + 1) flush(done);
}

void Stream::say(const RailReport& report, std::vector<Completion>& done) {
    owed_ = report;
    flush(done);
}

void Stream::receive(std::uint64_t tag, std::span<const Segment> segments, Message& message,
                     std::uint16_t lane) {
    const Wanted wanted{tag, segments, bytes_in(segments), &message, lane};
    const auto is_it = [&](const Header& header) { return header.tag == tag && header.lane == lane; };
    const auto early = std::find_if(unasked_.begin(), unasked_.end(), [&](const Unasked& entry) {
        return is_it(entry.header) && entry.wanted.message == nullptr;
    });
    if (early != unasked_.end()) {
        early->wanted = wanted;
        note_stripes(early->header, wanted);
        if (!early->is_whole) return;
        const Header& header = early->header;
        SegmentCursor(segments).write(early->data.get(), std::min<std::size_t>(wanted.room, header.bytes));
        at_once_.push_back(received(&message, header.bytes, header.checksum, wanted.room));
        forget(static_cast<std::size_t>(early - unasked_.begin()));
    } else if (arriving_ == Arriving::nothing_asked_for && is_it(header_)) {
        arrives_for(wanted);
    } else {
        wanted_.push_back(wanted);
    }
}

bool Stream::move(std::vector<Completion>& done) {
    bool moved = !at_once_.empty();
    done.insert(done.end(), at_once_.begin(), at_once_.end());
    at_once_.clear();
    if (has_to_send()) moved |= flush(done);
    const bool is_awaited = is_read();
    const std::uint64_t come = bytes_come_;
    if (is_awaited) moved |= take(done);
    if (is_awaited && was_awaited_) piles_.add(static_cast<double>(bytes_come_ - come));
    was_awaited_ = is_awaited;
    if (!broken_.empty() && !notes_) moved |= break_off(broken_, done);
    return moved;
}

// Returns true once the other end has all of the report. Begins only between messages: also encrypted ones.
bool Stream::flush_report() {
    if (unsaid_ == 0) {
        saying_ = {{owed_->lost, sizeof owed_->taken, 0, 0, 0}, owed_->taken};
        owed_.reset();
        unsaid_ = sizeof saying_;
    }
    iovec rest{reinterpret_cast<char*>(&saying_) + sizeof saying_ - unsaid_, unsaid_};
    const Transfer sent = send_some(socket_, {&rest, 1});
    if (sent.has_ended) broken_ = sent.why();
    unsaid_ -= sent.bytes;
    return unsaid_ == 0;
}

bool Stream::flush(std::vector<Completion>& done) {
    bool moved = false;
    for (std::size_t budget = bytes_a_turn; budget > 0 && broken_.empty();) {
        if (unsaid_ > 0 || (owed_ && sent_ == 0 && socket_.bytes_begun() == 0)) {
            if (!flush_report()) break;
            moved = true;
            continue;
        }
        if (first_ == outgoing_.size()) break;
        Outgoing& next = outgoing_[first_];
        std::array<iovec, segments_a_call> parts;
        const std::size_t of_header = sizeof(Header) - std::min(sizeof(Header), sent_);
        std::size_t count = 0;
        if (of_header > 0) parts[count++] = {reinterpret_cast<char*>(&next.header) + sent_, of_header};
        const std::size_t left = sizeof(Header) + next.header.bytes - sent_ - of_header;
        count += next.left.describe(std::span(parts).subspan(count), std::min(budget, left));
        const Transfer sent = send_some(socket_, std::span(parts).first(count));
        if (sent.has_ended) broken_ = sent.why();
        if (sent.bytes == 0) break;
        moved = true;
        budget -= std::min(budget, sent.bytes);
        sent_ += sent.bytes;
        next.left.advance(sent.bytes - std::min(sent.bytes, of_header));
        if (sent_ < sizeof(Header) + next.header.bytes) continue;
        if (notes_)
            ++notes_->sent[next.header.lane];
        else
            done.push_back(completion_of(next.message, 0, 0));
        sent_ = 0;
        ++first_;
    }
    // Completed messages are removed once they are most of the queue, because the queue may never be empty.
    if (first_ == outgoing_.size() || (first_ >= usual_messages && first_ >= outgoing_.size() / 2)) {
        outgoing_.erase(outgoing_.begin(), outgoing_.begin() + static_cast<std::ptrdiff_t>(first_));
        first_ = 0;
    }
    return moved;
}

bool Stream::take(std::vector<Completion>& done) {
    bool moved = false;
    is_drained_ = false;
    for (std::size_t turn = 0; turn < bytes_a_turn && broken_.empty();) {
        if (notes_ && notes_->is_behind()) break;
        if (arriving_ == Arriving::header) {
            if (!open_next() && (is_drained_ || !refill())) break;
            moved = true;
            continue;
        }
        if (arriving_ == Arriving::nothing_asked_for) break;
        const std::size_t before = left_;
        if (left_ > 0 && !read_some()) break;
        moved = true;
        turn += before - left_;
        if (left_ == 0) finish_message(done);
    }
    return moved;
}

// A read that leaves room has emptied the socket: to read the next header would be a system call for nothing.
// Of a sealed socket it says only that no record is whole.
std::size_t Stream::read(std::span<iovec> into) {
    const Transfer received = receive_some(socket_, into);
    if (received.has_ended) broken_ = received.why();
    is_drained_ = received.bytes < room_in(into) && !socket_.sealed();
    bytes_come_ += received.bytes;
    return received.bytes;
}

bool Stream::refill() {
    std::memmove(stage_.get(), stage_.get() + stage_begin_, staged());
    stage_end_ -= stage_begin_;
    stage_begin_ = 0;
    iovec room{stage_.get() + stage_end_, stage_size - stage_end_};
    const std::size_t n = read({&room, 1});
    stage_end_ += n;
    return n > 0;
}

// Reads part of the message that is arriving. Bytes beyond its buffer are dropped.
bool Stream::read_some() {
    if (staged() == 0 && room_left_ >= stage_size) {
        std::array<iovec, segments_a_call> parts;
        const std::size_t count = target_.describe(parts, std::min({left_, room_left_, bytes_a_turn}));
        const std::size_t n = read(std::span(parts).first(count));
        target_.advance(n);
        room_left_ -= n;
        left_ -= n;
        return n > 0;
    }
    if (staged() == 0 && !refill()) return false;
    const std::size_t n = std::min(staged(), left_);
    const std::size_t kept = std::min(n, room_left_);
    target_.write(stage_.get() + stage_begin_, kept);
    room_left_ -= kept;
    stage_begin_ += n;
    left_ -= n;
    return true;
}

// Returns false if more bytes are needed for that.
bool Stream::open_next() {
    if (staged() < sizeof header_) return false;
    std::memcpy(&header_, stage_.get() + stage_begin_, sizeof header_);
    if (header_.stripes == 0) return hear();
    stage_begin_ += sizeof header_;
    if (header_.lane >= (notes_ ? notes_->lanes : 1) || (header_.lane > 0 && header_.stripes > 1))
        broken_ = fmt::format("the peer sent a message in {} stripes on lane {}, which cannot be",
                              header_.stripes, header_.lane);
    else
        open_message();
    return true;
}

// Takes the report that is next, once it has come whole.
bool Stream::hear() {
    RailReport report;
    if (!notes_ || header_.bytes != sizeof report.taken || header_.tag >> notes_->lanes != 0) {
        broken_ = "the peer sent a report that does not belong here";
        return true;
    }
    if (staged() < sizeof(WireReport)) return false;
    report.lost = header_.tag;
    std::memcpy(report.taken.data(), stage_.get() + stage_begin_ + sizeof header_, sizeof report.taken);
    stage_begin_ += sizeof(WireReport);
    notes_->heard.merge(report);
    return true;
}

void Stream::open_message() {
    left_ = header_.bytes;
    const auto asked = std::find_if(wanted_.begin(), wanted_.end(), [&](const Wanted& wanted) {
        return wanted.tag == header_.tag && wanted.lane == header_.lane;
    });
    if (asked == wanted_.end()) {
        arriving_ = Arriving::nothing_asked_for;
        return;
    }
    const Wanted wanted = *asked;
    wanted_.erase(asked);
    arrives_for(wanted);
}

void Stream::note_stripes(const Header& header, const Wanted& wanted) {
    if (header.stripes > 1 && !wanted.has_been_met)
        striped_.push_back({wanted.message, wanted.tag, wanted.segments, header.bytes, header.stripes});
}

void Stream::arrives_for(const Wanted& wanted) {
    note_stripes(header_, wanted);
    arriving_ = Arriving::wanted;
    current_ = wanted;
    target_ = SegmentCursor(wanted.segments);
    room_left_ = std::min(wanted.room, left_);
}

bool Stream::make_way(bool in_any_case) {
    if (!is_obstructed() && !(in_any_case && is_standing())) return false;
    std::unique_ptr<std::byte[]> data;
    if (header_.bytes <= block_size && !blocks_.empty()) {
        data = std::move(blocks_.back());
        blocks_.pop_back();
    } else {
        data.reset(new (std::nothrow) std::byte[std::max<std::size_t>(header_.bytes, block_size)]);
    }
    if (!data) {
        broken_ =
            fmt::format("no memory for a message of {} bytes that came before its receive", header_.bytes);
        return true;  // move() then ends the connection
    }
    const Segment block{data.get(), header_.bytes};
    target_ = SegmentCursor({&block, 1});
    unasked_.push_back({header_, std::move(data), false, {}});
    arriving_ = Arriving::unasked;
    room_left_ = left_;
    return true;
}

void Stream::forget(std::size_t unasked) {
    const auto entry = unasked_.begin() + static_cast<std::ptrdiff_t>(unasked);
    if (entry->header.bytes <= block_size && blocks_.size() < most_spare_blocks)
        blocks_.push_back(std::move(entry->data));
    unasked_.erase(entry);
}

void Stream::finish_message(std::vector<Completion>& done) {
    if (arriving_ == Arriving::wanted) {
        done.push_back(received(current_.message, header_.bytes, header_.checksum, current_.room));
    } else {
        Unasked& last = unasked_.back();
        last.is_whole = true;
        if (const Wanted& wanted = last.wanted; wanted.message) {
            const std::size_t kept = std::min<std::size_t>(wanted.room, header_.bytes);
            SegmentCursor(wanted.segments).write(last.data.get(), kept);
            done.push_back(received(wanted.message, header_.bytes, header_.checksum, wanted.room));
            forget(unasked_.size() - 1);
        }
    }
    arriving_ = Arriving::header;
    if (!notes_) return;
    ++notes_->own.taken[header_.lane];
    notes_->is_own_news = true;
}

bool Stream::break_off(const std::string& why, std::vector<Completion>& done) {
    const std::size_t before = done.size();
    const auto fail = [&](Message* message) {
        Completion completion;
        completion.message = message;
        completion.error = why;
        done.push_back(completion);
    };
    for (; first_ < outgoing_.size() && !notes_; ++first_) fail(outgoing_[first_].message);
    if (arriving_ == Arriving::wanted) fail(current_.message);
    for (const Unasked& entry : unasked_)
        if (entry.wanted.message) fail(entry.wanted.message);
    for (const Wanted& wanted : wanted_) fail(wanted.message);
    outgoing_.clear();
    first_ = 0;
    unasked_.clear();
    wanted_.clear();
    arriving_ = Arriving::nothing_asked_for;
    header_ = {};
    left_ = 0;
    return done.size() > before;
}

void Stream::take_rest(std::vector<Completion>& done) {
    const std::string why = std::exchange(broken_, "");
    while (take(done)) {
    }
    broken_ = why;
}

void Stream::retire(Stream& heir, std::vector<Completion>& done) {
    done.insert(done.end(), at_once_.begin(), at_once_.end());
    at_once_.clear();
    if (arriving_ == Arriving::unasked) {
        current_ = unasked_.back().wanted;
        unasked_.pop_back();
    }
    if (is_arriving() && current_.message) {
        current_.has_been_met = true;
        heir.wanted_.push_back(current_);
    }
    const auto move_all = [](auto& from, auto& to, auto before) {
        to.insert(before, std::move_iterator(from.begin()), std::move_iterator(from.end()));
        from.clear();
    };
    move_all(wanted_, heir.wanted_, heir.wanted_.end());
    move_all(unasked_, heir.unasked_, heir.unasked_.begin());  // the last one may be arriving
    move_all(striped_, heir.striped_, heir.striped_.end());
    arriving_ = Arriving::header;
    outgoing_.clear();
    first_ = 0;
    owed_.reset();
    unsaid_ = 0;
    give_up("the connection was given up");
    socket_.close();
}

pollfd Stream::interest() const {
    pollfd entry{socket_.fd(), 0, 0};
    if (!broken_.empty()) return {-1, 0, 0};
    if (has_to_send()) entry.events |= POLLOUT;
    if (!is_standing() && is_read()) entry.events |= POLLIN;
    if (entry.events == 0) entry.fd = -1;  // otherwise poll(2) would report a peer that has hung up
    return entry;
}

}  // namespace hocket::transport
