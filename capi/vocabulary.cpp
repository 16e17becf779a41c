#include "capi/vocabulary.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <string_view>
#include <vector>

#include "capi/errors.hpp"

using namespace hocket;

namespace {

// The two names of a row: its constant in hocket.h, and its text.
template <typename Constant>
struct Name {
    Constant constant;
    std::string_view in_c, text;  // both end in a null character
};

#define HOCKET_NAME(name, text, constant, ...) {constant, #constant, text},
constexpr Name<hkt_type> type_names[] = {HOCKET_DATA_TYPES(HOCKET_NAME)};
constexpr Name<hkt_op> op_names[] = {HOCKET_REDUCE_OPS(HOCKET_NAME)};
#undef HOCKET_NAME
#define HOCKET_NAME(name, constant, ...) {constant, #constant, #name},
constexpr Name<hkt_collective> collective_names[] = {HOCKET_COLLECTIVES(HOCKET_NAME)};
#undef HOCKET_NAME

// Every constant of hocket.h must have a row; the compiler warns of a switch that leaves one out.
#define HOCKET_CASE(name, text, constant, ...) case constant:
constexpr bool has_row(hkt_type type) {
    switch (type) { HOCKET_DATA_TYPES(HOCKET_CASE) return true; }
    return false;
}
constexpr bool has_row(hkt_op op) {
    switch (op) {
        HOCKET_REDUCE_OPS(HOCKET_CASE) return true;
        case HKT_OP_LAST:  // not an operator
            return false;
    }
    return false;
}
#undef HOCKET_CASE
#define HOCKET_CASE(name, constant, ...) case constant:
constexpr bool has_row(hkt_collective collective) {
    switch (collective) { HOCKET_COLLECTIVES(HOCKET_CASE) return true; }
    return false;
}
#undef HOCKET_CASE
static_assert(has_row(HKT_FLOAT32) && has_row(HKT_SUM) && has_row(HKT_ALL_REDUCE));

template <std::size_t size, typename Constant>
std::string all_in_c(const Name<Constant> (&names)[size]) {
    std::vector<std::string_view> all;
    for (const auto& name : names) all.push_back(name.in_c);
    return fmt::format("{}", fmt::join(all, ", "));
}

// Returns the list of built-in operators for an error text, with the functions that make others.
std::string ops_in_c() {
    std::vector<std::string_view> all;
    for (const auto& name : op_names)
        if (!row_of(*capi::find_op(name.constant)).multiplies) all.push_back(name.in_c);
    return fmt::format("{}, or an operator that hkt_premul_sum_create or hkt_op_create made",
                       fmt::join(all, ", "));
}

template <std::size_t size, typename Constant>
const char* name_in(const Name<Constant> (&names)[size], const Constant& given) {
    for (const auto& name : names)
        if (name.constant == capi::number_of(given)) return name.text.data();
    return nullptr;
}

template <std::size_t size, typename Constant>
hkt_status find_in(const Name<Constant> (&names)[size], const char* what, const char* text, Constant* found) {
    return capi::guarded([&] {
        if (text == nullptr || found == nullptr)
            capi::refuse(fmt::format("{} cannot be looked up by name: {} is null", what,
                                     text == nullptr ? "the name" : "the place for what is found"));
        std::vector<std::string_view> all;
        for (const auto& name : names) {
            all.push_back(name.text);
            if (name.text != text) continue;
            *found = name.constant;
            return HKT_SUCCESS;
        }
        capi::refuse(fmt::format("'{}' is not {}: there are {}", text, what, fmt::join(all, ", ")));
    });
}

}  // namespace

namespace hocket::capi {

void refuse_type(const hkt_type& given) {
    refuse(fmt::format("the type is {}; it must be one of {}", number_of(given), all_in_c(type_names)));
}

void refuse_op(const hkt_op& given, DataType type) {
    const auto op = find_op(given);
    if (!op) refuse(fmt::format("the operator is {}; it must be one of {}", number_of(given), ops_in_c()));
    std::vector<std::string_view> types;
    for (const DataType other : hocket::all_types)
        if (supports(*op, other)) types.push_back(name_of(other));
    refuse(fmt::format("the operator {} does not exist for {}; it exists for {}", name_of(*op), name_of(type),
                       fmt::join(types, ", ")));
}

dsl::Collective collective_of(const hkt_collective& given) {
    if (const auto collective = find_collective(given)) return *collective;
    refuse(fmt::format("the collective is {}; it must be one of {}", number_of(given),
                       all_in_c(collective_names)));
}

std::string not_aligned(const char* buffer, DataType type) {
    return fmt::format("{} is not aligned to its elements: {} needs an address that is a multiple of {}",
                       buffer, name_of(type), element_size(type));
}

}  // namespace hocket::capi

extern "C" {

size_t hkt_type_size(hkt_type type) {
    const auto row = capi::find_type(type);
    return row ? element_size(*row) : 0;
}

const char* hkt_type_name(hkt_type type) {
    return name_in(type_names, type);
}

hkt_status hkt_type_from_name(const char* name, hkt_type* type) {
    return find_in(type_names, "an element type", name, type);
}

const char* hkt_op_name(hkt_op op) {
    if (capi::is_defined(op)) return "user-defined";
    const auto row = capi::find_op(op);
    return row ? name_of(*row).data() : nullptr;
}

hkt_status hkt_op_from_name(const char* name, hkt_op* op) {
    return find_in(op_names, "an operator", name, op);
}

int32_t hkt_op_supports(hkt_op op, hkt_type type) {
    const auto op_row = capi::find_op(op);
    const auto type_row = capi::find_type(type);
    if (capi::is_defined(op)) return type_row && row_of(*type_row).kind == kind::floating ? 1 : 0;
    return op_row && type_row && supports(*op_row, *type_row) ? 1 : 0;
}

const char* hkt_collective_name(hkt_collective collective) {
    return name_in(collective_names, collective);
}

hkt_status hkt_collective_from_name(const char* name, hkt_collective* collective) {
    return find_in(collective_names, "a collective", name, collective);
}

}  // extern "C"
