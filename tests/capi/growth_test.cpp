// The one rule by which structs grow (capi/growth.hpp): on structs of our own, which have grown, and on all
// of hocket.h's through the library. Structs end where memory ends, so that one byte too many is a crash.
#include "capi/growth.hpp"

#include <hocket.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/base/error.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using Catch::Contains;

namespace {

// Options as a program of the first version knows them, and as the library does.
struct FirstOptions {
    std::size_t size;
    std::int32_t rank, executor;
};
struct Options {
    std::size_t size;
    std::int32_t rank, executor;
    const char* provider;
    std::int64_t timeout;
};

// An answer as a program of the first version knows it, and as the library does.
struct FirstAnswer {
    std::uint64_t gets, hits;
};
struct Answer {
    std::uint64_t gets, hits, reads;
    const char* trouble;
};

// Memory that ends where it ends.
class Page {
  public:
    Page() {
        bytes_ = static_cast<char*>(
            mmap(nullptr, size_ + page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        if (bytes_ == MAP_FAILED || mprotect(bytes_ + size_, page_, PROT_NONE) != 0)
            throw std::runtime_error("no memory for a test");
        std::memset(bytes_, mark, size_);
    }
    Page(const Page&) = delete;
    ~Page() { munmap(bytes_, size_ + page_); }

    // The page's last bytes.
    template <typename Struct>
    Struct* last(std::size_t bytes) {
        return reinterpret_cast<Struct*>(bytes_ + size_ - bytes);
    }
    static constexpr unsigned char mark = 0xa5;

  private:
    std::size_t page_ = static_cast<std::size_t>(sysconf(_SC_PAGESIZE)), size_ = 2 * page_;
    char* bytes_;
};

bool all_are(const void* bytes, std::size_t count, unsigned char value) {
    const auto* begin = static_cast<const unsigned char*>(bytes);
    return std::all_of(begin, begin + count, [&](unsigned char byte) { return byte == value; });
}

// `options` as a program has it whose struct is of `size` bytes: those behind what we know are `tail`.
template <typename Struct>
Struct* placed(Page& page, Struct options, std::size_t size, unsigned char tail = 0) {
    auto* const to = page.last<Struct>(size);
    std::memset(static_cast<void*>(to), tail, size);
    options.size = size;
    std::memcpy(static_cast<void*>(to), &options, std::min(size, sizeof options));
    return to;
}

template <typename Call>
std::string refusal(Call call) {
    try {
        call();
    } catch (const Error& error) {
        CHECK(error.status() == Status::invalid_argument);
        return error.what();
    }
    return "";
}

constexpr std::size_t senseless[] = {0, 3, 4097, std::size_t{1} << 40, SIZE_MAX};

}  // namespace

template <>
struct hocket::capi::Published<Options> {
    static constexpr const char* name = "Options.size";
    static constexpr const char* cure = "start from INIT";
    static constexpr std::size_t first_size = sizeof(FirstOptions);
    static constexpr Options defaults = {sizeof(Options), -1, 0, "usual", 60};
};

template <>
struct hocket::capi::Published<Answer> {
    static constexpr const char* name = "the size of the Answer";
    static constexpr const char* cure = "pass its sizeof";
    static constexpr std::size_t first_size = sizeof(FirstAnswer);
};

TEST_CASE("options that an older program does not know have their defaults, and are not read") {
    Page page;
    auto* const given = page.last<FirstOptions>(sizeof(FirstOptions));
    *given = {sizeof(FirstOptions), 3, 2};
    const Options options = capi::read_options(reinterpret_cast<const Options*>(given));
    CHECK(options.size == sizeof(Options));
    CHECK(options.rank == 3);
    CHECK(options.executor == 2);
    CHECK(std::string(options.provider) == "usual");
    CHECK(options.timeout == 60);
}

TEST_CASE("no options are the defaults") {
    const Options options = capi::read_options<Options>(nullptr);
    CHECK(options.rank == -1);
    CHECK(options.timeout == 60);
}

TEST_CASE("a newer program's options are fine unless it asks for what this library does not have") {
    Page page;
    const std::size_t size = sizeof(Options) + 24;
    auto* const given = placed(page, Options{0, 3, 2, "own", 5}, size);
    CHECK(capi::read_options(given).timeout == 5);
    CHECK(std::string(capi::read_options(given).provider) == "own");
    for (std::size_t at = sizeof(Options); at < size; ++at) {
        reinterpret_cast<char*>(given)[at] = 1;
        CHECK_THAT(refusal([&] { capi::read_options(given); }), Contains("Options.size is 56") &&
                                                                    Contains("knows 32 bytes") &&
                                                                    Contains("newer hocket.h"));
        reinterpret_cast<char*>(given)[at] = 0;
    }
}

TEST_CASE("a size that no version had is refused, and nothing else is read") {
    Page page;
    auto* const given = page.last<Options>(sizeof(std::size_t));
    for (const std::size_t size : senseless) {
        std::memcpy(static_cast<void*>(given), &size, sizeof size);
        CHECK_THAT(refusal([&] { capi::read_options(given); }),
                   Contains("Options.size is " + std::to_string(size)) && Contains("start from INIT"));
    }
}

TEST_CASE("of an answer a program gets as much as it knows, and zeros for what the library does not know") {
    const Answer answer = {1, 2, 3, "trouble"};
    for (const std::size_t size : {sizeof(FirstAnswer), sizeof(Answer) - 8, sizeof(Answer)}) {
        Page page;
        auto* const to = page.last<Answer>(size);
        capi::Place(to, size).write(answer);
        CHECK(std::memcmp(to, &answer, size) == 0);
        CHECK(all_are(page.last<char>(size + 64), 64, Page::mark));
    }
    Page page;
    auto* const to = page.last<Answer>(sizeof(Answer) + 24);
    capi::Place(to, sizeof(Answer) + 24).write(answer);
    CHECK(std::memcmp(to, &answer, sizeof answer) == 0);
    CHECK(all_are(to + 1, 24, 0));
}

TEST_CASE("an answer of a size that no version had, or without a place, is refused before the work for it") {
    Page page;
    auto* const to = page.last<Answer>(8);
    for (const std::size_t size : senseless)
        CHECK_THAT(refusal([&] { capi::Place(to, size); }),
                   Contains("is " + std::to_string(size)) && Contains("pass its sizeof"));
    CHECK(all_are(to, 8, Page::mark));
    CHECK_THAT(refusal([&] { capi::Place<Answer>(nullptr, sizeof(Answer)); }), Contains("null"));
}

namespace {

// Checks the library's treatment of options of every kind of size; use() returns the status of a call with
// them.
template <typename Struct, typename Use>
void follows_the_rule(const Struct& options, std::size_t first_size, Use use) {
    Page page;
    CHECK(use(placed(page, options, sizeof options)) == HKT_SUCCESS);
    CHECK(use(placed(page, options, sizeof options + 40)) == HKT_SUCCESS);
    CHECK(use(placed(page, options, first_size)) == HKT_SUCCESS);
    CHECK(use(placed(page, options, sizeof options + 40, 1)) == HKT_ERROR_INVALID_ARGUMENT);
    CHECK(use(placed(page, options, first_size - 8)) == HKT_ERROR_INVALID_ARGUMENT);
    CHECK(use(placed(page, options, 4104)) == HKT_ERROR_INVALID_ARGUMENT);
}

template <typename Struct, typename Use>
void answers_by_the_rule(std::size_t first_size, Use use) {
    for (const std::size_t size : {first_size, sizeof(Struct), sizeof(Struct) + 40}) {
        Page page;
        auto* const to = page.last<Struct>(size);
        CHECK(use(to, size) == HKT_SUCCESS);
        if (size > sizeof(Struct)) CHECK(all_are(to + 1, size - sizeof(Struct), 0));
        CHECK(all_are(page.last<char>(size + 64), 64, Page::mark));
    }
    Page page;
    for (const std::size_t size : {first_size - 8, std::size_t{4104}, SIZE_MAX})
        CHECK(use(page.last<Struct>(first_size), size) == HKT_ERROR_INVALID_ARGUMENT);
    CHECK(all_are(page.last<char>(first_size), first_size, Page::mark));
    CHECK(use(nullptr, sizeof(Struct)) == HKT_ERROR_INVALID_ARGUMENT);
}

hkt_comm_options world_of_one() {
    hkt_comm_options options = HKT_COMM_OPTIONS_INIT;
    options.rank = 0;
    options.world_size = 1;
    return options;
}

hkt_status read_nothing(void*, uint64_t, hkt_cache_value*) {
    return HKT_ERROR_NOT_FOUND;
}

hkt_cache_options empty_cache() {
    hkt_cache_options options = HKT_CACHE_OPTIONS_INIT;
    options.read = read_nothing;
    options.dataset = "nothing";
    options.memory_bytes = 1 << 20;
    options.io = HKT_CACHE_IO_THREADS;
    return options;
}

}  // namespace

// The sizes are those of the first versions: they never change.
TEST_CASE("the library reads all options by the rule") {
    follows_the_rule(world_of_one(), 88, [](const hkt_comm_options* options) {
        hkt_comm* comm = nullptr;
        const hkt_status status = hkt_comm_create(options, &comm);
        hkt_comm_destroy(comm);
        return status;
    });

    const hkt_comm_options alone = world_of_one();
    hkt_comm* comm = nullptr;
    REQUIRE(hkt_comm_create(&alone, &comm) == HKT_SUCCESS);
    const hkt_plan_options own = HKT_PLAN_OPTIONS_INIT;
    follows_the_rule(own, 24, [&](const hkt_plan_options* options) {
        hkt_plan* plan = nullptr;
        const hkt_status status = hkt_plan_create(comm, HKT_ALL_REDUCE, HKT_FLOAT32, HKT_SUM, options, &plan);
        hkt_plan_destroy(plan);
        return status;
    });
    hkt_comm_destroy(comm);

    const hkt_topk_options exact = HKT_TOPK_OPTIONS_INIT;
    follows_the_rule(exact, 64, [](const hkt_topk_options* options) {
        const float x = 1;
        float value;
        std::uint32_t index;
        std::size_t selected;
        return hkt_topk(&x, 1, HKT_FLOAT32, 1, options, &value, &index, &selected, nullptr);
    });

    const hkt_lars_options lars = HKT_LARS_OPTIONS_INIT;
    follows_the_rule(lars, 48, [](const hkt_lars_options* options) {
        std::int32_t skipped;
        return hkt_lars(nullptr, nullptr, nullptr, nullptr, 0, HKT_FLOAT32, 1, options, &skipped);
    });

    const hkt_lamb_options lamb = HKT_LAMB_OPTIONS_INIT;
    follows_the_rule(lamb, 48, [](const hkt_lamb_options* options) {
        std::int32_t skipped;
        return hkt_lamb(nullptr, nullptr, nullptr, nullptr, nullptr, 0, HKT_FLOAT32, 1, 1, options, &skipped);
    });

    const hkt_overlap_options overlap = HKT_OVERLAP_OPTIONS_INIT;
    follows_the_rule(overlap, 32, [](const hkt_overlap_options* options) {
        const double time = 1;
        std::size_t end, batches;
        return hkt_overlap_plan(0, &time, &time, nullptr, 1, options, &end, &batches, nullptr, 0);
    });

    follows_the_rule(empty_cache(), 144, [](const hkt_cache_options* options) {
        hkt_cache* cache = nullptr;
        const hkt_status status = hkt_cache_open(options, &cache);
        hkt_cache_close(cache);
        return status;
    });
}

TEST_CASE("the library writes all answers by the rule") {
    const hkt_cache_options options = empty_cache();
    hkt_cache* cache = nullptr;
    REQUIRE(hkt_cache_open(&options, &cache) == HKT_SUCCESS);
    // The first programs did not know hkt_cache_stats.damage.
    answers_by_the_rule<hkt_cache_stats>(
        offsetof(hkt_cache_stats, damage),
        [&](hkt_cache_stats* stats, std::size_t size) { return hkt_cache_get_stats(cache, stats, size); });
    answers_by_the_rule<hkt_cache_verification>(48, [&](hkt_cache_verification* found, std::size_t size) {
        return hkt_cache_verify(cache, nullptr, nullptr, found, size);
    });
    hkt_cache_close(cache);
}
