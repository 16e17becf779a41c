// oneCCL's driver. Ranks are started by the Intel MPI that oneCCL's wheel brings. WHERE: a file that the
// first rank writes its address into.
#include <unistd.h>

#include <array>
#include <fstream>
#include <memory>
#include <oneapi/ccl.hpp>

#include "driver.hpp"

namespace {

using peers::Call;
using peers::Collective;

constexpr auto kFloat = ccl::datatype::float32;
constexpr auto kSum = ccl::reduction::sum;

using Address = ccl::kvs::address_type;

void publish(const std::string& path, const Address& address) {
    const std::string unfinished = path + ".new";
    std::ofstream(unfinished, std::ios::binary).write(address.data(), address.size());
    if (std::rename(unfinished.c_str(), path.c_str()) != 0)
        throw std::runtime_error(path + ": " + std::strerror(errno));
}

Address published(const std::string& path) {
    while (access(path.c_str(), R_OK) != 0) usleep(200);  // compare-peers sets the deadline
    Address address{};
    std::ifstream(path, std::ios::binary).read(address.data(), address.size());
    return address;
}

class OneCcl : public peers::Library {
  public:
    void join(const peers::Place& place) override {
        rank_ = place.rank;
        ccl::init();
        if (rank_ == 0) {
            store_ = ccl::create_main_kvs();
            publish(place.where, store_->get_address());
        } else {
            store_ = ccl::create_kvs(published(place.where));
        }
        comm_ = std::make_unique<ccl::communicator>(ccl::create_communicator(place.ranks, rank_, store_));
    }

    void leave() override { comm_.reset(); }

    std::function<void()> prepare(const Call& call) override {
        const auto& comm = *comm_;
        switch (call.collective) {
            case Collective::all_reduce:
                return [=, &comm] {
                    ccl::allreduce(call.send, call.recv, call.count, kFloat, kSum, comm).wait();
                };
            case Collective::reduce_scatter:
                return [=, &comm] {
                    ccl::reduce_scatter(call.send, call.recv, call.count, kFloat, kSum, comm).wait();
                };
            case Collective::all_gather:
                return [=, &comm] { ccl::allgather(call.send, call.recv, call.count, kFloat, comm).wait(); };
            case Collective::reduce:
                return [=, &comm] {
                    ccl::reduce(call.send, call.recv, call.count, kFloat, kSum, peers::kRoot, comm).wait();
                };
            case Collective::scatter:
                return [=, &comm] {
                    ccl::scatter(call.send, call.recv, call.count, kFloat, peers::kRoot, comm).wait();
                };
            case Collective::all_to_all:
                return [=, &comm] { ccl::alltoall(call.send, call.recv, call.count, kFloat, comm).wait(); };
            case Collective::broadcast: {
                float* buffer = rank_ == peers::kRoot ? const_cast<float*>(call.send) : call.recv;
                return [=, &comm] { ccl::broadcast(buffer, call.count, kFloat, peers::kRoot, comm).wait(); };
            }
            case Collective::gather:
                break;
        }
        throw std::runtime_error("oneCCL has no gather");
    }

  private:
    int rank_ = 0;
    std::shared_ptr<ccl::kvs> store_;
    std::unique_ptr<ccl::communicator> comm_;
};

}  // namespace

int main(int argc, char** argv) {
    OneCcl library;
    return peers::drive(library, argc, argv);
}
