#include "runtime/cache/directory/directory.hpp"

#include <fmt/format.h>

#include <cerrno>

#include "runtime/base/error.hpp"
#include "runtime/cache/segments/space.hpp"

namespace hocket::cache {
namespace {

// Returns true for an error that the disk or its state causes, rather than the user of the folder.
bool is_disk_trouble(int error) {
    return error == -EROFS || error == -EACCES || error == -EPERM || error == -ENOSPC || error == -EDQUOT ||
           error == -EIO;
}

int make_folder(const Files& files, const DirectoryOptions& options) {
    return options.writable ? files.make_folders(options.folder) : 0;
}

}  // namespace

Directory::Directory(const Files& files, const DirectoryOptions& options)
    : files_(files),
      options_(options),
      making_error_(make_folder(files, options)),
      flights_(files, options.folder, options.dataset, options.writable),
      creations_(files, options.folder) {
    open_folder();
}

Directory::~Directory() {
    close();
}

void Directory::open_folder() {
    std::vector<SegmentName> names;
    const int error = list_segments(files_, options_.folder, names);
    const bool is_missing = error == -ENOENT && is_disk_trouble(making_error_);
    if (error < 0 && !is_missing)
        throw Error(Status::io, describe(options_.folder, error) +
                                    ": the cache's folder must be a folder that can be read and written");
    if (is_missing) set_trouble(describe(options_.folder, making_error_) + ": it cannot be made");
    if (options_.writable && !is_missing) {
        const FolderLock lock(files_, options_.folder, folder_patience);
        if (lock.is_held())
            take(adopt(files_, options_.folder));
        else
            set_trouble(lock.why());
    }
    refresh();
}

void Directory::set_trouble(const std::string& text) {
    small_pen_.trouble.set(text);
    large_pen_.trouble.set(text);
}

void Directory::take(const Adoption& adoption) {
    adopted_ += adoption.adopted;
    corrupt_ += adoption.corrupt;
}

std::optional<Place> Directory::find(std::uint64_t key) const {
    auto record = records_.find(key);
    if (!record) return {};
    const Segment& segment = *record->segment;
    return Place{std::move(record->segment), segment.payload_fd(), segment.is_direct(), segment.unit(),
                 record->entry};
}

bool Directory::is_right(const Place& place, std::span<const std::byte> bytes) {
    return bytes.size() == place.entry.bytes &&
           payload_checksum(place.segment->header().identity, place.entry, bytes) == place.entry.checksum;
}

bool Directory::begin_flight(std::uint64_t key) {
    return flights_.begin(key);
}

void Directory::end_flight(std::uint64_t key) {
    flights_.end(key);
}

std::vector<std::shared_ptr<Segment>> Directory::segments() const {
    const std::scoped_lock lock(table_mutex_);
    std::vector<std::shared_ptr<Segment>> all;
    for (const auto& [identity, known] : table_) all.push_back(known->segment);
    return all;
}

std::vector<std::string> Directory::findings() const {
    const std::scoped_lock lock(table_mutex_);
    return findings_;
}

void Directory::drop(const Segment& segment) {
    {
        const std::scoped_lock lock(table_mutex_);
        table_.erase(segment.header().identity);
    }
    records_.erase_all(segment);
}

std::vector<std::uint64_t> Directory::keys() const {
    return records_.keys();
}

DirectoryStats Directory::stats() const {
    DirectoryStats stats;
    stats.segments = segments().size();
    stats.records = records_.count();
    stats.record_bytes = records_.bytes();
    const std::int64_t used = used_bytes(files_, options_.folder);
    stats.used_bytes = used < 0 ? 0 : static_cast<std::uint64_t>(used);
    stats.limit_bytes = options_.limit_bytes;
    stats.written = written_;
    stats.written_bytes = written_bytes_;
    stats.not_written = not_written_;
    stats.corrupt = corrupt_;
    stats.adopted = adopted_;
    stats.evicted_segments = evicted_;
    stats.trouble = large_pen_.trouble.text();
    if (stats.trouble.empty()) stats.trouble = small_pen_.trouble.text();
    stats.damage = damage_.text(options_.folder);
    return stats;
}

}  // namespace hocket::cache
