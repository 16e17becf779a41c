#include "runtime/cache/objects/curl.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <string>
#include <type_traits>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/base/plugin.hpp"

namespace hocket::cache {
namespace {

// Older ones sign requests to S3 wrongly.
constexpr unsigned oldest_version = 0x075800;

[[noreturn]] void refuse_curl(const std::string& why) {
    throw Error(Status::io, fmt::format("samples cannot be fetched by URL: {}; install libcurl 7.88 or later "
                                        "(Debian: apt install libcurl4), or give its path in HOCKET_CURL",
                                        why));
}

std::vector<std::string> places() {
    const char* const chosen = std::getenv("HOCKET_CURL");
    if (chosen != nullptr && *chosen != '\0') return {chosen};
    return {"libcurl.so.4", "libcurl-gnutls.so.4"};
}

void* open_curl(std::string& name) {
    std::string reasons;
    for (const std::string& place : places()) {
        std::string why;
        name = place;
        if (void* const handle = open_library(place, why)) return handle;
        reasons += (reasons.empty() ? "" : "; ") + why;
    }
    refuse_curl(reasons);
}

Curl load_curl() {
    std::string name;
    void* const handle = open_curl(name);
    Curl curl;
    const auto find = [&](const char* symbol, auto& function) {
        function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, symbol));
        if (function == nullptr) refuse_curl(fmt::format("{} has no {}: it is older", name, symbol));
    };
#define HOCKET_FIND(function) find("curl_" #function, curl.function);
    HOCKET_CURL_FUNCTIONS(HOCKET_FIND)
#undef HOCKET_FIND
    find("curl_easy_setopt", curl.set);
    find("curl_easy_getinfo", curl.get);
    find("curl_multi_setopt", curl.set_multi);
    const curl_version_info_data& version = *curl.version_info(CURLVERSION_NOW);
    if (version.version_num < oldest_version)
        refuse_curl(fmt::format("{} has version {}", name, version.version));
    if (curl.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) refuse_curl(name + " cannot be initialized");
    return curl;
}

}  // namespace

const Curl& curl() {
    static const Curl loaded = load_curl();
    return loaded;
}

}  // namespace hocket::cache
