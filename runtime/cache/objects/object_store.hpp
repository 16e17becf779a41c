// Objects below a URL: reads them, whole or in part, and never delivers bytes that are not theirs.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/environment.hpp"
#include "runtime/base/error.hpp"
#include "runtime/cache/objects/listing.hpp"
#include "runtime/cache/objects/object_part.hpp"
#include "runtime/cache/objects/retried_call.hpp"
#include "runtime/cache/objects/site.hpp"
#include "runtime/cache/objects/transfers.hpp"
#include "runtime/cache/objects/url.hpp"

namespace hocket::cache {

// Thread-safe.
class ObjectStore {
  public:
    using Clock = Transfers::Clock;
    using Done = std::function<void(std::optional<Error>)>;

    // timeout: of each call below that waits. Throws Error(invalid_argument), and Error(io) if libcurl cannot
    // be loaded.
    ObjectStore(const Url& url, bool is_folder, std::chrono::milliseconds timeout,
                const Environment& environment = process_environment());

    // Reads the part into part.bytes bytes at `to`, which stay valid until `done` is called, on another
    // thread. After an error these bytes are arbitrary. The error has status io if the object has changed,
    // and else those of start_call().
    void read(const ObjectPart& part, std::byte* to, Clock::time_point deadline, Done done);

    // These wait. They throw Error: not_found, io, timeout.
    ObjectFacts facts(const std::string& name) { return facts(std::vector{name}).front(); }
    std::vector<ObjectFacts> facts(const std::vector<std::string>& names);  // asks for many at once
    std::string text(const std::string& name, std::size_t most_bytes);
    // Returns the objects below the URL, with names relative to it, sorted by their bytes. Throws
    // Error(invalid_argument) where a server cannot list.
    std::vector<ListedObject> list();

    // Ends all reads with an error, and refuses others.
    void end() { transfers_.end(); }

    void limit(unsigned most) { transfers_.limit(most); }  // of reads at once

    std::string shown(const std::string& name) const { return site_->shown(name); }

  private:
    void start_facts(const std::string& name, std::function<void(ObjectFacts, std::optional<Error>)> done);
    Answer call(const std::string& shown, std::function<Request()> make,
                std::function<Verdict(const Answer&)> judge);
    ObjectPage page(const std::string& token);  // of the list; "": the first

    const std::chrono::milliseconds timeout_;
    const std::unique_ptr<Site> site_;
    Transfers transfers_;  // last: its calls use the site
};

}  // namespace hocket::cache
