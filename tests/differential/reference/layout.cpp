#include "tests/differential/reference/layout.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "tests/differential/reference/names.hpp"
#include "tests/differential/reference/parser.hpp"
#include "tests/differential/reference/values.hpp"

namespace hocket::reference {
namespace {

using Definitions = std::vector<Definition>;

const Definition* find_definition(const Definitions& definitions, bool is_schedule, const std::string& name,
                                  const std::string& collective) {
    const auto found =
        std::find_if(definitions.begin(), definitions.end(), [&](const Definition& definition) {
            return definition.is_schedule == is_schedule && definition.name == name &&
                   definition.collective == collective;
        });
    return found == definitions.end() ? nullptr : &*found;
}

void refuse_duplicates(const Definitions& definitions) {
    for (const Definition& definition : definitions) {
        const Definition* first =
            find_definition(definitions, definition.is_schedule, definition.name, definition.collective);
        if (first != &definition) refuse(definition.at, "'" + definition.name + "' is defined twice");
    }
}

// The context in which the statements of a definition are executed.
struct Context {
    Scope scope;
    Group group;  // the ranks that number the members and the chunks
};

// From now on its data are with the members that have the rank's coordinates in these levels.
void limit(Buffer& buffer, const std::vector<int>& levels, std::int64_t rank, const Topology& topology) {
    for (const int level : levels) buffer.limited_to[level] = topology.coordinate(rank, level);
}

class Layout {
  public:
    Layout(const Definitions& definitions, const Topology& topology, const Collective& collective)
        : definitions_(definitions),
          topology_(topology),
          names_(topology_names(topology)),
          alike_(collective.is_divided() ? topology.ranks() : 1) {}

    void run_schedule(const Definition& schedule, const Call& call, std::int64_t root);
    void run_algorithm_alone(const Definition& algorithm, const Call& call, std::int64_t root);
    Plan plan() && { return std::move(plan_); }

  private:
    std::shared_ptr<Buffer> whole_buffer(const std::string& collective, std::int64_t root) const;
    std::vector<Value> arguments(const Call& call, const Scope& scope) const;
    void bind_parameters(const Definition& definition, const Call& call, const std::vector<Value>& arguments,
                         Scope& scope) const;
    Value argument(const Expression& expression, const Scope& scope) const;
    bool is_algorithm(const std::string& name) const;

    void run_block(const std::vector<Statement>& statements, Context& context);
    void run_statement(const Statement& statement, Context& context);
    void run_loop(const Statement& statement, Context& context);
    void run_each(const Statement& statement, Context& context);
    void run_iterations(const Statement& statement, const std::vector<RangeValues>& ranges, std::size_t made,
                        Context& context);
    void run_iteration(const Statement& statement, Context& context);
    void run_at_once(const std::vector<Statement>& statements, Context& context);
    void run_let(const Statement& statement, Context& context, bool in_each);
    void run_transfer(const Statement& statement, const Context& context);
    std::vector<Piece> region(const Region& region, const Context& context) const;
    std::optional<std::vector<std::int64_t>> chunks(const Region& region, const Context& context) const;

    void run_collective(const Statement& statement, const Context& context);
    void run_on_groups(const Statement& statement, const std::vector<int>& levels, const Buffer& buffer,
                       std::optional<std::int64_t> root, const Context& context);
    // An algorithm, and the values of its arguments.
    struct Chosen {
        const Definition* algorithm;
        Call call;
        std::vector<Value> arguments;
    };
    Chosen algorithm_of(const Statement& statement, const Context& context) const;
    void run_algorithm(const Chosen& chosen, const Group& group, const Buffer& buffer,
                       std::int64_t root_member);

    std::int64_t number(const Expression& expression, const Context& context) const {
        return number_of(expression, context.scope, topology_);
    }

    void count_step(Position at) {
        if (++steps_ > 2'000'000) refuse(at, "too large: more than 2 million steps");
    }

    const Definitions& definitions_;
    const Topology& topology_;
    const Names names_;
    const std::int64_t alike_;  // this many pieces of x have one length for every count
    Plan plan_;
    std::int64_t phase_ = 0;
    std::int64_t steps_ = 0;
    std::size_t pieces_ = 0;
};

// x, as a schedule for this collective finds it.
std::shared_ptr<Buffer> Layout::whole_buffer(const std::string& name, std::int64_t root) const {
    const Collective& collective = collective_of(name);
    auto buffer = std::make_shared<Buffer>();
    if (collective.is_divided()) add_digits(buffer->digits, topology_.all_levels(), topology_);
    for (Digit& digit : buffer->digits) digit.scattered = collective.starts_divided();
    buffer->kept = buffer->digits.size();
    if (collective.comes_from_root()) limit(*buffer, topology_.all_levels(), root, topology_);
    return buffer;
}

void Layout::run_schedule(const Definition& schedule, const Call& call, std::int64_t root) {
    Context context;
    context.scope.topology = &names_;
    context.group.levels = topology_.all_levels();
    context.group.ranks = topology_.group_of(0, context.group.levels);
    Names& names = context.scope.own;
    names.push_back({schedule.buffer, Value::of_buffer(whole_buffer(schedule.collective, root))});
    if (!schedule.root.empty()) names.push_back({schedule.root, Value::of_number(root)});
    Scope outside;
    outside.topology = &names_;
    bind_parameters(schedule, call, arguments(call, outside), context.scope);
    if (schedule.where && number(*schedule.where, context) == 0) {
        refuse(schedule.at, "the schedule's where does not hold");
    }
    run_block(schedule.body, context);
}

// As if a schedule had nothing but a statement that runs it over the world.
void Layout::run_algorithm_alone(const Definition& algorithm, const Call& call, std::int64_t root) {
    const Chosen chosen{&algorithm, call, arguments(call, Scope())};
    Scope unused;  // arguments must be right, whether or not anything runs
    bind_parameters(algorithm, call, chosen.arguments, unused);
    Group group;
    group.levels = topology_.all_levels();
    group.ranks = topology_.group_of(0, group.levels);
    if (group.ranks.size() == 1) return;
    const std::shared_ptr<Buffer> buffer = whole_buffer(algorithm.collective, root);
    add_digits(buffer->digits, group.levels, topology_);
    run_algorithm(chosen, group, *buffer, topology_.member_number(root, group.levels));
}

std::vector<Value> Layout::arguments(const Call& call, const Scope& scope) const {
    std::vector<Value> values;
    for (const Expression& expression : call.arguments) values.push_back(argument(expression, scope));
    return values;
}

// The number of the parameter that the call's i-th argument is for.
std::size_t parameter_of(const Definition& definition, const Call& call, std::size_t i) {
    const std::string& label = call.labels[i];
    if (label.empty()) {
        if (i > 0 && !call.labels[i - 1].empty()) refuse(definition.at, "a label before an argument without");
        return i;
    }
    for (std::size_t k = 0; k < definition.parameters.size(); ++k) {
        if (definition.parameters[k].name == label) return k;
    }
    refuse(definition.at, "there is no parameter '" + label + "'");
}

void Layout::bind_parameters(const Definition& definition, const Call& call,
                             const std::vector<Value>& arguments, Scope& scope) const {
    std::vector<const Value*> given(definition.parameters.size(), nullptr);
    if (arguments.size() > given.size()) refuse(definition.at, "there are more arguments than parameters");
    for (std::size_t i = 0; i < arguments.size(); ++i) {
        const Value*& place = given[parameter_of(definition, call, i)];
        if (place) refuse(definition.at, "a parameter is given twice");
        place = &arguments[i];
    }
    for (std::size_t i = 0; i < given.size(); ++i) {
        const Parameter& parameter = definition.parameters[i];
        if (!definition.is_schedule && parameter.value.form == Form::name && parameter.value.name == "auto")
            refuse(definition.at, "only a schedule's number of tiles can be auto");
        const Value value = given[i] ? *given[i] : argument(parameter.value, scope);
        scope.own.push_back({parameter.name, value});
    }
}

bool Layout::is_algorithm(const std::string& name) const {
    return std::any_of(definitions_.begin(), definitions_.end(), [&](const Definition& definition) {
        return !definition.is_schedule && definition.name == name;
    });
}

// A name by itself stands for an algorithm, unless the schedule has made it. Its use checks that the
// algorithm exists.
Value Layout::argument(const Expression& expression, const Scope& scope) const {
    if (expression.form == Form::name && expression.name == "auto") return Value::of_number(16);
    if (expression.form == Form::name) {
        const bool is_own = std::any_of(scope.own.begin(), scope.own.end(),
                                        [&](const auto& entry) { return entry.first == expression.name; });
        if (!is_own && (is_algorithm(expression.name) || !scope.find(expression.name))) {
            return Value::of_algorithm(expression.name);
        }
    }
    return value_of(expression, scope, topology_);
}

void Layout::run_block(const std::vector<Statement>& statements, Context& context) {
    const std::size_t outside = context.scope.own.size();
    for (const Statement& statement : statements) run_statement(statement, context);
    context.scope.own.resize(outside);
}

void Layout::run_statement(const Statement& statement, Context& context) {
    count_step(statement.at);
    switch (statement.form) {
        case Statement::Form::transfer:
            ++phase_;
            run_transfer(statement, context);
            break;
        case Statement::Form::each:
            run_each(statement, context);
            break;
        case Statement::Form::repeat:
        case Statement::Form::parallel:
            run_loop(statement, context);
            break;
        case Statement::Form::let:
        case Statement::Form::function:
            run_let(statement, context, false);
            break;
        case Statement::Form::choice:
            run_block(number(*statement.where, context) != 0 ? statement.body : statement.otherwise, context);
            break;
        case Statement::Form::block:
            run_block(statement.body, context);
            break;
        case Statement::Form::collective:
            run_collective(statement, context);
            break;
    }
}

void Layout::run_loop(const Statement& statement, Context& context) {
    const RangeValues values(statement.loops[0].range, context.scope, topology_);
    Strands strands{{plan_.transfers.size()}, statement.at};
    for (std::int64_t i = 0; i < values.size(); ++i) {
        count_step(statement.at);
        context.scope.own.push_back({statement.loops[0].name, values[i]});
        run_block(statement.body, context);
        context.scope.own.pop_back();
        strands.starts.push_back(plan_.transfers.size());
    }
    if (statement.form == Statement::Form::parallel) plan_.parallels.push_back(std::move(strands));
}

void Layout::run_each(const Statement& statement, Context& context) {
    ++phase_;
    std::vector<RangeValues> ranges;
    for (const Loop& loop : statement.loops) ranges.emplace_back(loop.range, context.scope, topology_);
    run_iterations(statement, ranges, 0, context);
}

// Makes the variables one after the other; the first `made` of them are there already.
void Layout::run_iterations(const Statement& statement, const std::vector<RangeValues>& ranges,
                            std::size_t made, Context& context) {
    if (made == ranges.size()) {
        run_iteration(statement, context);
        return;
    }
    for (std::int64_t i = 0; i < ranges[made].size(); ++i) {
        count_step(statement.at);
        context.scope.own.push_back({statement.loops[made].name, ranges[made][i]});
        run_iterations(statement, ranges, made + 1, context);
        context.scope.own.pop_back();
    }
}

void Layout::run_iteration(const Statement& statement, Context& context) {
    const std::size_t outside = context.scope.own.size();
    for (const Statement& let : statement.lets) run_let(let, context, true);
    if (!statement.where || number(*statement.where, context) != 0) run_at_once(statement.body, context);
    context.scope.own.resize(outside);
}

// Statements of an each.
void Layout::run_at_once(const std::vector<Statement>& statements, Context& context) {
    const std::size_t outside = context.scope.own.size();
    for (const Statement& statement : statements) {
        count_step(statement.at);
        if (statement.form == Statement::Form::transfer) {
            run_transfer(statement, context);
        } else if (statement.form == Statement::Form::choice) {
            const bool holds = number(*statement.where, context) != 0;
            run_at_once(holds ? statement.body : statement.otherwise, context);
        } else {
            run_let(statement, context, true);
        }
    }
    context.scope.own.resize(outside);
}

// Inside an each, a part is one of the pieces that the transfers see.
void Layout::run_let(const Statement& statement, Context& context, bool in_each) {
    if (statement.form == Statement::Form::function) {
        Value function = Value::of_function(statement, context.scope.own.size());
        context.scope.own.push_back({statement.name, std::move(function)});
        return;
    }
    if (!statement.part) {
        Value value = value_of(statement.value, context.scope, topology_);
        context.scope.own.push_back({statement.name, std::move(value)});
        return;
    }
    auto buffer =
        std::make_shared<Buffer>(*buffer_named(statement.value.name, statement.value.at, context.scope));
    if (in_each) add_digits(buffer->digits, context.group.levels, topology_);
    Digit digit;
    digit.part = number(*statement.part, context);
    digit.size = number(*statement.parts, context);
    if (digit.size < 1 || digit.part < 0 || digit.part >= digit.size) {
        refuse(statement.at, "there is no such part");
    }
    buffer->digits.push_back(digit);
    buffer->kept = buffer->digits.size();
    context.scope.own.push_back({statement.name, Value::of_buffer(std::move(buffer))});
}

void Layout::run_transfer(const Statement& statement, const Context& context) {
    const auto size = static_cast<std::int64_t>(context.group.ranks.size());
    Transfer transfer;
    transfer.phase = phase_;
    transfer.at = statement.at;
    transfer.combines = statement.combines;
    transfer.from = context.group.ranks[wrapped(number(statement.from, context), size)];
    transfer.to = context.group.ranks[wrapped(number(statement.to, context), size)];
    const std::vector<Piece> from = region(statement.region, context);
    const std::vector<Piece> to = statement.target ? region(*statement.target, context) : from;
    if (transfer.from == transfer.to && from == to) refuse(statement.at, "a member sends to itself");
    transfer.shifts = shifts_of(from, to, alike_, statement.at);
    pieces_ += transfer.shifts.size();
    if (pieces_ > 2'000'000) refuse(statement.at, "too large: more than 2 million pieces are sent");
    plan_.transfers.push_back(std::move(transfer));
}

std::vector<Piece> Layout::region(const Region& region, const Context& context) const {
    const std::shared_ptr<Buffer> buffer = buffer_named(region.buffer, region.at, context.scope);
    return pieces_of(*buffer, context.group, chunks(region, context), topology_, region.at);
}

// Nothing for the whole buffer.
std::optional<std::vector<std::int64_t>> Layout::chunks(const Region& region, const Context& context) const {
    if (region.form == Region::Form::whole) return std::nullopt;
    const auto size = static_cast<std::int64_t>(context.group.ranks.size());
    std::int64_t begin = number(region.first, context);
    std::int64_t end = 0;
    if (region.form == Region::Form::chunk) {
        begin = wrapped(begin, size);
        end = begin + 1;
    } else if (region.form == Region::Form::slice) {
        end = number(region.second, context);
        if (begin >= end) refuse(region.at, "the slice is empty");
        // As unsigned numbers, because the difference may be larger than a signed one can be.
        if (static_cast<std::uint64_t>(end) - static_cast<std::uint64_t>(begin) >
            static_cast<std::uint64_t>(size))
            refuse(region.at, "the slice names a chunk twice");
        end -= begin;
        begin = wrapped(begin, size);
        end += begin;
    } else {
        const std::int64_t length = number(region.second, context);
        if (length < 1) refuse(region.at, "a block needs a chunk at least");
        begin = wrapped(begin, size) / length * length;
        end = length > size - begin ? size : begin + length;
    }
    std::vector<std::int64_t> result;
    for (std::int64_t chunk = begin; chunk < end; ++chunk) result.push_back(wrapped(chunk, size));
    return result;
}

// The digits of these levels, before the statement runs.
void prepare_digits(const Statement& statement, const std::vector<int>& levels, const Topology& topology,
                    Digits& digits) {
    const bool is_gather = collective_of(statement.collective).starts_divided();
    if (!is_gather) add_digits(digits, levels, topology);
    for (const int level : levels) {
        const Digit* digit = find_digit(digits, level);
        if (is_gather && !(digit && digit->scattered)) {
            refuse(statement.at, "the buffer is not scattered over " + topology.level(level).name);
        }
        if (!is_gather && digit->scattered) {
            refuse(statement.at, "the buffer is scattered over " + topology.level(level).name + " already");
        }
    }
}

// The same digits, after it.
void finish_digits(const Statement& statement, const std::vector<int>& levels, Buffer& buffer) {
    const bool is_scatter = collective_of(statement.collective).ends_divided();
    for (const int level : levels) find_digit(buffer.digits, level)->scattered = is_scatter;
    if (is_scatter) return;
    const auto is_free = [](const Digit& digit) { return digit.level && !digit.scattered; };
    while (buffer.digits.size() > buffer.kept && is_free(buffer.digits.back())) buffer.digits.pop_back();
}

void Layout::run_collective(const Statement& statement, const Context& context) {
    const std::shared_ptr<Buffer> buffer = buffer_named(statement.buffer, statement.at, context.scope);
    const Value group = value_of(statement.group, context.scope, topology_);
    if (group.form != Value::Form::group) refuse(statement.group.at, "this is not a level or several");
    std::optional<std::int64_t> root;
    if (statement.root) root = wrapped(number(*statement.root, context), topology_.ranks());

    prepare_digits(statement, group.levels, topology_, buffer->digits);
    if (group.number > 1) {
        run_on_groups(statement, group.levels, *buffer, root, context);
        if (!algorithm_of(statement, context).algorithm->second.empty()) ++buffer->generation;
    }
    finish_digits(statement, group.levels, *buffer);
    if (collective_of(statement.collective).goes_to_root()) {
        limit(*buffer, group.levels, *root, topology_);
    } else {
        for (const int level : group.levels) buffer->limited_to.erase(level);
    }
}

// Returns whether the group of `rank` over these levels has the buffer's data.
bool takes_part(std::int64_t rank, const std::vector<int>& levels, const Buffer& buffer,
                const Topology& topology) {
    for (const auto& [level, coordinate] : buffer.limited_to) {
        if (std::find(levels.begin(), levels.end(), level) != levels.end()) continue;
        if (topology.coordinate(rank, level) != coordinate) return false;
    }
    return true;
}

void Layout::run_on_groups(const Statement& statement, const std::vector<int>& levels, const Buffer& buffer,
                           std::optional<std::int64_t> root, const Context& context) {
    const Chosen algorithm = algorithm_of(statement, context);
    const std::int64_t root_member = root ? topology_.member_number(*root, levels) : 0;
    for (std::int64_t rank = 0; rank < topology_.ranks(); ++rank) {
        Group group{levels, topology_.group_of(rank, levels)};
        if (group.ranks[0] != rank) continue;  // its first member has taken care of it
        if (!takes_part(rank, levels, buffer, topology_)) continue;
        run_algorithm(algorithm, group, buffer, root_member);
    }
}

Layout::Chosen Layout::algorithm_of(const Statement& statement, const Context& context) const {
    if (!statement.algorithm) throw Refusal("unsupported: no using");
    std::string name = statement.algorithm->name;
    const Names& own = context.scope.own;
    const auto parameter =
        std::find_if(own.begin(), own.end(), [&](const auto& entry) { return entry.first == name; });
    if (parameter != own.end()) {
        if (parameter->second.form != Value::Form::algorithm) {
            refuse(statement.at, "'" + name + "' is not an algorithm");
        }
        if (!statement.algorithm->arguments.empty()) refuse(statement.at, "a parameter with arguments");
        name = parameter->second.algorithm;
    }
    const Definition* found = find_definition(definitions_, false, name, statement.collective);
    if (!found) refuse(statement.at, "there is no algorithm " + name + " " + statement.collective);
    return {found, *statement.algorithm, arguments(*statement.algorithm, context.scope)};
}

// The buffer has a digit for each of the group's levels.
void Layout::run_algorithm(const Chosen& chosen, const Group& group, const Buffer& buffer,
                           std::int64_t root_member) {
    const Definition& algorithm = *chosen.algorithm;
    Context context;
    context.group = group;
    Names& names = context.scope.own;
    bind_parameters(algorithm, chosen.call, chosen.arguments, context.scope);
    names.push_back({algorithm.buffer, Value::of_buffer(std::make_shared<Buffer>(buffer))});
    if (!algorithm.second.empty()) {
        auto second = std::make_shared<Buffer>(buffer);
        plan_.generations = std::max(plan_.generations, ++second->generation + 1);
        names.push_back({algorithm.second, Value::of_buffer(std::move(second))});
    }
    if (!algorithm.root.empty()) names.push_back({algorithm.root, Value::of_number(root_member)});
    names.push_back(
        {algorithm.group, Value::of_group(static_cast<std::int64_t>(group.ranks.size()), group.levels)});
    if (algorithm.where && number(*algorithm.where, context) == 0) {
        refuse(algorithm.at, "the algorithm's where does not hold");
    }
    run_block(algorithm.body, context);
}

}  // namespace

Plan lay_out(const Request& request, const Topology& topology) {
    const Definitions definitions = parse_file(request.text);
    refuse_duplicates(definitions);
    for (const Definition& definition : definitions) check_names(definition);
    const Call call = parse_call(request.schedule);
    if (collective_of(request.collective).has_root() &&
        (request.root < 0 || request.root >= topology.ranks())) {
        throw Refusal("the root is not a rank");
    }

    Layout layout(definitions, topology, collective_of(request.collective));
    if (const Definition* schedule = find_definition(definitions, true, call.name, request.collective)) {
        layout.run_schedule(*schedule, call, request.root);
    } else if (const Definition* algorithm =
                   find_definition(definitions, false, call.name, request.collective)) {
        layout.run_algorithm_alone(*algorithm, call, request.root);
    } else {
        throw Refusal("there is no " + call.name + " " + request.collective);
    }
    return std::move(layout).plan();
}

}  // namespace hocket::reference
