// Rows of each member added to its rows of given numbers, one after the other.

#include "registers.h"

extern "C" {

// sums: members x count x columns; ids: members x batch, one member's `apart` numbers behind the other's; rows: members
// x batch x columns. Returns how many ids no row has; nothing is added for them.
int64_t add_rows(float* sums, const int64_t* ids, int64_t apart, const float* rows, int64_t members, int64_t batch,
                 int64_t count, int64_t columns) {
    int64_t unknown = 0;
    for (int64_t t = 0; t < members; t++)
        for (int64_t b = 0; b < batch; b++) {
            const int64_t id = ids[t * apart + b];
            if (id < 0 || id >= count) {
                unknown++;
                continue;
            }
            float* to = sums + (t * count + id) * columns;
            const float* from = rows + (t * batch + b) * columns;
            int64_t c = 0;
            for (; c + LANES <= columns; c += LANES) store(to + c, load(to + c) + load(from + c));
            for (; c < columns; c++) to[c] += from[c];
        }
    return unknown;
}
}
