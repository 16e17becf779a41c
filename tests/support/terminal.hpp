// A pseudo-terminal in the place of one of this process's streams.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <termios.h>
#include <unistd.h>

#include <string>
#include <utility>

namespace hocket::test {

// The stream is a terminal until restore(), or the end.
class Terminal {
  public:
    explicit Terminal(int stream) : stream_(stream), master_(posix_openpt(O_RDWR | O_NOCTTY)) {
        if (master_ < 0 || grantpt(master_) != 0 || unlockpt(master_) != 0) return;
        const int slave = open(ptsname(master_), O_RDWR | O_NOCTTY);
        termios raw;
        tcgetattr(slave, &raw);
        cfmakeraw(&raw);
        tcsetattr(slave, TCSANOW, &raw);
        saved_ = dup(stream_);
        dup2(slave, stream_);
        close(slave);
        works_ = true;
    }
    ~Terminal() {
        restore();
        if (master_ >= 0) close(master_);
    }
    bool works() const { return works_; }
    void restore() {
        if (saved_ < 0) return;
        dup2(saved_, stream_);
        close(std::exchange(saved_, -1));
    }
    // The text that the terminal received.
    std::string text() {
        std::string text;
        pollfd fd{master_, POLLIN, 0};
        while (poll(&fd, 1, 50) > 0) {
            char bytes[4096];
            const ssize_t got = read(master_, bytes, sizeof bytes);
            if (got <= 0) break;
            text.append(bytes, got);
        }
        return text;
    }

  private:
    int stream_, master_, saved_ = -1;
    bool works_ = false;
};

}  // namespace hocket::test
