#include "runtime/compute/jit/code_cache.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <vector>

#include "dsl/base/named_file.hpp"
#include "runtime/compute/jit/digest.hpp"
#include "runtime/compute/jit/interface/generator.hpp"

namespace hocket::jit {
namespace {

namespace fs = std::filesystem;

using namespace std::chrono_literals;

constexpr const char *extension = ".kernel", *unfinished = ".new";  // replace_file's

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

struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
};

// Returns the content of a file that this user alone may write, and notes that it was used now. Returns
// nullopt for anything else: its code would run with this user's rights.
std::optional<std::string> read_own(const std::string& path) {
    const int opened = open_regular(path, O_RDONLY | O_NOFOLLOW);
    if (opened < 0) return std::nullopt;
    const std::unique_ptr<std::FILE, CloseFile> file(fdopen(opened, "rb"));
    struct stat facts {};
    if (!file || fstat(opened, &facts) != 0) return std::nullopt;
    if (facts.st_uid != geteuid() || (facts.st_mode & (S_IWGRP | S_IWOTH)) != 0) return std::nullopt;
    std::string text(static_cast<std::size_t>(facts.st_size), '\0');
    if (std::fread(text.data(), 1, text.size(), file.get()) != text.size()) return std::nullopt;
    futimens(opened, nullptr);
    return text;
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

std::string text_of(const DeviceStep& step) {
    return fmt::format("{} {} {} {} {} {} {} {} [{}] {}\n", static_cast<int>(step.kind), step.operation,
                       step.operands, step.begin, step.end, step.synchronizes, step.peer, step.message,
                       fmt::join(step.areas, " "), text_of(step.kernel));
}

}  // namespace

std::string key_of(const DeviceShape& shape) {
    const DeviceShape own = without_numbers(shape);
    std::string text = fmt::format("{} {}\nareas {} peers {}\n", interface_version, generator_identity,
                                   own.areas, own.peers);
    for (const DeviceStep& step : own.packet_steps) text += text_of(step);
    text += "by lines\n";
    for (const DeviceStep& step : own.steps) text += text_of(step);
    return text;
}

std::string CodeCache::file_of(const std::string& key) const {
    return folder_ + "/" + digest_of(key) + extension;
}

std::optional<std::string> CodeCache::find(const std::string& key) const noexcept try {
    if (folder_.empty()) return std::nullopt;
    const auto file = read_own(file_of(key));
    return file ? code_in(*file, key) : std::nullopt;
} catch (...) {
    return std::nullopt;
}

void CodeCache::keep(const std::string& key, const std::string& code) const noexcept try {
    if (folder_.empty() || code.size() > most_bytes_ / 2) return;
    if (fs::create_directories(folder_)) fs::permissions(folder_, fs::perms::owner_all);
    const std::string path = file_of(key);
    fs::remove(path);  // a file that others may write would hand on its mode
    replace_file(path, content_of(key, code), private_mode);
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
        const auto used = entry.last_write_time(gone);
        if (entry.path().extension() == unfinished && !gone && fs::file_time_type::clock::now() - used > 1h)
            fs::remove(entry.path(), gone);  // its writer has crashed
        if (entry.path().extension() != extension) continue;
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
