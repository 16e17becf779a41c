// Runs the test cases on a device; tools/gpu-check builds it. Arguments: parts of the names of those to run.
#include <cstring>
#include <exception>
#include <iostream>

#include "runtime/compute/kernels/cpu/parallel.hpp"
#include "tests/runtime/compute/kernels/cuda/check.hpp"

namespace hocket::kernels {

// The processor's kernels run in this one thread: their own threads need libraries that may not be here.
Team::Team(unsigned parts) : parts_(parts) {}
Team::~Team() = default;
void Team::run(const std::function<void(unsigned)>& work) {
    for (unsigned part = 0; part < parts_; ++part) work(part);
}
void in_parallel(unsigned parts, const std::function<void(unsigned)>& work) {
    Team(parts).run(work);
}

}  // namespace hocket::kernels

int main(int argc, char** argv) {
    int ran = 0, failed = 0;
    for (const auto& test : hocket::test::test_cases()) {
        bool chosen = argc == 1;
        for (int i = 1; i < argc; ++i) chosen = chosen || test.name.find(argv[i]) != std::string::npos;
        if (!chosen) continue;
        const int before = hocket::test::failed_checks;
        try {
            test.run();
        } catch (const std::exception& error) {
            std::cout << "    " << error.what() << '\n';
            ++hocket::test::failed_checks;
        }
        const bool passed = hocket::test::failed_checks == before;
        std::cout << (passed ? "passed: " : "FAILED: ") << test.name << std::endl;
        ++ran;
        failed += !passed;
    }
    std::cout << ran - failed << " passed, " << failed << " failed\n";
    return ran > 0 && failed == 0 ? 0 : 1;
}
