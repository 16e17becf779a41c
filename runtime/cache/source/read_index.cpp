#include "runtime/cache/source/read_index.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "runtime/cache/io/files.hpp"
#include "runtime/cache/source/source_error.hpp"

namespace hocket::cache {

Descriptor open_source_file(const char* what, const std::string& path) {
    Descriptor file(Files().open_linked(path, O_RDONLY));
    if (file.get() == -irregular_file)
        throw Error(Status::io, fmt::format("the {} {} is not a regular file; give one that is", what, path));
    if (file.get() < 0) throw source_error(-file.get(), "the {} {} cannot be opened", what, path);
    return file;
}

std::string read_index(const std::string& path) {
    const Descriptor file = open_source_file("index", path);
    std::string text;
    for (std::size_t filled = 0;;) {
        if (filled == text.size()) text.resize(std::max<std::size_t>(64 << 10, 2 * filled));
        const ssize_t got = ::read(file.get(), text.data() + filled, text.size() - filled);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) throw source_error(errno, "the index {} cannot be read", path);
        filled += static_cast<std::size_t>(got);
        if (got == 0) {
            text.resize(filled);
            return text;
        }
    }
}

}  // namespace hocket::cache
