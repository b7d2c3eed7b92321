package redisbus

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redis/rueidis"

	"lilac/internal/fault"
)

// Look connects to Redis, changes nothing, and says which server it found and
// the id of the store that the prefix belongs to, empty when it is nobody's; or
// what is wrong with the server.
func Look(ctx context.Context, opt Options) (found, owner string, err error) {
	opt = opt.withDefaults()
	b := &Bus{opt: opt, link: newLink(opt)}
	if b.client, err = opt.client(); err != nil {
		return "", "", err
	}
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
	if full(info) {
		return "", "", fault.New(fault.Invalid, "%s has used up its memory (maxmemory %s) and takes no events; they wait in the database. Raise maxmemory there.",
			opt.server(), info["maxmemory_human"])
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

// full reports whether a server refuses what needs memory.
func full(info map[string]string) bool {
	most, errMost := strconv.ParseInt(info["maxmemory"], 10, 64)
	used, errUsed := strconv.ParseInt(info["used_memory"], 10, 64)
	return errMost == nil && errUsed == nil && most > 0 && used >= most
}
