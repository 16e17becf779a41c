// Runs while Hocket is built: compiles the kernels of the usual plans for devices into a collection.
//
//     precompile_plans SCHEDULES FILE
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <exception>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "runtime/compute/jit/code_cache.hpp"
#include "runtime/compute/jit/compiler.hpp"
#include "runtime/compute/jit/ready_made/collection_text.hpp"
#include "runtime/compute/jit/ready_made/usual_plans.hpp"

namespace {

using namespace hocket;

// Returns the code of each shape. Each processor compiles.
std::vector<std::string> compile(const std::vector<jit::DeviceShape>& shapes) {
    std::vector<std::string> codes(shapes.size());
    std::atomic<std::size_t> next = 0;
    std::atomic<bool> failed = false;
    std::exception_ptr failure;
    const auto work = [&] {
        try {
            jit::Compiler compiler;
            for (std::size_t i = next++; i < shapes.size(); i = next++) codes[i] = compiler.ptx(shapes[i]);
        } catch (...) {
            if (!failed.exchange(true)) failure = std::current_exception();
            next = shapes.size();
        }
    };
    std::vector<std::thread> threads;
    for (unsigned i = std::max(1U, std::thread::hardware_concurrency()); i > 0; --i)
        threads.emplace_back(work);
    for (std::thread& thread : threads) thread.join();
    if (failure) std::rethrow_exception(failure);
    return codes;
}

void precompile(const char* schedules, const char* path) {
    const std::vector<jit::DeviceShape> shapes = jit::usual_device_shapes({schedules});
    const std::vector<std::string> codes = compile(shapes);
    std::map<std::string, std::string> by_key;
    for (std::size_t i = 0; i < shapes.size(); ++i) by_key[jit::key_of(shapes[i])] = codes[i];
    const std::string text = jit::collection_text(by_key);
    std::ofstream file(path, std::ios::binary);
    file.write(text.data(), static_cast<std::streamsize>(text.size()));
    if (!file.flush()) throw std::runtime_error(fmt::format("cannot write {}", path));
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 3) {
        std::fputs("usage: precompile_plans SCHEDULES FILE\n", stderr);
        return 2;
    }
    try {
        precompile(argv[1], argv[2]);
    } catch (const std::exception& error) {
        fmt::print(stderr, "precompile_plans: {}\n", error.what());
        return 1;
    }
}
