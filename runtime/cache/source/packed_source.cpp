#include <fmt/format.h>
#include <sys/stat.h>

#include <filesystem>

#include "runtime/cache/segments/descriptor.hpp"
#include "runtime/cache/source/fingerprint.hpp"
#include "runtime/cache/source/packed_index.hpp"
#include "runtime/cache/source/read_index.hpp"
#include "runtime/cache/source/source.hpp"
#include "runtime/cache/source/source_error.hpp"

namespace hocket::cache {
namespace {

class PackedSource final : public Source {
  public:
    PackedSource(const std::string& path, const std::string& index_path)
        : path_(std::filesystem::absolute(path)), file_(open_source_file("packed file", path)) {
        struct stat facts {};
        if (::fstat(file_.get(), &facts) != 0)
            throw source_error(errno, "the packed file {} cannot be looked at", path);
        changed_ns_ = facts.st_mtim.tv_sec * std::int64_t{1'000'000'000} + facts.st_mtim.tv_nsec;
        const auto bytes = static_cast<std::uint64_t>(facts.st_size);
        const std::string index = read_index(index_path);
        parts_ = parse_index(index, bytes, index_path);
        if (parts_.empty())
            throw Error(
                Status::invalid_argument,
                fmt::format(
                    "the index {} has no samples; write a line \"OFFSET BYTES\" for each sample of {}",
                    index_path, path));
        Fingerprint fingerprint("packed");
        fingerprint.add(bytes);
        fingerprint.add(static_cast<std::uint64_t>(changed_ns_));
        fingerprint.add(index);
        fingerprint_ = fingerprint.digest();
    }

    std::optional<std::uint64_t> count() const override { return parts_.size(); }

    Origin origin(std::uint64_t key) const override {
        if (key >= parts_.size())
            throw Error(Status::not_found,
                        fmt::format("there is no sample {} in {}: its index has {}, numbered from 0", key,
                                    path_, parts_.size()));
        return PartOfFile{file_.get(), path_, parts_[key].offset, parts_[key].bytes, changed_ns_};
    }

    std::string name(std::uint64_t key) const override { return fmt::format("sample {} of {}", key, path_); }
    std::string location() const override { return path_; }
    std::optional<std::uint64_t> find(const std::string&) const override { return std::nullopt; }
    Digest fingerprint() const override { return fingerprint_; }

  private:
    std::string path_;
    Descriptor file_;
    std::int64_t changed_ns_ = 0;
    std::vector<Part> parts_;
    Digest fingerprint_{};
};

}  // namespace

std::unique_ptr<Source> open_packed(const std::string& path, const std::string& index_path) {
    return std::make_unique<PackedSource>(path, index_path);
}

}  // namespace hocket::cache
