// When a server's checkpoints are written, and what becomes of those that cannot be.
#include "runtime/params/server/checkpoints.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <random>

#include "tests/support/temporary_folder.hpp"
#include "tests/support/test.hpp"

namespace {

using namespace hocket;
using namespace hocket::params;
using namespace hocket::test;
namespace fs = std::filesystem;

std::vector<std::string> files_of(const TemporaryFolder& folder) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder.path())) names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
}

}  // namespace

TEST_CASE("what killed servers have left of any checkpoint is removed, and nothing else") {
    std::mt19937_64 random(20261201);
    const TemporaryFolder folder;
    std::vector<std::string> stay = {"server-0.checkpoint.0123456789abcdef", "server-0.round-x.checkpoint",
                                     "mine.checkpoint.0123456789abcdef.new",
                                     "server-0.round-7.checkpoint.0123456789abcde.new",
                                     "server-0.round-.checkpoint.0123456789abcdef.new"};
    std::vector<std::string> goes;
    for (int i = 0; i < 50; ++i) {
        const auto whole = random() % 4 == 0 ? "" : fmt::format(".round-{}", random() % 100);
        goes.push_back(fmt::format("server-{}{}.checkpoint.{:016x}.new", random() % 3, whole, random()));
    }
    goes.push_back(fmt::format("server.checkpoint.{:016x}.new", random()));
    const std::string living = fmt::format("server-0.round-8.checkpoint.{:016x}.new", random());
    stay.push_back(living);
    for (const auto& names : {stay, goes})
        for (const std::string& name : names) folder.write(name, "half of a checkp");
    const int writer = open((folder / living).c_str(), O_RDWR | O_CLOEXEC);
    REQUIRE(flock(writer, LOCK_EX | LOCK_NB) == 0);
    require_folder(folder.path(), true);
    close(writer);
    std::sort(stay.begin(), stay.end());
    CHECK(files_of(folder) == stay);
}
