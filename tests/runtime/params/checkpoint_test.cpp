#include "runtime/params/checkpoint/checkpoint_file.hpp"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <random>
#include <thread>

#include "runtime/base/error.hpp"
#include "runtime/params/checkpoint/header.hpp"
#include "tests/support/going_on.hpp"
#include "tests/support/processes.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/test.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using namespace hocket;
using namespace hocket::params;
using namespace hocket::test;
using Catch::Contains;
namespace fs = std::filesystem;

using Memory = std::vector<std::vector<std::byte>>;

// A checkpoint and what it borrows. Everything in it follows from `number`.
struct Example {
    Memory memory;
    Checkpoint checkpoint;
};

Example example(std::uint32_t number, const std::vector<std::vector<std::size_t>>& chunks) {
    Example made;
    made.checkpoint = {.job = R"({"tensors": 2})",
                       .incarnation = number,
                       .firsts = {{1, 0}, {4, (Clock{1} << 40) + number}, {8, 3}},
                       .chunks = {}};
    std::mt19937_64 random(number);
    for (const std::vector<std::size_t>& buffers : chunks) {
        CheckpointChunk chunk{random(), {}};
        for (const std::size_t bytes : buffers) {
            auto& buffer = made.memory.emplace_back(bytes);
            const std::uint64_t eight = random();
            for (std::size_t i = 0; i < bytes; ++i) buffer[i] = static_cast<std::byte>(eight >> 8 * (i % 8));
            chunk.buffers.emplace_back(buffer);
        }
        made.checkpoint.chunks.push_back(std::move(chunk));
    }
    return made;
}

const std::vector<std::vector<std::size_t>> small = {{24, 8}, {0, 3}, {}};

std::string bytes_of(const Checkpoint& checkpoint) {
    std::string bytes = encode_header(checkpoint);
    for (const CheckpointChunk& chunk : checkpoint.chunks)
        for (const auto buffer : chunk.buffers)
            bytes.append(reinterpret_cast<const char*>(buffer.data()), buffer.size());
    return bytes;
}

AllocateBuffer allocate_in(Memory& memory) {
    return [&memory](std::size_t bytes) { return memory.emplace_back(bytes).data(); };
}

// As bytes, so that a comparison covers the whole contents.
std::string read_back(const fs::path& file) {
    Memory memory;
    return bytes_of(read_checkpoint(file, allocate_in(memory)));
}

void put(const fs::path& file, std::string_view bytes) {
    std::ofstream(file, std::ios::binary) << bytes;
}

// The error of reading the file. Checks that reading allocates no more memory than the file has bytes.
std::string error_of(const fs::path& file, Status status = Status::io) {
    std::size_t asked = 0;
    Memory memory;
    try {
        read_checkpoint(file, [&](std::size_t bytes) {
            asked += bytes;
            return memory.emplace_back(bytes).data();
        });
    } catch (const Error& error) {
        REQUIRE(error.status() == status);
        REQUIRE_THAT(error.what(), Contains(file.string()));
        REQUIRE(asked <= (fs::is_regular_file(file) ? fs::file_size(file) : 0));
        return error.what();
    }
    return "";
}

std::size_t files_in(const TemporaryFolder& folder) {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder.path()), {}));
}

}  // namespace

TEST_CASE("a checkpoint is read as it was written") {
    const TemporaryFolder folder;
    const fs::path file = folder.path() + "/shard";
    const std::vector<std::vector<std::vector<std::size_t>>> shapes = {
        {},
        small,
        {{5 << 20, 5 << 20, (5 << 20) + 1}, {4}},
        std::vector<std::vector<std::size_t>>(3000, {4, 4})};
    for (const auto& shape : shapes) {
        const Example written = example(7, shape);
        write_checkpoint(file, written.checkpoint);
        Memory memory;
        const Checkpoint read = read_checkpoint(file, allocate_in(memory));
        CHECK(read.job == written.checkpoint.job);
        CHECK(read.incarnation == 7);
        CHECK(read.firsts == written.checkpoint.firsts);
        REQUIRE(read.chunks.size() == shape.size());
        CHECK(memory == written.memory);
        for (std::size_t i = 0; i < shape.size(); ++i) {
            CHECK(read.chunks[i].clock == written.checkpoint.chunks[i].clock);
            CHECK(read.chunks[i].buffers.size() == shape[i].size());
        }
        CHECK(bytes_of(read) == bytes_of(written.checkpoint));
        CHECK(fs::file_size(file) == bytes_of(read).size());
    }
    CHECK(files_in(folder) == 1);
}

TEST_CASE("a checkpoint that lacks its end is refused") {
    const TemporaryFolder folder;
    const fs::path file = folder.path() + "/shard";
    const std::string whole = bytes_of(example(1, small).checkpoint);
    put(file, whole);
    REQUIRE(read_back(file) == whole);
    for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
        put(file, whole.substr(0, bytes));
        INFO("of " << whole.size() << " bytes " << bytes);
        CHECK_THAT(error_of(file), Contains(bytes < 8 ? "not a checkpoint" : "cut off"));
    }
    put(file, whole + "x");
    CHECK_THAT(error_of(file), Contains("1 bytes too many"));
}

TEST_CASE("each bit of a checkpoint counts") {
    const TemporaryFolder folder;
    const fs::path file = folder.path() + "/shard";
    const std::string whole = bytes_of(example(1, small).checkpoint);
    for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
        std::string damaged = whole;
        damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
        put(file, damaged);
        INFO("bit " << bit);
        CHECK_THAT(error_of(file), Contains("cannot be continued from"));
    }
}

TEST_CASE("the error says what is wrong with a checkpoint, and where") {
    const TemporaryFolder folder;
    const fs::path file = folder.path() + "/shard";
    CHECK_THAT(error_of(file, Status::not_found), Contains("No such file"));
    fs::create_directory(folder.path() + "/folder");
    CHECK_THAT(error_of(folder.path() + "/folder"), Contains("/folder cannot be read: Is a directory"));
    REQUIRE(mkfifo((folder.path() + "/fifo").c_str(), 0600) == 0);
    CHECK_THAT(error_of(folder.path() + "/fifo"), Contains("/fifo cannot be read: it is a FIFO"));
    put(file, "weights = 7, and whatever else people keep in files");
    CHECK_THAT(error_of(file), Contains("not a checkpoint of the parameter service"));

    const std::string whole = bytes_of(example(1, small).checkpoint);
    std::string other = whole;
    other[8] = 3;
    put(file, other);
    CHECK_THAT(error_of(file), Contains("version 3, and this Hocket reads version 2"));
    other = whole;
    other.back() ^= 1;
    put(file, other);
    CHECK_THAT(error_of(file), Contains("chunk 1, from byte " + std::to_string(whole.size() - 3) + " to " +
                                        std::to_string(whole.size()) + ", is damaged"));
}

TEST_CASE("a checkpoint that cannot be written leaves the one from before") {
    const TemporaryFolder folder;
    const fs::path file = folder.path() + "/shard";
    const Example before = example(1, small), after = example(2, {{1 << 20}});
    write_checkpoint(file, before.checkpoint);

    SECTION("where files may not grow") {
        rlimit old{};
        REQUIRE(getrlimit(RLIMIT_FSIZE, &old) == 0);
        const rlimit low{100'000, old.rlim_max};
        const auto handler = signal(SIGXFSZ, SIG_IGN);
        REQUIRE(setrlimit(RLIMIT_FSIZE, &low) == 0);
        std::string text;
        try {
            write_checkpoint(file, after.checkpoint);
        } catch (const Error& error) {
            if (error.status() == Status::io) text = error.what();
        }
        setrlimit(RLIMIT_FSIZE, &old);
        signal(SIGXFSZ, handler);
        CHECK_THAT(text, Contains(file.string() + " cannot be written: File too large; raise the limit"));
    }
    SECTION("where there is no folder") {
        CHECK_THROWS_WITH(write_checkpoint(folder.path() + "/none/shard", after.checkpoint),
                          Contains("its folder must exist"));
    }
    SECTION("where a folder has its name") {
        const fs::path taken = folder.path() + "/taken";
        fs::create_directory(taken);
        CHECK_THROWS_WITH(write_checkpoint(taken, after.checkpoint), Contains("a folder of that name"));
        fs::remove(taken);
    }
    CHECK(read_back(file) == bytes_of(before.checkpoint));
    CHECK(files_in(folder) == 1);
}

TEST_CASE("only this user may read a checkpoint, unless the one before it had another mode") {
    const TemporaryFolder folder;
    const fs::path file = folder.path() + "/shard";
    const mode_t usual = umask(022);
    write_checkpoint(file, example(1, small).checkpoint);
    CHECK(fs::status(file).permissions() == fs::perms(0600));
    fs::permissions(file, fs::perms(0640));
    write_checkpoint(file, example(2, small).checkpoint);
    CHECK(fs::status(file).permissions() == fs::perms(0640));
    umask(usual);
}

TEST_CASE("only what dead writers have left is removed") {
    const TemporaryFolder folder;
    const fs::path file = folder.path() + "/shard";
    const std::vector<std::string> others = {"shard.old.new", "shard.0123456789abcde.new",
                                             "shard.0123456789abcdeg.new", "hard.0123456789abcdef.new"};
    for (const std::string& name : others) put(folder.path() + "/" + name, "mine");
    put(folder.path() + "/shard.0123456789abcdef.new", "half of a checkp");
    write_checkpoint(file, example(1, small).checkpoint);
    CHECK(files_in(folder) == others.size() + 1);
    CHECK_FALSE(fs::exists(folder.path() + "/shard.0123456789abcdef.new"));
}

TEST_CASE("writers of one checkpoint leave each other's work alone") {
    const TemporaryFolder folder;
    const fs::path file = folder.path() + "/shard";
    Processes writers(100);
    for (std::uint32_t writer = 0; writer < 3; ++writer)
        writers.start([&file, writer] {
            const Example mine = example(writer, {{1 << 16, 1 << 10}});
            for (int i = 0; i < 30; ++i) {
                write_checkpoint(file, mine.checkpoint);
                Memory memory;
                const Checkpoint read = read_checkpoint(file, allocate_in(memory));
                expect(bytes_of(read) == bytes_of(example(read.incarnation, {{1 << 16, 1 << 10}}).checkpoint),
                       "it is nobody's checkpoint");
            }
            return std::string();
        });
    require_success(writers.wait());
    CHECK(files_in(folder) == 1);
}

TEST_CASE("a writer that is killed leaves the checkpoint from before, or the new one") {
    const TemporaryFolder folder;
    const fs::path file = folder.path() + "/shard";
    const std::vector<std::vector<std::size_t>> shape = {{1 << 18, 1 << 18}, {1 << 10}};
    const auto checkpoint = [&](std::uint32_t number) { return example(number, shape); };
    std::mt19937 random(20261125);
    std::uint32_t number = 0;
    write_checkpoint(file, checkpoint(number).checkpoint);
    int cut_off = 0;
    for (int kill_number = 0; kill_number < 40; ++kill_number) {
        int told[2];
        REQUIRE(pipe(told) == 0);
        const pid_t writer = fork_to_go_on();
        if (writer == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (std::uint32_t next = number + 1;; ++next) {
                const Example made = checkpoint(next);
                write_checkpoint(file, made.checkpoint);
                if (::write(told[1], &next, sizeof next) != sizeof next) _exit(1);
            }
        }
        close(told[1]);
        // From here on it writes without a pause.
        REQUIRE(::read(told[0], &number, sizeof number) == sizeof number);
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 10'000));
        kill(writer, SIGKILL);
        waitpid(writer, nullptr, 0);
        for (std::uint32_t written; ::read(told[0], &written, sizeof written) == sizeof written;)
            number = written;
        close(told[0]);
        cut_off += files_in(folder) > 1;

        Memory memory;
        const Checkpoint read = read_checkpoint(file, allocate_in(memory));
        REQUIRE((read.incarnation == number || read.incarnation == number + 1));
        REQUIRE(bytes_of(read) == bytes_of(checkpoint(read.incarnation).checkpoint));
        number = read.incarnation;
    }
    CHECK(cut_off > 0);
    write_checkpoint(file, checkpoint(number).checkpoint);
    CHECK(files_in(folder) == 1);
}

TEST_CASE("no bytes disturb the reading of a checkpoint") {
    std::mt19937 random(20261125);
    const auto below = [&](std::size_t limit) { return random() % limit; };
    const std::string whole = bytes_of(example(1, small).checkpoint);
    const std::size_t header_bytes = encode_header(example(1, small).checkpoint).size() - prologue_bytes;
    REQUIRE(header_bytes < 256);
    for (int i = 0; i < 20000; ++i) {
        const bool is_file = below(4) == 0;
        std::string bytes = is_file ? whole : whole.substr(prologue_bytes);
        for (std::size_t noise = below(4); noise > 0 && !bytes.empty(); --noise)
            bytes[below(bytes.size())] = static_cast<char>(below(3) == 0 ? random() : below(4));
        if (below(4) == 0) bytes.resize(below(bytes.size() + 12));
        bytes.insert(0, 1, is_file ? '\0' : static_cast<char>(below(8) == 0 ? random() : header_bytes));
        REQUIRE(LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()) ==
                0);
    }
}
