#include "tools/hocket_bench_data.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <type_traits>

namespace hocket::bench {
namespace {

constexpr unsigned char guard_byte = 0x5a, poison_byte = 0xa5;

std::uint64_t mix(std::uint64_t z) {  // splitmix64's finaliser
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

// Calls action with a value of the C++ type.
template <class Action>
auto with_type(hkt_type type, Action action) {
    switch (type) {
        case HKT_FLOAT32:
            return action(float{});
        case HKT_FLOAT64:
            return action(double{});
        case HKT_INT32:
            return action(std::int32_t{});
        default:
            return action(std::int64_t{});
    }
}

// Element i of what a rank sends.
template <class T>
struct Input {
    std::uint64_t round;
    int ranks;

    T operator()(int rank, std::size_t i) const {
        const std::uint64_t bits = mix(i + mix(rank + 1 + mix(round)));
        if constexpr (std::is_integral_v<T>) return static_cast<T>(bits);
        // Sums of all ranks stay below 2^24 (float32) or 2^53 (float64): exact in any order.
        const std::uint64_t span = (std::uint64_t{1} << (sizeof(T) == 4 ? 24 : 53)) / ranks;
        return static_cast<T>(static_cast<std::int64_t>(bits % span) - static_cast<std::int64_t>(span / 2));
    }
};

template <class T>
T combine(hkt_op op, T a, T b) {
    if (op == HKT_MAX) return std::max(a, b);
    if (op == HKT_MIN) return std::min(a, b);
    if constexpr (std::is_integral_v<T>) {
        using Unsigned = std::make_unsigned_t<T>;
        return static_cast<T>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
    }
    return a + b;
}

template <class T>
T expected(const Layout& layout, const Input<T>& input, std::size_t i) {
    if (layout.collective == HKT_BROADCAST) return input(layout.root, i);
    if (layout.collective == HKT_ALL_GATHER)
        return input(static_cast<int>(i / layout.count), i % layout.count);
    if (layout.collective == HKT_REDUCE_SCATTER) i += layout.rank * layout.count;
    T value = input(0, i);
    for (int rank = 1; rank < layout.ranks; ++rank) value = combine(layout.op, value, input(rank, i));
    return value;
}

}  // namespace

std::size_t element_size(hkt_type type) {
    return with_type(type, [](auto zero) { return sizeof zero; });
}

Layout layout_for(hkt_collective collective, hkt_type type, hkt_op op, int root, int rank, int ranks,
                  std::size_t bytes) {
    std::size_t count = bytes / element_size(type);
    if (collective == HKT_REDUCE_SCATTER || collective == HKT_ALL_GATHER) count /= ranks;
    return {collective, type, op, root, rank, ranks, count};
}

std::vector<Layout> layouts_for(hkt_collective collective, hkt_type type, hkt_op op, int root, int rank,
                                int ranks, const std::vector<std::size_t>& bytes) {
    const bool nothing_too = std::find(bytes.begin(), bytes.end(), 0) != bytes.end();
    std::vector<Layout> layouts;
    for (std::size_t size : bytes) {
        const Layout layout = layout_for(collective, type, op, root, rank, ranks, size);
        const bool repeated = !layouts.empty() && layouts.back().count == layout.count;
        if (!repeated && (layout.count > 0 || nothing_too)) layouts.push_back(layout);
    }
    return layouts;
}

void fill_input(const Layout& layout, std::uint64_t round, void* send) {
    with_type(layout.type, [&](auto zero) {
        using T = decltype(zero);
        const Input<T> input{round, layout.ranks};
        T* values = static_cast<T*>(send);
        for (std::size_t i = 0; i < layout.send_count(); ++i) values[i] = input(layout.rank, i);
    });
}

std::size_t count_wrong(const Layout& layout, std::uint64_t round, const void* recv) {
    return with_type(layout.type, [&](auto zero) {
        using T = decltype(zero);
        const Input<T> input{round, layout.ranks};
        const T* values = static_cast<const T*>(recv);
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < layout.recv_count(); ++i)
            wrong += values[i] != expected(layout, input, i);
        return wrong;
    });
}

std::optional<WrongElement> first_wrong(const Layout& layout, std::uint64_t round, const void* recv) {
    return with_type(layout.type, [&](auto zero) -> std::optional<WrongElement> {
        using T = decltype(zero);
        const Input<T> input{round, layout.ranks};
        const T* values = static_cast<const T*>(recv);
        for (std::size_t i = 0; i < layout.recv_count(); ++i)
            if (const T value = expected(layout, input, i); values[i] != value)
                return WrongElement{i, fmt::format("{}", values[i]), fmt::format("{}", value)};
        return std::nullopt;
    });
}

std::size_t count_overwritten(const Layout& layout, std::uint64_t round, const void* send,
                              std::size_t skip_begin, std::size_t skip_end) {
    return with_type(layout.type, [&](auto zero) {
        using T = decltype(zero);
        const Input<T> input{round, layout.ranks};
        const T* values = static_cast<const T*>(send);
        std::size_t changed = 0;
        for (std::size_t i = 0; i < layout.send_count(); ++i)
            changed += (i < skip_begin || i >= skip_end) && values[i] != input(layout.rank, i);
        return changed;
    });
}

std::shared_ptr<void> private_memory(std::size_t bytes) {
    constexpr std::align_val_t page{4096};
    return {::operator new(bytes, page), [](void* memory) { ::operator delete(memory, page); }};
}

GuardedBuffer::GuardedBuffer(std::size_t bytes, const Allocate& allocate)
    : bytes_(bytes),
      owner_(allocate(bytes + 2 * guard_bytes)),
      memory_(static_cast<unsigned char*>(owner_.get())) {
    std::fill(memory_, end(), guard_byte);
    poison();
}

void GuardedBuffer::poison() {
    std::fill(memory_ + guard_bytes, end() - guard_bytes, poison_byte);
}

std::size_t GuardedBuffer::overwritten_guards() const {
    auto changed = [](auto begin, auto end) {
        return static_cast<std::size_t>(
            std::count_if(begin, end, [](unsigned char b) { return b != guard_byte; }));
    };
    return changed(memory_, memory_ + guard_bytes) + changed(end() - guard_bytes, end());
}

}  // namespace hocket::bench
