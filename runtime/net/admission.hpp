// The host's side of new connections: whoever knows the secret is admitted, all others are turned away.
//
// A stranger keeps nobody waiting, and takes neither memory nor descriptors from others: no more than
// most_strangers() are listened to at once, for no longer than 5 s, and for no more bytes than a handshake
// has. The oldest makes room, and has to come again (dial.hpp does) if it is none. All are logged to stderr
// with the reason, up to a number of lines.
#pragma once

#include <functional>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "runtime/net/handshake.hpp"
#include "runtime/net/socket_loop.hpp"

namespace hocket::transport {

// Whom a process has let in.
struct Admitted {
    Socket socket;  // nothing behind the handshake has been read
    std::string from;
    Hello hello;
};

struct AdmissionTerms {
    std::string host;                                 // for people: "rank 0"
    std::string secret;                               // that guests must know; never sent
    std::string wrong_secret;                         // what whoever does not know it is told
    std::function<void(Admitted)> admit;              // may destroy no admission
    std::function<std::string(const Hello&)> refuse;  // of who knows it: why not; "": it is let in
};

// Of the loop's thread.
class Admission final : private SocketLoop::Watcher {
  public:
    // Begins. listener: stays open longer. Throws Error(transport).
    Admission(SocketLoop& loop, int listener, AdmissionTerms terms);
    ~Admission();  // closes the connections of all who have not been admitted
    Admission(const Admission&) = delete;

    // All who have not been admitted; they are not logged.
    void refuse_all(const std::string& why);

    // For the text about those who did not come: who was turned away meanwhile, and who could not be taken.
    // Lines, each with a line's end before it.
    std::string troubles() const;

  private:
    struct Stranger final : SocketLoop::Watcher {
        explicit Stranger(Admission& host) : host(host) {}
        void ready(std::uint32_t) override { host.listen_to(*this); }
        Admission& host;
        std::list<Stranger>::iterator self{};
        std::optional<SocketLoop::Timer> deadline{};
        Admitted known{};
        std::string nonce{};  // ours; empty until the challenge is sent
        FrameParser parser{max_hello_size};
    };

    void ready(std::uint32_t events) override;
    void open();
    void receive_next(Socket socket, std::string from);
    void make_do_without(int error);
    void listen_to(Stranger& stranger);
    bool take(Stranger& stranger, const Frame& frame);
    void judge(Stranger& stranger, const Frame& frame);
    void tell(Stranger& stranger, const std::string& why);
    void turn_away(Stranger& stranger, const std::string& why);
    void drop(Stranger& stranger, const std::string& why);
    Admitted part_with(Stranger& stranger);

    SocketLoop& loop_;
    const int listener_;
    const AdmissionTerms terms_;
    const std::size_t most_strangers_ = most_strangers();
    std::list<Stranger> strangers_;
    std::optional<SocketLoop::Timer> pause_;  // while nobody is accepted
    std::size_t turned_away_ = 0;
    std::vector<std::string> examples_;  // of those turned away
    std::string shortage_;               // why connections could not be taken; empty: all were
};

}  // namespace hocket::transport
