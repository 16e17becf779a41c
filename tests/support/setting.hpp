// An environment variable of this process for as long as the object lives. No other thread may read the
// environment when it begins or ends.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>

namespace hocket::test {

class Setting {
  public:
    Setting(const char* name, const char* value) : name_(name) {
        if (const char* before = std::getenv(name)) before_ = before;
        setenv(name, value, 1);
    }
    ~Setting() { before_ ? setenv(name_, before_->c_str(), 1) : unsetenv(name_); }
    Setting(const Setting&) = delete;

  private:
    const char* name_;
    std::optional<std::string> before_;
};

}  // namespace hocket::test
