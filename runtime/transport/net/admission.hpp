// The host's side of new connections: those that know the secret are admitted, all others are turned away.
//
// A stranger keeps nobody waiting, and takes neither memory nor descriptors from others. The host listens to
// no more than most_strangers() at once, to each for no longer than 5 s and for no more bytes than a
// handshake has. When there are too many, the oldest is dropped; if it was not a stranger after all, it has
// to come again (dial.hpp does). All that are dropped are logged to stderr with the reason, up to a number of
// lines.
#pragma once

#include <functional>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "runtime/transport/net/handshake.hpp"
#include "runtime/transport/net/socket_loop.hpp"

namespace hocket::transport {

// A guest that this process has let in.
struct Admitted {
    Socket socket;  // nothing after the handshake has been read
    std::string from;
    Hello hello;
};

struct AdmissionTerms {
    std::string host;                     // for people: "rank 0"
    std::string secret;                   // what guests must know; never sent
    std::string wrong_secret;             // the answer to a guest that does not know it
    std::function<void(Admitted)> admit;  // for a guest that knows it: why it is refused; "": it is not
    std::function<std::string(const Hello&)> refuse;  // why a guest is refused; "": it is let in
    bool is_quiet = false;                            // who is turned away is not logged
};

// To be used on the loop's thread only.
class Admission final : private SocketLoop::Watcher {
  public:
    // Begins at once. listener: must stay open longer than this. Throws Error(transport).
    Admission(SocketLoop& loop, int listener, AdmissionTerms terms);
    ~Admission();  // closes the connections of all that have not been admitted
    Admission(const Admission&) = delete;

    // Those that have not been admitted have as much time as if they had come now: nobody has turned the loop
    // meanwhile.
    void begin_again();

    // Refuses all that have not been admitted; they are not logged.
    void refuse_all(const std::string& why);

    // Throws Error(transport) if the guest that came last could not be accepted for want of descriptors, and
    // no stranger holds any that it could have: this process itself needs more. Each time more may have come.
    void require_descriptors() const;

    // For the text about ranks that did not come: which connections were turned away meanwhile, and which
    // could not be accepted. Each line begins with a line break.
    std::string troubles() const;

  private:
    struct Stranger final : SocketLoop::Watcher {
        explicit Stranger(Admission& host) : host(host) {}
        void ready(std::uint32_t) override { host.listen_to(*this); }
        Admission& host;
        std::list<Stranger>::iterator self{};
        std::optional<SocketLoop::Timer> deadline{};
        Clock::time_point came = Clock::now();
        Admitted known{};
        std::string nonce{};  // ours; empty until the challenge is sent
        FrameParser parser{max_hello_size};
    };

    void ready(std::uint32_t events) override;
    void open();
    void receive_next(Socket socket, std::string from);
    void give_time(Stranger& stranger);
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
    std::optional<SocketLoop::Timer> pause_;  // while nobody is accepted: when to begin again
    std::size_t turned_away_ = 0;
    std::vector<std::string> examples_;  // some of those turned away
    std::string shortage_;               // why some connections could not be accepted; empty: all could
    bool lacks_descriptors_ = false;     // for the next guest
};

}  // namespace hocket::transport
