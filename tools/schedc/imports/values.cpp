#include "tools/schedc/imports/values.hpp"

#include <fmt/format.h>

namespace hocket::tools::imports {

using dsl::Collective;

Values::Values(const Algorithm& algorithm, const std::set<Place>& copied)
    : algorithm_(algorithm), copied_(copied), flow_{Slots(algorithm), 0, {}, {}} {
    flow_.slot_count = flow_.slots.all();
    current_.assign(2 * static_cast<std::size_t>(flow_.slot_count), -1);
    uses_.resize(current_.size());
    fill_inputs();
}

void Values::fill_inputs() {
    const Collective collective = algorithm_.collective;
    const bool is_piece = collective == Collective::all_gather || collective == Collective::gather;
    const bool is_root = collective == Collective::broadcast || collective == Collective::scatter;
    for (int g = 0; g < algorithm_.ranks(); ++g) {
        if (is_root && g != algorithm_.root) continue;
        const int begin = is_piece ? g * algorithm_.chunks_of_piece : 0;
        const int count = is_piece ? algorithm_.chunks_of_piece : algorithm_.chunks;
        for (int chunk = begin; chunk < begin + count; ++chunk) {
            Version version;
            version.slot = flow_.slots.fixed(g, false, chunk);
            version.chunk = chunk;
            current_[index_of({version.slot, false})] = add_version(version);
        }
    }
}

// The chunks that the collective promises to a GPU: the first one, and how many.
std::pair<int, int> Values::results_of(int gpu) const {
    const Collective collective = algorithm_.collective;
    const bool is_rooted = collective == Collective::reduce || collective == Collective::gather;
    if (is_rooted && gpu != algorithm_.root) return {0, 0};
    const bool is_piece = collective == Collective::reduce_scatter || collective == Collective::scatter;
    if (is_piece) return {gpu * algorithm_.chunks_of_piece, algorithm_.chunks_of_piece};
    return {0, algorithm_.chunks};
}

void Values::check_results() {
    for (int g = 0; g < algorithm_.ranks(); ++g) {
        const auto [begin, count] = results_of(g);
        for (int chunk = begin; chunk < begin + count; ++chunk) {
            const int slot = flow_.slots.fixed(g, flow_.slots.has_second(), chunk);
            const int version = current_[index_of({slot, !algorithm_.in_place})];
            if (version < 0)
                refuse(
                    algorithm_, {g, -1, -1},
                    fmt::format("no {} writes {} of {} of its result", algorithm_.words->step,
                                chunk_text(algorithm_, chunk), algorithm_.chunks / algorithm_.parts_of_one),
                    std::string(algorithm_.in_place ? algorithm_.words->writes_no_result
                                                    : algorithm_.words->copies_no_result));
            look(version);
            flow_.versions[version].is_result = true;
        }
    }
}

Name Values::name_of(int gpu, Chunks chunks, int index) const {
    chunks.offset += index;
    return {flow_.slots.of(gpu, chunks), chunks.buffer == Buffer::output && !algorithm_.in_place, gpu};
}

std::size_t Values::index_of(const Name& name) const {
    return static_cast<std::size_t>(name.slot) + (name.by_output ? current_.size() / 2 : 0);
}

std::optional<Place> Values::unseen_result(int gpu, const Clock& clock) const {
    const auto [begin, count] = results_of(gpu);
    for (int chunk = begin; chunk < begin + count; ++chunk) {
        const Name name{flow_.slots.fixed(gpu, flow_.slots.has_second(), chunk), !algorithm_.in_place};
        if (const Uses::Use use = uses_[index_of(name)].race(-1, clock, false); use.block >= 0)
            return use.place;
    }
    return std::nullopt;
}

void Values::refuse_race(const Actor& actor, const Name& name, const Uses::Use& other) const {
    const bool is_scratch = !flow_.slots.is_fixed(name.slot);
    const std::string gpu =
        other.place.gpu == actor.place.gpu ? "" : fmt::format(" of gpu {}", other.place.gpu);
    refuse(
        algorithm_, actor.place,
        fmt::format("it uses a {} chunk that {} of threadblock {}{} uses, too, and one of the two writes it: "
                    "nothing says which of them comes first",
                    is_scratch       ? "scratch"
                    : name.by_output ? "output"
                                     : "buffer's",
                    step_text(algorithm_, other.place), other.place.block, gpu),
        algorithm_.words->order(other.place));
}

// The version that is in a name. If it was combined there for a message alone, and is now used, that step
// must combine elsewhere.
void Values::look(int version) {
    if (only_sent_by_[version].gpu >= 0) to_copy_.insert(only_sent_by_[version]);
}

int Values::held(const Actor& actor, const Name& name) {
    const std::size_t index = index_of(name);
    if (!name.is_flagged) {
        if (const Uses::Use other = uses_[index].race(actor.use.block, *actor.clock, false); other.block >= 0)
            refuse_race(actor, name, other);
        uses_[index].read(actor.use, actor.acts_once);
    }
    const int version = current_[index];
    if (version < 0)
        refuse(algorithm_, actor.place, "it reads a chunk that holds nothing yet",
               std::string(algorithm_.words->reads_nothing));
    look(version);
    return version;
}

int Values::read(const Actor& actor, const Name& name) {
    const int version = held(actor, name);
    is_read_[version] = true;
    return version;
}

void Values::start_write(const Actor& actor, const Name& name) {
    if (name.is_flagged) return;
    const std::size_t index = index_of(name);
    if (const Uses::Use other = uses_[index].race(actor.use.block, *actor.clock, true); other.block >= 0)
        refuse_race(actor, name, other);
    Uses::Use use = actor.use;
    use.step += actor.writes_later;
    uses_[index].write(use);
}

int Values::add_version(Version version) {
    flow_.versions.push_back(std::move(version));
    is_read_.push_back(false);
    only_sent_by_.emplace_back();
    return static_cast<int>(flow_.versions.size()) - 1;
}

void Values::add_move(const Actor& actor, const Incoming& in, int to, int target, bool combines) {
    const int move = static_cast<int>(flow_.moves.size());
    flow_.moves.push_back({in.version, target, combines, in.from, to, in.sender, actor.place, false});
    flow_.versions[in.version].readers.push_back(move);
    flow_.versions[target].writers.push_back(move);
}

int Values::copy(const Actor& actor, const Name& to, const Incoming& in) {
    start_write(actor, to);
    int& now = current_[index_of(to)];
    // Input and output, which have one place here.
    if (flow_.versions[in.version].slot == to.slot) return now = in.version;
    Version version;
    version.slot = to.slot;
    version.chunk = flow_.versions[in.version].chunk;
    version.by_output = to.by_output;
    version.made = actor.place;
    now = add_version(std::move(version));
    add_move(actor, in, to.gpu, now, false);
    return now;
}

// may_join: what comes in may be combined at once with what came before, if nothing reads what lies between.
int Values::combine_into(const Actor& actor, const Name& to, int base, const Incoming& in, bool may_join) {
    int result = base;
    const Version& old = flow_.versions[base];
    if (!may_join || old.base < 0 || is_read_[base] || old.slot != to.slot) {
        Version version;
        version.slot = to.slot;
        version.chunk = old.chunk;
        version.base = base;
        version.by_output = to.by_output;
        version.made = actor.place;
        result = add_version(std::move(version));
    }
    add_move(actor, in, to.gpu, result, true);
    return result;
}

int Values::combine(const Actor& actor, const Name& to, const Name& operand, const Incoming& in) {
    int base = held(actor, operand);
    const bool is_same = index_of(to) == index_of(operand);
    if (flow_.versions[base].slot != to.slot) {
        is_read_[base] = true;
        base = copy(actor, to, {base, operand.gpu, actor.place});
    } else {
        start_write(actor, to);
    }
    return current_[index_of(to)] = combine_into(actor, to, base, in, is_same);
}

int Values::combine_for_message(const Actor& actor, const Name& operand, const Incoming& in) {
    const int base = held(actor, operand);
    if (!copied_.contains(actor.place)) {
        const int sum = combine_into(actor, operand, base, in, false);
        only_sent_by_[sum] = actor.place;
        return current_[index_of(operand)] = sum;
    }
    is_read_[base] = true;
    const Name beside{flow_.slot_count++, false, operand.gpu};
    Version version;
    version.slot = beside.slot;
    version.chunk = flow_.versions[base].chunk;
    version.made = actor.place;
    const int copied = add_version(std::move(version));
    add_move(actor, {base, actor.place.gpu, actor.place}, operand.gpu, copied, false);
    return combine_into(actor, beside, copied, in, false);
}

}  // namespace hocket::tools::imports
