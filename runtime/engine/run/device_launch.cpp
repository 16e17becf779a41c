#include "runtime/engine/run/device_launch.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <type_traits>

#include "runtime/base/error.hpp"
#include "runtime/compute/jit/device_image.hpp"
#include "runtime/compute/jit/device_program.hpp"
#include "runtime/device/direct_buffer.hpp"

namespace hocket::engine {
namespace {

// The lines of an epoch for one local peer. A limit of memory alone: a start has no more stripes than the
// device runs blocks at a time.
constexpr std::uint64_t most_lines = 256;
constexpr std::uint64_t bytes_of_lines = 2 * most_lines * sizeof(jit::DeviceLine);  // for one local peer
constexpr std::uint64_t lines_begin = 64;
static_assert(sizeof(jit::DeviceControl) <= lines_begin && sizeof(jit::DeviceArguments) % 8 == 0);

constexpr std::uint64_t widest_access = 16;

// The sizes of what a kernel keeps.
std::uint64_t arguments_begin(const dsl::RankProgram& program) {
    return lines_begin + program.local_peers.size() * bytes_of_lines;
}
std::uint64_t bytes_of_arguments(const dsl::RankProgram& program) {
    const std::uint64_t areas = 2 * (program.areas() + 1), boundaries = 2 * program.boundaries.size(),
                        peers = 3 * program.local_peers.size();
    return sizeof(jit::DeviceArguments) + 8 * (areas + boundaries + peers);
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

// In pinned memory, where kernel and host see each other's writes. The arguments lie behind it before they
// are copied to the device.
struct DeviceLaunch::HostWords {
    std::uint32_t abort, unused;
    std::uint64_t epoch;
    jit::DeviceReport report;
};

DeviceLaunch::DeviceLaunch(const Plan& plan, const Binding& binding, const device::Buffers& buffers,
                           device::Queues& queues, bool copies_input, std::string doing)
    : plan_(plan),
      binding_(binding),
      buffers_(buffers),
      queues_(queues),
      copies_input_(copies_input),
      doing_(std::move(doing)),
      copies_(queues, doing_) {
    buffers_.devices.join(this);
}

DeviceLaunch::~DeviceLaunch() {
    buffers_.devices.leave(this);
}

// ---- Before the ranks meet ----------------------------------------------------------------------

bool DeviceLaunch::prepare(int members) {
    if (!buffers_.devices.has_turn(this)) return false;
    if (!kernel_ && obstacle_.empty()) load(members);
    if (is_clearing_) is_clearing_ = copies_.reached() == 0;
    return !is_clearing_;
}

void DeviceLaunch::load(int members) {
    const dsl::RankProgram& program = plan_.program();
    const int processors = attribute(device::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    if (buffers_.devices.use().launches_block)
        obstacle_ = "with CUDA_LAUNCH_BLOCKING=1 kernels cannot wait for each other";
    else if (const auto why = jit::why_no_device_kernel(program))
        obstacle_ = *why;
    else if (processors < members)
        // Each rank's kernel needs room for a block while the others wait.
        obstacle_ = fmt::format("{} ranks may share device {}, which has {} multiprocessors", members,
                                queues_.device(), processors);
    if (!obstacle_.empty()) return;
    blocks_ = static_cast<unsigned>(processors / members);

    const device::InContext here(buffers_.driver, queues_.context(), doing_);
    const std::string key = fmt::format("{:x} {} {} {:x} {}", program.fingerprint, program.root,
                                        name_of(plan_.type()), plan_.op().identity(), copies_input_);
    // The obstacle is the same for all buffers, so that it is told once.
    const std::string loading =
        fmt::format("loading the kernel of {} by {} on device {}", dsl::name_of(program.collective),
                    program.schedule, queues_.device());
    try {
        kernel_ = &queues_.kernel(
            key, [this] { return make_image(); }, arguments_begin(program) + bytes_of_arguments(program),
            sizeof(HostWords) + bytes_of_arguments(program), loading);
    } catch (const Error& error) {
        if (error.status() == Status::device) throw;
        obstacle_ =
            error.status() == Status::out_of_memory ? "there is no memory for " + loading : error.what();
        return;
    }
    const device::Block& memory = kernel_->memory();
    exported_ = device::export_memory(buffers_.driver, memory.begin, memory.bytes, doing_);
    if (!exported_) obstacle_ = fmt::format("other ranks cannot open memory of device {}", queues_.device());
    if (!kernel_->is_clear) {
        copies_.clear(device::address_of(memory.begin), memory.bytes);
        copies_.fence();
        kernel_->is_clear = is_clearing_ = true;
    }
    most_stripes_ = most_stripes();
}

// A stripe for each block, as long as each of its threads has an access to make.
std::uint64_t DeviceLaunch::most_stripes() const {
    const dsl::RankProgram& program = plan_.program();
    // Pieces of different lengths have atoms of different lengths.
    if (plan_.is_uneven() && !program.shifted.empty()) return 1;
    std::uint64_t longest = 0;
    for (std::size_t i = 1; i < binding_.byte_offsets.size(); ++i)
        longest = std::max(longest, binding_.byte_offsets[i] - binding_.byte_offsets[i - 1]);
    const std::uint64_t with_work = longest / (std::uint64_t{threads()} * widest_access) + 1;
    return std::min({jit::most_stripes_of(program), std::uint64_t{blocks_}, most_lines, with_work});
}

unsigned DeviceLaunch::threads() const {
    return std::min(kernel_->most_threads(), jit::most_device_threads);
}

device::KernelImage DeviceLaunch::make_image() const {
    const compute::Reduction& op = plan_.op();
    const jit::DeviceShape shape =
        jit::device_shape_of(plan_.program(), plan_.type(), op.built_in(),
                             op.defined() ? op.defined()->formula : dsl::Formula(), copies_input_);
    const int capability = 10 * attribute(device::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
                           attribute(device::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    jit::DeviceImage image = jit::device_image(shape, capability);
    return {std::move(image.text), jit::device_kernel_name, std::move(image.code)};
}

int DeviceLaunch::attribute(int which) const {
    const device::Driver& driver = buffers_.driver;
    int handle = 0, value = 0;
    driver.require(driver.device_get(&handle, queues_.device()), "cuDeviceGet", doing_);
    driver.require(driver.device_get_attribute(&value, which, handle), "cuDeviceGetAttribute", doing_);
    return value;
}

void DeviceLaunch::show(LocalPeers::Shown& own) const {
    own.signals = *exported_;
    own.starts = kernel_->starts;
    own.most_stripes = most_stripes_;
}

// ---- When they have met -------------------------------------------------------------------------

std::byte* DeviceLaunch::open(const device::Exported& exported) {
    const auto begin = copies_.open(exported);
    return begin ? reinterpret_cast<std::byte*>(*begin) : nullptr;
}

bool DeviceLaunch::shares_process(const LocalPeers& local_peers, std::uint64_t sequence) const {
    return std::ranges::any_of(plan_.program().local_peers, [&](dsl::Rank rank) {
        return local_peers.shown(local_peers.member_of(rank), sequence).signals.process == getpid();
    });
}

std::optional<dsl::Rank> DeviceLaunch::open_signals(const LocalPeers& local_peers, std::uint64_t sequence) {
    peers_.clear();
    stripes_ = most_stripes_;
    starts_ = kernel_->starts;
    for (const dsl::Rank rank : plan_.program().local_peers) {
        const LocalPeers::Shown& shown = local_peers.shown(local_peers.member_of(rank), sequence);
        peers_.push_back(open(shown.signals));
        if (!peers_.back()) return rank;
        // Ranks may have made the plan, and so the memory of its kernel, at different times.
        starts_ = std::max(starts_, shown.starts);
        stripes_ = std::min(stripes_, shown.most_stripes);
    }
    return std::nullopt;
}

DeviceLaunch::HostWords& DeviceLaunch::words() const {
    return *reinterpret_cast<HostWords*>(kernel_->pinned().begin);
}

std::vector<std::uint64_t> DeviceLaunch::fill_arguments(const Start& start,
                                                        const std::vector<std::byte*>& areas) const {
    const dsl::RankProgram& program = plan_.program();
    std::byte* const memory = kernel_->memory().begin;
    std::vector<std::byte*> both = areas;  // all kernels have ended before the next start, so one set will do
    both.insert(both.end(), areas.begin(), areas.end());
    std::vector<std::byte*> inboxes, outboxes, aborts;
    const auto before = static_cast<std::size_t>(std::ranges::lower_bound(program.local_peers, program.rank) -
                                                 program.local_peers.begin());
    for (std::size_t i = 0; i < peers_.size(); ++i) {
        // This rank's place among the local peers of that one, which is none of its own.
        const std::size_t own = i < before ? before - 1 : before;
        inboxes.push_back(memory + lines_begin + i * bytes_of_lines);
        outboxes.push_back(peers_[i] + lines_begin + own * bytes_of_lines);
        aborts.push_back(peers_[i] + offsetof(jit::DeviceControl, abort));
    }
    std::vector<std::uint64_t> tables(sizeof(jit::DeviceArguments) / 8);
    std::byte* const begin = memory + arguments_begin(program);
    const auto place = [&](const auto& table) { return begin + 8 * append(tables, table); };
    jit::DeviceArguments arguments{};
    arguments.areas = reinterpret_cast<std::byte* const*>(place(both));
    arguments.boundaries = reinterpret_cast<const std::uint64_t*>(place(binding_.byte_offsets));
    arguments.stretches =
        reinterpret_cast<const std::uint64_t*>(place(jit::stretches_of(binding_.byte_offsets, stripes_)));
    arguments.inboxes = reinterpret_cast<const jit::DeviceLine* const*>(place(inboxes));
    arguments.outboxes = reinterpret_cast<jit::DeviceLine* const*>(place(outboxes));
    arguments.peer_aborts = reinterpret_cast<std::uint32_t* const*>(place(aborts));
    arguments.control = reinterpret_cast<jit::DeviceControl*>(memory);
    arguments.host_abort = &words().abort;
    arguments.report = &words().report;
    arguments.identity = start.checksum;
    arguments.deadline = static_cast<std::uint64_t>(buffers_.devices.use().timeout.count());
    arguments.factor = start.factor;
    arguments.stripes = stripes_;
    arguments.most_stripes = most_lines;
    std::memcpy(tables.data(), &arguments, sizeof arguments);
    return tables;
}

bool DeviceLaunch::launch(const Start& start, const std::vector<std::byte*>& areas, LocalPeers& local_peers) {
    std::size_t begun = 0;
    for (const dsl::Rank rank : plan_.program().local_peers) {
        if (!local_peers.begin_pull(local_peers.member_of(rank))) break;
        ++begun;
    }
    if (begun < peers_.size()) {
        for (; begun > 0; --begun) local_peers.end_pull();
        return false;
    }
    is_running_ = true;  // settle() ends the pulls
    std::byte* const memory = kernel_->memory().begin;
    words() = {};
    if (starts_ != kernel_->starts) {
        words().epoch = starts_;
        copies_.upload(device::address_of(memory + offsetof(jit::DeviceControl, epoch)),
                       reinterpret_cast<const std::byte*>(&words().epoch), sizeof words().epoch);
    }
    const std::vector<std::uint64_t> arguments = fill_arguments(start, areas);
    std::byte* const staged = kernel_->pinned().begin + sizeof(HostWords);
    std::memcpy(staged, arguments.data(), 8 * arguments.size());
    const device::DevicePointer at = device::address_of(memory + arguments_begin(plan_.program()));
    copies_.upload(at, staged, 8 * arguments.size());
    copies_.launch(*kernel_, std::min<unsigned>(blocks_, static_cast<unsigned>(stripes_)), threads(), at);
    kernel_->starts = starts_ + 1;
    already_reached_ = copies_.reached();
    copies_.fence();
    return true;
}

bool DeviceLaunch::has_ended(LocalPeers& local_peers) {
    if (!is_running_) return true;
    if (copies_.reached() == already_reached_) return false;
    is_running_ = false;
    for (std::size_t i = 0; i < peers_.size(); ++i) local_peers.end_pull();
    return true;
}

// While the kernel runs, only one word is sure to be whole.
jit::DeviceReport DeviceLaunch::report() const {
    jit::DeviceReport report{};
    if (!is_running_) report = words().report;
    report.waiting = std::atomic_ref(words().report.waiting).load(std::memory_order_acquire);
    return report;
}

void DeviceLaunch::end() noexcept {
    copies_.end();
    buffers_.devices.leave(this);
}

bool DeviceLaunch::settle(LocalPeers& local_peers) noexcept {
    if (kernel_) {
        kernel_->lose();  // local peers' kernels may still tell this one that they give up
        std::atomic_ref(words().abort).store(1, std::memory_order_release);
    }
    if (!copies_.settle()) return false;
    if (is_running_)
        for (std::size_t i = 0; i < peers_.size(); ++i) local_peers.end_pull();
    is_running_ = is_clearing_ = false;
    return true;
}

}  // namespace hocket::engine
