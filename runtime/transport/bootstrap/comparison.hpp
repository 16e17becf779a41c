// Detects that ranks have started different operations even if no message between them shows it.
//
// A rank that has waited for a while in an operation tells rank 0 its number. Rank 0 asks all ranks what they
// have started as that number, and compares the answers: checksums of all operations that each has started up
// to that number. A rank that has not come so far answers for its latest operation: being late is no
// difference, but the rank may have differed before.
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

// The reason why a rank makes no progress on an operation in which others wait.
struct Idleness {
    enum class Kind : std::uint32_t {
        none,          // it makes progress, or itself waits in an earlier operation
        not_started,   // it has not started the operation yet
        not_attended,  // it has started it; operations progress only during calls, and no thread is in one
    };
    Kind kind = Kind::none;
    bool waits_elsewhere = false;  // one of its threads is in a call of another communicator
    std::string why;               // continues the text "rank 1 "
};

// A rank's answer to a question about an operation.
struct Account {
    std::uint64_t asked = 0;   // the operation's number
    std::uint64_t number = 0;  // the same, or that of its latest operation, if the rank has not come so far
    // After each of its last operations, up to `number`; empty if it has started none.
    std::vector<std::uint32_t> checksums;
    std::string operation;  // in words; "": no longer known
    std::string details;    // distinguishes operations with the same words
    Idleness idleness;      // in the operation asked about

    std::uint64_t first() const { return number + 1 - checksums.size(); }  // first number with a checksum
};

inline constexpr std::size_t most_checksums = 64;  // in an account
inline constexpr std::size_t longest_text = 1024;  // of each of its texts
inline constexpr std::size_t most_questions = 16;  // questions whose answers are kept
inline constexpr std::size_t longest_why = 256;    // of an Idleness: eight of them fit into a report
inline constexpr std::size_t most_idle = 8;        // ranks reported to others, for one operation

// Ranks that have started the same operation, in one of several such groups.
struct Started {
    std::vector<int> ranks;
    std::string operation, details;
};

struct Difference {
    std::uint64_t number = 0;
    bool may_be_earlier = false;   // they differ in the earliest operation that the ranks remember
    std::vector<Started> started;  // two or more; the most ranks come first
};

std::string encode(const Account& account);
std::string encode(const Difference& difference);
void write(PayloadWriter& payload, const Idleness& idleness);
// These throw ProtocolError.
Idleness read_idleness(PayloadReader& reader);
Account decode_account(std::string_view payload);
Difference decode_difference(std::string_view payload, int ranks);

// The times at which a waiting rank reports its wait: not at once, as most waits are short, and then
// repeatedly, because a rank that comes late may have started something else.
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

// Used by rank 0. It keeps the answers about the last few numbers that were asked about. Not thread-safe.
class Comparison {
  public:
    using Clock = std::chrono::steady_clock;

    // Notes that a rank waits in this operation. Returns true if all ranks are to be asked about it: only now
    // and then, even where many ranks wait.
    bool note_wait(std::uint64_t number, Clock::time_point now);

    // Notes an answer. Returns the number that all ranks are to be asked about next, if the account shows
    // that they differ in an earlier one.
    std::optional<std::uint64_t> note(int rank, Account account, Clock::time_point now);

    // Returns when to call difference(): shortly after two ranks were seen to differ, so that the others have
    // answered, too.
    std::optional<Clock::time_point> due() const { return due_; }
    std::optional<Difference> difference() const;

  private:
    // One account of each kind: ranks with the same last checksum have started the same.
    using Kinds = std::map<std::pair<std::uint64_t, std::uint32_t>, Account>;
    struct Question {
        Clock::time_point asked;
        std::map<int, Account> accounts;  // by rank
        Kinds kinds;
    };

    void ask(std::uint64_t number, Clock::time_point now);
    std::optional<std::uint64_t> ask_again(std::uint64_t number, Clock::time_point now);

    std::map<std::uint64_t, Question> questions_;
    Kinds late_;                            // of numbers that were not asked about
    std::optional<std::uint64_t> differs_;  // the first number in which ranks are known to differ
    bool may_be_earlier_ = false;
    std::optional<Clock::time_point> due_;
};

}  // namespace hocket::transport
