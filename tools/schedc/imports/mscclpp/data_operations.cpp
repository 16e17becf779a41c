#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "tools/schedc/imports/mscclpp/operations.hpp"

namespace hocket::tools::imports::mscclpp {
namespace {

// What stands where: data and packets of its own GPU, of another one, or of all GPUs of a group.
enum class Role : std::uint8_t { none, data, packets, remote, remote_packets, group, group_packets };
using enum Role;

struct Form {
    std::string_view name, old_name;  // empty: the generation does not have it
    Role first_source, more_sources;
    Role first_target, second_target, more_targets;
    bool is_pairs = false;  // the n-th source goes to the n-th target
};

constexpr Form forms[] = {
    {"copy", "copy", data, none, data, none, none},
    {"cpkt", "tpkt", data, none, packets, none, none},
    {"upkt", "cpkt", packets, none, data, none, none},
    {"put", "put", data, data, remote, remote, remote, true},
    {"pws", "pws", data, data, remote, remote, remote, true},
    {"pwsf", "pwsf", data, data, remote, remote, remote, true},
    {"get", "get", remote, remote, data, data, data, true},
    {"ppkt", "ppkt", data, data, remote_packets, remote_packets, remote_packets, true},
    {"rppkt", "rppkt", packets, none, remote_packets, remote_packets, remote_packets},
    {"re", "re", data, data, data, none, none},
    {"res", "rs", data, data, data, remote, remote},
    {"rre", "rrc", data, remote, data, none, none},
    {"rres", "rrcs", data, remote, data, remote, remote},
    {"repkt", "rpkt", data, packets, data, none, none},
    {"respkt", "rspkt", data, packets, data, remote_packets, remote_packets},
    {"recpkt", "", data, packets, data, packets, none},
    {"recspkt", "", data, packets, data, packets, remote_packets},
    {"glres", "glres", group, none, group, none, none},
    {"gstore", "", data, none, group, none, none},
    {"gstorepkt", "", packets, none, group_packets, none, none},
};

constexpr std::string_view role_texts[] = {
    "nothing",         "a buffer of its own GPU", "packets of its own GPU", "a remote buffer",
    "a remote buffer", "a switch channel",        "a switch channel"};

bool fits(const Operand& operand, Role role) {
    switch (operand.kind) {
        case Operand::Kind::local:
            return role == data || role == packets;
        case Operand::Kind::remote:
            return role == remote || role == remote_packets;
        case Operand::Kind::group:
            return role == group || role == group_packets;
    }
    return false;
}

class Builder {
  public:
    Builder(const Fields& fields, const Operands& operands, const Form& form)
        : fields_(fields), operands_(operands), form_(form) {}

    Operation build() {
        check_medium();
        const std::vector<Role> sources = roles(operands_.sources, true),
                                targets = roles(operands_.targets, false);
        Operation result;
        result.kind = Kind::data;
        result.signals = form_.name == "pws" || form_.name == "pwsf";
        result.flushes = form_.name == "pwsf";
        if (form_.is_pairs) {
            if (sources.size() != targets.size())
                fields_.fail(fmt::format("'{}' has {} sources and {} targets", operands_.name, sources.size(),
                                         targets.size()),
                             "its n-th source goes to its n-th target");
            check_pairs();
            for (std::size_t i = 0; i < sources.size(); ++i) {
                Part part = empty(operands_.sources[i], operands_.targets[i].stream);
                part.polls = false;
                add(part.sources, operands_.sources[i], sources[i], part.count);
                add(part.targets, operands_.targets[i], targets[i], part.count);
                result.parts.push_back(std::move(part));
                if (result.signals) result.streams.push_back(operands_.targets[i].stream);
            }
            return result;
        }
        if (operands_.name == "rs" && sources.size() != targets.size())
            fields_.fail(
                fmt::format(
                    "'rs' combines {} buffers and sends to {} GPUs: MSCCL++'s executor takes one number "
                    "for both",
                    sources.size() - 1, targets.size() - 1),
                "let the two be equal, or use 're' and 'put'");
        const bool by_port = operands_.medium == Medium::port;
        Part part = empty(operands_.sources[0], -1);
        for (std::size_t i = 0; i < sources.size(); ++i)
            add(part.sources, operands_.sources[i], sources[i], part.count);
        for (std::size_t i = 0; i < targets.size(); ++i) {
            if (by_port) {  // each on its channel
                Part one = empty(operands_.sources[0], operands_.targets[i].stream);
                one.sources = part.sources;
                add(one.targets, operands_.targets[i], targets[i], one.count);
                result.parts.push_back(std::move(one));
            } else {
                add(part.targets, operands_.targets[i], targets[i], part.count);
            }
        }
        if (!by_port) result.parts.push_back(std::move(part));
        return result;
    }

  private:
    void check_medium() const {
        const bool reads_remote = form_.more_sources == remote || form_.first_source == remote;
        const bool is_remote =
            reads_remote || form_.more_targets == remote || form_.more_targets == remote_packets;
        const bool is_group = form_.first_target == group || form_.first_target == group_packets;
        const bool is_put = form_.is_pairs && !reads_remote;
        const Medium medium = operands_.medium;
        if (is_group && medium != Medium::nvls)
            fields_.fail(fmt::format("'{}' needs a switch channel", operands_.name),
                         "name the kind of its channel");
        if (is_remote && medium != Medium::memory && medium != Medium::port)
            fields_.fail(fmt::format("'{}' needs a memory or a port channel", operands_.name),
                         "name the kind of its channel");
        if (is_remote && medium == Medium::port && !is_put && form_.name != "rppkt")
            fields_.fail(fmt::format("'{}' cannot use a port channel", operands_.name),
                         "port channels put data, and read or combine nothing; use a memory channel");
        if ((form_.name == "pws" || form_.name == "pwsf") && medium != Medium::port)
            fields_.fail(fmt::format("'{}' on a memory channel does not signal in MSCCL++", operands_.name),
                         "use 'put', 'nop' and 'signal', or a port channel");
    }

    std::vector<Role> roles(const std::vector<Operand>& operands, bool is_source) const {
        std::vector<Role> result;
        for (std::size_t i = 0; i < operands.size(); ++i) {
            Role role = is_source ? (i == 0 ? form_.first_source : form_.more_sources)
                                  : (i == 0   ? form_.first_target
                                     : i == 1 ? form_.second_target
                                              : form_.more_targets);
            // A port channel moves packets as they are.
            if (is_source && form_.name == "ppkt" && operands_.medium == Medium::port) role = packets;
            if (!fits(operands[i], role))
                fields_.fail(fmt::format("{} {} of '{}' must be {}", is_source ? "source" : "target", i,
                                         operands_.name, role_texts[static_cast<int>(role)]),
                             "see which buffers the operation takes");
            result.push_back(role);
        }
        const std::size_t least = is_source || form_.second_target != packets ? 1 : 2;
        if (result.size() < least)
            fields_.fail(
                fmt::format("'{}' has too few {}", operands_.name, is_source ? "sources" : "targets"),
                "see which buffers the operation takes");
        return result;
    }

    // The executor of MSCCL++ does something else than the plan says, and so the plan's meaning is not known.
    void check_pairs() const {
        for (std::size_t i = 0; i < operands_.sources.size(); ++i) {
            const Chunks source = operands_.sources[i].regions[0].chunks,
                         target = operands_.targets[i].regions[0].chunks;
            if (form_.name == "get" && source.offset != target.offset)
                fields_.fail(fmt::format("'get' brings {} to {}: MSCCL++'s executor exchanges the two places",
                                         text_of(source, operands_.sources[i].count),
                                         text_of(target, operands_.targets[i].count)),
                             "let both have the same number, or use a put of the other GPU");
            if (operands_.medium == Medium::memory &&
                source.buffer != operands_.sources[0].regions[0].chunks.buffer)
                fields_.fail(
                    fmt::format("'{}' has sources in several buffers: MSCCL++'s executor takes all of them "
                                "from the first one's",
                                operands_.name),
                    "use an operation for each buffer");
        }
    }

    static Part empty(const Operand& like, int stream) {
        Part part;
        part.count = like.count;
        part.stream = stream;
        return part;
    }

    void add(std::vector<Region>& regions, const Operand& operand, Role role, int count) const {
        if (operand.count != count)
            fields_.fail(fmt::format("'{}' has a range of {} chunk{} and one of {}", operands_.name, count,
                                     count == 1 ? "" : "s", operand.count),
                         "all ranges of an operation are equally long");
        for (Region region : operand.regions) {
            region.is_packets = role == packets || role == remote_packets || role == group_packets;
            if (region.is_packets && region.chunks.buffer != Buffer::scratch)
                fields_.fail(fmt::format("'{}' has packets in {}: MSCCL++ has them in scratch buffers only",
                                         operands_.name, text_of(region.chunks, count)),
                             "let the packets' buffer be s");
            regions.push_back(region);
        }
    }

    const Fields& fields_;
    const Operands& operands_;
    const Form& form_;
};

}  // namespace

bool is_data_operation(std::string_view name, bool is_old) {
    return !name.empty() &&
           std::ranges::find(forms, name, is_old ? &Form::old_name : &Form::name) != std::end(forms);
}

Operation data_operation(const Fields& fields, const Operands& operands, bool is_old) {
    return Builder(fields, operands,
                   *std::ranges::find(forms, operands.name, is_old ? &Form::old_name : &Form::name))
        .build();
}

}  // namespace hocket::tools::imports::mscclpp
