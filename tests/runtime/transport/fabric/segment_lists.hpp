// Lists of segments, as messages are divided into them.
#pragma once

#include <algorithm>
#include <vector>

#include "runtime/transport/fabric/segments.hpp"

namespace hocket::test {

inline transport::Segment segment(const void* data, std::size_t bytes) {
    return {static_cast<std::byte*>(const_cast<void*>(data)), bytes};
}

inline std::vector<transport::Segment> whole(const std::vector<char>& data) {
    return {segment(data.data(), data.size())};
}

// All of the data, in pieces of these lengths in turn, the last piece first.
inline std::vector<transport::Segment> backwards(const std::vector<char>& data,
                                                 const std::vector<std::size_t>& lengths) {
    std::vector<transport::Segment> segments;
    for (std::size_t begin = 0, i = 0; begin < data.size(); ++i) {
        const std::size_t bytes = std::min(lengths[i % lengths.size()], data.size() - begin);
        segments.push_back(segment(data.data() + begin, bytes));
        begin += bytes;
    }
    std::reverse(segments.begin(), segments.end());
    return segments;
}

inline std::vector<char> bytes_of(const std::vector<transport::Segment>& segments) {
    std::vector<char> bytes;
    for (const transport::Segment& piece : segments) {
        const char* begin = reinterpret_cast<const char*>(piece.data);
        bytes.insert(bytes.end(), begin, begin + piece.bytes);
    }
    return bytes;
}

}  // namespace hocket::test
