#include "runtime/cache/source/source.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include "runtime/cache/objects/url.hpp"
#include "runtime/cache/source/fingerprint.hpp"
#include "runtime/cache/source/sample_index.hpp"
#include "runtime/cache/source/source_error.hpp"

namespace hocket::cache {
namespace {

class CallbackSource final : public Source {
  public:
    explicit CallbackSource(const std::string& dataset) : dataset_(dataset) {}

    std::optional<std::uint64_t> count() const override { return std::nullopt; }
    Origin origin(std::uint64_t) const override { return FromCallback{}; }
    std::string name(std::uint64_t key) const override {
        return fmt::format("sample {} of {}", key, dataset_);
    }
    std::string location() const override { return ""; }
    std::optional<std::uint64_t> find(const std::string&) const override { return std::nullopt; }
    Digest fingerprint() const override {
        Fingerprint fingerprint("callback");
        fingerprint.add(dataset_);
        return fingerprint.digest();
    }

  private:
    std::string dataset_;
};

}  // namespace

std::unique_ptr<Source> open_source(const std::string& path, const std::string& index,
                                    std::chrono::milliseconds timeout) {
    if (is_url(path)) return open_objects(path, index, timeout);
    struct stat facts {};
    if (::stat(path.c_str(), &facts) != 0)
        throw source_error(errno, "the source {} cannot be looked at", path);
    if (!S_ISDIR(facts.st_mode)) return open_packed(path, index.empty() ? path + ".idx" : index);
    if (!index.empty()) return open_indexed_folder(path, index);
    // Taken for a folder of plain files by mistake, it would have other samples.
    const std::string usual = path + "/" + sample_index_name;
    if (::lstat(usual.c_str(), &facts) == 0) return open_indexed_folder(path, usual);
    if (errno != ENOENT) throw source_error(errno, "the index {} cannot be looked at", usual);
    return open_folder(path);
}

Digest mix(const Digest& digest, std::string_view text) {
    Fingerprint fingerprint("mixed");
    for (const std::uint64_t half : digest) fingerprint.add(half);
    fingerprint.add(text);
    return fingerprint.digest();
}

std::unique_ptr<Source> callback_source(const std::string& dataset) {
    return std::make_unique<CallbackSource>(dataset);
}

}  // namespace hocket::cache
