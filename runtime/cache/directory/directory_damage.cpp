// Frees the space of damaged records before new segments need it.
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "runtime/cache/directory/directory.hpp"
#include "runtime/cache/segments/space.hpp"

namespace hocket::cache {
namespace {

std::uint64_t blocks_of(int fd) {
    struct stat status {};
    return ::fstat(fd, &status) == 0 ? taken_up(status, true) : 0;
}

}  // namespace

void Directory::forget(const Place& place) {
    if (!records_.erase(*place.segment, place.entry)) return;
    ++corrupt_;
    damage_.found(place.segment->header().identity, 1, place.entry.bytes);
}

void Directory::give_back() {
    if (!options_.writable) return;
    const std::scoped_lock lock(give_back_mutex_);
    for (const Digest& identity : damage_.take_segments()) {
        std::shared_ptr<const Segment> segment;
        {
            const std::scoped_lock table_lock(table_mutex_);
            if (const auto known = table_.find(identity); known != table_.end())
                segment = known->second->segment;
        }
        if (!segment) continue;
        if (segment->is_sealed())
            give_back(segment);
        else
            damage_.look_again(identity);
    }
}

void Directory::give_back(const std::shared_ptr<const Segment>& shared) {
    const Segment& segment = *shared;
    const std::string path = segment.path();
    const Descriptor fd(files_.open(path, O_RDWR));
    if (fd.get() == -ENOENT) return;
    if (fd.get() < 0) return damage_.not_freed(describe(path, fd.get()));
    Salvage salvage(files_, records_, segment, fd.get());
    if (!salvage.look()) return damage_.not_freed(path + ": its index cannot be read");
    for (const Entry& entry : salvage.right_again()) records_.insert({shared, entry});
    const std::uint64_t before = blocks_of(fd.get());
    const int error = salvage.is_worthless() ? files_.unlink(path) : salvage.free_rest();
    if (error < 0 && error != -ENOENT) return damage_.not_freed(describe(path, error));
    damage_.freed(salvage.is_worthless() ? before : before - std::min(before, blocks_of(fd.get())));
    if (salvage.is_worthless()) drop(segment);
}

}  // namespace hocket::cache
