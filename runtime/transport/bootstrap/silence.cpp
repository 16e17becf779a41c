#include "runtime/transport/bootstrap/silence.hpp"

#include <fmt/format.h>

namespace hocket::transport {

using namespace std::chrono_literals;
namespace {

// The longest time for which the kernel of a process that does not read delays its acknowledgement, in the
// hope of sending it with data.
constexpr auto longest_put_off = 200ms;

}  // namespace

std::optional<std::string> Silence::verdict(Clock::time_point now, const Answers& answers,
                                            HeartbeatTimes times) {
    was_cut_off_ |= answers.are_missing || answers.last_answer > 2 * times.interval + longest_put_off;
    const auto silence = length(now);
    if (silence <= times.timeout) return std::nullopt;
    const bool hangs = !was_cut_off_ && answers.last_answer < times.timeout / 2;
    const bool is_cut_off = answers.are_missing && answers.last_sent >= times.interval &&
                            silence - answers.last_sent > times.timeout + times.interval;
    if (!hangs && !is_cut_off && silence <= longest(times)) return std::nullopt;
    const bool host_answers = !answers.are_missing && answers.last_answer < times.timeout;
    return fmt::format("no heartbeat for {:.1f} s ({})", std::chrono::duration<double>(silence).count(),
                       host_answers ? "its host answers, but its process is stopped or hangs"
                                    : "its host is down, or the link to it is down");
}

// TCP's retransmission intervals double, and the kernel's timers may be late by an eighth. The peer may have
// sent the lost data one interval after it was last heard. The 4 s allow for the first of TCP's intervals:
// 0.2 s plus the link's delay, but up to 3 s on a young connection whose first packets were lost.
Clock::duration Silence::longest(HeartbeatTimes times) {
    return times.timeout * 9 / 4 + times.interval + 4s;
}

}  // namespace hocket::transport
