#include "runtime/cache/objects/object_store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <span>
#include <utility>

#include "runtime/base/xxh3.hpp"
#include "runtime/cache/objects/checksums.hpp"
#include "runtime/cache/objects/retried_call.hpp"
#include "runtime/cache/objects/whole_number.hpp"

namespace hocket::cache {
namespace {

constexpr unsigned most_attempts_to_open = 6;  // who has mistyped a name should not wait for a minute
constexpr std::size_t largest_page = 16 << 20;
constexpr unsigned most_empty_pages = 100;  // one after another, in a list

bool is_before(const ListedObject& a, const ListedObject& b) {
    return a.key < b.key;
}

std::string_view without_weakness(std::string_view etag) {
    return etag.starts_with("W/") ? etag.substr(2) : etag;
}

// Returns what shows that the object is another one than before; "" if nothing does.
std::string change(const Version& before, const Answer& answer) {
    const std::string &etag = answer.header("etag"), &modified = answer.header("last-modified");
    if (!before.etag.empty() && !etag.empty()) {
        if (without_weakness(before.etag) == without_weakness(etag)) return "";
        return fmt::format("its ETag was {}, now {}", one_line(before.etag, 80), one_line(etag, 80));
    }
    if (!before.modified.empty() && !modified.empty() && before.modified != modified)
        return fmt::format("it was modified {}, now {}", one_line(before.modified, 80),
                           one_line(modified, 80));
    return "";
}

// "bytes 0-9/100", as the server should answer for this part.
std::string expected_range(const ObjectPart& part) {
    return fmt::format("bytes {}-{}/{}", part.offset, part.offset + part.bytes - 1, part.object_bytes);
}

Verdict final_verdict(std::string why) {
    return {Verdict::Kind::final, std::move(why)};
}
Verdict changed(const std::string& how) {
    return final_verdict(
        fmt::format("it has changed since the source was opened: {}; open the source again", how));
}

// Judges an answer's form. The bytes themselves are judged by judge_bytes().
Verdict judge_form(const ObjectPart& part, const Answer& answer) {
    if (const std::string how = change(part.version, answer); !how.empty()) return changed(how);
    if (!part.is_whole() && answer.status == 200) return final_verdict(sends_no_parts);
    const std::string& range = answer.header("content-range");
    if (!part.is_whole() && range != expected_range(part))
        return changed(fmt::format("the server answers with \"{}\", and \"{}\" was to be expected",
                                   one_line(range, 80), expected_range(part)));
    if (answer.is_too_long || answer.bytes != part.bytes) {
        const std::string how = answer.is_too_long ? "more" : std::to_string(answer.bytes);
        return {Verdict::Kind::damaged,
                fmt::format(
                    "{} bytes came, and {} were to be expected; if the object has changed, open the source "
                    "again",
                    how, part.bytes)};
    }
    return {};
}

Verdict judge_bytes(const ObjectPart& part, const Answer& answer, std::span<const std::byte> body) {
    if (part.is_whole()) {
        const std::string mismatch = checksum_mismatch(answer, body);
        if (!mismatch.empty()) return {Verdict::Kind::damaged, mismatch};
    }
    if (part.checksum && XXH3_64bits(body.data(), body.size()) != *part.checksum)
        return {
            Verdict::Kind::damaged,
            fmt::format("{} bytes at {} do not have the checksum of the index; if the object has changed, "
                        "make the index anew (hocket-cache index)",
                        part.bytes, part.offset)};
    return {};
}

void add_conditions(Request& request, const ObjectPart& part) {
    const bool is_strong = part.version.etag.starts_with('"');
    if (is_strong) request.headers.push_back("If-Match: " + part.version.etag);
    if (!part.is_whole()) request.range = Range{part.offset, part.bytes};
}

}  // namespace

ObjectStore::ObjectStore(const Url& url, bool is_folder, std::chrono::milliseconds timeout,
                         const Environment& environment)
    : timeout_(timeout), site_(open_site(url, is_folder, environment)) {}

void ObjectStore::read(const ObjectPart& part, std::byte* to, Clock::time_point deadline, Done done) {
    if (part.bytes == 0) return done(std::nullopt);
    const std::span body(to, part.bytes);
    start_call(transfers_, *site_,
               {.shown = site_->shown(part.name),
                .make =
                    [this, part, body] {
                        Request request = site_->request(part.name);
                        add_conditions(request, part);
                        request.to = body;
                        return request;
                    },
                .judge =
                    [part, body](const Answer& answer) {
                        const Verdict form = judge_form(part, answer);
                        return form.kind == Verdict::Kind::right ? judge_bytes(part, answer, body) : form;
                    },
                .deadline = deadline,
                .done = [done = std::move(done)](const Answer&,
                                                 std::optional<Error> error) { done(std::move(error)); }});
}

Answer ObjectStore::call(const std::string& shown, std::function<Request()> make,
                         std::function<Verdict(const Answer&)> judge) {
    std::promise<Answer> promise;
    start_call(transfers_, *site_,
               {.shown = shown,
                .make = std::move(make),
                .judge = std::move(judge),
                .deadline = Clock::now() + timeout_,
                .most_attempts = most_attempts_to_open,
                .done = [&promise](Answer answer, std::optional<Error> error) {
                    if (error)
                        promise.set_exception(std::make_exception_ptr(*error));
                    else
                        promise.set_value(std::move(answer));
                }});
    return promise.get_future().get();
}

// Asks for the first byte, and not with HEAD, which signed addresses do not permit. An object without bytes
// has no first one: servers refuse the range, or leave it out of account.
void ObjectStore::start_facts(const std::string& name,
                              std::function<void(ObjectFacts, std::optional<Error>)> done) {
    constexpr int without_such_range = 416;
    const auto length = [](const Answer& answer) -> std::optional<std::uint64_t> {
        const bool is_whole = answer.status == 200, is_refused = answer.status == without_such_range;
        if (is_whole) return whole_number(answer.header("content-length"));
        const std::string beginning = is_refused ? "bytes */" : "bytes 0-0/";
        const std::string& range = answer.header("content-range");
        return whole_number(range.starts_with(beginning) ? range.substr(beginning.size()) : "");
    };
    const auto facts = [length](const Answer& answer) {
        return ObjectFacts{.bytes = length(answer).value_or(0),
                           .version = {answer.header("etag"), answer.header("last-modified")},
                           .comes_in_parts = answer.status != 200 || length(answer) == 0u};
    };
    start_call(transfers_, *site_,
               {.shown = site_->shown(name),
                .make =
                    [this, name] {
                        Request request = site_->request(name);
                        request.range = Range{0, 1};
                        request.most_text = 1;
                        return request;
                    },
                .judge =
                    [length](const Answer& answer) {
                        if (length(answer)) return Verdict{};
                        return final_verdict(
                            "the server does not say how long it is (Content-Range, or Content-Length "
                            "without parts); use one that does");
                    },
                .deadline = Clock::now() + timeout_,
                .judged_status = without_such_range,
                .most_attempts = most_attempts_to_open,
                .done = [facts, done = std::move(done)](
                            const Answer& answer,
                            std::optional<Error> error) { done(facts(answer), std::move(error)); }});
}

std::vector<ObjectFacts> ObjectStore::facts(const std::vector<std::string>& names) {
    std::vector<ObjectFacts> found(names.size());
    // Of so many at a time, each has the time that one has.
    for (std::size_t begin = 0; begin < names.size(); begin += usual_transfers) {
        const std::size_t end = std::min<std::size_t>(begin + usual_transfers, names.size());
        std::vector<std::promise<ObjectFacts>> promises(end - begin);
        for (std::size_t i = begin; i < end; ++i)
            start_facts(names[i],
                        [&promise = promises[i - begin]](ObjectFacts facts, std::optional<Error> error) {
                            if (error)
                                promise.set_exception(std::make_exception_ptr(*error));
                            else
                                promise.set_value(std::move(facts));
                        });
        std::vector<std::future<ObjectFacts>> futures;
        for (auto& promise : promises) futures.push_back(promise.get_future());
        for (auto& future : futures) future.wait();  // the promises are used until then
        for (std::size_t i = begin; i < end; ++i) found[i] = futures[i - begin].get();
    }
    return found;
}

std::string ObjectStore::text(const std::string& name, std::size_t most_bytes) {
    return call(
               site_->shown(name),
               [&] {
                   Request request = site_->request(name);
                   request.most_text = most_bytes;
                   return request;
               },
               [&](const Answer& answer) {
                   if (!answer.is_too_long) return Verdict{};
                   return final_verdict(fmt::format("it has more than {} bytes", most_bytes));
               })
        .text;
}

ObjectPage ObjectStore::page(const std::string& token) {
    const auto make = [&] {
        std::optional<Request> request = site_->list_request(token);
        if (!request)
            throw Error(
                Status::invalid_argument,
                fmt::format("{}: a plain server does not list what it has; give an index as source_index "
                            "(hocket-cache index makes one)",
                            site_->shown("")));
        request->most_text = largest_page;
        return *request;
    };
    ObjectPage page;
    const auto judge = [&](const Answer& answer) {
        try {
            page = parse_object_page(answer.text);
            return Verdict{};
        } catch (const Error& error) {
            return Verdict{Verdict::Kind::damaged,
                           fmt::format("the server's list of objects cannot be read: {}", error.what())};
        }
    };
    call(site_->shown(""), make, judge);
    return page;
}

// A list ends if each of its pages brings keys behind those of the page before, as S3's do.
std::vector<ListedObject> ObjectStore::list() {
    std::vector<ListedObject> objects;
    std::string last, token;
    unsigned empty_pages = 0;
    do {
        ObjectPage next = page(token);
        const auto [least, greatest] =
            std::minmax_element(next.objects.begin(), next.objects.end(), is_before);
        const bool is_empty = next.objects.empty();
        empty_pages = is_empty ? empty_pages + 1 : 0;
        if (empty_pages > most_empty_pages || (!is_empty && !last.empty() && least->key <= last))
            throw Error(Status::io,
                        fmt::format("{}: the server's list of objects has no end: its pages bring "
                                    "no further keys; ask who runs the server",
                                    site_->shown("")));
        if (!is_empty) last = greatest->key;
        token = next.next;
        for (ListedObject& object : next.objects) {
            object.key = site_->relative(object.key);
            const bool is_folder =
                object.key.empty() || object.key.ends_with('/');  // as S3's console makes them
            if (!is_folder) objects.push_back(std::move(object));
        }
    } while (!token.empty());
    std::sort(objects.begin(), objects.end(), is_before);
    return objects;
}

}  // namespace hocket::cache
