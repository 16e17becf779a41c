// Models training: iterations that compute for a fixed time on a batch that was read from slow storage.
//     training FOLDER SAMPLES BYTES ROUNDS DELAY_US COMPUTE_US
// Prints the mean time of an iteration, for each way to read and each round. "arrays" is the loop without
// I/O.
#include <array>
#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>

#include "source.hpp"

namespace {

using namespace cache_peers;

constexpr std::size_t batch = 32;

struct Sample {
    std::uint64_t key;
    const void* data;
    std::size_t bytes;
};
using Batch = std::array<Sample, batch>;

// Provides the batches of an epoch one after another; a batch is valid until the next one is asked for.
class Reader {
  public:
    virtual ~Reader() = default;
    virtual void begin(const Keys& keys) = 0;  // a multiple of the batch; keys must stay
    virtual const Batch& next() = 0;
    virtual void end() {}
};

using Bytes = std::vector<char>;

class Arrays final : public Reader {
  public:
    explicit Arrays(const Source& source) {
        for (std::uint64_t key = 0; key < source.count(); ++key) {
            samples_.emplace_back(source.bytes(key));
            source.read_file(key, samples_.back().data());
        }
    }
    void begin(const Keys& keys) override { at_ = keys.data(); }
    const Batch& next() override {
        for (Sample& sample : batch_) {
            sample = {*at_, samples_[*at_].data(), samples_[*at_].size()};
            ++at_;
        }
        return batch_;
    }

  private:
    std::vector<Bytes> samples_;
    const std::uint64_t* at_ = nullptr;
    Batch batch_;
};

// Reads a batch before each iteration.
class Files final : public Reader {
  public:
    explicit Files(const Source& source) : source_(source), buffers_(batch, Bytes(source.most_bytes())) {}
    void begin(const Keys& keys) override { at_ = keys.data(); }
    const Batch& next() override {
        for (std::size_t i = 0; i < batch; ++i) {
            const std::uint64_t key = *at_++;
            source_.read_file(key, buffers_[i].data());
            batch_[i] = {key, buffers_[i].data(), source_.bytes(key)};
        }
        return batch_;
    }

  private:
    const Source& source_;
    std::vector<Bytes> buffers_;
    const std::uint64_t* at_ = nullptr;
    Batch batch_;
};

// Reads the next batch on other threads while this one is used.
class Pool final : public Reader {
  public:
    Pool(const Source& source, unsigned threads)
        : source_(source), buffers_(2 * batch, Bytes(source.most_bytes())) {
        for (unsigned i = 0; i < threads; ++i)
            threads_.emplace_back([this](std::stop_token stop) { work(stop); });
    }

    void begin(const Keys& keys) override {
        const std::lock_guard lock(mutex_);
        keys_ = &keys;
        started_ = given_ = 0;
        done_.assign(keys.size() / batch, 0);
        allow(1);
    }
    const Batch& next() override {
        std::unique_lock lock(mutex_);
        allow(given_ + 2);
        changed_.wait(lock, [this] { return done_[given_] == batch; });
        return batches_[given_++ % 2];
    }

  private:
    void allow(std::size_t batches) {
        allowed_ = std::min(keys_->size(), batches * batch);
        changed_.notify_all();
    }

    void work(const std::stop_token& stop) {
        std::unique_lock lock(mutex_);
        while (changed_.wait(lock, stop, [this] { return started_ < allowed_; })) {
            const std::size_t i = started_++, slot = i % (2 * batch);
            const std::uint64_t key = (*keys_)[i];
            lock.unlock();
            source_.read_file(key, buffers_[slot].data());
            lock.lock();
            batches_[slot / batch][slot % batch] = {key, buffers_[slot].data(), source_.bytes(key)};
            if (++done_[i / batch] == batch) changed_.notify_all();
        }
    }

    const Source& source_;
    std::vector<Bytes> buffers_;
    std::mutex mutex_;
    std::condition_variable_any changed_;
    const Keys* keys_ = nullptr;
    std::size_t started_ = 0, allowed_ = 0, given_ = 0;
    std::vector<std::size_t> done_;  // by batch, the number of samples
    Batch batches_[2];
    std::vector<std::jthread> threads_;
};

// Uses Hocket's cache: it knows the order, and the next batch is requested while this one is used.
class Cached final : public Reader {
  public:
    explicit Cached(const Source& source) : cache_(cache_of(source, "", memory_for_all(source))) {}

    void begin(const Keys& keys) override {
        keys_ = &keys;
        given_ = asked_ = 0;
        cache_.set_order(keys);
        ask();
    }
    const Batch& next() override {
        check(hkt_wait(request_), "hkt_wait");
        request_ = nullptr;
        if (given_ > 0) release(given_ - 1);
        ask();
        const auto& samples = samples_[given_++ % 2];
        for (std::size_t i = 0; i < batch; ++i)
            batch_[i] = {samples[i].key, samples[i].data, samples[i].bytes};
        return batch_;
    }
    void end() override { release(given_ - 1); }

  private:
    void ask() {
        if (asked_ * batch == keys_->size()) return;
        request_ = cache_.start_batch(keys_->data() + asked_ * batch, batch, samples_[asked_ % 2].data());
        ++asked_;
    }
    void release(std::size_t which) { cache_.release(samples_[which % 2], batch); }

    Cache cache_;
    const Keys* keys_ = nullptr;
    std::size_t given_ = 0, asked_ = 0;
    hkt_request* request_ = nullptr;
    std::vector<hkt_sample> samples_[2] = {std::vector<hkt_sample>(batch), std::vector<hkt_sample>(batch)};
    Batch batch_;
};

// Does a fixed amount of arithmetic.
void compute(std::uint64_t steps) {
    double x = 0.5;
    for (std::uint64_t i = 0; i < steps; ++i) x = 3.7 * x * (1 - x);
    [[maybe_unused]] volatile double result = x;
}

std::uint64_t steps_for(double seconds) {
    constexpr std::uint64_t some = 1'000'000;
    double least = 1;
    for (int i = 0; i < 20; ++i) {
        const double start = now();
        compute(some);
        least = std::min(least, now() - start);
    }
    return static_cast<std::uint64_t>(seconds / least * some);
}

class Training {
  public:
    Training(const Source& source, std::uint64_t steps) : source_(source), steps_(steps), arrays_(source) {}

    void round(int round) {
        Keys keys[3];
        for (int i = 0; i < 3; ++i) keys[i] = permutation(source_.count(), 10 * round + i);
        Files files(source_);
        run("arrays", arrays_, keys[0]);
        run("plain files, read before each", files, keys[0]);
        for (const unsigned threads : {1u, 8u}) {
            Pool pool(source_, threads);
            run("plain files, " + std::to_string(threads) + (threads == 1 ? " thread" : " threads") +
                    " one ahead",
                pool, keys[0]);
        }
        have_memory_backed(memory_for_all(source_));
        Cached cached(source_);
        run("Hocket, epoch 1", cached, keys[0]);
        run("Hocket, epoch 2", cached, keys[1]);
        run("Hocket, epoch 3", cached, keys[2]);
    }

  private:
    void run(const std::string& row, Reader& reader, const Keys& keys) {
        const std::size_t iterations = keys.size() / batch;
        std::uint64_t sum = 0;
        const double start = now();
        reader.begin(keys);
        for (std::size_t i = 0; i < iterations; ++i) {
            for (const Sample& sample : reader.next()) sum += checksum(sample.key, sample.data, sample.bytes);
            compute(steps_);
        }
        reader.end();
        const double milliseconds = (now() - start) * 1e3 / static_cast<double>(iterations);
        if (sum != expected(keys)) throw std::runtime_error(row + ": the samples' checksum is wrong");
        char line[200];
        std::snprintf(line, sizeof line, R"({"row": "%s", "milliseconds": %.4f})", row.c_str(), milliseconds);
        print_line(line);
    }

    std::uint64_t expected(const Keys& keys) {
        std::uint64_t sum = 0;
        arrays_.begin(keys);
        for (std::size_t i = 0; i < keys.size(); i += batch)
            for (const Sample& sample : arrays_.next())
                sum += checksum(sample.key, sample.data, sample.bytes);
        return sum;
    }

    const Source& source_;
    const std::uint64_t steps_;
    Arrays arrays_;
};

}  // namespace

int main(int argc, char** argv) {
    return guarded("training", [&] {
        if (argc != 7) throw std::runtime_error("training FOLDER SAMPLES BYTES ROUNDS DELAY_US COMPUTE_US");
        const Source source(std::string(argv[1]) + "/source", std::strtoull(argv[2], nullptr, 10),
                            static_cast<std::uint32_t>(std::atoi(argv[3])), true,
                            std::chrono::microseconds(std::atoi(argv[5])));
        if (source.count() % batch != 0) throw std::runtime_error("SAMPLES must be a multiple of the batch");
        Training training(source, steps_for(1e-6 * std::atoi(argv[6])));
        for (int round = 0; round < std::atoi(argv[4]); ++round) training.round(round);
    });
}
