#include "runtime/params/protocol/wire.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "runtime/transport/net/frame.hpp"

namespace hocket::params {
namespace {

using transport::PayloadReader;
using transport::PayloadWriter;
using transport::ProtocolError;

// ---- Out -------------------------------------------------------------------------------------------------

class Writer {
  public:
    explicit Writer(std::uint32_t kind, const Epoch& epoch) {
        out_.u32(kind).u32(epoch.incarnation).u32(epoch.number);
    }
    Writer& number(std::uint32_t value) {
        out_.u32(value);
        return *this;
    }
    Writer& clock(Clock value) {
        out_.u32(static_cast<std::uint32_t>(value)).u32(static_cast<std::uint32_t>(value >> 32));
        return *this;
    }
    const std::string& text() const { return out_.text(); }

  private:
    PayloadWriter out_;
};

// A message's kind on the wire is its index in Message, counted from 1.
template <typename Kind, std::size_t index = 0>
constexpr std::uint32_t kind_of() {
    if constexpr (std::is_same_v<Kind, std::variant_alternative_t<index, Message>>)
        return index + 1;
    else
        return kind_of<Kind, index + 1>();
}

struct Encoder {
    std::string operator()(const Announcement& message) const {
        Writer out = begin(message);
        out.number(static_cast<std::uint32_t>(message.members.size()));
        for (const Member& member : message.members)
            out.number(member.worker).number(member.parent).clock(member.first);
        for (const Clock clock : message.clocks) out.clock(clock);
        out.number(static_cast<std::uint32_t>(message.expected.size()));
        for (const Expected& expected : message.expected) out.number(expected.worker).clock(expected.first);
        for (const Departed& departed : message.departed)
            out.number(departed.worker).clock(departed.first).clock(departed.end);
        return out.text();
    }
    std::string operator()(const Sum& message) const {
        Writer out = begin(message);
        out.number(message.chunk).clock(message.clock);
        for (const Worker worker : message.workers) out.number(worker);
        return out.text();
    }
    std::string operator()(const Want& message) const {
        return begin(message).number(message.chunk).clock(message.clock).text();
    }
    std::string operator()(const Weights& message) const {
        return begin(message).number(message.chunk).clock(message.clock).text();
    }
    std::string operator()(const ParentLost& message) const { return begin(message).text(); }
    std::string operator()(const Covered& message) const {
        return begin(message).clock(message.clock).text();
    }

  private:
    template <typename Kind>
    static Writer begin(const Kind& message) {
        return Writer(kind_of<Kind>(), message.epoch);
    }
};

// ---- In --------------------------------------------------------------------------------------------------

Clock read_clock(PayloadReader& in) {
    const Clock low = in.u32(), clock = low | Clock{in.u32()} << 32;
    if (clock > most_clock) throw ProtocolError("it named a round beyond the largest possible one");
    return clock;
}

Chunk read_wire_chunk(PayloadReader& in, const Bounds& bounds) {
    const Chunk chunk = in.u32();
    if (chunk >= bounds.chunks) throw ProtocolError("it named a chunk that does not exist");
    return chunk;
}

// Requires ascending order, so that each worker occurs at most once.
void require_order(const std::vector<Worker>& workers, const Bounds& bounds) {
    const bool ascends =
        std::adjacent_find(workers.begin(), workers.end(), std::greater_equal<>()) == workers.end();
    if (!ascends || (!workers.empty() && workers.back() == the_server))
        throw ProtocolError("it named workers twice, or not in ascending order");
    if (workers.size() > bounds.workers) throw ProtocolError("it named more workers than there may be");
}

// Requires that the parents of each member lead to the server.
void require_tree(const std::vector<Member>& members) {
    std::map<Worker, Worker> parents;
    for (const Member& member : members) parents.emplace(member.worker, member.parent);
    for (const auto& [worker, above] : parents) {
        Worker node = worker;
        for (std::size_t steps = 0; node != the_server; ++steps) {
            const auto found = parents.find(node);
            if (found == parents.end() || steps == parents.size())
                throw ProtocolError("it announced members that do not form a tree");
            node = found->second;
        }
    }
}

std::size_t read_workers(PayloadReader& in, const Bounds& bounds) {
    const std::size_t count = in.u32();
    if (count > bounds.workers) throw ProtocolError("it named more workers than there may be");
    return count;
}

Announcement read_announcement(PayloadReader& in, const Epoch& epoch, const Bounds& bounds) {
    Announcement message{epoch, {}, {}};
    std::vector<Worker> workers;
    for (std::size_t left = read_workers(in, bounds); left > 0; --left) {
        const Worker worker = in.u32(), parent = in.u32();
        message.members.push_back({worker, parent, read_clock(in)});
        workers.push_back(worker);
    }
    require_order(workers, bounds);
    require_tree(message.members);
    for (std::size_t chunk = 0; chunk < bounds.chunks; ++chunk) message.clocks.push_back(read_clock(in));
    workers.clear();
    for (std::size_t left = read_workers(in, bounds); left > 0; --left) {
        workers.push_back(in.u32());
        message.expected.push_back({workers.back(), read_clock(in)});
    }
    require_order(workers, bounds);
    workers.clear();
    while (!in.is_empty()) {
        const Worker worker = in.u32();
        const Clock first = read_clock(in);
        message.departed.push_back({worker, first, read_clock(in)});
        workers.push_back(worker);
    }
    require_order(workers, bounds);
    return message;
}

Sum read_sum(PayloadReader& in, const Epoch& epoch, const Bounds& bounds) {
    const Chunk chunk = read_wire_chunk(in, bounds);
    const Clock clock = read_clock(in);
    std::vector<Worker> workers;
    while (!in.is_empty()) workers.push_back(in.u32());
    if (workers.empty()) throw ProtocolError("it sent a sum without workers");
    require_order(workers, bounds);
    return {epoch, chunk, clock, std::move(workers), nullptr};
}

Message read(PayloadReader& in, const Bounds& bounds) {
    const std::uint32_t kind = in.u32();
    const std::uint32_t incarnation = in.u32();
    const Epoch epoch{incarnation, in.u32()};
    switch (kind) {
        case kind_of<Announcement>():
            return read_announcement(in, epoch, bounds);
        case kind_of<Sum>():
            return read_sum(in, epoch, bounds);
        case kind_of<Want>(): {
            const Chunk chunk = read_wire_chunk(in, bounds);
            return Want{epoch, chunk, read_clock(in)};
        }
        case kind_of<Weights>(): {
            const Chunk chunk = read_wire_chunk(in, bounds);
            return Weights{epoch, chunk, read_clock(in), nullptr};
        }
        case kind_of<ParentLost>():
            return ParentLost{epoch};
        case kind_of<Covered>():
            return Covered{epoch, read_clock(in)};
        default:
            throw ProtocolError("it sent an unknown kind of message");
    }
}

}  // namespace

std::string encode(const Message& message) {
    return std::visit(Encoder(), message);
}

Message decode(std::string_view bytes, const Bounds& bounds) {
    PayloadReader in(bytes);
    Message message = read(in, bounds);
    in.finish();
    return message;
}

}  // namespace hocket::params
