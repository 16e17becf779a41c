#include "runtime/cache/objects/key_keeper.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "runtime/base/error.hpp"
#include "runtime/base/thread.hpp"
#include "runtime/cache/objects/key_service.hpp"

namespace hocket::cache {
namespace {

using namespace std::chrono_literals;

// Before the end of keys, as services have others by then. Less where keys are short-lived.
constexpr std::chrono::seconds longest_before_end = 300s, between_attempts = 5s;

}  // namespace

KeyKeeper::KeyKeeper(Environment environment)
    : environment_(std::move(environment)), settings_(find_s3_settings(environment_)) {
    if (settings_.keys || !settings_.service) return;
    transfers_ = std::make_unique<Transfers>();
    if (auto keys = ask_for_keys(*settings_.service, *transfers_))
        take(std::move(*keys));
    else
        transfers_.reset();
}

KeyKeeper::~KeyKeeper() {
    if (transfers_) transfers_->end();
    if (renewal_.joinable()) renewal_.join();
}

S3Settings KeyKeeper::settings() {
    const std::lock_guard lock(mutex_);
    if (Clock::now() >= renewed_at_) begin_renewal();
    return settings_;
}

bool KeyKeeper::has_others_than(const std::string& id) {
    const std::lock_guard lock(mutex_);
    if (settings_.keys && settings_.keys->id != id) return true;
    if (transfers_) {
        if (has_failed_ && Clock::now() < renewed_at_) return false;
        begin_renewal();
        return true;
    }
    settings_ = find_s3_settings(environment_);
    return settings_.keys && settings_.keys->id != id;
}

void KeyKeeper::take(Keys keys) {
    const auto now = Clock::now();
    renewed_at_ = Clock::time_point::max();
    if (keys.until)
        renewed_at_ =
            *keys.until - std::min<Clock::duration>(longest_before_end,
                                                    std::max<Clock::duration>(*keys.until - now, 0s) / 4);
    // A service that gives keys which have ended is not asked without a pause.
    renewed_at_ = std::max(renewed_at_, now + 1s);
    settings_.keys = std::move(keys);
    has_failed_ = false;
}

void KeyKeeper::begin_renewal() {
    if (is_renewing_) return;
    if (renewal_.joinable()) renewal_.join();  // it has ended
    is_renewing_ = true;
    try {
        renewal_ = start_thread("hkt-keys", [this] { renew(); });
    } catch (const Error&) {  // no thread can be started now
        is_renewing_ = false;
    }
}

void KeyKeeper::renew() {
    std::optional<Keys> keys;
    try {
        keys = ask_for_keys(*settings_.service, *transfers_);
    } catch (const Error&) {  // the keys of now serve until they end; then the server's refusal says so
    }
    const std::lock_guard lock(mutex_);
    if (keys) {
        take(std::move(*keys));
    } else {
        has_failed_ = true;
        renewed_at_ = Clock::now() + between_attempts;
    }
    is_renewing_ = false;
}

}  // namespace hocket::cache
