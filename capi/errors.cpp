#include "capi/errors.hpp"

#include <fmt/format.h>

#include <string_view>

#include "dsl/base/readable.hpp"
#include "runtime/base/caught.hpp"
#include "runtime/base/error.hpp"
#include "runtime/base/status_text.hpp"

// The version is defined in meson.build. The header cannot ask Meson for it, so it repeats the numbers.
#define HOCKET_TEXT(number) #number
#define HOCKET_DOTTED(major, minor, patch) HOCKET_TEXT(major) "." HOCKET_TEXT(minor) "." HOCKET_TEXT(patch)
static_assert(std::string_view(HOCKET_VERSION) ==
                  HOCKET_DOTTED(HKT_VERSION_MAJOR, HKT_VERSION_MINOR, HKT_VERSION_PATCH),
              "HKT_VERSION_MAJOR, _MINOR and _PATCH in hocket.h are not the version in meson.build");

namespace hocket::capi {
namespace {

thread_local std::string own_error;  // of calls that had no communicator

hkt_status keep(LastError* last, hkt_status status, const std::string& text) noexcept {
    try {
        if (last == nullptr)
            own_error = dsl::readable(text);
        else
            last->keep(text);
    } catch (...) {  // no memory for the text: the caller gets the status alone
    }
    return status;
}

}  // namespace

void LastError::keep(const std::string& text) {
    const std::lock_guard lock(mutex_);
    text_ = dsl::readable(text);
}

std::string LastError::text() const {
    const std::lock_guard lock(mutex_);
    return text_;
}

hkt_status keep_error(LastError* last, const std::exception& caught) noexcept {
    try {
        const Error error = error_of(caught);
        return keep(last, static_cast<hkt_status>(error.status()), error.what());
    } catch (...) {
        return keep(last, HKT_ERROR_OUT_OF_MEMORY, "out of memory");
    }
}

hkt_status keep_unknown_error(LastError* last) noexcept {
    return keep(last, HKT_ERROR_INTERNAL, "a defect in Hocket, please report it: an unknown exception");
}

void refuse(const std::string& text) {
    throw Error(Status::invalid_argument, text);
}

void check_array(const void* array, std::size_t count, const char* function, const char* name) {
    if (array == nullptr && count > 0)
        refuse(fmt::format("{}: {} is null, but the count is {}", function, name, count));
}

std::string text_of(const char* value) {
    return value == nullptr ? "" : value;
}

}  // namespace hocket::capi

using namespace hocket;

#define SAME(c_value, value) static_assert(static_cast<int>(c_value) == static_cast<int>(value))
SAME(HKT_SUCCESS, Status::success);
SAME(HKT_IN_PROGRESS, Status::in_progress);
SAME(HKT_ERROR_INVALID_ARGUMENT, Status::invalid_argument);
SAME(HKT_ERROR_SCHEDULE, Status::schedule);
SAME(HKT_ERROR_NOT_FOUND, Status::not_found);
SAME(HKT_ERROR_BOOTSTRAP, Status::bootstrap);
SAME(HKT_ERROR_TRANSPORT, Status::transport);
SAME(HKT_ERROR_PEER_LOST, Status::peer_lost);
SAME(HKT_ERROR_TIMEOUT, Status::timeout);
SAME(HKT_ERROR_MISMATCH, Status::mismatch);
SAME(HKT_ERROR_OUT_OF_MEMORY, Status::out_of_memory);
SAME(HKT_ERROR_INTERNAL, Status::internal);
SAME(HKT_ERROR_IO, Status::io);
SAME(HKT_ERROR_LIMIT, Status::limit);
SAME(HKT_ERROR_DEVICE, Status::device);
SAME(HKT_ERROR_ABORTED, Status::aborted);
SAME(HKT_ERROR_INTERRUPTED, Status::interrupted);
#undef SAME

extern "C" {

const char* hkt_error_string(hkt_status status) {
    return text_of(static_cast<Status>(status));
}

const char* hkt_last_error(void) {
    return capi::own_error.c_str();
}

const char* hkt_version(void) {
    return HOCKET_VERSION;
}

}  // extern "C"
