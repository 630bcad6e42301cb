// Both passes through a chain of linear layers, member by member, so that a member's numbers stay in the cache.
//
// Rows lie last ("columns by rows"): a register then holds the same column of neighboring rows, and layers of any width
// fill it. The rows of a batch are padded with zeros to whole registers. The same numbers as passes.py, in another
// order of summation.

#include "registers.h"

// The tile of results that is kept in registers.
constexpr int DOWN = LANES < 8 ? 4 : 6, ACROSS = LANES < 16 ? 2 : 4;
// The tile of weights whose gradients are summed at once: 16 registers would not hold one of 4 x 4 and what it reads.
constexpr int SIDE = 4, NEXT = LANES == 8 ? 3 : 4, SUMS = SIDE * SIDE;

enum Activation : int64_t { NONE = 0, RELU = 1, LEAKY_RELU = 2 };

struct Layer {
    int64_t d_in, d_out, weight, bias;  // the places in the line where all members' weights and biases begin
    int64_t activation;
    double slope;
};

struct Chain {
    int64_t members, seeds, rows, padded, stride, count;
    const Layer* layers;
};

// A NaN stays one, as in torch.
static inline Vector activated(Vector v, const Layer& layer) {
    const Vector zero = {};
    if (layer.activation == RELU) return v < zero ? zero : v;
    if (layer.activation == LEAKY_RELU) return v > zero ? v : v * static_cast<float>(layer.slope);
    return v;
}

// The gradient before an activation, whose output has the sign of its input.
static inline Vector before(Vector grad, Vector output, const Layer& layer) {
    const Vector zero = {};
    if (layer.activation == RELU) return output <= zero ? zero : grad;
    if (layer.activation == LEAKY_RELU) return output > zero ? grad : grad * static_cast<float>(layer.slope);
    return grad;
}

// M x N registers of sum_k w[i, k] x[k, :], each handed to `done`.
template <int M, int N, class Done>
static inline void tile(int64_t depth, const float* w, int64_t w_down, int64_t w_deep, const float* x, int64_t ld,
                        const Done& done) {
    Vector sums[M * N] = {};
    for (int64_t k = 0; k < depth; k++) {
        Vector read[N];
        each<N>([&](auto n) INLINE { read[n] = load_once(x + k * ld + n * LANES); });
        each<M>([&](auto m) INLINE {
            const float factor = w[m * w_down + k * w_deep];
            each<N>([&](auto n) INLINE { sums[m * N + n] += factor * read[n]; });
        });
    }
    each<M>([&](auto m) INLINE { each<N>([&](auto n) INLINE { done(m, n * LANES, sums[m * N + n]); }); });
}

template <int M, int N, class Done>
static void tiles(int m, int n, int64_t depth, const float* w, int64_t w_down, int64_t w_deep, const float* x,
                  int64_t ld, const Done& done) {
    if constexpr (M > 1)
        if (m < M) return tiles<M - 1, N>(m, n, depth, w, w_down, w_deep, x, ld, done);
    if constexpr (N > 1)
        if (n < N) return tiles<M, N - 1>(m, n, depth, w, w_down, w_deep, x, ld, done);
    tile<M, N>(depth, w, w_down, w_deep, x, ld, done);
}

// Every register of w x, for w of `height` rows and `depth` columns and x of `depth` rows and `width` columns.
template <class Done>
static void product(int64_t height, int64_t depth, int64_t width, const float* w, int64_t w_down, int64_t w_deep,
                    const float* x, int64_t ld, const Done& done) {
    for (int64_t at = 0; at < width; at += ACROSS * LANES) {
        const int n = static_cast<int>(less(width - at, ACROSS * LANES) / LANES);
        for (int64_t i = 0; i < height; i += DOWN) {
            const int m = static_cast<int>(less(height - i, DOWN));
            tiles<DOWN, ACROSS>(m, n, depth, w + i * w_down, w_down, w_deep, x + at, ld,
                                [&](int down, int across, Vector sum) INLINE { done(i + down, at + across, sum); });
        }
    }
}

// into[i, k] = sum over rows of g[i, :] x[k, :], M x N of them.
template <int M, int N>
static inline void gradient_tile(int64_t rows, const float* g, const float* x, int64_t ld, float* into,
                                 int64_t width) {
    Vector sums[SUMS] = {};
    for (int64_t at = 0; at < rows; at += LANES) {
        Vector read[N];
        each<N>([&](auto n) INLINE { read[n] = load_once(x + n * ld + at); });
        each<M>([&](auto m) INLINE {
            const Vector grad = load_once(g + m * ld + at);
            each<N>([&](auto n) INLINE { sums[m * SIDE + n] += grad * read[n]; });
        });
    }
    float found[SUMS];
    for (int i = 0; i < SUMS; i += LANES) {
        totals<LANES / 2>(sums + i);
        store(found + i, sums[i]);
    }
    for (int m = 0; m < M; m++)
        for (int n = 0; n < N; n++) into[m * width + n] = found[m * SIDE + n];
}

template <int M, int N>
static void gradient_tiles(int m, int n, int64_t rows, const float* g, const float* x, int64_t ld, float* into,
                           int64_t width) {
    if constexpr (M > 1)
        if (m < M) return gradient_tiles<M - 1, N>(m, n, rows, g, x, ld, into, width);
    if constexpr (N > 1)
        if (n < N) return gradient_tiles<M, N - 1>(m, n, rows, g, x, ld, into, width);
    gradient_tile<M, N>(rows, g, x, ld, into, width);
}

static void weight_gradient(const Layer& layer, int64_t rows, const float* g, const float* x, int64_t ld,
                            float* into) {
    for (int64_t i = 0; i < layer.d_out; i += SIDE) {
        const int m = static_cast<int>(less(layer.d_out - i, SIDE));
        for (int64_t k = 0; k < layer.d_in; k += NEXT) {
            const int n = static_cast<int>(less(layer.d_in - k, NEXT));
            float* to = into + i * layer.d_in + k;
            gradient_tiles<SIDE, NEXT>(m, n, rows, g + i * ld, x + k * ld, ld, to, layer.d_in);
        }
    }
}

static void bias_gradient(const Layer& layer, int64_t rows, const float* g, int64_t ld, float* into) {
    for (int64_t i = 0; i < layer.d_out; i += LANES) {
        const int64_t count = less(layer.d_out - i, LANES);
        Vector sums[LANES] = {};
        each<LANES / SIDE>([&](auto block) INLINE {
            if (block * SIDE >= count) return;
            for (int64_t at = 0; at < rows; at += LANES)
                each<SIDE>([&](auto m) INLINE {
                    sums[block * SIDE + m] += load(g + (i + less(block * SIDE + m, count - 1)) * ld + at);
                });
        });
        totals<LANES / 2>(sums);
        for (int64_t m = 0; m < count; m++) into[i + m] = sums[0][m];
    }
}

// rows x columns, of which one row begins `apart` floats behind the other -> columns x stride, with zeros up to `padded`
// behind the rows.
static void rows_last(const Chain& chain, const float* from, int64_t columns, int64_t apart, float* to) {
    const int64_t rows = chain.rows, stride = chain.stride;
    int64_t r = 0;
    // Whole registers are read, beyond a row's end too, as long as they are this matrix's.
    const int64_t beyond = columns < LANES ? LANES - columns : 0;
    for (; r + LANES <= rows && (r + LANES - 1) * apart + beyond <= (rows - 1) * apart; r += LANES)
        for (int64_t c = 0; c < columns; c += LANES) {
            const int64_t begin = columns < LANES ? 0 : less(c, columns - LANES);
            Vector block[LANES];
            each<LANES>([&](auto i) INLINE { block[i] = load(from + (r + i) * apart + begin); });
            transposed<LANES / 2>(block);
            each<LANES>([&](auto i) INLINE {
                if (i < columns) store(to + (begin + i) * stride + r, block[i]);
            });
        }
    for (int64_t c = 0; c < columns; c++) {
        for (int64_t rest = r; rest < rows; rest++) to[c * stride + rest] = from[rest * apart + c];
        for (int64_t rest = rows; rest < chain.padded; rest++) to[c * stride + rest] = 0;
    }
}

// columns x stride -> rows x columns.
static void rows_first(const Chain& chain, const float* from, int64_t columns, float* to) {
    const int64_t rows = chain.rows, stride = chain.stride;
    int64_t r = 0;
    // What is written beyond a row's end is written over by the rows behind it.
    for (; r + LANES <= rows && (r + LANES - 1) * columns + LANES <= rows * columns; r += LANES)
        for (int64_t c = 0; c < columns; c += LANES) {
            const int64_t begin = columns < LANES ? 0 : less(c, columns - LANES);
            Vector block[LANES];
            each<LANES>([&](auto i) INLINE { block[i] = load(from + less(begin + i, columns - 1) * stride + r); });
            transposed<LANES / 2>(block);
            each<LANES>([&](auto i) INLINE { store(to + (r + i) * columns + begin, block[i]); });
        }
    for (; r < rows; r++)
        for (int64_t c = 0; c < columns; c++) to[r * columns + c] = from[c * stride + r];
}

static const Layer& last_of(const Chain& chain) { return chain.layers[chain.count - 1]; }

// Columns that `forward` keeps of each member. What follows the last layer's output needs it only for an activation.
static int64_t kept_columns(const Chain& chain) {
    int64_t columns = 0;
    for (int64_t l = 0; l < chain.count; l++) columns += chain.layers[l].d_out;
    return last_of(chain).activation == NONE ? columns - last_of(chain).d_out : columns;
}

static int64_t widest(const Chain& chain) {
    int64_t most = chain.layers[0].d_in;
    for (int64_t l = 0; l < chain.count; l++)
        if (chain.layers[l].d_out > most) most = chain.layers[l].d_out;
    return most;
}

extern "C" {

// How many rows fill a register.
int64_t lanes() { return LANES; }

// Floats that `forward` leaves for `backward`: of each seed what was read, then of each member, layer by layer, what
// came out, columns by rows; then room for what need not be kept.
int64_t kept_room(const Chain* chain) {
    const int64_t read = chain->seeds * chain->layers[0].d_in;
    return (read + chain->members * kept_columns(*chain) + last_of(*chain).d_out) * chain->stride;
}

// Floats that `backward` needs to work in.
int64_t work_room(const Chain* chain) { return 2 * widest(*chain) * chain->stride; }

// x: seeds matrices of rows x d_in, one `apart` floats behind the other and their rows `x_apart`; member i reads matrix
// i modulo seeds.
// result: members x rows x d_out of the last layer.
void forward(const Chain* chain, const float* line, const float* x, int64_t apart, int64_t x_apart, float* kept,
             float* result) {
    const int64_t stride = chain->stride, d_in = chain->layers[0].d_in, d_out = last_of(*chain).d_out;
    for (int64_t s = 0; s < chain->seeds; s++) rows_last(*chain, x + s * apart, d_in, x_apart, kept + s * d_in * stride);
    float* into = kept + chain->seeds * d_in * stride;
    float* const spare = into + chain->members * kept_columns(*chain) * stride;
    for (int64_t t = 0; t < chain->members; t++) {
        const float* read = kept + t % chain->seeds * d_in * stride;
        for (int64_t l = 0; l < chain->count; l++) {
            const Layer layer = chain->layers[l];
            const bool keeps = l + 1 < chain->count || layer.activation != NONE;
            float* const to = keeps ? into : spare;
            const float* w = line + layer.weight + t * layer.d_out * layer.d_in;
            const float* b = line + layer.bias + t * layer.d_out;
            product(layer.d_out, layer.d_in, chain->padded, w, layer.d_in, 1, read, stride,
                    [&](int64_t i, int64_t at, Vector sum) INLINE {
                        store(to + i * stride + at, activated(sum + b[i], layer));
                    });
            read = to;
            if (keeps) into += layer.d_out * stride;
        }
        rows_first(*chain, read, d_out, result + t * chain->rows * d_out);
    }
}

// grad: members matrices of rows x d_out, of the result, one `apart` floats behind the other and their rows
// `grad_apart`; kept: as `forward` left it; found: the gradient of the line.
// to_x: members x rows x d_in of the gradient of x, or null where it is not wanted.
void backward(const Chain* chain, const float* line, const float* grad, int64_t apart, int64_t grad_apart,
              const float* kept, float* work, float* found, float* to_x) {
    const int64_t rows = chain->rows, padded = chain->padded, stride = chain->stride, d_in = chain->layers[0].d_in;
    const Layer last = last_of(*chain);
    const float* const outputs = kept + chain->seeds * d_in * stride;
    for (int64_t t = 0; t < chain->members; t++) {
        float *g = work, *next = work + widest(*chain) * stride;
        const float* output = outputs + (t + 1) * kept_columns(*chain) * stride;  // where it ends, going down
        rows_last(*chain, grad + t * apart, last.d_out, grad_apart, g);
        if (last.activation != NONE) output -= last.d_out * stride;
        for (int64_t i = 0; last.activation != NONE && i < last.d_out; i++)
            for (int64_t at = i * stride; at < i * stride + padded; at += LANES)
                store(g + at, before(load(g + at), load(output + at), last));
        for (int64_t l = chain->count - 1; l >= 0; l--) {
            const Layer layer = chain->layers[l], earlier = chain->layers[l ? l - 1 : 0];
            const float* w = line + layer.weight + t * layer.d_out * layer.d_in;
            const float* read = l ? output -= layer.d_in * stride : kept + t % chain->seeds * d_in * stride;
            weight_gradient(layer, padded, g, read, stride, found + layer.weight + t * layer.d_out * layer.d_in);
            bias_gradient(layer, padded, g, stride, found + layer.bias + t * layer.d_out);
            if (l) {
                product(layer.d_in, layer.d_out, padded, w, 1, layer.d_in, g, stride,
                        [&](int64_t k, int64_t at, Vector sum) INLINE {
                            store(next + k * stride + at, before(sum, load(read + k * stride + at), earlier));
                        });
            } else if (to_x) {
                product(layer.d_in, layer.d_out, padded, w, 1, layer.d_in, g, stride,
                        [&](int64_t k, int64_t at, Vector sum) INLINE { store(next + k * stride + at, sum); });
                rows_first(*chain, next, d_in, to_x + t * rows * d_in);
            }
            std::swap(g, next);
        }
    }
}
}
