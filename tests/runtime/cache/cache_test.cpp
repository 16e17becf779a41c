// The cache as a whole, in one process, on real files.
#include "runtime/cache/cache.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <mutex>
#include <numeric>
#include <random>
#include <set>
#include <thread>

#include "tests/runtime/cache/samples.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using namespace hocket::cache;
using namespace std::chrono_literals;
using test::mixed;
using test::sample_bytes;
using test::TemporaryFolder;

namespace {

constexpr std::uint64_t KiB = 1024, MiB = 1024 * KiB;

// A source of `count` samples of up to `most` bytes that counts how often each is read.
struct Slow {
    std::uint64_t count = 100, most = 20 * KiB;
    std::chrono::microseconds delay{0};
    std::atomic<std::uint64_t> reads = 0;
    std::vector<std::atomic<int>> per_key = std::vector<std::atomic<int>>(100000);

    Status read(std::uint64_t key, Value& sample) {
        if (key >= count) return Status::not_found;
        ++reads;
        ++per_key[key];
        if (delay > 0us) std::this_thread::sleep_for(delay);
        const auto bytes = sample_bytes(key, most);
        std::byte* const to = sample.reserve(bytes.size());
        if (to == nullptr) return Status::limit;
        if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
        return Status::success;
    }
};

CacheOptions over(Slow& source, const std::string& folder = "") {
    CacheOptions options;
    options.folder = folder;
    options.memory_bytes = 64 * MiB;
    options.disk_bytes = 256 * MiB;
    options.dataset = "test 1";
    options.source = callback_source("test 1");
    options.read = [&source](std::uint64_t key, Value& sample) { return source.read(key, sample); };
    options.timeout = 20s;
    return options;
}

bool is_right(const Lent& lent, std::uint64_t key, std::uint64_t most) {
    return lent.key == key && test::same({lent.data, lent.bytes}, sample_bytes(key, most));
}

// The number of samples that are not what they should be: Catch's checks are for one thread.
int wrong_of_all(Cache& cache, const Slow& source) {
    int wrong = 0;
    for (std::uint64_t key = 0; key < source.count; ++key) {
        const Lent lent = cache.get(key);
        wrong += !is_right(lent, key, source.most);
        cache.release(lent);
    }
    return wrong;
}

void get_all(Cache& cache, const Slow& source) {
    CHECK(wrong_of_all(cache, source) == 0);
}

SegmentHeader header_of(const std::string& path) {
    Page page;
    std::ifstream(path, std::ios::binary).read(reinterpret_cast<char*>(page.data()), page.size());
    return decode_header(page).value();
}

Status status_of(const std::function<void()>& call, std::string* text = nullptr) {
    try {
        call();
    } catch (const Error& error) {
        if (text != nullptr) *text = error.what();
        return error.status();
    }
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

TEST_CASE("a batch comes whole or not at all, and waits in the background") {
    Slow source;
    Cache cache(over(source));
    const std::vector<std::uint64_t> keys{5, 7, 5, 11, 99, 0};
    std::vector<Lent> samples(keys.size());
    Batch& batch = cache.get_batch(keys, samples.data());
    while (!batch.test()) std::this_thread::sleep_for(1ms);
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

TEST_CASE("when all memory is lent, a get ends at its deadline and says so; a release lets others go on") {
    Slow source;
    CacheOptions options = over(source);
    options.memory_bytes = 64 * KiB;
    options.timeout = 300ms;
    options.read = [](std::uint64_t, Value& sample) {
        return sample.reserve(20 * KiB) == nullptr ? Status::limit : Status::success;
    };
    Cache cache(std::move(options));
    std::vector<Lent> lent;
    for (std::uint64_t key = 0; key < 3; ++key) lent.push_back(cache.get(key));
    std::string text;
    CHECK(status_of([&] { cache.get(3); }, &text) == Status::timeout);
    CHECK(text.find("lent") != std::string::npos);
    std::thread releases([&] {
        std::this_thread::sleep_for(50ms);
        for (const Lent& one : lent) cache.release(one);
    });
    const Lent fourth = cache.get(4);
    CHECK(fourth.bytes == 20 * KiB);
    releases.join();
    cache.release(fourth);
}

TEST_CASE("a batch that can never fit into the memory fails at once, and leaves the cache as it was") {
    const bool is_decoded = GENERATE(false, true), is_varied = GENERATE(false, true);
    Slow source;
    CacheOptions options = over(source);
    options.memory_bytes = 256 * KiB;
    options.read = [=](std::uint64_t key, Value& sample) {
        const std::uint64_t bytes = (is_varied ? 10 + mixed(key) % 20 : 20) * KiB;
        return sample.reserve(bytes) == nullptr ? Status::limit : Status::success;
    };
    if (is_decoded) {
        options.decoder = "twice as large";
        options.decode = [](std::uint64_t, std::span<const std::byte> encoded, Value& sample) {
            return sample.reserve(2 * encoded.size()) == nullptr ? Status::limit : Status::success;
        };
    }
    Cache cache(std::move(options));
    std::vector<std::uint64_t> keys(40);
    std::iota(keys.begin(), keys.end(), 0);
    std::vector<Lent> samples(keys.size());
    for (int turn = 0; turn < 4; ++turn) {  // with what the one before has left, too
        const auto start = std::chrono::steady_clock::now();
        std::string text;
        CHECK(status_of([&] { cache.wait(cache.get_batch(keys, samples.data())); }, &text) == Status::limit);
        CHECK(text.find("40 samples") != std::string::npos);
        CHECK(std::chrono::steady_clock::now() - start < 10s);  // of the deadline's 20
    }
    // The same sample a hundred times takes its room once.
    keys.assign(100, 7);
    samples.assign(100, {});
    cache.wait(cache.get_batch(keys, samples.data()));
    for (const Lent& lent : samples) cache.release(lent);
    CHECK(cache.stats().memory.lent == 0);
}

TEST_CASE("a batch that can never fit leaves its owner's memory alone from then on") {
    Slow source;
    CacheOptions options = over(source);
    options.memory_bytes = 256 * KiB;
    options.read = [](std::uint64_t, Value& sample) {
        return sample.reserve(20 * KiB) == nullptr ? Status::limit : Status::success;
    };
    Cache cache(std::move(options));
    std::vector<std::uint64_t> keys(400);
    const std::size_t bytes = keys.size() * sizeof(Lent);
    for (std::uint64_t round = 0; round < 20; ++round) {
        std::iota(keys.begin(), keys.end(), round * keys.size());
        void* const mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        REQUIRE(mapped != MAP_FAILED);
        auto* const samples = static_cast<Lent*>(mapped);
        CHECK(status_of([&] { cache.wait(cache.get_batch(keys, samples)); }) == Status::limit);
        munmap(mapped, bytes);  // while its other samples still wait for room: who looks there now is killed
    }
}

TEST_CASE("with an order, samples are there before they are asked for, in little memory too") {
    Slow source;
    source.count = 400;
    source.delay = 200us;
    CacheOptions options = over(source);
    options.memory_bytes = 600 * KiB;  // about 60 of the 400
    Cache cache(std::move(options));
    std::vector<std::uint64_t> order;
    for (std::uint64_t i = 0; i < 2 * source.count; ++i) order.push_back(mixed(i) % source.count);
    cache.set_order(order, 0);
    std::this_thread::sleep_for(50ms);
    for (const std::uint64_t key : order) {
        const Lent lent = cache.get(key);
        REQUIRE(is_right(lent, key, source.most));
        std::this_thread::sleep_for(100us);
        cache.release(lent);
    }
    CHECK(cache.cursor() == order.size());
    CHECK(cache.stats().memory.prefetched > order.size() / 4);
    CHECK(cache.stats().memory.used <= 600 * KiB);
    cache.set_order(std::span(order).first(10), 5);
    CHECK(cache.cursor() == 5);
}

TEST_CASE(
    "with memory for half of the samples half of them are loaded each epoch, however much time there is") {
    Slow source;
    source.count = 400;
    source.most = 8 * KiB;
    CacheOptions options = over(source);
    options.memory_bytes = 1100 * KiB;  // about half of the 400
    options.depth = 16;
    Cache cache(std::move(options));
    constexpr std::uint64_t epochs = 6;
    std::vector<std::uint64_t> order;
    for (std::uint64_t epoch = 0; epoch < epochs; ++epoch) {
        std::vector<std::uint64_t> keys(source.count);
        std::iota(keys.begin(), keys.end(), 0);
        std::shuffle(keys.begin(), keys.end(), std::mt19937_64(epoch));
        order.insert(order.end(), keys.begin(), keys.end());
    }
    cache.set_order(order, 0);
    std::uint64_t before = 0;
    for (std::uint64_t i = 0; i < order.size(); ++i) {
        cache.release(cache.get(order[i]));
        if (i % 4 == 0) std::this_thread::sleep_for(500us);
        if (i + 1 == 2 * source.count) before = source.reads;
    }
    const auto resident = static_cast<double>(cache.stats().memory.resident) / source.count;
    CHECK(resident > 0.4);
    const double loaded =
        static_cast<double>(source.reads - before) / static_cast<double>((epochs - 2) * source.count);
    INFO(resident << " resident");
    CHECK(loaded < 1.1 - resident);
    CHECK(cache.stats().memory.prefetched > order.size() / 4);
}

TEST_CASE("memory holds its limit under eight threads, with a decoder that needs more than it is given") {
    const TemporaryFolder folder;
    Slow source;
    source.count = 300;
    CacheOptions options = over(source, folder.path());
    options.memory_bytes = 400 * KiB;
    options.decoder = "twice";
    options.decode = [](std::uint64_t, std::span<const std::byte> encoded, Value& sample) {
        std::byte* const to = sample.reserve(2 * encoded.size());
        if (to == nullptr) return Status::limit;
        for (int half = 0; half < 2 && !encoded.empty(); ++half)
            std::memcpy(to + half * encoded.size(), encoded.data(), encoded.size());
        return Status::success;
    };
    Cache cache(std::move(options));
    std::atomic<bool> done = false, exceeded = false;
    std::thread watch([&] {
        while (!done) {
            if (cache.stats().memory.used > 400 * KiB) exceeded = true;
            std::this_thread::yield();
        }
    });
    std::vector<std::thread> threads;
    std::atomic<int> wrong = 0;
    for (int t = 0; t < 8; ++t)
        threads.emplace_back([&, t] {
            for (int i = 0; i < 300; ++i) {
                const std::uint64_t key = mixed(t * 1000 + i) % source.count;
                const Lent lent = cache.get(key);
                const auto bytes = sample_bytes(key, source.most);
                const std::span<const std::byte> data(lent.data, lent.bytes);
                if (lent.bytes != 2 * bytes.size() || !test::same(data.first(bytes.size()), bytes) ||
                    !test::same(data.subspan(bytes.size()), bytes))
                    ++wrong;
                cache.release(lent);
            }
        });
    for (auto& thread : threads) thread.join();
    done = true;
    watch.join();
    CHECK(wrong == 0);
    CHECK_FALSE(exceeded);
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
        CHECK(test::same({lent.data, lent.bytes}, bytes));
        cache.release(lent);
    }
    CacheOptions options = over(none, folder.path());
    options.source = nullptr;
    Cache next(std::move(options));
    const Lent lent = next.get(5);
    CHECK(test::same({lent.data, lent.bytes}, bytes));
    next.release(lent);
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
    CHECK(test::same({lent.data, lent.bytes}, sample_bytes(5, KiB)));
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
                // Only what a folder is needed for at all may fail.
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

TEST_CASE("a sample that is too large, encoded or with what is made of it, does not harm the others") {
    const TemporaryFolder folder;
    for (const std::uint64_t size : {9 * MiB, 5 * MiB}) {
        std::ofstream(folder / "large") << std::string(size, 'l');
        std::ofstream(folder / "small") << "small";
        CacheOptions options;
        options.memory_bytes = 8 * MiB;
        options.timeout = 5s;
        options.source = open_source(folder.path(), "");
        options.decoder = "copy";
        options.decode = [](std::uint64_t, std::span<const std::byte> encoded, Value& sample) {
            std::byte* const to = sample.reserve(encoded.size());
            if (to == nullptr) return Status::limit;
            std::memcpy(to, encoded.data(), encoded.size());
            return Status::success;
        };
        Cache cache(std::move(options));
        for (int i = 0; i < 3; ++i) {
            std::string text;
            CHECK(status_of([&] { cache.get(cache.find("large")); }, &text) == Status::limit);
            CHECK(text.find("large") != std::string::npos);
            CHECK(text.find("function failed") == std::string::npos);
            const Lent lent = cache.get(cache.find("small"));
            CHECK(lent.bytes == 5);
            cache.release(lent);
        }
    }
}

TEST_CASE(
    "loading ahead does not load again what it has loaded, for a slow consumer in little memory either") {
    const TemporaryFolder folder;
    constexpr std::uint64_t count = 300;
    std::uint64_t all = 0;
    for (std::uint64_t key = 0; key < count; ++key) {
        const std::uint64_t size = 1 + mixed(key) % (20 * KiB);
        all += size;
        std::ofstream(folder / std::to_string(1000 + key)) << std::string(size, 'x');
    }
    CacheOptions options;
    options.memory_bytes = all / 4;
    options.source = open_source(folder.path(), "");
    Cache cache(std::move(options));
    std::vector<std::uint64_t> order;
    for (std::uint64_t epoch = 0; epoch < 4; ++epoch) {
        std::vector<std::pair<std::uint64_t, std::uint64_t>> shuffled;
        for (std::uint64_t key = 0; key < count; ++key)
            shuffled.emplace_back(mixed(epoch * count + key), key);
        std::sort(shuffled.begin(), shuffled.end());
        for (const auto& each : shuffled) order.push_back(each.second);
    }
    cache.set_order(order, 0);
    for (std::size_t i = 0; i < order.size(); i += 8) {
        std::vector<Lent> batch(std::min<std::size_t>(8, order.size() - i));
        cache.wait(cache.get_batch(std::span(order).subspan(i, batch.size()), batch.data()));
        std::this_thread::sleep_for(1ms);
        for (const Lent& lent : batch) cache.release(lent);
    }
    CHECK(cache.stats().counters->source_reads <= order.size());
}
