// Writes a communicator's recordings: when it fails, on a request, and when the program asks.
#pragma once

#include <mutex>
#include <optional>
#include <string>

#include "runtime/engine/progress/progress.hpp"
#include "runtime/engine/record/listener.hpp"
#include "runtime/engine/record/recording.hpp"

namespace hocket::engine {

// Thread-safe.
class Recorder {
  public:
    // Creates the folder if it does not exist, and writes a first recording, so that others know that this
    // rank has joined. Throws hocket::Error(io, out_of_memory). The progress must outlive this.
    Recorder(record::Origin origin, const record::RecordingOptions& options, Progress& progress);
    // Removes the file, unless the communicator has failed.
    ~Recorder();
    Recorder(const Recorder&) = delete;

    const record::Origin& origin() const { return origin_; }

    // Throws hocket::Error(io).
    void save_to(const std::string& path, const std::string& reason, const std::string& request = "");

  private:
    void keep(record::Recording failure) noexcept;

    const record::Origin origin_;
    Progress& progress_;
    std::string path_;  // "" without a folder
    std::mutex mutex_;
    // The recording of the failure, after which nothing is in flight.
    std::optional<record::Recording> last_;
    std::optional<record::Listener> listener_;
};

}  // namespace hocket::engine
