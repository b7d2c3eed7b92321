package companion

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/text"
)

const (
	keyIn   = "in"
	keyDead = "in:dead"
	// group and consumer are the names in the stream of handed-in entries. One process
	// at a time owns the store, so a fixed name lets it continue what an earlier one left.
	group, consumer = "lilac", "lilac"
	// takeMax is the number of entries per read.
	takeMax = 16
	// waitFor is how long a read waits for an entry.
	waitFor = 2 * time.Second
	// tries is how often an entry is tried whose event fails inside Lilac.
	tries = 5
	// deadMax is the number of entries to keep that could not be used, and deadBytes the
	// size of the fields to keep of each.
	deadMax   = 1000
	deadBytes = 64 << 10
	// unfinished and unread are the ids from which a group reads.
	unfinished, unread = "0", ">"
)

// intake takes what other programs hand in. One goroutine uses it.
type intake struct {
	*Companion
	client rueidis.Client
	patience
	// failed counts the attempts of the entry that is tried again.
	entry  string
	failed int
}

func (in *intake) run(ctx context.Context, client rueidis.Client, working func()) error {
	in.client = client
	from := unfinished
	for ctx.Err() == nil {
		if err := in.claim(ctx, client); err != nil {
			return err
		}
		entries, err := in.read(ctx, from)
		switch {
		case isReply(err, "NOGROUP"):
			if err := in.createGroup(ctx); err != nil {
				return err
			}
			continue
		case isReply(err, "WRONGTYPE"):
			return fault.New(fault.Unavailable, "%s is no stream, so nothing can be handed in. Delete or rename that key", in.opt.key(keyIn))
		case err != nil:
			return fmt.Errorf("read %s: %w", in.opt.key(keyIn), err)
		}
		for _, e := range entries {
			if err := in.take(ctx, e); err != nil {
				return err
			}
		}
		working() // not before the entries are removed, which the server may refuse
		if len(entries) == 0 {
			from = unread
		}
	}
	return nil
}

func (in *intake) createGroup(ctx context.Context) error {
	err := in.do(ctx, in.client.B().XgroupCreate().Key(in.opt.key(keyIn)).Group(group).Id("0").Mkstream().Build())
	if err != nil && !isReply(err, "BUSYGROUP") {
		return fmt.Errorf("create the group of %s: %w", in.opt.key(keyIn), err)
	}
	return nil
}

func (in *intake) do(ctx context.Context, command rueidis.Completed) error {
	ctx, cancel := context.WithTimeout(ctx, in.opt.ReplyWithin)
	defer cancel()
	return in.client.Do(ctx, command).Error()
}

// read returns the next entries, or none after a while.
func (in *intake) read(ctx context.Context, from string) ([]rueidis.XRangeEntry, error) {
	ctx, done := in.bound(ctx, waitFor)
	defer done()
	key := in.opt.key(keyIn)
	streams, err := in.client.Do(ctx, in.client.B().Xreadgroup().Group(group, consumer).Count(takeMax).Block(waitFor.Milliseconds()).
		Streams().Key(key).Id(from).Build()).AsXRead()
	if rueidis.IsRedisNil(err) || isReply(err, "UNBLOCKED") { // the key was deleted meanwhile
		return nil, nil
	}
	return streams[key], err
}

// take publishes one entry, or moves it to the dead ones, and removes it.
func (in *intake) take(ctx context.Context, e rueidis.XRangeEntry) error {
	if e.FieldValues == nil { // deleted by its sender
		return in.acknowledge(ctx, e.ID)
	}
	err := in.publish(ctx, e)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	switch kind := fault.KindOf(err); {
	case err == nil:
		in.handed.Add(1)
		return in.acknowledge(ctx, e.ID)
	case kind == fault.Unavailable:
		return err
	case kind == fault.Internal:
		if in.entry != e.ID {
			in.entry, in.failed = e.ID, 0
		}
		if in.failed++; in.failed < tries {
			return err
		}
	}
	if err := bury(ctx, in.client, in.opt, in.opt.key(keyIn), e, fault.ToWire(err).Message); err != nil {
		return err
	}
	in.rejected.Add(1)
	return in.acknowledge(ctx, e.ID)
}

func (in *intake) publish(ctx context.Context, e rueidis.XRangeEntry) error {
	raw, ok := e.FieldValues[fieldEvent]
	if !ok {
		return fault.InvalidField(fieldEvent, "The entry has no field %q with an event in JSON.", fieldEvent)
	}
	return in.opt.Publish(ctx, e.ID, []byte(raw))
}

// acknowledge removes an entry. The acknowledgment is last: without it, the entry is read
// again, and without the removal, it would stay in the stream.
func (in *intake) acknowledge(ctx context.Context, id string) error {
	key := in.opt.key(keyIn)
	for _, command := range []rueidis.Completed{
		in.client.B().Xdel().Key(key).Id(id).Build(),
		in.client.B().Xack().Key(key).Group(group).Id(id).Build(),
	} {
		if err := in.do(ctx, command); err != nil {
			return fmt.Errorf("acknowledge the entry %s of %s: %w", id, key, err)
		}
	}
	return nil
}

// bury keeps an entry that could not be used, with the reason. After a crash, it may be
// kept twice.
func bury(ctx context.Context, client rueidis.Client, opt Options, stream string, e rueidis.XRangeEntry, reason string) error {
	fields, err := json.Marshal(e.FieldValues)
	if err != nil {
		return fmt.Errorf("encode the entry %s of %s: %w", e.ID, stream, err)
	}
	ctx, cancel := context.WithTimeout(ctx, opt.ReplyWithin)
	defer cancel()
	err = client.Do(ctx, client.B().Xadd().Key(opt.key(keyDead)).Maxlen().Almost().Threshold(fmt.Sprint(deadMax)).Id("*").FieldValue().
		FieldValue("stream", stream).FieldValue("entry", e.ID).FieldValue("reason", reason).
		FieldValue("fields", text.Truncate(string(fields), deadBytes)).Build()).Error()
	if err != nil {
		return fmt.Errorf("keep the entry %s of %s: %w", e.ID, stream, err)
	}
	opt.Logger.Debug("an entry in Redis cannot be used", "stream", stream, "entry", e.ID, "reason", reason)
	return nil
}

// dead returns the number of entries that could not be used, and a sentence about the
// newest one.
func dead(ctx context.Context, client rueidis.Client, opt Options) (n int64, newest string, err error) {
	key := opt.key(keyDead)
	if n, err = client.Do(ctx, client.B().Xlen().Key(key).Build()).AsInt64(); err != nil || n == 0 {
		if isReply(err, "WRONGTYPE") {
			return 1, key + " is no stream", nil
		}
		return 0, "", err
	}
	entries, err := client.Do(ctx, client.B().Xrevrange().Key(key).End("+").Start("-").Count(1).Build()).AsXRange()
	if err != nil || len(entries) == 0 {
		return n, "", err
	}
	f := entries[0].FieldValues
	return n, fmt.Sprintf("entries in Redis that could not be used: %d; the newest is %s of %s: %s", n, brief(f["entry"]), brief(f["stream"]), brief(f["reason"])), nil
}
