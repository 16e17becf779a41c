#include "runtime/transport/window/shared_by_use.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gnu/libc-version.h>
#include <link.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/base/error.hpp"

namespace hocket::transport {
namespace {

// Returns true for a block as glibc maps it: 16 bytes after the beginning of a page, with its size before it.
bool allocates_like_glibc() {
    constexpr std::size_t bytes = 64 << 20;  // above every threshold of glibc; no page is touched
    constexpr std::uint64_t mapped = 2, flags = 7;
    void* (*volatile allocate)(std::size_t) = &std::malloc;  // the compiler must not think about its result
    const std::unique_ptr<void, decltype(&std::free)> block(allocate(bytes), &std::free);
    if (reinterpret_cast<std::uintptr_t>(block.get()) % page_bytes != 16) return false;
    const auto header = static_cast<const std::uint64_t*>(block.get())[-1];
    return (header & flags) == mapped && (header & ~flags) == round_up(bytes + 16, page_bytes);
}

// Other allocators rely on madvise(MADV_DONTNEED) to fill memory with zeros, which it does not do to a file.
// In a program at a fixed address (Debian's python3) a function of a library may have an address of the
// program's, which does not tell whose it is.
bool is_malloc_of_c_library() {
    Dl_info own{}, c_library{};
    void* symbol = nullptr;
    if (dladdr(reinterpret_cast<const void*>(&gnu_get_libc_version), &c_library) == 0 ||
        dladdr1(reinterpret_cast<const void*>(&std::malloc), &own, &symbol, RTLD_DL_SYMENT) == 0)
        return false;
    if (own.dli_fbase == c_library.dli_fbase) return true;
    return symbol && static_cast<const ElfW(Sym)*>(symbol)->st_shndx == SHN_UNDEF && allocates_like_glibc();
}

bool can_ask_for_mappings() {
    Mapping mapping{};
    return ask_for_mapping(Asked::that_holds, reinterpret_cast<std::uintptr_t>(&mapping), mapping) ==
           Answer::found;
}

// Makes only system calls.
void make_private(const Mapping& mapping, int file) noexcept {
    void* const begin = reinterpret_cast<void*>(mapping.begin);
    if (mmap(begin, mapping.end - mapping.begin, mapping.protection, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE,
             file, static_cast<off_t>(mapping.file_offset)) == MAP_FAILED)
        munmap(begin, mapping.end - mapping.begin);  // no memory is better than the parent's
}

}  // namespace

std::string obstacle_to_sharing_by_use() {
    if (!can_ask_for_mappings())
        return "the kernel does not say what is mapped at an address (the ioctl PROCMAP_QUERY on "
               "/proc/self/maps; Linux 6.11 and later do)";
    if (!is_malloc_of_c_library()) return "malloc is not the C library's";
    return "";
}

// A device, or the kernel, may be writing to pages that it has pinned, wherever their contents are copied to.
std::string present_obstacle_to_sharing_by_use() {
    std::ifstream status("/proc/self/status");
    int found = 0;
    for (std::string line; std::getline(status, line);)
        for (const std::string_view name : {"VmPin:", "VmLck:"}) {
            if (!line.starts_with(name)) continue;
            ++found;
            if (std::stoull(line.substr(name.size())) != 0) return "the process has pinned or locked memory";
        }
    return found == 2 ? "" : "/proc/self/status does not say how much memory is pinned";
}

void FilesSharedByUse::add(const WindowMemory& memory, const MappedFile& file) {
    const std::lock_guard lock(mutex_);
    for (const File& known : files_)
        if (known.id == file) return;
    close_unmapped();
    Socket own(fcntl(memory.file().fd(), F_DUPFD_CLOEXEC, 0));
    if (!own.is_open())
        throw Error(Status::out_of_memory, fmt::format("cannot keep a descriptor of the memory that is "
                                                       "shared by use: {}",
                                                       error_text(errno)));
    std::list<File> added;
    added.push_back({file, std::move(own), &memory, true});
    begin();
    const auto no_fork = forks::no_fork();
    files_.splice(files_.end(), added);
}

void FilesSharedByUse::let_go(const MappedFile& file) {
    const std::lock_guard lock(mutex_);
    for (File& known : files_)
        if (known.id == file) known.has_operations = false;
}

void FilesSharedByUse::remove(const MappedFile& file) {
    const std::lock_guard lock(mutex_);
    for (File& known : files_)
        if (known.id == file) known.memory = nullptr, known.has_operations = false;
    close_unmapped();
}

// Call with mutex_ held.
void FilesSharedByUse::close_unmapped() {
    if (files_.empty()) return;
    std::vector<MappedFile> mapped;
    if (!for_file_mappings(own_maps(), [&](const Mapping& mapping) {
            if (mapped.empty() || mapped.back() != mapping.file) mapped.push_back(mapping.file);
        }))
        return;
    std::list<File> closed;  // closed after forks are allowed again
    const auto no_fork = forks::no_fork();
    for (auto file = files_.begin(); file != files_.end();) {
        const auto next = std::next(file);
        if (!file->memory && std::find(mapped.begin(), mapped.end(), file->id) == mapped.end())
            closed.splice(closed.end(), files_, file);
        file = next;
    }
}

FilesSharedByUse::Use FilesSharedByUse::use_at(std::uintptr_t address) {
    const std::lock_guard lock(mutex_);
    Mapping mapping{};
    if (files_.empty() || ask_for_mapping(Asked::that_holds, address, mapping) != Answer::found)
        return Use::other;
    for (const File& known : files_) {
        if (known.id != mapping.file || !mapping.is_shared) continue;
        const auto* const begin = reinterpret_cast<const void*>(mapping.begin);
        if (known.memory && known.memory->offset_of(begin, mapping.end - mapping.begin)) return Use::other;
        return known.has_operations ? Use::by_operations : Use::left;
    }
    return Use::other;
}

// The program may have moved the memory, or may use the addresses for something else, so the mappings of this
// process are read from the kernel.
void FilesSharedByUse::in_child() noexcept {
    if (files_.empty()) return;
    const MapsOfChild maps;
    for_file_mappings(maps.fd(), [this](const Mapping& mapping) {
        for (const File& known : files_)
            if (known.id == mapping.file && mapping.is_shared) make_private(mapping, known.own.fd());
    });
}

}  // namespace hocket::transport
