"""The prompts of `sluice bench` (clients/cli/load_generator.h), so that other clients can send the same."""


def _seed_words(seeds, count):
    """What std::seed_seq makes of 32-bit seeds."""
    words = [0x8B8B8B8B] * count
    size = len(seeds)
    t = 11 if count >= 623 else 7 if count >= 68 else 5 if count >= 39 else 3 if count >= 7 else (count - 1) // 2
    p, q = (count - t) // 2, (count - t) // 2 + t
    most = max(size + 1, count)

    def mixed(word):
        return word ^ (word >> 27)

    for k in range(most):
        r = 1664525 * mixed(words[k % count] ^ words[(k + p) % count] ^ words[(k - 1) % count]) & 0xFFFFFFFF
        added = (r + (size if k == 0 else k % count + seeds[k - 1] if k <= size else k % count)) & 0xFFFFFFFF
        words[(k + p) % count] = (words[(k + p) % count] + r) & 0xFFFFFFFF
        words[(k + q) % count] = (words[(k + q) % count] + added) & 0xFFFFFFFF
        words[k % count] = added
    for k in range(most, most + count):
        r = 1566083941 * mixed((words[k % count] + words[(k + p) % count] + words[(k - 1) % count]) & 0xFFFFFFFF) & 0xFFFFFFFF
        left = (r - k % count) & 0xFFFFFFFF
        words[(k + p) % count] ^= r
        words[(k + q) % count] ^= left
        words[k % count] = left
    return words


def _mt19937_64(seeds):
    """The numbers of std::mt19937_64, seeded by a std::seed_seq (Matsumoto and Nishimura, 2000)."""
    n, m, low = 312, 156, (1 << 31) - 1
    words = _seed_words(seeds, 2 * n)
    state = [words[2 * i] | words[2 * i + 1] << 32 for i in range(n)]
    if state[0] >> 31 == 0 and not any(state[1:]):
        state[0] = 1 << 63
    while True:
        for i in range(n):
            x = (state[i] & ~low) | (state[(i + 1) % n] & low)
            state[i] = state[(i + m) % n] ^ (x >> 1) ^ (0xB5026F5AA96619E9 if x & 1 else 0)
        for x in state:
            x ^= (x >> 29) & 0x5555555555555555
            x ^= (x << 17) & 0x71D67FFFEDA60000
            x ^= (x << 37) & 0xFFF7EEE000000000
            yield x ^ (x >> 43)


def prompt(seed, index, tokens, vocabulary_size):
    """The token ids of request number `index` of `sluice bench --seed SEED --prompt_tokens TOKENS`."""
    numbers = _mt19937_64([seed & 0xFFFFFFFF, seed >> 32, index])
    return [next(numbers) % vocabulary_size for _ in range(tokens)]
