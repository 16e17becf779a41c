#include "runtime/engine/run/shared_kernel.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>

#include "runtime/base/error.hpp"
#include "runtime/compute/jit/device_program.hpp"
#include "runtime/device/direct_buffer.hpp"
#include "runtime/engine/plan/address.hpp"
#include "runtime/engine/start/start_buffers.hpp"

namespace hocket::engine {
namespace {

// The lines of an epoch for one local peer. A limit of memory alone: a start has no more stripes than the
// device runs blocks at a time.
constexpr std::uint64_t most_lines = 256;
constexpr std::uint64_t bytes_of_lines = 2 * most_lines * sizeof(jit::DeviceLine);  // for one local peer
constexpr std::uint64_t lines_begin = 64;
constexpr std::uint64_t bytes_of_data = sizeof(jit::DevicePacket::data);
constexpr std::uint64_t most_packets = jit::header_packets + jit::most_packet_bytes / bytes_of_data;
constexpr std::uint64_t bytes_of_packets =
    2 * most_packets * sizeof(jit::DevicePacket);  // for one local peer
static_assert(sizeof(jit::DeviceControl) <= lines_begin && sizeof(jit::DeviceArguments) % 8 == 0);

constexpr std::uint64_t widest_access = 16;
// Arguments are taken in chunks. Before those of the first lie the words that kernels and host share.
constexpr std::uint64_t chunk_bytes = 64 << 10, slots_begin = 256, least_slots = 64;

constexpr std::uint64_t aligned(std::uint64_t bytes) {
    constexpr std::uint64_t unit = 256;  // as cudaMalloc aligns
    return (bytes + unit - 1) / unit * unit;
}

std::uint64_t bytes_of_arguments(const dsl::RankProgram& program) {
    const std::uint64_t tables =
        jit::areas_of_kernel(program) + 2 * program.boundaries.size() + 6 * program.local_peers.size();
    return aligned(sizeof(jit::DeviceArguments) + 8 * tables);
}

std::uint64_t bytes_of(const Plan& plan, dsl::Share share, std::uint64_t elements) {
    if (share == dsl::Share::none) return 0;
    // A piece may be nearly all of x.
    if (share == dsl::Share::whole || plan.is_uneven()) return elements * plan.element();
    const auto ranks = static_cast<std::uint64_t>(plan.program().ranks);
    return (elements / ranks + 1) * plan.element();
}

// The work area and the scratch slots of any start of up to so many elements. A slot of a smaller start may
// be an element longer, since boundaries are rounded; one of pieces of different lengths may be all of x.
std::uint64_t bytes_of_work(Plan& plan, std::uint64_t elements) {
    constexpr std::uint64_t unit = 64;
    const dsl::RankProgram& program = plan.program();
    const std::uint64_t slots = program.scratch.size() + 1,
                        x = (elements * plan.element() + unit) * static_cast<std::uint64_t>(program.buffers);
    if (plan.is_uneven()) return program.uses_work || slots > 1 ? slots * x : 0;
    const std::uint64_t bytes = plan.bind(Layout(elements))->memory_bytes;
    return bytes == 0 ? 0 : bytes + slots * unit;
}

// A table of 64-bit words behind the arguments. Returns its place.
template <typename Element>
std::size_t append(std::vector<std::uint64_t>& words, const std::vector<Element>& table) {
    const std::size_t place = words.size();
    for (const Element& element : table)
        if constexpr (std::is_pointer_v<Element>)
            words.push_back(reinterpret_cast<std::uintptr_t>(element));
        else
            words.push_back(element);
    return place;
}

}  // namespace

// In pinned memory, where kernels and host see each other's writes.
struct SharedKernel::HostWords {
    std::uint32_t abort, unused;
    jit::DeviceReport report;
};

SharedKernel::SharedKernel(Plan& plan, std::uint64_t elements, int members, device::LoadedKernel& kernel,
                           device::Queues& queues, const device::DeviceUse& use, std::string doing)
    : kernel_(kernel),
      queues_(queues),
      doing_(std::move(doing)),
      elements_(elements),
      deadline_(use.timeout),
      copies_(queues, doing_) {
    const dsl::RankProgram& program = plan.program();
    card_.blocks = static_cast<std::uint32_t>(queues.processors(doing_) / members);
    card_.threads = std::min(kernel.most_threads(), jit::most_device_threads);
    // Pieces of different lengths have atoms of different lengths.
    card_.stripes = plan.is_uneven() && !program.shifted.empty() ? 1 : jit::most_stripes_of(program);
    card_.origins = {program.input_origin, program.output_origin};
    const std::uint64_t peers = program.local_peers.size();
    card_.packets = lines_begin + peers * bytes_of_lines;
    card_.packet_bytes = jit::goes_by_packets(program) && !plan.is_uneven() ? use.packet_bytes : 0;
    const std::uint64_t control = card_.packets + (card_.packet_bytes > 0 ? peers * bytes_of_packets : 0);
    std::uint64_t bytes = aligned(control);
    const auto place = [&](std::uint64_t needed) { return std::exchange(bytes, bytes + aligned(needed)); };
    card_.areas[dsl::input_area] = place(bytes_of(plan, plan.input(), elements));
    card_.areas[dsl::output_area] =
        place(jit::stages_output(program) ? bytes_of(plan, plan.output(), elements) : 0);
    card_.areas[dsl::work_area] = place(bytes_of_work(plan, elements));
    if (card_.packet_bytes > 0) pulled_ = place(peers * jit::most_packet_bytes);
    slot_bytes_ = bytes_of_arguments(program);

    try {
        take_memory(bytes, control);
    } catch (...) {
        release_memory();
        throw;
    }
}

void SharedKernel::take_memory(std::uint64_t bytes, std::uint64_t control_bytes) {
    const device::Driver& driver = queues_.driver();
    const device::InContext here(driver, queues_.context(), doing_);
    add_slots();
    words() = {};
    memory_ = queues_.take_block(bytes, doing_, true);
    const auto exported = device::export_memory(driver, memory_.begin, memory_.bytes, doing_);
    if (!exported)
        throw Error(Status::invalid_argument,
                    fmt::format("other ranks cannot open memory of device {}", queues_.device()));
    card_.memory = *exported;
    card_.context = reinterpret_cast<std::uintptr_t>(queues_.context());
    copies_.clear(device::address_of(memory_.begin), control_bytes);
    copies_.fence();
}

SharedKernel::~SharedKernel() {
    release_memory();
}

void SharedKernel::release_memory() noexcept {
    const auto let_go = [&](const device::Block& block) {
        if (block.begin) is_lost_ ? queues_.set_aside(block) : queues_.give_back(block, {});
    };
    copies_.settle();
    let_go(memory_);
    for (const Chunk& chunk : chunks_) {
        let_go(chunk.memory);
        let_go(chunk.pinned);
    }
}

// ---- Until all ranks have met -------------------------------------------------------------------

bool SharedKernel::is_ready() {
    return copies_.reached() > 0;
}

std::optional<dsl::Rank> SharedKernel::open(const dsl::RankProgram& program, const LocalPeers& local_peers,
                                            std::uint64_t sequence) {
    for (const dsl::Rank rank : program.local_peers) {
        const KernelCard& card =
            cards_.emplace_back(local_peers.shown(local_peers.member_of(rank), sequence).kernel);
        const auto begin = open(card);
        if (!begin) return rank;
        peers_.push_back(reinterpret_cast<std::byte*>(*begin));
        card_.blocks = std::min(card_.blocks, card.blocks);
        card_.threads = std::min(card_.threads, card.threads);
        card_.stripes = std::min(card_.stripes, card.stripes);
        card_.packet_bytes = std::min(card_.packet_bytes, card.packet_bytes);
    }
    return std::nullopt;
}

// A thread of this process has its memory where this rank has its own.
std::optional<device::DevicePointer> SharedKernel::open(const KernelCard& card) {
    if (card.memory.process != getpid()) return copies_.open(card.memory);
    if (card.context != card_.context) return std::nullopt;
    return card.memory.begin + card.memory.offset;
}

// ---- Arguments ----------------------------------------------------------------------------------

std::size_t SharedKernel::slots_of_chunk() const {
    return std::max(least_slots, (chunk_bytes - slots_begin) / slot_bytes_);
}

void SharedKernel::add_slots() {
    const std::uint64_t bytes = slots_begin + slots_of_chunk() * slot_bytes_;
    chunks_.emplace_back();
    chunks_.back().pinned = queues_.take_block(bytes, doing_);
    chunks_.back().memory = queues_.take_block(bytes, doing_, true);
    slots_.resize(slots_.size() + slots_of_chunk());
}

std::byte* SharedKernel::pinned(std::size_t place) const {
    return chunks_[place / slots_of_chunk()].pinned.begin + slots_begin +
           place % slots_of_chunk() * slot_bytes_;
}

std::byte* SharedKernel::memory(std::size_t place) const {
    return chunks_[place / slots_of_chunk()].memory.begin + slots_begin +
           place % slots_of_chunk() * slot_bytes_;
}

SharedKernel::HostWords& SharedKernel::words() const {
    return *reinterpret_cast<HostWords*>(chunks_.front().pinned.begin);
}

// Returns the one that has not been used for longest.
std::size_t SharedKernel::free_slot() const {
    const auto best = std::ranges::min_element(
        slots_, {}, [](const Slot& slot) { return std::tuple(slot.users > 0, slot.last_use); });
    return static_cast<std::size_t>(best - slots_.begin());
}

// A stripe for each block, as long as each of its threads has an access to make. The same on all ranks.
std::uint64_t SharedKernel::stripes_of(const Binding& binding) const {
    std::uint64_t longest = 0;
    for (std::size_t i = 1; i < binding.byte_offsets.size(); ++i)
        longest = std::max(longest, binding.byte_offsets[i] - binding.byte_offsets[i - 1]);
    const std::uint64_t with_work = longest / (card_.threads * widest_access) + 1;
    return std::min({card_.stripes, std::uint64_t{card_.blocks}, most_lines, with_work});
}

// Returns the bytes of this rank's input, if they go by packets; else 0. The same on all ranks, whose inputs
// are equally long.
std::uint64_t SharedKernel::packet_bytes_of(const Start& start, const Binding& binding) const {
    const std::uint64_t bytes = bytes_of(start, binding.layout, start.plan->input());
    return bytes <= card_.packet_bytes ? bytes : 0;
}

std::byte* SharedKernel::pulled(std::size_t local_peer) const {
    return memory_.begin + pulled_ + local_peer * jit::most_packet_bytes;
}

std::vector<std::byte*> SharedKernel::areas(const Start& start, const Binding& binding) const {
    const dsl::RankProgram& program = start.plan->program();
    const auto& offsets = binding.byte_offsets;
    std::vector<std::byte*> areas(jit::areas_of_kernel(program));
    const auto place_rank = [&](dsl::AreaId first, std::byte* memory, const KernelCard& card) {
        for (const dsl::AreaId area : {dsl::input_area, dsl::output_area})
            areas[first + area] = virtual_base(memory + card.areas[area], offsets[card.origins[area]]);
        areas[first + dsl::work_area] = memory + card.areas[dsl::work_area];
    };
    place_rank(0, memory_.begin, card_);
    const bool by_packets = packet_bytes_of(start, binding) > 0;
    for (std::size_t i = 0; i < peers_.size(); ++i) {
        place_rank(dsl::RankProgram::local_peer_area(i, 0), peers_[i], cards_[i]);
        if (by_packets)
            areas[dsl::RankProgram::local_peer_area(i, dsl::input_area)] =
                virtual_base(pulled(i), offsets[cards_[i].origins[dsl::input_area]]);
    }
    areas[jit::callers_input(program)] =
        virtual_base(const_cast<std::byte*>(start.send), offsets[program.input_origin]);
    areas[jit::callers_output(program)] = virtual_base(start.recv, offsets[program.output_origin]);
    if (!jit::stages_output(program)) areas[dsl::output_area] = areas[jit::callers_output(program)];
    for (std::size_t i = 0; i < program.scratch.size(); ++i)
        areas[program.first_scratch() + i] = virtual_base(
            address(areas[dsl::work_area], binding.slot_offsets[i]), offsets[program.scratch[i].begin]);
    place_shifted(program, offsets.data(), areas.data());
    return areas;
}

// at: their place in memory of the device.
std::vector<std::uint64_t> SharedKernel::arguments_of(const Start& start, const Binding& binding,
                                                      std::uint64_t stripes, const std::byte* at) const {
    const dsl::RankProgram& program = start.plan->program();
    std::vector<const std::byte*> inboxes, outboxes, aborts, packets_here, packets_there, all_pulled;
    const auto before = static_cast<std::size_t>(std::ranges::lower_bound(program.local_peers, program.rank) -
                                                 program.local_peers.begin());
    for (std::size_t i = 0; i < peers_.size(); ++i) {
        // This rank's place among the local peers of that one, which is none of its own.
        const std::size_t own = i < before ? before - 1 : before;
        inboxes.push_back(memory_.begin + lines_begin + i * bytes_of_lines);
        outboxes.push_back(peers_[i] + lines_begin + own * bytes_of_lines);
        aborts.push_back(peers_[i] + offsetof(jit::DeviceControl, abort));
        packets_here.push_back(memory_.begin + card_.packets + i * bytes_of_packets);
        packets_there.push_back(peers_[i] + cards_[i].packets + own * bytes_of_packets);
        all_pulled.push_back(pulled(i));
    }
    std::vector<std::uint64_t> words(sizeof(jit::DeviceArguments) / 8);
    const auto place = [&](const auto& table) {
        return reinterpret_cast<std::uintptr_t>(at) + 8 * append(words, table);
    };
    jit::DeviceArguments arguments{};
    arguments.areas = reinterpret_cast<std::byte* const*>(place(areas(start, binding)));
    arguments.boundaries = reinterpret_cast<const std::uint64_t*>(place(binding.byte_offsets));
    arguments.stretches =
        reinterpret_cast<const std::uint64_t*>(place(jit::stretches_of(binding.byte_offsets, stripes)));
    arguments.inboxes = reinterpret_cast<const jit::DeviceLine* const*>(place(inboxes));
    arguments.outboxes = reinterpret_cast<jit::DeviceLine* const*>(place(outboxes));
    arguments.peer_aborts = reinterpret_cast<std::uint32_t* const*>(place(aborts));
    arguments.control = reinterpret_cast<jit::DeviceControl*>(memory_.begin);
    arguments.host_abort = &this->words().abort;
    arguments.report = &this->words().report;
    arguments.identity = start.identity;
    arguments.deadline = static_cast<std::uint64_t>(deadline_.count());
    arguments.factor = start.factor;
    arguments.stripes = stripes;
    arguments.most_stripes = most_lines;
    if (const std::uint64_t pushed = packet_bytes_of(start, binding); pushed > 0)
        arguments.packets = jit::header_packets + (pushed + bytes_of_data - 1) / bytes_of_data;
    arguments.most_packets = pulled_ > 0 ? most_packets : 0;  // this rank's memory may have no room for them
    arguments.pushed = memory_.begin + card_.areas[dsl::input_area];
    arguments.packets_here = reinterpret_cast<jit::DevicePacket* const*>(place(packets_here));
    arguments.packets_there = reinterpret_cast<jit::DevicePacket* const*>(place(packets_there));
    arguments.pulled = reinterpret_cast<std::byte* const*>(place(all_pulled));
    std::memcpy(words.data(), &arguments, sizeof arguments);
    return words;
}

// Arguments of an earlier start serve again if they are the same. They are on the device then, because
// kernels of the communicator run one after another. A graph has some of its own, which nothing changes.
std::size_t SharedKernel::find_slot(const Start& start, const Binding& binding, std::uint64_t stripes,
                                    device::Stream stream, bool for_graph) {
    auto key = arguments_of(start, binding, stripes, nullptr);
    const auto known = std::ranges::find_if(
        slots_, [&](const Slot& slot) { return slot.is_of_graph == for_graph && slot.key == key; });
    auto place = static_cast<std::size_t>(known - slots_.begin());
    if (known == slots_.end()) {
        place = free_slot();
        slots_[place].key.clear();
        const auto words = arguments_of(start, binding, stripes, memory(place));
        std::memcpy(pinned(place), words.data(), 8 * words.size());
        upload(place, 8 * words.size(), stream, for_graph);
        slots_[place].key = std::move(key);
    }
    slots_[place].last_use = ++uses_;
    slots_[place].is_of_graph = for_graph;
    return place;
}

// On the stream, before the kernel. A graph finds them there: the copy is none of its own.
void SharedKernel::upload(std::size_t place, std::uint64_t bytes, device::Stream stream, bool for_graph) {
    const device::DevicePointer to = device::address_of(memory(place));
    const device::Driver& driver = queues_.driver();
    if (!for_graph)
        return driver.require(driver.copy_to_device(to, pinned(place), bytes, stream), "cuMemcpyHtoDAsync",
                              doing_);
    device::Copies copies(queues_, doing_);
    copies.upload(to, pinned(place), bytes);
    copies.fence();
    const auto until = std::chrono::steady_clock::now() + deadline_;
    while (copies.reached() == 0) {
        if (std::chrono::steady_clock::now() >= until)
            throw Error(Status::timeout, doing_ + ": the arguments for a graph did not reach the device");
        std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
    copies.end();
}

// ---- Starts -------------------------------------------------------------------------------------

std::size_t SharedKernel::launch(const Start& start, const Binding& binding, device::Stream stream,
                                 bool for_graph) {
    const std::uint64_t stripes = packet_bytes_of(start, binding) > 0 ? 1 : stripes_of(binding);
    const std::size_t place = find_slot(start, binding, stripes, stream, for_graph);
    kernel_.launch(stream, static_cast<unsigned>(std::min<std::uint64_t>(card_.blocks, stripes)),
                   card_.threads, device::address_of(memory(place)), doing_);
    ++slots_[place].users;
    return place;
}

// While a kernel runs, only one word is sure to be whole.
jit::DeviceReport SharedKernel::report() const {
    jit::DeviceReport report = words().report;
    report.waiting = std::atomic_ref(words().report.waiting).load(std::memory_order_acquire);
    return report;
}

void SharedKernel::give_up() noexcept {
    is_lost_ = true;
    std::atomic_ref(words().abort).store(1, std::memory_order_release);
}

}  // namespace hocket::engine
