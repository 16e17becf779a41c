#include "runtime/transport/window/rendezvous.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <type_traits>

#include "runtime/base/error.hpp"
#include "runtime/base/random.hpp"
#include "runtime/transport/net/texts.hpp"

namespace hocket::transport {
namespace {

using namespace std::chrono_literals;

constexpr auto pause_for_others = 100ms, last_words = 200ms;

// Ranks of one host run the same build, so these structs are sent as they lie in memory.
struct Verdict {
    std::int32_t status = 0;
    char text[500] = {};

    static Verdict of(const Error& error) {
        Verdict verdict;
        verdict.status = static_cast<std::int32_t>(error.status());
        std::string_view(error.what()).copy(verdict.text, sizeof verdict.text - 1);
        return verdict;
    }
    bool is_good() const { return status == 0; }
    void throw_if_bad(const std::string& who = "") const {
        if (!is_good())
            throw Error(static_cast<Status>(status), who + std::string(text, strnlen(text, sizeof text)));
    }
};

struct Greeting {
    char magic[16] = "hocket guest 3";
    std::int32_t member = 0, members = 0;
    char name[64] = {};
    WindowPlaces places{};
    Verdict verdict;  // on this rank's own part
};

// The message that a host and a guest exchange once they know each other. A part comes with its descriptor.
struct Packet {
    char magic[16] = "hocket window 2";
    enum class Kind : std::int32_t { part, verdict } kind = Kind::verdict;
    std::int32_t member = 0;
    WindowPlaces places{};
    Verdict verdict;
};

Greeting greeting_of(const std::vector<std::string>& names, int member) {
    Greeting greeting;
    greeting.member = member;
    greeting.members = static_cast<std::int32_t>(names.size());
    names[static_cast<std::size_t>(member)].copy(greeting.name, sizeof greeting.name - 1);
    return greeting;
}

bool is_from_same(const Greeting& a, const Greeting& b) {
    return std::memcmp(&a, &b, offsetof(Greeting, places)) == 0;
}

std::string fresh_name() {
    return "hocket-" + random_hex(16);
}

// Space for one descriptor beside a message.
struct Passage {
    Passage(void* bytes, std::size_t size) : part{bytes, size} {
        header.msg_iov = &part;
        header.msg_iovlen = 1;
        header.msg_control = control;
        header.msg_controllen = sizeof control;
    }
    iovec part;
    msghdr header{};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
};

// fd: negative if there is none. Returns false if the other end has gone.
template <typename Struct>
bool send_with(int socket, Struct message, int fd, const Patience& patience) {
    Passage passage(&message, sizeof message);
    if (fd >= 0) {
        cmsghdr* rights = CMSG_FIRSTHDR(&passage.header);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(sizeof(int));
        std::memcpy(CMSG_DATA(rights), &fd, sizeof fd);
    } else {
        passage.header.msg_controllen = 0;
    }
    while (sendmsg(socket, &passage.header, MSG_NOSIGNAL) != sizeof message) {
        pollfd entry{socket, POLLOUT, 0};
        if (errno == EAGAIN) {
            if (!patience.wait({&entry, 1})) return false;
        } else if (errno == ETOOMANYREFS && !patience.is_over()) {
            patience.look({}, 10ms);  // too many descriptors are under way
        } else if (errno != EINTR) {
            return false;
        }
    }
    return true;
}

// Receives bytes, and the descriptor that came with them, if any. Returns 0 if the other end has hung up.
template <typename Struct>
std::size_t receive_with(int socket, Struct& message, Socket& descriptor) {
    Passage passage(&message, sizeof message);
    const ssize_t size = recvmsg(socket, &passage.header, MSG_CMSG_CLOEXEC);
    if (size <= 0) return 0;
    if (const cmsghdr* rights = CMSG_FIRSTHDR(&passage.header);
        rights && rights->cmsg_type == SCM_RIGHTS && rights->cmsg_len == CMSG_LEN(sizeof(int))) {
        int fd;
        std::memcpy(&fd, CMSG_DATA(rights), sizeof fd);
        descriptor = Socket(fd);
    }
    return (passage.header.msg_flags & MSG_TRUNC) != 0 ? sizeof message + 1 : static_cast<std::size_t>(size);
}

using Take = std::function<void(int, WindowPart)>;

// The state of this rank's own part before it meets other ranks.
struct Own {
    Verdict verdict;
    OwnWindowPart part{-1, {}};
};

Own own_part(const std::function<OwnWindowPart()>& make) {
    Own own;
    try {
        own.part = make();
    } catch (const Error& error) {
        own.verdict = Verdict::of(error);
    }
    return own;
}

class WindowHost {
  public:
    WindowHost(const WindowInvitation& invitation, const std::vector<std::string>& names, const Own& own,
               const Patience& patience)
        : listener_(invitation.listener()),
          names_(names),
          own_(own),
          patience_(patience),
          members_(names.size()) {}

    void run(const Take& take) {
        try {
            await_all();
            guests_.clear();  // strangers' descriptors may be needed
            own_.verdict.throw_if_bad(name_of(0));
            for (std::size_t i = 1; i < members_.size(); ++i) members_[i].verdict.throw_if_bad(name_of(i));
            for (std::size_t i = 1; i < members_.size(); ++i) give_all_to(i);
            take_all(take);
        } catch (const Error& error) {
            tell_all(Verdict::of(error));
            throw;
        }
        tell_all({});
    }

  private:
    struct Member {
        Socket connection;  // open once the member has come
        Socket memory;
        WindowPlaces places{};
        Verdict verdict;
    };

    bool have_all_come() const {
        return std::all_of(members_.begin() + 1, members_.end(),
                           [](const Member& member) { return member.connection.is_open(); });
    }

    void await_all() {
        while (!have_all_come()) {
            std::vector<pollfd> set{{Clock::now() >= next_accept_ ? listener_ : -1, POLLIN, 0}};
            for (const Socket& guest : guests_) set.push_back({guest.fd(), POLLIN, 0});
            if (patience_.is_over()) throw_missing();
            if (!patience_.look(set, pause_for_others)) continue;
            for (std::size_t i = guests_.size(); i-- > 0;) {
                if (!set[i + 1].revents) continue;
                Socket guest = std::move(guests_[i]);
                guests_.erase(guests_.begin() + static_cast<std::ptrdiff_t>(i));
                meet(std::move(guest));
            }
            if (set[0].revents) admit();
        }
    }

    void admit() {
        Socket guest(accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (!guest.is_open()) {
            if (is_shortage(errno)) make_do_without(errno);
            return;  // the guest has already gone
        }
        if (peer_user(guest) != geteuid()) return;  // a stranger
        // Members send at once. Silent strangers must not use up the descriptors. A member that is dropped
        // like a stranger comes again.
        if (guests_.size() >= most_guests_) guests_.erase(guests_.begin());
        guests_.push_back(std::move(guest));
    }

    // The listener stays readable, so the loop would spin without a pause. If no stranger holds a descriptor,
    // this process itself needs more of them.
    void make_do_without(int error) {
        if (guests_.empty())
            throw Error(Status::bootstrap,
                        "cannot let the other ranks of this host have its memory: " + advised_text(error));
        guests_.erase(guests_.begin());
        next_accept_ = Clock::now() + pause_for_others;
    }

    // A guest whose greeting is incomplete is hung up on. If it is a member, it comes again.
    void meet(Socket guest) {
        Greeting greeting;
        Socket memory;
        if (receive_with(guest.fd(), greeting, memory) != sizeof greeting) return;
        const auto members = static_cast<std::int32_t>(names_.size());
        if (greeting.member < 1 || greeting.member >= members) return;
        if (!is_from_same(greeting, greeting_of(names_, greeting.member))) return;
        if (greeting.verdict.is_good() && !memory.is_open()) return make_do_without(EMFILE);
        Member& member = members_[static_cast<std::size_t>(greeting.member)];
        member.connection = std::move(guest);
        member.memory = std::move(memory);
        member.places = greeting.places;
        member.verdict = greeting.verdict;
    }

    // Serves one guest after another, so that few descriptors are under way at once.
    void give_all_to(std::size_t guest) {
        const int socket = members_[guest].connection.fd();
        for (std::size_t i = 0; i < members_.size(); ++i) {
            if (i == guest) continue;
            Packet part;
            part.kind = Packet::Kind::part;
            part.member = static_cast<std::int32_t>(i);
            part.places = i == 0 ? own_.part.places : members_[i].places;
            if (!send_with(socket, part, i == 0 ? own_.part.memory : members_[i].memory.fd(), patience_))
                throw_gone(guest);
        }
        pollfd entry{socket, POLLIN, 0};
        Packet answer;
        Socket none;
        if (!patience_.wait({&entry, 1}) || receive_with(socket, answer, none) != sizeof answer)
            throw_gone(guest);
        answer.verdict.throw_if_bad(name_of(guest));
    }

    void take_all(const Take& take) try {
        for (std::size_t i = 1; i < members_.size(); ++i)
            take(static_cast<int>(i), {std::move(members_[i].memory), members_[i].places});
    } catch (const Error& error) {
        throw Error(error.status(), name_of(0) + error.what());
    }

    // Members that have gone need no verdict.
    void tell_all(const Verdict& verdict) {
        Packet message;
        message.verdict = verdict;
        for (std::size_t i = 1; i < members_.size(); ++i)
            if (members_[i].connection.is_open())
                send_with(members_[i].connection.fd(), message, -1, {Clock::now() + pause_for_others, {}});
    }

    static std::string name_of(std::size_t member) {
        return fmt::format("rank {} of this host, counted from 0: ", member);
    }

    [[noreturn]] void throw_gone(std::size_t member) const {
        patience_.look({}, 0ms);  // the bootstrap may have the better error
        throw Error(patience_.is_over() ? Status::timeout : Status::bootstrap,
                    fmt::format("rank {} of the {} ranks of this host, counted from 0, has gone, or does not "
                                "answer, while the ranks exchange the memory that they share",
                                member, members_.size()));
    }

    [[noreturn]] void throw_missing() const {
        std::vector<int> missing;
        for (std::size_t i = 1; i < members_.size(); ++i)
            if (!members_[i].connection.is_open()) missing.push_back(static_cast<int>(i));
        throw Error(
            Status::timeout,
            fmt::format("of the {} ranks of this host, counted from 0, {} did not come to exchange the "
                        "memory that they share",
                        members_.size(), ranks_text(missing)));
    }

    const int listener_;
    const std::vector<std::string>& names_;
    const Own& own_;
    const Patience& patience_;
    std::vector<Member> members_;  // the first is this rank
    const std::size_t most_guests_ = most_strangers();
    std::vector<Socket> guests_;  // connected, of this user, and silent so far
    Clock::time_point next_accept_{};
};

class WindowGuest {
  public:
    WindowGuest(const std::vector<std::string>& names, int self, const Own& own, const Patience& patience)
        : names_(names), self_(self), own_(own), patience_(patience) {}

    void run(const Take& take) {
        const AbstractAddress address(names_.front());
        // A host's name is announced only once it listens, so a refusal means that it is gone. But the
        // bootstrap learns of that at the same time, and has the better error.
        auto gone_by = Clock::time_point::max();
        while (!patience_.is_over()) {
            const Socket host = open_unix_socket(SOCK_SEQPACKET);
            if (connect(host.fd(), address.get(), address.size()) == 0) {
                if (visit(host.fd(), peer_user(host), take)) return;
            } else if (errno == ECONNREFUSED) {
                gone_by = std::min(gone_by, Clock::now() + 1s);
            } else if (errno != EAGAIN && errno != EINTR) {
                throw Error(
                    Status::bootstrap,
                    fmt::format("cannot connect to the first rank of this host at its unix socket: {}",
                                error_text(errno)));
            }
            if (Clock::now() >= gone_by) throw_host_gone();
            patience_.look({}, 10ms);
        }
        throw_late();
    }

  private:
    // Returns false if the host hung up before it gave anything; another visit may succeed.
    bool visit(int host, uid_t user, const Take& take) {
        if (user != geteuid())
            throw Error(Status::bootstrap,
                        "the first rank of this host belongs to another user; all ranks of a "
                        "host must be started by the same one");
        Greeting greeting = greeting_of(names_, self_);
        greeting.places = own_.part.places;
        greeting.verdict = own_.verdict;
        if (!send_with(host, greeting, own_.part.memory, patience_)) return false;
        Packet verdict;
        for (std::size_t parts = 1; parts < names_.size(); ++parts) {
            Packet part;
            Socket memory;
            if (!hear(host, part, memory)) {
                if (parts == 1) return false;
                throw_host_gone();
            }
            if (part.kind == Packet::Kind::verdict) part.verdict.throw_if_bad();
            if (verdict.verdict.is_good()) verdict.verdict = taken(part, std::move(memory), take);
        }
        Packet last;
        Socket none;
        if (!send_with(host, verdict, -1, patience_) || !hear(host, last, none)) throw_host_gone();
        last.verdict.throw_if_bad();
        return true;
    }

    // Returns false if the host has hung up.
    bool hear(int host, Packet& message, Socket& memory) const {
        pollfd entry{host, POLLIN, 0};
        // The host has the same deadline, and then knows which members are missing.
        if (!Patience{patience_.deadline + last_words, patience_.abandoned}.wait({&entry, 1})) throw_late();
        const std::size_t size = receive_with(host, message, memory);
        if (size == 0) return false;
        if (size != sizeof message || std::memcmp(message.magic, Packet().magic, sizeof message.magic) != 0)
            throw Error(Status::bootstrap,
                        "the first rank of this host sent a message about its memory that this rank "
                        "does not understand; do all ranks run the same build of Hocket?");
        return true;
    }

    Verdict taken(const Packet& part, Socket memory, const Take& take) const {
        try {
            if (part.member < 0 || part.member >= static_cast<int>(names_.size()) || part.member == self_)
                throw Error(Status::bootstrap, "the memory of a rank came that is not of this host");
            if (!memory.is_open())
                throw Error(Status::bootstrap,
                            "the descriptor of the memory that this host's ranks share did not arrive: " +
                                advised_text(EMFILE));
            take(part.member, {std::move(memory), part.places});
        } catch (const Error& error) {
            return Verdict::of(error);
        }
        return {};
    }

    [[noreturn]] static void throw_host_gone() {
        throw Error(Status::bootstrap,
                    "the first rank of this host has ended, or is in another network "
                    "namespace: nobody listens at its unix socket");
    }
    [[noreturn]] static void throw_late() {
        throw Error(Status::timeout,
                    "the first rank of this host did not hand out the memory that the ranks of "
                    "this host share");
    }

    const std::vector<std::string>& names_;
    const int self_;
    const Own& own_;
    const Patience& patience_;
};

}  // namespace

WindowInvitation::WindowInvitation()
    : name_(fresh_name()), listener_(bind_unix_socket(SOCK_SEQPACKET, name_)), bell_(bell_name(name_)) {
    if (listen(listener_.fd(), SOMAXCONN) != 0)
        throw Error(Status::bootstrap,
                    fmt::format("cannot listen at a unix socket: {}", advised_text(errno)));
}

void exchange_parts(const WindowInvitation& invitation, const std::vector<std::string>& names, int self,
                    const std::function<OwnWindowPart()>& own, const Take& take, const Patience& patience) {
    const Own mine = own_part(own);
    if (self == 0)
        WindowHost(invitation, names, mine, patience).run(take);
    else
        WindowGuest(names, self, mine, patience).run(take);
}

}  // namespace hocket::transport
