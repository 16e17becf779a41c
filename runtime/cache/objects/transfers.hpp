// HTTP requests, many at once, on one thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "runtime/cache/objects/curl.hpp"

namespace hocket::cache {

// Makes a signature of Amazon's version 4.
struct Signer {
    std::string scope;  // as CURLOPT_AWS_SIGV4: "aws:amz:eu-central-1:s3"
    std::string id, secret;
};

struct Range {
    std::uint64_t offset, bytes;  // bytes: not 0
    bool operator==(const Range&) const = default;
};

struct Request {
    std::string url;
    std::vector<std::string> headers = {};  // "Name: value"
    std::optional<Signer> signer = std::nullopt;
    std::optional<Range> range = std::nullopt;
    const char* method = "GET";
    std::string body = {};         // of a form, with "POST"
    bool follow = false;           // redirections
    bool is_direct = false;        // by no proxy
    std::span<std::byte> to = {};  // where the body of a success goes; must stay valid until the answer
    std::size_t most_text = 0;     // instead of `to`: the body goes to Answer::text, up to this
};

struct Answer {
    int status = 0;                              // of HTTP; 0: none came
    std::map<std::string, std::string> headers;  // of the last response; names in lower case
    std::uint64_t bytes = 0;                     // of the body, put where the request says
    bool is_too_long = false;                    // the body had more bytes than there was room for
    std::string text;                            // the body, if it is not in `to`; of an error its beginning
    std::string failure;      // why no answer, or not all of it, came, in words; "" if everything came
    bool is_lasting = false;  // the failure will be the same another time (such as a wrong certificate)
    bool was_ended = false;   // by ~Transfers or end()

    const std::string& header(const std::string& name) const;  // "" if there is none
};

// Of one Transfers at once, unless limit() says otherwise.
constexpr unsigned usual_transfers = 256;

// Thread-safe.
class Transfers {
  public:
    using Clock = std::chrono::steady_clock;
    using Done = std::function<void(Answer)>;

    Transfers();   // starts the thread; throws what curl() throws, and Error(out_of_memory)
    ~Transfers();  // end()
    Transfers(const Transfers&) = delete;

    // Makes the request at the time `when`, but not before now, and not while as many are under way as may
    // be. Calls done, which must not throw, on the thread of the transfers, at the latest soon after the
    // deadline. A request over which nothing has come for `patience`, since it was made, ends as failed.
    void start(Request request, Clock::time_point when, Clock::time_point deadline,
               std::chrono::milliseconds patience, Done done);

    // How many may be under way at once, each with a connection of its own; at least 1.
    void limit(unsigned most) { most_running_ = most; }

    // Ends what is under way, and what is started later, with was_ended. Returns at once.
    void end();
    bool has_ended();  // end() was called

  private:
    struct Transfer;
    struct MultiFree {
        void operator()(CURLM* multi) const { curl().multi_cleanup(multi); }
    };

    void run();
    bool take_news();
    void begin_due();
    void begin(std::unique_ptr<Transfer> transfer);
    void finish_completed();
    void finish_silent();
    void finish_overdue(Clock::time_point now);
    void finish(CURL* easy);
    void end_all();
    bool is_full() const { return running_.size() >= most_running_; }
    int milliseconds_to_sleep() const;

    const std::unique_ptr<CURLM, MultiFree> multi_;

    // Used only on the thread.
    std::multimap<Clock::time_point, std::unique_ptr<Transfer>>
        waiting_;  // until their time has come, and others have ended
    std::map<CURL*, std::unique_ptr<Transfer>> running_;
    Clock::time_point looked_{};  // when the silent ones were looked for

    std::atomic<unsigned> most_running_ = usual_transfers;

    std::mutex mutex_;
    std::vector<std::unique_ptr<Transfer>> new_;
    bool is_ending_ = false;

    std::thread thread_;
};

}  // namespace hocket::cache
