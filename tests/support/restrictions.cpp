#include "tests/support/restrictions.hpp"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>

namespace hocket::test {

namespace {

// From now on, for this thread and those that it makes.
template <std::size_t count>
bool filter_system_calls(sock_filter (&program)[count]) {
    sock_fprog filter{count, program};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

// A fourth argument, which connect(2) does not have: by it the filter knows the calls of the handler.
constexpr unsigned let_through = 0x0c0ffee5;
std::atomic<int> connects_left;

// Handles the system call that the filter traps, connect(2), and makes it here.
void connect_or_die(int, siginfo_t*, void* context) {
    if (connects_left-- <= 0) kill(getpid(), SIGKILL);
    auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext;
    const int before = errno;
#if defined(__x86_64__)
    auto* const value = registers.gregs;
    const long result = syscall(SYS_connect, value[REG_RDI], value[REG_RSI], value[REG_RDX], let_through);
    value[REG_RAX] = result < 0 ? -errno : result;
#elif defined(__aarch64__)
    auto* const value = registers.regs;
    const long result = syscall(SYS_connect, value[0], value[1], value[2], let_through);
    value[0] = static_cast<unsigned long long>(result < 0 ? -errno : result);
#else
#error "which registers have a system call's arguments here?"
#endif
    errno = before;
}

std::atomic<bool>* has_begun_to_hang;
const std::atomic<bool>* is_let_go_again;

// Handles process_vm_readv(2) and process_vm_writev(2), which the filter traps.
void hang(int, siginfo_t*, void* context) {
    *has_begun_to_hang = true;
    while (!*is_let_go_again) usleep(1000);
    auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
    registers.gregs[REG_RAX] = -ESRCH;
#else
    registers.regs[0] = static_cast<unsigned long long>(-ESRCH);
#endif
}

}  // namespace

bool refuse_cross_memory_access() {
    sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    return filter_system_calls(program);
}

bool hang_in_cross_memory_access(std::atomic<bool>& has_begun, const std::atomic<bool>& is_let_go) {
    has_begun_to_hang = &has_begun;
    is_let_go_again = &is_let_go;
    struct sigaction action {};
    action.sa_sigaction = hang;
    action.sa_flags = SA_SIGINFO;
    if (sigaction(SIGSYS, &action, nullptr) != 0) return false;
    sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    return filter_system_calls(program);
}

bool die_when_connecting(int after) {
    connects_left = after;
    struct sigaction action {};
    action.sa_sigaction = connect_or_die;
    action.sa_flags = SA_SIGINFO;
    if (sigaction(SIGSYS, &action, nullptr) != 0) return false;
    sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_connect, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[3])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, let_through, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    return filter_system_calls(program);
}

bool enter_loopback_only_network() {
    if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return false;
    const int fd = socket(AF_INET, SOCK_DGRAM, 0);
    ifreq request{};
    std::strcpy(request.ifr_name, "lo");
    request.ifr_flags = IFF_UP;
    const bool up = fd >= 0 && ioctl(fd, SIOCSIFFLAGS, &request) == 0;
    if (fd >= 0) close(fd);
    return up;
}

}  // namespace hocket::test
