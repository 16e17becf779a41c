// The host's side of new connections: guests that know the secret are admitted, all others are turned away.
//
// A stranger delays no guest, and takes neither memory nor descriptors from others. The host serves at most
// most_strangers() at once, each for at most 5 s and the bytes of a handshake. When there are too many, the
// oldest is dropped; if it was a guest after all, it has to come again (dial.hpp does). All that are dropped
// are logged to stderr with the reason, up to a number of lines.
#pragma once

#include <functional>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "runtime/transport/net/handshake.hpp"
#include "runtime/transport/net/socket_loop.hpp"

namespace hocket::transport {

// A guest that this process has admitted.
struct Admitted {
    Socket socket;  // no byte after the handshake has been read
    std::string from;
    Hello hello;
};

struct AdmissionTerms {
    std::string host;                                 // for people: "rank 0"
    std::string secret;                               // guests must know it; never sent
    std::string wrong_secret;                         // the answer to a guest with another secret
    std::function<void(Admitted)> admit;              // called for a guest that is admitted
    std::function<std::string(const Hello&)> refuse;  // returns why a guest is refused; "": it is admitted
    bool is_quiet = false;                            // refusals are not logged
    bool encrypts = encrypts_connections();           // guests must have the same
};

// For use on the loop's thread only.
class Admission final : private SocketLoop::Watcher {
  public:
    // Begins at once. listener: must outlive this object. Throws Error(transport).
    Admission(SocketLoop& loop, int listener, AdmissionTerms terms);
    ~Admission();  // closes the connections that were not admitted
    Admission(const Admission&) = delete;

    // Restarts the time of all connections that were not admitted, because the loop did not run meanwhile.
    void begin_again();

    // Refuses all connections that were not admitted; they are not logged.
    void refuse_all(const std::string& why);

    // Throws Error(transport) if the latest connection could not be accepted for lack of descriptors, and no
    // stranger holds one that could be freed: this process needs more of them. Each call may find a new
    // connection.
    void require_descriptors() const;

    // Returns lines for the text about ranks that did not come: the connections that were turned away
    // meanwhile, and those that could not be accepted. Each line begins with a line break.
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
        KeyHalves own{};          // if connections are encrypted
        std::string challenge{};  // its payload; empty until it is sent
        Cipher cipher = Cipher::none;
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
    std::optional<SocketLoop::Timer> pause_;  // while no connection is accepted: when to begin again
    std::size_t turned_away_ = 0;
    std::vector<std::string> examples_;  // some of the connections turned away
    std::string shortage_;               // why some connections could not be accepted; empty: none failed
    bool lacks_descriptors_ = false;     // for the next connection
};

}  // namespace hocket::transport
