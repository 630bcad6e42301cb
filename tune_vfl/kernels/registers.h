// Registers of floats and of doubles, as wide as the processor has them, and what is done to several of them at once.
//
// Plain C++ of any compiler that knows GCC's vector types.

#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#if defined(__AVX512F__)
constexpr int LANES = 16;
#elif defined(__AVX__)
constexpr int LANES = 8;
#else
constexpr int LANES = 4;
#endif

typedef float Vector __attribute__((vector_size(4 * LANES)));
typedef float Unaligned __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t Places __attribute__((vector_size(4 * LANES)));

// As wide a register holds half as many doubles, or int64.
constexpr int NUMBERS = LANES / 2;
typedef double Numbers __attribute__((vector_size(8 * NUMBERS)));
typedef double UnalignedNumbers __attribute__((vector_size(8 * NUMBERS), aligned(8), may_alias));
typedef int64_t Wholes __attribute__((vector_size(8 * NUMBERS)));

#define INLINE __attribute__((always_inline))

static inline Vector load(const float* at) { return *reinterpret_cast<const Unaligned*>(at); }
static inline void store(float* at, Vector value) { *reinterpret_cast<Unaligned*>(at) = value; }
static inline Numbers load(const double* at) { return *reinterpret_cast<const UnalignedNumbers*>(at); }
static inline int64_t less(int64_t a, int64_t b) { return a < b ? a : b; }

// What several products read, read once: GCC would read it from memory for each of them.
static inline Vector load_once(const float* at) {
    Vector value = load(at);
#if defined(__AVX512F__)
    asm("" : "+v"(value));
#elif defined(__AVX__)
    asm("" : "+x"(value));
#endif
    return value;
}

template <class Act, int... I>
static inline INLINE void each_of(const Act& act, std::integer_sequence<int, I...>) {
    (act(std::integral_constant<int, I>()), ...);
}

// Call `act` with 0 to COUNT - 1, as constants: GCC leaves an array of registers in memory where a loop counts them.
template <int COUNT, class Act>
static inline INLINE void each(const Act& act) {
    each_of(act, std::make_integer_sequence<int, COUNT>());
}

// Call `act` with 0 to count - 1, several numbers at once: `act(first, constant how many)`.
template <int MOST, class Act>
static inline INLINE void grouped(int64_t count, const Act& act) {
    int64_t at = 0;
    for (; at + MOST <= count; at += MOST) act(at, std::integral_constant<int, MOST>());
    for (; at < count; at++) act(at, std::integral_constant<int, 1>());
}

// Lanes of a and b, counted from the first one of a, in the order of `Place`.
template <class Place, size_t... Lane>
static inline Vector chosen(Vector a, Vector b, std::index_sequence<Lane...>) {
#if defined(__clang__)
    return __builtin_shufflevector(a, b, Place::of(static_cast<int>(Lane))...);
#else
    return __builtin_shuffle(a, b, Places{Place::of(static_cast<int>(Lane))...});
#endif
}

template <class Place>
static inline Vector chosen(Vector a, Vector b) {
    return chosen<Place>(a, b, std::make_index_sequence<LANES>());
}

// Half of the blocks of a, then half of those of b: the even ones, or the odd ones.
template <int BLOCK, int ODD>
struct Half {
    static constexpr int of(int lane) { return (lane / BLOCK * 2 + ODD) * BLOCK + lane % BLOCK; }
};

// Blocks of a and b in turn: the even ones of both, or the odd ones.
template <int BLOCK, int ODD>
struct Turn {
    static constexpr int of(int lane) {
        return lane / BLOCK % 2 ? LANES + lane - (ODD ? 0 : BLOCK) : lane + (ODD ? BLOCK : 0);
    }
};

// Add up the lanes of each of LANES registers: lane i of the first one then is the sum of the i-th. Each step halves
// their number and the sums that a register still has to add up; one by one takes eight times as long.
template <int BLOCK>
static inline INLINE void totals(Vector* registers) {
    each<BLOCK>([&](auto i) INLINE {
        const Vector a = registers[2 * i], b = registers[2 * i + 1];
        registers[i] = chosen<Half<BLOCK, 0>>(a, b) + chosen<Half<BLOCK, 1>>(a, b);
    });
    if constexpr (BLOCK > 1) totals<BLOCK / 2>(registers);
}

// Transpose LANES registers of LANES numbers.
template <int BLOCK>
static inline INLINE void transposed(Vector* registers) {
    each<LANES>([&](auto i) INLINE {
        if constexpr (!(i & BLOCK)) {
            const Vector a = registers[i], b = registers[i + BLOCK];
            registers[i] = chosen<Turn<BLOCK, 0>>(a, b);
            registers[i + BLOCK] = chosen<Turn<BLOCK, 1>>(a, b);
        }
    });
    if constexpr (BLOCK > 1) transposed<BLOCK / 2>(registers);
}
