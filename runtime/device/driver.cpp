#include "runtime/device/driver.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include <atomic>
#include <cstdlib>
#include <string>

#include "runtime/base/error.hpp"
#include "runtime/base/forks.hpp"
#include "runtime/base/log.hpp"
#include "runtime/base/plugin.hpp"

namespace hocket::device {
namespace {

constexpr const char* file_name = "libcuda.so.1";

std::atomic<const Driver*> known{nullptr};
std::atomic<unsigned long long> looked_at{0};  // libraries ever loaded at the last look

unsigned long long libraries_loaded() {
    unsigned long long adds = 0;
    dl_iterate_phdr(
        [](dl_phdr_info* info, std::size_t, void* result) {
            *static_cast<unsigned long long*>(result) = info->dlpi_adds;
            return 1;  // the first object's info has the count
        },
        &adds);
    return adds;
}

[[noreturn]] void refuse_library(const char* library, const char* why) {
    throw Error(Status::device,
                fmt::format("cannot use the CUDA driver {}: {}; a driver of CUDA 11 or later is needed, and "
                            "HOCKET_CUDA_DRIVER, if set, must be the path of one",
                            library, why == nullptr ? "unknown reason" : why));
}

const Driver* load_driver(void* handle, const char* library) {
    static Driver driver;
#define HOCKET_FIND(name, symbol, parameters)                                  \
    driver.name = reinterpret_cast<int(*) parameters>(dlsym(handle, #symbol)); \
    if (driver.name == nullptr) refuse_library(library, "it has no " #symbol);
    HOCKET_CUDA_FUNCTIONS(HOCKET_FIND)
#undef HOCKET_FIND
    return &driver;
}

// The driver's handle is kept open: a library that has been used is never unloaded.
const Driver* look() {
    const char* chosen = std::getenv("HOCKET_CUDA_DRIVER");
    if (chosen != nullptr && *chosen != '\0') {
        std::string why;
        void* handle = open_library(chosen, why);
        if (handle == nullptr) refuse_library(chosen, why.c_str());
        return load_driver(handle, chosen);
    }
    void* handle = dlopen(file_name, RTLD_LAZY | RTLD_NOLOAD);
    if (handle == nullptr) return nullptr;
    try {
        return load_driver(handle, file_name);
    } catch (const Error& error) {  // the program may not need the driver here
        log_line("hocket: {}; memory of devices cannot be used", error.what());
        return nullptr;
    }
}

}  // namespace

void Driver::refuse(int result, const char* function, const std::string& doing) const {
    const char *name = nullptr, *words = nullptr;
    error_name(result, &name);
    error_string(result, &words);
    const Status status = result == CUDA_ERROR_OUT_OF_MEMORY ? Status::out_of_memory : Status::device;
    throw Error(status, fmt::format("{} failed: {} ({}), {}", function,
                                    name == nullptr ? fmt::format("CUDA error {}", result) : name,
                                    words == nullptr ? "unknown to the driver" : words, doing));
}

const Driver* known_driver() noexcept {
    return known.load(std::memory_order_acquire);
}

const Driver* find_driver() {
    if (const Driver* driver = known_driver()) return driver;
    const unsigned long long loaded = libraries_loaded();
    if (loaded == looked_at.load(std::memory_order_acquire)) return nullptr;
    // Each time a library has been loaded, also by other threads, this search is repeated. It holds the fork
    // lock, because a lock of its own would stay locked in a child that is forked meanwhile.
    const auto lock = forks::no_fork();
    if (const Driver* driver = known_driver()) return driver;
    known.store(look(), std::memory_order_release);
    looked_at.store(loaded, std::memory_order_release);
    return known_driver();
}

const Driver& require_driver() {
    if (const Driver* driver = find_driver()) return *driver;
    throw Error(Status::invalid_argument,
                "this process has no CUDA driver (libcuda.so.1), so this is no stream of it; if it has "
                "one under another name, HOCKET_CUDA_DRIVER must name it");
}

InContext::InContext(const Driver& driver, Context context, const std::string& doing) : driver_(driver) {
    driver.require(driver.context_push(context), "cuCtxPushCurrent", doing);
    driver.exchange_capture_mode(&capture_mode_);
}

InContext::~InContext() {
    Context popped = nullptr;
    driver_.exchange_capture_mode(&capture_mode_);
    driver_.context_pop(&popped);
}

}  // namespace hocket::device
