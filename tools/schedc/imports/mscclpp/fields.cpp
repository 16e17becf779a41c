#include "tools/schedc/imports/mscclpp/fields.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <vector>

#include "dsl/base/closest.hpp"
#include "dsl/base/diagnostic.hpp"

namespace hocket::tools::imports::mscclpp {
namespace {

constexpr std::size_t most_depth = 16;

constexpr const char* shape =
    "MSCCL++'s JSON is one object with the field \"gpus\", a list with an object for each rank";

// byte: it stands before that one.
[[noreturn]] void refuse_text(const std::string& path, const std::string& text, std::size_t byte,
                              const std::string& message, const char* hint) {
    const auto end = text.begin() + static_cast<std::ptrdiff_t>(std::min(byte, text.size()));
    throw dsl::DiagnosticError(
        dsl::Span(), fmt::format("{}:{}: {}", path, 1 + std::count(text.begin(), end, '\n'), message), hint);
}

// Text that holds a number may be long.
std::string shown(const Json& value) {
    if (value.is_object()) return "an object";
    if (value.is_array()) return "a list";
    return excerpt(value.is_string() ? '"' + value.get_ref<const std::string&>() + '"' : value.dump());
}

// Makes a tree of what nlohmann's reader finds, and looks for what a tree does not show. (With the reader's
// own trees, the time would grow with the square of a list's length as soon as somebody watches it.)
class Parser final : public nlohmann::json_sax<Json> {
  public:
    Parser(const std::string& path, const std::string& text) : path_(path), text_(text), stream_(text) {}

    Json parse() {
        Json::sax_parse(stream_, this);
        return std::move(root_);
    }

    bool null() override { return add(nullptr); }
    bool boolean(bool value) override { return add(value); }
    bool number_integer(number_integer_t value) override { return add(value); }
    bool number_unsigned(number_unsigned_t value) override { return add(value); }
    bool number_float(number_float_t value, const string_t&) override { return add(value); }
    bool string(string_t& value) override { return add(std::move(value)); }
    bool binary(binary_t&) override { return false; }

    bool start_object(std::size_t) override { return open(Json::object()); }
    bool start_array(std::size_t) override { return open(Json::array()); }
    bool end_object() override { return close(); }
    bool end_array() override { return close(); }

    bool key(string_t& name) override {
        if (open_.back()->contains(name))
            refuse_here(fmt::format("an object has the field \"{}\" twice", excerpt(name)), unusual);
        next_ = &(*open_.back())[name];
        return true;
    }

    bool parse_error(std::size_t byte, const std::string&,
                     const nlohmann::detail::exception& error) override {
        constexpr int out_of_range = 406;
        if (error.id == out_of_range)
            refuse_here("a number is too large", "plans have whole numbers of at most 64 bits");
        refuse_text(path_, text_, byte, "this is no JSON", shape);
    }

  private:
    static constexpr const char* unusual = "plans that MSCCL++ writes have no such objects";

    // The reader may be one character further.
    [[noreturn]] void refuse_here(const std::string& message, const char* hint) {
        const std::streamoff read = stream_.rdbuf()->pubseekoff(0, std::ios::cur, std::ios::in);
        refuse_text(path_, text_, read > 0 ? static_cast<std::size_t>(read) - 1 : 0, message, hint);
    }

    Json& place() {
        if (open_.empty()) return root_;
        if (open_.back()->is_object()) return *next_;
        return open_.back()->emplace_back();
    }

    bool add(Json value) {
        place() = std::move(value);
        return true;
    }

    bool open(Json value) {
        if (open_.size() >= most_depth)
            refuse_here(fmt::format("lists and objects are nested more than {} times", most_depth), unusual);
        Json& made = place();
        made = std::move(value);
        open_.push_back(&made);
        return true;
    }

    bool close() {
        open_.pop_back();
        return true;
    }

    const std::string &path_, &text_;
    std::istringstream stream_;
    Json root_;
    std::vector<Json*> open_;  // lists and objects that have begun: no list grows while one in it is open
    Json* next_ = nullptr;     // the value of the last key
};

}  // namespace

Json parsed(const std::string& path, const std::string& text) {
    return Parser(path, text).parse();
}

const Json& Fields::field(const Json& object, const char* name) const {
    const auto found = object.find(name);
    if (found == object.end())
        fail(fmt::format("there is no \"{}\"", name), fmt::format("write \"{}\": ...", name));
    return *found;
}

const Json& Fields::list(const Json& object, const char* name) const {
    const Json& value = field(object, name);
    if (!value.is_array())
        fail(fmt::format("\"{}\" is {}, not a list", name, shown(value)),
             fmt::format("write \"{}\": [...]", name));
    return value;
}

const Json& Fields::list_or_nothing(const Json& object, const char* name) const {
    static const Json nothing = Json::array();
    return has(object, name) ? list(object, name) : nothing;
}

int Fields::number(const Json& object, const char* name, int least, int most) const {
    return number(field(object, name), std::string(name), least, most);
}

int Fields::number(const Json& value, const std::string& name, int least, int most) const {
    if (most < least)
        fail(fmt::format("\"{}\" is {}, but there is none to name", name, shown(value)),
             "list it where the GPU or the threadblock has its own");
    const bool is_large = value.is_number_unsigned() && value.get<std::uint64_t>() > INT32_MAX;
    if (!value.is_number_integer() || is_large || value.get<std::int64_t>() < least ||
        value.get<std::int64_t>() > most)
        fail(fmt::format("\"{}\" is {}, not a whole number from {} to {}", name, shown(value), least, most),
             most == most_chunks || most == most_gpus ? larger : "");
    return value.get<int>();
}

const std::string& Fields::text(const Json& object, const char* name) const {
    const Json& value = field(object, name);
    if (!value.is_string())
        fail(fmt::format("\"{}\" is {}, not a text", name, shown(value)),
             fmt::format("write \"{}\": \"...\"", name));
    return value.get_ref<const std::string&>();
}

bool Fields::flag(const Json& object, const char* name) const {
    const Json& value = field(object, name);
    if (!value.is_boolean()) fail(fmt::format("\"{}\" is {}, not true or false", name, shown(value)), "");
    return value.get<bool>();
}

Buffer Fields::buffer(const Json& object, const char* name) const {
    const std::string& letter = text(object, name);
    const std::size_t which = letter.size() == 1 ? std::string_view("ios").find(letter[0]) : letter.npos;
    if (which == letter.npos)
        fail(fmt::format("\"{}\" is \"{}\", which is no buffer", name, excerpt(letter)),
             "these are: i (input), o (output) and s (scratch)");
    return static_cast<Buffer>(which);
}

void Fields::check_object(const Json& value, const char* what,
                          std::initializer_list<std::string_view> names) const {
    if (!value.is_object()) fail(fmt::format("{} is {}, not an object", what, shown(value)), "write {...}");
    for (const auto& [name, content] : value.items())
        if (std::ranges::find(names, name) == names.end())
            fail(fmt::format("{} has the field \"{}\", which is not known{}", what, excerpt(name),
                             dsl::did_you_mean(name, std::vector<std::string>(names.begin(), names.end()))),
                 "leave it out if the algorithm does not depend on it");
}

}  // namespace hocket::tools::imports::mscclpp
