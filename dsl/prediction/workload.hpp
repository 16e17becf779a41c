// Jobs of parameter servers that share a cluster.
#pragma once

#include <cstddef>
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

// A layer of a model, whose first layer comes first.
struct ModelLayer {
    double bytes = 0;                  // of its weights
    double backward = 0, forward = 0;  // seconds of computation
};

// Which layers communicate together, as in docs/overlap.md. A list of batches has the last layer of each,
// counted from 1, and ends with the number of layers.
struct Overlap {
    std::vector<std::size_t> pushes, pulls;  // empty: all layers at once
    double startup = 0;                      // seconds of each batch before its bytes flow
    double gradients = 1;                    // bytes of gradients for each byte of weights
    // Weights are pulled, or used, as soon as all gradients of their batch have arrived. Otherwise all
    // gradients must have.
    bool early = false;
    // By batch of pushes: how long it takes all workers to combine their gradients. Then there are no
    // servers, and no pulls. Empty: gradients are pushed to servers.
    std::vector<double> combines;
};

// A model on `servers` servers, an equal part of each layer on each. An iteration is a backward pass, the
// exchange of gradients and weights, and a forward pass. All workers compute alike, and wait for each other
// before and after each batch.
struct Job {
    // order: workers from host 0 on, then servers, and from host 0 again. random: workers on different hosts,
    // and servers on different hosts, both drawn from all hosts.
    enum class Placement : std::uint8_t { order, random };
    std::string name;
    int workers = 1, servers = 1;
    Placement placement = Placement::random;
    double bytes = 0;  // of the model
    // Empty: one layer, whose backward pass takes `compute`. Otherwise their bytes are in proportion to each
    // other, and `compute` is the sum of their times.
    std::vector<ModelLayer> layers = {};
    Overlap overlap = {};
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
