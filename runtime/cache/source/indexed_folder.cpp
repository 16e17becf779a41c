#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

#include "runtime/base/error.hpp"
#include "runtime/cache/objects/url.hpp"
#include "runtime/cache/segments/descriptor.hpp"
#include "runtime/cache/source/fingerprint.hpp"
#include "runtime/cache/source/read_index.hpp"
#include "runtime/cache/source/sample_index.hpp"
#include "runtime/cache/source/sample_names.hpp"
#include "runtime/cache/source/source.hpp"
#include "runtime/cache/source/source_error.hpp"

namespace hocket::cache {
namespace {

// Tells a name that stays below the folder, as far as names say it: links within are the folder's own.
bool is_below(const std::string& name) {
    const std::filesystem::path path(name);
    return !path.is_absolute() && std::find(path.begin(), path.end(), "..") == path.end() &&
           name.find('\0') == std::string::npos;
}

// Shards, and other files, with the samples that an index says.
class IndexedFolder final : public Source {
  public:
    IndexedFolder(const std::string& folder, const std::string& index_path)
        : folder_(std::filesystem::absolute(folder).lexically_normal()), index_path_(index_path) {
        const std::string text = read_index(index_path);
        index_ = parse_sample_index(text, index_path);
        if (index_.samples.empty())
            throw Error(
                Status::invalid_argument,
                fmt::format("the index {} has no samples; make it anew with hocket-cache index", index_path));
        Fingerprint fingerprint("indexed folder");
        fingerprint.add(text);
        for (const IndexedObject& object : index_.objects) {
            open(object);
            fingerprint.add(static_cast<std::uint64_t>(files_.back().changed_ns));
        }
        fingerprint_ = fingerprint.digest();
    }

    std::optional<std::uint64_t> count() const override { return index_.samples.size(); }

    Origin origin(std::uint64_t key) const override {
        if (key >= index_.samples.size())
            throw Error(Status::not_found,
                        fmt::format("there is no sample {}: the index {} has {}, numbered from 0", key,
                                    index_path_, index_.samples.size()));
        const IndexedSample& sample = index_.samples[key];
        const File& file = files_[sample.object];
        return PartOfFile{file.descriptor.get(), file.path,       sample.offset,
                          sample.bytes,          file.changed_ns, sample.checksum};
    }

    std::string name(std::uint64_t key) const override {
        return key < index_.samples.size() ? index_.name_of(index_.samples[key])
                                           : fmt::format("sample {} of {}", key, folder_);
    }
    std::string location() const override { return folder_; }
    std::optional<std::uint64_t> find(const std::string& name) const override { return names_.find(name); }
    Digest fingerprint() const override { return fingerprint_; }

  private:
    struct File {
        std::string path;
        Descriptor descriptor;
        std::int64_t changed_ns;
    };

    void open(const IndexedObject& object) {
        if (!is_below(object.name))
            throw Error(Status::invalid_argument,
                        fmt::format("the index {} names {}, which is not below {}; make the index anew with "
                                    "hocket-cache index",
                                    index_path_, one_line(object.name, 80), folder_));
        std::string path = fmt::format("{}/{}", folder_, object.name);
        Descriptor descriptor = open_source_file("file", path);
        struct stat facts {};
        if (::fstat(descriptor.get(), &facts) != 0)
            throw source_error(errno, "the file {} cannot be looked at", path);
        if (static_cast<std::uint64_t>(facts.st_size) != object.bytes)
            throw Error(Status::io,
                        fmt::format("the file {} has {} bytes, and {} in the index {}; make that anew "
                                    "with hocket-cache index",
                                    path, facts.st_size, object.bytes, index_path_));
        files_.push_back({std::move(path), std::move(descriptor),
                          facts.st_mtim.tv_sec * std::int64_t{1'000'000'000} + facts.st_mtim.tv_nsec});
    }

    const std::string folder_, index_path_;
    SampleIndex index_;
    std::vector<File> files_;  // of the index's objects
    Digest fingerprint_{};
    SampleNames names_{[this] { return index_.samples.size(); },
                       [this](std::uint64_t key) { return name(key); }};
};

}  // namespace

std::unique_ptr<Source> open_indexed_folder(const std::string& path, const std::string& index_path) {
    return std::make_unique<IndexedFolder>(path, index_path);
}

}  // namespace hocket::cache
