// Translates the language's errors to the runtime's.
#pragma once

#include "dsl/base/deadline.hpp"
#include "dsl/base/diagnostic.hpp"
#include "dsl/elaboration/library.hpp"
#include "runtime/base/error.hpp"

namespace hocket {

// Calls `call`, and rethrows the language's errors as the runtime's.
template <typename Call>
auto in_dsl(Call call) {
    try {
        return call();
    } catch (const dsl::ReadError& error) {
        throw Error(Status::io, error.what());
    } catch (const dsl::NotFoundError& error) {
        throw Error(Status::not_found, error.what());
    } catch (const dsl::DiagnosticError& error) {
        throw Error(Status::schedule, error.what());
    } catch (const dsl::DeadlineError& error) {
        throw Error(Status::timeout, error.what());
    }
}

}  // namespace hocket
