#include <fmt/format.h>

#include <utility>

#include "runtime/base/error.hpp"
#include "runtime/cache/objects/object_store.hpp"
#include "runtime/cache/source/fingerprint.hpp"
#include "runtime/cache/source/packed_index.hpp"
#include "runtime/cache/source/read_index.hpp"
#include "runtime/cache/source/sample_index.hpp"
#include "runtime/cache/source/sample_names.hpp"
#include "runtime/cache/source/source.hpp"

namespace hocket::cache {
namespace {

constexpr std::size_t largest_index = std::size_t{1} << 30;

struct StoredObject {
    std::string name;
    std::uint64_t bytes = 0;
    Version version;
};
struct StoredSample {
    std::uint32_t object = 0;
    std::uint64_t offset = 0, bytes = 0;
    std::optional<std::uint64_t> checksum;
    std::string key;
};
// What a source has, whichever way that became known.
struct Catalog {
    std::vector<StoredObject> objects;
    std::vector<StoredSample> samples;
};

Catalog catalog_of(std::vector<ListedObject> listed) {
    Catalog catalog;
    for (ListedObject& object : listed) {
        catalog.samples.push_back(
            {static_cast<std::uint32_t>(catalog.objects.size()), 0, object.bytes, {}, ""});
        catalog.objects.push_back(
            {std::move(object.key), object.bytes, {.etag = object.etag, .modified = ""}});
    }
    return catalog;
}

Catalog catalog_of(SampleIndex index) {
    Catalog catalog;
    for (IndexedObject& object : index.objects)
        catalog.objects.push_back({std::move(object.name), object.bytes, {}});
    for (IndexedSample& sample : index.samples)
        catalog.samples.push_back(
            {sample.object, sample.offset, sample.bytes, sample.checksum, std::move(sample.key)});
    return catalog;
}

Catalog catalog_of(const std::vector<Part>& parts, const ObjectFacts& facts) {
    Catalog catalog{.objects = {{"", facts.bytes, facts.version}}, .samples = {}};
    for (const Part& part : parts) catalog.samples.push_back({0, part.offset, part.bytes, {}, ""});
    return catalog;
}

class ObjectSource final : public Source {
  public:
    ObjectSource(std::string location, std::unique_ptr<ObjectStore> store, Catalog catalog)
        : location_(std::move(location)), store_(std::move(store)), catalog_(std::move(catalog)) {
        if (catalog_.samples.empty())
            throw Error(Status::not_found,
                        fmt::format("there are no samples in {}; check the address, and its "
                                    "index if it has one",
                                    location_));
    }

    std::optional<std::uint64_t> count() const override { return catalog_.samples.size(); }

    Origin origin(std::uint64_t key) const override {
        if (key >= catalog_.samples.size())
            throw Error(Status::not_found, fmt::format("there is no sample {}: {} has {}, numbered from 0",
                                                       key, location_, catalog_.samples.size()));
        const StoredSample& sample = catalog_.samples[key];
        const StoredObject& object = catalog_.objects[sample.object];
        return FromStore{*store_,
                         {.name = object.name,
                          .offset = sample.offset,
                          .bytes = sample.bytes,
                          .object_bytes = object.bytes,
                          .version = object.version,
                          .checksum = sample.checksum}};
    }

    std::string name(std::uint64_t key) const override {
        const std::string name = key < catalog_.samples.size() ? name_of(catalog_.samples[key]) : "";
        return name.empty() ? fmt::format("sample {} of {}", key, location_) : name;
    }

    std::string location() const override { return location_; }

    std::optional<std::uint64_t> find(const std::string& name) const override { return names_.find(name); }

    Digest fingerprint() const override {
        Fingerprint fingerprint("objects");
        for (const StoredObject& object : catalog_.objects) {
            fingerprint.add(object.name);
            fingerprint.add(object.bytes);
            fingerprint.add(object.version.etag);
            fingerprint.add(object.version.etag.empty() ? object.version.modified : "");
        }
        for (const StoredSample& sample : catalog_.samples) {
            for (const std::uint64_t number : {std::uint64_t{sample.object}, sample.offset, sample.bytes})
                fingerprint.add(number);
            fingerprint.add(sample.checksum ? fmt::format("{:016x}", *sample.checksum) : "");
            fingerprint.add(sample.key);
        }
        return fingerprint.digest();
    }

    unsigned depth() const override { return usual_transfers; }
    void limit_reads(unsigned most) override { store_->limit(most); }
    void end_reads() const override { store_->end(); }

  private:
    std::string name_of(const StoredSample& sample) const {
        const std::string& object = catalog_.objects[sample.object].name;
        return sample.key.empty() ? object : object + "/" + sample.key;
    }

    const std::string location_;
    const std::unique_ptr<ObjectStore> store_;
    const Catalog catalog_;
    const SampleNames names_{[this] { return catalog_.samples.size(); },
                             [this](std::uint64_t key) { return name_of(catalog_.samples[key]); }};
};

// Finds out which of the ways to describe its samples a URL has.
class UrlOpening {
  public:
    UrlOpening(const std::string& url, std::chrono::milliseconds timeout)
        : url_(parse_url(url)), timeout_(timeout) {}

    std::unique_ptr<Source> with_index(const std::string& index) const {
        if (is_url(index)) return with_index_at(parse_url(index));
        const std::string text = read_index(index);
        return is_sample_index(text) ? indexed(text, index) : packed(text, index);
    }

    std::unique_ptr<Source> without_index() const {
        if (!url_.is_s3() && !url_.path.ends_with('/')) {
            Url beside = url_;
            beside.path += ".idx";
            return with_index_at(beside);
        }
        auto store = folder();
        try {
            return indexed(store->text(sample_index_name, largest_index), store->shown(sample_index_name));
        } catch (const Error& error) {
            // Any other failure must not let the listed objects pass for the samples of an index.
            if (error.status() != Status::not_found) throw;
            if (!url_.is_s3()) throw lacks_index(store->shown(sample_index_name));
        }
        Catalog catalog = catalog_of(store->list());
        return source(std::move(store), std::move(catalog));
    }

  private:
    static Error lacks_index(const std::string& shown) {
        return {
            Status::not_found,
            fmt::format("{}: there is none, and a folder at http:// or https:// needs an index: make one "
                        "with hocket-cache index INDEX URL..., and upload it as {}, or give it as --index "
                        "(source_index); or check the address",
                        shown, sample_index_name)};
    }

    std::unique_ptr<ObjectStore> folder() const {
        return std::make_unique<ObjectStore>(url_, true, timeout_);
    }

    std::unique_ptr<Source> source(std::unique_ptr<ObjectStore> store, Catalog catalog) const {
        return std::make_unique<ObjectSource>(url_.shown(), std::move(store), std::move(catalog));
    }

    std::unique_ptr<Source> with_index_at(const Url& index) const {
        ObjectStore store(index, false, timeout_);
        const std::string text = store.text("", largest_index);
        if (is_sample_index(text)) return indexed(text, store.shown(""));
        // Nothing in the text shows that it is whole.
        const std::uint64_t bytes = store.facts("").bytes;
        if (text.size() != bytes)
            throw Error(Status::io,
                        fmt::format("{}: it has {} bytes, but {} came; open the source again, and if this "
                                    "remains ask who runs the server",
                                    store.shown(""), bytes, text.size()));
        return packed(text, store.shown(""));
    }

    std::unique_ptr<Source> indexed(const std::string& text, const std::string& path) const {
        return source(folder(), catalog_of(parse_sample_index(text, path)));
    }

    std::unique_ptr<Source> packed(const std::string& text, const std::string& path) const {
        auto store = std::make_unique<ObjectStore>(url_, false, timeout_);
        const ObjectFacts facts = store->facts("");
        if (!facts.comes_in_parts)
            throw Error(Status::io, fmt::format("{}: {}", store->shown(""), sends_no_parts));
        Catalog catalog = catalog_of(parse_index(text, facts.bytes, path), facts);
        return source(std::move(store), std::move(catalog));
    }

    const Url url_;
    const std::chrono::milliseconds timeout_;
};

}  // namespace

std::unique_ptr<Source> open_objects(const std::string& url, const std::string& index,
                                     std::chrono::milliseconds timeout) {
    const UrlOpening opening(url, timeout);
    return index.empty() ? opening.without_index() : opening.with_index(index);
}

}  // namespace hocket::cache
