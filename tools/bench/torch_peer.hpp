// Runs the same operation in PyTorch, in a separate process.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "tools/bench/kernel_options.hpp"

namespace hocket::bench {

class TorchPeer {
  public:
    // Starts python3. If it has no torch or does not answer, there is no peer, and description() says why.
    TorchPeer(const KernelOptions& options, std::size_t k);
    ~TorchPeer();  // ends the process
    TorchPeer(const TorchPeer&) = delete;

    // Returns the time of one of torch's rounds, in ms; nothing if there is no peer.
    std::optional<double> measure();

    // Returns "PyTorch 1.13.1" or the like, or why there is no peer.
    const std::string& description() const { return description_; }

  private:
    std::optional<std::string> start(const KernelOptions& options, std::size_t k);
    std::optional<std::string> answer();
    void give_up(const std::string& why);

    pid_t process_ = -1;
    int to_ = -1, from_ = -1;
    std::string unread_, description_;
};

}  // namespace hocket::bench
