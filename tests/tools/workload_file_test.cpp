// The JSON form of workloads.
#include <random>

#include "dsl/base/diagnostic.hpp"
#include "tests/dsl/errors.hpp"
#include "tests/support/long_form.hpp"
#include "tests/support/test.hpp"
#include "tools/schedc/simulate.hpp"

using namespace hocket;

namespace {

const std::string whole = R"({"hosts": 16, "network": "fattree(4)/4", "rack": 2, "seed": 3, "jobs": [
    {"name": "a", "workers": 8, "servers": 2, "placement": "order", "bytes": 1e9, "tree": "degree 3",
     "chunks": 4, "compute": 0.5, "iterations": 2, "start": 1, "priority": 1,
     "data": {"bytes": 1e12, "slowest": 1e8, "fastest": 2e8}},
    {"workers": 1, "model": {"profile": "p.json", "forward": "ibatch", "backward": "layers", "pulls": "backward",
     "gradients": 0.5, "startup": 0.1, "forward_share": 0.25, "all_reduce": "ring"}}]})";

std::string refusal(const std::string& text) {
    return test::error_of([&] { tools::parse_workload("w.json", text); });
}

}  // namespace

TEST_CASE("a workload is read with all its members") {
    const tools::ClusterWorkload read = tools::parse_workload("w.json", whole);
    CHECK((read.hosts == 16 && read.network == "fattree(4)/4"));
    CHECK((read.workload.rack == 2 && read.workload.seed == 3));
    REQUIRE(read.workload.jobs.size() == 2);
    const dsl::Job& job = read.workload.jobs[0];
    CHECK((job.name == "a" && job.workers == 8 && job.servers == 2 && job.bytes == 1e9));
    CHECK(job.placement == dsl::Job::Placement::order);
    CHECK((job.tree.kind == dsl::WorkerTree::Kind::degree && job.tree.degree == 3 && job.chunks == 4));
    CHECK((job.compute == 0.5 && job.iterations == 2 && job.start == 1 && job.priority == 1));
    CHECK((job.data == 1e12 && job.slowest == 1e8 && job.fastest == 2e8));
    const dsl::Job& other = read.workload.jobs[1];
    CHECK((other.name == "1" && other.servers == 1 && other.tree.kind == dsl::WorkerTree::Kind::direct));
    CHECK(other.placement == dsl::Job::Placement::random);
    REQUIRE(read.models.size() == 2);
    CHECK(read.models[0].profile.empty());
    const tools::TrainedModel& model = read.models[1];
    CHECK((model.profile == "p.json" && model.all_reduce == "ring" && model.early && model.gradients == 0.5));
    CHECK((model.forward == overlap::Method::ibatch && model.backward == overlap::Method::layers));
    CHECK((model.startup == 0.1 && model.forward_share == 0.25));
}

TEST_CASE("a wrong workload is refused with its place") {
    using Catch::Contains;
    CHECK_THAT(refusal("{"), Contains("w.json") && Contains("parse error at line 1"));
    CHECK_THAT(refusal("[]"), Contains("w.json is a list") && Contains("must be an object"));
    CHECK_THAT(refusal("{}"), Contains("w.json.hosts is missing"));
    CHECK_THAT(refusal(R"({"hosts": 2, "jobs": []})"), Contains("w.json.jobs is a list"));
    CHECK_THAT(refusal(R"({"hosts": 2.5})"), Contains("w.json.hosts is 2.5") && Contains("a whole number"));
    const auto in_job = [](const std::string& members) {
        return refusal(R"({"hosts": 2, "jobs": [{)" + members + "}]}");
    };
    CHECK_THAT(in_job(R"("workers": 1)"), Contains("jobs[0].bytes is missing"));
    CHECK_THAT(in_job(R"("bytes": 1)"), Contains("jobs[0].workers is missing"));
    CHECK_THAT(in_job(R"("workers": "x")"), Contains(R"(jobs[0].workers is "x")"));
    CHECK_THAT(in_job(R"("workers": 1, "bytes": 1, "tree": "oak")"), Contains(R"(jobs[0].tree is "oak")"));
    CHECK_THAT(in_job(R"("workers": 1, "bytes": 1, "cores": 4)"), Contains("has no member 'cores'"));
    CHECK_THAT(in_job(R"("workers": 1, "bytes": 1, "data": {})"), Contains("data.bytes is missing"));
    CHECK_THAT(in_job(R"("workers": 1, "model": {})"), Contains("jobs[0].model.profile is missing"));
    CHECK_THAT(in_job(R"("workers": 1, "model": {"profile": "p", "forward": "x"})"),
               Contains(R"(model.forward is "x")") && Contains("sequential, layers, algorithm1"));
    CHECK_THAT(in_job(R"("workers": 1, "model": {"profile": "p", "pulls": "never"})"),
               Contains(R"(model.pulls is "never")"));
}

TEST_CASE("any text is a workload, or is refused with a diagnostic") {
    std::mt19937 random(35);
    int right = 0;
    const int trials = test::in_long_form(20000, 7000);
    for (int trial = 0; trial < trials; ++trial) {
        std::string text = whole;
        for (int i = static_cast<int>(random() % 3); i >= 0; --i) {
            const std::size_t at = random() % text.size();
            const char letter = whole[random() % whole.size()];
            if (random() % 2)
                text[at] = letter;
            else
                text.erase(at, random() % 8);
        }
        try {
            tools::parse_workload("w.json", text);
            ++right;
        } catch (const dsl::DiagnosticError&) {
        }
    }
    CHECK((right > trials / 200 && right < trials * 3 / 4));
}
