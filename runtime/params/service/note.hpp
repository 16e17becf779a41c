// Reads the fields of other processes' notes. All functions throw transport::ProtocolError if a field is
// missing or impossible.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "runtime/params/job/job.hpp"
#include "runtime/transport/net/frame.hpp"
#include "runtime/transport/net/socket.hpp"

namespace hocket::params {

inline std::uint64_t said_number(const nlohmann::json& json, std::uint64_t most) {
    if (!json.is_number_unsigned() || json.get<std::uint64_t>() > most)
        throw transport::ProtocolError("it sent a number out of range");
    return json.get<std::uint64_t>();
}

inline Clock said_clock(const nlohmann::json& json) {
    return said_number(json, most_clock);
}

inline Worker said_worker(const nlohmann::json& json) {
    return static_cast<Worker>(said_number(json, the_server - 2));
}

inline std::uint32_t said_server(const nlohmann::json& json) {
    return static_cast<std::uint32_t>(said_number(json, most_servers - 1));
}

// Returns the name of a host or a rack, perhaps with its port. It is stored, and passed on to others.
inline std::string said_name(const nlohmann::json& json) {
    constexpr std::size_t longest = 1024;
    auto name = json.get<std::string>();
    if (name.size() > longest) throw transport::ProtocolError("it sent a name that is too long");
    return name;
}

// Returns the address at which a process listens.
inline std::string said_place(const nlohmann::json& json) {
    std::string place = said_name(json);
    if (!transport::Endpoint::parse(place))
        throw transport::ProtocolError("it sent an address that cannot be parsed");
    return place;
}

}  // namespace hocket::params
