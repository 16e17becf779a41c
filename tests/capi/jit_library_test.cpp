// LLVM is in a library of its own: tests when it is loaded, and the behaviour if it is missing or of another
// version. All tests run in processes of their own, which have compiled nothing yet.
#include <dlfcn.h>
#include <fcntl.h>
#include <hocket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/capi/comm.hpp"
#include "tests/capi/embedding/children.hpp"
#include "tests/multi/process.hpp"
#include "tests/runtime/engine/ranks.hpp"
#include "tests/support/long_form.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/test.hpp"

using namespace hocket::test;
using namespace std::chrono_literals;
using Catch::Contains;

namespace {

// The ranks find the compiler's library by themselves, as programs do.
std::vector<Outcome> run_loading(Job job, const std::function<void(int)>& body) {
    job.loads_libraries_once = false;
    return run_ranks(job, body);
}

// Meson sets LD_LIBRARY_PATH to the folder that has the library, and the loader reads it when a process
// begins. Nothing here may be found that way, so the program begins anew without it.
[[gnu::constructor]] void forget_library_path(int, char** arguments, char**) {
    if (std::getenv("LD_LIBRARY_PATH") == nullptr) return;
    unsetenv("LD_LIBRARY_PATH");
    execv("/proc/self/exe", arguments);
}

std::string content_of(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
}

bool has_llvm() {
    return content_of("/proc/self/maps").find("libLLVM") != std::string::npos;
}

void expect_words(const std::string& text, const std::vector<std::string>& words) {
    for (const std::string& word : words)
        expect(text.find(word) != std::string::npos, "\"" + word + "\" is not in: " + text);
}

std::string executor_of(hkt_comm* comm) {
    return hkt_comm_info(comm, "executor");
}

bool machine_has_avx2() {
#ifdef __x86_64__
    return __builtin_cpu_supports("avx2");
#else
    return true;
#endif
}

// More starts than plans are interpreted for.
constexpr int often = 20;

// Multiplies, on two ranks.
void multiply(hkt_comm* comm, int times = often) {
    for (int i = 0; i < times; ++i) {
        std::array<float, 2> x{3, 5 + static_cast<float>(hkt_comm_rank(comm))};
        must(comm, hkt_all_reduce(x.data(), x.data(), x.size(), HKT_FLOAT32, HKT_PRODUCT, comm, nullptr));
        expect(x == std::array<float, 2>{9, 30}, "the products");
    }
}

// Their kernels come compiled with Hocket.
void add_and_average(hkt_comm* comm, int times = often) {
    // Usually, a few ranks alone gather so much: new memory is what takes longest here.
    const bool gathers_all = is_long_form() || hkt_comm_size(comm) < 4;
    const auto ranks = static_cast<std::size_t>(hkt_comm_size(comm));
    const auto n = static_cast<float>(ranks);
    for (int i = 0; i < times; ++i) {
        const float mine = 1 + static_cast<float>(hkt_comm_rank(comm));
        // Few, and as many as are streamed to memory.
        for (const std::size_t count : {std::size_t(2), i == 0 ? std::size_t(8) << 20 : std::size_t(1000)}) {
            std::vector<float> x(count, mine);
            must(comm, hkt_all_reduce(x.data(), x.data(), count, HKT_FLOAT32, HKT_SUM, comm, nullptr));
            expect(x[0] == n * (n + 1) / 2 && x.back() == x[0], "the sums");
            must(comm, hkt_all_reduce(x.data(), x.data(), count, HKT_FLOAT32, HKT_AVERAGE, comm, nullptr));
            expect(x[0] == n * (n + 1) / 2 && x.back() == x[0], "the averages");
            if (count > 1000 && !gathers_all) continue;
            std::vector<float> all(ranks * count);
            must(comm, hkt_all_gather(x.data(), all.data(), count, HKT_FLOAT32, comm, nullptr));
            expect(all[0] == x[0] && all.back() == x[0], "what all have");
        }
    }
}

// A schedule that computes, so that a rank alone has something to compile.
class Doubling {
  public:
    Doubling() {
        std::ofstream(path())
            << "schedule doubling all_reduce(x) {\n    x = 2 * x\n    all_reduce x over world\n}\n";
    }
    // The sum of a rank alone.
    void run(hkt_comm* comm, hkt_executor executor) const {
        hkt_plan_options options = HKT_PLAN_OPTIONS_INIT;
        const std::string path = this->path();
        options.schedule = path.c_str();
        options.executor = executor;
        hkt_plan* plan = nullptr;
        must(comm, hkt_plan_create(comm, HKT_ALL_REDUCE, HKT_FLOAT32, HKT_SUM, &options, &plan));
        std::array<float, 3> x{1, 2, 3};
        for (int i = 0; i < 6; ++i) must(comm, hkt_plan_start(plan, x.data(), x.data(), x.size(), nullptr));
        hkt_plan_destroy(plan);
        expect(x == std::array<float, 3>{64, 128, 192}, "what is doubled six times");
    }

  private:
    std::string path() const { return folder_.path() + "/doubling.sched"; }
    TemporaryFolder folder_;
};

// Captures the text that the process writes to stderr from now on.
class Stderr {
  public:
    Stderr() {
        const int file = open(path().c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600);
        expect(file >= 0 && dup2(file, STDERR_FILENO) >= 0, "stderr cannot be redirected");
        close(file);
    }
    int count(const std::string& words) const {
        const std::string text = content_of(path());
        int found = 0;
        for (std::size_t at = text.find(words); at != std::string::npos; at = text.find(words, at + 1))
            ++found;
        return found;
    }
    std::string text() const { return content_of(path()); }

  private:
    std::string path() const { return folder_.path() + "/stderr"; }
    TemporaryFolder folder_;
};

const std::map<std::string, std::string> without_library = {
    {"HOCKET_JIT_LIBRARY", "/nowhere/libhocket_jit.so"}};

}  // namespace

TEST_CASE("libhocket.so is not linked with LLVM, and the compiler's library is") {
    const auto own = run({"ldd", HOCKET_LIBRARY}, 20s), compiler = run({"ldd", HOCKET_JIT_LIBRARY}, 20s);
    CAPTURE(own.err, compiler.err);
    CHECK_THAT(own.out, Contains("libfmt") && !Contains("LLVM"));
    CHECK_THAT(compiler.out, Contains("libLLVM"));
}

TEST_CASE("LLVM is loaded when a plan is compiled, and not before") {
    const auto outcomes = run_loading({2}, [](int) {
        const Comm comm = join();
        expect(executor_of(comm.get()) == "jit", executor_of(comm.get()));
        multiply(comm.get(), 1);
        expect(!has_llvm(), "after the first start");
        multiply(comm.get());
        expect(has_llvm(), "after many starts");
        expect(executor_of(comm.get()) == "jit", executor_of(comm.get()));
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("the usual collectives load no LLVM, wherever the ranks are") {
    if (!HOCKET_HAVE_PRECOMPILED)
        HOCKET_SKIP("this build has no precompiled kernels: it is for a sanitizer, or for another machine");
    if (!machine_has_avx2()) HOCKET_SKIP("this machine cannot run the precompiled kernels");
    for (const std::string hosts : {"aa", "aaa", "aaaa", "ab", "aab", "aabb", "aaaab", "aaabbb", "aaaabbbb"})
        for (const char* schedule : {"", "ring"}) {
            if (*schedule != 0 && hosts.size() != 4) continue;
            INFO(hosts << ' ' << schedule);
            const int ranks = static_cast<int>(hosts.size());
            const auto outcomes = run_loading({ranks, {{"HOCKET_SCHEDULE", schedule}}}, [&](int rank) {
                setenv("HOCKET_HOST_ID", hosts.substr(static_cast<std::size_t>(rank), 1).c_str(), 1);
                const Comm comm = join();
                add_and_average(comm.get());
                must(comm.get(), hkt_barrier(comm.get()));
                expect(!has_llvm(), "after the usual collectives");
            });
            CHECK(problems(outcomes) == "");
        }
}

TEST_CASE("a formula is compiled, so it loads LLVM at once") {
    const Doubling doubling;
    const auto outcomes = run_loading({1}, [&](int) {
        const Comm comm = alone();
        doubling.run(comm.get(), HKT_EXECUTOR_DEFAULT);
        expect(has_llvm(), "a formula");
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("who interprets or copies alone has no LLVM") {
    const auto interpreting = run_loading({2, {{"HOCKET_EXECUTOR", "interpreter"}}}, [](int) {
        const Comm comm = join();
        multiply(comm.get());
        expect(executor_of(comm.get()) == "interpreter", executor_of(comm.get()));
        expect(!has_llvm(), "the interpreter");
    });
    CHECK(problems(interpreting) == "");
    const auto copying = run_loading({1}, [](int) {
        const Comm comm = alone();
        const std::vector<float> x(100, 7);
        for (int i = 0; i < 20; ++i) {
            std::vector<float> y(100);
            must(comm.get(),
                 hkt_all_reduce(x.data(), y.data(), x.size(), HKT_FLOAT32, HKT_SUM, comm.get(), nullptr));
            expect(x == y, "a sum of one");
        }
        expect(!has_llvm(), "a rank alone");
    });
    CHECK(problems(copying) == "");
}

TEST_CASE("who uses the cache alone has no LLVM") {
    const auto outcomes = run_loading({1}, [](int) {
        hkt_cache_options options = HKT_CACHE_OPTIONS_INIT;
        options.read = [](void*, std::uint64_t key, hkt_cache_value* sample) {
            std::memcpy(hkt_cache_value_reserve(sample, sizeof key), &key, sizeof key);
            return HKT_SUCCESS;
        };
        options.dataset = "keys";
        options.memory_bytes = 1 << 20;
        hkt_cache* cache = nullptr;
        expect(hkt_cache_open(&options, &cache) == HKT_SUCCESS, hkt_last_error());
        hkt_sample sample;
        expect(hkt_cache_get(cache, 12, &sample) == HKT_SUCCESS, hkt_last_error());
        expect(sample.bytes == sizeof(std::uint64_t), "the sample");
        hkt_cache_release(cache, &sample, 1);
        hkt_cache_close(cache);
        expect(!has_llvm(), "the cache");
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("without the library plans are interpreted, which is said once") {
    const Doubling doubling;
    const auto outcomes = run_loading({2, without_library}, [&](int) {
        const Stderr said;
        const Comm comm = join();
        expect(executor_of(comm.get()) == "jit", "nobody has looked for the library yet");
        multiply(comm.get());
        expect(executor_of(comm.get()) == "interpreter", executor_of(comm.get()));
        doubling.run(alone().get(), HKT_EXECUTOR_DEFAULT);
        multiply(comm.get());
        expect(!has_llvm(), "nothing can have loaded it");
        expect(said.count("hocket: plans are interpreted") == 1, said.text());
        expect_words(said.text(),
                     {"plans cannot be compiled: HOCKET_JIT_LIBRARY is /nowhere/libhocket_jit.so: ",
                      "No such file", "Meson builds libhocket_jit.so"});
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("without the library a formula is interpreted, and a large copy made, too") {
    const Doubling doubling;
    const auto formula = run_loading({1, without_library}, [&](int) {
        const Stderr said;
        doubling.run(alone().get(), HKT_EXECUTOR_DEFAULT);
        expect(said.count("hocket: plans are interpreted") == 1, said.text());
    });
    CHECK(problems(formula) == "");
    const auto copy = run_loading({1, without_library}, [&](int) {
        const Comm comm = alone();
        const std::vector<char> x(std::size_t{48} << 20, 7);  // more than shared caches have for a rank
        for (int i = 0; i < 6; ++i) {
            std::vector<char> y(x.size());
            must(comm.get(),
                 hkt_all_reduce(x.data(), y.data(), x.size(), HKT_INT8, HKT_SUM, comm.get(), nullptr));
            expect(x == y, "a large copy");
        }
    });
    CHECK(problems(copy) == "");
}

TEST_CASE("without the library the JIT that is named is refused, to all ranks") {
    const auto joining = run_loading({2, without_library}, [](int rank) {
        if (rank == 1) setenv("HOCKET_EXECUTOR", "jit", 1);
        hkt_comm* comm = nullptr;
        const hkt_status status = hkt_comm_create(nullptr, &comm);
        expect(status == HKT_ERROR_IO && comm == nullptr, std::string("status ") + hkt_error_string(status));
        expect_words(hkt_last_error(),
                     {"the executor \"jit\" was asked for by name, and plans cannot be compiled",
                      "HOCKET_JIT_LIBRARY is /nowhere/libhocket_jit.so: "});
        if (rank == 0) expect_words(hkt_last_error(), {"rank 1"});
    });
    CHECK(problems(joining) == "");
    const auto planning = run_loading({1, without_library}, [](int) {
        const Comm comm = alone();
        hkt_plan_options options = HKT_PLAN_OPTIONS_INIT;
        options.executor = HKT_EXECUTOR_JIT;
        hkt_plan* plan = nullptr;
        const hkt_status status =
            hkt_plan_create(comm.get(), HKT_ALL_REDUCE, HKT_FLOAT32, HKT_SUM, &options, &plan);
        expect_words(failure_of(comm.get(), status, HKT_ERROR_IO), {"/nowhere/libhocket_jit.so"});
    });
    CHECK(problems(planning) == "");
}

TEST_CASE("a library that does not fit is refused, and plans are interpreted") {
    struct Unfit {
        std::string path;
        std::vector<std::string> words;
    };
    const std::string version = hkt_version();
    const TemporaryFolder folder;
    const std::string fifo = folder.path() + "/fifo.so";  // the loader would wait for its other end
    REQUIRE(mkfifo(fifo.c_str(), 0600) == 0);
    for (const Unfit& unfit :
         {Unfit{HOCKET_OLD_JIT,
                {HOCKET_OLD_JIT, "has version 0.0.9/1 of its interface, and version " + version + "/",
                 "of another version of Hocket"}},
          Unfit{HOCKET_LIBRARY,
                {HOCKET_LIBRARY, "has no hocket_jit_interface_version", "of another version"}},
          Unfit{fifo, {"HOCKET_JIT_LIBRARY is " + fifo + ": it is a FIFO"}}}) {
        INFO(unfit.path);
        const auto outcomes = run_loading({2, {{"HOCKET_JIT_LIBRARY", unfit.path}}}, [&](int) {
            const Stderr said;
            const Comm comm = join();
            multiply(comm.get());
            expect(said.count("hocket: plans are interpreted") == 1, said.text());
            expect_words(said.text(), unfit.words);
            setenv("HOCKET_EXECUTOR", "jit", 1);
            hkt_comm_options options = HKT_COMM_OPTIONS_INIT;
            options.rank = 0;
            options.world_size = 1;
            hkt_comm* refused = nullptr;
            expect(hkt_comm_create(&options, &refused) == HKT_ERROR_IO, "it is not refused");
            expect_words(hkt_last_error(), unfit.words);
        });
        CHECK(problems(outcomes) == "");
    }
}

namespace {

// The functions of a libhocket.so that lies elsewhere.
struct Elsewhere {
    decltype(&hkt_comm_create) create;
    decltype(&hkt_comm_destroy) destroy;
    decltype(&hkt_last_error) last_error;

    explicit Elsewhere(const std::string& path) {
        void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
        expect(library != nullptr, [] { return std::string(dlerror()); });
        create = reinterpret_cast<decltype(create)>(dlsym(library, "hkt_comm_create"));
        destroy = reinterpret_cast<decltype(destroy)>(dlsym(library, "hkt_comm_destroy"));
        last_error = reinterpret_cast<decltype(last_error)>(dlsym(library, "hkt_last_error"));
        expect(create != &hkt_comm_create, "it is no copy");
    }

    // With the JIT that is named. "": a communicator was made.
    std::string refusal() const {
        hkt_comm_options options = HKT_COMM_OPTIONS_INIT;
        options.rank = 0;
        options.world_size = 1;
        options.executor = HKT_EXECUTOR_JIT;
        hkt_comm* comm = nullptr;
        if (create(&options, &comm) != HKT_SUCCESS) return last_error();
        destroy(comm);
        return "";
    }
};

std::string copy_into(const std::string& folder) {
    std::filesystem::create_directories(folder);
    std::filesystem::copy_file(HOCKET_LIBRARY, folder + "/libhocket.so");
    return folder + "/libhocket.so";
}

// The refusal of the libhocket.so at this path. "": the check has found no problem.
std::string refusal_of(const std::string& library, const std::function<void(const std::string&)>& check) {
    return problems(run_loading({1, {{"HOCKET_SCHEDULE_PATH", HOCKET_SCHEDULES}}},
                                [&](int) { check(Elsewhere(library).refusal()); }));
}

}  // namespace

TEST_CASE("no library is taken from a folder above Hocket's own prefix") {
    const TemporaryFolder folder;
    const std::string others = folder.path() + "/" HOCKET_PLUGIN_FOLDER;
    std::filesystem::create_directories(others);
    std::filesystem::create_symlink(HOCKET_OLD_JIT, others + "/libhocket_jit.so");
    for (const std::string ours : {"/ours", "/ours/lib", "/ours/" HOCKET_LIBRARY_FOLDER}) {
        INFO(ours);
        CHECK(refusal_of(copy_into(folder.path() + ours), [&](const std::string& text) {
                  expect_words(text, {"beside Hocket: " + folder.path() + ours, "by the loader's path"});
                  expect(text.find(others) == std::string::npos, text);
              }) == "");
    }
    // As it is installed, it is taken.
    CHECK(refusal_of(copy_into(folder.path() + "/" HOCKET_LIBRARY_FOLDER), [&](const std::string& text) {
              expect_words(text, {others + "/libhocket_jit.so has version 0.0.9/1"});
          }) == "");
}

TEST_CASE("the library is taken from beside libhocket.so") {
    const TemporaryFolder folder;
    const std::string prefix = folder.path() + "/ours", beside = prefix + "/lib/libhocket_jit.so";
    const std::string copy = copy_into(prefix + "/lib");
    const auto refusal = [&](const std::function<void(const std::string&)>& check) {
        return refusal_of(copy, check);
    };
    CHECK(refusal([&](const std::string& text) {
              expect_words(text, {"beside Hocket: " + beside + ": ",
                                  "; as it is installed: " + prefix + "/" HOCKET_PLUGIN_FOLDER,
                                  "; by the loader's path: libhocket_jit.so: ", "installs both together",
                                  "HOCKET_JIT_LIBRARY, if set"});
          }) == "");
    std::filesystem::create_symlink(HOCKET_OLD_JIT, beside);
    CHECK(refusal([&](const std::string& text) {
              expect_words(text, {beside, "has version 0.0.9/1"});
          }) == "");
    std::filesystem::remove(beside);
    std::filesystem::create_symlink(HOCKET_JIT_LIBRARY, beside);
    CHECK(refusal([&](const std::string& text) {
              expect(text.empty(), text);
              expect(has_llvm(), "LLVM");
          }) == "");
}

namespace {

// Plans of one type each, all compiled when they are made.
class Sums {
  public:
    explicit Sums(hkt_comm* comm) : comm_(comm) {}
    ~Sums() {
        for (hkt_plan* const plan : plans_) hkt_plan_destroy(plan);
    }
    Sums(const Sums&) = delete;

    void add(hkt_type type, hkt_op op = HKT_SUM) {
        hkt_plan_options options = HKT_PLAN_OPTIONS_INIT;
        options.schedule = "ring";
        options.executor = HKT_EXECUTOR_JIT;
        hkt_plan* plan = nullptr;
        must(comm_, hkt_plan_create(comm_, HKT_ALL_REDUCE, type, op, &options, &plan));
        plans_.push_back(plan);
    }
    // On zeros, which are the same numbers in all types.
    void run() const {
        for (hkt_plan* const plan : plans_) {
            std::array<std::uint64_t, 2> x{0, 0};
            must(comm_, hkt_plan_start(plan, x.data(), x.data(), 2, nullptr));
            expect(x[0] == 0 && x[1] == 0, "a sum of zeros");
        }
    }

  private:
    hkt_comm* comm_;
    std::vector<hkt_plan*> plans_;
};

}  // namespace

TEST_CASE("threads that compile for the first time at once load the library once") {
    const auto outcomes = run_loading({2}, [](int) {
        const Comm comm = join();
        const hkt_type types[] = {HKT_FLOAT32, HKT_FLOAT64, HKT_INT32, HKT_UINT16};
        std::vector<std::unique_ptr<Sums>> all;
        for (std::size_t i = 0; i < std::size(types); ++i) all.push_back(std::make_unique<Sums>(comm.get()));
        std::vector<std::string> wrong(std::size(types));
        std::vector<std::thread> threads;
        expect(!has_llvm(), "nothing was compiled yet");
        for (std::size_t i = 0; i < std::size(types); ++i)
            threads.emplace_back([&, i] {
                try {
                    all[i]->add(types[i]);
                } catch (const std::exception& error) {
                    wrong[i] = error.what();
                }
            });
        for (std::thread& thread : threads) thread.join();
        for (const std::string& text : wrong) expect(text.empty(), text);
        for (const auto& sums : all) sums->run();
        expect(has_llvm(), "they were compiled");
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("a forked child may be the first to compile") {
    const Doubling doubling;
    const auto outcomes = run_loading({2}, [&](int) {
        const Comm comm = join();
        multiply(comm.get(), 1);
        in_child([&] {
            doubling.run(alone().get(), HKT_EXECUTOR_JIT);
            expect(has_llvm(), "the child");
        });
        expect(!has_llvm(), "the parent");
        multiply(comm.get());
        expect(has_llvm(), "the parent, later");
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("a child may compile that was forked while another thread compiled") {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    HOCKET_SKIP("a child may find a lock of the sanitizer's allocator taken");
#endif
    const Doubling doubling;
    const auto outcomes = run_loading({2, {}, 300}, [&](int) {
        const Comm comm = join();
        Sums sums(comm.get());
        std::string wrong;
        std::thread compiling([&] {
            try {
                for (const hkt_op op : {HKT_SUM, HKT_PRODUCT, HKT_MAX, HKT_MIN, HKT_AVERAGE})
                    for (int type = HKT_FLOAT32; type <= HKT_UINT64; ++type)
                        sums.add(static_cast<hkt_type>(type), op);
            } catch (const std::exception& error) {
                wrong = error.what();
            }
        });
        std::string of_children;
        try {
            for (int i = 0; i < 8; ++i) in_child([&] { doubling.run(alone().get(), HKT_EXECUTOR_JIT); });
        } catch (const std::exception& error) {
            of_children = error.what();
        }
        compiling.join();
        expect(wrong.empty(), wrong);
        expect(of_children.empty(), of_children);
    });
    CHECK(problems(outcomes) == "");
}
