// A rank's record of a communicator at one moment, as it is written to a file: the rank, its last operations,
// and the positions of those in flight. Its readers (hocket-run, people, scripts) need nothing else.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/engine/record/label.hpp"

namespace hocket::record {

// Identifies a rank, its communicator and its process.
struct Origin {
    std::string communicator;    // the same text on all its ranks, and unique to the communicator
    int rank = 0, size = 1;      // in the communicator
    std::vector<int> job_ranks;  // by rank: the process's number in the job
    std::string topology, provider;
    std::string host;
    int pid = 0, process_group = 0;

    int job_rank() const { return job_ranks[static_cast<std::size_t>(rank)]; }
};

// Returns "rank 2", or "rank 0 of the group of ranks 2, 5" if the ranks of the communicator are not numbered
// as in the job.
std::string name_of(const Origin& origin);
// Returns, for example, "the communicator of ranks 0 to 3" or "the group of ranks 2, 5".
std::string name_of_communicator(const Origin& origin);

// The position of an operation in flight.
struct Place {
    std::string doing;                // "waiting for rank 3, before x[1/4, 1/2) (elements 250 to 499)"
    int waits_for = -1;               // a rank of the communicator; -1: none
    std::size_t step = 0, steps = 0;  // counted from 1; 0: no steps
    std::string location, source;     // "schedules/ring.sched:6", "x[r - s] : r +> r + 1"; "" without steps
};

// Times are microseconds since 1970, by the clock of the rank's host.
struct Times {
    std::int64_t started = 0;
    std::optional<std::int64_t> ended = std::nullopt;  // nullopt: in flight
    std::string status;                                // "in flight", "success", "peer lost" ...
    std::optional<Place> place = std::nullopt;         // if in flight
};

struct Collective {
    Label label;
    std::uint64_t number = 0, count = 0;
    Times times;
};

struct Message {
    bool sends = false;
    int peer = 0, tag = 0;  // peer -1: any rank
    std::uint64_t bytes = 0;
    Times times;
};

struct RecordingOptions {
    std::string folder;  // "": a file is written only if the program asks for one
    int signal = 0;      // as for Listener
};

struct Recording {
    Origin origin;
    std::string reason;                   // "failure", "signal", "request", "call"
    std::string request;                  // the request's text: see listener.hpp
    std::int64_t written = 0;             // as in Times
    std::string failure;                  // the communicator's failure; "": none
    int lost = -1;                        // the first rank of the communicator that was lost; -1: none
    std::uint64_t started = 0;            // number of all collectives
    bool is_idle = false;                 // some are in flight, and no thread makes progress on them
    std::vector<Collective> collectives;  // oldest first
    std::vector<Message> messages;        // oldest first
};

std::string to_json(const Recording& recording);
// Returns nullopt if the text is not a recording, or is incomplete.
std::optional<Recording> parse_recording(const std::string& text);

// Writes the file atomically: a reader sees the old file or the new one. Throws hocket::Error(io).
void save(const Recording& recording, const std::string& path);

}  // namespace hocket::record
