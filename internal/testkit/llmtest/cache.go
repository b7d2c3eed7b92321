package llmtest

// lookback is how many blocks before a breakpoint Anthropic searches for a cache entry.
const lookback = 20

// tokenBytes is the size of a token of the billed usage.
const tokenBytes = 4

// cache is the prompt cache of a provider: the prefixes that earlier requests wrote. OpenAI
// caches every prefix; Anthropic caches the prefixes that end at a breakpoint.
type cache struct{ written map[prefixHash]bool }

// bill returns the usage of a request, and writes its prefixes.
func (k *cache) bill(protocol Protocol, c conversation) Usage {
	if k.written == nil {
		k.written = map[prefixHash]bool{}
	}
	sizes := make([]int, len(c.units)+1) // of the prefixes
	sizes[0] = len(c.base)
	for i, u := range c.units {
		sizes[i+1] = sizes[i] + len(u.raw)
	}
	readable, writable := c.readable(protocol)
	usage := Usage{Input: int64(sizes[len(c.units)] / tokenBytes), Output: 1}
	for _, n := range readable {
		if k.written[c.prefix(n)] {
			usage.CacheRead = max(usage.CacheRead, int64(sizes[n]/tokenBytes))
		}
	}
	for _, n := range writable {
		if hash := c.prefix(n); !k.written[hash] {
			k.written[hash] = true
			usage.CacheWrite = max(usage.CacheWrite, int64(sizes[n]/tokenBytes)-usage.CacheRead)
		}
	}
	return usage
}

// readable returns the prefixes, in units, that a request may read and write.
func (c conversation) readable(protocol Protocol) (read, write []int) {
	if protocol != Anthropic {
		for n := range len(c.units) + 1 {
			read = append(read, n)
		}
		return read, read
	}
	for _, mark := range c.marks {
		for n := max(0, mark-lookback); n <= mark; n++ {
			read = append(read, n)
		}
	}
	return read, c.marks
}
