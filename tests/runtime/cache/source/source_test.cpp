// Sources, over real files.
#include <fcntl.h>
#include <stdlib.h>
#include <sys/fsuid.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <random>

#include "runtime/base/error.hpp"
#include "runtime/cache/source/fingerprint.hpp"
#include "runtime/cache/source/packed_index.hpp"
#include "runtime/cache/source/parallel.hpp"
#include "runtime/cache/source/source.hpp"
#include "tests/runtime/cache/io/fifos.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/test.hpp"

namespace fs = std::filesystem;
using namespace hocket;
using namespace hocket::cache;
using Catch::Contains;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern int accepted_indices, refused_indices, parsed_parts;

namespace {

// A folder of its own, gone with its owner.
class Scratch {
  public:
    Scratch() {
        std::string name = (fs::temp_directory_path() / "hocket_source_XXXXXX").string();
        REQUIRE(mkdtemp(name.data()) != nullptr);
        path_ = name;
    }
    ~Scratch() { fs::remove_all(path_); }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;

    std::string operator/(const std::string& name) const { return path_ / name; }
    std::string write(const std::string& name, const std::string& text) const {
        fs::create_directories((path_ / name).parent_path());
        std::ofstream(path_ / name, std::ios::binary) << text;
        return path_ / name;
    }
    std::string path() const { return path_; }

  private:
    fs::path path_;
};

void set_changed(const std::string& path, std::int64_t ns) {
    const timespec times[2] = {{0, UTIME_OMIT}, {ns / 1'000'000'000, ns % 1'000'000'000}};
    REQUIRE(utimensat(AT_FDCWD, path.c_str(), times, 0) == 0);
}

std::vector<std::string> names(const Source& source) {
    std::vector<std::string> result;
    for (std::uint64_t key = 0; key < source.count().value(); ++key) result.push_back(source.name(key));
    return result;
}

// The error that the call throws, with its status in front: "-3 there is no ...".
template <typename Call>
std::string thrown(Call call) {
    try {
        call();
    } catch (const Error& error) {
        return std::to_string(static_cast<int>(error.status())) + " " + error.what();
    }
    return "nothing";
}

std::string read_part(const Source& source, std::uint64_t key) {
    const auto part = std::get<PartOfFile>(source.origin(key));
    std::string text(part.bytes, '\0');
    REQUIRE(pread(part.fd, text.data(), part.bytes, static_cast<off_t>(part.offset)) ==
            static_cast<ssize_t>(part.bytes));
    return text;
}

std::string refusal(const std::string& index) {
    return thrown([&] { parse_index(index, 1000, "x.idx"); });
}

}  // namespace

TEST_CASE("a folder's files are its samples, in the order of their paths' bytes") {
    const Scratch folder;
    for (const char* name : {"b", "a/b", "a-b", "a/\xc3\xa9", "a/~", "Z", "a/c/d/e", "a.b", ".hidden"})
        folder.write(name, name);
    set_changed(folder / "a/b", 1'234'567'890'123'456'789);
    const auto source = open_source(folder.path() + "/", "");
    CHECK(names(*source) ==
          std::vector<std::string>{".hidden", "Z", "a-b", "a.b", "a/b", "a/c/d/e", "a/~", "a/\xc3\xa9", "b"});
    for (std::uint64_t key = 0; key < 9; ++key) {
        CHECK(source->find(source->name(key)) == key);
        const auto file = std::get<WholeFile>(source->origin(key));
        CHECK(file.path == folder / source->name(key));
        CHECK(file.bytes == source->name(key).size());
    }
    CHECK(std::get<WholeFile>(source->origin(4)).changed_ns == 1'234'567'890'123'456'789);
    for (const char* name : {"", "a", "a/", "/b", "./b", "bb", "0", "z"}) CHECK_FALSE(source->find(name));
    CHECK(source->name(9) == "sample 9 of " + folder.path());
    CHECK_THAT(thrown([&] { source->origin(9); }),
               Contains("-3 there is no sample 9: " + folder.path() + " has 9 files"));
}

TEST_CASE("a relative path holds when the working folder changes") {
    const Scratch folder;
    folder.write("data/x", "1");
    const fs::path before = fs::current_path();
    fs::current_path(folder.path());
    const auto source = open_folder("data");
    fs::current_path(before);
    CHECK(fs::file_size(std::get<WholeFile>(source->origin(0)).path) == 1);
}

TEST_CASE("links to files are followed, links to folders, fifos and sockets are not samples") {
    const Scratch folder, elsewhere;
    elsewhere.write("far/away", "12345");
    folder.write("plain", "1");
    folder.write("deep/plain", "12");
    fs::create_symlink(elsewhere / "far/away", folder / "to_file");
    fs::create_symlink("to_file", folder / "to_link");
    fs::create_symlink(elsewhere / "far", folder / "to_folder");
    fs::create_symlink(folder.path(), folder / "deep/to_the_top");
    REQUIRE(mkfifo((folder / "fifo").c_str(), 0600) == 0);
    fs::create_symlink("fifo", folder / "to_fifo");
    const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address{AF_UNIX, {}};
    (folder / "socket").copy(address.sun_path, sizeof address.sun_path - 1);
    REQUIRE(bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    const auto source = open_folder(folder.path());
    close(socket);
    CHECK(names(*source) == std::vector<std::string>{"deep/plain", "plain", "to_file", "to_link"});
    CHECK(std::get<WholeFile>(source->origin(2)).bytes == 5);
    CHECK(std::get<WholeFile>(source->origin(3)).bytes == 5);

    const auto before = source->fingerprint();
    elsewhere.write("far/away", "123456");
    CHECK(open_folder(folder.path())->fingerprint() != before);

    fs::create_symlink("nowhere", folder / "deep/dangling");
    CHECK_THAT(thrown([&] { open_folder(folder.path()); }),
               Contains("-3 ") && Contains(folder / "deep/dangling"));
    fs::remove(folder / "deep/dangling");
    fs::create_symlink("itself", folder / "itself");
    CHECK_THAT(thrown([&] { open_folder(folder.path()); }), Contains("-11 ") && Contains(folder / "itself"));
}

TEST_CASE("many files in many folders are all found") {
    const Scratch folder;
    std::mt19937 random(3);
    for (int i = 0; i < 3000; ++i) {
        std::string path;
        for (std::size_t depth = random() % 5; depth > 0; --depth) path += std::to_string(random() % 4) + "/";
        folder.write(path + "f" + std::to_string(i), std::string(random() % 50, 'x'));
    }
    std::vector<std::string> right;
    for (const auto& entry : fs::recursive_directory_iterator(folder.path()))
        if (entry.is_regular_file()) right.push_back(fs::relative(entry.path(), folder.path()).string());
    std::sort(right.begin(), right.end());
    REQUIRE(right.size() == 3000);
    const auto source = open_folder(folder.path());
    CHECK(names(*source) == right);
    for (std::uint64_t key = 0; key < right.size(); ++key)
        REQUIRE(std::get<WholeFile>(source->origin(key)).bytes == fs::file_size(folder / right[key]));
}

TEST_CASE("a storage that does not tell files from folders when it lists them is walked all the same") {
    const Scratch scratch;
    for (const char* name : {"tree/a", "tree/b/c", "tree/b/d/e"}) scratch.write(name, "1");
    fs::create_symlink("b", scratch / "tree/link");
    fs::create_symlink("a", scratch / "tree/other");
    const std::string image = scratch / "image", mount = scratch / "mount";
    fs::create_directory(mount);
    const std::string make =
        "truncate -s 1M " + image + " && PATH=$PATH:/usr/sbin:/sbin mke2fs -q -t ext2 -O " + "^filetype -d " +
        scratch / "tree" + " " + image + " 2>&1 && mount -o loop,ro " + image + " " + mount + " 2>&1";
    if (system((make + " >/dev/null").c_str()) != 0)
        HOCKET_SKIP("cannot mount a file system without file types here (needs root and loop devices)");
    std::string problem;
    try {
        const auto source = open_folder(mount);
        CHECK(names(*source) == std::vector<std::string>{"a", "b/c", "b/d/e", "other"});
    } catch (const Error& error) {
        problem = error.what();
    }
    CHECK(problem == "");
    CHECK(system(("umount " + mount).c_str()) == 0);
}

TEST_CASE("a folder's fingerprint is that of its files' paths, sizes and times, not of its place") {
    const Scratch scratch;
    const auto write = [&](const std::string& name, const std::string& text) {
        set_changed(scratch.write("data/" + name, text), 1'600'000'000'000'000'000);
    };
    const auto fingerprint = [&](const char* folder = "data") {
        return open_folder(scratch / folder)->fingerprint();
    };
    write("a/b", "12");
    write("c", "345");
    const Digest before = fingerprint();
    CHECK(fingerprint() == before);
    fs::rename(scratch / "data", scratch / "moved");
    CHECK(fingerprint("moved") == before);
    fs::rename(scratch / "moved", scratch / "data");

    write("c", "3456");
    CHECK(fingerprint() != before);
    write("c", "345");
    CHECK(fingerprint() == before);
    set_changed(scratch / "data/c", 1'600'000'000'000'000'001);
    CHECK(fingerprint() != before);
    write("c", "345");
    write("d", "");
    CHECK(fingerprint() != before);
    fs::remove(scratch / "data/d");
    CHECK(fingerprint() == before);
    fs::rename(scratch / "data/c", scratch / "data/e");
    CHECK(fingerprint() != before);
    fs::rename(scratch / "data/e", scratch / "data/a/c");
    CHECK(fingerprint() != before);
}

TEST_CASE("a folder that cannot be used says why and where") {
    const Scratch folder;
    CHECK_THAT(thrown([&] { open_source(folder / "missing", ""); }),
               Contains("-3 ") && Contains(folder / "missing") && Contains("No such file"));
    CHECK_THAT(thrown([&] { open_folder(folder / "missing"); }), Contains("-3 ") && Contains("mounted"));
    CHECK_THAT(thrown([&] { open_folder(folder.path()); }), Contains("-3 there are no files below"));
    const std::string file = folder.write("file", "1");
    CHECK_THAT(thrown([&] { open_folder(file); }), Contains("-3 ") && Contains("Not a directory"));
    CHECK_THAT(thrown([&] { open_source(folder.path(), folder / "some.index"); }),
               Contains("-3 ") && Contains("some.index cannot be opened"));
}

TEST_CASE("a folder's samples are those of its index, if it has one") {
    const Scratch folder;
    const std::string a = folder.write("sub/a.tar", "0123456789"), b = folder.write("b", "xyz");
    const std::string text =
        "# hocket index 1\nobject 10 sub/a.tar\nsample 2 3 ff k/1\nsample 5 5 1\nobject 3 b\nsample 0 3 "
        "2\nend 3\n";
    const std::string index = folder.write("hocket.index", text);
    const auto source = open_source(folder.path(), "");
    CHECK(source->count() == 3u);
    const auto part = std::get<PartOfFile>(source->origin(0));
    CHECK(part.path == a);
    CHECK(part.offset == 2);
    CHECK(part.bytes == 3);
    CHECK(part.checksum == 255u);
    CHECK(std::get<PartOfFile>(source->origin(2)).path == b);
    CHECK(source->name(0) == "sub/a.tar/k/1");
    CHECK(source->find("b") == 2u);
    CHECK(source->find("sub/a.tar") == 1u);
    CHECK_FALSE(source->find("sub/a.tar/k"));
    CHECK_THAT(thrown([&] { source->origin(3); }), Contains("-3 ") && Contains("numbered from 0"));

    const Digest before = source->fingerprint();
    CHECK(open_source(folder.path() + "/", index)->fingerprint() == before);
    set_changed(b, 1'600'000'000'000'000'001);
    CHECK(open_source(folder.path(), "")->fingerprint() != before);
    folder.write("b", "wxyz");
    CHECK_THAT(thrown([&] { open_source(folder.path(), ""); }),
               Contains("has 4 bytes, and 3 in the index") && Contains("hocket-cache index"));
    fs::remove(b);
    CHECK_THAT(thrown([&] { open_source(folder.path(), ""); }), Contains("-3 ") && Contains("/b"));
    folder.write("hocket.index", "# hocket index 1\nend 0\n");
    CHECK_THAT(thrown([&] { open_source(folder.path(), ""); }), Contains("has no samples"));
    folder.write("hocket.index", text.substr(0, text.size() - 2));
    CHECK_THAT(thrown([&] { open_source(folder.path(), ""); }), Contains("-1 ") && Contains("make it anew"));
    for (const std::string name : {"../b", "sub/../../b", "..", "/etc/passwd", "%2e%2e/b", "..%00/b"}) {
        folder.write("hocket.index", "# hocket index 1\nobject 3 " + name + "\nsample 0 3 2\nend 1\n");
        CHECK_THAT(thrown([&] { open_source(folder.path(), ""); }),
                   Contains("-1 ") && Contains("not below " + folder.path()));
    }
}

TEST_CASE("an index that cannot be looked at is an error, and not a folder without one") {
    const Scratch folder;
    folder.write("a", "0123456789");
    fs::create_symlink("nowhere", folder / "hocket.index");
    CHECK_THAT(thrown([&] { open_source(folder.path(), ""); }), Contains("/hocket.index"));
    fs::remove(folder / "hocket.index");
    std::string longest = folder.path();  // with the name of the index behind it, longer than a path may be
    while (longest.size() < 4090) longest += longest.size() % 2 == 0 ? "/." : "/";
    CHECK_THAT(thrown([&] { open_source(longest, ""); }),
               Contains("/hocket.index cannot be looked at") && Contains("too long"));
}

TEST_CASE("the files of an index may be more than a process may have open") {
    const Scratch folder;
    std::string text = "# hocket index 1\n";
    for (int i = 0; i < 100; ++i) {
        folder.write(std::to_string(i), "x");
        text += "object 1 " + std::to_string(i) + "\nsample 0 1 1\n";
    }
    folder.write("hocket.index", text + "end 100\n");
    rlimit before{};
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
    const rlimit few{60, before.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &few) == 0);
    const std::string problem = thrown([&] { open_source(folder.path(), ""); });
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
    CHECK_THAT(problem, Contains("cannot be opened") && Contains("ulimit -n"));
}

TEST_CASE("a folder below that may not be listed is an error with its path") {
    const Scratch folder;
    folder.write("open/file", "1");
    folder.write("closed/file", "1");
    REQUIRE(chmod(folder.path().c_str(), 0755) == 0);
    REQUIRE(chmod((folder / "closed").c_str(), 0) == 0);
    const int user = setfsuid(65534);  // of this thread and those it starts; does nothing if we are not root
    const std::string text = thrown([&] { open_folder(folder.path()); });
    setfsuid(static_cast<uid_t>(user));
    REQUIRE(chmod((folder / "closed").c_str(), 0755) == 0);
    CHECK_THAT(text, Contains("-11 ") && Contains(folder / "closed cannot be listed: Permission denied"));
}

TEST_CASE("a packed file's samples are the parts that its index names") {
    const Scratch scratch;
    const std::string data = scratch.write("x.bin", "0123456789");
    scratch.write("x.bin.idx",
                  "# made by hand\n0 4\r\n\n  \t\r\n4 1 train/a.jpg 7\n\t5\t5  # the rest\n"
                  "10 0\n0 10#all\n2 0");
    const auto source = open_source(data, "");
    REQUIRE(source->count() == 6u);
    std::vector<std::string> parts;
    for (std::uint64_t key = 0; key < 6; ++key) parts.push_back(read_part(*source, key));
    CHECK(parts == std::vector<std::string>{"0123", "4", "56789", "", "0123456789", ""});
    CHECK(std::get<PartOfFile>(source->origin(0)).path == data);
    CHECK(source->name(2) == "sample 2 of " + data);
    CHECK(source->location() == data);
    CHECK_FALSE(source->find("train/a.jpg"));
    CHECK_THAT(thrown([&] { source->origin(6); }), Contains("-3 there is no sample 6") && Contains("has 6"));
}

TEST_CASE("an index may be longer than a read") {
    const Scratch scratch;
    const std::string data = scratch.write("x.bin", std::string(300'000, 'x'));
    std::string lines;
    for (int i = 0; i < 300'000; ++i) lines += std::to_string(i) + " 1\n";
    const auto source = open_packed(data, scratch.write("other.idx", lines));
    CHECK(source->count() == 300'000u);
    CHECK(std::get<PartOfFile>(source->origin(299'999)).offset == 299'999);
}

TEST_CASE("a wrong index is refused with the line") {
    CHECK_THAT(refusal("0 1\n\n# 0 1\n5\n"), Contains("-1 x.idx:4: expected \"OFFSET BYTES\""));
    for (const char* line :
         {"a b", "1", "1 ", "-1 5", "+1 5", "0x1 2", "1.5 2", "1, 2", "1 2k", "v1.2 100", "1 #2",
          "18446744073709551616 0", "0 99999999999999999999999", "\xff\xfe", "1\v2"}) {
        INFO(line);
        CHECK_THAT(refusal(line), Contains("-1 x.idx:1: expected"));
    }
    for (const char* line : {"1000 1", "1001 0", "0 1001", "999 2", "18446744073709551615 1",
                             "1 18446744073709551615", "18446744073709551615 18446744073709551615"}) {
        INFO(line);
        CHECK_THAT(refusal(std::string("0 1\r\n") + line),
                   Contains("-1 x.idx:2: ") && Contains("inside the packed file of 1000 bytes"));
    }
    CHECK_THAT(refusal("\x1b[31m" + std::string(100, 'z')), Contains("\"?[31mzzz") && Contains("zzz\"..."));
    CHECK(refusal("1000 0\n0 1000\n") == "nothing");
}

TEST_CASE("a packed file that cannot be used says why") {
    const Scratch scratch;
    const std::string data = scratch.write("x.bin", "0123456789");
    CHECK_THAT(thrown([&] { open_source(data, ""); }), Contains("-3 ") && Contains(data + ".idx"));
    const std::string index = scratch.write("none.idx", "# nothing\n");
    CHECK_THAT(thrown([&] { open_source(data, index); }), Contains("-1 ") && Contains("has no samples"));
    CHECK_THAT(thrown([&] { open_packed(scratch / "y.bin", index); }),
               Contains("-3 ") && Contains(scratch / "y.bin"));
    CHECK_THAT(thrown([&] { open_packed(data, scratch.path()); }),
               Contains("-11 ") && Contains("not a regular file"));
    CHECK_THAT(thrown([&] { open_packed("/dev/zero", index); }), Contains("not a regular file"));
    CHECK_THAT(thrown([&] { open_packed(scratch.path(), index); }), Contains("not a regular file"));
}

TEST_CASE("a FIFO is no packed file and no index, and nobody waits for it") {
    const Scratch scratch;
    const std::string data = scratch.write("x.bin", "0123456789"), index = scratch.write("x.idx", "0 5\n");
    const std::string fifo = scratch / "fifo", link = scratch / "link";
    hocket::test::Fifos fifos(std::vector{fifo});
    fs::create_symlink("fifo", link);
    for (const std::string& other : {fifo, link}) {
        CHECK_THAT(thrown([&] { open_source(other, index); }),
                   Contains("-11 ") && Contains(other + " is not a regular file"));
        CHECK_THAT(thrown([&] { open_source(data, other); }),
                   Contains("-11 ") && Contains(other + " is not a regular file"));
    }
    CHECK(fifos.are_passed());
}

TEST_CASE("a packed file's fingerprint is that of its size, its time and its index") {
    const Scratch scratch;
    const auto write = [&](const std::string& text, const std::string& index) {
        set_changed(scratch.write("x.bin", text), 1'600'000'000'000'000'000);
        scratch.write("x.bin.idx", index);
    };
    const auto fingerprint = [&](const char* name = "x.bin") {
        return open_packed(scratch / name, scratch / "x.bin.idx")->fingerprint();
    };
    write("0123456789", "0 5\n5 5\n");
    const Digest before = fingerprint();
    CHECK(fingerprint() == before);
    fs::rename(scratch / "x.bin", scratch / "y.bin");
    CHECK(fingerprint("y.bin") == before);
    write("0123456789", "0 5\n5 4\n");
    CHECK(fingerprint() != before);
    write("0123456789a", "0 5\n5 5\n");
    CHECK(fingerprint() != before);
    write("0123456789", "0 5\n5 5\n");
    CHECK(fingerprint() == before);
    set_changed(scratch / "x.bin", 1'600'000'000'000'000'001);
    CHECK(fingerprint() != before);
}

TEST_CASE("a callback's samples are known by the dataset's name alone") {
    const auto source = callback_source("imagenet v2");
    CHECK_FALSE(source->count());
    CHECK(std::holds_alternative<FromCallback>(source->origin(1'000'000'000'000)));
    CHECK(source->name(7) == "sample 7 of imagenet v2");
    CHECK_FALSE(source->find("7"));
    CHECK(source->fingerprint() == callback_source("imagenet v2")->fingerprint());
    CHECK(source->fingerprint() != callback_source("imagenet v3")->fingerprint());
}

TEST_CASE("what the user says of a dataset makes another digest of it") {
    const Digest digest{1, 2};
    CHECK(mix(digest, "v1") == mix(digest, "v1"));
    CHECK(mix(digest, "v1") != mix(digest, "v2"));
    CHECK(mix(digest, "v1") != mix({2, 1}, "v1"));
    CHECK(mix(digest, "") != mix(digest, std::string(1, '\0')));
    Fingerprint one("kind"), other("kind");
    one.add("ab");
    one.add("c");
    other.add("a");
    other.add("bc");
    CHECK(one.digest() != other.digest());
    CHECK(Fingerprint("a").digest() != Fingerprint("b").digest());
}

TEST_CASE("parallel calls are made once each, and the first failure is thrown on") {
    std::vector<std::atomic<int>> calls(5000);
    parallel(calls.size(), 32, [&](std::size_t i) { ++calls[i]; });
    CHECK(std::all_of(calls.begin(), calls.end(), [](const auto& count) { return count == 1; }));
    parallel(0, 32, [](std::size_t) { FAIL(); });
    std::atomic<int> made = 0;
    CHECK_THROWS_WITH(parallel(1'000'000'000, 32,
                               [&](std::size_t i) {
                                   ++made;
                                   if (i == 10) throw std::runtime_error("the tenth");
                               }),
                      "the tenth");
    CHECK(made < 1'000'000);
}

TEST_CASE("threads for a source take none of the embedder's signals") {
    std::atomic<int> open = 0, threads = 0;
    const auto self = pthread_self();
    parallel(200, 8, [&](std::size_t) {
        if (pthread_equal(self, pthread_self())) return void(test::eventually([&] { return threads > 0; }));
        sigset_t mask;
        pthread_sigmask(SIG_SETMASK, nullptr, &mask);
        ++threads;
        if (!sigismember(&mask, SIGTERM) || !sigismember(&mask, SIGUSR1)) ++open;
    });
    CHECK(threads > 0);
    CHECK(open == 0);
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    CHECK_FALSE(sigismember(&mask, SIGTERM));
}

TEST_CASE("mutated indices are read as a simple reader reads them, or refused at the same line") {
    const std::vector<std::string> pieces = {
        "0 10\n",   "10 990 a.jpg\r\n", "# comment\n", "1000 0\n",     "\n",
        "\r\n",     "  5\t6  # x\n",    "999 1",       "4294967296 1", "18446744073709551615 1\n",
        "00 0001\n"};
    const std::string alphabet = "0123456789 \t\r\n#-+.x";
    std::mt19937 random(11);
    const auto below = [&](std::size_t n) { return random() % n; };
    for (int round = 0; round < 200'000; ++round) {
        std::string text;
        for (std::size_t i = below(8); i > 0; --i) text += pieces[below(4) == 0 ? below(11) : below(7)];
        for (std::size_t i = below(4); i > 0 && !text.empty(); --i) {
            const std::size_t at = below(text.size());
            switch (below(4)) {
                case 0:
                    text[at] = static_cast<char>(random());
                    break;
                case 1:
                    text[at] = alphabet[below(alphabet.size())];
                    break;
                case 2:
                    text.erase(at, below(6));
                    break;
                default:
                    text.insert(at, text.substr(below(text.size()), below(10)));
            }
        }
        REQUIRE(LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()) == 0);
    }
    CHECK(accepted_indices > 10'000);
    CHECK(refused_indices > 10'000);
    CHECK(parsed_parts > 50'000);
}
