// Hocket's driver: uses only the C interface, as a user would. It is started by hocket-run, or with the
// variables of docs/running.md in its environment.
#include <capi/hocket.h>

#include "driver.hpp"

namespace {

using peers::Call;
using peers::Collective;

class Hocket : public peers::Library {
  public:
    void join(const peers::Place&) override {
        if (hkt_comm_create(nullptr, &comm_) != HKT_SUCCESS) throw std::runtime_error(hkt_last_error());
    }

    void leave() override { hkt_comm_destroy(comm_); }

    peers::Buffers allocate(const std::string& memory, std::size_t bytes) override {
        if (memory != "hkt_mem_alloc") return Library::allocate(memory, bytes);
        void *send = nullptr, *recv = nullptr;
        check(hkt_mem_alloc(comm_, bytes, &send));
        check(hkt_mem_alloc(comm_, bytes, &recv));
        return {static_cast<float*>(send), static_cast<float*>(recv)};
    }

    std::function<void()> prepare(const Call& call) override {
        switch (call.collective) {
            case Collective::all_reduce:
                return [=, this] {
                    check(hkt_all_reduce(call.send, call.recv, call.count, HKT_FLOAT32, HKT_SUM, comm_,
                                         nullptr));
                };
            case Collective::reduce_scatter:
                return [=, this] {
                    check(hkt_reduce_scatter(call.send, call.recv, call.count, HKT_FLOAT32, HKT_SUM, comm_,
                                             nullptr));
                };
            case Collective::all_gather:
                return [=, this] {
                    check(hkt_all_gather(call.send, call.recv, call.count, HKT_FLOAT32, comm_, nullptr));
                };
            case Collective::reduce:
                return [=, this] {
                    check(hkt_reduce(call.send, call.recv, call.count, HKT_FLOAT32, HKT_SUM, peers::kRoot,
                                     comm_, nullptr));
                };
            case Collective::gather:
                return [=, this] {
                    check(hkt_gather(call.send, call.recv, call.count, HKT_FLOAT32, peers::kRoot, comm_,
                                     nullptr));
                };
            case Collective::scatter:
                return [=, this] {
                    check(hkt_scatter(call.send, call.recv, call.count, HKT_FLOAT32, peers::kRoot, comm_,
                                      nullptr));
                };
            case Collective::all_to_all:
                return [=, this] {
                    check(hkt_all_to_all(call.send, call.recv, call.count, HKT_FLOAT32, comm_, nullptr));
                };
            case Collective::broadcast:
                break;
        }
        float* buffer = hkt_comm_rank(comm_) == peers::kRoot ? const_cast<float*>(call.send) : call.recv;
        return [=, this] {
            check(hkt_broadcast(buffer, buffer, call.count, HKT_FLOAT32, peers::kRoot, comm_, nullptr));
        };
    }

  private:
    void check(hkt_status status) const {
        if (status != HKT_SUCCESS) throw std::runtime_error(hkt_comm_last_error(comm_));
    }

    hkt_comm* comm_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
    Hocket library;
    return peers::drive(library, argc, argv);
}
