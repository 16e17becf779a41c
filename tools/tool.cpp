#include "tools/tool.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <exception>
#include <string>
#include <system_error>

namespace hocket::tools {
namespace {

// If the tool was started without one of its streams, a file or connection could get the stream's number, and
// then receive what is printed. So the number is given to a file that cannot be used: writing fails as on a
// closed stream.
void occupy_closed_streams() {
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
        if (fcntl(fd, F_GETFD) < 0) {
            // open() takes the lowest free number, which is this one.
            [[maybe_unused]] const int taken = open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
        }
}

}  // namespace

int run_tool(const char* name, const std::function<int()>& run) {
    occupy_closed_streams();
    int code = 1;
    std::string why;
    try {
        code = run();
        flush_output();
    } catch (const std::exception& error) {
        why = error.what();
    }
    const bool is_lost = std::fflush(stdout) != 0 || std::ferror(stdout) != 0;
    if (is_lost)
        say("{}: not all output could be written: {}", name, why);
    else if (!why.empty())
        say("{}: {}", name, why);
    return is_lost && code == 0 ? 1 : code;
}

void flush_output() {
    errno = 0;
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
        throw std::system_error(errno != 0 ? errno : EIO, std::generic_category(), "stdout");
}

}  // namespace hocket::tools
