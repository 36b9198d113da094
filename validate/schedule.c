#include "validate/schedule.h"

size_t schedule_rounds(size_t n)
{
    return n < 2 ? 0 : n - 1 + n % 2;
}

long schedule_partner(size_t n, size_t round, size_t i)
{
    /* m places on the circle's rim plus one in the middle; an odd n leaves the middle empty. */
    size_t m = n - 1 + n % 2;
    if (n < 2 || round >= m || i >= n)
        return -1;
    size_t partner;
    if (i == m)
        partner = round;
    else if (i == round)
        partner = m;
    else
        partner = (2 * round + m - i) % m;
    return partner < n ? (long)partner : -1;
}

/* splitmix64: small, and the same everywhere. */
static uint64_t next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15U;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9U;
    z = (z ^ z >> 27) * 0x94d049bb133111ebU;
    return z ^ z >> 31;
}

void schedule_shuffle(uint64_t seed, size_t n, size_t order[])
{
    for (size_t i = 0; i < n; i++)
        order[i] = i;
    for (size_t i = n; i > 1; i--) {
        size_t k = (size_t)(next(&seed) % i);
        size_t kept = order[i - 1];
        order[i - 1] = order[k];
        order[k] = kept;
    }
}
