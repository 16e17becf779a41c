#include "runtime/params/links/dialling.hpp"

#include <fmt/format.h>

#include <utility>

#include "runtime/base/thread.hpp"
#include "runtime/transport/net/texts.hpp"

namespace hocket::params {
namespace {

std::string text_of(const transport::DialError& error, const transport::Endpoint& to) {
    using Kind = transport::DialError::Kind;
    switch (error.kind) {
        case Kind::unreachable:
            return fmt::format("{}: {}; does a process listen there, and is there a way to it?", to.text(),
                               error.what());
        case Kind::silent:
            return fmt::format("{}: {}; does its process hang?", to.text(), error.what());
        case Kind::refused:
            return fmt::format("{} refused the connection: {}", to.text(), error.what());
        case Kind::impostor:
            break;
    }
    return fmt::format(
        "the process that answers at {} does not belong to this job: {}; is it the port of another program, "
        "or does HOCKET_SECRET differ?",
        to.text(), error.what());
}

}  // namespace

Dialling::Dialling(transport::Mailbox& mailbox, transport::Dial dial, std::chrono::milliseconds patience,
                   Done done)
    : is_given_up_(std::make_shared<std::atomic<bool>>(false)) {
    thread_ = start_thread("hkt-params-dial", [&mailbox, dial = std::move(dial), patience,
                                               done = std::move(done), is_given_up = is_given_up_] {
        auto result = std::make_shared<Result>();
        try {
            const auto abandoned = [&] {
                return *is_given_up ? std::optional<std::string>("nobody waits for it") : std::nullopt;
            };
            result->socket = transport::dial(dial, {transport::Clock::now() + patience, abandoned});
        } catch (const transport::DialError& failed) {
            using Kind = transport::DialError::Kind;
            result->error = text_of(failed, dial.to);
            result->is_refused = failed.kind == Kind::refused || failed.kind == Kind::impostor;
        } catch (const std::exception& failed) {
            result->error = failed.what();
        }
        mailbox.post([done, result, is_given_up] {
            if (!*is_given_up) done(std::move(*result));
        });
    });
}

Dialling::~Dialling() {
    *is_given_up_ = true;
    thread_.join();
}

}  // namespace hocket::params
