#include "runtime/kernels/cpu/parallel.hpp"

#include <thread>
#include <vector>

#include "runtime/error.hpp"
#include "runtime/thread.hpp"

namespace hocket::kernels {

void in_parallel(unsigned parts, const std::function<void(unsigned)>& work) {
    std::vector<std::thread> threads;
    threads.reserve(parts);
    unsigned started = 1;
    try {
        for (; started < parts; ++started)
            threads.push_back(start_thread("hocket-kernel", [&work, part = started] { work(part); }));
    } catch (const Error&) {  // no more threads
    }
    work(0);
    for (unsigned part = started; part < parts; ++part) work(part);
    for (std::thread& thread : threads) thread.join();
}

}  // namespace hocket::kernels
