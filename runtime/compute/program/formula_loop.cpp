#include "runtime/compute/program/formula_loop.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "runtime/base/half.hpp"
#include "runtime/compute/kernels/cpu/apply.hpp"
#include "runtime/compute/program/chunk_fold.hpp"

namespace hocket::compute {
namespace {

using Op = dsl::Formula::Op;

constexpr std::size_t elements_at_once = formula_block;

template <typename T>
class Loop {
  public:
    Loop(const dsl::Formula& formula, const FormulaInputs& inputs)
        : inputs_(inputs), stack_(formula.depth() * elements_at_once) {
        for (const dsl::Formula::Item& item : formula.items) fold(item);
    }

    // Leaves the results of elements first .. first + n - 1 at the bottom of the stack; n is at most a block.
    const T* run(std::size_t first, std::size_t n) {
        T* top = stack_.data();
        for (const dsl::Formula::Item& item : items_) {
            top -= operands_of(item.op) * elements_at_once;
            calculate(item, first, n, top);
            top += elements_at_once;
        }
        return stack_.data();
    }

  private:
    void load(const FormulaOperand& operand, std::size_t first, std::size_t n, T* to) const {
        with_type(operand.type, [&]<DataType type>(TypeConstant<type>) {
            using Element = ElementOf<type>;
            const auto* from = reinterpret_cast<const typename Element::Stored*>(operand.elements) + first;
            for (std::size_t i = 0; i < n; ++i)
                to[i] = static_cast<T>(static_cast<typename Element::Worked>(from[i]));
        });
    }

    template <typename Function>
    static void unary(T* a, std::size_t n, Function function) {
        for (std::size_t i = 0; i < n; ++i) a[i] = function(a[i]);
    }
    template <typename Function>
    static void binary(T* a, std::size_t n, Function function) {
        const T* b = a + elements_at_once;
        for (std::size_t i = 0; i < n; ++i) a[i] = function(a[i], b[i]);
    }

    // Takes the operands from the stack at `a`, and leaves the result there.
    void calculate(const dsl::Formula::Item& item, std::size_t first, std::size_t n, T* a) const {
        switch (item.op) {
            case Op::number:
                return void(std::fill_n(a, n, static_cast<T>(item.number)));
            case Op::parameter:
                return void(std::fill_n(a, n, static_cast<T>(inputs_.parameters[item.index])));
            case Op::scalar:
                return void(std::fill_n(a, n, static_cast<T>(inputs_.scalars[item.index])));
            case Op::element:
                return load(inputs_.elements[item.index], first, n, a);
            case Op::negate:
                return unary(a, n, [](T x) { return -x; });
            case Op::logical_not:
                return unary(a, n, [](T x) { return T(x == 0); });
            case Op::absolute:
                return unary(a, n, [](T x) { return std::fabs(x); });
            case Op::square_root:
                return unary(a, n, [](T x) { return std::sqrt(x); });
            case Op::to_float16:
                return unary(a, n, [](T x) { return T(static_cast<float>(Float16(static_cast<float>(x)))); });
            case Op::to_bfloat16:
                return unary(a, n,
                             [](T x) { return T(static_cast<float>(BFloat16(static_cast<float>(x)))); });
            case Op::add:
                return binary(a, n, [](T x, T y) { return x + y; });
            case Op::subtract:
                return binary(a, n, [](T x, T y) { return x - y; });
            case Op::multiply:
                return binary(a, n, [](T x, T y) { return x * y; });
            case Op::divide:
                return binary(a, n, [](T x, T y) { return x / y; });
            case Op::minimum:
                return binary(a, n, kernels::min<T>);
            case Op::maximum:
                return binary(a, n, kernels::max<T>);
            case Op::equal:
                return binary(a, n, [](T x, T y) { return T(x == y); });
            case Op::not_equal:
                return binary(a, n, [](T x, T y) { return T(x != y); });
            case Op::less:
                return binary(a, n, [](T x, T y) { return T(x < y); });
            case Op::less_equal:
                return binary(a, n, [](T x, T y) { return T(x <= y); });
            case Op::greater:
                return binary(a, n, [](T x, T y) { return T(x > y); });
            case Op::greater_equal:
                return binary(a, n, [](T x, T y) { return T(x >= y); });
            case Op::logical_and:
                return binary(a, n, [](T x, T y) { return T(x != 0 && y != 0); });
            case Op::logical_or:
                return binary(a, n, [](T x, T y) { return T(x != 0 || y != 0); });
            case Op::select: {
                const T *yes = a + elements_at_once, *no = yes + elements_at_once;
                for (std::size_t i = 0; i < n; ++i) a[i] = a[i] != 0 ? yes[i] : no[i];
                return;
            }
        }
    }

    // Calculates values that don't depend on elements once.
    void fold(const dsl::Formula::Item& item) {
        const std::size_t n = operands_of(item.op);
        const bool is_uniform =
            item.op != Op::element && items_.size() >= n &&
            std::all_of(items_.end() - static_cast<std::ptrdiff_t>(n), items_.end(),
                        [](const dsl::Formula::Item& operand) { return operand.op == Op::number; });
        if (!is_uniform) return items_.push_back(item);
        std::array<T, 3 * elements_at_once> values;
        for (std::size_t i = 0; i < n; ++i)
            values[i * elements_at_once] = static_cast<T>(items_[items_.size() - n + i].number);
        calculate(item, 0, 1, values.data());
        items_.resize(items_.size() - n);
        items_.push_back({Op::number, 0, static_cast<double>(values[0])});
    }

    std::vector<dsl::Formula::Item> items_;
    const FormulaInputs& inputs_;
    std::vector<T> stack_;
};

template <typename T>
double fold_as(dsl::Fold fold, const dsl::Formula& formula, const FormulaInputs& inputs, std::size_t count) {
    Loop<T> loop(formula, inputs);
    return chunk_fold<T>(fold, count, [&](std::size_t first, std::size_t n) { return loop.run(first, n); });
}

bool has_double(const FormulaInputs& inputs) {
    return std::any_of(inputs.elements.begin(), inputs.elements.end(),
                       [](const FormulaOperand& operand) { return operand.type == DataType::float64; });
}

}  // namespace

void run_formula(const dsl::Formula& formula, const FormulaInputs& inputs, std::size_t count, DataType type,
                 std::byte* to) {
    with_type(type, [&]<DataType t>(TypeConstant<t>) {
        using Stored = typename ElementOf<t>::Stored;
        using Worked = typename ElementOf<t>::Worked;
        if constexpr (row_of(t).kind == kind::floating) {
            Loop<Worked> loop(formula, inputs);
            auto* const results = reinterpret_cast<Stored*>(to);
            for (std::size_t first = 0; first < count; first += elements_at_once) {
                const std::size_t n = std::min(elements_at_once, count - first);
                const Worked* const values = loop.run(first, n);
                for (std::size_t i = 0; i < n; ++i) results[first + i] = static_cast<Stored>(values[i]);
            }
        } else {
            no_such_row(t);  // plans refuse it earlier
        }
    });
}

double fold_formula(dsl::Fold fold, const dsl::Formula& formula, const FormulaInputs& inputs,
                    std::size_t count) {
    return has_double(inputs) ? fold_as<double>(fold, formula, inputs, count)
                              : fold_as<float>(fold, formula, inputs, count);
}

}  // namespace hocket::compute
