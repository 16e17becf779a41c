// The module hocket_torch_native: what hocket/torch/native/binding.py needs of the native backend. One file
// compiles all of it, because torch's headers take most of the time.
#include "backend.cpp"
#include "group.hpp"
#include "work.cpp"

namespace hocket::torch {

// Makes the backend of a communicator. group: the process group that has it alone, or None.
static c10::intrusive_ptr<c10d::Backend> make_backend(std::shared_ptr<Calls> calls, py::object operations,
                                                      int rank, int size, ProcessGroup* group) {
    auto made = c10::make_intrusive<Backend>(
        Group{std::move(calls), std::make_shared<Completions>(), shared(std::move(operations))}, rank, size);
    if (group != nullptr) group->set_backend(made);
    return made;
}

}  // namespace hocket::torch

PYBIND11_MODULE(hocket_torch_native, module) {
    using namespace hocket::torch;
    py::class_<Calls, std::shared_ptr<Calls>>(module, "Calls")
        .def(py::init<std::uintptr_t>())
        .def_property_readonly("is_under_way", &Calls::is_under_way)
        .def_property_readonly("in_flight", [](const Calls& calls) { return calls.in_flight.load(); })
        .def("close", &Calls::close, py::call_guard<py::gil_scoped_release>())
        .def("destroyed", &Calls::destroyed, py::call_guard<py::gil_scoped_release>());
    py::class_<ProcessGroup, c10d::ProcessGroup, c10::intrusive_ptr<ProcessGroup>>(module, "ProcessGroup")
        .def(py::init<int, int>());
    module.def("make_backend", &make_backend, py::arg("calls"), py::arg("operations"), py::arg("rank"),
               py::arg("size"), py::arg("group").none(true));
}
