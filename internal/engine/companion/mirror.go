package companion

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"lilac/internal/engine/db"
	"lilac/internal/engine/delivery"
	"lilac/internal/foundation/fault"
)

const (
	// appendMax is the maximum number of events of a topic, and roundBytes of the bytes of
	// all, in one exchange.
	appendMax  = 256
	roundBytes = 4 << 20
	// leastBytes is the minimum to which the limit of an exchange shrinks, in bytes, when
	// exchanges take too long.
	leastBytes = 32 << 10
	// gatherFor is the pause after an exchange, in which further events come together: an
	// exchange for each event would cost twenty times as much.
	gatherFor = 10 * time.Millisecond
	// growing and ended are how long an output stays after its last append, and after its
	// end, in seconds.
	growing = 3600
	ended   = 900
	// lookBack is how long ago an output may have had its last event when the program
	// starts: what it was then is in Redis, or expires there soon. The time that the log
	// records lags by ten minutes.
	lookBack = ended*time.Second + 10*time.Minute
)

// appendSource appends entries if the stream ends as expected; otherwise it returns the
// last id of the stream.
//
//	KEYS stream   ARGV last id, seconds until the stream expires or 0, then of each entry
//	its id, and the values of id, type and event
const appendSource = `
local info, last = redis.pcall('XINFO', 'STREAM', KEYS[1]), '0-0'
if info.err then
  if not string.find(info.err, 'no such key', 1, true) then return info end
else
  for i = 1, #info, 2 do if info[i] == 'last-generated-id' then last = info[i+1] end end
end
if last ~= ARGV[1] then return last end
for i = 3, #ARGV, 4 do
  redis.call('XADD', KEYS[1], ARGV[i], 'id', ARGV[i+1], 'type', ARGV[i+2], 'event', ARGV[i+3])
end
if ARGV[2] ~= '0' then redis.call('EXPIRE', KEYS[1], ARGV[2]) end
return ''
`

// rebuildSource empties a stream. Its consumer groups continue before the first entry
// that they have not acknowledged, or after the last entry of ours that they have read.
//
//	KEYS stream   ARGV the position of the last entry of ours
const rebuildSource = `
local groups, list = {}, redis.pcall('XINFO', 'GROUPS', KEYS[1])
if not list.err then
  for _, g in ipairs(list) do
    local name, last, pending
    for i = 1, #g, 2 do
      if g[i] == 'name' then name = g[i+1] elseif g[i] == 'last-delivered-id' then last = g[i+1] elseif g[i] == 'pending' then pending = g[i+1] end
    end
    local at, newest = tonumber(string.match(last, '^%d+')), tonumber(ARGV[1])
    if at > newest then at = newest end
    if pending > 0 then
      local first = tonumber(string.match(redis.call('XPENDING', KEYS[1], name)[2], '^%d+')) - 1
      if first < at then at = math.max(first, 0) end
    end
    groups[#groups+1] = {name, at}
  end
end
redis.call('DEL', KEYS[1])
for _, g in ipairs(groups) do redis.call('XGROUP', 'CREATE', KEYS[1], g[1], string.format('%d-0', g[2]), 'MKSTREAM') end
return ''
`

// script is a Lua script with its hash.
type script struct{ source, sha string }

func newScript(source string) script {
	sum := sha1.Sum([]byte(source))
	return script{source, hex.EncodeToString(sum[:])}
}

var appendScript, rebuildScript = newScript(appendSource), newScript(rebuildSource)

// call returns the command that runs the script by its hash, or with its text.
func (s script) call(client rueidis.Client, whole bool, key string, args ...string) rueidis.Completed {
	if whole {
		return client.B().Eval().Script(s.source).Numkeys(1).Key(key).Arg(args...).Build()
	}
	return client.B().Evalsha().Sha1(s.sha).Numkeys(1).Key(key).Arg(args...).Build()
}

// mirror sends the log to Redis. One goroutine uses it.
type mirror struct {
	*Companion
	client  rueidis.Client
	trimDue time.Time
	// limit is the maximum number of bytes of an exchange. It shrinks when one takes too
	// long, because the next would take as long, and grows when one takes a quarter of that.
	limit int
	patience
}

func (m *mirror) run(ctx context.Context, client rueidis.Client, working func()) error {
	m.client = client
	if err := m.begin(ctx); err != nil {
		return err
	}
	tick := time.NewTicker(m.opt.CheckEvery)
	defer tick.Stop()
	if err := m.check(ctx); err != nil {
		return err
	}
	for {
		more, full, err := m.round(ctx)
		if err != nil {
			return err
		}
		working() // not earlier: a server that refuses each append would seem to recover at each attempt
		if more && !full {
			select {
			case <-ctx.Done():
			case <-time.After(gatherFor):
			}
		}
		due := false
		select {
		case <-tick.C:
			due = true
		default:
		}
		if !more && !due {
			select {
			case <-ctx.Done():
				return nil
			case <-m.wake:
			case <-tick.C:
				due = true
			}
		}
		if due {
			if err := m.check(ctx); err != nil {
				return err
			}
		}
		if ctx.Err() != nil {
			return nil
		}
	}
}

// begin claims the prefix, and marks every topic of the log for a comparison with Redis.
func (m *mirror) begin(ctx context.Context) error {
	if err := m.claim(ctx, m.client); err != nil {
		return err
	}
	names, err := m.opt.Topics(ctx, time.Now().Add(-lookBack).UnixMilli())
	if err != nil {
		return fmt.Errorf("list the topics: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range names {
		m.topicLocked(name)
	}
	for _, t := range m.topics {
		t.known = false
		m.dropQueueLocked(t)
		m.dirty[t.name] = t
	}
	return nil
}

// topicBatch has the entries that one round appends to a topic.
type topicBatch struct {
	*topic
	records []*delivery.Record
	cursor  int64 // after the append, also past damaged positions
}

// round sends what waits. It reports whether it sent something, so that more may wait, and
// whether more waits for sure.
func (m *mirror) round(ctx context.Context) (more, full bool, err error) {
	m.mu.Lock()
	var topics []*topic
	for _, t := range m.dirty {
		if !t.heldUntil.After(time.Now()) {
			topics = append(topics, t)
		}
	}
	m.mu.Unlock()
	var batches []topicBatch
	var calls []rueidis.Completed
	size := 0
	for _, t := range topics {
		if size >= m.limit {
			full = true
			break
		}
		b, err := m.take(ctx, t)
		if err != nil {
			return false, false, err
		}
		if b.cursor == t.cursor {
			continue
		}
		more, full = true, full || len(b.records) == appendMax
		var entries []string
		for i, r := range b.records {
			body := encode(r)
			if size += len(body); size > m.limit && i > 0 {
				b.records, b.cursor, full = b.records[:i], b.records[i-1].Seq, true
				break
			}
			entries = append(entries, entryID(r.Seq), r.ID, string(r.Type), body)
		}
		args := append(t.expecting(expiry(t, b.records)), entries...)
		batches, calls = append(batches, b), append(calls, appendScript.call(m.client, false, m.opt.stream(t.name), args...).Pin())
	}
	if len(batches) == 0 {
		return false, false, nil
	}
	start := time.Now()
	replies, err := m.exchange(ctx, appendScript, calls)
	took := time.Since(start)
	if took >= m.opt.ReplyWithin*3/4 {
		m.limit = max(m.limit/4, leastBytes)
	}
	if err != nil {
		return false, false, err
	}
	if took < m.opt.ReplyWithin/4 {
		m.limit = min(2*m.limit, roundBytes)
	}
	for i, b := range batches {
		done, err := m.settle(ctx, b.topic, replies[i])
		if err != nil {
			return false, false, err
		}
		if done {
			m.sent(b)
		}
	}
	return more, full, nil
}

// expecting returns the first arguments of the append script.
func (t *topic) expecting(expires int) []string { return []string{t.top, strconv.Itoa(expires)} }

// expiry returns after how many seconds the stream of a topic expires, or 0.
func expiry(t *topic, records []*delivery.Record) int {
	switch {
	case !t.output:
		return 0
	case len(records) > 0 && ends(records[len(records)-1].Event):
		return ended
	}
	return growing
}

// take returns the next events of a topic, from memory or from the log.
func (m *mirror) take(ctx context.Context, t *topic) (b topicBatch, err error) {
	b = topicBatch{topic: t, cursor: t.cursor}
	m.mu.Lock()
	if len(t.queue) > 0 && !t.known && t.queue[0].Seq == 1 {
		t.known, t.top, t.cursor, b.cursor = true, entryID(0), 0, 0 // probably a new topic; the script checks it
	}
	if len(t.queue) > 0 && t.queue[0].Seq != t.cursor+1 {
		m.dropQueueLocked(t)
	}
	if t.known && !t.behind {
		n := min(len(t.queue), appendMax)
		if b.records = t.queue[:n:n]; n > 0 {
			b.cursor = b.records[n-1].Seq
		} else {
			delete(m.dirty, t.name)
		}
		m.mu.Unlock()
		return b, nil
	}
	m.mu.Unlock()
	if !t.known {
		if err := m.compare(ctx, t); err != nil || !t.known {
			return topicBatch{topic: t, cursor: t.cursor}, err
		}
		b.cursor = t.cursor
	}
	return m.takeFromLog(ctx, t)
}

// takeFromLog reads the next events of a topic. At the end of the log, the queue takes
// over again.
func (m *mirror) takeFromLog(ctx context.Context, t *topic) (topicBatch, error) {
	b := topicBatch{topic: t, cursor: t.cursor}
	state, records, err := m.opt.Log.Read(ctx, t.name, t.cursor, "", appendMax)
	var damaged *delivery.Damaged
	switch {
	case errors.As(err, &damaged) && len(records) == 0:
		b.cursor = max(damaged.Seq, t.cursor+1)
	case db.IsDamaged(err) && len(records) == 0:
		b.cursor = t.cursor + 1
	case err != nil && !db.IsDamaged(err):
		return b, fmt.Errorf("read the topic %s: %w", t.name, err)
	}
	if b.records = records; len(records) > 0 {
		b.cursor = records[len(records)-1].Seq
	}
	if b.cursor > t.cursor {
		return b, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	t.last = max(t.last, state.Last)
	if t.last <= max(t.cursor, state.Trimmed) {
		t.behind = false
		delete(m.dirty, t.name)
		if t.output { // it may have ended; its next event makes it known again
			delete(m.topics, t.name)
		}
	}
	return b, nil
}

// sent records that Redis has a batch.
func (m *mirror) sent(b topicBatch) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := b.topic
	t.cursor, t.last = b.cursor, max(t.last, b.cursor)
	if n := len(b.records); n > 0 {
		t.top = entryID(b.records[n-1].Seq)
		if !t.behind {
			for _, r := range b.records {
				m.bytes -= recordBytes + len(r.Data)
			}
			t.queue = t.queue[n:]
		}
		if ends(b.records[n-1].Event) && len(t.queue) == 0 && t.output {
			delete(m.topics, t.name)
			delete(m.dirty, t.name)
		}
	}
}

// exchange runs script calls and loads the script where it is missing.
func (m *mirror) exchange(ctx context.Context, s script, calls []rueidis.Completed) ([]rueidis.RedisResult, error) {
	ctx, done := m.bound(ctx, 0)
	defer done()
	replies := m.client.DoMulti(ctx, calls...)
	for i, r := range replies {
		err := r.Error()
		if isReply(err, "NOSCRIPT") {
			args := calls[i].Commands()
			replies[i] = m.client.Do(ctx, s.call(m.client, true, args[3], args[4:]...))
			err = replies[i].Error()
		}
		if _, answered := replyOf(err); err != nil && !answered {
			return nil, err
		}
	}
	return replies, nil
}

// settle handles the reply of the append script. It reports whether the entries were
// appended.
func (m *mirror) settle(ctx context.Context, t *topic, reply rueidis.RedisResult) (done bool, err error) {
	last, err := reply.ToString()
	key := m.opt.stream(t.name)
	switch {
	case isReply(err, "WRONGTYPE"):
		t.heldUntil = time.Now().Add(m.opt.CheckEvery)
		m.setTrouble(key, fault.New(fault.Unavailable, "%s is no stream, so its topic is not mirrored. Delete or rename that key", key))
		return false, nil
	case err != nil:
		return false, fmt.Errorf("append to %s: %w", key, err)
	case last == "":
		m.setTrouble(key, nil)
		return true, nil
	}
	t.known = false
	m.mu.Lock()
	m.dropQueueLocked(t) // the comparison decides where it continues
	m.dirty[t.name] = t
	m.mu.Unlock()
	return false, nil
}

// check looks for what the mirror did not do: another owner, deleted keys, foreign
// entries, and rejected entries. Now and then it trims.
func (m *mirror) check(ctx context.Context) error {
	if err := m.claim(ctx, m.client); err != nil {
		return err
	}
	if err := m.lookAtDead(ctx); err != nil {
		return err
	}
	var topics []*topic
	var calls []rueidis.Completed
	m.mu.Lock()
	for _, t := range m.topics {
		if t.known && !t.heldUntil.After(time.Now()) {
			topics = append(topics, t)
			calls = append(calls, appendScript.call(m.client, false, m.opt.stream(t.name), t.expecting(0)...).Pin())
		}
	}
	m.mu.Unlock()
	if len(calls) > 0 {
		replies, err := m.exchange(ctx, appendScript, calls)
		if err != nil {
			return err
		}
		for i, t := range topics {
			if _, err := m.settle(ctx, t, replies[i]); err != nil {
				return err
			}
		}
	}
	if time.Now().Before(m.trimDue) {
		return nil
	}
	m.trimDue = time.Now().Add(trimEvery)
	return m.trim(ctx, topics)
}

// trim removes what the log does not have any more.
func (m *mirror) trim(ctx context.Context, topics []*topic) error {
	for _, t := range topics {
		state, err := m.opt.Log.Topic(ctx, t.name)
		if err != nil {
			return fmt.Errorf("read the state of %s: %w", t.name, err)
		}
		if state.Trimmed <= t.trimmed || t.output {
			continue
		}
		doing, cancel := context.WithTimeout(ctx, m.opt.ReplyWithin)
		err = m.client.Do(doing, m.client.B().Xtrim().Key(m.opt.stream(t.name)).Minid().Threshold(entryID(state.Trimmed+1)).Build()).Error()
		cancel()
		if err != nil {
			return fmt.Errorf("trim %s: %w", m.opt.stream(t.name), err)
		}
		t.trimmed = state.Trimmed
	}
	return nil
}

// lookAtDead reports what other programs wrote that could not be used.
func (m *mirror) lookAtDead(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, m.opt.ReplyWithin)
	defer cancel()
	n, newest, err := dead(ctx, m.client, m.opt)
	if err != nil {
		return err
	}
	var trouble error
	if n > 0 {
		trouble = fault.New(fault.Unavailable, "%s. See %s, and delete that key when you have", newest, m.opt.key(keyDead))
	}
	m.setTrouble(keyDead, trouble)
	return nil
}
