package redisbus

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/text"
)

// leastVersion is the oldest major version that is supported.
const leastVersion = 7

// codeRefused is the code of errors that a retry cannot fix: the operator must change
// a setting.
const codeRefused = "redis_refused"

func refusal(format string, args ...any) error {
	err := fault.New(fault.Invalid, format, args...)
	err.Code = codeRefused
	return err
}

// isRefusal reports whether the operator must change a setting to fix the error.
func isRefusal(err error) bool {
	var f *fault.Error
	return errors.As(err, &f) && f.Code == codeRefused
}

// dial creates the client if there is none, or if the current one was dropped.
func (b *Bus) dial() error {
	b.link.mu.Lock()
	there := b.link.client != nil && !b.link.dropped
	b.link.mu.Unlock()
	if there {
		return nil
	}
	option, err := b.opt.client() // read again, because the CA file may have changed
	if err != nil {
		return err
	}
	client, err := rueidis.NewClient(option)
	if err != nil {
		if client != nil {
			client.Close()
		}
		return b.unreachable(err)
	}
	b.link.mu.Lock()
	defer b.link.mu.Unlock()
	b.link.client, b.link.dropped = client, false
	return nil
}

// probe returns an error if the server cannot keep the guarantees of the bus. It checks
// features, not the product name, so Valkey and other compatible servers work.
func (b *Bus) probe(ctx context.Context) (info map[string]string, err error) {
	ctx, cancel := context.WithTimeout(ctx, b.link.within)
	defer cancel()
	client := b.link.connected()
	text, err := client.Do(ctx, client.B().Info().Build()).ToString()
	if err != nil {
		return nil, b.unreachable(err)
	}
	info = parseInfo(text)
	major, _, _ := strings.Cut(info["redis_version"], ".")
	version, err := strconv.Atoi(major)
	switch {
	case cmp.Or(info["redis_mode"], info["server_mode"]) == "sentinel":
		return nil, refusal("%s is a sentinel. Add ?master_set=NAME to bus.url, with the name of the master that it watches.", b.opt.server())
	case err != nil:
		return nil, refusal("%s does not say which version it is; Redis 7.0 or later is needed.", b.opt.server())
	case version < leastVersion:
		return nil, refusal("%s is Redis %s; 7.0 or later is needed.", b.opt.server(), info["redis_version"])
	case info["cluster_enabled"] == "1":
		return nil, refusal("%s is a Redis Cluster, which is not supported. Use a single server, or sentinels.", b.opt.server())
	case info["role"] == "slave":
		return nil, fault.New(fault.Unavailable, "%s is a replica; nothing can be written there. Name its primary in bus.url, or sentinels, which know it.", b.opt.server())
	case info["loading"] == "1":
		return nil, fault.New(fault.Unavailable, "%s is loading its data. Wait until it has.", b.opt.server())
	}
	if err := b.loses(info); err != nil {
		return nil, err
	}
	missing, err := rightsScript.Exec(ctx, client, nil, []string{b.link.claim}).AsStrSlice()
	if err != nil {
		return nil, b.unreachable(err)
	}
	if len(missing) > 0 {
		return nil, refusal("%s does not let the user in bus.url run %s on keys that begin with %s:, or does not have it. Allow it, for example with ACL SETUSER.",
			b.opt.server(), strings.Join(missing, ", "), b.opt.Prefix)
	}
	return info, nil
}

// loses returns an error if the server's settings can lose events.
func (b *Bus) loses(info map[string]string) error {
	switch {
	case info["maxmemory"] != "0" && strings.HasPrefix(info["maxmemory_policy"], "allkeys"):
		return refusal("%s evicts keys when its memory is full (maxmemory-policy %s), and so loses events. Set it to noeviction.", b.opt.server(), info["maxmemory_policy"])
	case info["aof_enabled"] != "1" && !b.opt.AcceptLoss:
		return refusal("%s keeps no append-only file, so it loses events when it stops. Set \"appendonly yes\" there, or bus.acceptLoss: true here.", b.opt.server())
	}
	return nil
}

// unreachable converts an error of the client into one that says what to do.
func (b *Bus) unreachable(err error) error {
	if reply, is := rueidis.IsRedisErr(err); is {
		text := reply.Error()
		for _, code := range []string{"WRONGPASS", "NOAUTH"} {
			if strings.HasPrefix(text, code) || strings.Contains(text, "invalid password") {
				return b.refusedPassword(text)
			}
		}
		switch set := b.opt.masterSet(); {
		case set == "":
		case strings.Contains(text, "No such master"):
			return refusal("The sentinel at %s watches no master with the name %q. Put the name that it has there into master_set of bus.url.", b.opt.server(), brief(set))
		case strings.HasPrefix(text, "unknown command") && strings.Contains(text, "SENTINEL"):
			return refusal("%s is no sentinel. Name sentinels in bus.url, or leave master_set out.", b.opt.server())
		}
		if strings.HasPrefix(text, "NOPERM") {
			return refusal("%s does not let the user in bus.url do what is needed: %s. Allow it, for example with ACL SETUSER.", b.opt.server(), brief(text))
		}
	}
	return b.outage(err)
}

// refusedPassword returns the error for a rejected user or password. With sentinels, it
// can be the sentinels' password, which is separate and is checked first.
func (b *Bus) refusedPassword(text string) error {
	server := b.opt.server()
	switch {
	case b.opt.masterSet() == "" || b.opt.SentinelPassword == "" && !strings.HasPrefix(text, "NOAUTH"):
		return refusal("%s refuses the user or the password in bus.url: %s.", server, brief(text))
	case b.opt.SentinelPassword == "" && b.opt.hasPassword():
		return refusal("The sentinel at %s wants a password. Put it into a file, and name that in bus.sentinelPasswordFile.", server)
	}
	return refusal("The sentinel at %s, or the server that it names, refuses the password. That of sentinels is in bus.sentinelPasswordFile, that of the server in bus.url or bus.passwordFile.", server)
}

// outage is like unreachable, for a server that worked before: the error always allows
// a retry, because the problem may be temporary.
func (b *Bus) outage(err error) error {
	if reply, is := rueidis.IsRedisErr(err); is {
		return fault.New(fault.Unavailable, "Redis at %s cannot do its work: %s.", b.opt.server(), brief(reply.Error()))
	}
	return fault.Wrap(fault.Unavailable, err, "Redis at %s cannot be reached", b.opt.server())
}

// brief shortens a server's error text to one line, and removes the name of the script
// that Redis appends to it.
func brief(s string) string {
	const enough = 200
	s, _, _ = strings.Cut(s, "\n")
	s, _, _ = strings.Cut(s, " script: ")
	return strings.TrimRight(text.Truncate(s, enough), ". \r")
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
