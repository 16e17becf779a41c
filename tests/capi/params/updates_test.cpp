// Updates that keep states, through the service: over several chunks, compiled and interpreted, and after a
// server was replaced.
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "tests/capi/params/service.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/test.hpp"

using namespace hocket::test;

namespace {

// The first one is cut into chunks, where the update allows that.
constexpr hkt_params_tensor tensors[] = {{"a", 50000, HKT_FLOAT32}, {"b", 700, HKT_FLOAT32}};
constexpr std::size_t tensor_count = 2;
constexpr int workers = 2, rounds = 16;

using Model = std::vector<std::vector<double>>;

double first_weight(std::size_t i) {
    return 1 + static_cast<double>(i % 7) / 8;
}

double gradient(int worker, int round, std::size_t i) {
    return static_cast<double>(i % 13) / 16 - 0.25 * worker + 0.125 * round;
}

// One tensor, in double: state by state, element by element.
struct Reference {
    std::vector<double> w, m, v;

    explicit Reference(std::size_t count) : w(count), m(count), v(count) {
        for (std::size_t i = 0; i < count; ++i) w[i] = first_weight(i);
    }
    static double mean(int round, std::size_t i) {
        double sum = 0;
        for (int worker = 0; worker < workers; ++worker) sum += gradient(worker, round, i);
        return sum / workers;
    }
    void momentum(int round) {
        for (std::size_t i = 0; i < w.size(); ++i) {
            m[i] = 0.9 * m[i] + mean(round, i);
            w[i] -= 0.1 * m[i];
        }
    }
    void adam(int round) {
        for (std::size_t i = 0; i < w.size(); ++i) {
            const double g = mean(round, i);
            m[i] = 0.9 * m[i] + 0.1 * g;
            v[i] = 0.999 * v[i] + 0.001 * g * g;
            w[i] -= 0.1 * (m[i] / (1 - std::pow(0.9, round + 1))) /
                    (std::sqrt(v[i] / (1 - std::pow(0.999, round + 1))) + 1e-8);
        }
    }
    void lars(int round) {
        double gg = 0, ww = 0;
        for (std::size_t i = 0; i < w.size(); ++i) {
            gg += mean(round, i) * mean(round, i);
            ww += w[i] * w[i];
        }
        const double rate = 0.1 * 0.001 * std::sqrt(ww) / (std::sqrt(gg) + 0.0001 * std::sqrt(ww));
        for (std::size_t i = 0; i < w.size(); ++i) {
            v[i] = 0.9 * v[i] + rate * (mean(round, i) + 0.0001 * w[i]);
            w[i] -= v[i];
        }
    }
};

struct Rule {
    const char* update;
    void (Reference::*step)(int round);
};
constexpr Rule rules[] = {{"momentum(0.1)", &Reference::momentum},
                          {"adam(0.1)", &Reference::adam},
                          {"lars(0.1)", &Reference::lars},
                          {"state m like w m = 0.9 * m + g / workers w = w - 0.1 * m", &Reference::momentum}};

Model expected(const Rule& rule) {
    Model model;
    for (const hkt_params_tensor& tensor : tensors) {
        Reference reference(tensor.count);
        for (int round = 0; round < rounds; ++round) (reference.*rule.step)(round);
        model.push_back(reference.w);
    }
    return model;
}

std::vector<std::vector<float>> floats(const std::function<double(std::size_t)>& value) {
    std::vector<std::vector<float>> all;
    for (const hkt_params_tensor& tensor : tensors) {
        std::vector<float>& one = all.emplace_back(tensor.count);
        for (std::size_t i = 0; i < one.size(); ++i) one[i] = static_cast<float>(value(i));
    }
    return all;
}

template <typename Pointer>
std::vector<Pointer> pointers(std::vector<std::vector<float>>& values) {
    std::vector<Pointer> all;
    for (auto& tensor : values) all.push_back(tensor.data());
    return all;
}

// half_time: called in the middle.
void train(const char* address, int number, const Rule& rule,
           const std::function<void(hkt_params*)>& half_time = {}) {
    hkt_params_options options = worker_options(address);
    options.workers = workers;
    options.number = number;
    options.update = rule.update;
    auto values = floats(first_weight);
    hkt_params* opened = nullptr;
    must(hkt_params_open(tensors, tensor_count, pointers<const void*>(values).data(), &options, &opened));
    const Params params(opened);
    for (int round = 0; round < rounds; ++round) {
        if (half_time && round == 3) half_time(opened);
        values = floats([&](std::size_t i) { return gradient(number, round, i); });
        must(hkt_params_push(opened, 0, tensor_count, pointers<const void*>(values).data(), nullptr));
        must(hkt_params_clock(opened, nullptr));
        must(hkt_params_pull(opened, 0, tensor_count, pointers<void*>(values).data(), 0, nullptr));
    }
    const Model right = expected(rule);
    for (std::size_t t = 0; t < tensor_count; ++t)
        for (std::size_t i = 0; i < right[t].size(); ++i)
            expect(std::abs(values[t][i] - right[t][i]) < 1e-5 * std::abs(right[t][i]) + 1e-6, [&] {
                return "element " + std::to_string(i) + " of tensor " + std::to_string(t) + " is " +
                       std::to_string(values[t][i]) + ", not " + std::to_string(right[t][i]);
            });
}

}  // namespace

TEST_CASE("updates with states are right in all chunks, compiled and interpreted") {
    for (const char* const executor : {"jit", "interpreter"})
        for (const Rule& rule : rules) {
            setenv("HOCKET_EXECUTOR", executor, 1);
            const auto outcomes =
                with_service(workers, [&](int number, const char* address) { train(address, number, rule); });
            unsetenv("HOCKET_EXECUTOR");
            INFO(executor << ": " << rule.update);
            CHECK(problems(outcomes) == "");
        }
}

TEST_CASE("states are in checkpoints: a server that takes another's place goes on with them") {
    for (const Rule& rule : rules) {
        const TemporaryFolder folder;
        const Meeting meeting;
        const Tally are_half, is_replaced;
        const auto outcomes = run_ranks({workers + 1}, [&](int rank) {
            if (rank > 0)
                return train(meeting.address(), rank - 1, rule, [&](hkt_params* params) {
                    must(hkt_params_checkpoint(params, nullptr));
                    are_half.add();
                    is_replaced.await(1);
                });
            const std::string checkpoints = folder.path();
            hkt_params_server_options options = HKT_PARAMS_SERVER_OPTIONS_INIT;
            options.listen = "127.0.0.1:0";
            options.secret = "a secret";
            options.checkpoints = checkpoints.c_str();
            options.checkpoint_every = 1;
            hkt_params_server* server = nullptr;
            must(hkt_params_server_start(&options, &server));
            meeting.announce(server);
            are_half.await(workers);
            const std::string address = hkt_params_server_address(server);
            hkt_params_server_stop(server);
            options.listen = address.c_str();
            options.restore = 1;
            // Workers keep the rounds of the job's interval, so that this one keeps to it, too.
            options.checkpoint_every = 30;
            // Another process may have had the port meanwhile.
            const bool is_back =
                eventually([&] { return hkt_params_server_start(&options, &server) == HKT_SUCCESS; });
            expect(is_back, hkt_last_error());
            const Server second(server);
            is_replaced.add();
            must(hkt_params_server_wait(server, 50'000));
        });
        INFO(rule.update);
        CHECK(problems(outcomes) == "");
    }
}
