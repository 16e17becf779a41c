// Asks the kernel for single mappings of this process, by an ioctl that answers in less than a microsecond
// (PROCMAP_QUERY, Linux 6.11 and later). mapped_areas.hpp reads all of them as text, on any Linux.
#pragma once

#include <cstdint>
#include <optional>

namespace hocket::transport {

// Identifies a file that is open, or mapped.
struct MappedFile {
    std::uint32_t major, minor;  // of its device
    std::uint64_t inode;
    bool operator==(const MappedFile&) const = default;
};
MappedFile mapped_file(int fd);

struct Mapping {
    std::uintptr_t begin, end;
    std::uint64_t file_offset;  // of `begin`
    MappedFile file;            // all 0: none
    int protection;             // as for mmap(2)
    bool is_shared;

    bool shows(const MappedFile& of, std::uint64_t offset, std::uintptr_t address) const {
        return file == of && file_offset + (address - begin) == offset;
    }
};

// Which mapping is asked for: the one that holds an address, or the first of any file that ends behind it.
enum class Asked : std::uint8_t { that_holds, of_file_from };

enum class Answer : std::uint8_t { found, none, unknown };  // unknown: the kernel cannot be asked

// Asks about the process that has opened its /proc/self/maps as this descriptor. Makes one system call.
Answer ask_for_mapping(int maps, Asked asked, std::uintptr_t address, Mapping& mapping) noexcept;

// The same about this process. Thread-safe. May throw std::bad_alloc.
Answer ask_for_mapping(Asked asked, std::uintptr_t address, Mapping& mapping);

// Calls call(mapping) for each mapping of a file, by address. Returns false if the kernel cannot be asked.
// Makes only system calls beside those of call().
template <typename Call>
bool for_file_mappings(int maps, Call call) {
    Mapping mapping{};
    for (std::uintptr_t at = 0;; at = mapping.end) {
        const Answer answer = ask_for_mapping(maps, Asked::of_file_from, at, mapping);
        if (answer != Answer::found) return answer == Answer::none;
        call(mapping);
    }
}

// Returns this process's descriptor of its mappings, which stays open; -1 if there is none. Thread-safe. May
// throw std::bad_alloc.
int own_maps();

// The descriptor for a forked child, whose copy of own_maps() is its parent's. Makes only system calls.
class MapsOfChild {
  public:
    MapsOfChild() noexcept;
    ~MapsOfChild();
    MapsOfChild(const MapsOfChild&) = delete;
    int fd() const { return fd_; }

  private:
    int fd_;
};

}  // namespace hocket::transport
