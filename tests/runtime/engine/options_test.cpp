#include "runtime/engine/job/options.hpp"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <limits>
#include <map>
#include <string>

#include "runtime/base/environment.hpp"
#include "runtime/base/error.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using engine::Choices;
using engine::ExecutorKind;
using engine::Options;

namespace {

using Variables = std::map<std::string, std::string>;

Options resolved(const Variables& variables, const Choices& choices = {}) {
    return engine::resolve(choices, [&](const char* name) -> const char* {
        const auto found = variables.find(name);
        return found == variables.end() ? nullptr : found->second.c_str();
    });
}

Variables with(Variables base, const Variables& more) {
    for (const auto& [name, value] : more) base[name] = value;
    return base;
}

const Variables job = {{"RANK", "2"}, {"WORLD_SIZE", "4"}, {"MASTER_PORT", "29500"}, {"HOCKET_SECRET", "s"}};

}  // namespace

TEST_CASE("nothing set is a world of one") {
    const Options options = resolved({});
    CHECK(options.rank == 0);
    CHECK(options.world_size == 1);
    CHECK(options.timeout == std::chrono::seconds(60));
    CHECK(options.schedule_path == std::vector<std::string>{engine::library_folder().value()});
}

TEST_CASE("a variable that is nearly one of Hocket's is named, and a program's own is not") {
    const auto named_if = [](const std::string& name) -> std::string {
        const std::size_t before = misspelt_variables().size();
        setenv(name.c_str(), "1", 1);
        const auto found = misspelt_variables();
        unsetenv(name.c_str());
        if (found.size() == before) return "";
        const auto of_it = std::ranges::find_if(found, [&](const std::string& text) {
            return text.starts_with(name + " is not known (did you mean '");
        });
        REQUIRE(of_it != found.end());
        return of_it->substr(name.size() + 29, of_it->size() - name.size() - 32);
    };
    CHECK(named_if("HOCKET_SCHEDUL") == "HOCKET_SCHEDULE");
    CHECK(named_if("HOCKET_TOPOLGY") == "HOCKET_TOPOLOGY");
    CHECK(named_if("HOCKET_TIMEOUT_SM") == "HOCKET_TIMEOUT_MS");
    CHECK(named_if("HOCKET_TIMEOUT") == "HOCKET_TIMEOUT_MS");
    CHECK(named_if("HOCKET_HEARTBEAT") == "HOCKET_HEARTBEAT_TIMEOUT_MS");
    CHECK(named_if("HOCKET_SINGLE") == "HOCKET_SINGLE_COPY");
    for (const char* name : {"HOCKET_RAILS", "HOCKET_JOB", "HOCKET_HOME", "HOCKET_URL", "HOCKET_CACHE",
                             "HOCKET_CACHE_SIZE", "HOCKET_TEST_LONG", "HOCKET_TEST_CUDA_DRIVER",
                             "HOCKET_PARAMS_LONG", "HOCKET_SOCKET", "HOCKETSCHEDUL", "HOCKET_", "SCHEDUL"}) {
        const bool is_set = getenv(name) != nullptr;  // a name that the tests of this project use
        INFO(name);
        if (!is_set) CHECK(named_if(name).empty());
    }
}

TEST_CASE("every variable reaches its field") {
    const Options options = resolved(with(job, {{"MASTER_ADDR", "10.0.0.1"},
                                                {"HOCKET_PROVIDER", "verbs"},
                                                {"HOCKET_TOPOLOGY", "2x2"},
                                                {"HOCKET_SCHEDULE", "ring"},
                                                {"HOCKET_SCHEDULE_PATH", "a::b/c:"},
                                                {"HOCKET_EXECUTOR", "interpreter"},
                                                {"HOCKET_TIMEOUT_MS", "1234"},
                                                {"HOCKET_LOG", "Info"},
                                                {"HOCKET_FLIGHT_RECORDER", "/tmp/f"},
                                                {"HOCKET_FLIGHT_SIGNAL", "SIGUSR2"},
                                                {"HOCKET_TRACE", "/tmp/t"},
                                                {"HOCKET_HEARTBEAT_TIMEOUT_MS", "700"},
                                                {"HOCKET_SHARE_BUFFERS", "on"},
                                                {"HOCKET_LISTEN_FD", "9"}}));
    CHECK(options.shares_buffers);
    CHECK(options.rank == 2);
    CHECK(options.world_size == 4);
    CHECK(options.master_addr == "10.0.0.1");
    CHECK(options.master_port == 29500);
    CHECK(options.listen_fd == -1);  // only rank 0 has one
    CHECK(options.secret == "s");
    CHECK(options.provider == "verbs");
    CHECK_FALSE(options.provider_carries_all);
    CHECK(options.topology == "2x2");
    CHECK(options.schedule == "ring");
    CHECK(options.schedule_path == std::vector<std::string>{"a", "b/c", engine::library_folder().value()});
    CHECK(options.executor == ExecutorKind::interpreter);
    CHECK(options.timeout.count() == 1234);
    CHECK(options.log == engine::LogLevel::info);
    CHECK(options.recording.folder == "/tmp/f");
    CHECK(options.recording.signal == SIGUSR2);
    CHECK(options.trace == "/tmp/t");
    CHECK(options.job_rank == 2);
    CHECK(options.heartbeat_timeout.count() == 700);
    CHECK(resolved(with(job, {{"RANK", "0"}, {"HOCKET_LISTEN_FD", "9"}})).listen_fd == 9);
}

TEST_CASE("a provider for all messages goes before any other") {
    engine::Choices named;
    named.provider = "verbs";
    for (const engine::Choices& choices : {engine::Choices{}, named}) {
        const Options options =
            resolved(with(job, {{"HOCKET_PROVIDER", "efa"}, {"HOCKET_PROVIDER_FOR_ALL", "tcp"}}), choices);
        CHECK(options.provider == "tcp");
        CHECK(options.provider_carries_all);
    }
    const Options options =
        resolved(with(job, {{"HOCKET_PROVIDER", "efa"}, {"HOCKET_PROVIDER_FOR_ALL", ""}}), named);
    CHECK(options.provider == "verbs");
    CHECK_FALSE(options.provider_carries_all);
}

TEST_CASE("other launchers' variables are understood, in pairs") {
    const Variables rest = {{"MASTER_PORT", "1"}, {"HOCKET_SECRET", "s"}};
    CHECK(resolved(with(rest, {{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "3"}})).world_size ==
          3);
    CHECK(resolved(with(rest, {{"PMI_RANK", "1"}, {"PMI_SIZE", "5"}})).rank == 1);
    CHECK(resolved(with(rest, {{"SLURM_PROCID", "6"}, {"SLURM_NTASKS", "7"}})).rank == 6);
    CHECK(resolved(with(job, {{"SLURM_PROCID", "6"}, {"SLURM_NTASKS", "7"}})).rank == 2);
}

TEST_CASE("a step of Slurm's allocation has its own number of ranks") {
    const Variables step = {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_STEP_NUM_TASKS", "1"}};
    CHECK(resolved(step).world_size == 1);
}

TEST_CASE("a process that a launcher's variables call one of many learns how to be alone") {
    using Catch::Contains;
    const auto is_said = Contains("one process alone, set RANK=0 and WORLD_SIZE=1");
    const Variables in_shell = {{"SLURM_NTASKS", "4"}}, in_script = with(in_shell, {{"SLURM_PROCID", "0"}});
    CHECK_THROWS_WITH(resolved(in_shell), Contains("SLURM_PROCID is not set") && is_said);
    CHECK_THROWS_WITH(resolved(in_script), Contains("MASTER_PORT is not set") &&
                                               Contains("SLURM_NTASKS says that there are 4") && is_said);
    CHECK_THROWS_WITH(resolved({{"SLURM_PROCID", "0"}}), Contains("SLURM_NTASKS is not set") && is_said);
    CHECK_THROWS_WITH(resolved({{"OMPI_COMM_WORLD_RANK", "0"}}), is_said);
    CHECK(resolved(with(in_script, {{"RANK", "0"}, {"WORLD_SIZE", "1"}})).world_size == 1);
    CHECK_THROWS_WITH(resolved(with(job, {{"MASTER_PORT", ""}})), !Contains("alone"));
}

TEST_CASE("an address of rank 0 may stand in brackets, and has nothing beside it") {
    using Catch::Contains;
    const auto address = [](const char* text) {
        return resolved(with(job, {{"MASTER_ADDR", text}})).master_addr;
    };
    CHECK(address("[::1]") == "::1");
    CHECK(address("[fe80::1%eth0]") == "fe80::1%eth0");
    for (const char* as_it_is : {"::1", "fe80::1%eth0", "10.0.0.1", "node-7.cluster", "::ffff:10.0.0.1"})
        CHECK(address(as_it_is) == as_it_is);
    for (const char* text : {"tcp://10.0.0.1", "10.0.0.1:29500", "node:29500", "[::1]:29500", "[::1", "::1]",
                             "[]", "[node]", " node", "10.0.0.1/24"}) {
        CAPTURE(text);
        CHECK_THROWS_WITH(address(text), Contains(std::string("MASTER_ADDR is \"") + text + "\"") &&
                                             Contains("MASTER_PORT"));
    }
}

TEST_CASE("the embedder's choice comes before the environment") {
    Choices choices;
    choices.rank = 1;
    choices.world_size = 2;
    choices.schedule = "direct";
    choices.timeout = std::chrono::milliseconds(5);
    choices.executor = ExecutorKind::jit;
    const Options options = resolved(
        with(job,
             {{"HOCKET_SCHEDULE", "ring"}, {"HOCKET_TIMEOUT_MS", "9"}, {"HOCKET_EXECUTOR", "interpreter"}}),
        choices);
    CHECK(options.rank == 1);
    CHECK(options.job_rank == 2);  // the launcher's number of the process
    CHECK(options.world_size == 2);
    CHECK(options.schedule == "direct");
    CHECK(options.timeout.count() == 5);
    CHECK(options.executor == ExecutorKind::jit);
}

TEST_CASE("times longer than a day count as a day") {
    constexpr std::int64_t day = 24 * 3600 * 1000;
    Choices choices;
    for (const auto ms :
         {day + 1, std::int64_t{180000000} * 1000, std::numeric_limits<std::int64_t>::max()}) {
        INFO(ms);
        choices.timeout = std::chrono::milliseconds(ms);
        CHECK(resolved(job, choices).timeout.count() == day);
        const Options options = resolved(with(job, {{"HOCKET_TIMEOUT_MS", std::to_string(ms)},
                                                    {"HOCKET_HEARTBEAT_TIMEOUT_MS", std::to_string(ms)}}));
        CHECK(options.timeout.count() == day);
        CHECK(options.join_timeout.count() == day);
        CHECK(options.heartbeat_timeout.count() == day);
    }
    CHECK(resolved(with(job, {{"HOCKET_TIMEOUT_MS", "99999999999999999999"}})).timeout.count() == day);
    for (const char* wrong : {"-99999999999999999999", "99999999999999999999s", "0", "nan"})
        CHECK_THROWS_WITH(resolved(with(job, {{"HOCKET_TIMEOUT_MS", wrong}})),
                          Catch::Contains("HOCKET_TIMEOUT_MS is"));
    CHECK_THROWS_WITH(resolved(with(job, {{"HOCKET_HEARTBEAT_TIMEOUT_MS", "99"}})),
                      Catch::Contains("100 milliseconds or more"));
    choices.timeout = std::chrono::milliseconds(-1);
    CHECK_THROWS_WITH(resolved(job, choices), Catch::Contains("timeout_ms is -1"));
}

TEST_CASE("what cannot be is refused by its name") {
    using Catch::Contains;
    CHECK_THROWS_WITH(resolved(with(job, {{"RANK", "4"}})), Contains("RANK is 4") && Contains("0 to 3"));
    CHECK_THROWS_WITH(resolved(with(job, {{"RANK", "two"}})), Contains("RANK is \"two\""));
    CHECK_THROWS_WITH(resolved(with(job, {{"WORLD_SIZE", "0"}})), Contains("WORLD_SIZE is 0"));
    CHECK_THROWS_WITH(resolved({{"RANK", "0"}}), Contains("WORLD_SIZE is not set"));
    CHECK_THROWS_WITH(resolved({{"WORLD_SIZE", "2"}}), Contains("RANK is not set"));
    CHECK_THROWS_WITH(resolved(with(job, {{"MASTER_PORT", "70000"}})), Contains("MASTER_PORT is 70000"));
    CHECK_THROWS_WITH(resolved(with(job, {{"MASTER_PORT", ""}})), Contains("MASTER_PORT is not set"));
    CHECK_THROWS_WITH(resolved(with(job, {{"HOCKET_SECRET", ""}})), Contains("HOCKET_SECRET is not set"));
    CHECK_THROWS_WITH(resolved({{"HOCKET_TIMEOUT_MS", "1s"}}), Contains("HOCKET_TIMEOUT_MS is \"1s\""));
    CHECK_THROWS_WITH(resolved({{"HOCKET_TIMEOUT_MS", "-1"}}), Contains("HOCKET_TIMEOUT_MS is -1"));
    CHECK_THROWS_WITH(resolved({{"HOCKET_EXECUTOR", "gpu"}}), Contains("HOCKET_EXECUTOR is \"gpu\""));
    CHECK_THROWS_WITH(resolved({{"HOCKET_ENCRYPTION", "yes"}}),
                      Contains("HOCKET_ENCRYPTION is \"yes\"; it must be on or off"));
    CHECK_THROWS_WITH(resolved({{"HOCKET_HAND_OVER", "disk"}}),
                      Contains("HOCKET_HAND_OVER is \"disk\"; it must be cache or memory"));
    CHECK(resolved({{"HOCKET_HAND_OVER", "memory"}}).hand_over == kernels::Path::memory);
    CHECK_FALSE(resolved({}).hand_over);
    CHECK_THROWS_WITH(resolved({{"HOCKET_SINGLE_COPY", "once"}}), Contains("HOCKET_SINGLE_COPY is \"once\""));
    CHECK(resolved({{"HOCKET_SINGLE_COPY", "on"}}).single_copy == engine::SingleCopy::always);
    CHECK(resolved({{"HOCKET_SINGLE_COPY", "off"}}).single_copy == engine::SingleCopy::off);
    CHECK(resolved({}).single_copy == engine::SingleCopy::measured);
    CHECK_THROWS_WITH(resolved({{"HOCKET_LOG", "trace"}}), Contains("HOCKET_LOG is \"trace\""));
    CHECK_THROWS_WITH(resolved({{"HOCKET_FLIGHT_SIGNAL", "USR1"}}),
                      Contains("HOCKET_FLIGHT_RECORDER is not"));
    CHECK_THROWS_WITH(resolved({{"HOCKET_FLIGHT_SIGNAL", "9"}, {"HOCKET_FLIGHT_RECORDER", "/tmp"}}),
                      Contains("USR1, USR2, HUP or QUIT"));
    CHECK_THROWS_AS(resolved({{"WORLD_SIZE", "x"}}), Error);
}
