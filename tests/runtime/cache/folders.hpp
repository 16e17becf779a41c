// Folders of segments for the tests, and payloads that are written to them and read from them.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/base/xxh3.hpp"
#include "runtime/cache/directory/directory.hpp"
#include "runtime/cache/segments/descriptor.hpp"
#include "tests/support/going_on.hpp"
#include "tests/support/temporary_folder.hpp"

namespace hocket::test {

using Bytes = std::vector<std::byte>;

// In memory, where there is room: for tests that open thousands of folders.
inline std::string fast_folder() {
    return ::access("/dev/shm", W_OK) == 0 ? "/dev/shm" : std::filesystem::temp_directory_path().string();
}

// Random-looking bytes that follow from key and size.
inline Bytes payload_of(std::uint64_t key, std::uint64_t size) {
    Bytes bytes(size);
    std::uint64_t state = key * 0x9e3779b97f4a7c15 + size + 1;
    for (std::size_t i = 0; i < bytes.size(); i += sizeof state) {
        state = state * 6364136223846793005 + 1442695040888963407;
        const std::uint64_t mixed = state ^ state >> 32;
        std::memcpy(&bytes[i], &mixed, std::min(sizeof mixed, bytes.size() - i));
    }
    return bytes;
}

inline bool write_payload(const cache::Files& files, const cache::Room& room, const Bytes& payload) {
    cache::PageBuffer buffer(room.reserved + 1);
    std::fill_n(buffer.data(), buffer.size(), std::byte{0});
    std::copy(payload.begin(), payload.end(), buffer.data());
    return files.write(room.fd, buffer.data(), room.reserved, room.offset) ==
           static_cast<std::int64_t>(room.reserved);
}

inline bool put(cache::Directory& directory, const cache::Files& files, std::uint64_t key,
                const Bytes& payload) {
    const auto room = directory.reserve(key, payload.size());
    if (!room) return false;
    if (write_payload(files, *room, payload)) return directory.commit(*room, payload);
    directory.abandon(*room, EIO);
    return false;
}

// Returns the payload if it is there and right; forgets a wrong one, as the cache does.
inline std::optional<Bytes> get(cache::Directory& directory, const cache::Files& files, std::uint64_t key) {
    while (const auto place = directory.find(key)) {
        cache::PageBuffer buffer(cache::align_up(place->entry.bytes, place->unit) + 1);
        const std::uint64_t wanted = cache::align_up(place->entry.bytes, place->unit);
        const std::int64_t got = files.read(place->fd, buffer.data(), wanted, place->entry.offset);
        const std::span<const std::byte> bytes(buffer.data(), place->entry.bytes);
        if (got >= static_cast<std::int64_t>(place->entry.bytes) && cache::Directory::is_right(*place, bytes))
            return Bytes(bytes.begin(), bytes.end());
        directory.forget(*place);
    }
    return {};
}

// The disk usage of the folder, as du(1) prints it.
inline std::uint64_t folder_bytes(const std::string& folder) {
    std::uint64_t sum = 0;
    std::error_code ignored;
    for (const auto& each : std::filesystem::directory_iterator(folder, ignored)) {
        struct stat status {};
        if (::stat(each.path().c_str(), &status) == 0)
            sum += static_cast<std::uint64_t>(status.st_blocks) * 512;
    }
    return sum;
}

inline std::vector<std::string> files_with(const std::string& folder, const std::string& suffix) {
    std::vector<std::string> found;
    for (const auto& each : std::filesystem::directory_iterator(folder))
        if (each.path().string().ends_with(suffix)) found.push_back(each.path());
    std::sort(found.begin(), found.end());
    return found;
}

inline Bytes read_all(const std::string& path) {
    const cache::Files files;
    const cache::Descriptor fd(files.open(path, O_RDONLY));
    struct stat status {};
    if (files.status(path, status) < 0) throw std::runtime_error("no such file: " + path);
    Bytes bytes(static_cast<std::size_t>(status.st_size));
    files.read(fd.get(), bytes.data(), bytes.size(), 0);
    return bytes;
}

inline void write_all(const std::string& path, const Bytes& bytes) {
    const cache::Files files;
    const cache::Descriptor fd(files.open(path, O_RDWR | O_CREAT | O_TRUNC));
    if (files.write(fd.get(), bytes.data(), bytes.size(), 0) != static_cast<std::int64_t>(bytes.size()))
        throw std::runtime_error("cannot write " + path);
}

inline cache::DirectoryOptions options_for(const std::string& folder, std::uint64_t limit = 0,
                                           bool writable = true, cache::Digest dataset = {1, 2}) {
    return {folder, limit, dataset, "data of a test", writable};
}

// A header that was changed gets the checksum that goes with it.
inline void renew_checksum(std::span<std::byte, cache::segment_page> header) {
    constexpr std::size_t identity_offset = 32, checksum_offset = cache::segment_page - 8;
    std::uint64_t seeds[3] = {};  // the identity, and the header's offset
    std::memcpy(seeds, &header[identity_offset], sizeof(cache::Digest));
    const std::uint64_t checksum =
        XXH3_64bits_withSeed(header.data(), checksum_offset, XXH3_64bits(seeds, sizeof seeds));
    std::memcpy(&header[checksum_offset], &checksum, sizeof checksum);
}

// A segment with these payloads (key i: sizes[i] bytes), sealed, or as a process that died has left it.
struct SmallSegment {
    std::string name;
    Bytes bytes;
    std::vector<std::uint64_t> sizes;
};
inline SmallSegment make_small_segment(const std::vector<std::uint64_t>& sizes, bool sealed,
                                       std::uint64_t limit = 64 * 1024) {
    const cache::Files files;
    const TemporaryFolder folder(fast_folder());
    cache::Directory directory(files, options_for(folder.path(), limit));
    for (std::uint64_t key = 0; key < sizes.size(); ++key)
        if (!put(directory, files, key, payload_of(key, sizes[key])))
            throw std::runtime_error("not written: " + directory.stats().trouble);
    if (sealed) directory.close();
    const std::string path = files_with(folder.path(), sealed ? ".seg" : ".open").at(0);
    return {std::filesystem::path(path).filename(), read_all(path), sizes};
}

// Runs it in a process that ends without ending anything else.
template <typename Call>
void in_dying_process(Call call) {
    const pid_t child = hocket::test::fork_to_go_on();
    if (child == 0) {
        call();
        ::_exit(0);
    }
    int status = 0;
    if (::waitpid(child, &status, 0) != child || status != 0)
        throw std::runtime_error("the child failed: " + std::to_string(status));
}

}  // namespace hocket::test
