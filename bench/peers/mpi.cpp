// The driver of Open MPI, MPICH and Intel MPI: the same source, compiled for each of them.
#define OMPI_SKIP_MPICXX 1  // only the C interface
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include "driver.hpp"

namespace {

using peers::Call;
using peers::Collective;

void check(int status) {
    if (status == MPI_SUCCESS) return;
    char text[MPI_MAX_ERROR_STRING];
    int length = 0;
    MPI_Error_string(status, text, &length);
    throw std::runtime_error(std::string(text, length));
}

class Mpi : public peers::Library {
  public:
    void join(const peers::Place& place) override {
        check(MPI_Init(nullptr, nullptr));
        check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
        int ranks = 0;
        check(MPI_Comm_rank(MPI_COMM_WORLD, &rank_));
        check(MPI_Comm_size(MPI_COMM_WORLD, &ranks));
        if (rank_ != place.rank || ranks != place.ranks)
            throw std::runtime_error("MPI numbers the ranks otherwise");
    }

    void leave() override {
        int joined = 0;
        check(MPI_Initialized(&joined));
        if (joined) check(MPI_Finalize());
    }

    std::function<void()> prepare(const Call& call) override {
        const int count = static_cast<int>(call.count);
        switch (call.collective) {
            case Collective::all_reduce:
                return [=] {
                    check(MPI_Allreduce(call.send, call.recv, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD));
                };
            case Collective::reduce_scatter:
                return [=] {
                    check(MPI_Reduce_scatter_block(call.send, call.recv, count, MPI_FLOAT, MPI_SUM,
                                                   MPI_COMM_WORLD));
                };
            case Collective::all_gather:
                return [=] {
                    check(MPI_Allgather(call.send, count, MPI_FLOAT, call.recv, count, MPI_FLOAT,
                                        MPI_COMM_WORLD));
                };
            case Collective::reduce:
                return [=] {
                    check(MPI_Reduce(call.send, call.recv, count, MPI_FLOAT, MPI_SUM, peers::kRoot,
                                     MPI_COMM_WORLD));
                };
            case Collective::gather:
                return [=] {
                    check(MPI_Gather(call.send, count, MPI_FLOAT, call.recv, count, MPI_FLOAT, peers::kRoot,
                                     MPI_COMM_WORLD));
                };
            case Collective::scatter:
                return [=] {
                    check(MPI_Scatter(call.send, count, MPI_FLOAT, call.recv, count, MPI_FLOAT, peers::kRoot,
                                      MPI_COMM_WORLD));
                };
            case Collective::all_to_all:
                return [=] {
                    check(MPI_Alltoall(call.send, count, MPI_FLOAT, call.recv, count, MPI_FLOAT,
                                       MPI_COMM_WORLD));
                };
            case Collective::broadcast:
                break;
        }
        float* buffer = rank_ == peers::kRoot ? const_cast<float*>(call.send) : call.recv;
        return [=] { check(MPI_Bcast(buffer, count, MPI_FLOAT, peers::kRoot, MPI_COMM_WORLD)); };
    }

  private:
    int rank_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
    Mpi library;
    return peers::drive(library, argc, argv);
}
