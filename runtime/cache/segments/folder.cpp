#include "runtime/cache/segments/folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <thread>

namespace hocket::cache {
namespace {

constexpr const char* suffixes[] = {".making", ".open", ".seg"};
constexpr std::size_t identity_digits = 32;

std::optional<std::uint64_t> parse_hex(const std::string& text, std::size_t from) {
    std::uint64_t value = 0;
    for (std::size_t i = from; i < from + 16; ++i) {
        const char* digits = "0123456789abcdef";
        const char* found = text[i] ? std::strchr(digits, text[i]) : nullptr;
        if (!found) return {};
        value = value << 4 | static_cast<std::uint64_t>(found - digits);
    }
    return value;
}

}  // namespace

std::string describe(const std::string& path, int negative_errno) {
    return fmt::format("{}: {}", path, std::generic_category().message(-negative_errno));
}

std::string file_name(const SegmentName& name) {
    return fmt::format("{:016x}{:016x}{}", name.identity[0], name.identity[1],
                       suffixes[static_cast<int>(name.stage)]);
}

std::optional<SegmentName> parse_file_name(const std::string& name) {
    if (name.size() < identity_digits) return {};
    const auto high = parse_hex(name, 0), low = parse_hex(name, 16);
    if (!high || !low) return {};
    for (const SegmentStage stage : {SegmentStage::making, SegmentStage::open, SegmentStage::sealed})
        if (name.substr(identity_digits) == suffixes[static_cast<int>(stage)])
            return SegmentName{{*high, *low}, stage};
    return {};
}

std::string path_of(const std::string& folder, const SegmentName& name) {
    return folder + "/" + file_name(name);
}

int list_segments(const Files& files, const std::string& folder, std::vector<SegmentName>& names) {
    std::vector<std::string> all;
    if (const int result = files.list(folder, all); result < 0) return result;
    names.clear();
    for (const std::string& each : all)
        if (const auto name = parse_file_name(each)) names.push_back(*name);
    return 0;
}

FolderLock::FolderLock(const Files& files, const std::string& folder, std::chrono::milliseconds patience)
    : files_(files) {
    const std::string path = folder + "/lock";
    const auto deadline = std::chrono::steady_clock::now() + patience;
    int result = try_once(path);
    while (result == -EWOULDBLOCK && std::chrono::steady_clock::now() < deadline) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        result = try_once(path);
    }
    if (result == -EWOULDBLOCK)
        why_ = fmt::format("{}: another process has held it for {} ms: see which one with `lslocks`", path,
                           patience.count());
    else if (result == -irregular_file)
        why_ = fmt::format("{}: it is not a regular file: remove it", path);
    else if (result < 0)
        why_ = describe(path, result) + ": the cache's folder must be writable, and on a local disk";
}

int FolderLock::try_once(const std::string& path) {
    Descriptor fd(files_.open(path, O_RDWR | O_CREAT));
    if (fd.get() < 0) return fd.get();
    if (const int result = files_.lock(fd.get(), LOCK_EX | LOCK_NB); result < 0) return result;
    // The folder may have been emptied after the file was opened here, and other processes may lock a new
    // file.
    if (!is_file_at(files_, fd.get(), path)) return -EWOULDBLOCK;
    fd_ = std::move(fd);
    return 0;
}

int FolderLock::read_creations(std::uint64_t& count) const {
    count = 0;
    const std::int64_t read = files_.read(fd_.get(), &count, sizeof count, 0);
    if (read < 0) return static_cast<int>(read);
    return read == sizeof count ? 0 : write_creations(0);
}

int FolderLock::write_creations(std::uint64_t count) const {
    const std::int64_t written = files_.write(fd_.get(), &count, sizeof count, 0);
    if (written < 0) return static_cast<int>(written);
    return written == sizeof count ? 0 : -EIO;
}

std::optional<std::uint64_t> CreationCount::read() {
    std::uint64_t count = 0;
    if (fd_.get() < 0) fd_ = Descriptor(files_.open(path_, O_RDONLY));
    if (fd_.get() < 0 || files_.read(fd_.get(), &count, sizeof count, 0) < 0) return {};
    return count;
}

void CreationCount::look_again() {
    if (fd_.get() >= 0 && !is_file_at(files_, fd_.get(), path_)) fd_ = Descriptor();
}

}  // namespace hocket::cache
