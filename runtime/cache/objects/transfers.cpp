#include "runtime/cache/objects/transfers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string_view>
#include <utility>

#include "runtime/base/error.hpp"
#include "runtime/base/thread.hpp"

namespace hocket::cache {
namespace {

using namespace std::chrono_literals;
using namespace std::string_view_literals;

constexpr std::size_t most_error_text = 16 << 10;
constexpr long most_idle_connections = 1024, most_redirections = 10;
constexpr std::chrono::milliseconds between_looks_at_silence =
    50ms;  // for transfers over which nothing comes

bool has_body_of_object(int status) {
    return status == 200 || status == 206;
}

bool is_lasting(CURLcode code) {
    switch (code) {
        case CURLE_UNSUPPORTED_PROTOCOL:
        case CURLE_URL_MALFORMAT:
        case CURLE_NOT_BUILT_IN:
        case CURLE_BAD_FUNCTION_ARGUMENT:
        case CURLE_TOO_MANY_REDIRECTS:
        case CURLE_PEER_FAILED_VERIFICATION:
        case CURLE_SSL_CACERT_BADFILE:
        case CURLE_SSL_CERTPROBLEM:
        case CURLE_SSL_ENGINE_NOTFOUND:
            return true;
        default:
            return false;
    }
}

// The variables of which a failure is, for its text.
const char* hint_of(CURLcode code) {
    switch (code) {
        case CURLE_PEER_FAILED_VERIFICATION:
            return "; if its certificate is signed by an authority of your own, set CURL_CA_BUNDLE to a file "
                   "with the "
                   "certificates to trust";
        case CURLE_SSL_CACERT_BADFILE:
            return "; the file with the certificates to trust is that of CURL_CA_BUNDLE, or else "
                   "AWS_CA_BUNDLE";
        default:
            return "";
    }
}

// curl's own words about a proxy have its URL in them, with the password.
std::string failure_of(CURLcode code, const char* said) {
    if (*said == '\0') return curl().easy_strerror(code);
    if (std::string_view(said).find("roxy") == std::string_view::npos) return said;
    return fmt::format("{} (the proxy is that of https_proxy, http_proxy or all_proxy)",
                       curl().easy_strerror(code));
}

}  // namespace

const std::string& Answer::header(const std::string& name) const {
    static const std::string none;
    const auto found = headers.find(name);
    return found == headers.end() ? none : found->second;
}

// Must not move while it is running.
struct Transfers::Transfer {
    struct EasyFree {
        void operator()(CURL* easy) const { curl().easy_cleanup(easy); }
    };
    struct ListFree {
        void operator()(curl_slist* list) const { curl().slist_free_all(list); }
    };

    Request request;
    Clock::time_point when, deadline;
    std::chrono::milliseconds patience;
    Done done;

    std::unique_ptr<CURL, EasyFree> easy = nullptr;
    std::unique_ptr<curl_slist, ListFree> headers = nullptr;
    std::array<char, CURL_ERROR_SIZE> error = {};
    Answer answer = {};
    Clock::time_point heard = {};  // when something came last

    void prepare();  // throws std::bad_alloc, and Error if libcurl refuses a part of it
    bool take_body(std::string_view piece);
    void take_header(std::string_view line);
    void end(CURLcode code);

  private:
    template <typename Value>
    void set(CURLoption option, Value value);
    void set_signer();
    void set_headers();
};

void Transfers::Transfer::prepare() {
    easy.reset(curl().easy_init());
    if (!easy) throw std::bad_alloc();
    heard = Clock::now();
    set(CURLOPT_URL, request.url.c_str());
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_PATH_AS_IS, 1L);  // keys of objects may contain ".."
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_QUICK_EXIT, 1L);  // else the end of a transfer waits for the resolver
    set(CURLOPT_ERRORBUFFER, error.data());
    set(CURLOPT_USERAGENT, "hocket");
    // A connection for each: with one for all, a lost packet would hold up all of them.
    set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
    set(CURLOPT_TCP_KEEPALIVE, 1L);
    set(CURLOPT_BUFFERSIZE, 256L << 10);
    if (request.follow) {
        set(CURLOPT_FOLLOWLOCATION, 1L);
        set(CURLOPT_MAXREDIRS, most_redirections);
        set(CURLOPT_REDIR_PROTOCOLS_STR, request.url.starts_with("https") ? "https" : "http,https");
    }
    for (const char* name : {"AWS_CA_BUNDLE", "CURL_CA_BUNDLE"})
        if (const char* file = std::getenv(name); file != nullptr && *file != '\0') set(CURLOPT_CAINFO, file);
    if (request.range) {
        const auto [offset, bytes] = *request.range;
        set(CURLOPT_RANGE, fmt::format("{}-{}", offset, offset + bytes - 1).c_str());
    }
    if (request.method == "POST"sv) {
        set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
        set(CURLOPT_POSTFIELDS, request.body.c_str());
    }
    set(CURLOPT_CUSTOMREQUEST, request.method);
    if (request.is_direct) set(CURLOPT_NOPROXY, "*");
    set_signer();
    set_headers();
    set(CURLOPT_WRITEDATA, this);
    set(CURLOPT_HEADERDATA, this);
    set(
        CURLOPT_WRITEFUNCTION, +[](char* data, std::size_t, std::size_t bytes, void* transfer) {
            return static_cast<Transfer*>(transfer)->take_body({data, bytes}) ? bytes : bytes + 1;
        });
    set(
        CURLOPT_HEADERFUNCTION, +[](char* data, std::size_t, std::size_t bytes, void* transfer) {
            static_cast<Transfer*>(transfer)->take_header({data, bytes});
            return bytes;
        });
}

template <typename Value>
void Transfers::Transfer::set(CURLoption option, Value value) {
    const CURLcode code = curl().set(easy.get(), option, value);
    if (code == CURLE_OUT_OF_MEMORY) throw std::bad_alloc();
    if (code == CURLE_OK) return;
    const char* const cannot = option == CURLOPT_AWS_SIGV4 ? "cannot sign requests" : "refuses a request";
    throw Error(Status::io, fmt::format("this libcurl {}: {} (option {}); give another one in HOCKET_CURL",
                                        cannot, curl().easy_strerror(code), static_cast<int>(option)));
}

// The secret comes last: without a signature, libcurl would send it as it is.
void Transfers::Transfer::set_signer() {
    if (!request.signer) return;
    set(CURLOPT_AWS_SIGV4, request.signer->scope.c_str());
    set(CURLOPT_USERNAME, request.signer->id.c_str());
    set(CURLOPT_PASSWORD, request.signer->secret.c_str());
}

void Transfers::Transfer::set_headers() {
    for (const std::string& header : request.headers) {
        curl_slist* const longer = curl().slist_append(headers.get(), header.c_str());
        if (longer == nullptr) throw std::bad_alloc();
        (void)headers.release();  // a part of the longer list now
        headers.reset(longer);
    }
    if (headers) set(CURLOPT_HTTPHEADER, headers.get());
}

// Returns false if there is no use in the rest of the body.
bool Transfers::Transfer::take_body(std::string_view piece) {
    heard = Clock::now();
    long status = 0;
    curl().get(easy.get(), CURLINFO_RESPONSE_CODE, &status);
    answer.status = static_cast<int>(status);
    if (!has_body_of_object(answer.status)) {
        answer.text += piece.substr(0, most_error_text - std::min(most_error_text, answer.text.size()));
        return true;
    }
    const bool is_wanted = (answer.status == 206) == request.range.has_value();
    const std::size_t room = request.most_text != 0 ? request.most_text : request.to.size();
    if (!is_wanted) return false;
    if (piece.size() > room - answer.bytes) {
        answer.is_too_long = true;
        return false;
    }
    if (request.most_text != 0)
        answer.text += piece;
    else
        std::memcpy(request.to.data() + answer.bytes, piece.data(), piece.size());
    answer.bytes += piece.size();
    return true;
}

void Transfers::Transfer::take_header(std::string_view line) {
    heard = Clock::now();
    if (line.starts_with("HTTP/")) {  // another response, after a redirection
        answer.headers.clear();
        return;
    }
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) return;
    std::string name(line.substr(0, colon));
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    std::string_view value = line.substr(colon + 1);
    value.remove_prefix(std::min(value.find_first_not_of(" \t"), value.size()));
    answer.headers[name] = value.substr(0, value.find_last_not_of(" \t\r\n") + 1);
}

void Transfers::Transfer::end(CURLcode code) {
    long status = 0;
    curl().get(easy.get(), CURLINFO_RESPONSE_CODE, &status);
    answer.status = static_cast<int>(status);
    if (code == CURLE_OK) return;
    answer.failure = failure_of(code, error.data()) + hint_of(code);
    const bool is_redirection = answer.status / 100 == 3;
    if (code == CURLE_UNSUPPORTED_PROTOCOL && is_redirection)
        answer.failure =
            "the server redirects to another protocol than HTTP, or from https to http, which would show it";
    answer.is_lasting = is_lasting(code);
}

Transfers::Transfers() : multi_(curl().multi_init()) {
    if (!multi_) throw std::bad_alloc();
    curl().set_multi(multi_.get(), CURLMOPT_MAXCONNECTS, most_idle_connections);
    thread_ = start_thread("hkt-cache-http", [this] { run(); });
}

Transfers::~Transfers() {
    end();
    thread_.join();
}

void Transfers::start(Request request, Clock::time_point when, Clock::time_point deadline,
                      std::chrono::milliseconds patience, Done done) {
    auto transfer = std::make_unique<Transfer>(Transfer{.request = std::move(request),
                                                        .when = when,
                                                        .deadline = deadline,
                                                        .patience = patience,
                                                        .done = std::move(done)});
    {
        const std::lock_guard lock(mutex_);
        if (!is_ending_) {
            new_.push_back(std::move(transfer));
            curl().multi_wakeup(multi_.get());
            return;
        }
    }
    transfer->answer.was_ended = true;
    transfer->done(std::move(transfer->answer));
}

void Transfers::end() {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
    curl().multi_wakeup(multi_.get());
}

bool Transfers::has_ended() {
    const std::lock_guard lock(mutex_);
    return is_ending_;
}

void Transfers::run() {
    while (take_news()) {
        begin_due();
        int running = 0;
        curl().multi_perform(multi_.get(), &running);
        finish_completed();
        finish_silent();
        curl().multi_poll(multi_.get(), nullptr, 0, milliseconds_to_sleep(), nullptr);
    }
    end_all();
}

// Returns false if everything shall end.
bool Transfers::take_news() {
    std::vector<std::unique_ptr<Transfer>> fresh;
    bool is_ending;
    {
        const std::lock_guard lock(mutex_);
        fresh.swap(new_);
        is_ending = is_ending_;
    }
    for (auto& transfer : fresh) waiting_.emplace(transfer->when, std::move(transfer));
    return !is_ending;
}

void Transfers::begin_due() {
    const auto now = Clock::now();
    while (!is_full() && !waiting_.empty() && waiting_.begin()->first <= now)
        begin(std::move(waiting_.extract(waiting_.begin()).mapped()));
}

void Transfers::begin(std::unique_ptr<Transfer> transfer) {
    try {
        transfer->prepare();
    } catch (const std::bad_alloc&) {
        transfer->answer.failure = "there is no memory for the request";
        transfer->done(std::move(transfer->answer));
        return;
    } catch (const Error& error) {
        transfer->answer.failure = error.what();
        transfer->answer.is_lasting = true;
        transfer->done(std::move(transfer->answer));
        return;
    }
    CURL* const easy = transfer->easy.get();
    running_.emplace(easy, std::move(transfer));
    if (const CURLMcode code = curl().multi_add_handle(multi_.get(), easy); code != CURLM_OK) {
        running_.at(easy)->answer.failure = curl().multi_strerror(code);
        finish(easy);
    }
}

void Transfers::finish_completed() {
    int left = 0;
    while (const CURLMsg* message = curl().multi_info_read(multi_.get(), &left)) {
        if (message->msg != CURLMSG_DONE) continue;
        CURL* const easy = message->easy_handle;
        running_.at(easy)->end(message->data.result);
        finish(easy);
    }
}

void Transfers::finish_silent() {
    const auto now = Clock::now();
    if (now < looked_ + between_looks_at_silence) return;
    looked_ = now;
    std::vector<CURL*> silent;
    for (const auto& [easy, transfer] : running_) {
        if (now >= transfer->deadline)
            transfer->answer.failure = "the time was up before all of it came";
        else if (now >= transfer->heard + transfer->patience)
            transfer->answer.failure = fmt::format("nothing came for {} ms", transfer->patience.count());
        if (!transfer->answer.failure.empty()) silent.push_back(easy);
    }
    for (CURL* easy : silent) finish(easy);
    finish_overdue(now);
}

// Those that waited for others until their time was up.
void Transfers::finish_overdue(Clock::time_point now) {
    for (auto at = waiting_.begin(); at != waiting_.end() && at->first <= now;) {
        const auto next = std::next(at);
        if (now >= at->second->deadline) {
            const std::unique_ptr<Transfer> transfer = std::move(waiting_.extract(at).mapped());
            transfer->answer.failure = "the time was up before others had ended, and it could begin";
            transfer->done(std::move(transfer->answer));
        }
        at = next;
    }
}

void Transfers::finish(CURL* easy) {
    curl().multi_remove_handle(multi_.get(), easy);
    const std::unique_ptr<Transfer> transfer = std::move(running_.extract(easy).mapped());
    transfer->done(std::move(transfer->answer));
}

// Nothing is added any more: start() refuses.
void Transfers::end_all() {
    take_news();
    while (!running_.empty()) {
        running_.begin()->second->answer.was_ended = true;
        finish(running_.begin()->first);
    }
    for (auto& [when, transfer] : waiting_) {
        transfer->answer.was_ended = true;
        transfer->done(std::move(transfer->answer));
    }
    waiting_.clear();
}

int Transfers::milliseconds_to_sleep() const {
    constexpr std::chrono::milliseconds longest = 10s;
    std::chrono::milliseconds time = running_.empty() ? longest : between_looks_at_silence;
    if (!waiting_.empty() && !is_full())
        time = std::min(time,
                        std::chrono::ceil<std::chrono::milliseconds>(waiting_.begin()->first - Clock::now()));
    return static_cast<int>(std::max(time, 0ms).count());
}

}  // namespace hocket::cache
