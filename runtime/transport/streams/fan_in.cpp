#include "runtime/transport/streams/fan_in.hpp"

#include <algorithm>

#include "runtime/transport/net/arrivals.hpp"

namespace hocket::transport {
namespace {

// Packets that each sender may have in flight at least. Senders' kernels make bursts of about as many; with
// fewer, one burst fills the window, and the link is idle until it is acknowledged.
constexpr std::size_t least_packets = 24;
// How many times the bytes that the link holds without a queue: acknowledgements, too, are under way, and
// rates are measured too low where senders pause.
constexpr double room_on_the_link = 2;
constexpr double weight_of_new = 0.25;  // in what is measured from look to look
// Bytes from look to look, for each sender: at least a window as connections have it at first, so that none
// of those that send is missed; and several of those that they have.
constexpr std::size_t least_between_looks = 64 << 10, windows_between_looks = 4;
// After so many looks in a row that found at most one sender, senders are no longer held to a share. What is
// granted can only be taken back slowly, so the end of a phase, where one sender is last, changes nothing.
constexpr int looks_until_free = 64;

}  // namespace

void FanInShare::add(const Look& look) {
    const double weight = segment_ == 0 ? 1 : weight_of_new;
    segment_ = look.segment;
    round_trip_ = round_trip_ == 0 ? look.round_trip.count() : std::min(round_trip_, look.round_trip.count());
    const double time = std::max({look.time.count(), look.round_trip.count(), 1e-9});
    rate_ += weight * (double(look.bytes) / time - rate_);
    piled_up_ += weight * (look.piled_up - piled_up_);
}

std::size_t FanInShare::bytes_for(std::size_t senders) const {
    if (segment_ == 0) return unlimited;
    const double on_the_link = room_on_the_link * rate_ * round_trip_ / double(senders);
    return static_cast<std::size_t>(std::max(double(least_packets * segment_), on_the_link) + piled_up_);
}

void FanIn::add(Stream& stream) {
    if (is_on_this_host(stream.socket())) return;
    const std::string address = bound_to(stream.socket()).value_or(Endpoint{"", 0}).host;
    auto port = std::find_if(ports_.begin(), ports_.end(),
                             [&](const Port& other) { return other.address == address; });
    if (port == ports_.end()) {
        port = ports_.emplace(ports_.end());
        port->address = address;
        port->looks_without = looks_until_free;
    }
    port->senders.push_back({.stream = &stream,
                             .come = stream.bytes_come(),
                             .round_trip = arrivals_of(stream.socket()).round_trip});
    port->next_look_at += least_between_looks;
}

void FanIn::look() {
    for (Port& port : ports_) {
        if (port.senders.size() < 2) continue;
        port.come = 0;
        for (const Sender& sender : port.senders) port.come += sender.stream->bytes_come();
        if (port.come > port.next_look_at) look_at(port);
    }
}

void FanIn::look_at(Port& port) {
    FanInShare::Look look;
    for (Sender& sender : port.senders) {
        Stream& stream = *sender.stream;
        const std::uint64_t came = stream.bytes_come() - sender.come;
        sender.come += came;
        const Stream::Piles piles = stream.take_piles();
        if (came == 0) continue;
        const Arrivals arrivals = arrivals_of(stream.socket());
        if (arrivals.segment == 0) continue;    // the kernel said nothing: the connection has ended
        if (came < arrivals.segment) continue;  // a small message takes no room
        ++look.senders;
        look.bytes += came;
        sender.round_trip = std::min(sender.round_trip, arrivals.round_trip);
        look.round_trip = std::max<std::chrono::duration<double>>(look.round_trip, sender.round_trip);
        look.segment = std::max(look.segment, arrivals.segment);
        look.piled_up = std::max(look.piled_up, piles.usual());
    }
    const auto now = Clock::now();
    look.time = now - port.looked_at;
    port.looked_at = now;
    port.looks_without = look.senders > 1 ? 0 : port.looks_without + 1;
    if (look.senders > 0) port.share.add(look);
    share_out(port, std::max<std::size_t>(look.senders, 1));
}

// Those that are silent get what they would have beside the others, so that they do not fill the queue when
// they begin.
void FanIn::share_out(Port& port, std::size_t senders) {
    const std::size_t share = port.share.bytes_for(senders);
    port.next_look_at = port.come + senders * std::max(windows_between_looks * share, least_between_looks);
    const bool is_free = port.looks_without >= looks_until_free;
    if (is_free && port.is_free) return;
    port.is_free = is_free;
    // A limit is told at each look, because the kernel forgets it when it enlarges its buffer.
    for (const Sender& sender : port.senders)
        limit_arrivals(sender.stream->socket(), is_free ? unlimited : share);
}

}  // namespace hocket::transport
