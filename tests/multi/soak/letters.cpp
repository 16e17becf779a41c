#include "tests/multi/soak/letters.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace hocket::soak {
namespace {

constexpr std::uint64_t most_letters = 40;
constexpr std::uint64_t tags = 4;  // few, so that many letters have the same

}  // namespace

Letters::Letters(Chance& chance, hkt_comm* comm, std::size_t most_bytes) : comm_(comm) {
    const int rank = hkt_comm_rank(comm);
    const auto ranks = static_cast<std::uint64_t>(hkt_comm_size(comm));
    const std::uint64_t number = chance.between(1, most_letters);
    for (std::uint64_t i = 0; i < number; ++i) {
        const int from = static_cast<int>(chance.below(ranks)), to = static_cast<int>(chance.below(ranks));
        const Letter letter{from, to, static_cast<int>(chance.below(tags)), chance.number(),
                            chance.log_uniform(most_bytes / most_letters)};
        if (from == rank) sends_.push_back(letter);
        if (to == rank) receives_.push_back(letter);
    }
}

std::string Letters::Letter::text() const {
    return fmt::format("the message of {} bytes from {} to {}, tag {}", bytes, from, to, tag);
}

void Letters::Letter::fill() {
    Chance chance{contents};
    for (unsigned char& byte : buffer) byte = static_cast<unsigned char>(chance.number());
}

std::string Letters::Letter::fault() const {
    Chance chance{contents};
    for (std::size_t i = 0; i < bytes; ++i)
        if (buffer[i] != static_cast<unsigned char>(chance.number()))
            return fmt::format("{}: byte {} is wrong", text(), i);
    return "";
}

void Letters::start(Chance& own, const Check& check) {
    for (std::size_t s = 0, r = 0; s + r < sends_.size() + receives_.size();) {
        const bool sends = r == receives_.size() || (s < sends_.size() && own.one_in(2));
        Letter& letter = sends ? sends_[s++] : receives_[r++];
        letter.buffer.resize(letter.bytes);
        if (sends) {
            letter.fill();
            check(hkt_send(letter.buffer.data(), letter.bytes, HKT_UINT8, letter.to, letter.tag, comm_,
                           &letter.request),
                  "sending " + letter.text());
        } else {
            check(hkt_recv(letter.buffer.data(), letter.bytes, HKT_UINT8, letter.from, letter.tag, comm_,
                           &letter.request),
                  "receiving " + letter.text());
        }
    }
}

std::string Letters::finish(Chance& own, const Check& check) {
    std::vector<Letter*> all;
    for (Letter& letter : sends_) all.push_back(&letter);
    for (Letter& letter : receives_) all.push_back(&letter);
    own.shuffle(all);
    for (Letter* letter : all) check(hkt_wait(letter->request), letter->text());
    for (const Letter* letter : all)
        if (const std::string fault = letter->fault(); !fault.empty()) return fault;
    return "";
}

}  // namespace hocket::soak
