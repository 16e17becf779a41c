// Limits, eviction, full and read-only disks.
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "runtime/cache/directory/directory.hpp"
#include "runtime/cache/segments/space.hpp"
#include "tests/runtime/cache/folders.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/going_on.hpp"
#include "tests/support/sizes.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using namespace hocket::cache;
using namespace hocket::test;

namespace {

constexpr Digest ours{1, 2}, theirs{3, 4};

void fill(Directory& directory, const Files& files, std::uint64_t first_key, int count, std::uint64_t size) {
    for (std::uint64_t key = first_key; count > 0; --count, ++key)
        put(directory, files, key, payload_of(key, size));
}

// A mount that ends with the test.
class Mount {
  public:
    Mount(const char* from, const std::string& to, const char* type, unsigned long flags, const char* data)
        : to_(to), error_(::mount(from, to.c_str(), type, flags, data) == 0 ? 0 : errno) {}
    ~Mount() {
        if (error_ == 0) ::umount2(to_.c_str(), MNT_DETACH);
    }
    bool remount(unsigned long flags) {
        return ::mount(nullptr, to_.c_str(), nullptr, MS_REMOUNT | flags, nullptr) == 0;
    }
    int error() const { return error_; }

  private:
    std::string to_;
    int error_;
};

// Watches, as long as it lives, that the folder does not grow beyond its limit.
class Watch {
  public:
    Watch(const std::string& folder, std::uint64_t limit)
        : thread_([this, folder, limit] {
              while (!is_over_) {
                  const std::uint64_t now = folder_bytes(folder);
                  most_ = std::max<std::uint64_t>(most_, now);
                  if (now > limit) ++excesses_;
                  ++looks_;
              }
          }) {}
    ~Watch() { end(); }
    void end() {
        is_over_ = true;
        if (thread_.joinable()) thread_.join();
    }
    std::uint64_t most() const { return most_; }
    int excesses() const { return excesses_; }
    int looks() const { return looks_; }

  private:
    std::atomic<bool> is_over_{false};
    std::atomic<std::uint64_t> most_{0};
    std::atomic<int> excesses_{0}, looks_{0};
    std::thread thread_;
};

// Puts again and again until it succeeds, or a minute is over.
bool put_in_time(Directory& directory, const Files& files, std::uint64_t key, std::uint64_t size) {
    return test::eventually([&] { return put(directory, files, key, payload_of(key, size)); },
                            std::chrono::minutes(1));
}

void write_until_full(const Files& files, const std::string& folder) {
    Directory directory(files, options_for(folder));
    std::uint64_t written = 0;
    for (std::uint64_t key = 0; key < 1000; ++key)
        written += put(directory, files, key, payload_of(key, key % 3 == 0 ? 300 : 20'000));
    CHECK(written > 200);
    CHECK(written < 1000);
    const DirectoryStats stats = directory.stats();
    CHECK(stats.not_written == 1000 - written);
    CHECK(stats.trouble.find("No space left on device") != std::string::npos);
    CHECK(stats.records == written);
    CHECK(stats.corrupt == 0);
    for (const std::uint64_t key : directory.keys())
        REQUIRE(get(directory, files, key) == payload_of(key, key % 3 == 0 ? 300 : 20'000));
    directory.flush();
}

}  // namespace

TEST_CASE("the limit holds at every moment, for threads and processes on one folder") {
    const Files files;
    const TemporaryFolder folder;
    constexpr std::uint64_t limit = 24 * MiB;
    std::vector<pid_t> children;
    for (std::uint64_t process = 1; process <= 3; ++process) {
        const pid_t child = hocket::test::fork_to_go_on();
        if (child == 0) {
            Directory directory(files, options_for(folder.path(), limit, true, process == 3 ? theirs : ours));
            for (std::uint64_t i = 0; i < 1500; ++i)
                put(directory, files, process << 32 | i, payload_of(i, i % 2 ? 900 : 16'000));
            ::_exit(0);  // without close: the others adopt
        }
        children.push_back(child);
    }
    Watch watch(folder.path(), limit);
    {
        Directory directory(files, options_for(folder.path(), limit));
        std::vector<std::thread> threads;
        for (std::uint64_t thread = 0; thread < 8; ++thread)
            threads.emplace_back([&, thread] {
                for (std::uint64_t i = 0; i < 300; ++i)
                    put(directory, files, thread << 48 | i, payload_of(thread ^ i, i % 2 ? 900 : 16'000));
            });
        for (std::thread& thread : threads) thread.join();
        CHECK(directory.stats().not_written > 0);
        CHECK(directory.stats().trouble.find("limit") != std::string::npos);
        for (const pid_t child : children) REQUIRE(::waitpid(child, nullptr, 0) == child);
        directory.refresh();
        for (const std::uint64_t key : directory.keys()) REQUIRE(get(directory, files, key));
        CHECK(directory.stats().corrupt == 0);
    }
    watch.end();
    CHECK(watch.looks() > 10);
    CHECK(watch.excesses() == 0);
    CHECK(watch.most() > limit / 2);
}

TEST_CASE("a segment that is sealed while the folder is counted is counted") {
    const Files files;
    const TemporaryFolder folder;
    Directory directory(files, options_for(folder.path(), 100 * MiB));
    fill(directory, files, 0, 2, 300'000);
    bool is_sealed = false;
    const Files watched([&](FileCall call, const std::string& path) {
        if (call == FileCall::status && path.ends_with(".open") && !std::exchange(is_sealed, true))
            directory.close();
        return Fault{};
    });
    const auto counted = used_bytes(watched, folder.path());
    CHECK(is_sealed);
    CHECK(counted >= static_cast<std::int64_t>(folder_bytes(folder.path())));
}

TEST_CASE("nobody else takes the room that is about to be taken") {
    const TemporaryFolder folder;
    constexpr std::uint64_t limit = 3 * MiB;
    std::atomic<int> calls_of_rival = 0;
    const Files rivals([&](FileCall, const std::string&) {
        ++calls_of_rival;
        return Fault{};
    });
    Directory other(rivals, options_for(folder.path(), limit));
    std::thread rival;
    const Files files([&](FileCall call, const std::string&) {
        if (call != FileCall::allocate || rival.joinable()) return Fault{};
        const int before = calls_of_rival;
        rival = std::thread([&] { put(other, rivals, 2, payload_of(2, 2 * MiB)); });
        const bool has_begun = test::eventually([&] { return calls_of_rival > before; });
        if (!has_begun) std::abort();
        std::this_thread::sleep_for(std::chrono::milliseconds(20));  // it may go on, if nothing holds it
        return Fault{};
    });
    Directory directory(files, options_for(folder.path(), limit));
    CHECK(put(directory, files, 1, payload_of(1, 2 * MiB)));
    rival.join();
    CHECK_FALSE(other.find(2));
    CHECK(folder_bytes(folder.path()) <= limit);
}

TEST_CASE("close to the limit segments get smaller, until it is used up") {
    const Files files;
    const TemporaryFolder folder;
    Directory directory(files, options_for(folder.path(), 300'000));
    std::uint64_t written = 0;
    while (put(directory, files, written, payload_of(written, 10'000))) ++written;
    CHECK(written >= 20);
    CHECK(folder_bytes(folder.path()) <= 300'000);
    for (std::uint64_t key = 0; key < written; ++key)
        REQUIRE(get(directory, files, key) == payload_of(key, 10'000));
}

TEST_CASE("segments of other datasets that nobody uses are evicted, the one not used for longest first") {
    const Files files;
    const TemporaryFolder folder;
    constexpr std::uint64_t limit = 10 * MiB;
    for (std::uint64_t part = 0; part < 4; ++part) {
        Directory other(files, options_for(folder.path(), limit, true, theirs));
        fill(other, files, part * 1000, 20, 90'000);
    }
    const auto segments = files_with(folder.path(), ".seg");
    REQUIRE(segments.size() >= 4);
    // The last one of the list was used first.
    std::int64_t age = 1'000'000;
    for (auto path = segments.rbegin(); path != segments.rend(); ++path, age -= 1000) {
        const timespec times[] = {{0, UTIME_OMIT}, {::time(nullptr) - age, 0}};
        REQUIRE(::utimensat(AT_FDCWD, path->c_str(), times, 0) == 0);
    }
    Directory directory(files, options_for(folder.path(), limit, true, ours));
    std::uint64_t key = 0;
    while (directory.stats().evicted_segments == 0 && key < 1000) fill(directory, files, key++, 1, 90'000);
    const std::uint64_t evicted = directory.stats().evicted_segments;
    REQUIRE(evicted >= 1);
    REQUIRE(evicted < segments.size());
    for (std::size_t i = 0; i < segments.size(); ++i)
        CHECK(std::filesystem::exists(segments[i]) == (i < segments.size() - evicted));

    SECTION("not those that somebody has open") {
        const Directory user(files, options_for(folder.path(), limit, true, theirs));
        const std::uint64_t records = user.stats().records;
        CHECK(records > 0);
        fill(directory, files, 5000, 200, 90'000);
        CHECK(directory.stats().evicted_segments == evicted);
        CHECK(directory.stats().trouble.find("limit") != std::string::npos);
        CHECK(folder_bytes(folder.path()) <= limit);
    }
    SECTION("and never those of the own dataset") {
        fill(directory, files, 5000, 200, 90'000);
        directory.flush();
        CHECK(directory.stats().evicted_segments == segments.size());
        const std::uint64_t records = directory.stats().records;
        directory.close();
        Directory again(files, options_for(folder.path(), limit, true, ours));
        CHECK(again.stats().records == records);
        fill(again, files, 9000, 200, 90'000);
        CHECK(again.stats().records >= records);
        for (const std::uint64_t each : again.keys()) REQUIRE(get(again, files, each));
    }
}

TEST_CASE("opening a segment says that it was used") {
    const Files files;
    const TemporaryFolder folder;
    {
        Directory directory(files, options_for(folder.path()));
        fill(directory, files, 0, 1, 100);
    }
    const std::string path = files_with(folder.path(), ".seg").at(0);
    const timespec times[] = {{0, UTIME_OMIT}, {1'000'000, 0}};
    REQUIRE(::utimensat(AT_FDCWD, path.c_str(), times, 0) == 0);
    const auto used = [&] {
        struct stat status {};
        files.status(path, status);
        return status.st_mtim.tv_sec;
    };
    { Directory other(files, options_for(folder.path(), 0, true, theirs)); }
    CHECK(used() == 1'000'000);
    { Directory directory(files, options_for(folder.path())); }
    CHECK(used() > 1'000'000);
}

TEST_CASE("on a full disk what is there can be read, and writing goes on once there is room") {
    const Files files;
    const TemporaryFolder folder;
    const Mount mount("hocket-test", folder.path(), "tmpfs", 0, "size=8m");
    if (mount.error()) HOCKET_SKIP(std::string("no tmpfs can be mounted: ") + std::strerror(mount.error()));
    std::filesystem::create_directory(folder.path() + "/cache");
    write_all(folder.path() + "/ballast", payload_of(1, 2 * MiB));
    write_until_full(files, folder.path() + "/cache");

    Directory directory(files, options_for(folder.path() + "/cache"));
    std::filesystem::remove(folder.path() + "/ballast");
    CHECK(put_in_time(directory, files, 100'000, 50'000));
    CHECK(directory.stats().trouble == "");
}

TEST_CASE("on a full ext4 what is there can be read") {
    const Files files;
    const TemporaryFolder folder;
    const std::string image = folder.path() + "/image", at = folder.path() + "/mounted";
    write_all(image, Bytes(16 * MiB));
    std::filesystem::create_directory(at);
    if (std::system(("mkfs.ext4 -q -F " + image + " >/dev/null 2>&1").c_str()) != 0)
        HOCKET_SKIP("mkfs.ext4 does not work here");
    if (std::system(("mount -o loop " + image + " " + at + " 2>/dev/null").c_str()) != 0)
        HOCKET_SKIP("no loop device can be mounted: root may");
    std::filesystem::create_directory(at + "/cache");
    write_until_full(files, at + "/cache");
    CHECK(std::system(("umount " + at).c_str()) == 0);
}

TEST_CASE("a read-only disk: what is there can be read, nothing is written") {
    const Files files;
    const TemporaryFolder folder;
    const std::string cache = folder.path() + "/cache", bound = folder.path() + "/bound";
    {
        Directory directory(files, options_for(cache));
        fill(directory, files, 0, 20, 300);
        fill(directory, files, 20, 20, 9000);
    }
    std::filesystem::create_directory(bound);
    Mount mount(cache.c_str(), bound, nullptr, MS_BIND, nullptr);
    if (mount.error()) HOCKET_SKIP(std::string("nothing can be mounted: ") + std::strerror(mount.error()));
    REQUIRE(mount.remount(MS_BIND | MS_RDONLY));

    Directory directory(files, options_for(bound));
    for (std::uint64_t key = 0; key < 40; ++key)
        REQUIRE(get(directory, files, key) == payload_of(key, key < 20 ? 300 : 9000));
    CHECK(directory.stats().corrupt == 0);
    CHECK_FALSE(directory.reserve(100, 300));
    CHECK_FALSE(directory.reserve(101, 9000));
    CHECK(directory.stats().not_written == 2);
    CHECK(directory.stats().trouble.find("Read-only file system") != std::string::npos);
    CHECK(directory.begin_flight(5));
    CHECK_FALSE(directory.begin_flight(5));
    directory.end_flight(5);
    CHECK(directory.verify(nullptr).bad_records == 0);

    // A folder that is not there, on such a disk.
    Directory none(files, options_for(bound + "/none"));
    CHECK(none.stats().trouble.find("Read-only file system") != std::string::npos);
    CHECK_FALSE(none.reserve(1, 1));
}
