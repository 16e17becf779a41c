// What the compiler makes of a text, and its errors.
#pragma once

#include <string>

#include "dsl/base/diagnostic.hpp"
#include "dsl/syntax/parse.hpp"
#include "tests/dsl/cases.hpp"
#include "tests/support/temporary_folder.hpp"

namespace hocket::test {

// The tree of a text that parses.
inline std::string printed(const std::string& text) {
    const dsl::SourceFile file{"t.sched", text};
    return print(dsl::parse(file));
}

// The rendered diagnostic, or "" if nothing is wrong.
template <typename Action>
std::string error_of(Action action) {
    try {
        action();
    } catch (const dsl::DiagnosticError& error) {
        return error.what();
    } catch (const dsl::NotFoundError& error) {
        return error.what();
    }
    return "";
}

inline std::string parse_error(const std::string& text) {
    const dsl::SourceFile file{"t.sched", text};
    return error_of([&] { dsl::parse(file); });
}

// A file of the text under a name of its own, removed at the end.
class TemporarySchedule {
  public:
    explicit TemporarySchedule(const std::string& text);
    ~TemporarySchedule();
    const std::string& path() const { return path_; }

  private:
    std::string path_;
};

inline std::string check_error(const std::string& text,
                               dsl::Collective collective = dsl::Collective::all_reduce,
                               const std::string& topology = "4") {
    const TemporarySchedule file(text);
    return error_of([&] { dsl::check_schedule(request(collective, file.path(), topology)); });
}

}  // namespace hocket::test
