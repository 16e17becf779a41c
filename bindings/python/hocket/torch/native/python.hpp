// What the native backend needs of Python: objects that threads without the GIL may hold, and exceptions in
// both languages.
#pragma once

#include <pybind11/chrono.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <c10/util/Exception.h>

#include <exception>
#include <memory>
#include <optional>
#include <string>

namespace hocket::torch {

// A Python object that any thread may copy and drop, with or without the GIL.
using Object = std::shared_ptr<py::object>;

// Call it with the GIL.
inline Object shared(py::object object) {
    return {new py::object(std::move(object)), [](py::object* held) {
                if (Py_IsInitialized() == 0) {
                    held->release();  // the interpreter has ended: its memory is left as it is
                } else {
                    const py::gil_scoped_acquire gil;
                    *held = py::object();
                }
                delete held;
            }};
}

// Gives the GIL back, if this thread has it, while it waits for others: they may need it.
class WithoutGil {
  public:
    WithoutGil() {
        if (PyGILState_Check() == 1) released_.emplace();
    }

  private:
    std::optional<py::gil_scoped_release> released_;
};

// Raises the exception for callers in Python. Call it without the GIL or with it.
[[noreturn]] inline void raise(const Object& exception) {
    const py::gil_scoped_acquire gil;
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception->ptr())), exception->ptr());
    throw py::error_already_set();
}

// The exception for callers in C++, which only have its text.
inline std::exception_ptr as_cpp(const Object& exception) {
    const py::gil_scoped_acquire gil;
    const std::string text = py::str(*exception);
    try {
        if (PyErr_GivenExceptionMatches(exception->ptr(), PyExc_ValueError) != 0)
            C10_THROW_ERROR(ValueError, text);
        C10_THROW_ERROR(DistBackendError, text);
    } catch (...) {
        return std::current_exception();
    }
}

}  // namespace hocket::torch
