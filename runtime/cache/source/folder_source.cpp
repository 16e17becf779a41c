#include <fmt/format.h>

#include <filesystem>

#include "runtime/base/error.hpp"
#include "runtime/cache/source/fingerprint.hpp"
#include "runtime/cache/source/folder_listing.hpp"
#include "runtime/cache/source/source.hpp"

namespace hocket::cache {
namespace {

// Returns an absolute path, because the embedder may change its working folder later.
std::string absolute(const std::string& folder) {
    std::string path = std::filesystem::absolute(folder).string();
    while (path.size() > 1 && path.back() == '/') path.pop_back();
    return path;
}

class FolderSource final : public Source {
  public:
    explicit FolderSource(const std::string& folder)
        : folder_(absolute(folder)), files_(list_folder(folder_)) {
        if (files_.size() == 0)
            throw Error(Status::not_found,
                        fmt::format("there are no files below the folder {}; is it mounted?", folder_));
        Fingerprint fingerprint("folder");
        for (std::size_t i = 0; i < files_.size(); ++i) {
            fingerprint.add(files_.path(i));
            fingerprint.add(files_.facts(i).bytes);
            fingerprint.add(static_cast<std::uint64_t>(files_.facts(i).changed_ns));
        }
        fingerprint_ = fingerprint.digest();
    }

    std::optional<std::uint64_t> count() const override { return files_.size(); }

    Origin origin(std::uint64_t key) const override {
        if (key >= files_.size())
            throw Error(Status::not_found,
                        fmt::format("there is no sample {}: {} has {} files, numbered from 0", key, folder_,
                                    files_.size()));
        return WholeFile{fmt::format("{}/{}", folder_, files_.path(key)), files_.facts(key).bytes,
                         files_.facts(key).changed_ns};
    }

    std::string name(std::uint64_t key) const override {
        return key < files_.size() ? std::string(files_.path(key))
                                   : fmt::format("sample {} of {}", key, folder_);
    }
    std::string location() const override { return folder_; }
    std::optional<std::uint64_t> find(const std::string& name) const override { return files_.find(name); }
    Digest fingerprint() const override { return fingerprint_; }

  private:
    std::string folder_;
    FolderListing files_;
    Digest fingerprint_{};
};

}  // namespace

std::unique_ptr<Source> open_folder(const std::string& path) {
    return std::make_unique<FolderSource>(path);
}

}  // namespace hocket::cache
