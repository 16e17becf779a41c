// A communicator's messages on stderr.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

#include "runtime/base/log.hpp"
#include "runtime/engine/job/options.hpp"

namespace hocket::engine {

class RankLog {
  public:
    // name: the communicator's and the rank's.
    RankLog(LogLevel level, std::string name) : level_(level), name_(std::move(name)) {}

    bool has(LogLevel level) const { return level_ >= level; }
    template <typename... Args>
    void log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) const {
        if (has(level)) log_line("hocket: {}: {}", name_, fmt::format(format, std::forward<Args>(args)...));
    }

  private:
    const LogLevel level_;
    const std::string name_;
};

}  // namespace hocket::engine
