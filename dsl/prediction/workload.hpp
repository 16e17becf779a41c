// Jobs of parameter servers that share a cluster.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hocket::dsl {

// The tree of workers below each server, as in docs/params.md.
struct WorkerTree {
    // direct: all workers are below the server. degree: complete, with `degree` below each node. rack: a
    // worker of each rack is below the server, the others of its rack below that.
    enum class Kind : std::uint8_t { direct, degree, rack };
    Kind kind = Kind::direct;
    int degree = 2;
};

// A model on `servers` servers, an equal part on each. In each iteration all workers compute; then all push,
// then all pull.
struct Job {
    // order: workers from host 0 on, then servers, and from host 0 again. random: workers on different hosts,
    // and servers on different hosts, both drawn from all hosts.
    enum class Placement : std::uint8_t { order, random };
    std::string name;
    int workers = 1, servers = 1;
    Placement placement = Placement::random;
    double bytes = 0;  // of the model
    WorkerTree tree;
    // Of a server's part. A worker passes a chunk on when it is complete, one after the other. 0: bytes flow,
    // so that all of a tree has one rate.
    std::uint32_t chunks = 0;
    double compute = 0;  // seconds of an iteration
    int iterations = 1;
    double start = 0;  // seconds
    int priority = 0;  // the bytes of jobs with a higher number go first on each link
    // What each worker has to read in the whole job, at a rate drawn between two, in bytes a second. 0: it is
    // not asked for.
    double data = 0, slowest = 0, fastest = 0;
};

struct Workload {
    std::vector<Job> jobs;
    std::uint64_t seed = 1;  // of what is drawn
    int rack = 8;            // hosts of a rack, in order
};

}  // namespace hocket::dsl
