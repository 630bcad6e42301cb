// Entries that are visited one after the other, where each acceptance moves the threshold.

#include <cstdint>

extern "C" {

// scores, thresholds: members x places; counts: how many places each member may accept. accepted: members x places, 0
// where it is called; becomes 1 where a score reaches the threshold of the place behind the last accepted one, at first
// the first one's. NaN reaches nothing.
void visit(const float* scores, const float* thresholds, const int64_t* counts, int64_t members, int64_t places,
           uint8_t* accepted) {
    for (int64_t t = 0; t < members; t++) {
        const float *score = scores + t * places, *threshold = thresholds + t * places;
        int64_t left = counts[t], from = 0;
        for (int64_t s = 0; s < places && left; s++)
            if (score[s] >= threshold[from]) {
                accepted[t * places + s] = 1;
                from = s + 1;
                left--;
            }
    }
}
}
