// Where objects lie: how requests for them are made there, and what the server's refusals mean.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/environment.hpp"
#include "runtime/cache/objects/transfers.hpp"
#include "runtime/cache/objects/url.hpp"

namespace hocket::cache {

// What a server's refusal means. Contains no secrets.
struct Refusal {
    std::string said;         // the server's own words, in one line
    std::string advice;       // what to do
    bool is_passing = false;  // the same request may succeed now
};

// Thread-safe.
class Site {
  public:
    virtual ~Site() = default;

    // name: of an object, relative to the site's URL; "": the object that the URL itself names. Throws what
    // find_s3_settings() throws.
    virtual Request request(std::string_view name) const = 0;
    // Lists the objects below the site's URL, from where the answer before this one has ended (token; "": the
    // first). Nothing if objects cannot be listed here.
    virtual std::optional<Request> list_request(std::string_view token) const = 0;
    // Names an object for people.
    virtual std::string shown(std::string_view name) const = 0;
    // answer: neither a success nor a failure of the network. key: the id with which the request was signed;
    // "": it was not. If there are other keys by now, the refusal of one that has expired is passing.
    virtual Refusal refusal(const Answer& answer, const std::string& key) = 0;
    // What to check where no answer comes.
    virtual std::string network_advice() { return "check the address, the network and the server"; }
    // Returns the name, relative to the site's URL, of an object in a list; "" if it is not below the URL.
    virtual std::string relative(std::string_view listed) const { return std::string(listed); }
};

// Returns what a server says in the body of a refusal, in one line, without the secrets. S3's refusals also
// have parts of signatures in them, which are left out.
std::string words_of(const std::string& body, const std::vector<std::string>& secrets = {});

// is_folder: names are those of objects below the URL, which need not end with '/'. Throws
// Error(invalid_argument).
std::unique_ptr<Site> open_site(const Url& url, bool is_folder, const Environment& environment);

std::unique_ptr<Site> open_http_site(const Url& url, bool is_folder);
std::unique_ptr<Site> open_s3_site(const Url& url, bool is_folder, const Environment& environment);

}  // namespace hocket::cache
