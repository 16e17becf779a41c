#include "tests/runtime/params/training.hpp"

namespace hocket::test {

Team::Team(const Server& first, const Job& job, const std::function<void(WorkerOptions&)>& change)
    : workers_(job.workers) {
    std::vector<std::thread> threads;
    std::vector<std::string> errors(job.workers);
    for (Worker number = 0; number < job.workers; ++number)
        threads.emplace_back([&, number] {
            try {
                WorkerOptions options = worker_options(first.endpoint(), job);
                options.number = number;
                if (change) change(options);
                workers_[number] = std::make_unique<Client>(std::move(options));
            } catch (const std::exception& error) {
                errors[number] = error.what();
            }
        });
    for (std::thread& thread : threads) thread.join();
    for (const std::string& error : errors) REQUIRE(error == "");
}

std::vector<Buffers> Team::round() {
    std::vector<Buffers> buffers(workers_.size());
    for (std::size_t w = 0; w < workers_.size(); ++w) {
        buffers[w].fill(static_cast<std::int64_t>(w) + 1 + rounds_);
        push(*workers_[w], buffers[w]);
        workers_[w]->tick();
        expected_ += static_cast<std::int64_t>(w) + 1 + rounds_;
        ++slope_;
    }
    ++rounds_;
    for (std::size_t w = 0; w < workers_.size(); ++w) pull(*workers_[w], buffers[w], 0);
    return buffers;
}

void Team::train() {
    for (const Buffers& buffers : round()) {
        const auto are_right = [&](const auto& values) {
            std::int64_t i = 0;
            return std::all_of(values.begin(), values.end(),
                               [&](const auto& value) { return value == expected_ + i++ * slope_; });
        };
        REQUIRE((are_right(buffers.a) && are_right(buffers.b) && are_right(buffers.c)));
    }
}

void Team::agree() {
    const std::vector<Buffers> all = round();
    for (const Buffers& buffers : all)
        REQUIRE((buffers.a == all[0].a && buffers.b == all[0].b && buffers.c == all[0].c));
}

}  // namespace hocket::test
