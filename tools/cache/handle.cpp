#include "tools/cache/handle.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <stdexcept>

namespace hocket::cache_tool {

void check(hkt_status status, const char* what) {
    if (status < 0)
        throw std::runtime_error(
            fmt::format("{}: {} ({})", what, hkt_last_error(), hkt_error_string(status)));
}

Cache open_cache(const Options& options) {
    unsetenv("HOCKET_CACHE_SERVERS");  // hkt_cache_open would use it if the options name no servers
    const auto text = [](const std::string& value) { return value.empty() ? nullptr : value.c_str(); };
    hkt_cache_options wanted = HKT_CACHE_OPTIONS_INIT;
    wanted.folder = options.folder.c_str();
    wanted.source = options.source.c_str();
    wanted.source_index = text(options.index);
    wanted.dataset = text(options.dataset);
    wanted.servers = text(options.servers);
    wanted.disk_bytes = options.disk_bytes;
    wanted.memory_bytes = options.memory_bytes;
    wanted.depth = options.depth;
    wanted.store = HKT_CACHE_STORE_ALL;
    hkt_cache* cache = nullptr;
    check(hkt_cache_open(&wanted, &cache), "the cache cannot be opened");
    return Cache(cache);
}

hkt_cache_stats stats_of(hkt_cache* cache) {
    hkt_cache_stats stats{};
    check(hkt_cache_get_stats(cache, &stats, sizeof stats), "the cache's statistics cannot be had");
    return stats;
}

}  // namespace hocket::cache_tool
