// The bytes of a state, for the set of visited states: two states have the same bytes exactly if they are
// equal. The digest includes the size of everything that has one.
#pragma once

#include <concepts>
#include <map>
#include <optional>
#include <ranges>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace hocket::params {

class Digest {
  public:
    template <typename... Parts>
    Digest& operator()(const Parts&... parts) {
        (add(parts), ...);
        return *this;
    }
    std::string take() { return std::move(bytes_); }

  private:
    template <typename T>
    requires std::integral<T> || std::is_enum_v<T>
    void add(T value) { bytes_.append(reinterpret_cast<const char*>(&value), sizeof value); }
    template <typename A, typename B>
    void add(const std::pair<A, B>& pair) {
        add(pair.first), add(pair.second);
    }
    template <typename T>
    void add(const std::optional<T>& value) {
        add(value.has_value());
        if (value) add(*value);
    }
    template <std::ranges::sized_range Range>
    void add(const Range& range) {
        add(std::ranges::size(range));
        for (const auto& item : range) add(item);
    }
    // A type of the protocol: write_to() writes its parts.
    template <typename T>
    requires requires(Digest& digest, const T& value) { write_to(digest, value); }
    void add(const T& value) { write_to(*this, value); }

    std::string bytes_;
};

}  // namespace hocket::params
