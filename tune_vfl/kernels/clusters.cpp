// Spherical k-means in double precision, each member by itself: see attacks/parts/kmeans.py, whose numbers these are but
// for the order in which a product is summed.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "registers.h"

namespace {

typedef std::vector<double> Doubles;

struct Member {
    const double* rows;
    int64_t count, width, clusters;
    // Rows side by side, so that each lane follows one of them; those beyond the last row are 0.
    int64_t blocks = (count + NUMBERS - 1) / NUMBERS;
    Doubles lanes = Doubles(blocks * width * NUMBERS);
    std::vector<int64_t> nearest = std::vector<int64_t>(blocks * NUMBERS);
    Doubles products = Doubles(blocks * NUMBERS);
    Doubles sums = Doubles(clusters * width);

    Member(const double* rows, int64_t count, int64_t width, int64_t clusters)
        : rows(rows), count(count), width(width), clusters(clusters) {
        for (int64_t i = 0; i < count; i++)
            for (int64_t j = 0; j < width; j++)
                lanes[(i / NUMBERS * width + j) * NUMBERS + i % NUMBERS] = rows[i * width + j];
    }

    // Products of COUNT blocks of rows with a center: at once, since each sum waits for its last term.
    template <int COUNT>
    INLINE void multiply(int64_t block, const double* center, Numbers (&totals)[COUNT]) const {
        each<COUNT>([&](auto n) INLINE { totals[n] = Numbers{}; });
        const double* at = &lanes[block * width * NUMBERS];
        for (int64_t j = 0; j < width; j++)
            each<COUNT>([&](auto n) INLINE { totals[n] += load(at + (n * width + j) * NUMBERS) * center[j]; });
    }

    // Find each row's nearest center, the first of several, and its product with that.
    void assign(const double* centers) {
        grouped<4>(blocks, [&](int64_t block, auto count) INLINE {
            Numbers largest[count], found[count];
            Wholes places[count] = {};
            multiply(block, centers, largest);
            for (int64_t c = 1; c < clusters; c++) {
                multiply(block, centers + c * width, found);
                each<count>([&](auto n) INLINE {
                    const auto larger = found[n] > largest[n];
                    largest[n] = larger ? found[n] : largest[n];
                    places[n] = larger ? Wholes{} + c : places[n];
                });
            }
            __builtin_memcpy(&products[block * NUMBERS], &largest, sizeof largest);
            __builtin_memcpy(&nearest[block * NUMBERS], &places, sizeof places);
        });
    }

    // Pick rows as centers, each with a chance that grows with its distance from those before.
    void start(const double* draws, double* centers) const {
        Doubles far(blocks * NUMBERS, 1.0), upto(count);
        for (int64_t c = 0; c < clusters; c++) {
            double total = 0;
            for (int64_t i = 0; i < count; i++) upto[i] = total += far[i];
            const int64_t at = std::upper_bound(upto.begin(), upto.end(), draws[c] * total) - upto.begin();
            double* center = centers + c * width;
            std::copy_n(rows + std::min(at, count - 1) * width, width, center);
            grouped<4>(blocks, [&](int64_t block, auto count) INLINE {
                Numbers found[count];
                multiply(block, center, found);
                for (int64_t i = 0; i < count * NUMBERS; i++) {
                    const double limited = std::max(1.0 - found[i / NUMBERS][i % NUMBERS], 0.0);
                    far[block * NUMBERS + i] = c ? std::min(far[block * NUMBERS + i], limited) : limited;
                }
            });
        }
    }

    // Move each center to the direction of the sum of its rows; return whether any has moved.
    bool move(double* centers) {
        assign(centers);
        std::fill(sums.begin(), sums.end(), 0.0);
        for (int64_t i = 0; i < count; i++)
            for (int64_t j = 0; j < width; j++) sums[nearest[i] * width + j] += rows[i * width + j];
        bool moved = false;
        for (int64_t c = 0; c < clusters; c++) {
            double *sum = &sums[c * width], *center = centers + c * width, largest = 0, squares = 0;
            for (int64_t j = 0; j < width; j++) largest = std::max(largest, std::abs(sum[j]));
            if (largest == 0) continue;  // a center without rows stays
            for (int64_t j = 0; j < width; j++) sum[j] /= largest, squares += sum[j] * sum[j];
            const double length = std::sqrt(squares);
            for (int64_t j = 0; j < width; j++) {
                const double to = sum[j] / length;
                moved |= to != center[j];
                center[j] = to;
            }
        }
        return moved;
    }
};

}  // namespace

extern "C" {

// rows: members x count x width, of length 1 or 0; draws: members x clusters numbers in [0, 1). Written are the
// centers, members x clusters x width, and the sum of all rows' products with their nearest ones, a number a member.
void cluster(const double* rows, const double* draws, int64_t members, int64_t count, int64_t width, int64_t clusters,
             int64_t rounds, double* centers, double* within) {
    for (int64_t t = 0; t < members; t++) {
        Member member(rows + t * count * width, count, width, clusters);
        double* mine = centers + t * clusters * width;
        member.start(draws + t * clusters, mine);
        for (int64_t round = 0; round < rounds && member.move(mine); round++) {
        }
        member.assign(mine);
        within[t] = 0;
        for (int64_t i = 0; i < count; i++) within[t] += member.products[i];
    }
}
}
