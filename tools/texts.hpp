// Formats numbers for people.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace hocket::tools {

std::string bytes_text(double bytes);                           // "512 B", "1.5 KiB", "20.0 GiB"
std::string duration_text(std::chrono::duration<double> time);  // "0.5 s", "12 s", "3 m 5 s", "7 h 20 m"
std::string count_text(std::uint64_t count, const char* one);   // "1 sample", "7 samples"

}  // namespace hocket::tools
