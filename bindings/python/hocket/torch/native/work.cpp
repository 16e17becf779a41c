#include "work.hpp"

namespace hocket::torch {

// Python's own futures lose their errors on the way through C++ (future.py), so this one is of C++.
c10::intrusive_ptr<c10::ivalue::Future> PythonWork::getFuture() {
    const py::gil_scoped_acquire gil;
    if (future_) return future_;
    auto made = new_future();
    future_ = made;
    try {
        object_->attr("tell_end")(
            py::cpp_function([made](const std::vector<at::Tensor>& result, py::object error) {
                const auto failure = error.is_none() ? nullptr : as_cpp(shared(std::move(error)));
                const py::gil_scoped_release functions_may_need_it;
                if (failure) {
                    made->setError(failure);
                } else {
                    made->markCompleted(c10::IValue(result));
                }
            }));
    } catch (...) {
        future_.reset();
        throw;
    }
    return made;
}

// The right to call C with the request.
class NativeWork::Turn {
  public:
    // timeout_ms: as in end(). Raises ValueError for a thread that has the turn already.
    Turn(NativeWork& work, std::int64_t timeout_ms) : work_(work) {
        if (work_.has_turn_ == std::this_thread::get_id()) {
            if (timeout_ms == 0) return;
            const py::gil_scoped_acquire gil;
            raise(shared(work_.group_.operations->attr("waits_beside")(work_.operation_.name)));
        }
        if (timeout_ms == 0) {
            is_mine_ = work_.turn_.try_lock();
        } else {
            const WithoutGil others_may_need_it;
            is_mine_ = timeout_ms < 0 ? (work_.turn_.lock(), true)
                                      : work_.turn_.try_lock_for(std::chrono::milliseconds(timeout_ms));
        }
        if (is_mine_) work_.has_turn_ = std::this_thread::get_id();
    }

    ~Turn() {
        if (!is_mine_) return;
        work_.has_turn_ = std::thread::id();
        work_.turn_.unlock();
    }

    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

    bool is_mine() const { return is_mine_; }

  private:
    NativeWork& work_;
    bool is_mine_ = false;
};

// A work that is dropped while its operation goes on: Python keeps the tensors until it has ended.
NativeWork::~NativeWork() {
    if (state_ != State::in_flight) return;
    if (Py_IsInitialized() == 0) return;  // all communicators were destroyed before that
    try {
        if (const Calls::Inside inside(*group_.calls); inside.comm() != nullptr) {
            hand_over();
            return;
        }
        settle(nullptr);
    } catch (const std::exception& error) {
        TORCH_WARN("hocket: ", operation_.name, " was dropped while it went on: ", error.what());
        // Nobody ends the operation now: its tensors are kept as long as the communicator.
        if (state_ == State::in_flight) settle(nullptr);
    }
}

bool NativeWork::end(std::int64_t timeout_ms) {
    if (state_ != State::in_flight) return state_ == State::ended;
    const Turn turn(*this, timeout_ms);
    if (!turn.is_mine()) return false;
    if (state_ != State::in_flight) return state_ == State::ended;
    return look(timeout_ms);
}

// Called in turn.
bool NativeWork::look(std::int64_t timeout_ms) {
    const Calls::Inside inside(*group_.calls);
    if (inside.comm() == nullptr) {
        const py::gil_scoped_acquire gil;
        settle(shared(group_.operations->attr("destroyed_before")(operation_.name)));
        return true;
    }
    hkt_status status = HKT_SUCCESS;
    if (timeout_ms == 0) {
        status = hkt_test(request_);
    } else {
        const WithoutGil others_may_need_it;
        status = timeout_ms < 0 ? hkt_wait(request_) : hkt_wait_for(request_, timeout_ms);
    }
    if (status == HKT_IN_PROGRESS) return false;
    Object error;
    if (status != HKT_SUCCESS) {
        const py::gil_scoped_acquire gil;
        error = shared(group_.operations->attr("failure")(static_cast<int>(status)));
        if (status == HKT_ERROR_INTERRUPTED) raise(error);  // the wait has ended, not the operation
    }
    request_ = nullptr;
    const bool has_succeeded = error == nullptr;
    settle(std::move(error));
    if (has_succeeded) group_.completions->tell(key_);
    return true;
}

// The request is gone, or its communicator will be.
void NativeWork::settle(Object error) {
    if (request_ != nullptr) {
        group_.calls->keep(operation_.result);
        group_.calls->keep(std::move(operation_.inputs));
    }
    error_ = std::move(error);
    operation_.inputs.clear();
    --group_.calls->in_flight;
    state_ = State::ended;
}

// Called in turn, and inside.
void NativeWork::hand_over() {
    const py::gil_scoped_acquire gil;
    python_ = c10::make_intrusive<PythonWork>(adopted(), group_, key_);
    group_.calls->has_handed_over = true;
    --group_.calls->in_flight;
    state_ = State::handed_over;
}

py::object NativeWork::adopted() {
    const py::object timeout =
        operation_.timeout_ms ? py::object(py::int_(*operation_.timeout_ms)) : py::none();
    return group_.operations->attr("adopt")(reinterpret_cast<std::uintptr_t>(request_), operation_.name,
                                            timeout, operation_.inputs, operation_.result, operation_.source);
}

bool NativeWork::wait(std::chrono::milliseconds timeout) {
    const auto given = milliseconds(timeout);
    const auto limit = given ? given : operation_.timeout_ms;
    if (!end(limit.value_or(-1))) {
        if (state_ == State::handed_over) return python_->wait(timeout);
        const py::gil_scoped_acquire gil;
        raise(shared(group_.operations->attr("not_ended")(operation_.name, limit.value_or(0))));
    }
    if (error_) raise(error_);
    return true;
}

bool NativeWork::isCompleted() {
    return end(0) || (state_ == State::handed_over && python_->isCompleted());
}

bool NativeWork::isSuccess() const {
    if (!const_cast<NativeWork*>(this)->isCompleted()) return false;
    return state_ == State::handed_over ? python_->isSuccess() : error_ == nullptr;
}

std::exception_ptr NativeWork::exception() const {
    if (!const_cast<NativeWork*>(this)->isCompleted()) return nullptr;
    if (state_ == State::handed_over) return python_->exception();
    return error_ ? as_cpp(error_) : nullptr;
}

std::vector<at::Tensor> NativeWork::result() {
    wait(std::chrono::milliseconds(0));
    return operation_.result;
}

c10::intrusive_ptr<c10::ivalue::Future> NativeWork::getFuture() {
    {
        const Turn turn(*this, -1);
        if (state_ == State::in_flight) {
            const Calls::Inside inside(*group_.calls);
            if (inside.comm() != nullptr) hand_over();
        }
    }
    if (state_ == State::handed_over) return python_->getFuture();
    end(0);
    auto made = new_future();
    if (error_) {
        made->setError(as_cpp(error_));
    } else {
        made->markCompleted(c10::IValue(operation_.result));
    }
    return made;
}

}  // namespace hocket::torch
