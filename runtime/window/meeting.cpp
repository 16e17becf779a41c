#include "runtime/window/meeting.hpp"

#include <fmt/format.h>
#include <openssl/rand.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <type_traits>

#include "runtime/error.hpp"
#include "runtime/net/texts.hpp"

namespace hocket::transport {
namespace {

using namespace std::chrono_literals;

constexpr auto breathing_time = 100ms;

// Ranks of one host run the same build, so these structs travel as they lie in memory.
struct Greeting {
    char magic[16] = "hocket guest 1";
    std::int32_t member = 0, members = 0;
    char name[64] = {};
    bool operator==(const Greeting&) const = default;
};

struct Answer {
    char magic[16] = "hocket host 1";
    std::uint64_t slice_bytes = 0;
};

Greeting greeting_of(const std::vector<std::string>& names, int member) {
    Greeting greeting;
    greeting.member = member;
    greeting.members = static_cast<std::int32_t>(names.size());
    names[static_cast<std::size_t>(member)].copy(greeting.name, sizeof greeting.name - 1);
    return greeting;
}

std::string fresh_name() {
    unsigned char random[16];
    if (RAND_bytes(random, sizeof random) != 1)
        throw Error(Status::bootstrap, "the system gives no random numbers for a socket's name");
    std::string name = "hocket-";
    for (const unsigned char byte : random) name += fmt::format("{:02x}", byte);
    return name;
}

// Room for one descriptor beside a message.
struct Passage {
    explicit Passage(void* bytes, std::size_t size) : part{bytes, size} {
        header.msg_iov = &part;
        header.msg_iovlen = 1;
        header.msg_control = control;
        header.msg_controllen = sizeof control;
    }
    iovec part;
    msghdr header{};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
};

// The guest may have gone: then it is not served, and comes again if it lives.
bool send_offer(int guest, int memory, std::uint64_t slice_bytes) {
    Answer answer;
    answer.slice_bytes = slice_bytes;
    Passage passage(&answer, sizeof answer);
    cmsghdr* rights = CMSG_FIRSTHDR(&passage.header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(rights), &memory, sizeof memory);
    return sendmsg(guest, &passage.header, MSG_NOSIGNAL) == sizeof answer;
}

// Nothing if the host hung up: then another attempt may succeed.
std::optional<WindowOffer> receive_offer(int host) {
    Answer answer;
    Passage passage(&answer, sizeof answer);
    const ssize_t size = recvmsg(host, &passage.header, MSG_CMSG_CLOEXEC);
    if (size <= 0) return std::nullopt;
    Socket memory;
    if (const cmsghdr* rights = CMSG_FIRSTHDR(&passage.header);
        rights && rights->cmsg_type == SCM_RIGHTS && rights->cmsg_len == CMSG_LEN(sizeof(int))) {
        int fd;
        std::memcpy(&fd, CMSG_DATA(rights), sizeof fd);
        memory = Socket(fd);
    }
    if (size != sizeof answer || std::memcmp(answer.magic, Answer().magic, sizeof answer.magic) != 0)
        throw Error(Status::bootstrap,
                    "the first rank of this host sent a message about its memory that this rank "
                    "does not understand; do all ranks run the same build of Hocket?");
    if (!memory.is_open())
        throw Error(Status::bootstrap,
                    "the descriptor of the memory that this host's ranks share did not "
                    "arrive: this process has too many open files (ulimit -n)");
    return WindowOffer{std::move(memory), answer.slice_bytes};
}

class Host {
  public:
    Host(const WindowInvitation& invitation, const std::vector<std::string>& names, int memory,
         std::uint64_t slice_bytes)
        : listener_(invitation.listener()),
          names_(names),
          memory_(memory),
          slice_bytes_(slice_bytes),
          served_(names.size()) {
        served_[0] = true;
    }

    void run(const Patience& patience) {
        while (std::find(served_.begin(), served_.end(), false) != served_.end()) {
            std::vector<pollfd> set{{Clock::now() >= next_accept_ ? listener_ : -1, POLLIN, 0}};
            for (const Socket& guest : guests_) set.push_back({guest.fd(), POLLIN, 0});
            if (patience.is_over()) throw_missing();
            if (!patience.look(set, breathing_time)) continue;
            for (std::size_t i = guests_.size(); i-- > 0;) {
                if (!set[i + 1].revents) continue;
                serve(guests_[i]);
                guests_.erase(guests_.begin() + static_cast<std::ptrdiff_t>(i));
            }
            if (set[0].revents) admit();
        }
    }

  private:
    void admit() {
        Socket guest(accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (!guest.is_open()) {
            if (is_shortage(errno)) make_do_without(errno);
            return;  // the guest has already gone
        }
        if (peer_user(guest) != geteuid()) return;  // a stranger
        // Members speak at once. Strangers that say nothing must not use up the descriptors. A member that is
        // dropped like a stranger comes again.
        if (guests_.size() >= most_guests_) guests_.erase(guests_.begin());
        guests_.push_back(std::move(guest));
    }

    // The listener stays readable: without a pause the loop would spin. If no stranger holds a descriptor,
    // this process itself needs more of them.
    void make_do_without(int error) {
        if (guests_.empty())
            throw Error(Status::bootstrap,
                        fmt::format("cannot let the other ranks of this host have its memory: {}; raise the "
                                    "limit (ulimit -n)",
                                    error_text(error)));
        guests_.erase(guests_.begin());
        next_accept_ = Clock::now() + breathing_time;
    }

    void serve(const Socket& guest) {
        char message[sizeof(Greeting) + 1];
        if (recv(guest.fd(), message, sizeof message, 0) != sizeof(Greeting)) return;
        Greeting greeting;
        std::memcpy(&greeting, message, sizeof greeting);
        const auto members = static_cast<std::int32_t>(names_.size());
        if (greeting.member < 1 || greeting.member >= members) return;
        if (greeting == greeting_of(names_, greeting.member) && send_offer(guest.fd(), memory_, slice_bytes_))
            served_[static_cast<std::size_t>(greeting.member)] = true;
    }

    [[noreturn]] void throw_missing() const {
        std::vector<int> missing;
        for (std::size_t i = 0; i < served_.size(); ++i)
            if (!served_[i]) missing.push_back(static_cast<int>(i));
        throw Error(Status::timeout,
                    fmt::format("of the {} ranks of this host, counted from 0, {} did not fetch the memory "
                                "that they share",
                                served_.size(), ranks_text(missing)));
    }

    const int listener_;
    const std::vector<std::string>& names_;
    const int memory_;
    const std::uint64_t slice_bytes_;
    std::vector<bool> served_;  // by member
    const std::size_t most_guests_ = most_strangers();
    std::vector<Socket> guests_;  // connected, of this user, and silent so far
    Clock::time_point next_accept_{};
};

// Nothing: this attempt failed, but another may succeed.
std::optional<WindowOffer> ask(const Socket& host, const Greeting& greeting, const Patience& patience) {
    if (peer_user(host) != geteuid())
        throw Error(Status::bootstrap,
                    "the first rank of this host belongs to another user; all ranks of a "
                    "host must be started by the same one");
    if (send(host.fd(), &greeting, sizeof greeting, MSG_NOSIGNAL) < 0) return std::nullopt;
    pollfd entry{host.fd(), POLLIN, 0};
    return patience.wait({&entry, 1}) ? receive_offer(host.fd()) : std::nullopt;
}

}  // namespace

WindowInvitation::WindowInvitation()
    : name_(fresh_name()), listener_(bind_unix_socket(SOCK_SEQPACKET, name_)), bell_(bell_name(name_)) {
    if (listen(listener_.fd(), SOMAXCONN) != 0)
        throw Error(Status::bootstrap, fmt::format("cannot listen at a unix socket: {}", error_text(errno)));
}

void hand_out(const WindowInvitation& invitation, const std::vector<std::string>& names, int memory,
              std::uint64_t slice_bytes, const Patience& patience) {
    Host(invitation, names, memory, slice_bytes).run(patience);
}

WindowOffer fetch_offer(const std::vector<std::string>& names, int self, const Patience& patience) {
    const AbstractAddress address(names.front());
    const Greeting greeting = greeting_of(names, self);
    // A host's name is told only once it listens, so a refusal means that it is gone. But the bootstrap
    // learns of that at the same time, and has the better error.
    auto gone_by = Clock::time_point::max();
    while (!patience.is_over()) {
        const Socket host = open_unix_socket(SOCK_SEQPACKET);
        if (connect(host.fd(), address.get(), address.size()) == 0) {
            if (auto offer = ask(host, greeting, patience)) return std::move(*offer);
        } else if (errno == ECONNREFUSED) {
            gone_by = std::min(gone_by, Clock::now() + 1s);
        } else if (errno != EAGAIN && errno != EINTR) {
            throw Error(Status::bootstrap, fmt::format("cannot connect to the first rank of this host at its "
                                                       "unix socket: {}",
                                                       error_text(errno)));
        }
        if (Clock::now() >= gone_by)
            throw Error(Status::bootstrap,
                        "the first rank of this host has ended, or is in another network "
                        "namespace: nobody listens at its unix socket");
        patience.look({}, 10ms);
    }
    throw Error(Status::timeout,
                "the first rank of this host did not hand out the memory that the ranks of "
                "this host share");
}

}  // namespace hocket::transport
