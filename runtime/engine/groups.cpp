#include "runtime/engine/groups.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/bootstrap/invitation.hpp"
#include "runtime/error.hpp"

namespace hocket::engine {
namespace {

// How long the first attempt to make a shrunken communicator takes at most.
constexpr std::chrono::milliseconds first_attempt{2000};

struct Wish {
    bool takes_part = false;
    int color = 0, key = 0;
};

std::string encode(const Wish& wish) {
    return fmt::format("{} {} {}", int{wish.takes_part}, wish.color, wish.key);
}

Wish decode(const std::string& text) {
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

// Leaves the wishes, and compares what all of them are for.
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

// The ranks of the parent that are in this rank's group, in their order there.
std::vector<int> members_of(const std::vector<std::string>& wishes, const Wish& own) {
    std::vector<std::tuple<int, int>> members;  // key, rank
    for (std::size_t rank = 0; rank < wishes.size(); ++rank)
        if (const Wish wish = decode(wishes[rank]); wish.takes_part && wish.color == own.color)
            members.emplace_back(wish.key, static_cast<int>(rank));
    std::sort(members.begin(), members.end());
    std::vector<int> ranks;
    for (const auto& [key, rank] : members) ranks.push_back(rank);
    return ranks;
}

// The communicator of these ranks, which begins where the first of them invites them to. self: one of them.
std::unique_ptr<Communicator> make(Options options, const std::vector<int>& members, int self,
                                   const transport::Invitation& meeting) {
    options.topology.clear();
    options.rank = static_cast<int>(std::find(members.begin(), members.end(), self) - members.begin());
    options.world_size = static_cast<int>(members.size());
    options.master_addr = meeting.at.host;
    options.master_port = meeting.at.port;
    options.secret = meeting.secret;
    options.listen_fd = -1;
    if (options.rank == 0 && members.size() > 1 && !options.lobby)
        options.lobby = transport::take_lobby(meeting);
    return Communicator::create(options);
}

// For a communicator of these ranks of the parent, and perhaps new ones: they know of no refuges yet.
Options options_for(const std::vector<int>& members, const Communicator& parent) {
    Options options = parent.options();
    options.refuge.reset();
    options.numbers_in_refuge.clear();
    // The parent knows at once when one of them has died.
    options.abandoned = [&parent, members] { return parent.loss_among(members); };
    options.join_timeout = options.timeout;  // that of a shrunken one was what had been left
    return options;
}

// What a rank says instead of an invitation.
const std::string no_invitation = "no invitation: ";

// Where rank 0 takes new processes in, and how many.
struct Door {
    std::string said = {};  // to the other ranks: "NEWCOMERS INVITATION", or why there is none
    std::shared_ptr<transport::Lobby> lobby = nullptr;  // null: nobody is taken in
};

// Takes the lobby of an invitation that was made in this process; but not if it is for those that wait there,
// and none does.
Door open_door(const std::string& text, int newcomers) {
    const std::string used =
        no_invitation + "the unique id was not made in rank 0's process, or has been used";
    try {
        const auto invitation = transport::Invitation::parse(text);
        if (newcomers == those_waiting) {
            const auto waiting = transport::waiting_at(invitation);
            if (!waiting) return {used};
            if (*waiting == 0) return {"0 " + text};
            newcomers = static_cast<int>(*waiting);
        }
        std::shared_ptr<transport::Lobby> lobby = transport::take_lobby(invitation);
        return lobby ? Door{fmt::format("{} {}", newcomers, text), std::move(lobby)} : Door{used};
    } catch (const std::exception& error) {
        return {no_invitation + error.what()};
    }
}

// The text behind the number that it begins with; all of it, and the number as it was, if it does not.
std::string read_number(const std::string& text, int& number) {
    const char* const end = text.data() + text.size();
    const char* const stop = std::from_chars(text.data(), end, number).ptr;
    return std::string(stop == end || *stop != ' ' ? stop : stop + 1, end);
}

// What another rank has said of its failure: a status and a text.
Error failure_of(int rank, const std::string& said) {
    int status = static_cast<int>(Status::internal);
    const std::string text = read_number(said, status);
    return {static_cast<Status>(status), fmt::format("rank {} reported: {}", rank, text)};
}

transport::Invitation meeting_of(const std::string& said, int rank, Status status) {
    if (said.starts_with(no_invitation))
        throw Error(status, fmt::format("rank {} cannot lead the new communicator: {}", rank,
                                        said.substr(no_invitation.size())));
    return transport::Invitation::parse(said);
}

}  // namespace

std::unique_ptr<Communicator> split(Communicator& parent, const std::string& what, std::optional<int> color,
                                    int key) {
    const Wish own{color.has_value(), color.value_or(0), key};
    std::vector<std::string> wishes = parent.exchange(encode(own) + " " + what);
    take_what(wishes, what, parent.rank());
    const std::vector<int> members = own.takes_part ? members_of(wishes, own) : std::vector<int>();
    const bool leads = !members.empty() && members[0] == parent.rank() && members.size() > 1;
    // All ranks take part in the second exchange as well, whether they lead a group or are in none.
    std::optional<transport::Invitation> invitation;
    std::string trouble;
    if (leads) try {
            invitation = transport::invite(parent.own_address());
        } catch (const Error& error) {
            trouble = error.what();
        }
    std::vector<std::string> invitations;
    try {
        invitations = parent.exchange(invitation ? invitation->text() : no_invitation + trouble);
    } catch (...) {
        if (invitation) transport::take_lobby(*invitation);  // and closes it
        throw;
    }
    if (members.empty()) return nullptr;
    const Options options = options_for(members, parent);
    if (members.size() == 1) return make(options, members, parent.rank(), {});
    const std::string& text = invitations[static_cast<std::size_t>(members[0])];
    return make(options, members, parent.rank(), meeting_of(text, members[0], Status::bootstrap));
}

std::unique_ptr<Communicator> shrink(Communicator& parent) {
    const auto until = transport::Clock::now() + parent.options().timeout;
    parent.lost();  // the refuge must know
    parent.abort("hkt_comm_shrink was called: it goes on without the ranks that are lost");
    Options options = parent.options();
    if (parent.size() == 1) return make(options, {0}, 0, {});
    for (auto attempt_takes = first_attempt;; attempt_takes *= 2) {
        const auto [survivors, meeting] = options.refuge->regroup(until);
        options.numbers_in_refuge = survivors;
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - transport::Clock::now());
        options.join_timeout = std::min<std::chrono::milliseconds>(left, attempt_takes);
        try {
            return make(options, survivors, options.refuge->self(), meeting);
        } catch (const Error& error) {  // another rank was lost: then all fail, and all begin again
            const bool may_be_a_loss =
                error.status() == Status::bootstrap || error.status() == Status::timeout ||
                error.status() == Status::peer_lost || error.status() == Status::transport;
            if (!may_be_a_loss || transport::Clock::now() >= until) throw;
        }
    }
}

namespace {

// What the ranks make of what all of them have said. None has the communicator unless all have.
std::unique_ptr<Communicator> make_grown(Communicator& parent, const Options& options,
                                         const transport::Invitation& meeting) {
    std::vector<int> ranks(static_cast<std::size_t>(parent.size() + options.newcomers));
    std::iota(ranks.begin(), ranks.end(), 0);
    std::unique_ptr<Communicator> grown;
    std::optional<Error> failure;
    try {
        grown = make(options, ranks, parent.rank(), meeting);
    } catch (const Error& error) {
        failure = error;
    }
    // A new process may die when some ranks have what others have not.
    const std::vector<std::string> said = parent.exchange(
        failure ? fmt::format("{} {}", static_cast<int>(failure->status()), failure->what()) : "");
    if (failure) throw *failure;
    for (std::size_t rank = 0; rank < said.size(); ++rank)
        if (!said[rank].empty()) throw failure_of(static_cast<int>(rank), said[rank]);
    return grown;
}

}  // namespace

std::unique_ptr<Communicator> grow(Communicator& parent, int newcomers, const std::string& invitation) {
    const std::string what = newcomers == those_waiting ? std::string("hkt_comm_grow by those that wait")
                                                        : fmt::format("hkt_comm_grow by {}", newcomers);
    Door door = parent.rank() == 0 ? open_door(invitation, newcomers) : Door{};
    std::vector<std::string> said = parent.exchange(encode(Wish{}) + " " + what);
    take_what(said, what, parent.rank());
    // Only now: an invitation holds a secret, and no error may show it.
    said = parent.exchange(door.said);
    std::vector<int> members(static_cast<std::size_t>(parent.size()));
    std::iota(members.begin(), members.end(), 0);
    Options options = options_for(members, parent);
    const std::string text = read_number(said[0], options.newcomers);
    if (!said[0].starts_with(no_invitation) && options.newcomers == 0) return nullptr;
    const auto meeting = meeting_of(text, 0, Status::invalid_argument);
    options.planning.reset();  // the new processes read schedules as they are now
    options.newcomers_wait = newcomers == those_waiting;
    options.lobby = std::move(door.lobby);
    auto grown = make_grown(parent, options, meeting);
    try {
        grown->barrier();     // tells the new processes that all ranks have it
    } catch (const Error&) {  // a rank was lost since: the next operation says so, as all have it
    }
    return grown;
}

}  // namespace hocket::engine
