#include "tools/schedc/lsp/serve.hpp"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>

#include "tools/schedc/lsp/framing.hpp"
#include "tools/schedc/lsp/server.hpp"
#include "tools/tool.hpp"

namespace hocket::tools {
namespace {

void send(const std::string& content) {
    const std::string message = lsp::framed(content);
    std::fwrite(message.data(), 1, message.size(), stdout);
    flush_output();
}

// Returns false at the end of the input.
bool read_some(lsp::MessageReader& reader) {
    char part[1 << 16];
    const ssize_t count = read(STDIN_FILENO, part, sizeof part);
    if (count > 0) reader.feed({part, static_cast<std::size_t>(count)});
    if (count < 0 && errno != EINTR) throw std::system_error(errno, std::generic_category(), "stdin");
    return count != 0;
}

}  // namespace

int run_language_server(const std::vector<std::string>& search_path) {
    lsp::Server server(search_path, send);
    lsp::MessageReader reader;
    while (!server.ended()) {
        // An editor that is idle says nothing for hours; its end closes the stream.
        pollfd ready[] = {{STDIN_FILENO, POLLIN, 0}, {server.descriptor(), POLLIN, 0}};
        if (poll(ready, 2, -1) < 0 && errno != EINTR)
            throw std::system_error(errno, std::generic_category(), "poll");
        if (ready[1].revents != 0) server.take_proofs();
        if (ready[0].revents == 0) continue;
        if (!read_some(reader)) return 1;
        while (const std::optional<std::string> content = reader.next()) server.receive(*content);
        server.handle_all();
    }
    return *server.ended();
}

}  // namespace hocket::tools
