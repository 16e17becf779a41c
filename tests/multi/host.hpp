// A host of a test, made of a namespace.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/multi/process.hpp"
#include "tests/support/test.hpp"

namespace hocket::test {

// A network of its own, which lives as long as a process that sleeps in it. Its /sys shows its own
// interfaces.
class Host {
  public:
    Host()
        : holder_({"unshare", "--net", "--mount", "sh", "-c",
                   "mount -t sysfs sysfs /sys && ip link set lo up && echo ready && exec sleep infinity"},
                  {{"PATH", std::string("/usr/sbin:/sbin:") + std::getenv("PATH")}}),
          is_there_(holder_.wait_for_output("ready", std::chrono::seconds(10))) {}

    bool is_there() const { return is_there_; }
    pid_t pid() const { return holder_.pid(); }
    std::vector<std::string> inside(const std::string& command) const {
        return {"nsenter", "-t",      std::to_string(pid()),
                "--net",   "--mount", "--",
                "sh",      "-c",      "PATH=$PATH:/usr/sbin:/sbin; " + command};
    }
    std::string output_of(const std::string& command) const {
        const Finished done = run(inside(command), std::chrono::seconds(10));
        INFO(command << ": " << done.err);
        REQUIRE(done.exit_code == 0);
        return done.out;
    }
    double sent_by(const std::string& nic) const {
        return std::stod(output_of("cat /sys/class/net/" + nic + "/statistics/tx_bytes"));
    }

  private:
    Process holder_;
    bool is_there_;
};

}  // namespace hocket::test
