// Jobs that others' launchers start: each rank finds its number and their count in the launcher's variables.
#include <algorithm>
#include <string>
#include <vector>

#include "tests/multi/process.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/test.hpp"
#include "tests/support/unused_port.hpp"

using namespace std::chrono_literals;
using hocket::test::Finished;
using hocket::test::Process;
using hocket::test::TemporaryFolder;
using hocket::test::unused_port;
using Words = std::vector<std::string>;

namespace {

bool has(const std::string& program) {
    return hocket::test::run({"sh", "-c", "command -v " + program}, 20s).exit_code == 0;
}

// The variables that none of these launchers sets: rank 0's address, and the job's secret.
Process::Environment environment() {
    return {{"MASTER_ADDR", "127.0.0.1"},
            {"MASTER_PORT", std::to_string(unused_port())},
            {"HOCKET_SECRET", "of this job"},
            {"RANK", ""},
            {"WORLD_SIZE", ""}};
}

void check_three_ranks(const Finished& job) {
    INFO(job.out << job.err);
    CHECK(job.exit_code == 0);
    Words ranks = hocket::test::lines_with_prefix(job.out, "rank ");
    std::sort(ranks.begin(), ranks.end());
    CHECK(ranks == Words{"0 of 3, sum 3", "1 of 3, sum 3", "2 of 3, sum 3"});
}

}  // namespace

TEST_CASE("Open MPI's mpirun starts a job") {
    if (!has("mpirun.openmpi")) HOCKET_SKIP("no mpirun.openmpi here (Debian: openmpi-bin)");
    Words command{"mpirun.openmpi", "--oversubscribe", "-n", "3"};
    if (geteuid() == 0) command.insert(command.end(), "--allow-run-as-root");
    for (const char* variable : {"MASTER_ADDR", "MASTER_PORT", "HOCKET_SECRET"})
        command.insert(command.end(), {"-x", variable});
    command.insert(command.end(), HOCKET_LAUNCHED_RANK);
    check_three_ranks(hocket::test::run(command, 60s, environment()));
}

TEST_CASE("MPICH's mpiexec starts a job") {
    if (!has("mpiexec.hydra")) HOCKET_SKIP("no mpiexec.hydra here (Debian: mpich)");
    check_three_ranks(
        hocket::test::run({"mpiexec.hydra", "-n", "3", HOCKET_LAUNCHED_RANK}, 60s, environment()));
}

TEST_CASE("Slurm's srun starts a job") {
    for (const char* program : {"srun", "slurmctld", "slurmd", "munged"})
        if (!has(program)) HOCKET_SKIP(std::string("no ") + program + " here (Debian: slurm-wlm, munge)");
    if (geteuid() != 0) HOCKET_SKIP("only root can start Slurm's daemons");
    const TemporaryFolder folder;
    const Finished job = hocket::test::run(
        {HOCKET_SLURM_HERE, folder.path(), "srun", "-n", "3", "--overcommit", HOCKET_LAUNCHED_RANK}, 120s,
        environment());
    if (job.exit_code == 77) HOCKET_SKIP("Slurm's daemons do not run here: " + job.err);
    check_three_ranks(job);
}

TEST_CASE("a launcher's job without a port or a secret says what is missing") {
    if (!has("mpiexec.hydra")) HOCKET_SKIP("no mpiexec.hydra here (Debian: mpich)");
    for (const char* missing : {"MASTER_PORT", "HOCKET_SECRET"}) {
        Process::Environment incomplete = environment();
        incomplete[missing] = "";
        const Finished job =
            hocket::test::run({"mpiexec.hydra", "-n", "2", HOCKET_LAUNCHED_RANK}, 60s, incomplete);
        INFO(job.out << job.err);
        CHECK(job.exit_code != 0);
        CHECK_THAT(job.err, Catch::Contains(std::string(missing) + " is not set"));
    }
}
