// For HOCKET_CURL: libcurl as it is without signatures for S3. For LD_PRELOAD: a resolver that never answers
// for never.invalid.
#define _GNU_SOURCE
#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>
#include <dlfcn.h>
#include <netdb.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#undef curl_easy_setopt
#pragma GCC visibility push(default)
CURLcode curl_easy_setopt(CURL* easy, CURLoption option, ...) {
    CURLcode (*real)(CURL*, CURLoption, ...) =
        (CURLcode(*)(CURL*, CURLoption, ...))dlsym(RTLD_NEXT, "curl_easy_setopt");
    if (option == CURLOPT_AWS_SIGV4) return CURLE_UNKNOWN_OPTION;
    va_list values;
    va_start(values, option);
    void* const value = va_arg(values, void*);  // numbers are as large
    va_end(values);
    return real(easy, option, value);
}

int getaddrinfo(const char* name, const char* service, const struct addrinfo* hints,
                struct addrinfo** found) {
    int (*real)(const char*, const char*, const struct addrinfo*, struct addrinfo**) = (int (*)(
        const char*, const char*, const struct addrinfo*, struct addrinfo**))dlsym(RTLD_NEXT, "getaddrinfo");
    while (name != NULL && strcmp(name, "never.invalid") == 0) pause();
    return real(name, service, hints, found);
}
#pragma GCC visibility pop
