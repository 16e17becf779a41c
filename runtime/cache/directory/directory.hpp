// The disk level: a folder of segments that several processes share. It says where a payload lies, and where
// a new one may be put. The caller moves the bytes.
//
//   FOLDER/lock              flock: held while files are created, adopted, evicted. It counts the created
//                            segments: those who look for what others write look there first
//   FOLDER/flights.N         one byte for each key that is being loaded, locked (OFD lock) by its loader
//   FOLDER/<identity>.making a segment that is being created, under the lock
//   FOLDER/<identity>.open   a segment that a process is writing; it holds its flock, which the kernel drops
//                            when the last process with the descriptor ends (children of fork have it, too)
//   FOLDER/<identity>.seg    sealed: complete, never written again, except for holes where it is damaged.
//                            A process that has it open holds a shared flock
//
// Each process writes into segments of its own (one for small payloads, one for larger ones), and reads those
// of all processes, the open ones as far as they have entries. A segment that a dead process left open is
// adopted: its good entries are sealed. Adoption, and the eviction of other datasets' segments, happen when a
// folder is opened and when a segment is created.
//
// A segment is given up when a write into it fails: nothing more goes into it. What was committed stays, and
// is sealed as soon as its last writer has ended. A segment that cannot be sealed stays open until the end;
// close() tries again, and if that fails, the next process adopts it. But after a failed sync nobody knows
// what the disk holds. Then the segment is unlinked, its records are forgotten, and flush() says so. Files
// without a right header are counted, and removed once nobody holds them.
//
// Damaged records of sealed segments give their space back before a segment is created, and when the folder
// is verified or closed. Pages in which nothing right is left become holes, and a segment in which nothing
// right is left is unlinked. If a process dies in the middle of that, the next one that finds the damage goes
// on.
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

inline constexpr std::size_t most_findings = 100;  // that are kept, of damage in words

struct DirectoryOptions {
    std::string folder;
    std::uint64_t limit_bytes = 0;  // of all files in it, of all datasets; 0: only the disk's own
    Digest dataset{};
    std::string label;  // of the dataset: see SegmentHeader
    bool writable = true;
    std::optional<std::uint64_t> source_samples = std::nullopt;  // see SegmentHeader
};

// Counts since it was opened, and facts.
struct DirectoryStats {
    std::uint64_t segments = 0, records = 0, record_bytes = 0;  // that can be read, of this dataset
    std::uint64_t used_bytes = 0, limit_bytes = 0;              // of the folder, all datasets
    std::uint64_t written = 0, written_bytes = 0, not_written = 0;
    std::uint64_t corrupt = 0;           // records, entries, segments that failed their checksums
    std::uint64_t adopted = 0;           // segments of dead processes
    std::uint64_t evicted_segments = 0;  // of other datasets, unlinked to make room
    std::string trouble;                 // why large or small payloads are not written; "": they are
    std::string damage;                  // what proved damaged, and what became of its space; "": nothing did
};

// Where a payload lies. Keeps the file open.
struct Place {
    std::shared_ptr<const Segment> segment;
    int fd;              // for reading
    bool direct;         // fd is O_DIRECT: offset, length and memory must be multiples of unit
    std::uint64_t unit;  // 1 if not direct
    Entry entry;
};

// Where a new payload goes: at [offset, offset + reserved).
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
    // Creates the folder. Throws hocket::Error(io) if it is not a folder, or may not be read. A disk that is
    // full or read-only is not an error: see DirectoryStats::trouble. files must outlive this, and all
    // places.
    Directory(const Files& files, const DirectoryOptions& options);
    ~Directory();  // close(), if not done yet

    // Where the key's payload lies, if that is known. Looks only at memory.
    std::optional<Place> find(std::uint64_t key) const;

    // Takes in what others have written since the last time. Cheap if nothing has changed. Files that were
    // removed by hand are noticed within a tenth of a second.
    void refresh();

    // True if `bytes` are the payload that was written there.
    static bool is_right(const Place& place, std::span<const std::byte> bytes);
    // For a place that cannot be read, or does not hold what it should: it is forgotten and counted, and
    // gives its space back later. Changes only memory.
    void forget(const Place& place);

    // A place for a new payload. Does not touch the disk where the segment has room; else it seals the
    // segment and creates another. Nothing: the key lies here already; or the limit, the disk or a failure
    // forbids it. That counts as not_written, and it tries to create a segment at most once a second then.
    // Every room must be given to commit() or abandon(), once.
    std::optional<Room> reserve(std::uint64_t key, std::uint64_t bytes);
    // The payload has been written. From now on this and other processes find it, and it survives this
    // process. False: the entry could not be written. May seal the segment, which waits for the disk.
    bool commit(const Room& room, std::span<const std::byte> payload);
    // The payload could not be written (error: a positive errno). The segment is given up, but keeps what it
    // holds.
    void abandon(const Room& room, int error);

    // At most one load of a key at a time, in all processes. False: another process loads it.
    bool begin_flight(std::uint64_t key);
    void end_flight(std::uint64_t key);

    // From here on, all that was committed survives a loss of power. Throws hocket::Error(io) if that cannot
    // be promised, or if something that was committed has been lost since the last flush. Segments stay open,
    // or else a flush after each payload would leave a file for each.
    void flush();
    // Seals all open segments. From here on nothing is written; what is known can still be read. No other
    // call may be under way, and all rooms must be committed or abandoned.
    void close();

    struct Verification {
        std::uint64_t segments = 0, records = 0, bytes = 0, bad_segments = 0, bad_records = 0;
        std::vector<std::string> findings;  // the first ones, in words, with file and offset
    };
    // Reads and checks every record that is known when it begins. Bad ones are forgotten, and give their
    // space back. Calls progress(done, all), in bytes, from time to time; that may return false to stop.
    using Progress = std::function<bool(std::uint64_t done, std::uint64_t all)>;
    Verification verify(const Progress& progress);

    std::vector<std::uint64_t> keys() const;
    DirectoryStats stats() const;

  private:
    // A segment of this dataset.
    struct Known {
        std::shared_ptr<Segment> segment;
        std::unique_ptr<EntryReader> reader;  // if another process writes it, until all entries are known
        bool is_settled = false;              // if another process wrote it: see Segment::settle
        bool is_counted = false;              // what is bad in an abandoned one
    };
    // Why nothing is written, and when that is to be tried again. Thread-safe.
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
    // Where new payloads of a kind go.
    struct Pen {
        std::mutex mutex;  // also held while a segment is created; before table_mutex_
        std::shared_ptr<Segment> segment;
        Trouble trouble;
    };

    // directory.cpp
    void open_folder();
    void set_trouble(const std::string& text);
    void take(const Adoption& adoption);
    std::vector<std::shared_ptr<Segment>> segments() const;
    std::vector<std::string> findings() const;
    void drop(const Segment& segment);

    // directory_refresh.cpp. All but the first need refresh_mutex_
    void look_at_once();
    void list_if_changed();
    void list();
    void open_listed(const SegmentName& name);
    void count_corrupt(const SegmentName& name);
    void drop_gone(const std::vector<SegmentName>& listed);
    void read_entries(Known& known);

    // directory_write.cpp
    std::optional<Room> begin_room(const std::shared_ptr<Segment>& segment, std::uint64_t key,
                                   std::uint64_t bytes);
    Pen& pen_of(std::uint64_t bytes);
    Pen& pen_of(const Segment& segment);
    std::shared_ptr<Segment> create(Pen& pen, std::uint64_t bytes);
    void give_up(const std::shared_ptr<Segment>& segment);
    void end_room(const Room& room);
    void seal(const std::shared_ptr<Segment>& segment);
    void lose(const Segment& segment, int error);

    // directory_verify.cpp
    class Verifier;

    // directory_damage.cpp
    void give_back();
    void give_back(const std::shared_ptr<const Segment>& shared);

    const Files& files_;
    const DirectoryOptions options_;
    Records records_;
    const int making_error_;  // 0, or -errno: why the folder could not be made
    Flights flights_;
    Pen small_pen_, large_pen_;
    Damage damage_;
    std::mutex give_back_mutex_;  // after Pen::mutex, before table_mutex_
    std::atomic<bool> is_closed_{false};

    mutable std::mutex table_mutex_;
    std::map<Digest, std::shared_ptr<Known>> table_;  // by identity
    std::vector<std::string> findings_;               // corrupt segments, in words
    std::string loss_;                                // of a segment since the last flush, in words

    std::mutex refresh_mutex_;
    std::set<Digest> passed_over_;  // segments of other datasets, and corrupt ones
    CreationCount creations_;
    std::atomic<std::uint64_t> known_creations_ = 0;
    std::chrono::steady_clock::time_point look_again_{};  // at the folder's time of change
    std::int64_t listed_ns_ = -1;                         // that time when it was listed
    bool list_again_ = true;  // the folder may have changed since, and its time may not show it

    std::atomic<std::uint64_t> written_{0}, written_bytes_{0}, not_written_{0}, corrupt_{0}, adopted_{0},
        evicted_{0};
};

}  // namespace hocket::cache
