// The parser of checkpoints on arbitrary files. Entry of libFuzzer (clang++ -fsanitize=fuzzer,address with
// runtime/params/checkpoint/*.cpp, runtime/transport/net/{frame,socket}.cpp, runtime/{forks,random}.cpp); the
// unit tests call it with seeded bytes.
#include <sys/mman.h>
#include <unistd.h>

#include <memory>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/base/xxh3.hpp"
#include "runtime/params/checkpoint/checkpoint_file.hpp"
#include "runtime/params/checkpoint/header.hpp"
#include "runtime/transport/net/frame.hpp"
#include "tests/support/fuzz_input.hpp"

using namespace hocket::params;
using hocket::test::require;

namespace {

// Adds the prologue that fits the first `header_bytes` behind it, so that a mutation reaches the header's
// contents.
std::string sealed(std::string_view bytes, std::size_t header_bytes) {
    const auto put = [](std::string& text, std::uint64_t value, int count) {
        for (int i = 0; i < count; ++i) text += static_cast<char>(value >> (8 * i));
    };
    std::string prologue = "hktparam";
    put(prologue, checkpoint_version, 4);
    put(prologue, header_bytes, 8);
    put(prologue, XXH3_64bits(bytes.data(), header_bytes), 8);
    put(prologue, XXH3_64bits(prologue.data(), prologue.size()), 8);
    return prologue.append(bytes);
}

// A file of these bytes is refused, or holds exactly the checkpoint that is read from it.
void read_as_file(const std::string& bytes) {
    const int fd = memfd_create("checkpoint", MFD_CLOEXEC);
    require(write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
    std::vector<std::unique_ptr<std::byte[]>> memory;
    std::size_t allocated = 0;
    const auto allocate = [&](std::size_t count) {
        allocated += count;
        require(allocated <= bytes.size());
        return memory.emplace_back(new std::byte[count]).get();
    };
    try {
        const Checkpoint read = read_checkpoint("/proc/self/fd/" + std::to_string(fd), allocate);
        std::string again = encode_header(read);
        for (const CheckpointChunk& chunk : read.chunks)
            for (const auto buffer : chunk.buffers)
                again.append(reinterpret_cast<const char*>(buffer.data()), buffer.size());
        require(again == bytes);
    } catch (const hocket::Error&) {
    }
    close(fd);
}

// An accepted header fits the file's size, even if the elements are wrong.
void read_as_header(const std::string& header, std::uint64_t file_bytes) {
    try {
        const CheckpointLayout layout =
            decode_header({header.size(), XXH3_64bits(header.data(), header.size())}, header, file_bytes);
        std::uint64_t elements = 0;
        for (const CheckpointLayout::Chunk& chunk : layout.chunks)
            for (const std::uint64_t buffer : chunk.buffers) elements += buffer;
        require(prologue_bytes + header.size() + elements == file_bytes);
        require(layout.chunks.size() == layout.contents.chunks.size());
    } catch (const hocket::transport::ProtocolError&) {
    }
}

}  // namespace

// The first byte says what the others are: a file, or (with another number) that many bytes of a header and
// the elements behind it.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    const std::string bytes(reinterpret_cast<const char*>(data + 1), size - 1);
    if (data[0] == 0) {
        read_as_file(bytes);
        return 0;
    }
    const std::size_t header_bytes = std::min<std::size_t>(data[0], bytes.size());
    read_as_file(sealed(bytes, header_bytes));
    read_as_header(bytes.substr(0, header_bytes), prologue_bytes + bytes.size());
    return 0;
}
