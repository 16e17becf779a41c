// The disk level: a folder of segments that several processes share. It tells where a payload lies, and where
// a new one may be written. The caller moves the bytes.
//
//   FOLDER/lock              flock: held while files are created, adopted or evicted. Counts the created
//                            segments; readers check it first to see if others have created any
//   FOLDER/flights.N         one byte for each key that is being loaded, locked (OFD lock) by its loader
//   FOLDER/<identity>.making a segment that is being created, under the lock
//   FOLDER/<identity>.open   a segment that a process is writing; it holds its flock, which the kernel drops
//                            when the last process with the descriptor ends (children of fork have it, too)
//   FOLDER/<identity>.seg    sealed: complete, never written again, except for holes where it is damaged.
//                            A process that has it open holds a shared flock
//
// Each process writes into its own segments (one for small payloads, one for larger ones), and reads those of
// all processes, open ones as far as they have entries. A segment that a dead process left open is adopted:
// its good entries are sealed. Adoption, and the eviction of other datasets' segments, happen when a folder
// is opened and when a segment is created.
//
// A segment takes no more payloads after a write into it has failed. Committed payloads stay, and the segment
// is sealed as soon as its last writer has ended. A segment that cannot be sealed stays open until the end;
// close() tries again, and if that fails, the next process adopts it. After a failed sync, however, the
// disk's contents are unknown. Then the segment is unlinked, its records are forgotten, and flush() reports
// the loss. Files without a valid header are counted, and removed once no process has them open.
//
// The space of damaged records in sealed segments is freed before a segment is created, and when the folder
// is verified or closed. Pages without intact data become holes, and a segment without intact data is
// unlinked. If a process dies during that work, the next one that finds the damage continues it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "runtime/cache/directory/flights.hpp"
#include "runtime/cache/io/files.hpp"
#include "runtime/cache/segments/creation.hpp"
#include "runtime/cache/segments/damage.hpp"
#include "runtime/cache/segments/entry_reader.hpp"
#include "runtime/cache/segments/records.hpp"
#include "runtime/cache/segments/segment.hpp"
#include "runtime/cache/segments/segment_file.hpp"

namespace hocket::cache {

inline constexpr std::size_t most_findings = 100;  // descriptions of damage that are kept

struct DirectoryOptions {
    std::string folder;
    // Of all files in the folder, of all datasets; 0: limited only by the disk.
    std::uint64_t limit_bytes = 0;
    Digest dataset{};
    std::string label;  // of the dataset; see SegmentHeader
    bool writable = true;
    std::optional<std::uint64_t> source_samples = std::nullopt;  // see SegmentHeader
};

// Counters since the folder was opened, and its current state.
struct DirectoryStats {
    std::uint64_t segments = 0, records = 0, record_bytes = 0;  // of this dataset, as far as readable
    std::uint64_t used_bytes = 0, limit_bytes = 0;              // of the folder, over all datasets
    std::uint64_t written = 0, written_bytes = 0, not_written = 0;
    std::uint64_t corrupt = 0;           // records, entries and segments that failed their checksums
    std::uint64_t adopted = 0;           // segments of dead processes
    std::uint64_t evicted_segments = 0;  // of other datasets, unlinked to make room
    std::string trouble;                 // why large or small payloads are not written; "": they are written
    std::string damage;                  // describes the damage found, and what became of its space; "": none
};

// The location of a payload. Keeps the file open.
struct Place {
    std::shared_ptr<const Segment> segment;
    int fd;              // for reading
    bool direct;         // fd is O_DIRECT: offset, length and memory must be multiples of unit
    std::uint64_t unit;  // 1 if not direct
    Entry entry;
};

// The space reserved for a new payload: [offset, offset + reserved).
struct Room {
    std::shared_ptr<Segment> segment;
    int fd;
    bool direct;
    std::uint64_t unit;  // reserved and offset are multiples of it; 1 if not direct
    std::uint64_t slot, offset, reserved;
    std::uint64_t key, bytes;
};

// Thread-safe. All calls except find() and forget() may block on the file system.
class Directory {
  public:
    // Creates the folder if it does not exist. Throws hocket::Error(io) if it is not a folder or not
    // readable. A full or read-only disk is not an error: see DirectoryStats::trouble. files must outlive
    // this object and all places.
    Directory(const Files& files, const DirectoryOptions& options);
    ~Directory();  // calls close() if that was not done

    // Returns the location of the key's payload, if known. Looks only at memory.
    std::optional<Place> find(std::uint64_t key) const;

    // Reads what other processes have written since the last call. Cheap if nothing has changed. Files
    // removed by hand are noticed within a tenth of a second.
    void refresh();

    // Returns true if `bytes` are the payload that was written there.
    static bool is_right(const Place& place, std::span<const std::byte> bytes);
    // Forgets a place that cannot be read, or does not hold what it should. The place is counted, and its
    // space is freed later. Changes only memory.
    void forget(const Place& place);

    // Reserves space for a new payload. Does not touch the disk if the current segment has room; else seals
    // that segment and creates another. Returns nothing if the key is here already, or if the limit, the disk
    // or a failure forbids it. The latter counts as not_written, and from then on a segment is created at
    // most once a second. Every room must be passed to commit() or abandon(), once.
    std::optional<Room> reserve(std::uint64_t key, std::uint64_t bytes);
    // Adds the entry of a payload that has been written. From then on this and other processes find it, and
    // it survives this process. Returns false if the entry could not be written. May seal the segment, which
    // waits for the disk.
    bool commit(const Room& room, std::span<const std::byte> payload);
    // Abandons a payload that could not be written (error: a positive errno). The segment takes no more
    // payloads, but keeps what it holds.
    void abandon(const Room& room, int error);

    // Begins a load of the key; at most one load of a key runs at a time, over all processes. Returns false
    // if another process loads it.
    bool begin_flight(std::uint64_t key);
    void end_flight(std::uint64_t key);

    // Makes everything that was committed survive a loss of power. Throws hocket::Error(io) if that cannot be
    // guaranteed, or if something that was committed has been lost since the last flush. Leaves segments
    // open; otherwise a flush after each payload would leave a file for each.
    void flush();
    // Seals all open segments. Afterwards nothing is written; known payloads can still be read. No other call
    // may be running, and all rooms must be committed or abandoned.
    void close();

    struct Verification {
        std::uint64_t segments = 0, records = 0, bytes = 0, bad_segments = 0, bad_records = 0;
        std::vector<std::string> findings;  // the first ones, in words, with file and offset
    };
    // Reads and checks every record known at the start. Forgets bad ones and frees their space. Calls
    // progress(done, all), in bytes, from time to time, which may return false to stop.
    using Progress = std::function<bool(std::uint64_t done, std::uint64_t all)>;
    Verification verify(const Progress& progress);

    std::vector<std::uint64_t> keys() const;
    DirectoryStats stats() const;

  private:
    // A segment of this dataset.
    struct Known {
        std::shared_ptr<Segment> segment;
        // Set if another process writes the segment, until all entries are known.
        std::unique_ptr<EntryReader> reader;
        bool is_settled = false;  // if another process wrote the segment: see Segment::settle
        bool is_counted = false;  // the bad entries of an abandoned segment have been counted
    };
    // The reason why nothing is written, and the time of the next attempt. Thread-safe.
    class Trouble {
      public:
        void set(const std::string& text) {
            const std::scoped_lock lock(mutex_);
            text_ = text;
            next_try_ = std::chrono::steady_clock::now() + std::chrono::seconds(1);
        }
        void clear() {
            const std::scoped_lock lock(mutex_);
            text_.clear();
        }
        std::string text() const {
            const std::scoped_lock lock(mutex_);
            return text_;
        }
        bool may_try() const {
            const std::scoped_lock lock(mutex_);
            return std::chrono::steady_clock::now() >= next_try_;
        }

      private:
        mutable std::mutex mutex_;
        std::string text_;
        std::chrono::steady_clock::time_point next_try_{};
    };
    // The current segment for new payloads of one kind.
    struct Pen {
        std::mutex mutex;  // also held while a segment is created; locked before table_mutex_
        std::shared_ptr<Segment> segment;
        Trouble trouble;
    };

    // In directory.cpp.
    void open_folder();
    void set_trouble(const std::string& text);
    void take(const Adoption& adoption);
    std::vector<std::shared_ptr<Segment>> segments() const;
    std::vector<std::string> findings() const;
    void drop(const Segment& segment);

    // In directory_refresh.cpp. All but the first need refresh_mutex_.
    void look_at_once();
    void list_if_changed();
    void list();
    void open_listed(const SegmentName& name);
    void count_corrupt(const SegmentName& name);
    void drop_gone(const std::vector<SegmentName>& listed);
    void read_entries(Known& known);

    // In directory_write.cpp.
    std::optional<Room> begin_room(const std::shared_ptr<Segment>& segment, std::uint64_t key,
                                   std::uint64_t bytes);
    Pen& pen_of(std::uint64_t bytes);
    Pen& pen_of(const Segment& segment);
    std::shared_ptr<Segment> create(Pen& pen, std::uint64_t bytes);
    void give_up(const std::shared_ptr<Segment>& segment);
    void end_room(const Room& room);
    void seal(const std::shared_ptr<Segment>& segment);
    void lose(const Segment& segment, int error);

    // In directory_verify.cpp.
    class Verifier;

    // In directory_damage.cpp.
    void give_back();
    void give_back(const std::shared_ptr<const Segment>& shared);

    const Files& files_;
    const DirectoryOptions options_;
    Records records_;
    const int making_error_;  // 0, or the -errno with which creating the folder failed
    Flights flights_;
    Pen small_pen_, large_pen_;
    Damage damage_;
    std::mutex give_back_mutex_;  // locked after Pen::mutex and before table_mutex_
    std::atomic<bool> is_closed_{false};

    mutable std::mutex table_mutex_;
    std::map<Digest, std::shared_ptr<Known>> table_;  // by identity
    std::vector<std::string> findings_;               // describes corrupt segments
    std::string loss_;                                // describes the loss of a segment since the last flush

    std::mutex refresh_mutex_;
    std::set<Digest> passed_over_;  // segments of other datasets, and corrupt ones
    CreationCount creations_;
    std::atomic<std::uint64_t> known_creations_ = 0;
    std::chrono::steady_clock::time_point look_again_{};  // when to read the folder's time of change again
    std::int64_t listed_ns_ = -1;                         // that time at the last listing
    bool list_again_ = true;  // the folder may have changed since, without a change of its time

    std::atomic<std::uint64_t> written_{0}, written_bytes_{0}, not_written_{0}, corrupt_{0}, adopted_{0},
        evicted_{0};
};

}  // namespace hocket::cache
