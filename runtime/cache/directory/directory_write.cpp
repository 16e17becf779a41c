// Reserves and commits space for new payloads, and seals their segments.
#include <fmt/format.h>

#include <cerrno>

#include "runtime/base/error.hpp"
#include "runtime/cache/directory/directory.hpp"
#include "runtime/cache/segments/space.hpp"

namespace hocket::cache {

Directory::Pen& Directory::pen_of(std::uint64_t bytes) {
    return bytes < small_payload ? small_pen_ : large_pen_;
}

Directory::Pen& Directory::pen_of(const Segment& segment) {
    return segment.header().unit == small_unit ? small_pen_ : large_pen_;
}

std::optional<Room> Directory::reserve(std::uint64_t key, std::uint64_t bytes) {
    if (records_.find(key)) return {};
    Pen& pen = pen_of(bytes);
    std::unique_lock lock(pen.mutex);
    if (pen.segment)
        if (auto room = begin_room(pen.segment, key, bytes)) return room;
    const auto fresh = create(pen, bytes);
    if (!fresh) {
        ++not_written_;
        return {};
    }
    auto room = begin_room(fresh, key, bytes);
    const auto full = std::exchange(pen.segment, fresh);
    lock.unlock();
    if (full && full->filling().retire()) seal(full);
    return room;
}

std::optional<Room> Directory::begin_room(const std::shared_ptr<Segment>& segment, std::uint64_t key,
                                          std::uint64_t bytes) {
    const auto part = segment->filling().begin_part(bytes);
    if (!part) return {};
    return Room{segment,    segment->payload_fd(), segment->is_direct(), segment->unit(),
                part->slot, part->offset,          part->reserved,       key,
                bytes};
}

std::shared_ptr<Segment> Directory::create(Pen& pen, std::uint64_t bytes) {
    if (is_closed_ || !options_.writable || !pen.trouble.may_try()) return {};
    give_back();
    Creation creation = create_segment(
        files_, options_.folder,
        {options_.dataset, options_.label, options_.limit_bytes, bytes, options_.source_samples});
    take(creation.adoption);
    evicted_ += creation.evicted;
    if (!creation.segment) {
        pen.trouble.set(creation.trouble);
        return {};
    }
    pen.trouble.clear();
    std::uint64_t before = creation.count - 1;
    // The exchange fails if other processes have created segments, too: the next refresh finds them.
    known_creations_.compare_exchange_strong(before, creation.count);
    auto known = std::make_shared<Known>();
    known->segment = creation.segment;
    const std::scoped_lock lock(table_mutex_);
    // A refresh may have found the file already, and taken it for another process's.
    table_.insert_or_assign(creation.segment->header().identity, std::move(known));
    return creation.segment;
}

bool Directory::commit(const Room& room, std::span<const std::byte> payload) {
    Entry entry{room.key, room.offset, room.bytes, 0};
    entry.checksum = payload_checksum(room.segment->header().identity, entry, payload);
    const int error = room.segment->write_entry(room.slot, entry);
    if (error) {
        abandon(room, -error);
        return false;
    }
    records_.insert({room.segment, entry});
    if (room.segment->is_lost()) {  // perhaps lose() has already gone through the records
        records_.erase(*room.segment, entry);
        abandon(room, EIO);
        return false;
    }
    ++written_;
    written_bytes_ += room.bytes;
    end_room(room);
    return true;
}

void Directory::abandon(const Room& room, int error) {
    ++not_written_;
    pen_of(room.bytes).trouble.set(describe(room.segment->path(), -error) + ": it could not be written");
    give_up(room.segment);
    end_room(room);
}

void Directory::give_up(const std::shared_ptr<Segment>& segment) {
    Pen& pen = pen_of(*segment);
    {
        const std::scoped_lock lock(pen.mutex);
        if (pen.segment == segment) pen.segment.reset();
    }
    if (segment->filling().retire()) seal(segment);
}

void Directory::end_room(const Room& room) {
    if (room.segment->filling().end_part()) seal(room.segment);
}

void Directory::seal(const std::shared_ptr<Segment>& segment) {
    const Segment::Sealing sealing = segment->seal();
    corrupt_ += sealing.bad_entries;
    switch (sealing.outcome) {
        case Segment::Outcome::sealed:
            return;
        case Segment::Outcome::empty:
            return drop(*segment);
        case Segment::Outcome::kept:
            return pen_of(*segment).trouble.set(describe(segment->path(), sealing.error) +
                                                ": it could not be sealed");
        case Segment::Outcome::lost:
            return lose(*segment, sealing.error);
    }
}

void Directory::lose(const Segment& segment, int error) {
    const std::string why = describe(segment.path(), error) +
                            ": the samples that were written to this file are lost; see the kernel's log, "
                            "and whether somebody removes files from the folder";
    {
        const std::scoped_lock lock(table_mutex_);
        if (!table_.erase(segment.header().identity)) return;
        loss_ = why;
    }
    records_.erase_all(segment);
    files_.unlink(segment.path());
    pen_of(segment).trouble.set(why);
}

void Directory::flush() {
    look_at_once();
    for (const auto& segment : segments()) {
        const int error = segment->is_owned() ? segment->sync() : 0;
        if (!error) continue;
        lose(*segment, error);
        give_up(segment);
    }
    const int error = files_.sync_folder(options_.folder);
    std::string loss;
    {
        const std::scoped_lock lock(table_mutex_);
        loss.swap(loss_);
    }
    if (!loss.empty()) throw Error(Status::io, loss);
    if (error)
        throw Error(Status::io,
                    describe(options_.folder, error) +
                        ": written samples may not survive a loss of power; see the kernel's log");
}

void Directory::close() {
    if (is_closed_.exchange(true)) return;
    for (Pen* pen : {&small_pen_, &large_pen_}) {
        const std::scoped_lock lock(pen->mutex);
        pen->segment.reset();
    }
    for (const auto& segment : segments())
        if (segment->is_owned() && !segment->is_sealed()) seal(segment);
    give_back();
}

}  // namespace hocket::cache
