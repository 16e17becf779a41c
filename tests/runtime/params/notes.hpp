// The notes that workers send to servers when they come.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "runtime/params/job/job.hpp"
#include "runtime/params/protocol/message.hpp"

namespace hocket::test {

using namespace params;

inline constexpr Worker stranger = 77;

inline nlohmann::json reserve_note(nlohmann::json number = stranger, const std::string& run = "") {
    return {{"say", "reserve"}, {"run", run},           {"number", number}, {"at", "127.0.0.1:9"},
            {"rack", "r"},      {"has_weights", false}, {"server", 0}};
}

inline nlohmann::json resume_note(const std::string& run) {
    return {{"run", run},
            {"say", "resume"},
            {"number", stranger},
            {"at", "127.0.0.1:9"},
            {"rack", "r"},
            {"covered", 0},
            {"incarnation", UINT32_MAX},
            {"members", nlohmann::json::array()},
            {"departed", nlohmann::json::array()},
            {"seen", 0},
            {"pushed", 0},
            {"server", 0}};
}

inline nlohmann::json join_note(nlohmann::json first) {
    return {{"say", "join"}, {"first", first}};
}

inline nlohmann::json open_note(const Job& job) {
    return {{"say", "open"}, {"job", encode(job)}, {"has_weights", false}};
}

}  // namespace hocket::test
