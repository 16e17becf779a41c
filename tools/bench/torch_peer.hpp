// PyTorch doing the same, in a process of its own.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "tools/bench/kernel_options.hpp"

namespace hocket::bench {

class TorchPeer {
  public:
    // Starts python3. If it has no torch, or does not answer, the peer is not there, and says why.
    TorchPeer(const KernelOptions& options, std::size_t k);
    ~TorchPeer();  // ends the process
    TorchPeer(const TorchPeer&) = delete;

    // How long torch takes for one round, in ms; nothing if the peer is not there.
    std::optional<double> measure();

    // "PyTorch 1.13.1", or why it is not there.
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
