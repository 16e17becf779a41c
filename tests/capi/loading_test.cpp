// Linking with libhocket does nothing to a process until it opens a fabric.
#include <hocket.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/runtime/engine/ranks.hpp"
#include "tests/support/test.hpp"

using namespace hocket::test;

namespace {

constexpr int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

using Handler = void (*)(int);

Handler handler_of(int number) {
    struct sigaction action {};
    sigaction(number, nullptr, &action);
    return action.sa_handler;
}

// Before main, and after the constructors of the libraries.
const std::vector<Handler> at_start = [] {
    std::vector<Handler> handlers;
    for (const int number : signals) handlers.push_back(handler_of(number));
    return handlers;
}();

bool is_loaded(const std::string& library) {
    std::ifstream maps("/proc/self/maps");
    const std::string text{std::istreambuf_iterator<char>(maps), std::istreambuf_iterator<char>()};
    return text.find(library) != std::string::npos;
}

void expect_handlers(Handler handler, const std::string& when) {
    for (const int number : signals)
        expect(handler_of(number) == handler, when + ": signal " + std::to_string(number) + " has another");
}

void ignore(int) {}

hkt_comm* create() {
    hkt_comm* comm = nullptr;
    if (hkt_comm_create(nullptr, &comm) != HKT_SUCCESS) throw std::runtime_error(hkt_last_error());
    return comm;
}

}  // namespace

TEST_CASE("being linked with libhocket installs no signal handler") {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    constexpr std::size_t looked_at = 3;  // the sanitizer has handlers for the others
#else
    constexpr std::size_t looked_at = std::size(signals);
#endif
    for (std::size_t i = 0; i < looked_at; ++i) {
        INFO("signal " << signals[i]);
        CHECK((at_start[i] == SIG_DFL || at_start[i] == SIG_IGN));  // ignored: inherited
    }
}

TEST_CASE("a process keeps its signal handlers with a communicator and after it") {
    for (const char* provider : {"ofi+tcp"})
        for (const Handler handler : {Handler(SIG_DFL), Handler(&ignore)}) {
            const Job job{.environment = {{"HOCKET_PROVIDER_FOR_ALL", provider}},
                          .loads_libraries_once = false};
            const auto outcomes = run_ranks(job, [&](int) {
                for (const int number : signals) signal(number, handler);
                expect(!is_loaded("libfabric"), "libfabric is loaded before it is needed");
                hkt_comm* comm = create();
                expect(is_loaded("libfabric"), "this test does not see what is loaded");
                expect_handlers(handler, "after create");
                expect(hkt_barrier(comm) == HKT_SUCCESS, hkt_comm_last_error(comm));
                hkt_comm_destroy(comm);
                expect_handlers(handler, "after destroy");
            });
            INFO(provider);
            CHECK(problems(outcomes) == "");
        }
}

TEST_CASE("a world of one, the ranks of one host, and messages over tcp work without libfabric") {
    for (const int ranks : {1, 3, -3}) {
        Job job{std::abs(ranks)};
        if (ranks < 0) job.environment = {{"HOCKET_PROVIDER_FOR_ALL", "tcp"}};
        const auto outcomes = run_ranks(job, [ranks = job.ranks](int) {
            hkt_comm* comm = create();
            float x = 3;
            expect(hkt_all_reduce(&x, &x, 1, HKT_FLOAT32, HKT_SUM, comm, nullptr) == HKT_SUCCESS &&
                       x == static_cast<float>(3 * ranks),
                   hkt_comm_last_error(comm));
            hkt_comm_destroy(comm);
            expect(!is_loaded("libfabric"), "libfabric is loaded");
        });
        CHECK(problems(outcomes) == "");
    }
}

// Run by the next test case, in a process that finds no usable libfabric.
TEST_CASE("without libfabric", "[.][without_libfabric]") {
    const Job job{.environment = {{"HOCKET_PROVIDER_FOR_ALL", "ofi+tcp"}}, .loads_libraries_once = false};
    const auto outcomes = run_ranks(job, [](int) {
        hkt_comm* comm = nullptr;
        expect(hkt_comm_create(nullptr, &comm) == HKT_ERROR_TRANSPORT, "the status");
        const std::string text = hkt_last_error();
        for (const char* part :
             {"cannot load libfabric.so.1", "invalid ELF header", "apt install libfabric1"})
            expect(text.find(part) != std::string::npos, text);
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("a libfabric that is missing is named, with what to install") {
    const auto folder =
        std::filesystem::temp_directory_path() / ("hocket-loading-" + std::to_string(getpid()));
    std::filesystem::create_directory(folder);
    std::ofstream(folder / "libfabric.so.1") << std::string(100, 'x');  // found first, and of no use
    const std::string self = std::filesystem::read_symlink("/proc/self/exe");
    const std::string command = "env -u HOCKET_TEST_COUNTS LD_LIBRARY_PATH='" + folder.string() + "' '" +
                                self + "' '[without_libfabric]' 2>&1";
    std::FILE* pipe = popen(command.c_str(), "r");
    REQUIRE(pipe != nullptr);
    std::string text;
    char buffer[4096];
    while (std::fgets(buffer, sizeof buffer, pipe) != nullptr) text += buffer;
    const int status = pclose(pipe);
    std::filesystem::remove_all(folder);
    INFO(text);
    CHECK(status == 0);
    CHECK_THAT(text, Catch::Contains("All tests passed (1 assertion"));
}
