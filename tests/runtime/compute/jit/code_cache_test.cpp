// Code of kernels that is kept on the disk.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <thread>

#include "runtime/compute/jit/device_image.hpp"
#include "runtime/compute/jit/device_program.hpp"
#include "tests/dsl/cases.hpp"
#include "tests/support/long_form.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/test.hpp"

using namespace hocket;

namespace {

namespace fs = std::filesystem;

std::string random_text(std::mt19937_64& random, std::size_t most) {
    std::string text(random() % most, '\0');
    for (char& byte : text) byte = static_cast<char>(random());
    return text;
}

std::vector<fs::path> files_in(const std::string& folder) {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
    return files;
}

std::string read(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

jit::DeviceShape shape_of(const char* schedule, dsl::Rank ranks, DataType type, ReduceOp op, dsl::Rank rank) {
    auto request = test::request(dsl::Collective::all_reduce, schedule, "", ranks);
    request.hosts.assign(static_cast<std::size_t>(ranks), 0);
    return jit::device_shape_of(dsl::check_schedule(request)->project(rank), type, op, {});
}

}  // namespace

TEST_CASE("ranks that do alike have one code, and numbers of their own") {
    std::set<std::string> keys;
    std::set<std::vector<std::uint32_t>> numbers;
    for (dsl::Rank rank = 0; rank < 4; ++rank) {
        const jit::DeviceShape shape = shape_of("direct", 4, DataType::float32, ReduceOp::sum, rank);
        keys.insert(jit::key_of(shape));
        numbers.insert(jit::numbers_of(shape));
        const std::string listed =
            fmt::format("hocket_numbers[{}] = {{{}}};\n", jit::numbers_of(shape).size(),
                        fmt::join(jit::numbers_of(shape), ", "));
        CHECK_THAT(jit::ptx_of(shape), Catch::Matchers::Contains(listed));
    }
    CHECK(keys.size() == 1);
    CHECK(numbers.size() == 4);
}

TEST_CASE("what is kept is found under its own key alone, and nothing damaged is") {
    const test::TemporaryFolder folder;
    std::mt19937_64 random(7);
    for (int i = 0; i < 200; ++i) {
        const jit::CodeCache cache(folder.path() + "/" + std::to_string(i));
        const std::string key = random_text(random, 300), code = random_text(random, 5000);
        CHECK(!cache.find(key));
        cache.keep(key, code);
        CHECK(cache.find(key) == code);
        CHECK(!cache.find(key + "x"));
        const auto files = files_in(folder.path() + "/" + std::to_string(i));
        REQUIRE(files.size() == 1);
        std::string content = read(files[0]);
        const std::size_t at = random() % content.size();
        if (i % 2 == 0)
            content.resize(at);
        else
            content[at] = static_cast<char>(content[at] ^ (1 << random() % 8));
        std::ofstream(files[0], std::ios::binary) << content;
        CHECK(!cache.find(key));
        cache.keep(key, code);
        CHECK(cache.find(key) == code);
    }
}

TEST_CASE("a file that another user may have written is not read, and is replaced") {
    const test::TemporaryFolder folder;
    const std::string below = folder.path() + "/code";
    const jit::CodeCache cache(below);
    const auto keep = [&] {
        cache.keep("key", "code");
        REQUIRE(cache.find("key") == "code");
        REQUIRE(files_in(below).size() == 1);
        return files_in(below)[0];
    };
    const fs::path file = keep();
    CHECK((fs::status(below).permissions() & fs::perms::mask) == fs::perms::owner_all);
    for (const fs::perms writer : {fs::perms::group_write, fs::perms::others_write}) {
        fs::permissions(file, writer, fs::perm_options::add);
        CHECK(!cache.find("key"));
        CHECK(keep() == file);
    }
    // A link to a good file.
    const fs::path elsewhere = folder.path() + "/elsewhere";
    fs::rename(file, elsewhere);
    fs::create_symlink(elsewhere, file);
    CHECK(!cache.find("key"));
    CHECK(keep() == file);
    CHECK(fs::is_regular_file(fs::symlink_status(file)));
    // A file of another user's.
    if (chown(file.c_str(), 12345, 12345) == 0) CHECK(!cache.find("key"));
}

TEST_CASE("what a process has not finished to write is removed when it is old") {
    const test::TemporaryFolder folder;
    const jit::CodeCache cache(folder.path());
    const fs::path old = folder.path() + "/a.kernel.1.new", recent = folder.path() + "/b.kernel.2.new";
    for (const fs::path& path : {old, recent}) std::ofstream(path) << "half";
    fs::last_write_time(old, fs::file_time_type::clock::now() - std::chrono::hours(2));
    cache.keep("key", "code");
    CHECK(!fs::exists(old));
    CHECK(fs::exists(recent));
}

TEST_CASE("a folder that cannot be written, or read, is as good as none") {
    const test::TemporaryFolder folder;
    const std::string file = folder.path() + "/file";
    std::ofstream(file) << "no folder";
    for (const std::string& name : {std::string(), file, file + "/below", std::string("/proc/none")}) {
        const jit::CodeCache cache(name);
        cache.keep("key", "code");
        CHECK(!cache.find("key"));
    }
}

TEST_CASE("many writers leave whole files, of which those used last stay within the limit") {
    const test::TemporaryFolder folder;
    constexpr std::uint64_t most = 40'000;
    std::atomic<int> wrong = 0;
    std::vector<std::thread> threads;
    for (unsigned seed = 0; seed < 4; ++seed)
        threads.emplace_back([&, seed] {
            const jit::CodeCache cache(folder.path(), most);
            std::mt19937_64 random(seed);
            for (int i = 0; i < 150; ++i) {
                const std::string key = std::to_string(random() % 20);
                const std::string code(3000 + std::stoul(key), key[0]);
                if (const auto found = cache.find(key)) wrong += *found != code;
                cache.keep(key, code);
            }
        });
    for (std::thread& thread : threads) thread.join();
    CHECK(wrong == 0);
    std::uint64_t all = 0;
    for (const fs::path& file : files_in(folder.path())) all += fs::file_size(file);
    CHECK(all <= most);
    // One that is used stays while others come and go.
    const jit::CodeCache cache(folder.path(), most);
    cache.keep("used", "code");
    for (int i = 0; i < 40; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        CHECK(cache.find("used"));
        cache.keep("other " + std::to_string(i), std::string(3000, 'x'));
    }
}

TEST_CASE("kernels that differ have keys that differ, and the cache gives what was compiled") {
    const test::TemporaryFolder folder;
    const jit::CodeCache cache(folder.path()), none("");
    const jit::CodeCollection none_came("");
    std::set<std::string> keys, texts;
    int number = 0;
    for (const char* schedule : {"direct", "ring"})
        for (const dsl::Rank ranks : {2, 3})
            for (const DataType type : {DataType::float32, DataType::bfloat16})
                for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max, ReduceOp::average}) {
                    const jit::DeviceShape shape = shape_of(schedule, ranks, type, op, ranks - 1);
                    const std::string key = jit::key_of(shape);
                    const std::string text = jit::device_image(shape, 90, cache, none_came).text;
                    REQUIRE(cache.find(key));
                    keys.insert(key);
                    texts.insert(*cache.find(key));
                    // Each of these is compiled again.
                    if (number++ % test::in_long_form(1, 5) == 0)
                        CHECK(jit::device_image(shape, 90, none, none_came).text == text);
                    CHECK(jit::device_image(shape, 80, cache, none_came).text == text);
                }
    CHECK(keys.size() == texts.size());  // two ranks do the same by both schedules
    CHECK(keys.size() >= 18);
    // It does not compile what is kept.
    const jit::DeviceShape shape = shape_of("ring", 2, DataType::float32, ReduceOp::sum, 0);
    cache.keep(jit::key_of(shape), "kept\nhocket_numbers[2]\n");
    CHECK_THAT(jit::device_image(shape, 90, cache, none_came).text, Catch::Matchers::StartsWith("kept\n"));
}
