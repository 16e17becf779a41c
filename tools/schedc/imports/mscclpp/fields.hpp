// Fields of JSON objects, with errors that name the GPU, the threadblock and the operation.
#pragma once

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "tools/schedc/imports/algorithm.hpp"

namespace hocket::tools::imports::mscclpp {

using Json = nlohmann::json;

// Parses a text in which no object has a field twice. Throws DiagnosticError with the line of what is wrong.
Json parsed(const std::string& path, const std::string& text);

class Fields {
  public:
    explicit Fields(const Algorithm& algorithm) : algorithm_(algorithm) {}

    // Where the objects stand that are read next.
    Place at;

    [[noreturn]] void fail(const std::string& message, const std::string& hint) const {
        refuse(algorithm_, at, message, hint);
    }

    bool has(const Json& object, const char* name) const { return object.contains(name); }
    const Json& field(const Json& object, const char* name) const;
    const Json& list(const Json& object, const char* name) const;
    const Json& list_or_nothing(const Json& object, const char* name) const;
    int number(const Json& object, const char* name, int least, int most) const;
    int number(const Json& value, const std::string& name, int least, int most) const;
    const std::string& text(const Json& object, const char* name) const;
    bool flag(const Json& object, const char* name) const;
    Buffer buffer(const Json& object, const char* name) const;

    // Nothing may be left out unseen: an object with other fields is refused.
    void check_object(const Json& value, const char* what,
                      std::initializer_list<std::string_view> names) const;

  private:
    const Algorithm& algorithm_;
};

}  // namespace hocket::tools::imports::mscclpp
