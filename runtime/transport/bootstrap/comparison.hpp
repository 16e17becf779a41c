// Finds that ranks have started different operations, though no message between them shows it.
//
// A rank that has waited for a while in an operation tells rank 0 its number. Rank 0 asks all ranks what they
// have started as that number, and compares: each answers with a checksum of all that it has started up to
// there. A rank that has not come so far answers with its latest: being late is no difference, but it may
// have differed before.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hocket::transport {

class PayloadReader;
class PayloadWriter;

// Why a rank does not move an operation that others wait in.
struct Idleness {
    enum class Kind : std::uint32_t {
        none,          // it moves it, or waits in an earlier one itself
        not_started,   // it has not come so far
        not_attended,  // it has started it; operations move during calls only, and no thread is in one
    };
    Kind kind = Kind::none;
    bool waits_elsewhere = false;  // a thread of its is in a call of another communicator
    std::string why;               // goes on after "rank 1 "
};

// What a rank says when it is asked about an operation.
struct Account {
    std::uint64_t asked = 0;   // the operation's number
    std::uint64_t number = 0;  // the same, or that of the latest one, if the rank has not come so far
    // Of what it has started up to the last operations that end with `number`; none if it has started none.
    std::vector<std::uint32_t> checksums;
    std::string operation;  // in words; "": it does not remember
    std::string details;    // what tells apart operations that have the same words
    Idleness idleness;      // in the operation that was asked about

    std::uint64_t first() const { return number + 1 - checksums.size(); }  // that has a checksum
};

inline constexpr std::size_t most_checksums = 64;  // in an account
inline constexpr std::size_t longest_text = 1024;  // of each of its texts
inline constexpr std::size_t most_questions = 16;  // whose answers are kept
inline constexpr std::size_t longest_why = 256;    // of an Idleness: eight of them fit into a report
inline constexpr std::size_t most_idle = 8;        // ranks that others are told of, for one operation

// Ranks that have started the same, one of those that did not.
struct Started {
    std::vector<int> ranks;
    std::string operation, details;
};

struct Difference {
    std::uint64_t number = 0;
    bool may_be_earlier = false;   // as far as the ranks remember, they differ
    std::vector<Started> started;  // two or more; the most ranks come first
};

std::string encode(const Account& account);
std::string encode(const Difference& difference);
void write(PayloadWriter& payload, const Idleness& idleness);
// These throw ProtocolError.
Idleness read_idleness(PayloadReader& reader);
Account decode_account(std::string_view payload);
Difference decode_difference(std::string_view payload, int ranks);

// When a rank that waits says so: not at once, as most waits are short, and then again and again, for a rank
// that comes late may have started something else.
class Impatience {
  public:
    using Clock = std::chrono::steady_clock;

    explicit Impatience(Clock::time_point waits_since) { begin(waits_since); }
    void begin(Clock::time_point waits_since) {
        patience_ = shortest;
        due_ = waits_since + patience_;
    }
    Clock::time_point due() const { return due_; }
    bool is_due(Clock::time_point now) {
        if (now < due_) return false;
        patience_ = std::min(2 * patience_, longest);
        due_ = now + patience_;
        return true;
    }

    static constexpr Clock::duration shortest = std::chrono::milliseconds(200),
                                     longest = std::chrono::milliseconds(800);

  private:
    Clock::duration patience_{};
    Clock::time_point due_{};
};

// Rank 0's. It keeps what was told of the last few numbers that were asked about. Not thread-safe.
class Comparison {
  public:
    using Clock = std::chrono::steady_clock;

    // A rank waits in this operation. Whether all ranks are to be asked about it: not again and again, where
    // many ranks wait.
    bool note_wait(std::uint64_t number, Clock::time_point now);

    // Returns the number that all ranks are to be asked about next, if the account shows that they differ in
    // an earlier one.
    std::optional<std::uint64_t> note(int rank, Account account, Clock::time_point now);

    // When difference() is to be called: shortly after two ranks were seen to differ, so that the others have
    // told, too.
    std::optional<Clock::time_point> due() const { return due_; }
    std::optional<Difference> difference() const;

  private:
    // One account of each kind: ranks whose last checksums are the same have started the same.
    using Kinds = std::map<std::pair<std::uint64_t, std::uint32_t>, Account>;
    struct Question {
        Clock::time_point asked;
        std::map<int, Account> accounts;  // by rank
        Kinds kinds;
    };

    void ask(std::uint64_t number, Clock::time_point now);
    std::optional<std::uint64_t> ask_again(std::uint64_t number, Clock::time_point now);

    std::map<std::uint64_t, Question> questions_;
    Kinds late_;                            // of numbers that nobody has asked about
    std::optional<std::uint64_t> differs_;  // the first number in which ranks are known to differ
    bool may_be_earlier_ = false;
    std::optional<Clock::time_point> due_;
};

}  // namespace hocket::transport
