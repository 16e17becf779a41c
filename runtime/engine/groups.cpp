#include "runtime/engine/groups.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/base/caught.hpp"
#include "runtime/base/error.hpp"
#include "runtime/engine/job/link_probe.hpp"
#include "runtime/engine/job/losses.hpp"
#include "runtime/transport/bootstrap/invitation.hpp"

namespace hocket::engine {
namespace {

// Limits the first attempt to make a shrunken communicator. A rank that dies meanwhile ends the attempt at
// once; a rank that hangs, or whose host is gone, does not, and the next attempt names that rank.
constexpr std::chrono::milliseconds shortest_attempt{2000};

constexpr const char* grow_name = "hkt_comm_grow";

constexpr std::size_t most_earlier_recoveries = 16;  // each keeps a recovery socket

struct Wish {
    bool takes_part = false;
    int color = 0, key = 0;
};

std::string encode_wish(const Wish& wish) {
    return fmt::format("{} {} {}", int{wish.takes_part}, wish.color, wish.key);
}

Wish decode_wish(const std::string& text) {
    int numbers[3] = {};
    const char *at = text.data(), *const end = at + text.size();
    for (int& number : numbers) {
        const auto [stop, error] = std::from_chars(at, end, number);
        if (error != std::errc())
            throw Error(Status::mismatch,
                        fmt::format("a rank that splits the communicator says \"{}\"; do all "
                                    "ranks make the same calls in the same order?",
                                    text));
        at = stop == end ? end : stop + 1;
    }
    return {numbers[0] != 0, numbers[1], numbers[2]};
}

// Removes the purposes from the wishes, and compares them.
void take_what(std::vector<std::string>& wishes, const std::string& own, int self) {
    for (std::size_t rank = 0; rank < wishes.size(); ++rank) {
        std::size_t place = 0;
        for (int word = 0; word < 3 && place != std::string::npos; ++word)
            place = wishes[rank].find(' ', place + 1);
        const std::string theirs = place == std::string::npos ? wishes[rank] : wishes[rank].substr(place + 1);
        if (theirs != own)
            throw Error(Status::mismatch,
                        fmt::format("rank {} called {}, and rank {} {}; all ranks must make the same "
                                    "call, with the same list",
                                    self, own, rank, theirs));
        wishes[rank].resize(place);
    }
}

// Returns the ranks of the parent that are in this rank's group, in the group's order.
std::vector<int> members_of(const std::vector<std::string>& wishes, const Wish& own) {
    std::vector<std::tuple<int, int>> members;  // key, rank
    for (std::size_t rank = 0; rank < wishes.size(); ++rank)
        if (const Wish wish = decode_wish(wishes[rank]); wish.takes_part && wish.color == own.color)
            members.emplace_back(wish.key, static_cast<int>(rank));
    std::sort(members.begin(), members.end());
    std::vector<int> ranks;
    for (const auto& [key, rank] : members) ranks.push_back(rank);
    return ranks;
}

// Makes the communicator of these ranks, which meet where the first of them invites them to. self: one of
// them.
std::unique_ptr<Communicator> make_group(Options options, const std::vector<int>& members, int self,
                                         const transport::Invitation& rendezvous) {
    options.topology.clear();
    options.rank = static_cast<int>(std::find(members.begin(), members.end(), self) - members.begin());
    options.world_size = static_cast<int>(members.size());
    options.master_addr = rendezvous.at.host;
    options.master_port = rendezvous.at.port;
    options.secret = rendezvous.secret;
    options.listen_fd = -1;
    if (options.rank == 0 && members.size() > 1 && !options.lobby)
        options.lobby = transport::take_lobby(rendezvous);
    return Communicator::create(options);
}

// Returns options for a communicator of these ranks of the parent, and perhaps new ones: they know of no
// recoveries yet.
Options options_for(const std::vector<int>& members, Communicator& parent) {
    Options options = parent.options();
    options.recovery.reset();
    options.numbers_in_recovery.clear();
    if (options.links) options.links = std::make_shared<const LinkFigures>(options.links->of(members));
    // The parent detects at once that one of them has died, or that it was aborted.
    options.abandoned = [&parent, members] {
        const auto failure = parent.progress().failure();
        if (failure && failure->status == Status::aborted) throw Error(failure->status, failure->text);
        return loss_among(parent.connections(), members);
    };
    options.join_timeout = options.timeout;  // a shrunken communicator had only the remaining time
    return options;
}

// A rank sends this instead of an invitation.
const std::string no_invitation = "no invitation: ";

// Returns how many new processes rank 0 takes in. If its id is invalid, take_door() tells all ranks why.
std::int64_t newcomers_at(const std::string& invitation, int asked) {
    if (asked != those_waiting) return asked;
    try {
        const auto waiting = transport::waiting_at(transport::Invitation::parse(invitation));
        return waiting ? static_cast<std::int64_t>(*waiting) : 1;
    } catch (const Error&) {
        return 1;
    }
}

// Returns the number that all ranks ask for, or that rank 0 finds waiting. Cheap, so that programs can ask
// often.
int agree_on_newcomers(Communicator& parent, int asked, const std::string& invitation) {
    const std::int64_t found = parent.rank() == 0 ? newcomers_at(invitation, asked) : 0;
    const auto all = parent.exchanges().greatest({asked, -asked, found}, grow_name);
    if (all[0] == -all[1]) return static_cast<int>(all[2]);
    const std::string what = asked == those_waiting ? std::string("hkt_comm_grow by those that wait")
                                                    : fmt::format("hkt_comm_grow by {}", asked);
    std::vector<std::string> said = parent.exchanges().exchange(encode_wish(Wish{}) + " " + what, grow_name);
    take_what(said, what, parent.rank());
    throw Error(Status::internal,
                "ranks differ in their calls of hkt_comm_grow, but not in the texts about them");
}

// Takes the lobby of an invitation that was made in this process. Returns the text for the other ranks: the
// invitation, or why there is none.
std::string take_door(const std::string& text, std::shared_ptr<transport::Lobby>& lobby) {
    try {
        lobby = transport::take_lobby(transport::Invitation::parse(text));
        return lobby ? text
                     : no_invitation +
                           "the unique id was not made in rank 0's process, or has been used or "
                           "destroyed";
    } catch (const std::exception& error) {
        return no_invitation + error.what();
    }
}

// Closes the invitation: turns away all processes that wait there.
void close_door(const std::string& text) noexcept {
    try {
        if (const auto lobby = transport::take_lobby(transport::Invitation::parse(text)))
            lobby->turn_all_away("the ranks could not grow: look for another id");
    } catch (const std::exception&) {  // not this process's invitation, or already closed
    }
}

// Reads the number at the start of the text and returns the text after it. Without a number, leaves `number`
// as it was and returns the whole text.
std::string read_number(const std::string& text, int& number) {
    const char* const end = text.data() + text.size();
    const char* const stop = std::from_chars(text.data(), end, number).ptr;
    return std::string(stop == end || *stop != ' ' ? stop : stop + 1, end);
}

// Decodes another rank's failure: a status and a text.
Error failure_of(int rank, const std::string& said) {
    int status = static_cast<int>(Status::internal);
    const std::string text = read_number(said, status);
    return {static_cast<Status>(status), fmt::format("rank {} reported: {}", rank, text)};
}

transport::Invitation rendezvous_of(const std::string& said, int rank, Status status) {
    if (said.starts_with(no_invitation))
        throw Error(status, fmt::format("rank {} cannot lead the new communicator: {}", rank,
                                        said.substr(no_invitation.size())));
    return transport::Invitation::parse(said);
}

}  // namespace

std::unique_ptr<Communicator> split(Communicator& parent, const std::string& what, std::optional<int> color,
                                    int key) {
    const Wish own{color.has_value(), color.value_or(0), key};
    std::vector<std::string> wishes = parent.exchanges().exchange(encode_wish(own) + " " + what, what);
    take_what(wishes, what, parent.rank());
    const std::vector<int> members = own.takes_part ? members_of(wishes, own) : std::vector<int>();
    const bool leads = !members.empty() && members[0] == parent.rank() && members.size() > 1;
    // All ranks take part in the second exchange as well, whether they lead a group or are in none.
    std::optional<transport::Invitation> invitation;
    std::string trouble;
    if (leads) try {
            invitation = transport::invite(parent.connections().own_address());
        } catch (const Error& error) {
            trouble = error.what();
        }
    std::vector<std::string> invitations;
    try {
        invitations =
            parent.exchanges().exchange(invitation ? invitation->text() : no_invitation + trouble, "");
    } catch (...) {
        if (invitation) transport::take_lobby(*invitation);  // which closes it
        throw;
    }
    if (members.empty()) return nullptr;
    const Options options = options_for(members, parent);
    if (members.size() == 1) return make_group(options, members, parent.rank(), {});
    const std::string& text = invitations[static_cast<std::size_t>(members[0])];
    return make_group(options, members, parent.rank(), rendezvous_of(text, members[0], Status::bootstrap));
}

std::unique_ptr<Communicator> shrink(Communicator& parent) {
    const auto until = transport::Clock::now() + parent.options().timeout;
    lost_ranks(parent.connections());  // tells the recovery
    parent.progress().abort("hkt_comm_shrink was called: it goes on without the ranks that are lost");
    Options options = parent.options();
    options.links.reset();
    if (parent.size() == 1) return make_group(options, {0}, 0, {});
    options.host_listens = true;  // the first rank invites the others before they can know the invitation
    const std::set<int> doubtful = may_have_gone_on(parent.connections());
    auto attempt_takes = std::max(shortest_attempt, parent.options().timeout / 4);
    for (;; attempt_takes *= 2) {
        const auto regrouped =
            options.recovery->regroup(until, {was_given_up(parent.connections()), doubtful});
        const std::vector<int>& survivors = regrouped.survivors;
        options.numbers_in_recovery = survivors;
        if (survivors[0] == options.recovery->self())
            options.abandoned = [&regrouped] { return regrouped.company.loss(); };
        else
            options.abandoned = {};
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - transport::Clock::now());
        options.join_timeout = std::min<std::chrono::milliseconds>(left, attempt_takes);
        try {
            return make_group(options, survivors, options.recovery->self(), regrouped.rendezvous);
        } catch (const Error& error) {  // another rank was lost: all attempts fail, and all ranks try again
            const bool may_be_a_loss =
                error.status() == Status::bootstrap || error.status() == Status::timeout ||
                error.status() == Status::peer_lost || error.status() == Status::transport;
            if (!may_be_a_loss || transport::Clock::now() >= until) throw;
        }
    }
}

namespace {

// Makes the grown communicator on all ranks of the parent or on none.
std::unique_ptr<Communicator> make_grown(Communicator& parent, const Options& options,
                                         const transport::Invitation& rendezvous) {
    std::vector<int> ranks(static_cast<std::size_t>(parent.size() + options.newcomers));
    std::iota(ranks.begin(), ranks.end(), 0);
    std::unique_ptr<Communicator> grown;
    std::optional<Error> failure;
    try {
        grown = make_group(options, ranks, parent.rank(), rendezvous);
    } catch (const std::exception& error) {
        failure = error_of(error);
    }
    // A new process may die when the communicator is complete on some ranks only.
    const std::vector<std::string> said = parent.exchanges().exchange(
        failure ? fmt::format("{} {}", static_cast<int>(failure->status()), failure->what()) : "", "");
    if (failure) throw *failure;
    for (std::size_t rank = 0; rank < said.size(); ++rank)
        if (!said[rank].empty()) throw failure_of(static_cast<int>(rank), said[rank]);
    return grown;
}

std::unique_ptr<Communicator> grow_by(Communicator& parent, int newcomers, bool they_wait,
                                      const std::string& invitation) {
    std::shared_ptr<transport::Lobby> lobby;
    // The invitation contains a secret, so no error may show it.
    const auto said =
        parent.exchanges().exchange(parent.rank() == 0 ? take_door(invitation, lobby) : "", grow_name);
    const auto rendezvous = rendezvous_of(said[0], 0, Status::invalid_argument);
    std::vector<int> members(static_cast<std::size_t>(parent.size()));
    std::iota(members.begin(), members.end(), 0);
    Options options = options_for(members, parent);
    options.links.reset();  // new processes know nothing of it
    // A rank that does not know the new communicator must still be able to see that this process is alive.
    if (const auto& recovery = parent.options().recovery) options.earlier_recoveries.push_back(recovery);
    if (options.earlier_recoveries.size() > most_earlier_recoveries)
        options.earlier_recoveries.erase(options.earlier_recoveries.begin());
    options.planning.reset();  // the new processes read the schedules as they are now
    options.newcomers = newcomers;
    options.newcomers_wait = they_wait;
    options.lobby = std::move(lobby);
    auto grown = make_grown(parent, options, rendezvous);
    try {
        grown->exchanges().barrier();  // tells the new processes that all ranks of the parent have it
    } catch (const std::exception&) {  // all ranks have it, so the next operation reports the failure
    }
    return grown;
}

}  // namespace

std::unique_ptr<Communicator> grow(Communicator& parent, int newcomers, const std::string& invitation) {
    try {
        const int agreed = agree_on_newcomers(parent, newcomers, invitation);
        return agreed == 0 ? nullptr : grow_by(parent, agreed, newcomers == those_waiting, invitation);
    } catch (...) {
        if (parent.rank() == 0) close_door(invitation);
        throw;
    }
}

}  // namespace hocket::engine
