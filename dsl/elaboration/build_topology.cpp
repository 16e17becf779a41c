#include "dsl/elaboration/build_topology.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <string_view>

#include "dsl/base/closest.hpp"
#include "dsl/base/diagnostic.hpp"
#include "dsl/elaboration/bind.hpp"
#include "dsl/elaboration/value.hpp"

namespace hocket::dsl {
namespace {

Medium medium_of(const ast::Property& property) {
    static const std::map<std::string_view, Medium> media = {
        {"memory", Medium::memory}, {"fabric", Medium::fabric}, {"device", Medium::device}};
    const auto found = media.find(property.text);
    if (found == media.end())
        throw DiagnosticError(property.span, fmt::format("there is no medium '{}'", property.text),
                              "a medium is memory, fabric or device");
    return found->second;
}

constexpr int round_limit = 10000;
constexpr std::size_t longest_interface_name = 15;  // of Linux

bool is_address(const std::string& text, int family) {
    unsigned char bytes[sizeof(in6_addr)];
    return inet_pton(family, text.c_str(), bytes) == 1;
}

bool is_subnet(const std::string& text) {
    const std::size_t slash = text.find('/');
    const std::string address = text.substr(0, slash), bits = text.substr(slash + 1);
    int count = -1;
    const char* const end = bits.data() + bits.size();
    const auto [stop, error] = std::from_chars(bits.data(), end, count);
    const int most = is_address(address, AF_INET) ? 32 : is_address(address, AF_INET6) ? 128 : -1;
    return error == std::errc() && stop == end && count >= 0 && count <= most;
}

std::string nic_of(const ast::Property& property) {
    const std::string& text = property.text;
    const bool is_name = text.size() <= longest_interface_name && text.find_first_of("/:") == text.npos &&
                         !is_address(text, AF_INET);
    if (is_name || (text.find('/') != text.npos && is_subnet(text))) return text;
    throw DiagnosticError(property.span, fmt::format("'{}' names no network interface, nor a subnet", text),
                          "an interface is like eth1, a subnet like 10.0.1.0/24 or fd00:1::/64");
}

class TopologyBuilder {
  public:
    TopologyBuilder(Topology& topology, Scope& scope)
        : topology_(topology), scope_(scope), evaluator_(scope, nullptr) {}

    // Must be called once all levels exist.
    void check_names(const std::vector<ast::TopologyStatement>& statements) const {
        for (const ast::TopologyStatement& statement : statements) {
            if (const auto* loop = std::get_if<ast::TopologyFor>(&statement.node)) check_names(loop->body);
            const auto* level = std::get_if<ast::Level>(&statement.node);
            for (const ast::Property& property : level ? level->properties : std::vector<ast::Property>())
                if (property.kind == ast::Property::Kind::shared_by && !is_taken(property.text))
                    throw DiagnosticError(property.span,
                                          fmt::format("there is no level '{}'{}", property.text,
                                                      did_you_mean(property.text, level_names())),
                                          fmt::format("the levels are: {}", fmt::join(level_names(), ", ")));
        }
    }

    void run(const std::vector<ast::TopologyStatement>& statements) {
        for (const ast::TopologyStatement& statement : statements) {
            if (const auto* level = std::get_if<ast::Level>(&statement.node))
                add(*level);
            else
                loop(std::get<ast::TopologyFor>(statement.node));
        }
    }

  private:
    void add(const ast::Level& definition) {
        Level level;
        level.name = definition.name.text;
        const std::int64_t size = evaluator_.integer(definition.size);
        if (size < 1 || size > most_ranks / topology_.ranks())
            throw DiagnosticError(
                definition.size.span,
                fmt::format("a level of {} ranks: a level has at least 1, a topology at most {}", size,
                            most_ranks));
        level.size = static_cast<Rank>(size);
        for (std::size_t i = 0; i < definition.properties.size(); ++i) {
            const ast::Property& property = definition.properties[i];
            for (std::size_t before = 0; before < i; ++before)
                if (definition.properties[before].kind == property.kind)
                    throw DiagnosticError(Diagnostic{property.span,
                                                     "this property of the level is given twice",
                                                     {{definition.properties[before].span, "here first"}},
                                                     "leave one of them out"});
            if (property.kind == ast::Property::Kind::shared_by && property.text == definition.name.text)
                throw DiagnosticError(property.span, "a level's links are not shared by the level itself",
                                      "name a level that stands before it, or leave this out");
            apply(property, level);
        }
        if (topology_.levels.size() == most_levels)
            throw DiagnosticError(definition.name.span,
                                  fmt::format("a topology of more than {} levels", most_levels));
        // Levels that a loop makes get a number after their name.
        for (std::size_t number = topology_.levels.size(); is_taken(level.name); ++number)
            level.name = definition.name.text + std::to_string(number);
        topology_.levels.push_back(std::move(level));
    }

    std::vector<std::string> level_names() const {
        std::vector<std::string> names;
        for (const Level& level : topology_.levels) names.push_back(level.name);
        return names;
    }

    bool is_taken(const std::string& name) const {
        const auto same = [&](const Level& other) { return other.name == name; };
        return std::any_of(topology_.levels.begin(), topology_.levels.end(), same);
    }

    void apply(const ast::Property& property, Level& level) const {
        switch (property.kind) {
            case ast::Property::Kind::medium:
                level.medium = medium_of(property);
                break;
            case ast::Property::Kind::latency:
                level.latency = property.value;
                break;
            case ast::Property::Kind::bandwidth:
                level.bandwidth = property.value;
                break;
            case ast::Property::Kind::shared_by:
                level.shared_by = property.text;
                break;
            case ast::Property::Kind::nic:
                level.nic = nic_of(property);
                break;
        }
    }

    void loop(const ast::TopologyFor& loop) {
        for (Value& value : values_of(loop.binding.range, evaluator_)) {
            if (++rounds_ > round_limit)
                throw DiagnosticError(
                    loop.binding.range.span,
                    fmt::format("this topology makes more than {} loop iterations", round_limit));
            const std::size_t mark = scope_.size();
            scope_.add(loop.binding.name.text, std::move(value));
            run(loop.body);
            scope_.shrink(mark);
        }
    }

    Topology& topology_;
    Scope& scope_;
    Evaluator evaluator_;
    int rounds_ = 0;
};

}  // namespace

Topology build_topology(const ast::TopologyDefinition& definition, const ast::Expression& reference) {
    Topology topology;
    Scope scope;
    topology.name = bind_parameters(definition.name.text, definition.parameters, reference, scope);
    TopologyBuilder builder(topology, scope);
    builder.run(definition.body);
    builder.check_names(definition.body);
    if (topology.levels.empty()) throw DiagnosticError(definition.span, "this topology has no level");
    return topology;
}

}  // namespace hocket::dsl
