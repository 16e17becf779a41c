// Memory of the program that is made shared because its operations use it again and again. Nobody says when
// the program frees it, so it is believed to be shared only while the kernel says that the window's file is
// mapped there (adopted.hpp), and its mappings are never taken back: they belong to the program. They may
// stay after the window, and move. This is the list of the files that have such mappings in this process.
#pragma once

#include <list>
#include <mutex>
#include <string>

#include "runtime/base/forks.hpp"
#include "runtime/transport/net/socket.hpp"
#include "runtime/transport/window/mapping_query.hpp"
#include "runtime/transport/window/memory.hpp"

namespace hocket::transport {

// Return "" if this process's memory can be shared by use; otherwise the reason, for people. The first holds
// as long as the process; the second may pass. Thread-safe.
std::string obstacle_to_sharing_by_use();
std::string present_obstacle_to_sharing_by_use();

// In a forked child all such mappings become private, wherever they are by then. Thread-safe.
class FilesSharedByUse : private forks::Inherited {
  public:
    static FilesSharedByUse& of_process() { return forks::own<FilesSharedByUse>(); }

    ~FilesSharedByUse() { end(); }

    // Call before memory is mapped to the file. Idempotent. Throws Error(out_of_memory): no descriptors.
    void add(const WindowMemory& memory, const MappedFile& file);
    // Call when no operation uses such memory of the file any more, and when `memory` is about to be
    // destroyed. Nothing happens if the file was not added.
    void let_go(const MappedFile& file);
    void remove(const MappedFile& file);

    // The use of the mapping at an address: it belongs to a window, or was not shared by use; it is shared by
    // use, and operations may use it there; it is left over from that. Asks the kernel only if the process
    // has such files.
    enum class Use : std::uint8_t { other, by_operations, left };
    Use use_at(std::uintptr_t address);

  private:
    struct File {
        MappedFile id;
        Socket own;                  // a descriptor of the file
        const WindowMemory* memory;  // null: destroyed
        bool has_operations;
    };

    void in_child() noexcept override;
    void close_unmapped();

    std::mutex mutex_;  // guards files_; a change prevents forks, too
    std::list<File> files_;
};

}  // namespace hocket::transport
