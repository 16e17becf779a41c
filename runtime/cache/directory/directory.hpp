// The disk level: a folder of segments that several processes share. It says where a payload lies and where a
// new one may be put; moving the bytes is the caller's.
//
//   FOLDER/lock              flock: held while files are created, adopted, evicted; it counts the segments
//                            that were created: whoever looks for what others write looks there first
//   FOLDER/flights.N         one byte a key (OFD locks): who is loading it just now
//   FOLDER/<identity>.making a segment that is being created, under the lock
//   FOLDER/<identity>.open   a segment that a process is writing; it holds its flock, which the kernel drops
//                            when the last process with the descriptor ends (children of fork have it, too)
//   FOLDER/<identity>.seg    sealed: complete, never written again, but for holes where it is damaged; who
//                            has it open holds a shared flock
//
// Each process writes into segments of its own (one for small payloads, one for larger ones) and reads
// everybody's, the open ones as far as they have entries. What a dead process left open is adopted: its good
// entries are sealed. That, and the eviction of other datasets' segments, is done when a folder is opened,
// and when a segment is created.
//
// A segment is given up when a write into it fails: nothing more goes into it; what was committed stays, and
// is sealed as soon as its last writer has ended. A segment that cannot be sealed stays open until the end,
// is tried again by close(), and else adopted by whoever comes next. But after a failed sync nobody knows
// what the disk holds: then the segment is unlinked, its records are forgotten, and flush() says so. Files of
// segments that have no right header are counted, and removed once nobody holds them.
//
// Records of sealed segments that proved damaged give their space back before a segment is created, and when
// the folder is verified or closed: pages in which nothing right is left become holes, and a segment in which
// nothing right is left at all is unlinked. Where a process dies in the middle of that, the next one that
// finds the damage goes on.
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

struct DirectoryOptions {
    std::string folder;
    std::uint64_t limit_bytes = 0;  // of all files in it, whoever wrote them; 0: none but the disk's
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
    std::string trouble;  // the last reason not to write large, or small, payloads: "" if they are
    std::string damage;   // what proved damaged, and what became of its space: "" if nothing did
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

// Thread-safe. Calls block on the file system: none of them from a thread that must not (except find).
class Directory {
  public:
    // Creates the folder. Throws hocket::Error(io) if it is not a folder, or may not be read. A disk that is
    // full or read-only is no error: see DirectoryStats::trouble. files must outlive it, and all places.
    Directory(const Files& files, const DirectoryOptions& options);
    ~Directory();  // close(), if not done yet

    // The payload of key, if it is known to lie here. Memory only.
    std::optional<Place> find(std::uint64_t key) const;

    // Takes in what others have written since. Cheap where nothing has changed. Files that were removed by
    // hand are noticed within a tenth of a second.
    void refresh();

    // True if `bytes` are the payload that was written there.
    static bool is_right(const Place& place, std::span<const std::byte> bytes);
    // The place cannot be read, or does not hold what it should: it is forgotten, and counted; its space is
    // given back later. Memory only.
    void forget(const Place& place);

    // A place for a new payload, in memory's time where the segment has room; else a segment is sealed and
    // another created. Nothing: the key lies here already, or the limit, the disk or a failure forbids it
    // (counted as not_written; a segment is tried to be created at most once a second then). Every room must
    // be given to commit() or abandon(), once.
    std::optional<Room> reserve(std::uint64_t key, std::uint64_t bytes);
    // The payload lies there: from now on it is found, by other processes too, and survives this one. False
    // if the entry could not be written. May seal the segment, which waits for the disk.
    bool commit(const Room& room, std::span<const std::byte> payload);
    // The payload could not be written (error: a positive errno): the segment is given up, but for what it
    // holds already.
    void abandon(const Room& room, int error);

    // One load of a key at a time, over all processes. False: another process is at it.
    bool begin_flight(std::uint64_t key);
    void end_flight(std::uint64_t key);

    // Everything that was committed survives a loss of power from here on. Throws hocket::Error(io) if that
    // cannot be promised, or if what was committed before was lost since the last flush. Segments stay open:
    // else a flush after each payload would leave as many files.
    void flush();
    // Seals what is open. Nothing is written from here on; what is known can still be read. No other call is
    // on its way, and all rooms are committed or abandoned.
    void close();

    struct Verification {
        std::uint64_t segments = 0, records = 0, bytes = 0, bad_segments = 0, bad_records = 0;
        std::vector<std::string> findings;  // the first hundred, in words, with file and offset
    };
    // Reads and checks every record that is known when it begins; bad ones are forgotten, and give their
    // space back. Calls progress(done, all) in bytes from time to time; it may say false to stop.
    using Progress = std::function<bool(std::uint64_t done, std::uint64_t all)>;
    Verification verify(const Progress& progress);

    std::vector<std::uint64_t> keys() const;
    DirectoryStats stats() const;

  private:
    // A segment of this dataset.
    struct Known {
        std::shared_ptr<Segment> segment;
        std::unique_ptr<EntryReader> reader;  // of somebody else's, until all its entries are known
        bool is_settled = false;              // of somebody else's: see Segment::settle
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

    // directory_refresh.cpp; but for the first all under refresh_mutex_
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
    bool list_again_ = true;  // it may have changed since without its time showing it

    std::atomic<std::uint64_t> written_{0}, written_bytes_{0}, not_written_{0}, corrupt_{0}, adopted_{0},
        evicted_{0};
};

}  // namespace hocket::cache
