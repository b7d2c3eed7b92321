package redisbus

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"lilac/internal/foundation/fault"
)

// Inspect connects to Redis without changing anything. It returns a description of the
// server and the id of the store that owns the prefix, or "" if no store does. If the
// server is unsuitable, it returns an error that says why.
func Inspect(ctx context.Context, opt Options) (found, owner string, err error) {
	opt = opt.withDefaults()
	b := &Bus{opt: opt, link: newLink(opt)}
	if err := b.dial(); err != nil {
		return "", "", err
	}
	defer b.link.close()
	info, err := b.probe(ctx)
	if err != nil {
		return "", "", err
	}
	client := b.link.connected()
	policy := info["maxmemory_policy"]
	if policy != "" && policy != "noeviction" {
		return "", "", fault.New(fault.Invalid, "%s may evict events (maxmemory-policy is %s). Set it to noeviction.", opt.server(), policy)
	}
	code, err := b.tryWrite(ctx)
	if err != nil {
		return "", "", err
	}
	if why := refusesWrites(code, info); why != "" {
		return "", "", fault.New(fault.Invalid, "%s takes no events, which wait in the database: %s", opt.server(), why)
	}
	length, err := client.Do(ctx, client.B().Scard().Key(opt.Prefix+":topics").Build()).AsInt64()
	if err != nil {
		return "", "", b.unreachable(err)
	}
	owner, err = client.Do(ctx, client.B().Hget().Key(b.link.claim).Field("store").Build()).ToString()
	if err != nil && !rueidis.IsRedisNil(err) {
		return "", "", b.unreachable(err)
	}
	safe := "with an append-only file"
	if info["aof_enabled"] != "1" {
		safe = "without an append-only file, which bus.acceptLoss accepts"
	}
	return fmt.Sprintf("Redis %s at %s, %s, %d topics", info["redis_version"], opt.server(), safe, length), brief(owner), nil
}

// writeScript writes nothing. Because it has a shebang line without the flag no-writes,
// Redis rejects it before it runs whenever it rejects writes. See "Eval scripts with
// flags" in the Redis documentation.
var writeScript = rueidis.NewLuaScript("#!lua\nreturn 1")

// tryWrite returns the code with which Redis refuses a write, or "".
func (b *Bus) tryWrite(ctx context.Context) (code string, err error) {
	ctx, cancel := context.WithTimeout(ctx, b.link.within)
	defer cancel()
	err = writeScript.Exec(ctx, b.link.connected(), nil, nil).Error()
	if reply, answered := rueidis.IsRedisErr(err); answered {
		code, _, _ = strings.Cut(reply.Error(), " ")
		return code, nil
	}
	if err != nil {
		return "", b.unreachable(err)
	}
	return "", nil
}

// takesWrites returns an error if the server rejects writes, or if its settings can lose
// events.
func (b *Bus) takesWrites(ctx context.Context) error {
	client, _, err := b.link.reading()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, b.link.within)
	defer cancel()
	err = writeScript.Exec(ctx, client, nil, nil).Error()
	reply, answered := rueidis.IsRedisErr(err)
	if err != nil && !answered {
		return b.link.unreadable(err)
	}
	if !answered {
		return b.keepsEvents(ctx, client)
	}
	// Other codes prove nothing; see refusesWrites.
	switch code, _, _ := strings.Cut(reply.Error(), " "); code {
	case "OOM", "MISCONF", "NOREPLICAS", "READONLY":
		return b.outage(err)
	}
	return b.keepsEvents(ctx, client)
}

// keepsEvents returns an error if the server's settings can lose events, because they
// may have changed since this process connected. It ignores an error reply to INFO: the
// settings were checked at the start.
func (b *Bus) keepsEvents(ctx context.Context, client rueidis.Client) error {
	text, err := client.Do(ctx, client.B().Info().Build()).ToString()
	if _, answered := rueidis.IsRedisErr(err); answered {
		return nil
	}
	if err != nil {
		return b.link.unreadable(err)
	}
	if why := b.loses(parseInfo(text)); why != nil {
		return &fault.Error{Kind: fault.Unavailable, Code: codeRefused, Message: fault.ToWire(why).Message}
	}
	return nil
}

// refusesWrites returns why a server accepts no events and what to do, or "". code is
// the error code of tryWrite. Other codes than these prove nothing, because not every
// server supports scripts with a shebang line.
func refusesWrites(code string, info map[string]string) string {
	number := func(name string) int64 {
		n, _ := strconv.ParseInt(info[name], 10, 64) // 0 if missing
		return n
	}
	most := number("maxmemory")
	switch {
	// The memory of a script and its arguments counts as well.
	case code == "OOM", most > 0 && number("used_memory")+2*chunkBytes >= most:
		return fmt.Sprintf("it has used up its memory (maxmemory %s). Raise maxmemory there.", info["maxmemory_human"])
	case code == "MISCONF" && info["aof_last_write_status"] == "err":
		return "it cannot write its append-only file. Look at its disk and its log."
	case code == "MISCONF":
		return "its last save to the disk failed. Look at its disk and its log, or set stop-writes-on-bgsave-error to no there."
	case code == "NOREPLICAS":
		return "too few replicas are there for its min-replicas-to-write. Start them, or lower it."
	}
	return ""
}
