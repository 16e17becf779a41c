// The cache as a whole, in one process, on real files.
#include "runtime/cache/cache.hpp"

#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <numeric>
#include <set>
#include <thread>

#include "tests/runtime/cache/io/fifos.hpp"
#include "tests/runtime/cache/source/slow_source.hpp"

using namespace hocket;
using namespace hocket::cache;
using namespace std::chrono_literals;
using namespace hocket::test;

namespace {

SegmentHeader header_of(const std::string& path) {
    Page page;
    std::ifstream(path, std::ios::binary).read(reinterpret_cast<char*>(page.data()), page.size());
    return decode_header(page).value();
}

// Counts how many calls run at once. Waits for as many as are awaited, and a little for more.
Status counting_read(std::uint64_t key, Value& sample, std::atomic<int>& running, std::atomic<int>& most,
                     int awaited) {
    const int now = ++running;
    for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
    }
    eventually([&] { return most >= awaited; });
    std::this_thread::sleep_for(20ms);
    --running;
    const auto bytes = sample_bytes(key, 100);
    std::byte* const to = sample.reserve(bytes.size());
    if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
    return Status::success;
}

}  // namespace

TEST_CASE("a sample is read from the source once, and then is in memory") {
    for (const IoKind io : {IoKind::automatic, IoKind::threads}) {
        Slow source;
        CacheOptions options = over(source);
        options.io = io;
        Cache cache(std::move(options));
        get_all(cache, source);
        get_all(cache, source);
        CHECK(source.reads == source.count);
        CHECK(cache.stats().memory.lent == 0);
        CHECK(cache.stats().memory.hits >= source.count);
    }
}

TEST_CASE("what was read lies on the disk for the next process, whatever does the I/O") {
    for (const IoKind io : {IoKind::automatic, IoKind::threads}) {
        const TemporaryFolder folder;
        Slow source;
        for (int run = 0; run < 2; ++run) {
            CacheOptions options = over(source, folder.path());
            options.io = io;
            Cache cache(std::move(options));
            get_all(cache, source);
            CHECK(cache.stats().trouble == "");
            CHECK(cache.stats().counters->disk_hits == (run == 0 ? 0 : source.count));
        }
        CHECK(source.reads == source.count);
    }
}

TEST_CASE("another dataset does not see it, another decoder does") {
    const TemporaryFolder folder;
    Slow source;
    {
        Cache cache(over(source, folder.path()));
        get_all(cache, source);
    }
    CacheOptions other = over(source, folder.path());
    other.dataset = "test 2";
    {
        Cache cache(std::move(other));
        get_all(cache, source);
    }
    CHECK(source.reads == 2 * source.count);
    CacheOptions decoded = over(source, folder.path());
    decoded.decoder = "size alone";
    decoded.decode = [](std::uint64_t, std::span<const std::byte> encoded, Value& sample) {
        std::byte* const to = sample.reserve(sizeof(std::uint64_t));
        const std::uint64_t bytes = encoded.size();
        std::memcpy(to, &bytes, sizeof bytes);
        return Status::success;
    };
    Cache cache(std::move(decoded));
    const Lent lent = cache.get(7);
    std::uint64_t bytes = 0;
    REQUIRE(lent.bytes == sizeof bytes);
    std::memcpy(&bytes, lent.data, sizeof bytes);
    CHECK(bytes == sample_bytes(7, source.most).size());
    cache.release(lent);
    CHECK(source.reads == 2 * source.count);
}

TEST_CASE("each segment says in words what it holds") {
    const TemporaryFolder source;
    std::ofstream(source / "a") << "a sample";
    Slow function;
    const auto label = [&](const std::string& dataset, bool from_folder) {
        const TemporaryFolder folder;
        CacheOptions options = over(function, folder.path());
        if (from_folder) options.source = open_folder(source.path() + "/");
        options.dataset = dataset;
        {
            Cache cache(std::move(options));
            cache.release(cache.get(0));
        }
        for (const auto& file : std::filesystem::directory_iterator(folder.path()))
            if (file.path().extension() == ".seg") return header_of(file.path()).label;
        return std::string("no segment");
    };
    CHECK(label("words v2", false) == "words v2");
    CHECK(label("", true) == source.path());
    CHECK(label("words v2", true) == "words v2 from " + source.path());
}

TEST_CASE("only this user may read what lies in the cache's folder") {
    const TemporaryFolder folder;
    const mode_t usual = umask(022);
    Slow function;
    {
        Cache cache(over(function, folder.path()));
        cache.release(cache.get(0));
    }
    std::size_t files = 0;
    for (const auto& file : std::filesystem::directory_iterator(folder.path())) {
        CAPTURE(file.path());
        CHECK(file.status().permissions() == std::filesystem::perms(0600));
        ++files;
    }
    CHECK(files > 1);  // a lock at least, and a segment
    umask(usual);
}

TEST_CASE("each segment says how many samples are the source's, if that is known") {
    const TemporaryFolder source;
    std::ofstream(source / "a") << "a sample";
    Slow function;
    const auto samples = [&](std::unique_ptr<Source> of) {
        const TemporaryFolder folder;
        CacheOptions options = over(function, folder.path());
        options.source = std::move(of);
        {
            Cache cache(std::move(options));
            cache.put(7, std::vector<std::byte>(10));
        }
        for (const auto& file : std::filesystem::directory_iterator(folder.path()))
            if (file.path().extension() == ".seg") return header_of(file.path()).source_samples;
        throw std::runtime_error("no segment");
    };
    CHECK(samples(open_folder(source.path())) == 1);
    CHECK(samples(nullptr) == 0);
    CHECK_FALSE(samples(callback_source("function")));
}

TEST_CASE("threads that want the same sample load it once") {
    const TemporaryFolder folder;
    Slow source;
    source.delay = 2ms;
    Cache cache(over(source, folder.path()));
    std::vector<std::thread> threads;
    std::atomic<int> wrong = 0;
    for (int t = 0; t < 8; ++t) threads.emplace_back([&] { wrong += wrong_of_all(cache, source); });
    for (auto& thread : threads) thread.join();
    CHECK(wrong == 0);
    CHECK(source.reads == source.count);
}

TEST_CASE("two caches on one folder, as two processes have, load a sample once") {
    const TemporaryFolder folder;
    Slow source;
    source.delay = 2ms;
    Cache one(over(source, folder.path())), two(over(source, folder.path()));
    std::atomic<int> wrong = 0;
    std::thread first([&] { wrong += wrong_of_all(one, source); }),
        second([&] { wrong += wrong_of_all(two, source); });
    first.join();
    second.join();
    CHECK(wrong == 0);
    CHECK(source.reads == source.count);
    CHECK(one.stats().counters->disk_hits + two.stats().counters->disk_hits == source.count);
}

TEST_CASE("twice as many loads as reads may be in flight run, so that the next reads are there") {
    std::atomic<int> running = 0, most = 0;
    CacheOptions options;
    options.memory_bytes = 16 * MiB;
    options.source = callback_source("counting");
    options.depth = 4;
    options.workers = 32;
    options.read = [&](std::uint64_t key, Value& sample) {
        return counting_read(key, sample, running, most, 5);
    };
    Cache cache(std::move(options));
    std::vector<std::uint64_t> keys(24);
    std::iota(keys.begin(), keys.end(), 0);
    std::vector<Lent> samples(keys.size());
    cache.wait(cache.get_batch(keys, samples.data()));
    for (const Lent& lent : samples) cache.release(lent);
    CHECK(most > 4);
    CHECK(most <= 8);
}

TEST_CASE("as many threads read as loads run, unless the program wants fewer") {
    const bool is_limited = GENERATE(false, true);
    std::atomic<int> running = 0, most = 0;
    CacheOptions options;
    options.memory_bytes = 16 * MiB;
    options.source = callback_source("counting");
    if (is_limited) options.workers = 8;
    options.read = [&](std::uint64_t key, Value& sample) {
        return counting_read(key, sample, running, most, is_limited ? 8 : 33);
    };
    Cache cache(std::move(options));
    std::vector<std::uint64_t> keys(64);
    std::iota(keys.begin(), keys.end(), 0);
    std::vector<Lent> samples(keys.size());
    cache.wait(cache.get_batch(keys, samples.data()));
    for (const Lent& lent : samples) cache.release(lent);
    if (is_limited) {
        CHECK(most == 8);
    } else {
        CHECK(most > 32);
    }
}

TEST_CASE("a batch comes whole or not at all, and waits in the background") {
    Slow source;
    Cache cache(over(source));
    const std::vector<std::uint64_t> keys{5, 7, 5, 11, 99, 0};
    std::vector<Lent> samples(keys.size());
    Batch& batch = cache.get_batch(keys, samples.data());
    REQUIRE(eventually([&] { return batch.test(); }));
    for (std::size_t i = 0; i < keys.size(); ++i) {
        CHECK(is_right(samples[i], keys[i], source.most));
        cache.release(samples[i]);
    }
    const std::vector<std::uint64_t> bad{5, 100, 6};
    std::string text;
    CHECK(status_of([&] { cache.wait(cache.get_batch(bad, samples.data())); }, &text) == Status::not_found);
    CHECK(text.find("100") != std::string::npos);
    CHECK(samples[0].resident == nullptr);
    CHECK(cache.stats().memory.lent == 0);
    cache.wait(cache.get_batch({}, nullptr));
}

TEST_CASE("a source that fails is an error, and is asked again the next time") {
    Slow source;
    std::atomic<bool> broken = true;
    CacheOptions options = over(source);
    options.read = [&](std::uint64_t key, Value& sample) {
        return broken ? Status::io : source.read(key, sample);
    };
    Cache cache(std::move(options));
    CHECK(status_of([&] { cache.get(3); }) == Status::io);
    broken = false;
    const Lent lent = cache.get(3);
    CHECK(is_right(lent, 3, source.most));
    cache.release(lent);
}

TEST_CASE("functions that forget to reserve, or reserve too much, are told so") {
    Slow source;
    CacheOptions options = over(source);
    options.memory_bytes = MiB;
    options.read = [](std::uint64_t key, Value& sample) {
        if (key == 1) return Status::success;
        return sample.reserve(key == 2 ? 2 * MiB : 10) == nullptr ? Status::limit : Status::success;
    };
    Cache cache(std::move(options));
    std::string text;
    CHECK(status_of([&] { cache.get(1); }, &text) == Status::invalid_argument);
    CHECK(text.find("reserve") != std::string::npos);
    CHECK(status_of([&] { cache.get(2); }, &text) == Status::limit);
    CHECK(text.find("1048576") != std::string::npos);
    cache.release(cache.get(3));
}

TEST_CASE("a put is found by this process, the next one, and nobody may change it") {
    const TemporaryFolder folder;
    Slow none;
    const auto bytes = sample_bytes(5, 8 * KiB, 1), others = sample_bytes(5, 8 * KiB, 2);
    for (const std::string& where : {folder.path(), std::string()}) {
        CacheOptions options = over(none, where);
        options.source = nullptr;
        Cache cache(std::move(options));
        CHECK(status_of([&] { cache.get(5); }) == Status::not_found);
        cache.put(5, bytes);
        cache.put(5, bytes);
        CHECK(status_of([&] { cache.put(5, others); }) == Status::mismatch);
        const Lent lent = cache.get(5);
        CHECK(same({lent.data, lent.bytes}, bytes));
        cache.release(lent);
    }
    CacheOptions options = over(none, folder.path());
    options.source = nullptr;
    Cache next(std::move(options));
    const Lent lent = next.get(5);
    CHECK(same({lent.data, lent.bytes}, bytes));
    next.release(lent);
}

namespace {

// Wherever these bytes lie in the file, one of them becomes another.
void damage(const std::filesystem::path& path, const std::vector<std::byte>& bytes) {
    std::ifstream in(path, std::ios::binary);
    std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    const std::string_view wanted(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    for (std::size_t at = 0; (at = text.find(wanted, at)) != std::string::npos; ++at) text[at] ^= 1;
    std::ofstream(path, std::ios::binary | std::ios::in | std::ios::out)
        .write(text.data(), static_cast<std::streamsize>(text.size()));
}

}  // namespace

TEST_CASE("a sample whose copies are damaged but for one is found") {
    const TemporaryFolder folder;
    Slow none;
    const auto options_over = [&] {
        CacheOptions options = over(none, folder.path());
        options.source = nullptr;
        return options;
    };
    const auto bytes = sample_bytes(5, 8 * KiB, 1);
    // Each time all that lies there is damaged; the next put writes one more copy.
    for (int copies = 1; copies <= 8; ++copies) {
        {
            Cache cache(options_over());
            cache.put(5, bytes);
            cache.put(100 + copies, sample_bytes(6, 8 * KiB, copies));  // keeps the segment worth something
        }
        {
            Cache cache(options_over());
            const Lent lent = cache.get(5);
            CHECK(same({lent.data, lent.bytes}, bytes));
            cache.release(lent);
        }
        if (copies == 8) break;
        for (const auto& file : std::filesystem::directory_iterator(folder.path()))
            if (file.path().extension() == ".seg") damage(file.path(), bytes);
    }
}

TEST_CASE("a put again of what the kernel has no memory to read just now is no error") {
    const TemporaryFolder folder;
    Slow none;
    CacheOptions options = over(none, folder.path());
    options.io = GENERATE(IoKind::automatic, IoKind::threads);
    options.source = nullptr;
    options.read = nullptr;
    std::atomic<int> failing = 0;
    options.faults = [&](FileCall call, const std::string&) -> Fault {
        return call == FileCall::read && failing.fetch_sub(1) > 0 ? Fault{.error = EAGAIN} : Fault{};
    };
    Cache cache(std::move(options));
    const auto bytes = sample_bytes(5, 100'000);
    cache.put(5, bytes);
    failing = 5;
    cache.put(5, bytes);
    CHECK(cache.stats().disk.corrupt == 0);
}

TEST_CASE("what is the source's cannot be put") {
    const TemporaryFolder source;
    std::ofstream(source / "one") << "1";
    CacheOptions options;
    options.source = open_source(source.path(), "");
    Cache cache(std::move(options));
    std::string text;
    CHECK(status_of([&] { cache.put(0, sample_bytes(5, KiB)); }, &text) == Status::invalid_argument);
    CHECK(text.find("one") != std::string::npos);
    cache.put(1, sample_bytes(5, KiB));
    const Lent lent = cache.get(1);
    CHECK(same({lent.data, lent.bytes}, sample_bytes(5, KiB)));
    cache.release(lent);
}

TEST_CASE("every file call that fails costs time, not samples") {
    constexpr std::uint64_t most_calls = 400;
    for (const int error : {EIO, ENOSPC}) {
        std::uint64_t failed_somewhere = 0;
        for (std::uint64_t nth = 0; nth < most_calls; nth += nth < 60 ? 1 : 7) {
            const TemporaryFolder folder;
            Slow source;
            source.count = 12;
            for (int run = 0; run < 2; ++run) {
                std::atomic<std::uint64_t> calls = 0;
                CacheOptions options = over(source, folder.path());
                options.io = nth % 2 == 0 ? IoKind::automatic : IoKind::threads;
                options.faults = [&](FileCall, const std::string&) -> Fault {
                    return calls++ == nth ? (++failed_somewhere, Fault{.error = error, .at_most = UINT64_MAX})
                                          : Fault{};
                };
                const Status opened = status_of([&] {
                    Cache cache(std::move(options));
                    get_all(cache, source);
                    cache.flush();
                });
                // Only calls that cannot do without the folder may fail.
                if (opened != Status::success) CHECK(opened == Status::io);
            }
            Cache after(over(source, folder.path()));
            get_all(after, source);
        }
        CHECK(failed_somewhere > 20);
    }
}

TEST_CASE("files of a folder, and parts of a packed file, come as they are") {
    const TemporaryFolder folder, disk;
    std::filesystem::create_directories(folder / "a/b");
    std::ofstream(folder / "a/b/one") << "first";
    std::ofstream(folder / "a/two") << "";
    std::ofstream(folder / "zwei") << std::string(10000, 'z');
    {
        CacheOptions options;
        options.folder = disk.path();
        options.memory_bytes = MiB;
        options.source = open_source(folder.path(), "");
        Cache cache(std::move(options));
        CHECK(cache.count() == 3);
        const Lent one = cache.get(cache.find("a/b/one")), two = cache.get(cache.find("a/two")),
                   three = cache.get(cache.find("zwei"));
        CHECK(std::string(reinterpret_cast<const char*>(one.data), one.bytes) == "first");
        CHECK(two.bytes == 0);
        CHECK(three.bytes == 10000);
        for (const Lent& lent : {one, two, three}) cache.release(lent);
        CHECK(status_of([&] { cache.get(3); }) == Status::not_found);
        CHECK(status_of([&] { cache.find("a/three"); }) == Status::not_found);
    }
    std::ofstream(folder / "packed") << "xxfirstsecondyy";
    std::ofstream(folder / "packed.idx") << "2 5\n7 6\n13 0\n";
    CacheOptions options;
    options.memory_bytes = MiB;
    options.source = open_source(folder / "packed", "");
    Cache cache(std::move(options));
    const Lent second = cache.get(1);
    CHECK(std::string(reinterpret_cast<const char*>(second.data), second.bytes) == "second");
    cache.release(second);
}

TEST_CASE("a source that changes under the cache is an error, not a wrong sample") {
    const TemporaryFolder folder;
    std::ofstream(folder / "one") << "first";
    std::ofstream(folder / "two") << "second";
    CacheOptions options;
    options.memory_bytes = MiB;
    options.source = open_source(folder.path(), "");
    Cache cache(std::move(options));
    std::ofstream(folder / "one") << "longer";
    std::filesystem::remove(folder / "two");
    std::string text;
    CHECK(status_of([&] { cache.get(0); }, &text) == Status::io);
    CHECK(text.find("changed") != std::string::npos);
    CHECK(status_of([&] { cache.get(1); }, &text) == Status::io);
    CHECK(text.find("two") != std::string::npos);
}

TEST_CASE("a source's file that is written while it is read is an error, not a wrong sample") {
    // The second folder's file system has no block device, so its server is asked.
    const std::string parent = GENERATE(std::string("/tmp"), std::string("/dev/shm"));
    std::string name = parent + "/hocket-XXXXXX";
    if (mkdtemp(name.data()) == nullptr) HOCKET_SKIP("there is no folder " + parent);
    struct stat facts {};
    REQUIRE(stat(name.c_str(), &facts) == 0);
    std::ofstream(name + "/one") << "first";
    std::atomic<bool> is_written = false;
    std::atomic<int> asked = 0;
    CacheOptions options;
    options.memory_bytes = MiB;
    options.source = open_source(name, "");
    options.faults = [&](FileCall call, const std::string& path) {
        if (call == FileCall::read && !is_written.exchange(true))
            std::ofstream(name + "/one", std::ios::app) << "!";
        asked += call == FileCall::status && !path.empty();
        return Fault{};
    };
    {
        Cache cache(std::move(options));
        std::string text;
        CHECK(status_of([&] { cache.get(0); }, &text) == Status::io);
        CHECK(text.find("it had 5 bytes, now 6") != std::string::npos);
    }
    CHECK(is_written);
    CHECK(asked == (major(facts.st_dev) == 0 ? 1 : 0));
    std::filesystem::remove_all(name);
}

TEST_CASE("a source's file that has become a FIFO is an error at once") {
    for (const IoKind io : {IoKind::automatic, IoKind::threads}) {
        const TemporaryFolder folder;
        std::ofstream(folder / "one") << "first";
        std::ofstream(folder / "two").flush();
        CacheOptions options;
        options.memory_bytes = MiB;
        options.io = io;
        options.source = open_source(folder.path(), "");
        Cache cache(std::move(options));
        std::filesystem::remove(folder / "one");
        std::filesystem::remove(folder / "two");
        Fifos fifos(std::vector<std::string>{folder / "one", folder / "two"});
        for (const std::uint64_t key : {0, 1}) {
            std::string text;
            CHECK(status_of([&] { cache.get(key); }, &text) == Status::io);
            CHECK(text.find("not a regular file any more") != std::string::npos);
        }
        CHECK(fifos.are_passed());
    }
}

TEST_CASE("a packed file that is written while the cache is open is an error, not a wrong sample") {
    const TemporaryFolder folder;
    std::ofstream(folder / "packed") << "firstsecond";
    std::ofstream(folder / "packed.idx") << "0 5\n5 6\n";
    CacheOptions options;
    options.memory_bytes = MiB;
    options.source = open_source(folder / "packed", "");
    Cache cache(std::move(options));
    cache.release(cache.get(0));
    std::this_thread::sleep_for(20ms);  // file systems tell times apart by some milliseconds
    std::fstream(folder / "packed", std::ios::in | std::ios::out) << "other";
    std::string text;
    CHECK(status_of([&] { cache.get(1); }, &text) == Status::io);
    CHECK(text.find("changed") != std::string::npos);
}
