#include "runtime/cache/peers/service.hpp"

#include <fmt/format.h>
#include <sys/epoll.h>

#include <algorithm>
#include <utility>

#include "runtime/base/thread.hpp"
#include "runtime/transport/net/own_address.hpp"

namespace hocket::cache {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds longest_patience{UINT32_MAX};

transport::Endpoint endpoint_of(const transport::Socket& listener) {
    if (!listener.is_open()) return {"", 0};
    auto at = transport::bound_to(listener);
    if (!at)
        throw Error(Status::invalid_argument, "the socket that peers are to connect to is not one of TCP");
    if (at->is_any_address()) at->host = transport::own_address();
    return *at;
}

PeerServiceOptions checked(PeerServiceOptions options) {
    if (options.identity.size() > transport::max_identity_size)
        throw Error(Status::invalid_argument,
                    fmt::format("the identity of the dataset has {} bytes, at most {} are allowed; hash it",
                                options.identity.size(), transport::max_identity_size));
    if (options.answerer == nullptr) options.listener.close();
    return options;
}

}  // namespace

PeerService::PeerService(PeerServiceOptions options)
    : options_(checked(std::move(options))),
      endpoint_(endpoint_of(options_.listener)),
      mailbox_(std::make_shared<transport::Mailbox>()) {
    loop_.watch(mailbox_->fd(), EPOLLIN, *mailbox_);
    if (options_.listener.is_open()) {
        transport::AdmissionTerms terms;
        terms.host = "the data cache";
        terms.secret = peer_handshake_key(options_.secret);
        terms.wrong_secret = "wrong secret (HOCKET_SECRET must be the same in all processes of a job)";
        terms.admit = [this](transport::Admitted admitted) { admit(std::move(admitted)); };
        admission_ = std::make_unique<transport::Admission>(loop_, options_.listener.fd(), std::move(terms));
    }
    thread_ = start_thread("hkt-peers", [this] { run(); });
}

PeerService::~PeerService() {
    is_leaving_ = true;
    mailbox_->post([] {});
    thread_.join();
}

void PeerService::connect(std::vector<transport::Endpoint> peers) {
    const char* kind = options_.self < 0 ? "server" : "rank";
    for (transport::Endpoint& at : peers) {
        std::string name = fmt::format("{} {} ({})", kind, clients_.size(), at.text());
        transport::Dial dial{.to = std::move(at),
                             .secret = peer_handshake_key(options_.secret),
                             .rank = static_cast<std::uint32_t>(options_.self),
                             .world_size = static_cast<std::uint32_t>(peers.size()),
                             .identity = options_.identity};
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

void PeerService::ask(int peer, std::uint64_t key, std::chrono::milliseconds timeout, SampleAsker& asker) {
    post(peer, {key, std::nullopt, timeout, {}, &asker});
}

void PeerService::offer(int peer, std::uint64_t key, std::span<const std::byte> bytes,
                        std::chrono::milliseconds timeout, SampleAsker& asker) {
    post(peer, {key, bytes, timeout, {}, &asker});
}

void PeerService::post(int peer, PeerClient::Question question) {
    PeerClient& asked = client(peer);
    question.patience = std::clamp(question.patience, 0ms, longest_patience);
    question.deadline = transport::Clock::now() + question.patience;
    mailbox_->post([&asked, question] { asked.ask(question); });
}

// If the connections can no longer be served, new questions are still answered.
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
        loop_.turn(mailbox_->is_empty() ? transport::Clock::time_point::max()
                                        : transport::Clock::time_point::min());
    }
}

void PeerService::end(const std::string& why) {
    admission_.reset();
    options_.listener.close();
    for (auto& [number, guest] : guests_) guest->close();
    guests_.clear();
    for (auto& client : clients_) client->stop_dialling();
    for (auto& client : clients_) client->close(why);
}

// The guest is destroyed through the mailbox, so that none of its functions is running then.
void PeerService::admit(transport::Admitted admitted) {
    const std::uint64_t number = next_guest_++;
    guests_[number] = std::make_shared<PeerGuest>(
        loop_, mailbox_, *options_.answerer, options_.identity, std::move(admitted),
        [this, number] { mailbox_->post([this, number] { guests_.erase(number); }); });
}

}  // namespace hocket::cache
