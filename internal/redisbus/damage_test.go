package redisbus_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/bus"
	"lilac/internal/bustest"
	"lilac/internal/event"
	"lilac/internal/redisbus"
	"lilac/internal/redistest"
)

// D3: whatever byte of an entry changes, it is found and never served.
func TestFlippedBytesOfEntriesAreFound(t *testing.T) {
	flips := 100
	if bustest.Long() {
		flips = 5000
	}
	server := redistest.Start(t, redistest.Options{})
	w := newWorld(t, server, server.URL())
	want := bustest.Events(plain, "event-", 20)
	want[7].Data = fmt.Appendf(nil, "%q", strings.Repeat("long ", 300))
	if err := w.bus.Publish(t.Context(), want...); err != nil {
		t.Fatal(err)
	}
	verify := func() []string {
		t.Helper()
		bad, err := redisbus.Verify(t.Context(), redisbus.Options{URL: server.URL()})
		if err != nil {
			t.Fatal(err)
		}
		return bad
	}
	if bad := verify(); len(bad) > 0 {
		t.Fatalf("before anything was damaged: %v", bad)
	}
	const key = "lilac:s:" + string(plain)
	whole := server.Do("XRANGE", key, "-", "+").([]any)
	random := rand.New(rand.NewPCG(1, 2))
	for range flips {
		n := random.IntN(len(whole))
		entry := whole[n].([]any)
		fields := slices.Clone(entry[1].([]any))
		part := random.IntN(len(fields))
		text := []byte(fields[part].(string))
		if len(text) == 0 {
			continue
		}
		at, bit := random.IntN(len(text)), random.IntN(8)
		text[at] ^= 1 << bit
		fields[part] = string(text)
		changed := slices.Clone(whole)
		changed[n] = []any{entry[0], fields}
		rewrite(server, key, changed)
		if bad := verify(); len(bad) != 1 {
			t.Errorf("bit %d of byte %d in part %d of entry %d: found %v", bit, at, part, n, bad)
		}
		if wrong := servedWrong(t.Context(), w.bus, want); wrong != "" {
			t.Errorf("bit %d of byte %d in part %d of entry %d: %s", bit, at, part, n, wrong)
		}
	}
	rewrite(server, key, slices.Delete(slices.Clone(whole), 3, 4))
	if bad := verify(); len(bad) != 1 || !strings.Contains(bad[0], "19 entries") {
		t.Errorf("an entry that is missing: %v", bad)
	}
	rewrite(server, key, whole)
	if bad := verify(); len(bad) > 0 {
		t.Errorf("when everything is as it was: %v", bad)
	}
}

// servedWrong says which event is not served as it was published. One that is
// not served at all is not wrong.
func servedWrong(ctx context.Context, b bus.Bus, want []event.Event) string {
	got, err := b.Fetch(ctx, plain, "", len(want))
	if err != nil {
		return ""
	}
	for i, d := range got {
		if diff := cmp.Diff(want[i], d.Event); diff != "" {
			return fmt.Sprintf("event %d (-want +got):\n%s", i, diff)
		}
	}
	return ""
}

// rewrite makes a stream hold these entries and no others.
func rewrite(server *redistest.Server, key string, entries []any) {
	args := []string{"EVAL", `redis.call('DEL', KEYS[1])
		local i = 1
		while i < #ARGV do
			local n = tonumber(ARGV[i])
			redis.call('XADD', KEYS[1], unpack(ARGV, i + 1, i + n))
			i = i + n + 1
		end`, "1", key}
	for _, e := range entries {
		entry := e.([]any)
		fields := entry[1].([]any)
		args = append(args, fmt.Sprint(len(fields)+1), entry[0].(string))
		for _, f := range fields {
			args = append(args, f.(string))
		}
	}
	server.Do(args...)
}
