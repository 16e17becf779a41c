#include "tools/schedc/format.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <stdexcept>

#include "dsl/base/diagnostic.hpp"
#include "dsl/base/named_file.hpp"
#include "dsl/syntax/format.hpp"
#include "tools/schedc/inputs.hpp"
#include "tools/schedc/layout_diff.hpp"

namespace hocket::tools {
namespace {

constexpr unsigned readable_by_all = 0644;  // only for a file that vanished meanwhile

void write_back(const std::string& path, const std::string& text) {
    try {
        // A link stays one.
        replace_file(std::filesystem::canonical(path), text, readable_by_all);
    } catch (const std::runtime_error& error) {
        throw std::runtime_error(fmt::format("cannot write {}: {}", path, error.what()));
    }
}

// Returns false if the file would change and was only to be looked at.
bool format_one(const std::string& path, const FormatOptions& options) {
    const dsl::SourceFile source = read_source(path);
    const std::string text = dsl::formatted(source);
    const bool changes = text != source.text;
    if (options.check && changes) fmt::print("{}: not formatted\n", source.path);
    if (options.diff) fmt::print("{}", layout_diff(source.path, source.text, text));
    if (options.check || options.diff) return !changes;
    if (path == standard_input) {
        fmt::print("{}", text);
    } else if (changes) {
        write_back(path, text);
        fmt::print("{}: formatted\n", path);
    }
    return true;
}

}  // namespace

int run_format(const FormatOptions& options) {
    Messages messages(options.messages);
    bool all_right = true;
    // A folder without schedules, and each file that is refused, is reported, and the rest goes on.
    const auto attempt = [&](const auto& action) {
        try {
            action();
        } catch (const std::runtime_error& error) {
            messages.wrong(error);
            all_right = false;
        }
    };
    for (const std::string& path : options.files)
        attempt([&] {
            for (const std::string& file : without_folders({path}))
                attempt([&] { all_right &= format_one(file, options); });
        });
    messages.end();
    return all_right ? 0 : 1;
}

}  // namespace hocket::tools
