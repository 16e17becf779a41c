// Writes a communicator's recordings: when it breaks, when somebody asks for them, and when the program does.
#pragma once

#include <mutex>
#include <optional>
#include <string>

#include "runtime/engine/progress.hpp"
#include "runtime/engine/record/listener.hpp"
#include "runtime/engine/record/recording.hpp"

namespace hocket::engine {

// Thread-safe.
class Recorder {
  public:
    struct Options {
        std::string folder;  // "": nothing is written unless the program asks for it
        int signal = 0;      // as for record::Listener
    };

    // Makes the folder if there is none, and writes a first recording, so that others know that this rank
    // has joined. Throws hocket::Error(io, out_of_memory). The progress must outlive this.
    Recorder(record::Origin origin, const Options& options, Progress& progress);
    // Takes the file away, unless the communicator is broken.
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
    // The recording of the failure: afterwards nothing is in flight any more.
    std::optional<record::Recording> last_;
    std::optional<record::Listener> listener_;
};

}  // namespace hocket::engine
