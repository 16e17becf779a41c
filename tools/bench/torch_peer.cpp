#include "tools/bench/torch_peer.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

extern char** environ;

namespace hocket::bench {
namespace {

// Runs one round for each line of input, and answers with its time.
constexpr const char* script = R"(
import os, sys, time
os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # its threads must not spin while others are measured
kernel, elements, k, threads, dtype = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
try:
    import torch
except ImportError as error:
    print("no PyTorch in", sys.executable + ":", error, flush=True)
    sys.exit()
torch.set_num_threads(threads)
try:
    x = torch.randn(elements).to(getattr(torch, dtype))
    magnitudes = x.abs()
    indices = torch.arange(k) * elements // max(k, 1)
    values = x[indices]
    work = {"topk": lambda: torch.topk(magnitudes, k, sorted=False),
            "scatter_add": lambda: x.index_add_(0, indices, values),
            "norms": lambda: torch.linalg.vector_norm(x)}[kernel]
    work()
except Exception as error:
    print("PyTorch", torch.__version__, "cannot:", repr(error), flush=True)
    sys.exit()
print("PyTorch", torch.__version__, flush=True)
for line in sys.stdin:
    start = time.perf_counter()
    work()
    print((time.perf_counter() - start) * 1e3, flush=True)
)";

constexpr int patience_ms = 120'000;

}  // namespace

TorchPeer::TorchPeer(const KernelOptions& options, std::size_t k) {
    if (const auto trouble = start(options, k)) give_up(*trouble);
}

// Returns why there is no peer.
std::optional<std::string> TorchPeer::start(const KernelOptions& options, std::size_t k) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return fmt::format("no socket for PyTorch: {}", std::strerror(errno));
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    std::string words[] = {"python3",
                           "-c",
                           script,
                           name_of(options.kernel),
                           std::to_string(options.elements),
                           std::to_string(k),
                           std::to_string(options.threads),
                           hkt_type_name(options.type)};
    char* arguments[std::size(words) + 1] = {};
    for (std::size_t i = 0; i < std::size(words); ++i) arguments[i] = words[i].data();
    const int error = posix_spawnp(&process_, "python3", &actions, nullptr, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    to_ = from_ = ends[0];
    if (error != 0) {
        process_ = -1;
        return fmt::format("no PyTorch: python3 does not start: {}", std::strerror(error));
    }
    const auto greeting = answer();
    if (!greeting) return "PyTorch did not answer";
    description_ = *greeting;
    const bool is_ready = greeting->starts_with("PyTorch") && greeting->find("cannot") == std::string::npos;
    return is_ready ? std::nullopt : greeting;
}

TorchPeer::~TorchPeer() {
    give_up("");
}

std::optional<double> TorchPeer::measure() {
    if (process_ == -1) return std::nullopt;
    const char line = '\n';
    std::optional<std::string> time;
    if (send(to_, &line, 1, MSG_NOSIGNAL) == 1) time = answer();
    try {
        if (time) return std::stod(*time);
    } catch (const std::logic_error&) {  // the answer is not a number
    }
    give_up("PyTorch stopped answering");
    return std::nullopt;
}

// Returns its next line; nothing if none comes.
std::optional<std::string> TorchPeer::answer() {
    for (;;) {
        if (const auto end = unread_.find('\n'); end != std::string::npos) {
            std::string line = unread_.substr(0, end);
            unread_.erase(0, end + 1);
            return line;
        }
        pollfd readable{from_, POLLIN, 0};
        char bytes[256];
        if (poll(&readable, 1, patience_ms) != 1) return std::nullopt;
        const ssize_t got = read(from_, bytes, sizeof bytes);
        if (got <= 0) return std::nullopt;
        unread_.append(bytes, static_cast<std::size_t>(got));
    }
}

void TorchPeer::give_up(const std::string& why) {
    description_ = why;
    if (from_ != -1) close(from_);
    to_ = from_ = -1;
    if (process_ == -1) return;
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
    process_ = -1;
}

}  // namespace hocket::bench
