// Files that import others: which definition a name means, what is wrong and how it is said.
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <random>
#include <set>

#include "dsl/elaboration/find.hpp"
#include "dsl/planning/check_files.hpp"
#include "dsl/planning/choose.hpp"
#include "tests/dsl/errors.hpp"
#include "tests/support/long_form.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using Catch::Matchers::Contains;
using dsl::Collective;

namespace {

constexpr const char* all_at_once =
    "algorithm spread all_gather(x) over g { each r in g, q in g where q != r  x[r] : r -> q }\n";
constexpr const char* forgets = "algorithm spread all_gather(x) over g { }\n";
constexpr const char* uses_spread =
    "schedule mine all_reduce(x) {\n"
    "    reduce_scatter x over world using ring\n"
    "    all_gather x over world using spread\n"
    "}\n";

std::string import(const std::string& path) {
    return "import \"" + path + "\"\n";
}

// The error of the folder's file, or "".
std::string error_in(const test::TemporaryFolder& folder, const std::string& file = "mine.sched",
                     std::vector<std::string> more_folders = {}) {
    more_folders.push_back(HOCKET_SCHEDULES_DIR);
    return test::error_of([&] {
        dsl::check_schedule({Collective::all_reduce, folder.path() + "/" + file, "4", more_folders, 0});
    });
}

}  // namespace

TEST_CASE("an import brings the algorithms of a file that lies beside, or in a folder of the path") {
    const test::TemporaryFolder folder;
    std::filesystem::create_directory(folder.path() + "/parts");
    folder.write("mine.sched", uses_spread);
    CHECK_THAT(error_in(folder), Contains("no algorithm 'spread' for all_gather"));
    folder.write("parts/spread.sched", all_at_once);
    folder.write("mine.sched", import("parts/spread.sched") + uses_spread);
    CHECK(error_in(folder).empty());
    folder.write("parts/mine.sched", import("../parts/spread.sched") + uses_spread);
    CHECK(error_in(folder, "parts/mine.sched").empty());

    const test::TemporaryFolder other;
    other.write("spread.sched", all_at_once);
    folder.write("mine.sched", uses_spread + import("spread.sched"));
    CHECK(error_in(folder, "mine.sched", {other.path()}).empty());
    folder.write("spread.sched", forgets);  // what lies beside comes first
    CHECK_THAT(error_in(folder, "mine.sched", {other.path()}),
               Contains(folder.path() + "/spread.sched:1:1: error: "));
}

TEST_CASE("a file's own definitions come first, then its imports', and imports of imports do not count") {
    const test::TemporaryFolder folder;
    folder.write("wrong.sched", forgets);
    folder.write("mine.sched", import("wrong.sched") + uses_spread + all_at_once);
    CHECK(error_in(folder).empty());
    folder.write("between.sched", import("wrong.sched"));
    folder.write("right.sched", all_at_once);
    folder.write("mine.sched", import("between.sched") + import("right.sched") + uses_spread);
    CHECK(error_in(folder).empty());
    folder.write("mine.sched", import("between.sched") + uses_spread);
    CHECK_THAT(error_in(folder), Contains("no algorithm 'spread' for all_gather"));
}

TEST_CASE("a file of the library means its own algorithm, whatever a program's file defines") {
    const test::TemporaryFolder folder, library;
    library.write("spread.sched", std::string(all_at_once) + uses_spread);
    folder.write("mine.sched", forgets);
    dsl::Library files({library.path(), HOCKET_SCHEDULES_DIR});
    files.load(folder.path() + "/mine.sched");
    const dsl::ast::Schedule* schedule = files.find_schedule("mine", Collective::all_reduce);
    REQUIRE(schedule);
    const auto from = [&](dsl::Span where) {
        return files.find_algorithm("spread", Collective::all_gather, where)->name.span.file->path;
    };
    CHECK_THAT(from(schedule->span), Contains("spread.sched"));
    CHECK_THAT(from({}), Contains("mine.sched"));
}

TEST_CASE("a name that two imports define is refused, unless the file defines it") {
    const test::TemporaryFolder folder;
    folder.write("a.sched", all_at_once);
    folder.write("b.sched", std::string("# a comment\n") + all_at_once);
    const std::string imports = import("a.sched") + import("b.sched");
    folder.write("mine.sched", imports + uses_spread);
    CHECK_THAT(error_in(folder),
               Contains("mine.sched:5:35: error: 'spread' is defined by two files that are imported") &&
                   Contains("a.sched:1:11: note: here") && Contains("b.sched:2:11: note: and here") &&
                   Contains("rename one of them, or define it here"));
    folder.write("mine.sched", imports + uses_spread + all_at_once);
    CHECK(error_in(folder).empty());
    // One file by two paths is one file.
    folder.write("mine.sched", import("a.sched") + import("./a.sched") + uses_spread);
    CHECK(error_in(folder).empty());
    folder.write("mine.sched", import("a.sched") + import("a.sched") + uses_spread);
    CHECK_THAT(error_in(folder), Contains("mine.sched:2:8: error: 'a.sched' is imported twice"));
}

TEST_CASE("files may import each other") {
    const test::TemporaryFolder folder;
    folder.write("mine.sched", import("other.sched") + import("mine.sched") + uses_spread);
    folder.write("other.sched", import("mine.sched") + all_at_once +
                                    "schedule other all_reduce(x) { all_reduce x over world using ring }\n");
    CHECK(error_in(folder).empty());
    CHECK(error_in(folder, "other.sched").empty());
    dsl::Library library({folder.path(), HOCKET_SCHEDULES_DIR});
    CHECK(library.passed_over().empty());
    CHECK(library.find_schedule("mine", Collective::all_reduce));
}

TEST_CASE("an import that cannot be read is an error at its place, with the reason") {
    const test::TemporaryFolder folder;
    const std::string place = folder.path() + "/mine.sched:1:8: error: ";
    folder.write("mine.sched", import("gone.sched") + uses_spread);
    CHECK_THAT(error_in(folder), Contains(place + "there is no file " + folder.path() + "/gone.sched") &&
                                     Contains("nor is there one in " HOCKET_SCHEDULES_DIR));
    std::filesystem::create_directory(folder.path() + "/gone.sched");
    CHECK_THAT(error_in(folder), Contains(place + "cannot read ") && Contains("Is a directory"));
    std::filesystem::remove(folder.path() + "/gone.sched");
    REQUIRE(mkfifo((folder.path() + "/gone.sched").c_str(), 0600) == 0);
    CHECK_THAT(error_in(folder), Contains(place + "cannot read ") && Contains("it is a FIFO"));
    std::filesystem::remove(folder.path() + "/gone.sched");
    folder.write("gone.sched", "algorithm spread all_gather(x) over { }\n");
    CHECK_THAT(error_in(folder), Contains(place + "this file cannot be imported") &&
                                     Contains("gone.sched:1:37: error: expected a name"));
    folder.write("gone.sched", "algorithm spread turn(x) over g { }\n");
    CHECK_THAT(error_in(folder), Contains("gone.sched:1:18: error: ") && Contains("turn"));
    for (const char* wrong :
         {"import gone.sched", "import", "import \"gone.sched", "import \"\"", "import 'a'"}) {
        INFO(wrong);
        CHECK_THAT(test::parse_error(wrong),
                   Contains("expected a path in quotes") && Contains("import \"rings.sched\""));
    }
}

TEST_CASE("arguments from outside name what the schedule's file imports") {
    const test::TemporaryFolder folder;
    folder.write("spread.sched", all_at_once);
    folder.write("mine.sched", import("spread.sched") +
                                   "schedule mine all_reduce(x; inner = ring) {\n"
                                   "    reduce_scatter x over world\n"
                                   "    all_gather x over world using inner\n"
                                   "}\n");
    CHECK(error_in(folder, "mine.sched:mine(spread)").empty());
    CHECK_THAT(error_in(folder, "mine.sched:mine(sprad)"), Contains("(did you mean 'spread'?)"));
    dsl::CheckOptions options;
    options.files = {folder.path() + "/mine.sched"};
    options.search_path = {HOCKET_SCHEDULES_DIR};
    options.with = {{"inner", {"spread", "ring"}}};
    std::string said;
    const auto say = [&](const dsl::Report& report) { said += render(report); };
    CHECK(dsl::check_files(options, {[](const auto&) {}, say}).wrong == 0);
    CHECK(said.empty());  // also not that the import is unused
}

TEST_CASE("collectives are imported, with the algorithms of other files for them") {
    const test::TemporaryFolder folder;
    folder.write("turn.sched",
                 "collective turn(x) over g {\n"
                 "    before each r in g  x : r\n"
                 "    after each r in g  x : r = x : (r + 1) mod g.size\n"
                 "}\n");
    folder.write(
        "steps.sched",
        import("turn.sched") +
            "algorithm step turn(x) over g { each r in g where g.size > 1  x : (r + 1) mod g.size -> r }\n");
    folder.write("mine.sched", import("turn.sched") + import("steps.sched") +
                                   "schedule once turn(x) { turn x over world using step }\n");
    dsl::Library library({HOCKET_SCHEDULES_DIR});
    const std::string file = folder.path() + "/steps.sched";
    const Collective turn = dsl::find_collective(library, "turn", file);
    CHECK(dsl::name_of(turn) == "turn");
    CHECK(test::error_of([&] {
              dsl::check_schedule({turn, file + ":step", "4", {HOCKET_SCHEDULES_DIR}, 0});
          }) == "");
    const std::string mine = folder.path() + "/mine.sched:once";
    CHECK(test::error_of([&] { dsl::check_schedule({turn, mine, "4", {HOCKET_SCHEDULES_DIR}, 0}); }) == "");
    folder.write("mine.sched",
                 import("steps.sched") + "schedule once turn(x) { turn x over world using step }\n");
    CHECK_THAT(test::error_of([&] {
                   dsl::check_schedule({turn, mine, "4", {HOCKET_SCHEDULES_DIR}, 0});
               }),
               Contains("mine.sched:2:15: error: ") && Contains("turn"));
}

TEST_CASE("a planner notices that an imported file has changed") {
    const test::TemporaryFolder folder;
    folder.write("spread.sched", all_at_once);
    folder.write("mine.sched", import("spread.sched") + uses_spread);
    dsl::Planner planner;
    const dsl::PlanRequest request{
        Collective::all_reduce, folder.path() + "/mine.sched", "4", {HOCKET_SCHEDULES_DIR}, 0};
    const auto kept = planner.check(request);
    folder.write("spread.sched", forgets);
    CHECK_THAT(test::error_of([&] { planner.check(request); }), Contains("spread.sched"));
    folder.write("spread.sched", std::string("# right again\n") + all_at_once);
    CHECK(test::error_of([&] { planner.check(request); }).empty());
    CHECK(kept->project(0).ops.size() > 0);  // what was made of the old text lives on
}

TEST_CASE("a name that two files of a folder define runs by its file, is never chosen, and is told") {
    const test::TemporaryFolder folder;
    folder.write("a.sched", all_at_once);
    folder.write("b.sched", std::string("# a comment\n") + all_at_once);
    folder.write("c.sched", uses_spread);
    folder.write("d.sched", import("a.sched") +
                                "schedule its all_reduce(x) {\n"
                                "    reduce_scatter x over world using ring\n"
                                "    all_gather x over world using spread\n"
                                "}\n");
    const std::vector<std::string> path = {folder.path(), HOCKET_SCHEDULES_DIR};
    const auto error = [&](Collective collective, const std::string& schedule) {
        return test::error_of([&] { dsl::check_schedule({collective, schedule, "4", path, 0}); });
    };
    CHECK_THAT(error(Collective::all_gather, "spread"),
               Contains("'spread' is defined by two files of a folder") &&
                   Contains("a.sched:1:11: note: here") && Contains("b.sched:2:11: note: and here") &&
                   Contains("a.sched:spread"));
    CHECK_THAT(
        error(Collective::all_reduce, "mine"),
        Contains("c.sched:3:35: error: 'spread' is defined by two files") && Contains("import \"a.sched\""));
    CHECK(error(Collective::all_gather, folder.path() + "/b.sched:spread") == "");
    CHECK(error(Collective::all_reduce, "its") == "");
    dsl::Library library(path);
    REQUIRE(library.passed_over().size() == 1);
    CHECK_THAT(
        library.passed_over()[0],
        Contains("b.sched:2: the all_gather algorithm 'spread' is defined at ") && Contains("a.sched:1"));
    const dsl::Chosen choice =
        dsl::choose_schedule(library, dsl::grid_topology("4h"), Collective::all_gather, 0, 1024);
    CHECK_THAT(choice.why, !Contains("spread"));
}

TEST_CASE("a folder's file whose import is wrong is passed over, and so are those that import it") {
    const test::TemporaryFolder folder;
    folder.write("a.sched", import("b.sched") + "schedule a all_reduce(x) { all_reduce x over world }\n");
    folder.write("b.sched", import("c.sched") + "schedule b all_reduce(x) { all_reduce x over world }\n");
    folder.write("c.sched", import("gone.sched") + "schedule c all_reduce(x) { all_reduce x over world }\n");
    folder.write("d.sched", "schedule d all_reduce(x) { all_reduce x over world }\n");
    dsl::Library library({folder.path(), HOCKET_SCHEDULES_DIR});
    for (const char* wrong : {"a", "b", "c"})
        CHECK_FALSE(library.find_schedule(wrong, Collective::all_reduce));
    CHECK(library.find_schedule("d", Collective::all_reduce));
    CHECK(library.passed_over().size() == 3);
    folder.write("c.sched", "schedule c nonesuch(x) { }\n");
    CHECK(dsl::Library({folder.path(), HOCKET_SCHEDULES_DIR}).passed_over().size() == 3);
    CHECK_THAT(library.where_looked(), Contains("gone.sched") && Contains("b.sched: it imports ") &&
                                           Contains("a.sched: it imports "));
}

TEST_CASE("a name that two schedules of a folder have does not keep others from being chosen") {
    const test::TemporaryFolder folder;
    folder.write("a.sched", "algorithm foo all_gather(x) over g { }\n");
    for (const char* file : {"b.sched", "c.sched"})
        folder.write(file, "schedule foo all_gather(x) { all_gather x over world using ring }\n");
    dsl::Library library({folder.path(), HOCKET_SCHEDULES_DIR});
    const dsl::Chosen choice =
        dsl::choose_schedule(library, dsl::grid_topology("4h"), Collective::all_gather, 0, 1024);
    CHECK_THAT(choice.why, !Contains("foo"));
}

TEST_CASE("collectives that say the same, and links to one file, are not ambiguous") {
    const test::TemporaryFolder folder;
    const std::string turn =
        "collective turn(x) over g {\n"
        "    before each r in g  x : r\n"
        "    after  each r in g  x : r = x : (r + 1) mod g.size\n"
        "}\n";
    const std::string step =
        " turn(x) over g { each r in g where g.size > 1  x : (r + 1) mod g.size -> r }\n";
    folder.write("a.sched", turn + "algorithm one" + step);
    folder.write("b.sched", "# the same\n" + turn + "algorithm two" + step);
    std::filesystem::create_symlink("a.sched", folder.path() + "/c.sched");
    dsl::Library library({folder.path(), HOCKET_SCHEDULES_DIR});
    CHECK(library.passed_over().empty());
    const Collective collective = dsl::find_collective(library, "turn");
    for (const char* name : {"one", "two"}) CHECK(library.find_algorithm(name, collective));
}

TEST_CASE("an import of which nothing is used is warned of") {
    const test::TemporaryFolder folder;
    folder.write("a.sched", all_at_once);
    folder.write("b.sched",
                 "algorithm other all_gather(x) over g { each r in g, q in g where q != r x[r] : r -> q }");
    folder.write("mine.sched", import("a.sched") + import("b.sched") + uses_spread);
    dsl::CheckOptions options;
    options.files = {folder.path() + "/mine.sched"};
    options.search_path = {HOCKET_SCHEDULES_DIR};
    options.warns = true;
    std::vector<dsl::Report> reports;
    dsl::CheckListener listener;
    listener.right = [](const dsl::RightDefinition&) {};
    listener.report = [&](const dsl::Report& report) { reports.push_back(report); };
    CHECK(dsl::check_files(options, listener).wrong == 0);
    REQUIRE(reports.size() == 1);
    CHECK_THAT(render(reports[0]),
               Contains("mine.sched:2:1: warning[unused]: nothing here uses what this file defines"));
}

// ---- Any files ---------------------------------------------------------------------------------

namespace {

// Some files in two folders, which define names and import each other at random.
struct RandomFiles {
    struct File {
        std::string path;
        int folder;
        std::set<std::string> defines;
        std::vector<std::size_t> imports;
    };
    std::vector<File> files;
    test::TemporaryFolder folders[2];

    explicit RandomFiles(std::mt19937& random) {
        const auto below = [&](std::size_t n) {
            return std::uniform_int_distribution<std::size_t>(0, n - 1)(random);
        };
        files.resize(2 + below(5));
        for (std::size_t i = 0; i < files.size(); ++i) {
            files[i].folder = static_cast<int>(below(2));
            files[i].path = fmt::format("{}/f{}.sched", folders[files[i].folder].path(), i);
            for (const char* name : {"one", "two", "three"})
                if (below(3) == 0) files[i].defines.insert(name);
            for (std::size_t other = 0; other < files.size(); ++other)
                if (below(3) == 0) files[i].imports.push_back(other);
        }
        for (const File& file : files) {
            std::string text = fmt::format("schedule from_{} all_reduce(x) {{ }}\n", &file - files.data());
            for (const std::size_t other : file.imports)
                text += import(std::filesystem::path(files[other].path)
                                   .lexically_relative(folders[file.folder].path())
                                   .string());
            for (const std::string& name : file.defines)
                text += "algorithm " + name + " all_gather(x) over g { }\n";
            folders[file.folder].write(std::filesystem::path(file.path).filename().string(), text);
        }
    }

    // The file whose definition the name means, as docs/language.md has it; -1: none, -2: two.
    int meant(std::size_t from, const std::string& name, std::size_t loaded) const {
        if (files[from].defines.contains(name)) return static_cast<int>(from);
        const auto only = [&](const auto& candidates) {
            int found = -1;
            for (const std::size_t one : candidates)
                if (files[one].defines.contains(name)) found = found == -1 ? static_cast<int>(one) : -2;
            return found;
        };
        if (const int imported = only(files[from].imports); imported != -1) return imported;
        if (files[loaded].defines.contains(name)) return static_cast<int>(loaded);
        for (const int folder : {0, 1}) {
            std::vector<std::size_t> there;
            for (std::size_t i = 0; i < files.size(); ++i)
                if (files[i].folder == folder) there.push_back(i);
            if (const int found = only(there); found != -1) return found;
        }
        return -1;
    }
};

}  // namespace

TEST_CASE("in any files a name means the definition that the rules say") {
    std::mt19937 random(41);
    std::map<int, int> kinds;
    for (int turn = 0; turn < test::in_long_form(2000, 150); ++turn) {
        const RandomFiles random_files(random);
        const auto& files = random_files.files;
        dsl::Library library({random_files.folders[0].path(), random_files.folders[1].path()});
        for (const std::string& text : library.passed_over())
            REQUIRE_THAT(text, Contains("in the same folder"));
        const std::size_t loaded = static_cast<std::size_t>(turn) % files.size();
        library.load(files[loaded].path);
        for (std::size_t from = 0; from < files.size(); ++from)
            for (const std::string name : {"one", "two", "three"}) {
                INFO("turn " << turn << ", from " << files[from].path << ": " << name);
                const dsl::ast::Schedule* schedule =
                    library.find_schedule(fmt::format("from_{}", from), Collective::all_reduce);
                REQUIRE(schedule);
                const int wanted = random_files.meant(from, name, loaded);
                ++kinds[wanted < 0 ? wanted : 0];
                try {
                    const dsl::ast::Algorithm* found =
                        library.find_algorithm(name, Collective::all_gather, schedule->span);
                    REQUIRE((found ? std::filesystem::path(found->span.file->path).filename().string()
                                   : "none") ==
                            (wanted == -1 ? "none"
                             : wanted == -2
                                 ? "refused"
                                 : std::filesystem::path(files[static_cast<std::size_t>(wanted)].path)
                                       .filename()
                                       .string()));
                } catch (const dsl::DiagnosticError&) {
                    REQUIRE(wanted == -2);
                }
            }
    }
    for (const int kind : {-2, -1, 0}) CHECK(kinds[kind] > 100);
}
