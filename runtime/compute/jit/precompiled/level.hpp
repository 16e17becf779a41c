// Which processors the precompiled kernels are for. Every server of the last ten years has this: on x86-64 it
// is AVX2 with FMA and F16C. An older one compiles its kernels when it needs them.
#pragma once

namespace hocket::jit {

#ifdef __x86_64__
inline constexpr const char* level_cpu = "x86-64-v3";  // LLVM's name
// Features that every compiler has a name for: processors with these have the level's others, too.
inline bool machine_has_level() {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
}
#else
inline constexpr const char* level_cpu = "generic";  // of AArch64: what the library itself is compiled for
inline bool machine_has_level() {
    return true;
}
#endif

}  // namespace hocket::jit
