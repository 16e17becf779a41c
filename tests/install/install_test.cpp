// Hocket as its users have it: installed by Meson into another place, and found there by programs that know
// nothing of the source tree.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

#include "tests/multi/process.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/test.hpp"

using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using hocket::test::Finished;
using hocket::test::TemporaryFolder;
namespace fs = std::filesystem;
using Words = std::vector<std::string>;

namespace {

const std::string version = HOCKET_VERSION;
const std::string major = version.substr(0, version.find('.'));

struct Stage {
    TemporaryFolder folder{HOCKET_TEST_FOLDER};
    const fs::path root = fs::canonical(folder.path());
    const fs::path prefix = root.string() + HOCKET_PREFIX;
    const fs::path bin = prefix / HOCKET_BINDIR, lib = prefix / HOCKET_LIBDIR,
                   include = prefix / HOCKET_INCLUDEDIR;
    Finished installed;

    explicit Stage(const Words& options = {}) {
        Words command{"meson", "install", "-C", HOCKET_BUILD, "--no-rebuild", "--quiet", "--destdir", root};
        command.insert(command.end(), options.begin(), options.end());
        installed = hocket::test::run(command, 60s);
    }
};

// Installed once, for all test cases.
const Stage& stage() {
    static const Stage all;
    INFO(all.installed.out << all.installed.err);
    REQUIRE(all.installed.exit_code == 0);
    return all;
}

bool has(const std::string& program) {
    return hocket::test::run({"sh", "-c", "command -v " + program}, 20s).exit_code == 0;
}

// CMake looks for make by default; use the generator that builds Hocket itself.
Words cmake_in(const std::string& folder, const Words& arguments) {
    Words command{"cmake", "-B", folder};
    if (has("ninja")) command.push_back("-GNinja");
    command.insert(command.end(), arguments.begin(), arguments.end());
    return command;
}

std::set<std::string> files_below(const fs::path& folder) {
    std::set<std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder))
        if (!entry.is_directory()) files.insert(entry.path().lexically_relative(folder).string());
    return files;
}

std::string shell(const Words& words) {
    std::string line;
    for (const auto& word : words) line += "'" + word + "' ";
    return line;
}

// In an empty folder, with no environment.
Finished run_bare(const Words& command, const std::string& environment = "") {
    const TemporaryFolder elsewhere;
    return hocket::test::run(
        {"sh", "-c", "cd " + elsewhere.path() + " && exec env -i " + environment + " " + shell(command)},
        60s);
}

// Two ranks of a program, under the installed hocket-run.
void check_runs(const Stage& place, const fs::path& program) {
    const Finished job = run_bare({place.bin / "hocket-run", "-n", "2", "--timeout", "30", program});
    INFO(program << "\n" << job.out << job.err);
    CHECK(job.exit_code == 0);
    const std::string line = "sum 2 of 2 ranks, version " + version + ", schedules in " +
                             (place.prefix / HOCKET_DATADIR / "hocket/schedules").string();
    for (const char* rank : {"[0] ", "[1] "})
        CHECK(hocket::test::lines_with_prefix(job.out, rank) == Words{line});
    CHECK(job.err.empty());
}

}  // namespace

TEST_CASE("what is installed, and nothing else") {
    if (!has("meson")) HOCKET_SKIP("no meson in PATH to install with");
    std::set<std::string> expected;
    const auto add = [&](const std::string& folder, const Words& names) {
        for (const auto& name : names) expected.insert(folder + "/" + name);
    };
    const Words tools{"hocket-bench", "hocket-cache", "hocket-overlap", "hocket-params",
                      "hocket-run",   "hocket-tune",  "schedc"};
    add(HOCKET_BINDIR, tools);
    add(HOCKET_INCLUDEDIR, {"hocket.h"});
    add(HOCKET_LIBDIR,
        {"libhocket.so", "libhocket.so." + major, "libhocket.so." + version, "pkgconfig/hocket.pc",
         "cmake/hocket/hocketConfig.cmake", "cmake/hocket/hocketConfigVersion.cmake"});
    for (const auto& tool : tools) add(HOCKET_MANDIR "/man1", {tool + ".1"});
    add(HOCKET_MANDIR "/man7", {"hocket.7"});
    for (const auto& file : files_below(HOCKET_SCHEDULES)) add(HOCKET_DATADIR "/hocket/schedules", {file});
    if (fs::exists(HOCKET_BUILD "/capi/hocket_kernels.txt"))
        add(HOCKET_PLUGIN_FOLDER, {"hocket_kernels.txt"});  // there is none in a build for a sanitizer
    std::set<std::string> found = files_below(stage().prefix);
    // Plug-ins are built if their dependencies are there.
    std::erase_if(
        found, [](const std::string& file) { return file.starts_with(HOCKET_PLUGIN_FOLDER "/libhocket_"); });
    CHECK(found == expected);
    CHECK(files_below(stage().root).size() >= expected.size());
    CHECK(fs::read_symlink(stage().lib / "libhocket.so") == "libhocket.so." + major);
    CHECK(fs::read_symlink(stage().lib / ("libhocket.so." + major)) == "libhocket.so." + version);
}

TEST_CASE("what is installed does not name the folder that it was built in") {
    if (!has("meson")) HOCKET_SKIP("no meson in PATH to install with");
    for (const auto& file : files_below(stage().prefix)) {
        const TemporaryFolder folder;
        std::string path = stage().prefix / file;
        // Debug information has the sources' paths.
        if (hocket::test::run({"strip", "-o", folder.path() + "/stripped", path}, 20s).exit_code == 0)
            path = folder.path() + "/stripped";
        std::ifstream stream(path, std::ios::binary);
        const std::string bytes{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
        CAPTURE(file);
        CHECK(!bytes.empty());
        CHECK(bytes.find(HOCKET_SOURCES) == std::string::npos);
    }
}

TEST_CASE("the header is C99 and C++11, without a warning") {
    if (!has("meson")) HOCKET_SKIP("no meson in PATH to install with");
    const std::string c = HOCKET_CC, cxx = HOCKET_CXX;
    for (const std::string& compiler : {c + " -x c -std=c99", c + " -x c -std=c11",
                                        cxx + " -x c++ -std=c++11", cxx + " -x c++ -std=c++20"}) {
        CAPTURE(compiler);
        const auto compiled =
            hocket::test::run({"sh", "-c",
                               compiler + " -pedantic -Wall -Wextra -Werror -fsyntax-only -I" +
                                   stage().include.string() + " " HOCKET_INSTALL_TESTS "/header.c"},
                              60s);
        CHECK(compiled.err == "");
        CHECK(compiled.exit_code == 0);
    }
}

TEST_CASE("programs are built by pkg-config, and run") {
    if (!has("meson")) HOCKET_SKIP("no meson in PATH to install with");
    if (!has("pkg-config")) HOCKET_SKIP("no pkg-config in PATH");
    const std::string pkg_config = "PKG_CONFIG_SYSROOT_DIR=" + stage().root.string() +
                                   " PKG_CONFIG_PATH=" + (stage().lib / "pkgconfig").string() +
                                   " pkg-config ";
    const auto told = hocket::test::run(
        {"sh", "-c", pkg_config + "--modversion hocket; " + pkg_config + "--print-requires-private hocket"},
        20s);
    CHECK(told.out == version + "\n");  // it needs no other package
    const TemporaryFolder outside;
    for (const std::string& compile :
         {std::string(HOCKET_CC " -std=c99 " HOCKET_CONSUMER "/program.c -o program_c"),
          std::string(HOCKET_CXX " -std=c++11 " HOCKET_CONSUMER "/program.cpp -o program_cpp")}) {
        CAPTURE(compile);
        const auto built = hocket::test::run(
            {"sh", "-c",
             "cd " + outside.path() + " && " + compile + " -Wall -Werror " HOCKET_SANITIZER " $(" +
                 pkg_config + "--cflags --libs hocket) -Wl,-rpath," + stage().lib.string()},
            60s);
        CHECK(built.err == "");
        REQUIRE(built.exit_code == 0);
    }
    check_runs(stage(), outside.path() + "/program_c");
    check_runs(stage(), outside.path() + "/program_cpp");
    // It asks for the library by its soname, and for functions by their version.
    const auto needs = hocket::test::run({"sh", "-c", "objdump -p " + outside.path() + "/program_c"}, 20s);
    CHECK_THAT(needs.out, Contains("libhocket.so." + major + "\n") && Contains("HOCKET_0.1"));
}

TEST_CASE("programs are built by CMake, and run") {
    if (!has("meson")) HOCKET_SKIP("no meson in PATH to install with");
    if (!has("cmake")) HOCKET_SKIP("no cmake in PATH");
    const TemporaryFolder outside;
    const Words configure =
        cmake_in(outside.path(), {"-S", HOCKET_CONSUMER, "-DCMAKE_PREFIX_PATH=" + stage().prefix.string(),
                                  "-DWANTED_VERSION=" + version, "-DCMAKE_C_FLAGS=" HOCKET_SANITIZER,
                                  "-DCMAKE_CXX_FLAGS=" HOCKET_SANITIZER});
    for (const Words& command : {configure, Words{"cmake", "--build", outside.path()}}) {
        const auto done = hocket::test::run(command, 120s);
        INFO(done.out << done.err);
        REQUIRE(done.exit_code == 0);
    }
    check_runs(stage(), outside.path() + "/program_c");
    check_runs(stage(), outside.path() + "/program_cpp");
}

TEST_CASE("CMake finds the same major version that is not older") {
    if (!has("meson")) HOCKET_SKIP("no meson in PATH to install with");
    if (!has("cmake")) HOCKET_SKIP("no cmake in PATH");
    const int number = std::stoi(major);
    const std::string minor = version.substr(major.size() + 1, version.rfind('.') - major.size() - 1);
    const std::string newer = major + "." + std::to_string(std::stoi(minor) + 1),
                      other = std::to_string(number + 1);
    const TemporaryFolder outside;
    const auto told = hocket::test::run(
        cmake_in(
            outside.path(),
            {"-S", HOCKET_INSTALL_TESTS "/versions", "-DFOLDER=" + (stage().lib / "cmake/hocket").string(),
             "-DVERSIONS=" + major + ";" + major + "." + minor + ";" + version + ";" + newer + ";" + other}),
        60s);
    INFO(told.out << told.err);
    CHECK(told.exit_code == 0);
    for (const std::string& found : {major, major + "." + minor, version})
        CHECK_THAT(told.out, Contains("hocket " + found + ": 1\n"));
    for (const std::string& refused : {newer, other})
        CHECK_THAT(told.out, Contains("hocket " + refused + ": 0\n"));
}

TEST_CASE("the tools find the schedules that were installed with them, whatever they are called as") {
    if (!has("meson")) HOCKET_SKIP("no meson in PATH to install with");
    const Stage tools({"--tags", "runtime"});  // the contents of a package of the tools
    INFO(tools.installed.out << tools.installed.err);
    REQUIRE(tools.installed.exit_code == 0);
    CHECK(!fs::exists(tools.include));
    const std::string schedules = tools.prefix / HOCKET_DATADIR / "hocket/schedules";
    const std::string path = "PATH=" + tools.bin.string();
    const auto explained = run_bare({"schedc", "explain", "ring", "-n", "2"}, path);
    INFO(explained.out << explained.err);
    CHECK(explained.exit_code == 0);
    CHECK_THAT(explained.out, Contains(schedules + "/ring.sched:"));
    // The compiler is a library of its own, which programs find where they are installed.
    const auto code = run_bare({"schedc", "explain", "ring", "-n", "2", "--emit", "llvm"}, path);
    CHECK_THAT(code.out + code.err,
               Contains("define void @combine2_float32_sum") || Contains("built without LLVM"));
    const auto bench = run_bare({"hocket-run", "-n", "2", "--timeout", "30", "hocket-bench", "all_reduce",
                                 "-b", "1K", "-e", "1K", "--schedule", "ring", "-v"},
                                path);
    INFO(bench.out << bench.err);
    CHECK(bench.exit_code == 0);
    CHECK_THAT(bench.out, Contains("Out of bounds values : 0 OK"));

    fs::remove_all(schedules);
    const auto lacking = run_bare({"schedc", "explain", "ring", "-n", "2"}, path);
    CHECK(lacking.exit_code == 1);
    CHECK_THAT(lacking.err, Contains(schedules) && Contains("HOCKET_SCHEDULE_PATH"));
    const auto named =
        run_bare({"schedc", "explain", "ring", "-n", "2"}, path + " HOCKET_SCHEDULE_PATH=" HOCKET_SCHEDULES);
    INFO(named.err);
    CHECK(named.exit_code == 0);
}
