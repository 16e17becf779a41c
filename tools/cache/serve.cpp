// hocket-cache serve: answers the questions of other hosts' caches.
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <ctime>
#include <stdexcept>

#include "runtime/cache/objects/url.hpp"
#include "tools/cache/commands.hpp"
#include "tools/cache/handle.hpp"
#include "tools/cache/texts.hpp"
#include "tools/tool.hpp"

namespace hocket::cache_tool {
namespace {

constexpr std::chrono::seconds status_every{10};

std::string address_text(const std::string& host, int port) {
    const bool is_ipv6 = host.find(':') != std::string::npos;
    return is_ipv6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

// Returns a name for clients, for a host that means all of this host's addresses.
std::string name_for_clients(const std::string& host) {
    if (host != "0.0.0.0" && host != "::") return host;
    char name[HOST_NAME_MAX + 1] = {};
    return gethostname(name, HOST_NAME_MAX) == 0 ? name : host;
}

// A URL may have a password in it, or a signature.
std::string without_secrets(const std::string& source) {
    return cache::is_url(source) ? cache::parse_url(source).shown() : source;
}

std::string status_text(const hkt_cache_stats& stats) {
    return fmt::format(
        "{} served; of this dataset {} on disk, {} in memory; {} failed; the folder takes up {}, with all "
        "datasets; {}",
        count_text(stats.served, "sample"), stats.disk_samples, stats.memory_samples, stats.failures,
        bytes_text(static_cast<double>(stats.disk_used)),
        *stats.trouble == '\0' ? "the disk is well" : stats.trouble);
}

}  // namespace

int serve(const Options& options, tools::Signals& signals) {
    const char* secret = std::getenv("HOCKET_SECRET");
    if (secret == nullptr || *secret == '\0')
        throw std::runtime_error(
            "HOCKET_SECRET is not set: clients prove by it that they may ask. Set it to the same text here "
            "and for them, say with: export HOCKET_SECRET=$(head -c 24 /dev/urandom | base64)");
    const Cache cache = open_cache(options);
    std::int32_t port = options.port;
    check(hkt_cache_serve(cache.get(), options.host.c_str(), options.port, secret, &port),
          fmt::format("cannot serve at {}", address_text(options.host, options.port)).c_str());
    fmt::print("serving {} of {} from {} at {}\n", count_text(hkt_cache_count(cache.get()), "sample"),
               without_secrets(options.source), options.folder, address_text(options.host, port));
    fmt::print("clients: HOCKET_CACHE_SERVERS={} and the same HOCKET_SECRET{}; stop with Ctrl-C\n",
               address_text(name_for_clients(options.host), port),
               options.dataset.empty() ? "" : fmt::format(", dataset \"{}\"", options.dataset));
    tools::flush_output();

    const bool is_terminal = isatty(STDOUT_FILENO) == 1;
    while (signals.wait(status_every) == 0) {
        if (!is_terminal) continue;
        fmt::print("{:%H:%M:%S}  {}\n", fmt::localtime(std::time(nullptr)),
                   status_text(stats_of(cache.get())));
        tools::flush_output();
    }
    fmt::print("ended; {}\n", status_text(stats_of(cache.get())));
    return 0;
}

}  // namespace hocket::cache_tool
