#include "runtime/cache/segments/adoption.hpp"

#include <fcntl.h>
#include <sys/file.h>

#include <chrono>
#include <vector>

#include "runtime/cache/segments/descriptor.hpp"
#include "runtime/cache/segments/segment_file.hpp"

namespace hocket::cache {
namespace {

// Returns the file, locked, if no process has it open any more; otherwise a negative descriptor.
Descriptor claim(const Files& files, const std::string& path, int flags) {
    Descriptor fd(files.open(path, flags));
    if (fd.get() < 0 || files.lock(fd.get(), LOCK_EX | LOCK_NB) < 0) return Descriptor();
    // The writer may have sealed and closed the file after it was opened here.
    return is_file_at(files, fd.get(), path) ? std::move(fd) : Descriptor();
}

void adopt_open(const Files& files, const std::string& folder, const SegmentName& name, Adoption& adoption) {
    Descriptor fd = claim(files, path_of(folder, name), O_RDWR);
    if (fd.get() < 0) return;
    const auto header = read_header(files, fd.get());
    if (!header || header->identity != name.identity) return;
    Segment segment(files, folder, *header, std::move(fd), SegmentStage::open, true);
    const Segment::Sealing sealing = segment.seal();
    adoption.corrupt += sealing.bad_entries;
    if (sealing.outcome == Segment::Outcome::lost) files.unlink(segment.path());
    adoption.adopted += sealing.outcome == Segment::Outcome::sealed ||  //
                        sealing.outcome == Segment::Outcome::empty;
}

}  // namespace

Adoption adopt(const Files& files, const std::string& folder) {
    Adoption adoption;
    std::vector<SegmentName> names;
    if (list_segments(files, folder, names) < 0) return adoption;
    for (const SegmentName& name : names) {
        if (name.stage == SegmentStage::open) adopt_open(files, folder, name, adoption);
        if (name.stage != SegmentStage::making) continue;
        const std::string path = path_of(folder, name);
        if (claim(files, path, O_RDONLY).get() >= 0) files.unlink(path);
    }
    return adoption;
}

void remove_corrupt(const Files& files, const std::string& folder, const SegmentName& name) {
    const FolderLock lock(files, folder, std::chrono::milliseconds(0));
    if (!lock.is_held()) return;
    const std::string path = path_of(folder, name);
    const Descriptor fd = claim(files, path, O_RDONLY);
    if (fd.get() < 0) return;
    const auto header = read_header(files, fd.get());
    if (!header || header->identity != name.identity) files.unlink(path);
}

}  // namespace hocket::cache
