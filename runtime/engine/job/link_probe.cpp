#include "runtime/engine/job/link_probe.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <iterator>
#include <map>
#include <set>

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
// What the side that measures says comes next. Any other number is an exchange of so many bytes each way.
constexpr std::uint64_t no_more = 0, ping = 1;

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

// Messages of the probe with one other rank, one after the other. What was begun is brought to its end before
// anything else happens, as its buffers must stay.
class Talk {
  public:
    // longest_silence: from one completion to the next.
    Talk(transport::Fabric& fabric, int peer, const transport::Patience& patience,
         Clock::duration longest_silence)
        : fabric_(fabric), peer_(peer), patience_(patience), longest_silence_(longest_silence) {}

    bool is_broken() const { return is_broken_; }

    void send(std::uint64_t number) {
        given_ = number;
        begin_send(&given_, sizeof given_);
        finish();
    }
    std::uint64_t receive() {
        begin_receive(&taken_, sizeof taken_);
        finish();
        return is_broken_ ? 0 : taken_;
    }
    // Returns once the other side has answered the number.
    void ask(std::uint64_t number) {
        given_ = number;
        begin_receive(&taken_, sizeof taken_);
        begin_send(&given_, sizeof given_);
        finish();
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
        if (count > 0) {
            silent_since_ = Clock::now();
            return;
        }
        patience_.next_look(0ms);
        if (Clock::now() - silent_since_ > longest_silence_) throw silence();
        fabric_.wait({}, 1ms);
    }
    Error silence() const {
        const std::string address = fabric_.peer_address(peer_);
        return {Status::timeout,
                fmt::format("the probe of links between hosts: no answer from rank {}{} for {:.1f} s; is its "
                            "process stopped, or its link cut? HOCKET_PROBE=off, on all ranks, does without",
                            peer_, address.empty() ? "" : " at " + address,
                            std::chrono::duration<double>(longest_silence_).count())};
    }

    transport::Fabric& fabric_;
    const int peer_;
    const transport::Patience& patience_;
    const Clock::duration longest_silence_;
    Clock::time_point silent_since_ = Clock::now();
    bool is_broken_ = false;
    int under_way_ = 0;
    std::uint64_t given_ = 0, taken_ = 0;
    transport::Segment in_{}, out_{};
    std::vector<std::byte> sent_, received_;
    transport::Message messages_[2];
};

double time_of(Talk& talk, std::uint64_t bytes, Clock::time_point until) {
    double shortest = 0;
    for (int trial = 0; trial < trials && (trial == 0 || Clock::now() < until); ++trial) {
        const auto start = Clock::now();
        talk.send(bytes);
        talk.exchange(bytes);
        talk.receive();  // the other side has all, too
        const double time = seconds_since(start);
        shortest = trial == 0 ? time : std::min(shortest, time);
    }
    return shortest;
}

// A message has been sent once the kernel has taken it, so only an answer shows how long it was under way.
double latency_of(Talk& talk, Clock::time_point until) {
    double shortest = 0;
    for (int turn = 0; turn <= pings && (turn < 2 || Clock::now() < until); ++turn) {
        const auto start = Clock::now();
        talk.ask(ping);
        const double one_way = seconds_since(start) / 2;
        if (turn > 0) shortest = turn == 1 ? one_way : std::min(shortest, one_way);  // the first one waits
    }
    return shortest;
}

// Returns 0 if the time ends before there are two amounts.
double rate_of(Talk& talk, Clock::time_point until) {
    const double enough = std::chrono::duration<double>(long_enough).count();
    std::uint64_t less = least_amount, more = less;
    double less_time = time_of(talk, less, until), more_time = less_time;
    if (Clock::now() >= until) return 0;
    do {
        less = more, less_time = more_time;
        more = std::min(most_amount, less * (less_time >= enough ? 2 : step));
        more_time = time_of(talk, more, until);
    } while (more_time < enough && more < most_amount && !talk.is_broken() && Clock::now() < until);
    return rate_between(double(less), less_time, double(more), more_time);
}

bool makes_sense(const HostPair& pair) {
    const auto is_measured = [](double figure) { return std::isnormal(figure) && figure > 0; };
    return (is_measured(pair.latency) && is_measured(pair.rate)) || (pair.latency == 0 && pair.rate == 0);
}

// The other side gets the figures, too.
void measure(Talk& talk, HostPair& pair, Clock::time_point until) {
    const auto start = Clock::now();
    HostPair found = pair;
    if (start < until) {
        found.latency = latency_of(talk, start + (until - start) / 4);
        if (Clock::now() < until) found.rate = rate_of(talk, until);
    }
    const bool is_whole = found.is_measured() && makes_sense(found) && !talk.is_broken();
    if (is_whole) pair = found;
    talk.send(no_more);
    talk.send(std::bit_cast<std::uint64_t>(pair.latency));
    talk.send(std::bit_cast<std::uint64_t>(pair.rate));
}

void answer(Talk& talk, HostPair& pair) {
    while (const std::uint64_t next = talk.receive()) {
        if (next > most_amount) return;  // no rank says that
        if (next != ping) talk.exchange(next);
        talk.send(next);
    }
    HostPair found = pair;
    found.latency = std::bit_cast<double>(talk.receive());
    found.rate = std::bit_cast<double>(talk.receive());
    if (makes_sense(found) && !talk.is_broken()) pair = found;
}

// Returns the first rank of each host.
std::vector<int> speakers_of(const std::vector<int>& hosts) {
    std::vector<int> speakers;
    for (std::size_t rank = 0; rank < hosts.size(); ++rank)
        if (hosts[rank] == static_cast<int>(speakers.size())) speakers.push_back(static_cast<int>(rank));
    return speakers;
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

std::vector<HostPair> measure_own(transport::Fabric& fabric, const std::vector<int>& speakers, int own,
                                  const transport::Patience& patience, std::chrono::milliseconds time) {
    const auto start = Clock::now();
    std::vector<HostPair> pairs;
    const int count = static_cast<int>(speakers.size());
    for (int round = 0; round < rounds_of(count); ++round) {
        const int other = partner_of(own, count, round);
        if (other < 0) continue;
        Talk talk(fabric, speakers[static_cast<std::size_t>(other)], patience, patience.deadline - start);
        HostPair& pair = pairs.emplace_back(HostPair{std::min(own, other), std::max(own, other)});
        if (own < other)
            measure(talk, pair, start + time);
        else
            answer(talk, pair);
    }
    return pairs;
}

std::vector<HostPair> told_of(const std::vector<HostPair>& own_pairs, int own, int hosts) {
    std::vector<HostPair> told;
    if (hosts <= most_hosts_in_full) {
        const auto is_own = [&](const HostPair& pair) { return pair.a == own; };
        std::copy_if(own_pairs.begin(), own_pairs.end(), std::back_inserter(told), is_own);
    } else if (!own_pairs.empty()) {
        const auto by_rate = [](const HostPair& a, const HostPair& b) { return a.rate < b.rate; };
        told.push_back(*std::max_element(own_pairs.begin(), own_pairs.end(), by_rate));
        for (const HostPair& pair : own_pairs) told[0].latency = std::max(told[0].latency, pair.latency);
    }
    return told;
}

std::optional<LinkFigures> probe_links(transport::Bootstrap& bootstrap, transport::Fabric& fabric,
                                       const std::vector<int>& hosts, const transport::Patience& patience,
                                       std::chrono::milliseconds time) {
    const auto longest_silence =
        std::chrono::ceil<std::chrono::milliseconds>(patience.deadline - Clock::now());
    bootstrap.all_gather("", longest_silence);  // so that waiting for a late rank takes none of the time
    const transport::Patience from_here{Clock::now() + longest_silence, patience.abandoned};
    const std::vector<int> speakers = speakers_of(hosts);
    const int own = hosts[static_cast<std::size_t>(bootstrap.rank())];
    std::vector<HostPair> told;
    if (speakers[static_cast<std::size_t>(own)] == bootstrap.rank())
        told = told_of(measure_own(fabric, speakers, own, from_here, time), own,
                       static_cast<int>(speakers.size()));
    std::vector<HostPair> pairs;
    for (const std::string& text : bootstrap.all_gather(text_of(told), longest_silence + time))
        if (const auto theirs = read_pairs(text)) pairs.insert(pairs.end(), theirs->begin(), theirs->end());
    if (pairs.empty()) return std::nullopt;
    return LinkFigures(hosts, std::move(pairs));
}

double LinkFigures::rate_of(int host) const {
    double rate = 0;
    for (const HostPair& pair : *pairs)
        if (pair.a == host || pair.b == host) rate = std::max(rate, pair.rate);
    return rate;
}

LinkFigures LinkFigures::of(const std::vector<int>& ranks) const {
    LinkFigures some = *this;
    some.hosts.clear();
    for (const int rank : ranks) some.hosts.push_back(hosts.at(static_cast<std::size_t>(rank)));
    return some;
}

namespace {

// Returns "3+2h" if the ranks are numbered host by host; otherwise "". hosts: by rank.
std::string divided_among(const std::vector<int>& hosts) {
    std::vector<std::size_t> counts;
    std::set<int> seen;
    for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
        if (rank == 0 || hosts[rank] != hosts[rank - 1]) {
            if (!seen.insert(hosts[rank]).second) return "";
            counts.push_back(0);
        }
        ++counts.back();
    }
    return fmt::format("{}h", fmt::join(counts, "+"));
}

}  // namespace

std::string LinkFigures::topology(const std::string& topology) const {
    std::map<int, int> ranks_of;  // by host
    for (const int host : hosts) ++ranks_of[host];
    const std::string divided = divided_among(hosts);
    const bool has_hosts = topology.ends_with('h') || !divided.empty();
    double slowest = 0, latency = 0;
    for (const auto& [host, count] : ranks_of) {
        // Where ranks are not numbered host by host, each of them is an end of its own.
        const double rate = rate_of(host) / (has_hosts ? 1 : count);
        if (rate <= 0) return "";
        slowest = slowest == 0 ? rate : std::min(slowest, rate);
    }
    for (const HostPair& pair : *pairs)
        if (ranks_of.contains(pair.a) && ranks_of.contains(pair.b)) latency = std::max(latency, pair.latency);
    if (ranks_of.size() < 2 || latency <= 0) return "";
    const std::string whole = topology.ends_with('h') ? topology : divided.empty() ? topology + "h" : divided;
    return fmt::format("{}@{:g}MB/s,{:g}us", whole, rounded(slowest) / 1e6, rounded(latency) * 1e6);
}

std::string LinkFigures::text() const {
    const std::set<int> here(hosts.begin(), hosts.end());
    std::vector<HostPair> measured, others;
    for (const HostPair& pair : *pairs)
        if (here.contains(pair.a) && here.contains(pair.b))
            (pair.is_measured() ? measured : others).push_back(pair);
    const auto counted = [](const std::vector<HostPair>& some) {
        return fmt::format("{} pair{}", some.size(), some.size() == 1 ? "" : "s");
    };
    std::string text = counted(measured) + " of hosts";
    if (!measured.empty()) {
        const auto by_rate = [](const HostPair& a, const HostPair& b) { return a.rate < b.rate; };
        const auto by_latency = [](const HostPair& a, const HostPair& b) { return a.latency < b.latency; };
        const auto [slowest, fastest] = std::minmax_element(measured.begin(), measured.end(), by_rate);
        const auto [nearest, farthest] = std::minmax_element(measured.begin(), measured.end(), by_latency);
        text += fmt::format(": {:.3g} to {:.3g} MB/s (slowest: hosts {} and {}), {:.3g} to {:.3g} us",
                            slowest->rate / 1e6, fastest->rate / 1e6, slowest->a, slowest->b,
                            nearest->latency * 1e6, farthest->latency * 1e6);
    }
    if (!others.empty())
        text += fmt::format("; not measured: {} (hosts {} and {}{})", counted(others), others[0].a,
                            others[0].b, others.size() > 1 ? ", ..." : "");
    return text;
}

std::string text_of(const std::vector<HostPair>& pairs) {
    std::string text;
    for (const HostPair& pair : pairs)
        text += fmt::format("{} {} {:.4g} {:.4g}\n", pair.a, pair.b, pair.latency, pair.rate);
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
        if (pair.a < 0 || pair.a >= pair.b || !makes_sense(pair)) return std::nullopt;
        pairs.push_back(pair);
    }
    return pairs;
}

}  // namespace hocket::engine
