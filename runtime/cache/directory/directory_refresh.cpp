// Reads what other processes have written.
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "runtime/cache/directory/directory.hpp"

namespace hocket::cache {
namespace {

// File systems count time in ticks: a second change within the same tick does not show.
constexpr std::int64_t tick_ns = 100'000'000;

constexpr std::chrono::milliseconds refresh_interval{100};
constexpr int most_listings = 5;

std::int64_t now_ns() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
}

// Returns the folder's time of change; -1 if it cannot be read.
std::int64_t time_of_change(const Files& files, const std::string& folder) {
    struct stat status {};
    if (files.status(folder, status) < 0) return -1;
    return status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec;
}

}  // namespace

void Directory::refresh() {
    const std::scoped_lock lock(refresh_mutex_);
    list_if_changed();
    std::vector<std::shared_ptr<Known>> unread;
    {
        const std::scoped_lock table_lock(table_mutex_);
        for (const auto& [identity, known] : table_)
            if (!known->segment->is_owned() && !known->is_settled) unread.push_back(known);
    }
    for (const auto& known : unread) read_entries(*known);
}

void Directory::look_at_once() {
    {
        const std::scoped_lock lock(refresh_mutex_);
        look_again_ = {};
    }
    refresh();
}

// The counter in FOLDER/lock shows newly created segments. All other changes to the folder (files that are
// sealed, evicted or removed by hand) need not be noticed at once.
void Directory::list_if_changed() {
    const auto now = std::chrono::steady_clock::now();
    if (now >= look_again_) creations_.look_again();
    const auto created = creations_.read();
    const bool is_created = created && *created != known_creations_;
    if (created && !is_created && now < look_again_) return;
    look_again_ = now + refresh_interval;
    std::int64_t changed_ns = time_of_change(files_, options_.folder);
    if (changed_ns == listed_ns_ && !list_again_ && !is_created) return;
    // A file that is renamed during the listing may appear under neither name.
    for (int tries = 0; tries < most_listings; ++tries) {
        list_again_ = false;
        listed_ns_ = changed_ns;
        list();
        changed_ns = time_of_change(files_, options_.folder);
        if (changed_ns == listed_ns_) break;
    }
    // Otherwise something may be missing, and the next refresh lists again.
    if (created && !list_again_ && changed_ns == listed_ns_) known_creations_ = *created;
    list_again_ = list_again_ || changed_ns != listed_ns_ || now_ns() - changed_ns < tick_ns;
}

void Directory::list() {
    std::vector<SegmentName> names;
    if (list_segments(files_, options_.folder, names) < 0) {
        list_again_ = true;
        return;
    }
    for (const SegmentName& name : names)
        if (name.stage != SegmentStage::making) open_listed(name);
    drop_gone(names);
}

void Directory::open_listed(const SegmentName& name) {
    if (passed_over_.contains(name.identity)) return;
    {
        const std::scoped_lock lock(table_mutex_);
        if (const auto known = table_.find(name.identity); known != table_.end()) {
            Segment& segment = *known->second->segment;
            if (!segment.is_owned() && name.stage == SegmentStage::sealed) segment.was_sealed();
            return;
        }
    }
    const std::string path = path_of(options_.folder, name);
    Descriptor fd(files_.open(path, O_RDONLY));
    const bool is_none_of_ours = fd.get() == -EACCES || fd.get() == -irregular_file;
    if (is_none_of_ours) passed_over_.insert(name.identity);
    if (fd.get() < 0) {  // it has just been renamed or removed, or there are no descriptors left
        list_again_ = list_again_ || !is_none_of_ours;
        return;
    }
    const auto header = read_header(files_, fd.get());
    if (!header || header->identity != name.identity) return count_corrupt(name);
    if (header->dataset != options_.dataset) {
        passed_over_.insert(name.identity);
        return;
    }
    // The file's time records its last use. If it cannot be set, nothing depends on it.
    if (name.stage == SegmentStage::sealed && options_.writable) ::futimens(fd.get(), nullptr);
    auto known = std::make_shared<Known>();
    known->segment =
        std::make_shared<Segment>(files_, options_.folder, *header, std::move(fd), name.stage, false);
    known->reader = std::make_unique<EntryReader>(known->segment);
    const std::scoped_lock lock(table_mutex_);
    table_.emplace(name.identity, std::move(known));
}

void Directory::count_corrupt(const SegmentName& name) {
    passed_over_.insert(name.identity);
    ++corrupt_;
    {
        const std::scoped_lock lock(table_mutex_);
        if (findings_.size() < most_findings)
            findings_.push_back(path_of(options_.folder, name) + ": at offset 0: no right header");
    }
    if (options_.writable) remove_corrupt(files_, options_.folder, name);
}

void Directory::drop_gone(const std::vector<SegmentName>& listed) {
    std::set<Digest> there;
    for (const SegmentName& name : listed) there.insert(name.identity);
    std::erase_if(passed_over_, [&](const Digest& identity) { return !there.contains(identity); });
    for (const auto& segment : segments()) {
        if (there.contains(segment->header().identity) || !segment->is_gone()) continue;
        if (!segment->is_owned()) {
            drop(*segment);
            continue;
        }
        segment->was_removed();
        lose(*segment, -ENOENT);
        give_up(segment);
    }
}

void Directory::read_entries(Known& known) {
    Segment& segment = *known.segment;
    const bool is_sealed = segment.is_sealed();
    if (known.reader) {
        const bool is_final = !is_sealed && !options_.writable && !known.is_counted && segment.is_abandoned();
        const EntryReader::News news = known.reader->read(is_final);
        for (const Entry& entry : news.entries) records_.insert({known.segment, entry});
        corrupt_ += news.bad;
        if (is_sealed && news.bad > 0) damage_.found(segment.header().identity, news.bad, 0);
        known.is_counted = known.is_counted || is_final;
    }
    if (!is_sealed) return;
    known.reader.reset();
    known.is_settled = segment.settle();
}

}  // namespace hocket::cache
