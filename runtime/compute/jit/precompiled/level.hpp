// The processors that the precompiled kernels are for. Every server of the last ten years has this level: on
// x86-64 it is AVX2 with FMA and F16C. Older processors compile their kernels at run time.
#pragma once

namespace hocket::jit {

#ifdef __x86_64__
inline constexpr const char* level_cpu = "x86-64-v3";  // LLVM's name
// Tests features that every compiler has a name for; processors with these have the rest of the level, too.
inline bool machine_has_level() {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
}
#else
inline constexpr const char* level_cpu = "generic";  // of AArch64: the level of the library itself
inline bool machine_has_level() {
    return true;
}
#endif

}  // namespace hocket::jit
