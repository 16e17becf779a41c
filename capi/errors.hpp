// How a call's failure becomes a status and a text.
#pragma once

#include <cstddef>
#include <exception>
#include <mutex>
#include <string>

#include "capi/hocket.h"

namespace hocket::capi {

// The text of a communicator's last failure: see hkt_comm_last_error. Thread-safe.
class LastError {
  public:
    void keep(const std::string& text);
    std::string text() const;

  private:
    mutable std::mutex mutex_;
    std::string text_;
};

// Keeps the error's text in `last`, or for hkt_last_error if that is null.
hkt_status keep_error(LastError* last, const std::exception& error) noexcept;
hkt_status keep_unknown_error(LastError* last) noexcept;

[[noreturn]] void refuse(const std::string& text);  // throws Error(invalid_argument)
// Refuses null, unless the count is 0.
void check_array(const void* array, std::size_t count, const char* function, const char* name);

std::string text_of(const char* value);  // null: ""

// Runs call(), which returns a status. No exception leaves.
template <typename Call>
hkt_status guarded(LastError* last, Call call) noexcept {
    try {
        return call();
    } catch (const std::exception& error) {
        return keep_error(last, error);
    } catch (...) {
        return keep_unknown_error(last);
    }
}
// The same, for a call that has no communicator.
template <typename Call>
hkt_status guarded(Call call) noexcept {
    return guarded(static_cast<LastError*>(nullptr), call);
}

}  // namespace hocket::capi
