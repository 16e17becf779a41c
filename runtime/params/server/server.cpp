#include "runtime/params/server/server.hpp"

#include <utility>

#include "runtime/params/server/server_service.hpp"

namespace hocket::params {

Server::Server(ServerOptions options) : service_(std::make_unique<ServerService>(std::move(options))) {}
Server::~Server() = default;

transport::Endpoint Server::endpoint() const {
    return service_->endpoint();
}
bool Server::wait(transport::Clock::time_point until) {
    return service_->wait(until);
}
void Server::finish() {
    service_->finish();
}
void Server::checkpoint() {
    service_->checkpoint();
}
std::string Server::stats() const {
    return service_->stats();
}

}  // namespace hocket::params
