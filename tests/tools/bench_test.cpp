// The parts that hocket-bench's verdict relies on: inputs, expected results, guards, sizes and bandwidths.
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <tuple>

#include "capi/vocabulary.hpp"
#include "tests/support/test.hpp"
#include "tools/bench/data.hpp"
#include "tools/bench/options.hpp"
#include "tools/bench/report.hpp"
#include "tools/bench/statistics.hpp"

using namespace hocket;
using namespace hocket::bench;

namespace {

template <typename T>
T plain(hkt_op op, T a, T b) {
    using Integer = std::conditional_t<std::is_integral_v<T>, std::uint64_t, T>;
    switch (op) {
        case HKT_SUM:
        case HKT_AVERAGE:     // is divided at the end
        case HKT_PREMUL_SUM:  // was multiplied before
            return static_cast<T>(static_cast<Integer>(a) + static_cast<Integer>(b));
        case HKT_PRODUCT:
            return static_cast<T>(static_cast<Integer>(a) * static_cast<Integer>(b));
        case HKT_MAX:
            return a > b ? a : b;
        case HKT_MIN:
            return a < b ? a : b;
        case HKT_BAND:
        case HKT_BOR:
        case HKT_BXOR:
            if constexpr (std::is_integral_v<T>)
                return static_cast<T>(op == HKT_BAND ? a & b : op == HKT_BOR ? a | b : a ^ b);
            break;
        case HKT_OP_LAST:
            break;
    }
    throw std::logic_error("this test does not know the operator");
}

// One of the pieces that lie one behind the other. pieces: the numbers of their elements.
template <typename Elements>
Elements piece_of(const Elements& all, const std::vector<std::size_t>& pieces, int piece) {
    const auto begin = std::accumulate(pieces.begin(), pieces.begin() + piece, std::size_t{0});
    return Elements(all.begin() + begin, all.begin() + begin + pieces[piece]);
}

// The counts of the pieces in a rank's buffer.
std::vector<std::size_t> pieces_of(const Layout& layout) {
    return layout.subject.has_counts() ? layout.counts : std::vector<std::size_t>(layout.ranks, layout.count);
}

// The collective done the plain way, in an order of its own: ranks backwards.
template <DataType type>
std::vector<typename ElementOf<type>::Stored> reference(const Layout& layout, std::size_t bytes,
                                                        std::uint64_t round) {
    using Elements = std::vector<typename ElementOf<type>::Stored>;
    using Worked = typename ElementOf<type>::Worked;
    std::vector<Layout> layouts;
    std::vector<Elements> inputs;
    for (int rank = 0; rank < layout.ranks; ++rank) {
        layouts.push_back(
            layout_for(layout.subject, layout.type, layout.op, layout.root, rank, layout.ranks, bytes));
        inputs.emplace_back(layouts.back().send_count());
        fill_input(layouts.back(), round, inputs.back().data());
    }
    Elements result;
    const auto own_piece = [&](int rank, const Elements& all) {
        return piece_of(all, pieces_of(layouts[rank]), layout.rank);
    };
    const hkt_collective collective = layout.subject.collective;
    const bool is_for_root = collective == HKT_REDUCE || collective == HKT_GATHER;
    if (layout.subject.is_messages()) return inputs[(layout.rank == 0 ? layout.ranks : layout.rank) - 1];
    if (is_for_root && layout.rank != layout.root) return {};
    if (collective == HKT_BROADCAST) return inputs[layout.root];
    if (collective == HKT_SCATTER) return own_piece(layout.root, inputs[layout.root]);
    if (collective == HKT_ALL_GATHER || collective == HKT_GATHER) {
        for (const auto& input : inputs) result.insert(result.end(), input.begin(), input.end());
        return result;
    }
    if (collective == HKT_ALL_TO_ALL) {
        for (int rank = 0; rank < layout.ranks; ++rank) {
            const Elements theirs = own_piece(rank, inputs[rank]);
            result.insert(result.end(), theirs.begin(), theirs.end());
        }
        return result;
    }
    if (layout.op == HKT_PREMUL_SUM)
        for (int rank = 0; rank < layout.ranks; ++rank)
            for (auto& element : inputs[rank]) {
                const auto value = static_cast<Worked>(element);
                Worked product = 0;  // whole factors: as often as they say
                for (int k = 0; k < factor_of(rank); ++k) product = plain(HKT_SUM, product, value);
                element = static_cast<typename Elements::value_type>(product);
            }
    result = inputs.back();
    for (int rank = layout.ranks - 2; rank >= 0; --rank)
        for (std::size_t i = 0; i < result.size(); ++i) {
            const auto a = static_cast<Worked>(result[i]), b = static_cast<Worked>(inputs[rank][i]);
            result[i] = static_cast<typename Elements::value_type>(plain(layout.op, a, b));
        }
    if (layout.op == HKT_AVERAGE)
        for (auto& element : result) {
            using Wide = std::conditional_t<std::is_integral_v<Worked>, __int128, Worked>;
            const auto sum = static_cast<Wide>(static_cast<Worked>(element));
            element = static_cast<typename Elements::value_type>(
                static_cast<Worked>(sum / static_cast<Wide>(layout.ranks)));
        }
    return collective == HKT_REDUCE_SCATTER ? own_piece(layout.rank, result) : result;
}

// The operators that it has; one of any, where it has none.
std::vector<hkt_op> ops_for(const Subject& subject, hkt_type type) {
    std::vector<hkt_op> ops;
    for (const hkt_op op : capi::all_ops)
        if (subject.contract().combines() ? hkt_op_supports(op, type) == 1 : ops.empty()) ops.push_back(op);
    return ops;
}

template <DataType type>
void check_verdicts(const Layout& layout, std::size_t bytes) {
    auto result = reference<type>(layout, bytes, 3);
    const auto size = result.size();
    REQUIRE(size == layout.recv_count());
    CHECK(count_wrong(layout, 3, result.data()) == 0);
    CHECK_FALSE(first_wrong(layout, 3, result.data()));
    if (size == 0) return;                                 // this rank receives nothing
    const bool is_bit = row_of(type).kind == kind::truth;  // half of which are right by chance
    CHECK(count_wrong(layout, 4, result.data()) > size / (is_bit ? 4 : 2));  // another round's result
    for (const std::size_t i : {std::size_t{0}, size / 2})
        result[i] = static_cast<typename ElementOf<type>::Stored>(
            static_cast<typename ElementOf<type>::Worked>(result[i]) == 0 ? 1 : 0);
    CHECK(count_wrong(layout, 3, result.data()) == 2);
    CHECK(first_wrong(layout, 3, result.data())->index == 0);
}

// The layout of rank 1 of 4, with 5 elements a call.
Layout layout_of_five(hkt_collective collective, int root) {
    return {collective, HKT_INT32, HKT_SUM, root, 1, 4, 5};
}

}  // namespace

TEST_CASE("a right result has nothing wrong, and each wrong element counts") {
    for (const hkt_type type : capi::all_types)
        for (const Subject& subject : all_subjects())
            for (const hkt_op op : ops_for(subject, type))
                for (const auto& [root, rank, ranks] :
                     {std::tuple{0, 0, 1}, {1, 1, 2}, {1, 0, 2}, {6, 3, 7}, {3, 3, 7}, {0, 6, 7}}) {
                    CAPTURE(hkt_type_name(type), subject.name(), hkt_op_name(op), root, rank, ranks);
                    const std::size_t bytes = 5000;
                    const Layout layout = layout_for(subject, type, op, root, rank, ranks, bytes);
                    with_type(*capi::find_type(type),
                              [&]<DataType row>(TypeConstant<row>) { check_verdicts<row>(layout, bytes); });
                }
}

TEST_CASE("sums of a type with few digits are exact, however many ranks there are") {
    for (const int ranks : {16, 17, 100, 256, 257, 1000}) {
        CAPTURE(ranks);
        for (const hkt_op op : {HKT_SUM, HKT_PREMUL_SUM}) {
            const Layout layout = layout_for(HKT_ALL_REDUCE, HKT_BFLOAT16, op, 0, 0, ranks, 2000);
            const auto result = reference<DataType::bfloat16>(layout, 2000, 3);
            CHECK(count_wrong(layout, 3, result.data()) == 0);
            CHECK(count_wrong(layout, 4, result.data()) > result.size() / 2);
        }
    }
}

TEST_CASE("NaN is wrong") {
    const Layout layout = layout_for(HKT_BROADCAST, HKT_FLOAT32, HKT_SUM, 0, 0, 1, 400);
    auto result = reference<DataType::float32>(layout, 400, 1);
    result[7] = std::numeric_limits<float>::quiet_NaN();
    CHECK(count_wrong(layout, 1, result.data()) == 1);
}

TEST_CASE("a changed input is noticed, but for the part that recv covers") {
    const Layout layout = layout_for(HKT_REDUCE_SCATTER, HKT_INT32, HKT_SUM, 0, 1, 3, 1200);
    std::vector<std::int32_t> send(layout.send_count());
    fill_input(layout, 5, send.data());
    CHECK(count_overwritten(layout, 5, send.data(), {}) == 0);
    send[150] ^= 1;
    send[10] ^= 1;
    CHECK(count_overwritten(layout, 5, send.data(), {}) == 2);
    CHECK(layout.covered_in_place() == Range{100, 200});
    CHECK(count_overwritten(layout, 5, send.data(), layout.covered_in_place()) == 1);
}

TEST_CASE("buffers have the room that the collective's function documents") {
    struct Counts {
        std::size_t send, recv, larger;
        bool operator==(const Counts&) const = default;
    };
    const auto counts = [](hkt_collective collective, int root) {
        const Layout layout = layout_of_five(collective, root);
        return Counts{layout.send_count(), layout.recv_count(), layout.larger_count()};
    };
    CHECK(counts(HKT_ALL_REDUCE, 0) == Counts{5, 5, 5});
    CHECK(counts(HKT_REDUCE_SCATTER, 0) == Counts{20, 5, 20});
    CHECK(counts(HKT_ALL_GATHER, 0) == Counts{5, 20, 20});
    CHECK(counts(HKT_BROADCAST, 1) == Counts{5, 5, 5});
    CHECK(counts(HKT_BROADCAST, 0) == Counts{0, 5, 5});
    CHECK(counts(HKT_REDUCE, 1) == Counts{5, 5, 5});
    CHECK(counts(HKT_REDUCE, 0) == Counts{5, 0, 5});
    CHECK(counts(HKT_GATHER, 1) == Counts{5, 20, 20});
    CHECK(counts(HKT_GATHER, 0) == Counts{5, 0, 20});
    CHECK(counts(HKT_SCATTER, 1) == Counts{20, 5, 20});
    CHECK(counts(HKT_SCATTER, 0) == Counts{0, 5, 20});
    CHECK(layout_of_five(HKT_GATHER, 0).most_recv_count() == 20);  // the root's
    CHECK(layout_of_five(HKT_SCATTER, 0).most_recv_count() == 5);
}

TEST_CASE("in place both buffers are parts of one") {
    struct Places {
        std::size_t send, recv;
        Range used, covered;
        bool operator==(const Places&) const = default;
    };
    const auto places = [](hkt_collective collective, int root) {
        const Layout layout = layout_of_five(collective, root);
        return Places{layout.send_offset_in_place(), layout.recv_offset_in_place(), layout.used_in_place(),
                      layout.covered_in_place()};
    };
    CHECK(places(HKT_ALL_REDUCE, 0) == Places{0, 0, {0, 5}, {0, 5}});
    CHECK(places(HKT_REDUCE_SCATTER, 0) == Places{0, 5, {0, 20}, {5, 10}});
    CHECK(places(HKT_ALL_GATHER, 0) == Places{5, 0, {0, 20}, {0, 5}});
    CHECK(places(HKT_BROADCAST, 0) == Places{0, 0, {0, 5}, {0, 0}});
    CHECK(places(HKT_REDUCE, 1) == Places{0, 0, {0, 5}, {0, 5}});
    CHECK(places(HKT_REDUCE, 0) == Places{0, 0, {0, 5}, {0, 0}});
    CHECK(places(HKT_GATHER, 1) == Places{5, 0, {0, 20}, {0, 5}});
    CHECK(places(HKT_GATHER, 0) == Places{5, 0, {5, 10}, {0, 0}});
    CHECK(places(HKT_SCATTER, 1) == Places{0, 5, {0, 20}, {5, 10}});
    CHECK(places(HKT_SCATTER, 0) == Places{0, 5, {5, 10}, {0, 0}});
}

TEST_CASE("with counts by rank the pieces are uneven, and together as large as the size") {
    using Pieces = std::vector<std::size_t>;
    CHECK(uneven_pieces(160, 4) == Pieces{10, 30, 50, 70});
    CHECK(uneven_pieces(161, 4) == Pieces{10, 30, 50, 71});
    CHECK(uneven_pieces(1, 3) == Pieces{0, 0, 1});
    CHECK(uneven_pieces(0, 2) == Pieces{0, 0});
    CHECK(uneven_pieces(7, 1) == Pieces{7});
    const std::size_t large = (std::size_t{1} << 50) + 1;
    const Pieces pieces = uneven_pieces(large, 1000);
    CHECK(std::accumulate(pieces.begin(), pieces.end(), std::size_t{0}) == large);
    CHECK(std::is_sorted(pieces.begin(), pieces.end()));
    for (const Subject& subject : all_subjects()) {
        if (!subject.has_counts()) continue;
        CAPTURE(subject.name());
        const Layout layout = layout_for(subject, HKT_INT32, HKT_SUM, 1, 1, 4, 643);
        CHECK(layout.larger_bytes() == 640);
        const bool is_between_pairs = subject.contract().exchanges();
        CHECK(layout.counts == (is_between_pairs ? Pieces{30, 50, 70, 10} : Pieces{10, 30, 50, 70}));
        CHECK(layout.send_count() == (subject.contract().gathers() ? 30 : 160));
        CHECK(layout.recv_count() == (subject.contract().scatters() ? 30 : 160));
    }
}

TEST_CASE("in place an uneven piece lies where it is among all") {
    const auto layout = [](hkt_collective collective, int rank) {
        return layout_for({collective, Subject::Kind::with_counts}, HKT_INT32, HKT_SUM, 0, rank, 4, 640);
    };
    CHECK(layout(HKT_REDUCE_SCATTER, 2).recv_offset_in_place() == 40);
    CHECK(layout(HKT_REDUCE_SCATTER, 2).covered_in_place() == Range{40, 90});
    CHECK(layout(HKT_ALL_GATHER, 3).send_offset_in_place() == 90);
    CHECK(layout(HKT_ALL_GATHER, 3).used_in_place() == Range{0, 160});
    CHECK(layout(HKT_GATHER, 1).used_in_place() == Range{10, 40});
    CHECK(layout(HKT_SCATTER, 1).used_in_place() == Range{10, 40});
    CHECK(layout(HKT_ALL_TO_ALL, 1).covered_in_place() == Range{0, 160});
}

TEST_CASE("a write beside the buffer is noticed") {
    GuardedBuffer buffer(1001);
    std::memset(buffer.data(), 1, 1001);
    CHECK(buffer.overwritten_guards() == 0);
    static_cast<unsigned char*>(buffer.data())[1001] = 1;
    static_cast<unsigned char*>(buffer.data())[-1] = 1;
    CHECK(buffer.overwritten_guards() == 2);
}

TEST_CASE("a write beside the result is noticed, inside the buffer too") {
    GuardedBuffer buffer(100);
    std::memset(buffer.at(40), 1, 20);
    CHECK(buffer.overwritten_outside({40, 60}) == 0);
    CHECK(buffer.overwritten_outside({41, 58}) == 3);
    CHECK(buffer.overwritten_outside({0, 0}) == 20);
    static_cast<unsigned char*>(buffer.data())[99] = 1;
    CHECK(buffer.overwritten_outside({40, 60}) == 1);
}

TEST_CASE("sizes are rounded down to whole elements of all ranks") {
    CHECK(layout_for(HKT_ALL_REDUCE, HKT_FLOAT64, HKT_SUM, 0, 0, 3, 23).count == 2);
    CHECK(layout_for(HKT_ALL_GATHER, HKT_FLOAT32, HKT_SUM, 0, 0, 3, 100).count == 8);
    CHECK(layout_for(HKT_ALL_GATHER, HKT_FLOAT32, HKT_SUM, 0, 0, 3, 100).larger_bytes() == 96);
    CHECK(layout_for(HKT_REDUCE_SCATTER, HKT_FLOAT32, HKT_SUM, 0, 0, 6, 4).count == 0);
    CHECK(layout_for(HKT_REDUCE, HKT_FLOAT32, HKT_SUM, 0, 0, 3, 100).count == 25);
    CHECK(layout_for(HKT_GATHER, HKT_FLOAT32, HKT_SUM, 0, 1, 3, 100).count == 8);
    CHECK(layout_for(HKT_SCATTER, HKT_FLOAT32, HKT_SUM, 0, 1, 3, 100).larger_bytes() == 96);
}

TEST_CASE("layouts that rounding makes equal come once, and an empty one only if asked for") {
    auto counts = [](hkt_collective collective, std::vector<std::size_t> bytes) {
        std::vector<std::size_t> counts;
        for (const Layout& layout : layouts_for(collective, HKT_FLOAT32, HKT_SUM, 0, 0, 4, bytes))
            counts.push_back(layout.count);
        return counts;
    };
    using Counts = std::vector<std::size_t>;
    CHECK(counts(HKT_ALL_GATHER, {4, 17, 30, 43, 56}) == Counts{1, 2, 3});
    CHECK(counts(HKT_ALL_REDUCE, {0, 1, 7, 49}) == Counts{0, 1, 12});
    CHECK(counts(HKT_REDUCE_SCATTER, {4, 8}).empty());
}

TEST_CASE("sizes go by a factor or by steps, and always end") {
    Options options;
    options.min_bytes = 4;
    options.max_bytes = 256 << 10;
    options.factor = 7;
    CHECK(sizes_of(options) == std::vector<std::size_t>{4, 28, 196, 1372, 9604, 67228});
    options.min_bytes = 0;
    options.max_bytes = 50;
    CHECK(sizes_of(options) == std::vector<std::size_t>{0, 1, 7, 49});
    options.step_bytes = 20;
    CHECK(sizes_of(options) == std::vector<std::size_t>{0, 20, 40});
    options.min_bytes = 51;
    CHECK(sizes_of(options).empty());
}

TEST_CASE("bandwidths are nccl-tests'") {
    auto layout = [](const Subject& s) { return layout_for(s, HKT_FLOAT32, HKT_SUM, 0, 0, 4, 4'000'000); };
    CHECK(algorithm_bandwidth(layout(HKT_ALL_REDUCE), 1000) == Approx(4.0));
    CHECK(bus_bandwidth(layout(HKT_ALL_REDUCE), 1000) == Approx(6.0));
    CHECK(bus_bandwidth(layout(HKT_REDUCE_SCATTER), 1000) == Approx(3.0));
    CHECK(bus_bandwidth(layout(HKT_ALL_GATHER), 1000) == Approx(3.0));
    CHECK(bus_bandwidth(layout(HKT_BROADCAST), 1000) == Approx(4.0));
    CHECK(bus_bandwidth(layout(HKT_REDUCE), 1000) == Approx(4.0));
    CHECK(bus_bandwidth(layout(HKT_GATHER), 1000) == Approx(3.0));
    CHECK(bus_bandwidth(layout(HKT_SCATTER), 1000) == Approx(3.0));
    CHECK(bus_bandwidth(layout(HKT_ALL_TO_ALL), 1000) == Approx(3.0));
    CHECK(bus_bandwidth(layout(find_subject("sendrecv").value()), 1000) == Approx(4.0));
    for (const Subject& subject : all_subjects())
        if (subject.has_counts()) CHECK(bus_bandwidth(layout(subject), 1000) == Approx(3.0));
}

TEST_CASE("medians and percentiles are those of the sorted times") {
    CHECK(median({}) == 0);
    CHECK(median({3, 1, 2}) == 2);
    CHECK(median({4, 1, 2, 3}) == 2.5);
    std::vector<double> values;
    CHECK(percentile(values, 99) == 0);
    for (int i = 1; i <= 200; ++i) values.push_back(i);
    CHECK(percentile(values, 0) == 1);
    CHECK(percentile(values, 50) == 100);
    CHECK(percentile(values, 99) == 198);
    CHECK(percentile(values, 100) == 200);
}

TEST_CASE("the command line is nccl-tests'") {
    auto parse = [](std::vector<std::string> words) {
        words.insert(words.begin(), "hocket-bench");
        std::vector<char*> argv;
        for (auto& word : words) argv.push_back(word.data());
        int exit_code = 0;
        auto options = parse_options(static_cast<int>(argv.size()), argv.data(), true, exit_code);
        CHECK((options.has_value() || exit_code == 2));
        return options;
    };
    const auto defaults = parse({"all_reduce"});
    REQUIRE(defaults);
    CHECK(defaults->min_bytes == 8);
    CHECK(defaults->max_bytes == 4 << 20);
    CHECK(defaults->check);
    const auto all = parse({"broadcast", "-b", "4", "-e", "1G", "-i", "3", "-n", "9", "-w", "0", "-c", "0",
                            "-d", "double", "-r", "2", "--executor", "both"});
    REQUIRE(all);
    CHECK(all->subject == HKT_BROADCAST);
    CHECK(all->step_bytes == 3);
    CHECK_FALSE(all->check);
    CHECK(all->types == std::vector<hkt_type>{HKT_FLOAT64});
    CHECK(all->executors.size() == 2);
    for (const Subject& subject : all_subjects()) {
        const auto named = parse({subject.name(), "-o", "all"});
        REQUIRE(named);
        CHECK(named->subject == subject);
        std::size_t ops = 0;
        for (const ReduceOp op : all_ops) ops += supports(op, DataType::float32);
        CHECK(pairs_of(*named).size() == (subject.contract().combines() ? ops : 1));
        CHECK(parse({subject.name(), "--executor", "both"}).has_value() == subject.has_plans());
        CHECK(parse({subject.name(), "--schedule", "direct"}).has_value() == !subject.is_messages());
    }
    for (const char* name : {"all_gather_v", "reduce_scatter_v", "gather_v", "scatter_v", "all_to_all_v"})
        CHECK(find_subject(name)->has_counts());
    CHECK_FALSE(find_subject("all_reduce_v"));
    CHECK_FALSE(parse({}));
    CHECK_FALSE(parse({"all_reduce", "-f", "1"}));
    CHECK_FALSE(parse({"all_reduce", "-f", "2", "-i", "4"}));
    CHECK_FALSE(parse({"all_reduce", "-d", "float8"}));
    CHECK(parse({"all_reduce", "-d", "half"})->types == std::vector<hkt_type>{HKT_FLOAT16});
    CHECK(parse({"all_reduce", "-d", "int"})->types == std::vector<hkt_type>{HKT_INT32});
    const auto whole = parse({"all_reduce", "-d", "all", "-o", "all"});
    std::size_t pairs = 0;
    for (const DataType type : all_types)
        for (const ReduceOp op : all_ops) pairs += supports(op, type);
    CHECK(pairs_of(*whole).size() == pairs);
    CHECK(pairs_of(*parse({"broadcast", "-d", "all", "-o", "all"})).size() == std::size(all_types));
    CHECK_FALSE(parse({"all_sorts"}));
    CHECK_FALSE(parse({"all_reduce", "-b", "1M", "-e", "1K"}));
}
