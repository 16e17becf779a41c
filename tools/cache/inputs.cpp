#include "tools/cache/inputs.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <future>
#include <stdexcept>
#include <system_error>
#include <tuple>
#include <utility>

#include "runtime/cache/objects/object_store.hpp"
#include "runtime/cache/source/folder_listing.hpp"
#include "runtime/cache/source/read_index.hpp"
#include "runtime/cache/source/sample_index.hpp"
#include "runtime/cache/source/source_error.hpp"

namespace hocket::cache_tool {
namespace {

namespace fs = std::filesystem;
using cache::ObjectStore, cache::Url;

constexpr std::chrono::seconds patience{60};
constexpr std::uint64_t piece_of_file = 8 << 20, piece_of_object = 4 << 20;
constexpr unsigned files_at_once = 16, objects_at_once = 64;  // a network lets wait for longer

bool is_shard(std::string_view name) {
    return name.ends_with(".tar") || name.ends_with(".mds") || name.ends_with(".parquet");
}

class FileInput final : public Input {
  public:
    explicit FileInput(std::string path) : path_(std::move(path)), facts_(facts_of(open().get())) {}

    std::uint64_t bytes() const override { return facts_.bytes; }
    std::uint64_t piece_bytes() const override { return piece_of_file; }

    void read(std::uint64_t offset, std::span<std::byte> to) const override {
        const cache::Descriptor file = open();
        while (!to.empty()) {
            const ssize_t got = ::pread(file.get(), to.data(), to.size(), static_cast<off_t>(offset));
            if (got < 0 && errno == EINTR) continue;
            if (got <= 0)
                throw std::runtime_error(fmt::format("{}: it cannot be read at {}: {}", path_, offset,
                                                     got < 0 ? std::strerror(errno) : "it ends there"));
            offset += static_cast<std::uint64_t>(got);
            to = to.subspan(static_cast<std::size_t>(got));
        }
        const cache::FileFacts now = facts_of(file.get());
        if (now.bytes != facts_.bytes || now.changed_ns != facts_.changed_ns)
            throw std::runtime_error(fmt::format(
                "{}: it has changed while it was read; make the index when nobody writes", path_));
    }

  private:
    cache::Descriptor open() const { return cache::open_source_file("file", path_); }

    cache::FileFacts facts_of(int file) const {
        struct stat facts {};
        if (::fstat(file, &facts) != 0)
            throw std::runtime_error(
                fmt::format("{}: it cannot be looked at: {}", path_, std::strerror(errno)));
        return {static_cast<std::uint64_t>(facts.st_size),
                facts.st_mtim.tv_sec * std::int64_t{1'000'000'000} + facts.st_mtim.tv_nsec};
    }

    const std::string path_;
    const cache::FileFacts facts_;
};

class ObjectInput final : public Input {
  public:
    ObjectInput(std::shared_ptr<ObjectStore> store, cache::ObjectPart whole, bool comes_in_parts)
        : store_(std::move(store)), whole_(std::move(whole)), comes_in_parts_(comes_in_parts) {}

    std::uint64_t bytes() const override { return whole_.object_bytes; }
    std::uint64_t piece_bytes() const override { return comes_in_parts_ ? piece_of_object : bytes(); }

    void read(std::uint64_t offset, std::span<std::byte> to) const override {
        cache::ObjectPart part = whole_;
        part.offset = offset;
        part.bytes = to.size();
        std::promise<std::optional<Error>> answer;
        store_->read(part, to.data(), ObjectStore::Clock::now() + patience,
                     [&answer](std::optional<Error> error) { answer.set_value(std::move(error)); });
        if (const std::optional<Error> error = answer.get_future().get()) throw *error;
    }

  private:
    const std::shared_ptr<ObjectStore> store_;
    const cache::ObjectPart whole_;
    const bool comes_in_parts_;
};

// Returns the folder that all of the paths lie in, with '/' at its end.
std::string common_folder(const std::vector<std::string>& paths) {
    std::string common = paths.front().substr(0, paths.front().rfind('/') + 1);
    for (const std::string& path : paths) {
        const auto differs = std::mismatch(common.begin(), common.end(), path.begin(), path.end()).first;
        common.erase(differs, common.end());
        common.erase(common.rfind('/') + 1);
    }
    return common;
}

Inputs open_files(const std::vector<std::string>& sources) {
    std::vector<std::string> paths;
    for (const std::string& source : sources) {
        std::error_code error;
        const std::string path = fs::canonical(source, error);
        if (error) throw cache::source_error(error.value(), "the source {} cannot be looked at", source);
        if (!fs::is_directory(path)) {
            paths.push_back(path);
            continue;
        }
        const cache::FolderListing files = cache::list_folder(path);
        for (std::size_t i = 0; i < files.size(); ++i) {
            if (files.path(i) != cache::sample_index_name)
                paths.push_back(fmt::format("{}/{}", path, files.path(i)));
        }
    }
    if (paths.empty()) throw std::runtime_error(fmt::format("there are no files in {}", sources.front()));
    Inputs inputs{.base = common_folder(paths), .all = {}, .at_once = files_at_once};
    for (const std::string& path : paths) {
        inputs.all.push_back(std::make_unique<FileInput>(path));
        inputs.all.back()->name = path.substr(inputs.base.size());
    }
    return inputs;
}

// The URLs of one host or bucket, in parts.
std::vector<Url> parse_urls(const std::vector<std::string>& sources) {
    std::vector<Url> urls;
    for (const std::string& source : sources) {
        urls.push_back(cache::parse_url(source));
        if (urls.back().path.empty()) urls.back().path = "/";
        const Url &first = urls.front(), &last = urls.back();
        const auto way = [](const Url& url) { return std::tie(url.scheme, url.user, url.host, url.query); };
        if (way(first) != way(last))
            throw std::runtime_error(
                fmt::format("{} and {} are not below one URL, with one user and query; make an index of each",
                            first.shown(), last.shown()));
    }
    return urls;
}

Inputs open_objects(const std::vector<std::string>& sources) {
    const std::vector<Url> urls = parse_urls(sources);
    std::vector<std::string> paths;
    for (const Url& url : urls) paths.push_back(url.path);
    Url base = urls.front();
    base.path = common_folder(paths);
    const auto store = std::make_shared<ObjectStore>(base, true, patience);
    Inputs inputs{.base = base.shown(), .all = {}, .at_once = objects_at_once};
    const auto add = [&](const std::string& name, const cache::ObjectFacts& facts) {
        if (!facts.comes_in_parts && is_shard(name))
            throw std::runtime_error(fmt::format("{}: {}", store->shown(name), cache::sends_no_parts));
        inputs.all.push_back(std::make_unique<ObjectInput>(
            store, cache::ObjectPart{.name = name, .object_bytes = facts.bytes, .version = facts.version},
            facts.comes_in_parts));
        inputs.all.back()->name = name;
    };
    const auto name_below = [&](const Url& url) {
        const std::string path = url.path.substr(base.path.size());
        return url.is_s3() ? path : cache::percent_decoded(path);
    };
    std::vector<std::string> names;  // of objects, which are asked for at once
    for (const Url& url : urls)
        if (!url.path.ends_with('/')) names.push_back(name_below(url));
    const std::vector<cache::ObjectFacts> facts = store->facts(names);
    auto next = facts.begin();
    std::vector<cache::ListedObject> listed;
    for (const Url& url : urls) {
        const std::string name = name_below(url);
        if (!url.path.ends_with('/')) {
            add(name, *next++);
            continue;
        }
        if (listed.empty()) listed = store->list();
        for (const cache::ListedObject& object : listed)
            if (object.key.starts_with(name) && object.key != name + cache::sample_index_name)
                add(object.key, {.bytes = object.bytes, .version = {.etag = object.etag, .modified = ""}});
    }
    return inputs;
}

}  // namespace

Inputs open_inputs(const std::vector<std::string>& sources) {
    const auto is_url = [](const std::string& source) { return cache::is_url(source); };
    if (std::none_of(sources.begin(), sources.end(), is_url)) return open_files(sources);
    if (std::all_of(sources.begin(), sources.end(), is_url)) return open_objects(sources);
    throw std::runtime_error("there are both URLs and paths; make an index of each");
}

}  // namespace hocket::cache_tool
