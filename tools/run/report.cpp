#include "tools/run/report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "runtime/transport/net/texts.hpp"

namespace hocket::tools {
namespace {

using record::Collective;
using record::Message;
using record::Recording;

constexpr std::size_t most_lines = 16;  // about ranks in the same operation

std::string seconds(std::int64_t us) {
    return fmt::format("{:.1f} s", static_cast<double>(std::max<std::int64_t>(us, 0)) * 1e-6);
}

bool is_in_flight(const record::Times& times) {
    return !times.ended && times.place;
}

// Returns the operation that a rank is in: the oldest one in flight.
const Collective* current(const Recording& recording) {
    const auto found = std::ranges::find_if(recording.collectives, is_in_flight, &Collective::times);
    return found == recording.collectives.end() ? nullptr : &*found;
}

const Collective* find(const Recording& recording, std::uint64_t number) {
    const auto found = std::ranges::find(recording.collectives, number, &Collective::number);
    return found == recording.collectives.end() ? nullptr : &*found;
}

// Describes the properties that must be equal on all ranks.
std::string text_of(const Collective& one) {
    return record::describe(one.label, one.number, one.count);
}

std::string first_line(const std::string& text) {
    return text.substr(0, text.find('\n'));
}

// One communicator: the recordings of its ranks.
class Analysis {
  public:
    // all: the recordings of this communicator and the others.
    Analysis(const std::map<int, const Recording*>& by_rank, const std::vector<Recording>& all,
             const EndingOf& ending_of)
        : by_rank_(by_rank), all_(all), ending_of_(ending_of) {
        for (const auto& [rank, recording] : by_rank_) {
            if (!tells_how_it_stood(*recording)) continue;
            known_.insert(rank);
            if (const Collective* one = current(*recording)) numbers_.insert(one->number);
            if (recording->lost >= 0) lost_.insert(recording->lost);
        }
    }

    std::string text() {
        add_header();
        add_failures();
        add_absent();
        add_difference();
        for (const std::uint64_t number : numbers_) add_operation(number);
        add_messages();
        add_end_of_waiting();
        if (!known_.empty() && numbers_.empty() && !has_messages_)
            line("  no rank is in an operation{}", last_operations());
        return std::move(text_);
    }

  private:
    template <typename... Args>
    void line(fmt::format_string<Args...> format, Args&&... args) {
        text_ += fmt::format(format, std::forward<Args>(args)...) + "\n";
    }

    const record::Origin& origin() const { return by_rank_.begin()->second->origin; }
    int size() const { return origin().size; }
    std::string ending(int rank) const {
        return ending_of_(origin().job_ranks[static_cast<std::size_t>(rank)]);
    }
    // Returns false for the recording of a rank that has ended if it answers an earlier request, or is from
    // when it joined: it does not show the rank's last state.
    bool tells_how_it_stood(const Recording& recording) const {
        if (recording.reason == "failure" || ending(recording.origin.rank).empty()) return true;
        const auto newest = std::ranges::max_element(all_, {}, &Recording::written);
        return recording.reason == "request" && recording.request == newest->request;
    }
    bool is_known(int rank) const { return known_.contains(rank); }

    void add_header() {
        const record::Origin& own = origin();
        std::vector<int> usual;
        for (int rank = 0; rank < size(); ++rank) usual.push_back(rank);
        line("communicator of {} rank{} ({}, {}){}", size(), size() == 1 ? "" : "s", own.topology,
             own.provider,
             own.job_ranks == usual
                 ? ""
                 : fmt::format(", in the job {} in this order", fmt::join(own.job_ranks, ", ")));
    }

    void add_failures() {
        std::map<std::string, std::vector<int>> ranks_by_failure;
        for (const auto& [rank, recording] : by_rank_)
            if (!recording->failure.empty()) ranks_by_failure[first_line(recording->failure)].push_back(rank);
        for (const auto& [failure, ranks] : ranks_by_failure)
            line("  failed on {}: {}", transport::all_ranks_text(ranks), failure);
    }

    void add_absent() {
        std::map<std::string, std::vector<int>> ranks_by_reason;
        for (int rank = 0; rank < size(); ++rank) {
            const std::string how = ending(rank);
            if (!is_known(rank) && !how.empty())
                ranks_by_reason[how].push_back(rank);
            else if (!by_rank_.contains(rank))
                ranks_by_reason["has no recording (it has left the communicator, or is on another host)"]
                    .push_back(rank);
            else if (!has_answered(rank))
                ranks_by_reason["did not answer (stopped, or stuck in the kernel?)"].push_back(rank);
        }
        for (const auto& [reason, ranks] : ranks_by_reason)
            line("  {} {}", transport::all_ranks_text(ranks), reason);
    }

    bool has_answered(int rank) const { return by_rank_.at(rank)->reason != "joined"; }

    // Adds the first operation in which the ranks differ.
    void add_difference() {
        std::map<std::uint64_t, std::map<std::string, std::vector<int>>> ranks_by_text;
        for (const auto& [rank, recording] : by_rank_)
            for (const Collective& one : recording->collectives)
                ranks_by_text[one.number][text_of(one)].push_back(rank);
        for (const auto& [number, texts] : ranks_by_text) {
            if (texts.size() == 1) continue;
            line("  the ranks have started different operations as #{}:", number);
            for (const auto& [what, ranks] : texts)
                line("    {}: {}", transport::all_ranks_text(ranks), what);
            return;
        }
    }

    void add_operation(std::uint64_t number) {
        std::vector<int> in_it, behind;
        std::vector<int> not_begun;
        const Collective* any = nullptr;
        for (const auto& [rank, recording] : by_rank_) {
            if (!is_known(rank) || !has_answered(rank)) continue;
            const Collective* one = current(*recording);
            if (one != nullptr && one->number == number) {
                in_it.push_back(rank);
                any = one;
            } else if (one != nullptr && one->number < number) {
                behind.push_back(rank);
            } else if (recording->started <= number) {
                not_begun.push_back(rank);
            }
        }
        if (any == nullptr) return;
        line("  {}", text_of(*any));
        for (const int rank : not_begun) line("    rank {} HAS NOT BEGUN it{}", rank, last_of(rank));
        if (!behind.empty()) line("    {} in an earlier one", is_are(behind));
        for (std::size_t i = 0; i < in_it.size() && i < most_lines; ++i) add_place(in_it[i], number);
        if (in_it.size() > most_lines) line("    and {} other ranks are in it", in_it.size() - most_lines);
    }

    static std::string is_are(const std::vector<int>& ranks) {
        return transport::all_ranks_text(ranks) + (ranks.size() == 1 ? " is" : " are");
    }

    void add_place(int rank, std::uint64_t number) {
        const Recording& recording = *by_rank_.at(rank);
        const Collective& one = *find(recording, number);
        const record::Place& place = *one.times.place;
        line("    rank {}, since {}: {}", rank, seconds(recording.written - one.times.started), place.doing);
        if (recording.is_idle && lost_.empty())
            line(
                "      and no thread is in a call of this communicator that would move it "
                "(HOCKET_PROGRESS=thread does){}",
                elsewhere(recording));
        if (place.steps > 0)
            line("      step {} of {} at {}: {}", place.step, place.steps, place.location, place.source);
    }

    // Returns a text like "; it ended all_reduce #152 (...) 3.2 s ago".
    std::string last_of(int rank) const {
        const Recording& recording = *by_rank_.at(rank);
        if (const std::string other = elsewhere(recording); !other.empty()) return other;
        if (recording.collectives.empty()) return ", nor any other";
        const Collective& last = recording.collectives.back();
        if (!last.times.ended) return "";
        return fmt::format("; it ended {} {} ago", text_of(last),
                           seconds(recording.written - *last.times.ended));
    }

    // Returns a text like "; it is in barrier #3 (4 ranks) of the communicator of ranks 0-3".
    std::string elsewhere(const Recording& here) const {
        for (const Recording& other : all_) {
            if (other.origin.pid != here.origin.pid || other.origin.host != here.origin.host ||
                other.origin.communicator == here.origin.communicator || other.is_idle)
                continue;
            if (const Collective* one = current(other))
                return fmt::format("; it is in {} of the communicator of {}", text_of(*one),
                                   transport::all_ranks_text(other.origin.job_ranks));
        }
        return "";
    }

    std::string last_operations() const {
        std::uint64_t fewest = UINT64_MAX, most = 0;
        for (const int rank : known_) {
            fewest = std::min(fewest, by_rank_.at(rank)->started);
            most = std::max(most, by_rank_.at(rank)->started);
        }
        return fewest == most ? fmt::format("; each has ended {}", most)
                              : fmt::format("; they have ended {} to {}", fewest, most);
    }

    void add_messages() {
        std::size_t shown = 0;
        for (const auto& [rank, recording] : by_rank_)
            for (const Message& one : recording->messages) {
                if (!is_in_flight(one.times) || !is_known(rank)) continue;
                has_messages_ = true;
                if (++shown > most_lines) continue;
                line("  rank {}, since {}: {} of {} bytes {} {}, tag {}: {}", rank,
                     seconds(recording->written - one.times.started), one.sends ? "send" : "receive",
                     one.bytes, one.sends ? "to" : "from",
                     one.peer < 0 ? "any rank" : fmt::format("rank {}", one.peer), one.tag,
                     one.times.place->doing);
            }
        if (shown > most_lines) line("  and {} other sends and receives", shown - most_lines);
    }

    // Returns the rank for which this one waits in its current operation, or else in a message.
    std::optional<int> awaited_by(int rank) const {
        const auto found = by_rank_.find(rank);
        if (found == by_rank_.end() || !is_known(rank)) return std::nullopt;
        const Collective* one = current(*found->second);
        if (one != nullptr && one->times.place->waits_for >= 0) return one->times.place->waits_for;
        for (const Message& message : found->second->messages)
            if (is_in_flight(message.times) && message.peer >= 0) return message.peer;
        return std::nullopt;
    }

    // Follows the waiting from each rank to one that waits for none, or around a cycle. After a loss the
    // ranks stop one after another, so only the waiting that ends at a lost rank says something.
    void add_end_of_waiting() {
        std::map<int, std::vector<int>> waiting_by_end;
        for (int rank = 0; rank < size(); ++rank) {
            std::set<int> passed;
            int at = rank;
            while (passed.insert(at).second)
                if (const auto next = awaited_by(at)) at = *next;
            if (at != rank && !awaited_by(at) && (lost_.empty() || lost_.contains(at)))
                waiting_by_end[at].push_back(rank);
        }
        for (const auto& [end, ranks] : waiting_by_end)
            line("  so {} wait{} in the end for rank {}", transport::all_ranks_text(ranks),
                 ranks.size() == 1 ? "s" : "", end);
    }

    const std::map<int, const Recording*>& by_rank_;
    const std::vector<Recording>& all_;
    const EndingOf& ending_of_;
    std::set<int> known_;
    std::set<int> lost_;               // ranks that others have lost
    std::set<std::uint64_t> numbers_;  // of the operations that ranks are in
    bool has_messages_ = false;
    std::string text_;
};

}  // namespace

std::map<int, int> losses(const std::vector<Recording>& recordings) {
    std::map<int, int> lost_by_rank;
    for (const Recording& one : recordings)
        if (one.lost >= 0 && one.lost != one.origin.rank)
            lost_by_rank[one.origin.job_rank()] = one.origin.job_ranks[static_cast<std::size_t>(one.lost)];
    return lost_by_rank;
}

std::string report_text(const std::vector<Recording>& recordings, const EndingOf& ending_of) {
    // The job's own communicator comes first, then groups.
    std::map<std::string, std::map<int, const Recording*>> by_communicator;
    for (const Recording& one : recordings) {
        const Recording*& known = by_communicator[one.origin.communicator][one.origin.rank];
        if (known == nullptr || known->written < one.written) known = &one;
    }
    std::vector<const std::map<int, const Recording*>*> order;
    for (const auto& [id, by_rank] : by_communicator) order.push_back(&by_rank);
    std::ranges::stable_sort(order, std::greater(),
                             [](const auto* by_rank) { return by_rank->begin()->second->origin.size; });
    std::string text;
    for (const auto* by_rank : order) text += Analysis(*by_rank, recordings, ending_of).text();
    return text.empty() ? "no rank has joined a communicator\n" : text;
}

}  // namespace hocket::tools
