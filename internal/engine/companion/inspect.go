package companion

import (
	"context"
	"fmt"
	"strings"
)

// Inspection is the state of Redis.
type Inspection struct {
	// Found describes the server.
	Found string
	// Owner is the id of the store that owns the prefix, or "".
	Owner string
	// Unused describes entries of other programs that could not be used, or is "".
	Unused string
	// Evicts is the server's policy if it may evict entries, or "".
	Evicts string
}

// writeScript removes an entry that cannot be there, which changes nothing and needs the
// rights to write. Because it has a shebang line without the flag no-writes, Redis rejects
// it whenever it rejects writes. See "Eval scripts with flags" in the Redis documentation.
var writeScript = newScript("#!lua\nreturn redis.call('XDEL', KEYS[1], '0-0')")

// Inspect looks at Redis without changing anything. It returns an error if Redis cannot
// do its work.
func Inspect(ctx context.Context, opt Options) (found Inspection, err error) {
	opt = opt.withDefaults()
	client, err := opt.dial(ctx)
	if err != nil {
		return found, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, opt.ReplyWithin)
	defer cancel()
	info, err := client.Do(ctx, client.B().Info().Build()).ToString()
	if err != nil {
		return found, opt.explain(err)
	}
	about := parseInfo(info)
	if err := client.Do(ctx, writeScript.call(client, true, opt.key(keyIn))).Error(); err != nil && refusesWrites(err) {
		return found, opt.explain(err)
	}
	if found.Owner, err = owner(ctx, client, opt, false); err != nil {
		return found, opt.explain(err)
	}
	if _, found.Unused, err = dead(ctx, client, opt); err != nil {
		return found, opt.explain(err)
	}
	if policy := about["maxmemory_policy"]; policy != "noeviction" {
		found.Evicts = policy
	}
	kind := ""
	if about["cluster_enabled"] == "1" {
		kind = " cluster"
	}
	found.Found = fmt.Sprintf("Redis%s %s at %s", kind, about["redis_version"], Server(opt.URL))
	return found, nil
}

// refusesWrites reports whether an error says that the server takes no writes. A key of
// another type is reported elsewhere, and not every server supports scripts with a shebang
// line.
func refusesWrites(err error) bool {
	reply, answered := replyOf(err)
	return !answered || !strings.HasPrefix(reply.Error(), "WRONGTYPE") && !strings.Contains(reply.Error(), "ompil")
}

func parseInfo(text string) map[string]string {
	out := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			out[name] = value
		}
	}
	return out
}
