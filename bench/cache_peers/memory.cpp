// Measures getting and releasing a resident sample of 1 KiB, beside a user's own alternatives.
//     memory ROUNDS OPERATIONS COUNT,...
// For each COUNT of samples, each way and each number of threads, prints how many nanoseconds of one core an
// operation takes.
#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <sstream>
#include <unordered_map>

#include "common.hpp"

namespace {

using namespace cache_peers;

constexpr std::size_t sample_bytes = 1024, batch = 256;

using Bytes = std::array<unsigned char, sample_bytes>;

hkt_status read_sample(void*, std::uint64_t key, hkt_cache_value* sample) {
    void* room = hkt_cache_value_reserve(sample, sample_bytes);
    if (room == nullptr) return HKT_ERROR_LIMIT;
    std::memset(room, static_cast<int>(key), sample_bytes);
    return HKT_SUCCESS;
}

hkt_cache_options options_for(std::uint32_t count) {
    hkt_cache_options options = HKT_CACHE_OPTIONS_INIT;
    options.memory_bytes = count * sample_bytes * 5 / 4 + (64 << 20);
    options.read = read_sample;
    options.dataset = "compare-cache";
    return options;
}

// Accesses the same samples in each way. Only memcpy touches their bytes: the other ways lend the samples.
class Ways {
  public:
    explicit Ways(std::uint32_t count) : count_(count), cache_(options_for(count)), array_(count) {
        std::vector<hkt_sample> samples(batch);
        Keys keys(batch);
        for (std::uint32_t first = 0; first < count; first += batch) {
            const std::size_t part = std::min<std::size_t>(batch, count - first);
            std::iota(keys.begin(), keys.end(), first);
            cache_.get_batch(keys.data(), part, samples.data());
            for (std::size_t k = 0; k < part; ++k)
                if (*static_cast<const unsigned char*>(samples[k].data) != (keys[k] & 0xff)) wrong();
            cache_.release(samples, part);
        }
        if (cache_.stats().memory_samples != count) throw std::runtime_error("not every sample is in memory");
        map_.reserve(count);
        for (std::uint32_t key = 0; key < count; ++key) {
            array_[key].fill(static_cast<unsigned char>(key));
            map_.emplace(key, std::make_shared<Bytes>(array_[key]));
        }
    }

    void get(Random& random, std::uint64_t operations) {
        for (std::uint64_t i = 0; i < operations; ++i) {
            const std::uint64_t key = random.below(count_);
            hkt_sample sample;
            check(hkt_cache_get(cache_, key, &sample), "hkt_cache_get");
            if (sample.key != key) wrong();
            hkt_cache_release(cache_, &sample, 1);
        }
    }

    void get_batches(Random& random, std::uint64_t operations) {
        std::array<std::uint64_t, batch> keys;
        std::array<hkt_sample, batch> samples;
        for (std::uint64_t i = 0; i < operations; i += batch) {
            for (std::uint64_t& key : keys) key = random.below(count_);
            cache_.get_batch(keys.data(), batch, samples.data());
            for (std::size_t k = 0; k < batch; ++k)
                if (samples[k].key != keys[k]) wrong();
            hkt_cache_release(cache_, samples.data(), batch);
        }
    }

    void look_up(Random& random, std::uint64_t operations) {
        for (std::uint64_t i = 0; i < operations; ++i) {
            const std::uint64_t key = random.below(count_);
            std::shared_ptr<const Bytes> sample;
            {
                const std::lock_guard lock(mutex_);
                sample = map_.at(key);
            }
            if (sample == nullptr) wrong();
        }
    }

    void copy(Random& random, std::uint64_t operations) const {
        Bytes sample;
        for (std::uint64_t i = 0; i < operations; ++i) {
            const std::uint64_t key = random.below(count_);
            std::memcpy(sample.data(), array_[key].data(), sample_bytes);
            asm volatile("" : : "r"(sample.data()) : "memory");
            if (sample[0] != static_cast<unsigned char>(key)) wrong();
        }
    }

  private:
    [[noreturn]] static void wrong() { throw std::runtime_error("a sample is another one's"); }

    const std::uint32_t count_;
    Cache cache_;
    std::vector<Bytes> array_;
    std::mutex mutex_;
    std::unordered_map<std::uint64_t, std::shared_ptr<const Bytes>> map_;
};

// core: by the clock, which also runs while other programs have the cores. processor: processor time.
struct Nanoseconds {
    double core, processor;
};

Nanoseconds measure_way(unsigned threads, std::uint64_t operations,
                        const std::function<void(Random&, std::uint64_t)>& way) {
    const std::uint64_t each = operations / threads / batch * batch;
    const double start = now(), processor_start = processor_time();
    on_threads(threads, [&](unsigned thread) {
        Random random(thread + 1);
        way(random, each);
    });
    const double seconds = now() - start, processor = processor_time() - processor_start;
    const unsigned cores = std::min(threads, std::thread::hardware_concurrency());
    const double each_takes = 1e9 / static_cast<double>(each * threads);
    return {seconds * cores * each_takes, processor * each_takes};
}

void measure(std::uint32_t count, int rounds, std::uint64_t operations) {
    Ways ways(count);
    using Way = std::function<void(Random&, std::uint64_t)>;
    const std::pair<const char*, Way> rows[] = {
        {"Hocket get", [&](Random& random, std::uint64_t n) { ways.get(random, n); }},
        {"Hocket batch of 256", [&](Random& random, std::uint64_t n) { ways.get_batches(random, n); }},
        {"map under a mutex", [&](Random& random, std::uint64_t n) { ways.look_up(random, n); }},
        {"memcpy", [&](Random& random, std::uint64_t n) { ways.copy(random, n); }},
    };
    for (int round = 0; round < rounds; ++round) {
        for (const unsigned threads : {1u, 2u, 4u}) {
            for (const auto& [name, way] : rows) {
                const auto [core, processor] = measure_way(threads, operations, way);
                char line[200];
                std::snprintf(
                    line, sizeof line,
                    R"({"samples": %u, "threads": %u, "row": "%s", "nanoseconds": %.2f, "processor": %.2f})",
                    count, threads, name, core, processor);
                print_line(line);
            }
        }
    }
}

}  // namespace

int main(int argc, char** argv) {
    return guarded("memory", [&] {
        if (argc != 4) throw std::runtime_error("memory ROUNDS OPERATIONS COUNT,...");
        std::istringstream counts(argv[3]);
        for (std::string count; std::getline(counts, count, ',');)
            measure(static_cast<std::uint32_t>(std::stoul(count)), std::atoi(argv[1]),
                    std::strtoull(argv[2], nullptr, 10));
    });
}
