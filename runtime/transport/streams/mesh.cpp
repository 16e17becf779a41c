#include "runtime/transport/streams/mesh.hpp"

#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <set>
#include <utility>

#include "runtime/base/environment.hpp"
#include "runtime/base/error.hpp"
#include "runtime/base/log.hpp"
#include "runtime/transport/net/listening.hpp"
#include "runtime/transport/net/socket_loop.hpp"
#include "runtime/transport/net/texts.hpp"
#include "runtime/transport/streams/rail_search.hpp"

namespace hocket::transport {
namespace {

using namespace std::chrono_literals;

// If a rank's listener is gone, the bootstrap soon knows whether the rank has died, and reports it better.
constexpr auto death_is_told_within = 1s;
// If another NIC does not answer as soon, the connection does without it.
constexpr auto lane_connects_within = 1500ms;

// What a guest's identity says: "lane 1" on a connection beside the main one; on that, how many there are: "2
// lanes".
struct LaneNumbers {
    explicit LaneNumbers(const std::string& identity) {
        constexpr std::string_view lane_word = "lane ";
        const bool is_further = identity.starts_with(lane_word);
        const std::size_t number =
            std::strtoul(identity.c_str() + (is_further ? lane_word.size() : 0), nullptr, 10);
        (is_further ? lane : count) = std::max<std::size_t>(number, 1);
    }
    std::size_t lane = 0;  // 0: the main one
    std::size_t count = 1;
};

MeshAddress read_invitation(std::size_t rank, const std::string& text) {
    try {
        return MeshAddress::decode(text);
    } catch (const ProtocolError&) {
        throw Error(Status::transport,
                    fmt::format("the address of rank {} is not one of provider 'tcp'; do all "
                                "ranks use the same provider?",
                                rank));
    }
}

// Listens at a port that the kernel chooses. Returns 0 or an errno.
int listen_for_streams(const addrinfo& address, Socket& socket, Endpoint& at) {
    socket = Socket(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket.is_open() || bind(socket.fd(), address.ai_addr, address.ai_addrlen) != 0 ||
        listen(socket.fd(), SOMAXCONN) != 0)
        return errno;
    const auto bound = bound_to(socket);
    if (!bound || bound->is_any_address()) return EADDRNOTAVAIL;  // others could not connect to it
    at.port = bound->port;
    return 0;
}

Socket listen_for_streams(Endpoint& at) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;  // another host might resolve a name to another address
    addrinfo* list = nullptr;
    const int code = getaddrinfo(at.host.c_str(), "0", &hints, &list);
    const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> guard(list, freeaddrinfo);
    Socket socket;
    const int error = code == 0 ? listen_for_streams(*list, socket, at) : 0;
    if (code == 0 && error == 0) return socket;
    throw Error(Status::transport, fmt::format("provider 'tcp' cannot listen at {}: {}", at.host,
                                               code == 0 ? advised_text(error) : gai_strerror(code)));
}

Socket listen_at_all_addresses(int& port) {
    std::string why;
    Socket socket = listen_at_all(why);
    const auto bound = socket.is_open() ? bound_to(socket) : std::nullopt;
    if (!bound) throw Error(Status::transport, fmt::format("provider 'tcp' cannot listen: {}", why));
    port = bound->port;
    return socket;
}

std::vector<Nic> nics_to_tell_of(const std::string& source_address) {
    if (!source_address.empty()) return {nic_at(source_address)};
    std::vector<Nic> nics = reachable_nics();
    if (nics.empty()) nics.push_back(nic_at(loopback_address()));
    return nics;
}

// Where there is one address, nothing is listened at beside it.
Socket listen_for(MeshAddress& own) {
    if (own.nics.size() > 1) return listen_at_all_addresses(own.port);
    Endpoint at{own.nics[0].address, 0};
    Socket socket = listen_for_streams(at);
    own.port = at.port;
    return socket;
}

std::string missing_text(const std::set<std::size_t>& missing, const MeshAddress& own,
                         const Admission& admission) {
    return fmt::format(
        "no connection from {} at {}; can those ranks reach {} (a firewall, another network)? "
        "HOCKET_FABRIC_ADDR chooses one{}",
        ranks_text({missing.begin(), missing.end()}), own.text(),
        own.nics.size() == 1 ? "that address" : "one of these addresses", admission.troubles());
}

bool has_fitting(const std::vector<Nic>& nics, const std::string& wanted) {
    return std::any_of(nics.begin(), nics.end(), [&](const Nic& nic) { return is_wanted(nic, wanted); });
}

std::string list_of(const std::vector<Nic>& nics) {
    std::string text;
    for (const Nic& nic : nics) text += (text.empty() ? "" : ", ") + nic.text();
    return text;
}

}  // namespace

// One by default: NICs that look equal may not be, if they are virtual or their rates are unknown.
std::size_t most_rails() {
    const Environment environment = process_environment();
    return static_cast<std::size_t>(
        EnvironmentReader(environment).number("HOCKET_RAILS", 1, most_lanes).value_or(1));
}

StreamMesh::StreamMesh(const std::string& source_address, std::vector<std::string> wanted)
    : wanted_(std::move(wanted)),
      rails_(most_rails()),
      own_{0, fresh_nonce(), nics_to_tell_of(source_address)} {
    listener_ = listen_for(own_);
    invitation_ = own_.encode();
}

void StreamMesh::count_sharers(std::span<const std::string> invitations) {
    if (own_.nics.size() == 1) return;
    for (std::size_t rank = 0; rank < invitations.size(); ++rank) {
        if (invitations[rank].empty()) continue;
        const std::vector<Nic> theirs = read_invitation(rank, invitations[rank]).nics;
        for (Nic& nic : own_.nics)
            nic.sharers += std::any_of(theirs.begin(), theirs.end(),
                                       [&](const Nic& other) { return is_in_subnet(other.address, nic); });
    }
}

std::vector<Rail> StreamMesh::rails_to(std::size_t rank, const MeshAddress& peer) const {
    const std::string wanted = wanted_with(rank);
    std::vector<Rail> rails = rails_between(own_.nics, peer.nics, wanted);
    if (!rails.empty()) return rails;
    std::string why = "this host has the same addresses";
    if (!wanted.empty())
        why = fmt::format("the topology wants NIC {} for it, but {} {}", wanted,
                          has_fitting(own_.nics, wanted) ? "it has" : "this host has",
                          list_of(has_fitting(own_.nics, wanted) ? peer.nics : own_.nics));
    throw Error(Status::transport,
                fmt::format("cannot connect to rank {} at {}: {}", rank, peer.text(), why));
}

// Makes the connections beside the main one. Those that fail are done without.
void StreamMesh::add_lanes(const std::vector<Rail>& rails, const MeshAddress& peer, const Dial& call,
                           bool bound, const Patience& patience, Lanes& lanes) const {
    const std::size_t count = std::min(rails.size(), rails_);
    for (const Rail& rail : std::span(rails).first(count).subspan(1)) try {
            Dial further = call;
            further.identity = fmt::format("lane {}", lanes.size());
            further.note = {};  // the reasons are told below
            further.connect = [&](const Patience& time, Reasons& why) {
                const Patience turn{std::min(time.deadline, Clock::now() + lane_connects_within),
                                    time.abandoned};
                Socket socket =
                    connect_to({rail.there.address, peer.port}, turn, why, source_of(rail, bound));
                if (!socket.is_open()) throw DialError(DialError::Kind::unreachable, why.text());
                return socket;
            };
            lanes.push_back(dial(further, patience));
        } catch (const DialError& error) {
            if (patience.is_over()) throw;
            log_line("hocket: {} is done without: {}", rail.there.text(), error.what());
        }
}

StreamMesh::Lanes StreamMesh::visit(std::size_t rank, std::size_t self,
                                    std::span<const std::string> invitations, const Patience& patience) {
    const MeshAddress peer = read_invitation(rank, invitations[rank]);
    const bool bound = !wanted_with(rank).empty();
    std::vector<Rail> rails = rails_to(rank, peer);
    const auto is_hopeful = [&](const Rail& rail) {
        return !rail.here || !silent_.contains(rail.here->text());
    };
    std::stable_partition(rails.begin(), rails.end(), is_hopeful);
    RailSearch search(rails, peer.port, bound);
    Dial call{.to = {peer.nics[0].address, peer.port},
              .connect = [&](const Patience& time, Reasons&) { return search.connect(time); },
              .note = [&](const std::string& why) { search.note(why); },
              .secret = peer.key,
              .rank = static_cast<std::uint32_t>(self),
              .world_size = static_cast<std::uint32_t>(invitations.size()),
              .gone_for = death_is_told_within};
    Lanes lanes(1);
    for (bool has_lanes = false;;) try {
            if (!std::exchange(has_lanes, true))
                add_lanes(equals_of_first(rails), peer, call, bound, patience, lanes);
            call.identity = fmt::format("{} lanes", lanes.size());
            lanes[0] = dial(call, patience);
            for (const std::string& nic : search.silent_nics()) silent_.insert(nic);
            return lanes;
        } catch (const DialError& error) {
            // Hosts that are no part of the job may have the same address, as bridges of containers do.
            const bool is_other =
                error.kind == DialError::Kind::impostor || error.kind == DialError::Kind::refused;
            if (is_other && search.give_up(error.what())) continue;
            throw Error(error.kind == DialError::Kind::silent ? Status::timeout : Status::transport,
                        fmt::format("cannot connect to rank {} at {}HOCKET_FABRIC_ADDR chooses the address "
                                    "at which a rank can be reached",
                                    rank, search.failure()));
        }
}

// The guest's packets come by the NIC that it has chosen; this host's go by the same.
void StreamMesh::keep_to_nic(std::size_t rank, const Admitted& guest) const {
    const std::string wanted = wanted_with(rank);
    const auto end = bound_to(guest.socket);
    const auto peer = Endpoint::parse(guest.from);
    if (wanted.empty() || !end || !peer || peer->host == end->host) return;
    for (const Nic& nic : own_.nics)
        if (nic.address == end->host && is_wanted(nic, wanted)) keep_to_interface(guest.socket, nic.name);
}

std::string StreamMesh::rail_text(const Socket& connection) const {
    const std::string here = bound_to(connection).value_or(Endpoint{"?", 0}).host;
    const std::string there = connected_to(connection).value_or(Endpoint{"?", 0}).host;
    const auto nic = std::find_if(own_.nics.begin(), own_.nics.end(),
                                  [&](const Nic& other) { return other.address == here; });
    return fmt::format("{} ({} to {})", nic == own_.nics.end() ? "a NIC" : nic->name, here, there);
}

// A rank connects to the ranks before it, then admits those after it, so that ranks never wait in a cycle.
std::vector<StreamMesh::Lanes> StreamMesh::connect(std::span<const std::string> invitations,
                                                   const Patience& patience) {
    const auto self = static_cast<std::size_t>(
        std::find(invitations.begin(), invitations.end(), invitation_) - invitations.begin());
    std::vector<Lanes> peers(invitations.size());
    count_sharers(invitations);
    for (std::size_t rank = 0; rank < self && rank < invitations.size(); ++rank)
        if (!invitations[rank].empty()) peers[rank] = visit(rank, self, invitations, patience);
    std::set<std::size_t> expected;
    for (std::size_t rank = self + 1; rank < invitations.size(); ++rank)
        if (!invitations[rank].empty()) expected.insert(rank);
    admit(self, expected, peers, patience);
    listener_.close();
    return peers;
}

// A member that connects again has lost its first connection. Its further lanes come before the main one,
// which says how many there are.
void StreamMesh::admit(std::size_t self, const std::set<std::size_t>& expected, std::vector<Lanes>& peers,
                       const Patience& patience) {
    if (expected.empty()) return;
    std::set<std::size_t> missing = expected;
    const auto admit_one = [&](Admitted guest) {
        const std::size_t rank = guest.hello.rank;
        keep_to_nic(rank, guest);
        const LaneNumbers numbers(guest.hello.identity);
        Lanes& lanes = peers[rank];
        if (numbers.lane == 0) {
            lanes.resize(numbers.count);  // a lane beyond was given up by the guest
            missing.erase(rank);
        } else {
            lanes.resize(std::max(lanes.size(), numbers.lane + 1));
        }
        lanes[numbers.lane] = std::move(guest.socket);
    };
    const auto refuse = [&](const Hello& hello) -> std::string {
        if (hello.world_size != peers.size() || !expected.contains(hello.rank))
            return fmt::format("rank {} of {} is not awaited here", hello.rank, hello.world_size);
        const LaneNumbers numbers(hello.identity);
        const bool fits = numbers.lane > 0
                              ? numbers.lane < most_lanes
                              : numbers.count <= std::max<std::size_t>(peers[hello.rank].size(), 1);
        return fits ? "" : fmt::format("'{}' does not fit its other connections", printable(hello.identity));
    };
    SocketLoop loop(SocketLoop::Way::poll);
    const Admission admission(
        loop, listener_.fd(),
        {fmt::format("rank {}", self), own_.key, "it is no member of this job", admit_one, refuse});
    while (!missing.empty()) {
        admission.require_descriptors();
        if (patience.is_over()) throw Error(Status::timeout, missing_text(missing, own_, admission));
        loop.turn(patience.next_look());
    }
}

}  // namespace hocket::transport
