// Distance correlation of rows with their classes, and its gradient: see metrics/correlation.py, whose numbers these are
// but for the order of sums. All of it in doubles.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "registers.h"

namespace {

// Added under square roots, as there.
constexpr double TINY = 1e-16;

typedef std::vector<double> Doubles;

Numbers roots(Numbers of) {
    for (int64_t i = 0; i < NUMBERS; i++) of[i] = std::sqrt(of[i]);
    return of;
}

double sum(Numbers of) {
    double total = 0;
    for (int64_t i = 0; i < NUMBERS; i++) total += of[i];
    return total;
}

// The rows of a member, less their mean.
struct Rows {
    int64_t count, width, classes;
    const int64_t* labels;
    Doubles at;

    Rows(const double* rows, const int64_t* labels, int64_t count, int64_t width, int64_t classes)
        : count(count), width(width), classes(classes), labels(labels), at(rows, rows + count * width) {
        for (int64_t c = 0; c < width; c++) {
            double mean = 0;
            for (int64_t i = 0; i < count; i++) mean += at[i * width + c];
            mean /= count;
            for (int64_t i = 0; i < count; i++) at[i * width + c] -= mean;
        }
    }

    bool finite() const {
        return std::all_of(at.begin(), at.end(), [](double x) { return std::isfinite(x); });
    }
};

// Numbers in their order: what lies below one and above it is known from sums up to it.
class Line {
    const Rows& rows;
    std::vector<int64_t> order = std::vector<int64_t>(rows.count);

    // Call `act(i, below - above of all, below - above of its class)` for each row, where a row counts as `of(i)`.
    // Equal rows are neither below nor above each other.
    template <class Of, class Act>
    void balanced(const Of& of, const Act& act) const {
        Doubles totals(rows.classes), below(rows.classes), upto(rows.classes);
        for (int64_t i = 0; i < rows.count; i++) totals[rows.labels[i]] += of(i);
        const double total = std::accumulate(totals.begin(), totals.end(), 0.0);
        double all_below = 0, all_upto = 0;
        for (int64_t first = 0, last; first < rows.count; first = last) {
            for (last = first; last < rows.count && rows.at[order[last]] == rows.at[order[first]]; last++) {
                upto[rows.labels[order[last]]] += of(order[last]);
                all_upto += of(order[last]);
            }
            for (int64_t s = first; s < last; s++) {
                const int64_t i = order[s], own = rows.labels[i];
                act(i, all_below + all_upto - total, below[own] + upto[own] - totals[own]);
            }
            for (int64_t s = first; s < last; s++) below[rows.labels[order[s]]] = upto[rows.labels[order[s]]];
            all_below = all_upto;
        }
    }

   public:
    explicit Line(const Rows& rows) : rows(rows) {
        std::vector<std::pair<double, int64_t>> sorted(rows.count);
        for (int64_t i = 0; i < rows.count; i++) sorted[i] = {rows.at[i], i};
        std::sort(sorted.begin(), sorted.end());
        for (int64_t s = 0; s < rows.count; s++) order[s] = sorted[s].second;
    }

    void distances(Doubles& all, Doubles& own) const {
        balanced([](int64_t) { return 1.0; }, [&](int64_t i, double more, double more_own) {
            all[i] = rows.at[i] * more;
            own[i] = rows.at[i] * more_own;
        });
        balanced([&](int64_t i) { return rows.at[i]; }, [&](int64_t i, double more, double more_own) {
            all[i] -= more;
            own[i] -= more_own;
        });
    }

    void pull(const Doubles& all, double own, double* gradient) const {
        balanced([](int64_t) { return 1.0; }, [&](int64_t i, double more, double more_own) {
            gradient[i] += all[i] * more + 2 * own * more_own;
        });
        balanced([&](int64_t i) { return all[i]; },
                 [&](int64_t i, double more, double) { gradient[i] += more; });
    }
};

// Rows of any width: each distance is taken twice, which is faster than keeping it.
class Space {
    const Rows& rows;
    // Columns one after the other, so that each lane follows a row; those beyond the last row are of no class.
    int64_t blocks = (rows.count + NUMBERS - 1) / NUMBERS;
    Doubles columns = Doubles(blocks * NUMBERS * rows.width);
    Doubles classes = Doubles(blocks * NUMBERS, -1.0);

    const double* column(int64_t c, int64_t block) const { return &columns[(c * blocks + block) * NUMBERS]; }

    // Squares of the distances of a row from COUNT blocks: at once, since each sum waits for its last term.
    template <int COUNT>
    INLINE void square(const double* row, int64_t block, Numbers (&totals)[COUNT]) const {
        each<COUNT>([&](auto n) INLINE { totals[n] = Numbers{}; });
        for (int64_t c = 0; c < rows.width; c++)
            each<COUNT>([&](auto n) INLINE {
                const Numbers apart = row[c] - load(column(c, block + n));
                totals[n] += apart * apart;
            });
    }

   public:
    explicit Space(const Rows& rows) : rows(rows) {
        for (int64_t i = 0; i < rows.count; i++) {
            classes[i] = rows.labels[i];
            for (int64_t c = 0; c < rows.width; c++) columns[c * blocks * NUMBERS + i] = rows.at[i * rows.width + c];
        }
    }

    void distances(Doubles& all, Doubles& own) const {
        const Numbers none = {};
        for (int64_t i = 0; i < rows.count; i++) {
            Numbers near = {}, far = {};
            grouped<4>(blocks, [&](int64_t block, auto count) INLINE {
                Numbers squares[count];
                square(&rows.at[i * rows.width], block, squares);
                each<count>([&](auto n) INLINE {
                    const Numbers distance = roots(squares[n]), of = load(&classes[(block + n) * NUMBERS]);
                    near += of == classes[i] ? distance : none;
                    far += (of != classes[i]) & (of >= 0.0) ? distance : none;
                });
            });
            own[i] = sum(near);
            all[i] = own[i] + sum(far);
        }
    }

    void pull(const Doubles& all, double own, double* gradient) const {
        const Numbers none = {};
        Doubles weights(blocks * NUMBERS);
        std::copy(all.begin(), all.end(), weights.begin());
        std::vector<Numbers> pulls(rows.width);
        for (int64_t i = 0; i < rows.count; i++) {
            const double* row = &rows.at[i * rows.width];
            std::fill(pulls.begin(), pulls.end(), none);
            grouped<4>(blocks, [&](int64_t block, auto count) INLINE {
                Numbers squares[count], pull[count];
                square(row, block, squares);
                each<count>([&](auto n) INLINE {
                    const Numbers of = load(&classes[(block + n) * NUMBERS]);
                    // From either end, over the distance. Equal rows have no direction.
                    const Numbers weight =
                        all[i] + load(&weights[(block + n) * NUMBERS]) + (of == classes[i] ? none + 2 * own : none);
                    pull[n] = (squares[n] > 0.0) & (of >= 0.0) ? weight / roots(squares[n]) : none;
                });
                for (int64_t c = 0; c < rows.width; c++) {
                    Numbers sum = pulls[c];
                    each<count>([&](auto n) INLINE { sum += pull[n] * (row[c] - load(column(c, block + n))); });
                    pulls[c] = sum;
                }
            });
            for (int64_t c = 0; c < rows.width; c++) gradient[i * rows.width + c] += sum(pulls[c]);
        }
    }
};

template <class Way>
double correlated(const Rows& rows, double* gradient) {
    const Way way(rows);
    const int64_t count = rows.count;
    const double n = static_cast<double>(count);
    Doubles all(count), own(count);
    way.distances(all, own);

    // In units of sqrt(2): the share of other rows of another class, by row and overall.
    Doubles share(rows.classes), other(count);
    for (int64_t i = 0; i < count; i++) share[rows.labels[i]] += 1 / n;
    double others = 0, others_squared = 0, mean = 0, row_squared = 0, together = 0, crossed = 0, squares = 0;
    for (int64_t i = 0; i < count; i++) {
        other[i] = 1 - share[rows.labels[i]];
        others += other[i] / n;
        others_squared += other[i] * other[i] / n;
        mean += all[i] / (n * n);
        row_squared += all[i] * all[i] / (n * n * n);
        together += own[i] / (n * n);
        crossed += all[i] * other[i] / (n * n);
    }
    for (double x : rows.at) squares += 2 * x * x / n;

    const double shared = std::sqrt(2.0) * (mean - together - 2 * crossed + mean * others);
    const double own_x = squares - 2 * row_squared + mean * mean;
    const double own_y = 2 * (others - 2 * others_squared + others * others);
    const double top = std::sqrt(std::max(shared, 0.0) + TINY), side = std::sqrt(std::max(own_x, 0.0) + TINY);
    const double other_side = std::sqrt(std::max(own_y, 0.0) + TINY), bottom = std::sqrt(side * other_side + TINY);

    const double by_shared = shared >= 0 ? 0.5 / top / bottom : 0.0;
    const double by_own_x = own_x >= 0 ? -top / (bottom * bottom) * 0.5 / bottom * other_side * 0.5 / side : 0.0;
    const double unit = by_shared * std::sqrt(2.0) / (n * n);
    for (int64_t i = 0; i < count; i++)
        all[i] = unit * (1 + others - 2 * other[i]) + by_own_x * (2 * mean / (n * n) - 4 * all[i] / (n * n * n));
    for (int64_t i = 0; i < count * rows.width; i++) gradient[i] = by_own_x * 4 * rows.at[i] / n;
    way.pull(all, -unit, gradient);
    return top / bottom;
}

}  // namespace

extern "C" {

// rows: members x count x width; labels: members x count, from 0 to classes - 1. Written are the correlations, a number a
// member, and their gradients, as large as the rows. A member with a row that is not finite has neither: all NaN.
void correlate(const double* rows, const int64_t* labels, int64_t members, int64_t count, int64_t width,
               int64_t classes, double* values, double* gradients) {
    for (int64_t t = 0; t < members; t++) {
        const int64_t size = count * width;
        const Rows own(rows + t * size, labels + t * count, count, width, classes);
        double* gradient = gradients + t * size;
        if (!own.finite()) {
            values[t] = std::numeric_limits<double>::quiet_NaN();
            std::fill_n(gradient, size, values[t]);
        } else {
            values[t] = width == 1 ? correlated<Line>(own, gradient) : correlated<Space>(own, gradient);
        }
    }
}
}
