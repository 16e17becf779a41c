#include "runtime/engine/job/link_probe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <string_view>

namespace hocket::engine {
namespace {

using namespace std::chrono_literals;
using transport::Clock;

// Collectives use the lower 48 bits of a tag, packets those from 61 on.
constexpr std::uint64_t probe_tag = std::uint64_t{1} << 57;
constexpr int pings = 8;
// An amount is taken for the rate once it takes so long; the next one is four times as large, or twice if
// one has taken so long already.
constexpr auto long_enough = 2ms;
constexpr std::uint64_t least_amount = 64 << 10, most_amount = 4 << 20, step = 4;
constexpr int trials = 2;  // of each amount: the shorter one counts
// A rate by a difference is at most so many times that of the larger amount with all its latency.
constexpr double most_above = 4;

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

// Messages of the probe with one other rank, one after the other. What was begun is brought to its end before
// anything else happens, as its buffers must stay.
class Talk {
  public:
    Talk(transport::Fabric& fabric, int peer, const transport::Patience& patience)
        : fabric_(fabric), peer_(peer), patience_(patience) {}

    bool is_broken() const { return is_broken_; }

    void send(std::uint64_t number) {
        given_ = number;
        begin_send(&given_, sizeof given_);
        finish();
    }
    std::uint64_t receive() {
        std::uint64_t number = 0;
        begin_receive(&number, sizeof number);
        finish();
        return is_broken_ ? 0 : number;
    }
    // Both ways at once.
    void exchange(std::uint64_t bytes) {
        sent_.resize(bytes), received_.resize(bytes);
        begin_receive(received_.data(), bytes);
        begin_send(sent_.data(), bytes);
        finish();
    }

  private:
    void begin_send(void* data, std::size_t bytes) {
        out_ = {static_cast<std::byte*>(data), bytes};
        begin([&] { return fabric_.send(peer_, probe_tag, 0, {&out_, 1}, messages_[0]); });
    }
    void begin_receive(void* data, std::size_t bytes) {
        in_ = {static_cast<std::byte*>(data), bytes};
        begin([&] { return fabric_.receive(peer_, probe_tag, {&in_, 1}, messages_[1]); });
    }
    template <typename Start>
    void begin(Start start) {
        if (is_broken_) return;
        while (!start()) progress();
        ++under_way_;
    }
    void finish() {
        while (under_way_ > 0) progress();
    }
    void progress() {
        std::array<transport::Completion, 2> ended;
        const std::size_t count = fabric_.poll(ended);
        for (std::size_t i = 0; i < count; ++i) is_broken_ |= !ended[i].ok;
        under_way_ -= static_cast<int>(count);
        if (count > 0) return;
        patience_.next_look(0ms);
        if (patience_.is_over())
            throw Error(Status::timeout,
                        fmt::format("rank {} does not answer while the links are measured; is its process "
                                    "stopped? HOCKET_PROBE=off, on all ranks, does without",
                                    peer_));
        fabric_.wait({}, 1ms);
    }

    transport::Fabric& fabric_;
    const int peer_;
    const transport::Patience& patience_;
    bool is_broken_ = false;
    int under_way_ = 0;
    std::uint64_t given_ = 0;
    transport::Segment in_{}, out_{};
    std::vector<std::byte> sent_, received_;
    transport::Message messages_[2];
};

// The side that measures says what is to be exchanged next, in bytes; 0 ends it.
double time_of(Talk& talk, std::uint64_t bytes) {
    double shortest = 0;
    for (int trial = 0; trial < trials; ++trial) {
        const auto start = Clock::now();
        talk.send(bytes);
        talk.exchange(bytes);
        talk.receive();  // the other side has all, too
        const double time = seconds_since(start);
        shortest = trial == 0 ? time : std::min(shortest, time);
    }
    return shortest;
}

double latency_of(Talk& talk) {
    double shortest = 0;
    for (int ping = 0; ping <= pings; ++ping) {
        const auto start = Clock::now();
        talk.send(sizeof(std::uint64_t));
        talk.exchange(sizeof(std::uint64_t));
        talk.receive();
        const double one_way = seconds_since(start) / 3;
        if (ping > 0) shortest = ping == 1 ? one_way : std::min(shortest, one_way);  // the first one waits
    }
    return shortest;
}

double rate_of(Talk& talk) {
    const double enough = std::chrono::duration<double>(long_enough).count();
    std::uint64_t less = least_amount, more = less;
    double less_time = time_of(talk, less), more_time = less_time;
    do {
        less = more, less_time = more_time;
        more = std::min(most_amount, less * (less_time >= enough ? 2 : step));
        more_time = time_of(talk, more);
    } while (more_time < enough && more < most_amount && !talk.is_broken());
    return rate_between(double(less), less_time, double(more), more_time);
}

std::optional<HostPair> measure(Talk& talk, int own, int other) {
    const double latency = latency_of(talk), rate = rate_of(talk);
    talk.send(0);
    if (talk.is_broken()) return std::nullopt;
    return HostPair{own, other, latency, rate};
}

void answer(Talk& talk) {
    while (const std::uint64_t bytes = talk.receive()) {
        if (bytes > most_amount) return;  // no rank says that
        talk.exchange(bytes);
        talk.send(0);
    }
}

// Returns the first rank of each host.
std::vector<int> speakers_of(const std::vector<int>& hosts) {
    std::vector<int> speakers;
    for (std::size_t rank = 0; rank < hosts.size(); ++rank)
        if (hosts[rank] == static_cast<int>(speakers.size())) speakers.push_back(static_cast<int>(rank));
    return speakers;
}

std::vector<HostPair> measure_own(transport::Fabric& fabric, const std::vector<int>& speakers, int own,
                                  const transport::Patience& patience) {
    std::vector<HostPair> pairs;
    const int count = static_cast<int>(speakers.size());
    for (int round = 0; round < rounds_of(count); ++round) {
        const int other = partner_of(own, count, round);
        if (other < 0) continue;
        Talk talk(fabric, speakers[static_cast<std::size_t>(other)], patience);
        if (own > other)
            answer(talk);
        else if (const auto pair = measure(talk, own, other))
            pairs.push_back(*pair);
    }
    return pairs;
}

// Two digits, so that figures that are measured again give the same topology mostly.
double rounded(double value) {
    const double unit = std::pow(10, std::floor(std::log10(value)) - 1);
    return std::round(value / unit) * unit;
}

}  // namespace

int partner_of(int member, int members, int round) {
    const int even = members + members % 2, others = even - 1;
    round %= others;
    int partner = round * (even / 2) % others;  // of the last member
    if (member < others) {
        partner = (round + others - member) % others;
        if (partner == member) partner = others;
    }
    return partner < members ? partner : -1;
}

int rounds_of(int members) {
    return std::min(members + members % 2 - 1, most_rounds);
}

double rate_between(double less_bytes, double less_seconds, double more_bytes, double more_seconds) {
    if (more_seconds <= 0) return 0;
    const double with_latency = more_bytes / more_seconds;
    if (more_seconds <= less_seconds) return with_latency;
    return std::min((more_bytes - less_bytes) / (more_seconds - less_seconds), most_above * with_latency);
}

std::optional<LinkFigures> probe_links(transport::Bootstrap& bootstrap, transport::Fabric& fabric,
                                       const std::vector<int>& hosts, const transport::Patience& patience) {
    const std::vector<int> speakers = speakers_of(hosts);
    const int own = hosts[static_cast<std::size_t>(bootstrap.rank())];
    std::vector<HostPair> measured;
    if (speakers[static_cast<std::size_t>(own)] == bootstrap.rank())
        measured = measure_own(fabric, speakers, own, patience);
    LinkFigures figures{hosts, {}};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(patience.deadline - Clock::now());
    for (const std::string& text : bootstrap.all_gather(text_of(measured), left))
        if (const auto theirs = read_pairs(text))
            figures.pairs.insert(figures.pairs.end(), theirs->begin(), theirs->end());
    if (figures.pairs.empty()) return std::nullopt;
    return figures;
}

double LinkFigures::rate_of(int host) const {
    double rate = 0;
    for (const HostPair& pair : pairs)
        if (pair.a == host || pair.b == host) rate = std::max(rate, pair.rate);
    return rate;
}

LinkFigures LinkFigures::of(const std::vector<int>& ranks) const {
    LinkFigures some{{}, pairs};
    for (const int rank : ranks) some.hosts.push_back(hosts.at(static_cast<std::size_t>(rank)));
    return some;
}

std::string LinkFigures::topology(const std::string& topology) const {
    std::map<int, int> ranks_of;  // by host
    for (const int host : hosts) ++ranks_of[host];
    const bool has_hosts = topology.ends_with('h');
    double slowest = 0, latency = 0;
    for (const auto& [host, count] : ranks_of) {
        // Where hosts have different numbers of ranks, each rank is an end of its own.
        const double rate = rate_of(host) / (has_hosts ? 1 : count);
        if (rate <= 0) return "";
        slowest = slowest == 0 ? rate : std::min(slowest, rate);
    }
    for (const HostPair& pair : pairs)
        if (ranks_of.contains(pair.a) && ranks_of.contains(pair.b)) latency = std::max(latency, pair.latency);
    if (ranks_of.size() < 2 || latency <= 0) return "";
    return fmt::format("{}{}@{:g}MB/s,{:g}us", topology, has_hosts ? "" : "h", rounded(slowest) / 1e6,
                       rounded(latency) * 1e6);
}

std::string LinkFigures::text() const {
    const auto by_rate = [](const HostPair& a, const HostPair& b) { return a.rate < b.rate; };
    const auto by_latency = [](const HostPair& a, const HostPair& b) { return a.latency < b.latency; };
    const auto [slowest, fastest] = std::minmax_element(pairs.begin(), pairs.end(), by_rate);
    const auto [nearest, farthest] = std::minmax_element(pairs.begin(), pairs.end(), by_latency);
    return fmt::format(
        "{} pair{} of hosts: {:.3g} to {:.3g} MB/s (slowest: hosts {} and {}), {:.3g} to {:.3g} us",
        pairs.size(), pairs.size() == 1 ? "" : "s", slowest->rate / 1e6, fastest->rate / 1e6, slowest->a,
        slowest->b, nearest->latency * 1e6, farthest->latency * 1e6);
}

std::string text_of(const std::vector<HostPair>& pairs) {
    std::string text;
    for (const HostPair& pair : pairs)
        text += fmt::format("{} {} {} {}\n", pair.a, pair.b, pair.latency, pair.rate);
    return text;
}

std::optional<std::vector<HostPair>> read_pairs(const std::string& text) {
    std::vector<HostPair> pairs;
    const char *at = text.data(), *const end = at + text.size();
    const auto read = [&](auto& number, char behind) {
        const auto [stop, error] = std::from_chars(at, end, number);
        if (error != std::errc() || stop == end || *stop != behind) return false;
        at = stop + 1;
        return true;
    };
    while (at != end) {
        HostPair pair;
        if (!read(pair.a, ' ') || !read(pair.b, ' ') || !read(pair.latency, ' ') || !read(pair.rate, '\n'))
            return std::nullopt;
        const bool makes_sense = pair.a >= 0 && pair.a < pair.b && std::isnormal(pair.latency) &&
                                 pair.latency > 0 && std::isnormal(pair.rate) && pair.rate > 0;
        if (!makes_sense) return std::nullopt;
        pairs.push_back(pair);
    }
    return pairs;
}

}  // namespace hocket::engine
