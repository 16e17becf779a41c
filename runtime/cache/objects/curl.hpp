// libcurl, loaded when the first source with a URL is opened: with what it needs itself it is larger than
// Hocket.
#pragma once

#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>

namespace hocket::cache {

#define HOCKET_CURL_FUNCTIONS(X) \
    X(global_init)               \
    X(version_info)              \
    X(slist_append)              \
    X(slist_free_all)            \
    X(easy_init)                 \
    X(easy_cleanup)              \
    X(easy_strerror)             \
    X(multi_init)                \
    X(multi_cleanup)             \
    X(multi_add_handle)          \
    X(multi_remove_handle)       \
    X(multi_perform)             \
    X(multi_poll)                \
    X(multi_wakeup)              \
    X(multi_info_read)           \
    X(multi_strerror)

// curl_multi_perform is multi_perform, and so on. The functions with any number of arguments have their
// names from curl's macros, which would replace them.
struct Curl {
#define HOCKET_DECLARE(name) decltype(&curl_##name) name = nullptr;
    HOCKET_CURL_FUNCTIONS(HOCKET_DECLARE)
#undef HOCKET_DECLARE
    CURLcode (*set)(CURL*, CURLoption, ...) = nullptr;
    CURLcode (*get)(CURL*, CURLINFO, ...) = nullptr;
    CURLMcode (*set_multi)(CURLM*, CURLMoption, ...) = nullptr;
};

// Loads libcurl.so.4, or the file in HOCKET_CURL. It is never unloaded. Thread-safe. Throws Error(io) with
// the libraries that were tried, and why each was refused.
const Curl& curl();

}  // namespace hocket::cache
