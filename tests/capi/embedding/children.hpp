// Forked children of a rank, for tests.
#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <exception>
#include <functional>
#include <stdexcept>
#include <string>

namespace hocket::test {

// Runs the body in a forked child, and throws its exception. The child is ended by SIGALRM if it takes 60 s.
inline void in_child(const std::function<void()>& body) {
    int ends[2];
    if (pipe(ends) != 0) throw std::runtime_error("pipe");
    const pid_t child = fork();
    if (child < 0) throw std::runtime_error("fork");
    if (child == 0) {
        alarm(60);
        std::string text;
        try {
            body();
        } catch (const std::exception& error) {
            text = error.what();
        }
        const bool written = write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size());
        _exit(written && text.empty() ? 0 : 1);
    }
    close(ends[1]);
    std::string text;
    char some[4096];
    for (ssize_t bytes; (bytes = read(ends[0], some, sizeof some)) > 0;)
        text.append(some, static_cast<std::size_t>(bytes));
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status))
        throw std::runtime_error("the child was ended by signal " + std::to_string(WTERMSIG(status)));
    if (WEXITSTATUS(status) != 0) throw std::runtime_error("in the child: " + text);
}

}  // namespace hocket::test
