#include "tools/bench/kernel_bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

#include "capi/vocabulary.hpp"
#include "dsl/base/named_file.hpp"
#include "runtime/base/types.hpp"
#include "runtime/compute/kernels/cpu/parallel.hpp"
#include "tools/bench/statistics.hpp"
#include "tools/bench/torch_peer.hpp"
#include "tools/tool.hpp"

namespace hocket::bench {
namespace {

void check_kernel(hkt_status status) {
    if (status != HKT_SUCCESS) throw std::runtime_error(hkt_last_error());
}

double time_ms(const std::function<void()>& work) {
    const auto start = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

// A tensor with elements of a normal distribution, in any of the types.
class Tensor {
  public:
    Tensor(std::size_t count, hkt_type type) : type_(type), bytes_(count * hkt_type_size(type)) {
        std::mt19937_64 random(1);
        std::normal_distribution<float> normal;
        for (std::size_t i = 0; i < count; ++i) put(i, normal(random));
    }
    void* data() { return bytes_.data(); }
    std::size_t size() const { return bytes_.size() / hkt_type_size(type_); }
    const std::vector<std::byte>& bytes() const { return bytes_; }

    float at(std::size_t i) const {
        return with_type(*capi::find_type(type_), [&]<DataType t>(TypeConstant<t>) {
            typename ElementOf<t>::Stored stored;
            std::memcpy(&stored, bytes_.data() + i * sizeof stored, sizeof stored);
            return static_cast<float>(stored);
        });
    }

  private:
    void put(std::size_t i, float number) {
        with_type(*capi::find_type(type_), [&]<DataType t>(TypeConstant<t>) {
            const auto stored = static_cast<typename ElementOf<t>::Stored>(number);
            std::memcpy(bytes_.data() + i * sizeof stored, &stored, sizeof stored);
        });
    }

    hkt_type type_;
    std::vector<std::byte> bytes_;
};

// The lower limit for any kernel: reads all bytes once, with as many threads.
void read_once(const std::vector<std::byte>& bytes, unsigned threads) {
    std::atomic<std::uint64_t> seen{0};
    kernels::in_parallel(threads, [&](unsigned part) {
        constexpr std::size_t unit = 256;
        const std::size_t end = kernels::part_begin(bytes.size(), unit, part + 1, threads) / unit * unit;
        std::uint64_t all[unit / 8] = {}, now[unit / 8];
        for (std::size_t i = kernels::part_begin(bytes.size(), unit, part, threads); i < end; i += unit) {
            std::memcpy(now, bytes.data() + i, unit);
            for (std::size_t w = 0; w < unit / 8; ++w) all[w] |= now[w];
        }
        for (const std::uint64_t word : all) seen |= word;
    });
}

// Returns true if the result is exact, so that it can be compared with that of nth_element.
bool is_checked(const KernelOptions& options) {
    return options.kernel == Kernel::topk && !options.residual && options.thresholds == 0;
}

// The kernel under test, with its data.
class MeasuredKernel {
  public:
    MeasuredKernel(const KernelOptions& options, std::size_t k)
        : options_(options),
          k_(k),
          x_(options.elements, options.type),
          values_(k, options.type),
          indices_(k) {
        if (options.residual) residual_.resize(options.elements);
        for (std::size_t i = 0; i < k; ++i)
            indices_[i] =
                static_cast<std::uint32_t>(static_cast<unsigned __int128>(i) * options.elements / k);
    }

    const std::vector<std::byte>& bytes() const { return x_.bytes(); }

    void run() {
        switch (options_.kernel) {
            case Kernel::topk:
                return select();
            case Kernel::scatter_add:
                return check_kernel(hkt_scatter_add(x_.data(), x_.size(), options_.type, values_.data(),
                                                    options_.type, indices_.data(), k_, options_.threads));
            case Kernel::norms:
                const void* const tensor = x_.data();
                const std::size_t count = x_.size();
                return check_kernel(hkt_norms(&tensor, &count, 1, options_.type, &norm_, options_.threads));
        }
    }

    // Finds the k-th largest magnitude with the standard library, as a program would; only the ordering is
    // timed.
    double nth_element_ms() {
        std::vector<std::pair<float, std::uint32_t>> pairs(x_.size());
        for (std::size_t i = 0; i < pairs.size(); ++i)
            pairs[i] = {std::abs(x_.at(i)), static_cast<std::uint32_t>(i)};
        const auto place = pairs.begin() + static_cast<std::ptrdiff_t>(std::max<std::size_t>(k_, 1) - 1);
        const double ms =
            time_ms([&] { std::nth_element(pairs.begin(), place, pairs.end(), std::greater<>()); });
        pivot_ = place->first;
        return ms;
    }

    // Returns the number of selected values below nth_element's result. Call it after nth_element_ms().
    std::size_t wrong() const {
        if (!is_checked(options_)) return 0;
        std::size_t wrong = selected_ == k_ ? 0 : 1;
        for (std::size_t i = 0; i < selected_; ++i) wrong += std::abs(values_.at(i)) < pivot_;
        return wrong;
    }

  private:
    void select() {
        hkt_topk_options how = HKT_TOPK_OPTIONS_INIT;
        how.threads = options_.threads;
        how.thresholds = options_.thresholds;
        how.step = ++step_;
        if (options_.residual) how.residual = residual_.data();
        check_kernel(hkt_topk(x_.data(), x_.size(), options_.type, k_, &how, values_.data(), indices_.data(),
                              &selected_, nullptr));
    }

    const KernelOptions& options_;
    const std::size_t k_;
    Tensor x_, values_;
    std::vector<std::uint32_t> indices_;
    std::vector<float> residual_;
    std::size_t selected_ = 0;
    std::uint64_t step_ = 0;
    float norm_ = 0, pivot_ = 0;
};

struct Times {
    std::vector<double> kernel, read, nth_element, torch;
};

void print(const KernelOptions& options, std::size_t k, const Times& times, const std::string& torch,
           std::size_t wrong) {
    const double ms = median(times.kernel);
    const std::string of_k = options.kernel == Kernel::norms ? "" : fmt::format("{} of ", k);
    fmt::print("# hocket-bench {}: {}{} {}, {} thread{}; medians of {} rounds in turn\n",
               name_of(options.kernel), of_k, options.elements, hkt_type_name(options.type), options.threads,
               options.threads == 1 ? "" : "s", options.iterations);
    fmt::print("{:<46}{:>10}  {:>8}\n", "", "ms", "ratio");
    const auto row = [&](const std::string& what, const std::vector<double>& other) {
        if (!other.empty())
            fmt::print("{:<46}{:>10.3f}  {:>8.2f}\n", what, median(other), median(other) / ms);
    };
    row(fmt::format("Hocket{}{}", options.residual ? ", with a residual" : "",
                    options.thresholds != 0 ? fmt::format(", {} thresholds", options.thresholds) : ""),
        times.kernel);
    row("one read of the elements", times.read);
    const std::string plain = options.residual ? ", without a residual" : "";
    row("std::nth_element on pairs" + plain, times.nth_element);
    row(torch + plain, times.torch);
    if (times.torch.empty()) fmt::print("# {}\n", torch);
    if (is_checked(options)) fmt::print("# {} of the elements selected are wrong\n", wrong);
    tools::flush_output();
}

void write_json(std::ostream& stream, const KernelOptions& options, std::size_t k, const Times& times,
                const std::string& torch, std::size_t wrong) {
    const auto of = [](const std::vector<double>& all) {
        return all.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(median(all));
    };
    stream << nlohmann::ordered_json{{"version", hkt_version()},
                                     {"kernel", name_of(options.kernel)},
                                     {"elements", options.elements},
                                     {"type", hkt_type_name(options.type)},
                                     {"density", options.density},
                                     {"k", k},
                                     {"threads", options.threads},
                                     {"thresholds", options.thresholds},
                                     {"residual", options.residual},
                                     {"iterations", options.iterations},
                                     {"ms", of(times.kernel)},
                                     {"read_ms", of(times.read)},
                                     {"nth_element_ms", of(times.nth_element)},
                                     {"torch_ms", of(times.torch)},
                                     {"torch", torch},
                                     {"wrong", wrong}}
                  .dump(2)
           << "\n";
    if (!stream.flush()) throw std::runtime_error("'" + options.json_file + "' could not be written whole");
}

}  // namespace

int run_kernel_bench(const KernelOptions& options) {
    const char* ranks = std::getenv("WORLD_SIZE");
    if (ranks != nullptr && std::atoi(ranks) > 1)
        throw std::runtime_error("a kernel is measured by one process: start it without hocket-run");
    std::unique_ptr<OutputFile> json;
    try {
        if (!options.json_file.empty()) json = std::make_unique<OutputFile>(options.json_file);
    } catch (const std::runtime_error& error) {
        throw std::runtime_error(fmt::format("cannot write '{}': {}", options.json_file, error.what()));
    }
    std::size_t k = 0;
    check_kernel(hkt_topk_count(options.elements, options.density, &k));
    MeasuredKernel kernel(options, k);
    TorchPeer torch(options, k);
    Times times;
    kernel.run();  // touches the memory's pages
    for (int round = 0; round < options.iterations; ++round) {
        times.read.push_back(
            time_ms([&] { read_once(kernel.bytes(), static_cast<unsigned>(options.threads)); }));
        times.kernel.push_back(time_ms([&] { kernel.run(); }));
        if (options.kernel == Kernel::topk) times.nth_element.push_back(kernel.nth_element_ms());
        if (const auto ms = torch.measure()) times.torch.push_back(*ms);
    }
    const std::string torch_is = torch.description();
    if (times.torch.size() < times.kernel.size()) times.torch.clear();
    const std::size_t wrong = kernel.wrong();
    print(options, k, times, torch_is, wrong);
    if (json) write_json(*json, options, k, times, torch_is, wrong);
    return wrong == 0 ? 0 : 1;
}

}  // namespace hocket::bench
