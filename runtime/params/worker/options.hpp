// The options of a worker.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "runtime/params/service/calculator.hpp"
#include "runtime/transport/net/socket.hpp"

namespace hocket::params {

struct WorkerOptions {
    transport::Endpoint server;  // the first server's address
    std::string secret;
    Job job;
    // The number that the worker wants, if it is a founder; empty: the next free one.
    std::optional<Worker> number;
    std::string rack;  // shared by workers that are near each other; "": this host
    // The first weights, by tensor; empty: zeros. They are read until the constructor returns. One founder's
    // are used.
    std::vector<const std::byte*> first_weights;
    std::chrono::milliseconds timeout{60000};  // for each wait
    std::chrono::milliseconds silence{2000};   // after which a parent is suspected
    MakeCalculator make_calculator;
};

}  // namespace hocket::params
