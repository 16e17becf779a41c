#include "runtime/engine/recorder.hpp"

#include <fmt/format.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "runtime/base/error.hpp"
#include "runtime/base/log.hpp"

namespace hocket::engine {
namespace {

// The name has a number, because a process may have several communicators.
std::string file_name(const record::Origin& origin) {
    static std::atomic<unsigned> made{0};
    return fmt::format("rank-{}.pid-{}.{}.json", origin.job_rank(), origin.pid, made++);
}

void make_folder(const std::string& folder) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (!std::filesystem::is_directory(folder, error))
        throw Error(Status::io, fmt::format("HOCKET_FLIGHT_RECORDER names {}, which is no folder and cannot "
                                            "be made one; name a folder that all ranks may write to",
                                            folder));
}

}  // namespace

Recorder::Recorder(record::Origin origin, const record::RecordingOptions& options, Progress& progress)
    : origin_(std::move(origin)), progress_(progress) {
    if (options.folder.empty()) return;
    make_folder(options.folder);
    path_ = options.folder + "/" + file_name(origin_);
    save_to(path_, "joined");
    progress_.on_failure([this](record::Recording failure) { keep(std::move(failure)); });
    listener_.emplace(
        options.folder, options.signal,
        [this](const std::string& reason, const std::string& request) { save_to(path_, reason, request); });
}

Recorder::~Recorder() {
    listener_.reset();
    if (path_.empty()) return;
    progress_.on_failure({});
    if (!last_) std::remove(path_.c_str());
}

void Recorder::save_to(const std::string& path, const std::string& reason, const std::string& request) {
    // Called without the mutex: keep() takes it while it holds the gate.
    record::Recording recording = progress_.recording();
    const std::lock_guard lock(mutex_);
    if (last_) recording = *last_;
    recording.origin = origin_;
    if (!last_) recording.reason = reason;
    recording.request = request;
    record::save(recording, path);
}

void Recorder::keep(record::Recording failure) noexcept {
    try {
        const std::lock_guard lock(mutex_);
        failure.origin = origin_;
        failure.reason = "failure";
        last_ = std::move(failure);
        record::save(*last_, path_);
    } catch (const std::exception& error) {
        log_line("hocket: warning: rank {}: {}", origin_.rank, error.what());
    }
}

}  // namespace hocket::engine
