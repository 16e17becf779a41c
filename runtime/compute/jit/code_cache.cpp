#include "runtime/compute/jit/code_cache.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "dsl/base/named_file.hpp"
#include "runtime/base/xxh3.hpp"
#include "runtime/compute/jit/interface/generator.hpp"

namespace hocket::jit {
namespace {

namespace fs = std::filesystem;

constexpr const char* extension = ".kernel";

std::string digest_of(const std::string& text) {
    const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
    return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

// A file: the digest of what follows, the length of the key, the key, the code.
std::string content_of(const std::string& key, const std::string& code) {
    const std::string rest = fmt::format("{}\n{}{}", key.size(), key, code);
    return digest_of(rest) + "\n" + rest;
}

// Returns nullopt if the file is of another key, or damaged.
std::optional<std::string> code_in(const std::string& file, const std::string& key) {
    const std::size_t digest_end = file.find('\n');
    if (digest_end == std::string::npos ||
        file.substr(0, digest_end) != digest_of(file.substr(digest_end + 1)))
        return std::nullopt;
    const std::string begin = fmt::format("{}\n{}", key.size(), key);
    if (file.compare(digest_end + 1, begin.size(), begin) != 0) return std::nullopt;
    return file.substr(digest_end + 1 + begin.size());
}

std::string text_of(const std::vector<dsl::Formula::Item>& items) {
    std::string text;
    for (const auto& item : items)
        text += fmt::format(" {}:{}:{:a}", static_cast<int>(item.op), item.index, item.number);
    return text;
}

std::string text_of(const KernelShape& kernel) {
    return fmt::format("{} {} {} {} {} {} {}; {}; {}", static_cast<int>(kernel.type),
                       static_cast<int>(kernel.op), kernel.operands, kernel.destinations, kernel.divisor,
                       kernel.streamed, kernel.multiplies, text_of(kernel.epilogue), text_of(kernel.defined));
}

}  // namespace

std::string key_of(const DeviceShape& shape) {
    std::string text = fmt::format("{}\nareas {} peers {}\n", interface_version, shape.areas, shape.peers);
    for (const DeviceStep& step : shape.steps)
        text += fmt::format("{} {} {} {} {} {} {} {} [{}] {}\n", static_cast<int>(step.kind), step.operation,
                            step.operands, step.begin, step.end, step.synchronizes, step.peer, step.message,
                            fmt::join(step.areas, " "), text_of(step.kernel));
    return text;
}

std::string CodeCache::file_of(const std::string& key) const {
    return folder_ + "/" + digest_of(key) + extension;
}

std::optional<std::string> CodeCache::find(const std::string& key) const noexcept try {
    if (folder_.empty()) return std::nullopt;
    const std::string path = file_of(key);
    auto code = code_in(read_text(path), key);
    if (code) utimensat(AT_FDCWD, path.c_str(), nullptr, 0);  // it was used now
    return code;
} catch (...) {
    return std::nullopt;
}

void CodeCache::keep(const std::string& key, const std::string& code) const noexcept try {
    if (folder_.empty() || code.size() > most_bytes_ / 2) return;
    fs::create_directories(folder_);
    replace_file(file_of(key), content_of(key, code), private_mode);
    make_room();
} catch (...) {  // the disk is full, or the folder is somebody else's
}

// Removes the files that were not used for longest, until what is left is half of the most.
void CodeCache::make_room() const {
    struct File {
        fs::file_time_type used;
        std::uint64_t bytes;
        fs::path path;
    };
    std::vector<File> files;
    std::uint64_t all = 0;
    std::error_code gone;  // another process removes files, too
    for (const auto& entry : fs::directory_iterator(folder_)) {
        if (entry.path().extension() != extension) continue;
        const auto used = entry.last_write_time(gone);
        const std::uint64_t bytes = gone ? 0 : entry.file_size(gone);
        if (gone) continue;
        files.push_back({used, bytes, entry.path()});
        all += bytes;
    }
    if (all <= most_bytes_) return;
    std::ranges::sort(files, {}, &File::used);
    for (const File& file : files) {
        if (all <= most_bytes_ / 2) return;
        if (fs::remove(file.path, gone)) all -= file.bytes;
    }
}

}  // namespace hocket::jit
