// Gloo's driver, over its tcp transport (the one in Debian's package that works within a host and across
// hosts). WHERE: FOLDER,ADDRESS: where the ranks meet, and the local address that they use.
//
// Gloo leaves the choice of algorithm to its caller. All its algorithms for a collective are offered by name;
// compare-peers takes the fastest one for the size. The older ones ("..._doubling", "..._chunked",
// "one_to_all") work in place in recv; the input is copied there beforehand, untimed. (From one iteration to
// the next their sums grow and end as infinity, which does not change the time; the check uses a fresh
// input.)
#include <gloo/allgather.h>
#include <gloo/allgather_ring.h>
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/alltoall.h>
#include <gloo/broadcast.h>
#include <gloo/broadcast_one_to_all.h>
#include <gloo/gather.h>
#include <gloo/math.h>
#include <gloo/reduce.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/rendezvous/prefix_store.h>
#include <gloo/scatter.h>
#include <gloo/transport/tcp/device.h>

#include <map>

#include "driver.hpp"

namespace {

using peers::Call;
using peers::Collective;

class Gloo : public peers::Library {
  public:
    void join(const peers::Place& place) override {
        place_ = place;
        const auto comma = place.where.find(',');
        if (comma == std::string::npos) throw std::runtime_error("expected FOLDER,ADDRESS");
        folder_ = place.where.substr(0, comma);
        device_ = gloo::transport::tcp::CreateDevice(place.where.substr(comma + 1).c_str());
        context("ring");
    }

    void leave() override { contexts_.clear(); }

    std::function<void()> prepare(const Call& call) override {
        switch (call.collective) {
            case Collective::all_reduce:
                return all_reduce(call);
            case Collective::reduce_scatter:
                return reduce_scatter(call);
            case Collective::all_gather:
                return all_gather(call);
            case Collective::broadcast:
                return broadcast(call);
            case Collective::reduce:
                return reduce(call);
            case Collective::gather:
                return gather(call);
            case Collective::scatter:
                return scatter(call);
            case Collective::all_to_all:
                return all_to_all(call);
        }
        throw std::runtime_error("unknown collective");
    }

  private:
    // Each algorithm has its own connections: this version sometimes hangs if "ring" follows "ring_chunked"
    // on the same ones.
    std::shared_ptr<gloo::Context> context(const std::string& algorithm) {
        auto& context = contexts_[algorithm];
        if (!context) {
            gloo::rendezvous::FileStore files(folder_);
            gloo::rendezvous::PrefixStore store(algorithm, files);
            auto made = std::make_shared<gloo::rendezvous::Context>(place_.rank, place_.ranks);
            made->connectFullMesh(store, device_);
            context = made;
        }
        return context;
    }

    template <typename Algorithm, typename... Arguments>
    std::function<void()> in_place(const Call& call, float* buffer, const Arguments&... arguments) {
        auto algorithm =
            std::make_shared<Algorithm>(context(call.algorithm), std::vector<float*>{buffer}, arguments...);
        return [algorithm] { algorithm->run(); };
    }

    static void sum(void* out, const void* a, const void* b, std::size_t elements) {
        gloo::sum<float>(out, a, b, elements);
    }

    std::function<void()> all_to_all(const Call& call) {
        auto options = std::make_shared<gloo::AlltoallOptions>(context(call.algorithm));
        const std::size_t all = call.count * place_.ranks;
        options->setInput(const_cast<float*>(call.send), all);
        options->setOutput(call.recv, all);
        return [options] { gloo::alltoall(*options); };
    }

    std::function<void()> all_reduce(const Call& call) {
        const int count = static_cast<int>(call.count);
        if (call.algorithm == "halving_doubling" || call.algorithm == "ring_chunked")
            std::memcpy(call.recv, call.send, call.count * sizeof(float));
        if (call.algorithm == "halving_doubling")
            return in_place<gloo::AllreduceHalvingDoubling<float>>(call, call.recv, count);
        if (call.algorithm == "ring_chunked")
            return in_place<gloo::AllreduceRingChunked<float>>(call, call.recv, count);
        using Options = gloo::AllreduceOptions;
        auto options = std::make_shared<Options>(context(call.algorithm));
        options->setAlgorithm(call.algorithm == "bcube" ? Options::Algorithm::BCUBE
                                                        : Options::Algorithm::RING);
        options->setInput(const_cast<float*>(call.send), call.count);
        options->setOutput(call.recv, call.count);
        options->setReduceFunction(sum);
        return [options] { gloo::allreduce(*options); };
    }

    std::function<void()> reduce_scatter(const Call& call) {
        const int whole = static_cast<int>(call.count) * place_.ranks;
        std::memcpy(call.recv, call.send, whole * sizeof(float));
        const std::vector<int> parts(place_.ranks, static_cast<int>(call.count));
        return in_place<gloo::ReduceScatterHalvingDoubling<float>>(call, call.recv, whole, parts);
    }

    std::function<void()> all_gather(const Call& call) {
        if (call.algorithm == "ring_blocking") {
            auto algorithm = std::make_shared<gloo::AllgatherRing<float>>(
                context(call.algorithm), std::vector<const float*>{call.send}, call.recv,
                static_cast<int>(call.count));
            return [algorithm] { algorithm->run(); };
        }
        auto options = std::make_shared<gloo::AllgatherOptions>(context(call.algorithm));
        options->setInput(const_cast<float*>(call.send), call.count);
        options->setOutput(call.recv, call.count * place_.ranks);
        return [options] { gloo::allgather(*options); };
    }

    std::function<void()> broadcast(const Call& call) {
        float* buffer = place_.rank == peers::kRoot ? const_cast<float*>(call.send) : call.recv;
        if (call.algorithm == "one_to_all")
            return in_place<gloo::BroadcastOneToAll<float>>(call, buffer, call.count);
        auto options = std::make_shared<gloo::BroadcastOptions>(context(call.algorithm));
        options->setOutput(buffer, call.count);
        options->setRoot(peers::kRoot);
        return [options] { gloo::broadcast(*options); };
    }

    std::function<void()> reduce(const Call& call) {
        auto options = std::make_shared<gloo::ReduceOptions>(context(call.algorithm));
        options->setInput(const_cast<float*>(call.send), call.count);
        options->setOutput(call.recv, call.count);  // every rank works in its own recv
        options->setRoot(peers::kRoot);
        options->setReduceFunction(sum);
        return [options] { gloo::reduce(*options); };
    }

    std::function<void()> gather(const Call& call) {
        auto options = std::make_shared<gloo::GatherOptions>(context(call.algorithm));
        options->setInput(const_cast<float*>(call.send), call.count);
        if (place_.rank == peers::kRoot) options->setOutput(call.recv, call.count * place_.ranks);
        options->setRoot(peers::kRoot);
        return [options] { gloo::gather(*options); };
    }

    std::function<void()> scatter(const Call& call) {
        auto options = std::make_shared<gloo::ScatterOptions>(context(call.algorithm));
        std::vector<float*> parts;
        for (int rank = 0; rank < place_.ranks; ++rank)
            parts.push_back(const_cast<float*>(call.send) + rank * call.count);
        if (place_.rank == peers::kRoot) options->setInputs(parts, call.count);
        options->setOutput(call.recv, call.count);
        options->setRoot(peers::kRoot);
        return [options] { gloo::scatter(*options); };
    }

    peers::Place place_{};
    std::string folder_;
    std::shared_ptr<gloo::transport::Device> device_;
    std::map<std::string, std::shared_ptr<gloo::Context>> contexts_;
};

}  // namespace

int main(int argc, char** argv) {
    Gloo library;
    return peers::drive(library, argc, argv);
}
