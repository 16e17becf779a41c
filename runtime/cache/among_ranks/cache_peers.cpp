#include "runtime/cache/among_ranks/cache_peers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <new>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/environment.hpp"
#include "runtime/cache/peers/service.hpp"
#include "runtime/transport/net/listening.hpp"
#include "runtime/transport/net/socket.hpp"

namespace hocket::cache {
namespace {

using transport::Endpoint;

constexpr auto patience = std::chrono::seconds(10);  // with the name server

// The introduction that a rank sends to the others: "+IDENTITY\nHOST\nPORT", or "-STATUS\nTEXT".
struct Introduction {
    std::optional<Error> error;
    std::string identity;
    Endpoint at;
};

std::string encode_introduction(const Introduction& own) {
    if (own.error) return fmt::format("-{}\n{}", static_cast<int>(own.error->status()), own.error->what());
    return fmt::format("+{}\n{}\n{}", own.identity, own.at.host, own.at.port);
}

Introduction decode_introduction(std::string_view text) {
    const auto line = [&] {
        const std::size_t end = std::min(text.find('\n'), text.size());
        const std::string_view first = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        return first;
    };
    const auto number = [](std::string_view digits) {
        int value = 0;
        std::from_chars(digits.data(), digits.data() + digits.size(), value);
        return value;
    };
    const bool failed = text.starts_with('-');
    text.remove_prefix(std::min<std::size_t>(1, text.size()));
    if (failed) {
        const int status = number(line());
        return {Error(static_cast<Status>(status), std::string(text)), {}, {}};
    }
    Introduction other;
    other.identity = line();
    other.at.host = line();
    other.at.port = number(line());
    return other;
}

std::unique_ptr<PeerService> service_of(Cache& cache, int self, const std::string& secret,
                                        transport::Socket listener, bool decoded) {
    return std::make_unique<PeerService>(PeerServiceOptions{.self = self,
                                                            .secret = secret,
                                                            .identity = cache.identity(decoded),
                                                            .answerer = &cache.answerer(),
                                                            .listener = std::move(listener)});
}

[[noreturn]] void another_failed(int rank, const Error& error) {
    throw Error(error.status(), fmt::format("rank {} could not open its cache: {}", rank, error.what()));
}

[[noreturn]] void identities_differ(int rank, const Introduction& other, int own_rank,
                                    const Introduction& own) {
    throw Error(
        Status::mismatch,
        fmt::format(
            "the ranks' caches hold different samples: rank {} has {}, rank {} has {}; source, dataset "
            "and decoder must be the same on all ranks",
            rank, other.identity, own_rank, own.identity));
}

std::string secret_or_default(const std::string& secret) {
    const Environment environment = process_environment();
    const std::string found =
        secret.empty() ? EnvironmentReader(environment).text("HOCKET_SECRET").value_or("") : secret;
    if (found.empty())
        throw Error(Status::invalid_argument,
                    "caches that exchange samples need a secret: set HOCKET_SECRET (or "
                    "hkt_cache_options.secret) to the same text wherever they run");
    return found;
}

std::vector<Endpoint> parse_servers(std::string_view text) {
    std::vector<Endpoint> servers;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find(','), text.size());
        const std::string_view one = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        auto server = transport::Endpoint::parse(one);
        if (!server || server->port == 0)
            throw Error(
                Status::invalid_argument,
                fmt::format("\"{}\" is no server of samples; HOCKET_CACHE_SERVERS "
                            "(hkt_cache_options.servers) is a list such as \"10.0.0.4:7000,[fd00::5]:7000\"",
                            one));
        servers.push_back(std::move(*server));
    }
    return servers;
}

}  // namespace

std::unique_ptr<cache::Cache> open_with_ranks(engine::Communicator& communicator,
                                              const std::function<std::unique_ptr<cache::Cache>()>& make) {
    if (communicator.size() == 1) return make();
    std::unique_ptr<cache::Cache> cache;
    std::unique_ptr<PeerService> service;
    Introduction own;
    const int rank = communicator.rank();
    try {
        cache = make();
        service = service_of(*cache, rank, communicator.options().secret,
                             transport::listen_on({communicator.connections().own_address(), 0},
                                                  transport::Clock::now() + patience,
                                                  "HOCKET_FABRIC_ADDR chooses one of this host's addresses"),
                             true);
        own.identity = cache->identity(true);
        own.at = service->endpoint();
    } catch (const Error& error) {
        own.error = error;
    } catch (const std::bad_alloc&) {
        own.error.emplace(Status::out_of_memory, "out of memory");
    } catch (const std::exception& error) {
        own.error.emplace(Status::internal,
                          fmt::format("a defect in Hocket, please report it: {}", error.what()));
    }
    // A rank that has failed tells the others, so that none waits for it.
    std::vector<Endpoint> endpoints;
    int next = 0;
    std::optional<Error> failure = own.error;
    const std::vector<std::string> answers =
        communicator.exchanges().exchange(encode_introduction(own), "hkt_cache_open");
    for (const std::string& answer : answers) {
        const Introduction other = decode_introduction(answer);
        const int from = next++;
        if (failure) continue;
        if (other.error) another_failed(from, *other.error);
        if (other.identity != own.identity) identities_differ(from, other, rank, own);
        endpoints.push_back(other.at);
    }
    if (failure) throw *failure;
    service->connect(std::move(endpoints));
    cache->set_peers(std::move(service), false);
    return cache;
}

void join_servers(Cache& cache, const std::string& servers, const std::string& secret) {
    const Environment environment = process_environment();
    const std::string given =
        servers.empty() ? EnvironmentReader(environment).text("HOCKET_CACHE_SERVERS").value_or("") : servers;
    if (given.empty()) return;
    auto service = std::make_unique<PeerService>(
        PeerServiceOptions{.secret = secret_or_default(secret), .identity = cache.identity(false)});
    service->connect(parse_servers(given));
    cache.set_peers(std::move(service), true);
}

int serve(Cache& cache, const std::string& host, int port, const std::string& secret) {
    if (cache.options().decode)
        throw Error(Status::invalid_argument,
                    "hkt_cache_serve: a cache that serves gives encoded samples, which those who ask decode: "
                    "open it without a decoder");
    auto service = service_of(
        cache, -1, secret_or_default(secret),
        transport::listen_for_others({host, port}, transport::Clock::now() + patience,
                                     "it must be an address of this host, or ::, which is all of them, and a "
                                     "port that nobody else uses"),
        false);
    const int bound = service->endpoint().port;
    cache.add_guests(std::move(service));
    return bound;
}

}  // namespace hocket::cache
