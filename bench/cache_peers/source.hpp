// The slow storage for the epochs and the training: samples as files of a folder, and in one packed file.
// Each read first sleeps, as a read over a network would wait.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "common.hpp"

namespace cache_peers {

class Descriptor {
  public:
    Descriptor(const std::string& path, int flags) : fd_(open(path.c_str(), flags | O_CLOEXEC, 0666)) {
        if (fd_ < 0) throw std::runtime_error(path + ": " + std::strerror(errno));
    }
    ~Descriptor() { close(fd_); }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    operator int() const { return fd_; }

  private:
    const int fd_;
};

// Returns a checksum that depends on every byte and on the sample's key. Sums over samples don't depend on
// their order.
inline std::uint64_t checksum(std::uint64_t key, const void* data, std::size_t bytes) {
    const auto* at = static_cast<const unsigned char*>(data);
    std::uint64_t sum = bytes, word = 0;
    for (; bytes >= sizeof word; at += sizeof word, bytes -= sizeof word) {
        std::memcpy(&word, at, sizeof word);
        sum += word;
    }
    for (; bytes > 0; --bytes) sum += *at++;
    return (2 * key + 1) * sum;
}

// Thread-safe.
class Source {
  public:
    // Writes the samples, each of `bytes` or, if they vary, of half to one and a half times as many.
    Source(std::string folder, std::uint64_t count, std::uint32_t bytes, bool vary,
           std::chrono::microseconds delay)
        : folder_(std::move(folder)),
          delay_(delay),
          packed_((write(count, bytes, vary), packed_path()), O_RDONLY) {}

    std::uint64_t count() const { return offsets_.size() - 1; }
    std::size_t bytes(std::uint64_t key) const { return offsets_[key + 1] - offsets_[key]; }
    std::uint64_t all_bytes() const { return offsets_.back(); }
    std::size_t most_bytes() const { return most_bytes_; }

    void read_file(std::uint64_t key, void* to) const {
        std::this_thread::sleep_for(delay_);
        const Descriptor file(path(key), O_RDONLY);
        expect(::read(file, to, bytes(key)), key);
    }
    void read_packed(std::uint64_t key, void* to) const {
        std::this_thread::sleep_for(delay_);
        expect(pread(packed_, to, bytes(key), static_cast<off_t>(offsets_[key])), key);
    }

    // Implements hkt_cache_options.read; the context is the source.
    static hkt_status read(void* context, std::uint64_t key, hkt_cache_value* sample) {
        const auto& source = *static_cast<const Source*>(context);
        void* room = hkt_cache_value_reserve(sample, source.bytes(key));
        if (room == nullptr) return HKT_ERROR_LIMIT;
        try {
            source.read_file(key, room);
        } catch (const std::exception&) {
            return HKT_ERROR_IO;
        }
        return HKT_SUCCESS;
    }

  private:
    std::string path(std::uint64_t key) const { return folder_ + "/" + std::to_string(key); }
    std::string packed_path() const { return folder_ + "/packed"; }

    void write(std::uint64_t count, std::uint32_t bytes, bool vary) {
        if (mkdir(folder_.c_str(), 0777) != 0)
            throw std::runtime_error(folder_ + ": " + std::strerror(errno));
        const Descriptor packed(packed_path(), O_WRONLY | O_CREAT);
        Random random(1);
        std::vector<std::uint64_t> words(bytes * 3 / 2 / sizeof(std::uint64_t) + 1);
        for (std::uint64_t key = 0; key < count; ++key) {
            const std::uint64_t length = vary ? bytes / 2 + random.below(bytes) : bytes;
            for (std::uint64_t& word : words) word = random.next();
            const Descriptor file(path(key), O_WRONLY | O_CREAT);
            for (const int fd : {static_cast<int>(file), static_cast<int>(packed)})
                if (::write(fd, words.data(), length) != static_cast<ssize_t>(length))
                    throw std::runtime_error(folder_ + ": the samples cannot be written");
            offsets_.push_back(offsets_.back() + length);
            most_bytes_ = std::max(most_bytes_, length);
        }
    }

    void expect(ssize_t got, std::uint64_t key) const {
        if (got != static_cast<ssize_t>(bytes(key)))
            throw std::runtime_error(path(key) + " cannot be read whole");
    }

    const std::string folder_;
    const std::chrono::microseconds delay_;
    std::vector<std::uint64_t> offsets_ = {0};  // where samples begin in the packed file; the last is its end
    std::uint64_t most_bytes_ = 0;
    const Descriptor packed_;
};

// Returns the options of a cache over the source. folder "": no disk level.
inline hkt_cache_options cache_of(const Source& source, const std::string& folder, std::uint64_t memory) {
    hkt_cache_options options = HKT_CACHE_OPTIONS_INIT;
    if (!folder.empty()) options.folder = folder.c_str();
    options.memory_bytes = memory;
    options.read = Source::read;
    options.read_context = const_cast<Source*>(&source);
    options.dataset = "compare-cache";
    return options;
}

inline std::uint64_t memory_for_all(const Source& source) {
    return source.all_bytes() * 5 / 4 + (64 << 20);
}

}  // namespace cache_peers
