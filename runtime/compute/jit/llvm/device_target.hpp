// What differs between the code for a device (PTX) and its twin for the processor: threads, the memory that
// they share, and the order of their accesses. All else is the same IR, so what tests see of the twin holds
// of the device's code, except for this file and what LLVM makes of the IR.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/compute/jit/interface/device_plan.hpp"

namespace hocket::jit {

// Emits at the builder's position. context: a pointer that each function passes on to those that it calls.
class DeviceTarget {
  public:
    using Builder = llvm::IRBuilder<>;
    virtual ~DeviceTarget() = default;

    // Adds the function that a launch runs. Its first parameter is the address of DeviceArguments.
    virtual llvm::Function* create_entry(llvm::Module& module) const = 0;
    virtual llvm::Value* context(Builder& ir, llvm::Function* entry) const = 0;

    // Numbers of 64 bits: the thread's index in its block, and how many threads and blocks there are.
    virtual llvm::Value* thread(Builder& ir, llvm::Value* context) const = 0;
    virtual llvm::Value* threads(Builder& ir, llvm::Value* context) const = 0;
    virtual llvm::Value* blocks(Builder& ir, llvm::Value* context) const = 0;

    // Returns the address of a word (64 bits) that the threads of a block share.
    virtual llvm::Value* shared(Builder& ir, llvm::Value* context, unsigned word) const = 0;
    // All threads of a block wait for each other, and then see what each of them has written.
    virtual void barrier(Builder& ir, llvm::Value* context) const = 0;
    virtual llvm::Value* now(Builder& ir, llvm::Value* context) const = 0;  // nanoseconds
    virtual void pause(Builder& ir, llvm::Value* context) const = 0;

    // Accesses to words of 32 or 64 bits that other devices, or the host, write or read.
    virtual llvm::Value* acquire(Builder& ir, llvm::Type* type, llvm::Value* address) const = 0;
    virtual void release(Builder& ir, llvm::Value* address, llvm::Value* value) const = 0;
    // Accesses to a word of 64 bits that another device writes or reads: whole, and in no order with others.
    virtual llvm::Value* load_word(Builder& ir, llvm::Value* address) const = 0;
    virtual void store_word(Builder& ir, llvm::Value* address, llvm::Value* value) const = 0;
    // All that comes before it, of this thread, is ordered before all that comes behind it.
    virtual void fence(Builder& ir) const = 0;
    // As acquire and release, for words of 32 bits that only blocks of this kernel use, both ways; return the
    // old value.
    virtual llvm::Value* add(Builder& ir, llvm::Value* address, std::uint32_t value) const = 0;
    virtual llvm::Value* exchange(Builder& ir, llvm::Value* address, std::uint32_t value) const = 0;

    // Returns the address in the form in which elements are loaded and stored.
    virtual llvm::Value* of_elements(Builder& ir, llvm::Value* address) const = 0;
    // Adds the table of a shape's numbers to the module, and returns its address. That of PTX has no content
    // yet.
    virtual llvm::Constant* numbers(llvm::Module& module, const DeviceShape& shape) const = 0;
    // Tells the twin of an access.
    virtual void touch(Builder& ir, llvm::Value* context, llvm::Value* address, llvm::Value* number,
                       TwinAccess access) const = 0;
};

std::unique_ptr<DeviceTarget> make_ptx_target();
// name: of the function. tells_accesses: calls TwinThread::touch.
std::unique_ptr<DeviceTarget> make_twin_target(std::string name, bool tells_accesses);

}  // namespace hocket::jit
