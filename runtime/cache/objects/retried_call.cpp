#include "runtime/cache/objects/retried_call.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

namespace hocket::cache {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds shortest_backoff = 50ms, longest_backoff = 10s, shortest_silence = 1s;
constexpr unsigned most_damaged = 4;

std::chrono::milliseconds drawn_pause(unsigned attempts) {
    thread_local std::minstd_rand random{std::random_device{}()};
    const std::chrono::milliseconds most =
        std::min(longest_backoff, shortest_backoff * (1 << std::min(attempts, 8u)));
    return std::chrono::milliseconds(
        std::uniform_int_distribution<std::int64_t>(most.count() / 2, most.count())(random));
}

// Returns the pause that the server asks for; zero if it asks for none.
std::chrono::milliseconds asked_pause(const Answer& answer) {
    const std::string& text = answer.header("retry-after");
    std::int64_t seconds = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
    const bool is_number = error == std::errc() && end == text.data() + text.size();  // and not a date
    return is_number && seconds > 0 && seconds < 3600 ? std::chrono::milliseconds(seconds * 1000)
                                                      : std::chrono::milliseconds(0);
}

bool is_passing_status(int status) {
    return status == 408 || status == 429 || status >= 500;
}

class RetriedCall : public std::enable_shared_from_this<RetriedCall> {
  public:
    RetriedCall(Transfers& transfers, Site& site, CallOptions options)
        : transfers_(transfers), site_(site), options_(std::move(options)), begun_(Transfers::Clock::now()) {}

    void start(Transfers::Clock::time_point when) {
        try {
            // A connection that has died silently must leave time for others.
            const auto patience = std::max(
                shortest_silence,
                std::chrono::duration_cast<std::chrono::milliseconds>(options_.deadline - begun_) / 8);
            Request request = options_.make();
            asks_for_range_ = request.range.has_value();
            key_ = request.signer ? request.signer->id : "";
            transfers_.start(std::move(request), when, options_.deadline, patience,
                             [self = shared_from_this()](Answer answer) { self->look(std::move(answer)); });
        } catch (const Error& error) {
            options_.done({}, error);
        }
    }

  private:
    void look(Answer answer) {
        ++attempts_;
        try {
            judge(std::move(answer));
        } catch (const Error& error) {
            options_.done({}, error);
        } catch (const std::exception& error) {
            options_.done({}, Error(Status::io, fmt::format("{}: {}", options_.shown, error.what())));
        }
    }

    void judge(Answer answer) {
        if (answer.was_ended) return fail(Status::aborted, "the cache is closing");
        // Before the status: that of a redirection that was not followed is no refusal.
        if (answer.is_lasting) return fail(Status::io, answer.failure);
        const bool has_refused = answer.status >= 300 || (answer.status != 0 && answer.status < 200);
        if (has_refused && answer.status != options_.judged_status) return refused(answer);
        const bool is_cut = !answer.failure.empty() && !answer.is_too_long && !is_of_other_form(answer);
        if (is_cut) return again(answer, answer.failure);
        const Verdict verdict = options_.judge(answer);
        if (verdict.kind == Verdict::Kind::right) return options_.done(std::move(answer), std::nullopt);
        const bool is_final = verdict.kind == Verdict::Kind::final || ++damaged_ >= most_damaged;
        if (is_final) return fail(Status::io, verdict.why);
        again(answer, verdict.why);
    }

    // A whole object came instead of a range. The transfer was ended then.
    bool is_of_other_form(const Answer& answer) const { return answer.status == 200 && asks_for_range_; }

    void refused(const Answer& answer) {
        const Refusal refusal = site_.refusal(answer, key_);
        const std::string said = refusal.said.empty() ? "" : " (" + refusal.said + ")";
        const std::string what = fmt::format("the server answered {}{}", answer.status, said);
        if (is_passing_status(answer.status) || refusal.is_passing) return again(answer, what);
        const bool is_shorter = answer.status == 416 && asks_for_range_;
        if (answer.status == 412 || is_shorter)
            return fail(Status::io, "it has changed since the source was opened; open it again");
        const bool is_missing = answer.status == 404 || answer.status == 410;
        fail(is_missing ? Status::not_found : Status::io, fmt::format("{}: {}", what, refusal.advice));
    }

    void again(const Answer& answer, const std::string& why) {
        const auto when = Transfers::Clock::now() + std::max(drawn_pause(attempts_), asked_pause(answer));
        if (attempts_ >= options_.most_attempts)
            return fail(Status::io, fmt::format("{}; {} attempts have failed; {}", why, attempts_,
                                                site_.network_advice()));
        if (when >= options_.deadline)
            return fail(Status::timeout,
                        fmt::format("{}; no time is left for another attempt after {} in {} ms; {}, or allow "
                                    "more time (HOCKET_TIMEOUT_MS)",
                                    why, attempts_,
                                    std::chrono::duration_cast<std::chrono::milliseconds>(
                                        Transfers::Clock::now() - begun_)
                                        .count(),
                                    site_.network_advice()));
        start(when);
    }

    void fail(Status status, const std::string& why) {
        options_.done({}, Error(status, fmt::format("{}: {}", options_.shown, why)));
    }

    Transfers& transfers_;
    Site& site_;
    const CallOptions options_;
    const Transfers::Clock::time_point begun_;
    bool asks_for_range_ = false;
    std::string key_;  // with which the request was signed
    unsigned attempts_ = 0, damaged_ = 0;
};

}  // namespace

void start_call(Transfers& transfers, Site& site, CallOptions options) {
    std::make_shared<RetriedCall>(transfers, site, std::move(options))->start(Transfers::Clock::now());
}

}  // namespace hocket::cache
