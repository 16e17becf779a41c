#include "runtime/cache/source/folder_listing.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <memory>

#include "runtime/cache/segments/descriptor.hpp"
#include "runtime/cache/source/parallel.hpp"
#include "runtime/cache/source/source_error.hpp"

namespace hocket::cache {
namespace {

constexpr unsigned threads = 32;

enum class Kind { file, folder, link, unknown, other };

Kind kind_of(unsigned char type) {  // of a dirent
    switch (type) {
        case DT_REG:
            return Kind::file;
        case DT_DIR:
            return Kind::folder;
        case DT_LNK:
            return Kind::link;
        case DT_UNKNOWN:
            return Kind::unknown;
        default:
            return Kind::other;
    }
}

Kind kind_of(const struct stat& facts) {
    return S_ISREG(facts.st_mode) ? Kind::file : S_ISDIR(facts.st_mode) ? Kind::folder : Kind::other;
}

struct ListedFile {
    std::uint64_t begin;  // of its path in Folder::paths
    std::uint32_t length;
    Kind kind;
    FileFacts facts;
};

// The readdir() results of one folder, then the stat() results of its entries.
struct Folder {
    std::string path;  // relative; "" is the root
    std::string paths;
    std::vector<ListedFile> entries;

    std::string_view path_of(const ListedFile& entry) const {
        return std::string_view(paths).substr(entry.begin, entry.length);
    }
};

// Works level by level: lists all folders of a level in parallel, then reads the status of all their files in
// parallel. Some file systems do not report a file's kind in the listing, so the next level is known only
// after both.
class Walk {
  public:
    explicit Walk(const std::string& root)
        : root_(root), fd_(::open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
        if (fd_.get() < 0) throw source_error(errno, "the folder {} cannot be opened", root);
    }

    FolderListing run() {
        for (std::vector<Folder> level(1); !level.empty(); level = next_level()) {
            parallel(level.size(), threads, [&](std::size_t i) { list(level[i]); });
            look_at(level);
            level_begin_ = done_.size();
            std::move(level.begin(), level.end(), std::back_inserter(done_));
        }
        std::vector<FolderListing::Found> files;
        for (const Folder& folder : done_)
            for (const ListedFile& entry : folder.entries)
                if (entry.kind == Kind::file) files.push_back({folder.path_of(entry), entry.facts});
        return FolderListing(std::move(files));
    }

  private:
    std::string full(std::string_view path) const {
        return path.empty() ? root_ : fmt::format("{}/{}", root_, path);
    }

    void list(Folder& folder) const {
        const char* path = folder.path.empty() ? "." : folder.path.c_str();
        const auto refuse = [&] {
            return source_error(errno, "the folder {} cannot be listed", full(folder.path));
        };
        Descriptor fd(::openat(fd_.get(), path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
        if (fd.get() < 0) throw refuse();
        const std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(fd.get()), ::closedir);
        if (!stream) throw refuse();
        fd.release();  // the stream owns it now
        for (;;) {
            errno = 0;
            const dirent* entry = ::readdir(stream.get());
            if (entry == nullptr && errno != 0) throw refuse();
            if (entry == nullptr) return;
            add(folder, entry->d_name, kind_of(entry->d_type));
        }
    }

    static void add(Folder& folder, std::string_view name, Kind kind) {
        if (name == "." || name == ".." || kind == Kind::other) return;
        const std::uint64_t begin = folder.paths.size();
        if (!folder.path.empty()) folder.paths.append(folder.path).push_back('/');
        folder.paths.append(name);
        folder.entries.push_back({begin, static_cast<std::uint32_t>(folder.paths.size() - begin), kind, {}});
    }

    void look_at(std::vector<Folder>& level) const {
        std::vector<std::pair<const Folder*, ListedFile*>> unseen;
        for (Folder& folder : level)
            for (ListedFile& entry : folder.entries)
                if (entry.kind != Kind::folder) unseen.emplace_back(&folder, &entry);
        parallel(unseen.size(), threads, [&](std::size_t i) {
            look_at(unseen[i].first->path_of(*unseen[i].second), *unseen[i].second);
        });
    }

    void look_at(std::string_view path, ListedFile& entry) const {
        struct stat facts {};
        const auto look = [&](int flags) {
            if (::fstatat(fd_.get(), std::string(path).c_str(), &facts, flags) != 0)
                throw source_error(errno, "the file {} cannot be looked at", full(path));
        };
        bool is_link = entry.kind == Kind::link;
        if (!is_link) {
            look(AT_SYMLINK_NOFOLLOW);
            is_link = S_ISLNK(facts.st_mode);
        }
        if (is_link) look(0);
        entry.kind = is_link && S_ISDIR(facts.st_mode) ? Kind::other : kind_of(facts);
        entry.facts = {static_cast<std::uint64_t>(facts.st_size),
                       facts.st_mtim.tv_sec * std::int64_t{1'000'000'000} + facts.st_mtim.tv_nsec};
    }

    std::vector<Folder> next_level() const {
        std::vector<Folder> next;
        for (std::size_t i = level_begin_; i < done_.size(); ++i)
            for (const ListedFile& entry : done_[i].entries)
                if (entry.kind == Kind::folder) next.emplace_back().path = done_[i].path_of(entry);
        return next;
    }

    std::string root_;
    Descriptor fd_;
    std::vector<Folder> done_;
    std::size_t level_begin_ = 0;  // where the previous level begins in done_
};

}  // namespace

FolderListing::FolderListing(std::vector<Found> files) {
    std::sort(files.begin(), files.end(), [](const Found& a, const Found& b) { return a.path < b.path; });
    std::size_t bytes = 0;
    for (const Found& file : files) bytes += file.path.size();
    paths_.reserve(bytes);
    ends_.reserve(files.size());
    facts_.reserve(files.size());
    for (const Found& file : files) {
        paths_.append(file.path);
        ends_.push_back(paths_.size());
        facts_.push_back(file.facts);
    }
}

std::string_view FolderListing::path(std::size_t i) const {
    const std::uint64_t begin = i == 0 ? 0 : ends_[i - 1];
    return std::string_view(paths_).substr(begin, ends_[i] - begin);
}

std::optional<std::size_t> FolderListing::find(std::string_view path) const {
    std::size_t low = 0, high = size();
    while (low < high) {
        const std::size_t middle = low + (high - low) / 2;
        if (this->path(middle) < path)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == size() || this->path(low) != path) return std::nullopt;
    return low;
}

FolderListing list_folder(const std::string& folder) {
    return Walk(folder).run();
}

}  // namespace hocket::cache
