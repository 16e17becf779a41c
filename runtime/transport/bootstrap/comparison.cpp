#include "runtime/transport/bootstrap/comparison.hpp"

#include <algorithm>

#include "runtime/transport/net/frame.hpp"

namespace hocket::transport {
namespace {

using namespace std::chrono_literals;

constexpr auto ask_again_after = 150ms;
constexpr auto others_tell_within = 20ms;
constexpr std::size_t most_late = 64;
constexpr std::size_t most_kinds = 16;  // of operations that are named

// The operation from which two ranks differ.
struct Parting {
    std::uint64_t number;
    bool is_first;  // they agree on the previous one, or there is none
};

// Returns where two ranks begin to differ, as far as their accounts show; nullopt if they show no difference.
std::optional<Parting> parting_of(const Account& one, const Account& other) {
    const std::uint64_t known_from = std::max(one.first(), other.first());
    std::uint64_t number = std::min(one.number, other.number);
    const auto differs_in = [&](std::uint64_t which) {
        return one.checksums[which - one.first()] != other.checksums[which - other.first()];
    };
    if (number < known_from || !differs_in(number)) return std::nullopt;
    while (number > known_from && differs_in(number - 1)) --number;
    return Parting{number, number == 0 || number > known_from};
}

std::string shortened(std::string_view text) {
    return std::string(text.substr(0, longest_text));
}

}  // namespace

void write(PayloadWriter& payload, const Idleness& idleness) {
    payload.u32(static_cast<std::uint32_t>(idleness.kind)).u32(idleness.waits_elsewhere ? 1 : 0);
    payload.text_of(idleness.why.substr(0, longest_why));
}

Idleness read_idleness(PayloadReader& reader) {
    Idleness idleness;
    const std::uint32_t kind = reader.u32();
    if (kind > static_cast<std::uint32_t>(Idleness::Kind::not_attended))
        throw ProtocolError("it reported an unknown kind of idleness");
    idleness.kind = static_cast<Idleness::Kind>(kind);
    idleness.waits_elsewhere = reader.u32() != 0;
    idleness.why = std::string(reader.text_of().substr(0, longest_why));
    return idleness;
}

std::string encode(const Account& account) {
    PayloadWriter payload;
    payload.u64(account.asked).u64(account.number);
    payload.u32(static_cast<std::uint32_t>(account.checksums.size()));
    for (const std::uint32_t checksum : account.checksums) payload.u32(checksum);
    for (const std::string* text : {&account.operation, &account.details}) payload.text_of(shortened(*text));
    write(payload, account.idleness);
    return payload.text();
}

Account decode_account(std::string_view payload) {
    PayloadReader reader(payload);
    Account account;
    account.asked = reader.u64();
    account.number = reader.u64();
    const std::uint64_t checksums = reader.u32();
    if (checksums > most_checksums || checksums > account.number + 1 || account.number > account.asked ||
        account.number == UINT64_MAX || (checksums == 0 && account.number != 0))
        throw ProtocolError("it reported operations that cannot exist");
    for (std::uint64_t i = 0; i < checksums; ++i) account.checksums.push_back(reader.u32());
    for (std::string* text : {&account.operation, &account.details}) *text = shortened(reader.text_of());
    account.idleness = read_idleness(reader);
    reader.finish();
    return account;
}

std::string encode(const Difference& difference) {
    PayloadWriter payload;
    payload.u64(difference.number).u32(difference.may_be_earlier ? 1 : 0);
    for (const Started& started : difference.started) {
        payload.u32(static_cast<std::uint32_t>(started.ranks.size()));
        for (const int rank : started.ranks) payload.u32(static_cast<std::uint32_t>(rank));
        payload.text_of(started.operation).text_of(started.details);
    }
    return payload.text();
}

Difference decode_difference(std::string_view payload, int ranks) {
    PayloadReader reader(payload);
    Difference difference;
    difference.number = reader.u64();
    difference.may_be_earlier = reader.u32() != 0;
    while (!reader.is_empty()) {
        Started started;
        for (std::uint32_t left = reader.u32(); left > 0; --left) {
            started.ranks.push_back(static_cast<int>(reader.u32()));
            if (started.ranks.back() < 0 || started.ranks.back() >= ranks)
                throw ProtocolError("it named a rank that does not exist");
        }
        started.operation = reader.text_of();
        started.details = reader.text_of();
        if (started.ranks.empty()) throw ProtocolError("it reported a difference without ranks");
        difference.started.push_back(std::move(started));
    }
    if (difference.started.size() < 2)
        throw ProtocolError("it reported a difference, but named fewer than two operations");
    return difference;
}

bool Comparison::note_wait(std::uint64_t number, Clock::time_point now) {
    const auto known = questions_.find(number);
    if (known != questions_.end() && now - known->second.asked < ask_again_after) return false;
    ask(number, now);
    return true;
}

// Records the question; the oldest one makes room.
void Comparison::ask(std::uint64_t number, Clock::time_point now) {
    questions_[number].asked = now;
    if (questions_.size() <= most_questions) return;
    questions_.erase(
        std::ranges::min_element(questions_, {}, [](const auto& question) { return question.second.asked; }));
}

std::optional<std::uint64_t> Comparison::note(int rank, Account account, Clock::time_point now) {
    if (account.checksums.empty()) return std::nullopt;  // a rank that has started nothing does not differ
    const auto question = questions_.find(account.number);
    const bool is_late = question == questions_.end();
    if (is_late && (questions_.empty() || account.number > questions_.rbegin()->first))
        return std::nullopt;  // no rank waits there any more
    Kinds& kinds = is_late ? late_ : question->second.kinds;
    const auto kind = kinds.try_emplace({account.number, account.checksums.back()}, account).first;
    const Account latest = kind->second;
    if (is_late && late_.size() > most_late) late_.erase(late_.begin());
    if (!is_late) question->second.accounts[rank] = std::move(account);
    const auto compare = [&](const Kinds& others) -> std::optional<Parting> {
        for (const auto& [key, told] : others)
            if (const auto parting = parting_of(latest, told)) return parting;
        return std::nullopt;
    };
    if (!is_late)
        if (const auto parting = compare(question->second.kinds)) {
            if (parting->number < latest.number) return ask_again(parting->number, now);
            if (differs_ && *differs_ <= parting->number) return std::nullopt;
            differs_ = parting->number;
            may_be_earlier_ = !parting->is_first;
            if (!due_) due_ = now + others_tell_within;
            return std::nullopt;
        }
    if (const auto parting = compare(late_)) return ask_again(parting->number, now);
    if (is_late)
        for (const auto& [number, asked] : questions_)
            if (const auto parting = compare(asked.kinds)) return ask_again(parting->number, now);
    return std::nullopt;
}

// Returns the number, unless answers to it are still under way.
std::optional<std::uint64_t> Comparison::ask_again(std::uint64_t number, Clock::time_point now) {
    return note_wait(number, now) ? std::optional(number) : std::nullopt;
}

std::optional<Difference> Comparison::difference() const {
    if (!differs_) return std::nullopt;
    const auto question = questions_.find(*differs_);
    if (question == questions_.end()) return std::nullopt;
    Difference difference{*differs_, may_be_earlier_, {}};
    std::map<std::uint32_t, std::size_t> places;
    for (const auto& [rank, account] : question->second.accounts) {
        const auto [place, is_new] = places.emplace(account.checksums.back(), difference.started.size());
        if (is_new) difference.started.push_back({{}, account.operation, account.details});
        difference.started[place->second].ranks.push_back(rank);
    }
    auto& started = difference.started;
    std::ranges::stable_sort(started, std::ranges::greater(),
                             [](const Started& one) { return one.ranks.size(); });
    if (started.size() > most_kinds) {  // the other ranks have started something else
        Started& others = started[most_kinds - 1];
        others.operation = others.details = "";
        for (std::size_t kind = most_kinds; kind < started.size(); ++kind)
            others.ranks.insert(others.ranks.end(), started[kind].ranks.begin(), started[kind].ranks.end());
        std::ranges::sort(others.ranks);
        started.resize(most_kinds);
    }
    return difference;
}

}  // namespace hocket::transport
