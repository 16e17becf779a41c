// Reads the operations of a threadblock.
#pragma once

#include <string>

#include "tools/schedc/imports/mscclpp/channels.hpp"

namespace hocket::tools::imports::mscclpp {

// An operation as both generations of the format can say it, before it is known what its name means.
struct Operand {
    enum class Kind : std::uint8_t { local, remote, group } kind = Kind::local;
    std::vector<Region> regions;  // one, or that of each GPU of a group
    int count = 0;
    int stream = -1;
};

struct Operands {
    std::string name;
    Medium medium = Medium::none;
    std::vector<Operand> sources, targets;
};

bool is_data_operation(std::string_view name, bool is_old);

// What the data operation of this name does to which buffers. Throws DiagnosticError if the operands do not
// fit it.
Operation data_operation(const Fields& fields, const Operands& operands, bool is_old);

class OperationReader {
  public:
    OperationReader(Fields& fields, const Channels& channels, const Plan& plan)
        : fields_(fields), channels_(channels), plan_(plan) {}

    // Of a threadblock whose channels are these. `semaphores`: how many the GPU has.
    Operation read(const Json& op, const BlockChannels& block, int semaphores) const;

  private:
    void read_semaphores(const Json& op, int semaphores, Operation& result) const;
    void read_barrier(const Json& op, Operation& result) const;
    void check_lanes(std::size_t count) const;
    void check_halves(const Operation& op) const;
    Medium medium_of_order(const Json& op, const std::string& name) const;
    Operation named(const Json& op, const std::string& name, const BlockChannels& block,
                    int semaphores) const;
    Operands operands(const Json& op, const BlockChannels& block) const;
    Operands old_operands(const Json& op, const BlockChannels& block) const;
    Operand operand(const Json& one, const BlockChannels& block, Medium medium) const;
    Operand old_local(const Json& object, const char* buffer, const char* offset, int count) const;
    void add_old_remote(const Json& op, bool is_source, const BlockChannels& block, Operands& result,
                        int count) const;
    std::vector<int> streams(const Json& op, const std::string& name, const BlockChannels& block) const;
    void check_old_pairs(const Json& op, const std::string& name, const BlockChannels& block,
                         const Operands& all) const;
    void check_old_sums(const std::string& name, const Operands& all) const;
    void join_old_sources(Operands& all) const;
    std::vector<const End*> old_ends(const Json& op, bool is_input, const BlockChannels& block) const;
    void check_fields(const Json& op, Kind kind) const;

    Fields& fields_;
    const Channels& channels_;
    const Plan& plan_;
};

}  // namespace hocket::tools::imports::mscclpp
