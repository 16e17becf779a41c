// matrix: every collective with every type, operator and root, in place and not, with counts from 0 to 65,537
// and with counts by rank, each checked element by element.
//
//     hocket-run -n 5 matrix --executor interpreter --hosts aabbb
//
// Results of whole numbers must be exact, sums and averages of others as near to those of float64 as the
// roundings of their passes allow. tests/matrix/run goes through numbers of ranks and ways to run.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <set>

#include "tests/multi/soak/operation.hpp"

namespace hocket::soak {
namespace {

struct Options {
    std::string executor = "jit", hosts, memory = "both";
    std::vector<std::size_t> counts{0, 1, 7, 1000, 65'537};
};

// Made from the rank and the place: neither whole nor all of one sign.
double real_input(int rank, std::size_t i) {
    return std::sin(static_cast<double>(i % 1009 + 1) * (rank + 2)) * (1 + rank % 3);
}

struct Memory {
    const char* name;
    unsigned char *from, *to;
};

class Matrix {
  public:
    explicit Matrix(const Options& options) : options_(options) {
        if (!options.hosts.empty()) {
            const char* given = std::getenv("RANK");
            if (!given) fail("--hosts goes by RANK, which hocket-run sets");
            const auto rank = static_cast<std::size_t>(std::atoi(given));
            const std::string host(1, options.hosts[rank % options.hosts.size()]);
            setenv("HOCKET_HOST_ID", host.c_str(), 1);
        }
        hkt_comm_options how = HKT_COMM_OPTIONS_INIT;
        how.executor = options.executor == "jit" ? HKT_EXECUTOR_JIT : HKT_EXECUTOR_INTERPRETER;
        check(hkt_comm_create(&how, &comm_), "cannot join");
        rank_ = hkt_comm_rank(comm_);
        ranks_ = hkt_comm_size(comm_);
        const std::size_t most = *std::max_element(options.counts.begin(), options.counts.end());
        room_ = Placed::room((most + 1) * 8 * static_cast<std::size_t>(ranks_));
        for (unsigned char** memory : {&windows_[0], &windows_[1]})
            check(hkt_mem_alloc(comm_, room_, reinterpret_cast<void**>(memory)), "no memory");
        for (auto& memory : plain_) memory.resize(room_);
    }
    ~Matrix() {
        for (unsigned char* memory : windows_) hkt_mem_free(comm_, memory);
        hkt_comm_destroy(comm_);
    }
    Matrix(const Matrix&) = delete;
    Matrix& operator=(const Matrix&) = delete;

    void run() {
        for (const Memory& memory : memories())
            for (const hkt_type type : capi::all_types) {
                for (const hkt_collective collective : capi::all_collectives)
                    for (const hkt_op op : ops_for(collective, type)) run_all(memory, collective, type, op);
                pieces(memory, type);
                pairs(memory, type);
            }
        if (rank_ == 0)
            fmt::print("{} ranks, {}, {}: {} operations, all right\n", ranks_,
                       hkt_comm_info(comm_, "provider"), options_.executor, operations_);
    }

  private:
    std::vector<Memory> memories() {
        const Memory window{"hkt_mem_alloc", windows_[0], windows_[1]},
            plain{"malloc", plain_[0].data(), plain_[1].data()};
        if (options_.memory == "shared") return {window};
        if (options_.memory == "private") return {plain};
        return {window, plain};
    }

    void run_all(const Memory& memory, hkt_collective collective, hkt_type type, hkt_op op) {
        const bool has_root = bench::contract_of(collective).has_root();
        for (const int root : std::set<int>{0, has_root ? ranks_ - 1 : 0})
            for (const std::size_t count : options_.counts)
                for (const bool in_place : {false, true}) {
                    const bench::Layout layout{collective, type, op, root, rank_, ranks_, count};
                    whole_numbers(memory, layout, in_place);
                    if (layout.contract().combines()) real_numbers(memory, layout);
                }
    }

    void whole_numbers(const Memory& memory, const bench::Layout& layout, bool in_place) {
        Operation operation;
        operation.layout = layout;
        operation.values = ++operations_;
        Chance own{operations_, static_cast<std::uint64_t>(rank_)};
        const Placed placed(operation, memory.from, memory.to, in_place, own);
        check(call_function(layout, placed.send(), placed.recv(), comm_, nullptr), operation.text());
        if (const std::string fault = placed.fault(); !fault.empty())
            fail(fmt::format("{}{}, {}: {}", operation.text(), in_place ? ", in place" : "", memory.name,
                             fault));
    }

    // Sums and averages of numbers that are not whole, where the type has such.
    void real_numbers(const Memory& memory, const bench::Layout& layout) {
        if (layout.op != HKT_SUM && layout.op != HKT_AVERAGE) return;
        with_type(capi::find_type(layout.type).value(), [&]<DataType type>(TypeConstant<type>) {
            if constexpr (row_of(type).kind == kind::floating) {
                using Stored = typename ElementOf<type>::Stored;
                auto* const from = reinterpret_cast<Stored*>(memory.from);
                auto* const to = reinterpret_cast<Stored*>(memory.to);
                for (std::size_t i = 0; i < layout.send_count(); ++i) from[i] = stored<type>(rank_, i);
                check(call_function(layout, from, to, comm_, nullptr), "real numbers");
                ++operations_;
                for (std::size_t i = 0; i < layout.recv_count(); ++i)
                    expect_near<type>(
                        layout, i, static_cast<double>(static_cast<typename ElementOf<type>::Worked>(to[i])));
            }
        });
    }

    template <DataType type>
    static typename ElementOf<type>::Stored stored(int rank, std::size_t i) {
        using Worked = typename ElementOf<type>::Worked;
        return static_cast<typename ElementOf<type>::Stored>(static_cast<Worked>(real_input(rank, i)));
    }

    // A pass rounds its stored values once, and a schedule makes at most one pass for each further rank; if
    // the calculation has no more digits than the stored type, each addition rounds. The division rounds once
    // more.
    template <DataType type>
    void expect_near(const bench::Layout& layout, std::size_t i, double found) const {
        double sum = 0, size = 0;
        for (int rank = 0; rank < ranks_; ++rank) {
            const auto value = static_cast<double>(static_cast<typename ElementOf<type>::Worked>(
                stored<type>(rank, layout.recv_offset_in_place() + i)));
            sum += value;
            size += std::abs(value);
        }
        const double divisor = layout.op == HKT_AVERAGE ? ranks_ : 1;
        const double half_a_step =
            std::ldexp(1.0, -std::numeric_limits<typename ElementOf<type>::Stored>::digits);
        if (!(std::abs(found - sum / divisor) <= (ranks_ + 1) * half_a_step * size / divisor))
            fail(fmt::format("{} {} of {} {}: element {} is {}, not {}", layout.subject.name(),
                             hkt_op_name(layout.op), layout.count, hkt_type_name(layout.type), i, found,
                             sum / divisor));
    }

    // ---- Counts by rank ---------------------------------------------------------------------------

    // Whole vectors that all ranks know are taken apart and put together again.
    void pieces(const Memory& memory, hkt_type type) {
        for (const std::size_t most : options_.counts) {
            Chance chance{most, static_cast<std::uint64_t>(type)};
            std::vector<std::size_t> counts, begins{0};
            for (int rank = 0; rank < ranks_; ++rank) {
                counts.push_back(chance.one_in(3) ? 0 : chance.below(most + 1));
                begins.push_back(begins.back() + counts.back());
            }
            const std::size_t element = hkt_type_size(type), all = begins.back() * element;
            const std::size_t mine = begins[static_cast<std::size_t>(rank_)] * element,
                              bytes = counts[static_cast<std::size_t>(rank_)] * element;
            const auto value = [&](std::size_t byte) {
                return static_cast<unsigned char>((byte * 7 + most) % 251 % 2);
            };
            const int root = ranks_ - 1;
            const auto fill = [&](unsigned char* to, std::size_t begin, std::size_t size) {
                for (std::size_t i = 0; i < size; ++i) to[i] = value(begin + i);
            };
            const auto expect = [&](const char* what, std::size_t begin, std::size_t size) {
                for (std::size_t i = 0; i < size; ++i)
                    if (memory.to[i] != value(begin + i))
                        fail(fmt::format("{} of {}, up to {} elements: byte {} of {} is wrong", what,
                                         hkt_type_name(type), most, i, size));
                ++operations_;
            };
            fill(memory.from, mine, bytes);
            check(hkt_all_gather_v(memory.from, memory.to, counts.data(), type, comm_, nullptr),
                  "all_gather_v");
            expect("all_gather_v", 0, all);
            check(hkt_gather_v(memory.from, memory.to, counts.data(), type, root, comm_, nullptr),
                  "gather_v");
            expect("gather_v", 0, rank_ == root ? all : 0);
            fill(memory.from, 0, all);
            check(hkt_scatter_v(memory.from, memory.to, counts.data(), type, root, comm_, nullptr),
                  "scatter_v");
            expect("scatter_v", mine, bytes);
            // All ranks have the same: so is the least.
            if (!hkt_op_supports(HKT_MIN, type)) continue;
            check(hkt_reduce_scatter_v(memory.from, memory.to, counts.data(), type, HKT_MIN, comm_, nullptr),
                  "reduce_scatter_v");
            expect("reduce_scatter_v", mine, bytes);
        }
    }

    // Every pair of ranks has a count of its own; here all ranks know all of them.
    void pairs(const Memory& memory, hkt_type type) {
        const auto ranks = static_cast<std::size_t>(ranks_), self = static_cast<std::size_t>(rank_);
        for (const std::size_t most : options_.counts) {
            Chance chance{most, static_cast<std::uint64_t>(type), 1};
            std::vector<std::vector<std::size_t>> counts(ranks);  // by sender and receiver
            for (auto& row : counts)
                for (std::size_t i = 0; i < ranks; ++i)
                    row.push_back(chance.one_in(3) ? 0 : chance.below(most + 1));
            const std::size_t element = hkt_type_size(type);
            const auto value = [&](std::size_t from, std::size_t to, std::size_t byte) {
                return static_cast<unsigned char>((byte * 7 + from * 3 + to * 5 + most) % 251 % 2);
            };
            std::vector<std::size_t> received;
            unsigned char* next = memory.from;
            for (std::size_t rank = 0; rank < ranks; ++rank) {
                received.push_back(counts[rank][self]);
                for (std::size_t i = 0; i < counts[self][rank] * element; ++i) *next++ = value(self, rank, i);
            }
            check(hkt_all_to_all_v(memory.from, counts[self].data(), nullptr, memory.to, received.data(),
                                   nullptr, type, comm_, nullptr),
                  "all_to_all_v");
            const unsigned char* found = memory.to;
            for (std::size_t rank = 0; rank < ranks; ++rank)
                for (std::size_t i = 0; i < received[rank] * element; ++i)
                    if (*found++ != value(rank, self, i))
                        fail(fmt::format(
                            "all_to_all_v of {}, up to {} elements: byte {} from rank {} is wrong",
                            hkt_type_name(type), most, i, rank));
            ++operations_;
        }
    }

    void check(hkt_status status, const std::string& what) const {
        if (status != HKT_SUCCESS)
            fail(what + ": " + (comm_ ? hkt_comm_last_error(comm_) : hkt_last_error()));
    }
    [[noreturn]] void fail(const std::string& what) const {
        fmt::print(stderr, "matrix: rank {} of {}, {}: {}\n", rank_, ranks_, options_.executor, what);
        std::_Exit(1);
    }

    const Options options_;
    hkt_comm* comm_ = nullptr;
    int rank_ = 0, ranks_ = 1;
    std::size_t room_ = 0;
    unsigned char* windows_[2] = {};
    std::vector<unsigned char> plain_[2];
    std::uint64_t operations_ = 0;
};

}  // namespace
}  // namespace hocket::soak

int main(int argc, char** argv) {
    hocket::soak::Options options;
    CLI::App app("Every collective, type and operator, each checked. Start it with hocket-run.");
    app.add_option("--executor", options.executor)->check(CLI::IsMember({"jit", "interpreter"}));
    app.add_option("--memory", options.memory)->check(CLI::IsMember({"shared", "private", "both"}));
    app.add_option("--hosts", options.hosts, "a letter for each rank's host, over and over; none: as it is");
    app.add_option("--counts", options.counts, "elements, as the collective's function takes them")
        ->delimiter(',');
    CLI11_PARSE(app, argc, argv);
    hocket::soak::Matrix(options).run();
}
