#include "runtime/compute/program/kept_state.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "runtime/base/error.hpp"
#include "runtime/compute/program/extra_layout.hpp"

namespace hocket::compute {
namespace {

using BufferKind = dsl::ExtraBuffer::Kind;

constexpr char magic[8] = {'H', 'K', 'T', 'S', 'T', 'A', 'T', '2'};
constexpr std::size_t magic_name = 7;  // followed by the number of the format
constexpr std::uint64_t longest_name = 4096, most_elements = std::uint64_t{1} << 47;

[[noreturn]] void refuse_state(const std::string& text) {
    throw Error(Status::invalid_argument, text);
}

// Returns the schedule's name without its arguments, which may differ from job to job.
std::string base_name(const std::string& schedule) {
    return schedule.substr(0, schedule.find('('));
}

class Writer {
  public:
    template <typename T>
    void number(T value) {
        append(&value, sizeof value);
    }
    void append(const void* from, std::size_t size) {
        const auto* begin = static_cast<const std::byte*>(from);
        bytes.insert(bytes.end(), begin, begin + size);
    }
    std::vector<std::byte> bytes;
};

}  // namespace

class KeptState::Reader {
  public:
    Reader(std::span<const std::byte> bytes, std::size_t number) : bytes_(bytes), number_(number) {}

    std::span<const std::byte> take(std::uint64_t size) {
        if (size > bytes_.size()) bad("it ends early");
        const auto taken = bytes_.first(size);
        bytes_ = bytes_.subspan(size);
        return taken;
    }
    std::uint64_t number() {
        std::uint64_t value;
        std::memcpy(&value, take(sizeof value).data(), sizeof value);
        return value;
    }
    std::string text() {
        const std::uint64_t length = number();
        if (length > longest_name) bad("a name is too long");
        const auto bytes = take(length);
        return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
    std::uint64_t left() const { return bytes_.size(); }
    bool is_at_end() const { return bytes_.empty(); }
    [[noreturn]] void bad(const std::string& why) const {
        refuse_state(fmt::format("saved state {} cannot be loaded: {}", number_, why));
    }

  private:
    std::span<const std::byte> bytes_;
    std::size_t number_;
};

// Checks magic and checksum, and returns a reader of the bytes between them.
KeptState::Reader KeptState::content_of(std::span<const std::byte> bytes, std::size_t number) {
    const Reader reader(bytes, number);
    std::uint64_t checksum;
    if (bytes.size() < sizeof magic + sizeof checksum || std::memcmp(bytes.data(), magic, magic_name) != 0)
        reader.bad("it is not a state that hkt_plan_save_state has written");
    const auto content = bytes.first(bytes.size() - sizeof checksum);
    std::memcpy(&checksum, bytes.data() + content.size(), sizeof checksum);
    if (checksum != XXH3_64bits(content.data(), content.size())) reader.bad("its checksum is wrong");
    if (std::memcmp(bytes.data(), magic, sizeof magic) != 0)
        reader.bad(fmt::format(
            "its format is '{}', and this version of Hocket reads '{}' alone: load it with the version that "
            "saved it, or begin without it",
            static_cast<char>(bytes[magic_name]), magic[magic_name]));
    return {content.subspan(sizeof magic), number};
}

// One rank's saved state. Its values are in the caller's memory.
struct KeptState::Saved {
    std::uint64_t ranks, rank, count, starts, checksum;
    struct Values {
        Region region = {};
        std::vector<Held> held = {};  // as it was in the job that saved it
        std::span<const std::byte> bytes = {};
    };
    std::vector<Values> values;  // by extra buffer; empty for those that are not states
};

KeptState::KeptState(const dsl::RankProgram& program, DataType type)
    : program_(program), type_(working_type(type)), values_(program.extras.size()) {}

KeptState::Region KeptState::region_of(std::size_t extra, dsl::Rank rank, std::uint64_t count) const {
    const dsl::Interval& interval = program_.extras[extra].regions[static_cast<std::size_t>(rank)];
    return {interval.begin.offset(count), interval.end.offset(count)};
}

std::vector<KeptState::Held> KeptState::held_by(dsl::Rank rank, std::size_t extra,
                                                std::uint64_t count) const {
    std::vector<Held> all;
    for (const dsl::Holding& holding : program_.extras[extra].holdings[static_cast<std::size_t>(rank)])
        all.push_back({{holding.where.begin.offset(count), holding.where.end.offset(count)},
                       static_cast<std::uint64_t>(holding.like),
                       holding.is_counted});
    return all;
}

void KeptState::check_count(std::uint64_t count) const {
    if (count_ && *count_ != count)
        refuse_state(fmt::format(
            "this plan keeps a state for {} elements and is started with {}; make a plan for each "
            "tensor, or reset this one's state",
            *count_, count));
}

void KeptState::prepare(std::uint64_t count) {
    check_count(count);
    if (count_) return;
    for (std::size_t i = 0; i < values_.size(); ++i) {
        if (program_.extras[i].buffer.kind != BufferKind::state) continue;
        const Region region = region_of(i, program_.rank, count);
        values_[i].assign((region.end - region.begin) * element_size(type_), std::byte{0});
    }
    count_ = count;
}

void KeptState::reset() {
    count_.reset();
    for (auto& values : values_) values.clear(), values.shrink_to_fit();
    starts_ = loaded_ = 0;
    has_failed_ = false;
}

std::vector<std::byte> KeptState::save() const {
    if (has_failed_)
        refuse_state(
            "a start of this plan has failed, so its state is of no step: load an older one, or reset it");
    const std::uint64_t count = count_.value_or(0);
    Writer writer;
    writer.append(magic, sizeof magic);
    const std::string schedule = base_name(program_.schedule);
    const auto states = static_cast<std::uint64_t>(
        std::count_if(program_.extras.begin(), program_.extras.end(),
                      [](const auto& extra) { return extra.buffer.kind == BufferKind::state; }));
    for (const std::uint64_t number :
         {static_cast<std::uint64_t>(element_size(type_)), static_cast<std::uint64_t>(program_.ranks),
          static_cast<std::uint64_t>(program_.rank), count, starts_, states})
        writer.number(number);
    writer.number<std::uint64_t>(schedule.size());
    writer.append(schedule.data(), schedule.size());
    for (std::size_t i = 0; i < values_.size(); ++i) {
        const dsl::ExtraBuffer& buffer = program_.extras[i].buffer;
        if (buffer.kind != BufferKind::state) continue;
        const Region region = region_of(i, program_.rank, count);
        writer.number<std::uint64_t>(buffer.name.size());
        writer.append(buffer.name.data(), buffer.name.size());
        writer.number(region.begin);
        writer.number(region.end);
        const std::vector<Held> all = held_by(program_.rank, i, count);
        writer.number<std::uint64_t>(all.size());
        for (const Held& held : all)
            for (const std::uint64_t number :
                 {held.where.begin, held.where.end, held.like, std::uint64_t{held.is_counted}})
                writer.number(number);
        writer.append(values_[i].data(), values_[i].size());
    }
    writer.number<std::uint64_t>(XXH3_64bits(writer.bytes.data(), writer.bytes.size()));
    return std::move(writer.bytes);
}

std::uint64_t KeptState::elements_in(std::span<const std::byte> saved) {
    Reader reader = content_of(saved, 0);
    reader.take(3 * sizeof(std::uint64_t));  // element size, number of ranks, rank
    return reader.number();
}

// Reads the holdings of a rank. Throws if they are not ascending, or lie outside the region.
std::vector<KeptState::Held> KeptState::parse_held(Reader& reader, const Region& region,
                                                   std::uint64_t ranks) {
    const std::uint64_t count = reader.number();
    if (count > reader.left() / (4 * sizeof(std::uint64_t))) reader.bad("it ends early");
    std::vector<Held> all;
    std::uint64_t before = region.begin;
    for (std::uint64_t i = 0; i < count; ++i) {
        const Region where{reader.number(), reader.number()};
        const std::uint64_t like = reader.number(), is_counted = reader.number();
        if (where.begin < before || where.begin > where.end || where.end > region.end)
            reader.bad("a holding lies outside of its region");
        if (like >= ranks || is_counted > 1)
            reader.bad("a holding names a rank that does not exist, or its flag is wrong");
        all.push_back({where, like, is_counted == 1});
        before = where.end;
    }
    return all;
}

KeptState::Saved KeptState::parse(std::span<const std::byte> bytes, std::size_t number) const {
    Reader reader = content_of(bytes, number);
    if (reader.number() != element_size(type_))
        reader.bad(fmt::format("it is not of {}, as this plan's", name_of(type_)));
    Saved saved{reader.number(), reader.number(), reader.number(), reader.number(), 0, {}};
    std::memcpy(&saved.checksum, bytes.data() + bytes.size() - sizeof saved.checksum, sizeof saved.checksum);
    if (saved.ranks == 0 || saved.ranks > 1u << 24 || saved.rank >= saved.ranks)
        reader.bad("its rank does not exist");
    saved.values.resize(values_.size());
    std::vector<bool> found(values_.size(), false);
    if (saved.count > most_elements) reader.bad("its count is larger than memory");
    const std::uint64_t states = reader.number();
    if (const std::string schedule = reader.text(); schedule != base_name(program_.schedule))
        reader.bad(fmt::format("it is of schedule {}, not of {}", schedule, base_name(program_.schedule)));
    for (std::uint64_t state = 0; state < states; ++state) {
        const std::string name = reader.text();
        const Region region{reader.number(), reader.number()};
        if (region.begin > region.end || region.end > saved.count) reader.bad("a region lies outside of x");
        std::vector<Held> held = parse_held(reader, region, saved.ranks);
        if (region.end - region.begin > reader.left() / element_size(type_)) reader.bad("it ends early");
        const auto values = reader.take((region.end - region.begin) * element_size(type_));
        // States made in a loop share one name; they are saved in order.
        std::size_t index = 0;
        while (index < found.size() &&
               (found[index] || program_.extras[index].buffer.kind != BufferKind::state ||
                program_.extras[index].buffer.name != name))
            ++index;
        if (index == found.size())
            reader.bad(
                fmt::format("it holds more states '{}' than schedule {} has", name, program_.schedule));
        saved.values[index] = {region, std::move(held), values};
        found[index] = true;
    }
    if (!reader.is_at_end()) reader.bad("there is more in it than its states");
    for (std::size_t i = 0; i < found.size(); ++i)
        if (program_.extras[i].buffer.kind == BufferKind::state && !found[i])
            reader.bad(fmt::format("it lacks the state '{}' of schedule {}", program_.extras[i].buffer.name,
                                   program_.schedule));
    return saved;
}

// Checks that the saved states are of one job, with each rank once.
void KeptState::check_complete(const std::vector<Saved>& all) const {
    if (all.empty())
        refuse_state("no saved state is given; give those of all ranks of the job that saved them");
    std::vector<bool> is_there(all.size(), false);
    for (const Saved& saved : all) {
        if (saved.ranks != all.size())
            refuse_state(
                fmt::format("{} saved state{} given, but a job of {} ranks saved them: give those of all its "
                            "ranks",
                            all.size(), all.size() == 1 ? " is" : "s are", saved.ranks));
        if (saved.count != all[0].count)
            refuse_state(fmt::format("the saved states are of different counts: {} and {}", all[0].count,
                                     saved.count));
        if (saved.starts != all[0].starts)
            refuse_state(fmt::format(
                "the saved states are of different steps: one was saved after {} starts, one after {}",
                all[0].starts, saved.starts));
        if (is_there[saved.rank])
            refuse_state(fmt::format("the state of rank {} is given twice", saved.rank));
        is_there[saved.rank] = true;
    }
}

bool KeptState::fits(const Saved& saved, dsl::Rank ranks) const {
    if (ranks != program_.ranks) return false;
    for (std::size_t i = 0; i < values_.size(); ++i) {
        if (program_.extras[i].buffer.kind != BufferKind::state) continue;
        const auto rank = static_cast<dsl::Rank>(saved.rank);
        if (region_of(i, rank, saved.count) != saved.values[i].region) return false;
        if (held_by(rank, i, saved.count) != saved.values[i].held) return false;
    }
    return true;
}

template <typename T>
void KeptState::gather(std::size_t extra, const std::vector<Saved>& all, T* to) const {
    const std::uint64_t count = all[0].count;
    const Region own = region_of(extra, program_.rank, count);
    for (const dsl::Holding& holding :
         program_.extras[extra].holdings[static_cast<std::size_t>(program_.rank)]) {
        if (!holding.takes_total) continue;
        const Region here{holding.where.begin.offset(count), holding.where.end.offset(count)};
        for (const Saved& saved : all) {  // in rank order
            const auto& [region, held, bytes] = saved.values[extra];
            for (const Held& one : held) {
                if (!one.is_counted) continue;
                const std::uint64_t end = std::min(here.end, one.where.end);
                for (std::uint64_t i = std::max(here.begin, one.where.begin); i < end; ++i) {
                    T value;
                    std::memcpy(&value, bytes.data() + (i - region.begin) * sizeof(T), sizeof(T));
                    to[i - own.begin] += value;
                }
            }
        }
    }
}

std::vector<std::byte> KeptState::gathered(std::size_t extra, const std::vector<Saved>& all) const {
    const Region own = region_of(extra, program_.rank, all[0].count);
    std::vector<std::byte> values((own.end - own.begin) * element_size(type_), std::byte{0});
    if (type_ == DataType::float64)
        gather(extra, all, reinterpret_cast<double*>(values.data()));
    else
        gather(extra, all, reinterpret_cast<float*>(values.data()));
    return values;
}

void KeptState::load(std::span<const std::span<const std::byte>> given) {
    std::vector<Saved> all;
    for (std::size_t i = 0; i < given.size(); ++i) all.push_back(parse(given[i], i));
    check_complete(all);
    std::sort(all.begin(), all.end(), [](const Saved& a, const Saved& b) { return a.rank < b.rank; });
    const bool is_same = std::all_of(all.begin(), all.end(), [&](const Saved& saved) {
        return fits(saved, static_cast<dsl::Rank>(all.size()));
    });
    std::vector<std::vector<std::byte>> values(values_.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
        if (program_.extras[i].buffer.kind != BufferKind::state) continue;
        if (is_same) {
            const auto& own = all[static_cast<std::size_t>(program_.rank)].values[i].bytes;
            values[i].assign(own.begin(), own.end());
        } else {
            values[i] = gathered(i, all);
        }
    }
    std::vector<std::uint64_t> checksums;
    for (const Saved& saved : all) checksums.push_back(saved.checksum);
    values_ = std::move(values);
    count_.reset();
    if (all[0].count > 0) count_ = all[0].count;
    starts_ = all[0].starts;
    loaded_ = XXH3_64bits(checksums.data(), checksums.size() * sizeof checksums[0]) | 1;
    has_failed_ = false;
}

}  // namespace hocket::compute
