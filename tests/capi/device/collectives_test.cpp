// Collectives on memory of devices give the bits that they give on memory of the host.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <vector>

#include "tests/capi/device/messages.hpp"
#include "tests/support/long_form.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/test.hpp"

using namespace hocket::test;

namespace {

constexpr hkt_type types[] = {HKT_FLOAT32,  HKT_FLOAT64, HKT_INT32,  HKT_INT64,  HKT_INT8,
                              HKT_INT16,    HKT_UINT8,   HKT_UINT16, HKT_UINT32, HKT_UINT64,
                              HKT_BFLOAT16, HKT_FLOAT16, HKT_BOOL};

// Whole numbers, so small that no sum of four is rounded or wraps around.
template <typename T>
void put(std::byte* at, int value) {
    const T element = static_cast<T>(value);
    std::memcpy(at, &element, sizeof element);
}

void put(hkt_type type, std::byte* at, int value) {
    constexpr std::uint16_t halves[] = {0, 0x3c00, 0x4000, 0x4200, 0x4400, 0x4500, 0x4600, 0x4700},
                            brains[] = {0, 0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0, 0x40c0, 0x40e0};
    switch (type) {
        case HKT_FLOAT32:
            return put<float>(at, value);
        case HKT_FLOAT64:
            return put<double>(at, value);
        case HKT_FLOAT16:
            return put<std::uint16_t>(at, halves[value]);
        case HKT_BFLOAT16:
            return put<std::uint16_t>(at, brains[value]);
        case HKT_BOOL:
            return put<std::uint8_t>(at, value % 2);
        default:
            break;
    }
    switch (hkt_type_size(type)) {
        case 1:
            return put<std::uint8_t>(at, value);
        case 2:
            return put<std::uint16_t>(at, value);
        case 4:
            return put<std::uint32_t>(at, value);
        default:
            return put<std::uint64_t>(at, value);
    }
}

Bytes filled(hkt_type type, std::size_t count, int rank) {
    const std::size_t size = hkt_type_size(type);
    Bytes bytes(count * size);
    // A prime number of elements, again and again: no boundary of a piece or a tile falls on its end.
    const std::size_t period = std::min<std::size_t>(count, 10'007);
    for (std::size_t i = 0; i < period; ++i)
        put(type, &bytes[i * size],
            static_cast<int>((i * 5 + i / 97 + static_cast<std::size_t>(rank) * 3) % 8));
    for (std::size_t at = period * size; at < bytes.size(); at += period * size)
        std::memcpy(&bytes[at], bytes.data(), std::min(period * size, bytes.size() - at));
    return bytes;
}

// The arguments that a rank passes to a collective. Counts are in elements.
struct Call {
    std::string name;
    std::size_t sent, received;
    std::size_t in_place;  // where the one buffer then begins in the other
    bool sends_from_recv;  // send begins in recv; else recv in send
    std::function<hkt_status(const void* send, void* recv, hkt_request** request)> start;
};

struct Given {
    hkt_comm* comm;
    hkt_type type;
    std::size_t count;
    std::vector<std::size_t> counts;                            // by rank
    std::vector<std::size_t> to, from, places_to, places_from;  // all_to_all_v
};

Given give(hkt_comm* comm, hkt_type type, std::size_t count) {
    Given given{comm, type, count, {}, {}, {}, {}, {}};
    const int rank = hkt_comm_rank(comm), ranks = hkt_comm_size(comm);
    const auto pair = [&](int a, int b) { return (count * static_cast<std::size_t>((a + 2 * b) % 4)) / 2; };
    std::size_t to = 0, from = 3;
    for (int peer = 0; peer < ranks; ++peer) {
        given.counts.push_back(count * static_cast<std::size_t>(peer % 3) + (count > 0 ? 1 : 0));
        given.to.push_back(pair(rank, peer));
        given.from.push_back(pair(peer, rank));
        given.places_to.push_back(to);
        given.places_from.push_back(from);
        to += given.to.back();
        from += given.from.back() + 7;  // gaps, which must stay as they are
    }
    return given;
}

std::size_t sum_before(const std::vector<std::size_t>& counts, std::size_t end) {
    std::size_t all = 0;
    for (std::size_t i = 0; i < end; ++i) all += counts[i];
    return all;
}

std::vector<Call> calls_of(const Given& g) {
    hkt_comm* const comm = g.comm;
    const hkt_type type = g.type;
    const std::size_t count = g.count;
    const auto rank = static_cast<std::size_t>(hkt_comm_rank(comm)),
               ranks = static_cast<std::size_t>(hkt_comm_size(comm));
    const int root = hkt_comm_size(comm) - 1;
    const bool is_root = static_cast<int>(rank) == root;
    const hkt_op op = type == HKT_BOOL ? HKT_MAX : HKT_SUM;
    const std::size_t all = sum_before(g.counts, ranks), before = sum_before(g.counts, rank),
                      own = g.counts[rank];
    const std::size_t* counts = g.counts.data();
    return {
        {"all_reduce", count, count, 0, false,
         [=](const void* s, void* r, hkt_request** q) {
             return hkt_all_reduce(s, r, count, type, op, comm, q);
         }},
        {"reduce_scatter", count * ranks, count, rank * count, false,
         [=](const void* s, void* r, hkt_request** q) {
             return hkt_reduce_scatter(s, r, count, type, op, comm, q);
         }},
        {"all_gather", count, count * ranks, rank * count, true,
         [=](const void* s, void* r, hkt_request** q) { return hkt_all_gather(s, r, count, type, comm, q); }},
        {"broadcast", is_root ? count : 0, count, 0, false,
         [=](const void* s, void* r, hkt_request** q) {
             return hkt_broadcast(s, r, count, type, root, comm, q);
         }},
        {"gather", count, is_root ? count * ranks : 0, rank * count, true,
         [=](const void* s, void* r, hkt_request** q) {
             return hkt_gather(s, r, count, type, root, comm, q);
         }},
        {"reduce", count, is_root ? count : 0, 0, false,
         [=](const void* s, void* r, hkt_request** q) {
             return hkt_reduce(s, r, count, type, op, root, comm, q);
         }},
        {"scatter", is_root ? count * ranks : 0, count, rank * count, false,
         [=](const void* s, void* r, hkt_request** q) {
             return hkt_scatter(s, r, count, type, root, comm, q);
         }},
        {"all_to_all", count * ranks, count * ranks, 0, false,
         [=](const void* s, void* r, hkt_request** q) { return hkt_all_to_all(s, r, count, type, comm, q); }},
        {"all_gather_v", own, all, before, true,
         [=](const void* s, void* r, hkt_request** q) {
             return hkt_all_gather_v(s, r, counts, type, comm, q);
         }},
        {"reduce_scatter_v", all, own, before, false,
         [=](const void* s, void* r, hkt_request** q) {
             return hkt_reduce_scatter_v(s, r, counts, type, op, comm, q);
         }},
        {"gather_v", own, is_root ? all : 0, before, true,
         [=](const void* s, void* r, hkt_request** q) {
             return hkt_gather_v(s, r, counts, type, root, comm, q);
         }},
        {"scatter_v", is_root ? all : 0, own, before, false,
         [=](const void* s, void* r, hkt_request** q) {
             return hkt_scatter_v(s, r, counts, type, root, comm, q);
         }},
        {"all_to_all_v", sum_before(g.to, ranks), 3 + sum_before(g.from, ranks) + 7 * ranks, 0, false,
         [=](const void* s, void* r, hkt_request** q) {
             return hkt_all_to_all_v(s, g.to.data(), g.places_to.data(), r, g.from.data(),
                                     g.places_from.data(), type, comm, q);
         }},
    };
}

// The buffers of a rank that are on a device.
struct Places {
    bool send, recv;
    int send_device = 0, recv_device = 0;
};

constexpr std::byte unwritten{0x77};

// The contents of recv afterwards if all memory is the host's.
Bytes on_host(hkt_comm* comm, const Call& call, const Bytes& input, std::size_t size) {
    Bytes output(call.received * size, unwritten);
    must(comm, call.start(input.data(), output.data(), nullptr));
    return output;
}

// A buffer on the host or on a device.
class FilledBuffer {
  public:
    FilledBuffer(const Cuda& cuda, const Bytes& contents, std::optional<int> device)
        : cuda_(cuda), device_(device), own_(contents) {
        if (!device) return;
        cuda.use_device(*device);
        memory_ = std::make_unique<DeviceMemory>(cuda, contents.size());
        memory_->write(contents);
        cuda.use_device(0);
    }
    std::byte* data() { return memory_ ? memory_->data() : own_.data(); }
    // stream: of the buffer's device, if it is the default one.
    Bytes contents(void* stream) const {
        if (!memory_) return own_;
        cuda_.use_device(*device_);
        const Bytes read = memory_->read(stream);
        cuda_.use_device(0);
        return read;
    }

  private:
    const Cuda& cuda_;
    const std::optional<int> device_;
    Bytes own_;
    std::unique_ptr<DeviceMemory> memory_;
};

void check_apart(const Cuda& cuda, hkt_comm* comm, const Call& call, hkt_type type, Places places,
                 void* stream, bool with_request) {
    const std::size_t size = hkt_type_size(type);
    const Bytes input = filled(type, call.sent, hkt_comm_rank(comm));
    const Bytes wanted = on_host(comm, call, input, size);
    const auto device = [](bool is_there, int which) {
        return is_there ? std::optional(which) : std::nullopt;
    };
    FilledBuffer send(cuda, input, device(places.send, places.send_device)),
        recv(cuda, Bytes(call.received * size, unwritten), device(places.recv, places.recv_device));
    hkt_request* request = nullptr;
    must(comm, call.start(send.data(), recv.data(), with_request ? &request : nullptr));
    if (request != nullptr) must(comm, hkt_wait(request));
    expect(recv.contents(stream) == wanted, call.name + " is another on a device");
    expect(send.contents(stream) == input, call.name + " wrote to what it sends");
}

void check_in_place(const Cuda& cuda, hkt_comm* comm, const Call& call, hkt_type type, void* stream) {
    const std::size_t size = hkt_type_size(type), before = call.in_place * size;
    const Bytes input = filled(type, call.sent, hkt_comm_rank(comm));
    // A rank that is not the root may have no other buffer, and its place in the root's means nothing.
    Bytes whole(std::max(call.sent, call.received) * size + before, unwritten);
    std::copy(input.begin(), input.end(),
              whole.begin() + static_cast<std::ptrdiff_t>(call.sends_from_recv ? before : 0));
    const auto run = [&](std::byte* begin) {
        std::byte *send = call.sends_from_recv ? begin + before : begin,
                  *recv = call.sends_from_recv ? begin : begin + before;
        must(comm, call.start(send, recv, nullptr));
    };
    Bytes wanted = whole;
    run(wanted.data());
    FilledBuffer buffer(cuda, whole, 0);
    run(buffer.data());
    Bytes got = buffer.contents(stream);
    // In place, elements beside the rank's own piece of send are unchanged.
    expect(got == wanted, call.name + " in place is another on a device");
}

// Each rank's place changes with the collective, and the ranks' places differ.
Places mixed(int rank, std::size_t index) {
    const auto kind = (static_cast<std::size_t>(rank) + index) % 4;
    return {(kind & 1) != 0, (kind & 2) != 0, 0, 0};
}

void check_all(const Cuda& cuda, hkt_comm* comm, hkt_type type, std::size_t count) {
    DeviceStream stream(cuda);
    const Given given = give(comm, type, count);
    const std::vector<Call> calls = calls_of(given);
    for (std::size_t i = 0; i < calls.size(); ++i) {
        const Call& call = calls[i];
        const bool on_default = i % 3 == 0;
        void* const handle = on_default ? nullptr : stream.handle();
        must(comm, hkt_comm_set_stream(comm, handle));
        try {
            check_apart(cuda, comm, call, type, {true, true, 0, 0}, handle, i % 2 == 0);
            check_apart(cuda, comm, call, type, mixed(hkt_comm_rank(comm), i), handle, i % 2 == 1);
            if (call.name != "all_to_all_v") check_in_place(cuda, comm, call, type, handle);
        } catch (const std::exception& error) {
            throw std::runtime_error(call.name + " of " + std::to_string(count) + " " + hkt_type_name(type) +
                                     ": " + error.what());
        }
    }
}

}  // namespace

TEST_CASE("every collective on memory of devices gives the host's bits, with every type") {
    for (const std::string hosts : {"a", "aa", "aaa", "aaaa", "ab", "abcd", "aabb"}) {
        INFO(hosts);
        CHECK(run_on_devices(hosts, [&](const Cuda& cuda, hkt_comm* comm) {
                  std::set<std::size_t> sizes;  // edges depend on a type's size alone
                  std::size_t number = hosts.size() + (hosts.back() == 'b' ? 1 : 0);
                  for (const hkt_type type : types) {
                      if (number++ % in_long_form(1, 5) != 0) continue;
                      check_all(cuda, comm, type, 1000);
                      if (!sizes.insert(hkt_type_size(type)).second) continue;
                      for (const std::size_t count : {0, 1}) check_all(cuda, comm, type, count);
                  }
              }) == "");
    }
}

TEST_CASE("buffers of several MiB go to and from devices in pieces") {
    for (const std::string hosts : {"a", "aa", "abc", "aabb"}) {
        if (hosts == "abc" && !is_long_form()) continue;  // "aabb" has messages, too
        INFO(hosts);
        CHECK(run_on_devices(hosts, [](const Cuda& cuda, hkt_comm* comm) {
                  check_all(cuda, comm, HKT_FLOAT32, in_long_form(600'007, 290'007));
                  if (is_long_form()) check_all(cuda, comm, HKT_INT8, 700'001);
              }) == "");
    }
}

TEST_CASE("schedules with many steps on memory of devices") {
    // Each schedule occurs at least once, and each placement.
    const std::pair<const char*, std::string> jobs[] = {
        {"ring", "aaaa"}, {"ring", "aabb"}, {"halving", "abcd"}, {"bruck", "aabb"}, {"binomial", "aaaa"}};
    for (const auto& [schedule, hosts] : jobs) {
        INFO(schedule << " on " << hosts);
        CHECK(run_on_devices(
                  hosts,
                  [](const Cuda& cuda, hkt_comm* comm) {
                      DeviceStream stream(cuda);
                      must(comm, hkt_comm_set_stream(comm, stream.handle()));
                      // At least two pieces of 256 KiB.
                      const Given given = give(comm, HKT_FLOAT32, in_long_form(200'001, 70'001));
                      for (const Call& call : calls_of(given)) {
                          if (call.name == "all_to_all_v") continue;  // takes direct schedules alone
                          check_apart(cuda, comm, call, HKT_FLOAT32, {true, true}, stream.handle(), true);
                          check_in_place(cuda, comm, call, HKT_FLOAT32, stream.handle());
                      }
                  },
                  {{"HOCKET_SCHEDULE", schedule}}) == "");
    }
}

TEST_CASE("an operator with a factor works on memory of devices") {
    for (const std::string hosts : {"a", "aaa", "abc", "aab"}) {
        INFO(hosts);
        CHECK(run_on_devices(hosts, [](const Cuda& cuda, hkt_comm* comm) {
                  hkt_op op = HKT_SUM;
                  must(comm, hkt_premul_sum_create(hkt_comm_rank(comm) + 2, comm, &op));
                  for (const std::size_t count : {1, 1000, 500'000}) {
                      const Call call{
                          "premul_sum", count, count, 0, false, [=](const void* s, void* r, hkt_request** q) {
                              return hkt_all_reduce(s, r, count, HKT_FLOAT32, op, comm, q);
                          }};
                      check_apart(cuda, comm, call, HKT_FLOAT32, {true, true}, nullptr, false);
                      check_in_place(cuda, comm, call, HKT_FLOAT32, nullptr);
                  }
              }) == "");
    }
}

TEST_CASE("a plan on memory of devices, of two devices, and beside memory of the window") {
    for (const std::string hosts : {"aa", "ab"}) {
        INFO(hosts);
        CHECK(run_on_devices(hosts, [](const Cuda& cuda, hkt_comm* comm) {
                  hkt_plan* plan = nullptr;
                  must(comm, hkt_plan_create(comm, HKT_ALL_REDUCE, HKT_FLOAT32, HKT_SUM, nullptr, &plan));
                  const int last = cuda.devices() - 1;
                  for (const std::size_t count : {1, 1000, 500'000}) {
                      const Call call{"the plan",
                                      count,
                                      count,
                                      0,
                                      false,
                                      [=](const void* s, void* r, hkt_request** q) {
                                          return hkt_plan_start(plan, s, r, count, q); }};
                      check_apart(cuda, comm, call, HKT_FLOAT32, {true, true, 0, last}, nullptr, true);
                      check_apart(cuda, comm, call, HKT_FLOAT32, {true, true, last, 0}, nullptr, false);
                      check_apart(cuda, comm, call, HKT_FLOAT32, {false, true, 0, last}, nullptr, false);
                      // The one rank in the window, the other on a device.
                      void* shared = nullptr;
                      must(comm, hkt_mem_alloc(comm, 4 * count, &shared));
                      const Bytes input = filled(HKT_FLOAT32, count, hkt_comm_rank(comm));
                      const Bytes wanted = on_host(comm, call, input, 4);
                      DeviceMemory memory(cuda, 4 * count);
                      memory.write(input);
                      std::memcpy(shared, input.data(), 4 * count);
                      void* const buffer = hkt_comm_rank(comm) == 0 ? shared : memory.data();
                      must(comm, hkt_plan_start(plan, buffer, buffer, count, nullptr));
                      const auto* begin = static_cast<const std::byte*>(shared);
                      expect((buffer == shared ? Bytes(begin, begin + 4 * count) : memory.read()) == wanted,
                             "one rank in the window, the other on a device");
                      must(comm, hkt_mem_free(comm, shared));
                  }
                  hkt_plan_destroy(plan);
              }) == "");
    }
}

TEST_CASE("schedules that compute give the same bits on memory of devices, step after step") {
    for (const std::string hosts : {"a", "aabb", "abcd"})
        CHECK(run_on_devices(
                  hosts,
                  [](const Cuda& cuda, hkt_comm* comm) {
                      constexpr std::size_t count = 50'000;
                      for (const std::string schedule : {"naive_ag(0.1)", "hitopk(0.1)"}) {
                          if (schedule[0] == 'h' && hkt_comm_size(comm) == 1) continue;
                          hkt_plan_options options = HKT_PLAN_OPTIONS_INIT;
                          options.schedule = schedule.c_str();
                          hkt_plan *on_host = nullptr, *on_device = nullptr;
                          for (hkt_plan** plan : {&on_host, &on_device})
                              must(comm, hkt_plan_create(comm, HKT_ALL_REDUCE, HKT_FLOAT32, HKT_SUM, &options,
                                                         plan));
                          const DeviceMemory send(cuda, count * sizeof(float)),
                              recv(cuda, count * sizeof(float));
                          for (int step = 0; step < 3; ++step) {
                              const Bytes x = filled(HKT_FLOAT32, count, hkt_comm_rank(comm) + step);
                              Bytes wanted(x.size());
                              send.write(x);
                              must(comm, hkt_plan_start(on_host, x.data(), wanted.data(), count, nullptr));
                              must(comm, hkt_plan_start(on_device, send.data(), recv.data(), count, nullptr));
                              expect(recv.read() == wanted,
                                     schedule + " differs in step " + std::to_string(step));
                          }
                          hkt_plan_destroy(on_host);
                          hkt_plan_destroy(on_device);
                      }
                  },
                  {{"HOCKET_TOPOLOGY", hosts.size() == 4 ? "2x2" : "1"}}) == "");
}

namespace {

// An optimiser's step, or a schedule of this file, with further buffers.
struct Computing {
    std::string schedule;
    std::vector<double> parameters;
    std::size_t further;
};

// A copy in memory of the host that streams may read.
class Pinned {
  public:
    Pinned(const Cuda& cuda, const Bytes& contents) : cuda_(cuda) {
        must(cuda.host_allocate(&memory_, contents.size(), 0), "cuMemHostAlloc");
        std::memcpy(memory_, contents.data(), contents.size());
    }
    ~Pinned() { cuda_.host_release(memory_); }
    Pinned(const Pinned&) = delete;
    const void* data() const { return memory_; }

  private:
    const Cuda& cuda_;
    void* memory_ = nullptr;
};

// Starts the plan thrice with some of its buffers on devices, also on a stream on which they are written just
// before, and compares with the same starts of another plan on the host.
void check_computing(const Cuda& cuda, hkt_comm* comm, const Computing& computing, hkt_type type,
                     std::size_t count, std::mt19937_64& random) {
    const std::size_t counts[] = {count / 3, count - count / 3};
    hkt_plan_options options = HKT_PLAN_OPTIONS_INIT;
    options.schedule = computing.schedule.c_str();
    options.tensor_counts = counts;
    options.tensors = 2;
    hkt_plan *on_host = nullptr, *on_devices = nullptr;
    for (hkt_plan** plan : {&on_host, &on_devices})
        must(comm, hkt_plan_create(comm, HKT_ALL_REDUCE, type, HKT_SUM, &options, plan));
    hkt_start_options with = HKT_START_OPTIONS_INIT;
    with.parameters = computing.parameters.data();
    with.parameter_count = computing.parameters.size();
    with.buffer_count = computing.further;
    const hkt_type working = type == HKT_FLOAT64 ? HKT_FLOAT64 : HKT_FLOAT32;
    const int last = cuda.devices() - 1;
    DeviceStream stream(cuda);
    for (int step = 0; step < 3; ++step) {
        std::vector<Bytes> contents{filled(type, count, hkt_comm_rank(comm) + step)};
        for (std::size_t i = 0; i < computing.further; ++i)
            contents.push_back(filled(working, count, 10 + step + static_cast<int>(i)));
        Bytes wanted(contents[0].size()), result(wanted.size());
        // The place of each buffer, and of recv as the last one: -1 for the host.
        std::vector<int> places(contents.size() + 1);
        for (int& place : places) place = std::uniform_int_distribution(-1, cuda.devices() - 1)(random);
        const bool has_stream = random() % 2 == 0;
        if (has_stream)  // all on the stream's device
            for (int& place : places) place = std::min(place, 0);
        if (step == 2) {  // one buffer alone
            std::ranges::fill(places, -1);
            places[random() % (places.size() - 1)] = has_stream ? 0 : last;
        }

        std::vector<std::unique_ptr<DeviceMemory>> memory(places.size());
        std::vector<const void*> buffers(places.size());
        for (std::size_t i = 0; i < places.size(); ++i) {
            const bool is_recv = i == contents.size();
            buffers[i] = is_recv ? result.data() : contents[i].data();
            if (places[i] < 0) continue;
            cuda.use_device(places[i]);
            memory[i] = std::make_unique<DeviceMemory>(cuda, is_recv ? wanted.size() : contents[i].size());
            buffers[i] = memory[i]->data();
            if (is_recv) continue;
            // Wrong data until the stream has written the right ones.
            memory[i]->write(has_stream ? Bytes(contents[i].size(), std::byte{0x5a}) : contents[i]);
        }
        cuda.use_device(0);
        std::vector<std::unique_ptr<Pinned>> pinned;
        if (has_stream) {
            stream.be_busy(20);
            for (std::size_t i = 0; i < contents.size(); ++i) {
                if (!memory[i]) continue;
                pinned.push_back(std::make_unique<Pinned>(cuda, contents[i]));
                must(cuda.write_async(reinterpret_cast<std::uintptr_t>(buffers[i]), pinned.back()->data(),
                                      contents[i].size(), stream.handle()),
                     "cuMemcpyHtoDAsync");
            }
        }
        std::vector<const void*> given(computing.further);
        for (std::size_t i = 0; i < given.size(); ++i) given[i] = contents[i + 1].data();
        with.buffers = given.data();
        must(comm, hkt_plan_start_with(on_host, contents[0].data(), wanted.data(), count, &with, nullptr));
        with.buffers = buffers.data() + 1;
        must(comm, hkt_comm_set_stream(comm, has_stream ? stream.handle() : nullptr));
        must(comm, hkt_plan_start_with(on_devices, buffers[0], const_cast<void*>(buffers.back()), count,
                                       &with, nullptr));
        const auto& there = memory.back();
        cuda.use_device(std::max(places.back(), 0));
        const Bytes got = there ? there->read(has_stream ? stream.handle() : nullptr) : result;
        cuda.use_device(0);
        expect(got == wanted, [&] {
            std::string text = computing.schedule + " of " + std::to_string(count) + " " +
                               hkt_type_name(type) + " differs in step " + std::to_string(step) +
                               (has_stream ? ", stream" : "") + ", places";
            for (const int place : places) text += " " + std::to_string(place);
            return text;
        });
        must(cuda.stream_synchronize(stream.handle()), "cuStreamSynchronize");
    }
    must(comm, hkt_comm_set_stream(comm, nullptr));
    hkt_plan_destroy(on_host);
    hkt_plan_destroy(on_devices);
}

}  // namespace

TEST_CASE("each buffer of a schedule that computes may be on any device, further ones too") {
    const Computing all[] = {{"lars", {0.1}, 1},
                             {"lars_everywhere", {0.1}, 1},
                             {"lamb", {0.1, 0.5, 0.25}, 1},
                             {"lamb_everywhere", {0.1, 0.5, 0.25}, 1},
                             {"two_more", {}, 2}};
    const TemporaryFolder folder;
    std::ofstream(folder.path() + "/two_more.sched") <<
        R"(schedule two_more all_reduce(x) with a, b {
    x = x * a
    reduce_scatter x over world
    partition a over world
    partition b over world
    state s like x
    let m = total(a * b)
    all_gather m over world
    s = s + x - b
    x = s * (a + sum(m))
    all_gather x over world
}
)";
    for (const std::string hosts : {"a", "aa", "ab", "aaabb"})
        for (int turn = 0; turn < (is_long_form() ? 8 : 1); ++turn)
            CHECK(run_on_devices(
                      hosts,
                      [&](const Cuda& cuda, hkt_comm* comm) {
                          std::mt19937_64 random(
                              static_cast<std::uint64_t>(turn * 64 + hkt_comm_rank(comm)) * 7 + hosts.size());
                          for (const Computing& one : all)
                              for (const std::size_t count : {2, 1000, 700'001})
                                  for (const hkt_type type : {HKT_FLOAT32, HKT_BFLOAT16, HKT_FLOAT64})
                                      if (is_long_form() || (type == HKT_FLOAT32) != (count == 1000))
                                          check_computing(cuda, comm, one, type, count, random);
                      },
                      {{"HOCKET_SCHEDULE_PATH", folder.path()}}) == "");
}

TEST_CASE("what only moves data goes from device to device inside a host, with every schedule") {
    if (!Cuda::is_fake()) HOCKET_SKIP("only the tests' driver counts its calls");
    for (const std::string schedule : {"", "ring"})
        for (const std::string hosts : {"aa", "aaaa"}) {
            if (!is_long_form() && schedule.empty() == (hosts == "aaaa")) continue;
            INFO(schedule << " on " << hosts);
            CHECK(run_on_devices(
                      hosts,
                      [](const Cuda& cuda, hkt_comm* comm) {
                          const Given given = give(comm, HKT_FLOAT32, in_long_form(300'001, 140'001));
                          for (const Call& call : calls_of(given)) {
                              if (call.name.find("reduce") != std::string::npos) continue;
                              if (call.name == "all_to_all_v") continue;
                              const bool overlaps = call.name == "all_to_all";
                              const unsigned long long before = cuda.count("cuMemHostAlloc");
                              check_apart(cuda, comm, call, HKT_FLOAT32, {true, true}, nullptr, true);
                              if (!overlaps) check_in_place(cuda, comm, call, HKT_FLOAT32, nullptr);
                              expect(cuda.count("cuMemHostAlloc") == before, call.name + " went by the host");
                              if (overlaps) check_in_place(cuda, comm, call, HKT_FLOAT32, nullptr);
                          }
                          expect(cuda.count("cuMemcpyAsync") > 0, "nothing went from device to device");
                      },
                      {{"HOCKET_SCHEDULE", schedule}}) == "");
        }
}
