#include "runtime/cache/peers/service.hpp"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "runtime/net/own_address.hpp"
#include "runtime/thread.hpp"

namespace hocket::transport {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds longest_patience{UINT32_MAX};

bool is_any(const sockaddr_storage& address) {
    return address.ss_family == AF_INET
               ? reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr == INADDR_ANY
               : IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
}

Endpoint endpoint_of(const Socket& listener) {
    if (!listener.is_open()) return {"", 0};
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    char host[NI_MAXHOST], port[NI_MAXSERV];
    if (getsockname(listener.fd(), reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
        getnameinfo(reinterpret_cast<sockaddr*>(&address), size, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        throw Error(Status::invalid_argument, "the socket that peers are to connect to is not one of TCP");
    return {is_any(address) ? reachable_address() : host, std::atoi(port)};
}

PeerServiceOptions checked(PeerServiceOptions options) {
    if (options.identity.size() > max_peer_identity)
        throw Error(Status::invalid_argument,
                    fmt::format("the identity of the dataset has {} bytes, at most {} are allowed; hash it",
                                options.identity.size(), max_peer_identity));
    if (options.answerer == nullptr) options.listener.close();
    return options;
}

}  // namespace

PeerService::PeerService(PeerServiceOptions options)
    : options_(checked(std::move(options))),
      endpoint_(endpoint_of(options_.listener)),
      mailbox_(std::make_shared<PeerMailbox>()) {
    loop_.watch(mailbox_->fd(), EPOLLIN, *mailbox_);
    if (options_.listener.is_open()) {
        reception_ = std::make_unique<PeerReception>(
            loop_, std::move(options_.listener), options_.secret,
            [this](PeerReception::Admitted admitted) { admit(std::move(admitted)); });
        reception_->open();
    }
    thread_ = start_thread("hkt-peers", [this] { run(); });
}

PeerService::~PeerService() {
    is_leaving_ = true;
    mailbox_->post([] {});
    thread_.join();
}

void PeerService::connect(std::vector<Endpoint> peers) {
    const char* kind = options_.self < 0 ? "server" : "rank";
    for (Endpoint& at : peers) {
        std::string name = fmt::format("{} {} ({})", kind, clients_.size(), at.text());
        PeerDial dial{std::move(at), options_.secret, static_cast<std::uint32_t>(options_.self),
                      static_cast<std::uint32_t>(peers.size()), options_.identity};
        clients_.push_back(std::make_unique<PeerClient>(loop_, *mailbox_, std::move(dial), std::move(name)));
    }
}

PeerClient& PeerService::client(int peer) const {
    if (peer < 0 || peer >= count())
        throw Error(Status::invalid_argument,
                    fmt::format("there is no peer {}, only 0 to {}", peer, count() - 1));
    return *clients_[static_cast<std::size_t>(peer)];
}

std::string PeerService::name(int peer) const {
    return client(peer).name();
}

bool PeerService::is_down(int peer) const {
    return client(peer).is_down();
}

void PeerService::ask(int peer, std::uint64_t key, std::chrono::milliseconds timeout, Asker& asker) {
    post(peer, {key, std::nullopt, timeout, {}, &asker});
}

void PeerService::offer(int peer, std::uint64_t key, std::span<const std::byte> bytes,
                        std::chrono::milliseconds timeout, Asker& asker) {
    post(peer, {key, bytes, timeout, {}, &asker});
}

void PeerService::post(int peer, PeerClient::Question question) {
    PeerClient& asked = client(peer);
    question.patience = std::clamp(question.patience, 0ms, longest_patience);
    question.deadline = Clock::now() + question.patience;
    mailbox_->post([&asked, question] { asked.ask(question); });
}

// What cannot be served any more is not left unanswered.
void PeerService::run() {
    mailbox_->attend();
    try {
        serve();
        end("this process closes its cache");
    } catch (const std::exception& error) {
        end(fmt::format("its connections could not be served any more: {}", error.what()));
    }
    while (!is_leaving_ || !mailbox_->close()) {
        mailbox_->empty();
        if (!is_leaving_ && mailbox_->is_empty()) mailbox_->wait();
    }
}

void PeerService::serve() {
    while (!is_leaving_) {
        mailbox_->empty();
        loop_.turn(mailbox_->is_empty());
    }
}

void PeerService::end(const std::string& why) {
    reception_.reset();
    for (auto& [number, guest] : guests_) guest->close();
    guests_.clear();
    for (auto& client : clients_) client->stop_dialling();
    for (auto& client : clients_) client->close(why);
}

// The guest goes when nothing of it runs any more.
void PeerService::admit(PeerReception::Admitted admitted) {
    const std::uint64_t number = next_guest_++;
    guests_[number] = std::make_shared<PeerGuest>(
        loop_, mailbox_, *options_.answerer, options_.identity, std::move(admitted),
        [this, number] { mailbox_->post([this, number] { guests_.erase(number); }); });
}

}  // namespace hocket::transport
