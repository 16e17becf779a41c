// Jobs whose ranks have memory of a device.
#pragma once

#include <hocket.h>

#include <functional>
#include <stdexcept>
#include <string>

#include "tests/capi/comm.hpp"
#include "tests/runtime/engine/ranks.hpp"
#include "tests/support/device.hpp"

namespace hocket::test {

// A character for each rank: ranks with the same one share a host. Returns the errors.
inline std::string run_on_devices(const std::string& hosts,
                                  const std::function<void(const Cuda&, hkt_comm*)>& body,
                                  std::map<std::string, std::string> environment = {}) {
    environment.emplace("FAKE_CUDA_DELAY_US", "60");
    return problems(run_ranks({static_cast<int>(hosts.size()), environment, 50}, [&](int rank) {
        setenv("HOCKET_HOST_ID", hosts.substr(static_cast<std::size_t>(rank), 1).c_str(), 1);
        const Cuda& cuda = Cuda::load();
        {
            const Comm comm = join();
            body(cuda, comm.get());
        }
        if (!Cuda::is_fake()) return;
        for (const char* what : {"pinned", "streams", "events", "opened"})
            expect(cuda.count(what) == 0, std::string("the communicator has left ") + what +
                                              " behind: " + std::to_string(cuda.count(what)));
    }));
}

inline void expect_in(const std::string& text, const std::string& part) {
    expect(text.find(part) != std::string::npos, "\"" + part + "\" is not in: " + text);
}

inline void expect_nothing_left(const Cuda& cuda) {
    for (const char* what : {"pinned", "streams", "events", "opened"})
        expect(cuda.count(what) == 0, std::string("left behind: ") + what);
}

}  // namespace hocket::test
