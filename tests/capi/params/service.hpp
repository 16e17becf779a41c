// Parameter services of the C ABI, for tests: real servers and workers, in processes of their own.
#pragma once

#include <hocket.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/runtime/engine/ranks.hpp"
#include "tests/support/expect.hpp"
#include "tests/support/tally.hpp"

namespace hocket::test {

// Throws the text of hkt_last_error.
inline void must(hkt_status status) {
    if (status != HKT_SUCCESS)
        throw std::runtime_error(std::string(hkt_error_string(status)) + ": " + hkt_last_error());
}

// The text of a call that has to fail so.
inline std::string failure(hkt_status status, hkt_status expected) {
    expect(status == expected, [&] {
        return std::string("expected ") + hkt_error_string(expected) + ", got " + hkt_error_string(status) +
               ": " + hkt_last_error();
    });
    return hkt_last_error();
}

inline void says(const std::string& text, const std::string& part) {
    expect(text.find(part) != std::string::npos, [&] { return "\"" + part + "\" is not in: " + text; });
}

struct CloseParams {
    void operator()(hkt_params* params) const { hkt_params_close(params); }
    void operator()(hkt_params_server* server) const { hkt_params_server_stop(server); }
};
using Params = std::unique_ptr<hkt_params, CloseParams>;
using Server = std::unique_ptr<hkt_params_server, CloseParams>;

// Three tensors of integers.
class Numbers {
  public:
    static constexpr std::size_t tensors = 3;
    static constexpr hkt_params_tensor list[tensors] = {
        {"a", 1000, HKT_INT64}, {"b", 3, HKT_INT64}, {"c", 50000, HKT_INT64}};

    void fill(std::int64_t value) {
        for (auto& tensor : values_) std::iota(tensor.begin(), tensor.end(), value);
    }
    // Element i of each tensor is value + i * slope.
    bool are(std::int64_t value, std::int64_t slope) const {
        for (const auto& tensor : values_)
            for (std::size_t i = 0; i < tensor.size(); ++i)
                if (tensor[i] != value + static_cast<std::int64_t>(i) * slope) return false;
        return true;
    }
    std::vector<void*> pointers(std::size_t first = 0, std::size_t count = tensors) {
        std::vector<void*> pointers;
        for (std::size_t i = first; i < first + count; ++i) pointers.push_back(values_[i].data());
        return pointers;
    }
    std::int64_t& at(std::size_t tensor, std::size_t element) { return values_[tensor][element]; }

  private:
    std::vector<std::vector<std::int64_t>> values_ = {
        std::vector<std::int64_t>(1000), std::vector<std::int64_t>(3), std::vector<std::int64_t>(50000)};
};

inline void push(hkt_params* params, Numbers& numbers) {
    must(hkt_params_push(params, 0, Numbers::tensors, numbers.pointers().data(), nullptr));
}
inline void pull(hkt_params* params, Numbers& numbers, std::int64_t staleness) {
    must(hkt_params_pull(params, 0, Numbers::tensors, numbers.pointers().data(), staleness, nullptr));
}

// In each round worker w pushes w + 1, and i more at element i.
inline void train(hkt_params* params, int workers, int rounds) {
    Numbers numbers;
    std::int64_t expected = 0;
    for (int round = 1; round <= rounds; ++round) {
        numbers.fill(hkt_params_number(params) + 1);
        push(params, numbers);
        std::uint64_t now = 0;
        must(hkt_params_clock(params, &now));
        expect(now == static_cast<std::uint64_t>(round), "the number of the round");
        pull(params, numbers, 0);
        expected += workers * (workers + 1) / 2;
        expect(numbers.are(expected, std::int64_t{workers} * round), "the weights are not the sums");
    }
}

// The address of a server, for processes that are forked after this is made.
class Meeting {
  public:
    Meeting() : text_(static_cast<char*>(shared_memory(128))) {}
    void announce(const hkt_params_server* server) const {
        std::strncpy(text_, hkt_params_server_address(server), 127);
        is_announced_.add();
    }
    const char* address() const {
        is_announced_.await(1);
        return text_;
    }

  private:
    char* const text_;
    Tally is_announced_;
};

inline hkt_params_server_options server_options() {
    hkt_params_server_options options = HKT_PARAMS_SERVER_OPTIONS_INIT;
    options.listen = "127.0.0.1:0";
    options.secret = "a secret";
    return options;
}

inline Server start_server(const hkt_params_server_options& options = server_options()) {
    hkt_params_server* server = nullptr;
    must(hkt_params_server_start(&options, &server));
    return Server(server);
}

inline hkt_params_options worker_options(const char* address) {
    hkt_params_options options = HKT_PARAMS_OPTIONS_INIT;
    options.address = address;
    options.secret = "a secret";
    return options;
}

inline Params open_worker(const hkt_params_options& options) {
    hkt_params* params = nullptr;
    must(hkt_params_open(Numbers::list, Numbers::tensors, nullptr, &options, &params));
    return Params(params);
}

// Processes: one that serves, and `workers` more, which call the body with the address of the first.
inline std::vector<Outcome> with_service(int workers, const std::function<void(int, const char*)>& body,
                                         const hkt_params_server_options& options = server_options()) {
    const Meeting meeting;
    return run_ranks({workers + 1}, [&](int rank) {
        if (rank > 0) return body(rank - 1, meeting.address());
        const Server server = start_server(options);
        meeting.announce(server.get());
        must(hkt_params_server_wait(server.get(), 50'000));
    });
}

}  // namespace hocket::test
