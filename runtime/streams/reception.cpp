#include "runtime/streams/reception.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <list>
#include <string>

#include "runtime/error.hpp"
#include "runtime/log.hpp"
#include "runtime/net/handshake.hpp"
#include "runtime/net/texts.hpp"

namespace hocket::transport {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t hello_size = 8 + nonce_size;
constexpr auto breathing_time = 100ms;
constexpr int max_lines = 16;  // of a log that strangers can write

struct Guest {
    Socket socket;
    std::string from, challenge, answer;
};

class Reception {
  public:
    Reception(const Endpoint& at, const Socket& listener, std::string_view key, std::set<std::size_t> missing,
              std::vector<Socket>& connections)
        : at_(at),
          listener_(listener),
          key_(key),
          expected_(std::move(missing)),
          missing_(expected_),
          connections_(connections) {}

    void run(const Patience& patience) {
        while (!missing_.empty()) {
            if (patience.is_over()) throw Error(Status::timeout, missing_text());
            step(patience);
        }
        if (turned_away_ > max_lines)
            log_line("hocket: turned away {} more connections while ranks connected",
                     turned_away_ - max_lines);
    }

  private:
    void step(const Patience& patience) {
        std::vector<pollfd> set{{Clock::now() >= next_accept_ ? listener_.fd() : -1, POLLIN, 0}};
        for (const Guest& guest : guests_) set.push_back({guest.socket.fd(), POLLIN, 0});
        patience.look(set, breathing_time);
        auto guest = guests_.begin();
        for (std::size_t i = 1; i < set.size(); ++i) {
            const auto next = std::next(guest);
            if (set[i].revents != 0 && !listen_to(*guest)) guests_.erase(guest);
            guest = next;
        }
        if (set[0].revents != 0) receive_next();
    }

    void receive_next() {
        Guest guest;
        guest.socket = accept_from(listener_.fd(), guest.from);
        if (!guest.socket.is_open()) {
            if (is_shortage(errno)) make_do_without(errno);
            return;
        }
        guest.challenge = fresh_nonce();
        if (!put(guest.socket, guest.challenge)) return;
        if (guests_.size() == most_guests_) guests_.pop_front();
        guests_.push_back(std::move(guest));
    }

    // The listener stays readable: without a pause the loop would spin.
    void make_do_without(int error) {
        shortage_ = error_text(error);
        next_accept_ = Clock::now() + breathing_time;
        if (!guests_.empty()) guests_.pop_front();
    }

    // False: nothing more is expected of this connection. Bytes behind the proof are left where they are.
    bool listen_to(Guest& guest) {
        char bytes[hello_size + proof_size];
        const ssize_t n = recv(guest.socket.fd(), bytes, sizeof bytes - guest.answer.size(), MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) return true;
        guest.answer.append(bytes, static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
        if (n > 0 && guest.answer.size() < sizeof bytes) return true;
        if (guest.answer.size() < sizeof bytes || !judge(guest)) turn_away(guest);
        return false;
    }

    // A member that comes again has lost its first connection.
    bool judge(Guest& guest) {
        const std::string_view answer = guest.answer;
        const Hello hello = decode_hello(answer.substr(0, hello_size));
        if (hello.world_size != connections_.size() || !expected_.contains(hello.rank) ||
            !same_proof(answer.substr(hello_size), make_proof(key_, Side::guest, hello, guest.challenge)))
            return false;
        put(guest.socket, make_proof(key_, Side::host, hello, guest.challenge));
        connections_[hello.rank] = std::move(guest.socket);
        missing_.erase(hello.rank);
        return true;
    }

    void turn_away(const Guest& guest) {
        if (++turned_away_ <= max_lines)
            log_line("hocket: turned away a connection from {}, which is no member of this job", guest.from);
    }

    std::string missing_text() const {
        std::string text = fmt::format(
            "no connection from {} at {}; can those ranks reach that address (a firewall, another network)? "
            "HOCKET_FABRIC_ADDR chooses one",
            ranks_text({missing_.begin(), missing_.end()}), at_.text());
        if (!shortage_.empty())
            text += fmt::format("\n  not all connections could be taken: {}; raise the limit (ulimit -n)",
                                shortage_);
        return text;
    }

    const Endpoint& at_;
    const Socket& listener_;
    const std::string_view key_;
    const std::set<std::size_t> expected_;
    std::set<std::size_t> missing_;
    std::vector<Socket>& connections_;
    const std::size_t most_guests_ = most_strangers();
    std::list<Guest> guests_;
    std::string shortage_;  // why connections could not be taken; empty: all were
    Clock::time_point next_accept_{};
    int turned_away_ = 0;
};

}  // namespace

void admit(const Endpoint& at, const Socket& listener, std::string_view key, std::set<std::size_t> missing,
           std::vector<Socket>& connections, const Patience& patience) {
    Reception(at, listener, key, std::move(missing), connections).run(patience);
}

}  // namespace hocket::transport
